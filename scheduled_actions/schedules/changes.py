"""Insert and update schedules in the caller's transaction, and plan their next occurrences."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

import psycopg

from scheduled_actions.core.errors import InvalidArgument, RecurrenceInvalid, UnknownSchedule
from scheduled_actions.core.log import log
from scheduled_actions.database import clock
from scheduled_actions.database.connection import Connection
from scheduled_actions.recurrence.model import anchor_after
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import Schedule
from scheduled_actions.schedules.planner import Planner
from scheduled_actions.schedules.rules import new_schedule

#: The result of `write`.
Change: TypeAlias = Literal["created", "changed", "unchanged"]


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


def write(
    connection: Connection,
    planner: Planner,
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
        planner: Plans the occurrences.
        action_type: Selects the handler.
        payload: JSON text of the validated payload.
        definition: The result of `Schedules.definition`.
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
        anchor = _anchor(planner, definition, clock.now(connection))
        values = _values(planner, wanted, payload, anchor, is_declared=is_declared)
        values |= {"action_type": action_type, "created_by": created_by}
        # No row: another transaction has just created a schedule with this name.
        if (row := store.sql.run(connection, "create_schedule", values).fetchone()) is not None:
            schedule_id, same_as = row
            if same_as is not None:
                log.warning(
                    'schedule.doubled id=%s action_type=%s same_as=%s hint=pass name="%s"',
                    schedule_id, action_type, same_as, action_type,
                )  # fmt: skip
            return _planned(connection, planner, schedule_id, wanted, is_new_start=True, may_leave=may_leave), "created"
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
    changed = redefine(
        connection, planner, found, wanted, payload, is_declared=is_declared, keeps_request=schedule_id is not None
    )
    return changed, "changed"


def redefine(
    connection: Connection,
    planner: Planner,
    found: store.ScheduleSnapshot,
    definition: Mapping[str, Any],
    payload: str | None,
    *,
    is_declared: bool,
    keeps_request: bool = False,
) -> Schedule:
    """Write a new definition, and replan the occurrence if the definition affects it; return the schedule.

    Args:
        connection: In a transaction that has locked the schedule.
        planner: Plans the occurrences.
        found: The stored schedule.
        definition: The new definition.
        payload: JSON text of the new payload; None: unchanged.
        is_declared: Whether the schedule is declared in code.
        keeps_request: Whether a call from SQL that is not applied yet is kept; it is older than this change.

    Raises:
        InvalidArgument: The definition has another action type, or the name of another schedule.
        RecurrenceInvalid: The rule has no occurrence, or cannot be evaluated.
        BudgetExceeded: Evaluating the rule takes too many steps.
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
        anchor = _anchor(planner, definition, since)
    values = _values(planner, definition, payload, anchor, is_declared=is_declared)
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
        return read(connection, schedule.id).schedule
    if is_restarted:
        store.advance(connection, [store.ScheduleUpdate(schedule.id, status="active")])
    store.drop_planned(connection, schedule.id)
    # Other sessions may wait for the locked row, so project functions are called after the commit.
    return _planned(connection, planner, schedule.id, definition, is_new_start=is_new_start, may_leave=True)


def _anchor(planner: Planner, definition: Mapping[str, Any], now: datetime) -> datetime:
    """Return the start of a schedule; without a given start, it is not an occurrence.

    Raises:
        RecurrenceInvalid: The rule is malformed or never occurs.
        BudgetExceeded: Evaluating the rule takes too many steps.
    """
    anchor = new_schedule.anchor(definition.get("scheduled_at"), now)
    if "scheduled_at" in definition:
        return anchor
    return anchor_after(anchor, planner.rules.kind(new_schedule.rule(definition, anchor)))


def _values(
    planner: Planner, definition: Mapping[str, Any], payload: str | None, anchor: datetime, *, is_declared: bool
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
        "kind": planner.rules.kind(new_schedule.rule(definition, anchor)),
        "anchor_at": anchor,
        "definition": json.dumps(definition, sort_keys=True),
        "is_declared": is_declared,
    }


def _planned(
    connection: Connection,
    planner: Planner,
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
    schedule, now = read(connection, schedule_id)
    if schedule.next_action_id is None:
        planner.plan(
            connection,
            schedule,
            now,
            is_explicit=is_new_start and "scheduled_at" in definition,
            may_leave=may_leave,
        )
    planned = read(connection, schedule_id).schedule
    if planned.status == "ended":
        raise without_occurrence(planned.recurrence, now)
    if planned.status == "paused":
        raise RecurrenceInvalid(planned.recurrence, planned.status_reason or "cannot be evaluated")
    return planned


def without_occurrence(recurrence: str, now: datetime) -> RecurrenceInvalid:
    """Return the error for a rule that has no occurrence after `now`."""
    return RecurrenceInvalid(
        recurrence, f"has no occurrence after {now:%Y-%m-%d %H:%M:%S}Z; change the rule or its end"
    )
