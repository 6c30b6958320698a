"""Schedule, read and change actions in the database, each on the given connection, which may be the caller's."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from json.encoder import encode_basestring_ascii
from typing import Any, NamedTuple, cast
from uuid import UUID

import psycopg

from scheduled_actions.core.action import Action, ActionSummary, ParentAction, Scheduled, Status
from scheduled_actions.core.errors import RefusedByDatabase, UnknownAction, WrongStatus
from scheduled_actions.database import shared_settings
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements, uuids
from scheduled_actions.database.transactions import database_refusal, running_action, savepoint
from scheduled_actions.registry import Registry

sql = Statements(__file__)

#: Columns whose value is JSON text already.
_DOCUMENTS = frozenset({"payload", "retry", "target", "metadata", "condition", "on_success", "on_failure"})
#: The columns that `update_action.sql` can set to null.
_NULLABLE = ("condition", "on_success", "on_failure", "limit", "expires_at")
#: Parameters of `update_action.sql` when none of those columns changes.
_UNCHANGED: dict[str, Any] = {
    **dict.fromkeys((f"sets_{name}" for name in _NULLABLE), False),
    **dict.fromkeys(_NULLABLE),
}
#: The columns of the reading statements, in order.
_FIELDS = tuple(Action.__dataclass_fields__)
#: Number of expired idempotency keys deleted with each stored response: more than one, so that they do not accumulate.
_KEYS_PRUNED = 10


def schedule(connection: Connection, new: dict[str, Any]) -> Scheduled:
    """Insert one action, or merge it into a pending one.

    Args:
        connection: In a transaction, the action exists once it commits.
        new: Arguments of the SQL function; documents as JSON text; `delay` in seconds or `scheduled_at`.

    Raises:
        RequestError: An argument is invalid; nothing was changed, and the caller's transaction remains usable.
    """
    try:
        with savepoint(connection):
            if running_action.get() is None:
                return Scheduled(*sql.run_given(connection, "schedule_action", new).fetchall()[0])
            return _insert(connection, [element(new)])[0]
    except (psycopg.errors.InvalidParameterValue, psycopg.DataError) as error:
        raise RefusedByDatabase(str(database_refusal(error)).removeprefix("new_actions[0]: ")) from error


def schedule_elements(connection: Connection, elements: Sequence[str]) -> list[Scheduled]:
    """Schedule many actions in one round trip; return the results in the same order.

    Args:
        connection: In a transaction, the actions exist once it commits.
        elements: As returned by `element`.

    Raises:
        RequestError: An action is invalid; none was scheduled.
    """
    try:
        with savepoint(connection):
            return _insert(connection, elements)
    except (psycopg.errors.InvalidParameterValue, psycopg.DataError) as error:
        raise database_refusal(error) from error


def _insert(connection: Connection, elements: Sequence[str]) -> list[Scheduled]:
    """Insert actions; inside a handler, store which action scheduled them."""
    text, parent = f"[{','.join(elements)}]", running_action.get()
    if parent is None:
        cursor = sql.run(connection, "schedule_actions", {"new_actions": text})
    else:
        cursor = sql.run(connection, "schedule_from_action", {"new_actions": text, "scheduled_by": parent})
    # Converted one by one: a second list of thousands of rows would occupy the garbage collector.
    cursor.row_factory = lambda _: Scheduled._make
    return cast("list[Scheduled]", cursor.fetchall())


def elements_text(new_actions: Sequence[Mapping[str, Any]]) -> str:
    """Return new actions as the JSON array that the SQL function `schedule_actions` takes."""
    return f"[{','.join([element(new) for new in new_actions])}]"


def as_element(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an element of a decoded `elements_text` array back to the form that `elements_text` takes."""
    return {name: json.dumps(value) if name in _DOCUMENTS else value for name, value in stored.items()}


def element(new: Mapping[str, Any]) -> str:
    """Return a new action as an element of that array.

    Documents are JSON text and inserted unchanged; arguments that are not given are omitted.
    """
    return "{" + ",".join([f'"{key}":{one if key in _DOCUMENTS else _json(one)}' for key, one in new.items()]) + "}"


