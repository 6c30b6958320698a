"""The facts that explain why an action has not run, and the explanation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from scheduled_actions.core.action import Action, Status
from scheduled_actions.schedules.model import PreviousOccurrence, Schedule
from scheduled_actions.ticks.rules.plan import TickBudget

#: Every reason; the values are in lower case. `docs/reference/explain.md` describes them in this order.
Code = StrEnum(
    "Code",
    [
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "SKIPPED",
        "LEASE_EXPIRED",
        "EXECUTOR_TICKET",
        "RUNNING",
        "CLAIMED",
        "EXPIRED",
        "WAITING_FOR_RETRY",
        "DELIVERY_DEFERRED",
        "SNOOZED",
        "WAITING_CYCLE",
        "CONDITION_NOT_MET",
        "NOT_DUE",
        "NO_HANDLER",
        "DISABLED",
        "REGISTRY_UNREADABLE",
        "EXECUTOR_IDLE",
        "NO_TICK",
        "ROW_LOCKED",
        "HANDLER_IS_BACK",
        "PAUSED",
        "PAUSE_ENDED",
        "LIMIT_UNKNOWN",
        "LIMIT_FULL",
        "LIMIT_RATE",
        "GROUP_LINGERING",
        "GROUP_HELD",
        "GROUP_BLOCKED",
        "GROUP_TURN",
        "SERIES_SKIP",
        "SERIES_TURN",
        "TOO_LONG",
        "IN_LINE",
        "EXECUTOR_QUEUE",
        "NEXT_TICK",
    ],
)

#: Maximum number of due actions ahead of an action that are counted.
AHEAD_MOST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The reason why an action has not run, or how it ended."""

    code: Code
    #: For people; instants in UTC.
    sentence: str
    #: What to do; None if there is nothing to do.
    remedy: str | None = None
    #: The facts behind the sentence as JSON values; instants as ISO 8601 strings in UTC.
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TickState:
    """The latest tick, or the one that claimed the action."""

    id: UUID
    started_at: datetime
    #: None while the tick is running, and if its process died.
    finished_at: datetime | None
    lease_expires_at: datetime
    #: Number of due actions that the tick left; None if it did not report them.
    remaining: int | None
    #: The host's time limit in seconds; None if the tick did not report one.
    duration_seconds: float | None


@dataclass(frozen=True, slots=True)
class HoldState:
    """The holder of the action's lock group."""

    action_id: UUID
    #: None if the holder was deleted.
    status: str | None
    #: Whether the holder keeps the group while it waits for its retry; None if it was deleted.
    blocks: bool | None
    #: When the holder is due; None if it was deleted.
    scheduled_at: datetime | None
    #: Until when the holder's handler may still be running after its attempt timed out; None if it did not time out.
    busy_until: datetime | None


@dataclass(frozen=True, slots=True)
class PauseState:
    """The pause that holds the action back."""

    #: `action_type`, `team`, `lock_group` or `limit`.
    kind: str
    name: str
    #: The team whose actions are paused; None: actions of all teams.
    team_id: str | None
    #: None without one, and if the reader may not see it.
    note: str | None
    #: As for `note`.
    paused_by: str | None
    paused_at: datetime
    #: None: until a person resumes it. A time that has passed: the action has not been returned to the claims yet.
    ends_at: datetime | None


@dataclass(frozen=True, slots=True)
class LimitState:
    """The limits of a key of the action, and what holds its slots."""

    limit_key: str
    #: None: no pattern of the settings matches the key.
    pattern: str | None
    across_teams: bool
    #: None: any number.
    at_once: int | None
    in_use: int
    #: Seconds between two starts; None: any rate.
    interval_seconds: float | None
    burst: int | None
    #: Number of actions of the key that may start now.
    room: int
    #: When the rate allows the next start; None without a rate.
    opens_at: datetime | None
    #: At most three actions that hold its slots, the oldest first; only those that the reader may see.
    running: Sequence[UUID]

    @property
    def is_full(self) -> bool:
        """Whether all slots are in use."""
        return self.at_once is not None and self.in_use >= self.at_once


@dataclass(frozen=True, slots=True)
class ExecutorQueueState:
    """The executor of a pending action."""

    name: str
    #: Number of workers that were seen within two minutes and have not ended.
    workers: int
    #: When a worker was last seen, also one that has ended; None: not within the last day.
    last_seen_at: datetime | None
    #: Whether that was within two minutes.
    is_attended: bool
    #: How actions reach the workers.
    carrier: str


