"""What is left out of a recurrence, or moved: weekends, holidays, dates, maintenance windows.

One JSON object says it, in Python, on the command line and over HTTP:

    {"weekends": true, "holidays": "US-CA", "dates": ["2026-12-24"],
     "ranges": [{"from": "2026-12-24", "to": "2027-01-02"}],
     "windows": [{"from": "22:00", "to": "02:00", "days": ["sat"]}],
     "function": "name", "then": "drop"}
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.recurrence.phrases import counted, listed, nearest
from scheduled_actions.recurrence.skips.holidays import HolidayCalendar, parse_holidays
from scheduled_actions.recurrence.skips.windows import Window, parse_window

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: `drop`: left out; the others move to the business day before or after, or to the edge of a window.
Then: TypeAlias = Literal["drop", "preceding", "following"]

_SATURDAY = 5
#: The longest lists taken.
DATES_MOST = 1000
WINDOWS_MOST = 100
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_FUNCTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,99}")
#: More named dates than these are counted in a description.
_NAMED_MOST = 3


class DateRange(NamedTuple):
    """Two days and those between."""

    first: date
    last: date


@dataclass(frozen=True, slots=True)
class Skips:
    """What is skipped, and what becomes of an occurrence there."""

    #: Saturday and Sunday.
    weekends: bool = False
    holidays: HolidayCalendar | None = None
    dates: frozenset[date] = frozenset()
    ranges: tuple[DateRange, ...] = ()
    #: In the schedule's zone.
    windows: tuple[Window, ...] = ()
    #: Name of a registered function that is asked about each occurrence.
    function: str | None = None
    then: Then = "drop"
    #: The first days of the ranges in order; for each, the range among it and those before it that ends last.
    _starts: tuple[date, ...] = field(init=False, repr=False, compare=False)
    _latest: tuple[DateRange, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Prepare the search for the range that holds a day."""
        ranges = sorted(self.ranges)
        object.__setattr__(self, "_starts", tuple(one.first for one in ranges))
        latest: Iterator[DateRange] = accumulate(ranges, _later_end)
        object.__setattr__(self, "_latest", tuple(latest))

    @classmethod
    def parse(cls, value: Skips | Mapping[str, Any]) -> Skips:
        """Return what a JSON object says.

        Args:
            value: As the module shows; all keys may be left out. Dates and instants may be Python's own.

        Raises:
            InvalidArgument: A key is unknown, or has a value that it cannot have; the path is named.
            RecurrenceInvalid: No holidays are known of that country, subdivision or market.
        """
        if isinstance(value, Skips):
            return value
        if not isinstance(value, dict):
            raise InvalidArgument("skip", value, f"an object with some of the keys {', '.join(_PARSERS)}")
        for key in value:
            if key not in _PARSERS:
                near = nearest(str(key), _PARSERS)
                hint = f'did you mean "{near}"?' if near else ", ".join(_PARSERS)
                raise InvalidArgument("skip", key, f"one of its keys; {hint}")
        return cls(**{key: _PARSERS[key](given, f"skip.{key}") for key, given in value.items() if given is not None})

    def as_json(self) -> dict[str, Any]:
        """Return the object that `parse` makes this value of."""
        document = {
            "weekends": self.weekends,
            "holidays": self.holidays and self.holidays.as_json(),
            "dates": [day.isoformat() for day in sorted(self.dates)],
            "ranges": [{"from": one.first.isoformat(), "to": one.last.isoformat()} for one in self.ranges],
            "windows": [window.as_json() for window in self.windows],
            "function": self.function,
        }
        return {key: value for key, value in document.items() if value} | {"then": self.then}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is skipped."""
        return not (
            self.weekends or self.holidays or self.dates or self.ranges or self.windows or self.function is not None
        )

    @property
    def description(self) -> str:
        """What is skipped and what becomes of it: "moved from weekends to the following business day"."""
        if self.then == "drop":
            return f"except {self.skipped}"
        places = []
        if self.weekends or self.holidays or self.dates or self.ranges or self.function is not None:
            places.append(f"the {self.then} business day")
        if self.windows:
            places.append("the end of the window" if self.then == "following" else "the minute before the window")
        return f"moved from {self.skipped} to {listed(places, last='or')}"

    @property
    def skipped(self) -> str:
        """What is skipped, in words: "weekends and holidays (US)"."""
        parts = ["weekends"] if self.weekends else []
        if self.holidays is not None:
            parts.append(f"holidays ({self.holidays.label})")
        days = [day.isoformat() for day in sorted(self.dates)]
        ranges = [f"{one.first} to {one.last}" for one in self.ranges]
        parts += days if len(days) <= _NAMED_MOST else [counted(len(days), "date")]
        parts += ranges if len(ranges) <= _NAMED_MOST else [counted(len(ranges), "range")]
        parts += [window.text for window in self.windows[:_NAMED_MOST]]
        if len(self.windows) > _NAMED_MOST:
            parts.append(counted(len(self.windows) - _NAMED_MOST, "other window"))
        if self.function is not None:
            parts.append(f'what "{self.function}" skips')
        return listed(parts)

    def day_off(self, day: date) -> str | None:
        """Return why a day is no business day though it may be a weekday; None where nothing says so."""
        if self.holidays is not None:
            name = self.holidays.name_of(day)
            if name is not None:
                return f"is a holiday ({name}, {self.holidays.label})"
        if day in self.dates:
            return "is skipped (a named date)"
        place = bisect_right(self._starts, day)
        if place and day <= self._latest[place - 1].last:
            first, last = self._latest[place - 1]
            return f"is skipped ({first} to {last})"
        return None

    def skipped_day(self, day: date) -> str | None:
        """Return why nothing is to occur on a day; None where something may."""
        if self.weekends and is_weekend(day):
            return "is skipped (weekend)"
        return self.day_off(day)

    def is_business_day(self, day: date) -> bool:
        """Whether it is a day from Monday to Friday that is no holiday, named date or in a range."""
        return not is_weekend(day) and self.day_off(day) is None


def _later_end(one: DateRange, other: DateRange) -> DateRange:
    return one if one.last >= other.last else other


def is_weekend(day: date) -> bool:
    """Whether it is a Saturday or a Sunday."""
    return day.weekday() >= _SATURDAY


def _flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(path, value, "true or false")
    return value


def _holidays(value: Any, path: str) -> HolidayCalendar:  # noqa: ANN401 - any JSON
    return parse_holidays(value, path=path)


def _dates(value: object, path: str) -> frozenset[date]:
    return frozenset(_day(one, f"{path}[{n}]") for n, one in enumerate(_list(value, path, DATES_MOST)))


def _ranges(value: object, path: str) -> tuple[DateRange, ...]:
    return tuple(sorted(_range(one, f"{path}[{n}]") for n, one in enumerate(_list(value, path, DATES_MOST))))


def _range(value: object, path: str) -> DateRange:
    if not isinstance(value, dict) or value.keys() != {"from", "to"}:
        raise InvalidArgument(path, value, 'two days, both included: {"from": "2026-12-24", "to": "2027-01-02"}')
    first, last = _day(value["from"], f"{path}.from"), _day(value["to"], f"{path}.to")
    if first > last:
        raise InvalidArgument(f"{path}.to", value["to"], f"{first} or later")
    return DateRange(first, last)


def _windows(value: object, path: str) -> tuple[Window, ...]:
    given = _list(value, path, WINDOWS_MOST)
    return tuple(parse_window(one, path=f"{path}[{n}]") for n, one in enumerate(given))


def _function(value: object, path: str) -> str:
    if not isinstance(value, str) or not _FUNCTION.fullmatch(value):
        raise InvalidArgument(path, value, "the name of a registered function: letters, digits and . _ -")
    return value


def _then(value: object, path: str) -> Then:
    for choice in get_args(Then):
        if value == choice:
            return choice  # type: ignore[no-any-return] # one of them
    raise InvalidArgument(path, value, f"one of {', '.join(get_args(Then))}")


def _list(value: object, path: str, most: int) -> list[Any]:
    if not isinstance(value, list | tuple) or len(value) > most:
        raise InvalidArgument(path, value, f"a list of at most {most:,}")
    return list(value)


def _day(value: object, path: str) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass  # it has the shape, but there is no such day
    raise InvalidArgument(path, value, "a day, such as 2026-12-24")


_PARSERS: dict[str, Any] = {
    "weekends": _flag,
    "holidays": _holidays,
    "dates": _dates,
    "ranges": _ranges,
    "windows": _windows,
    "function": _function,
    "then": _then,
}
