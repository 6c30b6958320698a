"""Start, probe and stop the server of a cluster. The caller of `start` and `stop` must hold the start lock.

Whether a server is running is determined by connecting to it, never by a pid file: after a kill, such a file contains
the id of a process that has ended, or of an unrelated process.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn

import psycopg

from scheduled_actions.core.errors import EmbeddedPostgresFailed, NotConfigured
from scheduled_actions.database.embedded import locks, watchdog
from scheduled_actions.database.embedded.cluster import (
    NAME,
    Cluster,
    Namespaces,
    ServerAccount,
    account_for,
    candidates,
    create,
    free_port,
    is_free,
    load,
    open_private,
    pick,
    programs_for,
    relocate,
    run_program,
    save,
    write_private,
)

#: Maximum wait for a start, including crash recovery, and for an orderly stop.
START_SECONDS = 60.0
STOP_SECONDS = 15.0
_LOG_BYTES = 1_000_000
_NOT_ENDED = "the last server has not ended, and does not answer"

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "128MB",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Statements and error details may contain payloads, which must not be logged.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
    # For roles added later; see `_initialise`.
    "scram_iterations": "4096",
}


class ServerStatus(NamedTuple):
    """The status of a running server: the process id of its postmaster, and whether the project's database exists."""

    postmaster: int
    has_database: bool


def start(directory: Path, options: Sequence[str], *, may_create: bool, has_holders: bool) -> Cluster:
    """Start the server of `directory` unless it is running, and create its database if missing; return the cluster.

    Args:
        directory: The directory of the server.
        options: Further arguments for `postgres`.
        may_create: Create a cluster if there is none.
        has_holders: Whether another process holds the server.

    Raises:
        EmbeddedPostgresFailed: The server cannot be started, or runs where this process cannot reach it.
        NotConfigured: There is no cluster, and `may_create` is false.
        psycopg.Error: The server is running, but its database cannot be created.
    """
    cluster = _find(directory, has_holders=has_holders)
    if cluster is None and not may_create:
        refuse_creation(directory)
    answered = None if cluster is None else probe(cluster)
    if cluster is None or answered is None:
        if cluster is not None:
            _refuse_second_server(cluster, has_holders=has_holders)
        else:
            pick(candidates(), None)  # Without programs, nothing is stored.
        account = account_for(directory if cluster is None else cluster.home)
        cluster = cluster or create(directory, account)
        cluster, answered = _started(save(replace(cluster, namespaces=Namespaces.own())), account, options)
    if not answered.has_database:
        with (
            # The server may still be creating it for a holder that was killed.
            suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation),
            psycopg.connect(_maintenance(cluster), autocommit=True) as connection,
        ):
            connection.execute(f"create database {NAME}")
    return cluster


def refuse_creation(directory: Path) -> NoReturn:
    """Raise `NotConfigured`, because a database that was not asked for would hide a forgotten DATABASE_URL."""
    raise NotConfigured(
        "DATABASE_URL",
        f"set it to a postgresql:// address, or create a development database in {directory}: run `scheduled-actions "
        "dev`, or set SCHEDULED_ACTIONS_EMBEDDED=1",
    )


def _find(directory: Path, *, has_holders: bool) -> Cluster | None:
    """Return the cluster of `directory`, which may have been moved or copied; None if it has no cluster."""
    stored = load(directory)
    if stored is None or stored.directory == directory:
        return stored
    found = replace(stored, directory=directory)
    if has_holders or (found.elsewhere is None and locks.has_server(found.home)):
        # In use, so it is no copy: a container mounts the project at another path. The server keeps its port.
        return found
    return relocate(stored, directory)


