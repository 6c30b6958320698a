"""Pydantic models and field types that the resources of the management API share."""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    WithJsonSchema,
    WrapSerializer,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import CoreSchema, PydanticCustomError, PydanticSerializationError

from scheduled_actions.core import checks, durations, json_text, pages, retry
from scheduled_actions.core.action import MAX_ATTEMPTS_LIMIT, RESULT_LIMIT, Status
from scheduled_actions.core.errors import InvalidArgument, RequestError
from scheduled_actions.operations.tokens import NAME_LENGTH

Response = TypeVar("Response", bound="ResponseModel")

MAX_DELAY_DAYS = 36525
#: Regular expression of an id in responses: a UUID in lower case with hyphens.
UUID_SHAPE = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def rejection(message: str, **context: str) -> PydanticCustomError:
    """Return a validation error of a field.

    Args:
        message: What is wrong; follows the path of the field.
        context: `name` replaces the last part of the path; `inside` is appended to the path.
    """
    return PydanticCustomError("refused", "{message}", {"message": message, **context})


def rejection_of(error: InvalidArgument) -> PydanticCustomError:
    """Convert an `InvalidArgument` to a validation error of the field with the name of the argument."""
    return rejection(error.problem or str(error).removeprefix(f"{error.name}: "), name=error.name)


class RequestModel(BaseModel):
    """The body or query of a request. Unknown fields, and values of the wrong type, are rejected."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, populate_by_name=True
    )

    def given(self) -> dict[str, Any]:
        """Return the fields that the request contains, by name; nested models are converted to dictionaries."""
        return {
            name: value.model_dump() if isinstance(value, BaseModel) else value
            for name, value in self
            if name in self.model_fields_set
        }


class PatchModel(RequestModel):
    """A request in which null differs from an omitted field: only nullable fields accept null."""

    #: The names of the fields that accept null.
    nullable: ClassVar[frozenset[str]] = frozenset()

    @field_validator("*", mode="before")
    @classmethod
    def _is_not_null(cls, value: Any, field: ValidationInfo) -> Any:  # noqa: ANN401 - any field
        if value is None and field.field_name not in cls.nullable:
            raise rejection("should be left out rather than null")
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the schema in which only nullable fields accept null."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        properties |= {name: without_null(one) for name, one in properties.items() if name not in cls.nullable}
        return schema


def without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field, without the alternative null."""
    match schema:
        case {"anyOf": [*kinds, {"type": "null"}], **others}:
            return {**others, **kinds[0]} if len(kinds) == 1 else {**others, "anyOf": kinds}
        case _:
            return schema


