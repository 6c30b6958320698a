"""Forms made from a JSON Schema, and payloads made from what is sent with them.

A schema's plain parts become inputs of their kind; what no input fits is written as JSON. Whether the payload is right
is not judged here: its handler's model does that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.web.dashboard.times import from_input, parsed, when_input

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from zoneinfo import ZoneInfo

#: What the names of inputs begin with.
PREFIX = "payload."
#: Objects further inside one another are written as JSON.
_DEPTH_MOST = 3
_FIELDS_MOST = 60
_SHORT = 200
_DIGITS_MOST = 300
_ABSENT = object()
#: There is no payload that the form shows.
_UNKNOWN = object()


@dataclass(slots=True, kw_only=True)
class Field:
    """One input, or a group of them."""

    #: `payload.address.street`: of the input, and of what is said about it.
    name: str
    label: str
    #: `text`, `long`, `integer`, `number`, `flag`, `choice`, `date`, `moment`, `lines`, `json` or `group`.
    kind: str
    hint: str = ""
    is_required: bool = False
    #: What stands in it at first, as the input has it; a flag that is set has "on".
    value: str = ""
    #: What may be chosen, by how it is shown.
    choices: dict[str, Any] = field(default_factory=dict)
    fields: list[Field] = field(default_factory=list)
    #: What a list's lines are: `text`, `integer` or `number`.
    of: str = "text"
    wrong: str | None = None
    #: The value that the input was filled with, which an untouched input stands for: what is shown may say less of it
    #: (a moment without its microseconds) or more (a default that the payload leaves out).
    original: Any = _UNKNOWN


def form_of(schema: Mapping[str, Any] | None, value: Any = None, *, zone: ZoneInfo) -> list[Field] | None:  # noqa: ANN401 - any JSON
    """Return the form of a schema; None where only JSON will do.

    Args:
        schema: Of an object, as pydantic makes them.
        value: What the form shows at first; where it holds what the form has no input for, only JSON will do.
        zone: Where the viewer's clock is.
    """
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict) or not schema["properties"]:
        return None
    if value is not None and not _covers(schema, value, schema):
        return None
    fields = _Form(schema, zone).fields(schema, _UNKNOWN if value is None else value, PREFIX, depth=1)
    return fields if sum(1 for _ in every(fields)) <= _FIELDS_MOST else None


def payload_of(fields: list[Field], form: Mapping[str, str], zone: ZoneInfo) -> dict[str, Any]:
    """Return the payload that was sent; what was left empty and need not be there is left out.

    An input that still holds what it was filled with gives the original value.

    Raises:
        InvalidArgument: An input of JSON holds none; it is named by its path.
    """
    payload: dict[str, Any] = {}
    for one in fields:
        value = _sent(one, form, zone)
        if value is not _ABSENT:
            payload[one.name.rpartition(".")[2]] = value
    return payload


def refilled(fields: list[Field], form: Mapping[str, str], wrong: Mapping[str, str]) -> list[Field]:
    """Return the form as it was sent, with what is wrong beside each input."""
    for one in every(fields):
        if one.kind != "group":
            one.value = form.get(one.name, "")
        one.wrong = next((text for path, text in wrong.items() if path == one.name), None) or next(
            (text for path, text in wrong.items() if one.kind != "group" and path.startswith(f"{one.name}.")), None
        )
    return fields


def names(fields: list[Field]) -> set[str]:
    """Return the names of all inputs."""
    return {one.name for one in every(fields)}


def every(fields: list[Field]) -> Iterator[Field]:
    """Give every field, groups and what is in them."""
    for one in fields:
        yield one
        yield from every(one.fields)


class _Form:
    def __init__(self, root: Mapping[str, Any], zone: ZoneInfo) -> None:
        self._root = root
        self._zone = zone

    def fields(self, schema: Mapping[str, Any], value: Any, prefix: str, *, depth: int) -> list[Field]:  # noqa: ANN401 - JSON
        required = schema.get("required") or []
        given = value if isinstance(value, dict) else {}
        absent = _UNKNOWN if value is _UNKNOWN else _ABSENT
        return [
            self._field(name, part, given.get(name, absent), prefix, is_required=name in required, depth=depth)
            for name, part in schema["properties"].items()
        ]

    def _field(
        self,
        name: str,
        schema: Any,  # noqa: ANN401 - JSON
        value: Any,  # noqa: ANN401 - JSON
        prefix: str,
        *,
        is_required: bool,
        depth: int,
    ) -> Field:
        part = _resolved(schema, self._root)
        shown = part.get("default") if value in (_ABSENT, _UNKNOWN) else value
        made = Field(
            name=prefix + name,
            label=str(part.get("title") or name),
            kind=_kind(part, depth),
            hint=str(part.get("description") or ""),
            is_required=is_required,
            choices={_shown(one): one for one in _choices(part)},
            of=_kind(_resolved(part.get("items") or {}, self._root), depth) if part.get("type") == "array" else "text",
            original=value,
        )
        if made.kind == "lines" and made.of not in {"text", "integer", "number"}:
            made.kind = "json"
        if made.kind == "group":
            made.fields = self.fields(part, shown if value is _UNKNOWN else value, f"{made.name}.", depth=depth + 1)
        elif shown is not None:
            made.value = _filled(made, shown, self._zone)
        return made


def _resolved(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Return a schema without its detours: what it refers to, and the one kind beside null."""
    seen = 0
    while isinstance(schema, dict) and seen < 10:  # noqa: PLR2004 - what goes on longer goes in a circle
        seen += 1
        match schema:
            case {"$ref": str(reference), **others}:
                found = (root.get("$defs") or {}).get(reference.rpartition("/")[2], {})
                schema = {**found, **others}
            case {"allOf": [only], **others}:
                schema = {**(only if isinstance(only, dict) else {}), **others}
            case {"anyOf": [*kinds], **others} if {"type": "null"} in kinds and len(kinds) == 2:  # noqa: PLR2004
                only = next(kind for kind in kinds if kind != {"type": "null"})
                schema = {**(only if isinstance(only, dict) else {}), **others}
            case _:
                return schema
    return {}


