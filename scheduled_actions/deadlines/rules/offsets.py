"""Distances from the due instant: `60 days before`, `3 business days after at 09:00`, `when due`, a duration."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from scheduled_actions.core.durations import parse_duration
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.recurrence.phrases import TIME, counted, parse_time, time_text
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.deadlines.rules.working_calendar import Calendar

Direction: TypeAlias = Literal["before", "after"]

_ONE_DAY = timedelta(days=1)
_MONTHS_A_YEAR = 12
#: The longest distance, in days: a hundred years.
_LONGEST_DAYS = 36525
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10,
}  # fmt: skip
_UNIT = r"(?P<unit>(?:business|working|work) day|day|week|month|quarter|year|hour|minute|min|second)s?"
_WORDS = re.compile(rf"(?:(?P<number>[0-9]{{1,7}}|the|{'|'.join(_NUMBERS)}) )?{_UNIT}(?: (?P<direction>before|after))?")
_AT = re.compile(rf"(?:(?P<distance>.*?) )?at (?P<time>{TIME})", re.ASCII)
_DUE = {"when due", "at due", "due", "on the day", "the same day", "at the due instant", "when missed"}
_DURATION = re.compile(r"(?P<duration>\S+)(?: (?P<direction>before|after))?", re.ASCII)
_EXPECTED = (
    'a distance from the due instant, such as "60 days before", "3 business days before at 09:00", "7 days after", '
    '"when due", "at 09:00" or "PT12H before"'
)


@dataclass(frozen=True, slots=True)
class Offset:
    """A distance from the due instant. Days, weeks and months are counted on the wall clock, hours as they pass."""

    #: Negative: before the due instant.
    business_days: int = 0
    days: int = 0
    months: int = 0
    elapsed: timedelta = timedelta(0)
    #: The time of day it falls on; None: that of the due instant.
    at: time | None = None

    @property
    def text(self) -> str:
        """The distance in words that `parse_offset` reads as the same."""
        for count, unit in (
            (self.business_days, "business day"),
            (self.months, "month"),
            (self.days, "day"),
        ):
            if count and not self.elapsed:
                said = f"{counted(abs(count), unit)} {_direction(count)}".replace(",", "")
                return said + ("" if self.at is None else f" at {time_text(self.at)}")
        if self.at is not None:
            return f"at {time_text(self.at)}"
        length = timedelta(days=self.days) + self.elapsed
        if not length:
            return "when due"
        return f"{_short(abs(self.days), abs(self.elapsed))} {_direction(1 if length > timedelta(0) else -1)}"

    def instant(
        self, due_at: datetime, *, zone: ZoneInfo, calendar: Calendar, budget: EvaluationBudget | None = None
    ) -> datetime:
        """Return when that is, in UTC.

        A local time that a change of the clocks skips comes later by the gap; one that comes twice is its first.

        Args:
            due_at: Aware.
            zone: Whose wall clock days are counted on.
            calendar: Which days are business days; it may move what falls on others.
            budget: Has a step for each day that is looked at; None: a new one.

        Raises:
            BudgetExceeded: It is too many business days away.
            OverflowError: It is beyond the calendar's years.
        """
        if not (self.business_days or self.days or self.months or self.at is not None):
            return due_at.astimezone(UTC) + self.elapsed
        local = due_at.astimezone(zone).replace(tzinfo=None)
        day = _months_later(local.date(), self.months) + timedelta(days=self.days)
        if self.business_days:
            day = calendar.business_days_later(day, self.business_days, budget)
        else:
            day = calendar.moved(day, budget)
        wall = datetime.combine(day, local.time() if self.at is None else self.at)
        # Where nothing moved, a time that comes twice is the showing that the due instant means.
        at = due_at.astimezone(UTC) if wall == local else resolve(wall, zone).at
        return at + self.elapsed


def parse_offset(value: Any, *, name: str, default: Direction | None = None) -> Offset:  # noqa: ANN401 - any JSON
    """Return the distance that `value` says.

    Args:
        value: Words (`_EXPECTED` shows them), an ISO 8601 or short duration with or without `before` or `after`, or a
            `timedelta`: its days on the wall clock, the rest as it passes.
        name: What it is called in errors.
        default: The direction of what names none; None: it must name one.

    Raises:
        InvalidArgument: It is no distance, names no direction where one is needed, or is over a hundred years.
    """
    if isinstance(value, Offset):
        return value
    if isinstance(value, timedelta):
        if default is None and value >= timedelta(0):
            raise InvalidArgument(name, value, f'{_EXPECTED}: say "before" or "after"')
        sign = -1 if default == "before" else 1
        return _bounded(name, value, Offset(days=sign * value.days, elapsed=sign * (value - value.days * _ONE_DAY)))
    if not isinstance(value, str) or len(value) > 100:  # noqa: PLR2004 - more than any distance takes
        raise InvalidArgument(name, value, _EXPECTED)
    return _from_text(value, name, default)


@lru_cache(maxsize=1024)
def _from_text(text: str, name: str, default: Direction | None) -> Offset:
    words = " ".join(text.lower().split())
    at = None
    timed = _AT.fullmatch(words)
    if timed is not None:
        at = parse_time(timed["time"])
        if at is None:
            raise InvalidArgument(name, text, "a distance with a time of day, such as 09:00 or 23:59:30")
        words = timed["distance"] or "on the day"
    if words in _DUE:
        return Offset(at=at)
    plain = _WORDS.fullmatch(words)
    if plain is not None:
        return _in_units(text, plain, at, name, default)
    return _in_durations(text, words, at, name, default)


def _in_units(text: str, match: re.Match[str], at: time | None, name: str, default: Direction | None) -> Offset:
    number = match["number"] or "1"
    count = _NUMBERS.get(number, 1 if number == "the" else 0) or int(number if number.isdigit() else 0)
    count *= _sign(text, name, match["direction"], default)
    match match["unit"]:
        case "business day" | "working day" | "work day":
            offset = Offset(business_days=count, at=at)
        case "day":
            offset = Offset(days=count, at=at)
        case "week":
            offset = Offset(days=7 * count, at=at)
        case "month":
            offset = Offset(months=count, at=at)
        case "quarter":
            offset = Offset(months=3 * count, at=at)
        case "year":
            offset = Offset(months=_MONTHS_A_YEAR * count, at=at)
        case unit if at is not None:
            raise InvalidArgument(name, text, f"a distance in days where it names a time of day, not in {unit}s")
        case "hour":
            offset = Offset(elapsed=timedelta(hours=count))
        case "minute" | "min":
            offset = Offset(elapsed=timedelta(minutes=count))
        case _:
            offset = Offset(elapsed=timedelta(seconds=count))
    return _bounded(name, text, offset)


def _in_durations(text: str, words: str, at: time | None, name: str, default: Direction | None) -> Offset:
    match = _DURATION.fullmatch(words)
    if match is None:
        raise InvalidArgument(name, text, _EXPECTED)
    given = match["duration"]
    try:
        length = parse_duration(given.upper() if given.startswith("p") else given)
    except InvalidArgument:
        raise InvalidArgument(name, text, _EXPECTED) from None
    sign = _sign(text, name, match["direction"], default)
    # What is said in hours passes by the hour, however long it is.
    days = length.days if re.search("[dw]", given) else 0
    rest = length - days * _ONE_DAY
    if rest and at is not None:
        raise InvalidArgument(name, text, "a distance in whole days where it names a time of day")
    return _bounded(name, text, Offset(days=sign * days, elapsed=sign * rest, at=at))


def _sign(text: str, name: str, said: str | None, default: Direction | None) -> int:
    direction = said or default
    if direction is None:
        raise InvalidArgument(name, text, 'a distance with its direction: end it with "before" or "after"')
    return -1 if direction == "before" else 1


def _bounded(name: str, value: object, offset: Offset) -> Offset:
    days = max(abs(offset.days), abs(offset.months) * 31, abs(offset.business_days) * 2, abs(offset.elapsed.days))
    if days > _LONGEST_DAYS:
        raise InvalidArgument(name, value, "a distance of at most a hundred years")
    return offset


def _direction(count: int) -> Direction:
    return "before" if count < 0 else "after"


def _short(days: int, elapsed: timedelta) -> str:
    """Return a length as a short duration: `1d12h`; what passes by the hour stays in hours."""
    hours, rest = divmod(elapsed // timedelta(seconds=1), 3600)
    minutes, seconds = divmod(rest, 60)
    text = "".join(f"{count}{unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "m")) if count)
    fraction = f".{elapsed.microseconds:06d}".rstrip("0").rstrip(".")
    return f"{text}{seconds}{fraction}s" if seconds or fraction else text


def _months_later(day: date, months: int) -> date:
    """Return the day so many months later; the last of its month where it has no such day."""
    if not months:
        return day
    year, month = divmod(day.year * _MONTHS_A_YEAR + day.month - 1 + months, _MONTHS_A_YEAR)
    if not 1 <= year <= 9999:  # noqa: PLR2004 - what a date can say
        message = f"the year {year} is beyond the calendar"
        raise OverflowError(message)
    last = monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last))
