"""Lock the files that coordinate the processes of one server; the kernel releases the locks however a process ends.

`start.lock` is held while the server is started, joined, stopped or removed. `holders.lock` is shared by all holders as
long as they hold a handle. `server.lock`, next to the data, is held by the server's own processes. Locks also reach
processes in other containers, where process ids and ports do not.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scheduled_actions.database.embedded.cluster import create_directory, open_private


@contextmanager
def starting(directory: Path, *, may_create: bool = False) -> Iterator[None]:
    """Prevent other processes from starting, joining, stopping or removing the server during the block.

    Raises:
        FileNotFoundError: The directory does not exist, and `may_create` is false.
    """
    path = directory / "start.lock"
    while True:
        try:
            lock = open_private(path, os.O_RDWR)
        except FileNotFoundError:
            if not may_create:
                raise
            create_directory(directory)
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have removed the file while this one waited for the lock.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), path.stat()):
                break
        unlock(lock)
    try:
        yield
    finally:
        unlock(lock)


def open_unlocked(directory: Path) -> tuple[int, int]:
    """Open `start.lock` and `holders.lock` for a process that will lock them; return their descriptors."""
    start = open_private(directory / "start.lock", os.O_RDWR)
    return start, open_private(directory / "holders.lock", os.O_RDWR)


def join_holders(directory: Path) -> int:
    """Count this process as a holder; return the descriptor of its lock."""
    lock = open_private(directory / "holders.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def is_last_holder(lock: int) -> bool:
    """Return whether no other process holds the server; if False, the shared lock may have been lost."""
    return _lock_now(lock, fcntl.LOCK_EX)


def has_holders(directory: Path) -> bool:
    """Return whether a process holds the server. The caller holds the start lock."""
    lock = open_private(directory / "holders.lock", os.O_RDWR)
    try:
        return not is_last_holder(lock)
    finally:
        os.close(lock)


def lock_server(home: Path) -> int | None:
    """Lock `server.lock` for a new server; return its descriptor, or None if a process of a server is running.

    The server inherits the descriptor. The caller closes it without unlocking, because the server shares the lock.

    Args:
        home: The directory that contains the data directory.
    """
    lock = open_private(home / "server.lock", os.O_RDWR)
    if _lock_now(lock, fcntl.LOCK_EX):
        return lock
    os.close(lock)
    return None


def has_server(home: Path) -> bool:
    """Return whether a process of the server is running, in this container or in another one."""
    try:
        lock = os.open(home / "server.lock", os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        # A shared lock, so that two processes that ask at once do not take each other for the server.
        return not _lock_now(lock, fcntl.LOCK_SH)
    finally:
        os.close(lock)


def unlock(lock: int) -> None:
    """Release a lock and close its descriptor."""
    # Unlocked before it is closed: a forked child may share the open file, and its copy would keep the lock.
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


def _lock_now(lock: int, kind: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
        return True
    return False
