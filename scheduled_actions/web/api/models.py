"""What goes in and out of the management API, as pydantic models: the parts that all of them share."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from scheduled_actions.core import checks as arguments
from scheduled_actions.core import json_text, retry
from scheduled_actions.core.action import RESULT_LIMIT, Status
from scheduled_actions.core.durations import parse_duration
from scheduled_actions.core.errors import InvalidArgument, RequestError
from scheduled_actions.core.pages import PAGE_MOST
from scheduled_actions.operations.tokens import NAME_LENGTH
from scheduled_actions.schedules.rules.new_schedule import RECURRENCE_LIMIT

if TYPE_CHECKING:
    from pydantic.config import JsonDict

#: The longest delay taken, in days: a hundred years.
_LONGEST_DELAY_DAYS = 36525


#: An id, as answers write it.
UUID_SHAPE = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


class Given(BaseModel):
    """What a caller sends: every field known, of the right type, and nothing beside them."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class GivenParts(Given):
    """What a caller sends where a field that is left out and one that is null are not the same: null is refused."""

    #: Of these null takes away what is there.
    nullable: ClassVar[frozenset[str]] = frozenset()

    @field_validator("*", mode="before")
    @classmethod
    def _is_not_null(cls, value: Any, about: ValidationInfo) -> Any:  # noqa: ANN401 - any field
        if value is None and about.field_name not in cls.nullable:
            raise _wrong("left out rather than null")
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the schema without the nulls that stand for what is left out."""
        made = handler(core_schema)
        fields = handler.resolve_ref_schema(made).get("properties", {})
        for name, schema in fields.items():
            if name not in cls.nullable:
                fields[name] = without_null(schema)
        return made


def without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a field's schema that does not take null."""
    match schema:
        case {"anyOf": [*kinds, {"type": "null"}], **others}:
            return {**others, **kinds[0]} if len(kinds) == 1 else {**others, "anyOf": kinds}
        case _:
            return schema


class Shown(BaseModel):
    """What is answered."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Nothing(Given):
    """No fields at all."""


def refused(error: InvalidArgument) -> PydanticCustomError:
    """Return one of our own refusals as pydantic's, of the field that it names."""
    message = str(error).removeprefix(f"{error.name}: ")
    return PydanticCustomError("refused", "{message}", {"message": message, "name": error.name})


def not_both(one: str, other: str) -> JsonDict:
    """Return what a schema says of two fields of which one may be there."""
    return {"not": {"required": [one, other]}}


def about(field: str, message: str) -> PydanticCustomError:
    """Return a refusal of one field of a model; of the model as a whole where no field is named."""
    return PydanticCustomError("refused", "{message}", {"message": message, "inside": field})


def kept_text(value: Any) -> Any:  # noqa: ANN401 - pydantic judges what is no text
    """Return a text that Postgres can keep."""
    if isinstance(value, str):
        try:
            json_text.encode("text", value, limit=RESULT_LIMIT)
        except RequestError as error:
            raise PydanticCustomError("refused", "{message}", {"message": str(error).removeprefix("text: ")}) from None
    return value


def _moment(value: Any) -> Any:  # noqa: ANN401 - pydantic judges what is no text
    """Return the instant of an ISO 8601 text; without an offset it is naive."""
    if not isinstance(value, str):
        raise _wrong('an ISO 8601 time, such as "2026-03-29T09:30:00+02:00"')
    try:
        moment = datetime.fromisoformat(value.strip().upper())
        # An offset may move it out of the years that there are.
        return moment if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        hint = " (in an address, + is written %2B)" if re.search(r"\d \d\d:?\d\d$", value) else ""
        raise _wrong(f'an ISO 8601 time, such as "2026-03-29T09:30:00+02:00"{hint}') from None


def _instant(value: Any) -> Any:  # noqa: ANN401 - pydantic judges what is no text
    """Return the aware instant of an ISO 8601 text."""
    moment = _moment(value)
    if moment.tzinfo is None:
        raise _wrong("a time with its offset: end it with Z, or with +02:00 (in an address, + is written %2B)")
    return moment


def _delay(value: Any) -> Any:  # noqa: ANN401 - pydantic judges what is no text
    """Return the length of time that a number of seconds or an ISO 8601 duration says."""
    try:
        match value:
            case bool():
                raise _wrong("a number of seconds, or a duration such as PT5M")
            case int() | float():
                delay = timedelta(seconds=value)
            case str():
                delay = parse_duration(value)
            case _:
                raise _wrong("a number of seconds, or a duration such as PT5M")
    except InvalidArgument as error:
        raise _wrong(error.expected) from None
    except (OverflowError, ValueError):
        raise _wrong("a time from now: between zero and a hundred years") from None
    if not timedelta(0) <= delay <= timedelta(days=_LONGEST_DELAY_DAYS):
        raise _wrong("a time from now: between zero and a hundred years")
    return delay


def _zone(value: Any) -> Any:  # noqa: ANN401 - pydantic judges what is no text
    if isinstance(value, str):
        try:
            arguments.check_timezone(value)
        except InvalidArgument as error:
            raise _wrong(error.expected) from None
    return value


def _policy(value: Any) -> Any:  # noqa: ANN401 - retry.parse judges it
    """Return the retry policy that JSON stands for."""
    try:
        return retry.parse(value)
    except InvalidArgument as error:
        raise refused(error) from None
    except TypeError:
        raise _wrong(f'a list of seconds, or {{"kind": …}}, one of {", ".join(retry.KINDS)}') from None


