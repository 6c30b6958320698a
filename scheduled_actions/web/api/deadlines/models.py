"""Deadlines as the management API takes and answers them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Field, WithJsonSchema, field_validator, model_validator

from scheduled_actions.core.action import MAX_ATTEMPTS_LIMIT
from scheduled_actions.core.pages import PAGE_MOST
from scheduled_actions.deadlines.model import DeadlineStatus, StageKind, StageState
from scheduled_actions.deadlines.rules.stages import RECIPIENTS_MOST, ROUNDS_MOST, STAGES_MOST
from scheduled_actions.deadlines.service import SHOWN_MOST
from scheduled_actions.notifications.rules.severity import Severity
from scheduled_actions.web.api.models import (
    UUID_SHAPE,
    ActionTypeName,
    Delay,
    Flag,
    Given,
    Id,
    Instant,
    JsonObject,
    Limit,
    LongText,
    Moment,
    Rule,
    ShortText,
    Shown,
    Target,
    TimeZone,
    WholeNumber,
    about,
    not_both,
)
from scheduled_actions.web.api.schedules.skip_schemas import WorkingCalendar

#: Deadlines that one request may move.
MOVED_MOST = 10_000

_Someone = Annotated[
    dict[str, Any], Field(min_length=1), WithJsonSchema({"x-schema": "JsonObject", "minProperties": 1})
]
_Recipient = Annotated[ShortText, Field(examples=["ann@example.org"])] | _Someone
_Recipients = _Recipient | Annotated[list[_Recipient], Field(max_length=RECIPIENTS_MOST)]
_Offset = Annotated[
    ShortText,
    Field(
        max_length=100,
        description='A distance: "60 days before", "PT12H after".',
        examples=["60 days before", "3 business days after at 09:00", "PT12H before"],
    ),
]
_Name = Annotated[ShortText, Field(max_length=200)]


def _one_of(*names: str) -> ConfigDict:
    """Return what a schema says where one of these fields must be there, and not both instants."""
    return ConfigDict(
        json_schema_extra={"anyOf": [{"required": [name]} for name in names], **not_both("due_at", "delay")}
    )


class Reminder(Given):
    """A reminder; without a direction it comes before the due instant."""

    offset: _Offset
    repeat: Rule | None = Field(None, description="The rule by which it comes again until the deadline is resolved.")
    times: Annotated[int, Field(ge=1, le=10_000), WholeNumber] | None = Field(None, description="How often at most.")
    to: _Recipients | None = Field(None, description="Null: the deadline's own recipients.")
    severity: Severity | None = Field(None, description="Null: from the distance.")
    message: LongText | None = Field(None, description="A sentence of your own in its notices.")
    name: _Name | None = None


class Level(Given):
    """A level of a ladder; without a direction it comes after the due instant."""

    model_config = ConfigDict(populate_by_name=True)

    offset: _Offset
    to: _Recipients | None = None
    assign: _Recipients | None = Field(None, description="Who takes the deadline over.")
    holds_while: Literal["unresolved", "unacknowledged"] | None = Field(None, alias="while")
    severity: Severity | None = None
    message: LongText | None = None
    name: _Name | None = None


class Ladder(Given):
    """A ladder that is climbed more than once."""

    levels: Annotated[list[Level], Field(max_length=STAGES_MOST)]
    rounds: Annotated[int, Field(ge=1, le=ROUNDS_MOST), WholeNumber] | None = None
    every: Annotated[ShortText, Field(max_length=200)] | None = Field(None, description="From round to round: a rule.")


class AutoAction(Given):
    """An action that is scheduled for a distance from the due instant, while the deadline is unresolved."""

    offset: _Offset
    action_type: ActionTypeName
    payload: JsonObject = Field({}, description="Checked against the handler's model.")
    name: _Name | None = None
    priority: Annotated[int, Field(ge=-32768, le=32767), WholeNumber] | None = None
    max_attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS_LIMIT), WholeNumber] | None = None
    lock_group: ShortText | None = None


class _Due(Given):
    """When something is due."""

    due_at: Moment | None = Field(None, description="With an offset, or a wall time in `timezone`.")
    delay: Delay | None = Field(None, description="In place of `due_at`: seconds from now, or a duration.")

    @model_validator(mode="after")
    def _is_due_once(self) -> Self:
        if {"due_at", "delay"} <= self.model_fields_set:
            raise about("delay", "says the same as due_at: give one of them")
        return self


class _Definition(Given):
    """What happens before and after the due instant, and to whom."""

    reminders: Annotated[list[_Offset | Reminder], Field(max_length=STAGES_MOST)] | None = None
    escalation: Annotated[list[Level], Field(max_length=STAGES_MOST)] | Ladder | None = None
    auto_actions: Annotated[list[AutoAction], Field(max_length=STAGES_MOST)] | None = None
    recipients: _Recipients | None = Field(None, description="Who is responsible, and gets the reminders.")
    recurrence: Rule | None = Field(None, description="Each occurrence is a deadline of its own.")
    timezone: TimeZone | None = Field(None, description="On whose wall clock days are counted; UTC unless said.")
    calendar: WorkingCalendar | None = Field(None, description="Which days are none, and when work is done.")
    metadata: JsonObject | None = None


class NewDeadline(_Definition, _Due):
    """A deadline to set, or to bring up to date when its name is there; names as in `set_deadline`."""

    model_config = _one_of("due_at", "delay", "recurrence")

    target: Target
    team_id: ShortText | None = Field(None, description="The tenant.")
    name: _Name | None = Field(None, description="Names it within its team while it is unresolved.")
    created_by: ShortText | None = None

    def arguments(self) -> dict[str, Any]:
        """Return what is given, under the names of `set_deadline`."""
        given = self.model_dump(by_alias=True, exclude_none=True)
        if "delay" in given:
            given["due_at"] = given.pop("delay")
        return given


class DeadlineChanges(_Definition):
    """What is to change of a deadline: what is left out stays, null goes back to the default."""

    target: Target | None = None
    note: LongText | None = Field(None, description="For its history.")

    @field_validator("target", mode="before")
    @classmethod
    def _is_about_something(cls, value: Any) -> Any:  # noqa: ANN401 - any field
        if value is None:
            raise about("", "should be left out rather than null")
        return value

    def arguments(self) -> dict[str, Any]:
        """Return what is given, under the names of `Deadlines.update`; None takes one back to its default."""
        return dict.fromkeys(self.model_fields_set) | self.model_dump(by_alias=True, exclude_none=True)


class DeadlinesQuery(Given):
    """Which deadlines to list."""

    status: DeadlineStatus | None = None
    overdue: Flag = Field(False, description="Only those unresolved after their due instant.")  # noqa: FBT003 - the default of a field
    team_id: ShortText | None = None
    target_type: ShortText | None = None
    target_id: ShortText | None = Field(None, description="Of a `target_type`.")
    name: ShortText | None = None
    series_id: Id | None = None
    due_from: Instant | None = None
    due_to: Instant | None = Field(None, description="Exclusive.")
    limit: Limit = PAGE_MOST
    cursor: Id | None = Field(None, description="`next_cursor` of the page before.")

    @model_validator(mode="after")
    def _names_a_type(self) -> Self:
        if (self.target_type is None) != (self.target_id is None):
            raise about("target_id", "goes with target_type: give both")
        return self


class Note(Given):
    """Why."""

    note: LongText | None = Field(None, description="For its history.")


class Completing(Note):
    """A deadline that is met."""

    at: Instant | None = Field(None, description="When it was done; left out: now.")


class Cancelling(Note):
    """A deadline that need not be met."""

    series: bool = Field(False, description="With it the series ends.")  # noqa: FBT003 - the default of a field


class Moving(_Due, Note):
    """Another due instant."""

    model_config = _one_of("due_at", "delay")

    again: bool | None = Field(None, description="Whether what was sent is planned again; null: where it was missed.")


class Acknowledging(Note):
    """Somebody works on it."""

    until: Moment | None = Field(None, description="Until when nagging is silent; null: until it is resolved or moved.")


class Reassigning(Note):
    """Other people."""

    recipients: _Recipient | Annotated[list[_Recipient], Field(min_length=1, max_length=RECIPIENTS_MOST)]


class MovingMany(Note):
    """Other due instants for many deadlines, in one transaction."""

    moves: Annotated[
        dict[str, Instant],
        Field(
            min_length=1,
            max_length=MOVED_MOST,
            json_schema_extra={"propertyNames": {"pattern": f"^{UUID_SHAPE}$"}},
        ),
    ] = Field(description="The new due instant of each, by id.")
    again: bool | None = None

    @field_validator("moves")
    @classmethod
    def _are_ids(cls, value: dict[str, datetime]) -> dict[str, datetime]:
        for one in value:
            try:
                UUID(one)
            except ValueError:
                raise about("", "should have ids of deadlines as its keys") from None
        return value


class Stage(Shown):
    """One thing that happens at a distance from the due instant."""

    key: str
    kind: StageKind
    offset: str
    action_type: str
    repeat: str | None
    times: int | None
    state: StageState
    at: datetime | None = Field(description="The instant of what is planned.")
    occurrence: int
    begun: int = Field(description="How many of its occurrences have begun.")
    last_at: datetime | None


class Deadline(Shown):
    """A deadline."""

    id: UUID
    name: str | None
    team_id: str | None
    target_type: str
    target_id: str
    status: DeadlineStatus
    due_at: datetime
    timezone: str
    calendar: Any
    recipients: list[Any]
    stages: list[Stage]
    recurrence: str | None
    series_id: UUID | None
    occurrence_at: datetime | None
    next_id: UUID | None = Field(description="The deadline that follows in its series, once it is made.")
    revision: int
    paused_at: datetime | None
    missed_at: datetime | None
    closed_at: datetime | None
    closed_by: str | None
    note: str | None
    days_late: int | None = Field(description="Of a completed one: days begun after the due instant; 0: on time.")
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    acknowledged_until: datetime | None
    metadata: Any
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    problem: str | None = Field(description="What in the stored row cannot be used; null: nothing.")


class ForeseenDeadline(Shown):
    """What would come of a deadline that is not written yet."""

    due_at: datetime
    timezone: str
    stages: list[Stage] = Field(description="What has passed is left out, or comes at once.")


class Step(Shown):
    """One line of a timeline."""

    at: datetime | None
    stage: str
    occurrence: int
    state: str = Field(description="`sent done begun failed held_back planned left_out withdrawn`, or a status.")
    note: str | None = Field(description="To whom, or why not.")
    action_id: UUID | None


class NotificationReceipt(Shown):
    """Something that was sent of a deadline, or that a channel did not take."""

    sent_at: datetime
    stage: str = Field(description="The stage and its number.")
    subject: str
    recipient: str | None
    channel: str
    address: str = Field(description="As it may be shown.")
    message_id: str | None = Field(description="What the channel calls it.")
    problem: str | None = Field(description="Why the channel did not take it; null: it did.")
    action_id: UUID = Field(description="What sent it; it may have been pruned since.")
    id: UUID


class DeadlineWithTimeline(Deadline):
    """A deadline, what was sent and done of it, and what will be."""

    timeline: list[Step] = Field(description=f"The latest {SHOWN_MOST} lines, in the order of their instants.")
    notices: list[NotificationReceipt] = Field(
        description=f"The latest {SHOWN_MOST}, the oldest of them first; all of them: GET …/notices."
    )
    history: list[Any]


class NoticesQuery(Given):
    """Which notices of a deadline to list."""

    limit: Limit = PAGE_MOST
    cursor: Id | None = Field(None, description="`next_cursor` of the page before.")


class NoticesPage(Shown):
    """Some of what was sent of a deadline, the newest first; kept for as long as the deadline is."""

    notices: list[NotificationReceipt]
    next_cursor: UUID | None


class DeadlinesPage(Shown):
    """Some of the deadlines, the newest first."""

    deadlines: list[Deadline]
    next_cursor: UUID | None


class Moved(Shown):
    """How many were moved."""

    moved: int
