"""Parse and evaluate intervals: `every 30 minutes`, `daily`, `every 2 weeks at 09:00`, `PT10M`, `P1M`.

Seconds, minutes and hours are real time. Days, weeks, months and years are dates in the zone, at a fixed wall time.
Every occurrence is computed from the anchor, not from the previous occurrence, so that intervals do not drift and
searches are short.
"""

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from typing import ClassVar
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import NeverOccurs
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.core.messages import nearest
from scheduled_actions.recurrence.model import DAY, HORIZON_YEARS, Kind, Occurrence, Rule, constant_offset, resolve
from scheduled_actions.recurrence.phrases import (
    MONTHS,
    NUMBERS,
    WEEKDAYS,
    Malformed,
    applying,
    join,
    parser,
    read_time,
    refuse,
    time_text,
)

#: For each unit, the field of `Length` and the length of the unit in that field.
_UNITS = {
    "year": ("months", 12),
    "quarter": ("months", 3),
    "month": ("months", 1),
    "week": ("days", 7),
    "day": ("days", 1),
    "hour": ("microseconds", 3_600_000_000),
    "minute": ("microseconds", 60_000_000),
    "second": ("microseconds", 1_000_000),
}
#: The average month in microseconds: 4,800 months of the calendar have 146,097 days.
_AVERAGE_MONTH = 2_629_746_000_000
_SHORTEST_MONTH = 28
_ZERO = timedelta(0)

#: Intervals written as one word, with their units.
ADVERBS = {
    "hourly": "hour",
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
    "quarterly": "quarter",
    "yearly": "year",
    "annually": "year",
}
#: Words with several meanings, and an unambiguous interval for each.
AMBIGUOUS = {
    "biweekly": "every 2 weeks",
    "fortnightly": "every 2 weeks",
    "bimonthly": "every 2 months",
    "biannually": "every 6 months",
    "semiannually": "every 6 months",
}

_NUMBER = r"[0-9]+(?:[.,][0-9]+)?"
_ISO = re.compile(
    rf"P(?:(?P<year>{_NUMBER})Y)?(?:(?P<month>{_NUMBER})M)?(?:(?P<week>{_NUMBER})W)?(?:(?P<day>{_NUMBER})D)?"
    rf"(?:T(?=[0-9])(?:(?P<hour>{_NUMBER})H)?(?:(?P<minute>{_NUMBER})M)?(?:(?P<second>{_NUMBER})S)?)?",
    re.IGNORECASE | re.ASCII,
)
_FORMS = 'write "every 30 minutes", "daily", "every 2 weeks at 09:00", or an ISO 8601 duration: PT10M, P1D, P1M'


@dataclass(frozen=True, slots=True)
class Length:
    """The length of an interval, in calendar units (months, days) and exact units (microseconds)."""

    #: The counts and units as written, the longest unit first: ("10", "minute").
    parts: tuple[tuple[str, str], ...]
    months: int
    days: int
    microseconds: int
    #: The time of day; None: that of the anchor.
    at: time | None

    @property
    def average(self) -> int:
        """The length in microseconds, with months of average length."""
        return self.months * _AVERAGE_MONTH + self.days * 86_400_000_000 + self.microseconds


@lru_cache(maxsize=256)
def parse_length(text: str) -> Length:
    """Parse the length of an interval.

    Raises:
        Malformed: The text is not an interval, or the interval is not allowed (for example shorter than a second).
    """
    words, at, time_words = " ".join(text.lower().split()).partition(" at ")
    parts = _parts(words)
    sums = dict.fromkeys(("months", "days", "microseconds"), 0)
    for count, unit in parts:
        whole, _, fraction = count.replace(",", ".").partition(".")
        decimals = fraction.rstrip("0")
        refuse(
            (
                decimals and unit != "second",
                f"only seconds may have a fraction: write {count} {unit}s in smaller units",
            ),
            (len(decimals) > 6, f"{count} seconds has more than 6 decimal places"),  # noqa: PLR2004 - microseconds
        )
        field, size = _UNITS[unit]
        sums[field] += int(whole) * size + int(decimals.ljust(6, "0"))
    written = tuple((count, unit) for count, unit in parts if count.strip("0.,"))
    length = Length(written, at=read_time(time_words) if at else None, **sums)
    refuse(
        (length.average < _UNITS["second"][1], "the minimum interval is one second"),
        (
            at and length.microseconds,
            '"at" needs days, weeks, months or years: remove it for hours, minutes and seconds',
        ),
    )
    return length


