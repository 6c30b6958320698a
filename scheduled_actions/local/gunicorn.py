"""Gunicorn that ends with the process that started it: what `local_server` runs, as `python -m`.

Its arguments are gunicorn's. Whoever starts it keeps the other end of its standard input open: the kernel closes
that end however the starter dies, and the workers, who wait for it, then stop their master in order. They hold the
embedded database, too, so that the last to go stops it, whoever that is.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from gunicorn.app.wsgiapp import WSGIApplication  # type: ignore[import-untyped]  # gunicorn ships no types

from scheduled_actions.runtime import current


class LocalGunicorn(WSGIApplication):  # type: ignore[misc]  # as untyped as its module
    """Gunicorn with the settings it is given, and one thing more that its workers do."""

    def load_config(self) -> None:
        """Read the settings, now and at each reload, and add to them what a worker does when it begins."""
        super().load_config()
        configured = self.cfg.post_worker_init

        def post_worker_init(worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
            configured(worker)
            current().find_dsn()
            # In the workers and not in the master, because a process with threads had better not fork.
            threading.Thread(target=_end_with_starter, args=[worker.ppid], daemon=True).start()

        self.cfg.set("post_worker_init", post_worker_init)


def _end_with_starter(master: int) -> None:
    while os.read(0, 1):
        pass
    if os.getppid() == master:  # Once the master has gone, its number may be anybody's.
        os.kill(master, signal.SIGTERM)


if __name__ == "__main__":
    LocalGunicorn("%(prog)s [OPTIONS] [APP_MODULE]").run()
