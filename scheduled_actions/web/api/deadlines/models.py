"""Requests and responses of the routes of deadlines."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from scheduled_actions.deadlines import model, preview, reading, store
from scheduled_actions.deadlines.rules.calendar import LONGEST_DAYS
from scheduled_actions.deadlines.rules.definition import RECIPIENTS_MOST, REPEAT_MOST, STAGES_MOST
from scheduled_actions.notifications.rules.reminder import Severity
from scheduled_actions.web.api.models import (
    UUID_SHAPE,
    ActionTypeName,
    AttemptOptions,
    Delay,
    Flag,
    Id,
    Instant,
    InstantOrDelay,
    JsonObject,
    LongText,
    Moment,
    Ownership,
    PatchModel,
    Record,
    RequestModel,
    ResponseModel,
    Rule,
    ShortText,
    Target,
    TargetFilter,
    TeamPageQuery,
    TimeZone,
    WholeNumber,
    page_of,
    shares_fields,
)
from scheduled_actions.web.api.schedules.models import WorkingCalendar

#: The maximum number of deadlines that one request moves.
MOVED_MOST = 10_000

_Person = Annotated[dict[str, Any], Field(min_length=1), WithJsonSchema({"x-schema": "JsonObject", "minProperties": 1})]
_Recipient = Annotated[ShortText, Field(examples=["ann@example.org"])] | _Person
_Recipients = _Recipient | Annotated[list[_Recipient], Field(max_length=RECIPIENTS_MOST)]
_Name = Annotated[ShortText, Field(max_length=200)]


def _require_one(*names: str) -> ConfigDict:
    """Return the configuration of a model that requires one of these fields, and forbids `due_at` with `delay`."""
    return ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": [name]} for name in names],
            "not": {"required": ["due_at", "delay"]},
        }
    )


_Offset = (
    Annotated[
        ShortText,
        Field(
            max_length=100,
            description='Distance from the due instant: "60 days before", "PT12H after".',
            examples=["60 days before", "3 business days after at 09:00", "PT12H before"],
        ),
    ]
    | Annotated[
        int,
        Field(
            ge=-LONGEST_DAYS,
            le=LONGEST_DAYS,
            description="Days before the due instant for a reminder, from 0; otherwise negative before the due "
            "instant, and positive after it.",
        ),
        WholeNumber,
    ]
)


_Condition = Annotated[
    JsonObject,
    Field(
        description="A condition as in POST /actions, but without `wait`. It is evaluated before each attempt, without "
        "waiting. If it is not met, this occurrence of the stage is skipped.",
    ),
]


class _Stage(RequestModel):
    offset: _Offset
    name: _Name | None = None


class _Notice(_Stage):
    to: _Recipients | None = Field(
        None,
        description="Recipients of this stage. Default: the deadline's recipients for a reminder, the people in "
        "`assign` for an escalation level.",
    )
    severity: Severity | None = Field(
        None, description="Severity of the notifications. Default: derived from the time left until the due instant."
    )
    message: LongText | None = Field(None, description="An additional sentence in the notifications of this stage.")


class ReminderDocument(_Notice):
    """A reminder. An offset without `before` or `after` is before the due instant; an integer is not negative."""

    repeat: Rule | None = Field(
        None, description="Rule by which the reminder is repeated until the deadline is resolved."
    )
    times: Annotated[int, Field(ge=1, le=10_000), WholeNumber] | None = Field(
        None,
        description="Maximum number of times that the reminder is sent, including the first; null: until the deadline "
        "is resolved. Needs `repeat`.",
    )


class EscalationLevel(_Notice):
    """A level of an escalation. An offset without `before` or `after` is after the due instant."""

    assign: _Recipients | None = Field(
        None,
        description="People who become responsible for the deadline at this level. A level needs `assign` or `to`.",
    )
    condition: _Condition | None = None
    stop_when: Literal["resolved", "acknowledged"] | None = Field(
        None, description="`acknowledged`: an acknowledgement also stops this level. Default: `resolved`."
    )


class RepeatedEscalation(RequestModel):
    """Escalation levels, and how often they run."""

    levels: Annotated[list[EscalationLevel], Field(max_length=STAGES_MOST)]
    repeat: Annotated[int, Field(ge=1, le=REPEAT_MOST), WholeNumber] | None = Field(
        None, description="How many times the levels run. Default: 1."
    )
    interval: Annotated[ShortText, Field(max_length=200)] | None = Field(
        None, description="Recurrence rule by which the levels run again; needs `repeat` of 2 or more. Default: daily."
    )


class AutoAction(_Stage, AttemptOptions):
    """An action that runs at an offset from the due instant, unless the deadline has been resolved by then.

    The offset must contain `before` or `after`, or be `when due` or an integer.
    """

    action_type: ActionTypeName
    payload: JsonObject = Field({}, description="Validated against the handler's model.")
    condition: _Condition | None = None
    lock_group: ShortText | None = None


class _DeadlineDue(InstantOrDelay):
    alternatives: ClassVar[tuple[str, str]] = ("due_at", "delay")

    due_at: Moment | None = Field(
        None,
        description="Due instant: a time with an offset, a local time in the deadline's `timezone`, or a day, which "
        "means its last second in that time zone.",
    )
    delay: Delay | None = Field(None, description="Instead of `due_at`: seconds from now, or an ISO 8601 duration.")


class _Definition(RequestModel):
    reminders: Annotated[list[_Offset | ReminderDocument], Field(max_length=STAGES_MOST)] | None = None
    escalation: Annotated[list[EscalationLevel], Field(max_length=STAGES_MOST)] | RepeatedEscalation | None = None
    auto_actions: Annotated[list[AutoAction], Field(max_length=STAGES_MOST)] | None = None
    recipients: _Recipients | None = Field(
        None, description="The responsible people, who receive reminders without `to`."
    )
    recurrence: Rule | None = Field(None, description="Rule of a series: a deadline is created for each occurrence.")
    timezone: TimeZone | None = Field(
        None, description="IANA time zone of local times, in which days are counted. Default: UTC."
    )
    calendar: WorkingCalendar | None = Field(None, description="Non-working days, and working hours.")
    metadata: JsonObject | None = None


class CreateDeadlineRequest(_Definition, _DeadlineDue, Ownership):
    """A deadline to create, or to update by name; fields are the arguments of `set_deadline`."""

    model_config = _require_one("due_at", "delay", "recurrence")

    target: Target
    name: _Name | None = Field(
        None,
        description="Name, unique among the unresolved deadlines of the team, except that those of a series share it. "
        "Without a name, each request creates a new deadline.",
    )

    def given(self) -> dict[str, Any]:
        """Return the fields that the request contains, by name, without null; `delay` is returned as `due_at`."""
        return {
            "due_at" if name == "delay" else name: value for name, value in self.model_dump(exclude_none=True).items()
        }


class ReasonRequest(RequestModel):
    """The reason for a change."""

    reason: LongText | None = Field(None, description="Reason for the change, stored in the deadline's history.")


class UpdateDeadlineRequest(PatchModel, _Definition, ReasonRequest):
    """Changes to a deadline. Omitted fields keep their values; null restores the default.

    `target` and `recurrence` cannot be null.
    """

    nullable: ClassVar[frozenset[str]] = frozenset({*_Definition.model_fields, "reason"})

    target: Target | None = None

    def given(self) -> dict[str, Any]:
        """Return the fields that the request contains, by name; None restores the default of a nullable field."""
        return dict.fromkeys(self.model_fields_set) | self.model_dump(exclude_none=True)


class DeadlinesQuery(TeamPageQuery, TargetFilter):
    """Filters of a list of deadlines."""

    status: model.DeadlineStatus | None = None
    overdue: Flag = Field(
        default=False, description="Only unresolved deadlines that are not paused and whose due instant has passed."
    )
    name: ShortText | None = None
    user_id: ShortText | None = Field(None, description="A recipient, or the `id` of a recipient.")
    series_id: Id | None = None
    due_from: Instant | None = Field(None, description="Inclusive lower bound of `due_at`.")
    due_to: Instant | None = Field(None, description="Exclusive upper bound of `due_at`.")


class CompleteDeadlineRequest(ReasonRequest):
    """Options of a completion."""

    at: Moment | None = Field(
        None,
        description="When the work was done, not in the future: with an offset, or a local time in the deadline's time "
        "zone. Default: now.",
    )


class CancelDeadlineRequest(ReasonRequest):
    """Options of a cancellation."""

    series: bool = Field(
        default=False,
        description="Whether to also cancel the later unresolved deadlines of the series, and to create no further "
        "ones.",
    )


class _Resend(ReasonRequest):
    resend: bool | None = Field(
        None,
        description="Whether stages that have already run are planned again if their new instants are in the future. "
        "Default: only if the deadline was missed.",
    )


class MoveDeadlineRequest(_DeadlineDue, _Resend):
    """A new due instant."""

    model_config = _require_one("due_at", "delay")


class AcknowledgeDeadlineRequest(ReasonRequest):
    """Options of an acknowledgement."""

    until: Moment | None = Field(
        None,
        description="Until when repeated reminders are muted. Default: until the deadline is resolved, moved or "
        "reassigned.",
    )


class ReassignDeadlineRequest(ReasonRequest):
    """The new responsible people."""

    recipients: _Recipient | Annotated[list[_Recipient], Field(min_length=1, max_length=RECIPIENTS_MOST)]


class MoveDeadlinesRequest(_Resend):
    """New due instants of many deadlines."""

    moves: Annotated[
        dict[Id, Moment],
        Field(
            min_length=1,
            max_length=MOVED_MOST,
            json_schema_extra={"propertyNames": {"pattern": f"^{UUID_SHAPE}$"}},
        ),
    ] = Field(description="New due instants by deadline id.")


@shares_fields(
    model.Stage,
    key=None,
    kind=None,
    offset=None,
    action_type=None,
    condition="The condition that must be met before each attempt of an occurrence; null: none.",
    repeat=None,
    times=None,
    state=None,
    at="Instant of the planned or left-out occurrence; null without one.",
    occurrence=None,
    begun="Number of occurrences that have begun.",
    last_at=None,
)
class StageDocument(ResponseModel):
    """A reminder, an escalation level or an auto-action of a deadline."""


@shares_fields(
    model.Deadline,
    name=None,
    target_type=None,
    target_id=None,
    status=None,
    due_at=None,
    timezone=None,
    calendar=None,
    recurrence=None,
    series_id=None,
    occurrence_at=None,
    next_id="Id of the next deadline of the series; null until that deadline exists. If a series was "
    "cancelled, its last deadline contains its own id here.",
    revision=None,
    paused_at=None,
    missed_at=None,
    closed_at=None,
    closed_by=None,
    closed_reason=None,
    days_late="Days between the due instant and the completion, rounded up; 0: on time; null unless completed.",
    acknowledged_at=None,
    acknowledged_by=None,
    acknowledged_until=None,
    metadata=None,
    updated_at=None,
    problem="What is invalid in the stored row; null if the row is valid.",
)
class DeadlineDocument(Record):
    """A deadline with its stages."""

    recipients: list[Any]
    stages: list[StageDocument]


@shares_fields(
    preview.DeadlinePreview,
    due_at=None,
    timezone=None,
)
class DeadlinePreviewDocument(ResponseModel):
    """The due instant and the stages that a deadline would have."""

    stages: list[StageDocument] = Field(
        description="The stages with their next instants; a stage in the past that will not run has the state "
        "`left_out`."
    )


@shares_fields(
    reading.TimelineEntry,
    at=None,
    stage=None,
    occurrence=None,
    state="`planned`, `begun`, `left_out`, `withdrawn`, `sent`, `held_back`, `replaced`, `done`, or another status of "
    "the stage's action, such as `failed`.",
    note="The recipients, a reason or an error; null without one.",
    action_id=None,
)
class TimelineEntryDocument(ResponseModel):
    """An entry of a deadline's timeline."""


