"""Why nothing is to occur at an instant, and how far that stretches."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from scheduled_actions.core.errors import RecurrenceInvalid
from scheduled_actions.recurrence.custom import is_skipped, unregistered
from scheduled_actions.recurrence.model import HORIZON_YEARS
from scheduled_actions.recurrence.phrases import listed
from scheduled_actions.recurrence.skips.windows import DailyWindow, Span, is_always_closed
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from zoneinfo import ZoneInfo

    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.recurrence.custom import Functions
    from scheduled_actions.recurrence.skips.model import Skips

_ONE_DAY = timedelta(days=1)
_ONE_MICROSECOND = timedelta(microseconds=1)
_HORIZON_DAYS = HORIZON_YEARS * 366
#: Where clocks change around midnight, a day begins twice, or late, by so much at most in zones that still change.
_MARGIN = timedelta(hours=3)
#: A window may have begun two dates ago where a zone left out a whole day, and on the next where a day came back.
_DATES_AROUND = tuple(timedelta(days=days) for days in (-2, -1, 0, 1))
#: A candidate that meets one skip after the other is left out after so many moves.
MOVES_MOST = 50
#: What a call of a project's function takes: it runs on a thread of its own.
_CALL_STEPS = 20
#: How long before a window an occurrence goes that may not be in it.
BEFORE_WINDOW = timedelta(minutes=1)


class Cause(NamedTuple):
    """Why nothing is to occur at an instant."""

    #: A predicate: "is skipped (weekend)".
    reason: str
    #: The window that the instant is in, if it is for that; the whole of those that overlap or touch there.
    window: Span | None = None
    #: Whether all of its day is skipped.
    is_day: bool = False


class Causes:
    """What `skips` say about instants, in a zone.

    Raises:
        RecurrenceInvalid: They name a function that is not registered.
    """

    def __init__(self, skips: Skips, zone: ZoneInfo, functions: Functions, *, text: str) -> None:
        if skips.function is not None and skips.function not in functions.skip:
            problem = unregistered(skips.function, functions.skip, decorator="skip_occurrence")
            raise RecurrenceInvalid(text, f"skip.function: {problem}", name="skip.function")
        self._zone = zone
        self._function_name = skips.function
        self._function = None if skips.function is None else functions.skip[skips.function]
        self._daily = [window for window in skips.windows if isinstance(window, DailyWindow)]
        self._fixed = [window.span for window in skips.windows if not isinstance(window, DailyWindow)]
        #: Whether the windows leave nothing open in any week.
        self.is_always_closed = is_always_closed(self._daily)
        #: What working out the windows of one day takes.
        self._day_steps = 2 * len(skips.windows)
        #: What going through them takes.
        self._look_steps = 1 + len(skips.windows) // 4
        self._skipped_day = lru_cache(maxsize=1024)(skips.skipped_day)
        self.is_business_day = lru_cache(maxsize=1024)(skips.is_business_day)
        self._spans_on = lru_cache(maxsize=64)(self._spans_beginning_on)
        self._closed_around = lru_cache(maxsize=64)(self._joined_around)

    def of(self, at: datetime, budget: EvaluationBudget) -> Cause | None:
        """Return why nothing is to occur at an instant; None where something may."""
        budget.spend()
        shown = at.astimezone(self._zone)
        reason = self._skipped_day(shown.date())
        if reason is not None:
            return Cause(reason, is_day=True)
        budget.spend_to_prepare((self, shown.date()), self._day_steps)
        closed = self._closed_around(shown.date())
        place = bisect_right(closed, at, key=_start) - 1
        if place >= 0 and at < closed[place].end:
            budget.spend(self._look_steps)
            texts = {span.text for span in self._spans_around(shown.date()) if span.start <= at < span.end}
            window = closed[place]._replace(text=listed(sorted(texts)))
            return Cause(f"is in a maintenance window ({window.text})", window=window)
        if self._function is not None:
            budget.spend(_CALL_STEPS)
            reason = is_skipped(shown, name=self._function_name or "", function=self._function)
            if reason is not None:
                return Cause(reason)
        return None

    def stretch(self, at: datetime, cause: Cause, budget: EvaluationBudget) -> tuple[datetime, datetime]:
        """Return from when, and until before when, everything around `at` is skipped for certain.

        A stretch that does not end within thirty years ends there.
        """
        if cause.window is not None:
            return cause.window.start, cause.window.end
        if not cause.is_day:
            return at, at
        day = at.astimezone(self._zone).date()
        first = _walked(day, -_ONE_DAY, self._skipped_day, budget)
        last = _walked(day, _ONE_DAY, self._skipped_day, budget)
        start = self._beginning_of(first)
        if self._end_of(first - _ONE_DAY) > at:
            # The clocks went back over midnight: some of the day before is still to come.
            return start, at
        return start, self._beginning_of(last + _ONE_DAY)

    def earliest_before(self, at: datetime, furthest: timedelta, budget: EvaluationBudget) -> datetime:
        """Return the first instant of which a candidate could move to after `at`, where they move forward.

        Each step goes back over one move: a candidate in a window, or on one of several days in a row that are no
        business days, moves to right behind it; from there it may have to move again.
        """
        if self._function is not None:
            return at - furthest
        earliest = at
        for _ in range(MOVES_MOST):
            budget.spend(self._look_steps)
            shown_on = (earliest - _MARGIN).astimezone(self._zone).date()
            days = [(self._beginning_of(shown_on) - _ONE_MICROSECOND).astimezone(self._zone).date(), shown_on]
            days.append((earliest + _MARGIN).astimezone(self._zone).date())
            before = [span.start for span in self._closed_around(shown_on) if span.start <= earliest <= span.end]
            before += [
                self._beginning_of(_walked(day, -_ONE_DAY, self._is_free, budget)) for day in days if self._is_free(day)
            ]
            if min(before, default=earliest) >= earliest or earliest <= at - furthest:
                break
            earliest = min(before)
        return max(earliest, at - furthest)

    def latest_after(self, at: datetime, furthest: timedelta, budget: EvaluationBudget) -> datetime:
        """Return the last instant of which a candidate could move to `at` or before, where they move back."""
        if self._function is not None:
            return at + furthest
        latest = at
        for _ in range(MOVES_MOST):
            budget.spend(self._look_steps)
            shown_on = (latest + _MARGIN).astimezone(self._zone).date()
            days = [self._beginning_of(shown_on + _ONE_DAY).astimezone(self._zone).date(), shown_on]
            days.append((latest - _MARGIN).astimezone(self._zone).date())
            after = [
                span.end for span in self._closed_around(shown_on) if span.start - BEFORE_WINDOW <= latest <= span.end
            ]
            after += [
                self._beginning_of(_walked(day, _ONE_DAY, self._is_free, budget) + _ONE_DAY) + _MARGIN
                for day in days
                if self._is_free(day)
            ]
            if max(after, default=latest) <= latest or latest >= at + furthest:
                break
            latest = max(after)
        return min(latest, at + furthest)

    def business_day_from(self, day: date, step: timedelta, budget: EvaluationBudget) -> date | None:
        """Return the first business day after a day, or the last before it; None where a year has none."""
        for _ in range(366):
            budget.spend()
            day += step
            if self.is_business_day(day):
                return day
        return None

    def _is_free(self, day: date) -> bool:
        return not self.is_business_day(day)

    def _spans_around(self, day: date) -> Iterable[Span]:
        if not self._daily:
            return self._fixed
        return chain(self._fixed, *(self._spans_on(day + days) for days in _DATES_AROUND))

    def _joined_around(self, day: date) -> tuple[Span, ...]:
        """Return the windows around a day in order, those joined that overlap or touch."""
        joined: list[Span] = []
        for span in sorted(self._spans_around(day)):
            if joined and span.start <= joined[-1].end:
                joined[-1] = joined[-1]._replace(end=max(joined[-1].end, span.end))
            else:
                joined.append(span)
        return tuple(joined)

    def _spans_beginning_on(self, day: date) -> tuple[Span, ...]:
        spans = (window.beginning_on(day, self._zone) for window in self._daily)
        return tuple(span for span in spans if span is not None)

    def _beginning_of(self, day: date) -> datetime:
        return resolve(datetime.combine(day, time.min), self._zone).at

    def _end_of(self, day: date) -> datetime:
        """Return the last microsecond that the clocks show of a day, the last time they show it."""
        return datetime.combine(day, time.max, self._zone).replace(fold=1).astimezone(UTC)


def _start(span: Span) -> datetime:
    return span.start


def _walked(day: date, step: timedelta, has: Callable[[date], object], budget: EvaluationBudget) -> date:
    """Return the last day in a row from `day` on, in the direction of `step`, that has something."""
    for _ in range(_HORIZON_DAYS):
        budget.spend()
        if not has(day + step):
            return day
        day += step
    return day
