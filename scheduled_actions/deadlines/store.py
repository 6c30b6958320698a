"""Read and write deadlines and their actions."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import DeadlineNotApplied, UnknownDeadline
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements, instants, numbers, texts, uuids
from scheduled_actions.deadlines.model import Deadline, Stage
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules.rows import deadline_of
from scheduled_actions.schedules.rules import new_schedule

sql = Statements(__file__)

#: The columns that the select statements return, in order.
_FIELDS = tuple(field.name for field in fields(Deadline) if field.name != "problem")
#: How long a starting stage waits for a change of its deadline, in milliseconds.
LOCK_WAIT_MS = "2000"


class DeadlineSnapshot(NamedTuple):
    """A deadline, and the database's time when it was read."""

    deadline: Deadline
    now: datetime


class DeadlineAction(NamedTuple):
    """An action of a deadline, for its timeline."""

    id: UUID
    action_type: str
    status: str
    scheduled_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    error_message: str | None
    #: The stage and the number of its occurrence: "reminder:daily#3"; None: a notification that a stage scheduled.
    deadline_stage: str | None


class NotificationReceipt(NamedTuple):
    """A notification of a deadline that was sent, or that a channel did not accept."""

    #: When the notification was sent or not accepted.
    sent_at: datetime
    #: The stage and the number of its occurrence: "reminder:60 days before#1"; empty without a stage.
    stage: str
    subject: str
    #: The recipient's name or id; None if both are unknown.
    recipient: str | None
    channel: str
    #: An email address, or the masked address of another channel.
    address: str
    #: The id of the message in the channel; None if the channel has no ids, or the notification was not sent.
    message_id: str | None
    #: Why the channel did not accept the notification; None if it was sent.
    problem: str | None
    #: The action of the notification; may have been pruned.
    action_id: UUID
    #: UUID version 7: ordered by time.
    id: UUID


def get(connection: Connection, reference: UUID | str, team_id: str | None = None) -> DeadlineSnapshot | None:
    """Return a deadline by id or name; None if it does not exist.

    If several deadlines have that name, the unresolved one that is due first is returned; if all are resolved, the
    newest.

    Args:
        connection: To the database; a transaction is not needed.
        reference: Id or name.
        team_id: Only within this team. None: by id, any deadline; by name, only a deadline without a team.
    """
    deadline_id, name = new_schedule.reference(reference)
    row = sql.run_leniently(connection, "get_deadline", id=deadline_id, name=name, team_id=team_id).fetchone()
    return None if row is None else _snapshot(row)


def lock(connection: Connection, ids: Collection[UUID], *, team_id: str | None = None) -> list[DeadlineSnapshot]:
    """Lock deadlines by id (in that team) until the transaction ends; return those that exist, ordered by id."""
    return [_snapshot(row) for row in sql.run_leniently(connection, "lock_deadlines", ids=list(ids), team_id=team_id)]


def lock_one(connection: Connection, reference: UUID | str, team_id: str | None) -> DeadlineSnapshot:
    """Lock a deadline by id or name until the transaction ends; return it.

    Raises:
        UnknownDeadline: No deadline has that id or name (in that team).
    """
    deadline_id, _ = new_schedule.reference(reference)
    rows = lock(connection, [deadline_id or read(connection, reference, team_id).id], team_id=team_id)
    if not rows:
        raise UnknownDeadline(reference)
    return rows[0]


def read(connection: Connection, reference: UUID | str, team_id: str | None = None) -> Deadline:
    """Return a deadline by id or name, as `get` does.

    Raises:
        UnknownDeadline: No deadline has that id or name (in that team).
    """
    found = get(connection, reference, team_id)
    if found is None:
        raise UnknownDeadline(reference)
    return found.deadline


def find(connection: Connection, statement: str, filters: Mapping[str, Any]) -> list[Deadline]:
    """Return deadlines: newest first with `list_deadlines`, earliest due instant first with `deadlines_by_due`.

    Args:
        connection: To the database; a transaction is not needed.
        statement: `list_deadlines` or `deadlines_by_due`.
        filters: The parameters of the statement.
    """
    return [_snapshot(row).deadline for row in sql.run_leniently(connection, statement, filters)]


