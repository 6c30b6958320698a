"""Compile rules of all kinds to recurrences."""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument, NeverOccurs, RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.core.messages import nearest
from scheduled_actions.recurrence.custom import NO_FUNCTIONS, PREFIX, Functions, parse_custom
from scheduled_actions.recurrence.intervals import ADVERBS, AMBIGUOUS, nearest_interval, parse_interval, parse_length
from scheduled_actions.recurrence.model import HORIZON_YEARS, Kind, Occurrence, Rule
from scheduled_actions.recurrence.phrases import Malformed, time_text
from scheduled_actions.recurrence.repeating import is_repeating_interval
from scheduled_actions.recurrence.skips.application import SkippingRule
from scheduled_actions.recurrence.skips.model import Skips
from scheduled_actions.recurrence.weekdays import is_weekday_rule

#: The first and the last year of anchors and ends: one year inside the range of `datetime`, so that adding a UTC offset
#: cannot leave that range.
_FIRST_YEAR, _LAST_YEAR = 2, 9998
#: Maximum number of cached recurrences, and of cached results per recurrence. The cache saves time because many
#: schedules share a rule and are due at the same time.
_CACHED_MOST = 4096
_RESULTS_CACHED_MOST = 256
_NO_SKIPS = Skips()

_POSSIBLE = (
    'an interval ("every 30 minutes", "daily", "PT10M"), a cron expression ("0 9 * * MON-FRI"), '
    'days of the week ("every weekday at 09:00", "first monday of the month"), '
    'an RRULE ("FREQ=MONTHLY;BYMONTHDAY=-1"), a repeating interval ("R5/P1D"), '
    'a business day ("last business day of the month") '
    f'or a function ("{PREFIX}NAME")'
)
_RRULE = re.compile(r"(?:rrule|exrule|rdate|exdate|dtstart|dtend|duration)[:;]|[a-z]+\s?=|.*[;:\s]freq\s?=")
_CRON_FIELD = re.compile(
    r"(?:[0-9*?/,\-#lwh]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun)+"
)


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
) -> "Recurrence":
    """Compile a rule, and check that it has at least one occurrence.

    Args:
        text: An interval, a cron expression, days of the week, an RRULE, a business day of a period, or `custom:` and a
            name.
        timezone: IANA name of the zone of the skips, and of the rule's wall clock if no DTSTART sets another.
        anchor: Aware: the instant from which intervals count, the time of day of rules without one, and, without
            `since`, the first instant that may be an occurrence.
        since: Aware: an instant before the anchor from which occurrences are allowed; a later value has no effect.
            Intervals still count from the anchor, and an RRULE has no occurrence before its start. None: the anchor.
        skips: The skipped days and windows, and the adjustment; None: nothing is skipped.
        until: Aware: the last instant that may be an occurrence; None: no end.
        functions: The project functions that the rule and its skips can call.
        budget: The evaluation budget of this call and of all later calls on the recurrence; None: a new one for each
            call.

    Raises:
        InvalidArgument: An argument has an invalid value.
        RecurrenceInvalid: The text is not a rule, the rule has no occurrence between its start and `until`, or a
            project function is missing or failed.
        NeverOccurs: The rule has no occurrence within thirty years.
        FunctionTimedOut: A project function did not return in time.
        BudgetExceeded: Finding the first occurrence, or the last of a rule with COUNT, takes too many steps.
    """
    recurrence = compile_stored(
        text,
        timezone=timezone,
        anchor=anchor,
        since=since,
        skips=skips,
        until=until,
        functions=functions,
        budget=budget,
    )
    recurrence.check_occurs()
    return recurrence


def compile_stored(
    text: str,
    *,
    timezone: str,
    anchor: datetime,
    since: datetime | None = None,
    skips: Skips | None,
    until: datetime | None,
    functions: Functions,
    budget: EvaluationBudget | None,
) -> "Recurrence":
    """Compile a rule that had an occurrence when it was stored; do not search for its first occurrence.

    Arguments and errors are those of `compile_recurrence`; a rule without occurrences is accepted.
    """
    _check_strings(text, timezone)
    skips = None if skips is None else Skips.parse(skips)
    if getattr(anchor, "tzinfo", None) is not UTC:
        # Two instants of one zone that differ only in `fold` are equal, and would share a compiled rule.
        anchor = _instant("anchor", anchor)
    # The other arguments as given: they are only checked and converted if they are not in the cache.
    key = (text, timezone, anchor, since, skips, until, functions)
    spending = budget or EvaluationBudget("the recurrence")
    if (compiled := _compiled.get(key)) is not None:
        recurrence, steps = compiled
        spending.spend(steps)
    else:
        before = spending.steps_left
        source = _source(text, timezone, anchor, since=since, skips=skips, until=until, functions=functions)
        recurrence = Recurrence(source, spending)
        if len(_compiled) >= _CACHED_MOST:
            _compiled.clear()
        _compiled[key] = recurrence, before - spending.steps_left
    return recurrence if budget is None else recurrence.within(budget)


