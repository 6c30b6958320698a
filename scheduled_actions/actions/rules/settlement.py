"""What an outcome means for the action: `decide` is the one place where a status is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, assert_never

from scheduled_actions.core.action import ERROR_LIMIT, Status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.core.action import Claimed
    from scheduled_actions.core.retry import RetryPolicy


class Begun(Protocol):
    """What a settlement looks at in an action whose attempt has ended: a claimed one, or one whose lease has ended."""

    @property
    def attempts(self) -> int:
        """Attempts charged, the one that has just ended not counted."""
        ...

    @property
    def lock_group(self) -> str | None:
        """Its lock group."""
        ...

    @property
    def lock_group_blocks(self) -> bool:
        """Whether it keeps the others of its group out while it waits for its retry."""
        ...

    @property
    def last_outcome(self) -> str | None:
        """The outcome of the last entry of its history; None for an action that has none."""
        ...


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned."""

    #: What it returned, as JSON; None for None.
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised."""

    reason: str
    #: Whether no further attempt can help.
    is_final: bool = False
    #: When the handler said when; else the policy decides.
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The handler did not return in time; its thread may still be at work."""

    reason: str


@dataclass(frozen=True, slots=True)
class Crashed:
    """The lease ended without a word: the process that ran it is gone."""

    #: How many other actions had been started beside it in that process.
    neighbours: int


@dataclass(frozen=True, slots=True)
class Unstarted:
    """Claimed, but its handler was never called."""

    #: Worth telling; None for an ordinary release.
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asks to go on later."""

    delay: timedelta
    #: As JSON; None keeps what is there.
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """There was nothing to do."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler says that this should not be done any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class NoHandler:
    """No handler of that type is in this build."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unmet:
    """Its condition did not hold, so its handler was never called."""

    reason: str


@dataclass(frozen=True, slots=True)
class Waited:
    """Its condition does not hold yet; it is looked at again later. Written by a statement of its own."""

    reason: str
    check_seconds: float
    #: When time alone may change it.
    changes_at: datetime | None = None


Outcome: TypeAlias = (
    Completed | Failed | TimedOut | Crashed | Unstarted | Snoozed | Skipped | Cancelled | NoHandler | Unmet | Waited
)


@dataclass(frozen=True, slots=True)
class Held:
    """An action that is not dispatched now: what is written of it instead."""

    outcome: Outcome
    follow_ups: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_waiting(self) -> bool:
        """Whether it is looked at again."""
        return isinstance(self.outcome, Waited)


#: What becomes of the action's hold on its lock group: `free` for the next member; `keep` while a blocking member
#: waits; `linger` while a handler that timed out may still be at work.
Hold: TypeAlias = Literal["free", "keep", "linger"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What is written for an outcome."""

    status: Status
    #: The history's word for it; None leaves no entry.
    entry: str | None
    #: 1 when this attempt counts, else 0.
    charge: int = 0
    #: From now to the next claim; None leaves `scheduled_at` where it is.
    delay: timedelta | None = None
    error: str | None = None
    result: str | None = None
    state: str | None = None
    hold: Hold = "free"


