"""Why an action has not run: the one true reason, out of all that could be.

`REASONS` are asked in the order in which they would stop the action on its way: the first that applies is the answer.
To add one, give `Code` a name, write a function of `Facts` that answers an `Explanation` or None, put it in its place
in `REASONS`, and a line into `docs/reference/explain.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scheduled_actions.operations.explain.rules import claimed_or_ended, due, not_yet_due
from scheduled_actions.operations.explain.rules.facts import (
    Explanation,
    Facts,
    iso,
)

if TYPE_CHECKING:
    from collections.abc import Callable

#: Each answers None where it does not apply; the last one always does.
REASONS: tuple[Callable[[Facts], Explanation | None], ...] = (
    claimed_or_ended.completed,
    claimed_or_ended.failed,
    claimed_or_ended.cancelled,
    claimed_or_ended.skipped,
    claimed_or_ended.lease_expired,
    claimed_or_ended.running,
    claimed_or_ended.claimed,
    not_yet_due.waiting_for_retry,
    not_yet_due.delivery_put_off,
    not_yet_due.snoozed,
    not_yet_due.waiting_cycle,
    not_yet_due.condition_not_met,
    not_yet_due.not_due,
    due.unhandled,
    due.disabled,
    due.registry_unreadable,
    due.no_tick,
    due.row_locked,
    due.handler_is_back,
    due.group_lingering,
    due.group_held,
    due.group_blocked,
    due.group_turn,
    due.series_judged,
    due.no_handler,
    due.too_long,
    due.in_line,
    due.next_tick,
)


def explain(facts: Facts) -> Explanation:
    """Return the reason that holds the action where it is, or says how it ended; and who has locked its row."""
    answers = (reason(facts) for reason in REASONS)
    answer = next(answer for answer in answers if answer is not None)
    if facts.lock is None:
        return answer
    return replace(
        answer,
        sentence=f"{answer.sentence}; {due.lock_words(facts)}",
        details={**answer.details, "locked_by": facts.lock.process, "locked_since": iso(facts.lock.since)},
    )
