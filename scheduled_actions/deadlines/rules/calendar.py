"""Working calendars, and offsets from a due instant.

A calendar is a JSON object with the keys of a recurrence's `skip`, except `windows` and `function`, and working hours:

    {"holidays": "US-CA", "dates": ["2026-12-24"], "ranges": [{"from": "2026-12-24", "to": "2027-01-02"}],
     "hours": {"from": "09:00", "to": "17:00"}, "adjustment": "preceding"}

An offset is a string: `60 days before`, `3 business days after at 09:00`, `when due`, or a duration. An integer is a
number of days.
"""

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, Literal, TypeAlias
from zoneinfo import ZoneInfo

from scheduled_actions.core import json_text
from scheduled_actions.core.action import RESULT_LIMIT
from scheduled_actions.core.durations import parse_duration
from scheduled_actions.core.errors import InvalidArgument, RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.core.messages import counted, did_you_mean
from scheduled_actions.recurrence.model import resolve
from scheduled_actions.recurrence.phrases import NUMBERS, TIME, parse_time, quoted, time_text
from scheduled_actions.recurrence.skips.model import Skips

Direction: TypeAlias = Literal["before", "after"]

_ZERO, _ONE_DAY = timedelta(0), timedelta(days=1)
#: Maximum number of days that are searched for working time. A search for business days may take three more days for
#: each business day that it counts.
_FURTHEST = 3660
#: The name of the evaluation budget in errors.
BUDGETED = "the deadline's calendar"
_OF_SKIPS = ("weekends", "holidays", "dates", "ranges", "adjustment")
_CALENDAR_EXPECTED = f"an object with some of the keys {', '.join(_OF_SKIPS)} and hours"


@dataclass(frozen=True, slots=True)
class WorkingCalendar:
    """The business days and working hours of a deadline."""

    skips: Skips = field(default_factory=Skips)
    #: Working hours; None: around the clock.
    opens: time | None = None
    closes: time | None = None
    #: Whether the deadline has a calendar; then a pause of the deadline counts working time only.
    is_given: bool = False

    def as_json(self) -> dict[str, Any] | None:
        """Return this calendar as the object that `parse_calendar` parses; None for the default calendar."""
        if not self.is_given:
            return None
        document = {
            name: value for name, value in self.skips.as_json().items() if (name, value) != ("adjustment", "drop")
        }
        if self.opens is not None and self.closes is not None:
            document["hours"] = {"from": time_text(self.opens), "to": time_text(self.closes)}
        return document

    def business_days_later(self, day: date, count: int, budget: EvaluationBudget) -> date:
        """Return the day `count` business days after a day, or before it if `count` is negative.

        Raises:
            OverflowError: The calendar has too few business days within ten years plus three days per counted day.
            BudgetExceeded: The search takes more days than the budget has steps.
        """
        left = abs(count)
        for _ in range(_FURTHEST + 3 * left):
            if not left:
                return day
            budget.spend()
            day += _ONE_DAY if count > 0 else -_ONE_DAY
            left -= self.skips.is_business_day(day)
        raise OverflowError("the calendar has no such business day")

    def moved(self, day: date, budget: EvaluationBudget) -> date:
        """Return `day` or, if it is not a business day and the calendar has an `adjustment`, the next or previous one.

        Raises:
            OverflowError: There is no business day within ten years.
            BudgetExceeded: The search takes more days than the budget has steps.
        """
        if self.skips.adjustment == "drop" or self.skips.is_business_day(day):
            return day
        return self.business_days_later(day, 1 if self.skips.adjustment == "following" else -1, budget)

    def worked(self, start: datetime, end: datetime, *, zone: ZoneInfo, budget: EvaluationBudget) -> timedelta:
        """Return the working time between two aware instants, counted for at most ten years.

        Raises:
            BudgetExceeded: There are more days than the budget has steps.
        """
        start, end = start.astimezone(UTC), end.astimezone(UTC)
        total = _ZERO
        for opens, closes in self._shifts(start, zone, budget):
            if opens >= end:
                break
            total += max(min(closes, end) - max(opens, start), _ZERO)
        return total

    def after_working(
        self, start: datetime, length: timedelta, *, zone: ZoneInfo, budget: EvaluationBudget
    ) -> datetime:
        """Return the instant, in UTC, at which `length` of working time has passed since `start`.

        Raises:
            OverflowError: The next ten years contain less working time than `length`.
            BudgetExceeded: The search takes more days than the budget has steps.
        """
        for opens, closes in self._shifts(start, zone, budget):
            begins = max(opens, start.astimezone(UTC))
            if closes - begins >= length:
                return begins + length
            length -= max(closes - begins, _ZERO)
        raise OverflowError("the calendar has too little working time")

    def _shifts(self, start: datetime, zone: ZoneInfo, budget: EvaluationBudget) -> Iterator[tuple[datetime, datetime]]:
        """Yield the start and the end, in UTC, of each working day in ten years, beginning with the day of `start`."""
        day = start.astimezone(zone).date()
        for _ in range(_FURTHEST):
            budget.spend()
            if self.skips.is_business_day(day):
                ends = datetime.combine(day, self.closes) if self.closes else datetime.combine(day + _ONE_DAY, time())
                yield resolve(datetime.combine(day, self.opens or time()), zone).at, resolve(ends, zone).at
            day += _ONE_DAY


