"""Maintenance windows: stretches of time in which nothing is to occur, daily or once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.recurrence.phrases import WEEKDAYS, listed, nearest, parse_time, time_text
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable
    from zoneinfo import ZoneInfo

_ONE_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)
_EVERY_DAY = frozenset(range(7))
_DAY_NAMES = {
    **{day[:3].lower(): n for n, day in enumerate(WEEKDAYS)},
    **{day.lower(): n for n, day in enumerate(WEEKDAYS)},
}
_MIDNIGHT_AFTER = "24:00"
_EXPECTED = 'two times of day ("22:00", "02:00") or two instants with an offset ("2026-12-24T22:00:00-05:00")'


class Span(NamedTuple):
    """One window, its end not included."""

    #: Aware, in UTC, as is `end`.
    start: datetime
    end: datetime
    #: The window in words.
    text: str


@dataclass(frozen=True, slots=True)
class DailyWindow:
    """From one time of day to another, of the next day where that is not later."""

    start: time
    end: time
    #: On which days it begins: 0 is Monday.
    days: frozenset[int] = _EVERY_DAY

    @property
    def text(self) -> str:
        """`22:00-02:00`, and on which days."""
        of_days = "" if self.days == _EVERY_DAY else f" of {listed([WEEKDAYS[day] for day in sorted(self.days)])}"
        return f"{time_text(self.start)}-{self._end_text}{of_days}"

    @property
    def _end_text(self) -> str:
        return time_text(self.end) if self.end != time.min else _MIDNIGHT_AFTER

    def beginning_on(self, day: date, zone: ZoneInfo) -> Span | None:
        """Return the window that begins on a day; None where none does."""
        if day.weekday() not in self.days:
            return None
        end_day = day + _ONE_DAY if self.end <= self.start else day
        start = resolve(datetime.combine(day, self.start), zone).at
        end = resolve(datetime.combine(end_day, self.end), zone).at
        # A window within an hour that the clocks skip is none on that day.
        return Span(start, end, self.text) if start < end else None

    def as_json(self) -> dict[str, Any]:
        """Return it as `parse_window` reads it."""
        days = {} if self.days == _EVERY_DAY else {"days": [WEEKDAYS[day][:3].lower() for day in sorted(self.days)]}
        return {"from": time_text(self.start), "to": self._end_text, **days}


@dataclass(frozen=True, slots=True)
class FixedWindow:
    """From one instant to another, once."""

    #: Aware, in UTC, as is `end`.
    start: datetime
    end: datetime

    @property
    def text(self) -> str:
        """Both instants."""
        return f"{self.start:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} UTC"

    @property
    def span(self) -> Span:
        """The window itself."""
        return Span(self.start, self.end, self.text)

    def as_json(self) -> dict[str, Any]:
        """Return it as `parse_window` reads it."""
        return {"from": self.start.isoformat(), "to": self.end.isoformat()}


Window: TypeAlias = DailyWindow | FixedWindow


def is_always_closed(windows: Iterable[DailyWindow]) -> bool:
    """Whether windows leave no moment of a week open."""
    spans = []
    for window in windows:
        start, end = (
            timedelta(hours=at.hour, minutes=at.minute, seconds=at.second) for at in (window.start, window.end)
        )
        for day in window.days:
            begins = day * _ONE_DAY + start
            spans.append((begins, begins + (end - start if end > start else end - start + _ONE_DAY)))
    # Those of the end of the week reach into its beginning.
    spans += [(begins - _WEEK, ends - _WEEK) for begins, ends in spans]
    closed_until = timedelta(0)
    for begins, ends in sorted(spans):
        if begins > closed_until:
            return False
        closed_until = max(closed_until, ends)
    return closed_until >= _WEEK


def parse_window(value: object, *, path: str) -> Window:
    """Return the window that an object with `from` and `to`, and perhaps `days`, describes.

    Raises:
        InvalidArgument: It describes none.
    """
    if not isinstance(value, dict) or not {"from", "to"} <= value.keys():
        raise InvalidArgument(path, value, f'an object with "from" and "to": {_EXPECTED}')
    for key in value.keys() - {"from", "to", "days"}:
        near = nearest(str(key), ("from", "to", "days"))
        raise InvalidArgument(
            path, key, f"one of its keys, from, to and days{f'; did you mean {near}?' if near else ''}"
        )
    start, end = (_edge(value[key], f"{path}.{key}") for key in ("from", "to"))
    match start, end:
        case time(), time():
            return _daily(start, end, value, path)
        case datetime(), datetime():
            if "days" in value:
                raise InvalidArgument(f"{path}.days", value["days"], "for a window of two instants: leave it out")
            if start >= end:
                raise InvalidArgument(f"{path}.to", value["to"], f"after {value['from']}")
            return FixedWindow(start, end)
        case _:
            raise InvalidArgument(path, value, f"of one kind: {_EXPECTED}")


def _daily(start: time, end: time, value: dict[str, Any], path: str) -> DailyWindow:
    if start == end and value["to"] != _MIDNIGHT_AFTER:
        raise InvalidArgument(f"{path}.to", value["to"], f"another time than {value['from']} (a day is 00:00 to 24:00)")
    return DailyWindow(start, end, _days(value["days"], f"{path}.days") if "days" in value else _EVERY_DAY)


def _edge(value: object, path: str) -> time | datetime:
    """Return the time of day, or the instant in UTC."""
    if value == _MIDNIGHT_AFTER and path.endswith(".to"):
        return time.min
    at: time | datetime | None = value if isinstance(value, time | datetime) else None
    if isinstance(value, str):
        at = parse_time(value) or _instant(value)
    if isinstance(at, datetime) and at.utcoffset() is not None:
        try:
            return at.astimezone(UTC)
        except OverflowError:
            at = None
    if isinstance(at, time) and at.tzinfo is None:
        return at.replace(microsecond=0)
    raise InvalidArgument(path, value, _EXPECTED.replace("two", "one of two"))


def _instant(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _days(value: object, path: str) -> frozenset[int]:
    if not isinstance(value, list | tuple | frozenset | set) or not value:
        raise InvalidArgument(path, value, 'a list of days, such as ["sat", "sun"]')
    days = set()
    for position, name in enumerate(value):
        number = _DAY_NAMES.get(name.lower()) if isinstance(name, str) else None
        if number is None:
            near = nearest(name, _DAY_NAMES) if isinstance(name, str) else None
            hint = f'did you mean "{near}"?' if near else "mon, tue, wed, thu, fri, sat, sun"
            raise InvalidArgument(f"{path}[{position}]", name, f"a day; {hint}")
        days.add(number)
    return frozenset(days)
