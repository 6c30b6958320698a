"""What goes in and out of the management API about actions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Field, WrapSerializer, model_validator
from pydantic_core import PydanticSerializationError

from scheduled_actions.actions.management import BULK_MOST
from scheduled_actions.actions.search import Filters
from scheduled_actions.core.action import MAX_ATTEMPTS_LIMIT, Status
from scheduled_actions.core.pages import PAGE_MOST
from scheduled_actions.operations.explain.rules.facts import Code
from scheduled_actions.web.api.models import (
    ActionTypeName,
    DedupKey,
    Delay,
    Flag,
    FollowUps,
    Given,
    GivenParts,
    Id,
    Instant,
    JsonObject,
    Limit,
    LongText,
    Moment,
    RetryPolicy,
    ShortText,
    Shown,
    StatusName,
    Target,
    TimeZone,
    WholeNumber,
    about,
    not_both,
)

#: The most actions that one request creates.
BATCH_MOST = 1000
_SMALLEST, _LARGEST = -32768, 32767
_YEAR_SECONDS = 366 * 86400
#: How long an action has been due when it is overdue: five pings a minute apart have passed it by.
_OVERDUE_SECONDS = 300

Priority = Annotated[int, Field(ge=_SMALLEST, le=_LARGEST, description="The lower number goes first."), WholeNumber]
MaxAttempts = Annotated[int, Field(ge=1, le=MAX_ATTEMPTS_LIMIT, description="The first included."), WholeNumber]
After = Annotated[list[Id], Field(max_length=100)]
Window = Annotated[float, Field(ge=0, le=_YEAR_SECONDS, allow_inf_nan=False)]
_ONE_INSTANT = not_both("scheduled_at", "delay")


class _When(Given):
    """When an action is due, as JSON says it."""

    scheduled_at: Moment | None
    delay: Delay | None
    timezone: TimeZone | None

    @model_validator(mode="after")
    def _is_one_instant(self) -> Self:
        if {"scheduled_at", "delay"} <= self.model_fields_set:
            raise about("delay", "says the same as scheduled_at: give one of them")
        if self.scheduled_at is not None and self.scheduled_at.tzinfo is None and self.timezone is None:
            raise about("scheduled_at", "has no offset: end it with Z or +02:00, or give timezone")
        return self

    def arguments(self) -> dict[str, Any]:
        """Return what is given, under the names of `schedule_action`."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        given = {name: value for name, value in given.items() if value is not None}
        if "delay" in given:
            given["scheduled_at"] = given.pop("delay")
        return given


class NewAction(_When):
    """An action to schedule; the names are those of `schedule_action`."""

    model_config = ConfigDict(json_schema_extra=_ONE_INSTANT)

    action_type: ActionTypeName
    payload: JsonObject = Field(description="Checked against the handler's model.")
    scheduled_at: Moment | None = Field(
        None, description="When it is due: with an offset, or without one and `timezone`. Left out: at once."
    )
    delay: Delay | None = Field(
        None, description="In place of `scheduled_at`: seconds from now, or an ISO 8601 duration."
    )
    timezone: TimeZone | None = Field(None, description="IANA zone of a `scheduled_at` without an offset.")
    team_id: ShortText | None = Field(
        None, description="The tenant. A token that is bound to a team creates only there."
    )
    priority: Priority | None = None
    max_attempts: MaxAttempts | None = None
    retry: RetryPolicy | None = Field(None, description="A policy for this action alone, or a list of seconds.")
    lock_group: ShortText | None = Field(None, description="Members of a group run one at a time, the oldest first.")
    lock_group_blocks: bool | None = Field(None, description="While it waits for its retry, the others wait, too.")
    dedup_key: DedupKey | None = Field(None, description="The same intent: merged into an action that waits under it.")
    dedup_window: Window | None = Field(None, description="For how many seconds; 0 merges nothing.")
    dedup_mode: Literal["latest", "first", "append"] | None = Field(None, description="What becomes of the payloads.")
    target: Target | None = None
    user_id: ShortText | None = None
    metadata: JsonObject | None = Field(None, description="Your own notes.")
    created_by: ShortText | None = Field(None, description="Who asked for it. Left out: the token's name.")
    condition: JsonObject | None = Field(
        None, description='What must hold when it would run, else it is skipped; `{"wait": condition, …}` waits.'
    )
    after: After | None = Field(None, description="Ids of actions that must have completed.")
    on_success: FollowUps | None = Field(None, description="What to schedule when it completes: one action, or a list.")
    on_failure: FollowUps | None = Field(None, description="What to schedule when it has failed for good.")

    def arguments(self) -> dict[str, Any]:
        """Return what is given, under the names of `schedule_action`."""
        given = super().arguments()
        return given | ({"target": self.target.model_dump()} if self.target is not None else {})


