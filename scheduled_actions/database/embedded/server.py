"""The server of a cluster: brought up, asked, and stopped. The caller has made sure to be alone.

Whether it lives is judged by talking to it, never by a pid file: after a kill such a file names nobody, or
somebody else.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from scheduled_actions.core.errors import EmbeddedPostgresFailed
from scheduled_actions.database.embedded import programs
from scheduled_actions.database.embedded.cluster import (
    NAME,
    Cluster,
    adopt,
    conceive,
    free_port,
    is_free,
    open_private,
    recall,
    remember,
    write_private,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduled_actions.database.embedded.programs import Account

#: Longest wait for a start, crash recovery included, and for an orderly stop.
START_SECONDS = 60.0
STOP_SECONDS = 15.0
_LOG_BYTES = 1_000_000

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "128MB",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Statements and details of errors carry payloads, which have no place in a log.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
    # For roles that somebody adds; see `_initialise`.
    "scram_iterations": "4096",
}


class Answer(NamedTuple):
    """What a running server says of itself."""

    postmaster: int
    has_database: bool


def up(directory: Path, options: Sequence[str]) -> Cluster:
    """Return the cluster of `directory`, running, with its database."""
    cluster = recall(directory)
    if cluster is not None and cluster.directory != directory:
        cluster = adopt(cluster, directory)
    answered = None if cluster is None else answer(cluster)
    if cluster is None or answered is None:
        account = programs.account_for(directory if cluster is None else cluster.home)
        cluster = cluster or conceive(directory, account)
        cluster, answered = _started(cluster, account, options)
    if not answered.has_database:
        # It may still be making one for a holder that was killed.
        is_there = suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation)
        with is_there, psycopg.connect(_maintenance(cluster), autocommit=True) as connection:
            connection.execute(f"create database {NAME}")
    return cluster


def answer(cluster: Cluster) -> Answer | None:
    """Return the answer of the cluster's server; None: there is none, or the port is somebody else's.

    A server that says it is starting, recovering, stopping or full is waited for.
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
            if not any(fact in str(error) for fact in ("the database system is", "too many clients")):
                return None
            if time.monotonic() > deadline:
                problem = f"the server has not been ready for {START_SECONDS:g} seconds"
                raise EmbeddedPostgresFailed(problem, f"see {cluster.log}, and try again") from None
        else:
            return Answer(*row) if row else None
        time.sleep(0.02)


def stop(cluster: Cluster) -> None:
    """Stop the server in order, cutting its connections, and return when it has gone."""
    cluster = recall(cluster.directory) or cluster  # Whoever restarted it may have moved the port.
    answered = answer(cluster)
    if answered is None:
        return
    deadline = time.monotonic() + STOP_SECONDS
    with suppress(ProcessLookupError):
        os.kill(answered.postmaster, signal.SIGINT)
        while (cluster.data / "postmaster.pid").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
            os.kill(answered.postmaster, 0)


def _maintenance(cluster: Cluster) -> str:
    return f"{cluster.dsn_of('postgres')}?sslmode=disable&gssencmode=disable"


def _started(cluster: Cluster, account: Account | None, options: Sequence[str]) -> tuple[Cluster, Answer]:
    """Return the cluster, started (on another port if its own is taken), with its first answer."""
    version = cluster.data / "PG_VERSION"
    major = int(version.read_text(encoding="ascii")) if version.exists() else None
    place = programs.programs_for(account, cluster.home, major=major)
    if major is None:
        _initialise(cluster, place / "initdb", account)
    deadline = time.monotonic() + START_SECONDS
    is_second_refusal, said = False, ""
    while time.monotonic() < deadline:
        answered, said = _launch(cluster, place / "postgres", account, options)
        if answered is not None:
            return cluster, answered
        if "could not bind" in said:
            cluster = remember(replace(cluster, port=free_port()))
        elif 'lock file "postmaster.pid"' in said:
            # Either who started it was killed this instant, and it is about to answer; or the pid of a dead
            # server is another process's by now. (Shared memory guards against two servers anyway.)
            answered = answer(cluster)
            if answered is not None:
                return cluster, answered
            if is_second_refusal and is_free(cluster.port):
                (cluster.data / "postmaster.pid").unlink(missing_ok=True)
            is_second_refusal = True
        elif "shared memory block" not in said:  # (That is held until the children of a dead server notice.)
            break
        time.sleep(0.1)
    problem = f"the server did not start: {_ending(said) or 'it said nothing'}"
    raise EmbeddedPostgresFailed(problem, f"the log is {cluster.log}; mend that, or set DATABASE_URL")


def _initialise(cluster: Cluster, initdb: Path, account: Account | None) -> None:
    """Make the data directory, whole or not at all."""
    # A name of its own each time: the initdb of a holder that was killed may still be at work.
    fresh = Path(tempfile.mkdtemp(prefix="data.new-", dir=cluster.home))
    password = cluster.home / "password.new"
    write_private(password, cluster.password)
    if account is not None:
        os.chown(fresh, *account)
        os.chown(password, *account)
    command: list[str | Path] = [initdb, "--pgdata", fresh, "--username", NAME, "--pwfile", password]
    # Iterations make short passwords harder to guess. This one is random, and 4,096 of them cost each connection 4 ms.
    command += ["--auth=scram-sha-256", "--set=scram_iterations=1", "--encoding=UTF8", "--locale=C"]
    try:
        programs.run(command, account, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except subprocess.CalledProcessError as error:
        problem = f"initdb failed: {_ending(error.stderr.decode(errors='replace'))}"
        raise EmbeddedPostgresFailed(problem, "mend that, or set DATABASE_URL") from None
    finally:
        password.unlink()
    fresh.rename(cluster.data)
    for left in cluster.home.glob("data.new-*"):
        shutil.rmtree(left, ignore_errors=True)


def _launch(
    cluster: Cluster, postgres: Path, account: Account | None, options: Sequence[str]
) -> tuple[Answer | None, str]:
    """Start the server and wait until it answers or has ended; return its answer and what it logged."""
    # The shell leaves at once: no process here gets a child it does not know, and the server's session is its
    # own, out of reach of the terminal's Ctrl-C.
    command: list[str | Path] = ["/bin/sh", "-c", '"$@" &', "sh", postgres, "-D", cluster.data]
    for name, value in (_SETTINGS | {"port": str(cluster.port)}).items():
        command += ["-c", f"{name}={value}"]
    command += options
    alive, inherited = os.pipe()  # The reading end hangs up when the last process of the server has gone.
    try:
        with open(cluster.log, "ab", opener=open_private) as log:
            if log.tell() > _LOG_BYTES:
                log.truncate(0)
            before = log.seek(0, os.SEEK_END)
            programs.run(command, account, stdout=log, stderr=log, pass_fds=[inherited], start_new_session=True)
    finally:
        os.close(inherited)
    try:
        answered = _first_answer(cluster, alive)
    finally:
        os.close(alive)
    return answered, cluster.log.read_bytes()[before:].decode(errors="replace")


def _first_answer(cluster: Cluster, alive: int) -> Answer | None:
    deadline = time.monotonic() + START_SECONDS
    ended = select.poll()
    ended.register(alive)
    while not ended.poll(10) and time.monotonic() < deadline:
        answered = answer(cluster)
        if answered is not None:
            return answered
    return None


def _ending(text: str) -> str:
    return " | ".join(text.splitlines()[-5:])
