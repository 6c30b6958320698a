"""Business days of a period: `last business day of the month`, `2nd business day of the quarter at 09:00`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import NeverOccurs, RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.model import HORIZON_YEARS, Kind, Occurrence, Rule
from scheduled_actions.recurrence.phrases import day_text, nearest, ordinal, parse_time, shortened, time_text
from scheduled_actions.recurrence.skips.model import is_weekend
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

    from scheduled_actions.recurrence.skips.model import Skips

_ONE_DAY = timedelta(days=1)
_ONE_MICROSECOND = timedelta(microseconds=1)
_MONTHS_A_YEAR = 12
#: Each period: how many months it has, the most weekdays it can have, and the fewest.
_PERIODS = {"month": (1, 23, 20), "quarter": (3, 66, 64), "year": (12, 262, 260)}
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_NUMBERED = re.compile(r"([0-9]{1,4})(?:st|nd|rd|th)")
_RULE = re.compile(
    r"(?:(?:on|every) )?(?:the )?(?P<which>[a-z0-9-]+(?: (?:to )?last)?) (?:business|working) day"
    r" (?:of|in) (?:(?:the|each|every|a) )?(?P<period>[a-z]+)"
)
_FORMS = (
    'write "last business day of the month" or "2nd business day of the quarter at 09:00"; '
    'for every business day, "daily" with skips of weekends and holidays'
)


def parse_business_day(text: str, *, zone: ZoneInfo, anchor: datetime, since: datetime, calendar: Skips) -> Rule:
    """Return the rule of the nth, or nth last, business day of each month, quarter or year.

    Args:
        text: As `_FORMS` shows; first to tenth, 1st to 262nd, last, 2nd last, third-last. In any case.
        zone: Whose dates and wall clock it follows.
        anchor: Aware; its wall time is the time of day unless `at` names one.
        since: Aware; nothing occurs before it.
        calendar: Which days from Monday to Friday are none.

    Raises:
        RecurrenceInvalid: It names no such day.
    """
    words, at, time_words = " ".join(text.lower().split()).partition(" at ")
    match = _RULE.fullmatch(words)
    if match is None:
        raise RecurrenceInvalid(text, f"is not a business day of a period: {_FORMS}")
    period = match["period"]
    if period not in _PERIODS:
        near = nearest(period, _PERIODS)
        raise RecurrenceInvalid(text, f'"{period}" is not month, quarter or year{f": {near}?" if near else ""}')
    months, most, surely = _PERIODS[period]
    number, is_from_end = _which(text, match["which"])
    if not 1 <= number <= most:
        raise RecurrenceInvalid(text, f"a {period} has 1 to {most} business days, no {ordinal(number)}")
    shown = anchor.astimezone(zone)
    rare = f"A {period} with fewer than {number} business days has none"
    return _BusinessDay(
        text=text,
        zone=zone,
        since=since.astimezone(UTC),
        calendar=calendar,
        months=months,
        number=number,
        is_from_end=is_from_end,
        time=_time(text, time_words) if at else shown.time(),
        period=period,
        warnings=(rare,) if number > surely else (),
    )


def _which(text: str, words: str) -> tuple[int, bool]:
    """Return the number, and whether it counts from the end."""
    front = re.sub(r"[ -]?(?:to[ -])?last$", "", words)
    is_from_end = front != words
    if not front:
        return 1, True
    numbered = _NUMBERED.fullmatch(front)
    if numbered:
        return int(numbered[1]), is_from_end
    if front in _ORDINALS:
        return _ORDINALS.index(front) + 1, is_from_end
    near = nearest(front, (*_ORDINALS, "last"))
    raise RecurrenceInvalid(
        text, f'"{words}" does not say which: {f"{near}?" if near else "first, 2nd, last, 2nd last"}'
    )


def _time(text: str, words: str) -> time:
    at = parse_time(words)
    if at is None:
        raise RecurrenceInvalid(text, f'"{words}" is not a time of day, such as 09:00 or 23:59:30')
    return at


@dataclass(frozen=True, slots=True, eq=False)
class _BusinessDay:
    text: str
    zone: ZoneInfo
    since: datetime
    calendar: Skips
    months: int
    number: int
    is_from_end: bool
    time: time
    period: str
    warnings: tuple[str, ...]
    kind: Kind = "business_day"
    ending: str = ""

    @property
    def description(self) -> str:
        """`2nd last business day of the month at 09:00`."""
        which = "last" if self.is_from_end else "first"
        if self.number > 1:
            which = f"{ordinal(self.number)}{' last' if self.is_from_end else ''}"
        return f"{which.capitalize()} business day of the {self.period} at {time_text(self.time)}"

    def next_after(self, moment: datetime, budget: EvaluationBudget | None = None) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None where the calendar ends.

        Raises:
            NeverOccurs: No period of the next thirty years has such a day.
            BudgetExceeded: Before such a day was found.
        """
        budget = budget or EvaluationBudget("the recurrence")
        after = max(moment.astimezone(UTC), self.since - _ONE_MICROSECOND)
        try:
            shown = after.astimezone(self.zone)
            # The period before may have its day put off by a gap into this one.
            period = (shown.year * _MONTHS_A_YEAR + shown.month - 1) // self.months - 1
            for number in range(period, period + HORIZON_YEARS * _MONTHS_A_YEAR // self.months + 2):
                found = self._of_period(number, budget)
                if found is not None and found.at > after:
                    return found
        except (OverflowError, ValueError):
            return None
        raise NeverOccurs(self.text, f"no {self.period} of the next {HORIZON_YEARS} years has such a day")

    def _of_period(self, number: int, budget: EvaluationBudget) -> Occurrence | None:
        """Return the occurrence of a period, counted in periods from the year 0; None where it has too few days."""
        left = self.number
        passed: list[str] = []
        for day in self._days(number):
            if is_weekend(day):
                continue
            budget.spend()
            why_not = self.calendar.day_off(day)
            if why_not is None:
                left -= 1
                if not left:
                    return self._on(day, passed)
            else:
                passed.append(f"{day_text(day)} {why_not}: it is no business day")
        return None

    def _days(self, period: int) -> Iterator[date]:
        """Yield the days of a period, from its end where the rule counts from there."""
        year, month = divmod(period * self.months, _MONTHS_A_YEAR)
        next_year, next_month = divmod((period + 1) * self.months, _MONTHS_A_YEAR)
        first, end = date(year, month + 1, 1), date(next_year, next_month + 1, 1)
        days = (end - first).days
        return (end - (n + 1) * _ONE_DAY if self.is_from_end else first + n * _ONE_DAY for n in range(days))

    def _on(self, day: date, passed: list[str]) -> Occurrence:
        at, remark = resolve(datetime.combine(day, self.time), self.zone)
        return Occurrence(at, (*shortened(passed), *([remark] if remark else [])))
