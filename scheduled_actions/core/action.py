"""The action as a value: one row of `scheduled_actions`, one unit of work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple
from uuid import UUID

#: Maximum size of a payload, in bytes of its JSON.
PAYLOAD_LIMIT = 256 * 1024
#: Maximum size of a result, state or metadata, in bytes of its JSON.
RESULT_LIMIT = 64 * 1024
#: Maximum length of a stored error, in characters.
ERROR_LIMIT = 4 * 1024
#: Maximum of `max_attempts`.
MAX_ATTEMPTS_LIMIT = 1000

DedupMode = Literal["latest", "first", "append"]
#: What happens to an action that has not started by `expires_at`.
OnExpiry = Literal["skip", "fail"]


class Status(StrEnum):
    """Status of an action; `docs/explanation/life-of-an-action.md` has all transitions."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    NO_ACTION = "no_action"


#: Final statuses; only a manual retry leaves them.
FINISHED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.SKIPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One row of `scheduled_actions`. All instants are aware and in UTC."""

    #: UUID version 7: ordered by creation.
    id: UUID
    #: Selects the handler; never changes.
    action_type: str
    status: Status
    #: Validated input; a list of payloads when scheduled with `dedup_mode="append"`.
    payload: Any
    #: The team that owns the action; None: no team.
    team_id: str | None
    #: Lower numbers run first.
    priority: int
    #: Earliest instant of the next claim; changes with retry and snooze.
    scheduled_at: datetime
    #: The recurrence rule's own instant; never changes. None outside a series.
    occurrence_at: datetime | None
    #: Start of the latest settled attempt; None before.
    started_at: datetime | None
    #: When the action reached a final status; None before.
    completed_at: datetime | None
    #: Why the latest attempt failed, or why the action was skipped or cancelled.
    error_message: str | None
    #: Number of attempts so far; starts that ended in a snooze do not count.
    attempts: int
    #: Maximum attempts, including the first; None until the handler's value is known.
    max_attempts: int | None
    #: The handler's return value.
    result: Any
    #: The state of the last snooze, for the next attempt.
    state: Any
    #: The caller's metadata, and `traceparent`: the trace that its attempts continue.
    metadata: Mapping[str, Any] | None
    #: Entries of attempts and of changes by people, oldest first: the first 5 and the last 45. A first attempt that
    #: completes has no entry.
    history: tuple[Mapping[str, Any], ...]
    target_type: str | None
    target_id: str | None
    user_id: str | None
    created_by: str | None
    schedule_id: UUID | None
    deadline_id: UUID | None
    #: Identifies actions with the same intent within the dedup window; None: the action is never merged.
    dedup_key: str | None
    #: Actions of a group (within a team) never run concurrently.
    lock_group: str | None
    #: Whether the group waits while this action waits for a retry, a snooze or its condition.
    lock_group_blocks: bool
    #: When its cancellation was requested, while it was pending or running.
    cancel_requested_at: datetime | None
    lease_expires_at: datetime | None
    created_at: datetime
    updated_at: datetime
    #: Evaluated before each attempt; None: no condition.
    condition: Any = None
    #: Fencing token of the current claim; None unless the action is processing.
    claim_token: UUID | None = None
    #: State of the wait for the condition: `since`, `checks`, `next_check_at`, `unmet` and `unmet_since`; None before
    #: the first check.
    waiting: Mapping[str, Any] | None = None
    #: Actions to schedule when this action completes, as arguments of the SQL function `schedule_actions`.
    on_success: Any = None
    #: Actions to schedule when this action fails permanently, in the same form.
    on_failure: Any = None
    #: Id of the action whose handler scheduled this one, or that it follows; that action may have been pruned.
    scheduled_by: UUID | None = None
    #: Retry policy of this action as JSON; None: the handler's policy, else the setting.
    retry: Any = None
    #: The keys whose limits it counts against while it runs; None: no limits.
    limit_keys: Sequence[str] | None = None
    #: Why claims pass over it although it is due: `limit`, the id of a pause, or `queue:NAME` for an executor.
    parked_by: str | None = None
    #: No attempt starts from this instant on; None: it does not expire.
    expires_at: datetime | None = None
    #: `skip` or `fail`: what happens at `expires_at`; None without it.
    on_expiry: str | None = None

    @property
    def due_since(self) -> datetime:
        """Start of lateness: an action that was scheduled for the past is due since its creation."""
        return max(self.scheduled_at, self.created_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentAction:
    """The action that scheduled another one, as the handler of the other one reads it; fields as those of `Action`."""

    id: UUID
    action_type: str
    #: Its status when it was read: a retry may have changed it since the follow-up was scheduled.
    status: Status
    result: Any
    error_message: str | None
    attempts: int


class ActionSummary(NamedTuple):
    """The values of an action that a list shows; fields as those of `Action`."""

    #: The UUID in lower case.
    id: str
    action_type: str
    #: A value of `Status`.
    status: str
    team_id: str | None
    scheduled_at: datetime
    created_at: datetime
    attempts: int
    max_attempts: int | None
    target_type: str | None
    target_id: str | None
    lock_group: str | None
    error_message: str | None
    #: Whether its condition has been evaluated and makes it wait.
    is_waiting: bool


class Scheduled(NamedTuple):
    """The result of scheduling an action."""

    #: Id of the new action, or of the pending action that it was merged into.
    id: UUID
    #: Whether the new action was merged into a pending action.
    deduplicated: bool


class Claimed(NamedTuple):
    """A claimed action: documents as text and instants as epoch seconds, so that any stored value can be read."""

    id: UUID
    action_type: str
    priority: int
    #: Epoch seconds; may be minus infinity.
    scheduled_epoch: float
    #: The exact instant in the notation of the database, for the keyset of the next claim.
    scheduled_text: str
    attempts: int
    max_attempts: int | None
    lock_group: str | None
    lock_group_blocks: bool
    #: Outcome of the last history entry; None without history.
    last_outcome: str | None
    payload_text: str
    state_text: str | None
    retry_text: str | None
    metadata_text: str | None
    history_text: str | None
    team_id: str | None
    error_message: str | None
    target_type: str | None
    target_id: str | None
    user_id: str | None
    created_by: str | None
    schedule_id: UUID | None
    deadline_id: UUID | None
    scheduled_by: UUID | None
    dedup_key: str | None
    occurrence_epoch: float | None
    previous_epoch: float | None
    started_epoch: float | None
    created_epoch: float
    #: Condition; None for most actions.
    condition_text: str | None
    #: Whether the action was scheduled with follow-ups.
    has_follow_ups: bool
    #: Keys whose limits it counts against; None for most actions.
    limit_keys: list[str] | None
    #: When it expires, in epoch seconds; None for most actions.
    expires_epoch: float | None
    #: Whether it fails when it expires; otherwise it is skipped.
    fails_on_expiry: bool
    #: Why claims passed over it when it expired: `limit`, the id of a pause, or '' for another reason. None: it had not
    #: expired when it was claimed, by the database's clock.
    expired_while: str | None
    #: Fencing token: an outcome is stored only while the row has the same one.
    token: UUID

    @property
    def scheduled_instant(self) -> datetime:
        """When the action became due, in UTC; the minimum datetime if datetime cannot represent the instant."""
        try:
            return datetime.fromtimestamp(self.scheduled_epoch, UTC)
        except (OverflowError, ValueError):
            return datetime.min.replace(tzinfo=UTC)

    @property
    def previous_occurrence_at(self) -> datetime | None:
        """The previous occurrence of the series, in UTC; None outside a series and for its first occurrence.

        Raises:
            OverflowError, ValueError: The instant is outside the range of datetime.
        """
        return _instant(self.previous_epoch)

    def as_action(self, *, payload: Any, state: Any, metadata: Any, history: Any, lease_ends: datetime) -> Action:  # noqa: ANN401 - any JSON
        """Return the action as handlers receive it.

        A claim does not read all fields: `updated_at` equals `created_at`, and `condition`, `waiting`, `on_success`,
        `on_failure`, `retry` and `on_expiry` are None.

        Args:
            payload: The decoded payload.
            state: The decoded state of the last snooze; None without one.
            metadata: The decoded metadata; None without metadata.
            history: The decoded list of history entries; None without history.
            lease_ends: When the lease of the claim expires; aware.

        Raises:
            OverflowError, ValueError: An instant is outside the range of datetime.
        """
        created_at = datetime.fromtimestamp(self.created_epoch, UTC)
        return Action(
            **{name: getattr(self, name) for name in _ALIKE},
            status=Status.PROCESSING,
            payload=payload,
            scheduled_at=datetime.fromtimestamp(self.scheduled_epoch, UTC),
            occurrence_at=_instant(self.occurrence_epoch),
            started_at=_instant(self.started_epoch),
            completed_at=None,
            result=None,
            state=state,
            metadata=metadata,
            history=tuple(history or ()),
            cancel_requested_at=None,
            lease_expires_at=lease_ends,
            claim_token=self.token,
            expires_at=_instant(self.expires_epoch),
            created_at=created_at,
            updated_at=created_at,
        )


#: Names of the fields that `Claimed` and `Action` share.
_ALIKE = tuple(name for name in Claimed._fields if name in {field.name for field in fields(Action)})
#: Epoch seconds of the start of the year 9999, the last year that a datetime can represent.
READABLE_BEFORE = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


def _instant(epoch: float | None) -> datetime | None:
    return None if epoch is None else datetime.fromtimestamp(epoch, UTC)