def _refuse_second_server(cluster: Cluster, *, has_holders: bool) -> None:
    """Raise if another process may be using the data through a server that this process cannot see.

    In the same namespaces, Postgres itself finds out whether the last server is running. In others, it would take the
    server for dead, because it cannot see its process, and destroy the data.
    """
    here = Namespaces.own()
    if not cluster.namespaces.differs(here) or not (has_holders or locks.has_server(cluster.home)):
        return
    is_elsewhere = cluster.namespaces.boot_id != here.boot_id
    raise EmbeddedPostgresFailed(
        f"another process uses {cluster.directory}, and its server runs "
        f"{'on another machine' if is_elsewhere else 'in another container or network namespace'}, which cannot be "
        "reached from here; a second server on the same data would destroy it",
        "stop that process (such as `scheduled-actions dev`) first, or run this command where it runs, or set "
        "DATABASE_URL",
    )


def probe(cluster: Cluster) -> ServerStatus | None:
    """Return the status of the cluster's server; None if it is not running, or another server uses the port.

    Waits for a server that is starting, recovering, stopping or out of connections.

    Raises:
        EmbeddedPostgresFailed: The server was not ready in time.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with psycopg.connect(_maintenance(cluster), connect_timeout=2) as connection:
                row = connection.execute(
                    "select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::integer,"
                    " exists (select from pg_database where datname = %s)",
                    [NAME],
                ).fetchone()
        except psycopg.OperationalError as error:
            if not any(sign in str(error) for sign in ("the database system is", "too many clients")):
                return None
            if time.monotonic() > deadline:
                raise EmbeddedPostgresFailed(
                    f"the server was not ready within {START_SECONDS:g} seconds", f"see {cluster.log}, and try again"
                ) from None
        else:
            return ServerStatus(*row) if row else None
        time.sleep(0.02)


def stop(cluster: Cluster) -> None:
    """Stop the server, which closes its connections; wait at most `STOP_SECONDS` until it has stopped.

    A server in another PID namespace is left to its watchdog, because its process id means nothing here.
    """
    # Another holder may have restarted it on another port, or moved the project.
    cluster = replace(load(cluster.directory) or cluster, directory=cluster.directory)
    here = Namespaces.own()
    if replace(cluster.namespaces, net=here.net).differs(here) or (answered := probe(cluster)) is None:
        return
    deadline = time.monotonic() + STOP_SECONDS
    with suppress(ProcessLookupError):
        os.kill(answered.postmaster, signal.SIGINT)
        while locks.has_server(cluster.home) and time.monotonic() < deadline:
            time.sleep(0.005)
            os.kill(answered.postmaster, 0)


def _maintenance(cluster: Cluster) -> str:
    return f"{cluster.dsn('postgres')}?sslmode=disable&gssencmode=disable"


def _started(cluster: Cluster, account: ServerAccount | None, options: Sequence[str]) -> tuple[Cluster, ServerStatus]:
    """Start the server, on another port if its own is taken; return the cluster and the server's status.

    Raises:
        EmbeddedPostgresFailed: The server did not start.
    """
    version = cluster.data / "PG_VERSION"
    major = int(version.read_text(encoding="ascii")) if version.exists() else None
    place = programs_for(account, cluster.home, major=major)
    if major is None:
        _initialise(cluster, place / "initdb", account)
    deadline = time.monotonic() + START_SECONDS
    is_second_refusal, log_text = False, ""
    while time.monotonic() < deadline:
        answered, log_text = _launch_once(cluster, place / "postgres", account, options)
        if answered is not None:
            return cluster, answered
        if "could not bind" in log_text:
            cluster = save(replace(cluster, port=free_port()))
        elif 'lock file "postmaster.pid"' in log_text:
            # The id of a dead server's process now belongs to another process, or a person has started a server on
            # the data. Shared memory prevents two servers.
            if (answered := probe(cluster)) is not None:
                return cluster, answered
            if is_second_refusal and is_free(cluster.port):
                (cluster.data / "postmaster.pid").unlink(missing_ok=True)
            is_second_refusal = True
        # Children of a dead server hold the lock and the memory for a short time.
        elif log_text != _NOT_ENDED and "shared memory block" not in log_text:
            break
        time.sleep(0.1)
    raise EmbeddedPostgresFailed(
        f"the server did not start: {_last_lines(log_text) or 'its log is empty'}",
        f"see {cluster.log}, fix the cause, or set DATABASE_URL",
    )


def _initialise(cluster: Cluster, initdb: Path, account: ServerAccount | None) -> None:
    """Create the data directory atomically."""
    # A new name each time, because the initdb of a killed holder may still be running.
    fresh = Path(tempfile.mkdtemp(prefix="data.new-", dir=cluster.home))
    password = cluster.home / "password.new"
    write_private(password, cluster.password)
    if account is not None:
        os.chown(fresh, *account)
        os.chown(password, *account)
    # Iterations protect short passwords. This one is long and random; 4,096 iterations would cost each connection 4 ms.
    options = ("--auth=scram-sha-256", "--set=scram_iterations=1", "--encoding=UTF8", "--locale=C", "--username", NAME)
    command: list[str | Path] = [initdb, "--pgdata", fresh, "--pwfile", password, *options]
    try:
        run_program(command, account, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except subprocess.CalledProcessError as error:
        raise EmbeddedPostgresFailed(
            f"initdb failed: {_last_lines(error.stderr.decode(errors='replace'))}", "fix the cause, or set DATABASE_URL"
        ) from None
    finally:
        password.unlink()
    fresh.rename(cluster.data)
    for left in cluster.home.glob("data.new-*"):
        shutil.rmtree(left, ignore_errors=True)


def _launch_once(
    cluster: Cluster, postgres: Path, account: ServerAccount | None, options: Sequence[str]
) -> tuple[ServerStatus | None, str]:
    """Start the server as `_launch` does, unless a process of the last server is running; then wait for its answer."""
    lock = locks.lock_server(cluster.home)
    if lock is None:
        # The process that started the server may have been killed before the server accepted connections.
        return probe(cluster), _NOT_ENDED
    try:
        return _launch(cluster, postgres, account, options, lock)
    finally:
        os.close(lock)


def _launch(
    cluster: Cluster, postgres: Path, account: ServerAccount | None, options: Sequence[str], server_lock: int
) -> tuple[ServerStatus | None, str]:
    """Start the server and wait until it answers or ends; return its status and its log since the start.

    The shell exits immediately, so that the watchdog and the server are not children of this process. They have their
    own session, so that the terminal's Ctrl-C does not reach them.
    """
    watched = locks.open_unlocked(cluster.directory)
    command: list[str | Path] = [
        "/bin/sh",
        "-c",
        '"$@" &',
        "sh",
        *_watchdog(watched, account),
        postgres,
        "-D",
        cluster.data,
        *(f"--{name}={value}" for name, value in _SETTINGS.items()),
        f"--port={cluster.port}",
        *options,
    ]
    alive, inherited = os.pipe()  # The reading end reports a hangup when the last process of the server has ended.
    with os.fdopen(alive, "rb"):
        try:
            with os.fdopen(inherited, "wb"), open(cluster.log, "ab", opener=open_private) as log:
                if log.tell() > _LOG_BYTES:
                    log.truncate(0)
                before = log.seek(0, os.SEEK_END)
                kept = [inherited, server_lock, *watched]
                run_program(command, None, stdout=log, stderr=log, pass_fds=kept, start_new_session=True)
        finally:
            for lock in watched:
                os.close(lock)
        deadline = time.monotonic() + START_SECONDS
        ended = select.poll()
        ended.register(alive)
        answered = None
        while answered is None and not ended.poll(10) and time.monotonic() < deadline:
            answered = probe(cluster)
    return answered, cluster.log.read_bytes()[before:].decode(errors="replace")


def _watchdog(watched: Sequence[int], account: ServerAccount | None) -> list[str]:
    """Return the program that runs the server, and its arguments; empty if this process may not run Python."""
    # The watchdog, unlike the server, runs as this user: the account may not be able to reach Python.
    if account is None and not os.access(sys.executable, os.X_OK):  # This process has changed its user.
        return []
    ids = ("", "") if account is None else map(str, account)
    return [sys.executable, "-IS", watchdog.__file__, *map(str, watched), *ids]


def _last_lines(text: str) -> str:
    return " | ".join(text.splitlines()[-5:])