_DEFAULT_CALENDAR = WorkingCalendar()


def parse_calendar(value: Mapping[str, Any] | None) -> WorkingCalendar:
    """Parse a working calendar; None gives the default, Monday to Friday around the clock.

    Raises:
        InvalidArgument: A key is unknown, or has an invalid value.
        TooLarge: The calendar exceeds 64 KiB of JSON.
        RecurrenceInvalid: The holidays of that country, subdivision or market are unknown.
    """
    if value is None:
        return _DEFAULT_CALENDAR
    if not isinstance(value, dict):
        raise InvalidArgument("calendar", value, _CALENDAR_EXPECTED)
    return _parsed_calendar(json_text.encode("calendar", value, limit=RESULT_LIMIT))


@lru_cache(maxsize=256)
def _parsed_calendar(text: str) -> WorkingCalendar:
    value: Any = json_text.decode(text)
    hours = value.pop("hours", None)
    for key in value:
        if key not in _OF_SKIPS:
            keys = (*_OF_SKIPS, "hours")
            hint = did_you_mean(key, keys, otherwise=f"use {', '.join(keys)}")
            raise InvalidArgument("calendar", key, problem=f"has no key {quoted(key)}; {hint}")
    try:
        skips = Skips.parse(value)
    except InvalidArgument as error:
        raise error.renamed(error.name.replace("skip", "calendar", 1)) from None
    except RecurrenceInvalid as error:
        raise RecurrenceInvalid(error.rule, error.problem, name=error.name.replace("skip", "calendar", 1)) from None
    if hours is None:
        return WorkingCalendar(skips, is_given=True)
    is_pair = isinstance(hours, dict) and hours.keys() == {"from", "to"}
    opens, closes = (parse_time(str(hours[end])) for end in ("from", "to")) if is_pair else (None, None)
    if opens is None or closes is None or opens >= closes:
        raise InvalidArgument(
            "calendar.hours",
            hours,
            'an object of two times of day, the earlier first: {"from": "09:00", "to": "17:00"}',
        )
    return WorkingCalendar(skips, opens, closes, is_given=True)


