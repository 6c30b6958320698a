"""From wall time to instants, where clocks change."""

from __future__ import annotations

from datetime import UTC, datetime
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
    first = wall.replace(tzinfo=zone, fold=0)
    at = first.astimezone(UTC)
    shown = at.astimezone(zone)
    if shown.replace(tzinfo=None) != wall:
        return Resolved(at, f"{wall:%H:%M} does not exist on {wall:%Y-%m-%d} in {zone.key}: moved to {shown:%H:%M}")
    if first.utcoffset() != wall.replace(tzinfo=zone, fold=1).utcoffset():
        return Resolved(at, f"{wall:%H:%M} comes twice on {wall:%Y-%m-%d} in {zone.key}: this is the first")
    return Resolved(at, None)
