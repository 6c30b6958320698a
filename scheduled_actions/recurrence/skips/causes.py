"""Determine whether and why an instant is skipped, and find the stretch of skipped time around it."""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import NamedTuple
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.custom import CALL_STEPS, Functions, skip_reason, unregistered
from scheduled_actions.recurrence.model import DAY, HORIZON_YEARS, resolve
from scheduled_actions.recurrence.phrases import join
from scheduled_actions.recurrence.skips.model import DailyWindow, Skips, Span, is_always_closed

#: Where clocks change around midnight, a day begins twice, or late. This is longer than any shift in zones that still
#: have clock changes.
_MARGIN = timedelta(hours=3)
#: The dates on which windows around a day may begin: two dates before if a zone skipped a whole day, and one date
#: after if a zone repeated one.
_DATES_AROUND = (-2 * DAY, -DAY, 0 * DAY, DAY)
#: Maximum number of moves of a candidate out of consecutive skips; after that, the candidate is left out.
MOVES_MOST = 50
#: Preceding adjustments move an occurrence to this time before a window.
BEFORE_WINDOW = timedelta(minutes=1)


class Cause(NamedTuple):
    """The reason why an instant is skipped."""

    #: A predicate: "is skipped (weekend)".
    reason: str
    #: The window that contains the instant, joined with those that overlap or touch it; None for other causes.
    window: Span | None = None
    #: Whether the whole day of the instant is skipped.
    is_day: bool = False


