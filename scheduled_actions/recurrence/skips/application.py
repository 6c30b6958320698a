"""Apply skips to a rule: decide which occurrences are left out, and where the others move.

A rule yields candidates. Each candidate stays, is left out, or moves. The occurrences are the resulting instants, in
order and without duplicates. Moving can change the order of candidates, so a search evaluates every candidate that can
move to an instant between the given moment and the earliest result so far.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import NeverOccurs
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.custom import Functions
from scheduled_actions.recurrence.model import DAY, HORIZON_YEARS, Occurrence, Rule, resolve
from scheduled_actions.recurrence.phrases import day_text, limit_remarks, time_text
from scheduled_actions.recurrence.skips.causes import BEFORE_WINDOW, MOVES_MOST, Cause, Causes
from scheduled_actions.recurrence.skips.model import Skips

_HORIZON = timedelta(days=HORIZON_YEARS * 366)
#: The maximum distance by which an occurrence moves, and the maximum number of candidates of its rule that it moves
#: past, at the density of the rule's first week.
_FURTHEST = timedelta(days=366)
_PASSED_MOST = 500
_WEEK = timedelta(days=7)


class SkippingRule:
    """A rule with skips; threads can share it.

    Args:
        rule: Yields the candidates.
        skips: The skipped days and windows, and the adjustment.
        functions: The registered functions, one of which `skips` can call.
        zone: The zone of the skips' days and wall clock.
        anchor: Aware; the density of the rule is measured from here by the first search.

    Raises:
        RecurrenceInvalid: The function of the skips is not registered.
    """

    def __init__(
        self,
        rule: Rule,
        skips: Skips,
        functions: Functions,
        *,
        zone: ZoneInfo,
        anchor: datetime,
    ) -> None:
        self._rule = rule
        self._skips = skips
        self._zone = zone
        self._causes = Causes(skips, zone, functions)
        self._is_dropping = skips.adjustment == "drop"
        self._is_forward = skips.adjustment != "preceding"
        #: Maximum distance by which an occurrence moves.
        self._furthest = _FURTHEST
        #: From where the density is measured; None: it is known, or not needed.
        self._unmeasured_from = None if self._is_dropping else anchor

    def next_after(self, moment: datetime, budget: EvaluationBudget, /) -> Occurrence | None:
        """Return the first occurrence strictly after `moment` (aware); None if the rule has ended.

        Raises:
            NeverOccurs: There is no occurrence within thirty years, or all are skipped.
            BudgetExceeded: The search took too many steps.
            RecurrenceInvalid: A project function failed, or returned an invalid result.
            FunctionTimedOut: A project function did not return in time.
        """
        if self._causes.is_always_closed:
            raise self._never()
        try:
            return (self._first_kept if self._is_dropping else self._first_landed)(moment, budget)
        except OverflowError:
            return None  # the calendar ends with the year 9999

    def left_out(self, start: datetime, end: datetime, budget: EvaluationBudget) -> Iterator[tuple[datetime, str]]:
        """Yield the skipped candidates after `start` and before `end`, with the reasons.

        Raises:
            NeverOccurs: The rule has no further candidate within thirty years.
            BudgetExceeded: The search took too many steps.
            RecurrenceInvalid: A project function failed, or returned an invalid result.
            FunctionTimedOut: A project function did not return in time.
        """
        candidate = self._candidate_after(start, budget)
        while candidate is not None and candidate.at < end:
            if (cause := self._causes.of(candidate.at, budget)) is not None:
                yield candidate.at, cause.reason
            candidate = self._candidate_after(candidate.at, budget)

    def _first_kept(self, moment: datetime, budget: EvaluationBudget) -> Occurrence | None:
        horizon, cursor = moment + _HORIZON, moment
        while cursor <= horizon:
            candidate = self._candidate_after(cursor, budget)
            if candidate is None:
                return None
            if (cause := self._causes.of(candidate.at, budget)) is None:
                return candidate
            _, end = self._causes.stretch(candidate.at, cause, budget)
            cursor = max(candidate.at, end - datetime.resolution)
        raise self._never()

    def _first_landed(self, moment: datetime, budget: EvaluationBudget) -> Occurrence | None:
        """Return the first instant after `moment` to which candidates move, with the remarks of all of them."""
        if (anchor := self._unmeasured_from) is not None:
            self._furthest = self._measure(anchor, budget)
            self._unmeasured_from = None
        cursor, last = moment, moment + _HORIZON
        if self._is_forward:
            cursor = self._causes.search_limit(moment, self._furthest, budget, is_forward=True) - datetime.resolution
        best: Occurrence | None = None
        while True:
            candidate = self._candidate_after(cursor, budget, is_needed=best is None)
            if candidate is None or candidate.at > last:
                break
            cursor = candidate.at
            landed = self._land(candidate, budget)
            if landed is None:
                cursor = self._past(candidate.at, budget)
            elif landed.at > moment and (best is None or landed.at < best.at):
                best = landed
                last = (
                    best.at
                    if self._is_forward
                    else self._causes.search_limit(best.at, self._furthest, budget, is_forward=False)
                )
            elif best is not None and landed.at == best.at:
                best = Occurrence(best.at, best.remarks + landed.remarks)
        if best is not None:
            return Occurrence(best.at, limit_remarks(best.remarks))
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

    def _land(self, candidate: Occurrence, budget: EvaluationBudget) -> Occurrence | None:
        """Return a candidate, or the occurrence to which it moves if it is skipped; None if that is too far."""
        first = cause = self._causes.of(candidate.at, budget)
        if first is None or cause is None:
            return candidate
        wall = self._named_wall(candidate, budget)
        for _ in range(MOVES_MOST):
            if cause.window is not None:
                landed = Occurrence(cause.window.end if self._is_forward else cause.window.start - BEFORE_WINDOW)
                wall = self._shown(landed.at)
            else:
                day = self._causes.business_day_from(wall.date(), DAY if self._is_forward else -DAY, budget)
                wall = datetime.combine(day, wall.time())
                landed = resolve(wall, self._zone)
            if abs(landed.at - candidate.at) > self._furthest:
                return None
            if (cause := self._causes.of(landed.at, budget)) is None:
                return Occurrence(landed.at, (self._remark(candidate.at, first, landed.at), *landed.remarks))
        return None

    def _named_wall(self, candidate: Occurrence, budget: EvaluationBudget) -> datetime:
        """Return the wall time that the rule defines for a candidate, even if a DST gap moved the candidate."""
        shown = self._shown(candidate.at)
        earliest = self._shown(candidate.at - DAY) + DAY
        if not candidate.remarks or earliest >= shown or resolve(earliest, self._zone).at != candidate.at:
            return shown
        # The candidate is later by the gap, or for cron at the end of the gap. The wall time that the rule defines is
        # taken from the candidate a week before.
        week_before = self._candidate_after(
            resolve(earliest - _WEEK, self._zone).at - datetime.resolution, budget, is_needed=False
        )
        named = shown if week_before is None else self._shown(week_before.at) + _WEEK
        return named if named < shown else earliest

    def _remark(self, at: datetime, cause: Cause, to: datetime) -> str:
        shown, moved = self._shown(at), self._shown(to)
        from_time = "" if cause.is_day else f" {time_text(shown)}"
        to_time = f" {time_text(moved)}" if from_time or moved.time() != shown.time() else ""
        return f"{day_text(shown.date())}{from_time} {cause.reason}: moved to {day_text(moved.date())}{to_time}"

    def _past(self, at: datetime, budget: EvaluationBudget) -> datetime:
        """Return an instant from which to continue: candidates up to it would have to move too far."""
        if (cause := self._causes.of(at, budget)) is None:
            return at
        start, end = self._causes.stretch(at, cause, budget)
        if self._is_forward:
            return max(at, end - self._furthest - datetime.resolution)
        return end - datetime.resolution if at - start > self._furthest else at

    def _shown(self, at: datetime) -> datetime:
        return at.astimezone(self._zone).replace(tzinfo=None, fold=0)

    def _measure(self, anchor: datetime, budget: EvaluationBudget) -> timedelta:
        """Return the maximum distance of a move: shorter for a dense rule, because each search goes back that far."""
        first = last = self._candidate_after(anchor - datetime.resolution, budget, is_needed=False)
        count = 0
        while first is not None and last is not None and last.at - first.at <= _WEEK:
            count += 1
            if count == _PASSED_MOST:
                return last.at - first.at
            last = self._candidate_after(last.at, budget, is_needed=False)
        return min(_FURTHEST, _WEEK * _PASSED_MOST / max(count, 1))

    def _never(self) -> NeverOccurs:
        return NeverOccurs(
            self._rule.text,
            f"has no occurrence within {HORIZON_YEARS} years that is not skipped ({self._skips.skipped})",
        )
