"""Migrations: numbered SQL files, each applied once, in order, in a transaction of its own.

What a migration says of an index `concurrently` is done after them, outside any transaction: see `concurrent_indexes`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from scheduled_actions.core.errors import DeploymentError
from scheduled_actions.database import concurrent_indexes
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

_FOLDER = Path(__file__).parent / "migrations"
#: Two processes that migrate at once: the second waits, then finds nothing to do.
_LOCK_KEY = 0x5C4ED_AC7104
#: DDL that waits longer for a table gives up instead of standing in everybody's way.
_LOCK_TIMEOUT = "5s"
_OLDEST_SERVER = 140000
#: Functions that SQL of any application calls by name, under whatever search path it has.
_ENTRY_POINTS = [
    "schedule_action",
    "schedule_actions",
    "report_fact",
    "scheduled_actions_watch",
    "scheduled_actions_unwatch",
]
_FUNCTION = re.compile(r"^\s*create(?: or replace)? function (\w+)\(", re.MULTILINE)


class ServerUnsuitable(DeploymentError):
    """The server or the database cannot carry the tables."""

    code = "server_unsuitable"

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class MigrationBlocked(DeploymentError):
    """Another session kept a table locked for longer than a migration waits."""

    code = "migration_blocked"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"migration {name} waited {_LOCK_TIMEOUT} for a table that another session holds; "
            "nothing was changed: try again"
        )


def latest() -> int:
    """Return the number of the newest migration this code has."""
    return max(number for number, _ in _files())


def applied(connection: Connection) -> int:
    """Return the number of the newest migration the database has; 0 where there is none."""
    row = connection.execute("select to_regclass('scheduled_action_migrations') is not null").fetchone()
    if row is None or not row[0]:
        return 0
    row = connection.execute("select coalesce(max(number), 0) from scheduled_action_migrations").fetchone()
    return int(row[0]) if row else 0


def migrate(connection: Connection, *, report: Callable[[str], None] = lambda _: None) -> list[str]:
    """Bring the database up to this code; return the names of the migrations applied, oldest first, then the indexes.

    Migrations only expand, so that the code of one release before goes on running on the new schema.

    Args:
        connection: In autocommit mode, in the schema where the tables are to stand (the search path's first).
        report: Called with each migration's name before it is applied, and with `index NAME` before an index is built.

    Raises:
        ServerUnsuitable: The server is older than PostgreSQL 14, or the database's encoding is not UTF8.
        MigrationBlocked: Another session holds a table; nothing of that migration was changed.
        IndexNotBuilt: The server ended the build of an index; the next call resumes there.
    """
    _check_server(connection)
    done: list[str] = []
    for number, path in _files():
        try:
            with connection.transaction():
                if _apply(connection, number, path, report):
                    done.append(path.stem)
        except psycopg.errors.LockNotAvailable:
            raise MigrationBlocked(path.stem) from None
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
        _fix_search_paths(connection)
        sql.run(connection, "refresh_doors")
    return done + concurrent_indexes.reconcile(connection, _index_statements(), report=report)


def unfinished_indexes(connection: Connection) -> list[str]:
    """Return the names of the indexes that the migrations have and the database has not, or not whole."""
    return concurrent_indexes.unfinished(connection, _index_statements())


def _apply(connection: Connection, number: int, path: Path, report: Callable[[str], None]) -> bool:
    connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
    if applied(connection) >= number:
        return False
    report(path.stem)
    connection.execute("select set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
    connection.execute(
        "create table if not exists scheduled_action_migrations ("
        " number integer primary key, name text not null, applied_at timestamptz not null default now())"
    )
    in_transaction, _ = concurrent_indexes.split(_text(path))
    connection.execute(in_transaction)
    # In the same transaction: a replaced function loses its settings, and may run with its owner's rights.
    _fix_search_paths(connection)
    connection.execute("insert into scheduled_action_migrations (number, name) values (%s, %s)", [number, path.stem])
    return True


def _fix_search_paths(connection: Connection) -> None:
    """Let functions find what they name in our schema, whatever the search path of the session that runs them."""
    ours = sorted({name for _, path in _files() for name in _FUNCTION.findall(_text(path))})
    for (statement,) in sql.run(
        connection, "functions_without_search_path", {"ours": ours, "entry_points": _ENTRY_POINTS}
    ).fetchall():
        connection.execute(statement)


def _check_server(connection: Connection) -> None:
    if connection.info.server_version < _OLDEST_SERVER:
        found = connection.info.server_version // 10000
        raise ServerUnsuitable(f"the server is PostgreSQL {found}; 14 or newer is needed")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise ServerUnsuitable(f"the database's encoding is {encoding}; UTF8 is needed: create it with encoding 'UTF8'")


def _index_statements() -> list[concurrent_indexes.IndexStatement]:
    return [one for _, path in _files() for one in concurrent_indexes.split(_text(path))[1]]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _files() -> list[tuple[int, Path]]:
    found = [(re.match(r"(\d{4})_", path.name), path) for path in sorted(_FOLDER.glob("*.sql"))]
    return [(int(match[1]), path) for match, path in found if match]