class Causes:
    """Determines which instants are skipped, in a zone.

    Raises:
        RecurrenceInvalid: The function of the skips is not registered.
    """

    def __init__(self, skips: Skips, zone: ZoneInfo, functions: Functions) -> None:
        if skips.function is not None and skips.function not in functions.skip:
            raise RecurrenceInvalid(
                skips.function,
                unregistered(skips.function, functions.skip, decorator="skip_occurrence"),
                name="skip.function",
            )
        self._zone = zone
        self._function_name = skips.function or ""
        self._function = functions.skip.get(self._function_name)
        self._daily = [window for window in skips.windows if isinstance(window, DailyWindow)]
        self._fixed = [window for window in skips.windows if isinstance(window, Span)]
        #: Whether the windows leave no moment of any week open.
        self.is_always_closed = is_always_closed(self._daily)
        #: Steps for computing the windows of one day, and for searching them.
        self._day_steps = 2 * len(skips.windows)
        self._search_steps = 1 + len(skips.windows) // 4
        self._skipped_day = lru_cache(maxsize=1024)(skips.skipped_day)
        self._is_business_day = lru_cache(maxsize=1024)(skips.is_business_day)
        self._spans_on = lru_cache(maxsize=64)(
            lambda day: [span for window in self._daily if (span := window.beginning_on(day, zone))]
        )
        self._closed_around = lru_cache(maxsize=64)(self._joined_around)

    def of(self, at: datetime, budget: EvaluationBudget) -> Cause | None:
        """Return the cause for which an instant is skipped; None if it is not skipped.

        Raises:
            BudgetExceeded: Not enough steps are left.
            RecurrenceInvalid: The function of the skips failed, or returned an invalid result.
            FunctionTimedOut: The function of the skips did not return in time.
        """
        budget.spend()
        shown = at.astimezone(self._zone)
        day = shown.date()
        if (reason := self._skipped_day(day)) is not None:
            return Cause(reason, is_day=True)
        budget.spend_to_prepare((self, day), self._day_steps)
        closed = self._closed_around(day)
        place = bisect_right(closed, at, key=attrgetter("start")) - 1
        if place >= 0 and at < closed[place].end:
            budget.spend(self._search_steps)
            texts = {span.text for span in self._spans_around(day) if span.start <= at < span.end}
            window = closed[place]._replace(text=join(sorted(texts)))
            return Cause(f"is in a maintenance window ({window.text})", window=window)
        if self._function is not None:
            budget.spend(CALL_STEPS)
            reason = skip_reason(shown, name=self._function_name, function=self._function)
        return Cause(reason) if reason is not None else None

    def stretch(self, at: datetime, cause: Cause, budget: EvaluationBudget) -> tuple[datetime, datetime]:
        """Return the start and the end (excluded) of a stretch around `at` that is skipped as a whole.

        Both are `at` if a function skips the instant. The search ends after thirty years.
        """
        if cause.window is not None:
            return cause.window.start, cause.window.end
        if not cause.is_day:
            return at, at
        day = self._date_of(at)
        first = _last_in_a_row(day, -DAY, self._skipped_day, budget)
        last = _last_in_a_row(day, DAY, self._skipped_day, budget)
        # The last microsecond of the day before; if the clocks show it twice, the second time.
        day_before = datetime.combine(first - DAY, time.max, self._zone).replace(fold=1).astimezone(UTC)
        # If the clocks go back across midnight, a part of the day before follows `at`.
        return self._beginning_of(first), at if day_before > at else self._beginning_of(last + DAY)

    def search_limit(
        self, at: datetime, furthest: timedelta, budget: EvaluationBudget, *, is_forward: bool
    ) -> datetime:
        """Return a bound of the candidates that can move to `at`, or past it.

        Forward moves: no earlier candidate can; backward moves: no later candidate can. The search undoes one move per
        step. A move leads out of a window, or out of consecutive days that are not business days; the candidate may
        then have to move again.

        Args:
            at: Aware.
            furthest: Maximum distance by which a candidate moves.
            budget: Limits the steps of the search.
            is_forward: Whether candidates move forward (`following`) or backward (`preceding`).
        """
        limit = at - furthest if is_forward else at + furthest
        if self._function is not None:
            return limit
        one_move, last_of = (self._before_move_forward, max) if is_forward else (self._before_move_backward, min)
        reached = at
        for _ in range(MOVES_MOST):
            budget.spend(self._search_steps)
            origin = one_move(reached, budget)
            if origin == reached or last_of(reached, limit) == limit:
                break
            reached = origin
        return last_of(reached, limit)

    def _before_move_forward(self, to: datetime, budget: EvaluationBudget) -> datetime:
        """Return the first instant from which one move forward can reach `to`; `to` itself if there is none."""
        shown_on = self._date_of(to - _MARGIN)
        days = (
            self._date_of(self._beginning_of(shown_on) - datetime.resolution),
            shown_on,
            self._date_of(to + _MARGIN),
        )
        starts = [span.start for span in self._closed_around(shown_on) if span.start <= to <= span.end]
        firsts = [_last_in_a_row(day, -DAY, self._is_free, budget) for day in days if self._is_free(day)]
        return min([to, *starts, *map(self._beginning_of, firsts)])

    def _before_move_backward(self, to: datetime, budget: EvaluationBudget) -> datetime:
        """Return the last instant from which one move backward can reach `to`; `to` itself if there is none."""
        shown_on = self._date_of(to + _MARGIN)
        days = (self._date_of(self._beginning_of(shown_on + DAY)), shown_on, self._date_of(to - _MARGIN))
        ends = [span.end for span in self._closed_around(shown_on) if span.start - BEFORE_WINDOW <= to <= span.end]
        lasts = [_last_in_a_row(day, DAY, self._is_free, budget) for day in days if self._is_free(day)]
        return max([to, *ends, *(self._beginning_of(day + DAY) + _MARGIN for day in lasts)])

    def business_day_from(self, day: date, step: timedelta, budget: EvaluationBudget) -> date:
        """Return the next business day in the direction of `step`; without one in a year, a day over a year away."""
        return _last_in_a_row(day, step, self._is_free, budget, most=367) + step

    def _is_free(self, day: date) -> bool:
        return not self._is_business_day(day)

    def _spans_around(self, day: date) -> Iterable[Span]:
        if not self._daily:
            return self._fixed
        return chain(self._fixed, *(self._spans_on(day + days) for days in _DATES_AROUND))

    def _joined_around(self, day: date) -> tuple[Span, ...]:
        """Return the windows around a day in chronological order; windows that overlap or touch are joined."""
        joined: list[Span] = []
        for span in sorted(self._spans_around(day)):
            if joined and span.start <= joined[-1].end:
                joined[-1] = joined[-1]._replace(end=max(joined[-1].end, span.end))
            else:
                joined.append(span)
        return tuple(joined)

    def _beginning_of(self, day: date) -> datetime:
        return resolve(datetime.combine(day, time.min), self._zone).at

    def _date_of(self, at: datetime) -> date:
        return at.astimezone(self._zone).date()


def _last_in_a_row(
    day: date,
    step: timedelta,
    has: Callable[[date], object],
    budget: EvaluationBudget,
    *,
    most: int = HORIZON_YEARS * 366,
) -> date:
    """Return the last of the consecutive days from `day` on, in the direction of `step`, for which `has` is true.

    `has` is not called for `day` itself. The search ends after `most` days.
    """
    for _ in range(most):
        budget.spend()
        if not has(day + step):
            return day
        day += step
    return day
