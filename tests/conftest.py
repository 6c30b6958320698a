"""A real Postgres for all tests, a fresh database for each, and no network beyond this machine."""

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
from scheduled_actions.testing import servers
from scheduled_actions.testing.databases import Databases

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from contextlib import AbstractContextManager
    from typing import Self

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:  # `handlers` and the scripts of the top level are part of no installed package.
    sys.path.insert(0, str(ROOT))

#: Names this run's server directory to the worker processes.
DIRECTORY = "TEST_POSTGRES_DIRECTORY"
PREFIX = "scheduled-actions-tests-"
TEMPLATE = "template_migrated"


# A busy machine is no fault of a law: neither how long an example takes, nor how long, or how often, one is looked for.
settings.register_profile(
    "ours", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
settings.load_profile("ours")


def pytest_configure(config: pytest.Config) -> None:
    """Choose where the server of this run is to live, once for all its workers."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # As in a shell's background job. The processes that tests start and interrupt would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    # Without byte code every process that a test starts would compile the package for itself.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    servers.sweep(PREFIX)
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=servers.roomy_place()))
    directory.chmod(0o711)
    os.environ[DIRECTORY] = str(directory)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    if not hasattr(config, "workerinput") and DIRECTORY in os.environ:
        servers.clear(Path(os.environ.pop(DIRECTORY)))


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


@pytest.fixture(autouse=True)
def no_other_project() -> Iterator[None]:
    """Fail a test that reached for the project of the working directory: `runtime.use` names its own."""
    before = runtime.use(None)
    runtime.use(before)
    yield
    after = runtime.use(before)
    if after is not None and after is not before:
        after.close()
        pytest.fail("runtime.current() made the project of the working directory: give the test's own to runtime.use()")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[LocalPostgres]:
    """Give the one server of this run, started by the first of its workers that asks."""
    with attach(Path(os.environ[DIRECTORY]), options=servers.NOT_DURABLE) as server:
        yield server


@pytest.fixture(scope="session")
def admin(postgres_server: LocalPostgres) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection to the server itself."""
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def databases(postgres_server: LocalPostgres) -> Iterator[Databases]:
    """Give what makes fresh databases; the template is made by the first worker."""
    with Databases(postgres_server.dsn, template=TEMPLATE, copies_files=True) as databases:
        yield databases


class FreshDatabases:
    """Makes the next test's database, and drops that of the test before the last, while a test runs.

    The last one's sessions may be just ending, which `drop database` would wait for, and the next database behind it.
    """

    def __init__(self, databases: Databases) -> None:
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
        """Give the address of the database that is ready."""
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
def fresh_databases(databases: Databases) -> Iterator[FreshDatabases]:
    """Give what has a fresh database at hand when a test begins."""
    with FreshDatabases(databases) as fresh:
        yield fresh


@pytest.fixture
def database_url(fresh_databases: FreshDatabases) -> Iterator[str]:
    """Give the address of a fresh database with the tables; it is dropped after the test."""
    with fresh_databases.take() as url:
        yield url


@pytest.fixture(scope="module")
def shared_database_url(fresh_databases: FreshDatabases) -> Iterator[str]:
    """Give the address of a database for those tests of a module that change nothing in it."""
    with fresh_databases.take() as url:
        yield url


@pytest.fixture(scope="module")
def shared_connection(shared_database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection to the module's database, in autocommit mode."""
    with psycopg.connect(shared_database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection to the test's database, in autocommit mode."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection
