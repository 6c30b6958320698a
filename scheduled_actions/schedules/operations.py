"""What is done to schedules that are there: pause, resume, run, make up for, skip, remove."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.action import Scheduled, Status
from scheduled_actions.core.errors import InvalidArgument, NothingPlanned, ScheduleEnded, UnknownSchedule
from scheduled_actions.database.connection import whole
from scheduled_actions.database.transactions import borrowed_connection, is_own
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import project_functions
from scheduled_actions.schedules.rules import new_schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from uuid import UUID

    import psycopg

    from scheduled_actions.actions.validation import PayloadAccess
    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.registry import Registry
    from scheduled_actions.schedules.model import Schedule
    from scheduled_actions.schedules.series import Series

#: Occurrences that one backfill may create.
BACKFILL_LIMIT = 1000
_FIRST_YEAR, _LAST_YEAR = 2, 9998


class ScheduleOperations:
    """Schedules of one project, as those who operate them see them.

    Args:
        database: Where the tables are.
        registry: Has what the code declares.
        series: Plans, and goes on where an occurrence is skipped.
        prepare_extras: Makes a condition and follow-ups what the columns hold, having validated them.
        payloads: Validates types and payloads.
    """

    def __init__(
        self,
        database: Database,
        registry: Registry,
        series: Series,
        prepare_extras: Callable[..., dict[str, Any]],
        payloads: PayloadAccess,
    ) -> None:
        self._prepare_extras = prepare_extras
        self._payloads = payloads
        self._database = database
        self._registry = registry
        self._rules = series.planner.rules
        self._series = series

    def _borrowed(self, connection: psycopg.Connection[Any] | None) -> AbstractContextManager[Connection]:
        return borrowed_connection(self._database, connection)

    def pause(
        self,
        reference: UUID | str,
        *,
        note: str | None = None,
        by: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Schedule:
        """Plan no more until it is resumed: the waiting occurrence goes, one at work ends as it would. Return it.

        Raises:
            UnknownSchedule: There is none of that id or name (in that team).
            ScheduleEnded: There is nothing to pause.
        """
        with self._borrowed(connection) as borrowed, whole(borrowed):
            schedule = self._locked(borrowed, reference, team_id).schedule
            if schedule.status == "ended":
                raise ScheduleEnded(reference, schedule.status_note)
            store.drop_planned(borrowed, schedule.id)
            note, by = arguments.check_text("note", note), arguments.check_text("by", by)
            store.advance(borrowed, [store.Step(schedule_id=schedule.id, status="paused", note=note, status_by=by)])
            return self._read(borrowed, schedule.id).schedule

    def resume(
        self,
        reference: UUID | str,
        *,
        by: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Schedule:
        """Go on with the first occurrence after now; what a pause left out is not made up for. Return it.

        Raises:
            UnknownSchedule: There is none of that id or name (in that team).
            ScheduleEnded: It has ended, or its rule names no further occurrence.
        """
        with self._borrowed(connection) as borrowed, whole(borrowed):
            schedule, now = self._locked(borrowed, reference, team_id)
            if schedule.status == "ended":
                raise ScheduleEnded(reference, schedule.status_note)
            if schedule.status == "active":
                return schedule
            by = arguments.check_text("by", by)
            step = store.Step(schedule_id=schedule.id, status="active", status_by=by, failures=0)
            store.advance(borrowed, [step])
            # A rolling one whose run outlasted the pause goes on from the end of that run.
            if schedule.recurrence_type == "fixed" or not store.point_at_work(borrowed, schedule.id):
                self._series.planner.plan(borrowed, schedule, now, may_leave=True)
            resumed = self._read(borrowed, schedule.id).schedule
            if resumed.status == "ended":
                raise ScheduleEnded(reference, resumed.status_note)
        return self._with_what_was_left(resumed, connection)

    def run_now(
        self,
        reference: UUID | str,
        *,
        by: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Scheduled:
        """Run it once more, now, beside its occurrences: without an instant of the rule, nor counted by `remaining`.

        Raises:
            UnknownSchedule: There is none of that id or name (in that team).
        """
        with self._borrowed(connection) as borrowed, whole(borrowed):
            schedule = self._locked(borrowed, reference, team_id).schedule
            by = arguments.check_text("by", by)
            return Scheduled(store.insert_occurrences(borrowed, schedule.id, [None], by=by)[0], deduplicated=False)

    def backfill(
        self,
        reference: UUID | str,
        start: datetime,
        end: datetime,
        *,
        by: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> list[UUID]:
        """Create the occurrences from `start` up to `end`, both included, that were never created; return their ids.

        They are due now, and run one after the other unless overlaps are allowed.

        Raises:
            UnknownSchedule: There is none of that id or name (in that team).
            InvalidArgument: The range is empty, reaches beyond now, or holds more than a thousand occurrences.
        """
        since, to = _aware("start", start), _aware("end", end)
        # Read without a lock: the rule may call functions of the project.
        with self._borrowed(connection) as borrowed:
            schedule, now = self._found(borrowed, reference, team_id)
        if not since <= to:
            raise InvalidArgument("end", end, "at or after the start")
        if to > now:
            raise InvalidArgument("end", end, "in the past: what is still to come is planned by itself")
        rule = self._rules.rule_of(schedule, since=since)
        found = rule.between(since - timedelta(microseconds=1), to, limit=BACKFILL_LIMIT + 1)
        if len(found) > BACKFILL_LIMIT:
            raise InvalidArgument("end", end, f"near enough: at most {BACKFILL_LIMIT} occurrences at once")
        instants = [one.at for one in found]
        with self._borrowed(connection) as borrowed, whole(borrowed):
            self._locked(borrowed, schedule.id, team_id)
            return store.insert_occurrences(borrowed, schedule.id, instants, by=arguments.check_text("by", by))

    def skip_next(
        self,
        reference: UUID | str,
        *,
        next_action_id: UUID | str | None = None,
        reason: str | None = None,
        by: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Schedule:
        """Leave the planned occurrence out and plan the one after it; return the schedule.

        Args:
            reference: Id or name.
            next_action_id: The occurrence that was seen: no other one is left out; None: whichever is planned.
            reason: Why, for the history.
            by: Who asks.
            team_id: Only within this team.
            connection: Joins the caller's own transaction.

        Raises:
            UnknownSchedule: There is none of that id or name (in that team).
            UnknownAction: `next_action_id` is no id.
            NothingPlanned: It is paused, or its occurrence is at work or not the one that was seen.
        """
        with self._borrowed(connection) as borrowed, whole(borrowed):
            schedule = self._locked(borrowed, reference, team_id).schedule
            action_id = schedule.next_action_id
            if next_action_id is not None and arguments.check_id(next_action_id) != action_id:
                raise NothingPlanned(reference, schedule.status, wanted=next_action_id)
            note = arguments.check_text("reason", reason) or "skipped by hand"
            by = arguments.check_text("by", by)
            if action_id is None or not store.skip_planned(borrowed, action_id, reason=note, by=by):
                raise NothingPlanned(reference, schedule.status)
            self._series.conclude(borrowed, {action_id: schedule.id}, {action_id: Status.SKIPPED})
            skipped = self._read(borrowed, schedule.id).schedule
        return self._with_what_was_left(skipped, connection)

    def _with_what_was_left(self, schedule: Schedule, connection: psycopg.Connection[Any] | None) -> Schedule:
        """Return the schedule as it is once what its transaction left unplanned is planned.

        In a transaction that is not ours nothing can be planned yet: the sweep does it after the commit.
        """
        if not is_own(connection) or schedule.next_action_id is not None or not project_functions(schedule):
            return schedule
        self._series.finish_left()
        with self._borrowed(None) as borrowed:
            return self._read(borrowed, schedule.id).schedule

    def finish_left(self) -> None:
        """Plan what this thread's transactions on connections of ours have left unplanned."""
        if is_own(None):
            self._series.finish_left()

    def delete(
        self,
        reference: UUID | str,
        *,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Schedule:
        """Remove a schedule and its planned occurrence; what it ran stays. Return it as it was.

        Raises:
            UnknownSchedule: There is none of that id or name (in that team).
        """
        with self._borrowed(connection) as borrowed, whole(borrowed):
            schedule = self._locked(borrowed, reference, team_id).schedule
            store.drop_planned(borrowed, schedule.id)
            store.delete(borrowed, schedule.id)
            return schedule

    @contextmanager
    def locked(
        self, reference: UUID | str, *, team_id: str | None, connection: Connection | None = None
    ) -> Iterator[tuple[Schedule, Connection]]:
        """Give the schedule and a connection in whose transaction nobody else changes it, no claim either.

        Raises:
            UnknownSchedule: There is none of that id or name (in that team).
        """
        with borrowed_connection(self._database, connection) as lent, lent.transaction():
            yield self._locked(lent, reference, team_id).schedule, lent

    def _locked(self, connection: Connection, reference: UUID | str, team_id: str | None) -> store.Found:
        return self._found(connection, reference, team_id, locked=True)

    @staticmethod
    def _found(
        connection: Connection, reference: UUID | str, team_id: str | None, *, locked: bool = False
    ) -> store.Found:
        schedule_id, name = new_schedule.reference(reference)
        found = store.get(
            connection, schedule_id=schedule_id, name=name, name_team_id=team_id, team_id=team_id, locked=locked
        )
        if found is None:
            raise UnknownSchedule(reference)
        return found

    @staticmethod
    def _read(connection: Connection, schedule_id: UUID) -> store.Found:
        found = store.get(connection, schedule_id=schedule_id)
        if found is None:
            raise UnknownSchedule(schedule_id)
        return found


def _aware(name: str, moment: datetime) -> datetime:
    checked = arguments.check_aware(name, moment)
    if checked is None:
        raise InvalidArgument(name, moment, "an aware datetime")
    # A day or more is left at both ends for offsets and for the search to reach into.
    if not _FIRST_YEAR <= checked.year <= _LAST_YEAR:
        raise InvalidArgument(name, moment, f"an instant between the years {_FIRST_YEAR} and {_LAST_YEAR}")
    return checked.astimezone(UTC)
