"""The grammar of intervals: which lengths of time a text names, and what is wrong with one that names none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import RecurrenceInvalid
from scheduled_actions.recurrence.phrases import WEEKDAYS, nearest, parse_time

if TYPE_CHECKING:
    from datetime import time

#: The length of each unit in months, days or microseconds.
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_DAYS = {"week": 7, "day": 1}
_MICROSECONDS = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_UNITS = {**_MONTHS, **_DAYS, **_MICROSECONDS}
#: On average, in microseconds: 4,800 months of the calendar have 146,097 days.
AVERAGE_MONTH = 2_629_746_000_000
_DAY = 86_400_000_000

#: One word for an interval: how many of which unit.
ADVERBS = {
    "hourly": (1, "hour"),
    "daily": (1, "day"),
    "weekly": (1, "week"),
    "monthly": (1, "month"),
    "quarterly": (1, "quarter"),
    "yearly": (1, "year"),
    "annually": (1, "year"),
}
#: Words that people use for different things, and what they may have meant.
AMBIGUOUS = {
    "biweekly": "every 2 weeks",
    "fortnightly": "every 2 weeks",
    "bimonthly": "every 2 months",
    "biannually": "every 6 months",
    "semiannually": "every 6 months",
}
_DESIGNATORS = (
    ("years", "year"), ("months", "month"), ("weeks", "week"), ("days", "day"),
    ("hours", "hour"), ("minutes", "minute"), ("seconds", "second"),
)  # fmt: skip

_EVERY = re.compile(r"every (?:(?P<count>\S+) )?(?P<unit>\S+)")
_NUMBER = r"[0-9]+(?:[.,][0-9]+)?"
_COUNT = re.compile(_NUMBER)
_ISO = re.compile(
    rf"P(?:(?P<years>{_NUMBER})Y)?(?:(?P<months>{_NUMBER})M)?(?:(?P<weeks>{_NUMBER})W)?(?:(?P<days>{_NUMBER})D)?"
    rf"(?:T(?=[0-9])(?:(?P<hours>{_NUMBER})H)?(?:(?P<minutes>{_NUMBER})M)?(?:(?P<seconds>{_NUMBER})S)?)?",
    re.IGNORECASE | re.ASCII,
)
_FORMS = 'write "every 30 minutes", "daily", "every 2 weeks at 09:00", or an ISO 8601 duration: PT10M, P1D, P1M'


@dataclass(frozen=True, slots=True)
class Length:
    """How long an interval is: calendar units apart from exact ones."""

    #: As they were written, the longest first: ("10", "minute").
    parts: tuple[tuple[str, str], ...]
    months: int
    days: int
    microseconds: int
    #: Another time of day than the anchor's.
    at: time | None

    @property
    def average(self) -> int:
        """Microseconds, a month being as long as it is on average."""
        return self.months * AVERAGE_MONTH + self.days * _DAY + self.microseconds


@lru_cache(maxsize=256)
def parse_length(text: str) -> Length:
    """Return the length that `text` names: a second at least.

    Raises:
        RecurrenceInvalid: It names none.
    """
    words, at, time_words = " ".join(text.lower().split()).partition(" at ")
    length = _length(text, _parts(text, words), _time(text, time_words) if at else None)
    if length.average < _MICROSECONDS["second"]:
        raise RecurrenceInvalid(text, "the least interval is one second")
    if length.at is not None and length.microseconds:
        raise RecurrenceInvalid(text, '"at" names the time of day of days, weeks, months and years, not of hours')
    return length


def _parts(text: str, words: str) -> list[tuple[str, str]]:
    """Return how many of which unit, as written."""
    if words in ADVERBS:
        count, unit = ADVERBS[words]
        return [(str(count), unit)]
    if words in AMBIGUOUS:
        raise RecurrenceInvalid(text, f'means different things to people: write "{AMBIGUOUS[words]}", for instance')
    every = _EVERY.fullmatch(words)
    if every:
        return [_every(text, every["count"], every["unit"])]
    if "-" in words and _ISO.fullmatch(words.replace("-", "")):
        raise RecurrenceInvalid(text, "an interval cannot be negative")
    iso = _ISO.fullmatch(words)
    parts = [(iso[name], unit) for name, unit in _DESIGNATORS if iso[name]] if iso else []
    if not parts:
        raise RecurrenceInvalid(text, f"is no interval: {_FORMS}")
    return parts


def _every(text: str, count: str | None, unit: str) -> tuple[str, str]:
    singular = unit.removesuffix("s")
    if singular not in _UNITS:
        raise RecurrenceInvalid(text, _no_unit(count, unit))
    count = {None: "1", "other": "2", "second": "2"}.get(count, count) or ""
    if count.startswith("-"):
        raise RecurrenceInvalid(text, "an interval cannot be negative")
    if not _COUNT.fullmatch(count):
        raise RecurrenceInvalid(text, f'"{count}" is not a number in digits: write "every 2 {singular}s", for instance')
    return count, singular


def _no_unit(count: str | None, unit: str) -> str:
    if unit.removesuffix("s").capitalize() in WEEKDAYS:
        return f'"{unit}" is no unit of time: write it in cron, "0 9 * * {unit[:3].upper()}"'
    if unit.removesuffix("s") in {"weekday", "workday"}:
        return f'"{unit}" is no unit of time: write it in cron, "0 9 * * MON-FRI", or "daily" with skips of weekends'
    near = nearest(unit.removesuffix("s"), _UNITS)
    if near is None:
        return (
            f'"{unit}" is no unit of time: it is one of seconds, minutes, hours, days, weeks, months, quarters, years'
        )
    return f'"{unit}" is no unit of time; did you mean "every {f"{count} {near}s" if count else near}"?'


def _time(text: str, words: str) -> time:
    at = parse_time(words)
    if at is None:
        raise RecurrenceInvalid(text, f'"{words}" is not a time of day, such as 09:00 or 23:59:30')
    return at


def _length(text: str, parts: list[tuple[str, str]], at: time | None) -> Length:
    sums = dict.fromkeys(("months", "days", "microseconds"), 0)
    for count, unit in parts:
        whole, _, fraction = count.replace(",", ".").partition(".")
        if fraction.strip("0") and unit != "second":
            raise RecurrenceInvalid(text, f"only seconds may have a fraction: write {count} {unit}s in smaller units")
        if len(fraction.rstrip("0")) > 6:  # noqa: PLR2004 - microseconds
            raise RecurrenceInvalid(text, f"{count} seconds is finer than a microsecond")
        if unit in _MICROSECONDS:
            sums["microseconds"] += int(whole) * _MICROSECONDS[unit] + int(fraction.rstrip("0").ljust(6, "0"))
        elif unit in _DAYS:
            sums["days"] += int(whole) * _DAYS[unit]
        else:
            sums["months"] += int(whole) * _MONTHS[unit]
    return Length(tuple((count, unit) for count, unit in parts if count.strip("0.,")), at=at, **sums)
