"""A real Postgres for development and tests: found, started, shared and stopped by itself.

The server belongs to one directory, and every process that wants it takes a handle. Two lock files count the
handles, because the kernel frees a lock however its process ends: `start.lock` is held for the moment of
starting, joining or stopping, `holders.lock` is shared by all holders for as long as they live.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

import psycopg

from scheduled_actions.core.errors import EmbeddedPostgresFailed
from scheduled_actions.database.embedded import server
from scheduled_actions.database.embedded.cluster import delete, open_private, recall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from scheduled_actions.database.embedded.cluster import Cluster

__all__ = ["LocalPostgres", "attach", "dsn_if_running", "remove", "remove_directory"]


class LocalPostgres:
    """A holder's handle: the server stays up while anybody holds one.

    A forked child inherits the handle but not the say: closing it there gives up the child's copy only, and
    the process that attached decides for both. If that process is killed, its children still count as
    holders, because they share its lock. A child that may outlive its parent's `close` attaches for itself.
    """

    #: Address and password; the role may do everything, as it owns the server.
    dsn: str

    def __init__(self, cluster: Cluster, holding: int) -> None:
        self.dsn = cluster.dsn
        self._cluster = cluster
        self._holding: int | None = holding
        self._owner = os.getpid()
        atexit.register(self.close)

    def close(self) -> None:
        """Give the server up; the last holder stops it. Closing again does nothing."""
        holding, self._holding = self._holding, None
        if holding is None:
            return
        atexit.unregister(self.close)
        if os.getpid() != self._owner:
            os.close(holding)  # Unlocking would unlock the parent, who shares the open file.
            return
        try:
            with suppress(FileNotFoundError), _alone(self._cluster.directory):
                if _is_last(holding):
                    server.stop(self._cluster)
        finally:
            _let_go(holding)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def attach(directory: Path, *, options: Sequence[str] = ()) -> LocalPostgres:
    """Return a handle on the server of `directory`, which is started if nobody has done so.

    Args:
        directory: Where the server lives; created when missing, with a new cluster and an empty database.
        options: More arguments for `postgres` (`("-c", "fsync=off")`). Who starts the server decides them.

    Raises:
        EmbeddedPostgresFailed: There is no Postgres to run, or it did not start; the message says what to do.
    """
    try:
        directory = _created(directory)
        with _alone(directory, makes_it=True):
            holding = _hold(directory)
            try:
                return LocalPostgres(server.up(directory, options), holding)
            except BaseException:
                _let_go(holding)
                raise
    except (OSError, subprocess.SubprocessError) as error:
        remedy = f"{directory} must be writable, and belong to the user who runs this; or set DATABASE_URL"
        raise EmbeddedPostgresFailed(str(error), remedy) from error
    except psycopg.Error as error:
        problem = f"the server runs, but gave no database ({type(error).__name__})"
        raise EmbeddedPostgresFailed(problem, f"see {directory / 'postgres.log'}") from None


def dsn_if_running(directory: Path) -> str | None:
    """Return the address of the server of `directory` if it answers; nothing is started or held."""
    try:
        cluster = recall(directory.resolve())
    except OSError:  # Another user's.
        return None
    if cluster is None or cluster.directory != directory.resolve() or server.answer(cluster) is None:
        return None
    return cluster.dsn


def remove(directory: Path) -> bool:
    """Delete the cluster of `directory` with its data; False: somebody holds it, or there is none."""
    return _removed(directory, delete)


def remove_directory(directory: Path) -> bool:
    """Delete the cluster of `directory` and the directory itself; False: somebody holds it, or there is none.

    Who is about to attach there meanwhile finds it gone, and makes it anew.
    """

    def whole(cluster: Cluster) -> None:
        delete(cluster)
        shutil.rmtree(cluster.directory, ignore_errors=True)

    return _removed(directory, whole)


def _removed(directory: Path, delete_it: Callable[[Cluster], None]) -> bool:
    directory = directory.resolve()
    # It may go at any moment, by somebody else who removes it.
    with suppress(FileNotFoundError), _alone(directory):
        holding = _hold(directory)
        try:
            cluster = recall(directory)
            if cluster is None or not _is_last(holding):
                return False
            server.stop(cluster)
            delete_it(cluster)  # While the lock is held, or somebody would begin anew in what is just being deleted.
            return True
        finally:
            _let_go(holding)
    return False


def _created(directory: Path) -> Path:
    directory.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        directory.mkdir()
        # The account that runs the server for root has to pass through; it cannot list what is there.
        directory.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return directory.resolve()


@contextmanager
def _alone(directory: Path, *, makes_it: bool = False) -> Iterator[None]:
    """Keep every other process from starting, joining, stopping or removing the server meanwhile."""
    while (lock := _start_lock(directory, makes_it=makes_it)) is None:
        pass
    try:
        yield
    finally:
        _let_go(lock)


def _start_lock(directory: Path, *, makes_it: bool) -> int | None:
    """Return the lock once it is had; None: it was removed, and perhaps made anew, while somebody waited for it."""
    try:
        lock = open_private(directory / "start.lock", os.O_RDWR)
    except FileNotFoundError:
        if not makes_it:
            raise
        _created(directory)
        return None
    fcntl.flock(lock, fcntl.LOCK_EX)
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(lock), (directory / "start.lock").stat()):
            return lock
    _let_go(lock)
    return None


def _hold(directory: Path) -> int:
    holding = open_private(directory / "holders.lock", os.O_RDWR)
    fcntl.flock(holding, fcntl.LOCK_SH)
    return holding


def _is_last(holding: int) -> bool:
    """Whether nobody else holds the server. Only for who is leaving: a refusal may cost the shared lock."""
    try:
        fcntl.flock(holding, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _let_go(lock: int) -> None:
    # Explicitly: a forked child may share the open file, and its copy would keep the lock alive.
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)
