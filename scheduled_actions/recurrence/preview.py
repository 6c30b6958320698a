"""The next occurrences of a rule, and why they are where they are, for people to look at before they rely on it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import BudgetExceeded, InvalidArgument, NeverOccurs
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.recurrence.compiling import Recurrence, compile_recurrence
from scheduled_actions.recurrence.custom import NO_FUNCTIONS
from scheduled_actions.recurrence.phrases import counted, day_text, listed, time_text
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from scheduled_actions.recurrence.custom import Functions
    from scheduled_actions.recurrence.model import Occurrence
    from scheduled_actions.recurrence.skips.model import Skips

#: The most occurrences shown at once.
COUNT_MOST = 1000
_YEAR = timedelta(days=366)
#: Occurrences that were left out: so many are named, and so many looked for.
_NAMED_MOST = 3
_LEFT_OUT_MOST = 1000


def preview(
    text: str,
    *,
    timezone: str = "UTC",
    start: datetime,
    count: int = 10,
    skips: Skips | None = None,
    until: datetime | None = None,
    functions: Functions = NO_FUNCTIONS,
) -> dict[str, Any]:
    """Return the first `count` occurrences after `start`, as a JSON object.

    Args:
        text: The rule, as `compile_recurrence` reads it.
        timezone: IANA name.
        start: Intervals count from it; it is no occurrence itself. Naive: a wall time in the zone.
        count: 1 to 1,000; there are fewer when the rule ends.
        skips: What is left out or moved.
        until: The last instant that may be one. Naive: a wall time in the zone.
        functions: Those that the rule and its skips may name.

    Returns:
        `rule`, `kind`, `description`; `occurrences`, each with `at` (local time with its offset), `utc`, and `remarks`
        where something touched it; `warnings`; `truncated`, true, where the evaluation budget ended before `count`.

    Raises:
        InvalidArgument: An argument cannot be what it is.
        RecurrenceInvalid: The text is no rule, or nothing occurs after its start.
        NeverOccurs: Nothing occurs within thirty years.
        BudgetExceeded: The first occurrence takes too many steps.
    """
    budget = EvaluationBudget("the recurrence")
    checked = arguments.check_integer("count", count, least=1, most=COUNT_MOST)
    zone = arguments.check_timezone(timezone)
    start = _instant("start", start, zone)
    recurrence = compile_recurrence(
        text,
        timezone=timezone,
        anchor=start,
        skips=skips,
        until=None if until is None else _instant("until", until, zone),
        functions=functions,
        budget=budget,
    )
    occurrences, has_more = _first(recurrence, start, checked or 1)
    is_truncated = has_more and len(occurrences) < count
    warnings = [*recurrence.warnings, *_warnings(recurrence, start, occurrences, has_more=has_more)]
    if is_truncated:
        warnings.append(f"Only {counted(len(occurrences), 'occurrence')} could be evaluated within {STEPS:,} steps")
    return {
        "rule": recurrence.text,
        "kind": recurrence.kind,
        "description": recurrence.description,
        "occurrences": [_shown(occurrence, zone) for occurrence in occurrences],
        "warnings": warnings,
        **({"truncated": True} if is_truncated else {}),
    }


def _instant(name: str, moment: datetime, zone: ZoneInfo) -> datetime:
    if not isinstance(moment, datetime):
        raise InvalidArgument(name, moment, "a datetime")
    if moment.utcoffset() is not None:
        return moment
    try:
        return resolve(moment.replace(tzinfo=None, fold=0), zone).at
    except OverflowError:
        raise InvalidArgument(name, moment, "an instant between the years 1 and 9999 in UTC") from None


def _first(recurrence: Recurrence, start: datetime, count: int) -> tuple[list[Occurrence], bool]:
    """Return the first occurrences that the budget allows, and whether more may follow."""
    found: list[Occurrence] = []
    moment = start
    while len(found) < count:
        try:
            occurrence = recurrence.next_after(moment)
        except BudgetExceeded:
            if not found:
                raise
            return found, True
        except NeverOccurs:
            if not found:
                raise
            return found, False
        if occurrence is None:
            return found, False
        found.append(occurrence)
        moment = occurrence.at
    return found, True


def _shown(occurrence: Occurrence, zone: ZoneInfo) -> dict[str, Any]:
    shown = {"at": occurrence.at.astimezone(zone).isoformat(), "utc": occurrence.at.isoformat()}
    return {**shown, "remarks": list(occurrence.remarks)} if occurrence.remarks else shown


def _warnings(recurrence: Recurrence, start: datetime, found: list[Occurrence], *, has_more: bool) -> list[str]:
    told = []
    if not found:
        return ["Nothing occurs after the start: it has ended"]
    if found[0].at - start > _YEAR:
        first = found[0].at.astimezone(recurrence.zone)
        told.append(f"The next occurrence is more than a year away, on {day_text(first.date())}")
    if not has_more:
        told.append(f"It ends after {counted(len(found), 'occurrence')}")
    left_out: list[tuple[datetime, str]] = []
    with suppress(BudgetExceeded):
        left_out.extend(islice(recurrence.left_out(start, found[-1].at), _LEFT_OUT_MOST))
    if left_out:
        named = [_left_out(at, reason, recurrence.zone) for at, reason in left_out[:_NAMED_MOST]]
        more = len(left_out) - _NAMED_MOST
        if more > 0:
            named.append(f"{more:,} {'or more ' if len(left_out) == _LEFT_OUT_MOST else ''}others")
        told.append(f"Left out: {listed(named)}")
    return told


def _left_out(at: datetime, reason: str, zone: ZoneInfo) -> str:
    shown = at.astimezone(zone)
    return f"{day_text(shown.date())} {time_text(shown)} {reason}"
