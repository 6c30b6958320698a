"""Store changes of locked deadlines, and plan their stages again."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

from scheduled_actions.core.errors import DeadlineUnusable, InvalidArgument, WrongDeadlineStatus
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.transactions import limit_lock_waits
from scheduled_actions.deadlines import creation, store
from scheduled_actions.deadlines.model import Deadline, Stage
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules.definition import HOW_TO_BEGIN, HOW_TO_END, NewDeadline
from scheduled_actions.deadlines.rules.planning import DeadlineClock

NOT_ACKNOWLEDGED: dict[str, Any] = dict.fromkeys(("acknowledged_at", "acknowledged_by", "acknowledged_until"))
#: Evaluation steps per deadline in the budget of a move.
_STEPS_PER_DEADLINE = 100
_REPLACED = "the deadline was changed before all recipients were notified"
#: What a `set_deadline` call did.
SetOutcome: TypeAlias = Literal["created", "changed", "unchanged"]
#: Parts of a definition whose change invalidates notifications in progress.
_SHAPING = ("stages", "timezone", "calendar")
#: Columns that a new definition replaces.
_CHANGED_COLUMNS = ("timezone", "calendar", "target_type", "target_id", "metadata")
#: Fields of a stage that a new definition keeps.
_PROGRESS = ("state", "at", "occurrence", "begun", "last_at", "replaces")


def refuse_closed(reference: object, deadline: Deadline, *statuses: str) -> None:
    """Check that a deadline may be changed.

    Args:
        reference: The id or name that the caller gave, for the error.
        deadline: The stored deadline.
        statuses: The statuses that allow the change; default: open and missed.

    Raises:
        WrongDeadlineStatus: The deadline has another status.
        DeadlineUnusable: The stored row is invalid; writing it back would lose the invalid values.
    """
    allowed = statuses or ("open", "missed")
    if deadline.status not in allowed:
        raise WrongDeadlineStatus(reference, deadline.status, " and ".join(allowed))
    if deadline.problem is not None:
        raise DeadlineUnusable(reference, deadline.problem)


def update_by_name(
    connection: Connection, found: store.DeadlineSnapshot, new: NewDeadline
) -> tuple[Deadline, SetOutcome]:
    """Update a locked deadline with the arguments of a later `set_deadline` call for its name; return the deadline.

    A row that only reserves the id and the name for a call from SQL is replaced. Arguments equal to the stored ones
    change nothing. A single deadline is moved, even if its due instant is the same.

    Raises:
        InvalidArgument: The arguments turn a single deadline into a series, end a series, or change the `due_at` of a
            series; or a stage has no instant.
        RecurrenceInvalid: The rule is invalid.
        DeadlineUnusable: The stored row of a series' deadline is invalid.
        BudgetExceeded: Planning the stages takes too many steps.
    """
    before, now = found
    if store.is_reserved(connection, before):
        store.delete(connection, before.id)
        creation.create_as(connection, before.id, new, now)
        return store.read(connection, before.id), "created"
    # This call is newer than a call from SQL that is not applied yet.
    store.end_request(connection, before.id)
    definition = new.definition
    # The reach is not compared: unchanged addresses keep the reach of the call that first gave them.
    if before.problem is None and {**before.definition, "reach": None} == {**definition, "reach": None}:
        return before, "unchanged"
    if before.series_id is None:
        if new.recurrence is not None:
            raise InvalidArgument("recurrence", new.recurrence, problem=HOW_TO_BEGIN)
        columns = {name: getattr(new, name) for name in _CHANGED_COLUMNS}
        columns |= {"recipients": list(new.recipients), "definition": definition}
        moves = [(before, redefined(before, new, definition), creation.first_due_at(new, DeadlineClock.of(new), now))]
        changed = _changed_arguments(before, definition)
        move(connection, moves, now, what="changed", by=new.created_by, changes=changed, columns=columns)
        return store.read(connection, before.id), "changed"
    if new.recurrence is None:
        raise InvalidArgument("recurrence", None, problem=HOW_TO_END)
    if any(definition[name] != before.definition.get(name) for name in ("due_at", "delay")):
        raise InvalidArgument(
            "due_at",
            definition["due_at"] or definition["delay"],
            problem="cannot be changed for a series: use move_deadline for this deadline; or cancel_deadline with "
            "series=True, then set_deadline",
        )
    redefine(connection, found, new, definition, by=new.created_by)
    return store.read(connection, before.id), "changed"


def close(
    connection: Connection,
    deadline: Deadline,
    now: datetime,
    entry: Mapping[str, Any],
    **columns: Any,  # noqa: ANN401
) -> Deadline:
    """Complete or cancel a deadline; create the next one of its series unless it exists; return the closed deadline.

    Args:
        connection: In a transaction that has locked the deadline.
        deadline: The stored deadline.
        now: The database's current time.
        entry: The history entry; its `what` is the new status.
        columns: Further columns to write.
    """
    status, by = entry["what"], entry.get("by")
    values = {"status": status, "closed_at": now, "closed_by": by, "paused_at": None, "revisions": 1, "entry": entry}
    store.write(connection, {deadline.id: {**values, "stages": _withdrawn(deadline.stages), **columns}})
    store.withdraw(connection, [deadline.id], reason=f"the deadline is {status}", by=by)
    creation.create_next(connection, deadline, now)
    return store.read(connection, deadline.id)


def end_series(
    connection: Connection, deadline: Deadline, now: datetime, *, reason: str | None, by: str | None
) -> None:
    """Cancel a deadline and the later ones of its series, except resolved deadlines, and end the series."""
    ids = {deadline.id}
    if deadline.series_id is not None and deadline.occurrence_at is not None:
        ids |= set(store.ids_of_series(connection, deadline.series_id, since=deadline.occurrence_at))
    entry = store.history_entry("cancelled", now, by=by, reason=reason, series=True)
    closing = {"status": "cancelled", "closed_at": now, "closed_by": by, "closed_reason": reason, "paused_at": None}
    store.write(
        connection,
        {
            # `next_id` of the last deadline is the id of that deadline itself: no further deadline is created.
            one.id: {"entry": entry, "revisions": 1, "next_id": one.next_id or one.id}
            | ({"stages": _withdrawn(one.stages), **closing} if one.is_unresolved else {})
            for one, _ in store.lock(connection, ids)
        },
    )
    store.withdraw(connection, ids, reason="the series is cancelled", by=by)


def move(
    connection: Connection,
    moves: Sequence[tuple[Deadline, Deadline, datetime]],
    now: datetime,
    *,
    what: str = "moved",
    by: str | None = None,
    reason: str | None = None,
    resend: bool | None = None,
    changes: Sequence[str] | None = None,
    columns: Mapping[str, Any] | None = None,
) -> None:
    """Change the due instants of deadlines, and plan their stages again.

    Args:
        connection: In a transaction that has locked the deadlines.
        moves: For each deadline, its stored state, its state with the new definition, and the new due instant.
        now: The database's current time.
        what: The name of the history entry.
        by: Who moves the deadlines, for the history.
        reason: The reason, for the history.
        resend: Whether to plan stages again that have already run; None: only those of missed deadlines.
        changes: The names of changed arguments, for the history.
        columns: Further columns to write.

    Raises:
        InvalidArgument: A stage has no instant for the new due instant.
        BudgetExceeded: Planning the stages takes too many steps.
    """
    changed = {**(columns or {}), **NOT_ACKNOWLEDGED, "status": "open", "missed_at": None, "revisions": 1}
    moved: list[tuple[Deadline, dict[str, Any]]] = []
    budget = EvaluationBudget("the move", steps=max(STEPS, _STEPS_PER_DEADLINE * len(moves)))
    for before, deadline, due_at in moves:
        resends = before.status == "missed" if resend is None else resend
        stages = tuple(_reset(deadline, one) if _recurs(before, one, resends) else one for one in deadline.stages)
        stages = planning.plan_deadline(replace(deadline, stages=stages, due_at=due_at), now, budget)
        entry = store.history_entry(
            what, now, by=by, reason=reason, due_at=due_at, before=before.due_at, changes=changes
        )
        moved.append((before, changed | {"due_at": due_at, "stages": stages, "entry": entry}))
    _write(connection, moved)


def plan_again(connection: Connection, guard: Mapping[str, Any], *, team_id: str | None) -> None:
    """Plan the stage of a notification again that is not sent because its deadline was changed.

    The new occurrence replaces that of the notification, and notifies the recipients without a receipt. It runs at the
    instant of the stage, or immediately if that has passed. The stage is planned again once for all its notifications.

    Args:
        connection: In a transaction.
        guard: The guard of the notification, as `store.valid_guards` takes it.
        team_id: The team of the notification.

    Raises:
        psycopg.errors.LockNotAvailable: Another transaction has locked the deadline.
    """
    limit_lock_waits(connection, store.LOCK_WAIT_MS)
    found = store.lock(connection, [UUID(str(guard["deadline_id"]))])
    if not found or found[0].deadline.team_id != team_id or found[0].deadline.problem is not None:
        return
    deadline, now = found[0]
    key, occurrence = planning.parse_occurrence(str(guard.get("stage") or ""))
    stage = deadline.stage(key)
    if stage is None or not planning.is_replaceable(deadline, stage, occurrence, now=now):
        return
    again = replace(stage, state="planned", occurrence=occurrence + 1, replaces=stage.replaces or occurrence)
    stages = tuple(again if one is stage else one for one in deadline.stages)
    stages = planning.plan_deadline(replace(deadline, stages=stages), now)
    entry = store.history_entry("replaced", now, stage=key, occurrence=occurrence, reason=_REPLACED)
    _write(connection, [(deadline, {"stages": stages, "entry": entry})])


def redefine(
    connection: Connection,
    found: store.DeadlineSnapshot,
    new: NewDeadline,
    definition: Mapping[str, Any],
    *,
    by: str | None = None,
    reason: str | None = None,
) -> None:
    """Apply a changed definition to a deadline and to the later unresolved ones of its series.

    Their due instants do not change.

    Raises:
        InvalidArgument: A stage has no instant, or the rule is too frequent.
        RecurrenceInvalid: The rule is invalid.
        DeadlineUnusable: The stored row of the last deadline of the series is invalid.
        BudgetExceeded: Planning the stages takes too many steps.
    """
    first, now = found
    changed = {name for name, value in definition.items() if first.definition.get(name) != value}
    if not changed:
        return
    befores = [first]
    if first.series_id is not None and first.occurrence_at is not None:
        ids = store.ids_of_series(connection, first.series_id, since=first.occurrence_at)
        befores = [one for one, _ in store.lock(connection, ids) if one.is_unresolved]
    columns = {name: getattr(new, name) for name in _CHANGED_COLUMNS}
    columns["revisions"] = int(not changed.isdisjoint(_SHAPING))
    if "recipients" in changed:
        columns["recipients"] = list(new.recipients)
    rule: dict[str, Any] = {}
    if "recurrence" in changed:
        rule = {"recurrence": new.recurrence, "anchor_at": max(one.occurrence_at or now for one in befores)}
    changes: list[tuple[Deadline, dict[str, Any]]] = []
    budget = EvaluationBudget("the change")
    for before in befores:
        after = replace(redefined(before, new, {**before.definition, **definition}), **rule)
        stages = planning.plan_deadline(after, now, budget)
        if after.recurrence is not None:
            creation.refuse_overlap(after.recurrence, stages, DeadlineClock.of(after, budget), after.due_at)
        entry = store.history_entry("changed", now, by=by, reason=reason, changes=_changed_arguments(first, definition))
        changes.append((before, columns | rule | {"definition": after.definition, "stages": stages, "entry": entry}))
    _write(connection, changes)


def _changed_arguments(before: Deadline, definition: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments that a definition changes."""
    return sorted(
        name for name, value in definition.items() if name != "reach" and before.definition.get(name) != value
    )