@dataclass(frozen=True, slots=True)
class Offset:
    """An offset from the due instant: days, weeks and months on the wall clock, hours as elapsed time."""

    #: This number and the next three are negative for an offset before the due instant.
    business_days: int = 0
    days: int = 0
    months: int = 0
    elapsed: timedelta = _ZERO
    #: The time of day; None: that of the due instant.
    at: time | None = None

    @property
    def text(self) -> str:
        """The offset as the string that `parse_offset` parses: "3 business days before at 09:00"."""
        return _offset_text(self)

    def time_left(self, due_at: datetime, now: datetime, *, zone: ZoneInfo) -> timedelta:
        """Return the time from `now` to a due instant, in whole days of the wall clock unless the offset has hours.

        Args:
            due_at: Aware.
            now: Aware.
            zone: The time zone of the wall clock.
        """
        if self.elapsed:
            return due_at - now
        return due_at.astimezone(zone).date() - now.astimezone(zone).date()

    def instant(
        self, due_at: datetime, *, zone: ZoneInfo, calendar: WorkingCalendar, budget: EvaluationBudget
    ) -> datetime:
        """Return the instant at this offset from a due instant, in UTC.

        A local time in a DST gap moves forward by the gap. An ambiguous local time means its first occurrence; if it is
        the local time of the due instant itself, the result is the due instant.

        Args:
            due_at: Aware.
            zone: The time zone of the wall clock.
            calendar: Defines the business days; with an `adjustment`, moves other days to a business day.
            budget: One step is spent per day that is counted.

        Raises:
            BudgetExceeded: Counting the business days takes too many steps.
            OverflowError: The instant is outside the years 1 to 9999, or there are too few business days.
        """
        due_at = due_at.astimezone(UTC)
        if not (self.business_days or self.days or self.months or self.at is not None):
            return due_at + self.elapsed
        local = due_at.astimezone(zone).replace(tzinfo=None)
        day = _months_later(local.date(), self.months) + timedelta(days=self.days)
        if self.business_days:
            day = calendar.business_days_later(day, self.business_days, budget)
        else:
            day = calendar.moved(day, budget)
        wall = datetime.combine(day, local.time() if self.at is None else self.at)
        # An unchanged wall time may be the second occurrence of an ambiguous one; `resolve` would return the first.
        return (due_at if wall == local else resolve(wall, zone).at) + self.elapsed


@lru_cache(maxsize=1024)
def _offset_text(offset: Offset) -> str:
    at = "" if offset.at is None else f"at {time_text(offset.at)}"
    counts = {"business day": offset.business_days, "month": offset.months, "day": offset.days}
    unit, count = next(((unit, count) for unit, count in counts.items() if count), ("", 0))
    if count and not offset.elapsed:
        return f"{counted(abs(count), unit)} {'before' if count < 0 else 'after'} {at}".replace(",", "").rstrip()
    length = timedelta(days=offset.days) + offset.elapsed
    if at or not length:
        return at or "when due"
    return f"{_short(abs(offset.days), abs(offset.elapsed))} {'before' if length < _ZERO else 'after'}"


