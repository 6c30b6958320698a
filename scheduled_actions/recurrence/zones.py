"""From wall time to instants, where clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


class Resolved(NamedTuple):
    """The instant of a wall time."""

    #: Aware, in UTC.
    at: datetime
    #: What a clock change did to it; None where it is plain.
    remark: str | None


def resolve(wall: datetime, zone: ZoneInfo) -> Resolved:
    """Return the instant of a naive wall time.

    A time that the clocks skip is read with the offset before the change, so it comes out later by the gap; a time
    that they show twice is its first showing.

    Source: RFC 5545 §3.3.5, erratum 4271.
    """
    before, after = _offset(wall, zone, fold=0), _offset(wall, zone, fold=1)
    at = (wall - before).replace(tzinfo=UTC)
    if before == after:
        return Resolved(at, None)
    if before > after:
        return Resolved(at, f"{_time(wall)} comes twice on {wall:%Y-%m-%d} in {zone.key}: this is the first")
    shown = at.astimezone(zone)
    moved = _time(shown) if shown.date() == wall.date() else f"{shown:%Y-%m-%d} {_time(shown)}"
    return Resolved(at, f"{_time(wall)} does not exist on {wall:%Y-%m-%d} in {zone.key}: moved to {moved}")


def _offset(wall: datetime, zone: ZoneInfo, *, fold: int) -> timedelta:
    offset = zone.utcoffset(wall.replace(fold=fold))
    assert offset is not None  # noqa: S101 - every zone of the database knows its offset at every wall time
    return offset


def _time(moment: datetime) -> str:
    return f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"