def _from_words(words: dict[str, Any]) -> Any:  # noqa: ANN401 - a validator
    def read(value: Any) -> Any:  # noqa: ANN401 - pydantic judges what is no known word
        return words.get(value, value) if isinstance(value, str) else value

    return read


def _spelled(value: Any) -> Any:  # noqa: ANN401 - pydantic judges what has no digits
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value) else value


def _whole(value: Any) -> Any:  # noqa: ANN401 - pydantic judges what is no number
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _wrong(expected: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{message}", {"message": f"should be {expected}"})


WITHOUT_NUL: JsonDict = {"pattern": "^[^\\u0000]*$"}
Kept = BeforeValidator(kept_text)
#: Texts without NUL.
ShortText = Annotated[str, Field(min_length=1, max_length=255, json_schema_extra=WITHOUT_NUL), Kept]
TokenName = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH, json_schema_extra=WITHOUT_NUL), Kept]
ActionTypeName = Annotated[
    str, Field(min_length=1, max_length=200, examples=["email:send"], json_schema_extra=WITHOUT_NUL), Kept
]
DedupKey = Annotated[str, Field(min_length=1, max_length=512, json_schema_extra=WITHOUT_NUL), Kept]
LongText = Annotated[str, Field(min_length=1, max_length=4096, json_schema_extra=WITHOUT_NUL), Kept]
#: A recurrence; what it means is more than a pattern can say.
Rule = Annotated[
    str,
    Field(
        min_length=1,
        max_length=RECURRENCE_LIMIT,
        examples=["daily at 09:00", "0 9 * * 1-5", "FREQ=MONTHLY;BYMONTHDAY=-1", "last business day of the month"],
        json_schema_extra=WITHOUT_NUL,
    ),
    Kept,
]

#: An instant that may lack its offset.
Moment = Annotated[datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
#: An instant with its offset.
Instant = Annotated[datetime, BeforeValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})]
#: ISO 8601 in the forms that are always taken, and seconds.
Delay = Annotated[
    timedelta,
    BeforeValidator(_delay),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": _LONGEST_DELAY_DAYS * 86400},
                {
                    "type": "string",
                    "pattern": "^P([0-9]{1,3}W|[0-9]{1,4}D|([0-9]{1,4}D)?T([0-9]{1,5}H([0-9]{1,6}M)?([0-9]{1,8}S)?"
                    "|[0-9]{1,6}M([0-9]{1,8}S)?|[0-9]{1,8}S))$",
                },
            ]
        }
    ),
]
TimeZone = Annotated[str, BeforeValidator(_zone), WithJsonSchema({"x-schema": "TimeZone"})]
JsonObject = Annotated[dict[str, Any], WithJsonSchema({"x-schema": "JsonObject"})]
#: Actions that follow an end: one, or a list.
FollowUps = JsonObject | Annotated[list[JsonObject], Field(max_length=20)]
_SECONDS: JsonDict = {"type": "number", "minimum": 0, "maximum": retry.LONGEST_WAIT_SECONDS}
_DELAYS: JsonDict = {"type": "array", "items": _SECONDS, "minItems": 1, "maxItems": 100}
#: By the type of a policy's field.
_POLICY_FIELDS: dict[str, JsonDict] = {
    "float": _SECONDS,
    "Jitter": {"enum": ["none", "full", "equal"]},
    "tuple[float, ...]": _DELAYS,
}


def _policy_schema(kind: str, policy: Any) -> JsonDict:  # noqa: ANN401 - a class of policies
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}, **{one.name: _POLICY_FIELDS[str(one.type)] for one in fields(policy)}},
        "required": ["kind", *[one.name for one in fields(policy) if one.default is MISSING]],
        "additionalProperties": False,
    }


RetryPolicy = Annotated[
    Any,
    BeforeValidator(_policy),
    WithJsonSchema({"anyOf": [_DELAYS, *[_policy_schema(kind, policy) for kind, policy in retry.KINDS.items()]]}),
]
StatusName = Annotated[Status, Field(strict=False)]
Id = Annotated[UUID, Field(strict=False)]

#: JSON Schema's integers: 3.0 is one.
WholeNumber = BeforeValidator(_whole)
#: In addresses everything is text.
Flag = Annotated[bool, BeforeValidator(_from_words({"true": True, "false": False}))]
Limit = Annotated[
    int, Field(ge=1, le=PAGE_MOST, description=f"At most so many, 1 to {PAGE_MOST}."), BeforeValidator(_spelled)
]


class Target(Given):
    """The thing an action is about."""

    type: ShortText
    id: ShortText


class Problem(Shown):
    """RFC 9457: what is wrong, and what would be right."""

    type: str
    title: str
    status: int
    detail: str
    #: Short name of the fact, to branch on.
    code: str


class FieldError(Shown):
    """One field of a request that was refused."""

    #: Its path, such as `payload.name` or `actions.3.priority`.
    field: str
    message: str


class InvalidProblem(Problem):
    """A problem of the request itself: every invalid field is listed where that is known."""

    errors: list[FieldError] = []


class StateProblem(Problem):
    """A problem of the moment; `action_status` is where the action stands."""

    action_status: StatusName | None = None
