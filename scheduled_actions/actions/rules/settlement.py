"""Define the outcomes of attempts, and decide the settlement of each; only `decide` chooses a status."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard, assert_never
from uuid import UUID

from scheduled_actions.core import json_text
from scheduled_actions.core.action import ERROR_LIMIT, Claimed, Status
from scheduled_actions.core.retry import RetryPolicy

#: The keys of a result that only reports a failure; `doctor_work.sql` has the same ones.
_FAILURE_KEYS = frozenset({"success", "error", "reason"})


class AttemptedAction(Protocol):
    """The fields that a settlement reads from a claimed action, or from one whose lease has expired."""

    @property
    def attempts(self) -> int:
        """Number of attempts charged before this one."""

    @property
    def lock_group(self) -> str | None:
        """The lock group; None without one."""

    @property
    def lock_group_blocks(self) -> bool:
        """Whether the action keeps its lock group while it waits for a retry, a snooze or its condition."""

    @property
    def limit_keys(self) -> list[str] | None:
        """The keys whose slots the action uses; None without limits."""

    @property
    def last_outcome(self) -> str | None:
        """The outcome of the last history entry; None without entries."""


@dataclass(frozen=True, slots=True)
class _WithReason:
    """An outcome with a reason that is shown to users."""

    reason: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned a result, or None."""

    #: The returned value as JSON; None if the handler returned None.
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised an error, or the action cannot run."""

    reason: str
    #: Whether the error must not be retried.
    is_final: bool = False
    #: Delay requested by the handler; None: the retry policy decides.
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class TimedOut(_WithReason):
    """The handler exceeded its time limit; its thread may still be running."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """The lease expired without an outcome: the process ended."""

    #: Number of other actions that were running in the process.
    neighbours: int


@dataclass(frozen=True, slots=True)
class Released:
    """The action was claimed, but its handler was not called."""

    #: Shown to users; None for an ordinary release.
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler returned `Snooze`: the action runs again later, without using an attempt."""

    delay: timedelta
    #: The state for the next attempt as JSON; None keeps the stored state.
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Skipped(_WithReason):
    """There was nothing to do: the handler returned `Skip`, or the action's deadline prevents the attempt."""


@dataclass(frozen=True, slots=True)
class Cancelled(_WithReason):
    """The handler returned `Cancel`."""


@dataclass(frozen=True, slots=True)
class NoHandler(_WithReason):
    """The build has no handler for the action type."""


@dataclass(frozen=True, slots=True)
class ConditionFailed(_WithReason):
    """The condition was not met, or not in time, so the handler was not called."""


@dataclass(frozen=True, slots=True)
class Expired(_WithReason):
    """The action reached its `expires_at` before the attempt started, so the handler was not called."""

    #: Whether the action fails; otherwise it is skipped.
    fails: bool = False


@dataclass(frozen=True, slots=True)
class ConditionPending:
    """The condition is not met yet and is checked again later; written by `settle_waiting.sql`."""

    reason: str
    #: The interval to the next check; None: until a change, or `changes_at`.
    check_seconds: float | None
    #: When time alone may change the result.
    changes_at: datetime | None = None


Outcome: TypeAlias = (
    Completed
    | Failed
    | TimedOut
    | Crashed
    | Released
    | Snoozed
    | Skipped
    | Cancelled
    | NoHandler
    | ConditionFailed
    | Expired
    | ConditionPending
)


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The outcome of an attempt, and the follow-ups to schedule."""

    outcome: Outcome
    follow_ups: tuple[Mapping[str, Any], ...] = ()


#: What happens to the action's lock group: `free` it for the next member, `keep` it while a blocking member waits, or
#: let it `linger` while a handler that timed out may still be running. Slots of limits are freed, unless they linger.
Hold: TypeAlias = Literal["free", "keep", "linger"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The change of an action's row that stores an outcome."""

    status: Status
    #: Outcome in the history entry; None adds no entry.
    entry: str | None
    #: 1 if the attempt counts, else 0.
    charge: int = 0
    #: Time until the next claim; None leaves `scheduled_at` unchanged.
    delay: timedelta | None = None
    error: str | None = None
    result: str | None = None
    state: str | None = None
    hold: Hold = "free"


@dataclass(frozen=True, slots=True)
class SettlementResult:
    """The statuses that a settlement wrote."""

    #: The new status of each action; an action that lost its claim is missing.
    statuses: dict[UUID, Status]
    #: Whether the announced actions may start.
    announced: bool = False
    #: Whether a waiting action is due now, because something changed after its condition was evaluated.
    has_woken: bool = False


