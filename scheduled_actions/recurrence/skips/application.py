"""A rule with its skips: which occurrences are left out, and where the others move.

What a rule gives are candidates. Each candidate stays, is left out, or moves; the occurrences are the instants where
candidates land, each once, in order. A candidate after a moment may move to before it, one before it to after it, and
two may change their order. So a search looks at every candidate that could land between the moment and the best
landing so far, and at no other.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import NeverOccurs
from scheduled_actions.recurrence.model import HORIZON_YEARS, Occurrence
from scheduled_actions.recurrence.phrases import day_text, shortened, time_text
from scheduled_actions.recurrence.skips.causes import BEFORE_WINDOW, MOVES_MOST, Causes
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.recurrence.custom import Functions
    from scheduled_actions.recurrence.model import Rule
    from scheduled_actions.recurrence.skips.causes import Cause
    from scheduled_actions.recurrence.skips.model import Skips

_ONE_DAY = timedelta(days=1)
_ONE_MICROSECOND = timedelta(microseconds=1)
_HORIZON = timedelta(days=HORIZON_YEARS * 366)
#: No occurrence moves further; nor past more than so many candidates of its own rule, as dense as its first week is.
_FURTHEST = timedelta(days=366)
_PASSED_MOST = 500
_WEEK = timedelta(days=7)


class SkippingRule:
    """The occurrences of a rule whose candidates are skipped; pure, and safe to share between threads.

    Args:
        rule: Gives the candidates.
        skips: What is skipped, and what becomes of it.
        functions: Has the one that `skips` may name.
        zone: Whose days and wall clock the skips follow.
        anchor: Aware: how dense the rule is, is measured from there.
        text: The rule as typed, for errors.
        budget: For finding out how dense the rule is.

    Raises:
        RecurrenceInvalid: The function is not registered.
    """

    def __init__(
        self,
        rule: Rule,
        skips: Skips,
        functions: Functions,
        *,
        zone: ZoneInfo,
        anchor: datetime,
        text: str,
        budget: EvaluationBudget,
    ) -> None:
        self._rule = rule
        self._skips = skips
        self._zone = zone
        self._text = text
        self._causes = Causes(skips, zone, functions, text=text)
        self._direction = -_ONE_DAY if skips.then == "preceding" else _ONE_DAY
        #: How far an occurrence may move.
        self._furthest = _FURTHEST if skips.then == "drop" else self._measured(anchor, budget)

    def next_after(self, moment: datetime, budget: EvaluationBudget, /) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`, aware; None once the rule has ended.

        Raises:
            NeverOccurs: Everything is skipped for thirty years.
            BudgetExceeded: Before an occurrence was found.
            RecurrenceInvalid: A function failed.
        """
        if self._causes.is_always_closed:
            raise self._never()
        try:
            return (self._first_kept if self._skips.then == "drop" else self._first_landed)(moment, budget)
        except OverflowError:
            return None  # The calendar ends.

    def left_out(self, start: datetime, end: datetime, budget: EvaluationBudget) -> Iterator[tuple[datetime, str]]:
        """Yield the candidates after `start` and before `end` that are skipped, and why.

        Raises:
            BudgetExceeded: On the way.
        """
        candidate = self._candidate_after(start, budget)
        while candidate is not None and candidate.at < end:
            cause = self._causes.of(candidate.at, budget)
            if cause is not None:
                yield candidate.at, cause.reason
            candidate = self._candidate_after(candidate.at, budget)

    def _first_kept(self, moment: datetime, budget: EvaluationBudget) -> Occurrence | None:
        horizon, cursor = moment + _HORIZON, moment
        while cursor <= horizon:
            candidate = self._candidate_after(cursor, budget)
            if candidate is None:
                return None
            cause = self._causes.of(candidate.at, budget)
            if cause is None:
                return candidate
            _, end = self._causes.stretch(candidate.at, cause, budget)
            cursor = max(candidate.at, end - _ONE_MICROSECOND)
        raise self._never()

    def _first_landed(self, moment: datetime, budget: EvaluationBudget) -> Occurrence | None:
        """Return the first landing after `moment`, with the remarks of all candidates that land there."""
        is_forward = self._direction > timedelta(0)
        horizon = moment + _HORIZON
        cursor = moment
        if is_forward:
            cursor = self._causes.earliest_before(moment, self._furthest, budget) - _ONE_MICROSECOND
        best: Occurrence | None = None
        candidate: Occurrence | None = None
        last = horizon
        while True:
            candidate = self._candidate_after(cursor, budget, is_needed=best is None)
            if candidate is None or candidate.at > last:
                break
            cursor = candidate.at
            landed = self._landed(candidate, budget)
            if landed is None:
                cursor = self._past(candidate.at, budget)
            elif landed.at > moment and (best is None or landed.at < best.at):
                best = landed
                last = best.at if is_forward else self._causes.latest_after(best.at, self._furthest, budget)
            elif best is not None and landed.at == best.at:
                best = Occurrence(best.at, best.remarks + landed.remarks)
        if best is not None:
            return Occurrence(best.at, shortened(best.remarks))
        if candidate is None:
            return None
        raise self._never()

    def _candidate_after(
        self, cursor: datetime, budget: EvaluationBudget, *, is_needed: bool = True
    ) -> Occurrence | None:
        budget.spend()
        try:
            return self._rule.next_after(cursor, budget)
        except NeverOccurs:
            if is_needed:
                raise
            return None

    def _landed(self, candidate: Occurrence, budget: EvaluationBudget) -> Occurrence | None:
        """Return where a candidate lands; None where there is no place near enough."""
        first = cause = self._causes.of(candidate.at, budget)
        if first is None or cause is None:
            return candidate
        wall = self._named(candidate, budget)
        for _ in range(MOVES_MOST):
            remark = None
            if cause.window is not None:
                at = cause.window.end if self._direction > timedelta(0) else cause.window.start - BEFORE_WINDOW
                wall = self._shown(at)
            else:
                day = self._causes.business_day_from(wall.date(), self._direction, budget)
                if day is None:
                    return None
                wall = datetime.combine(day, wall.time())
                at, remark = resolve(wall, self._zone)
            if abs(at - candidate.at) > self._furthest:
                return None
            cause = self._causes.of(at, budget)
            if cause is None:
                return Occurrence(at, (self._told(candidate.at, first, at), *([remark] if remark else [])))
        return None

    def _named(self, candidate: Occurrence, budget: EvaluationBudget) -> datetime:
        """Return the wall time that the rule names for a candidate: not the later one it has where clocks skip that."""
        shown = self._shown(candidate.at)
        earliest = shown - (shown - self._shown(candidate.at - _ONE_DAY) - _ONE_DAY)
        if not candidate.remarks or earliest >= shown or resolve(earliest, self._zone).at != candidate.at:
            return shown
        # Later by the gap, or for cron at its end: then what the rule names in that hour, it named a week ago, too.
        since = resolve(earliest - _WEEK, self._zone).at - _ONE_MICROSECOND
        week_ago = self._candidate_after(since, budget, is_needed=False)
        named = shown if week_ago is None else self._shown(week_ago.at) + _WEEK
        return named if named < shown else earliest

    def _told(self, at: datetime, cause: Cause, to: datetime) -> str:
        shown, moved = self._shown(at), self._shown(to)
        when = f" {time_text(shown)}" if not cause.is_day else ""
        then = f" {time_text(moved)}" if when or moved.time() != shown.time() else ""
        return f"{day_text(shown.date())}{when} {cause.reason}: moved to {day_text(moved.date())}{then}"

    def _past(self, at: datetime, budget: EvaluationBudget) -> datetime:
        """Return the instant after which the next candidate is that is not too far from a place, too, for certain."""
        cause = self._causes.of(at, budget)
        if cause is None:
            return at
        start, end = self._causes.stretch(at, cause, budget)
        if self._direction > timedelta(0):
            return max(at, end - self._furthest - _ONE_MICROSECOND)
        return end - _ONE_MICROSECOND if at - start > self._furthest else at

    def _shown(self, at: datetime) -> datetime:
        return at.astimezone(self._zone).replace(tzinfo=None, fold=0)

    def _measured(self, anchor: datetime, budget: EvaluationBudget) -> timedelta:
        """Return how far an occurrence may move: a dense rule's not as far, for each search goes as far back."""
        first = last = self._candidate_after(anchor - _ONE_MICROSECOND, budget, is_needed=False)
        count = 0
        while first is not None and last is not None and last.at - first.at <= _WEEK:
            count += 1
            if count == _PASSED_MOST:
                return last.at - first.at
            last = self._candidate_after(last.at, budget, is_needed=False)
        return min(_FURTHEST, _WEEK * _PASSED_MOST / max(count, 1))

    def _never(self) -> NeverOccurs:
        return NeverOccurs(
            self._text, f"all that it names within {HORIZON_YEARS} years is skipped ({self._skips.skipped})"
        )
