"""Validate payloads against a handler's annotation, when an action is scheduled and again before each attempt."""

import functools
import inspect
import operator
import sys
import traceback
import types
from dataclasses import dataclass
from pathlib import PurePath
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core.core_schema import ErrorType
from typing_extensions import TypedDict

from scheduled_actions.core.action import PAYLOAD_LIMIT
from scheduled_actions.core.errors import FieldProblem, InvalidArgument, PayloadInvalid
from scheduled_actions.core.json_text import decode, encode, leaves, shown_key

#: Annotations that accept every JSON object.
_ACCEPTS_ALL = (inspect.Parameter.empty, Any, object, dict, dict[str, Any], dict[str, object])
_OBJECT_EXPECTED = "a JSON object: pass a dict, or an instance of the handler's model"
#: The maximum number of problems in one error.
_PROBLEMS_SHOWN = 20
_MESSAGE_LIMIT = 300
#: Errors whose messages contain no values; messages of custom validators and of other packages' types may.
_KINDS_OF_PYDANTIC = frozenset(get_args(ErrorType)) - {"value_error", "assertion_error"}
#: Shorter values are too common to be removed from a message.
_SHORTEST_REDACTED = 3


@dataclass(frozen=True, slots=True, eq=False)
class PayloadModel:
    """The payloads that one action type accepts."""

    action_type: str
    annotation: Any
    #: None accepts every JSON object.
    _adapter: TypeAdapter[Any] | None

    @classmethod
    def of(cls, action_type: str, annotation: Any = inspect.Parameter.empty) -> "PayloadModel":  # noqa: ANN401 - any type
        """Create the model of an annotation: any type that pydantic validates, such as a model, dataclass or TypedDict.

        Raises:
            Exception: Pydantic cannot build a validator for the annotation: one of its errors, or a NameError.
        """
        if any(annotation is one or annotation == one for one in _ACCEPTS_ALL):
            return cls(action_type, annotation, None)
        adapter = TypeAdapter(_for_pydantic(annotation, {}) if sys.version_info < (3, 12) else annotation)
        if not adapter.pydantic_complete:
            adapter.rebuild(raise_errors=True)
        return cls(action_type, annotation, adapter)

    def validate_text(self, text: str | bytes) -> Any:  # noqa: ANN401 - whatever the annotation says
        """Validate a stored payload; return a value of the annotated type, or a dict if there is no annotation.

        Raises:
            PayloadInvalid: The text does not match the annotation, or is not JSON.
        """
        return self._any_object(text) if self._adapter is None else self._validated(self._adapter, text)

    def prepare(self, payload: object, *, is_list_item: bool = False) -> str:
        """Validate a payload by the rules that apply before an attempt; return the JSON text to store.

        Args:
            payload: A mapping, or an instance of the handler's model or dataclass.
            is_list_item: The payload is one item of the list that the handler takes (`dedup_mode="append"`); the
                returned text is that item alone.

        Raises:
            InvalidArgument: The payload is not a JSON object, or contains a value that cannot be stored as JSON; or it
                is a list item, and the handler does not take a list.
            TooLarge: The JSON is larger than 256 KiB.
            PayloadInvalid: The payload does not match the handler's annotation.
        """
        text = encode("payload", payload, limit=PAYLOAD_LIMIT)
        if not text.startswith("{"):
            raise InvalidArgument("payload", problem=f"is of type {type(payload).__name__}, not {_OBJECT_EXPECTED}")
        if is_list_item:
            if self._adapter is None or not _takes_arrays(self._adapter):
                raise InvalidArgument(
                    "dedup_mode",
                    "append",
                    problem=f'"append" needs a handler that takes a list: annotate the payload of "{self.action_type}" '
                    "as list[…]",
                )
            self._validated(self._adapter, f"[{text}]", skipped=1)
        elif self._adapter is not None:
            self._validated(self._adapter, text)
        return text

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of valid payloads; if pydantic cannot express it, one that accepts every value."""
        if self._adapter is None:
            return {"type": "object"}
        try:
            return self._adapter.json_schema()
        except PydanticInvalidForJsonSchema:
            return {"description": "Validated by code that JSON Schema cannot express."}

    def forbids(self, field: str) -> bool:
        """Return whether payloads with a field of this name are invalid because the model forbids unknown fields."""
        schema = self.json_schema()
        return schema.get("additionalProperties") is False and field not in schema.get("properties", {})

    def _any_object(self, text: str | bytes) -> dict[str, Any]:
        try:
            value = decode(text)
        except InvalidArgument as error:
            problem = FieldProblem("", error.problem or f"{error.value!r} is not {error.expected}")
            raise PayloadInvalid(self.action_type, [problem]) from None
        if isinstance(value, dict):
            return value
        hint = "; to take a list of payloads, annotate the parameter as list[…]" if isinstance(value, list) else ""
        raise PayloadInvalid(self.action_type, [FieldProblem("", f"Input should be an object{hint}")])

    def _validated(self, adapter: TypeAdapter[Any], text: str | bytes, *, skipped: int = 0) -> Any:  # noqa: ANN401
        try:
            # The method of the adapter only passes its own arguments on, in twice the time.
            return adapter.validator.validate_json(text)
        except ValidationError as error:
            # Not chained: pydantic's own message repeats the values.
            raise PayloadInvalid(self.action_type, field_problems_of(error, skipped=skipped)) from None
        except Exception as error:  # noqa: BLE001 - validators are user code and may raise any exception
            # Without its message, which may repeat the payload.
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{PurePath(frame.filename).name}:{frame.lineno}"
            raise PayloadInvalid(
                self.action_type, [FieldProblem("", f"validation raised {type(error).__name__} at {place}")]
            ) from None


def _takes_arrays(adapter: TypeAdapter[Any]) -> bool:
    try:
        adapter.validate_json("[]")
    except ValidationError as error:
        # An annotation that requires at least one item also takes arrays.
        return not any(not one["loc"] and one["type"].endswith("_type") for one in error.errors(include_url=False))
    except Exception:  # noqa: BLE001 - custom validators accepted the type
        return True
    return True


def field_problems_of(error: ValidationError, *, skipped: int = 0) -> list[FieldProblem]:
    """Convert a validation error of pydantic to problems: the first 20, then one with the number of the others.

    Args:
        error: Raised by pydantic.
        skipped: The number of leading steps to omit from each location; 1 omits the index of a list item.
    """
    found = error.errors(include_url=False)
    problems = [
        FieldProblem(".".join(map(shown_key, one["loc"][skipped:])), _message(one))  # type: ignore[arg-type] # a TypedDict
        for one in found[:_PROBLEMS_SHOWN]
    ]
    if len(found) > _PROBLEMS_SHOWN:
        problems.append(FieldProblem("", f"and {len(found) - _PROBLEMS_SHOWN:,} more"))
    return problems


def _message(problem: dict[str, Any]) -> str:
    kind, message = problem["type"], problem["msg"]
    if kind == "union_tag_invalid":
        # The only message of pydantic that repeats the value.
        message = f"{problem['ctx']['discriminator']} should be one of {problem['ctx']['expected_tags']}"
    elif kind in {"list_type", "tuple_type", "set_type", "frozen_set_type"} and not problem["loc"]:
        message = 'the handler takes a list of payloads: schedule the action with dedup_mode="append"'
    elif kind not in _KINDS_OF_PYDANTIC:
        message = _redact(message.removeprefix("Value error, ").removeprefix("Assertion failed, "), problem["input"])
    return message if len(message) <= _MESSAGE_LIMIT else f"{message[: _MESSAGE_LIMIT - 1]}…"


def _redact(message: str, value: object) -> str:
    """Remove the payload's values of three or more characters from the message of a custom validator."""
    values = {str(one) for one in leaves(value) if one is not None and not isinstance(one, bool)}
    for text in sorted(values, key=len, reverse=True):
        if len(text) >= _SHORTEST_REDACTED:
            message = message.replace(text, "…")
    return " ".join(message.split())


