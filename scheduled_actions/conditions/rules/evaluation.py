"""What becomes of an action that has something to wait for, at the moment it would be dispatched."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from scheduled_actions.conditions.rules.model import MET, Truth, Verdict
from scheduled_actions.core.errors import BudgetExceeded

if TYPE_CHECKING:
    from scheduled_actions.conditions.rules.model import Known
    from scheduled_actions.conditions.rules.plan import Plan


class Ruling(Enum):
    """What becomes of it now."""

    RUN = "run"
    #: Kept, and looked at again later.
    WAIT = "wait"
    #: Ended as skipped.
    SKIP = "skip"
    #: Waited for too long: ended as skipped, and what was wanted then is scheduled.
    EXPIRE = "expire"
    #: Its condition cannot be judged: as an attempt that failed.
    FAIL = "fail"
    #: The world has to be asked first.
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class Progress:
    """How its wait stands."""

    #: The first check; None before it.
    since: datetime | None = None
    #: Those made so far.
    checks: int = 0


@dataclass(frozen=True, slots=True)
class Ruled:
    """What becomes of it, and why."""

    ruling: Ruling
    reason: str = ""
    #: When time alone may change it, the end of its patience included.
    changes_at: datetime | None = None
    #: No further attempt can help.
    is_final: bool = False


RUN = Ruled(Ruling.RUN)


def rule(plan: Plan, known: Known, progress: Progress) -> Ruled:
    """Return what becomes of an action.

    Args:
        plan: What it waits for.
        known: All that the plan needs to be known, what only the world can answer excepted.
        progress: How its wait stands.
    """
    try:
        return _ruled(plan, known, progress)
    except BudgetExceeded as error:
        return Ruled(Ruling.FAIL, f"its condition cannot be judged: {error}", is_final=True)


def _ruled(plan: Plan, known: Known, progress: Progress) -> Ruled:
    verdict = MET if plan.after is None else plan.after.judge(known)
    if verdict.truth is Truth.BROKEN:
        return Ruled(Ruling.FAIL, verdict.reason, is_final=True)
    if verdict.truth is Truth.MET and plan.condition is not None:
        verdict = plan.condition.judge(known)
        if not plan.waits:
            return _at_once(verdict)
    match verdict.truth:
        case Truth.MET:
            return RUN
        case Truth.OPEN:
            return Ruled(Ruling.ASK)
        case _:
            return _waiting(plan, known.now, progress, verdict)


def _at_once(verdict: Verdict) -> Ruled:
    match verdict.truth:
        case Truth.MET:
            return RUN
        case Truth.OPEN:
            return Ruled(Ruling.ASK)
        case Truth.UNMET:
            return Ruled(Ruling.SKIP, f"condition_not_met: {verdict.reason}")
        case Truth.BROKEN:
            return Ruled(Ruling.FAIL, f"its condition cannot be judged: {verdict.reason}")


def _waiting(plan: Plan, now: datetime, progress: Progress, verdict: Verdict) -> Ruled:
    ends_at = _ends_at(plan, progress.since or now)
    if ends_at is not None and now >= ends_at:
        seconds = plan.timeout_seconds or 0
        return Ruled(Ruling.EXPIRE, f"condition_timeout: not met within {seconds:g} s: {verdict.reason}")
    if plan.max_checks is not None and progress.checks + 1 >= plan.max_checks:
        return Ruled(Ruling.EXPIRE, f"max_checks: not met at check {progress.checks + 1}: {verdict.reason}")
    changes = [at for at in (ends_at, verdict.changes_at) if at is not None]
    return Ruled(Ruling.WAIT, verdict.reason, min(changes, default=None))


def _ends_at(plan: Plan, since: datetime) -> datetime | None:
    if plan.timeout_seconds is None:
        return None
    try:
        return since + timedelta(seconds=plan.timeout_seconds)
    except OverflowError:
        return None