class NewActions(Given):
    """Many actions to schedule: all of them, or none."""

    actions: list[NewAction] = Field(min_length=1, max_length=BATCH_MOST)


class ActionChanges(GivenParts, _When):
    """What is to change of a pending action; what is left out stays."""

    model_config = ConfigDict(json_schema_extra=_ONE_INSTANT)
    nullable = frozenset({"condition", "after", "on_success", "on_failure"})

    payload: JsonObject | None = Field(None, description="The whole new payload.")
    scheduled_at: Moment | None = Field(None, description="With an offset, or without one and `timezone`.")
    delay: Delay | None = Field(
        None, description="In place of `scheduled_at`: seconds from now, or an ISO 8601 duration."
    )
    timezone: TimeZone | None = Field(None, description="IANA zone of a `scheduled_at` without an offset.")
    priority: Priority | None = None
    max_attempts: MaxAttempts | None = None
    retry: RetryPolicy | None = Field(None, description="The policy for this action alone.")
    metadata: JsonObject | None = Field(None, description="Replaces what was there.")
    condition: JsonObject | None = Field(
        None, description="What must hold from now on, looked at anew; null: nothing must."
    )
    after: After | None = Field(None, description="Ids of the actions it comes after; null: of none.")
    on_success: FollowUps | None = Field(None, description="What follows its completion; null: nothing.")
    on_failure: FollowUps | None = Field(None, description="What follows its final failure; null: nothing.")
    force: bool = Field(default=False, description="As the query parameter of that name.")

    def arguments(self) -> dict[str, Any]:
        """Return what is given, under the names of `update_action`; None takes away what is there."""
        return dict.fromkeys(self.model_fields_set & self.nullable) | super().arguments()


class ListQuery(Given):
    """Which actions to list."""

    status: StatusName | None = None
    action_type: ActionTypeName | None = None
    team_id: ShortText | None = None
    lock_group: ShortText | None = None
    scheduled_from: Instant | None = Field(None, description="Scheduled then or later.")
    scheduled_to: Instant | None = Field(None, description="Scheduled before then.")
    q: ShortText | None = Field(
        None, description="Part of the type, the dedup key or the lock group, or the beginning of the id."
    )
    limit: Limit = PAGE_MOST
    cursor: Id | None = Field(None, description="`next_cursor` of the page before.")

    def filters(self) -> Filters:
        """Return which actions are meant."""
        return Filters(
            statuses=None if self.status is None else (self.status,),
            action_type=self.action_type,
            team_id=self.team_id,
            lock_group=self.lock_group,
            scheduled_from=self.scheduled_from,
            scheduled_to=self.scheduled_to,
            q=self.q,
        )


class FollowUpsQuery(Given):
    """Which of an action's follow-ups to list."""

    limit: Limit = PAGE_MOST
    cursor: Id | None = Field(None, description="`next_cursor` of the page before.")


class ChangeQuery(Given):
    """How to change an action."""

    force: Flag = Field(default=False, description="Also when it is due within `edit_lock_seconds`.")


class DeleteQuery(ChangeQuery):
    """How to cancel or remove an action."""

    purge: Flag = Field(default=False, description="Remove a finished one, in place of cancelling a waiting one.")
    reason: LongText | None = Field(None, description="Why it is cancelled; kept with it.")


class CountsQuery(Given):
    """What to count."""

    team_id: ShortText | None = None
    overdue_seconds: Annotated[float, Field(ge=0, le=_YEAR_SECONDS, strict=False, allow_inf_nan=False)] = Field(
        _OVERDUE_SECONDS, description="For how long an action has been due when it is overdue."
    )


_FILTERS = ("status", "action_type", "team_id", "lock_group", "scheduled_from", "scheduled_to", "q")


