"""Forecast the load of a project: its schedules, its pending actions, and the capacity of its ticks."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.config import Settings
from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.database import clock
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.database.statements import Statements
from scheduled_actions.operations.simulation.rules import Capacity, Load, OccurrenceRule, Remark, Simulation, simulate
from scheduled_actions.schedules import store as schedule_store
from scheduled_actions.schedules.model import Schedule
from scheduled_actions.schedules.rule_lookup import ScheduleRules, sparsest_first

sql = Statements(__file__)

#: The longest range.
LONGEST = timedelta(days=92)
_PAGE = 500
#: Maximum number of schedules that are simulated.
_SCHEDULES_MOST = 2_000
#: Maximum number of pending actions that are counted.
_WAITING_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Simulator:
    """Forecasts the load of one project."""

    database: Database
    rules: ScheduleRules
    settings: Settings

    def simulate(
        self, start: datetime | None, end: datetime, *, team_id: str | None = None, concurrency: int | None = None
    ) -> Simulation:
        """Forecast the actions that run after `start` and up to `end` if the schedules do not change.

        Pending actions that became due before the minute of `start` are not included.

        Args:
            start: Aware; None: now, by the database's clock.
            end: Aware, after `start`, at most 92 days later.
            team_id: Only schedules and actions of this team; None: of all teams.
            concurrency: Concurrent handlers in all pinged processes together, 1 to 10,000; None: the setting of one
                process.

        Raises:
            InvalidArgument: The range is empty or too long, an instant is naive, or `concurrency` is out of bounds.
        """
        concurrency = arguments.check_integer("concurrency", concurrency, least=1, most=10_000)
        with self.database.connection() as connection:
            start = arguments.check_instant("start", start) or clock.now(connection)
            arguments.check_instant("end", end)
            if not timedelta(0) < end - start <= LONGEST:
                raise InvalidArgument(
                    "end",
                    end,
                    problem=f"must be after the start of the range ({start.isoformat()}) and at most {LONGEST.days} "
                    f"days later, not {end.isoformat()}",
                )
            schedules = _active_schedules(connection, team_id)
            loads = [
                Load(*row)
                for row in sql.run(connection, "waiting_by_minute", until=end, team_id=team_id, limit=_WAITING_MOST)
            ]
            seconds = {name: float(value) for name, value in sql.run(connection, "typical_seconds")}
        budget = EvaluationBudget("the simulation")
        broken: list[Remark] = []
        result = simulate(
            self._series(schedules[:_SCHEDULES_MOST], start, budget, broken),
            loads,
            start=start,
            end=end,
            seconds=seconds,
            capacity=Capacity(
                concurrency or self.settings.concurrency,
                # One ping a minute starts handlers for this time.
                run_seconds=max(self.settings.max_run_seconds, self.settings.linger_seconds),
            ),
            budget=budget,
        )
        result.remarks[:0] = broken
        result.is_capped |= (
            len(schedules) > _SCHEDULES_MOST or budget.is_spent or sum(load.actions for load in loads) >= _WAITING_MOST
        )
        return result

    def _series(
        self, schedules: list[Schedule], start: datetime, budget: EvaluationBudget, broken: list[Remark]
    ) -> Iterator[tuple[Schedule, OccurrenceRule]]:
        """Yield each schedule with its rule, within a share of the budget; add a remark for each invalid rule."""
        for number, schedule in enumerate(sparsest_first(schedules)):
            try:
                rule = self.rules.rule_of(schedule, budget=budget.part(of=len(schedules) - number))
            except ScheduledActionsError as error:
                broken.append(Remark(start, schedule.name or schedule.action_type, f"cannot be evaluated: {error}"))
            else:
                yield schedule, rule


def _active_schedules(connection: Connection, team_id: str | None) -> list[Schedule]:
    """Return the active schedules, at most one more than `_SCHEDULES_MOST`."""
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
