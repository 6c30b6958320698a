"""Cron expressions, with Debian cron's answers to what clocks skip and repeat.

croniter reads the expression; which instants its wall times are in a zone is decided here:

* An expression that names times of day (neither its minute nor its hour field begins with `*`) runs each of them once.
  A time that the clocks skip runs at the first minute after the gap; one that they show twice runs the first time.
* Any other follows real time: it runs at every minute whose wall time matches, so the hour that comes twice counts
  twice, and the hour that is skipped is nobody's.
* A day matches when either day field does, and when both do if one of them begins with `*`.

Where cronsim, which follows Debian too, gives other instants, this is why:

* cronsim steps whole hours on the wall clock, so it loses up to half an hour after a change that is not one of whole
  hours (`*/15 2 * * *` in Australia/Lord_Howe), and starts a day at midnight also where midnight is skipped
  (`*/30 0 * * *` in Africa/Cairo). Here, what the clocks show is what matches.
* Started in the second showing of an hour, cronsim names times of the first, which are past.
* `5-5/10` names minute 5; cronsim goes on to the end of the hour.
* Nothing is searched for longer than thirty years; cronsim takes fifty.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import NeverOccurs
from scheduled_actions.recurrence.cron import words as cron_words
from scheduled_actions.recurrence.cron.fields import Fields, read_fields
from scheduled_actions.recurrence.cron.times import WallTimes, wall_times
from scheduled_actions.recurrence.model import HORIZON_YEARS, Occurrence

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.recurrence.model import Kind

_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)
#: No change moves a clock by more than a day, and no two in a zone were closer than three (tz database 2026).
_BETWEEN_CHANGES = timedelta(days=2)
#: How far ahead of its start a rule is looked through for times that a clock change moves.
_WARNED_AHEAD = timedelta(days=366)


def parse_cron(text: str, *, zone: ZoneInfo, anchor: datetime) -> CronRule:
    """Return the rule of a five-field cron expression, or of a macro like `@daily`.

    Args:
        text: `minute hour day-of-month month day-of-week`, with names, lists, ranges, steps, `L`, `L5` and `5#2`.
        zone: Whose wall clock it follows.
        anchor: Aware; the occurrences do not depend on it, only which clock change `warnings` tells of.

    Raises:
        RecurrenceInvalid: Naming the field, what is wrong with it, and what would be right.
    """
    fields = read_fields(text)
    return CronRule(text, zone, anchor, fields, wall_times(text, fields))


@dataclass(frozen=True, slots=True, eq=False)
class CronRule:
    """A cron expression in a zone; see the module for what it does at clock changes."""

    text: str
    zone: ZoneInfo
    anchor: datetime
    fields: Fields
    times: WallTimes
    ending: str = ""

    @property
    def kind(self) -> Kind:
        """`cron`."""
        return "cron"

    @property
    def description(self) -> str:
        """The expression in words: "At 09:00, only on Monday"."""
        return cron_words.description(self.fields)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What people often get wrong with an expression like this one, and what the next clock changes do to it."""
        return (*cron_words.warnings(self.fields, self.zone), *self._moved_within_a_year())

    def next_after(self, moment: datetime, _budget: EvaluationBudget | None = None) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; a cron expression never ends.

        Raises:
            NeverOccurs: Nothing within thirty years.
        """
        try:
            moment = moment.astimezone(UTC)
            found = self._next_named(moment) if self.fields.is_fixed else self._next_shown(moment + _MICROSECOND)
        except OverflowError:  # the calendar ends with the year 9999
            found = None
        if found is None:
            raise NeverOccurs(self.text, cron_words.never(self.fields, moment.year, moment.year + HORIZON_YEARS))
        return found

    def _next_named(self, moment: datetime) -> Occurrence | None:
        """Return the first named time of day whose instant is after `moment`."""
        shown = _shown_at(moment, self.zone).replace(second=0, microsecond=0)
        wall = self._first_from(shown + _MINUTE)
        while wall is not None:
            occurrence = self._placed(wall)
            if occurrence.at > moment:
                return occurrence
            # `moment` is in the second showing of an hour; this time was in the first.
            wall = self._first_from(wall + _MINUTE)
        return None

    def _next_shown(self, start: datetime) -> Occurrence | None:
        """Return the first instant at or after `start` at which the clock shows a match."""
        while True:
            shown = _shown_at(start, self.zone)
            wall = self._first_from(_whole_minute(shown))
            if wall is None:
                return None
            # Were the clock not to change, it would show `wall` then.
            at = start + (wall - shown)
            change = first_change(self.zone, start, min(at, start + 2 * _BETWEEN_CHANGES))
            if change is not None:
                start = change
            elif at - start <= 2 * _BETWEEN_CHANGES:
                return Occurrence(at)
            else:
                # No change in between moves the clock so far that it shows a match before.
                start = at - _BETWEEN_CHANGES

    def _first_from(self, wall: datetime) -> datetime | None:
        return self.times.first_from(wall, years=HORIZON_YEARS)

    def _placed(self, wall: datetime) -> Occurrence:
        """Return the one occurrence of a named time of day.

        Source: PEP 495, by which the offset before a change is that of `fold=0`, the one after it that of `fold=1`.
        """
        before = _offset(wall.replace(tzinfo=self.zone))
        after = _offset(wall.replace(tzinfo=self.zone, fold=1))
        at = (wall - before).replace(tzinfo=UTC)
        if before == after:
            return Occurrence(at)
        if before > after:
            return Occurrence(at, (cron_words.comes_twice(wall, self.zone),))
        shown = _after_gap(wall, self.zone)
        at = (shown - _offset(shown.replace(tzinfo=self.zone))).replace(tzinfo=UTC)
        return Occurrence(at, (cron_words.does_not_exist(self._named_between(wall, shown), shown, self.zone),))

    def _named_between(self, wall: datetime, end: datetime) -> list[datetime]:
        """Return the named times of day from `wall` on and up to `end`."""
        named = []
        found: datetime | None = wall
        while found is not None and found <= end:
            named.append(found)
            found = self._first_from(found + _MINUTE)
        return named

    def _moved_within_a_year(self) -> list[str]:
        """Return the remarks of the first times that are skipped, and of the first that come twice."""
        if not self.fields.is_fixed or self.anchor.year >= MAXYEAR - 1:
            return []
        remarks: dict[bool, tuple[str, ...]] = {}
        start = self.anchor.astimezone(UTC)
        end = start + _WARNED_AHEAD
        while (change := first_change(self.zone, start, end)) is not None:
            shown = _shown_at(change, self.zone)
            would_show = _shown_at(change - _SECOND, self.zone) + _SECOND
            wall = self._first_from(_whole_minute(min(shown, would_show)))
            if wall is not None and wall < max(shown, would_show):
                remarks.setdefault(shown > would_show, self._placed(wall).remarks)
            start = change
        return [remark for said in remarks.values() for remark in said]


def first_change(zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """Return when the clocks of a zone first change after `after` and not later than `until`; None when they do not."""
    offset = _offset(after.astimezone(zone))
    while after < until:
        later = min(after + _BETWEEN_CHANGES, until)
        if _offset(later.astimezone(zone)) != offset:
            base = after.replace(microsecond=0)
            seconds = range((later - base) // _SECOND + 2)
            changed = bisect.bisect_left(
                seconds, 1, key=lambda second: _offset((base + second * _SECOND).astimezone(zone)) != offset
            )
            return base + changed * _SECOND
        after = later
    return None


def _after_gap(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first minute that the clock shows after a gap in which `wall` is."""
    gap = _offset(wall.replace(tzinfo=zone, fold=1)) - _offset(wall.replace(tzinfo=zone))
    minutes = range(gap // _MINUTE + 2)
    return wall + _MINUTE * bisect.bisect_left(minutes, 1, key=lambda minute: _exists(wall + minute * _MINUTE, zone))


def _exists(wall: datetime, zone: ZoneInfo) -> bool:
    return _offset(wall.replace(tzinfo=zone)) >= _offset(wall.replace(tzinfo=zone, fold=1))


def _offset(shown: datetime) -> timedelta:
    return shown.utcoffset() or timedelta(0)  # a ZoneInfo always has one


def _shown_at(instant: datetime, zone: ZoneInfo) -> datetime:
    """Return the wall time of an instant, naive, with no trace of which showing of it this is."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _whole_minute(wall: datetime) -> datetime:
    """Return the first whole minute at or after a wall time."""
    whole = wall.replace(second=0, microsecond=0)
    return whole if whole == wall else whole + _MINUTE
