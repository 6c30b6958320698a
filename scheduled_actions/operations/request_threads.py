"""How many requests of the API and the dashboard one process answers at once."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import TooBusy

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Threads that stay free for health checks and `/cron/process`.
_RESERVED = 2


class RequestThreads:
    """Limits the requests at work at once, so that health checks and pings always find a thread.

    Args:
        http_threads: All threads of the process that serve requests.
    """

    def __init__(self, http_threads: int) -> None:
        self.limit = max(1, http_threads - _RESERVED)
        self._free = threading.BoundedSemaphore(self.limit)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Use one of the threads for a request.

        Raises:
            TooBusy: All of them are in use.
        """
        if not self._free.acquire(blocking=False):
            raise TooBusy(self.limit)
        try:
            yield
        finally:
            self._free.release()


def threads_of_gunicorn() -> int | None:
    """Return how many threads the gunicorn worker that runs this process has; None where gunicorn does not serve."""
    # A worker, or with `preload_app` its master, handles this signal itself; both carry gunicorn's settings.
    handler = signal.getsignal(signal.SIGUSR1) if hasattr(signal, "SIGUSR1") else None
    settings = getattr(getattr(handler, "__self__", None), "cfg", None)
    threads = getattr(settings, "threads", None)
    return threads if isinstance(threads, int) else None
