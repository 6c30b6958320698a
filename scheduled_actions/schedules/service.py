"""Create, update and read schedules."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, Unpack, get_args
from uuid import UUID

import psycopg

from scheduled_actions.actions.validation import ActionValidator
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument, RecurrenceInvalid, UnknownSchedule
from scheduled_actions.core.log import log
from scheduled_actions.core.pages import MAX_ROWS_READ
from scheduled_actions.core.requester import Requester
from scheduled_actions.core.wake import Wake
from scheduled_actions.database import clock
from scheduled_actions.database.connection import Connection, Database, atomic
from scheduled_actions.database.transactions import borrowed_connection, commits_itself
from scheduled_actions.recurrence.model import anchor_after
from scheduled_actions.registry import Registry, limit_keys
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import (
    Schedule,
    ScheduleChanges,
    ScheduleOptions,
    ScheduleStatus,
    project_functions,
)
from scheduled_actions.schedules.rules import new_schedule, series
from scheduled_actions.schedules.series import ScheduleHook

#: The result of an upsert.
Change: TypeAlias = Literal["created", "changed", "unchanged"]


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
        text = self.validator.payloads.prepare(action_type, payload, requester=requester).text
        self._try_functions(definition)
        with borrowed_connection(self.database, connection) as borrowed, atomic(borrowed):
            schedule, change = self.write(
                borrowed,
                action_type,
                text,
                definition,
                created_by=arguments.check_text("created_by", created_by),
                is_declared=False,
                may_leave=commits_itself(connection),
                schedule_id=schedule_id,
            )
        return self.after_deferred_planning(schedule, connection), change == "created"

    def write(
        self,
        connection: Connection,
        action_type: str,
        payload: str,
        definition: Mapping[str, Any],
        *,
        created_by: str | None,
        is_declared: bool,
        may_leave: bool,
        schedule_id: UUID | None = None,
    ) -> tuple[Schedule, Change]:
        """Insert or update a schedule with a validated definition, in the caller's transaction.

        Args:
            connection: In a transaction.
            action_type: Selects the handler.
            payload: JSON text of the validated payload.
            definition: The result of `definition`.
            created_by: Stored with a new schedule.
            is_declared: Whether the schedule is declared in code.
            may_leave: Whether the caller runs deferred planning after the commit; if so, project functions of a new
                schedule run only then. Those of a changed schedule always do.
            schedule_id: The schedule to update; None: the one with the name in the definition, or a new one.

        Returns:
            The schedule, and whether it was created, changed or left unchanged.

        Raises:
            InvalidArgument: The name belongs to a schedule with another action type.
            UnknownSchedule: No schedule has the given id, or the one with the name was just deleted.
            RecurrenceInvalid: The rule has no occurrence, or cannot be evaluated.
            BudgetExceeded: Evaluating the rule takes too many steps.
            FunctionTimedOut: A project function of the rule exceeded its time limit.
        """
        name, team_id = definition.get("name"), definition.get("team_id")
        wanted = {**definition, "action_type": action_type, "payload": new_schedule.fingerprint(payload)}
        found = None
        if schedule_id is not None:
            found = store.get(connection, schedule_id=schedule_id, locked=True)
        elif name is not None:
            found = store.get(connection, name=name, name_team_id=team_id, locked=True)
        if found is None and schedule_id is None:
            anchor = self._anchor(definition, clock.now(connection))
            values = self._values(wanted, payload, anchor, is_declared=is_declared)
            values |= {"action_type": action_type, "created_by": created_by}
            # No row: another transaction has just created a schedule with this name.
            if (row := store.sql.run(connection, "create_schedule", values).fetchone()) is not None:
                schedule_id, same_as = row
                if same_as is not None:
                    log.warning(
                        'schedule.doubled id=%s action_type=%s same_as=%s hint=pass name="%s"',
                        schedule_id, action_type, same_as, action_type,
                    )  # fmt: skip
                return self._planned(connection, schedule_id, wanted, is_new_start=True, may_leave=may_leave), "created"
            found = store.get(connection, name=name, name_team_id=team_id, locked=True)
        if found is None:
            raise UnknownSchedule(schedule_id or name)
        if (
            found.schedule.definition == wanted
            and found.schedule.is_declared == is_declared
            and not found.schedule.is_refused
        ):
            if schedule_id is None and not is_declared:
                # This call is newer than a call from SQL that is not applied yet.
                store.sql.run(connection, "end_schedule_request", {"schedule_id": found.schedule.id, "requested": None})
            return found.schedule, "unchanged"
        changed = self._change(
            connection, found, wanted, payload, is_declared=is_declared, keeps_request=schedule_id is not None
        )
        return changed, "changed"

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
                before = self.read(borrowed, reference, team_id).schedule
            store.refuse_unapplied(borrowed, reference, before)
            self._try_functions(self._redefined(before, changes, requester))
        with borrowed_connection(self.database, connection) as borrowed, atomic(borrowed):
            found = self.read(borrowed, reference, team_id, locked=True)
            schedule = found.schedule
            store.refuse_unapplied(borrowed, reference, schedule)
            definition = self._redefined(schedule, changes, requester)
            text = None
            if payload is not None:
                text = self.validator.payloads.prepare(
                    schedule.action_type, payload, requester=requester, where="payload"
                ).text
                definition["payload"] = new_schedule.fingerprint(text)
            changed = self._change(borrowed, found, definition, text, is_declared=schedule.is_declared)
        return self.after_deferred_planning(changed, connection)

    def _change(
        self,
        connection: Connection,
        found: store.ScheduleSnapshot,
        definition: Mapping[str, Any],
        payload: str | None,
        *,
        is_declared: bool,
        keeps_request: bool = False,
    ) -> Schedule:
        """Write a new definition, and replan the occurrence if the definition affects it.

        A call from SQL that is not applied yet is older, and is dropped unless `keeps_request`.
        """
        schedule, now = found
        if definition.get("action_type", schedule.action_type) != schedule.action_type:
            raise InvalidArgument(
                "action_type",
                problem=f"cannot change from {schedule.action_type} to {definition['action_type']} in schedule "
                f'"{schedule.name}": use another name, or delete the schedule first',
            )
        before = schedule.definition
        is_new_start = new_schedule.has_changed(before, definition, new_schedule.ANCHORING)
        is_overdue = schedule.next_occurrence_at is not None and schedule.next_occurrence_at <= now
        anchor = schedule.anchor_at
        if is_new_start:
            # A rule without a start of its own continues from the overdue occurrence.
            since = schedule.next_occurrence_at if is_overdue and schedule.next_occurrence_at else now
            anchor = self._anchor(definition, since)
        values = self._values(definition, payload, anchor, is_declared=is_declared)
        if before.get("remaining") == definition.get("remaining"):
            values["remaining"] = schedule.remaining
        try:
            store.sql.run(
                connection,
                "write_schedule",
                {**values, "schedule_id": schedule.id, "keeps_request": keeps_request},
            )
        except psycopg.errors.UniqueViolation:
            raise InvalidArgument(
                "name", problem=f"{definition.get('name')!r} is already the name of another schedule"
            ) from None
        is_restarted = schedule.status == "ended" or schedule.is_refused
        stays = is_overdue or not new_schedule.has_changed(before, definition, new_schedule.SHAPING)
        if values["remaining"] == 0 if is_restarted else schedule.status == "paused" or stays:
            # An overdue occurrence runs as planned; the one after it follows the new rule.
            return self.read(connection, schedule.id).schedule
        if is_restarted:
            store.advance(connection, [store.ScheduleUpdate(schedule.id, status="active")])
        store.drop_planned(connection, schedule.id)
        # Other sessions may wait for the locked row, so project functions are called after the commit.
        return self._planned(connection, schedule.id, definition, is_new_start=is_new_start, may_leave=True)

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
            raise _without_occurrence(definition["recurrence"], now)

    def _anchor(self, definition: Mapping[str, Any], now: datetime) -> datetime:
        """Return the start of a schedule; without a given start, it is not an occurrence.

        Raises:
            RecurrenceInvalid: The rule is malformed or never occurs.
            BudgetExceeded: Evaluating the rule takes too many steps.
        """
        anchor = new_schedule.anchor(definition.get("scheduled_at"), now)
        if "scheduled_at" in definition:
            return anchor
        return anchor_after(anchor, self.hook.planner.rules.kind(new_schedule.rule(definition, anchor)))

    def _values(
        self, definition: Mapping[str, Any], payload: str | None, anchor: datetime, *, is_declared: bool
    ) -> dict[str, Any]:
        """Return the columns of a definition.

        Raises:
            InvalidArgument: The definition has `on_expiry` without `expires_in`.
            RecurrenceInvalid: The rule cannot be evaluated.
            BudgetExceeded: Evaluating the rule takes too many steps.
        """
        return {
            **new_schedule.values_of(definition),
            "payload": payload,
            "kind": self.hook.planner.rules.kind(new_schedule.rule(definition, anchor)),
            "anchor_at": anchor,
            "definition": json.dumps(definition, sort_keys=True),
            "is_declared": is_declared,
        }

    def _planned(
        self,
        connection: Connection,
        schedule_id: UUID,
        definition: Mapping[str, Any],
        *,
        is_new_start: bool,
        may_leave: bool,
    ) -> Schedule:
        """Plan the first occurrence and return the schedule; if an occurrence is running, its end plans the next one.

        Raises:
            RecurrenceInvalid: The rule has no occurrence, or cannot be evaluated.
        """
        schedule, now = self.read(connection, schedule_id)
        if schedule.next_action_id is None:
            self.hook.planner.plan(
                connection,
                schedule,
                now,
                is_explicit=is_new_start and "scheduled_at" in definition,
                may_leave=may_leave,
            )
        planned = self.read(connection, schedule_id).schedule
        if planned.status == "ended":
            raise _without_occurrence(planned.recurrence, now)
        if planned.status == "paused":
            raise RecurrenceInvalid(planned.recurrence, planned.status_reason or "cannot be evaluated")
        return planned

    def after_deferred_planning(self, schedule: Schedule, connection: psycopg.Connection[Any] | None) -> Schedule:
        """Run deferred planning and return the schedule; in a caller's transaction, leave planning to the sweep."""
        if not commits_itself(connection) or schedule.next_action_id is not None or not project_functions(schedule):
            return schedule
        self.hook.run_deferred()
        with borrowed_connection(self.database, None) as borrowed:
            return self.read(borrowed, schedule.id).schedule

    @staticmethod
    def read(
        connection: Connection, reference: UUID | str, team_id: str | None = None, *, locked: bool = False
    ) -> store.ScheduleSnapshot:
        """Return a schedule by id or name; with `locked`, lock it until the transaction ends.

        Raises:
            UnknownSchedule: No schedule has this id or name (in that team).
        """
        schedule_id, name = new_schedule.reference(reference)
        found = store.get(
            connection, schedule_id=schedule_id, name=name, name_team_id=team_id, team_id=team_id, locked=locked
        )
        if found is None:
            raise UnknownSchedule(reference)
        return found

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
            return self.read(borrowed, reference, arguments.check_text("team_id", team_id)).schedule

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


def _without_occurrence(recurrence: str, now: datetime) -> RecurrenceInvalid:
    return RecurrenceInvalid(
        recurrence, f"has no occurrence after {now:%Y-%m-%d %H:%M:%S}Z; change the rule or its end"
    )
