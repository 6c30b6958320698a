"""Write iCalendar text (RFC 5545): single and recurring events, and the time zones that they use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import ExtraMissing
from scheduled_actions.recurrence.model import DAY, SECOND, clock_changes
from scheduled_actions.recurrence.rrule.conversion import RRuleForm
from scheduled_actions.recurrence.rrule.parts import DAYS

if TYPE_CHECKING:
    import icalendar

Component = TypeVar("Component", bound="icalendar.Component")

#: How often a calendar program should refresh: the shortest interval that the large programs respect.
REFRESH = timedelta(hours=1)
#: The length of an event: most programs hide events without length.
_LENGTH = timedelta(minutes=15)
_PRODUCT = "-//Scheduled Actions//calendar feed//EN"
#: How many future years of clock changes are read: a rule that applies to all of them is written without an end.
_YEARS = 6
#: Rules that applied to fewer years are written as dates.
_RULE_LEAST = 3
#: The earliest year that is read.
_FIRST_YEAR = 1970
#: Every month has four of each day of the week.
_FOURTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarEvent:
    """An event of a calendar."""

    #: Unique and stable: `schedule-<id>`.
    key: str
    title: str
    #: The description; plain text.
    text: str
    #: The start; of a recurring event, the start of its first occurrence. Aware.
    start: datetime
    #: The creation time; aware.
    created_at: datetime
    #: The time of the last change; aware. None: never changed.
    changed_at: datetime | None = None
    #: `schedule`, `action` or `deadline`.
    category: str
    rule: RRuleForm | None = None
    #: How long before the start of the event each alarm rings.
    alarms: tuple[timedelta, ...] = ()


class _ClockChange(NamedTuple):
    #: The wall time before the change; naive.
    wall: datetime
    before: timedelta
    after: timedelta
    name: str
    is_daylight: bool


def calendar_text(name: str, description: str, events: Iterable[CalendarEvent], *, now: datetime) -> bytes:
    """Return the calendar in iCalendar format: UTF-8, folded lines that end in CRLF, a VTIMEZONE per time zone.

    Args:
        name: The name of the calendar in calendar programs.
        description: The description of the calendar; plain text.
        events: In the order in which they are written.
        now: Aware; clock changes are written up to some years after it.

    Raises:
        ExtraMissing: The extra `calendar` is not installed.

    Source: RFC 5545; RFC 7986 for NAME, DESCRIPTION and REFRESH-INTERVAL of a calendar.
    """
    try:
        from icalendar import Calendar, vDuration, vText  # noqa: PLC0415 - an extra, and slow to load
    except ImportError as error:
        raise ExtraMissing("icalendar", "calendar") from error

    interval = vDuration(REFRESH)
    interval.params["VALUE"] = "DURATION"
    calendar = _filled(
        Calendar(),
        {
            "prodid": _PRODUCT,
            "version": "2.0",
            "method": "PUBLISH",
            "name": vText(name),
            "x-wr-calname": vText(name),
            "description": vText(description),
            "refresh-interval": interval,
            "x-published-ttl": vDuration(REFRESH),
        },
    )
    listed = list(events)
    for zone, first in _zones(listed).items():
        calendar.add_component(zone_component(zone, first, now=now))
    for event in listed:
        calendar.add_component(_component(event))
    return bytes(calendar.to_ical())


def _zones(events: list[CalendarEvent]) -> dict[ZoneInfo, datetime]:
    """Return the zones of the events, each with its first instant."""
    found: dict[ZoneInfo, datetime] = {}
    for event in events:
        start = _start(event)
        if isinstance(start.tzinfo, ZoneInfo) and start.tzinfo.key != "UTC":
            found[start.tzinfo] = min(start, found.get(start.tzinfo, start))
    return found


def _start(event: CalendarEvent) -> datetime:
    return event.start.replace(microsecond=0) if event.rule is None else event.rule.start


def _component(event: CalendarEvent) -> icalendar.Event:
    import icalendar  # noqa: PLC0415 - as above

    changed_at = max(event.created_at, event.changed_at or event.created_at)
    component = _filled(
        icalendar.Event(),
        {
            "uid": f"{event.key}@scheduled-actions",
            "dtstamp": changed_at.astimezone(UTC).replace(microsecond=0),
            # A larger number makes programs replace the event.
            "sequence": int((changed_at - event.created_at).total_seconds()),
            "summary": event.title,
            "description": event.text,
            "categories": [event.category],
            # Does not block time.
            "transp": "TRANSPARENT",
            "dtstart": _start(event),
            "duration": _LENGTH,
            "rrule": icalendar.vRecur.from_ical(event.rule.rule) if event.rule is not None else None,
            "exdate": list(event.rule.exceptions) if event.rule is not None else None,
        },
    )
    for before in event.alarms:
        alarm = {"action": "DISPLAY", "description": event.title, "trigger": -before}
        component.add_component(_filled(icalendar.Alarm(), alarm))
    return component


def _filled(component: Component, properties: Mapping[str, object]) -> Component:
    """Add properties to a component, except those without a value, and return it."""
    for name, value in properties.items():
        if value not in (None, []):
            component.add(name, value)
    return component


def zone_component(zone: ZoneInfo, first: datetime, *, now: datetime) -> icalendar.Timezone:
    """Return the VTIMEZONE of a zone, valid from `first` until some years after the later of `first` and `now`.

    Args:
        zone: Any zone except UTC, which needs no VTIMEZONE.
        first: The first instant that is written in the zone; aware.
        now: Aware.

    Source: RFC 5545 §3.6.5. Some widely used programs ignore lists of changes (RDATE), so each run of years whose
    changes follow one rule is written as that rule; it ends with its last change (UNTIL) unless it still applies.
    """
    from icalendar import Timezone  # noqa: PLC0415 - an extra, and slow to load

    last_year = max(first, now).year + _YEARS
    start = datetime(max(first.year - 1, _FIRST_YEAR), 1, 1, tzinfo=UTC)
    changes = _changes(zone, start, datetime(last_year, 1, 1, tzinfo=UTC))
    component = _filled(Timezone(), {"tzid": zone.key})
    groups: dict[tuple[object, ...], list[_ClockChange]] = {}
    for one in changes:
        groups.setdefault((one.before, one.after, one.name, one.is_daylight), []).append(one)
    for alike in groups.values():
        runs = _runs(alike)
        for run in runs:
            if len(run) >= _RULE_LEAST:
                component.add_component(_part(run[0], _rule(run, last_year - 1), []))
        listed = [one for run in runs if len(run) < _RULE_LEAST for one in run]
        if listed:
            component.add_component(_part(listed[0], None, listed[1:]))
    component.add_component(_part(_change(zone, start), None, []))
    return component


@lru_cache(maxsize=1024)
def _changes(zone: ZoneInfo, start: datetime, end: datetime) -> list[_ClockChange]:
    return [_change(zone, at) for at in clock_changes(zone, start, end)]


def _change(zone: ZoneInfo, at: datetime) -> _ClockChange:
    """Return the clock change at an instant; if there is none, both offsets are the same."""
    shown = at.astimezone(zone)
    before, after = ((at - ago).astimezone(zone).utcoffset() or timedelta(0) for ago in (SECOND, timedelta(0)))
    return _ClockChange(at.replace(tzinfo=None) + before, before, after, shown.tzname() or "", bool(shown.dst()))


def _runs(changes: list[_ClockChange]) -> list[list[_ClockChange]]:
    """Split changes into runs of successive years that follow one yearly rule."""
    runs: list[list[_ClockChange]] = []
    for one in changes:
        if runs and one.wall.year == runs[-1][-1].wall.year + 1 and _places([*runs[-1], one]):
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def _places(changes: list[_ClockChange]) -> set[int]:
    """Return the ordinals of the weekday in its month (-1: the last) that all changes share; empty without any."""
    walls = [one.wall for one in changes]
    if len({(wall.month, wall.weekday(), wall.time()) for wall in walls}) > 1:
        return set()
    common = {-1, *range(1, _FOURTH + 1)}
    for wall in walls:
        common &= {(wall.day - 1) // 7 + 1, -1 if (wall + 7 * DAY).month != wall.month else 0}
    return common


def _rule(changes: list[_ClockChange], last_year: int) -> dict[str, object]:
    """Return the yearly rule of a run of changes; the rule ends with the run, unless the run reaches `last_year`."""
    last = changes[-1]
    rule: dict[str, object] = {
        "freq": "yearly",
        "bymonth": last.wall.month,
        "byday": f"{min(_places(changes))}{DAYS[last.wall.weekday()]}",
    }
    # A day later: some programs compare it with the wall time.
    until = {} if last.wall.year == last_year else {"until": (last.wall - last.before + DAY).replace(tzinfo=UTC)}
    return rule | until


def _part(first: _ClockChange, rule: dict[str, object] | None, others: list[_ClockChange]) -> icalendar.Component:
    from icalendar import TimezoneDaylight, TimezoneStandard  # noqa: PLC0415 - as above

    return _filled(
        TimezoneDaylight() if first.is_daylight else TimezoneStandard(),
        {
            "dtstart": first.wall,
            "tzoffsetfrom": first.before,
            "tzoffsetto": first.after,
            "tzname": first.name,
            "rrule": rule,
            "rdate": [one.wall for one in others] if rule is None else None,
        },
    )
