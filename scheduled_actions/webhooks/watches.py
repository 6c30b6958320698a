"""Watch tables: add and remove the triggers that emit an event for each row that a statement changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from scheduled_actions.core.errors import TableBusy, UnknownTable
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements
from scheduled_actions.database.transactions import database_refusal

sql = Statements(__file__)

#: Changes of a row, as the verbs of their events.
VERBS = ("created", "updated", "deleted")
#: Maximum wait for the table lock, in milliseconds. It is short, because writers queue behind the waiting session.
_PATIENCE_MS = "5000"
#: Errors of the database for an unknown or invalid name.
_NO_SUCH_NAME = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.InvalidName,
    psycopg.errors.SyntaxError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A watch of a table: the changes of its rows are emitted as events of one entity."""

    #: The table's name in SQL syntax, quoted if necessary.
    table: str
    entity: str
    #: Columns of the entity's id; two or more are delivered as a JSON list. None: the primary key.
    id_columns: tuple[str, ...] | None = None
    team_column: str | None = None
    #: Columns that events contain, and whose changes emit an event; None: all columns.
    columns: tuple[str, ...] | None = None
    on: tuple[str, ...] = VERBS
    #: Seconds within which equal events of an entity are merged; 0: never.
    dedup_window: float = 0
    #: Whether the triggers are enabled.
    is_enabled: bool = True
    #: Required columns that the table no longer has. Without a column of the id or the team, each change logs a warning
    #: instead of emitting an event.
    missing: tuple[str, ...] = ()

    @property
    def events(self) -> tuple[str, ...]:
        """The event types that the watch emits, such as `invoice:created`."""
        return tuple(f"{self.entity}:{verb}" for verb in self.on)


def watch(connection: Connection, new: Watch) -> Watch:
    """Watch a table, replacing its existing watch of the same entity; return the watch.

    Raises:
        UnknownTable: No table of that name is on the search path.
        TableBusy: Another session held a lock on the table for five seconds; nothing was changed.
        RequestError: A setting is invalid, or the table cannot be watched; nothing was changed.
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
    """Stop watching a table; return the number of watches removed.

    Args:
        connection: To the database; the watches are removed when its transaction commits.
        table: The table's name in SQL syntax.
        entity: The entity of the watch to remove; None: all watches of the table.

    Raises:
        UnknownTable: No table of that name is on the search path.
        TableBusy: Another session held a lock on the table for five seconds; nothing was changed.
    """
    return int(_change(connection, "unwatch_table", table, {"entity": entity}))


def watched(connection: Connection) -> list[Watch]:
    """Return all watches in this database, sorted by table name."""
    return [
        Watch(
            table=table,
            entity=settings["entity"],
            id_columns=tuple(settings["id"]),
            team_column=settings.get("team"),
            columns=None if settings.get("columns") is None else tuple(settings["columns"]),
            on=tuple(settings["on"]),
            dedup_window=settings["dedup_window"],
            is_enabled=is_enabled,
            missing=tuple(missing),
        )
        for table, settings, is_enabled, missing in sql.run(connection, "watched_tables")
    ]


def _change(connection: Connection, statement: str, table: str, parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as the statement returns it
    try:
        row = sql.run(connection, statement, table=table, patience_ms=_PATIENCE_MS, **parameters).fetchone()
    except psycopg.errors.LockNotAvailable:
        raise TableBusy(table) from None
    except _NO_SUCH_NAME as error:
        raise UnknownTable(table) from error
    except (psycopg.errors.InvalidParameterValue, psycopg.DataError) as error:
        raise database_refusal(error) from error
    return row[0] if row else None


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)
