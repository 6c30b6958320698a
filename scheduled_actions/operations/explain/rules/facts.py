"""What has to be known to say why an action has not run, and what is said."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.action import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.core.action import Action
    from scheduled_actions.schedules.model import Schedule
    from scheduled_actions.ticks.rules.plan import Budget


class Code(StrEnum):
    """Every reason there is; `docs/reference/explain.md` says what each means."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    LEASE_EXPIRED = "lease_expired"
    RUNNING = "running"
    CLAIMED = "claimed"
    WAITING_FOR_RETRY = "waiting_for_retry"
    DELIVERY_PUT_OFF = "delivery_put_off"
    SNOOZED = "snoozed"
    WAITING_CYCLE = "waiting_cycle"
    CONDITION_NOT_MET = "condition_not_met"
    NOT_DUE = "not_due"
    NO_HANDLER = "no_handler"
    DISABLED = "disabled"
    REGISTRY_UNREADABLE = "registry_unreadable"
    NO_TICK = "no_tick"
    ROW_LOCKED = "row_locked"
    HANDLER_IS_BACK = "handler_is_back"
    GROUP_LINGERING = "group_lingering"
    GROUP_HELD = "group_held"
    GROUP_BLOCKED = "group_blocked"
    GROUP_TURN = "group_turn"
    SERIES_SKIP = "series_skip"
    SERIES_TURN = "series_turn"
    TOO_LONG = "too_long"
    IN_LINE = "in_line"
    NEXT_TICK = "next_tick"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why an action has not run, or how it ended."""

    code: Code
    #: For people; instants in UTC.
    sentence: str
    #: What to do; None where nothing has to be done.
    remedy: str | None = None
    #: The facts behind the sentence, as JSON takes them; instants as ISO 8601 texts in UTC.
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TickSeen:
    """A tick."""

    id: UUID
    started_at: datetime
    #: None while it is at work, or ended without a word.
    finished_at: datetime | None
    lease_expires_at: datetime
    #: Due actions that it left, as far as it said.
    remaining: int = 0
    #: The host's own limit, as far as it said.
    duration_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldSeen:
    """Who holds the action's lock group."""

    action_id: UUID
    #: Of the holder; None when it is gone.
    status: Status | None
    #: Whether the holder, waiting for its retry, keeps the others out.
    blocks: bool
    #: When the holder is due.
    scheduled_at: datetime | None
    #: Its attempt timed out, and its handler may be at work until then.
    busy_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSeen:
    """A session whose open transaction has locked or changed the action's row."""

    #: The number of the server's process.
    process: int
    #: When its transaction began; None where this role may not see it.
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSeen:
    """The schedule of a planned occurrence, as a claim would find it."""

    schedule: Schedule
    #: Since when another occurrence of it is at work.
    running_since: datetime | None
    #: Since when another one waits for its condition.
    waiting_since: datetime | None
    #: Whether an occurrence before it waits for a build that has its handler.
    has_unhandled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What the build that is asked knows of the action's type."""

    #: The setting `enabled`.
    is_enabled: bool
    #: Every action type of this build; None when the registry cannot be read.
    types: frozenset[str] | None
    #: Why it cannot be read.
    registry_problem: str | None
    max_attempts: int
    timeout_seconds: float
    #: How long it will take: what was measured here, or its timeout.
    expected_seconds: float
    #: What a tick that had only this to do would have.
    budget: Budget
    tick_seconds: float
    #: The rate of the endpoint that a delivery goes to, where it is known to have one.
    endpoint_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """An action and what stands around it, in one moment."""

    action: Action
    #: The database's.
    now: datetime
    here: Here
    last_tick: TickSeen | None = None
    #: The tick that claimed it.
    claimed_by: TickSeen | None = None
    #: Whether that tick has announced its handler.
    is_started: bool = False
    hold: HoldSeen | None = None
    #: The due member of its group that goes first; the action itself, perhaps.
    first_in_group: UUID | None = None
    lock: LockSeen | None = None
    series: SeriesSeen | None = None
    #: Actions each of which comes after the next, the last after the first: it is one of them, or comes after one.
    cycle: Sequence[UUID] = ()
    #: Due actions before it, counted to `AHEAD_MOST`; None where they are not counted.
    ahead: int | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it is pending."""
        return self.action.status is Status.PENDING

    @property
    def is_due(self) -> bool:
        """Whether a tick of this moment would claim it, if nothing stood in the way."""
        return self.is_waiting and self.action.scheduled_at <= self.now


#: Those before an action in the line are counted to here.
AHEAD_MOST = 10_000


def at(moment: datetime) -> str:
    """Return an instant as sentences say it."""
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


def iso(moment: datetime | None) -> str | None:
    """Return an instant as details say it."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