def _json(value: object) -> str:
    # All numbers are finite: `json.dumps` would take five times as long.
    kind = type(value)
    if kind is str:
        return encode_basestring_ascii(value)  # type: ignore[arg-type] # a string by now
    if kind is int or kind is float:
        return repr(value)
    return json.dumps(value, default=lambda one: one.isoformat() if isinstance(one, datetime) else str(one))


def get(connection: Connection, action_id: UUID, *, team_id: str | None = None, locked: bool = False) -> Action:
    """Return an action; with `locked`, lock it until the transaction ends.

    Raises:
        UnknownAction: No action has this id (in that team).
    """
    found = one(connection, "lock_action" if locked else "get_action", id=action_id, team_id=team_id)
    if found is None:
        raise UnknownAction(action_id)
    return found


def one(connection: Connection, name: str, /, **parameters: Any) -> Action | None:  # noqa: ANN401 - of the statement
    """Run a statement that reads or changes one action; return the action, or None if it matches none."""
    row = sql.run_leniently(connection, name, parameters).fetchone()
    return None if row is None else action_of(row)


def is_untaken(connection: Connection, action_id: UUID) -> bool:
    """Return whether an action is claimed for an executor, and no worker has taken it over."""
    found: bool = sql.run_one(connection, "is_untaken", {"id": action_id})[0]
    return found


def parent(connection: Connection, action_id: UUID, *, team_id: str | None) -> ParentAction | None:
    """Return the action that scheduled another one; None if it was pruned or belongs to another team.

    Args:
        connection: Reads the action.
        action_id: `scheduled_by` of the other action.
        team_id: The team of the other action; None matches only actions without a team.
    """
    row = sql.run_leniently(connection, "parent_action", id=action_id, team_id=team_id).fetchone()
    if row is None:
        return None
    found = dict(zip(ParentAction.__dataclass_fields__, row, strict=True))
    return ParentAction(**found | {"status": Status(found["status"])})


def change(
    connection: Connection,
    name: str,
    action_id: UUID,
    *,
    team_id: str | None,
    wanted_status: str,
    by: str | None = None,
) -> Action:
    """Run a statement that changes one action if it has a wanted status; return the action.

    Args:
        connection: Changes the action.
        name: The name of the statement.
        action_id: The action.
        team_id: Only within this team.
        wanted_status: The statuses that the statement accepts, for the error.
        by: Who changes the action; stored in its history.

    Raises:
        UnknownAction: No action has this id (in that team).
        WrongStatus: The action has another status.
    """
    changed = one(connection, name, id=action_id, team_id=team_id, by=by)
    if changed is None:
        raise WrongStatus(action_id, get(connection, action_id, team_id=team_id).status, wanted_status)
    return changed


def read(connection: Connection, ids: Sequence[UUID]) -> list[Action]:
    """Return the actions with these ids, newest first; ids without an action are ignored."""
    if not ids:
        return []
    return [action_of(row) for row in sql.run_leniently(connection, "get_actions", {"ids": uuids(ids)}).fetchall()]


def summarize(connection: Connection, ids: Sequence[UUID]) -> list[ActionSummary]:
    """Return the summaries of the actions with these ids, newest first; ids without an action are ignored.

    For 50 actions it takes a third of the time of `read`.
    """
    if not ids:
        return []
    rows = sql.run_leniently(connection, "summarize_actions", {"ids": uuids(ids)}).fetchall()
    return list(map(ActionSummary._make, rows))


def update(connection: Connection, action_id: UUID, changes: Mapping[str, Any]) -> Action | None:
    """Change a pending action and return it; None if it cannot be changed.

    Args:
        connection: In a transaction, the change takes effect once it commits.
        action_id: The action.
        changes: Parameters of `update_action.sql`, with `team_id` and `edit_lock_seconds`; documents as JSON text.

    Returns:
        The action; None if it does not exist (in the team), is not pending, would expire before it could start, or,
        if `edit_lock_seconds` is given, is overdue or due within that time.
    """
    return one(connection, "update_action", **_UNCHANGED | {"id": action_id, **changes})


