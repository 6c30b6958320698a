"""Parse and evaluate rules such as `last business day of the month` and `2nd business day of the quarter`."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import ClassVar
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import NeverOccurs
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.core.messages import did_you_mean
from scheduled_actions.recurrence.model import DAY, HORIZON_YEARS, Kind, Occurrence, Rule, resolve
from scheduled_actions.recurrence.phrases import (
    Malformed,
    day_text,
    limit_remarks,
    ordinal,
    parser,
    read_position,
    read_time,
    refuse,
    time_text,
)
from scheduled_actions.recurrence.skips.model import Skips, is_weekend

#: For each period, its number of months, and the maximum and minimum number of weekdays in it.
_PERIODS = {"month": (1, 23, 20), "quarter": (3, 66, 64), "year": (12, 262, 260)}
_RULE = re.compile(
    r"(?:(?:on|every) )?(?:the )?(?P<which>[a-z0-9-]+(?: (?:to )?last)?) (?:business|working) day"
    r" (?:of|in) (?:(?:the|each|every|a) )?(?P<period>[a-z]+)"
)
_FORMS = (
    'write "last business day of the month" or "2nd business day of the quarter at 09:00"; '
    'for every business day, use "daily" and skip weekends and holidays'
)


@parser
def parse_business_day(text: str, *, zone: ZoneInfo, anchor: datetime, since: datetime, calendar: Skips) -> Rule:
    """Parse a rule for the nth or nth last business day of each month, quarter or year.

    Args:
        text: Such as `2nd last business day of the month at 09:00`, in upper or lower case. The position is first to
            tenth, 1st to 23rd (66th of a quarter, 262nd of a year), last, 2nd last or third-last.
        zone: The zone of the rule's dates and wall clock.
        anchor: Aware; its wall time is the time of day unless the rule has one (`at 09:00`).
        since: Aware; the rule has no occurrence before it.
        calendar: The skips; their holidays, dates and ranges, and all weekends, are not business days.

    Raises:
        RecurrenceInvalid: The text is not such a rule.
    """
    words, at, time_words = " ".join(text.lower().split()).partition(" at ")
    match = _RULE.fullmatch(words)
    if match is None:
        raise Malformed(f"must name one business day of a month, quarter or year: {_FORMS}")
    period, which = match["period"], match["which"]
    if period not in _PERIODS:
        hint = did_you_mean(period, _PERIODS, otherwise="use month, quarter or year")
        raise Malformed(f'"{period}" is not a period; {hint}')
    most, position = _PERIODS[period][1], read_position(which)
    number = abs(position)
    refuse((not 1 <= number <= most, f"a {period} has no {ordinal(number)} business day; use 1st to {ordinal(most)}"))
    time_of_day = read_time(time_words) if at else anchor.astimezone(zone).time()
    return _BusinessDay(text, zone, since.astimezone(UTC), calendar, number, position < 0, time_of_day, period)


@dataclass(frozen=True, slots=True, eq=False)
class _BusinessDay(Rule):
    kind: ClassVar[Kind] = "business_day"
    since: datetime
    calendar: Skips
    number: int
    is_from_end: bool
    time: time
    period: str

    @property
    def description(self) -> str:
        """The rule in words: "2nd last business day of the month at 09:00"."""
        which = "last" if self.is_from_end else "first"
        if self.number > 1:
            which = f"{ordinal(self.number)}{' last' if self.is_from_end else ''}"
        return f"{which.capitalize()} business day of the {self.period} at {time_text(self.time)}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning if some periods can have too few business days."""
        few = f"A {self.period} with fewer than {self.number} business days has no occurrence"
        return (few,) if self.number > _PERIODS[self.period][2] else ()

    def next_after(self, moment: datetime, budget: EvaluationBudget | None = None) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None after the year 9999.

        Raises:
            NeverOccurs: No period of the next thirty years has such a day.
            BudgetExceeded: The search took too many steps.
        """
        budget = budget or EvaluationBudget("the recurrence")
        after = max(moment.astimezone(UTC), self.since - datetime.resolution)
        months = _PERIODS[self.period][0]
        try:
            shown = after.astimezone(self.zone)
            # Start one period earlier: a DST gap may move its last occurrence into this period.
            period = (shown.year * 12 + shown.month - 1) // months - 1
            for first_month in range(period * months, (period + 2) * months + HORIZON_YEARS * 12, months):
                occurrence = self._of_period(first_month, first_month + months, budget)
                if occurrence is not None and occurrence.at > after:
                    return occurrence
        except (OverflowError, ValueError):
            return None
        raise NeverOccurs(self.text, f"no {self.period} of the next {HORIZON_YEARS} years has such a day")

    def _of_period(self, first_month: int, next_month: int, budget: EvaluationBudget) -> Occurrence | None:
        """Return the occurrence of a period; None if the period has too few business days.

        Args:
            first_month: The first month of the period, in months since year 0.
            next_month: The first month after the period, in months since year 0.
            budget: One step is spent per weekday.
        """
        first, end = (date(month // 12, month % 12 + 1, 1) for month in (first_month, next_month))
        left = self.number
        passed: list[str] = []
        for count in range((end - first).days):
            day = end - (count + 1) * DAY if self.is_from_end else first + count * DAY
            if is_weekend(day):
                continue
            budget.spend()
            if (reason := self.calendar.day_off(day)) is not None:
                passed.append(f"{day_text(day)} {reason}: not a business day")
                continue
            left -= 1
            if not left:
                occurrence = resolve(datetime.combine(day, self.time), self.zone)
                return Occurrence(occurrence.at, limit_remarks(passed) + occurrence.remarks)
        return None
