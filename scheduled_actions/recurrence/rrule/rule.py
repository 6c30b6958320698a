"""Parse and evaluate iCalendar recurrence rules: `RRULE:FREQ=MONTHLY;BYDAY=-1FR`, with DTSTART, RDATE and EXDATE.

Where RFC 5545 leaves a choice, or its result would surprise, rules are interpreted as follows:

* DAILY and coarser rules define wall times. A time inside a DST gap moves later by the gap, and is counted. A time that
  occurs twice means its first occurrence (erratum 4271). Two times that become the same instant are counted once.
* HOURLY and finer rules follow real time: see `recurrence.rrule.exact`.
* A day that does not exist (31 April) is left out and not counted.
* A start that does not match the rule is not an occurrence; the first match is counted as the first.
* BYWEEKNO without a day means the start's day of the week; YEARLY with BYMONTHDAY alone means every month.
* UNTIL as a date includes the whole day; as a local time, it is in the rule's zone.
* EXDATE as a date excludes the whole day; RDATE as a date has the start's time of day.
* BYDAY=MO..FR means MO,TU,WE,TH,FR.

dateutil.rrule is not used: for a rule that never occurs, it searches up to the year 9999, and cannot be stopped. The
tests compare the results of this module with those of dateutil.
"""

import bisect
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import ClassVar
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import BudgetExceeded, NeverOccurs
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.model import (
    DAY,
    HORIZON_YEARS,
    Kind,
    Occurrence,
    Rule,
    clock_changes,
    instant_of,
    resolve,
)
from scheduled_actions.recurrence.phrases import Malformed, parser, refuse
from scheduled_actions.recurrence.rrule import words
from scheduled_actions.recurrence.rrule.exact import ExactTimes
from scheduled_actions.recurrence.rrule.parts import FIRST_YEAR, LAST_YEAR, Parts, Stamp
from scheduled_actions.recurrence.rrule.text import RecurrenceText, read_text
from scheduled_actions.recurrence.rrule.wall import RRuleWallTimes, complete

_HORIZON = timedelta(days=HORIZON_YEARS * 365.25)
_EARLIEST = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
_LATEST = datetime(LAST_YEAR, 12, 31, tzinfo=UTC)
#: Maximum number of evaluation steps for one warning.
_WARNING_STEPS = 2_000


@parser
def parse_rrule(text: str, *, zone: ZoneInfo, anchor: datetime, budget: EvaluationBudget | None = None) -> "RRule":
    """Parse a recurrence in iCalendar format.

    Args:
        text: `FREQ=…`, `RRULE:FREQ=…`, or lines of DTSTART, RRULE, RDATE and EXDATE.
        zone: The zone of the wall times, unless DTSTART has a TZID or is in UTC.
        anchor: Aware; the start if the text has no DTSTART. Wall times have whole seconds: the fraction of the anchor's
            second is dropped, but occurrences before the anchor itself are left out.
        budget: For finding the last occurrence of a rule with COUNT; None: a new one.

    Raises:
        BudgetExceeded: Finding the last occurrence of a rule with COUNT takes too many steps.
        RecurrenceInvalid: The message names the part, the problem and what to write instead.

    Source: RFC 5545 §3.3.10, §3.8.5.
    """
    anchor = _within_calendar(anchor)
    written = read_text(text, zone)
    own_zone, start_at, opens_at = zone, anchor.replace(microsecond=0), anchor
    start = start_at.astimezone(zone).replace(tzinfo=None, fold=0)
    if written.start is not None:
        own_zone, start = written.start.zone or zone, written.start.wall
        start_at = opens_at = written.start.resolved(own_zone).at
    _check_against_start(written.parts, written.start)
    parts = complete(written.parts, start)
    times = ExactTimes(parts, start_at, own_zone) if parts.is_exact else RRuleWallTimes(parts, start, own_zone)
    return RRule(
        text=text,
        zone=own_zone,
        written=written,
        parts=parts,
        start=start,
        start_at=start_at,
        opens_at=opens_at,
        schedule_zone=zone,
        anchor=anchor,
        times=times,
        ends_at=parts.until.end_at(own_zone)
        if parts.until
        else _last_of(parts.count, times, opens_at, budget or EvaluationBudget("the recurrence")),
        dates=_dates(written, start, own_zone),
        exceptions=frozenset(stamp.resolved(own_zone).at for stamp in written.exceptions if not stamp.is_date),
        excepted_days=frozenset(stamp.wall.date() for stamp in written.exceptions if stamp.is_date),
    )


