"""Dates and times as iCalendar writes them: 20270131, 20270131T090000, 20270131T080000Z."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from datetime import date

    from scheduled_actions.recurrence.zones import Resolved

#: Nothing is computed outside these years: before them zones kept their own noon, behind them the calendar ends.
FIRST_YEAR = 1900
LAST_YEAR = 9990

_WRITTEN = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})(Z)?)?", re.ASCII)
_FORMS = "20270131, 20270131T090000, or in UTC 20270131T080000Z"
_SHOWN_MOST = 40
_ONE_DAY = timedelta(days=1)
_LEAP_SECOND = "60"


class Malformed(ValueError):
    """What is wrong within a rule; who called with the rule's text turns it into a RecurrenceInvalid."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A DATE or DATE-TIME value."""

    #: Naive; midnight of a date.
    wall: datetime
    #: Whose wall clock; None for a floating one, which is the rule's.
    zone: ZoneInfo | None
    is_date: bool

    def resolved(self, floating: ZoneInfo) -> Resolved:
        """Return the instant; of a date, its midnight.

        Args:
            floating: The zone of a value that names none.
        """
        return resolve(self.wall, self.zone or floating)

    def end_at(self, floating: ZoneInfo) -> datetime:
        """Return the last instant that the value takes in, in UTC: of a date, the last second of the day."""
        if self.wall.year > LAST_YEAR:
            return datetime(LAST_YEAR, 12, 31, tzinfo=UTC)
        if not self.is_date:
            return self.resolved(floating).at
        return resolve(self.wall + _ONE_DAY, self.zone or floating).at - timedelta(seconds=1)

    @property
    def day(self) -> date:
        """The date, in the value's own zone."""
        return self.wall.date()

    @property
    def value(self) -> str:
        """The value as iCalendar writes it, without its zone."""
        if self.is_date:
            return f"{self.wall:%Y%m%d}"
        return f"{self.wall:%Y%m%dT%H%M%S}{'Z' if self.is_utc else ''}"

    @property
    def is_utc(self) -> bool:
        """Whether it is a time written with a Z."""
        return self.zone is not None and self.zone.key == "UTC" and not self.is_date


def read_stamp(name: str, text: str, *, zone: ZoneInfo | None = None, last_year: int = LAST_YEAR) -> Stamp:
    """Return the date or time that `text` writes.

    A second 60 is read as 59 (RFC 5545 §3.3.12: no leap seconds here).

    Args:
        name: What the value belongs to, for errors.
        text: The value, in capitals.
        zone: Of a local time, from TZID.
        last_year: The last one that is taken.

    Raises:
        Malformed: It is neither, or no day of the calendar.
    """
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise Malformed(f"{name}: {shown(text)} is neither a date nor a time of iCalendar: {_FORMS}")
    year, month, day, hour, minute, second, z = match.groups()
    if z and zone is not None:
        raise Malformed(f"{name}: {text} is in UTC (Z) and has a TZID too: leave out one of them")
    try:
        wall = datetime(int(year), int(month), int(day))  # noqa: DTZ001 (wall time)
        if hour is not None:
            wall = wall.replace(
                hour=int(hour), minute=int(minute), second=59 if second == _LEAP_SECOND else int(second)
            )
    except ValueError:
        raise Malformed(f"{name}: {text} is not in the calendar, or not a time of day") from None
    if not FIRST_YEAR <= wall.year <= last_year:
        raise Malformed(f"{name}: {text} is not in the years {FIRST_YEAR} to {last_year}")
    return Stamp(wall, ZoneInfo("UTC") if z else zone, is_date=hour is None)


def shown(text: str) -> str:
    """Return what is repeated of a wrong word in an error."""
    return f'"{text}"' if len(text) <= _SHOWN_MOST else f'"{text[: _SHOWN_MOST - 1]}…"'
