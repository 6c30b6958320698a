"""Create databases for the benchmarks on a Postgres server with its durable defaults."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from scheduled_actions.database import embedded as local_postgres
from scheduled_actions.database.connection import Database
from scheduled_actions.database.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduled_actions.database.connection import Connection

#: Environment variable with the DSN of a server to use instead of a temporary one.
URL_VARIABLE = "DATABASE_URL_BENCH"


class Databases:
    """Create and drop databases on one server.

    Args:
        dsn: DSN of any database of the server; the role needs CREATEDB.
        is_embedded: Whether the server was started for this run.
    """

    def __init__(self, dsn: str, *, is_embedded: bool) -> None:
        self._dsn = dsn
        self.is_embedded = is_embedded

    @contextmanager
    def fresh(self, *, like: str | None = None) -> Iterator[str]:
        """Yield the DSN of a new, migrated database and drop it afterwards.

        Args:
            like: DSN of a database to copy with all rows; it must have no open connections.
        """
        name = f"scheduled_actions_bench_{uuid4().hex}"
        dsn = make_conninfo(self._dsn, dbname=name)
        with self.connection() as connection:
            connection.execute(_create(connection, name, like))
        try:
            if like is None:
                with psycopg.connect(dsn, autocommit=True) as connection:
                    migrate(connection)
            yield dsn
        finally:
            with self.connection() as connection:
                connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def connection(self) -> psycopg.Connection[tuple[object, ...]]:
        """Return a connection to the server's default database."""
        return psycopg.connect(self._dsn, autocommit=True)


@contextmanager
def databases() -> Iterator[Databases]:
    """Yield databases on the server of `DATABASE_URL_BENCH`, or on a temporary one that is removed afterwards."""
    given = os.environ.get(URL_VARIABLE, "").strip()
    if given:
        yield Databases(given, is_embedded=False)
        return
    directory = Path(tempfile.mkdtemp(prefix="scheduled-actions-bench-"))
    directory.chmod(0o711)  # Under root the server runs as another account, which needs access.
    try:
        with local_postgres.attach(directory) as server:
            yield Databases(server.dsn, is_embedded=True)
    finally:
        local_postgres.remove(directory)
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def connected(dsn: str) -> Iterator[Connection]:
    """Yield a connection with the package's own settings (no named prepared statements)."""
    with Database(lambda: dsn).connect() as connection:
        yield connection


def _create(connection: psycopg.Connection[tuple[object, ...]], name: str, like: str | None) -> sql.Composed:
    statement = sql.SQL("create database {}").format(sql.Identifier(name))
    if like is None:
        return statement
    original = psycopg.conninfo.conninfo_to_dict(like)["dbname"]
    statement += sql.SQL(" template {}").format(sql.Identifier(str(original)))
    if connection.info.server_version >= 150000:
        # Copies files instead of writing every page to the WAL.
        statement += sql.SQL(" strategy file_copy")
    return statement