@shares_fields(
    store.NotificationReceipt,
    sent_at=None,
    stage="Key of the stage and number of the occurrence, such as `reminder:60 days before#1`.",
    subject=None,
    recipient=None,
    channel=None,
    address="Email address of the recipient, or the redacted address of another channel.",
    message_id="Id that the channel gave the message; null without one.",
    problem="Why the channel rejected the notification; null if the notification was sent.",
    action_id="Id of the action that sent, or tried to send, the notification; the action may have been pruned.",
    id=None,
)
class NotificationReceiptDocument(ResponseModel):
    """A notification that was sent, or that a channel rejected."""


class DeadlineWithTimeline(DeadlineDocument):
    """A deadline with its timeline, notifications and history."""

    timeline: list[TimelineEntryDocument] = Field(
        description=f"The latest {reading.MAX_TIMELINE} entries in chronological order."
    )
    notices: list[NotificationReceiptDocument] = Field(
        description=f"The latest {reading.MAX_TIMELINE} notifications, oldest first; GET …/notices lists all of them."
    )
    history: list[Any]


NotificationPage = page_of(
    "NotificationPage",
    "A page of the notifications of a deadline, newest first. Notifications are kept as long as the deadline.",
    notices=list[NotificationReceiptDocument],
)


DeadlinePage = page_of("DeadlinePage", "A page of deadlines, newest first.", deadlines=list[DeadlineDocument])


class MovedDeadlines(ResponseModel):
    """The number of moved deadlines."""

    moved: int