def _write(connection: Connection, changes: Sequence[tuple[Deadline, Mapping[str, Any]]]) -> None:
    """Write changed deadlines; schedule, reschedule or delete the actions of their stages."""
    stages = {before.id: values["stages"] if before.paused_at is None else [] for before, values in changes}
    store.write(connection, {before.id: values for before, values in changes})
    planned = {key for before, _ in changes for key in store.planned_keys(before.id, before.stages)}
    kept = {key for deadline_id, some in stages.items() for key in store.planned_keys(deadline_id, some)}
    store.drop(connection, planned - kept)
    store.plan(connection, stages)


def redefined(before: Deadline, new: NewDeadline, definition: Mapping[str, Any]) -> Deadline:
    """Return a deadline with a new definition; stages whose keys are unchanged keep their progress."""
    progress = {stage.key: {name: getattr(stage, name) for name in _PROGRESS} for stage in before.stages}
    stages = tuple(replace(stage, **progress.get(stage.key, {})) for stage in new.stages)
    return replace(before, timezone=new.timezone, calendar=new.calendar, stages=stages, definition=definition)


def _withdrawn(stages: Collection[Stage]) -> list[Stage]:
    return [replace(stage, state="withdrawn") if stage.state in {"planned", "left_out"} else stage for stage in stages]


def _recurs(before: Deadline, stage: Stage, resends: bool) -> bool:  # noqa: FBT001 - computed per deadline
    # After the move, the deadline is open and can be missed again.
    recurs = resends or (stage.kind == "due" and before.status == "missed")
    return recurs and stage.state == "begun" and stage.kind != "renewal"


def _reset(deadline: Deadline, stage: Stage) -> Stage:
    """Return a finished stage with a new planned occurrence, numbered after those that have begun."""
    times = next((one.get("times") for one in deadline.definition.get("stages", ()) if one["key"] == stage.key), None)
    return replace(
        stage,
        state="planned",
        occurrence=stage.begun + 1,
        times=None if times is None else stage.begun + times,
        replaces=None,
    )
