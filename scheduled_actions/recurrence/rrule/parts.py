"""Parse and check the value of an RRULE, `FREQ=MONTHLY;BYDAY=-1FR`, and iCalendar dates, `20270131T090000`.

As an extension, BYDAY accepts ranges, `MO..FR`; `Parts.text` expands them.

Source: RFC 5545 §3.3.10, with errata 1913 and 4271.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from math import prod
from typing import Any, Literal, NamedTuple, TypeAlias, get_args
from zoneinfo import ZoneInfo

from scheduled_actions.core.messages import counted, did_you_mean
from scheduled_actions.recurrence.model import COUNT_MOST, DAY, Occurrence, resolve
from scheduled_actions.recurrence.phrases import WEEKDAYS, Malformed, quoted, refuse

Frequency: TypeAlias = Literal["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"]
FREQUENCIES: tuple[Frequency, ...] = get_args(Frequency)
DAYS = tuple(name[:2].upper() for name in WEEKDAYS)
#: The years in which occurrences are computed: before them, zones used local mean time; soon after them, the range of
#: `datetime` ends.
FIRST_YEAR, LAST_YEAR = 1900, 9990

#: Maximum number of days in a period of each frequency.
_DAYS_MOST = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7, "DAILY": 1}
_NTH_IN_MONTH, _NTH_IN_YEAR = 5, 53

_DAY = re.compile(r"(?P<nth>[+-]?[0-9]{1,2})?(?P<day>[A-Z]{2})", re.ASCII)
_STAMP = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})(Z)?)?", re.ASCII)

_UNSUPPORTED = {
    "RSCALE": "calendars other than the Gregorian (RFC 7529) are not supported",
    "SKIP": "RFC 7529 is not supported: a date that does not exist is left out",
    "BYEASTER": "this part is not in RFC 5545: list the days in RDATE",
}


@dataclass(frozen=True, slots=True)
class Stamp:
    """An iCalendar DATE or DATE-TIME value."""

    #: Naive; midnight for a date.
    wall: datetime
    #: None: a floating time, in the rule's zone.
    zone: ZoneInfo | None
    is_date: bool

    def resolved(self, floating: ZoneInfo) -> Occurrence:
        """Return the occurrence at the time, or at midnight of a date; `floating` is the zone if the value has none."""
        return resolve(self.wall, self.zone or floating)

    def end_at(self, floating: ZoneInfo) -> datetime:
        """Return the last instant that the value includes, in UTC: for a date, the last second of the day.

        A value after the year `LAST_YEAR` gives 31 December of `LAST_YEAR`.
        """
        if self.wall.year > LAST_YEAR:
            return datetime(LAST_YEAR, 12, 31, tzinfo=UTC)
        if not self.is_date:
            return self.resolved(floating).at
        return resolve(self.wall + DAY, self.zone or floating).at - timedelta(seconds=1)

    @property
    def value(self) -> str:
        """The value in iCalendar format, without a TZID."""
        is_utc = self.zone is not None and self.zone.key == "UTC"
        return f"{self.wall:%Y%m%d}" if self.is_date else f"{self.wall:%Y%m%dT%H%M%S}{'Z' if is_utc else ''}"


def read_stamp(name: str, text: str, *, zone: ZoneInfo | None = None, last_year: int = LAST_YEAR) -> Stamp:
    """Parse an iCalendar date or time; second 60 becomes 59, because leap seconds are not supported (RFC 5545 §3.3.12).

    Args:
        name: The property or part of the value, for errors.
        text: The value, in upper case.
        zone: The zone of TZID; None without TZID.
        last_year: The last year that is accepted.

    Raises:
        Malformed: The value is not a date or time, does not exist, or is out of range.
    """
    match = _STAMP.fullmatch(text)
    if match is None:
        raise Malformed(
            f"{name}: {quoted(text)} is not an iCalendar date or time, "
            "such as 20270131, 20270131T090000 or (in UTC) 20270131T080000Z"
        )
    year, month, day, hour, minute, second, z = match.groups(default="")
    refuse((z and zone is not None, f"{name}: {text} is in UTC (Z) and also has a TZID: remove one of them"))
    seconds = 59 if second == "60" else int(second or 0)
    try:
        wall = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), seconds)  # noqa: DTZ001 (wall time)
    except ValueError:
        raise Malformed(f"{name}: {text} has a date or time of day that does not exist") from None
    refuse(
        (
            not FIRST_YEAR <= wall.year <= last_year,
            f"{name}: the year of {text} is not between {FIRST_YEAR} and {last_year}",
        )
    )
    return Stamp(wall, ZoneInfo("UTC") if z else zone, is_date=not hour)


class NthDay(NamedTuple):
    """An element of BYDAY."""

    #: 1: the first of the month or year; -1: the last; 0: every one.
    nth: int
    #: 0 is Monday.
    weekday: int

    def __str__(self) -> str:
        return f"{self.nth or ''}{DAYS[self.weekday]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a rule. Lists are sorted and have no duplicates; an empty list means that the part is absent."""

    frequency: Frequency
    interval: int = 1
    count: int | None = None
    until: Stamp | None = None
    by_month: tuple[int, ...] = ()
    by_week_number: tuple[int, ...] = ()
    by_year_day: tuple[int, ...] = ()
    by_month_day: tuple[int, ...] = ()
    by_day: tuple[NthDay, ...] = ()
    by_hour: tuple[int, ...] = ()
    by_minute: tuple[int, ...] = ()
    by_second: tuple[int, ...] = ()
    by_set_position: tuple[int, ...] = ()
    #: 0 is Monday.
    week_start: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether the rule follows real time rather than the calendar."""
        return self.frequency in {"HOURLY", "MINUTELY", "SECONDLY"}

    @property
    def text(self) -> str:
        """The rule in canonical form: parts and lists in order, ranges expanded, defaults omitted."""
        values = {
            "FREQ": self.frequency,
            "INTERVAL": self.interval if self.interval > 1 else None,
            "COUNT": self.count,
            "UNTIL": self.until and self.until.value,
            **{name: ",".join(map(str, getattr(self, field))) for name, field in _lists()},
            "WKST": DAYS[self.week_start] if self.week_start else None,
        }
        return ";".join(f"{name}={value}" for name, value in values.items() if value)


def read_parts(value: str) -> Parts:
    """Parse the parts of a rule; check each part and their combination.

    Args:
        value: `NAME=VALUE;NAME=VALUE…` in any order and any case.

    Raises:
        Malformed: The message names the part, the problem and what to write instead.
    """
    given = _split(value.upper())
    refuse(
        ("FREQ" not in given, f"FREQ is missing: begin with FREQ={', '.join(FREQUENCIES[:-1])} or {FREQUENCIES[-1]}"),
        (given.keys() >= {"COUNT", "UNTIL"}, "COUNT and UNTIL cannot both end a rule: remove one of them"),
    )
    parts = Parts(**{field: parse(name, given[name]) for name, (field, parse) in _PARTS.items() if name in given})
    _check_together(parts)
    return parts


def _split(value: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for position, part in enumerate(value.split(";"), 1):
        name, equals, data = part.partition("=")
        if name not in _PARTS and part and equals and name not in _UNSUPPORTED:
            raise Malformed(
                f"{quoted(name)} is not a part of a rule; "
                + did_you_mean(name, _PARTS, otherwise=f"expected one of {', '.join(_PARTS)}")
            )
        refuse(
            (not part, f"part {position} is empty: remove one ;"),
            (not equals, f"part {position}, {quoted(part)}: expected NAME=VALUE, such as FREQ=DAILY"),
            (name in _UNSUPPORTED, f"{name}: {_UNSUPPORTED.get(name)}"),
            (name in given, f"{name} is given twice"),
            (not data, f"{name} has no value: remove it or set one"),
        )
        given[name] = data
    return given


def _frequency(_name: str, data: str) -> Frequency:
    if data not in FREQUENCIES:
        hint = did_you_mean(data, FREQUENCIES, otherwise=f"expected one of {', '.join(FREQUENCIES)}")
        raise Malformed(f"FREQ: {quoted(data)} is not a frequency; {hint}")
    return data


def _whole(name: str, data: str, *, most: int) -> int:
    is_valid = re.fullmatch("[0-9]{1,10}", data) and 1 <= int(data) <= most
    refuse((not is_valid, f"{name}: {quoted(data)} is not a whole number from 1 to {most:,}"))
    return int(data)


def _numbers(name: str, data: str, *, low: int, high: int, is_signed: bool = False) -> tuple[int, ...]:
    """Parse a list of numbers; in a signed one, negative numbers count from the end: -1 is the last."""
    allowed = f"{low} to {high}" + (f", or -{high} to -{low}" if is_signed else "")
    items = data.split(",")
    for item in items:
        refuse(
            (".." in item, f"{name}: {quoted(item)}: only BYDAY accepts ranges; list each number"),
            (not re.fullmatch("[+-]?[0-9]{1,3}", item), f"{name}: {quoted(item)} is not a whole number from {allowed}"),
        )
        refuse(
            (
                not low <= int(item.lstrip("+-")) <= high or (item[0] in "+-" and not is_signed),
                f"{name}: {item} is not a number from {allowed}",
            )
        )
    # RFC 5545 §3.3.12: second 60 becomes 59 where clocks show no leap seconds.
    return tuple(sorted({min(int(item), 59) if name == "BYSECOND" else int(item) for item in items}))


def _weekdays(name: str, data: str) -> tuple[NthDay, ...]:
    days = set()
    for item in data.split(","):
        if span := re.fullmatch(r"(?P<first>[A-Z]{2})\.\.(?P<last>[A-Z]{2})", item):
            first, last = _weekday(name, span["first"]), _weekday(name, span["last"])
            days |= {NthDay(0, (first + ahead) % 7) for ahead in range((last - first) % 7 + 1)}
            continue
        match = _DAY.fullmatch(item)
        if match is None:
            raise Malformed(
                f"{name}: {quoted(item)} is not a day: use {', '.join(DAYS)}, a number for the nth (-1FR), or MO..FR"
            )
        nth = int(match["nth"] or 0)
        refuse(
            (
                match["nth"] and not 1 <= abs(nth) <= _NTH_IN_YEAR,
                f"{name}: {item}: {nth} is not a number from 1 to {_NTH_IN_YEAR}, or -{_NTH_IN_YEAR} to -1",
            )
        )
        days.add(NthDay(nth, _weekday(name, match["day"])))
    return tuple(sorted(days, key=lambda day: (day.weekday, day.nth)))


def _weekday(name: str, data: str) -> int:
    refuse((data not in DAYS, f"{name}: {quoted(data)} is not a day of the week: use {', '.join(DAYS)}"))
    return DAYS.index(data)


#: The field of `Parts` and the parser of each part; the lists in the order of `Parts.text`. RFC 5545 allows intervals
#: up to 2,147,483,647; above 1,000,000,000, no rule occurs twice within thirty years.
_PARTS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "FREQ": ("frequency", _frequency),
    "INTERVAL": ("interval", partial(_whole, most=1_000_000_000)),
    "COUNT": ("count", partial(_whole, most=COUNT_MOST)),
    "UNTIL": ("until", partial(read_stamp, last_year=9999)),
    "WKST": ("week_start", _weekday),
    "BYMONTH": ("by_month", partial(_numbers, low=1, high=12)),
    "BYWEEKNO": ("by_week_number", partial(_numbers, low=1, high=53, is_signed=True)),
    "BYYEARDAY": ("by_year_day", partial(_numbers, low=1, high=366, is_signed=True)),
    "BYMONTHDAY": ("by_month_day", partial(_numbers, low=1, high=31, is_signed=True)),
    "BYDAY": ("by_day", _weekdays),
    "BYHOUR": ("by_hour", partial(_numbers, low=0, high=23)),
    "BYMINUTE": ("by_minute", partial(_numbers, low=0, high=59)),
    "BYSECOND": ("by_second", partial(_numbers, low=0, high=60)),
    "BYSETPOS": ("by_set_position", partial(_numbers, low=1, high=366, is_signed=True)),
}


def _lists() -> list[tuple[str, str]]:
    """Return the name and the field of each BY part."""
    return [(name, field) for name, (field, _) in _PARTS.items() if name.startswith("BY")]


def _check_together(parts: Parts) -> None:
    """Raise Malformed if RFC 5545 forbids the combination of parts, or if a part selects nothing."""
    frequency, positions = parts.frequency, parts.by_set_position
    numbered = next((day for day in parts.by_day if day.nth), None)
    beyond = next((day for day in parts.by_day if abs(day.nth) > _NTH_IN_MONTH), None)
    instants = _instants_most(parts)
    has_by_part = any(getattr(parts, field) for name, field in _lists() if name != "BYSETPOS")
    refuse(
        (parts.by_week_number and frequency != "YEARLY", f"BYWEEKNO needs FREQ=YEARLY, not {frequency}"),
        (
            parts.by_year_day and frequency in {"DAILY", "WEEKLY", "MONTHLY"},
            f"BYYEARDAY is not allowed with FREQ={frequency}: use YEARLY, or BYMONTH with BYMONTHDAY",
        ),
        (
            parts.by_month_day and frequency == "WEEKLY",
            "BYMONTHDAY is not allowed with FREQ=WEEKLY: use MONTHLY",
        ),
        (
            positions and not has_by_part,
            "BYSETPOS selects from the dates of another BY part: add one, such as BYDAY",
        ),
        (
            positions and all(abs(position) > instants for position in positions),
            (
                f"BYSETPOS: {', '.join(map(str, positions))} selects nothing: a period of FREQ={frequency} has at most "
                f"{counted(instants, 'instant')}"
            ),
        ),
        (
            numbered and frequency not in {"MONTHLY", "YEARLY"},
            f"BYDAY: {numbered}: the nth day needs FREQ=MONTHLY or YEARLY, not {frequency}",
        ),
        (
            numbered and parts.by_week_number,
            f"BYDAY: {numbered}: the nth day is not allowed with BYWEEKNO: a week has each day once",
        ),
        (
            beyond and (frequency == "MONTHLY" or parts.by_month),
            f"BYDAY: {beyond}: a month has at most {_NTH_IN_MONTH} of each weekday",
        ),
    )


def _instants_most(parts: Parts) -> int:
    """Return the maximum number of instants in a period, for BYSETPOS."""
    # A part of the unit of the frequency, or of a coarser unit, is a condition that adds no instants.
    times = {"HOURLY": parts.by_hour, "MINUTELY": parts.by_minute, "SECONDLY": parts.by_second}
    finer = FREQUENCIES[FREQUENCIES.index(parts.frequency) + 1 :]
    return _DAYS_MOST.get(parts.frequency, 1) * prod(max(1, len(times.get(unit, ()))) for unit in finer)
