"""Format instants and durations as text, and parse the times in forms."""

from collections.abc import Mapping
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from markupsafe import Markup

from scheduled_actions.core import checks
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.recurrence.model import resolve

#: The cookie with the viewer's time zone; the script of the page sets it.
ZONE_COOKIE = "scheduled_actions_zone"
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
#: Instants in these years represent infinity.
_ENDLESS_YEARS = (MINYEAR, MAXYEAR)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def zone_of(cookies: Mapping[str, str]) -> ZoneInfo:
    """Return the viewer's time zone from the cookie; UTC if the cookie is missing or invalid."""
    try:
        return checks.check_timezone(cookies.get(ZONE_COOKIE, "UTC"))
    except InvalidArgument:
        return ZoneInfo("UTC")


def instant(moment: datetime | None, zone: ZoneInfo, *, now: datetime) -> Markup:
    """Format an instant as local time to the second, with the UTC time in the title.

    The year is omitted in the current year. None becomes a dash, infinity `since forever` or `never`.
    """
    if moment is None or is_endless(moment):
        return _without_time(moment)
    shown = moment.astimezone(zone)
    is_this_year = shown.year == now.astimezone(zone).year
    day = f"{shown.day} {_MONTHS[shown.month]}" if is_this_year else shown.date().isoformat()
    return _time(moment, f"{day} {shown.time().isoformat('seconds')}", zone)


def ago(moment: datetime | None, zone: ZoneInfo, *, now: datetime) -> Markup:
    """Format an instant relative to now (`3 min ago`, `in 2 h`), with the local and the UTC time in the title.

    None becomes a dash, infinity `since forever` or `never`.
    """
    if moment is None or is_endless(moment):
        return _without_time(moment)
    apart = (now - moment).total_seconds()
    words = f"{_rough(apart)} ago" if apart > 0 else f"in {_rough(-apart)}"
    return _time(moment, "now" if abs(apart) < 1 else words, zone)


def seconds(length: float | timedelta | None) -> str:
    """Format a duration (a number is in seconds) as `850 ms`, `3.5 s`, `3 min 20 s` or `2 d 4 h`; a dash for None."""
    if length is None:
        return "—"
    total = length.total_seconds() if isinstance(length, timedelta) else length
    if total < 0:
        return f"-{seconds(-total)}"
    if total < 1:
        return f"{round(total * 1000)} ms" if total else "0 s"
    if total < 10:  # noqa: PLR2004 - below ten seconds, tenths matter
        return f"{total:.1f} s".replace(".0 s", " s")
    return _two_units(round(total))


def _rough(length: float) -> str:
    """Format a duration in seconds in the largest unit that fits at least twice, or else in seconds."""
    for unit, size in _UNITS:  # noqa: B007 - the last unit if none fits
        if length >= 2 * size:
            break
    return f"{round(length / size)} {unit}"


def _two_units(left: int) -> str:
    parts = []
    for unit, size in [one for one in _UNITS if left >= one[1]][:2]:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts)


def when_input(moment: datetime | None, zone: ZoneInfo) -> str:
    """Format an instant as the value of a `datetime-local` input; empty for None and for infinity."""
    return "" if moment is None or is_endless(moment) else moment.astimezone(zone).strftime("%Y-%m-%dT%H:%M:%S")


def from_input(text: str, zone: ZoneInfo) -> str:
    """Convert a local time, such as the value of a `datetime-local` input, to ISO 8601 in UTC, to the second.

    A time with a UTC offset is converted, too; an invalid value is returned unchanged.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = resolve(moment, zone).at
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return text


def parsed(value: object) -> datetime | None:
    """Parse an ISO 8601 string with a UTC offset; return None for any other value."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def is_endless(moment: datetime) -> bool:
    """Return whether an instant represents infinity, past or future."""
    return moment.year in _ENDLESS_YEARS


def _without_time(moment: datetime | None) -> Markup:
    """Format None or an instant that represents infinity."""
    if moment is None:
        return Markup('<span class="none">—</span>')
    return Markup("since forever") if moment.year == MINYEAR else Markup("never")


def _time(moment: datetime, words: str, zone: ZoneInfo) -> Markup:
    utc = moment.astimezone(UTC)
    # The parts take half the time of `isoformat` of the whole.
    day, clock = utc.date().isoformat(), utc.time().isoformat("seconds")
    title = f"{day} {clock} UTC"
    if zone.key != "UTC":
        local = moment.astimezone(zone)
        shown = f"{local.date().isoformat()} {local.time().isoformat('seconds')}"
        title = f"{_WEEKDAYS[local.weekday()]} {shown} {local.tzname()} · {title}"
    # Twenty times as fast as `Markup.format`; a page has about a hundred of these. Every part is our own text, without
    # characters that have a meaning in HTML.
    return Markup(f'<time datetime="{day}T{clock}Z" title="{title}">{words}</time>')  # noqa: S704
