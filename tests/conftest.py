"""A real Postgres for all tests, a fresh database for each, and no network beyond this machine."""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql
from psycopg.conninfo import make_conninfo

from scheduled_actions.local_postgres import LocalPostgres, attach, remove

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:  # `handlers` and the scripts of the top level are part of no installed package.
    sys.path.insert(0, str(ROOT))

#: Names this run's server directory to the worker processes.
DIRECTORY = "TEST_POSTGRES_DIRECTORY"
PREFIX = "scheduled-actions-tests-"
TEMPLATE = "template_migrated"
#: Tests kill processes, not the machine: the operating system keeps what was written.
NOT_DURABLE = ("-c", "fsync=off", "-c", "max_connections=500")


# A busy machine is no fault of a law: neither how long an example takes, nor how long, or how often, one is looked for.
settings.register_profile(
    "ours", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
settings.load_profile("ours")


def pytest_configure(config: pytest.Config) -> None:
    """Choose where the server of this run is to live, once for all its workers."""
    if hasattr(config, "workerinput"):
        return
    for left in _roomy_place().glob(f"{PREFIX}*"):
        with suppress(FileNotFoundError):  # It may be just ending.
            if left.stat().st_uid == os.geteuid() and remove(left):
                shutil.rmtree(left)  # By a run that was killed; a run that goes on holds its own.
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_roomy_place()))
    directory.chmod(0o711)
    os.environ[DIRECTORY] = str(directory)


def _roomy_place() -> Path:
    """Return memory where there is plenty: it clones a database in 10 ms, a disk takes 100."""
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > 2**31
    return memory if has_room else Path(tempfile.gettempdir())


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    if not hasattr(config, "workerinput") and DIRECTORY in os.environ:
        directory = Path(os.environ.pop(DIRECTORY))
        remove(directory)
        shutil.rmtree(directory, ignore_errors=True)


class NetworkForbiddenError(RuntimeError):
    """A test reached for an address beyond this machine."""

    def __init__(self, address: object) -> None:
        super().__init__(f"a test may not reach {address!r}: only loopback addresses are open to tests")


@pytest.fixture(scope="session", autouse=True)
def only_loopback() -> Iterator[None]:
    """Refuse Python's sockets beyond loopback. (The database driver makes its own in C.)"""
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        _refuse_beyond_loopback(self, address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        _refuse_beyond_loopback(self, address)
        return connect_ex(self, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        if name not in {None, "", "localhost"} and _address(name) is None:
            raise NetworkForbiddenError(name)
        return getaddrinfo(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
        yield


def _refuse_beyond_loopback(connecting: socket.socket, address: Any) -> None:
    if connecting.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    target = _address(address[0])
    if address[0] != "localhost" and (target is None or not target.is_loopback):
        raise NetworkForbiddenError(address[0])


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[LocalPostgres]:
    """Give the one server of this run, started by the first of its workers that asks."""
    with attach(Path(os.environ[DIRECTORY]), options=NOT_DURABLE) as server:
        yield server


@pytest.fixture(scope="session")
def admin(postgres_server: LocalPostgres) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection that makes and drops databases."""
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def template_database(postgres_server: LocalPostgres, admin: psycopg.Connection[Any]) -> str:
    """Give the name of the database that holds the migrated, empty tables; made by the first worker."""
    from scheduled_actions.store.migrate import migrate

    admin.execute("select pg_advisory_lock(hashtext(%s))", [TEMPLATE])
    try:
        if admin.execute("select from pg_database where datname = %s", [TEMPLATE]).fetchone() is None:
            # Renamed when complete: a worker that fails half-way leaves no template.
            half = f"{TEMPLATE}_half"
            admin.execute(sql.SQL("drop database if exists {}").format(sql.Identifier(half)))
            admin.execute(sql.SQL("create database {}").format(sql.Identifier(half)))
            with psycopg.connect(make_conninfo(postgres_server.dsn, dbname=half), autocommit=True) as connection:
                migrate(connection)
            admin.execute(sql.SQL("alter database {} allow_connections false").format(sql.Identifier(half)))
            admin.execute(
                sql.SQL("alter database {} rename to {}").format(sql.Identifier(half), sql.Identifier(TEMPLATE))
            )
    finally:
        admin.execute("select pg_advisory_unlock(hashtext(%s))", [TEMPLATE])
    return TEMPLATE


@pytest.fixture
def database_url(
    postgres_server: LocalPostgres, admin: psycopg.Connection[Any], template_database: str
) -> Iterator[str]:
    """Give the address of a fresh database with the tables; it is dropped after the test."""
    name = f"test_{uuid4().hex}"
    admin.execute(
        sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template_database))
    )
    yield make_conninfo(postgres_server.dsn, dbname=name)
    admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection to the test's database, in autocommit mode."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection
