"""The action: one row, one piece of work, as a value."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID


#: The largest payload taken, in bytes of its JSON.
PAYLOAD_LIMIT = 256 * 1024
#: The largest result, state or metadata kept, in bytes of its JSON.
RESULT_LIMIT = 64 * 1024
#: The longest error kept, in characters.
ERROR_LIMIT = 4 * 1024
#: The column is an integer, and nobody means more.
MAX_ATTEMPTS_LIMIT = 1000

DedupMode = Literal["latest", "first", "append"]


class Status(StrEnum):
    """Where an action stands; `docs/explanation/life-of-an-action.md` draws every edge."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    NO_ACTION = "no_action"


#: Statuses that only a person leaves.
FINISHED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.SKIPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One row of `scheduled_actions`. All instants are aware and in UTC."""

    #: UUID version 7: ordered by creation.
    id: UUID
    #: Names the handler; never changes.
    action_type: str
    status: Status
    #: Validated input; a list of payloads when scheduled with `dedup_mode="append"`.
    payload: Any
    #: The tenant it belongs to; None outside any team.
    team_id: str | None
    #: The lower number goes first.
    priority: int
    #: Earliest instant of the next claim; moves with retry and snooze.
    scheduled_at: datetime
    #: The recurrence rule's own instant; never moves. None outside a series.
    occurrence_at: datetime | None
    #: Start of the latest attempt.
    started_at: datetime | None
    #: When the action left the living statuses; None before.
    completed_at: datetime | None
    #: Why the latest attempt failed, or why the action was skipped or cancelled.
    error_message: str | None
    #: Attempts charged so far: handlers started, snoozes not counted.
    attempts: int
    #: Attempts allowed, the first included; None until the handler's own value is known.
    max_attempts: int | None
    #: What the handler returned.
    result: Any
    #: What the last snooze left for the next start.
    state: Any
    #: The caller's own notes, and `traceparent`: the trace that its attempts go on with.
    metadata: Mapping[str, Any] | None
    #: An entry per attempt and per change by a person, oldest first.
    history: tuple[Mapping[str, Any], ...]
    target_type: str | None
    target_id: str | None
    user_id: str | None
    created_by: str | None
    schedule_id: UUID | None
    deadline_id: UUID | None
    #: The same intent, within the dedup window; None where nothing is merged.
    dedup_key: str | None
    #: Members of one group (within a team) never run side by side.
    lock_group: str | None
    #: Whether a member that waits for its retry keeps the others out.
    lock_group_blocks: bool
    #: When somebody asked a running attempt to stop.
    cancel_requested_at: datetime | None
    lease_expires_at: datetime | None
    created_at: datetime
    updated_at: datetime
    #: What must hold when it is dispatched; None where nothing must.
    condition: Any = None
    #: The fence of the present claim; None unless it is processing.
    claim_token: UUID | None = None
    #: How its wait stands: `since`, `checks`, `next_check_at`, what is `unmet` and `unmet_since`; None before a check.
    waiting: Mapping[str, Any] | None = None
    #: What is scheduled when it completes, as the SQL function `schedule_actions` takes it; None: nothing.
    on_success: Any = None
    #: What is scheduled when it fails for good.
    on_failure: Any = None
    #: The action whose handler scheduled it, or whose end it follows; None: nobody's. That one may be pruned by now.
    scheduled_by: UUID | None = None
    #: Its own retry policy, as JSON; None: the handler's, else the setting.
    retry: Any = None


class Scheduled(NamedTuple):
    """What scheduling answers."""

    #: The action that will do the work: a new one, or the one merged into.
    id: UUID
    #: Whether the call was merged into an action that was already waiting.
    deduplicated: bool


class Claimed(NamedTuple):
    """An action as a claim reads it: documents as text, instants as epoch seconds, so that no row is unreadable."""

    id: UUID
    action_type: str
    priority: int
    #: Epoch seconds; minus infinity is a value that SQL can hold.
    scheduled_epoch: float
    #: The same instant as the database writes it: exact, for the next claim's keyset.
    scheduled_text: str
    attempts: int
    max_attempts: int | None
    lock_group: str | None
    lock_group_blocks: bool
    #: The outcome of the last entry of its history; None for an action that has none.
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
    dedup_key: str | None
    occurrence_epoch: float | None
    previous_epoch: float | None
    started_epoch: float | None
    created_epoch: float
    #: What must hold before its handler starts; None for nearly all.
    condition_text: str | None
    #: Whether its end has follow-ups that were said when it was scheduled.
    has_follow_ups: bool
    #: The fence: an outcome counts only while the row still bears it.
    token: UUID

    @property
    def scheduled_instant(self) -> datetime:
        """When it came due; the first instant there is for minus infinity."""
        try:
            return datetime.fromtimestamp(self.scheduled_epoch, UTC)
        except (OverflowError, ValueError):
            return datetime.min.replace(tzinfo=UTC)

    @property
    def previous_occurrence_at(self) -> datetime | None:
        """The occurrence before this one; None outside a series and for its first."""
        return _instant(self.previous_epoch)

    def as_action(self, *, payload: Any, state: Any, metadata: Any, history: Any, lease_ends: datetime) -> Action:  # noqa: ANN401 - any JSON
        """Return the claimed action as the value that handlers see, with its documents decoded.

        Raises:
            OverflowError, ValueError: An instant is beyond what a datetime can say.
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
            created_at=created_at,
            updated_at=created_at,
        )


#: The fields that are the same in the row as a claim reads it and in the value that handlers see.
_ALIKE = tuple(name for name in Claimed._fields if name in {field.name for field in fields(Action)})
#: In epoch seconds: the year 9999, the last of a datetime.
READABLE_BEFORE = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


def _instant(epoch: float | None) -> datetime | None:
    return None if epoch is None else datetime.fromtimestamp(epoch, UTC)
