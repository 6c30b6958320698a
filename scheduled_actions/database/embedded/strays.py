"""Find and delete the clusters below `/var/lib/scheduled-actions` whose projects no longer exist."""

import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from scheduled_actions.core.errors import EmbeddedPostgresFailed
from scheduled_actions.database.embedded import cluster, locks


class Stray(NamedTuple):
    """A directory that no project uses."""

    home: Path
    #: The directory of the server for which it was created.
    directory: Path


def find() -> list[Stray]:
    """Return the directories whose project was deleted, or uses another directory; none unless the user is root.

    A project that was moved, and whose server has not run since, counts as deleted.
    """
    found = []
    with suppress(OSError):  # It is missing, or belongs to root.
        for home in sorted(cluster.HOMES.iterdir()):
            with suppress(OSError):  # It is just being created or deleted.
                found.append(Stray(home, Path((home / "project").read_text(encoding="utf-8").removesuffix("\n"))))
    return [one for one in found if _is_unused(one)]


def remove(stray: Stray) -> bool:
    """Delete a directory with its data; return False if it is in use."""
    with ExitStack() as stack:
        with suppress(FileNotFoundError):
            # A process that is creating the cluster has not stored it yet.
            stack.enter_context(locks.starting(stray.directory))
        if not _is_unused(stray) or locks.has_server(stray.home):
            return False
        shutil.rmtree(stray.home)
    return True


def _is_unused(stray: Stray) -> bool:
    try:
        stored = cluster.load(stray.directory)
    except (OSError, EmbeddedPostgresFailed):  # A person has to look.
        return False
    return stored is None or stored.elsewhere != stray.home
