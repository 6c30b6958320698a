"""iCalendar recurrence rules: `RRULE:FREQ=MONTHLY;BYDAY=-1FR`, with DTSTART, RDATE and EXDATE where they are given.

Where RFC 5545 leaves a choice, or people expect otherwise:

* DAILY and coarser rules name wall times. One that the clocks skip moves on by the gap and counts; one that they show
  twice is its first showing (erratum 4271). Two that become one instant count once.
* HOURLY and finer rules count real time: see `recurrence.rrule.exact`.
* A day that does not exist (31 April) is left out and not counted.
* A start that does not match the rule is no occurrence: the first match counts as the first.
* BYWEEKNO without a day takes the start's day of the week; YEARLY with BYMONTHDAY alone takes every month.
* UNTIL as a date takes in the whole of that day; as a local time it is read in the rule's zone.
* EXDATE as a date leaves out all of that day; RDATE as a date takes the start's time of day.
* BYDAY=MO..FR is MO,TU,WE,TH,FR.

dateutil.rrule is not at work here: it searches on to the year 9999 for what never comes, and cannot be stopped.
The tests hold the answers against its own.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from scheduled_actions.core.errors import NeverOccurs, RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.model import HORIZON_YEARS, Occurrence
from scheduled_actions.recurrence.rrule import warnings as rrule_warnings
from scheduled_actions.recurrence.rrule import words as rrule_words
from scheduled_actions.recurrence.rrule.dates import FIRST_YEAR, LAST_YEAR, Malformed
from scheduled_actions.recurrence.rrule.days import completed
from scheduled_actions.recurrence.rrule.exact import ExactTimes
from scheduled_actions.recurrence.rrule.model import Start
from scheduled_actions.recurrence.rrule.text import read_text
from scheduled_actions.recurrence.rrule.wall import WallTimes
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date
    from zoneinfo import ZoneInfo

    from scheduled_actions.recurrence.model import Kind
    from scheduled_actions.recurrence.rrule.dates import Stamp
    from scheduled_actions.recurrence.rrule.parts import Parts
    from scheduled_actions.recurrence.rrule.text import Written

_ONE_MICROSECOND = timedelta(microseconds=1)
_HORIZON = timedelta(days=HORIZON_YEARS * 365.25)
_EARLIEST = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
_LATEST = datetime(LAST_YEAR, 12, 31, tzinfo=UTC)
#: What beginning a search takes.
_SEARCH_STEPS = 2


class _Times(Protocol):
    """The occurrences of an endless rule."""

    def after(self, moment: datetime, until: datetime, budget: EvaluationBudget) -> Iterator[Occurrence]:
        """Yield the occurrences after `moment` and up to `until`, in strict order."""


def parse_rrule(text: str, *, zone: ZoneInfo, anchor: datetime, budget: EvaluationBudget | None = None) -> RRule:
    """Return the rule that a text in iCalendar's words names.

    Args:
        text: `FREQ=…`, `RRULE:FREQ=…`, or lines of DTSTART, RRULE, RDATE and EXDATE.
        zone: Whose wall clock the rule follows, unless its DTSTART brings a TZID or is in UTC.
        anchor: Aware; the start where the text has no DTSTART. Wall times are whole seconds: a fraction of the anchor's
            is dropped from them, but nothing before the anchor itself is counted.
        budget: For counting to the end of a rule with COUNT; None: a new one.

    Raises:
        BudgetExceeded: The last occurrence of a rule with COUNT is too far away.
        RecurrenceInvalid: Naming the part, what is wrong with it, and what would be right.

    Source: RFC 5545 §3.3.10, §3.8.5.
    """
    try:
        return _rule(
            text, read_text(text), zone, _within_calendar(anchor), budget or EvaluationBudget("the recurrence")
        )
    except Malformed as problem:
        raise RecurrenceInvalid(text, str(problem)) from None


@dataclass(frozen=True, slots=True, eq=False)
class RRule:
    """A rule in iCalendar's words, in a zone; see the module for how it is read."""

    #: As it was given.
    text: str
    zone: ZoneInfo
    written: Written
    #: What is written, and what the start fills in.
    parts: Parts
    start: Start
    #: The schedule's, whatever DTSTART says.
    schedule_zone: ZoneInfo
    anchor: datetime
    times: _Times
    #: UNTIL, or the last instant that COUNT lets through; None for a rule that goes on.
    ends_at: datetime | None
    #: Of RDATE, in order.
    dates: tuple[Occurrence, ...]
    #: Of EXDATE.
    exceptions: frozenset[datetime]
    excepted_days: frozenset[date]

    @property
    def kind(self) -> Kind:
        """`rrule`."""
        return "rrule"

    @property
    def canonical_text(self) -> str:
        """The rule in one spelling, a line for each property; ranges of days spelt out."""
        return self.written.text

    @property
    def description(self) -> str:
        """The rule in words: "Every month on the last Friday at 09:00, 10 times"."""
        return rrule_words.description(self) + self.ending

    @property
    def ending(self) -> str:
        """What is told last: when it ends, what is added and left out."""
        return rrule_words.ending(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What people often get wrong with a rule like this one, and what the next clock changes do to it."""
        return tuple(rrule_warnings.warnings(self))

    @property
    def first_match(self) -> datetime | None:
        """The first instant that the RRULE names, EXDATE and RDATE aside; None when there is none in thirty years."""
        opens_at = self.start.opens_at
        budget = EvaluationBudget("the recurrence", steps=rrule_warnings.STEPS)
        found = self._next_of_rule(opens_at - _ONE_MICROSECOND, _horizon(opens_at), budget)
        return None if found is None else found.at

    def next_after(self, moment: datetime, budget: EvaluationBudget | None = None) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None once COUNT or UNTIL has ended the rule.

        Raises:
            NeverOccurs: Nothing within thirty years of `moment`.
            BudgetExceeded: Before an occurrence was found.
        """
        budget = budget or EvaluationBudget("the recurrence")
        # Nothing is before both: the years until then are not searched.
        moment = max(_within_calendar(moment), min(self.anchor, self.start.opens_at) - _ONE_MICROSECOND)
        horizon = _horizon(moment)
        found = self._next_included(max(moment, self.start.opens_at - _ONE_MICROSECOND), horizon, budget)
        while found is not None:
            exception_end = self._exception_end(found.at)
            if exception_end is None:
                return found
            found = self._next_included(exception_end, horizon, budget)
        if self.ends_at is None or self.ends_at > horizon or (self.dates and self.dates[-1].at > horizon):
            raise NeverOccurs(self.text, f"names no instant within {HORIZON_YEARS} years of {moment:%Y-%m-%d}")
        return None

    def _next_included(self, since: datetime, horizon: datetime, budget: EvaluationBudget) -> Occurrence | None:
        """Return the first instant of RRULE and RDATE after `since` and up to `horizon`."""
        found = self._next_of_rule(since, horizon, budget)
        place = bisect.bisect_right(self.dates, since, key=_instant)
        if place == len(self.dates) or self.dates[place].at > horizon:
            return found
        date = self.dates[place]
        return found if found is not None and found.at <= date.at else date

    def _next_of_rule(self, since: datetime, horizon: datetime, budget: EvaluationBudget) -> Occurrence | None:
        until = horizon if self.ends_at is None else min(horizon, self.ends_at)
        budget.spend(_SEARCH_STEPS)
        return next(self.times.after(since, until, budget), None)

    def _exception_end(self, at: datetime) -> datetime | None:
        """Return the last instant that EXDATE leaves out together with `at`; None when it leaves `at` in."""
        if self.excepted_days:
            day = at.astimezone(self.zone).date()
            if day in self.excepted_days:
                next_day = datetime(day.year, day.month, day.day) + timedelta(days=1)  # noqa: DTZ001 (wall time)
                return max(at, resolve(next_day, self.zone).at - _ONE_MICROSECOND)
        return at if at in self.exceptions else None


def _rule(text: str, written: Written, zone: ZoneInfo, anchor: datetime, budget: EvaluationBudget) -> RRule:
    own_zone = written.start.zone if written.start is not None and written.start.zone is not None else zone
    start = _start(written, own_zone, anchor)
    _check_against_start(written.parts, written.start)
    parts = completed(written.parts, start.wall)
    times = ExactTimes(parts, start.at, own_zone) if parts.is_exact else WallTimes(parts, start.wall, own_zone)
    return RRule(
        text=text,
        zone=own_zone,
        written=written,
        parts=parts,
        start=start,
        schedule_zone=zone,
        anchor=anchor,
        times=times,
        ends_at=parts.until.end_at(own_zone) if parts.until else _last_of(parts.count, times, start.opens_at, budget),
        dates=_dates(written, start, own_zone),
        exceptions=frozenset(stamp.resolved(own_zone).at for stamp in written.exceptions if not stamp.is_date),
        excepted_days=frozenset(stamp.day for stamp in written.exceptions if stamp.is_date),
    )


def _start(written: Written, zone: ZoneInfo, anchor: datetime) -> Start:
    if written.start is not None:
        at = written.start.resolved(zone).at
        return Start(written.start.wall, at, at, is_written=True)
    at = anchor.replace(microsecond=0)
    return Start(at.astimezone(zone).replace(tzinfo=None, fold=0), at, anchor, is_written=False)


def _check_against_start(parts: Parts, start: Stamp | None) -> None:
    """Refuse parts that do not go with the kind of DTSTART that is written beside them.

    Source: RFC 5545 §3.3.10. A date in UNTIL is let through: what it means is clear.
    """
    if start is None:
        return
    if start.is_date and (parts.by_hour or parts.by_minute or parts.by_second):
        raise Malformed(
            f"DTSTART is a date, and BYHOUR, BYMINUTE and BYSECOND need a time: DTSTART:{start.value}T000000"
        )
    until = parts.until
    if until is None or until.is_date:
        return
    if start.is_date:
        raise Malformed(f"UNTIL: {until.value} is a time, and DTSTART a date: write UNTIL={until.value[:8]}")
    if start.zone is not None and until.zone is None:
        in_utc = until.end_at(start.zone)
        raise Malformed(
            f"UNTIL: {until.value} must be in UTC beside a DTSTART in {start.zone.key}: "
            f"for that zone's local time write UNTIL={in_utc:%Y%m%dT%H%M%SZ}"
        )


def _dates(written: Written, start: Start, zone: ZoneInfo) -> tuple[Occurrence, ...]:
    found: dict[datetime, Occurrence] = {}
    for stamp in written.dates:
        timed = replace(stamp, wall=datetime.combine(stamp.day, start.wall.time())) if stamp.is_date else stamp
        at, remark = timed.resolved(zone)
        found.setdefault(at, Occurrence(at, (remark,) if remark else ()))
    return tuple(sorted(found.values(), key=_instant))


def _instant(occurrence: Occurrence) -> datetime:
    return occurrence.at


def _last_of(count: int | None, times: _Times, opens_at: datetime, budget: EvaluationBudget) -> datetime | None:
    """Return the `count`th occurrence; None without a count, and when fewer come before a pause of thirty years."""
    if count is None:
        return None
    since: datetime | None = opens_at - _ONE_MICROSECOND
    while since is not None:
        begun, since = since, None
        for occurrence in times.after(begun, _horizon(begun), budget):
            since = occurrence.at
            count -= 1
            if not count:
                return since
    return None


def _within_calendar(moment: datetime) -> datetime:
    return min(max(moment, _EARLIEST), _LATEST).astimezone(UTC)


def _horizon(moment: datetime) -> datetime:
    return min(moment, _LATEST - _HORIZON) + _HORIZON