def _parts(words: str) -> list[tuple[str, str]]:
    """Return the counts and units of an interval, as written."""
    if words in ADVERBS:
        return [("1", ADVERBS[words])]
    if every := re.fullmatch(r"every (?:(?P<count>\S+) )?(?P<unit>\S+)", words):
        return [_every(every["count"], every["unit"])]
    iso = _ISO.fullmatch(words)
    parts = [(count, unit) for unit, count in iso.groupdict().items() if count] if iso else []
    refuse(
        (words in AMBIGUOUS, f'is ambiguous: write "{AMBIGUOUS.get(words)}", for example'),
        ("-" in words and _ISO.fullmatch(words.replace("-", "")), "an interval cannot be negative"),
        (not parts, f"is not an interval: {_FORMS}"),
    )
    return parts


def _every(count: str | None, unit: str) -> tuple[str, str]:
    singular = unit.removesuffix("s")
    if singular not in _UNITS:
        raise Malformed(f'"{unit}" is not a unit of time{_unit_hint(count, singular)}')
    number = {None: "1", "other": "2", "second": "2"}.get(count, count) or ""
    refuse(
        (number.startswith("-"), "an interval cannot be negative"),
        (
            not re.fullmatch(_NUMBER, number),
            f'"{number}" is not a number in digits: write, for example, "every {NUMBERS.get(number, 2)} {singular}s"',
        ),
    )
    return number, singular


def _unit_hint(count: str | None, unit: str) -> str:
    near = nearest(unit, [*_UNITS, "weekday", *map(str.lower, WEEKDAYS)])
    if near is None:
        return ": use seconds, minutes, hours, days, weeks, months, quarters or years"
    return f'; did you mean "every {f"{count} {near}s" if count else near}"?'


def nearest_interval(name: str) -> str:
    """Return the interval that a name in lower case probably means; otherwise, the name with spaces.

    Args:
        name: Such as `ten_mins` (`every 10 minutes`) or `daily_9am` (`daily at 09:00`), with underscores or spaces.
    """
    words = name.replace("_", " ")
    if match := re.fullmatch(r"(?:every )?(?P<count>[a-z0-9]+) (?P<unit>[a-z]+)", words):
        count = str(NUMBERS.get(match["count"], match["count"]))
        unit = nearest(match["unit"].removesuffix("s"), _UNITS)
        if unit is not None and count.isdecimal():
            return f"every {unit}" if count == "1" else f"every {count} {unit}s"
    if match := re.fullmatch(rf"(?P<adverb>{'|'.join(ADVERBS)}) (?:at )?(?P<hour>[0-9]{{1,2}})(?P<half>[ap]m)?", words):
        hour = int(match["hour"])
        if match["half"]:
            hour = hour % 12 + (12 if match["half"] == "pm" else 0)
        return f"{match['adverb']} at {hour:02}:00"
    return words