@dataclass(frozen=True, slots=True, eq=False)
class RRule(Rule):
    """A parsed iCalendar rule in a zone; the docstring of the module describes how it is interpreted."""

    kind: ClassVar[Kind] = "rrule"
    written: RecurrenceText
    #: The parts as written, with missing days taken from the start.
    parts: Parts
    #: The wall time of the start, naive, in whole seconds.
    start: datetime
    #: The start in UTC.
    start_at: datetime
    #: The first instant that may be an occurrence; without DTSTART, up to a second after `start_at`.
    opens_at: datetime
    #: The schedule's zone, regardless of DTSTART.
    schedule_zone: ZoneInfo
    #: The schedule's start.
    anchor: datetime
    times: RRuleWallTimes | ExactTimes
    #: UNTIL, or the last instant that COUNT allows; None: the rule has neither, or does not reach COUNT because no
    #: further occurrence is within thirty years.
    ends_at: datetime | None
    #: The occurrences from RDATE, in order.
    dates: tuple[Occurrence, ...]
    #: The excluded instants and days from EXDATE.
    exceptions: frozenset[datetime]
    excepted_days: frozenset[date]

    @property
    def description(self) -> str:
        """The rule in words: "Every month on the last Friday at 09:00, 10 times"."""
        return words.description(self.parts, self.start, self.written) + self.ending

    @property
    def ending(self) -> str:
        """The end of the description: the end of the rule, and added and excluded dates."""
        return words.ending(self.parts, self.written, self.zone)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about likely mistakes in the rule, and about the next clock changes that affect it."""
        budget = EvaluationBudget("the recurrence", steps=_WARNING_STEPS)
        first = None
        with suppress(BudgetExceeded):
            first = self._next_of_rule(self.opens_at - datetime.resolution, _horizon(self.opens_at), budget)
        return (
            *words.about_start(
                self.parts,
                self.written,
                self.start,
                first.at.astimezone(self.zone) if first and first.at != self.start_at else None,
                zone=self.zone,
                schedule_zone=self.schedule_zone,
            ),
            *words.about_parts(self.parts, self.written, self.zone),
            *([] if self.parts.is_exact else self._moved_by_a_gap()),
        )

    def _moved_by_a_gap(self) -> list[str]:
        """Return the remark of the first occurrence within a year that a DST gap moves; empty if there is none."""
        since = self._midnight_before(max(self.opens_at, self.anchor))
        for change in clock_changes(self.zone, since, since + 366 * DAY):
            budget = EvaluationBudget("the recurrence", steps=_WARNING_STEPS)
            with suppress(NeverOccurs, BudgetExceeded):
                found = self.next_after(self._midnight_before(change) - datetime.resolution, budget)
                while found is not None and found.at <= change + DAY:
                    if gaps := [remark for remark in found.remarks if "does not exist" in remark]:
                        return gaps
                    found = self.next_after(found.at, budget)
        return []

    def _midnight_before(self, at: datetime) -> datetime:
        return datetime.combine(at.astimezone(self.zone), time.min, self.zone).astimezone(UTC)

    def next_after(self, moment: datetime, budget: EvaluationBudget | None = None) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None if the rule has ended by COUNT or UNTIL.

        Raises:
            NeverOccurs: There is no occurrence within thirty years after `moment`.
            BudgetExceeded: The search took too many steps.
        """
        budget = budget or EvaluationBudget("the recurrence")
        # There is no occurrence before both of these, so the search starts there.
        moment = max(_within_calendar(moment), min(self.anchor, self.opens_at) - datetime.resolution)
        horizon = _horizon(moment)
        found = self._next_included(max(moment, self.opens_at - datetime.resolution), horizon, budget)
        while found is not None:
            exception_end = self._exception_end(found.at)
            if exception_end is None:
                return found
            found = self._next_included(exception_end, horizon, budget)
        if self.ends_at is None or self.ends_at > horizon or (self.dates and self.dates[-1].at > horizon):
            raise NeverOccurs(self.text, f"has no occurrence within {HORIZON_YEARS} years after {moment:%Y-%m-%d}")
        return None

    def _next_included(self, since: datetime, horizon: datetime, budget: EvaluationBudget) -> Occurrence | None:
        """Return the first instant of RRULE and RDATE after `since` and up to `horizon`."""
        found = self._next_of_rule(since, horizon, budget)
        place = bisect.bisect_right(self.dates, since, key=instant_of)
        if place == len(self.dates) or self.dates[place].at > horizon:
            return found
        date = self.dates[place]
        return found if found is not None and found.at <= date.at else date

    def _next_of_rule(self, since: datetime, horizon: datetime, budget: EvaluationBudget) -> Occurrence | None:
        budget.spend(2)  # for starting a search
        return next(self.times.after(since, min(horizon, self.ends_at or horizon), budget), None)

    def _exception_end(self, at: datetime) -> datetime | None:
        """Return the last instant that EXDATE excludes together with `at`; None if `at` is not excluded."""
        if self.excepted_days and (day := at.astimezone(self.zone).date()) in self.excepted_days:
            return max(at, resolve(datetime.combine(day + DAY, time.min), self.zone).at - datetime.resolution)
        return at if at in self.exceptions else None


