"""Deadlines in the table. Every function takes the connection: it can be the caller's own."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from scheduled_actions.database.statements import Statements
from scheduled_actions.deadlines.model import Deadline, Stage
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules.rows import deadline_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

#: The columns that the reading statements return, in their order: the fields of a deadline.
_FIELDS = tuple(field.name for field in fields(Deadline) if field.name != "problem")
#: How long the beginning of a stage waits for somebody who is changing its deadline.
PATIENCE_MS = "2000"


class Found(NamedTuple):
    """A deadline, and the database's now when it was read."""

    deadline: Deadline
    now: datetime


class Name(NamedTuple):
    """Which occurrence of which stage of which deadline."""

    deadline_id: UUID
    key: str
    occurrence: int


class Bound(NamedTuple):
    """An action of a deadline, as far as a timeline needs it."""

    id: UUID
    action_type: str
    status: str
    scheduled_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    error_message: str | None
    #: None: a notice of a stage.
    deadline_stage: str | None


def get(
    connection: Connection,
    *,
    deadline_id: UUID | None = None,
    name: str | None = None,
    name_team_id: str | None = None,
    team_id: str | None = None,
) -> Found | None:
    """Return one deadline by id, or by name among those of `name_team_id`; within `team_id`, where that is given."""
    parameters = {"id": deadline_id, "name": name, "name_team_id": name_team_id, "team_id": team_id}
    rows = sql.run_leniently(connection, "get_deadline", parameters).fetchall()
    return _found(rows[0]) if rows else None


def lock(connection: Connection, ids: Collection[UUID], *, team_id: str | None = None) -> list[Found]:
    """Return deadlines by id, locked for the rest of the transaction; those of other teams are not among them."""
    parameters = {"ids": list(ids), "team_id": team_id}
    return [_found(row) for row in sql.run_leniently(connection, "lock_deadlines", parameters)]


def find(connection: Connection, **filters: Any) -> list[Deadline]:  # noqa: ANN401 - what list_deadlines.sql names
    """Return the newest deadlines that match every filter given."""
    return [_found(row).deadline for row in sql.run_leniently(connection, "list_deadlines", filters)]


def near(connection: Connection, **filters: Any) -> list[Deadline]:  # noqa: ANN401 - what deadlines_by_due.sql names
    """Return the unresolved deadlines that match every filter given, the nearest first."""
    return [_found(row).deadline for row in sql.run_leniently(connection, "deadlines_by_due", filters)]


def holding(connection: Connection, guards: Sequence[Mapping[str, Any]], *, team_id: str | None) -> list[bool]:
    """Return which of these notices may still begin to be sent.

    Until the transaction ends nobody can complete, move or cancel their deadlines: what is begun before then began in
    time, and whoever makes such a change returns when nothing that no longer holds can begin.

    Args:
        connection: In a transaction.
        guards: `{"deadline_id", "stage", "revision"}` each; without a `revision` it holds through moves, too. One for
            the deadline's own recipients has `is_for_recipients`, and in `to` the one that it is for.
        team_id: Of the notices; deadlines of other teams are not found.

    Returns:
        An answer each, in their order; False where there is no such deadline.
    """
    ids = {UUID(str(guard["deadline_id"])) for guard in guards}
    rows = sql.run_leniently(connection, "share_deadlines", {"ids": list(ids), "team_id": team_id}).fetchall()
    found = {one.deadline.id: one for one in map(_found, rows)}
    return [_holds(found.get(UUID(str(guard["deadline_id"]))), guard) for guard in guards]


class Noticed(NamedTuple):
    """Something that was sent of a deadline, or that a channel did not take."""

    sent_at: datetime
    #: The stage and its number: "reminder:60 days before#1".
    stage: str
    subject: str
    #: Their name or id; None where they have neither.
    recipient: str | None
    channel: str
    #: As it may be shown.
    address: str
    #: What the channel calls it.
    message_id: str | None
    #: Why the channel did not take it; None: it did.
    problem: str | None
    #: What sent it; it may have been pruned since.
    action_id: UUID
    #: UUID version 7: ordered by the instant.
    id: UUID


def keep_notices(connection: Connection, notices: Sequence[Mapping[str, Any]], *, team_id: str | None) -> None:
    """Keep what was sent, each with `deadline_id`, `action_id` and the fields of `Noticed`, its instant excepted.

    Those of deadlines of other teams than `team_id` are left out.
    """
    sql.run(connection, "keep_notices", {"notices": _json(notices), "team_id": team_id})


def notices_of(connection: Connection, deadline_id: UUID, *, before: UUID | None, limit: int) -> list[Noticed]:
    """Return the latest that was sent of a deadline, the newest first, those with ids below `before`."""
    parameters = {"deadline_id": deadline_id, "before": before, "limit": limit}
    rows = sql.run_leniently(connection, "notices_of_deadline", parameters)
    return [Noticed._make(row) for row in rows]