class ResponseModel(BaseModel):
    """A response, or a part of one."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


def shares_fields(source: type, /, **descriptions: str | None) -> Callable[[type[Response]], type[Response]]:
    """Return a decorator that adds fields of a domain class to a response model.

    Fields have the same types as in the domain class; arbitrary JSON becomes a `Document`.

    Args:
        source: The domain class.
        descriptions: The fields to add, with their descriptions; None: no description.
    """
    types = get_type_hints(source)
    return adds_fields(
        **{
            name: (Document if _is_json(types[name]) else types[name], Field(description=description))
            for name, description in descriptions.items()
        }
    )


def adds_fields(**fields: Any) -> Callable[[type[Response]], type[Response]]:  # noqa: ANN401 - types of any fields
    """Return a decorator that adds fields to a response model; a value is a type, or a type and a `Field`."""

    def added(model: type[Response]) -> type[Response]:
        return create_model(
            model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **fields
        )

    return added


def _is_json(kind: Any) -> bool:  # noqa: ANN401 - any type
    """Return whether a type stands for any JSON, or for JSON objects with any members."""
    return kind is Any or any(get_origin(one) is Mapping for one in (kind, *get_args(kind)))


class EmptyRequest(RequestModel):
    """A request without fields."""


def _checked(check: Callable[[str], object]) -> BeforeValidator:
    """Return a validator that rejects the strings for which `check` raises an error; it ignores other types."""

    def validate(value: Any) -> Any:  # noqa: ANN401 - pydantic rejects other types
        if isinstance(value, str):
            try:
                check(value)
            except RequestError as error:
                expected = error.expected if isinstance(error, InvalidArgument) else ""
                raise rejection(f"should be {expected}" if expected else str(error).removeprefix("text ")) from None
        return value

    return BeforeValidator(validate)


def _instant(check: Callable[[str, str], object]) -> BeforeValidator:
    """Return a validator that converts strings with `check`, such as `checks.check_instant`; it rejects other types."""

    def parse(value: Any) -> Any:  # noqa: ANN401 - any JSON
        try:
            return check("value", value if isinstance(value, str) else "")
        except InvalidArgument as error:
            hint = " (in a URL, write + as %2B)" if re.search(r"\d \d\d:?\d\d$", str(value)) else ""
            raise rejection(f"should be {error.expected}{hint}") from None

    return BeforeValidator(parse)


def _check_moment(name: str, text: str) -> str:
    """Return an ISO 8601 time or day unchanged: the service converts it to an instant."""
    checks.check_instant(name, text, timezone="UTC")
    return text


def _refuse_number(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Reject a recurrence that is a number; pydantic rejects other types."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise rejection(checks.NO_UNIT)
    return value


def parse_delay(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Convert a number of seconds, or a duration such as `PT5M` or `90s`, to a timedelta of at most a hundred years."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise rejection("should be a number of seconds, or a duration such as PT5M")
    try:
        delay = durations.parse_duration(value) if isinstance(value, str) else timedelta(seconds=value)
    except InvalidArgument as error:
        raise rejection(f"should be {error.expected}") from None
    except (OverflowError, ValueError):
        delay = timedelta.max
    if not timedelta(0) <= delay <= timedelta(days=MAX_DELAY_DAYS):
        raise rejection("should be a duration between zero and a hundred years")
    return delay


def _parse_policy(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Convert JSON to a retry policy."""
    try:
        return retry.parse(value)
    except InvalidArgument as error:
        raise rejection_of(error) from None
    except TypeError:
        raise rejection(
            f'should be a list of seconds, or {{"kind": …}} with one of the kinds {", ".join(retry.KINDS)}'
        ) from None


def _parse_flag(value: Any) -> Any:  # noqa: ANN401 - pydantic rejects other values
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _parse_integer(value: Any) -> Any:  # noqa: ANN401 - pydantic rejects other values
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value) else value


def _integer_of_float(value: Any) -> Any:  # noqa: ANN401 - pydantic rejects other values
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _readable(value: Any, serialize: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - any JSON
    try:
        # The response nests the value less deeply: if it can be serialized here, it can be serialized there.
        return serialize([[[[[[[[value]]]]]]]])[0][0][0][0][0][0][0][0]
    except (PydanticSerializationError, ValueError, RecursionError):
        # SQL can store documents that are too deep for pydantic. Such a document must not fail the whole response.
        return {"unreadable": "the stored JSON is nested too deeply"}


WITHOUT_NUL: JsonDict = {"pattern": "^[^\\u0000]*$"}
#: Rejects text that Postgres cannot store.
Storable = _checked(partial(json_text.encode, "text", limit=RESULT_LIMIT))
#: Strings without NUL characters.
ShortText = Annotated[str, Field(min_length=1, max_length=255, json_schema_extra=WITHOUT_NUL), Storable]
TokenName = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH, json_schema_extra=WITHOUT_NUL), Storable]
ActionTypeName = Annotated[
    str, Field(min_length=1, max_length=200, examples=["email:send"], json_schema_extra=WITHOUT_NUL), Storable
]
LongText = Annotated[str, Field(min_length=1, max_length=4096, json_schema_extra=WITHOUT_NUL), Storable]
#: A recurrence rule. Its schema has no pattern: a regular expression cannot describe the grammar.
Rule = Annotated[
    str,
    Field(
        min_length=1,
        max_length=checks.RECURRENCE_LIMIT,
        examples=["daily at 09:00", "0 9 * * 1-5", "FREQ=MONTHLY;BYMONTHDAY=-1", "last business day of the month"],
        json_schema_extra=WITHOUT_NUL,
    ),
    Storable,
    BeforeValidator(_refuse_number),
]