def _short(days: int, elapsed: timedelta) -> str:
    """Return a length as a short duration, `1d12h`; elapsed time is not converted to days."""
    minutes, seconds = divmod(elapsed, timedelta(minutes=1))
    counts = ((days, "d"), (minutes // 60, "h"), (minutes % 60, "m"))
    fraction = f"{seconds.total_seconds():.6f}".rstrip("0").rstrip(".")
    return "".join(f"{count}{unit}" for count, unit in counts if count) + (f"{fraction}s" if seconds else "")


def _months_later(day: date, months: int) -> date:
    """Return the day `months` later; if that month is too short, its last day."""
    if not months:
        return day
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:  # noqa: PLR2004 - the years of a date
        raise OverflowError(f"the year {year} is not between 1 and 9999")
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


#: The longest offset, in days: a hundred years.
LONGEST_DAYS = 36525
_UNITS = {
    **dict.fromkeys(("business day", "working day", "work day"), Offset(business_days=1)),
    "day": Offset(days=1), "week": Offset(days=7),
    "month": Offset(months=1), "quarter": Offset(months=3), "year": Offset(months=12),
    "hour": Offset(elapsed=timedelta(hours=1)), "second": Offset(elapsed=timedelta(seconds=1)),
    **dict.fromkeys(("minute", "min"), Offset(elapsed=timedelta(minutes=1))),
}  # fmt: skip
_WORDS = re.compile(
    rf"(?:(?P<number>[0-9]{{1,7}}|{'|'.join(NUMBERS)}) )?(?P<unit>{'|'.join(_UNITS)})s?"
    r"(?: (?P<direction>before|after))?"
)
_AT = re.compile(rf"(?:(?P<distance>.*?) )?at (?P<time>{TIME})", re.ASCII)
_DUE = {"when due", "at due", "due", "on the day", "the same day", "at the due instant", "when missed"}
_DURATION = re.compile(r"(?P<duration>\S+)(?: (?P<direction>before|after))?", re.ASCII)
#: A number of days, as the command line and forms give it.
_DAYS = re.compile(r"-?[0-9]{1,7}")
_OFFSET_EXPECTED = (
    'an offset from the due instant, such as "60 days before", "3 business days before at 09:00", "7 days after", '
    '"when due", "at 09:00", "PT12H before" or a whole number of days such as 60'
)


def parse_offset(value: Any, *, name: str, default: Direction | None = None) -> Offset:  # noqa: ANN401 - any JSON
    """Parse an offset.

    Args:
        value: Words as in `_OFFSET_EXPECTED`; an ISO 8601 or short duration, with or without `before` or `after`; a
            number of days as an integer or its digits; or a `timedelta`, whose days are counted on the wall clock, and
            whose remainder is elapsed time. With a `default`, a negative `timedelta` is in the direction opposite to
            it; without one, before the due instant. With `default` "before", an integer is a number of days before the
            due instant and must not be negative; otherwise, a negative one is before it and a positive one after it.
        name: The name of the argument in errors.
        default: The direction of an offset that states none; None: the offset must state it.

    Raises:
        InvalidArgument: The offset is invalid, lacks a direction, or is longer than a hundred years.
    """
    if type(value) is int:
        return _offset_of_days(value, name, value, default)
    if isinstance(value, timedelta):
        if default is None and value >= _ZERO:
            raise InvalidArgument(name, value, 'an offset with a direction: give a string such as "3 days after"')
        sign = -1 if default == "before" else 1
        return _bounded(name, value, Offset(days=sign * value.days, elapsed=sign * (value - value.days * _ONE_DAY)))
    if not isinstance(value, str) or len(value) > 100:  # noqa: PLR2004 - longer than any offset
        raise InvalidArgument(name, value, _OFFSET_EXPECTED)
    return _parsed_offset(value, name, default)


@lru_cache(maxsize=1024)
def _parsed_offset(text: str, name: str, default: Direction | None) -> Offset:
    words, at = " ".join(text.lower().split()), None
    timed = _AT.fullmatch(words)
    if timed is not None:
        words, at = timed["distance"] or "on the day", parse_time(timed["time"])
        if at is None:
            raise InvalidArgument(name, text, "an offset with a valid time of day, such as 09:00 or 23:59:30")
    if words in _DUE:
        return Offset(at=at)
    if _DAYS.fullmatch(words):
        return _offset_of_days(int(words), name, text, default, at)
    match = _WORDS.fullmatch(words) or _DURATION.fullmatch(words)
    if match is None:
        raise InvalidArgument(name, text, _OFFSET_EXPECTED)
    if match.re is _WORDS:
        size = _multiplied(_UNITS[match["unit"]], NUMBERS.get(match["number"] or "a") or int(match["number"]))
    else:
        size = _size_of_duration(match["duration"], name, text)
    if size.elapsed and at is not None:
        raise InvalidArgument(name, text, 'an offset in days, weeks or months, which "at" requires')
    direction = match["direction"] or default
    if direction is None:
        raise InvalidArgument(name, text, 'an offset with a direction, such as "3 days before"')
    return _bounded(name, text, _multiplied(size, -1 if direction == "before" else 1, at))


def _offset_of_days(days: int, name: str, value: object, default: Direction | None, at: time | None = None) -> Offset:
    offset = _bounded(name, value, Offset(days=-days if default == "before" else days, at=at))
    if days < 0 and default == "before":
        expected = f'a number of days before the due instant: write {-days}, or "{-days} days after"'
        raise InvalidArgument(name, value, expected)
    return offset


def _size_of_duration(given: str, name: str, text: str) -> Offset:
    try:
        length = parse_duration(given.upper() if given.startswith("p") else given)
    except InvalidArgument:
        raise InvalidArgument(name, text, _OFFSET_EXPECTED) from None
    # Hours are elapsed time even if they add up to whole days: PT24H is not P1D.
    days = length.days if re.search("[dw]", given) else 0
    return Offset(days=days, elapsed=length - days * _ONE_DAY)


def _multiplied(size: Offset, count: int, at: time | None = None) -> Offset:
    return Offset(count * size.business_days, count * size.days, count * size.months, count * size.elapsed, at)


def _bounded(name: str, value: object, offset: Offset) -> Offset:
    days = max(abs(offset.days), abs(offset.months) * 31, abs(offset.business_days) * 2, abs(offset.elapsed.days))
    if days > LONGEST_DAYS:
        raise InvalidArgument(name, value, "an offset of at most a hundred years")
    return offset
