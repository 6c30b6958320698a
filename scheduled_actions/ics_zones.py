"""Time zones as iCalendar writes them: VTIMEZONE, with a rule for each clock change wherever one says it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from icalendar import Component, Timezone

#: So many years of changes are looked at: a rule that held for all of them goes on, as far as anybody knows.
_YEARS = 6
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_WEEK = 7
#: Every month has four of each day of the week.
_FOURTH = 4
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


class Change(NamedTuple):
    """One clock change."""

    #: What the clocks showed in that moment, before they were moved; naive.
    wall: datetime
    before: timedelta
    after: timedelta
    name: str
    is_daylight: bool


def zone_component(zone: ZoneInfo, first: datetime) -> Timezone:
    """Return the VTIMEZONE of a zone, right from `first` on.

    Args:
        zone: Not UTC, which needs none.
        first: The first instant that is told in the zone; aware.

    Source: RFC 5545 §3.6.5. Programs of some weight read no lists of changes (RDATE) there, so that a rule is written
    where six years of changes follow one.
    """
    from icalendar import Timezone  # noqa: PLC0415 - an extra, and slow to load

    start = datetime(first.year - 1, 1, 1, tzinfo=UTC)
    changes = _changes(zone, start, start.replace(year=start.year + _YEARS))
    component = Timezone()
    component.add("tzid", zone.key)
    for alike in _alike(changes):
        component.add_component(_part(alike[0], _rule(alike), alike[1:]))
    if not changes or changes[0].wall > start.replace(tzinfo=None):
        component.add_component(_part(_standing(zone, start), None, []))
    return component


def _changes(zone: ZoneInfo, start: datetime, end: datetime) -> list[Change]:
    found = []
    day = start
    while day < end:
        if day.astimezone(zone).utcoffset() != (day + _DAY).astimezone(zone).utcoffset():
            found.append(_change(zone, day))
        day += _DAY
    return found


def _change(zone: ZoneInfo, day: datetime) -> Change:
    """Return the change within a day, to the second."""
    low, high = day, day + _DAY
    before = low.astimezone(zone).utcoffset()
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        low, high = (middle, high) if middle.astimezone(zone).utcoffset() == before else (low, middle)
    at = high.replace(microsecond=0)
    shown = at.astimezone(zone)
    before, after = before or timedelta(0), shown.utcoffset() or timedelta(0)
    return Change(at.replace(tzinfo=None) + before, before, after, shown.tzname() or "", bool(shown.dst()))


def _standing(zone: ZoneInfo, start: datetime) -> Change:
    """Return what holds at the beginning, as a change to the same."""
    shown = start.astimezone(zone)
    offset = shown.utcoffset() or timedelta(0)
    return Change(start.replace(tzinfo=None), offset, offset, shown.tzname() or "", bool(shown.dst()))


def _alike(changes: list[Change]) -> list[list[Change]]:
    """Return the changes that differ in their dates alone, each group in order."""
    groups: dict[tuple[object, ...], list[Change]] = {}
    for one in changes:
        groups.setdefault((one.before, one.after, one.name, one.is_daylight), []).append(one)
    return list(groups.values())


def _rule(changes: list[Change]) -> dict[str, object] | None:
    """Return the yearly rule that names the changes, one a year; None where none does."""
    walls = [one.wall for one in changes]
    if len(walls) < _YEARS or len({(wall.month, wall.weekday(), wall.time()) for wall in walls}) > 1:
        return None
    day = _DAYS[walls[0].weekday()]
    places = {(wall.day - 1) // _WEEK + 1 for wall in walls}
    if max(places) > _FOURTH and all((wall + _WEEK * _DAY).month != wall.month for wall in walls):
        return {"freq": "yearly", "bymonth": walls[0].month, "byday": f"-1{day}"}
    if len(places) == 1:
        return {"freq": "yearly", "bymonth": walls[0].month, "byday": f"{places.pop()}{day}"}
    return None


def _part(first: Change, rule: dict[str, object] | None, others: list[Change]) -> Component:
    from icalendar import TimezoneDaylight, TimezoneStandard  # noqa: PLC0415 - as above

    part = TimezoneDaylight() if first.is_daylight else TimezoneStandard()
    part.add("dtstart", first.wall)
    part.add("tzoffsetfrom", first.before)
    part.add("tzoffsetto", first.after)
    part.add("tzname", first.name)
    if rule is not None:
        part.add("rrule", rule)
    elif others:
        part.add("rdate", [one.wall for one in others])
    return part
