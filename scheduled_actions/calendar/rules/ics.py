"""Calendars as other programs read them: iCalendar text (RFC 5545) of events that recur, or happen once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from scheduled_actions.calendar.rules.ics_zones import zone_component
from scheduled_actions.core.errors import ExtraMissing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from icalendar import Event

    from scheduled_actions.recurrence.rrule.conversion import RRuleForm

#: How often a calendar program should look again: the shortest that large ones honour.
REFRESH = timedelta(hours=1)
#: An instant is drawn as long as this: an event without length disappears in most programs.
_DRAWN = timedelta(minutes=15)
_PRODUCT = "-//Scheduled Actions//calendar feed//EN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What becomes one event."""

    #: The same for ever, and nobody else's: `schedule-<id>`.
    key: str
    title: str
    #: Plain text.
    text: str
    #: Aware; the first instant of one that recurs.
    start: datetime
    #: When it was made; aware.
    made_at: datetime
    #: When it was changed last: what stays as it is reads the same each time. Aware; None: never.
    changed_at: datetime | None = None
    #: What kind of thing it is: `schedule`, `action`, `deadline`.
    category: str
    rule: RRuleForm | None = None
    #: So long before its start a calendar rings.
    alarms: tuple[timedelta, ...] = ()


def calendar_text(name: str, description: str, entries: Iterable[Entry], *, now: datetime) -> bytes:
    """Return the calendar: folded lines that end in CRLF, with the VTIMEZONE of every zone named.

    Args:
        name: What programs call it.
        description: In plain text.
        entries: In their order.
        now: Aware; zones are written up to some years after it.

    Raises:
        ExtraMissing: The extra `calendar` is not installed.

    Source: RFC 5545; RFC 7986 for NAME, DESCRIPTION and REFRESH-INTERVAL of a calendar.
    """
    try:
        from icalendar import Calendar, vDuration, vText  # noqa: PLC0415 - an extra, and slow to load
    except ImportError as error:
        raise ExtraMissing("icalendar", "calendar") from error

    calendar = Calendar()
    calendar.add("prodid", _PRODUCT)
    calendar.add("version", "2.0")
    calendar.add("method", "PUBLISH")
    for property_name, value in (("name", name), ("x-wr-calname", name), ("description", description)):
        calendar.add(property_name, vText(value))
    interval = vDuration(REFRESH)
    interval.params["VALUE"] = "DURATION"
    calendar.add("refresh-interval", interval)
    calendar.add("x-published-ttl", vDuration(REFRESH))
    events = list(entries)
    for zone, first in _zones(events).items():
        calendar.add_component(zone_component(zone, first, now=now))
    for entry in events:
        calendar.add_component(_event(entry))
    text: bytes = calendar.to_ical()
    return text


def _zones(entries: list[Entry]) -> dict[ZoneInfo, datetime]:
    """Return the zones that are named, each with the first instant that is told in it."""
    found: dict[ZoneInfo, datetime] = {}
    for entry in entries:
        start = _start(entry)
        if isinstance(start.tzinfo, ZoneInfo) and start.tzinfo.key != "UTC":
            found[start.tzinfo] = min(start, found.get(start.tzinfo, start))
    return found


def _start(entry: Entry) -> datetime:
    return entry.start.replace(microsecond=0) if entry.rule is None else entry.rule.start


def _event(entry: Entry) -> Event:
    from icalendar import Alarm, Event, vRecur  # noqa: PLC0415 - as above

    event = Event()
    event.add("uid", f"{entry.key}@scheduled-actions")
    changed_at = max(entry.made_at, entry.changed_at or entry.made_at)
    event.add("dtstamp", changed_at.astimezone(UTC).replace(microsecond=0))
    # Programs take an event for a newer one where this has grown.
    event.add("sequence", int((changed_at - entry.made_at).total_seconds()))
    event.add("summary", entry.title)
    event.add("description", entry.text)
    event.add("categories", [entry.category])
    # It takes nobody's time.
    event.add("transp", "TRANSPARENT")
    event.add("dtstart", _start(entry))
    event.add("duration", _DRAWN)
    if entry.rule is not None:
        event.add("rrule", vRecur.from_ical(entry.rule.rule))
        if entry.rule.exceptions:
            event.add("exdate", list(entry.rule.exceptions))
    for before in entry.alarms:
        alarm = Alarm()
        alarm.add("action", "DISPLAY")
        alarm.add("description", entry.title)
        alarm.add("trigger", -before)
        event.add_component(alarm)
    return event