def _for_pydantic(annotation: Any, seen: dict[Any, Any]) -> Any:  # noqa: ANN401 - annotations have no common type
    """Return an annotation in which TypedDicts of `typing` are replaced by ones that pydantic accepts in Python 3.11.

    Replaces them in TypedDicts, `list[…]`, unions, `Annotated` and similar types, not inside models. A recursive
    TypedDict is not replaced; the error of pydantic names the required import.

    Raises:
        NameError: A TypedDict refers to a type that its module does not have.
    """
    if is_typeddict(annotation) and type(annotation).__module__ == "typing":
        if annotation not in seen:
            seen[annotation] = annotation
            seen[annotation] = _rebuilt(annotation, seen)
        return seen[annotation]
    origin, before = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return Annotated[(_for_pydantic(before[0], seen), *before[1:])]
    after = tuple(_for_pydantic(argument, seen) for argument in before)
    if all(new is old for new, old in zip(after, before, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, after)
    return origin[after if len(after) > 1 else after[0]]


def _rebuilt(typed_dict: Any, seen: dict[Any, Any]) -> Any:  # noqa: ANN401
    fields = {}
    for name, hint in get_type_hints(typed_dict, include_extras=True).items():
        mark = get_origin(hint)
        if mark in (Required, NotRequired):
            hint = get_args(hint)[0]  # noqa: PLW2901 - the same hint, unwrapped
        else:
            mark = Required if name in typed_dict.__required_keys__ else NotRequired
        fields[name] = mark[_for_pydantic(hint, seen)]
    return TypedDict(typed_dict.__name__, fields)  # type: ignore[operator] # mypy knows the static form only