#: The schema of instants. Days, and times without an offset where a description mentions them, are accepted, too.
_INSTANT_SCHEMA: JsonDict = {"type": "string", "format": "date-time"}
#: An instant with an offset, a local time, or a day.
Moment = Annotated[str, _instant(_check_moment), WithJsonSchema(_INSTANT_SCHEMA)]
#: An instant with an offset, or the start of a day in UTC.
Instant = Annotated[datetime, _instant(checks.check_instant), WithJsonSchema(_INSTANT_SCHEMA)]
#: An instant with an offset, or the last second of a day in UTC.
LastInstant = Annotated[datetime, _instant(checks.check_end), WithJsonSchema(_INSTANT_SCHEMA)]
#: A duration in ISO 8601, as a regular expression of JSON Schema.
DURATION_PATTERN = (
    "^P([0-9]{1,3}W|[0-9]{1,4}D|([0-9]{1,4}D)?T([0-9]{1,5}H([0-9]{1,6}M)?([0-9]{1,8}S)?"
    "|[0-9]{1,6}M([0-9]{1,8}S)?|[0-9]{1,8}S))$"
)
#: A number of seconds, or a duration. The schema has only ISO 8601 forms; short forms (`90s`) are accepted, too.
Delay = Annotated[
    timedelta,
    BeforeValidator(parse_delay),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": MAX_DELAY_DAYS * 86400},
                {"type": "string", "pattern": DURATION_PATTERN},
            ]
        }
    ),
]
TimeZone = Annotated[str, _checked(checks.check_timezone), WithJsonSchema({"x-schema": "TimeZone"})]
JsonObject = Annotated[dict[str, Any], WithJsonSchema({"x-schema": "JsonObject"})]
#: Stored JSON in a response.
Document = Annotated[Any, WrapSerializer(_readable)]
_SECONDS: JsonDict = {"type": "number", "minimum": 0, "maximum": retry.LONGEST_WAIT_SECONDS}
_DELAYS: JsonDict = {"type": "array", "items": _SECONDS, "minItems": 1, "maxItems": 100}
#: JSON Schemas of the fields of a retry policy, by field type.
_POLICY_FIELDS: dict[Any, JsonDict] = {
    float: _SECONDS,
    retry.Jitter: {"enum": ["none", "full", "equal"]},
    tuple[float, ...]: _DELAYS,
}


def _policy_schema(kind: str, policy: Any) -> JsonDict:  # noqa: ANN401 - a class of policies
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}, **{one.name: _POLICY_FIELDS[one.type] for one in fields(policy)}},
        "required": ["kind", *[one.name for one in fields(policy) if one.default is MISSING]],
        "additionalProperties": False,
    }


RetryPolicy = Annotated[
    Any,
    BeforeValidator(_parse_policy),
    WithJsonSchema({"anyOf": [_DELAYS, *[_policy_schema(kind, policy) for kind, policy in retry.KINDS.items()]]}),
]
StatusName = Annotated[Status, Field(strict=False)]
Id = Annotated[UUID, Field(strict=False)]
#: Also accepts a float without a fraction, such as 3.0, which JSON Schema counts as an integer.
WholeNumber = BeforeValidator(_integer_of_float)
#: A Boolean in a query string.
Flag = Annotated[bool, BeforeValidator(_parse_flag)]
Limit = Annotated[
    int,
    Field(ge=1, le=pages.MAX_PAGE_SIZE, description=f"Maximum number of rows, 1 to {pages.MAX_PAGE_SIZE}."),
    BeforeValidator(_parse_integer),
]
CURSOR = "`next_cursor` of the previous response."


class PageQuery(RequestModel):
    """The page of a list to return."""

    limit: Limit = pages.MAX_PAGE_SIZE
    cursor: Id | None = Field(None, description=CURSOR)


class TeamQuery(RequestModel):
    """Limits the request to one team."""

    team_id: ShortText | None = None


class TeamPageQuery(PageQuery, TeamQuery):
    """The page of a list to return, optionally of one team."""


