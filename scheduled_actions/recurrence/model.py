"""Define occurrences and the base class of rules; find clock changes, and convert wall times to instants."""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from typing import ClassVar, Literal, TypeAlias
from zoneinfo import ZoneInfo

from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.phrases import time_text

#: `business_day`: the nth or nth last of a month, quarter or year; `custom`: a function declared in `handlers/`.
Kind: TypeAlias = Literal["interval", "cron", "rrule", "business_day", "custom"]

#: A search for an occurrence ends after this number of years; a rule without an occurrence until then is rejected.
HORIZON_YEARS = 30
#: Maximum COUNT of a rule; its last occurrence is found by counting all occurrences.
COUNT_MOST = 10_000
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
#: No change moves a clock by more than a day, and no two changes of a zone are less than three days apart (tz database
#: 2026).
BETWEEN_CHANGES = timedelta(days=2)
_EPOCH, _EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)  # noqa: DTZ001 (naive)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One instant of a recurrence."""

    #: Aware, in UTC.
    at: datetime
    #: Effects of clock changes, skips and adjustments on the occurrence, as sentences; usually empty.
    remarks: tuple[str, ...] = ()


def anchor_after(start: datetime, kind: Kind) -> datetime:
    """Return the anchor of a rule whose start is not an occurrence, so that COUNT of an RRULE does not count it."""
    # RRULEs drop the fraction of the anchor's second, but have no occurrence before the anchor.
    return start + datetime.resolution if kind == "rrule" else start


def resolve(wall: datetime, zone: ZoneInfo) -> Occurrence:
    """Return the occurrence at a naive wall time, with a remark if a clock change affects it.

    A time inside a DST gap is converted with the offset before the change, so that it moves later by the gap. A time
    that occurs twice means its first occurrence.

    Raises:
        OverflowError: The instant is outside the years 1 to 9999.

    Source: RFC 5545 §3.3.5, erratum 4271.
    """
    offset = constant_offset(wall, zone)
    if offset is not None:
        return Occurrence(utc(wall - offset))
    before, after = offset_at(wall, zone), offset_at(wall, zone, fold=1)
    at = utc(wall - before)
    if before == after:
        return Occurrence(at)
    where = f"on {wall:%Y-%m-%d} in {zone.key}"
    if before > after:
        return Occurrence(at, (f"{time_text(wall)} occurs twice {where}: this is the first",))
    shown = at.astimezone(zone)
    moved = time_text(shown) if shown.date() == wall.date() else f"{shown:%Y-%m-%d} {time_text(shown)}"
    return Occurrence(at, (f"{time_text(wall)} does not exist {where}: moved to {moved}",))


def constant_offset(wall: datetime, zone: ZoneInfo) -> timedelta | None:
    """Return the UTC offset of a naive wall time if the clocks do not change within a day of it; None if they may.

    Such a wall time occurs once. This is faster than comparing the offsets before and after a change, which takes a
    `replace`.
    """
    if not MINYEAR < wall.year < MAXYEAR:
        return None
    offset = zone.utcoffset(wall - DAY)
    return offset if offset == zone.utcoffset(wall + DAY) else None


def utc(naive: datetime) -> datetime:
    """Return a naive instant in UTC as an aware one; `replace` takes ten times as long."""
    return _EPOCH_UTC + (naive - _EPOCH)


def shown_at(instant: datetime, zone: ZoneInfo) -> datetime:
    """Return the wall time of an aware instant, naive, with fold=0."""
    return _EPOCH + (instant - _EPOCH_UTC) + (instant.astimezone(zone).utcoffset() or timedelta(0))


def offset_at(wall: datetime, zone: ZoneInfo, *, fold: int = 0) -> timedelta:
    """Return the UTC offset of a wall time; in a gap or overlap, that before the change, or after it with fold=1."""
    return zone.utcoffset(wall.replace(fold=fold)) or timedelta(0)  # a ZoneInfo always has one


def clock_changes(zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the instants after `after`, up to `until`, at which the clocks of a zone change; all in UTC."""
    while after < until:
        offset, later = after.astimezone(zone).utcoffset(), min(after + BETWEEN_CHANGES, until)
        if later.astimezone(zone).utcoffset() != offset:
            base = after.replace(microsecond=0)
            seconds = range((later - base) // SECOND + 2)
            later = base + SECOND * bisect_left(
                seconds, 1, key=lambda second: (base + second * SECOND).astimezone(zone).utcoffset() != offset
            )
            yield later
        after = later


def following_month(year: int, month: int) -> tuple[int, int]:
    """Return the year and the month that follow a month."""
    return year + month // 12, month % 12 + 1


def instant_of(occurrence: Occurrence) -> datetime:
    """Return the occurrence's instant, as a sort key."""
    return occurrence.at


@dataclass(frozen=True, slots=True, eq=False)
class Rule(ABC):
    """A parsed rule in a zone; pure, immutable, hashable by identity, and safe to share between threads."""

    kind: ClassVar[Kind]
    #: The rule as the caller gave it.
    text: str
    #: The zone whose wall clock the rule follows.
    zone: ZoneInfo

    @property
    @abstractmethod
    def description(self) -> str:
        """The rule in words, one sentence without a full stop: "At 09:00 on Monday"."""

    @property
    def ending(self) -> str:
        """The end of the description, before which the zone is inserted: ", 10 times"; usually empty."""
        return ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about likely mistakes in the rule, as sentences; usually empty."""
        return ()

    @abstractmethod
    def next_after(self, moment: datetime, budget: EvaluationBudget, /) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`.

        Args:
            moment: Aware, in any zone.
            budget: Limits the steps of the search; kinds of rules whose searches are short ignore it.

        Returns:
            In UTC; None if the rule has ended.

        Raises:
            NeverOccurs: There is no occurrence within `HORIZON_YEARS` years after `moment`.
            RecurrenceInvalid: A project function failed, or returned an invalid result.
            FunctionTimedOut: A project function did not return in time.
            BudgetExceeded: The search took too many steps.
        """
