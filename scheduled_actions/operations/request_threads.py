"""A limit on concurrent requests to the API and the dashboard, which keeps threads free for health checks and pings."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from scheduled_actions.core.errors import TooBusy

#: Threads reserved for health checks and `/cron/process`.
_RESERVED = 2


class RequestThreads:
    """The limit on concurrent requests of one process to the API and the dashboard.

    Args:
        http_threads: Number of threads of the process that serve requests; all but two, and at least one, serve the API
            and the dashboard.
    """

    def __init__(self, http_threads: int) -> None:
        self.limit = max(1, http_threads - _RESERVED)
        self._free = threading.BoundedSemaphore(self.limit)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Reserve a thread for a request to the API or the dashboard, without waiting.

        Raises:
            TooBusy: All threads for these requests are in use.
        """
        if not self._free.acquire(blocking=False):
            raise TooBusy(self.limit)
        try:
            yield
        finally:
            self._free.release()


def threads_of_gunicorn() -> int | None:
    """Return the number of threads of the gunicorn worker that runs this process; None without gunicorn."""
    # The handler of this signal is a method of the gunicorn worker or, with `preload_app`, of its master. Both objects
    # have gunicorn's settings.
    handler = signal.getsignal(signal.SIGUSR1) if hasattr(signal, "SIGUSR1") else None
    threads = getattr(getattr(getattr(handler, "__self__", None), "cfg", None), "threads", None)
    return threads if isinstance(threads, int) else None
