"""Compile and describe the rules of schedules, with the project's functions, and forecast their occurrences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from scheduled_actions.core.errors import BudgetExceeded, ScheduledActionsError
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.database.connection import Database
from scheduled_actions.registry import Registry
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import ANY_ANCHOR, PlanningState, Schedule, ScheduleRule, project_functions
from scheduled_actions.schedules.rules import series

if TYPE_CHECKING:
    from scheduled_actions.recurrence.compiling import Recurrence
    from scheduled_actions.recurrence.model import Kind
    from scheduled_actions.recurrence.skips.model import Skips

#: A schedule with this number of occurrences a day fills every hour of a calendar.
A_DAY_MOST = 24
_MOMENT = timedelta(microseconds=1)
#: Number of dates, ranges or windows of skips that together cost one step.
_ENTRIES_A_STEP = 2


@dataclass(frozen=True, slots=True)
class ScheduleRules:
    """Compiles and describes the rules of one project's schedules.

    Args:
        database: Holds the schedules.
        registry: Holds the functions that rules and skips may call.
    """

    database: Database
    registry: Registry

    def rule_of(
        self,
        schedule: ScheduleRule,
        *,
        anchor: datetime | None = None,
        since: datetime | None = None,
        budget: EvaluationBudget | None = None,
    ) -> Recurrence:
        """Compile a rule, and check that it has at least one occurrence.

        Args:
            schedule: A schedule, or only its rule.
            anchor: The start of intervals; None: that of the schedule.
            since: The first instant that may be an occurrence, if it is before the anchor; None: the anchor. An RRULE
                has no occurrence before its DTSTART or, without one, before the anchor.
            budget: The budget for parsing and evaluating the rule; None: a new one per evaluation.

        Raises:
            InvalidArgument: The stored time zone, start, end or skips are invalid.
            RecurrenceInvalid: The rule is malformed, never occurs, or calls a function that is not in this build.
            FunctionTimedOut: A project function did not return in time.
            BudgetExceeded: Finding the first occurrence of the rule, or with COUNT its last, exceeds the budget.
        """
        rule = self.stored_rule_of(schedule, anchor=anchor, since=since, budget=budget)
        rule.check_occurs()
        return rule

    def stored_rule_of(
        self,
        schedule: ScheduleRule,
        *,
        anchor: datetime | None = None,
        since: datetime | None = None,
        budget: EvaluationBudget | None = None,
    ) -> Recurrence:
        """Compile a rule that was checked when it was stored; it may have no occurrence.

        Arguments are those of `rule_of`.

        Raises:
            InvalidArgument: The stored time zone, start, end or skips are invalid.
            RecurrenceInvalid: The rule is malformed, or calls a function that is not in this build.
            BudgetExceeded: Finding the last occurrence of a rule with COUNT exceeds the budget.
        """
        if anchor is None:
            # Schedules with the same rule share the compiled rule, whatever their starts.
            is_anchored = not isinstance(schedule, PlanningState) or schedule.kind != "cron"
            anchor = schedule.anchor_at if is_anchored else ANY_ANCHOR
        return _compiler()(
            schedule.recurrence,
            timezone=schedule.timezone,
            anchor=anchor,
            since=since,
            skips=_skips(schedule.skip, budget),
            until=schedule.until,
            functions=self.registry.functions,
            budget=budget,
        )

    def kind(self, rule: ScheduleRule) -> Kind:
        """Return the kind of a rule that is to be stored, without calling project functions.

        Raises:
            RecurrenceInvalid: The rule is malformed or, if it calls no project functions, never occurs.
            BudgetExceeded: The rule takes more than half of the steps that a later evaluation may take.
        """
        budget = EvaluationBudget("the recurrence", steps=STEPS // 2)
        return (self._outline if project_functions(rule) else self.rule_of)(rule, budget=budget).kind

    def describe(self, rule: ScheduleRule, budget: EvaluationBudget) -> str:
        """Return a rule in words, without calling project functions.

        Raises:
            InvalidArgument: The stored time zone, start, end or skips are invalid.
            RecurrenceInvalid: The rule cannot be evaluated, for example because a function was removed.
            BudgetExceeded: Finding the last occurrence of a rule with COUNT exceeds the budget.
        """
        return self._outline(rule, budget=budget).description

    def _outline(self, rule: ScheduleRule, *, budget: EvaluationBudget) -> Recurrence:
        from scheduled_actions.recurrence.compiling import outline  # noqa: PLC0415 - a cold tick does without

        return outline(
            rule.recurrence,
            timezone=rule.timezone,
            anchor=rule.anchor_at,
            skips=_skips(rule.skip, budget),
            until=rule.until,
            functions=self.registry.functions,
            budget=budget,
        )

    def describe_all(self, schedules: Collection[ScheduleRule]) -> list[str]:
        """Return the rules of schedules in words, within one budget.

        A rule that cannot be evaluated is returned as stored, with the error if it exceeded its share of the budget.
        """
        budget, words = EvaluationBudget("the rule"), []
        for number, schedule in enumerate(schedules):
            try:
                words.append(self.describe(schedule, budget.part(of=len(schedules) - number)))
            except BudgetExceeded as error:
                words.append(f"{schedule.recurrence} (not computed: {error})")
            except ScheduledActionsError:
                words.append(schedule.recurrence)
        return words

    def next_of(self, schedule_id: UUID, after: datetime) -> datetime | None:
        """Return the first instant of a schedule's rule after `after`; None if there is none, or no such schedule.

        Raises:
            InvalidArgument: The stored time zone, start, end or skips are invalid.
            RecurrenceInvalid: The rule cannot be evaluated.
            FunctionTimedOut: A project function did not return in time.
            BudgetExceeded: Finding the instant takes too many steps.
        """
        with self.database.connection() as connection:
            found = store.get(connection, schedule_id=schedule_id)
        return None if found is None else series.instant(self.rule_of(found.schedule).next_after(after))

    def upcoming(self, schedule: Schedule, *, count: int, budget: EvaluationBudget | None = None) -> Iterator[datetime]:
        """Yield at most `count` upcoming instants of a schedule: the planned one, then those of its rule.

        A rolling schedule has only the planned one. Without a planned one, there are none.

        Args:
            schedule: The schedule.
            count: Maximum number of instants, at least 1.
            budget: The budget of the whole evaluation; None: a new one.

        Raises:
            InvalidArgument: A stored value of the rule is invalid; raised after the planned instant.
            RecurrenceInvalid: The rule cannot be evaluated; raised after the last instant found.
            FunctionTimedOut: A project function did not return in time; raised after the last instant found.
            BudgetExceeded: The budget is used up; raised after the last instant found, and there may be more.
        """
        at = schedule.next_occurrence_at
        if at is None:
            return
        yield at
        left = count if schedule.remaining is None else min(count, schedule.remaining)
        if schedule.recurrence_type == "rolling" or left <= 1:
            return
        rule = self.rule_of(schedule, budget=budget or EvaluationBudget("the recurrence"))
        for _ in range(left - 1):
            found = rule.next_after(at)
            if found is None:
                return
            at = found.at
            yield at


@cache
def _compiler() -> Callable[..., Recurrence]:
    from scheduled_actions.recurrence.compiling import compile_stored  # noqa: PLC0415 - a cold tick does without

    return compile_stored


def _skips(skip: Mapping[str, Any] | None, budget: EvaluationBudget | None) -> Skips | None:
    """Return the skips of a schedule, and spend the steps that their lists cost.

    Raises:
        BudgetExceeded: The budget has too few steps left.
    """
    if skip is None:
        return None
    if budget is not None:
        budget.spend(sum(len(part) for part in skip.values() if isinstance(part, list)) // _ENTRIES_A_STEP)
    from scheduled_actions.recurrence.skips.model import Skips  # noqa: PLC0415 - a cold tick does without

    return Skips.parse(skip)


def apply_jitter(schedule: PlanningState, at: datetime) -> datetime:
    """Return the instant at which an occurrence is due: its own instant plus its delay within the jitter."""
    if not schedule.jitter_seconds:
        return at
    from scheduled_actions.recurrence.compiling import add_jitter  # noqa: PLC0415 - a cold tick does without

    return add_jitter(at, key=str(schedule.id), seconds=schedule.jitter_seconds)


def instants(
    rules: ScheduleRules,
    schedule: Schedule,
    start: datetime,
    end: datetime,
    *,
    most: int,
    budget: EvaluationBudget,
) -> Iterator[datetime]:
    """Yield the instants of a schedule in a range, in order.

    At most `most + 1` instants are yielded; the additional one shows that the range contains more than `most`. Only
    instants after the planned occurrence are included. If the rule cannot be evaluated, the iteration ends.

    Args:
        rules: The rules of the project.
        schedule: The schedule.
        start: Aware; included.
        end: Aware; not included.
        most: Maximum number of instants that the caller uses.
        budget: The budget for this schedule.

    Raises:
        BudgetExceeded: The budget is used up; raised after the last instant found, and there may be more.
    """
    found = _undelayed(rules, schedule, start, end, most=most, budget=budget)
    if not schedule.jitter_seconds:
        yield from found
        return
    reached: list[datetime] = []
    try:
        reached.extend(apply_jitter(schedule, at) for at in found)
    finally:
        # Jitter may change the order.
        yield from sorted(at for at in reached if at < end)


def _undelayed(
    rules: ScheduleRules,
    schedule: Schedule,
    start: datetime,
    end: datetime,
    *,
    most: int,
    budget: EvaluationBudget,
) -> Iterator[datetime]:
    """Yield the instants of the rule, without jitter.

    Raises:
        BudgetExceeded: The budget is used up.
    """
    moment = schedule.next_occurrence_at
    if moment is None:
        return
    # Without a limit on executions, those before the range need not be counted.
    left = None if schedule.remaining is None else schedule.remaining - 1
    if left is None:
        moment = max(moment, start - _MOMENT)
    try:
        rule = rules.rule_of(schedule, budget=budget)
        while most >= 0 and (left is None or left > 0):
            found = rule.next_after(moment)
            if found is None or found.at >= end:
                return
            moment = found.at
            left = None if left is None else left - 1
            if moment >= start:
                most -= 1
                yield moment
    except BudgetExceeded:
        raise
    except ScheduledActionsError:
        # The rule cannot be evaluated, for example because a function was removed; `schedules show` displays the error.
        return


def sparsest_first(schedules: Iterable[Schedule]) -> list[Schedule]:
    """Return schedules with the longest intervals first: they need few steps and leave the budget to the others."""
    return sorted(schedules, key=_gap, reverse=True)


def _gap(schedule: Schedule) -> timedelta:
    planned = schedule.next_occurrence_at
    return timedelta(0) if planned is None else planned - (schedule.last_occurrence_at or schedule.created_at)


def is_frequent(rules: ScheduleRules, schedule: Schedule, budget: EvaluationBudget) -> bool:
    """Whether a schedule has `A_DAY_MOST` or more instants in the 24 hours after the planned one; False if unknown."""
    planned = schedule.next_occurrence_at
    try:
        return planned is not None and fills_a_day(rules.rule_of(schedule, budget=budget), planned)
    except ScheduledActionsError:
        return False


def fills_a_day(rule: Recurrence, start: datetime) -> bool:
    """Whether a rule has at least `A_DAY_MOST` instants in the 24 hours after `start`.

    Raises:
        BudgetExceeded: Finding the instants exceeds the budget of the rule.
        ScheduledActionsError: As for `Recurrence.next_after`.
    """
    return len(rule.between(start, start + timedelta(days=1), limit=A_DAY_MOST)) == A_DAY_MOST
