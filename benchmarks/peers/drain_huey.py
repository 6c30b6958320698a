"""Worker process of Huey: its Postgres storage and a consumer with threads."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from huey import PostgresHuey

from benchmarks.peers.serve import Marks, serve, url

THREADS = 8
#: Threads that fill the queue, because each job takes two commits.
_FILLERS = 8


class HueyPeer:
    """A Huey consumer."""

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
        """Do nothing: the constructor creates the tables."""

    def fill(self, count: int) -> None:
        """Enqueue jobs one by one; Huey has no bulk function."""
        with ThreadPoolExecutor(_FILLERS) as pool:
            for _ in pool.map(self._noop, range(count)):
                pass

    def start(self) -> None:
        """Start the consumer."""
        self._consumer = self._huey.create_consumer(workers=THREADS, periodic=False)
        self._consumer.start()

    def stop(self) -> None:
        """Stop the consumer."""
        self._consumer.stop(graceful=True)


if __name__ == "__main__":
    logging.getLogger("huey").setLevel(logging.WARNING)
    serve(HueyPeer())
