"""Time zones as iCalendar writes them: VTIMEZONE, with a rule for each clock change wherever one says it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from icalendar import Component, Timezone

#: How many years of changes to come are looked at: a rule that holds for all of them goes on, as far as is known.
_YEARS = 6
#: Rules that held for fewer years are written as dates.
_RULE_LEAST = 3
#: The earliest year that is looked at.
_FIRST_YEAR = 1970
#: No two changes of a zone were closer (tz database 2026).
_CLOSEST = timedelta(days=2)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
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


def zone_component(zone: ZoneInfo, first: datetime, *, now: datetime) -> Timezone:
    """Return the VTIMEZONE of a zone, right from `first` on, and as far after `now` as its rules are known.

    Args:
        zone: Not UTC, which needs none.
        first: The first instant that is told in the zone; aware.
        now: Aware.

    Source: RFC 5545 §3.6.5. Programs of some weight read no lists of changes (RDATE) there, so that a rule is written
    for each run of years whose changes follow one; all but those that go on end with their last change (UNTIL).
    """
    from icalendar import Timezone  # noqa: PLC0415 - an extra, and slow to load

    last_year = max(first, now).year + _YEARS
    start = datetime(max(first.year - 1, _FIRST_YEAR), 1, 1, tzinfo=UTC)
    changes = _changes(zone, start, datetime(last_year, 1, 1, tzinfo=UTC))
    component = Timezone()
    component.add("tzid", zone.key)
    for alike in _alike(changes):
        listed: list[Change] = []
        for run in _runs(alike):
            goes_on = run[-1].wall.year == last_year - 1
            if len(run) < _RULE_LEAST:
                listed += run
            else:
                component.add_component(_part(run[0], _rule(run, goes_on=goes_on), []))
        if listed:
            component.add_component(_part(listed[0], None, listed[1:]))
    if not changes or changes[0].wall > start.replace(tzinfo=None):
        component.add_component(_part(_standing(zone, start), None, []))
    return component


@lru_cache(maxsize=1024)
def _changes(zone: ZoneInfo, start: datetime, end: datetime) -> list[Change]:
    found = []
    at, offset = start, start.astimezone(zone).utcoffset()
    while at < end:
        at += _CLOSEST
        later = at.astimezone(zone).utcoffset()
        if later != offset:
            found.append(_change(zone, at - _CLOSEST))
        offset = later
    return found


def _change(zone: ZoneInfo, since: datetime) -> Change:
    """Return the change after an instant, to the second."""
    low, high = since, since + _CLOSEST
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


def _runs(changes: list[Change]) -> list[list[Change]]:
    """Return changes in runs of successive years in which one yearly rule names them."""
    runs: list[list[Change]] = []
    for one in changes:
        if runs and one.wall.year == runs[-1][-1].wall.year + 1 and _places([*runs[-1], one]):
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def _places(changes: list[Change]) -> set[int]:
    """Return which weekday of its month (-1: the last) all changes are; nothing where they have none in common."""
    walls = [one.wall for one in changes]
    if len({(wall.month, wall.weekday(), wall.time()) for wall in walls}) > 1:
        return set()
    common = {-1, *range(1, _FOURTH + 1)}
    for wall in walls:
        is_last = (wall + _WEEK * _DAY).month != wall.month
        common &= {(wall.day - 1) // _WEEK + 1, *([-1] if is_last else [])}
    return common


def _rule(changes: list[Change], *, goes_on: bool) -> dict[str, object]:
    """Return the yearly rule that names the changes of a run, and ends with them unless it goes on."""
    last = changes[-1]
    place = min(_places(changes))
    rule: dict[str, object] = {
        "freq": "yearly",
        "bymonth": last.wall.month,
        "byday": f"{place}{_DAYS[last.wall.weekday()]}",
    }
    # A day later: some programs compare it with the wall time.
    return rule if goes_on else rule | {"until": (last.wall - last.before + _DAY).replace(tzinfo=UTC)}


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