def action_of(row: Sequence[Any]) -> Action:
    """Return the action of a row with the columns of `action_columns.inc.sql`."""
    values = dict(zip(_FIELDS, row, strict=True))
    values["status"] = Status(values["status"])
    # Statements outside the package may store any JSON; readers expect objects with an outcome.
    values["history"] = tuple(
        entry for entry in values["history"] if isinstance(entry, dict) and isinstance(entry.get("outcome"), str)
    )
    if not isinstance(values["waiting"], dict):
        values["waiting"] = None
    return Action(**values)


class DueCounts(NamedTuple):
    """Numbers of due actions, by whether claims may take them."""

    #: Due and not parked.
    ready: int = 0
    #: How many of those are overdue.
    overdue: int = 0
    #: For how many seconds the oldest of them has been due; None without any.
    oldest_seconds: float | None = None
    #: In the queues of limit keys.
    queued: int = 0
    #: Held back by pauses.
    paused: int = 0
    #: In the queues of executors.
    for_executors: int = 0

    @property
    def due(self) -> int:
        """Number of due actions."""
        return self.ready + self.queued + self.paused + self.for_executors


def due(connection: Connection, *, overdue_seconds: float, most: int) -> DueCounts:
    """Count due actions, each number up to `most`; `ready` up to `most` with and `most` without a lock group."""
    return DueCounts(*sql.run_one(connection, "due_actions", {"overdue_seconds": overdue_seconds, "most": most}))


def visible(connection: Connection, ids: Collection[UUID]) -> list[UUID]:
    """Return which of these actions are committed."""
    return [row[0] for row in sql.run(connection, "visible", {"ids": list(ids)})]


def insert_rows(
    connection: psycopg.Connection[Any],
    keys: Sequence[str],
    *,
    name: str,
    team_id: str | None,
    again_after_seconds: float | None,
) -> set[str]:
    """Store the keys of query rows that become actions; return those that were new or had expired.

    Args:
        connection: In the transaction that also inserts the actions.
        keys: Identify the rows.
        name: Scope of the keys.
        team_id: The team of the actions.
        again_after_seconds: Seconds until a row may become an action again; None: never.
    """
    if not keys:
        return set()
    return {
        row[0]
        for row in sql.run(
            connection,
            "insert_rows",
            {"team_id": team_id or "", "name": name, "keys": list(keys), "seconds": again_after_seconds},
        )
    }


def prune_rows(connection: Connection, *, limit: int) -> int:
    """Delete at most `limit` expired keys, whose rows may become actions again; return the number deleted."""
    return sql.run(connection, "prune_rows", {"limit": limit}).rowcount


def claim_key(connection: Connection, *, scope: str, key: str, digest: bytes) -> bool:
    """Claim an idempotency key for this transaction; return False if a response of the last day is stored under it.

    Waits while another transaction with the same key is open.
    """
    return (
        sql.run(connection, "claim_idempotency_key", {"scope": scope, "key": key, "digest": digest}).fetchone()
        is not None
    )


def stored_response(connection: Connection, *, scope: str, key: str) -> tuple[bytes, Any] | None:
    """Return the digest of the first request with an idempotency key, and its response; None for an unknown key."""
    row = sql.run(connection, "stored_response", {"scope": scope, "key": key}).fetchone()
    return None if row is None else (bytes(row[0]), row[1])


def store_response(connection: Connection, *, scope: str, key: str, response: object) -> None:
    """Store the response to a request with an idempotency key, and delete a few expired keys."""
    sql.run(connection, "store_response", {"scope": scope, "key": key, "response": json.dumps(response)})
    sql.run(connection, "prune_idempotency_keys", {"limit": _KEYS_PRUNED})


def share_settings(connection: Connection, registry: Registry, *, window_seconds: float) -> None:
    """Store in the database the settings that SQL functions read: dedup windows, and the types open to teams.

    Args:
        connection: In autocommit mode.
        registry: The handlers and their options.
        window_seconds: The default dedup window in seconds.
    """
    options = {action_type: registry.options(action_type) for action_type in sorted(registry.types)}
    shared_settings.write(
        connection,
        "dedup_window",
        {
            "default": window_seconds,
            "by_type": {name: one.dedup_window for name, one in options.items() if one.dedup_window is not None},
        },
    )
    shared_settings.write(
        connection, "types_open_to_teams", [name for name, one in options.items() if one.open_to_teams]
    )
