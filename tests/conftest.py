"""Fixtures of all tests: a Postgres server, a new database per test, and no network beyond loopback."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from scheduled_actions import runtime
from scheduled_actions.database.embedded import LocalPostgres, attach
from scheduled_actions.testing import databases as test_databases

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from contextlib import AbstractContextManager
    from typing import Self

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:  # `handlers` and the top-level scripts are not part of the installed package.
    sys.path.insert(0, str(ROOT))

#: Environment variable that passes the server directory of this run to the worker processes.
DIRECTORY = "TEST_POSTGRES_DIRECTORY"
PREFIX = "scheduled-actions-tests-"
TEMPLATE = "template_migrated"


# On a busy machine examples are slow to generate and to run; that is not a test failure.
settings.register_profile(
    "ours", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
settings.load_profile("ours")


def pytest_configure(config: pytest.Config) -> None:
    """Create the directory of the server, once for all workers."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # Ignored in a shell's background jobs; processes that tests start and interrupt would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    # Without byte code, every process that a test starts would compile the package again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    test_databases.remove_abandoned_servers(PREFIX)
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=test_databases.server_directory()))
    directory.chmod(0o711)
    os.environ[DIRECTORY] = str(directory)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the directory of the server."""
    if not hasattr(config, "workerinput") and DIRECTORY in os.environ:
        test_databases.remove_server(Path(os.environ.pop(DIRECTORY)))


class NetworkForbiddenError(RuntimeError):
    """A test tried to reach an address other than loopback."""

    def __init__(self, address: object) -> None:
        super().__init__(f"Tests may not connect to {address!r}: only loopback addresses are allowed.")


@pytest.fixture(scope="session", autouse=True)
def only_loopback() -> Iterator[None]:
    """Refuse connections of Python sockets to non-loopback addresses; libpq's sockets are not affected."""
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


@pytest.fixture(autouse=True)
def no_other_project() -> Iterator[None]:
    """Fail a test that uses the project of the working directory instead of its own."""
    before = runtime.use(None)
    runtime.use(before)
    yield
    after = runtime.use(before)
    if after is not None and after is not before:
        after.close()
        pytest.fail("The test used the project of the working directory; pass its own to runtime.use().")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[LocalPostgres]:
    """Yield the server of this run; the first worker that needs it starts it."""
    with attach(Path(os.environ[DIRECTORY]), options=test_databases.NOT_DURABLE) as server:
        yield server


@pytest.fixture(scope="session")
def admin(postgres_server: LocalPostgres) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection to the server's default database."""
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def databases(postgres_server: LocalPostgres) -> Iterator[test_databases.Databases]:
    """Yield the factory of new databases; the first worker creates the template."""
    with test_databases.Databases(postgres_server.dsn, template=TEMPLATE, copies_files=True) as databases:
        yield databases


class FreshDatabases:
    """Create the next test's database, and drop that of the test before the previous one, while a test runs.

    The previous test's sessions may still be closing: `drop database` would wait for them and delay the next database.
    """

    def __init__(self, databases: test_databases.Databases) -> None:
        self._databases = databases
        self._thread = ThreadPoolExecutor(1)
        self._next = self._thread.submit(self._make)
        self._last: AbstractContextManager[str] | None = None
        self._drops: list[Future[bool | None]] = []

    def _make(self) -> tuple[AbstractContextManager[str], str]:
        database = self._databases.fresh()
        return database, database.__enter__()

    @contextmanager
    def take(self) -> Iterator[str]:
        """Yield the URL of the prepared database."""
        database, url = self._next.result()
        self._next = self._thread.submit(self._make)
        try:
            yield url
        finally:
            self._drop_last()
            self._last = database

    def _drop_last(self) -> None:
        if self._last is not None:
            self._drops.append(self._thread.submit(self._last.__exit__, None, None, None))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._thread:
            self._drop_last()
            self._next.result()[0].__exit__(None, None, None)
            for drop in self._drops:
                drop.result()


@pytest.fixture(scope="session")
def fresh_databases(databases: test_databases.Databases) -> Iterator[FreshDatabases]:
    """Yield the pool that has a new database ready when a test begins."""
    with FreshDatabases(databases) as fresh:
        yield fresh


@pytest.fixture
def database_url(fresh_databases: FreshDatabases) -> Iterator[str]:
    """Yield the URL of a new, migrated database; it is dropped after the test."""
    with fresh_databases.take() as url:
        yield url


@pytest.fixture(scope="module")
def shared_database_url(fresh_databases: FreshDatabases) -> Iterator[str]:
    """Yield the URL of a database that the read-only tests of a module share."""
    with fresh_databases.take() as url:
        yield url


@pytest.fixture(scope="module")
def shared_connection(shared_database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection to the module's database, in autocommit mode."""
    with psycopg.connect(shared_database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection to the test's database, in autocommit mode."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection
