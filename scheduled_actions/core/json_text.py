"""Encode and decode JSON that Postgres can store and every parser accepts."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from math import isfinite
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from scheduled_actions.core.errors import InvalidArgument, TooLarge
from scheduled_actions.core.errors.families import short_text

#: Maximum nesting of objects and arrays. (Python's parser fails near 1,000, pydantic's at 200.)
MAX_DEPTH = 100
#: Maximum nesting of stored documents, which contain payloads in a list, a follow-up, a stage or a definition.
_STORED_DEPTH = MAX_DEPTH + 20
#: Maximum number of digits of an integer. Python and pydantic reject longer ones: parsing takes quadratic time.
MAX_DIGITS = 4300

_TOO_DEEP = f"is nested deeper than {MAX_DEPTH} levels"
_TOO_LONG = f"is an integer of more than {MAX_DIGITS:,} digits"
#: Two constants, because a negation would create a number of 2 KB for each check.
_INTEGER_BOUND = 10**MAX_DIGITS
_NEGATIVE_BOUND = -_INTEGER_BOUND
#: The JSON of pydantic's secret types; storing it would silently lose the value.
_MASK = "**********"


def encode(name: str, value: object, *, limit: int) -> str:
    """Convert a value to compact JSON that `decode` and `jsonb` accept.

    Pydantic converts dates, UUIDs, decimals, enums, dataclasses and models. The keys of a model are its aliases;
    computed fields are omitted.

    Args:
        name: Name of the value in errors (`payload`, `result`).
        value: JSON, or a value that pydantic can convert.
        limit: Maximum size in bytes of UTF-8.

    Raises:
        InvalidArgument: The value contains NaN or Infinity, a NUL character, half a surrogate pair, an integer of more
            than 4,300 digits, a key that is not a string, a secret, an iterator, or a type without a JSON form; or it
            is nested deeper than 100 levels. The message contains the path, never the value.
        TooLarge: The JSON exceeds the limit.
    """
    if not _is_plain(value, MAX_DEPTH):
        value = _converted_value(value, name, MAX_DEPTH)
    try:
        data = to_json(value)
    except (PydanticSerializationError, UnicodeEncodeError):
        _converted_value(value, name, MAX_DEPTH)
        raise
    if b"\\u0000" in data:
        # Either a NUL, which this call reports with its path, or an escaped backslash before "u0000", which is valid.
        _converted_value(value, name, MAX_DEPTH)
    if len(data) > limit:
        raise TooLarge(name, len(data), limit)
    return data.decode()


def _is_plain(value: Any, room: int) -> bool:  # noqa: ANN401 - any JSON
    """Return whether a value consists of JSON types within the limits: the fast path of most payloads.

    The content of strings is not checked.
    """
    kind = type(value)
    if kind is dict or kind is list or kind is tuple:
        return room > 0 and _are_plain(value, room - 1)
    if kind is int:
        return _NEGATIVE_BOUND < value < _INTEGER_BOUND  # type: ignore[no-any-return] # an int by now
    if kind is float:
        return isfinite(value)
    return value is None or kind is bool or kind is str


def _are_plain(items: Any, room: int) -> bool:  # noqa: ANN401 - a dict, list or tuple
    # Loops instead of all(…): a generator would cost more than the rest of the check.
    if type(items) is dict:
        for key in items:
            if type(key) is not str:
                return False
        items = items.values()
    for item in items:
        if (kind := type(item)) is str or (kind is int and _NEGATIVE_BOUND < item < _INTEGER_BOUND):
            continue
        if not _is_plain(item, room):
            return False
    return True


def _converted_value(value: object, where: str, room: int) -> Any:  # noqa: ANN401, C901, PLR0911 - a case per kind
    """Return a value converted to JSON types, or raise for the first path that cannot be converted."""
    match value:
        case None | bool():
            return value
        case Enum():
            return _converted_value(value.value, where, room)
        case str():
            return _text(value, where)
        case int():
            if not _NEGATIVE_BOUND < value < _INTEGER_BOUND:
                raise _invalid(where, _TOO_LONG)
            return int(value)
        case float():
            if not isfinite(value):
                raise _invalid(where, f"is {float(value)}; JSON has only finite numbers")
            return float(value)
        case Mapping() | list() | tuple() if not room:
            raise _invalid(where, _TOO_DEEP)
        case Mapping():
            return {
                _key(key, where): _converted_value(item, f"{where}.{shown_key(key)}", room - 1)
                for key, item in value.items()
            }
        case list() | tuple():
            return [_converted_value(item, f"{where}.{index}", room - 1) for index, item in enumerate(value)]
        case _:
            return _converted_value(_convert_object(value, where), where, room)


def _holds_iterator(value: object) -> bool:
    """Return whether a value is or contains an iterator, which pydantic would exhaust."""
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
        raise _invalid(where, "contains a NUL character, which PostgreSQL cannot store")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _invalid(where, "contains half a surrogate pair; it must be valid Unicode") from None
    return text


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise _invalid(where, f"has a key of type {type(key).__name__}; keys of JSON objects must be strings")
    return _text(key.value if isinstance(key, Enum) else key, where)


def _convert_object(value: object, where: str) -> object:
    if _holds_iterator(value):
        raise _invalid(where, "is an iterator, which may be infinite; pass a list")
    # round_trip omits computed fields, which a model that forbids extra fields would reject.
    try:
        converted = to_jsonable_python(value, by_alias=True, round_trip=True)
    except (PydanticSerializationError, ValueError, RecursionError):
        raise _invalid(where, f"is of type {type(value).__name__}, which cannot be converted to JSON") from None
    if _MASK in leaves(converted):
        raise _invalid(where, "is a secret; pass the name of an environment variable that contains it")
    return converted


def leaves(value: object) -> Iterator[object]:
    """Yield the values in a document that are neither objects nor arrays; keys are not included."""
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    else:
        yield value


def shown_key(key: object) -> str:
    """Return a key or an index for a path in a message.

    A key that is not printable or longer than 60 characters is cut to 60 characters, quoted and escaped.
    """
    part = str(key)
    return part if part.isprintable() and len(part) <= 60 else ascii(part[:60])  # noqa: PLR2004 - enough to identify it


def _invalid(where: str, problem: str) -> InvalidArgument:
    return InvalidArgument(short_text(where, 200), problem=problem)


def decode(text: str | bytes, *, name: str = "payload") -> object:
    """Parse JSON text.

    Args:
        text: A string, or bytes in UTF-8.
        name: Name of the value in errors.

    Raises:
        InvalidArgument: The text is not JSON, is nested deeper than 100 levels, or contains an integer of more than
            4,300 digits. The message does not contain the text.
    """
    try:
        value = from_json(text, allow_inf_nan=False)
    except TypeError:
        raise _invalid(name, "is not JSON: it is not a string") from None
    except ValueError as error:
        # The parser's messages about its own limits are replaced.
        limits = {
            "recursion limit": _TOO_DEEP,
            "number out of range": f"contains an integer of more than {MAX_DIGITS:,} digits",
        }
        known = (message for prefix, message in limits.items() if str(error).startswith(prefix))
        raise _invalid(name, next(known, f"is not JSON: {error}")) from None
    if len(text) > MAX_DEPTH and _bracket_count(text) > MAX_DEPTH and _is_deeper_than(value, MAX_DEPTH):
        raise _invalid(name, _TOO_DEEP)
    return value


def decode_stored(text: str | bytes) -> object:
    """Parse a stored JSON document for display.

    Raises:
        ValueError, RecursionError: The text is not JSON, is nested deeper than 120 levels, or contains an integer of
            more than 4,300 digits.
    """
    value = json.loads(text)
    if _bracket_count(text) > _STORED_DEPTH and _is_deeper_than(value, _STORED_DEPTH):
        raise ValueError(f"the document is nested deeper than {_STORED_DEPTH} levels")
    return value


def _bracket_count(text: str | bytes) -> int:
    return text.count("{") + text.count("[") if isinstance(text, str) else text.count(b"{") + text.count(b"[")


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
