"""Schedules as the management API takes and answers them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import ConfigDict, Field, model_validator

from scheduled_actions.core.action import MAX_ATTEMPTS_LIMIT
from scheduled_actions.core.pages import PAGE_MOST
from scheduled_actions.recurrence.model import Kind
from scheduled_actions.recurrence.preview import COUNT_MOST
from scheduled_actions.schedules.model import Misfire, Overlap, RecurrenceType, ScheduleStatus
from scheduled_actions.web.api.models import (
    ActionTypeName,
    Delay,
    FollowUps,
    Given,
    Id,
    Instant,
    JsonObject,
    Limit,
    LongText,
    Moment,
    RetryPolicy,
    Rule,
    ShortText,
    Shown,
    Target,
    TimeZone,
    WholeNumber,
    about,
    not_both,
)
from scheduled_actions.web.api.schedules.skip_schemas import Skip

#: How many of the next instants a schedule is answered with.
UPCOMING = 5

_Count = Annotated[int, Field(ge=1, le=10_000), WholeNumber]
_Seconds = Annotated[float, Field(ge=0, le=366 * 86400, allow_inf_nan=False)]
_START = ConfigDict(json_schema_extra=not_both("scheduled_at", "delay"))


class _Options(Given):
    """What a schedule is made of beside its type; null stands for the default."""

    model_config = _START

    scheduled_at: Moment | None = Field(
        None, description="Its start: with an offset, or a wall time in `timezone`. Intervals count from it."
    )
    delay: Delay | None = Field(None, description="In place of `scheduled_at`: seconds from now, or a duration.")
    timezone: TimeZone | None = Field(None, description="Whose wall clock the rule follows; UTC unless said.")
    recurrence_type: RecurrenceType | None = Field(None, description="`rolling` counts from the end of the last run.")
    misfire: Misfire | None = Field(None, description="What becomes of occurrences that no tick ran in time.")
    misfire_grace_seconds: _Seconds | None = Field(None, description="How late `skip` still runs one; 300 unless said.")
    catch_up_limit: _Count | None = Field(None, description="How many missed ones `catch_up` runs, the latest.")
    catch_up_seconds: _Seconds | None = Field(None, description="How old those may be; seven days unless said.")
    overlap: Overlap | None = Field(None, description="What one does that comes due while the last still runs.")
    pause_after_failures: _Count | None = Field(None, description="Pause after so many final failures in a row.")
    skip: Skip | None = Field(None, description="What is left out: weekends, holidays, dates, windows.")
    jitter_seconds: _Seconds | None = Field(None, description="Each occurrence is put off by its own share of this.")
    until: Moment | None = Field(None, description="No occurrence after it.")
    remaining: Annotated[int, Field(ge=1, le=2**31 - 1), WholeNumber] | None = Field(
        None, description="Executions until it ends."
    )
    priority: Annotated[int, Field(ge=-32768, le=32767), WholeNumber] | None = None
    max_attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS_LIMIT), WholeNumber] | None = None
    retry: RetryPolicy | None = None
    lock_group: ShortText | None = None
    lock_group_blocks: bool | None = None
    target: Target | None = None
    user_id: ShortText | None = None
    metadata: JsonObject | None = None
    condition: JsonObject | None = Field(
        None,
        description='What must hold when an occurrence would run, else it is skipped; `{"wait": condition, …}` waits.',
    )
    on_success: FollowUps | None = Field(None, description="What to schedule when an occurrence completes.")
    on_failure: FollowUps | None = Field(None, description="What to schedule when one has failed for good.")

    @model_validator(mode="after")
    def _starts_once(self) -> Self:
        if {"scheduled_at", "delay"} <= self.model_fields_set:
            raise about("delay", "says the same as scheduled_at: give one of them")
        return self

    def options(self) -> dict[str, Any]:
        """Return what is given, under the names of `schedule_recurring_action`; null stays null."""
        given = {name: getattr(self, name) for name in self.model_fields_set & set(_Options.model_fields)}
        if "delay" in given:
            given["scheduled_at"] = given.pop("delay")
        if self.target is not None:
            given["target"] = self.target.model_dump()
        return given


class NewSchedule(_Options):
    """A schedule to make, or to bring up to date when its name is there; names as in `schedule_recurring_action`."""

    action_type: ActionTypeName
    payload: JsonObject = Field(description="Of every occurrence; checked against the handler's model.")
    recurrence: Rule = Field(description="An interval, a cron expression, an RRULE, a business day, or a function.")
    name: Annotated[ShortText, Field(max_length=200)] | None = Field(None, description="Names it within its team.")
    team_id: ShortText | None = Field(None, description="The tenant.")
    created_by: ShortText | None = None


class ScheduleChanges(_Options):
    """What is to change of a schedule: what is left out stays, null goes back to the default."""

    payload: JsonObject | None = None
    recurrence: Rule | None = None
    name: Annotated[ShortText, Field(max_length=200)] | None = None

    def options(self) -> dict[str, Any]:
        """Return what is given, under the names of `Schedules.update`."""
        own = {name: getattr(self, name) for name in ("payload", "recurrence", "name") if name in self.model_fields_set}
        return super().options() | own


class SchedulesQuery(Given):
    """Which schedules to list."""

    status: ScheduleStatus | None = None
    action_type: ActionTypeName | None = None
    team_id: ShortText | None = None
    limit: Limit = PAGE_MOST
    cursor: Id | None = Field(None, description="`next_cursor` of the page before.")


class Reason(Given):
    """Why."""

    note: LongText | None = Field(None, description="For whoever looks at it next.")


class Skipping(Reason):
    """Which occurrence to leave out, and why."""

    next_action_id: Id | None = Field(
        None, description="The planned occurrence as it was seen; 409 where another one waits by now."
    )


class Range(Given):
    """Past occurrences to create, both ends included."""

    model_config = ConfigDict(populate_by_name=True)

    start: Instant = Field(alias="from", description="The first instant.")
    end: Instant = Field(alias="to", description="The last instant, not after now.")


class Schedule(Shown):
    """A schedule."""

    id: UUID
    name: str | None
    action_type: str
    payload: Any
    team_id: str | None
    recurrence: str
    kind: str
    timezone: str
    anchor_at: datetime
    recurrence_type: RecurrenceType
    misfire: Misfire
    misfire_grace_seconds: float
    catch_up_limit: int
    catch_up_seconds: float
    overlap: Overlap
    skip: Any
    jitter_seconds: float
    until: datetime | None
    remaining: int | None = Field(description="Executions still to come; null: no end.")
    pause_after_failures: int | None
    consecutive_failures: int
    priority: int
    max_attempts: int | None
    retry: Any
    lock_group: str | None
    lock_group_blocks: bool
    target_type: str | None
    target_id: str | None
    user_id: str | None
    metadata: Any
    condition: Any = Field(description="What must hold when an occurrence would run; null where nothing must.")
    on_success: Any = Field(description="What is scheduled when an occurrence completes.")
    on_failure: Any = Field(description="What is scheduled when one has failed for good.")
    status: ScheduleStatus
    status_note: str | None = Field(description="Why it is paused, has ended, or has nothing planned yet.")
    status_by: str | None
    status_at: datetime | None
    next_action_id: UUID | None = Field(description="The planned occurrence, an action that can be seen and edited.")
    next_occurrence_at: datetime | None
    last_action_id: UUID | None
    last_occurrence_at: datetime | None
    executions: int
    skipped: int
    missed: int
    is_declared: bool = Field(description="Kept in step with a declaration in the code.")
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    problem: str | None = Field(description="What in the stored row cannot be used; null: nothing.")


class ScheduleInWords(Schedule):
    """A schedule, its rule in words, and what comes next."""

    description: str | None = Field(description="Null when the rule cannot be followed any more.")
    upcoming: list[datetime] = Field(
        description=f"The next instants, {UPCOMING} at most; the first is the planned one."
    )
    truncated: bool = Field(
        description="Whether more may follow `upcoming`: the evaluation budget ended, or the rule cannot be followed."
    )


_WARNINGS = Field(description="What the change does not do; a declared schedule is restored by a later deployment.")


class ChangedSchedule(ScheduleInWords):
    """A schedule as a change left it."""

    warnings: list[str] = _WARNINGS


class DeletedSchedule(Schedule):
    """A schedule as it was."""

    warnings: list[str] = _WARNINGS


class SchedulesPage(Shown):
    """Some of the schedules, the newest first."""

    schedules: list[Schedule]
    next_cursor: UUID | None


class Created(Shown):
    """Actions that were created."""

    ids: list[UUID]


class PreviewOf(Given):
    """A rule to look at before relying on it."""

    model_config = ConfigDict(populate_by_name=True)

    rule: Rule
    timezone: TimeZone | None = None
    start: Moment | None = Field(None, alias="from", description="Exclusive; anchors intervals. Left out: now.")
    count: Annotated[int, Field(ge=1, le=COUNT_MOST), WholeNumber] = 10
    until: Moment | None = None
    skip: Skip | None = None


class PreviewedOccurrence(Shown):
    """One instant of a rule."""

    at: str = Field(description="Local time with its offset.")
    utc: str
    remarks: list[str] = Field([], description="What a clock change, a skip or a roll did to it.")


class Preview(Shown):
    """A rule in words, and its next instants."""

    rule: str
    kind: Kind
    description: str
    occurrences: list[PreviewedOccurrence]
    warnings: list[str] = Field(description="What people often get wrong with a rule like this one.")
    truncated: bool = Field(False, description="Whether the evaluation budget ended before `count` was reached.")  # noqa: FBT003 - the default of a field
