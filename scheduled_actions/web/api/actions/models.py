"""Requests and responses of the routes of actions."""

from typing import Annotated, ClassVar, Literal, Self
from uuid import UUID

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from scheduled_actions.actions import management, search
from scheduled_actions.core.action import Action, Scheduled, Status
from scheduled_actions.operations.explain.rules.facts import Explanation
from scheduled_actions.web.api.limit_models import LimitAndExpiry, LimitAndExpiryOptions, StoredLimitKeys
from scheduled_actions.web.api.models import (
    CURSOR,
    WITHOUT_NUL,
    ActionOptions,
    ActionTypeName,
    AttemptOptions,
    Flag,
    Id,
    Instant,
    JsonObject,
    LongText,
    Ownership,
    PageQuery,
    PatchModel,
    Record,
    RequestModel,
    ResponseModel,
    RetryPolicy,
    Scheduling,
    ShortText,
    StatusName,
    Storable,
    TargetFilter,
    TeamQuery,
    WholeNumber,
    adds_fields,
    page_of,
    rejection,
    shares_fields,
)

#: Follow-up actions: one, or a list.
_FollowUps = JsonObject | Annotated[list[JsonObject], Field(max_length=20)]
#: The maximum number of actions that one request creates.
BATCH_MOST = 1000
_YEAR_SECONDS = 366 * 86400
#: Default of `overdue_seconds`: five ticks, one per minute.
_OVERDUE_SECONDS = 300

_DedupKey = Annotated[str, Field(min_length=1, max_length=512, json_schema_extra=WITHOUT_NUL), Storable]
_After = Annotated[list[Id], Field(max_length=100)]


class HookOptions(RequestModel):
    """A condition before an action, and follow-ups after it."""

    condition: JsonObject | None = Field(
        None,
        description="Evaluated before each attempt; an action with an unmet condition is skipped. "
        '`{"wait": condition, …}` waits until the condition is met; `{"timeout": …}` limits the wait for `after`.',
    )
    on_success: _FollowUps | None = Field(
        None, description="Actions to schedule when the action completes: one, or a list."
    )
    on_failure: _FollowUps | None = Field(
        None, description="Actions to schedule when the action fails permanently: one, or a list."
    )


class AllActionOptions(ActionOptions, HookOptions):
    """Options that actions and schedules share."""

    lock_group_blocks: bool | None = Field(
        None,
        description="Whether the other actions of the lock group also wait while this one waits for a retry, a snooze "
        "or its condition.",
    )
    user_id: ShortText | None = None


class CreateActionRequest(Scheduling, LimitAndExpiryOptions, AllActionOptions, Ownership):
    """A new action; fields are the arguments of `schedule_action`."""

    action_type: ActionTypeName
    payload: JsonObject = Field(description="Validated against the handler's model.")
    dedup_key: _DedupKey | None = Field(
        None,
        description="The new action is merged into a pending action of the same type and team with the same key that "
        "was created within `dedup_window`. Default: a key derived from the payload if the payload has `entity_id`.",
    )
    dedup_window: Annotated[float, Field(ge=0, le=_YEAR_SECONDS, allow_inf_nan=False)] | None = Field(
        None,
        description="How many seconds after its creation an action accepts further actions with its key; 0 disables "
        "merging. Default: the value of the handler, else that of the settings.",
    )
    dedup_mode: Literal["latest", "first", "append"] | None = Field(
        None,
        description="Payload of a merged action: the `latest`, the `first`, or with `append` a list of all payloads. "
        "Default: `latest`.",
    )
    after: _After | None = Field(None, description="Ids of the actions of the same team that must complete first.")


class CreateActionsRequest(RequestModel):
    """New actions: all are scheduled, or none."""

    actions: list[CreateActionRequest] = Field(min_length=1, max_length=BATCH_MOST)


class UpdateActionRequest(PatchModel, Scheduling, LimitAndExpiry, AttemptOptions, HookOptions):
    """Changes to a pending action. Omitted fields keep their values.

    Null removes `limit`, `expires_at`, `condition`, `after`, `on_success` or `on_failure`; other fields cannot be null.
    """

    nullable: ClassVar[frozenset[str]] = frozenset(
        {"limit", "expires_at", "condition", "after", "on_success", "on_failure"}
    )

    payload: JsonObject | None = Field(None, description="Replaces the whole payload.")
    retry: RetryPolicy | None = Field(None, description="Retry policy of this action.")
    metadata: JsonObject | None = Field(None, description="Replaces all metadata.")
    after: _After | None = Field(
        None, description="Ids of the actions of the same team that must complete first; null removes all of them."
    )
    force: bool = Field(default=False, description="Overrides the edit lock (setting `edit_lock_seconds`).")


