"""Actions in the table: schedule, read, change. Every function takes the connection: it can be the caller's own."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import psycopg

from scheduled_actions.core.action import Action, Scheduled, Status
from scheduled_actions.core.errors import RefusedByDatabase
from scheduled_actions.database.statements import Statements
from scheduled_actions.database.transactions import refused, running_action, savepoint

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

#: The JSON texts of a new action; the database parses them.
_DOCUMENTS = frozenset({"payload", "retry", "target", "metadata", "condition", "on_success", "on_failure"})


#: What `update_action.sql` takes where neither condition nor follow-ups change.
_NO_EXTRAS: dict[str, Any] = {
    **dict.fromkeys(("sets_condition", "sets_on_success", "sets_on_failure"), False),
    **dict.fromkeys(("condition", "on_success", "on_failure")),
}


def schedule(connection: Connection, new: dict[str, Any]) -> Scheduled:
    """Put one action in the table, or merge it into one that waits.

    Args:
        connection: Its transaction, if any, decides whether the action ever was.
        new: The arguments given of the SQL function; documents as JSON text; `delay` in seconds or `scheduled_at`.

    Raises:
        RequestError: An argument cannot be what it is; in a transaction of the caller's nothing was changed either.
    """
    from scheduled_actions.actions.model import COLUMN_DEFAULTS  # noqa: PLC0415 - a cold tick does without

    try:
        with savepoint(connection):
            if running_action.get() is None:
                row = sql.run(connection, "schedule_action", COLUMN_DEFAULTS | new).fetchone()
            else:
                row = _put(connection, [new]).fetchone()
    except (psycopg.errors.InvalidParameterValue, psycopg.DataError) as error:
        raise RefusedByDatabase(str(refused(error)).removeprefix("new_actions[0]: ")) from error
    assert row is not None  # noqa: S101 - the function always answers one row
    return Scheduled(*row)


def schedule_many(connection: Connection, new_actions: Sequence[Mapping[str, Any]]) -> list[Scheduled]:
    """Put many actions in the table in one round trip; answered in their order.

    Args:
        connection: Its transaction, if any, decides whether the actions ever were.
        new_actions: As `elements_text` takes them.

    Raises:
        RequestError: One of them cannot be; then none was scheduled.
    """
    try:
        with savepoint(connection):
            rows = _put(connection, new_actions).fetchall()
    except (psycopg.errors.InvalidParameterValue, psycopg.DataError) as error:
        raise refused(error) from error
    return [Scheduled(*row) for row in rows]


def _put(connection: Connection, new_actions: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - a cursor
    """Put them in the table, as those of the action whose handler is running here, where one is."""
    text, parent = elements_text(new_actions), running_action.get()
    if parent is None:
        return sql.run(connection, "schedule_actions", {"new_actions": text})
    return sql.run(connection, "schedule_from_action", {"new_actions": text, "scheduled_by": parent})


def elements_text(new_actions: Sequence[Mapping[str, Any]]) -> str:
    """Return new actions as the JSON array that the SQL function `schedule_actions` takes.

    What is not given stays out of it. Documents are JSON text already and are put in as they are.
    """
    return f"[{','.join([_element(new) for new in new_actions])}]"


def as_element(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was read from an array of `elements_text` as that takes it."""
    return {name: json.dumps(value) if name in _DOCUMENTS else value for name, value in stored.items()}


def _element(new: Mapping[str, Any]) -> str:
    parts = [f'"{name}":{value if name in _DOCUMENTS else _json(value)}' for name, value in new.items()]
    return f"{{{','.join(parts)}}}"


def _json(value: object) -> str:
    # Most texts are plain names: quoting those by hand takes a tenth of the time.
    if type(value) is str and _PLAIN.fullmatch(value):
        return f'"{value}"'
    return json.dumps(value, default=_as_text)


_PLAIN = re.compile(r"[A-Za-z0-9 ._:@/-]*")


def _as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def get(connection: Connection, action_id: UUID, *, team_id: str | None = None) -> Action | None:
    """Return one action; None when there is none of that id (in that team)."""
    row = sql.run_leniently(connection, "get_action", {"id": action_id, "team_id": team_id}).fetchone()
    return None if row is None else action_of(row)


def update(connection: Connection, action_id: UUID, changes: Mapping[str, Any]) -> Action | None:
    """Change a pending action; None when it is not pending, not there, or locked.

    Args:
        connection: Its transaction, if any, decides whether the change ever was.
        action_id: Which.
        changes: What `update_action.sql` names; documents as JSON text.
    """
    row = sql.run_leniently(connection, "update_action", _NO_EXTRAS | {"id": action_id, **changes}).fetchone()
    return None if row is None else action_of(row)


def lock_after(connection: Connection) -> None:
    """Let no other transaction change what an action comes after, until this one ends."""
    sql.run(connection, "lock_after")


def extras_problem(
    connection: Connection, action_id: UUID, columns: Mapping[str, Any], *, team_id: str | None
) -> tuple[str | None, bool]:
    """Return what is wrong with an action's new condition and follow-ups, and whether it would wait for itself."""
    names = ("condition", "after", "on_success", "on_failure")
    given = {name: columns.get(name) for name in names} | {"id": action_id, "team_id": team_id}
    row = sql.run(connection, "waits_for_itself", given).fetchone()
    assert row is not None  # noqa: S101 - a select of one row
    return row[0], row[1]


def cancel(
    connection: Connection,
    action_id: UUID,
    *,
    by: str | None,
    reason: str | None,
    also_running: bool,
    team_id: str | None,
    edit_lock_seconds: int | None,
) -> Action | None:
    """Cancel a waiting action, or ask a running one to stop; None when it has ended, is not there, or is locked."""
    row = sql.run_leniently(
        connection,
        "cancel_action",
        {
            "id": action_id,
            "by": by,
            "reason": reason,
            "also_running": also_running,
            "team_id": team_id,
            "edit_lock_seconds": edit_lock_seconds,
        },
    ).fetchone()
    return None if row is None else action_of(row)


def retry(connection: Connection, action_id: UUID, *, by: str | None, team_id: str | None) -> Action | None:
    """Make a failed, cancelled or skipped action pending again; None when it is none of these or not there."""
    row = sql.run_leniently(connection, "retry_action", {"id": action_id, "by": by, "team_id": team_id}).fetchone()
    return None if row is None else action_of(row)


def by_status(connection: Connection) -> dict[Status, int]:
    """Return how many actions stand in each status; it reads them all."""
    found = dict(sql.run(connection, "count_by_status").fetchall())
    return {status: found.get(status.value, 0) for status in Status}


def visible(connection: Connection, ids: Collection[UUID]) -> list[UUID]:
    """Return which of these actions are committed."""
    return [row[0] for row in sql.run(connection, "visible", {"ids": list(ids)})]


def action_of(row: Sequence[Any]) -> Action:
    """Return the action of a row that has its columns in their order."""
    values = dict(zip(_FIELDS, row, strict=True))
    values["status"] = Status(values["status"])
    # Documents written by SQL may have any shape; readers get ours.
    values["history"] = tuple(one for one in values["history"] if _is_entry(one))
    if not isinstance(values["waiting"], dict):
        values["waiting"] = None
    return Action(**values)


def _is_entry(stored: object) -> bool:
    return isinstance(stored, dict) and isinstance(stored.get("outcome"), str)


#: The columns that the reading statements return, in their order: the fields of an action.
_FIELDS = tuple(Action.__dataclass_fields__)
