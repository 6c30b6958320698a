"""Run a Postgres server for development and tests; start, share and stop the server automatically.

The server belongs to one directory, and every process that uses it holds a handle. The handles are counted with two
lock files, because the kernel releases locks however a process ends. `start.lock` is held while the server is started,
joined or stopped; `holders.lock` is shared by all holders as long as they hold a handle.
"""

import atexit
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import psycopg

from scheduled_actions.core.errors import EmbeddedPostgresFailed
from scheduled_actions.database.embedded import server
from scheduled_actions.database.embedded.cluster import Cluster, delete, load, open_private

__all__ = ["LocalPostgres", "attach", "dsn_if_running", "remove"]


class LocalPostgres:
    """A handle on the server, which runs as long as any process holds a handle.

    A forked child inherits a copy of the handle. Closing the copy does not release the server; only the process that
    attached can do that. If that process is killed, its children still count as holders, because they share its lock. A
    child that may outlive its parent's `close` has to attach itself.
    """

    #: Connection string with the password of a superuser.
    dsn: str

    def __init__(self, cluster: Cluster, holders_lock: int) -> None:
        self.dsn = cluster.dsn()
        self._cluster = cluster
        self._holders_lock: int | None = holders_lock
        self._owner = os.getpid()
        atexit.register(self.close)

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
            with suppress(FileNotFoundError), _start_lock(self._cluster.directory):
                if _is_last_holder(lock):
                    server.stop(self._cluster)
        finally:
            _unlock(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def attach(directory: Path, *, options: Sequence[str] = ()) -> LocalPostgres:
    """Return a handle on the server of `directory`; start the server if it is not running.

    Args:
        directory: The directory of the server; if missing, it is created with a new cluster and an empty database.
        options: Further arguments for `postgres` (`("-c", "fsync=off")`), used only if this call starts the server.

    Raises:
        EmbeddedPostgresFailed: No suitable Postgres is installed, the server could not be started or its database
            created, or the directory cannot be used; the message says what to do.
    """
    try:
        directory = _create(directory)
        with _start_lock(directory, may_create=True):
            lock = _join_holders(directory)
            try:
                return LocalPostgres(server.start(directory, options), lock)
            except BaseException:
                _unlock(lock)
                raise
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
    with suppress(FileNotFoundError), _start_lock(directory):
        lock = _join_holders(directory)
        try:
            cluster = load(directory)
            # The file of a copied directory names the original until the copy is started.
            if cluster is None or cluster.directory != directory or not _is_last_holder(lock):
                return False
            server.stop(cluster)
            # While the lock is held, so that no other process starts a server in the directory that is being deleted.
            delete(cluster)
            shutil.rmtree(directory, ignore_errors=True)
            return True
        finally:
            _unlock(lock)
    return False


def _create(directory: Path) -> Path:
    directory.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        directory.mkdir()
        # The account that runs the server for root has to enter it, but not to list it.
        directory.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return directory.resolve()


@contextmanager
def _start_lock(directory: Path, *, may_create: bool = False) -> Iterator[None]:
    """Prevent other processes from starting, joining, stopping or removing the server during the block."""
    path = directory / "start.lock"
    while True:
        try:
            lock = open_private(path, os.O_RDWR)
        except FileNotFoundError:
            if not may_create:
                raise
            _create(directory)
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have removed the file while this one waited for the lock.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), path.stat()):
                break
        _unlock(lock)
    try:
        yield
    finally:
        _unlock(lock)


def _join_holders(directory: Path) -> int:
    lock = open_private(directory / "holders.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def _is_last_holder(lock: int) -> bool:
    """Return whether no other process holds the server; if False, the shared lock may have been lost."""
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _unlock(lock: int) -> None:
    # Unlocked before it is closed: a forked child may share the open file, and its copy would keep the lock.
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)
