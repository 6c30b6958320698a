"""What will run in a stretch of time: the schedules, what waits beside them, and what ticks can carry."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from scheduled_actions import arguments
from scheduled_actions.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.simulation import Capacity, Remark, Simulation, simulate
from scheduled_actions.store import schedules as schedule_store
from scheduled_actions.store import simulation as store

if TYPE_CHECKING:
    from uuid import UUID

    from scheduled_actions.config import Settings
    from scheduled_actions.occurrences import Occurrences
    from scheduled_actions.schedule import Schedule
    from scheduled_actions.simulation import Rule
    from scheduled_actions.store.connection import Connection, Database

#: The longest stretch.
LONGEST = timedelta(days=92)
_PAGE = 500
#: Schedules looked at.
_SCHEDULES_MOST = 10_000


class Simulator:
    """Looks ahead in one project.

    Args:
        database: Where the tables are.
        occurrences: Knows the rules of schedules.
        settings: What ticks may do.
    """

    def __init__(self, database: Database, occurrences: Occurrences, settings: Settings) -> None:
        self._database = database
        self._occurrences = occurrences
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
            start = schedule_store.now(connection) if start is None else _aware("start", start)
            end = _aware("end", end)
            if not timedelta(0) < end - start <= LONGEST:
                raise InvalidArgument(
                    "end", end, f"after the start ({start.isoformat()}), and at most {LONGEST.days} days after it"
                )
            found, broken, is_cut = self._series(connection, start, team_id)
            loads = store.waiting(connection, until=end, team_id=team_id)
            result = simulate(
                found,
                loads,
                start=start,
                end=end,
                seconds=store.typical_seconds(connection),
                capacity=Capacity(concurrency or self._settings.concurrency, self._run_seconds),
            )
        result.remarks[:0] = broken
        result.is_capped |= is_cut or sum(load.actions for load in loads) >= store.WAITING_MOST
        return result

    @property
    def _run_seconds(self) -> float:
        """Return for how much of a minute a ping a minute starts handlers."""
        return max(self._settings.max_run_seconds, self._settings.linger_seconds)

    def _series(
        self, connection: Connection, start: datetime, team_id: str | None
    ) -> tuple[list[tuple[Schedule, Rule]], list[Remark], bool]:
        """Return the active schedules with their rules, a remark for each without one, and whether there are more."""
        found: list[tuple[Schedule, Rule]] = []
        broken: list[Remark] = []
        before: UUID | None = None
        while len(found) < _SCHEDULES_MOST:
            page = schedule_store.find(
                connection, status="active", action_type=None, team_id=team_id, before=before, limit=_PAGE
            )
            for schedule in page:
                try:
                    found.append((schedule, self._occurrences.rule_of(schedule)))
                except ScheduledActionsError as error:
                    broken.append(Remark(start, schedule.name or schedule.action_type, f"cannot be followed: {error}"))
            if len(page) < _PAGE:
                return found, broken, False
            before = page[-1].id
        return found, broken, True


def _aware(name: str, moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise InvalidArgument(name, moment.isoformat(), "an instant with an offset")
    return moment
