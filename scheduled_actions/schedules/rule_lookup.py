"""The rules of schedules: compiled with the functions of the project, and described in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import BudgetExceeded, ScheduledActionsError
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.recurrence.model import ANCHORLESS
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import functions_named
from scheduled_actions.schedules.rules import series

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID

    from scheduled_actions.database.connection import Database
    from scheduled_actions.recurrence import Kind, Recurrence, Skips
    from scheduled_actions.recurrence.compiling import Outline
    from scheduled_actions.registry import Registry
    from scheduled_actions.schedules.model import Course, Schedule

#: How many dates, ranges or windows of skips are read in one step.
_ENTRIES_A_STEP = 2
#: Where the rules begin whose instants do not depend on it.
_ANY_ANCHOR = datetime(2000, 1, 1, tzinfo=UTC)


class ScheduleRules:
    """The rules of one project's schedules.

    Args:
        database: For what a handler asks about its series.
        registry: Has the functions that rules and skips may name.
    """

    def __init__(self, database: Database, registry: Registry) -> None:
        self._database = database
        self._registry = registry

    def rule_of(
        self,
        schedule: Course | Schedule,
        *,
        anchor: datetime | None = None,
        since: datetime | None = None,
        budget: EvaluationBudget | None = None,
    ) -> Recurrence:
        """Return the rule of a schedule.

        Args:
            schedule: Whose.
            anchor: Where intervals count from instead of its own anchor.
            since: Before the anchor: its occurrences begin here, with the phase that the anchor gives. What an RRULE
                means depends on its start: nothing is before its DTSTART or, without one, the anchor.
            budget: For reading the rule and for everything it is asked; None: a new one for each question.

        Raises:
            RecurrenceInvalid: It cannot be followed any more: a function is gone, say.
            BudgetExceeded: Its first occurrence, or with COUNT its last, takes more steps than are left.
        """
        if anchor is None:
            # Schedules with the same rule share what was made of it, whatever their starts.
            anchor = _ANY_ANCHOR if schedule.kind in ANCHORLESS else schedule.anchor_at
        return self.rule(
            schedule.recurrence,
            timezone=schedule.timezone,
            anchor=anchor,
            since=since,
            skip=schedule.skip,
            until=schedule.until,
            budget=budget,
        )

    def rule(
        self,
        text: str,
        *,
        timezone: str,
        anchor: datetime,
        skip: Mapping[str, Any] | None,
        until: datetime | None,
        since: datetime | None = None,
        budget: EvaluationBudget | None = None,
    ) -> Recurrence:
        """Return a rule with this project's functions; arguments as for `rule_of`.

        Raises:
            RecurrenceInvalid: It is malformed, or names nothing that occurs.
            BudgetExceeded: As for `rule_of`.
        """
        from scheduled_actions.recurrence import compile_recurrence  # noqa: PLC0415 - a cold tick does without

        return compile_recurrence(
            text,
            timezone=timezone,
            anchor=anchor,
            since=since,
            skips=_skips(skip, budget),
            until=until,
            functions=self._registry.functions,
            budget=budget,
        )

    def kind(
        self, text: str, *, timezone: str, anchor: datetime, skip: Mapping[str, Any] | None, until: datetime | None
    ) -> Kind:
        """Return the kind of a rule that is to be stored; no function of the project is called.

        Raises:
            RecurrenceInvalid: It is malformed, or, without functions of the project, names nothing that occurs.
            BudgetExceeded: It takes more than half of the steps that its evaluation may take later.
        """
        budget = EvaluationBudget("the recurrence", steps=STEPS // 2)
        look = self._outline if functions_named(text, skip) else self.rule
        return look(text, timezone=timezone, anchor=anchor, skip=skip, until=until, budget=budget).kind

    def in_words(self, schedule: Course | Schedule, budget: EvaluationBudget) -> str:
        """Return the rule of a schedule in words; no function of the project is called.

        Raises:
            RecurrenceInvalid: It cannot be followed any more: a function is gone, say.
            BudgetExceeded: Its last occurrence, with COUNT, takes more steps than are left.
        """
        return self._outline(
            schedule.recurrence,
            timezone=schedule.timezone,
            anchor=schedule.anchor_at,
            skip=schedule.skip,
            until=schedule.until,
            budget=budget,
        ).description

    def all_in_words(self, schedules: Collection[Course | Schedule]) -> list[str]:
        """Return the rules of a list of schedules in words, within one budget for all of them.

        One that cannot be followed any more is returned as it was typed; so is one that takes more steps than its part
        of the budget has, with the reason.
        """
        budget, words = EvaluationBudget("the rule"), []
        for number, schedule in enumerate(schedules):
            try:
                words.append(self.in_words(schedule, budget.part(of=len(schedules) - number)))
            except BudgetExceeded as error:
                words.append(f"{schedule.recurrence} (not computed: {error})")
            except ScheduledActionsError:
                words.append(schedule.recurrence)
        return words

    def _outline(
        self,
        text: str,
        *,
        timezone: str,
        anchor: datetime,
        skip: Mapping[str, Any] | None,
        until: datetime | None,
        budget: EvaluationBudget,
    ) -> Outline:
        from scheduled_actions.recurrence import outline  # noqa: PLC0415 - a cold tick does without

        return outline(
            text,
            timezone=timezone,
            anchor=anchor,
            skips=_skips(skip, budget),
            until=until,
            functions=self._registry.functions,
            budget=budget,
        )

    def next_of(self, schedule_id: UUID, after: datetime) -> datetime | None:
        """Return the rule's next instant after an occurrence, for a handler that asks; None when there is none."""
        with self._database.connection() as connection:
            found = store.get(connection, schedule_id=schedule_id)
        return None if found is None else series.instant(self.rule_of(found.schedule).next_after(after))


def _skips(skip: Mapping[str, Any] | None, budget: EvaluationBudget | None) -> Skips | None:
    """Return what a schedule skips, having spent what reading its lists takes."""
    if skip is None:
        return None
    if budget is not None:
        budget.spend(sum(len(part) for part in skip.values() if isinstance(part, list)) // _ENTRIES_A_STEP)
    from scheduled_actions.recurrence import Skips  # noqa: PLC0415 - a cold tick does without

    return Skips.parse(skip)


def put_off(schedule: Course | Schedule, at: datetime) -> datetime:
    """Return when an occurrence comes due: its instant and its own share of the jitter."""
    if not schedule.jitter_seconds:
        return at
    from scheduled_actions.recurrence import jittered  # noqa: PLC0415 - a cold tick does without

    return jittered(at, key=str(schedule.id), seconds=schedule.jitter_seconds)
