"""Where an interval would have begun earlier, with the same phase: for occurrences from before its start."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from scheduled_actions.recurrence.intervals.grammar import parse_length
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo

#: Between two leap days, and between 1901 and 2099 always.
_LEAP_CYCLE_MONTHS = 48
_MONTHS_A_YEAR = 12


def earlier_anchor(text: str, *, zone: ZoneInfo, anchor: datetime, moment: datetime) -> datetime:
    """Return an instant at or before `moment` from which an interval names the same occurrences as from `anchor`.

    An interval of months and days has none before its anchor: what follows depends on where it began.

    Raises:
        RecurrenceInvalid: The text names no interval.
    """
    length = parse_length(text)
    if moment >= anchor or (length.months and length.days):
        return anchor
    if not length.months and not length.days:
        exact = timedelta(microseconds=length.microseconds)
        return anchor - -((anchor - moment) // -exact) * exact
    wall = anchor.astimezone(zone).replace(tzinfo=None, fold=0)
    if not length.months:
        days = timedelta(days=length.days)
        return resolve(wall - ((anchor - moment) // days + 2) * days, zone).at
    # A whole number of steps that is also one of leap cycles: there the day of the month exists, whatever it is.
    years = math.lcm(length.months, _LEAP_CYCLE_MONTHS) // _MONTHS_A_YEAR
    cycles = (anchor - moment).days // (365 * years) + 1
    return resolve(wall.replace(year=wall.year - cycles * years), zone).at
