"""Instants and lengths of time as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from markupsafe import Markup, escape

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Written by the page's script: where the viewer's clock is.
ZONE_COOKIE = "scheduled_actions_zone"
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
#: What SQL can hold and no calendar shows.
_EDGE = timedelta(days=366)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def zone_of(cookies: Mapping[str, str]) -> ZoneInfo:
    """Return the viewer's zone; UTC where nothing is known of it."""
    try:
        return arguments.check_timezone(cookies.get(ZONE_COOKIE, "UTC"))
    except InvalidArgument:
        return ZoneInfo("UTC")


def instant(moment: datetime | None, zone: ZoneInfo, *, now: datetime) -> Markup:
    """Return an instant in the viewer's zone, to the second, its UTC in the title."""
    if moment is None:
        return Markup('<span class="none">—</span>')
    if is_endless(moment):
        return _endless(moment)
    shown = moment.astimezone(zone)
    is_this_year = shown.year == now.astimezone(zone).year
    return _time(moment, f"{shown.day} {shown:%b %H:%M:%S}" if is_this_year else f"{shown:%Y-%m-%d %H:%M:%S}", zone)


def ago(moment: datetime | None, zone: ZoneInfo, *, now: datetime) -> Markup:
    """Return how far an instant is from now: `3 min ago`, `in 2 h`; the instant itself in the title."""
    if moment is None:
        return Markup('<span class="none">—</span>')
    if is_endless(moment):
        return _endless(moment)
    apart = (now - moment).total_seconds()
    words = f"{_rough(apart)} ago" if apart > 0 else f"in {_rough(-apart)}"
    return _time(moment, "now" if abs(apart) < 1 else words, zone)


def seconds(length: float | timedelta | None) -> str:
    """Return a length of time in two units at most: `850 ms`, `12 s`, `3 min 20 s`, `2 d 4 h`."""
    if length is None:
        return "—"
    total = length.total_seconds() if isinstance(length, timedelta) else length
    if total < 0:
        return f"-{seconds(-total)}"
    if total < 1:
        return f"{round(total * 1000)} ms" if total else "0 s"
    if total < 10:  # noqa: PLR2004 - below ten seconds a tenth says something
        return f"{total:.1f} s".replace(".0 s", " s")
    return _two_units(round(total))


def _rough(length: float) -> str:
    """Return a length of time in the largest unit of which there are two."""
    for unit, size in _UNITS[:-1]:
        if length >= 2 * size:
            return f"{round(length / size)} {unit}"
    return f"{round(length)} s"


def _two_units(left: int) -> str:
    first = next(at for at, (_, size) in enumerate(_UNITS) if left >= size)
    parts = []
    for unit, size in _UNITS[first : first + 2]:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts)


def when_input(moment: datetime | None, zone: ZoneInfo) -> str:
    """Return an instant as the value of an input of a local date and time."""
    return "" if moment is None or is_endless(moment) else moment.astimezone(zone).strftime("%Y-%m-%dT%H:%M:%S")


def from_input(text: str, zone: ZoneInfo) -> str:
    """Return the instant of an input of a local date and time, with its offset; what is none as it is."""
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = resolve(moment, zone).at
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return text


def parsed(value: object) -> datetime | None:
    """Return the aware instant of an ISO 8601 text; None for what is none."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def is_endless(moment: datetime) -> bool:
    """Whether an instant stands for one that no calendar shows."""
    return moment - _FIRST < _EDGE or _LAST - moment < _EDGE


def _endless(moment: datetime) -> Markup:
    return Markup("since ever") if moment - _FIRST < _EDGE else Markup("never")


def _time(moment: datetime, words: str, zone: ZoneInfo) -> Markup:
    utc = moment.astimezone(UTC).isoformat(sep=" ", timespec="seconds")[: len("2026-03-29 01:30:00")]
    title = f"{utc} UTC"
    if zone.key != "UTC":
        title = f"{moment.astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z} · {title}"
    # Put together by hand, a tenth of what formatting markup takes: a page holds a hundred of these. All of it is ours.
    return Markup(f'<time datetime="{utc[:10]}T{utc[11:]}Z" title="{escape(title)}">{escape(words)}</time>')  # noqa: S704
