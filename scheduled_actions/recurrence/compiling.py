"""From a rule's text to its occurrences."""

from __future__ import annotations

from copy import copy
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument, NeverOccurs, RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.custom import NO_FUNCTIONS, Functions
from scheduled_actions.recurrence.kinds import parse_rule
from scheduled_actions.recurrence.model import HORIZON_YEARS
from scheduled_actions.recurrence.phrases import time_text
from scheduled_actions.recurrence.skips.application import SkippingRule
from scheduled_actions.recurrence.skips.causes import Causes
from scheduled_actions.recurrence.skips.model import Skips

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

    from scheduled_actions.recurrence.model import Kind, Occurrence, Rule

_ONE_MICROSECOND = timedelta(microseconds=1)
#: The calendar's first and last years are left for offsets to reach into.
_FIRST_YEAR, _LAST_YEAR = 2, 9998
_FIRST_INSTANT = datetime(_FIRST_YEAR, 1, 1, tzinfo=UTC)
#: Compiled recurrences kept, and answers of each: a hundred thousand schedules share few rules, and are due together.
_KEPT = 4096
_ANSWERS_KEPT = 256
#: What any answer takes, whatever the rule.
_ANSWER_STEPS = 2
_HORIZON = timedelta(days=HORIZON_YEARS * 365)
_NO_SKIPS = Skips()


def compile_recurrence(
    text: str,
    *,
    timezone: str = "UTC",
    anchor: datetime,
    since: datetime | None = None,
    skips: Skips | None = None,
    until: datetime | None = None,
    functions: Functions = NO_FUNCTIONS,
    budget: EvaluationBudget | None = None,
) -> Recurrence:
    """Return the recurrence that a rule describes, known to occur at least once.

    Args:
        text: An interval, a cron expression, an RRULE, a business day of a period, or `custom:` and a name.
        timezone: IANA name of the zone whose wall clock it follows.
        anchor: Aware: gives the phase (where intervals count from, and the time of day where the text names none), and
            is the first instant that may be an occurrence.
        since: Aware: the first instant that may be an occurrence, if it is before the anchor; the phase stays.
        skips: What is left out or moved.
        until: Aware: the last instant that may be an occurrence.
        functions: Those of the project that the rule and its skips may name.
        budget: For this call and for everything the recurrence is asked later; None: a new one for each call.

    Raises:
        InvalidArgument: An argument cannot be what it is.
        RecurrenceInvalid: The text is no rule, or its occurrences end before the anchor.
        NeverOccurs: Nothing occurs within thirty years.
        BudgetExceeded: Its first occurrence, or with COUNT its last, takes more steps than are left.
    """
    key = _key(text, timezone, anchor, since=since, skips=skips, until=until, functions=functions)
    spending = budget or EvaluationBudget("the recurrence")
    known = _compiled.get(key)
    if known is None:
        before = spending.steps_left
        recurrence = _compile(key, spending)
        if len(_compiled) >= _KEPT:
            _compiled.clear()
        known = _compiled[key] = recurrence, before - spending.steps_left
    else:
        spending.spend(known[1])
    return known[0] if budget is None else known[0].within(budget)


class Outline(NamedTuple):
    """What a recurrence is, whatever its occurrences are."""

    kind: Kind
    #: All of it in words.
    description: str


def outline(
    text: str,
    *,
    timezone: str,
    anchor: datetime,
    skips: Skips | None,
    until: datetime | None,
    functions: Functions,
    budget: EvaluationBudget,
) -> Outline:
    """Return what a recurrence is without looking for an occurrence: no function of the project is called.

    Arguments and errors as for `compile_recurrence`; a recurrence without occurrences is not refused.
    """
    key = _key(text, timezone, anchor, skips=skips, until=until, functions=functions)
    zone = arguments.check_timezone(timezone)
    # Refuses a function of the skips that is not registered.
    Causes(key.skips, zone, functions, text=key.text)
    rule = parse_rule(
        key.text, zone=zone, anchor=key.anchor, since=key.since, skips=key.skips, functions=functions, budget=budget
    )
    return Outline(rule.kind, _described(rule, zone, key.skips, key.until))


