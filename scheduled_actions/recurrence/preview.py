"""Preview the next occurrences of a rule, with the skips and clock changes that affect them."""

from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import BudgetExceeded, InvalidArgument, NeverOccurs
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.core.messages import counted
from scheduled_actions.recurrence.compiling import Recurrence, compile_recurrence
from scheduled_actions.recurrence.custom import NO_FUNCTIONS, Functions
from scheduled_actions.recurrence.model import Occurrence, anchor_after
from scheduled_actions.recurrence.phrases import applying, day_text, join, time_text
from scheduled_actions.recurrence.skips.model import Skips

#: Maximum number of occurrences in a preview.
COUNT_MOST = 1000
#: Maximum number of skipped occurrences that are listed, and that are searched for.
_NAMED_MOST = 3
_SKIPPED_MOST = 1000


def preview(
    text: str,
    *,
    timezone: str | None = None,
    start: datetime | date | str,
    count: int = 10,
    skips: Skips | None = None,
    until: datetime | date | str | None = None,
    functions: Functions = NO_FUNCTIONS,
) -> dict[str, Any]:
    """Return the first `count` occurrences after `start`, as a JSON object.

    Args:
        text: The rule; see `compile_recurrence`.
        timezone: IANA name; None: UTC.
        start: The anchor, as in `compile_recurrence`; an occurrence at this instant is not returned. With an offset, a
            local time in `timezone`, or a day (its start).
        count: 1 to 1,000; fewer occurrences are returned if the rule ends or the evaluation budget is used up.
        skips: The skipped days and windows, and the adjustment; None: nothing is skipped.
        until: The last instant that may be an occurrence, in the same forms, but a day means its last second; None: no
            end.
        functions: The project functions that the rule and its skips can call.

    Returns:
        `rule`, `kind`, `description`; `occurrences`, each with `at` (local time with its offset), `utc`, and `remarks`
        if there are any; `warnings`; and `truncated` (true) if the evaluation budget was used up.

    Raises:
        InvalidArgument: An argument has an invalid value.
        RecurrenceInvalid: The text is not a rule, the rule has no occurrence between `start` and `until`, or a project
            function is missing or failed.
        NeverOccurs: The rule has no occurrence within thirty years.
        FunctionTimedOut: A project function did not return in time.
        BudgetExceeded: Finding the first occurrence, or the last of a rule with COUNT, takes too many steps.
    """
    arguments.check_integer("count", count, least=1, most=COUNT_MOST)
    zone = arguments.check_timezone(timezone or "UTC")
    anchor = arguments.check_instant("start", start, timezone=timezone)
    if anchor is None:
        raise InvalidArgument("start", problem="is required")
    compiled = partial(
        compile_recurrence,
        text,
        timezone=zone.key,
        skips=skips,
        until=arguments.check_end("until", until, timezone=timezone),
        functions=functions,
    )
    recurrence = compiled(anchor=anchor, budget=EvaluationBudget("the recurrence"))
    if (later := anchor_after(anchor, recurrence.kind)) != anchor:
        recurrence = compiled(anchor=later, budget=EvaluationBudget("the recurrence"))
    occurrences, has_more = _first(recurrence, anchor, count)
    is_truncated = has_more and len(occurrences) < count
    return {
        "rule": recurrence.text,
        "kind": recurrence.kind,
        "description": recurrence.description,
        "occurrences": [
            {"at": one.at.astimezone(zone).isoformat(), "utc": one.at.isoformat()}
            | ({"remarks": list(one.remarks)} if one.remarks else {})
            for one in occurrences
        ],
        "warnings": [
            *recurrence.warnings,
            *_warnings(recurrence, anchor, occurrences, has_more=has_more),
            *applying(
                (
                    is_truncated,
                    f"Only {counted(len(occurrences), 'occurrence')} could be evaluated within {STEPS:,} steps",
                )
            ),
        ],
        **({"truncated": True} if is_truncated else {}),
    }


def _first(recurrence: Recurrence, start: datetime, count: int) -> tuple[list[Occurrence], bool]:
    """Return the first `count` occurrences (fewer if the rule or the budget ends), and whether more may follow."""
    occurrences: list[Occurrence] = []
    while len(occurrences) < count:
        try:
            occurrence = recurrence.next_after(occurrences[-1].at if occurrences else start)
        except (BudgetExceeded, NeverOccurs) as error:
            if not occurrences:
                raise
            return occurrences, isinstance(error, BudgetExceeded)
        if occurrence is None:
            return occurrences, False
        occurrences.append(occurrence)
    return occurrences, True


def _warnings(recurrence: Recurrence, start: datetime, occurrences: list[Occurrence], *, has_more: bool) -> list[str]:
    if not occurrences:
        return ["The rule has no occurrence after the start: it has ended"]
    first = occurrences[0].at.astimezone(recurrence.zone)
    warnings = applying(
        (
            first - start > timedelta(days=366),
            f"The first occurrence is more than a year after the start, on {day_text(first.date())}",
        ),
        (not has_more, f"The rule ends after {counted(len(occurrences), 'occurrence')}"),
    )
    skipped: list[tuple[datetime, str]] = []
    with suppress(BudgetExceeded):
        skipped.extend(islice(recurrence.left_out(start, occurrences[-1].at), _SKIPPED_MOST))
    if skipped:
        local = [(at.astimezone(recurrence.zone), reason) for at, reason in skipped[:_NAMED_MOST]]
        named = [f"{day_text(shown.date())} {time_text(shown)} {reason}" for shown, reason in local]
        if len(skipped) > _NAMED_MOST:
            other = "or more other" if len(skipped) == _SKIPPED_MOST else "other"
            named.append(counted(len(skipped) - _NAMED_MOST, other))
        warnings.append(f"Left out: {join(named)}")
    return warnings
