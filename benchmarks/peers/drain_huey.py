"""Huey on its Postgres storage: a consumer of threads."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from huey import PostgresHuey

from benchmarks.peers.serve import Marks, serve, url

THREADS = 8
#: A job is put into the queue by two commits; from several sides the filling is bearable.
_FILLERS = 8


class HueyPeer:
    """One consumer."""

    def __init__(self) -> None:
        self.marks = Marks()
        self._lock = threading.Lock()
        self._huey = PostgresHuey("noop", dsn=url())

        @self._huey.task()
        def noop(n: int) -> None:
            del n
            with self._lock:
                self.marks.note()

        self._noop = noop

    def prepare(self) -> None:
        """Make the tables: done when the object is made."""

    def fill(self, count: int) -> None:
        """Put jobs into the queue; there is no way to put many at once."""
        with ThreadPoolExecutor(_FILLERS) as pool:
            for _ in pool.map(self._noop, range(count)):
                pass

    def start(self) -> None:
        """Begin to work."""
        self._consumer = self._huey.create_consumer(workers=THREADS, periodic=False)
        self._consumer.start()

    def stop(self) -> None:
        """End the work."""
        self._consumer.stop(graceful=True)


if __name__ == "__main__":
    logging.getLogger("huey").setLevel(logging.WARNING)
    serve(HueyPeer())