def valid_guards(connection: Connection, guards: Sequence[Mapping[str, Any]], *, team_id: str | None) -> list[bool]:
    """Return which notifications may still be sent.

    The deadlines are locked against changes until the transaction ends: a notification that is sent before then is
    valid, and a change of its deadline waits until it has been sent.

    Args:
        connection: In a transaction.
        guards: Objects of `deadline_id`, `stage` and `revision`; without `revision`, the notification stays valid when
            the deadline is moved. A notification to the deadline's own recipients has `is_for_recipients`, and its
            recipient in `to`.
        team_id: The team of the notifications; deadlines of other teams are not found.

    Returns:
        Whether each guard is valid, in order; False for an unknown deadline.
    """
    ids = [UUID(str(guard["deadline_id"])) for guard in guards]
    rows = sql.run_leniently(connection, "share_deadlines", ids=ids, team_id=team_id)
    found = {one.deadline.id: one for one in map(_snapshot, rows)}
    return [_is_valid(found.get(deadline_id), guard) for deadline_id, guard in zip(ids, guards, strict=True)]


def _is_valid(found: DeadlineSnapshot | None, guard: Mapping[str, Any]) -> bool:
    if found is None or (guard.get("is_for_recipients") and not planning.is_recipient(found.deadline, guard.get("to"))):
        return False
    return planning.holds(found.deadline, str(guard.get("stage") or ""), guard.get("revision"), now=found.now)


def insert_receipts(connection: Connection, receipts: Sequence[Mapping[str, Any]], *, team_id: str | None) -> None:
    """Store receipts of notifications.

    Each has `deadline_id`, `person_key`, and the fields of `NotificationReceipt` except `sent_at` and `id`. Receipts
    for deadlines of other teams than `team_id` are left out.
    """
    sql.run(connection, "insert_receipts", receipts=as_text(receipts), team_id=team_id)


def receipts_of(
    connection: Connection, deadline_id: UUID, *, before: UUID | None, limit: int
) -> list[NotificationReceipt]:
    """Return at most `limit` receipts of a deadline, newest first: those with ids below `before`; None: the newest."""
    return [
        NotificationReceipt(*row)
        for row in sql.run_leniently(
            connection, "receipts_of_deadline", deadline_id=deadline_id, before=before, limit=limit
        )
    ]


def received(connection: Connection, deadline_id: UUID, occurrences: Sequence[str]) -> set[str]:
    """Return the `Person.key` of each person who received a notification of these occurrences of a stage."""
    if not occurrences:
        return set()
    rows = sql.run(connection, "received_notices", deadline_id=deadline_id, stages=list(occurrences))
    return {key for (key,) in rows}


