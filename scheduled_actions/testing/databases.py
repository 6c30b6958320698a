"""Provide databases for tests: the tables are created once in a template, and each test gets a fresh clone of it."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, LiteralString, Self
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from scheduled_actions.core.errors import NotConfigured
from scheduled_actions.database.embedded import remove
from scheduled_actions.database.migrate import migrate

#: The variable with the address of the server on which tests may create databases; unset: an embedded server.
URL_VARIABLE = "SCHEDULED_ACTIONS_TEST_DATABASE_URL"
#: Options of an embedded server for tests. Tests kill processes, not the machine, so no write is lost.
NOT_DURABLE = ("-c", "fsync=off", "-c", "max_connections=500")


class Databases:
    """Fresh databases on one server, each a clone of a template with the migrated, empty tables.

    Args:
        dsn: Address of the server, with a role that may create databases; other databases are not changed.
        prepare: Creates the application's own tables in the template, on a connection in autocommit mode; called once.
        template: The template's name, if several processes share it; None: one for this process, dropped at the end.
        copies_files: Whether to clone by copying files, which needs Postgres 15 or newer. It is less than half the work
            if the server's files are in memory, but slow if each write is flushed to a disk.
    """

    def __init__(
        self,
        dsn: str,
        *,
        prepare: Callable[[psycopg.Connection[Any]], Any] | None = None,
        template: str | None = None,
        copies_files: bool = False,
    ) -> None:
        self._dsn = dsn
        self._prepare = prepare
        self._is_shared = template is not None
        self._name = template or f"scheduled_actions_template_{uuid4().hex}"
        self._create: LiteralString = "create database {} template {}" + (" strategy file_copy" if copies_files else "")
        self._admin = psycopg.connect(dsn, autocommit=True)

    def template(self) -> str:
        """Return the name of the template; create the template if it does not exist.

        Raises:
            NotConfigured: The role may not create databases.
        """
        self._admin.execute("select pg_advisory_lock(hashtext(%s))", [self._name])
        try:
            if self._admin.execute("select from pg_database where datname = %s", [self._name]).fetchone() is None:
                self._create_template()
        except psycopg.errors.InsufficientPrivilege as error:
            raise NotConfigured(
                URL_VARIABLE,
                f"its role may not create databases ({error.diag.message_primary}); run `alter role … createdb`",
                problem="cannot be used",
            ) from None
        finally:
            self._admin.execute("select pg_advisory_unlock(hashtext(%s))", [self._name])
        return self._name

    def _create_template(self) -> None:
        # Renamed when complete, so that a process that fails leaves no incomplete template under this name.
        unfinished = f"{self._name}_half"
        self._drop(unfinished)
        self._run("create database {}", unfinished)
        with psycopg.connect(make_conninfo(self._dsn, dbname=unfinished), autocommit=True) as connection:
            migrate(connection)
            if self._prepare is not None:
                self._prepare(connection)
        self._run("alter database {} allow_connections false", unfinished)
        self._run("alter database {} rename to {}", unfinished, self._name)

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """Yield the address of a new database with the empty tables; drop the database when the block ends."""
        name = f"scheduled_actions_test_{uuid4().hex}"
        self._run(self._create, name, self.template())
        try:
            yield make_conninfo(self._dsn, dbname=name)
        finally:
            self._drop(name)

    def _drop(self, name: str) -> None:
        try:
            self._run("drop database if exists {} with (force)", name)
        except psycopg.errors.InsufficientPrivilege:
            # Only a superuser may end an autovacuum worker with `force`. Without it, Postgres ends the worker.
            self._run("drop database if exists {}", name)

    def _run(self, statement: LiteralString, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_shared:
            with suppress(psycopg.Error):
                self._drop(self._name)
        self._admin.close()


def server_directory() -> Path:
    """Return a directory for embedded servers: in memory if 2 GiB are free there, because cloning is faster."""
    memory = Path("/dev/shm")  # noqa: S108 - each run creates its own directory in it
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > 2**31
    return memory if has_room else Path(tempfile.gettempdir())


def remove_abandoned_servers(prefix: str) -> None:
    """Remove the servers of killed runs of this user; a server in use is not removed."""
    for left in server_directory().glob(f"{prefix}*"):
        with suppress(OSError):  # It may be stopping.
            if left.stat().st_uid == os.geteuid():
                remove(left)


def remove_server(directory: Path) -> None:
    """Remove the server of a run that has ended, with its data."""
    if directory.is_dir():
        remove(directory)
        shutil.rmtree(directory, ignore_errors=True)