class CancelActionRequest(RequestModel):
    """Options of a cancellation."""

    reason: LongText | None = Field(None, description="Reason for the cancellation, stored with the action.")
    force: bool = Field(default=False, description="Overrides the edit lock (setting `edit_lock_seconds`).")


class ActionFilterFields(PatchModel, TargetFilter):
    """Filters that select actions; all of them must match."""

    action_type: ActionTypeName | None = None
    team_id: ShortText | None = None
    lock_group: ShortText | None = None
    user_id: ShortText | None = None
    schedule_id: Id | None = None
    deadline_id: Id | None = None
    scheduled_by: Id | None = Field(
        None, description="Id of the action whose handler scheduled the wanted ones, or that they follow."
    )
    due_from: Instant | None = Field(None, description="Inclusive lower bound of `scheduled_at`.")
    due_to: Instant | None = Field(None, description="Exclusive upper bound of `scheduled_at`.")
    completed_to: Instant | None = Field(None, description="Exclusive upper bound of `completed_at`.")
    q: ShortText | None = Field(
        None, description="Part of the type, the dedup key or the lock group, or the beginning of the id."
    )

    def filters(
        self, team_id: str | None, *statuses: Status, unlocked_for_seconds: int | None = None
    ) -> search.ActionFilters:
        """Return the filters of a search.

        Args:
            team_id: Limits the search to this team.
            statuses: Limits the search to these statuses; without any, all statuses.
            unlocked_for_seconds: Leaves out pending actions that are overdue or due within this time; None: no limit.
        """
        return search.ActionFilters(
            statuses=statuses or None,
            action_type=self.action_type,
            team_id=team_id,
            lock_group=self.lock_group,
            user_id=self.user_id,
            target=self.target,
            schedule_id=self.schedule_id,
            deadline_id=self.deadline_id,
            scheduled_by=self.scheduled_by,
            due_from=self.due_from,
            due_to=self.due_to,
            completed_to=self.completed_to,
            q=self.q,
            unlocked_for_seconds=unlocked_for_seconds,
        )


class ActionsQuery(ActionFilterFields, PageQuery):
    """Filters of a list of actions."""

    status: StatusName | None = None


class UpdateActionQuery(RequestModel):
    """Options of an update."""

    force: Flag = Field(default=False, description="Overrides the edit lock (setting `edit_lock_seconds`).")


class ActionCountsQuery(TeamQuery):
    """The team to count, and the number of seconds after which a due action is overdue."""

    overdue_seconds: Annotated[float, Field(ge=0, le=_YEAR_SECONDS, strict=False, allow_inf_nan=False)] = Field(
        _OVERDUE_SECONDS, description="An action is overdue once it has been due for this many seconds."
    )


_FILTERS = ("status", *ActionFilterFields.model_fields)


