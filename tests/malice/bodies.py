"""Requests of the OpenAPI document with one field of their body replaced by a hostile value."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Placeholder for raw JSON text that Python's encoder cannot produce.
MARK = "\ue000raw\ue000"
_DEPTH_MOST = 6

_TARGET = {"type": "invoice", "id": "17"}
_FOLLOW_UP = {"action_type": "test:run", "payload": {"n": 1}, "delay": "PT1M"}
_CONDITION = {
    "wait": {"kind": "document_state", "target": _TARGET, "state": "approved"},
    "timeout": "P1D",
    "check_interval": 60,
    "max_checks": 3,
    "on_timeout": [_FOLLOW_UP],
}
_OPTIONS: dict[str, Any] = {
    "priority": 1,
    "max_attempts": 2,
    "retry": {"kind": "exponential", "base_seconds": 1, "cap_seconds": 2, "jitter": "full"},
    "lock_group": "g",
    "lock_group_blocks": True,
    "target": _TARGET,
    "user_id": "ann",
    "metadata": {"k": 1},
    "condition": _CONDITION,
    "on_success": _FOLLOW_UP,
    "on_failure": [_FOLLOW_UP],
}
_ACTION = {
    "action_type": "test:run",
    "payload": {"n": 1},
    "delay": "PT1H",
    "dedup_key": "k",
    "dedup_window": 0,
    "dedup_mode": "latest",
    "created_by": "me",
    "limit": ["api:acme", "api:total"],
    "expires_in": "PT1H",
    "on_expiry": "fail",
    **_OPTIONS,
}
_SCHEDULE = {
    "action_type": "test:run",
    "payload": {"n": 1},
    "recurrence": "daily at 09:00",
    "timezone": "Europe/Berlin",
    "misfire": "catch_up",
    "misfire_grace_seconds": 60,
    "catch_up_limit": 3,
    "catch_up_seconds": 60,
    "overlap": "skip",
    "requires_previous": True,
    "pause_after_failures": 3,
    "skip": {"weekends": True, "dates": ["2030-01-01"]},
    "jitter_seconds": 1,
    "until": "2040-01-01T00:00:00Z",
    "remaining": 5,
    "limit": "api:acme",
    "expires_in": "PT1H",
    "on_expiry": "fail",
    **_OPTIONS,
}
_DEADLINE = {
    "target": _TARGET,
    "due_at": "2030-01-01T00:00:00Z",
    "timezone": "Europe/Berlin",
    "reminders": ["1 day before"],
    "recipients": ["ann@example.org"],
}

#: Bodies that are accepted, by method and path; the others are generated from their schema.
TAKEN: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/actions"): _ACTION,
    ("POST", "/actions/batch"): {"actions": [_ACTION, {"action_type": "test:run", "payload": {}}]},
    ("PATCH", "/actions/{id}"): {
        name: _ACTION[name]
        for name in (
            "payload", "delay", "priority", "max_attempts", "retry", "metadata", "condition", "on_success",
            "on_failure", "limit",
        )
    } | {"force": True, "expires_at": "2031-01-01T00:00:00Z"},
    ("POST", "/actions/retry"): {"action_type": "test:none", "dry_run": True},
    ("POST", "/actions/cancel"): {"action_type": "test:none", "dry_run": True},
    ("POST", "/actions/delete"): {"action_type": "test:none", "dry_run": True},
    ("POST", "/schedules"): _SCHEDULE,
    ("PATCH", "/schedules/{id}"): {name: value for name, value in _SCHEDULE.items() if name != "action_type"},
    ("POST", "/schedules/preview"): {"rule": "daily at 09:00", "count": 3, "skip": {"weekends": True}},
    ("POST", "/schedules/{id}/backfill"): {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"},
    ("POST", "/deadlines"): _DEADLINE,
    ("POST", "/deadlines/preview"): _DEADLINE,
    ("PATCH", "/deadlines/{id}"): {"reminders": ["2 days before"], "recipients": ["ben@example.org"]},
    ("POST", "/deadlines/{id}/preview"): {"reminders": ["2 days before"]},
    ("POST", "/deadlines/{id}/move"): {"due_at": "2031-01-01T00:00:00Z", "reason": "later"},
    ("PUT", "/facts/{target_type}/{target_id}/{name}"): {"value": "approved"},
    ("POST", "/webhooks/endpoints"): {"url": "https://hooks.example.com/", "patterns": ["task:*"]},
    ("PATCH", "/webhooks/endpoints/{id}"): {"patterns": ["task:*"], "description": "x"},
    ("POST", "/notifications"): {"recipients": ["ann@example.org"], "text": "hello", "subject": "x"},
    ("POST", "/local-actions"): {
        "action_type": "test:run", "payload": {}, "local_time": "09:00",
        "users": [{"user_id": "ann", "timezone": "UTC"}],
    },
    ("POST", "/calendar/feeds"): {"name": "Work"},
    ("POST", "/tokens"): {"name": "ci", "role": "viewer"},
    ("POST", "/pauses"): {"lock_group": "g", "note": "x"},
}  # fmt: skip


class Place(NamedTuple):
    """The position of a value in a body."""

    steps: tuple[str | int, ...]
    #: A body that contains all steps of the path except the last.
    body: Any


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the method, the path below `/api/v1`, and the schema of each body."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            if path.startswith("/api/v1/") and "application/json" in content:
                yield method.upper(), path.removeprefix("/api/v1"), content["application/json"]["schema"]


def places(document: Mapping[str, Any], method: str, path: str, schema: Mapping[str, Any]) -> list[Place]:
    """Return every field of a body: those of its schema, those of an accepted body, and the body itself."""
    schemas = document["components"]["schemas"]
    taken = TAKEN.get((method, path))
    body = taken if taken is not None else _made(schema, schemas, depth=0)
    steps = dict.fromkeys([(), ("unknown",), *_of_schema(schema, schemas, ()), *_of_value(body, ())])
    return [Place(one, body) for one in steps]


def mutated(place: Place, value: Any) -> Any:
    """Return the body with a value at the place; missing parents are created."""
    if not place.steps:
        return value
    body = copy.deepcopy(place.body)
    _put(body, place.steps, value)
    return body


def text_of(body: Any, raw: str | None = None) -> bytes:
    """Return the JSON text of a body, with `MARK` replaced by `raw`."""
    text = json.dumps(body)
    return (text if raw is None else text.replace(json.dumps(MARK), raw)).encode("utf-8", "surrogatepass")


def _put(body: Any, steps: tuple[str | int, ...], value: Any) -> Any:
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        inner: Any = [] if isinstance(following, int) else {}
        if isinstance(step, int):
            body.extend([inner] * (step + 1 - len(body)))
        if following is None:
            body[step] = value
        else:
            fits = isinstance(step, int) or step in body
            if not fits or not isinstance(body[step], type(inner)):
                body[step] = inner
            body = body[step]
    return body


def _of_schema(
    schema: Any, schemas: Mapping[str, Any], steps: tuple[str | int, ...]
) -> Iterator[tuple[str | int, ...]]:
    schema = _resolved(schema, schemas)
    if len(steps) > _DEPTH_MOST or not isinstance(schema, dict):
        return
    for kind in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _of_schema(kind, schemas, steps)
    for name, part in schema.get("properties", {}).items():
        yield (*steps, name)
        yield from _of_schema(part, schemas, (*steps, name))
    if isinstance(schema.get("items"), dict):
        yield (*steps, 0)
        yield from _of_schema(schema["items"], schemas, (*steps, 0))


def _of_value(value: Any, steps: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield (*steps, name)
        yield from _of_value(one, (*steps, name))


def _resolved(schema: Any, schemas: Mapping[str, Any]) -> Any:
    name = schema.get("$ref", "").rpartition("/")[2] if isinstance(schema, dict) else ""
    # The schema allows any JSON, so the places are those of the accepted body.
    return {} if name in {"JsonValue", "JsonObject"} else schemas[name] if name else schema


def _made(schema: Any, schemas: Mapping[str, Any], *, depth: int) -> Any:  # noqa: C901, PLR0911 - a line a kind
    """Return a value that a schema accepts, with its required fields."""
    schema = _resolved(schema, schemas)
    match schema:
        case {"examples": [first, *_]} | {"const": first} | {"enum": [first, *_]}:
            return first
        case {"anyOf": [kind, *_], "type": "object"} if "required" in kind:
            return _made({**schema, "anyOf": [], "required": kind["required"]}, schemas, depth=depth)
        case {"anyOf": [kind, *_]} | {"oneOf": [kind, *_]}:
            return _made(kind, schemas, depth=depth + 1)
        case {"type": "object"}:
            properties = schema.get("properties", {})
            return {name: _made(properties[name], schemas, depth=depth + 1) for name in schema.get("required", ())}
        case {"type": "array"}:
            return [_made(schema.get("items", {}), schemas, depth=depth + 1)]
        case {"type": "string", "format": "date-time"}:
            return "2030-01-01T00:00:00Z"
        case {"type": "string", "format": "uuid"}:
            return "0197a000-0000-7000-8000-000000000001"
        case {"type": "string"}:
            return "x"
        case {"type": "integer" | "number"}:
            return schema.get("minimum", 1)
        case {"type": "boolean"}:
            return True
        case _:
            return {}
