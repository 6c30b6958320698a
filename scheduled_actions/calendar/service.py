"""The calendar: what is to come, of actions, deadlines and schedules, in one order and page by page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from scheduled_actions.calendar import store
from scheduled_actions.calendar.rules import entries as calendar_entries
from scheduled_actions.calendar.rules.entries import LONGEST, Entry, Place
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import BudgetExceeded, InvalidArgument
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.database.clock import now
from scheduled_actions.schedules import forecast

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from scheduled_actions.database.connection import Database
    from scheduled_actions.schedules.model import Schedule
    from scheduled_actions.schedules.rule_lookup import ScheduleRules

#: How far a calendar looks that does not say.
USUAL = timedelta(days=31)
PAGE_MOST = 100
#: Schedules that one calendar looks ahead of, and occurrences of each.
SCHEDULES_MOST = 500
FORECAST_MOST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some of the entries between two instants, in order."""

    entries: list[Entry]
    #: What the next page is asked with; None: this is the last one.
    next_cursor: str | None
    #: The instants that it is about: from the first on, before the second.
    start: datetime
    end: datetime
    #: Schedules whose forecast ends on this page although more occurrences come before `end`.
    cut_short: list[UUID]
    #: Whether there are more schedules than are looked at.
    has_more_schedules: bool


class Calendar:
    """What is to come in one project.

    Args:
        database: Where the tables are.
        rules: Has the rules of schedules.
    """

    def __init__(self, database: Database, rules: ScheduleRules) -> None:
        self._database = database
        self._rules = rules

    def page(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        user: str | None = None,
        team_id: str | None = None,
        cursor: str | None = None,
        limit: int = PAGE_MOST,
    ) -> Page:
        """Return the first entries from `start` on and before `end`, or those after a cursor.

        Actions that wait, due instants of unresolved deadlines, and what fixed schedules will bring beyond the
        occurrence that each has planned, at most `FORECAST_MOST` of each.

        Args:
            start: Aware; None: now.
            end: Aware, at most a year after `start`; None: 31 days after it.
            user: Actions and schedules with this `user_id`, and deadlines that name it as a recipient, as itself or as
                the `id` of a person; None: everybody's.
            team_id: Of this team only; None: of all.
            cursor: The `next_cursor` of the page before, asked with the same `start` and `end`.
            limit: 1 to 100.

        Raises:
            InvalidArgument: An argument cannot be what it is.
            DatabaseUnavailable: The database cannot be reached.
        """
        arguments.check_limit(limit, most=PAGE_MOST)
        filters = {"user": arguments.check_text("user", user), "team_id": arguments.check_text("team_id", team_id)}
        arguments.check_aware("from", start)
        arguments.check_aware("to", end)
        with self._database.connection() as connection:
            present = now(connection)
            start, end = _span(start or present, end)
            after = max(calendar_entries.begin(start), Place.parse(cursor) if cursor else calendar_entries.begin(start))
            rows = limit + 1
            due = store.deadlines(connection, after, end, limit=rows, **filters)
            waiting = store.actions(connection, after, end, limit=rows, **filters)
            schedules = store.schedules(connection, end, limit=SCHEDULES_MOST + 1, **filters)
        cut_short: list[UUID] = []
        budget = EvaluationBudget("the calendar")
        looked_at = schedules[:SCHEDULES_MOST]
        # Each is asked for one occurrence after the other, and only as far as this page goes.
        ahead = [
            self._foreseen(schedule, start, end, after, budget.part(of=len(looked_at)), cut_short=cut_short)
            for schedule in looked_at
        ]
        entries, goes_on = calendar_entries.merged([due, waiting, *ahead], limit=limit)
        return Page(
            entries=entries,
            next_cursor=str(entries[-1].place) if goes_on else None,
            start=start,
            end=end,
            cut_short=cut_short,
            has_more_schedules=len(schedules) > SCHEDULES_MOST,
        )

    def entries(
        self,
        *,
        start: datetime,
        end: datetime,
        user: str | None = None,
        team_id: str | None = None,
        most: int = 10_000,
    ) -> Iterator[Entry]:
        """Yield the entries of all pages, at most so many; arguments and errors as for `page`."""
        cursor, count = None, 0
        while count < most:
            page = self.page(start=start, end=end, user=user, team_id=team_id, cursor=cursor)
            yield from page.entries[: most - count]
            count += len(page.entries)
            cursor = page.next_cursor
            if cursor is None:
                return

    def _foreseen(
        self,
        schedule: Schedule,
        start: datetime,
        end: datetime,
        after: Place,
        budget: EvaluationBudget,
        *,
        cut_short: list[UUID],
    ) -> Iterator[Entry]:
        """Yield what a schedule will bring between two instants and after a place; note it where there is yet more."""
        instants = forecast.instants(self._rules, schedule, start, end, most=FORECAST_MOST, budget=budget)
        try:
            for number, at in enumerate(instants, start=1):
                if number > FORECAST_MOST:
                    cut_short.append(schedule.id)
                    return
                entry = _foreseen(schedule, at)
                if entry.place > after:
                    yield entry
        except BudgetExceeded:
            cut_short.append(schedule.id)


def _span(start: datetime, end: datetime | None) -> tuple[datetime, datetime]:
    try:
        start, end = start.astimezone(UTC), (end or start + USUAL).astimezone(UTC)
    except OverflowError:
        raise InvalidArgument("from", start, "an instant between the years 1 and 9999 in UTC") from None
    if not timedelta(0) < end - start <= LONGEST:
        raise InvalidArgument("to", end, f"after from ({start.isoformat()}), and at most {LONGEST.days} days after it")
    return start, end


def _foreseen(schedule: Schedule, at: datetime) -> Entry:
    return Entry(
        kind="forecast",
        at=at,
        id=schedule.id,
        title=schedule.name or schedule.action_type,
        action_type=schedule.action_type,
        status=None,
        team_id=schedule.team_id,
        user_id=schedule.user_id,
        target_type=schedule.target_type,
        target_id=schedule.target_id,
        action_id=None,
        deadline_id=None,
        schedule_id=schedule.id,
    )