class _BulkRequest(ActionFilterFields):
    """Filters that select the actions of a bulk change, and the maximum number of actions."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": [name]} for name in (*_FILTERS, "all")]})

    all: Literal[True] | None = Field(
        None,
        description="Required if no filter, not even `status`, is given; the default of `status` still applies.",
    )
    dry_run: bool = Field(default=False, description="Only count the matching actions; change nothing.")
    limit: Annotated[int, Field(ge=1, le=management.BULK_MOST), WholeNumber] = Field(
        1000, description="Maximum number of actions to change."
    )
    cursor: Id | None = Field(None, description=CURSOR)

    @model_validator(mode="after")
    def _has_filter(self) -> Self:
        if self.model_fields_set.isdisjoint({*_FILTERS, "all"}):
            raise rejection(f"must have a filter ({', '.join(_FILTERS)}), or all: true")
        return self


class RetryActionsRequest(_BulkRequest):
    """The actions to retry, all of one status: failed, cancelled or skipped."""

    status: Literal["failed", "cancelled", "skipped"] = "failed"


class CancelActionsRequest(_BulkRequest):
    """Pending actions, and actions without a handler, to cancel."""

    status: Literal["pending", "no_action"] | None = Field(None, description="Default: both statuses.")
    force: bool = Field(
        default=False, description="Includes pending actions that are overdue or due within `edit_lock_seconds`."
    )
    reason: LongText | None = Field(None, description="Reason for the cancellation, stored with each action.")


class DeleteActionsRequest(_BulkRequest):
    """Finished actions to delete."""

    status: Literal["completed", "failed", "cancelled", "skipped"] | None = Field(
        None, description="Default: all four statuses."
    )


@shares_fields(
    Action,
    action_type=None,
    payload="Input of the handler; a list of payloads if the action was scheduled with `dedup_mode` `append`.",
    priority=None,
    max_attempts=None,
    retry="Retry policy; null: that of the handler, else that of the settings.",
    lock_group=None,
    lock_group_blocks=None,
    target_type=None,
    target_id=None,
    user_id=None,
    metadata=None,
    condition="Evaluated before each attempt; null: no condition.",
    on_success="Actions to schedule when the action completes.",
    on_failure="Actions to schedule when the action fails permanently.",
    updated_at=None,
)
class ActionTemplate(Record):
    """Fields that actions and schedules share."""


@shares_fields(
    Action,
    status=None,
    scheduled_at=None,
    occurrence_at=None,
    started_at=None,
    completed_at=None,
    error_message=None,
    attempts=None,
    result=None,
    state=None,
    schedule_id=None,
    deadline_id=None,
    dedup_key=None,
    waiting="Progress of the wait for the condition: `since`, `checks`, `next_check_at`, `unmet`, `unmet_since`; null "
    "before the first check.",
    scheduled_by="Id of the action whose handler scheduled this one, or that this one follows; that action may have "
    "been pruned.",
    cancel_requested_at=None,
    lease_expires_at=None,
    parked_by="Why ticks pass over a due action: `limit` while it is queued for its limit keys, the id of a pause, or "
    "`queue:NAME` while it waits for a worker of its executor; null for other actions.",
    expires_at="No attempt starts from then on; null: the action does not expire.",
    on_expiry="How it ends if it has not started by `expires_at`: `skip` or `fail`; null without `expires_at`.",
    history="Attempts, and changes by people, oldest first: the first 5 and the last 45 entries. A first attempt that "
    "completes has no entry.",
)
class ActionDocument(ActionTemplate):
    """An action: one row, one unit of work."""

    limit: StoredLimitKeys = Field(
        validation_alias=AliasChoices("limit", "limit_keys"),
        description="Limit keys, whose limits apply while the action runs; null: no limits.",
    )


@shares_fields(
    Explanation,
    code=None,
    sentence="The reason, or how the action ended, as a sentence; times are in UTC.",
    remedy="What to do; null if nothing needs to be done.",
    details="The values behind the sentence, such as ids, counts and times.",
)
class ActionExplanation(ResponseModel):
    """An explanation of why an action has not run, or of how it ended."""

    id: UUID


@shares_fields(Scheduled, deduplicated="Whether the action was merged into an existing pending action.")
class ScheduledAction(ActionDocument):
    """A new action, or the pending action that it was merged into."""


ActionPage = page_of(
    "ActionPage",
    "A page of actions, newest first; a page with a `next_cursor` may be short or even empty.",
    actions=list[ActionDocument],
)


@shares_fields(Scheduled, id=None, deduplicated="Whether the action was merged into an existing pending action.")
class ActionReference(ResponseModel):
    """The id of a new action, or of the action that it was merged into."""


class ScheduledActionsBatch(ResponseModel):
    """The ids of the scheduled actions, in the order of the request."""

    actions: list[ActionReference]


@shares_fields(
    management.LatenessStats,
    sample_count=None,
    p50_seconds=None,
    p95_seconds=None,
    max_seconds=None,
)
class Lateness(ResponseModel):
    """The lateness of actions of a type: the seconds from the later of due time and creation to the last start."""


@shares_fields(
    management.ActionCounts,
    due="Number of pending actions whose `scheduled_at` has passed.",
    overdue="Number of pending actions that have been due, and have existed, for at least `overdue_seconds`, and are "
    "neither queued nor paused nor for an executor.",
    oldest_due_seconds="How many seconds the oldest of the due actions that are neither queued nor paused nor for an "
    "executor has existed and been due; null without such actions.",
    queued="Number of due actions that wait in the queue of a limit key.",
    paused="Number of due actions that a pause holds back.",
    for_executors="Number of due actions that wait in the queue of an executor for one of its workers.",
    by_type="Number of actions by action type and status; incomplete for a status in `capped`.",
    capped="Names of the counts that were cut off at 10,000.",
)
@adds_fields(**dict.fromkeys(Status, int))
class ActionCountsDocument(ResponseModel):
    """Numbers of actions by status, of due actions and of overdue actions; each is counted up to 10,000."""

    lateness: dict[str, Lateness] = Field(
        description="Lateness by action type, of the latest 5,000 completed and 5,000 failed actions that ended in the "
        "last hour."
    )


@shares_fields(
    management.BulkResult,
    matched="Number of matching actions that this request found: at most `limit`, in a dry run at most 10,000.",
    changed="Number of actions that this request changed.",
    more="Whether more actions may match.",
    next_cursor="Send as `cursor` to continue; null at the end, and after a dry run.",
)
class BulkResultDocument(ResponseModel):
    """The result of a bulk operation."""

    dry_run: bool = False