def decide(  # noqa: C901, PLR0911, PLR0912 - one case an outcome, each a line or two
    action: Begun, outcome: Outcome, *, max_attempts: int, policy: RetryPolicy, draw: float
) -> Settlement:
    """Return what becomes of `action` after `outcome`.

    Args:
        action: As it was claimed.
        outcome: What happened.
        max_attempts: Attempts allowed, the first included.
        policy: How long to wait after a failure.
        draw: Uniform in [0, 1), for the policy's jitter.
    """
    # SQL can store a negative count: its attempts would never end.
    attempt = max(0, action.attempts) + 1
    waits: Hold = "keep" if action.lock_group_blocks else "free"
    late: Hold = "linger" if action.lock_group else "free"
    match outcome:
        case Completed(result):
            entry = None if _is_first(action) else "completed"
            return Settlement(status=Status.COMPLETED, entry=entry, charge=1, result=result)
        case Failed(reason, is_final=False, retry_after=wait) if attempt < max_attempts:
            delay = policy.delay(attempt, draw=draw) if wait is None else wait
            return Settlement(
                status=Status.PENDING, entry="failed", charge=1, delay=delay, error=clean(reason), hold=waits
            )
        case Failed(reason):
            return Settlement(status=Status.FAILED, entry="failed", charge=1, error=clean(reason))
        case TimedOut(reason) if attempt < max_attempts:
            delay = policy.delay(attempt, draw=draw)
            return Settlement(
                status=Status.PENDING, entry="timed_out", charge=1, delay=delay, error=clean(reason), hold=late
            )
        case TimedOut(reason):
            return Settlement(status=Status.FAILED, entry="timed_out", charge=1, error=clean(reason), hold=late)
        case Crashed(neighbours) if attempt < max_attempts or neighbours:
            # On its last attempt, but not alone: which of them ended the process cannot be known, so none of them is
            # failed for it. Uncharged, it runs again with nothing beside it, and then there is no doubt.
            charge = 1 if attempt < max_attempts else 0
            return Settlement(
                status=Status.PENDING, entry="crashed", charge=charge, delay=timedelta(0), error=_CRASHED, hold=waits
            )
        case Crashed():
            return Settlement(status=Status.FAILED, entry="crashed", charge=1, error=_CRASHED)
        case Unstarted(reason):
            has_begun = action.last_outcome is not None
            return Settlement(status=Status.PENDING, entry=None, error=reason, hold=waits if has_begun else "free")
        case Snoozed(delay, state):
            return Settlement(status=Status.PENDING, entry="snoozed", delay=delay, state=state, hold=waits)
        case Skipped(reason):
            return Settlement(status=Status.SKIPPED, entry="skipped", charge=1, error=clean(reason))
        case Cancelled(reason):
            return Settlement(status=Status.CANCELLED, entry="cancelled", charge=1, error=clean(reason))
        case NoHandler(reason):
            return Settlement(status=Status.NO_ACTION, entry=None, error=clean(reason))
        case Unmet(reason):
            return Settlement(status=Status.SKIPPED, entry="skipped", error=clean(reason))
        case Waited(_, check_seconds):
            return Settlement(status=Status.PENDING, entry="waited", delay=timedelta(seconds=check_seconds), hold=waits)
    assert_never(outcome)


def leaves_only_times(action: Claimed, outcome: Outcome) -> bool:
    """Whether all that `decide` says of the outcome is: completed, charged, with nothing to keep or to free.

    What the end of an occurrence means for its series is another question.
    """
    return (
        type(outcome) is Completed
        and outcome.result is None
        and _is_first(action)
        and action.lock_group is None
        and not action.has_follow_ups
    )


def _is_first(action: Begun) -> bool:
    return action.attempts == 0 and action.last_outcome is None


def history_entry(
    action: Begun,
    settlement: Settlement,
    *,
    started_at: datetime | None,
    ended_at: datetime | None,
    tick_id: UUID | None,
) -> dict[str, Any] | None:
    """Return the entry of the action's history for a settlement; None where it leaves none."""
    if settlement.entry is None:
        return None
    entry: dict[str, Any] = {"attempt": action.attempts + 1, "outcome": settlement.entry}
    if started_at is not None:
        entry["started_at"] = started_at.isoformat()
    if ended_at is not None:
        entry["ended_at"] = ended_at.isoformat()
    if settlement.error is not None:
        entry["error"] = settlement.error
    if tick_id is not None:
        entry["tick"] = str(tick_id)
    return entry


_CRASHED = "the process ended while the handler ran (killed, out of memory, or the host's time limit)"


def clean(reason: str) -> str:
    """Return the reason as Postgres can keep it: no NUL, no lone surrogate, no longer than the limit."""
    kept = reason.replace("\0", "�").encode("utf-8", "replace").decode("utf-8")
    return kept if len(kept) <= ERROR_LIMIT else f"{kept[: ERROR_LIMIT - 1]}…"
