"""Create, update and read schedules."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack, get_args
from uuid import UUID

import psycopg

from scheduled_actions.actions.validation import ActionValidator
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.pages import MAX_ROWS_READ
from scheduled_actions.core.requester import Requester
from scheduled_actions.core.wake import Wake
from scheduled_actions.database import clock
from scheduled_actions.database.connection import Database, atomic
from scheduled_actions.database.transactions import borrowed_connection, commits_itself
from scheduled_actions.registry import Registry, limit_keys
from scheduled_actions.schedules import changes as change, store
from scheduled_actions.schedules.model import (
    Schedule,
    ScheduleChanges,
    ScheduleOptions,
    ScheduleStatus,
    project_functions,
)
from scheduled_actions.schedules.rules import new_schedule, series
from scheduled_actions.schedules.series import ScheduleHook


@dataclass(frozen=True, slots=True)
class Schedules:
    """Creates, updates and reads the schedules of one project.

    Args:
        database: Holds the schedules.
        registry: Holds the declarations in code.
        hook: Plans occurrences.
        validator: Validates types, payloads, conditions and follow-ups.
        wake: Starts a tick for additional runs; None leaves them to the cron.
    """

    database: Database
    registry: Registry
    hook: ScheduleHook
    validator: ActionValidator
    wake: Wake | None = None

    def schedule_recurring(
        self,
        action_type: str,
        payload: Any,  # noqa: ANN401 - any model
        recurrence: str,
        *,
        team_id: str | None = None,
        created_by: str | None = None,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Create or update a schedule by name, and return it; see `upsert` for the arguments and errors."""
        return self.upsert(
            action_type,
            payload,
            recurrence,
            team_id=team_id,
            created_by=created_by,
            requester=requester,
            connection=connection,
            **options,
        )[0]

    def upsert(
        self,
        action_type: str,
        payload: Any,  # noqa: ANN401 - any model
        recurrence: str,
        *,
        team_id: str | None = None,
        created_by: str | None = None,
        requester: Requester | None = None,
        schedule_id: UUID | None = None,
        connection: psycopg.Connection[Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> tuple[Schedule, bool]:
        """Create or update a schedule by name (within its team); return it, and whether it is new.

        A call with the same arguments changes nothing: the start, the planned occurrence and a pause remain. In a call
        with other arguments, omitted ones return to their defaults. Without a name, every call creates a schedule.

        Args:
            action_type: Selects the handler.
            payload: The payload of every occurrence.
            recurrence: The rule.
            team_id: The team that owns the schedule; None: no team.
            created_by: Who creates the schedule; stored with it.
            requester: The API token; None: application code.
            schedule_id: The schedule to update; None: the one with this name, or a new one.
            connection: Your own connection; the change takes effect once its transaction commits.
            options: The other arguments of `schedule_recurring_action`.

        Raises:
            RequestError: The type is unknown or not open to the requester, the rule is malformed or never occurs, or
                the payload or an argument is invalid; nothing was changed.
            FunctionTimedOut: A project function of the rule exceeded its time limit; nothing was changed.
            DatabaseUnavailable: The database cannot be reached; nothing was changed.
        """
        definition = self.definition(
            {**options, "recurrence": recurrence, "team_id": team_id}, requester=requester, team_id=team_id
        )
        _, text = self.validator.payloads.prepare(action_type, payload, requester=requester)
        self._try_functions(definition)
        with borrowed_connection(self.database, connection) as borrowed, atomic(borrowed):
            schedule, result = change.write(
                borrowed,
                self.hook.planner,
                action_type,
                text,
                definition,
                created_by=arguments.check_text("created_by", created_by),
                is_declared=False,
                may_leave=commits_itself(connection),
                schedule_id=schedule_id,
            )
        return self.after_deferred_planning(schedule, connection), result == "created"

    def update(
        self,
        reference: UUID | str,
        *,
        payload: Any = None,  # noqa: ANN401 - any model
        team_id: str | None = None,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
        **changes: Unpack[ScheduleChanges],
    ) -> Schedule:
        """Change arguments of a schedule, and return it; omitted arguments keep their values.

        None resets an argument to its default. A schedule that has ended becomes active again unless `remaining` is
        used up; its rule must then have another occurrence.

        A new rule, time zone, start, skip, end, recurrence type or jitter replans the planned occurrence, unless its
        instant has passed. Other changes are applied to it. An occurrence that has started keeps its values.

        Args:
            reference: Id or name.
            payload: Replaces the whole payload; validated like that of a new schedule. None: unchanged.
            team_id: Only within this team. None: by id, any schedule; by name, only a schedule without a team.
            requester: The API token; None: application code.
            connection: Your own connection; the change takes effect once its transaction commits.
            changes: Arguments of `schedule_recurring_action`.

        Raises:
            UnknownSchedule: No schedule has this id or name (in that team).
            ScheduleNotApplied: SQL has reserved the schedule, and its arguments are not applied.
            ActionTypeForbidden: The requester may not use this payload or these follow-ups.
            RequestError: A new value is invalid; nothing was changed.
            FunctionTimedOut: A project function of the rule exceeded its time limit; nothing was changed.
        """
        if changes.get("recurrence") or changes.get("skip"):
            with borrowed_connection(self.database, connection) as borrowed:
                before = change.read(borrowed, reference, team_id).schedule
                store.refuse_unapplied(borrowed, reference, before)
            self._try_functions(self._redefined(before, changes, requester))
        with borrowed_connection(self.database, connection) as borrowed, atomic(borrowed):
            found = change.read(borrowed, reference, team_id, locked=True)
            schedule = found.schedule
            store.refuse_unapplied(borrowed, reference, schedule)
            definition = self._redefined(schedule, changes, requester)
            text = None
            if payload is not None:
                _, text = self.validator.payloads.prepare(
                    schedule.action_type, payload, requester=requester, where="payload"
                )
                definition["payload"] = new_schedule.fingerprint(text)
            changed = change.redefine(
                borrowed, self.hook.planner, found, definition, text, is_declared=schedule.is_declared
            )
        return self.after_deferred_planning(changed, connection)

    def _redefined(self, schedule: Schedule, changes: Mapping[str, Any], requester: Requester | None) -> dict[str, Any]:
        """Return the definition of a schedule with changes; None resets an argument to its default."""
        before = schedule.definition
        # Without an expiry, what happens at the expiry is reset, too.
        reset = {"on_expiry"} if "expires_in" in changes and changes["expires_in"] is None else set()
        return {name: value for name, value in before.items() if name not in changes.keys() | reset} | self.definition(
            changes,
            timezone=changes.get("timezone") or before.get("timezone") or "UTC",
            requester=requester,
            team_id=schedule.team_id,
        )

    def definition(
        self,
        given: Mapping[str, Any],
        *,
        timezone: str | None = None,
        requester: Requester | None = None,
        team_id: str | None = None,
    ) -> dict[str, Any]:
        """Validate arguments of a schedule; return them as a JSON object, without those that are None.

        Args:
            given: The arguments, by name.
            timezone: The time zone of local times if `given` has no `timezone`.
            requester: The API token that needs the permissions for the follow-ups; None: application code.
            team_id: The team of the schedule.

        Raises:
            RequestError: An argument is unknown or invalid, or the requester may not use the follow-ups.
        """
        names = new_schedule.DEPENDENCIES
        dependencies = {name: given[name] for name in names & given.keys() if given[name] is not None}
        definition = new_schedule.definition_of(
            {name: value for name, value in given.items() if name not in names}, timezone=timezone
        )
        if "limit" in definition:
            limit_keys.check_known(definition["limit"], self.validator.settings.limits)
        if dependencies:
            definition |= {
                name: json.loads(text)
                for name, text in self.validator.dependencies(
                    dependencies, requester=requester, team_id=team_id
                ).items()
            }
        return definition

    def _try_functions(self, definition: Mapping[str, Any]) -> None:
        """Call the project functions of a definition, if any, outside the transaction that stores it.

        Raises:
            RecurrenceInvalid: A function failed, or the rule has no future occurrence.
            FunctionTimedOut: A function exceeded its time limit.
        """
        if not project_functions(new_schedule.rule(definition)):
            return
        with borrowed_connection(self.database, None) as borrowed:
            now = clock.now(borrowed)
        anchor = new_schedule.anchor(definition.get("scheduled_at"), now)
        rule = self.hook.planner.rules.rule_of(new_schedule.rule(definition, anchor))
        if series.first(rule, anchor=anchor, is_explicit="scheduled_at" in definition, now=now) is None:
            raise change.without_occurrence(definition["recurrence"], now)

    def after_deferred_planning(self, schedule: Schedule, connection: psycopg.Connection[Any] | None) -> Schedule:
        """Run deferred planning and return the schedule; in a caller's transaction, leave planning to the sweep."""
        if not commits_itself(connection) or schedule.next_action_id is not None or not project_functions(schedule):
            return schedule
        self.hook.run_deferred()
        with borrowed_connection(self.database, None) as borrowed:
            return change.read(borrowed, schedule.id).schedule

    def get(self, reference: UUID | str, *, team_id: str | None = None) -> Schedule:
        """Return one schedule by id or name.

        Args:
            reference: Id or name.
            team_id: Only within this team. None: by id, any schedule; by name, only a schedule without a team.

        Raises:
            UnknownSchedule: No schedule has this id or name (in that team).
            InvalidArgument: `team_id` is not a string.
        """
        with borrowed_connection(self.database, None) as borrowed:
            return change.read(borrowed, reference, arguments.check_text("team_id", team_id)).schedule

    def find(
        self,
        *,
        status: str | None = None,
        action_type: str | None = None,
        team_id: str | None = None,
        cursor: UUID | str | None = None,
        limit: int = 100,
    ) -> list[Schedule]:
        """Return at most `limit` schedules that match every filter, newest first.

        Args:
            status: `active`, `paused` or `ended`.
            action_type: Filter by exact type.
            team_id: Filter by team; None returns the schedules of all teams.
            cursor: The id of the last schedule on the previous page; None: the first page.
            limit: 1 to 101.

        Raises:
            InvalidArgument: A filter, the cursor or the limit is invalid.
        """
        with borrowed_connection(self.database, None) as borrowed:
            return store.find(
                borrowed,
                status=None if status is None else arguments.check_choice("status", status, get_args(ScheduleStatus)),
                action_type=arguments.check_text("action_type", action_type),
                team_id=arguments.check_text("team_id", team_id),
                before=None if cursor is None else arguments.check_cursor(cursor),
                limit=arguments.check_limit(limit, most=MAX_ROWS_READ),
            )