class _Matching(GivenParts):
    """Which actions to change, and how many."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": [name]} for name in (*_FILTERS, "all")]})

    action_type: ActionTypeName | None = None
    team_id: ShortText | None = None
    lock_group: ShortText | None = None
    scheduled_from: Instant | None = Field(None, description="Scheduled then or later.")
    scheduled_to: Instant | None = Field(None, description="Scheduled before then.")
    q: ShortText | None = Field(
        None, description="Part of the type, the dedup key or the lock group, or the beginning of the id."
    )
    all: Literal[True] | None = Field(None, description="In place of a filter: really all of them.")
    dry_run: bool = Field(default=False, description="Only count what matches.")
    limit: Annotated[int, Field(ge=1, le=BULK_MOST), WholeNumber] = Field(1000, description="Change at most so many.")
    cursor: Id | None = Field(None, description="`next_cursor` of the call before.")

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        if self.model_fields_set.isdisjoint({*_FILTERS, "all"}):
            raise about("", f"say which: give one of {', '.join(_FILTERS)}, or all: true")
        return self

    def filters(self, team_id: str | None, *statuses: Status, unlocked_for_seconds: int | None = None) -> Filters:
        """Return which actions are meant, out of those of the statuses; of the team alone where there is one."""
        return Filters(
            statuses=statuses,
            action_type=self.action_type,
            team_id=team_id or self.team_id,
            lock_group=self.lock_group,
            scheduled_from=self.scheduled_from,
            scheduled_to=self.scheduled_to,
            q=self.q,
            unlocked_for_seconds=unlocked_for_seconds,
        )


class RetryMatching(_Matching):
    """Which finished actions to make pending again."""

    status: Literal["failed", "cancelled", "skipped"] = "failed"


class CancelMatching(_Matching):
    """Which waiting actions to cancel."""

    status: Literal["pending", "no_action"] | None = Field(None, description="Left out: both.")
    force: bool = Field(default=False, description="Also those that are due within `edit_lock_seconds`.")
    reason: LongText | None = Field(None, description="Why; kept with each.")


def _readable(value: Any, serialize: Any) -> Any:  # noqa: ANN401 - any JSON, and pydantic's own function
    try:
        # Some levels deeper than it will stand in the answer: what passes here passes there.
        return serialize([[[[[[[[value]]]]]]]])[0][0][0][0][0][0][0][0]
    except (PydanticSerializationError, ValueError, RecursionError):
        # SQL can nest deeper than JSON is written here: one such value must not hide the rest.
        return {"unreadable": "stored JSON that is nested too deep"}


Document = Annotated[Any, WrapSerializer(_readable)]


class Action(Shown):
    """An action: the columns of its row."""

    id: UUID
    action_type: str
    status: Status
    payload: Document = Field(description="A list of payloads when scheduled with `dedup_mode` `append`.")
    team_id: str | None
    priority: int
    scheduled_at: datetime
    occurrence_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    error_message: str | None
    attempts: int
    max_attempts: int | None
    result: Document
    state: Document
    metadata: Document
    history: Document = Field(description="An entry per attempt and per change by a person, oldest first.")
    target_type: str | None
    target_id: str | None
    user_id: str | None
    created_by: str | None
    schedule_id: UUID | None
    deadline_id: UUID | None
    dedup_key: str | None
    lock_group: str | None
    lock_group_blocks: bool
    condition: Document = Field(description="What must hold when it would run; null where nothing must.")
    waiting: Document = Field(description="How its wait stands: since, checks, next_check_at, unmet, unmet_since.")
    on_success: Document = Field(description="What is scheduled when it completes.")
    on_failure: Document = Field(description="What is scheduled when it has failed for good.")
    scheduled_by: UUID | None = Field(
        description="The action whose handler scheduled it, or whose end it follows; pruned, perhaps, by now."
    )
    retry: Document = Field(description="The retry policy of this action alone; null: the handler's, else the setting.")
    cancel_requested_at: datetime | None
    lease_expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


class Explanation(Shown):
    """Why an action has not run, or how it ended."""

    id: UUID
    code: Code
    sentence: str = Field(description="The reason in words; instants in UTC.")
    remedy: str | None = Field(description="What to do; null where nothing has to be done.")
    details: Document = Field(description="The facts behind the sentence.")


class ScheduledAction(Action):
    """An action as scheduling answers it."""

    deduplicated: bool = Field(description="Whether it was merged into one that already waited.")


class ActionsPage(Shown):
    """Some of the actions that match, the newest first."""

    actions: list[Action]
    next_cursor: UUID | None = Field(
        description="Where to go on; null on the last page. A short page, even an empty one, may still have it."
    )


class Scheduled(Shown):
    """Which action will do the work."""

    id: UUID
    deduplicated: bool


class ScheduledActions(Shown):
    """What became of each, in their order."""

    actions: list[Scheduled]


class Lateness(Shown):
    """How late the actions of one type started: their start less the instant that attempt came due, in seconds."""

    measured: int = Field(description="On how many it was measured.")
    p50_seconds: float
    p95_seconds: float
    max_seconds: float


class Counts(Shown):
    """How many actions there are; each status is counted to 10,000."""

    pending: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    skipped: int
    no_action: int
    due: int = Field(description="Pending, and their time has come.")
    overdue: int = Field(description="Due for longer than `overdue_seconds`.")
    oldest_due_seconds: float | None = Field(description="For how long the oldest has been due.")
    by_type: dict[str, dict[Status, int]] = Field(description="By action type and status.")
    capped: list[str] = Field(description="Which of the counts stopped at 10,000.")
    lateness: dict[str, Lateness] = Field(
        description="By action type, of the last hour: the latest 5,000 that completed and as many that failed."
    )


class Changed(Shown):
    """What a change of many did."""

    matched: int = Field(description="Actions found that match and can be changed so; counted to 10,000.")
    changed: int
    more: bool = Field(description="Whether there may be more that match: call again, with `next_cursor`.")
    next_cursor: UUID | None
    dry_run: bool