def outline(
    text: str,
    *,
    timezone: str,
    anchor: datetime,
    skips: Skips | None,
    until: datetime | None,
    functions: Functions,
    budget: EvaluationBudget,
) -> "Recurrence":
    """Compile a rule for its kind and description; call no project functions, and do not require an occurrence.

    Arguments and errors are those of `compile_recurrence`; a rule without occurrences is accepted.
    """
    _check_strings(text, timezone)
    return Recurrence(
        _source(text, timezone, anchor, since=None, skips=skips, until=until, functions=functions), budget
    )


def add_jitter(at: datetime, *, key: str, seconds: float) -> datetime:
    """Return an instant plus a delay below `seconds`; the same key and instant always give the same delay.

    Args:
        at: Aware.
        key: Identifies the owner of the occurrence, such as a schedule's id; each owner has its own delay.
        seconds: The upper bound of the delay, from 0 (no delay) to 31,622,400 (366 days).

    Raises:
        InvalidArgument: `seconds` is outside these bounds.
    """
    if not 0 <= seconds <= 366 * 86400:
        raise InvalidArgument("seconds", seconds, "a number of seconds between 0 and a year")
    drawn = int.from_bytes(hashlib.sha256(f"{key}\0{at.astimezone(UTC).isoformat()}".encode()).digest()[:8], "big")
    # In whole microseconds: a float could be rounded up to the maximum.
    return at + timedelta(microseconds=drawn * int(seconds * 1_000_000) >> 64)


class _Source(NamedTuple):
    """The arguments from which a recurrence is compiled, checked and converted."""

    text: str
    timezone: str
    anchor: datetime
    #: The first instant that may be an occurrence: the anchor, or an earlier instant.
    since: datetime
    #: None: nothing is skipped.
    skips: Skips | None
    until: datetime | None
    functions: Functions


