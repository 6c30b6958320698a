"""Define the skips of a recurrence: weekends, holidays, dates and maintenance windows, and the adjustment.

Skips are a JSON object, the same in Python, on the command line and over HTTP:

    {"weekends": true, "holidays": "US-CA", "dates": ["2026-12-24"],
     "ranges": [{"from": "2026-12-24", "to": "2027-01-02"}],
     "windows": [{"from": "22:00", "to": "02:00", "days": ["sat"]}],
     "function": "name", "adjustment": "drop"}
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeAlias, get_args
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.messages import counted, did_you_mean
from scheduled_actions.recurrence.model import DAY, resolve
from scheduled_actions.recurrence.phrases import WEEKDAYS, join, parse_time, time_text
from scheduled_actions.recurrence.skips.holidays import HolidayCalendar, parse_holidays

#: `drop` leaves an occurrence out; the others move it to the business day before or after, or to the edge of a window.
Adjustment: TypeAlias = Literal["drop", "preceding", "following"]

#: Maximum lengths of the lists of dates and ranges, and of the list of windows.
DATES_MOST = 1000
WINDOWS_MOST = 100
#: Maximum number of dates, ranges or windows listed in a description; further ones are counted.
_NAMED_MOST = 3
_UTC = ZoneInfo("UTC")
_EVERY_DAY = frozenset(range(7))
_DAY_NUMBERS = {name: n for n, day in enumerate(WEEKDAYS) for name in (day[:3].lower(), day.lower())}
_MIDNIGHT_AFTER = "24:00"
_EXPECTED = 'two times of day ("22:00", "02:00") or two instants with an offset ("2026-12-24T22:00:00-05:00")'
_FUNCTION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,99}")


class Span(NamedTuple):
    """A window from one instant to another; the end is excluded."""

    #: Aware, in UTC, like `end`.
    start: datetime
    end: datetime
    #: The window in words.
    text: str

    def as_json(self) -> dict[str, Any]:
        """Return the window as a JSON object that `Skips.parse` accepts in `windows`."""
        return {"from": self.start.isoformat(), "to": self.end.isoformat()}


@dataclass(frozen=True, slots=True)
class DailyWindow:
    """A window from one time of day to another; it ends on the next day if `end` is not later than `start`."""

    start: time
    end: time
    #: The days of the week on which it begins; 0 is Monday.
    days: frozenset[int] = _EVERY_DAY

    @property
    def text(self) -> str:
        """The window in words: "22:00-02:00 on Saturday"."""
        of_days = "" if self.days == _EVERY_DAY else f" on {join([WEEKDAYS[day] for day in sorted(self.days)])}"
        return f"{time_text(self.start)}-{self._end_text}{of_days}"

    @property
    def _end_text(self) -> str:
        return time_text(self.end) if self.end != time.min else _MIDNIGHT_AFTER

    def beginning_on(self, day: date, zone: ZoneInfo) -> Span | None:
        """Return the window that begins on a day; None if there is none."""
        if day.weekday() not in self.days:
            return None
        start = resolve(datetime.combine(day, self.start), zone).at
        end = resolve(datetime.combine(day if self.end > self.start else day + DAY, self.end), zone).at
        # A window within a DST gap is empty on that day.
        return Span(start, end, self.text) if start < end else None

    def as_json(self) -> dict[str, Any]:
        """Return the window as a JSON object that `Skips.parse` accepts in `windows`."""
        days = {} if self.days == _EVERY_DAY else {"days": [WEEKDAYS[day][:3].lower() for day in sorted(self.days)]}
        return {"from": time_text(self.start), "to": self._end_text, **days}


#: A window that recurs every week, or a single window.
Window: TypeAlias = DailyWindow | Span


class DateRange(NamedTuple):
    """A range of days, both ends included."""

    first: date
    last: date


@dataclass(frozen=True, slots=True)
class Skips:
    """The skipped days and windows, and the adjustment of occurrences in them; immutable."""

    #: Whether Saturdays and Sundays are skipped.
    weekends: bool = False
    holidays: HolidayCalendar | None = None
    dates: frozenset[date] = frozenset()
    ranges: tuple[DateRange, ...] = ()
    #: Times of day are in the schedule's zone.
    windows: tuple[Window, ...] = ()
    #: Name of a registered function that decides whether an occurrence is skipped; None: no function.
    function: str | None = None
    adjustment: Adjustment = "drop"
    #: The first day of each sorted range; and for each, the range that ends last among it and all earlier ranges.
    _starts: tuple[date, ...] = field(init=False, repr=False, compare=False)
    _latest: tuple[DateRange, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sort the ranges, for finding the range that contains a day."""
        ranges = sorted(self.ranges)
        latest: Iterator[DateRange] = accumulate(ranges, lambda one, other: max(one, other, key=lambda r: r.last))
        object.__setattr__(self, "_starts", tuple(one.first for one in ranges))
        object.__setattr__(self, "_latest", tuple(latest))

    @classmethod
    def parse(cls, value: "Skips | Mapping[str, Any]") -> "Skips":
        """Parse a JSON object.

        Args:
            value: As in the module's docstring; all keys are optional. Dates and instants may be Python objects.

        Raises:
            InvalidArgument: A key is unknown, or has an invalid value; `name` is its path, such as `skip.dates[0]`.
            RecurrenceInvalid: The country, subdivision or market is unknown, or the library `holidays` is missing.
        """
        if isinstance(value, Skips):
            return value
        if not isinstance(value, dict):
            raise InvalidArgument("skip", value, f"an object with some of the keys {', '.join(_PARSERS)}")
        for key in value:
            if key not in _PARSERS:
                raise InvalidArgument(
                    "skip",
                    key,
                    "a key of skip; " + did_you_mean(str(key), _PARSERS, otherwise=f"use {', '.join(_PARSERS)}"),
                )
        return cls(**{key: _PARSERS[key](given, f"skip.{key}") for key, given in value.items() if given is not None})

    def as_json(self) -> dict[str, Any]:
        """Return the skips as the JSON object that `parse` accepts."""
        document = {
            "weekends": self.weekends,
            "holidays": self.holidays and self.holidays.as_json(),
            "dates": [day.isoformat() for day in sorted(self.dates)],
            "ranges": [{"from": one.first.isoformat(), "to": one.last.isoformat()} for one in self.ranges],
            "windows": [window.as_json() for window in self.windows],
            "function": self.function,
        }
        return {key: value for key, value in document.items() if value} | {"adjustment": self.adjustment}

    @property
    def _has_days(self) -> bool:
        return bool(self.weekends or self.holidays or self.dates or self.ranges or self.function is not None)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is skipped."""
        return not (self._has_days or self.windows)

    @property
    def description(self) -> str:
        """The skips and the adjustment in words: "moved from weekends to the following business day"."""
        if self.adjustment == "drop":
            return f"except {self.skipped}"
        edge = "the end of the window" if self.adjustment == "following" else "the minute before the window"
        places = [f"the {self.adjustment} business day"] if self._has_days else []
        return f"moved from {self.skipped} to {join([*places, *([edge] if self.windows else [])], last='or')}"

    @property
    def skipped(self) -> str:
        """The skipped days and windows in words: "weekends and holidays (US)"."""
        days = [day.isoformat() for day in sorted(self.dates)]
        ranges = [f"{one.first} to {one.last}" for one in self.ranges]
        more_windows = len(self.windows) - _NAMED_MOST
        return join(
            [
                *(["weekends"] if self.weekends else []),
                *([f"holidays ({self.holidays.label})"] if self.holidays else []),
                *(days if len(days) <= _NAMED_MOST else [counted(len(days), "date")]),
                *(ranges if len(ranges) <= _NAMED_MOST else [counted(len(ranges), "range")]),
                *(window.text for window in self.windows[:_NAMED_MOST]),
                *([counted(more_windows, "other window")] if more_windows > 0 else []),
                *([f'instants that the function "{self.function}" skips'] if self.function is not None else []),
            ]
        )

    def day_off(self, day: date) -> str | None:
        """Return the reason if a day is a holiday, a skipped date or in a skipped range, else None; ignore weekends."""
        if self.holidays is not None and (name := self.holidays.name_of(day)) is not None:
            return f"is a holiday ({name}, {self.holidays.label})"
        if day in self.dates:
            return "is skipped (a named date)"
        place = bisect_right(self._starts, day)
        if place and day <= self._latest[place - 1].last:
            first, last = self._latest[place - 1]
            return f"is skipped ({first} to {last})"
        return None

    def skipped_day(self, day: date) -> str | None:
        """Return the reason why a whole day is skipped; None if it is not skipped as a whole."""
        return "is skipped (weekend)" if self.weekends and is_weekend(day) else self.day_off(day)

    def is_business_day(self, day: date) -> bool:
        """Whether a day is from Monday to Friday, and not a holiday, a skipped date or in a range."""
        return not is_weekend(day) and self.day_off(day) is None


def is_weekend(day: date) -> bool:
    """Whether a day is a Saturday or a Sunday."""
    return day.weekday() >= 5  # noqa: PLR2004 - Saturday


def is_always_closed(windows: Iterable[DailyWindow]) -> bool:
    """Whether the windows leave no moment of a week open."""
    monday = datetime(2000, 1, 3, tzinfo=UTC)
    # From the day before, whose windows may continue on the first day.
    days = [(monday + day * DAY).date() for day in range(-1, 7)]
    closed_until = monday
    for span in sorted(span for window in windows for day in days if (span := window.beginning_on(day, _UTC))):
        if span.start > closed_until:
            return False
        closed_until = max(closed_until, span.end)
    return closed_until >= monday + 7 * DAY


def _window(value: object, path: str) -> Window:
    """Parse an object with `from` and `to`, and optionally `days`.

    Raises:
        InvalidArgument: The value is not a window.
    """
    if not isinstance(value, dict) or not {"from", "to"} <= value.keys():
        raise InvalidArgument(path, value, f'an object with "from" and "to": {_EXPECTED}')
    keys = ("from", "to", "days")
    for key in value.keys() - {*keys}:
        raise InvalidArgument(
            path, key, "a key of a window; " + did_you_mean(str(key), keys, otherwise="use from, to and days")
        )
    start, end = (_edge(value[key], f"{path}.{key}") for key in ("from", "to"))
    match start, end:
        case time(), time():
            if start == end and value["to"] != _MIDNIGHT_AFTER:
                raise InvalidArgument(
                    f"{path}.to",
                    value["to"],
                    problem=f"equals from ({value['from']}): for a whole day, write 00:00 to 24:00",
                )
            return DailyWindow(start, end, _weekdays(value["days"], f"{path}.days") if "days" in value else _EVERY_DAY)
        case datetime(), datetime():
            if "days" in value:
                raise InvalidArgument(
                    f"{path}.days",
                    value["days"],
                    problem="is not allowed with two instants: remove it, or use times of day",
                )
            if start >= end:
                raise InvalidArgument(f"{path}.to", value["to"], f"an instant after from ({value['from']})")
            return Span(start, end, f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC")
        case _:
            raise InvalidArgument(path, value, problem=f"mixes a time of day with an instant: use {_EXPECTED}")


def _edge(value: object, path: str) -> time | datetime:
    """Parse an edge of a window: a time of day, or an instant, which is returned in UTC."""
    if value == _MIDNIGHT_AFTER and path.endswith(".to"):
        return time.min
    try:
        at = parse_time(value) or datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(at, datetime) and at.utcoffset() is not None:
            return at.astimezone(UTC)
    except (ValueError, OverflowError):
        at = None
    if isinstance(at, time) and at.tzinfo is None:
        return at.replace(microsecond=0)
    raise InvalidArgument(
        path, value, 'a time of day ("22:00") or an instant with an offset ("2026-12-24T22:00:00-05:00")'
    )


def _weekdays(value: object, path: str) -> frozenset[int]:
    if not isinstance(value, list | tuple | frozenset | set) or not value:
        raise InvalidArgument(path, value, 'a list of days, such as ["sat", "sun"]')
    words = [name.lower() if isinstance(name, str) else "" for name in value]
    for position, (name, word) in enumerate(zip(value, words, strict=True)):
        if word not in _DAY_NUMBERS:
            raise InvalidArgument(
                f"{path}[{position}]",
                name,
                "a day; " + did_you_mean(word, _DAY_NUMBERS, otherwise="use mon, tue, wed, thu, fri, sat, sun"),
            )
    return frozenset(_DAY_NUMBERS[word] for word in words)


def _range(value: object, path: str) -> DateRange:
    if not isinstance(value, dict) or value.keys() != {"from", "to"}:
        raise InvalidArgument(path, value, 'a range of days, such as {"from": "2026-12-24", "to": "2027-01-02"}')
    first, last = _day(value["from"], f"{path}.from"), _day(value["to"], f"{path}.to")
    if first > last:
        raise InvalidArgument(f"{path}.to", value["to"], problem=f"is {last}, before from ({first})")
    return DateRange(first, last)


def _check(value: Any, path: str, is_valid: bool, expected: str) -> Any:  # noqa: ANN401, FBT001 - any JSON
    if not is_valid:
        raise InvalidArgument(path, value, expected)
    return value


def _day(value: object, path: str) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    # A value in this format is invalid if no such day exists.
    with suppress(ValueError):
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value, re.ASCII):
            return date.fromisoformat(value)
    raise InvalidArgument(path, value, "a day, such as 2026-12-24")


def _items(parse: Callable[[Any, str], Any], value: object, path: str, most: int) -> list[Any]:
    if not isinstance(value, list | tuple) or len(value) > most:
        raise InvalidArgument(path, value, f"a list of at most {most:,} items")
    return [parse(item, f"{path}[{position}]") for position, item in enumerate(value)]


_PARSERS: dict[str, Callable[[Any, str], Any]] = {
    "weekends": lambda value, path: _check(value, path, isinstance(value, bool), "true or false"),
    "holidays": parse_holidays,
    "dates": lambda value, path: frozenset(_items(_day, value, path, DATES_MOST)),
    "ranges": lambda value, path: tuple(sorted(_items(_range, value, path, DATES_MOST))),
    "windows": lambda value, path: tuple(_items(_window, value, path, WINDOWS_MOST)),
    "function": lambda value, path: _check(
        value,
        path,
        isinstance(value, str) and _FUNCTION_NAME.fullmatch(value) is not None,
        "a function name of at most 100 letters, digits and . _ -",
    ),
    "adjustment": lambda value, path: _check(
        value, path, value in get_args(Adjustment), f"one of {', '.join(get_args(Adjustment))}"
    ),
}
