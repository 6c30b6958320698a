"""Gunicorn that ends with the process that started it: what `local_server` runs, as `python -m`.

Its arguments are gunicorn's. Whoever starts it keeps the other end of its standard input open: the kernel closes
that end however the starter dies, and the workers, who wait for it, then stop their master in order. They hold the
embedded database, too, so that the last to go stops it, whoever that is.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

from gunicorn.app.wsgiapp import WSGIApplication  # type: ignore[import-untyped]  # gunicorn ships no types

from scheduled_actions.local import environment
from scheduled_actions.runtime import current


class LocalGunicorn(WSGIApplication):  # type: ignore[misc]  # as untyped as its module
    """Gunicorn with the settings it is given, the project's `.env`, and one thing more that its workers do."""

    #: The variables that are in the environment because they stand in `.env`.
    _of_env_file: frozenset[str] = frozenset()

    def load_config(self) -> None:
        """Read the settings and `.env`, now and at each reload, and add to them what a worker does when it begins."""
        self._read_env_file()
        super().load_config()
        configured = self.cfg.post_worker_init

        def post_worker_init(worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
            configured(worker)
            current().find_dsn()
            # In the workers and not in the master, because a process with threads had better not fork.
            threading.Thread(target=_end_with_starter, args=[worker.ppid], daemon=True).start()

        self.cfg.set("post_worker_init", post_worker_init)

    def _read_env_file(self) -> None:
        if environment.uses_command(os.environ):
            return  # What it printed came with the environment.
        own = {name: value for name, value in os.environ.items() if name not in self._of_env_file}
        found = environment.load(Path(own["SCHEDULED_ACTIONS_PROJECT"]), own)
        for name in self._of_env_file - found.keys():
            del os.environ[name]
        self._of_env_file = frozenset(found.keys() - own.keys())
        os.environ.update({name: found[name] for name in self._of_env_file})


def _end_with_starter(master: int) -> None:
    while os.read(0, 1):
        pass
    if os.getppid() == master:  # Once the master has gone, its number may be anybody's.
        os.kill(master, signal.SIGTERM)


if __name__ == "__main__":
    LocalGunicorn("%(prog)s [OPTIONS] [APP_MODULE]").run()
