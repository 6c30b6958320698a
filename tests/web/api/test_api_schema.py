"""Requests generated from the OpenAPI document get only the responses that it documents."""

from __future__ import annotations

import itertools
import json
import logging
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest
import requests
import schemathesis
from cryptography.fernet import Fernet
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from werkzeug.serving import make_server

from handlers import deadline, notification
from scheduled_actions import action
from scheduled_actions.core.config import Limit
from scheduled_actions.registry import Registry
from scheduled_actions.web.api.requests import IDEMPOTENCY_PATTERN
from tests.conftest import ROOT
from tests.web.conftest import ADMIN_TOKEN, application

if TYPE_CHECKING:
    from schemathesis.generation.case import Case

SETTINGS = {
    "seed": 20261121,
    "headers": {"Authorization": f"Bearer {ADMIN_TOKEN}"},
    "generation": {"max-examples": 8, "deterministic": True, "database": "none"},
    "checks": {
        # Replaced by `valid_data_is_accepted_or_has_a_semantic_error`, which is stricter.
        "positive_data_acceptance": {"enabled": False},
        # 412: If-Match is checked before the body.
        "negative_data_rejection": {
            "expected-statuses": ["400", "401", "403", "404", "405", "409", "412", "415", "422"]
        },
    },
}
#: Values that are valid in this installation; requests use them as often as generated values.
KNOWN: dict[str, list[Any]] = {
    "action_type": ["test:take"],
    "recurrence": ["daily", "0 9 * * 1-5", "FREQ=MONTHLY;BYMONTHDAY=-1"],
    "rule": ["every 90 minutes", "30 1 * * *", "last business day of the month"],
    "interval": ["every 2 days"],
    "offset": ["60 days before", "PT12H after", "when due", 30],
    "recipients": [["ann@example.org"]],
    "local_time": ["09:00"],
    "condition": [{"kind": "document_state", "target": {"type": "order", "id": "42"}, "state": "paid"}],
    "on_success": [{"action_type": "test:take", "payload": {}}],
    "on_failure": [{"action_type": "test:take", "payload": {}}],
}
_RULE = {"recurrence_invalid": r"recurrence|skip[.].*", "never_occurs": "recurrence"}
_PAYLOAD = {
    "payload_invalid": "payload.*", "too_large": "payload.*|metadata", "unknown_action_type": r"(.*[.])?action_type",
}  # fmt: skip
#: Semantic errors of data that matches the schema, by operation: the codes, and patterns of the fields that they name.
SEMANTIC_ERRORS: dict[str, dict[str, str]] = {
    "POST /api/v1/actions(/batch)?|PATCH /api/v1/actions/{id}": {
        **_PAYLOAD,
        # A local time without a time zone, an expiry after no time, or what happens without an expiry.
        "fields_invalid": r"(actions[.][0-9]+[.])?(scheduled_at|expires_(at|in)|on_expiry)",
        "invalid_argument": r"(actions[.][0-9]+[.])?"
        r"(condition.*|scheduled_at|dedup_key|on_(success|failure).*|expires_(at|in)|on_expiry)",
        "follow_up_invalid": r"(actions[.][0-9]+[.])?on_(success|failure).*",
        "refused_by_database": r"(actions[.][0-9]+[.])?(after|scheduled_at|expires_at)",
    },
    "POST /api/v1/actions/(cancel|delete|retry)": {"fields_invalid": "(due_(from|to)|completed_to)|target_id"},
    "(POST /api/v1/schedules|PATCH /api/v1/schedules/{id})": {
        **_RULE, **_PAYLOAD, "follow_up_invalid": "on_(success|failure).*",
        "fields_invalid": "expires_in",  # a duration of zero
        "invalid_argument": r"name|recurrence|scheduled_at|until|skip[.].*|(condition|on_(success|failure)).*"
        "|on_expiry",
    },
    "POST /api/v1/schedules/preview": {
        "recurrence_invalid": r"rule|skip[.].*", "never_occurs": "rule", "invalid_argument": r"from|until|skip[.].*",
    },
    "POST /api/v1/schedules/{id}/backfill": {"invalid_argument": "from|to"},
    "POST /api/v1/deadlines(/{id}/preview)?|PATCH /api/v1/deadlines/{id}": {
        "fields_invalid": "target",  # it cannot be null
        **_PAYLOAD,
        "recurrence_invalid": r"recurrence|calendar[.].*|reminders|escalation[.]interval",
        "never_occurs": r"recurrence|reminders|escalation[.]interval",
        "invalid_argument": r"due_at|name|recurrence|stage|(calendar|recipients|reminder|escalation|auto_actions).*",
    },
    "GET /api/v1/(actions|deadlines)": {"fields_invalid": "target_id"},
    "POST /api/v1/pauses": {
        "unknown_action_type": "action_type", "invalid_argument": "action_type|limit|lock_group|until",
        "refused_by_database": "ends_at|name",
    },
    "POST /api/v1/deadlines/({id}/)?move": {"invalid_argument": "due_at|(reminder|escalation).*"},
    "POST /api/v1/deadlines/{id}/acknowledge": {"invalid_argument": "until"},
    "POST /api/v1/deadlines/{id}/complete": {"invalid_argument": "at"},
    "POST /api/v1/deadlines/{id}/reassign": {"invalid_argument": "recipients.*"},
    "GET /api/v1/calendar": {"invalid_argument": "cursor|from|to"},
    "GET /api/v1/limits": {"invalid_argument": "cursor"},
    "POST /api/v1/notifications": {
        "invalid_argument": "recipients.*|scheduled_at|subject|html|text", "too_large": "payload.*|html|text",
    },
    "(POST /api/v1/webhooks/endpoints|PATCH /api/v1/webhooks/endpoints/{id})": {"fields_invalid": "filter"},  # its size
    "POST /api/v1/local-actions": {
        **_RULE, **_PAYLOAD, "invalid_argument": r"name|recurrence|users[.].*|timezone|limit|expires_(at|in)|on_expiry",
        "fields_invalid": "expires_(at|in)", "refused_by_database": "expires_at",
    },
}  # fmt: skip


