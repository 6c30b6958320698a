"""Requests and responses of the routes of schedules."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AliasChoices, Field, WithJsonSchema

from scheduled_actions.core.action import OnExpiry
from scheduled_actions.recurrence import model, phrases, preview
from scheduled_actions.recurrence.skips.model import DATES_MOST, WINDOWS_MOST
from scheduled_actions.schedules.model import Misfire, Overlap, RecurrenceType, Schedule, ScheduleStatus
from scheduled_actions.web.api.actions.models import ActionTemplate, AllActionOptions
from scheduled_actions.web.api.limit_models import Lifetime, LimitKeys, StoredLimitKeys
from scheduled_actions.web.api.models import (
    WITHOUT_NUL,
    ActionTypeName,
    Id,
    JsonObject,
    LongText,
    Moment,
    Ownership,
    RequestModel,
    ResponseModel,
    Rule,
    Scheduling,
    ShortText,
    TeamPageQuery,
    TimeZone,
    WholeNumber,
    page_of,
    shares_fields,
)

#: The number of upcoming occurrences in a response.
UPCOMING = 5

_Count = Annotated[int, Field(ge=1, le=10_000), WholeNumber]
_Seconds = Annotated[float, Field(ge=0, le=366 * 86400, allow_inf_nan=False)]
_Name = Annotated[ShortText, Field(max_length=200)]

_DAY = {"type": "string", "format": "date"}
_CALENDAR_NAME = {"type": "string", "minLength": 1, "maxLength": 60, **WITHOUT_NUL}
_HOUR = "([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?"
#: A time of day.
TIME_OF_DAY: dict[str, Any] = {"type": "string", "pattern": f"^{_HOUR}$", "examples": ["09:00"]}
#: A range of times of day.
HOURS = f"^{_HOUR}-{_HOUR}$"
_INSTANT = {"type": "string", "format": "date-time"}
_DAYS = [name for day in phrases.WEEKDAYS for name in (day[:3].lower(), day.lower())]


def object_of(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of an object with only these properties."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


_CALENDAR: dict[str, Any] = {
    "weekends": {"type": "boolean"},
    "holidays": {
        "description": "Public holidays of a country, a subdivision or a market: `US`, `US-CA`, `NYSE`, or an object.",
        "anyOf": [
            {"type": "string", "pattern": "^[A-Za-z0-9]{2,4}(-[A-Za-z0-9]{1,10})?$", "examples": ["US-CA"]},
            object_of({"country": _CALENDAR_NAME, "subdivision": _CALENDAR_NAME}, "country"),
            object_of({"market": _CALENDAR_NAME}, "market"),
        ],
    },
    "dates": {"type": "array", "items": _DAY, "maxItems": DATES_MOST},
    "ranges": {
        "description": "Ranges of dates; both ends are included.",
        "type": "array",
        "items": object_of({"from": _DAY, "to": _DAY}, "from", "to"),
        "maxItems": DATES_MOST,
    },
    "adjustment": {
        "description": "`drop` removes the occurrence; `preceding` and `following` move it to the business day before "
        "or after, or to the edge of a window.",
        "enum": ["drop", "preceding", "following"],
    },
}
_SKIP: dict[str, Any] = {
    **_CALENDAR,
    "windows": {
        "description": "Ranges of times of day (`22:00` to `24:00`), optionally only on some weekdays, or of instants.",
        "type": "array",
        "items": {
            "anyOf": [
                object_of(
                    {
                        "from": TIME_OF_DAY,
                        "to": {"anyOf": [TIME_OF_DAY, {"const": "24:00"}]},
                        "days": {"type": "array", "items": {"enum": _DAYS}, "minItems": 1},
                    },
                    "from",
                    "to",
                ),
                object_of({"from": _INSTANT, "to": _INSTANT}, "from", "to"),
            ]
        },
        "maxItems": WINDOWS_MOST,
    },
    "function": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"},
}


def _with_nulls(properties: dict[str, Any]) -> dict[str, Any]:
    return object_of({name: _or_null(schema) for name, schema in properties.items()})


#: Times without occurrences.
Skip = Annotated[dict[str, Any], WithJsonSchema(_with_nulls(_SKIP))]
#: The working time of a deadline.
WorkingCalendar = Annotated[
    dict[str, Any],
    WithJsonSchema(
        _with_nulls({**_CALENDAR, "hours": object_of({"from": TIME_OF_DAY, "to": TIME_OF_DAY}, "from", "to")})
    ),
]


class _ScheduleOptions(Scheduling, AllActionOptions):
    """Options of a schedule; null means the default."""

    recurrence_type: RecurrenceType | None = Field(
        None,
        description="`fixed` (default): occurrences follow the rule; `rolling`: the interval starts when a run ends.",
    )
    misfire: Misfire | None = Field(
        None, description="What happens to occurrences that no tick claimed in time. Default: `fire_once`."
    )
    misfire_grace_seconds: _Seconds | None = Field(
        None, description="With `misfire` `skip`: how many seconds late an occurrence can still run. Default: 300."
    )
    catch_up_limit: _Count | None = Field(
        None,
        description="With `misfire` `catch_up`: maximum number of missed occurrences that run, the latest ones. "
        "Default: 100.",
    )
    catch_up_seconds: _Seconds | None = Field(
        None,
        description="With `misfire` `catch_up`: maximum age in seconds of the missed occurrences that run. Default: "
        "seven days.",
    )
    overlap: Overlap | None = Field(
        None, description="What happens when an occurrence is due while an earlier one is running. Default: `skip`."
    )
    requires_previous: bool | None = Field(
        None,
        description="Skip an occurrence unless the previous one, or a manual run since, has completed. Default: false.",
    )
    pause_after_failures: _Count | None = Field(
        None, description="Pause the schedule after this many final failures in a row; null: never."
    )
    skip: Skip | None = Field(None, description="Times without occurrences, such as weekends and holidays.")
    jitter_seconds: _Seconds | None = Field(
        None, description="Maximum random delay of an occurrence, in seconds. Default: 0."
    )
    until: Moment | None = Field(
        None, description="Time of the last possible occurrence; a day means its last second. null: no end."
    )
    remaining: Annotated[int, Field(ge=1, le=2**31 - 1), WholeNumber] | None = Field(
        None, description="Number of executions until the schedule ends; null: unlimited."
    )
    limit: LimitKeys | None = Field(
        None,
        description="Keys whose limits in `[limits]` of the settings apply while an occurrence runs: one, or a list.",
    )
    expires_in: Lifetime | None = Field(
        None,
        description="How long after its due time an occurrence may start: seconds, or an ISO 8601 duration. null: it "
        "does not expire.",
    )
    on_expiry: OnExpiry | None = Field(
        None,
        description="With `expires_in`: what happens to an occurrence that has not started by then. Default: `skip`.",
    )


class CreateScheduleRequest(_ScheduleOptions, Ownership):
    """A schedule to create, or to update by name; fields are the arguments of `schedule_recurring_action`."""

    action_type: ActionTypeName
    payload: JsonObject = Field(description="Payload of every occurrence, validated against the handler's model.")
    recurrence: Rule = Field(
        description="An interval, a cron expression, days of the week, an RRULE, a business day, or a function."
    )
    name: _Name | None = Field(
        None, description="Name, unique within the team. Without a name, each request creates a new schedule."
    )


class UpdateScheduleRequest(_ScheduleOptions):
    """Changes to a schedule. Omitted fields keep their values; null restores the default.

    A null `payload` changes nothing; `recurrence` cannot be null.
    """

    payload: JsonObject | None = None
    recurrence: Rule | None = None
    name: _Name | None = None


class SchedulesQuery(TeamPageQuery):
    """Filters of a list of schedules."""

    status: ScheduleStatus | None = None
    action_type: ActionTypeName | None = None


class PauseScheduleRequest(RequestModel):
    """Options of a pause."""

    reason: LongText | None = Field(None, description="Reason for the pause, shown with the schedule.")


class SkipOccurrenceRequest(RequestModel):
    """The occurrence to skip."""

    reason: LongText | None = Field(None, description="Reason for the skip, stored with the skipped occurrence.")
    next_action_id: Id | None = Field(
        None,
        description="Id of the action of the occurrence to skip; 409 if another occurrence is planned. Default: the "
        "planned occurrence.",
    )


class BackfillRequest(RequestModel):
    """The range of past occurrences to create."""

    start: Moment = Field(
        alias="from",
        description="Start of the range, inclusive: with an offset, a local time of the schedule, or a day (its "
        "start).",
    )
    end: Moment = Field(
        alias="to",
        description="End of the range, inclusive, not in the future; in the same forms, but a day means its last "
        "second.",
    )


@shares_fields(
    Schedule,
    name=None,
    recurrence=None,
    kind=None,
    timezone=None,
    anchor_at=None,
    recurrence_type=None,
    misfire=None,
    misfire_grace_seconds=None,
    catch_up_limit=None,
    catch_up_seconds=None,
    overlap=None,
    requires_previous="Whether an occurrence is skipped unless the previous one has completed.",
    skip=None,
    jitter_seconds=None,
    until=None,
    remaining="Number of executions until the schedule ends; null: unlimited.",
    pause_after_failures=None,
    on_expiry="What happens to an occurrence that expires; null without `expires_in`.",
    consecutive_failures=None,
    status=None,
    status_reason="Why the schedule is paused, has ended, or has no planned occurrence; null without a reason.",
    status_by=None,
    status_at=None,
    next_action_id="Id of the action of the planned occurrence; for a rolling schedule also of the running occurrence.",
    next_occurrence_at=None,
    last_action_id=None,
    last_occurrence_at=None,
    executions=None,
    skipped=None,
    missed=None,
    is_declared="Whether the code declares the schedule; a deployment that changes any declaration then reverts "
    "updates made through the API, but not a pause.",
    problem="What is invalid in the stored row; null if the row is valid.",
)
class ScheduleDocument(ActionTemplate):
    """A schedule: the stored definition of a recurring action."""

    limit: StoredLimitKeys = Field(
        validation_alias=AliasChoices("limit", "limit_keys"),
        description="Keys whose limits apply while an occurrence runs; null: no limits, or those of the handler.",
    )
    expires_in: float | None = Field(
        validation_alias=AliasChoices("expires_in", "expires_seconds"),
        description="Seconds from the due time of an occurrence until it expires; null: it does not expire.",
    )


class DescribedSchedule(ScheduleDocument):
    """A schedule with its rule in words and its upcoming occurrences."""

    description: str | None = Field(description="The rule in words; null if the rule cannot be evaluated.")
    upcoming: list[datetime] = Field(
        description=f"At most {UPCOMING} occurrences: the planned one, then, for a fixed schedule, those of the rule; "
        "empty if no occurrence is planned."
    )
    truncated: bool = Field(
        description="Whether occurrences may be missing because evaluating the rule failed or took too many steps."
    )


class _WithWarnings(ResponseModel):
    warnings: list[str] = Field(description="Warnings, for example that a deployment can revert the change.")


class ChangedSchedule(_WithWarnings, DescribedSchedule):
    """A schedule after a change, with warnings."""


class DeletedSchedule(_WithWarnings, ScheduleDocument):
    """The last state of a deleted schedule."""


SchedulePage = page_of("SchedulePage", "A page of schedules, newest first.", schedules=list[ScheduleDocument])


class CreatedActions(ResponseModel):
    """The ids of the created actions."""

    ids: list[UUID]


class PreviewRequest(RequestModel):
    """A rule to preview."""

    rule: Rule
    timezone: TimeZone | None = Field(None, description="IANA time zone of the rule and of local times. Default: UTC.")
    start: Moment | None = Field(
        None, alias="from", description="Start of the preview, exclusive. Intervals count from the start. Default: now."
    )
    count: Annotated[int, Field(ge=1, le=preview.COUNT_MOST), WholeNumber] = 10
    until: Moment | None = Field(
        None, description="Time of the last possible occurrence; a day means its last second. null: no end."
    )
    skip: Skip | None = None


class PreviewedOccurrence(ResponseModel):
    """An occurrence of a rule."""

    at: str = Field(description="Local time with its offset.")
    utc: str
    remarks: list[str] = Field([], description="Effects of a DST change, of a skip, or of a move to a business day.")


class Preview(ResponseModel):
    """A rule in words, and its occurrences."""

    rule: str
    kind: model.Kind
    description: str
    occurrences: list[PreviewedOccurrence]
    warnings: list[str] = Field(description="Warnings about likely mistakes in the rule.")
    truncated: bool = Field(
        default=False, description="Whether the evaluation budget was used up before `count` occurrences were found."
    )