def _kind(part: Mapping[str, Any], depth: int) -> str:  # noqa: C901, PLR0911 - a line a kind
    match part:
        case {"enum": _} | {"const": _}:
            return "choice"
        case {"type": "boolean"}:
            return "flag"
        case {"type": "integer"}:
            return "integer"
        case {"type": "number"}:
            return "number"
        case {"type": "string", "format": "date"}:
            return "date"
        case {"type": "string", "format": "date-time"}:
            return "moment"
        case {"type": "string", "contentMediaType": str()}:
            return "long"
        case {"type": "string", "maxLength": int(most)} if most > _SHORT and "pattern" not in part:
            return "long"
        case {"type": "string"}:
            return "text"
        # One text, or a list of them: whoever writes one address thinks of no brackets.
        case {"type": "array", "items": dict()} | {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
        }:
            return "lines"
        case {"type": "object", "properties": dict(inner)} if inner and depth < _DEPTH_MOST:
            return "group"
        case _:
            return "json"


def _choices(part: Mapping[str, Any]) -> list[Any]:
    values = [part["const"]] if "const" in part else part.get("enum")
    return values if isinstance(values, list) else []


def _covers(schema: Mapping[str, Any], value: Any, root: Mapping[str, Any]) -> bool:  # noqa: ANN401 - any JSON
    """Whether a form of the schema has an input for all that a value holds."""
    properties = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, dict) or not value.keys() <= properties.keys():
        return False
    inner = [(_kind(part := _resolved(properties[name], root), 1), part, one) for name, one in value.items()]
    return all(
        _covers(part, one, root) if kind == "group" else kind != "lines" or _is_lines(one)
        for kind, part, one in inner
        if one is not None
    )


def _is_lines(value: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether a text, or each of a list, is one line as it is read again."""
    texts = value if isinstance(value, list) else [value]
    return all(not isinstance(one, str) or one.splitlines() == [one.strip()] for one in texts)


def _filled(made: Field, value: Any, zone: ZoneInfo) -> str:  # noqa: ANN401 - any JSON
    match made.kind:
        case "flag":
            return "on" if value is True else ""
        case "json":
            return json.dumps(value, indent=2, ensure_ascii=False, default=str)
        case "lines" if isinstance(value, list):
            return "\n".join(_shown(one) for one in value)
        case "moment":
            moment = parsed(value)
            return when_input(moment, zone) if moment is not None else _shown(value)
        case _:
            return _shown(value)


def _shown(value: Any) -> str:  # noqa: ANN401 - any JSON
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _sent(one: Field, form: Mapping[str, str], zone: ZoneInfo) -> Any:  # noqa: ANN401 - any JSON
    if one.kind == "group":
        return _sent_group(one, form, zone)
    text = form.get(one.name, "")
    is_untouched = one.original is not _UNKNOWN and text.replace("\r\n", "\n") == one.value
    return one.original if is_untouched else _read(one, text, zone)


def _sent_group(one: Field, form: Mapping[str, str], zone: ZoneInfo) -> Any:  # noqa: ANN401 - any JSON
    inner = payload_of(one.fields, form, zone)
    if inner:
        return inner
    # An empty group stands for what it was filled with, where that says nothing either.
    if not isinstance(one.original, dict) and one.original is not _UNKNOWN:
        return one.original
    return inner if one.is_required or one.original == {} else _ABSENT


def _read(one: Field, text: str, zone: ZoneInfo) -> Any:  # noqa: ANN401, PLR0911 - any JSON; a line a kind
    if one.kind == "flag":
        return bool(text)
    if not text.strip():
        # An empty text may be meant, where there has to be one: the model decides.
        return "" if one.is_required and one.kind in {"text", "long"} else _ABSENT
    match one.kind:
        case "integer" | "number":
            return _number(text.strip())
        case "choice":
            return one.choices.get(text, text)
        case "moment":
            return from_input(text, zone)
        case "lines":
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            return lines if one.of == "text" else [_number(line) for line in lines]
        case "json":
            return json_text.decode(text, name=one.name)
        case "date":
            return text.strip()
        case _:
            return text.replace("\r\n", "\n")


def _number(text: str) -> Any:  # noqa: ANN401 - a number, or the text that is none
    try:
        value = json_text.decode(text, name="number") if len(text) <= _DIGITS_MOST else text
    except InvalidArgument:
        return text
    return value if type(value) in {int, float} else text
