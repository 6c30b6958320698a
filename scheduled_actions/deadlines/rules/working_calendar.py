"""The calendar of a deadline: business days, hours of work, and the working time between two instants.

One JSON object says it, with some of the keys of a recurrence's skips, and the hours:

    {"holidays": "US-CA", "dates": ["2026-12-24"], "ranges": [{"from": "2026-12-24", "to": "2027-01-02"}],
     "hours": {"from": "09:00", "to": "17:00"}, "then": "preceding"}
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scheduled_actions.core import json_text
from scheduled_actions.core.action import RESULT_LIMIT
from scheduled_actions.core.errors import InvalidArgument, RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.phrases import parse_time, time_text
from scheduled_actions.recurrence.skips.model import Skips
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from zoneinfo import ZoneInfo

_ONE_DAY = timedelta(days=1)
#: No search for a business day goes further: a calendar that closes for longer has none.
_FURTHEST = 3660
#: What runs out of steps, as errors name it.
BUDGETED = "the deadline's calendar"
_OF_SKIPS = ("weekends", "holidays", "dates", "ranges", "then")
_EXPECTED = f"an object with some of the keys {', '.join(_OF_SKIPS)} and hours"


@dataclass(frozen=True, slots=True)
class Calendar:
    """Which days are business days, and when work is done on them."""

    skips: Skips = field(default_factory=Skips)
    #: The hours of work; None: around the clock.
    opens: time | None = None
    closes: time | None = None
    #: Whether the clock of a deadline runs in working time alone.
    is_given: bool = False

    def as_json(self) -> dict[str, Any] | None:
        """Return the object that `parse_calendar` makes this of; None for the usual one."""
        if not self.is_given:
            return None
        document = self.skips.as_json()
        if document["then"] == "drop":
            del document["then"]
        if self.opens is not None and self.closes is not None:
            document["hours"] = {"from": time_text(self.opens), "to": time_text(self.closes)}
        return document

    def business_days_later(self, day: date, count: int, budget: EvaluationBudget | None = None) -> date:
        """Return the business day that is `count` business days after a day; before it, where that is negative.

        Raises:
            OverflowError: The calendar has none within ten years.
            BudgetExceeded: It is further away than the budget has steps: one for each day.
        """
        budget = budget or EvaluationBudget(BUDGETED)
        step = _ONE_DAY if count > 0 else -_ONE_DAY
        left = abs(count)
        for _ in range(_FURTHEST + 3 * left):
            if not left:
                return day
            budget.spend()
            day += step
            left -= self.skips.is_business_day(day)
        raise OverflowError("the calendar has no such business day")

    def moved(self, day: date, budget: EvaluationBudget | None = None) -> date:
        """Return the day on which something of that day happens: another only where the calendar says `then`."""
        if self.skips.then == "drop" or self.skips.is_business_day(day):
            return day
        return self.business_days_later(day, 1 if self.skips.then == "following" else -1, budget)

    def worked(
        self, start: datetime, end: datetime, *, zone: ZoneInfo, budget: EvaluationBudget | None = None
    ) -> timedelta:
        """Return the working time from one instant to a later one; without a calendar all of it."""
        start, end = start.astimezone(UTC), end.astimezone(UTC)
        if not self.is_given:
            return max(end - start, timedelta(0))
        total = timedelta(0)
        for opens, closes in self._shifts(start, zone, budget or EvaluationBudget(BUDGETED)):
            if opens >= end:
                return total
            total += max(min(closes, end) - max(opens, start), timedelta(0))
        return total

    def after_working(
        self, start: datetime, length: timedelta, *, zone: ZoneInfo, budget: EvaluationBudget | None = None
    ) -> datetime:
        """Return when so much working time has passed since `start`.

        Raises:
            OverflowError: The calendar has not so much working time within ten years.
        """
        start = start.astimezone(UTC)
        if not self.is_given:
            return start + length
        for opens, closes in self._shifts(start, zone, budget or EvaluationBudget(BUDGETED)):
            begins = max(opens, start)
            if closes - begins >= length:
                return begins + length
            length -= max(closes - begins, timedelta(0))
        raise OverflowError("the calendar has not so much working time")

    def _shifts(self, start: datetime, zone: ZoneInfo, budget: EvaluationBudget) -> Iterator[tuple[datetime, datetime]]:
        """Yield the working time of each business day, from the day of `start` on."""
        day = start.astimezone(zone).date()
        for _ in range(_FURTHEST):
            budget.spend()
            if self.skips.is_business_day(day):
                opens = resolve(datetime.combine(day, self.opens or time()), zone).at
                ends = datetime.combine(day, self.closes) if self.closes else datetime.combine(day + _ONE_DAY, time())
                yield opens, resolve(ends, zone).at
            day += _ONE_DAY


def parse_calendar(value: Mapping[str, Any] | None) -> Calendar:
    """Return the calendar that a JSON object says; the usual one for None.

    Raises:
        InvalidArgument: A key is unknown, or has a value that it cannot have.
        RecurrenceInvalid: No holidays are known of that country, subdivision or market.
    """
    if value is None:
        return Calendar()
    if not isinstance(value, dict):
        raise InvalidArgument("calendar", value, _EXPECTED)
    return _parsed(json_text.encode("calendar", value, limit=RESULT_LIMIT))


@lru_cache(maxsize=256)
def _parsed(text: str) -> Calendar:
    value: Any = json_text.decode(text)
    for key in value:
        if key not in {*_OF_SKIPS, "hours"}:
            raise InvalidArgument("calendar", key, f"one of its keys: {_EXPECTED}")
    try:
        skips = Skips.parse({key: one for key, one in value.items() if key != "hours"})
    except InvalidArgument as error:
        raise InvalidArgument(error.name.replace("skip", "calendar", 1), error.value, error.expected) from None
    except RecurrenceInvalid as error:
        problem = error.problem.replace("skip.", "calendar.", 1)
        raise RecurrenceInvalid(error.rule, problem, name=error.name.replace("skip", "calendar", 1)) from None
    hours = value.get("hours")
    if hours is None:
        return Calendar(skips, is_given=True)
    is_pair = isinstance(hours, dict) and hours.keys() == {"from", "to"}
    opens, closes = (parse_time(str(hours[end])) for end in ("from", "to")) if is_pair else (None, None)
    if opens is None or closes is None or opens >= closes:
        raise InvalidArgument("calendar.hours", hours, 'two times of a day: {"from": "09:00", "to": "17:00"}')
    return Calendar(skips, opens, closes, is_given=True)
