"""The value of an RRULE, `FREQ=MONTHLY;BYDAY=-1FR`, read and checked part by part.

Source: RFC 5545 §3.3.10, with errata 1913 and 4271. One extension: BYDAY takes ranges, `MO..FR`; `Parts.text` spells
them out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

from scheduled_actions.recurrence.phrases import WEEKDAYS, nearest
from scheduled_actions.recurrence.rrule.dates import Malformed, Stamp, read_stamp, shown

Frequency: TypeAlias = Literal["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"]
FREQUENCIES: tuple[Frequency, ...] = get_args(Frequency)
#: These follow real time, the others the calendar.
EXACT_FREQUENCIES = ("HOURLY", "MINUTELY", "SECONDLY")
DAYS = tuple(name[:2].upper() for name in WEEKDAYS)

#: 2,147,483,647 is the RFC's; from some way below on, nothing comes twice in thirty years.
_INTERVAL_MOST = 1_000_000_000
#: The last occurrence of a rule with COUNT is found by counting.
COUNT_MOST = 10_000
_LAST_YEAR = 9999
#: How many days each period of a frequency can hold at most.
_DAYS_MOST = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7, "DAILY": 1}
#: The fifth Monday is the last a month can have.
_NTH_IN_MONTH = 5
_NTH_IN_YEAR = 53

_WHOLE = re.compile(r"[0-9]{1,10}", re.ASCII)
_SIGNED = re.compile(r"[+-]?[0-9]{1,3}", re.ASCII)
_DAY = re.compile(r"(?P<nth>[+-]?[0-9]{1,2})?(?P<day>[A-Z]{2})", re.ASCII)
_DAY_RANGE = re.compile(r"(?P<first>[A-Z]{2})\.\.(?P<last>[A-Z]{2})", re.ASCII)


class _List(NamedTuple):
    """What a list of numbers may hold."""

    field: str
    low: int
    high: int
    #: Whether the numbers also count from the end: -1 is the last.
    is_signed: bool


_LISTS = {
    "BYMONTH": _List("by_month", 1, 12, is_signed=False),
    "BYWEEKNO": _List("by_week_number", 1, 53, is_signed=True),
    "BYYEARDAY": _List("by_year_day", 1, 366, is_signed=True),
    "BYMONTHDAY": _List("by_month_day", 1, 31, is_signed=True),
    "BYHOUR": _List("by_hour", 0, 23, is_signed=False),
    "BYMINUTE": _List("by_minute", 0, 59, is_signed=False),
    "BYSECOND": _List("by_second", 0, 60, is_signed=False),
    "BYSETPOS": _List("by_set_position", 1, 366, is_signed=True),
}
_NAMES = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "WKST", *_LISTS)
_UNSUPPORTED = {
    "RSCALE": "other calendars than the Gregorian one (RFC 7529) are not supported",
    "SKIP": "SKIP (RFC 7529) is not supported: a date that does not exist is left out",
    "BYEASTER": "BYEASTER is no part of RFC 5545: list the days in RDATE",
}


class NthDay(NamedTuple):
    """A weekday of BYDAY."""

    #: 1 is the first of the month or year, -1 the last; 0 is every.
    nth: int
    #: 0 is Monday.
    weekday: int

    @property
    def text(self) -> str:
        """The day as BYDAY writes it."""
        return f"{self.nth or ''}{DAYS[self.weekday]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a rule; an empty tuple is a part that was not given. Lists are sorted, without repetitions."""

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
        return self.frequency in EXACT_FREQUENCIES

    @property
    def text(self) -> str:
        """The rule in one spelling: parts and lists in order, ranges spelt out, what is default left out."""
        ends = [f"COUNT={self.count}"] if self.count else [f"UNTIL={self.until.value}"] if self.until else []
        lists = {name: [str(number) for number in getattr(self, kind.field)] for name, kind in _LISTS.items()}
        lists["BYDAY"] = [day.text for day in self.by_day]
        order = (
            "BYMONTH",
            "BYWEEKNO",
            "BYYEARDAY",
            "BYMONTHDAY",
            "BYDAY",
            "BYHOUR",
            "BYMINUTE",
            "BYSECOND",
            "BYSETPOS",
        )
        return ";".join(
            [
                f"FREQ={self.frequency}",
                *([f"INTERVAL={self.interval}"] if self.interval > 1 else []),
                *ends,
                *(f"{name}={','.join(lists[name])}" for name in order if lists[name]),
                *([f"WKST={DAYS[self.week_start]}"] if self.week_start else []),
            ]
        )