def create(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> set[UUID]:
    """Insert deadlines; return the inserted ids. A deadline whose name or occurrence is taken is left out.

    Args:
        connection: In a transaction.
        rows: Columns by name; `definition` is JSON text. `asked` is the JSON text of an object with the stages of the
            definition, which is added to it. Stages and texts that are the same object are sent once.
    """
    documents: dict[int, tuple[int, str]] = {}

    def position(document: object, text: Callable[[], str]) -> int:
        if id(document) not in documents:
            documents[id(document)] = len(documents), text()
        return documents[id(document)][0]

    elements = []
    for row in rows:
        element = {**row, "stages": position(row["stages"], partial(as_text, row["stages"]))}
        if (asked := row.get("asked")) is not None:
            element["asked"] = position(asked, partial(str, asked))
        elements.append(element)
    listed = f"[{','.join([text for _, text in documents.values()])}]"
    return {row[0] for row in sql.run(connection, "create_deadlines", deadlines=as_text(elements), documents=listed)}


def new_ids(connection: Connection, count: int) -> tuple[list[UUID], datetime]:
    """Return `count` new ids in ascending order, and the database's current time; `count` is 1 or more."""
    rows = sql.run(connection, "new_ids", count=count).fetchall()
    return [row[0] for row in rows], rows[0][1].astimezone(UTC)


def write(connection: Connection, changes: Mapping[UUID, Mapping[str, Any]]) -> None:
    """Update deadlines by id; a change has columns by name, `revisions` (added to the revision), and an `entry`."""
    if changes:
        elements = [{"id": deadline_id, "changes": one} for deadline_id, one in changes.items()]
        sql.run(connection, "write_deadlines", changes=as_text(elements))


def update(
    connection: Connection,
    deadline_id: UUID,
    entry: Mapping[str, Any],
    **columns: Any,  # noqa: ANN401 - by name
) -> Deadline:
    """Update a deadline as `write` does, with an entry for its history; return it."""
    write(connection, {deadline_id: {"entry": entry, **columns}})
    return read(connection, deadline_id)


def history_entry(what: str, at: datetime, **facts: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Return an entry of a deadline's history; facts that are None are left out.

    Raises:
        InvalidArgument: `by` or `reason` is not a string that Postgres can store.
    """
    for name in ("by", "reason"):
        arguments.check_text(name, facts.get(name))
    return {"what": what, "at": at, **{name: fact for name, fact in facts.items() if fact is not None}}


def insert_actions(connection: Connection, stages: Mapping[UUID, Collection[Stage]]) -> None:
    """Schedule the planned stages of new deadlines, which have no actions yet."""
    _schedule(connection, "insert_stages", stages)


def plan(connection: Connection, stages: Mapping[UUID, Collection[Stage]]) -> None:
    """Schedule the planned stages of deadlines; actions that are already pending are rescheduled."""
    _schedule(connection, "plan_stages", stages)


#: With this number of attempts, an action whose handler or table is missing is retried for six weeks before it fails.
_DEFAULT_OPTIONS: dict[str, dict[str, int]] = {"due": {"max_attempts": 1000}, "renewal": {"max_attempts": 1000}}


def _schedule(connection: Connection, statement: str, stages: Mapping[UUID, Collection[Stage]]) -> None:
    # Stages that are the same object for several deadlines are sent once.
    plans = {id(some): some for some in stages.values()}
    numbers_of = {key: number for number, key in enumerate(plans)}
    planned = [(numbers_of[key], stage) for key, some in plans.items() for stage in some if stage.is_planned]
    if not planned:
        return
    options = [stage.options or _DEFAULT_OPTIONS.get(stage.kind, {}) for _, stage in planned]
    sql.run(
        connection,
        statement,
        deadline_ids=uuids(stages),
        plans=numbers(numbers_of[id(some)] for some in stages.values()),
        plans_of_stages=numbers(number for number, _ in planned),
        keys=texts(stage.key for _, stage in planned),
        occurrences=numbers(stage.occurrence for _, stage in planned),
        action_types=texts(stage.action_type for _, stage in planned),
        instants=instants(stage.at for _, stage in planned),
        payloads=_optional([stage.payload for _, stage in planned], as_text),
        priorities=_optional([one.get("priority") for one in options]),
        max_attempts=_optional([one.get("max_attempts") for one in options]),
        lock_groups=_optional([one.get("lock_group") for one in options]),
    )


def _optional(values: Sequence[Any], text_of: Callable[[Any], str] = str) -> str | None:
    """Format values as an array literal of Postgres, with null for None; return None if all values are None."""
    if all(one is None for one in values):
        return None
    return texts(None if one is None else text_of(one) for one in values)


def planned_keys(deadline_id: UUID, stages: Iterable[Stage]) -> set[tuple[UUID, str, int]]:
    """Return the deadline id, the stage key and the number of each planned occurrence."""
    return {(deadline_id, one.key, one.occurrence) for one in stages if one.is_planned}


def drop(connection: Connection, keys: Iterable[tuple[UUID, str, int]]) -> None:
    """Delete the actions of planned occurrences that have not started; `keys` as `planned_keys` returns them."""
    gone = [{"deadline_id": deadline_id, "key": key, "occurrence": number} for deadline_id, key, number in keys]
    if gone:
        sql.run(connection, "drop_stages", gone=as_text(gone))


def withdraw(connection: Connection, ids: Collection[UUID], *, reason: str, by: str | None = None) -> None:
    """Cancel the pending actions of deadlines, except those that create the next deadline of a series."""
    sql.run(connection, "withdraw_stages", ids=list(ids), reason=reason, by=by)


def stage_of(connection: Connection, action_id: UUID) -> tuple[UUID | None, str | None]:
    """Return the id of an action's deadline and its stage occurrence ("reminder:daily#3"), each None without one."""
    return sql.run(connection, "stage_of_action", action_id=action_id).fetchone() or (None, None)


def actions_of(connection: Connection, deadline_id: UUID, *, limit: int) -> list[DeadlineAction]:
    """Return at most `limit` actions of a deadline, the latest first; pruned actions are missing."""
    return [
        DeadlineAction(*row)
        for row in sql.run_leniently(connection, "actions_of_deadline", deadline_id=deadline_id, limit=limit)
    ]


def ids_of_series(connection: Connection, series_id: UUID, *, since: datetime) -> list[UUID]:
    """Return the ids of the unresolved deadlines of a series whose `occurrence_at` is `since` or later."""
    return [row[0] for row in sql.run(connection, "deadline_ids_of_series", series_id=series_id, since=since)]


def find_occurrence(connection: Connection, series_id: UUID, occurrence_at: datetime) -> UUID | None:
    """Return the id of a series' deadline for an occurrence; None if that deadline does not exist."""
    row = sql.run(connection, "find_occurrence", series_id=series_id, occurrence_at=occurrence_at).fetchone()
    return None if row is None else row[0]


def requested(connection: Connection, deadline_id: UUID) -> str | None:
    """Return the arguments of the latest call from SQL that is not applied, as JSON text; None if there is none."""
    row = sql.run(connection, "requested_deadline", deadline_id=deadline_id).fetchone()
    return None if row is None else row[0]


def is_reserved(connection: Connection, deadline: Deadline) -> bool:
    """Return whether the row only reserves the id and the name for a call from SQL that no tick has applied."""
    return not deadline.definition and deadline.problem is None and requested(connection, deadline.id) is not None


def refuse_reserved(connection: Connection, reference: object, deadline: Deadline) -> None:
    """Raise `DeadlineNotApplied` if SQL has reserved the deadline, and no tick has applied the call."""
    if is_reserved(connection, deadline):
        raise DeadlineNotApplied(reference)


def end_request(connection: Connection, deadline_id: UUID) -> None:
    """Clear the arguments of a call from SQL that is not applied."""
    sql.run(connection, "end_deadline_request", deadline_id=deadline_id)


def delete(connection: Connection, deadline_id: UUID) -> None:
    """Delete a deadline."""
    sql.run(connection, "delete_deadline", deadline_id=deadline_id)


def prune(connection: Connection, *, retention_days: int, limit: int) -> int:
    """Delete at most `limit` deadlines that were closed more than `retention_days` ago; return their number."""
    return sql.run(connection, "prune_deadlines", retention_days=retention_days, limit=limit).rowcount


def _snapshot(row: Sequence[Any]) -> DeadlineSnapshot:
    *columns, now = row
    return DeadlineSnapshot(deadline_of(dict(zip(_FIELDS, columns, strict=True))), now.astimezone(UTC))


def as_text(document: object) -> str:
    """Return a document as JSON; it may contain stages, instants and ids."""
    return _encoder.encode(document)


def _json_value(value: object) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, Stage):
        return value.as_json()
    return value.isoformat() if isinstance(value, datetime) else str(value)


_encoder = json.JSONEncoder(default=_json_value, check_circular=False, separators=(",", ":"))
