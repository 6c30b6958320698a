"""Run a Postgres server for development and tests; start, share and stop the server automatically.

The server belongs to one directory, and every process that uses it holds a handle. The handles are counted with lock
files, because the kernel releases locks however a process ends. The last holder stops the server; if it cannot, because
it was killed, the server's watchdog does.
"""

import atexit
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import psycopg

from scheduled_actions.core.errors import EmbeddedPostgresFailed
from scheduled_actions.database.embedded import locks, server
from scheduled_actions.database.embedded.cluster import STORED, Cluster, create_directory, delete, load

__all__ = ["LocalPostgres", "attach", "dsn_if_running", "is_created", "is_in_use", "remove"]


class LocalPostgres:
    """A handle on the server, which runs as long as any process holds a handle.

    A forked child inherits a copy of the handle. Closing the copy does not release the server; only the process that
    attached can do that. If that process is killed, its children still count as holders, because they share its lock. A
    child that may outlive its parent's `close` has to attach itself.
    """

    def __init__(self, cluster: Cluster, holders_lock: int, options: Sequence[str]) -> None:
        self._cluster = cluster
        self._options = options
        self._holders_lock: int | None = holders_lock
        self._owner = os.getpid()
        atexit.register(self.close)

    @property
    def dsn(self) -> str:
        """Connection string with the password of a superuser; its port may change when the server is restarted."""
        return (load(self._cluster.directory) or self._cluster).dsn()

    def restart_if_ended(self) -> bool:
        """Start the server again if it has ended unexpectedly, on the same port if it is free; return whether it had.

        Raises:
            EmbeddedPostgresFailed: The server could not be started.
            NotConfigured: The cluster was deleted.
        """
        directory = self._cluster.directory
        if self._holders_lock is None or locks.has_server(self._cluster.home):
            return False
        with _failures(directory), locks.starting(directory):
            if locks.has_server(self._cluster.home):
                return False  # Another holder has started it.
            server.start(directory, self._options, may_create=False, has_holders=False)
        return True

    def close(self) -> None:
        """Release the server, and stop it if this was the last handle; further calls do nothing."""
        lock, self._holders_lock = self._holders_lock, None
        if lock is None:
            return
        atexit.unregister(self.close)
        if os.getpid() != self._owner:
            os.close(lock)  # Unlocking would unlock the parent, which shares the open file.
            return
        try:
            with suppress(FileNotFoundError), locks.starting(self._cluster.directory):
                if locks.is_last_holder(lock):
                    server.stop(self._cluster)
        finally:
            locks.unlock(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def attach(directory: Path, *, options: Sequence[str] = (), may_create: bool = True) -> LocalPostgres:
    """Return a handle on the server of `directory`; start the server if it is not running.

    Args:
        directory: The directory of the server; if missing, it is created with a new cluster and an empty database.
        options: Further arguments for `postgres` (`("-c", "fsync=off")`), used only if this call starts the server.
        may_create: Create a cluster if there is none; otherwise, that is an error.

    Raises:
        EmbeddedPostgresFailed: No suitable Postgres is installed, the server could not be started or its database
            created, the directory cannot be used, or its server runs in another container, where this process cannot
            reach it; the message says what to do.
        NotConfigured: There is no cluster, and `may_create` is false.
    """
    with _failures(directory):
        if not may_create and not (directory / STORED).exists():
            server.refuse_creation(directory)
        directory = create_directory(directory)
        with locks.starting(directory, may_create=may_create):
            has_holders = locks.has_holders(directory)
            lock = locks.join_holders(directory)
            try:
                cluster = server.start(directory, options, may_create=may_create, has_holders=has_holders)
                return LocalPostgres(cluster, lock, options)
            except BaseException:
                locks.unlock(lock)
                raise


@contextmanager
def _failures(directory: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, subprocess.SubprocessError) as error:
        raise EmbeddedPostgresFailed(
            str(error), f"check that {directory} is writable and belongs to the current user, or set DATABASE_URL"
        ) from error
    except psycopg.Error as error:
        raise EmbeddedPostgresFailed(
            f"the server is running, but its database could not be created ({type(error).__name__})",
            f"see {directory / 'postgres.log'}, and try again",
        ) from None


def dsn_if_running(directory: Path) -> str | None:
    """Return the connection string of the server of `directory`; None if it is not running.

    The result is also None if the directory belongs to another user, or was moved or copied since its server last
    started. The server is neither started nor held.

    Raises:
        EmbeddedPostgresFailed: The stored file of the cluster is invalid, or the server was not ready in time.
    """
    try:
        cluster = load(directory.resolve())
    except OSError:  # The directory belongs to another user.
        return None
    if cluster is None or cluster.directory != directory.resolve() or server.probe(cluster) is None:
        return None
    return cluster.dsn()


def is_created(directory: Path) -> bool:
    """Return whether `directory` contains a cluster, which `attach` will start.

    Raises:
        EmbeddedPostgresFailed: The stored file of the cluster is invalid.
    """
    return load(directory) is not None


def is_in_use(directory: Path) -> bool:
    """Return whether the server of `directory` is running, in this container or in another one."""
    cluster = load(directory)
    return cluster is not None and locks.has_server(cluster.home)


def remove(directory: Path) -> bool:
    """Delete `directory` and its cluster; return False if nothing was deleted.

    That is the case if the directory is in use, contains no cluster, or was moved or copied since its server last
    started. A process that is waiting to attach to the directory creates it again.

    Raises:
        EmbeddedPostgresFailed: The stored file of the cluster is invalid, or the server was not ready in time.
        OSError: The directory cannot be used, for example because it belongs to another user.
    """
    directory = directory.resolve()
    # Another process may remove it at any moment.
    with suppress(FileNotFoundError), locks.starting(directory):
        lock = locks.join_holders(directory)
        try:
            cluster = load(directory)
            # The file of a copied directory names the original until the copy is started.
            if cluster is None or cluster.directory != directory or not locks.is_last_holder(lock):
                return False
            server.stop(cluster)
            if locks.has_server(cluster.home):  # It runs in another container, or does not stop.
                return False
            # While the lock is held, so that no other process starts a server in the directory that is being deleted.
            delete(cluster)
            shutil.rmtree(directory, ignore_errors=True)
            return True
        finally:
            locks.unlock(lock)
    return False
