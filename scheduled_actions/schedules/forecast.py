"""What a schedule will bring beyond the occurrence that it has planned, as things are now."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import BudgetExceeded, ScheduledActionsError
from scheduled_actions.schedules.rule_lookup import put_off

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.recurrence import Recurrence
    from scheduled_actions.schedules.model import Schedule
    from scheduled_actions.schedules.rule_lookup import ScheduleRules

#: A schedule that occurs so often in a day fills every hour of a calendar.
A_DAY_MOST = 24
_MOMENT = timedelta(microseconds=1)


def instants(
    rules: ScheduleRules,
    schedule: Schedule,
    start: datetime,
    end: datetime,
    *,
    most: int,
    budget: EvaluationBudget,
) -> Iterator[datetime]:
    """Yield the instants between two, in order: at most one more than `most`, which tells that there are more.

    Args:
        rules: Has the rules of schedules.
        schedule: Whose.
        start: Aware; from this instant on.
        end: Aware; before this one.
        most: So many are wanted.
        budget: Of this schedule: a part of that of all.

    Raises:
        BudgetExceeded: After the last instant that was reached: there may be more.
    """
    found = _planned_by_the_rule(rules, schedule, start, end, most=most, budget=budget)
    if not schedule.jitter_seconds:
        yield from found
        return
    # Put off, they may come in another order.
    reached: list[datetime] = []
    exceeded: BudgetExceeded | None = None
    try:
        reached.extend(put_off(schedule, at) for at in found)
    except BudgetExceeded as error:
        exceeded = error
    yield from sorted(at for at in reached if at < end)
    if exceeded is not None:
        raise exceeded


def _planned_by_the_rule(
    rules: ScheduleRules,
    schedule: Schedule,
    start: datetime,
    end: datetime,
    *,
    most: int,
    budget: EvaluationBudget,
) -> Iterator[datetime]:
    planned, last = schedule.next_occurrence_at, end - _MOMENT
    if planned is None:
        return
    try:
        rule = rules.rule_of(schedule, budget=budget)
        # Where its executions are counted, they are from the planned one on.
        left = None if schedule.remaining is None else schedule.remaining - 1
        moment = planned if left is not None else max(planned, start - _MOMENT)
        while most >= 0 and (left is None or left > 0):
            found = rule.next_after(moment)
            if found is None or found.at > last:
                return
            moment = found.at
            left = None if left is None else left - 1
            if moment >= start:
                most -= 1
                yield moment
    except BudgetExceeded:
        raise
    except ScheduledActionsError:
        # Its rule names a function that this build does not have, say: `schedules show` tells.
        return


def sparsest_first(schedules: Iterable[Schedule]) -> list[Schedule]:
    """Return schedules in an order in which those that need few steps leave the rest of a budget to the others."""
    return sorted(schedules, key=_gap, reverse=True)


def _gap(schedule: Schedule) -> timedelta:
    """Return about how long it is from one occurrence to the next."""
    if schedule.next_occurrence_at is None:
        return timedelta(0)
    return schedule.next_occurrence_at - (schedule.last_occurrence_at or schedule.created_at)


def is_frequent(rules: ScheduleRules, schedule: Schedule, budget: EvaluationBudget) -> bool:
    """Whether a schedule is known to occur too often in a day for a calendar to show each time."""
    planned = schedule.next_occurrence_at
    if planned is None:
        return False
    try:
        return fills_a_day(rules.rule_of(schedule, budget=budget), planned)
    except ScheduledActionsError:
        return False


def fills_a_day(rule: Recurrence, start: datetime) -> bool:
    """Whether a rule names so many instants in the day after one that a calendar would show nothing else."""
    return len(rule.between(start, start + timedelta(days=1), limit=A_DAY_MOST)) == A_DAY_MOST
