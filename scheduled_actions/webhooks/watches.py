"""Watched tables: their own triggers schedule an event for each row that a statement changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from scheduled_actions.core.errors import TableBusy, UnknownTable
from scheduled_actions.database.statements import Statements
from scheduled_actions.database.transactions import refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

#: What can happen to a row, and what its event is called.
VERBS = ("created", "updated", "deleted")
#: Writers wait behind whoever waits for a table: so nobody does for long.
_PATIENCE_MS = "5000"
#: What the database says of a name: it finds nothing, or cannot read it.
_NO_SUCH_NAME = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.InvalidName,
    psycopg.errors.SyntaxError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """One entity of a watched table."""

    #: As SQL names it, quoted where it must be.
    table: str
    entity: str
    #: What makes the entity's id; more than one are delivered as a JSON list.
    id_columns: tuple[str, ...] | None = None
    team_column: str | None = None
    #: What events tell, and whose changes count; None: every column.
    columns: tuple[str, ...] | None = None
    on: tuple[str, ...] = VERBS
    #: Seconds in which the same event of the same entity is one; 0 merges nothing.
    dedup_window: float = 0
    #: Whether its triggers fire.
    is_enabled: bool = True
    #: Columns that it names and the table no longer has. Without one that tells the id or the team there are no events,
    #: but a warning for each.
    missing: tuple[str, ...] = ()


def watch(connection: Connection, new: Watch) -> Watch:
    """Watch a table for an entity, in place of how it was watched for the same entity before; return it as it is now.

    Raises:
        UnknownTable: The search path finds no table of that name.
        TableBusy: Another session kept the table locked; nothing was changed.
        RequestError: A column, the entity or a verb cannot be; the message names it.
    """
    table = _change(
        connection,
        "watch_table",
        new.table,
        {
            "entity": new.entity,
            "id_columns": _listed(new.id_columns),
            "team_column": new.team_column,
            "columns": _listed(new.columns),
            "on": list(new.on),
            "dedup_window": new.dedup_window,
        },
    )
    return next(one for one in watched(connection) if (one.table, one.entity) == (table, new.entity))


def unwatch(connection: Connection, table: str, *, entity: str | None = None) -> int:
    """End the watch of one entity of a table, or of all; return how many there were.

    Raises:
        UnknownTable: The search path finds no table of that name.
        TableBusy: Another session kept the table locked; nothing was changed.
    """
    return int(_change(connection, "unwatch_table", table, {"entity": entity}))


def watched(connection: Connection) -> list[Watch]:
    """Return every watch of this database, in the order of the tables' names."""
    return [_watch(*row) for row in sql.run(connection, "watched_tables").fetchall()]


def _change(connection: Connection, statement: str, table: str, parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever it answers
    try:
        row = sql.run(connection, statement, {"table": table, "patience_ms": _PATIENCE_MS, **parameters}).fetchone()
    except psycopg.errors.LockNotAvailable:
        raise TableBusy(table) from None
    except _NO_SUCH_NAME as error:
        raise UnknownTable(table) from error
    except (psycopg.errors.InvalidParameterValue, psycopg.DataError) as error:
        raise refused(error) from error
    return row[0] if row else None


def _watch(table: str, settings: Mapping[str, Any], is_enabled: bool, missing: Sequence[str]) -> Watch:  # noqa: FBT001 - a column
    columns = settings.get("columns")
    return Watch(
        table=table,
        entity=settings["entity"],
        id_columns=tuple(settings["id"]),
        team_column=settings.get("team"),
        columns=None if columns is None else tuple(columns),
        on=tuple(settings["on"]),
        dedup_window=settings["dedup_window"],
        is_enabled=is_enabled,
        missing=tuple(missing),
    )


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)