def _holds(found: Found | None, guard: Mapping[str, Any]) -> bool:
    if found is None:
        return False
    if guard.get("is_for_recipients") and not planning.is_recipient(found.deadline, guard.get("to")):
        return False
    key, _ = planning.parse_occurrence(str(guard.get("stage") or ""))
    return planning.holds(found.deadline, key, guard.get("revision"), now=found.now)


def create(connection: Connection, deadlines: Sequence[Mapping[str, Any]]) -> set[UUID]:
    """Insert deadlines; return the ids of those that were made: a name or an occurrence may have been taken."""
    return {row[0] for row in sql.run(connection, "create_deadlines", {"deadlines": _json(deadlines)})}


def new_ids(connection: Connection, count: int) -> tuple[list[UUID], datetime]:
    """Return so many new ids, at least one, and the database's now."""
    rows = sql.run(connection, "new_ids", {"count": count}).fetchall()
    return [row[0] for row in rows], rows[0][1].astimezone(UTC)


def write(connection: Connection, changes: Mapping[UUID, Mapping[str, Any]]) -> None:
    """Change deadlines: columns by name, `revisions` to add, and an `entry` of the history."""
    if changes:
        elements = [{"id": deadline_id, "changes": one} for deadline_id, one in changes.items()]
        sql.run(connection, "write_deadlines", {"changes": _json(elements)})


def plan(connection: Connection, deadline_id: UUID, stages: Iterable[Stage]) -> None:
    """Plan what is planned of a deadline's stages, or move what waits of them."""
    plan_many(connection, {deadline_id: stages})


def plan_many(connection: Connection, stages: Mapping[UUID, Iterable[Stage]]) -> None:
    """Plan what is planned of many deadlines' stages, or move what waits of them."""
    planned = [
        {
            "deadline_id": deadline_id,
            "key": one.key,
            "occurrence": one.occurrence,
            "action_type": one.action_type,
            "payload": one.payload,
            "at": one.at,
            **(one.options or _OWN_OPTIONS.get(one.kind, {})),
        }
        for deadline_id, some in stages.items()
        for one in some
        if one.is_planned
    ]
    if planned:
        sql.run(connection, "plan_stages", {"planned": _json(planned)})


#: What fails for want of a handler or a table is tried for six weeks before a person is needed.
_OWN_OPTIONS: dict[str, dict[str, int]] = {"due": {"max_attempts": 1000}, "renewal": {"max_attempts": 1000}}


def names_of(deadline_id: UUID, stages: Iterable[Stage]) -> set[Name]:
    """Return which occurrences are planned."""
    return {Name(deadline_id, one.key, one.occurrence) for one in stages if one.is_planned}


def drop(connection: Connection, names: Iterable[Name]) -> None:
    """Remove planned occurrences that had not begun."""
    gone = [name._asdict() for name in names]
    if gone:
        sql.run(connection, "drop_stages", {"gone": _json(gone)})


def withdraw(connection: Connection, ids: Collection[UUID], *, reason: str, by: str | None = None) -> None:
    """Cancel what waits of these deadlines."""
    sql.run(connection, "withdraw_stages", {"ids": list(ids), "reason": reason, "by": by})


def stage_of(connection: Connection, action_id: UUID) -> tuple[UUID | None, str | None]:
    """Return the deadline and the occurrence of the stage that an action is for."""
    row = sql.run(connection, "stage_of_action", {"action_id": action_id}).fetchone()
    return (None, None) if row is None else (row[0], row[1])


def bound(connection: Connection, deadline_id: UUID, *, limit: int) -> list[Bound]:
    """Return the latest actions of a deadline that are still kept, at most `limit`."""
    parameters = {"deadline_id": deadline_id, "limit": limit}
    return [Bound._make(row) for row in sql.run_leniently(connection, "actions_of_deadline", parameters)]


def ids_of_series(connection: Connection, series_id: UUID, *, since: datetime) -> list[UUID]:
    """Return the unresolved deadlines of a series from an occurrence on."""
    return [row[0] for row in sql.run(connection, "deadline_ids_of_series", {"series_id": series_id, "since": since})]


def find_occurrence(connection: Connection, series_id: UUID, occurrence_at: datetime) -> UUID | None:
    """Return the deadline of one occurrence of a series."""
    row = sql.run(connection, "find_occurrence", {"series_id": series_id, "occurrence_at": occurrence_at}).fetchone()
    return None if row is None else row[0]


def _found(row: Sequence[Any]) -> Found:
    *columns, now = row
    return Found(deadline_of(dict(zip(_FIELDS, columns, strict=True))), now.astimezone(UTC))


def _json(document: object) -> str:
    return json.dumps(document, default=_plain, check_circular=False)


def _plain(value: object) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, Stage):
        return value.as_json()
    return value.isoformat() if isinstance(value, datetime) else str(value)


def prune(connection: Connection, *, retention_days: int, limit: int) -> int:
    """Remove deadlines that ended before their retention, and the proof of what was sent of them; return how many."""
    return sql.run(connection, "prune_deadlines", {"retention_days": retention_days, "limit": limit}).rowcount