@action("test:take")
def take(payload: dict[str, Any] | list[Any]):
    """Accept every payload that the document allows."""


@pytest.fixture
def address(a_runtime, caplog):
    """Yield the address of a server with the routes."""
    caplog.set_level(logging.ERROR, "werkzeug")
    key = Fernet.generate_key().decode()
    registry = Registry.of(
        take, notification.send, deadline.send_reminder, deadline.send_escalation, deadline.mark_missed,
        deadline.create_next,
    )  # fmt: skip
    runtime = a_runtime(registry=registry, SCHEDULED_ACTIONS_ENCRYPTION_KEY=key)
    runtime.config.settings.limits["*"] = Limit()
    app = application(runtime)
    numbers = itertools.count()

    def from_everywhere(environ, start_response):
        # Each request comes from another address, so that wrong tokens are not throttled.
        number = next(numbers)
        environ["REMOTE_ADDR"] = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        # Idempotency keys are made unique: replayed responses are tested elsewhere.
        if re.fullmatch(IDEMPOTENCY_PATTERN, key := environ.get("HTTP_IDEMPOTENCY_KEY", "")):
            environ["HTTP_IDEMPOTENCY_KEY"] = f"{key[:200]}{number}"
        return app(environ, start_response)

    server = make_server("127.0.0.1", 0, from_everywhere, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def named_in(part: Any) -> set[str]:
    """Return the names of the schemas that a part of the document refers to."""
    return set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(part)))


def with_known_values(document: dict[str, Any], ids: dict[str, list[str]], *, only: bool) -> dict[str, Any]:
    """Extend the schemas of requests with known values and ids; with `only`, known fields have only those values."""
    schemas = document["components"]["schemas"]
    answered, new = set(), {"Problem"}
    while new:
        answered |= new
        new = named_in([schemas[name] for name in answered]) - answered
        new |= named_in([one["responses"] for path in document["paths"].values() for one in path.values()]) - answered
    for name in schemas.keys() - answered:
        schemas[name] = _with_known_values(schemas[name], only=only)
    for path, operations in document["paths"].items():
        there = next((ids[part] for part in ids if path.startswith(f"/api/v1{part}/{{id}}")), None)
        for parameter in (one for operation in operations.values() for one in operation.get("parameters", ())):
            if there and (parameter["in"], parameter["name"]) == ("path", "id"):
                parameter["schema"] = {"anyOf": [{"enum": there}, parameter["schema"]]}
    return document


def _with_known_values(part: Any, *, only: bool) -> Any:
    match part:
        case list():
            return [_with_known_values(one, only=only) for one in part]
        case {"properties": dict(properties), **others}:
            extended = {name: _with_known_values(schema, only=only) for name, schema in properties.items()}
            # A filter may have an unknown action type.
            for name in properties.keys() & KNOWN.keys() - ({"action_type"} if "payload" not in properties else set()):
                kinds = [
                    {"enum": KNOWN[name]},
                    *(one for one in extended[name].get("anyOf", ()) if one == {"type": "null"}),
                ]
                extended[name] = {"anyOf": kinds if only else [*kinds, extended[name]]}
            return {**_with_known_values(others, only=only), "properties": extended}
        case dict():
            return {name: _with_known_values(one, only=only) for name, one in part.items()}
        case _:
            return part


