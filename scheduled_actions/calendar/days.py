"""The calendar day by day: what ran, what waits, what is due, and what schedules will bring, counted within bounds."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from scheduled_actions.calendar import days_store as store
from scheduled_actions.calendar import store as entries
from scheduled_actions.calendar.rules import entries as calendar_entries
from scheduled_actions.calendar.service import SCHEDULES_MOST
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import BudgetExceeded
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.database.clock import now
from scheduled_actions.schedules import forecast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.database.connection import Database
    from scheduled_actions.schedules.model import Schedule
    from scheduled_actions.schedules.rule_lookup import ScheduleRules

LineKind: TypeAlias = Literal["deadline", "reminder", "escalation", "action", "ended", "forecast"]
#: Counted of each day in each status, where nothing else is said; of one user, looked through.
DAY_MOST = 50
USER_MOST = 1000
#: Looked through of one team, in each status.
TEAM_MOST = 5000
#: Deadlines shown, and occurrences foreseen of all schedules together.
DEADLINES_MOST = 500
FORESEEN_MOST = 4000
_KINDS: dict[str, LineKind] = {"reminder:send": "reminder", "escalation:send": "escalation"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What is alike in one day."""

    kind: LineKind
    #: Of the actions or the deadline; None for what is foreseen.
    status: str | None
    #: The deadline's or the schedule's name, or the action type.
    title: str
    action_type: str | None
    count: int
    #: Whether there may be more than were counted.
    is_cut: bool
    #: Of the first of them; aware, in UTC.
    at: datetime
    #: Of the action, where there is one alone; None for a deadline and for what is foreseen.
    action_id: UUID | None = None
    deadline_id: UUID | None = None
    schedule_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Day:
    """One day, from an instant on and before another."""

    starts_at: datetime
    ends_at: datetime
    #: In the order of their instants.
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """What several days hold."""

    days: list[Day]
    #: Schedules that occur too often to be shown each time.
    frequent: list[Schedule]
    #: Whether schedules were left out, because there are too many of them or of their occurrences.
    is_forecast_cut: bool
    #: Whether the team has more actions than were looked through.
    is_team_cut: bool


class CalendarDays:
    """The calendar of one project, day by day.

    Args:
        database: Where the tables are.
        rules: Has the rules of schedules.
    """

    def __init__(self, database: Database, rules: ScheduleRules) -> None:
        self._database = database
        self._rules = rules

    def look(
        self,
        bounds: Sequence[datetime],
        *,
        user: str | None = None,
        team_id: str | None = None,
        counted: int = DAY_MOST,
    ) -> Days:
        """Return what the days between `bounds` hold.

        Args:
            bounds: Where each day begins, and where the last one ends: ascending, aware.
            user: What has this `user_id`, and deadlines that name it as a recipient; None: everybody's.
            team_id: Of this team only; None: of all.
            counted: How far each status of each day is counted, where no user and no team narrow the view.

        Raises:
            InvalidArgument: An argument cannot be what it is.
            DatabaseUnavailable: The database cannot be reached.
        """
        filters = {"user": arguments.check_text("user", user), "team_id": arguments.check_text("team_id", team_id)}
        starts, ends = bounds[:-1], bounds[1:]
        found: dict[int, list[Line]] = defaultdict(list)
        is_team_cut, cut = False, set[tuple[int, str]]()
        with self._database.connection() as connection:
            present = now(connection)
            if team_id is None:
                most = counted if user is None else USER_MOST
                groups, cut = store.of_all(connection, starts, ends, user=user, most=most)
            else:
                groups, is_team_cut = store.of_team(
                    connection, starts, ends, user=user, team_id=team_id, most=TEAM_MOST
                )
            begin = calendar_entries.begin(bounds[0])
            due = entries.deadlines(connection, begin, bounds[-1], limit=DEADLINES_MOST, **filters)
            schedules = entries.schedules(connection, bounds[-1], limit=SCHEDULES_MOST + 1, **filters)
        for group in groups:
            found[group.day - 1].append(_line(group, is_cut=(group.day, group.status) in cut))
        for entry in due:
            found[bisect_right(bounds, entry.at) - 1].append(_deadline(entry))
        budget = EvaluationBudget("the calendar")
        frequent = [
            one for one in schedules if forecast.is_frequent(self._rules, one, budget.part(of=2 * len(schedules)))
        ]
        often = {one.id for one in frequent}
        rest = [one for one in schedules[:SCHEDULES_MOST] if one.id not in often]
        is_cut = self._foresee(rest, bounds, present, found, budget)
        return Days(
            days=[
                Day(start, end, sorted(found[number], key=lambda line: (line.at, line.title)))
                for number, (start, end) in enumerate(zip(starts, ends, strict=True))
            ],
            frequent=frequent,
            is_forecast_cut=is_cut or len(schedules) > SCHEDULES_MOST,
            is_team_cut=is_team_cut,
        )

    def _foresee(
        self,
        schedules: Sequence[Schedule],
        bounds: Sequence[datetime],
        present: datetime,
        found: dict[int, list[Line]],
        budget: EvaluationBudget,
    ) -> bool:
        """Add what schedules will bring; return whether some of it was left out."""
        left, start = FORESEEN_MOST, max(bounds[0], present)
        if start >= bounds[-1]:
            return False
        is_cut = False
        for before, schedule in enumerate(forecast.sparsest_first(schedules)):
            part = budget.part(of=len(schedules) - before)
            if not left:
                return True
            instants: list[datetime] = []
            try:
                instants.extend(forecast.instants(self._rules, schedule, start, bounds[-1], most=left, budget=part))
            except BudgetExceeded:
                is_cut = True
            for number, line in _foreseen(schedule, instants[:left], bounds):
                found[number].append(line)
            if len(instants) > left:
                return True
            left -= len(instants)
        return is_cut


def _line(group: store.Group, *, is_cut: bool) -> Line:
    kind: LineKind = "ended"
    if group.status == "pending":
        kind = _KINDS.get(group.action_type, "action") if group.deadline_id else "action"
    return Line(
        kind=kind,
        status=group.status,
        title=group.title,
        action_type=group.action_type,
        count=group.number,
        is_cut=is_cut,
        at=group.at,
        action_id=group.some_id,
        deadline_id=group.deadline_id,
        schedule_id=group.schedule_id,
    )


def _deadline(entry: calendar_entries.Entry) -> Line:
    return Line(
        kind="deadline",
        status=entry.status,
        title=entry.title,
        action_type=None,
        count=1,
        is_cut=False,
        at=entry.at,
        deadline_id=entry.id,
    )


def _foreseen(
    schedule: Schedule, instants: Sequence[datetime], bounds: Sequence[datetime]
) -> Iterator[tuple[int, Line]]:
    """Yield a line for each day in which a schedule occurs, and the day's number."""
    by_day: dict[int, list[datetime]] = defaultdict(list)
    for at in instants:
        by_day[bisect_right(bounds, at) - 1].append(at)
    for number, of_day in by_day.items():
        yield (
            number,
            Line(
                kind="forecast",
                status=None,
                title=schedule.name or schedule.action_type,
                action_type=schedule.action_type,
                count=len(of_day),
                is_cut=False,
                at=of_day[0],
                schedule_id=schedule.id,
            ),
        )