def decide(  # noqa: C901, PLR0911, PLR0912 - one short case per outcome
    action: AttemptedAction, outcome: Outcome, *, max_attempts: int, policy: RetryPolicy, draw: float
) -> Settlement:
    """Decide how the outcome of an attempt changes the action's row.

    Args:
        action: As claimed.
        outcome: The outcome of the attempt.
        max_attempts: The maximum number of attempts, including the first.
        policy: Determines the delay after a failure.
        draw: Uniform in [0, 1), for the policy's jitter.
    """
    # SQL may store a negative count, with which attempts would never end.
    attempt = max(0, action.attempts) + 1
    waits: Hold = "keep" if action.lock_group_blocks else "free"
    late: Hold = "linger" if action.lock_group or action.limit_keys else "free"
    match outcome:
        case Completed(result):
            return Settlement(
                status=Status.COMPLETED, entry=None if _is_first(action) else "completed", charge=1, result=result
            )
        case Failed(reason, is_final=False, retry_after=wait) if attempt < max_attempts:
            return Settlement(
                status=Status.PENDING,
                entry="failed",
                charge=1,
                delay=policy.delay(attempt, draw=draw) if wait is None else wait,
                error=clean(reason),
                hold=waits,
            )
        case Failed(reason):
            return Settlement(status=Status.FAILED, entry="failed", charge=1, error=clean(reason))
        case TimedOut(reason) if attempt < max_attempts:
            return Settlement(
                status=Status.PENDING,
                entry="timed_out",
                charge=1,
                delay=policy.delay(attempt, draw=draw),
                error=clean(reason),
                hold=late,
            )
        case TimedOut(reason):
            return Settlement(status=Status.FAILED, entry="timed_out", charge=1, error=clean(reason), hold=late)
        case Crashed(neighbours) if attempt < max_attempts or neighbours:
            # Another action may have ended the process, so the last attempt of this one does not count. The action runs
            # again alone; if the process dies again, this action is the cause.
            return Settlement(
                status=Status.PENDING,
                entry="crashed",
                charge=1 if attempt < max_attempts else 0,
                delay=timedelta(0),
                error=_CRASHED,
                hold=waits,
            )
        case Crashed():
            return Settlement(status=Status.FAILED, entry="crashed", charge=1, error=_CRASHED)
        case Released(reason):
            return Settlement(
                status=Status.PENDING,
                entry=None,
                error=reason,
                hold="free" if action.last_outcome is None else waits,
            )
        case Snoozed(delay, state):
            return Settlement(status=Status.PENDING, entry="snoozed", delay=delay, state=state, hold=waits)
        case Skipped(reason):
            return Settlement(status=Status.SKIPPED, entry="skipped", charge=1, error=clean(reason))
        case Cancelled(reason):
            return Settlement(status=Status.CANCELLED, entry="cancelled", charge=1, error=clean(reason))
        case NoHandler(reason):
            return Settlement(status=Status.NO_ACTION, entry=None, error=clean(reason))
        case ConditionFailed(reason):
            return Settlement(status=Status.SKIPPED, entry="skipped", error=clean(reason))
        case Expired(reason, fails):
            return Settlement(status=Status.FAILED if fails else Status.SKIPPED, entry="expired", error=clean(reason))
        case ConditionPending(_, check_seconds):
            until_check = None if check_seconds is None else timedelta(seconds=check_seconds)
            return Settlement(status=Status.PENDING, entry="waited", delay=until_check, hold=waits)
    assert_never(outcome)


def reports_failure(result: str) -> bool:
    """Return whether a result only reports a failure: `{"success": false}`, also with `error` or `reason`.

    Args:
        result: Compact JSON, as `json_text.encode` returns it.
    """
    if '"success":false' not in result:  # most results are not parsed
        return False
    found = json_text.decode(result)
    return isinstance(found, dict) and found.get("success") is False and found.keys() <= _FAILURE_KEYS


def is_plain_completion(outcome: Outcome, action: Claimed) -> TypeGuard[Completed]:
    """Whether an outcome is charged and only stores times and a result, with nothing to free except slots.

    Does not consider whether the action's schedule waits for the action to end.
    """
    return type(outcome) is Completed and _is_first(action) and action.lock_group is None and not action.has_follow_ups


def _is_first(action: AttemptedAction) -> bool:
    return action.attempts == 0 and action.last_outcome is None


def history_entry(
    action: AttemptedAction,
    settlement: Settlement,
    *,
    started_at: datetime | None,
    ended_at: datetime | None,
    tick_id: UUID | None = None,
    worker_id: UUID | None = None,
) -> dict[str, Any] | None:
    """Return the history entry of a settlement; None if it adds none."""
    if settlement.entry is None:
        return None
    return {
        "attempt": action.attempts + 1,
        "outcome": settlement.entry,
        **({} if started_at is None else {"started_at": started_at.isoformat()}),
        **({} if ended_at is None else {"ended_at": ended_at.isoformat()}),
        **({} if settlement.error is None else {"error": settlement.error}),
        **({} if tick_id is None else {"tick": str(tick_id)}),
        **({} if worker_id is None else {"worker": str(worker_id)}),
    }


_CRASHED = "the process ended while the handler was running (killed, out of memory, or the host's time limit)"


def clean(reason: str) -> str:
    """Convert a reason to text that PostgreSQL can store: without NUL and lone surrogates, cut to `ERROR_LIMIT`."""
    kept = reason.replace("\0", "�").encode("utf-8", "replace").decode("utf-8")
    return kept if len(kept) <= ERROR_LIMIT else f"{kept[: ERROR_LIMIT - 1]}…"
