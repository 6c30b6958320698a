"""Run gunicorn so that it ends when the process that started it ends.

`local.server` runs this module with `python -m` and the arguments of gunicorn. The starter keeps the other end of this
process's standard input open. The kernel closes that end however the starter dies; the workers wait for this, and then
stop their master gracefully. The workers also use the embedded database, which the last worker stops when it ends.
"""

import os
import signal
import threading
from pathlib import Path
from typing import Any

from gunicorn.app.wsgiapp import WSGIApplication  # type: ignore[import-untyped]  # gunicorn ships no types

from scheduled_actions.local import environment
from scheduled_actions.runtime import current


class LocalGunicorn(WSGIApplication):  # type: ignore[misc]  # as untyped as its module
    """Gunicorn with the project's `.env`, and with workers that stop it when the process that started it ends."""

    #: The variables that are in the environment because `.env` sets them.
    _of_env_file: frozenset[str] = frozenset()

    def load_config(self) -> None:
        """Read `.env` and the settings, at the start and at each reload, and extend the start of each worker."""
        self._read_env_file()
        super().load_config()
        configured_init, configured_exit = self.cfg.post_worker_init, self.cfg.worker_exit

        def post_worker_init(worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
            configured_init(worker)
            current().find_dsn()
            # The thread runs in the workers, not in the master, because a process with threads should not fork.
            threading.Thread(target=_end_with_starter, args=[worker.ppid], daemon=True).start()
            # After a reload, actions may be waiting for the new handlers.
            current().wake.notify()

        def worker_exit(server: Any, worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
            configured_exit(server, worker)
            if worker.booted:
                # Until now this worker may have answered pings with its old handlers, or with `busy`.
                current().wake.notify()

        self.cfg.set("post_worker_init", post_worker_init)
        self.cfg.set("worker_exit", worker_exit)

    def _read_env_file(self) -> None:
        if environment.uses_command(os.environ):
            return  # The environment already contains the output of the program.
        own = {name: value for name, value in os.environ.items() if name not in self._of_env_file}
        complete = environment.load(Path(own["SCHEDULED_ACTIONS_PROJECT"]), own)
        for name in self._of_env_file - complete.keys():
            del os.environ[name]
        self._of_env_file = frozenset(complete.keys() - own.keys())
        os.environ.update({name: complete[name] for name in self._of_env_file})


def _end_with_starter(master: int) -> None:
    while os.read(0, 1):
        pass
    if os.getppid() == master:  # After the master has ended, its process id may belong to another process.
        os.kill(master, signal.SIGTERM)


if __name__ == "__main__":
    LocalGunicorn("%(prog)s [OPTIONS] [APP_MODULE]").run()
