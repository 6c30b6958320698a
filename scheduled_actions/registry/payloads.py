"""Payloads: what a handler's annotation takes, proved at the caller's desk and again at dispatch."""

from __future__ import annotations

import inspect
import traceback
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core.core_schema import ErrorType

from scheduled_actions.core.action import PAYLOAD_LIMIT
from scheduled_actions.core.errors import FieldProblem, InvalidArgument, PayloadInvalid
from scheduled_actions.core.json_text import Unquoted, decode, encode
from scheduled_actions.core.typed_dicts import for_pydantic

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Annotations that take every JSON object; a handler without one is such, too.
_TAKES_ALL = (inspect.Parameter.empty, Any, object, dict, dict[str, Any])
_OBJECT_EXPECTED = "a JSON object: pass a dict, or an instance of the handler's model"
#: More problems than these help nobody.
_PROBLEMS_SHOWN = 20
_MESSAGE_LIMIT = 300
#: Their messages hold no values; those of a user's validators, and of packages that add types, may.
_KINDS_OF_PYDANTIC = frozenset(get_args(ErrorType)) - {"value_error", "assertion_error"}
#: A shorter value is too common a word to be blotted out of a message.
_SHORTEST_BLOTTED = 3


@dataclass(frozen=True, slots=True, eq=False)
class PayloadModel:
    """What one action type takes as its payload."""

    action_type: str
    annotation: Any
    #: None takes every JSON object, unread.
    _adapter: TypeAdapter[Any] | None

    @classmethod
    def of(cls, action_type: str, annotation: Any = inspect.Parameter.empty) -> PayloadModel:  # noqa: ANN401 - any type
        """Return the model of an annotation: pydantic model, dataclass, TypedDict, `dict`, or a list of such.

        Raises:
            Exception: Pydantic's own (or a NameError): it can make no validator of the annotation.
        """
        if any(annotation is one or annotation == one for one in _TAKES_ALL):
            return cls(action_type, annotation, None)
        adapter = TypeAdapter(for_pydantic(annotation))
        if not adapter.pydantic_complete:
            adapter.rebuild(raise_errors=True)
        return cls(action_type, annotation, adapter)

    def validate_text(self, text: str | bytes) -> Any:  # noqa: ANN401 - whatever the annotation says
        """Return what the handler gets for a stored payload: what its annotation says, or the JSON object.

        Raises:
            PayloadInvalid: The text does not fit the annotation, or is no JSON that can be read.
        """
        if self._adapter is None:
            return self._any_object(text)
        return self._validated(self._adapter, text)

    def prepare(self, payload: object, *, gathered: bool = False) -> str:
        """Return the JSON text to store, proved to be what the handler takes at dispatch.

        Args:
            payload: A mapping, or an instance of the handler's model or dataclass.
            gathered: The payload will stand in a list with others (`dedup_mode="append"`), and the handler
                takes that list; the text is the single payload's all the same.

        Raises:
            InvalidArgument: It is no JSON object, or holds what JSON or Postgres cannot; or it is to be
                gathered, and the handler takes no list.
            TooLarge: It is over 256 KiB.
            PayloadInvalid: The handler's annotation refuses it.
        """
        text = encode("payload", payload, limit=PAYLOAD_LIMIT)
        if not text.startswith("{"):
            fact = Unquoted(f"a value of type {type(payload).__name__}")
            raise InvalidArgument(name="payload", value=fact, expected=_OBJECT_EXPECTED)
        if gathered:
            self._prove_gathered(text)
        elif self._adapter is not None:
            self._validated(self._adapter, text)
        return text

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of valid payloads; where none can be made, one that takes all."""
        if self._adapter is None:
            return {"type": "object"}
        try:
            return self._adapter.json_schema()
        except PydanticInvalidForJsonSchema:
            return {"description": "Checked by code that no JSON Schema can express."}

    def _any_object(self, text: str | bytes) -> dict[str, Any]:
        try:
            value = decode(text)
        except InvalidArgument as error:
            problem = FieldProblem("", f"{error.value!r} is not {error.expected}")
            raise PayloadInvalid(self.action_type, [problem]) from None
        if isinstance(value, dict):
            return value
        hint = "; a handler of gathered payloads annotates its payload list[…]" if isinstance(value, list) else ""
        raise PayloadInvalid(self.action_type, [FieldProblem("", f"Input should be an object{hint}")])

    def _validated(self, adapter: TypeAdapter[Any], text: str | bytes, *, skipped: int = 0) -> Any:  # noqa: ANN401
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            # Not chained: pydantic's own message repeats the values.
            raise PayloadInvalid(self.action_type, problems_of(error, skipped=skipped)) from None
        except Exception as error:  # noqa: BLE001 - validators are user code and raise what they like
            raise PayloadInvalid(self.action_type, [FieldProblem("", _crash(error))]) from None

    def _prove_gathered(self, text: str) -> None:
        if self._adapter is None or not _takes_arrays(self._adapter):
            one = f'for the handler of "{self.action_type}", which takes one payload: annotate it list[…]'
            raise InvalidArgument(name="dedup_mode", value="append", expected=one)
        self._validated(self._adapter, f"[{text}]", skipped=1)


def _takes_arrays(adapter: TypeAdapter[Any]) -> bool:
    try:
        adapter.validate_json("[]")
    except ValidationError as error:
        # One that wants more items than none still takes arrays.
        return not any(not one["loc"] and one["type"].endswith("_type") for one in error.errors(include_url=False))
    except Exception:  # noqa: BLE001 - user code got as far as reading it
        return True
    return True


def problems_of(error: ValidationError, *, skipped: int = 0) -> list[FieldProblem]:
    """Return what a model refused: where and what.

    Args:
        error: What it raised.
        skipped: How many first steps of each place are left out: the index in a list of one.
    """
    found = error.errors(include_url=False)
    problems = [
        FieldProblem(".".join(_shown(step) for step in one["loc"][skipped:]), _message(one))  # type: ignore[arg-type] # a TypedDict
        for one in found[:_PROBLEMS_SHOWN]
    ]
    if len(found) > _PROBLEMS_SHOWN:
        problems.append(FieldProblem("", f"and {len(found) - _PROBLEMS_SHOWN:,} more"))
    return problems


def _shown(step: object) -> str:
    text = str(step)
    return text if text.isprintable() and len(text) <= 60 else ascii(text[:60])  # noqa: PLR2004 - enough to find it


def _message(problem: dict[str, Any]) -> str:
    kind, message = problem["type"], problem["msg"]
    if kind == "union_tag_invalid":
        # The one message of pydantic's own that repeats the value.
        message = f"{problem['ctx']['discriminator']} should be one of {problem['ctx']['expected_tags']}"
    elif kind in {"list_type", "tuple_type", "set_type", "frozen_set_type"} and not problem["loc"]:
        message = 'the handler takes a list of payloads: schedule it with dedup_mode="append"'
    elif kind not in _KINDS_OF_PYDANTIC:
        message = _blotted(message.removeprefix("Value error, ").removeprefix("Assertion failed, "), problem["input"])
    return message if len(message) <= _MESSAGE_LIMIT else f"{message[: _MESSAGE_LIMIT - 1]}…"


def _blotted(message: str, value: object) -> str:
    """Return the words of a user's validator without the payload's values in them."""
    values = {text for text in _texts(value) if len(text) >= _SHORTEST_BLOTTED}
    for text in sorted(values, key=len, reverse=True):
        message = message.replace(text, "…")
    return " ".join(message.split())


def _texts(value: object) -> Iterator[str]:
    match value:
        case dict():
            for item in value.values():
                yield from _texts(item)
        case list() | tuple():
            for item in value:
                yield from _texts(item)
        case None | bool():
            return
        case _:
            yield str(value)


def _crash(error: Exception) -> str:
    """Return where a validator broke; not its message, which may repeat the payload."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"validation raised {type(error).__name__} at {PurePath(frame.filename).name}:{frame.lineno}"