@parser
def parse_interval(text: str, *, zone: ZoneInfo, anchor: datetime, since: datetime) -> Rule:
    """Parse an interval.

    Args:
        text: `every N units`, `every unit`, `every other unit`, `hourly` … `yearly`, or an ISO 8601 duration, in
            upper or lower case. Intervals of calendar units can end with `at 09:00`.
        zone: The calendar and wall clock of days, weeks, months and years.
        anchor: Aware; itself an occurrence, unless `at` sets another time of day.
        since: Aware, at or before the anchor; the interval has no occurrence before it.

    Raises:
        RecurrenceInvalid: The text is not an interval, or the interval is not allowed (for example shorter than a
            second).
        NeverOccurs: The interval is longer than thirty years.

    Source: ISO 8601-1:2019 §5.5.2; RFC 5545 §3.3.6 for adding calendar units before exact ones.
    """
    length = parse_length(text)
    if length.average > HORIZON_YEARS * 12 * _AVERAGE_MONTH:
        raise NeverOccurs(text, f"is longer than {HORIZON_YEARS} years")
    anchor, step = anchor.astimezone(UTC), timedelta(microseconds=length.average)
    if not length.months and not length.days:
        return _ExactInterval(text, zone, length, anchor, -((anchor - since) // step), step)
    first = anchor.astimezone(zone).replace(tzinfo=None, fold=0)
    return _CalendarInterval(
        text,
        zone,
        length,
        anchor,
        (since - anchor) // step - 1 if since < anchor else 0,
        step,
        first=first if length.at is None else datetime.combine(first, length.at),
        days=timedelta(days=length.days),
        exact=timedelta(microseconds=length.microseconds),
        earliest=since - anchor - datetime.resolution,
        origin=anchor.replace(tzinfo=None),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Interval(Rule):
    kind: ClassVar[Kind] = "interval"
    length: Length
    #: In UTC.
    anchor: datetime
    #: The number of the first step tried; negative if occurrences may be before the anchor.
    least_steps: int
    #: The length of a step; for calendar units, the average length.
    step: timedelta


@dataclass(frozen=True, slots=True, eq=False)
class _ExactInterval(_Interval):
    """An interval of exact units: steps in real time."""

    @property
    def description(self) -> str:
        """The rule in words: "Every 30 minutes"."""
        return f"Every {_length_text(self.length)}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning for multiples of 24 hours in a zone whose clocks change within a year of the anchor."""
        if self.step % DAY or self.anchor.year >= 9998:  # noqa: PLR2004 - where the calendar ends
            return ()
        if len({(self.anchor + days * DAY).astimezone(self.zone).utcoffset() for days in range(0, 366, 30)}) == 1:
            return ()
        same = "daily" if self.step == DAY else f"every {self.step // DAY} days"
        return (
            (
                f"Hours are real time: when the clocks of {self.zone.key} change, so does the time of day; "
                f'"{same}" keeps the time of day'
            ),
        )

    def next_after(self, moment: datetime, _budget: EvaluationBudget | None = None) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None after the year 9999."""
        steps = max((moment - self.anchor) // self.step + 1, self.least_steps)
        try:
            return Occurrence(self.anchor + steps * self.step)
        except OverflowError:
            return None


@dataclass(frozen=True, slots=True, eq=False)
class _CalendarInterval(_Interval):
    """An interval with calendar units: steps from date to date at one wall time, to which exact units are added."""

    #: The wall time of the first step, naive, in the zone; dates are counted from it.
    first: datetime
    days: timedelta
    exact: timedelta
    #: Occurrences are later than the anchor plus this duration, which is negative.
    earliest: timedelta
    #: The anchor, naive: computing with aware instants takes twice as long.
    origin: datetime

    @property
    def description(self) -> str:
        """The rule in words: "Every 2 weeks on Monday at 09:00"."""
        return f"Every {_length_text(self.length)}{self._day_text()} at {time_text(self.first)}"

    def _day_text(self) -> str:
        """Return the day of the occurrences in words if it is always the same; otherwise an empty string."""
        first, months = self.first, self.length.months
        if self.exact or (months and self.days):
            return ""
        if months % 12:
            return f" on day {first.day}{' (or the last)' if first.day > _SHORTEST_MONTH else ''}"
        if months:
            return f" on {first.day} {MONTHS[first.month - 1]}{' (or the last)' if self._is_on_leap_day else ''}"
        is_weekly = self.length.parts[0][1] == "week" and self.length.days % 7 == 0
        return f" on {WEEKDAYS[first.weekday()]}" if is_weekly else ""

    @property
    def _is_on_leap_day(self) -> bool:
        return (self.first.month, self.first.day) == (2, 29)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about short months, hours in real time, and months that may be meant as minutes."""
        day = self.first.day
        return tuple(
            applying(
                (
                    self.length.months % 12 and day > _SHORTEST_MONTH,
                    f"In months without day {day}, the rule occurs on the last day",
                ),
                (
                    self.length.months and not self.length.months % 12 and self._is_on_leap_day,
                    "In years without 29 February, the rule occurs on the 28th",
                ),
                (self.exact, "Hours are real time and add up: when the clocks change, so does the time of day"),
                (
                    # P5M is five months, but PT5M is often meant; for P1M, PT1M is seldom meant.
                    re.fullmatch(r"[Pp](?:[2-9]|[0-9]{2,3})[Mm]", self.text, re.ASCII),
                    f"{self.text} counts months; minutes come after a T: PT{self.text[1:]}",
                ),
            )
        )

    def next_after(self, moment: datetime, _budget: EvaluationBudget | None = None) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None after the year 9999."""
        after = self.origin + max(moment - self.anchor, self.earliest)
        try:
            return self._next_by_steps(after) if self.exact or self.length.months else self._next_by_days(after)
        except (OverflowError, ValueError):
            return None

    def _next_by_days(self, after: datetime) -> Occurrence:
        """Return the first occurrence after an instant (in UTC, naive) of an interval of days and weeks."""
        # The date of `after` in UTC is at most one day from that in the zone, so this estimate is never too high.
        steps = max((after - self.first).days // self.length.days, self.least_steps)
        wall, zone = self.first + steps * self.days, self.zone
        # In a gap or overlap, the offset before the change is used, as in `resolve`.
        while (at := wall - (zone.utcoffset(wall) or _ZERO)) <= after:
            wall += self.days
        if constant_offset(wall, zone) is None:
            return resolve(wall, zone)
        return Occurrence(self.anchor + (at - self.origin))

    def _next_by_steps(self, after: datetime) -> Occurrence:
        """Return the first occurrence after an instant (in UTC, naive)."""
        # An estimate that is never too high: a wall time differs from UTC by less than a day, and the length of
        # months from the average by a few days.
        steps = max((after - self.first) // self.step, self.least_steps)
        wall, at = self._step(steps)
        while at <= after:
            steps += 1
            wall, at = self._step(steps)
        if constant_offset(wall, self.zone) is not None:
            return Occurrence(self.anchor + (at - self.origin))
        around = resolve(wall, self.zone)
        return Occurrence(around.at + steps * self.exact, around.remarks)

    def _step(self, steps: int) -> tuple[datetime, datetime]:
        """Return a step's wall time and its instant in UTC, both naive; no step is before the previous one."""
        wall = self.first
        if self.length.months:
            year, month = divmod(wall.year * 12 + wall.month - 1 + steps * self.length.months, 12)
            day = wall.day
            if day > _SHORTEST_MONTH:
                day = min(day, calendar.monthrange(year, month + 1)[1])
            wall = wall.replace(year=year, month=month + 1, day=day)
        wall += steps * self.days
        # In a gap or overlap, the offset before the change is used, as in `resolve`.
        at = wall - (self.zone.utcoffset(wall) or _ZERO)
        return wall, at + steps * self.exact if self.exact else at


def _length_text(length: Length) -> str:
    """Return a length in words, in the units as written: `10 minutes`, `day`, `1 day and 12 hours`."""
    if len(length.parts) == 1 and length.parts[0][0] == "1":
        return length.parts[0][1]
    return join([f"{count} {unit}{'' if count == '1' else 's'}" for count, unit in length.parts])