@dataclass(frozen=True, slots=True)
class ExecutorClaim:
    """The executor that claimed a processing action."""

    name: str
    #: How actions reach its workers.
    carrier: str
    #: The worker that took the action over; None: none did yet, the worker was deleted, or the reader may not see it.
    worker: str | None
    #: When the worker took the action over, and started its handler; None: not yet.
    taken_at: datetime | None


@dataclass(frozen=True, slots=True)
class SeriesState:
    """The schedule of a planned occurrence, as a claim would read it."""

    schedule: Schedule
    #: Since when another occurrence has been running; None if there is no such occurrence.
    running_since: datetime | None
    #: Since when another occurrence has been waiting for its condition; None if there is no such occurrence.
    waiting_since: datetime | None
    #: Whether another occurrence waits for a build with its handler.
    has_unhandled: bool
    #: The previous occurrence if it is required and has not completed, nor a manual run since.
    previous: PreviousOccurrence | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """The settings and the registry of this build, for one action type."""

    is_enabled: bool
    #: The action types of this build; None if the registry cannot be read.
    types: frozenset[str] | None
    #: Why the registry cannot be read; None if it can.
    registry_problem: str | None
    max_attempts: int
    timeout_seconds: float
    #: Measured duration of the handler, or its timeout, in seconds.
    expected_seconds: float
    #: The time budget of a tick that runs only this action.
    budget: TickBudget
    #: Deliveries per second that the endpoint of a delivery accepts; None without a limit.
    endpoint_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionContext:
    """An action, and everything that decides when it runs, at one moment."""

    action: Action
    #: The database's clock.
    now: datetime
    build: BuildContext
    last_tick: TickState | None = None
    #: The running tick that claimed the action; None if there is none.
    claimed_by: TickState | None = None
    #: Whether that tick has started the handler.
    is_started: bool = False
    hold: HoldState | None = None
    #: The due member of the action's lock group that runs next, possibly the action itself; None if there is none.
    first_in_group: UUID | None = None
    #: Process id of the session whose open transaction has locked or changed the action's row; None without one.
    locked_by: int | None = None
    #: Start of that transaction; None if this role may not see the start.
    locked_since: datetime | None = None
    series: SeriesState | None = None
    #: Actions that wait for one another in this order; the action is one of them, or waits for one.
    cycle: Sequence[UUID] = ()
    #: The condition of the action's stage of a deadline; None without one.
    stage_condition: Any = None
    pause: PauseState | None = None
    #: Its limit keys; empty unless the action is due.
    limits: Sequence[LimitState] = ()
    #: Due actions ahead of the action, counted to `AHEAD_MOST`; of a limited one, those in the queue of its first key,
    #: and of one of an executor, those in the queue of the executor. None: not counted.
    ahead: int | None = None
    #: The executor of a pending action; None if ticks run its type.
    executor: ExecutorQueueState | None = None
    #: The executor whose worker claimed the action; None if it is not processing, or a tick claimed it.
    claimed_for: ExecutorClaim | None = None

    @property
    def is_early(self) -> bool:
        """Whether the action is pending and not due yet."""
        return self.action.status is Status.PENDING and self.action.scheduled_at > self.now

    @property
    def is_never(self) -> bool:
        """Whether no time makes the action due: `scheduled_at` is `infinity`, or only a change makes it due."""
        return self.action.scheduled_at.year == MAXYEAR

    @property
    def at_expiry(self) -> str:
        """What happens at `expires_at`; an action that has been attempted never ends as skipped."""
        return "fails" if self.action.on_expiry == "fail" or self.action.attempts else "is skipped"

    @property
    def timing(self) -> dict[str, Any]:
        """The due time for `details`, with the seconds until then (None: no time makes it due) or since then."""
        scheduled_at = self.action.scheduled_at
        timing: dict[str, Any]
        if not self.is_early:
            timing = {"due_for_seconds": round((self.now - self.action.due_since).total_seconds(), 3)}
        elif self.is_never:
            timing = {"due_in_seconds": None}
        else:
            timing = {"due_in_seconds": round((scheduled_at - self.now).total_seconds(), 3)}
        return {"scheduled_at": iso(scheduled_at), **timing}


def at(moment: datetime) -> str:
    """Format an instant in UTC for a sentence, to the second."""
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


def iso(moment: datetime | None) -> str | None:
    """Format an instant in UTC as ISO 8601, for details."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
