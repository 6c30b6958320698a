"""List pending actions, unresolved deadlines and forecast occurrences by page; list these and ended actions by day."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import groupby, pairwise
from uuid import UUID

from scheduled_actions.calendar import store
from scheduled_actions.calendar.rules.entries import LONGEST, DayItem, Entry, Place, begin, merge
from scheduled_actions.core import checks
from scheduled_actions.core.errors import BudgetExceeded, InvalidArgument
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.database.clock import now
from scheduled_actions.database.connection import Database
from scheduled_actions.schedules import rule_lookup
from scheduled_actions.schedules.model import Schedule

#: The default length of a calendar's range.
USUAL = timedelta(days=31)
PAGE_MOST = 100
#: Maximum number of schedules that one calendar forecasts, and of occurrences per schedule in its pages.
SCHEDULES_MOST = 500
FORECAST_MOST = 100
#: Default for the maximum number of rows counted per day and status.
DAY_MOST = 50
#: Maximum number of rows read per day and status for one user, and per status for one team.
USER_MOST = 1000
TEAM_MOST = 5000
#: Maximum number of deadlines, and of forecast occurrences of all schedules together, in a range of days.
DEADLINES_MOST = 500
FORECAST_TOTAL_MOST = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPage:
    """A page of the calendar, in chronological order."""

    entries: list[Entry]
    #: The cursor of the next page; None on the last one.
    next_cursor: str | None
    #: The range of the calendar; `end` is exclusive.
    start: datetime
    end: datetime
    #: Schedules whose forecast ends before the page does: they have more than `FORECAST_MOST` occurrences in the range,
    #: or used up the budget.
    truncated_schedules: list[UUID]
    #: Whether more schedules match than are forecast.
    has_more_schedules: bool


@dataclass(frozen=True, slots=True)
class Day:
    """One day of the calendar, with its entries."""

    #: The beginning of the day; aware.
    starts_at: datetime
    #: The end of the day; aware, exclusive.
    ends_at: datetime
    #: The entries, in chronological order.
    items: list[DayItem] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRange:
    """Successive days of the calendar, and whether entries were left out."""

    days: list[Day]
    #: Schedules that are not forecast because they occur at least 24 times a day.
    frequent: list[Schedule]
    #: Whether schedules or occurrences were left out because there are too many, or the budget was used up.
    is_forecast_truncated: bool
    #: Whether the team may have more actions than were read.
    is_team_truncated: bool


@dataclass(frozen=True, slots=True)
class CalendarService:
    """The calendar of one project.

    Args:
        database: The project's database.
        rules: Computes the occurrences of schedules.
    """

    database: Database
    rules: rule_lookup.ScheduleRules

    def page(
        self,
        *,
        start: datetime | date | str | None = None,
        end: datetime | date | str | None = None,
        user_id: str | None = None,
        team_id: str | None = None,
        cursor: str | None = None,
        limit: int = PAGE_MOST,
    ) -> EntryPage:
        """Return the first entries at or after `start` and before `end`, or the next ones after a cursor.

        Entries are pending actions (except those that mark a deadline missed or create the next deadline), due instants
        of unresolved deadlines, and occurrences of active fixed schedules after the planned one. Each schedule has at
        most `FORECAST_MOST` of these occurrences.

        Args:
            start: An instant with an offset, or the start of a day in UTC; None: now.
            end: In the same forms, at most 366 days after `start`; None: 31 days after `start`.
            user_id: Only schedules with this `user_id`, deadlines with this recipient (as a string or as the `id` of a
                person), and actions with this `user_id` or of such a deadline.
            team_id: Only this team's entries.
            cursor: The `next_cursor` of the previous page, with the same `start` and `end`.
            limit: 1 to 100.

        Raises:
            InvalidArgument: An argument has an invalid value.
            DatabaseUnavailable: The database cannot be reached.
        """
        checks.check_limit(limit, most=PAGE_MOST)
        user_id, team_id = checks.check_text("user_id", user_id), checks.check_text("team_id", team_id)
        start, end = checks.check_instant("start", start), checks.check_instant("end", end)
        with self.database.connection() as connection:
            start, end = _range(start or now(connection).astimezone(UTC), end)
            after = max(begin(start), Place.parse(cursor)) if cursor else begin(start)
            due = store.deadlines(connection, after, end, user_id=user_id, team_id=team_id, limit=limit + 1)
            waiting = store.actions(connection, after, end, user_id=user_id, team_id=team_id, limit=limit + 1)
            schedules = store.schedules(connection, end, user_id=user_id, team_id=team_id, limit=SCHEDULES_MOST + 1)
        truncated: list[UUID] = []
        budget, forecast_ones = EvaluationBudget("the calendar"), schedules[:SCHEDULES_MOST]
        # Occurrences are computed one by one, and only for this page.
        forecasts = [
            self._forecast(schedule, start, end, after, budget.part(of=len(forecast_ones)), truncated=truncated)
            for schedule in forecast_ones
        ]
        entries, has_more = merge([due, waiting, *forecasts], limit=limit)
        return EntryPage(
            entries=entries,
            next_cursor=str(entries[-1].place) if has_more else None,
            start=start,
            end=end,
            truncated_schedules=truncated,
            has_more_schedules=len(schedules) > SCHEDULES_MOST,
        )

    def _forecast(
        self,
        schedule: Schedule,
        start: datetime,
        end: datetime,
        after: Place,
        budget: EvaluationBudget,
        *,
        truncated: list[UUID],
    ) -> Iterator[Entry]:
        """Yield a schedule's occurrences in a range after a place; add its id to `truncated` if some are left out."""
        instants = rule_lookup.instants(self.rules, schedule, start, end, most=FORECAST_MOST, budget=budget)
        try:
            for number, at in enumerate(instants, start=1):
                if number > FORECAST_MOST:
                    truncated.append(schedule.id)
                    return
                entry = Entry(
                    kind="forecast",
                    at=at,
                    id=schedule.id,
                    title=schedule.name or schedule.action_type,
                    action_type=schedule.action_type,
                    team_id=schedule.team_id,
                    user_id=schedule.user_id,
                    target_type=schedule.target_type,
                    target_id=schedule.target_id,
                    schedule_id=schedule.id,
                )
                if entry.place > after:
                    yield entry
        except BudgetExceeded:
            truncated.append(schedule.id)

    def days(
        self,
        bounds: Sequence[datetime],
        *,
        user_id: str | None = None,
        team_id: str | None = None,
        counted: int = DAY_MOST,
    ) -> DayRange:
        """Return the entries of each day: ended and pending actions, unresolved deadlines and forecast occurrences.

        At most the first `DEADLINES_MOST` deadlines are returned.

        Args:
            bounds: The beginning of each day, and the end of the last; ascending, aware.
            user_id: Only ended actions and schedules with this `user_id`, deadlines with this recipient, and pending
                actions with this `user_id` or of a deadline with this recipient.
            team_id: Only this team's entries.
            counted: Maximum number of rows counted per day and status, and for pending actions also per priority;
                ignored with `user_id` or `team_id`.

        Raises:
            InvalidArgument: An argument has an invalid value.
            DatabaseUnavailable: The database cannot be reached.
        """
        user_id, team_id = checks.check_text("user_id", user_id), checks.check_text("team_id", team_id)
        starts, ends, is_team_truncated = bounds[:-1], bounds[1:], False
        with self.database.connection() as connection:
            forecast_start = max(bounds[0], now(connection))
            if team_id is None:
                most = counted if user_id is None else USER_MOST
                items = store.days_of_all(connection, starts, ends, user_id=user_id, most=most)
            else:
                items, is_team_truncated = store.days_of_team(
                    connection, starts, ends, user_id=user_id, team_id=team_id, most=TEAM_MOST
                )
            due = store.deadlines(
                connection, begin(bounds[0]), bounds[-1], user_id=user_id, team_id=team_id, limit=DEADLINES_MOST
            )
            schedules = store.schedules(
                connection, bounds[-1], user_id=user_id, team_id=team_id, limit=SCHEDULES_MOST + 1
            )
        items += [
            DayItem(kind="deadline", status=one.status, title=one.title, at=one.at, deadline_id=one.deadline_id)
            for one in due
        ]
        budget = EvaluationBudget("the calendar")
        frequent = [
            one for one in schedules if rule_lookup.is_frequent(self.rules, one, budget.part(of=2 * len(schedules)))
        ]
        often = {one.id for one in frequent}
        rest = [one for one in schedules[:SCHEDULES_MOST] if one.id not in often]
        is_truncated = forecast_start < bounds[-1] and self._add_forecast(rest, bounds, forecast_start, items, budget)
        days = [Day(start, end) for start, end in pairwise(bounds)]
        for item in sorted(items, key=lambda item: (item.at, item.title)):
            days[bisect_right(bounds, item.at) - 1].items.append(item)
        return DayRange(
            days=days,
            frequent=frequent,
            is_forecast_truncated=is_truncated or len(schedules) > SCHEDULES_MOST,
            is_team_truncated=is_team_truncated,
        )

    def _add_forecast(
        self,
        schedules: Sequence[Schedule],
        bounds: Sequence[datetime],
        start: datetime,
        items: list[DayItem],
        budget: EvaluationBudget,
    ) -> bool:
        """Add an item for each schedule and day with occurrences from `start` on; return whether any were left out."""
        left, is_truncated = FORECAST_TOTAL_MOST, False
        for before, schedule in enumerate(rule_lookup.sparsest_first(schedules)):
            if not left:
                return True
            part = budget.part(of=len(schedules) - before)
            instants: list[datetime] = []
            try:
                instants.extend(rule_lookup.instants(self.rules, schedule, start, bounds[-1], most=left, budget=part))
            except BudgetExceeded:
                is_truncated = True
            for _, of_day in groupby(instants[:left], key=lambda at: bisect_right(bounds, at)):
                first, *others = of_day
                items.append(
                    DayItem(
                        kind="forecast",
                        title=schedule.name or schedule.action_type,
                        action_type=schedule.action_type,
                        count=1 + len(others),
                        at=first,
                        schedule_id=schedule.id,
                    )
                )
            if len(instants) > left:
                return True
            left -= len(instants)
        return is_truncated


def _range(start: datetime, end: datetime | None) -> tuple[datetime, datetime]:
    # By default, a range that would pass the end of the year 9999 ends there.
    end = end or start + min(USUAL, datetime.max.replace(tzinfo=UTC) - start)
    if not timedelta(0) < end - start <= LONGEST:
        raise InvalidArgument(
            "end",
            problem=f"must be after the start of the range ({start.isoformat()}) and at most {LONGEST.days} days "
            f"later, not {end.isoformat()}",
        )
    return start, end
