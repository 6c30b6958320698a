"""JSON in and out: text that Postgres can store and every later reader can read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from math import isfinite
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from scheduled_actions.core.errors import InvalidArgument, TooLarge

#: Objects and arrays inside one another, at most. (Python's parser gives up near 1,000, pydantic's at 200.)
MAX_DEPTH = 100
#: A stored document holds payloads of that depth inside a list, a follow-up, a stage or a definition.
_STORED_DEPTH = MAX_DEPTH + 20
#: Python and pydantic refuse to read a longer integer: reading one takes quadratic time.
MAX_DIGITS = 4300

_TOO_DEEP = f"nesting deeper than {MAX_DEPTH} levels"
_TOO_LONG = f"an integer of more than {MAX_DIGITS:,} digits"
_INTEGER_BOUND = 10**MAX_DIGITS
#: What pydantic's secret types become in JSON: storing it would lose the value without a word.
_MASK = "**********"


class Unquoted(str):
    """A fact that stands in an error's message where the offending value would: without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the text itself."""
        return str(self)


def encode(name: str, value: object, *, limit: int) -> str:
    """Return `value` as compact JSON text that `decode` reads back and `jsonb` takes.

    Dates, UUIDs, decimals, enums, dataclasses and pydantic models become what pydantic makes of them,
    by alias.

    Args:
        name: What the value is called in errors (`payload`, `result`).
        value: Any JSON value, or one that pydantic can make JSON.
        limit: The most bytes of UTF-8 taken.

    Raises:
        InvalidArgument: NaN or Infinity, a NUL character, half a surrogate pair, an integer of more than
            4,300 digits, a key that is no text, nesting deeper than 100, a secret, or a type without a JSON
            form. The message names the place, never the value.
        TooLarge: The text is over the limit.
    """
    if not _is_plain(value, MAX_DEPTH):
        value = _made_plain(value, name, MAX_DEPTH)
    try:
        data = to_json(value)
    except (PydanticSerializationError, UnicodeEncodeError):
        _made_plain(value, name, MAX_DEPTH)
        raise
    if b"\\u0000" in data:
        # Either a NUL, which this names the place of, or a backslash before "u0000", which is fine.
        _made_plain(value, name, MAX_DEPTH)
    if len(data) > limit:
        raise TooLarge(name, len(data), limit)
    return data.decode()


def _is_plain(value: Any, room: int) -> bool:  # noqa: ANN401 - any JSON
    """Whether the value is JSON as it stands, its texts aside: the quick answer for nearly every payload."""
    kind = type(value)
    if kind is dict or kind is list or kind is tuple:
        return room > 0 and _are_plain(value, room - 1)
    if kind is int:
        return -_INTEGER_BOUND < value < _INTEGER_BOUND  # type: ignore[no-any-return] # an int by now
    if kind is float:
        return isfinite(value)
    return value is None or kind is bool or kind is str


def _are_plain(items: Any, room: int) -> bool:  # noqa: ANN401 - a dict, list or tuple
    # Loops rather than all(…): a generator would cost more than all the rest.
    if type(items) is dict:
        for key in items:
            if type(key) is not str:
                return False
        items = items.values()
    for item in items:  # noqa: SIM110
        if type(item) is not str and not _is_plain(item, room):
            return False
    return True


def _made_plain(value: object, where: str, room: int) -> Any:  # noqa: ANN401, PLR0911 - a return per kind
    """Return the value made of JSON's own types, or raise for the first place that has none."""
    match value:
        case None | bool():
            return value
        case Enum():
            return _made_plain(value.value, where, room)
        case str():
            return _text(value, where)
        case int():
            if not -_INTEGER_BOUND < value < _INTEGER_BOUND:
                raise _unfit(where, _TOO_LONG, "one that can be read back")
            return int(value)
        case float():
            if not isfinite(value):
                raise _unfit(where, str(float(value)), "a finite number, and JSON has no other")
            return float(value)
        case Mapping():
            inside = _inside(where, room)
            return {_key(key, where): _made_plain(item, _step(where, key), inside) for key, item in value.items()}
        case list() | tuple():
            inside = _inside(where, room)
            return [_made_plain(item, _step(where, index), inside) for index, item in enumerate(value)]
        case _:
            return _made_plain(_converted(value, where), where, room)


