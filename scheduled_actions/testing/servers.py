"""An embedded Postgres for one run of tests, shared by all its processes; nothing is left behind."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from scheduled_actions.database.embedded import remove_directory

#: Tests end processes, not the machine: the operating system keeps what was written.
NOT_DURABLE = ("-c", "fsync=off", "-c", "max_connections=500")


def roomy_place() -> Path:
    """Return memory where there is plenty: it clones a database in 10 ms, a disk takes 100."""
    memory = Path("/dev/shm")  # noqa: S108 - whoever uses it makes a directory of its own
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > 2**31
    return memory if has_room else Path(tempfile.gettempdir())


def sweep(prefix: str) -> None:
    """Remove the servers of runs that were killed; a run that goes on holds its own, or has none yet."""
    for left in roomy_place().glob(f"{prefix}*"):
        with suppress(OSError):  # It may be just ending.
            if left.stat().st_uid == os.geteuid():
                remove_directory(left)


def clear(directory: Path) -> None:
    """Remove the server of a run that has ended, with everything in it."""
    if directory.is_dir():
        remove_directory(directory)
        shutil.rmtree(directory, ignore_errors=True)