def _check_against_start(parts: Parts, start: Stamp | None) -> None:
    """Check that the parts fit the type of DTSTART (date, local time or UTC).

    A date in UNTIL is always accepted, because its meaning is clear.

    Raises:
        Malformed: A part does not fit.

    Source: RFC 5545 §3.3.10.
    """
    until = parts.until
    if start is None:
        return
    end = until.value if until and not until.is_date else ""
    refuse(
        (
            start.is_date and (parts.by_hour or parts.by_minute or parts.by_second),
            (
                "BYHOUR, BYMINUTE and BYSECOND need a DTSTART with a time, not a date: "
                f"write DTSTART:{start.value}T000000"
            ),
        ),
        (start.is_date and end, f"UNTIL: {end} is a time, but DTSTART is a date: write UNTIL={end[:8]}"),
    )
    if end and start.zone is not None and until is not None and until.zone is None:
        raise Malformed(
            f"UNTIL: {end} must be in UTC because DTSTART is in {start.zone.key}: "
            f"if it is local time in that zone, write UNTIL={until.end_at(start.zone):%Y%m%dT%H%M%SZ}"
        )


def _dates(written: RecurrenceText, start: datetime, zone: ZoneInfo) -> tuple[Occurrence, ...]:
    occurrences: dict[datetime, Occurrence] = {}
    for stamp in written.dates:
        timed = replace(stamp, wall=datetime.combine(stamp.wall, start.time())) if stamp.is_date else stamp
        occurrence = resolve(timed.wall, timed.zone or zone)
        occurrences.setdefault(occurrence.at, occurrence)
    return tuple(sorted(occurrences.values(), key=instant_of))


def _last_of(
    count: int | None, times: RRuleWallTimes | ExactTimes, opens_at: datetime, budget: EvaluationBudget
) -> datetime | None:
    """Return the instant of the `count`th occurrence; None without a count, or if it is after a gap of thirty years."""
    if count is None:
        return None
    since: datetime | None = opens_at - datetime.resolution
    while since is not None:
        begin, since = since, None
        for occurrence in times.after(begin, _horizon(begin), budget):
            since = occurrence.at
            count -= 1
            if not count:
                return since
    return None


def _within_calendar(moment: datetime) -> datetime:
    return min(max(moment, _EARLIEST), _LATEST).astimezone(UTC)


def _horizon(moment: datetime) -> datetime:
    return min(moment, _LATEST - _HORIZON) + _HORIZON