class Recurrence:
    """A compiled recurrence; threads can share it. Created by `compile_recurrence`."""

    def __init__(self, source: _Source, budget: EvaluationBudget) -> None:
        #: The zone of the skips and of displayed times; DTSTART of an RRULE can set another `clock_zone`.
        self.zone = arguments.check_timezone(source.timezone)
        self._source = source
        self._rule = _parse(source, self.zone, budget)
        #: The rule as given, without surrounding white space.
        self.text = source.text
        self.kind: Kind = self._rule.kind
        #: The zone whose wall clock the rule follows.
        self.clock_zone = self._rule.zone
        #: The last instant that may be an occurrence, aware; None: no end apart from that of the rule.
        self.until = source.until
        self._earliest = source.since - datetime.resolution
        skips = source.skips
        self._skipping = (
            None
            if skips is None or skips.is_empty
            else SkippingRule(self._rule, skips, source.functions, zone=self.zone, anchor=source.anchor)
        )
        #: Whether skips leave out or move occurrences.
        self.has_skips = self._skipping is not None
        self._occurrences = self._skipping or self._rule
        #: Cached results, each with the steps that it took. A cached result spends as many steps as a new one, so
        #: that a budget allows the same calls whether or not results are cached.
        self._results: dict[datetime, tuple[Occurrence | None, int]] = {}
        self._budget: EvaluationBudget | None = None

    def __repr__(self) -> str:
        return f"<Recurrence {self.text!r} in {self.zone.key}>"

    @cached_property
    def description(self) -> str:
        """The rule with its zone, skips and end in words: "Every day at 09:00 in Europe/Berlin, except weekends"."""
        rule = self._rule
        description = f"{rule.description.removesuffix(rule.ending)} in {rule.zone.key}{rule.ending}"
        if self.has_skips and self._source.skips is not None:
            description += f", {self._source.skips.description}"
        if self.until is not None:
            shown = self.until.astimezone(self.zone)
            description += f", until {shown.date()} {time_text(shown)}"
        return description

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about likely mistakes in the rule, as sentences."""
        return self._rule.warnings

    @property
    def budget(self) -> EvaluationBudget:
        """The budget of all calls; without one, a new budget."""
        return self._budget or EvaluationBudget("the recurrence")

    def within(self, budget: EvaluationBudget) -> "Recurrence":
        """Return a copy of this recurrence that uses one evaluation budget for all calls."""
        # A tenth of the time of `copy`; claims call this for each occurrence.
        other = object.__new__(Recurrence)
        other.__dict__ = {**self.__dict__, "_budget": budget}
        return other

    def check_occurs(self) -> None:
        """Check that there is an occurrence between the start and `until`; errors as for `compile_recurrence`."""
        if self.next_after(self._earliest) is not None:
            return
        first = self._occurrences.next_after(self._earliest, self.budget)
        if first is None:
            problem = f"has no occurrence at or after its start at {self._source.since.isoformat()}"
        else:
            end = self.until.isoformat() if self.until else ""
            problem = f"ends at {end}, before its first occurrence at {first.at.isoformat()}"
        raise RecurrenceInvalid(self.text, problem)

    def next_after(self, moment: datetime) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`.

        Args:
            moment: Aware, in any zone.

        Returns:
            In UTC; None if the recurrence has ended.

        Raises:
            InvalidArgument: `moment` is naive.
            NeverOccurs: There is no further occurrence within thirty years.
            RecurrenceInvalid: A project function failed, or returned an invalid result.
            FunctionTimedOut: A project function did not return in time.
            BudgetExceeded: The search took too many steps.
        """
        moment = _aware("moment", moment).astimezone(UTC)
        budget = self.budget
        if (cached := self._results.get(moment)) is not None:
            budget.spend(cached[1])
            return cached[0]
        before = budget.steps_left
        budget.spend(2)  # for any result, whatever the rule
        found = self._first_after(max(moment, self._earliest), budget)
        if len(self._results) >= _RESULTS_CACHED_MOST:
            self._results.clear()
        self._results[moment] = found, before - budget.steps_left
        return found

    def between(self, start: datetime, end: datetime, *, limit: int) -> list[Occurrence]:
        """Return the first `limit` occurrences after `start` and up to `end`, both aware.

        Raises:
            ScheduledActionsError: As for `next_after`.
        """
        occurrences: list[Occurrence] = []
        end, rule = _aware("end", end), self.within(self.budget)
        occurrence = rule.next_after(start) if limit > 0 else None
        while occurrence is not None and occurrence.at <= end:
            occurrences.append(occurrence)
            occurrence = rule.next_after(occurrence.at) if len(occurrences) < limit else None
        return occurrences

    def left_out(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """Yield the instants after `start` and before `end` that skips leave out, each with the reason.

        A reason is a predicate: "is skipped (weekend)". Nothing is yielded if an adjustment moves skipped occurrences.

        Raises:
            ScheduledActionsError: As for `next_after`.
        """
        skips = self._source.skips
        if self._skipping is not None and skips is not None and skips.adjustment == "drop":
            yield from self._skipping.left_out(max(start, self._earliest), end, self.budget)

    def _first_after(self, after: datetime, budget: EvaluationBudget) -> Occurrence | None:
        try:
            found = self._occurrences.next_after(after, budget)
        except NeverOccurs:
            if self.until is None or self.until - after > timedelta(days=HORIZON_YEARS * 365):
                raise
            # No occurrence within thirty years means no occurrence before `until`.
            return None
        return None if found and self.until and found.at > self.until else found


#: Compiled recurrences by the arguments of `compile_stored`, each with the steps that parsing took.
_compiled: dict[tuple[object, ...], tuple[Recurrence, int]] = {}


def _check_strings(text: object, timezone: object) -> None:
    if not isinstance(text, str):
        arguments.check_recurrence("recurrence", text)
        raise InvalidArgument("recurrence", text, "a string")
    if not isinstance(timezone, str):
        raise InvalidArgument("timezone", timezone, 'an IANA time zone, such as "Europe/Berlin"')


def _source(
    text: str,
    timezone: str,
    anchor: datetime,
    *,
    since: datetime | None,
    skips: Skips | None,
    until: datetime | None,
    functions: Functions,
) -> _Source:
    anchor = _instant("anchor", anchor)
    return _Source(
        text.strip(),
        timezone,
        anchor,
        anchor
        if since is None
        else min(max(_aware("since", since), datetime(_FIRST_YEAR, 1, 1, tzinfo=UTC)), anchor).astimezone(UTC),
        None if skips is None else Skips.parse(skips),
        None if until is None else _instant("until", until),
        functions,
    )


def _instant(name: str, moment: datetime) -> datetime:
    if not _FIRST_YEAR <= _aware(name, moment).year <= _LAST_YEAR:
        raise InvalidArgument(name, moment, f"an instant between the years {_FIRST_YEAR} and {_LAST_YEAR}")
    return moment.astimezone(UTC)


def _aware(name: str, moment: datetime) -> datetime:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InvalidArgument(name, moment, "an aware datetime: set its tzinfo")
    return moment


def _parse(source: _Source, zone: ZoneInfo, budget: EvaluationBudget) -> Rule:
    """Parse a rule of any kind; the budget covers parsing and finding the last occurrence of a rule with COUNT."""
    text = source.text
    budget.spend(20 + len(text) // 10)  # for parsing a rule of any kind
    if len(text) > arguments.RECURRENCE_LIMIT:
        raise RecurrenceInvalid(text, f"has {len(text):,} characters; the maximum is {arguments.RECURRENCE_LIMIT:,}")
    return _parser_of(text)(source, zone, budget)


@lru_cache(maxsize=1024)
def _parser_of(text: str) -> Callable[[_Source, ZoneInfo, EvaluationBudget], Rule]:
    """Return the parser of a text's kind; its module is loaded with the first rule of that kind.

    Raises:
        RecurrenceInvalid: The text is not a rule of any kind.
    """
    words = " ".join(text.lower().split())
    if words.startswith(PREFIX):
        return lambda source, zone, _: parse_custom(text, zone=zone, since=source.since, functions=source.functions)
    is_business_day = re.search(r"\b(?:business|working) days?\b", words)
    is_rrule = _RRULE.match(words) or is_repeating_interval(words)
    if is_rrule or (is_weekday_rule(words) and not is_business_day):
        from scheduled_actions.recurrence.rrule.rule import parse_rrule  # noqa: PLC0415 - see above

        return lambda source, zone, budget: parse_rrule(text, zone=zone, anchor=source.anchor, budget=budget)
    if is_business_day:
        from scheduled_actions.recurrence.business import parse_business_day  # noqa: PLC0415 - see above

        return lambda source, zone, _: parse_business_day(
            text, zone=zone, anchor=source.anchor, since=source.since, calendar=source.skips or _NO_SKIPS
        )
    if words.isdecimal():
        raise RecurrenceInvalid(text, arguments.NO_UNIT)
    if _is_cron(words):
        from scheduled_actions.recurrence.cron.rule import parse_cron  # noqa: PLC0415 - see above

        return lambda source, zone, _: parse_cron(text, zone=zone, anchor=source.anchor)
    if words.split(" ")[0] in {"every", *ADVERBS, *AMBIGUOUS} or re.match("[-+]?p[-+t0-9]", words):
        return lambda source, zone, _: parse_interval(text, zone=zone, anchor=source.anchor, since=source.since)
    suggestion = _suggest_interval(words)
    hint = f'; did you mean "{suggestion}"? Write' if suggestion else ": write"
    raise RecurrenceInvalid(text, f"is not a recurrence{hint} {_POSSIBLE}")


def _is_cron(words: str) -> bool:
    """Whether a rule looks like cron: a macro, or fields, even if their number is not five."""
    first, *rest = (bool(_CRON_FIELD.fullmatch(field)) for field in words.split(" "))
    return words.startswith("@") or (first and (all(rest) or "*" in words or len(rest) == 4))  # noqa: PLR2004


def _suggest_interval(words: str) -> str | None:
    for guess in (nearest_interval(words), f"every {words}", f"PT{words}".upper(), f"P{words}".upper()):
        with suppress(Malformed):
            parse_length(guess)
            return guess
    first, _, rest = words.partition(" ")
    near = nearest(first, ("every", *ADVERBS))
    return f"{near} {rest}".strip() if near else None
