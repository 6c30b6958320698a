"""JSON pointers (RFC 6901): one place in a JSON value."""

from __future__ import annotations

import re
from typing import Any

#: Stands for a place that is not there.
MISSING = object()

_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


def is_pointer(text: str) -> bool:
    """Whether the text is a pointer; the empty one is the whole."""
    return _POINTER.fullmatch(text) is not None


def found_at(pointer: str, value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return what is at the pointer, or `MISSING`."""
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and _INDEX.fullmatch(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            return MISSING
    return value