def read_parts(value: str) -> Parts:
    """Return the parts of a rule, each valid and all of them together.

    Args:
        value: `NAME=VALUE;NAME=VALUE…` in any order and any case.

    Raises:
        Malformed: Naming the part, what is wrong with it, and what would be right.
    """
    given = _split(value.upper())
    if "FREQ" not in given:
        raise Malformed(f"FREQ is missing: begin with FREQ={', '.join(FREQUENCIES[:-1])} or {FREQUENCIES[-1]}")
    if "COUNT" in given and "UNTIL" in given:
        raise Malformed("COUNT and UNTIL cannot both end a rule: leave out one of them")
    lists = {kind.field: _numbers(name, given[name], kind) for name, kind in _LISTS.items() if name in given}
    until = read_stamp("UNTIL", given["UNTIL"], last_year=_LAST_YEAR) if "UNTIL" in given else None
    parts = Parts(
        frequency=_frequency(given["FREQ"]),
        interval=_whole("INTERVAL", given.get("INTERVAL", "1"), _INTERVAL_MOST),
        count=_whole("COUNT", given["COUNT"], COUNT_MOST) if "COUNT" in given else None,
        until=until,
        by_day=_weekdays(given["BYDAY"]) if "BYDAY" in given else (),
        week_start=_week_start(given.get("WKST", DAYS[0])),
        **lists,
    )
    _check_together(parts)
    return parts


def _split(value: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for position, piece in enumerate(value.split(";"), 1):
        name, equals, data = piece.partition("=")
        if not piece:
            raise Malformed(f"part {position} is empty: there is a ; too many")
        if not equals:
            raise Malformed(f"part {position}, {shown(piece)}: expected NAME=VALUE, such as FREQ=DAILY")
        if name not in _NAMES:
            raise Malformed(_unknown(name))
        if name in given:
            raise Malformed(f"{name} is given twice")
        if not data:
            raise Malformed(f"{name} has no value: leave the part out, or say which")
        given[name] = data
    return given


def _unknown(name: str) -> str:
    if name in _UNSUPPORTED:
        return f"{name}: {_UNSUPPORTED[name]}"
    near = nearest(name, _NAMES)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(_NAMES)}"
    return f"{shown(name)} is no part of a rule; {hint}"


def _frequency(data: str) -> Frequency:
    if data not in FREQUENCIES:
        near = nearest(data, FREQUENCIES)
        hint = f"did you mean {near}?" if near else f"it is one of {', '.join(FREQUENCIES)}"
        raise Malformed(f"FREQ: {shown(data)} is no frequency; {hint}")
    return data


def _whole(name: str, data: str, most: int) -> int:
    if not _WHOLE.fullmatch(data) or not 1 <= int(data) <= most:
        raise Malformed(f"{name}: {shown(data)} is not a whole number from 1 to {most:,}")
    return int(data)


def _numbers(name: str, data: str, kind: _List) -> tuple[int, ...]:
    allowed = f"{kind.low} to {kind.high}" + (f", or -{kind.high} to -{kind.low}" if kind.is_signed else "")
    found = set()
    for item in data.split(","):
        if ".." in item:
            raise Malformed(f"{name}: {shown(item)}: only BYDAY takes ranges; list each number")
        if not _SIGNED.fullmatch(item):
            raise Malformed(f"{name}: {shown(item)} is not a whole number: {allowed}")
        number = int(item)
        magnitude = abs(number) if kind.is_signed else number
        if not kind.low <= magnitude <= kind.high or (item[0] in "+-" and not kind.is_signed):
            raise Malformed(f"{name}: {item} is not one of {allowed}")
        # No clock here shows a leap second: RFC 5545 §3.3.12 has 60 read as 59.
        found.add(59 if name == "BYSECOND" and number == 60 else number)  # noqa: PLR2004
    return tuple(sorted(found))