class Recurrence:
    """A compiled recurrence: pure, and safe to share between threads. Made by `compile_recurrence`."""

    def __init__(
        self,
        text: str,
        rule: Rule,
        *,
        zone: ZoneInfo,
        anchor: datetime,
        since: datetime,
        skips: Skips,
        until: datetime | None,
        functions: Functions,
        budget: EvaluationBudget,
    ) -> None:
        #: As typed, without space around it.
        self.text = text
        self.kind: Kind = rule.kind
        #: That of the skips and of what people are shown; an RRULE may bring another one to follow.
        self.zone = zone
        #: Whose wall clock the rule follows.
        self.clock_zone = rule.zone
        self._rule = rule
        self._skips = skips
        self._earliest = since - _ONE_MICROSECOND
        #: Aware: nothing occurs after it; None where no end was given beside the rule's own.
        self.until = until
        self._skipping: SkippingRule | None = None
        if not skips.is_empty:
            self._skipping = SkippingRule(rule, skips, functions, zone=zone, anchor=anchor, text=text, budget=budget)
        self._source = self._skipping or rule
        #: The last answers, each with the steps it took: a known answer costs as much as a new one, so that what fits
        #: into a budget does not depend on what was asked before.
        self._answers: dict[datetime, tuple[Occurrence | None, int]] = {}
        self._budget: EvaluationBudget | None = None

    def __repr__(self) -> str:
        return f"<Recurrence {self.text!r} in {self.zone.key}>"

    @cached_property
    def description(self) -> str:
        """All of it in words: "Every day at 09:00 in Europe/Berlin, except weekends, until 2027-03-31 00:00"."""
        return _described(self._rule, self.zone, self._skips, self.until)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What people often get wrong with a rule like this one."""
        return tuple(self._rule.warnings)

    @property
    def budget(self) -> EvaluationBudget:
        """The budget of all that it is asked; a new one where it has none."""
        return self._budget or EvaluationBudget("the recurrence")

    def within(self, budget: EvaluationBudget) -> Recurrence:
        """Return this recurrence with one budget for all that it is asked."""
        other = copy(self)
        other._budget = budget  # noqa: SLF001 - its own
        return other

    def next_after(self, moment: datetime) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`.

        Args:
            moment: Aware, in any zone.

        Returns:
            In UTC, never a local time that does not exist; None once the recurrence has ended.

        Raises:
            NeverOccurs: Nothing more within thirty years.
            RecurrenceInvalid: A function of the project failed, or answered what it must not.
            BudgetExceeded: Before an occurrence was found.
        """
        moment = _aware("moment", moment).astimezone(UTC)
        budget = self.budget
        known = self._answers.get(moment)
        if known is not None:
            budget.spend(known[1])
            return known[0]
        before = budget.steps_left
        budget.spend(_ANSWER_STEPS)
        found = self._first_after(moment, budget)
        if len(self._answers) >= _ANSWERS_KEPT:
            self._answers.clear()
        self._answers[moment] = found, before - budget.steps_left
        return found

    @property
    def has_skips(self) -> bool:
        """Whether anything is left out or moved."""
        return self._skipping is not None

    def between(self, start: datetime, end: datetime, *, limit: int) -> list[Occurrence]:
        """Return the occurrences after `start` and up to `end`, the first `limit` of them.

        Raises:
            NeverOccurs, RecurrenceInvalid, BudgetExceeded: As `next_after`.
        """
        found: list[Occurrence] = []
        end = _aware("end", end)
        rule = self if self._budget is not None else self.within(EvaluationBudget("the recurrence"))
        occurrence = rule.next_after(start) if limit > 0 else None
        while occurrence is not None and occurrence.at <= end:
            found.append(occurrence)
            occurrence = rule.next_after(occurrence.at) if len(found) < limit else None
        return found

    def next_without_until(self, moment: datetime) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`, an instant in UTC, were there no `until`."""
        return self._source.next_after(moment, self.budget)

    def left_out(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """Yield what the skips drop between two instants, and why: "is skipped (weekend)"."""
        if self._skipping is not None and self._skips.then == "drop":
            yield from self._skipping.left_out(max(start, self._earliest), end, self.budget)

    def _first_after(self, moment: datetime, budget: EvaluationBudget) -> Occurrence | None:
        after = max(moment, self._earliest)
        if self.until is None:
            return self._source.next_after(after, budget)
        try:
            found = self._source.next_after(after, budget)
        except NeverOccurs:
            if self.until - after > _HORIZON:
                raise
            # Nothing within thirty years is nothing before it ends.
            return None
        return None if found is None or found.at > self.until else found


class _Key(NamedTuple):
    """What a recurrence is compiled from."""

    text: str
    timezone: str
    anchor: datetime
    #: The anchor, or an instant before it.
    since: datetime
    skips: Skips
    until: datetime | None
    functions: Functions


#: The last recurrences compiled, each with the steps that took.
_compiled: dict[_Key, tuple[Recurrence, int]] = {}


def _key(
    text: str,
    timezone: str,
    anchor: datetime,
    *,
    since: datetime | None = None,
    skips: Skips | None,
    until: datetime | None,
    functions: Functions,
) -> _Key:
    if not isinstance(text, str):
        raise InvalidArgument("recurrence", text, "a text")
    if not isinstance(timezone, str):
        raise InvalidArgument("timezone", timezone, 'an IANA time zone, such as "Europe/Berlin"')
    anchor = _instant("anchor", anchor)
    return _Key(
        text.strip(),
        timezone,
        anchor,
        anchor if since is None else min(max(_aware("since", since), _FIRST_INSTANT), anchor).astimezone(UTC),
        _NO_SKIPS if skips is None else Skips.parse(skips),
        None if until is None else _instant("until", until),
        functions,
    )


def _compile(key: _Key, budget: EvaluationBudget) -> Recurrence:
    text, timezone, anchor, since, skips, until, functions = key
    zone = arguments.check_timezone(timezone)
    rule = parse_rule(text, zone=zone, anchor=anchor, since=since, skips=skips, functions=functions, budget=budget)
    made = Recurrence(
        text, rule, zone=zone, anchor=anchor, since=since, skips=skips, until=until, functions=functions, budget=budget
    )
    first = made.within(budget).next_without_until(since - _ONE_MICROSECOND)
    if first is None:
        raise RecurrenceInvalid(text, f"has ended: nothing occurs from its start at {since.isoformat()} on")
    if until is not None and first.at > until:
        problem = f"ends at {until.isoformat()}, before its first occurrence at {first.at.isoformat()}"
        raise RecurrenceInvalid(text, problem)
    return made


def _described(rule: Rule, zone: ZoneInfo, skips: Skips, until: datetime | None) -> str:
    said = f"{rule.description.removesuffix(rule.ending)} in {rule.zone.key}{rule.ending}"
    if not skips.is_empty:
        said += f", {skips.description}"
    if until is not None:
        shown = until.astimezone(zone)
        said += f", until {shown.date()} {time_text(shown)}"
    return said


def _instant(name: str, moment: datetime) -> datetime:
    moment = _aware(name, moment)
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise InvalidArgument(name, moment, f"an instant between the years {_FIRST_YEAR} and {_LAST_YEAR}")
    return moment.astimezone(UTC)


def _aware(name: str, moment: datetime) -> datetime:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InvalidArgument(name, moment, "an aware datetime: give it a tzinfo")
    return moment
