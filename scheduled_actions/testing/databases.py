"""Databases for tests: the tables are made once, and each test gets a copy that nothing has touched."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, LiteralString, Self
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from scheduled_actions.core.errors import NotConfigured
from scheduled_actions.database.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Names the server that tests may make databases on; unset: an embedded one.
URL_VARIABLE = "SCHEDULED_ACTIONS_TEST_DATABASE_URL"


class Databases:
    """Fresh databases on one server, each a clone of a template that holds the migrated, empty tables.

    Args:
        dsn: Of a role that may create databases; nothing but what is made here is touched.
        prepare: Makes the application's own tables in the template, on a connection in autocommit mode; called once.
        template: The template's name, where several processes share it; None: one for this process, dropped at the end.
        copies_files: Clone by copying files: less than half the work where the server's files are in memory, and slow
            where they are on a disk that is synchronised. Postgres 15 or newer.
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
        """Return the name of the template, which is made by the first process that asks."""
        self._admin.execute("select pg_advisory_lock(hashtext(%s))", [self._name])
        try:
            if self._admin.execute("select from pg_database where datname = %s", [self._name]).fetchone() is None:
                self._make()
        except psycopg.errors.InsufficientPrivilege as error:
            expected = f"its role may not create databases ({error.diag.message_primary}): `alter role … createdb`"
            raise NotConfigured(URL_VARIABLE, expected) from None
        finally:
            self._admin.execute("select pg_advisory_unlock(hashtext(%s))", [self._name])
        return self._name

    def _make(self) -> None:
        # Renamed when complete: a process that fails half-way leaves no template.
        half = f"{self._name}_half"
        self._drop(half)
        self._run("create database {}", half)
        with psycopg.connect(make_conninfo(self._dsn, dbname=half), autocommit=True) as connection:
            migrate(connection)
            if self._prepare is not None:
                self._prepare(connection)
        self._run("alter database {} allow_connections false", half)
        self._run("alter database {} rename to {}", half, self._name)

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """Give the address of a database with the tables, for as long as the block lasts."""
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
            # Only a superuser may force an autovacuum worker out. Without force Postgres ends the worker itself.
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