def _weekdays(data: str) -> tuple[NthDay, ...]:
    found = set()
    for item in data.split(","):
        span = _DAY_RANGE.fullmatch(item)
        if span:
            first, last = _weekday("BYDAY", span["first"]), _weekday("BYDAY", span["last"])
            found |= {NthDay(0, (first + ahead) % 7) for ahead in range((last - first) % 7 + 1)}
            continue
        match = _DAY.fullmatch(item)
        if match is None:
            raise Malformed(
                f"BYDAY: {shown(item)} is no day: {', '.join(DAYS)}, with a number for the nth (-1FR), or MO..FR"
            )
        nth = int(match["nth"] or 0)
        if match["nth"] and not 1 <= abs(nth) <= _NTH_IN_YEAR:
            raise Malformed(f"BYDAY: {item}: {nth} is not one of 1 to {_NTH_IN_YEAR}, or -{_NTH_IN_YEAR} to -1")
        found.add(NthDay(nth, _weekday("BYDAY", match["day"])))
    return tuple(sorted(found, key=lambda day: (day.weekday, day.nth)))


def _weekday(name: str, data: str) -> int:
    if data not in DAYS:
        raise Malformed(f"{name}: {shown(data)} is no day of the week: {', '.join(DAYS)}")
    return DAYS.index(data)


def _week_start(data: str) -> int:
    return _weekday("WKST", data)


def _check_together(parts: Parts) -> None:
    """Refuse parts that RFC 5545 does not let stand beside each other."""
    frequency = parts.frequency
    if parts.by_week_number and frequency != "YEARLY":
        raise Malformed(f"BYWEEKNO goes with FREQ=YEARLY only, not with {frequency}")
    if parts.by_year_day and frequency in {"DAILY", "WEEKLY", "MONTHLY"}:
        raise Malformed(f"BYYEARDAY does not go with FREQ={frequency}: take YEARLY, or BYMONTH with BYMONTHDAY")
    if parts.by_month_day and frequency == "WEEKLY":
        raise Malformed("BYMONTHDAY does not go with FREQ=WEEKLY: take MONTHLY")
    if parts.by_set_position:
        _check_set_position(parts)
    _check_nth(parts)


def _check_set_position(parts: Parts) -> None:
    if not parts.by_day and not any(getattr(parts, kind.field) for name, kind in _LISTS.items() if name != "BYSETPOS"):
        raise Malformed("BYSETPOS picks from what another BY part names, and there is none: add one, such as BYDAY")
    most = _DAYS_MOST.get(parts.frequency, 1)
    for name, coarser in (("by_hour", FREQUENCIES[:4]), ("by_minute", FREQUENCIES[:5]), ("by_second", FREQUENCIES[:6])):
        most *= max(1, len(getattr(parts, name))) if parts.frequency in coarser else 1
    if all(abs(position) > most for position in parts.by_set_position):
        held = f"a {parts.frequency} period has at most {most:,} instant{'' if most == 1 else 's'}"
        raise Malformed(f"BYSETPOS: {parts.by_set_position[0]} picks nothing: {held}")


def _check_nth(parts: Parts) -> None:
    numbered = next((day for day in parts.by_day if day.nth), None)
    if numbered is None:
        return
    if parts.frequency not in {"MONTHLY", "YEARLY"}:
        raise Malformed(f"BYDAY: {numbered.text}: the nth day goes with FREQ=MONTHLY or YEARLY, not {parts.frequency}")
    if parts.by_week_number:
        raise Malformed(f"BYDAY: {numbered.text}: the nth day does not go with BYWEEKNO: a week has each day once")
    in_month = parts.frequency == "MONTHLY" or parts.by_month
    beyond = next((day for day in parts.by_day if abs(day.nth) > _NTH_IN_MONTH), None)
    if in_month and beyond is not None:
        raise Malformed(f"BYDAY: {beyond.text}: a month has at most {_NTH_IN_MONTH} of a weekday")