class TargetFilter(RequestModel):
    """The target of the wanted objects."""

    target_type: ShortText | None = None
    target_id: ShortText | None = Field(None, description="Must be given together with `target_type`.")

    @model_validator(mode="after")
    def _has_type_and_id(self) -> Self:
        if (self.target_type is None) != (self.target_id is None):
            raise rejection("must be given together with target_type", inside="target_id")
        return self

    @property
    def target(self) -> dict[str, str] | None:
        """The wanted target as `{"type", "id"}`; None: any."""
        if self.target_type is None or self.target_id is None:
            return None
        return {"type": self.target_type, "id": self.target_id}


class PageDocument(ResponseModel):
    """A page of a list."""

    next_cursor: UUID | None = Field(description="Cursor of the next page; null on the last page.")


def page_of(name: str, description: str, **rows: Any) -> type[PageDocument]:  # noqa: ANN401 - the type of any rows
    """Return the model of a page of a list.

    Args:
        name: The name of the model.
        description: The docstring of the model.
        rows: The field that holds the rows, such as `facts=list[Fact]`; also `next_cursor` if its type differs.
    """
    return create_model(name, __base__=PageDocument, __doc__=description, **rows)


def _exclude_both(schema: JsonDict, model: type[Any]) -> None:
    """Extend the JSON Schema of a model so that a request cannot contain both alternatives."""
    schema["not"] = {"required": list(model.alternatives)}


class InstantOrDelay(RequestModel):
    """A request that can contain an instant, or a delay from now, but not both."""

    model_config = ConfigDict(json_schema_extra=_exclude_both)
    #: The names of the two fields.
    alternatives: ClassVar[tuple[str, str]] = ("scheduled_at", "delay")

    @model_validator(mode="after")
    def _is_one_of_two(self) -> Self:
        instant, delay = self.alternatives
        if {instant, delay} <= self.model_fields_set:
            raise rejection(f"conflicts with {instant}: give only one of the two", inside=delay)
        return self

    def given(self) -> dict[str, Any]:
        """Return the fields that the request contains, by name; a delay has the name of the instant."""
        instant, delay = self.alternatives
        return {instant if name == delay else name: value for name, value in super().given().items()}


class Scheduling(InstantOrDelay):
    """The due time of an action, or the start of a schedule."""

    scheduled_at: Moment | None = Field(
        None,
        description="Due time of the action, or start of the schedule: with an offset, a local time in `timezone`, or "
        "a day, which means its start in `timezone`, else in UTC. Default for a new action or schedule: now.",
    )
    delay: Delay | None = Field(
        None, description="Instead of `scheduled_at`: seconds from now, or an ISO 8601 duration."
    )
    timezone: TimeZone | None = Field(
        None, description="IANA time zone of local times and, for a schedule, of its rule. Default for a schedule: UTC."
    )


class Ownership(RequestModel):
    """The team that owns a new resource, and its creator."""

    team_id: ShortText | None = Field(
        None,
        description="The team that owns the new resource. Default: the team of the request's token, else none. A "
        "team's token creates resources only for its own team.",
    )
    created_by: ShortText | None = Field(
        None, description="Name of the creator. Default: `token:NAME` or, for `ADMIN_TOKEN`, `api:admin`."
    )


class AttemptOptions(RequestModel):
    """The priority and the maximum number of attempts of an action."""

    priority: Annotated[int, Field(ge=-32768, le=32767), WholeNumber] | None = Field(
        None, description="Actions with lower numbers run first."
    )
    max_attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS_LIMIT), WholeNumber] | None = Field(
        None, description="Maximum number of attempts, including the first."
    )


class Target(RequestModel):
    """The entity that an action or deadline is about."""

    type: ShortText
    id: ShortText


class ActionOptions(AttemptOptions):
    """Options of a new action or schedule."""

    retry: RetryPolicy | None = Field(None, description="Retry policy, or a list of delays in seconds.")
    lock_group: ShortText | None = Field(
        None, description="Actions of a group run one at a time within a team, by priority and due time."
    )
    target: Target | None = None
    metadata: JsonObject | None = Field(None, description="Any JSON object, stored with the action.")


class Record(ResponseModel):
    """Fields that stored resources share."""

    id: UUID
    team_id: str | None
    created_by: str | None
    created_at: datetime
