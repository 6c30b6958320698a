"""What will run in a stretch of time: the schedules, what waits beside them, and what ticks can carry."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.database import clock
from scheduled_actions.operations.simulation import store
from scheduled_actions.operations.simulation.rules import Capacity, Remark, Simulation, simulate
from scheduled_actions.schedules import store as schedule_store
from scheduled_actions.schedules.forecast import sparsest_first

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from scheduled_actions.core.config import Settings
    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.operations.simulation.rules import Rule
    from scheduled_actions.schedules.model import Schedule
    from scheduled_actions.schedules.rule_lookup import ScheduleRules

#: The longest stretch.
LONGEST = timedelta(days=92)
_PAGE = 500
#: Schedules looked at.
_SCHEDULES_MOST = 2_000


class Simulator:
    """Looks ahead in one project.

    Args:
        database: Where the tables are.
        rules: Knows the rules of schedules.
        settings: What ticks may do.
    """

    def __init__(self, database: Database, rules: ScheduleRules, settings: Settings) -> None:
        self._database = database
        self._rules = rules
        self._settings = settings

    def simulate(
        self, start: datetime | None, end: datetime, *, team_id: str | None = None, concurrency: int | None = None
    ) -> Simulation:
        """Return what will run after `start` and up to `end`, if the schedules stay as they are.

        Args:
            start: Aware; None: now, by the database's clock.
            end: Aware, after it, at most `LONGEST`.
            team_id: What belongs to this team; None: everything.
            concurrency: Handlers at once in all processes that are pinged; None: what one process has.

        Raises:
            InvalidArgument: The stretch is empty or too long, an instant has no offset, or `concurrency` is below 1.
        """
        concurrency = arguments.check_integer("concurrency", concurrency, least=1, most=10_000)
        with self._database.connection() as connection:
            start = clock.now(connection) if start is None else _aware("start", start)
            end = _aware("end", end)
            if not timedelta(0) < end - start <= LONGEST:
                raise InvalidArgument(
                    "end", end, f"after the start ({start.isoformat()}), and at most {LONGEST.days} days after it"
                )
            schedules = self._schedules(connection, team_id)
            loads = store.waiting(connection, until=end, team_id=team_id)
            seconds = store.typical_seconds(connection)
        budget = EvaluationBudget("the simulation")
        broken: list[Remark] = []
        result = simulate(
            self._series(schedules[:_SCHEDULES_MOST], start, budget, broken),
            loads,
            start=start,
            end=end,
            seconds=seconds,
            capacity=Capacity(concurrency or self._settings.concurrency, self._run_seconds),
            budget=budget,
        )
        result.remarks[:0] = broken
        result.is_capped |= (
            len(schedules) > _SCHEDULES_MOST
            or budget.is_spent
            or sum(load.actions for load in loads) >= store.WAITING_MOST
        )
        return result

    @property
    def _run_seconds(self) -> float:
        """Return for how much of a minute a ping a minute starts handlers."""
        return max(self._settings.max_run_seconds, self._settings.linger_seconds)

    def _schedules(self, connection: Connection, team_id: str | None) -> list[Schedule]:
        """Return the active schedules, at most one more than are looked at."""
        found: list[Schedule] = []
        before: UUID | None = None
        while len(found) <= _SCHEDULES_MOST:
            page = schedule_store.find(
                connection, status="active", action_type=None, team_id=team_id, before=before, limit=_PAGE
            )
            found += page
            if len(page) < _PAGE:
                break
            before = page[-1].id
        return found[: _SCHEDULES_MOST + 1]

    def _series(
        self, schedules: list[Schedule], start: datetime, budget: EvaluationBudget, broken: list[Remark]
    ) -> Iterator[tuple[Schedule, Rule]]:
        """Yield each schedule with its rule, which has its part of the budget; add a remark for each without a rule."""
        for number, schedule in enumerate(sparsest_first(schedules)):
            share = budget.part(of=len(schedules) - number)
            try:
                rule = self._rules.rule_of(schedule, budget=share)
            except ScheduledActionsError as error:
                broken.append(Remark(start, schedule.name or schedule.action_type, f"cannot be followed: {error}"))
            else:
                yield schedule, rule


def _aware(name: str, moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise InvalidArgument(name, moment.isoformat(), "an instant with an offset")
    return moment