@schemathesis.check
def valid_data_is_accepted_or_has_a_semantic_error(ctx: Any, response: Any, case: Case) -> None:
    """Check that a rejected request that matches the schema has a listed code, and names a listed field."""
    if not is_valid(case) or response.status_code not in {400, 405, 406, 413, 415, 422}:
        return
    problem = response.json()
    meant = next((codes for path, codes in SEMANTIC_ERRORS.items() if re.fullmatch(path, case.operation.label)), {})
    named = [one["field"] for one in problem.get("errors", ())]
    assert problem["code"] in meant, f"{problem['code']} is not in {sorted(meant)}"
    assert any(re.fullmatch(meant[problem["code"]], field) for field in named), (
        f"{named} is not {meant[problem['code']]}"
    )


def is_valid(case: Case | None) -> bool:
    """Return whether a request matches the schema."""
    return case is not None and case.meta is not None and case.meta.generation.mode.is_positive


def test_every_code_of_a_semantic_error_is_documented():
    documented = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")

    for code in {code for codes in SEMANTIC_ERRORS.values() for code in codes}:
        assert f"| `{code}` |" in documented


#: The paths that other parameters of the test have, and ticks, which change more than the requested resource.
ELSEWHERE = "(/actions|/batch|/cron/process|/calendar|/notifications|/local-actions)$|/webhooks/|/schedules|/deadlines"
#: Requests that create resources, so that about half of the ids in paths exist.
CREATING: dict[str, dict[str, Any]] = {
    "/actions": {"action_type": "test:take", "payload": {}, "delay": "P1D"},
    "/schedules": {"action_type": "test:take", "payload": {}, "recurrence": "daily"},
    "/deadlines": {"target": {"type": "a", "id": "1"}, "delay": "P90D", "reminders": ["1 day before"],
                   "recipients": "ann@example.org"},
    "/webhooks/endpoints": {"url": "https://receiver.example/"},
    "/calendar/feeds": {"name": "Work"},
    "/tokens": {"name": "ci", "role": "viewer"},
    "/pauses": {"lock_group": "a"},
}  # fmt: skip


def made(address: str, path: str, body: dict[str, Any]) -> str:
    answer = requests.post(f"{address}/api/v1{path}", json=body, headers=SETTINGS["headers"], timeout=60)
    assert answer.ok, answer.text
    return answer.json()["id"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
@pytest.mark.parametrize(
    "paths",
    [
        "/actions$", "/actions/batch$", "/webhooks/", "/schedules", "/deadlines(?!/preview)",
        "/(calendar|notifications|local-actions)$", f"^(?!.*({ELSEWHERE}))",
    ],
    ids=["actions", "batch", "webhooks", "schedules", "deadlines", "people", "the others"],
)  # fmt: skip
def test_requests_generated_from_the_document_get_only_documented_responses(address, paths):
    ids = {path: [made(address, path, body) for _ in range(12)] for path, body in CREATING.items()}
    asked, done, found = set(), set(), []

    # First each value of each field, combined with known values; then all values that the document allows.
    for is_first, phases in ((True, ("examples", "coverage", "stateful")), (False, ("fuzzing",))):
        document = requests.get(f"{address}/openapi.json", timeout=60).json()
        enabled = {phase: {"enabled": phase in phases} for phase in ("examples", "coverage", "stateful", "fuzzing")}
        # Only the document determines valid values: no phase derives them from the texts of errors.
        enabled["fuzzing"]["error-feedback"] = {"enabled": False}
        config = SchemathesisConfig.from_dict(SETTINGS | {"base-url": address, "phases": enabled})
        schema = schemathesis.openapi.from_dict(with_known_values(document, ids, only=is_first), config=config)
        for event in from_schema(schema.include(path_regex=paths)).execute():
            match event:
                case events.ScenarioFinished(recorder=recorder):
                    labels = {one.value.operation.label for one in recorder.cases.values()}
                    asked |= labels
                    done |= {
                        recorder.cases[case].value.operation.label
                        for case, one in recorder.interactions.items()
                        if one.response is not None and one.response.status_code < 300
                    }
                    found += [
                        f"{event.label}: {check.failure_info.failure} {recorder.interactions[case].response.text}"
                        for case, checks in recorder.checks.items()
                        for check in checks
                        if check.failure_info is not None
                    ]
                case events.NonFatalError() | events.FatalError():
                    found.append(str(event))

    assert found == []
    # The success of a request depends on earlier ones, which may have cancelled all actions; most operations succeed.
    assert 2 * len(done) > len(asked) > 0