def _holds_iterator(value: object) -> bool:
    """Whether pydantic would read an iterator to its end: in a collection, or in a field of a dataclass or a model."""
    seen, left = set[int](), [value]
    while left:
        one = left.pop()
        if isinstance(one, Iterator):
            return True
        if id(one) in seen or isinstance(one, str | bytes | type):
            continue
        seen.add(id(one))
        if isinstance(one, Mapping):
            left += one.values()
        elif isinstance(one, Collection):
            left += one
        elif is_dataclass(one):
            left += [getattr(one, field.name, None) for field in fields(one)]
        elif hasattr(one, "__pydantic_fields__"):
            left += vars(one).values()
    return False


def _text(text: str, where: str) -> str:
    if "\0" in text:
        raise _unfit(where, "a text with a NUL character", "one that Postgres can store")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _unfit(where, "a text with half a surrogate pair", "valid Unicode") from None
    return text


def _inside(where: str, room: int) -> int:
    if not room:
        raise _unfit(where, _TOO_DEEP, "taken")
    return room - 1


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise _unfit(where, f"a key of type {type(key).__name__}", "a text, and JSON objects have no other keys")
    return _text(key.value if isinstance(key, Enum) else key, where)


def _converted(value: object, where: str) -> object:
    if _holds_iterator(value):
        raise _unfit(where, "an iterator", "a list, and an iterator may have no end")
    # round_trip leaves out computed fields: a model that forbids extras would refuse its own output.
    try:
        converted = to_jsonable_python(value, by_alias=True, round_trip=True)
    except (PydanticSerializationError, ValueError, RecursionError):
        raise _unfit(where, f"a value of type {type(value).__name__}", "JSON, and cannot be made so") from None
    if _holds_mask(converted):
        raise _unfit(where, "a secret", "shown in JSON: pass the name of the variable that holds it") from None
    return converted


def _holds_mask(value: object) -> bool:
    match value:
        case dict():
            return any(_holds_mask(item) for item in value.values())
        case list():
            return any(_holds_mask(item) for item in value)
        case _:
            return value == _MASK


def _step(where: str, key: object) -> str:
    part = str(key)
    return f"{where}.{part if part.isprintable() and len(part) <= 60 else ascii(part[:60])}"  # noqa: PLR2004 - enough to find it


def _unfit(where: str, fact: str, expected: str) -> InvalidArgument:
    where = where if len(where) <= 200 else f"{where[:199]}…"  # noqa: PLR2004 - a line, not a page
    return InvalidArgument(where, Unquoted(fact), expected)


def decode(text: str | bytes, *, name: str = "payload") -> object:
    """Return the JSON value that `text` holds.

    Raises:
        InvalidArgument: It is no JSON, nested deeper than 100, or holds an integer of more than 4,300 digits.
            No row, whoever wrote it, gives another error. The message does not repeat the text.
    """
    try:
        value = from_json(text, allow_inf_nan=False)
    except (ValueError, TypeError) as error:
        raise _unreadable(name, str(error) if isinstance(error, ValueError) else "no text was given") from None
    brackets = text.count("{") + text.count("[") if isinstance(text, str) else text.count(b"{") + text.count(b"[")
    if brackets > MAX_DEPTH and _is_deeper_than(value, MAX_DEPTH):
        raise _unfit(name, _TOO_DEEP, "JSON that is taken")
    return value


def decode_stored(text: str | bytes) -> object:
    """Return the JSON value of a stored document, for readers that show it.

    Raises:
        ValueError, RecursionError: It holds an integer of more than 4,300 digits, or is nested deeper than a document
            of ours with its surroundings: no answer could repeat it.
    """
    value = json.loads(text)
    brackets = text.count("{") + text.count("[") if isinstance(text, str) else text.count(b"{") + text.count(b"[")
    if brackets > _STORED_DEPTH and _is_deeper_than(value, _STORED_DEPTH):
        raise ValueError(_TOO_DEEP)
    return value


def _unreadable(name: str, problem: str) -> InvalidArgument:
    """Return what to say of a text that the parser gives up on, for which its words may be about itself."""
    if problem.startswith("recursion limit"):
        return _unfit(name, _TOO_DEEP, "JSON that is taken")
    if problem.startswith("number out of range"):
        return _unfit(name, _TOO_LONG, "one that can be read back")
    return InvalidArgument(name, Unquoted("the text"), f"JSON: {problem}")


def _is_deeper_than(value: object, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [
            item
            for container in layer
            if isinstance(container, dict | list)
            for item in (container.values() if isinstance(container, dict) else container)
        ]
    return any(isinstance(item, dict | list) for item in layer)
