"""Which kind of rule a text is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import RecurrenceInvalid
from scheduled_actions.recurrence.custom import PREFIX, parse_custom
from scheduled_actions.recurrence.intervals.grammar import ADVERBS, AMBIGUOUS, parse_length
from scheduled_actions.recurrence.phrases import nearest

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.recurrence.custom import Functions
    from scheduled_actions.recurrence.model import Rule
    from scheduled_actions.recurrence.skips.model import Skips

#: The longest rule taken, in characters.
LONGEST = 2000
#: What reading a rule of any kind takes, and for how many characters another step.
READING_STEPS = 20
_CHARACTERS_A_STEP = 10

_POSSIBLE = (
    'a recurrence is an interval ("every 30 minutes", "daily", "PT10M"), a cron expression ("0 9 * * MON-FRI"), '
    'an RRULE ("FREQ=MONTHLY;BYMONTHDAY=-1"), a business day ("last business day of the month") '
    f'or a function ("{PREFIX}NAME")'
)
_RRULE = re.compile(r"(?:rrule|exrule|rdate|exdate|dtstart|dtend|duration)[:;]|[a-z]+\s?=|.*[;:\s]freq\s?=")
_BUSINESS_DAY = re.compile(r"\b(?:business|working) days?\b")
_ISO = re.compile(r"[-+]?p[-+t0-9]")
_CRON_FIELD = re.compile(
    r"(?:[0-9*?/,\-#lwh]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun)+"
)
_CRON_FIELDS = 5


def parse_rule(
    text: str,
    *,
    zone: ZoneInfo,
    anchor: datetime,
    since: datetime,
    skips: Skips,
    functions: Functions,
    budget: EvaluationBudget,
) -> Rule:
    """Return the rule that `text`, without space around it, is in a zone.

    Args:
        text: A rule of any kind.
        zone: Whose wall clock it follows.
        anchor: Aware: where intervals count from, and the time of day where the text names none.
        since: Aware, at or before the anchor: nothing occurs before it.
        skips: Say which days are business days.
        functions: Those that `custom:` may name.
        budget: For reading the text, and for counting to the end of a rule with COUNT.

    Raises:
        BudgetExceeded: The end of a rule with COUNT is too far away.
        RecurrenceInvalid: It is of no kind, or a malformed one of its kind.
        NeverOccurs: It names nothing that could occur.
    """
    budget.spend(READING_STEPS + len(text) // _CHARACTERS_A_STEP)
    if len(text) > LONGEST:
        raise RecurrenceInvalid(text, f"is {len(text):,} characters long; at most {LONGEST:,} are read")
    words = " ".join(text.lower().split())
    # What a kind needs is loaded when a rule is of that kind.
    if words.startswith(PREFIX):
        return parse_custom(text, zone=zone, since=since, functions=functions)
    if _RRULE.match(words):
        from scheduled_actions.recurrence.rrule.rule import parse_rrule  # noqa: PLC0415 - as said

        return parse_rrule(text, zone=zone, anchor=anchor, budget=budget)
    if _BUSINESS_DAY.search(words):
        from scheduled_actions.recurrence.business import parse_business_day  # noqa: PLC0415 - as said

        return parse_business_day(text, zone=zone, anchor=anchor, since=since, calendar=skips)
    if _is_cron(words):
        from scheduled_actions.recurrence.cron.rule import parse_cron  # noqa: PLC0415 - as said

        return parse_cron(text, zone=zone, anchor=anchor)
    if words.split(" ")[0] in {"every", *ADVERBS, *AMBIGUOUS} or _ISO.match(words):
        from scheduled_actions.recurrence.intervals.rule import parse_interval  # noqa: PLC0415 - as said

        return parse_interval(text, zone=zone, anchor=anchor, since=since)
    meant = _meant(words)
    hint = "" if meant is None else f'did you mean "{meant}"? '
    raise RecurrenceInvalid(text, f"{hint}{_POSSIBLE}")


def _is_cron(words: str) -> bool:
    """Whether a text is meant as cron: a macro, or fields, even if there are too few or too many of them."""
    if words.startswith("@"):
        return True
    fields = words.split(" ")
    are_fields = [bool(_CRON_FIELD.fullmatch(field)) for field in fields]
    return are_fields[0] and (all(are_fields) or "*" in words or len(fields) == _CRON_FIELDS)


def _meant(words: str) -> str | None:
    """Return what a text that is no rule may have been meant as."""
    for guess in (f"every {words}", f"PT{words}".upper(), f"P{words}".upper()):
        try:
            parse_length(guess)
        except RecurrenceInvalid:
            continue
        return guess
    first, _, rest = words.partition(" ")
    near = nearest(first, ("every", *ADVERBS))
    return f"{near} {rest}".strip() if near else None
