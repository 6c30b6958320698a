"""Celery with jobs in Redis and results in Postgres: fills the queue, and starts workers with a prefork pool.

The pool's processes import this module, too, and write what they counted to a file when they exit.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from celery import Celery
from celery.signals import worker_process_shutdown

from benchmarks.peers.serve import Marks, serve, url

#: The optimizing guide recommends 64 or 128 for many short tasks.
PREFETCH = 128
#: Directory in which the pool's processes write what they counted.
COUNTS = "PEER_COUNTS"
#: The module by its name, because it is also run as a script.
_MODULE = "benchmarks.peers.drain_celery"

app = Celery(
    "noop",
    broker=os.environ["PEER_REDIS_URL"],
    backend="db+" + url().replace("postgresql://", "postgresql+psycopg://", 1),
)
app.conf.update(
    worker_prefetch_multiplier=PREFETCH,
    # The default checks the connection before each result.
    database_engine_options={"pool_pre_ping": False},
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)
_marks = Marks()


@app.task(name="noop")
def noop(n: int) -> None:
    """Count a job."""
    del n
    _marks.note()


@worker_process_shutdown.connect
def _write_counts(**_: object) -> None:
    (Path(os.environ[COUNTS]) / f"{os.getpid()}.json").write_text(json.dumps(_marks.take()), encoding="utf-8")


class _Counted(Marks):
    """The marks of all processes of the pool."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def take(self) -> dict[str, object]:
        """Return the counts of the processes that have exited since the last call."""
        files = list(self._directory.glob("*.json"))
        counted = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        for file in files:
            file.unlink()
        return {
            "count": sum(one["count"] for one in counted),
            "times": sorted(moment for one in counted for moment in one["times"]),
        }


class CeleryPeer:
    """A Celery worker with a pool of processes."""

    def __init__(self, directory: Path) -> None:
        self.marks = _Counted(directory)
        self._directory = directory
        self._worker: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Create the tables of results, and one with the number of jobs."""
        app.backend.ResultSession().close()
        with psycopg.connect(url()) as connection:
            connection.execute("create table expected (count integer not null)")

    def fill(self, count: int) -> None:
        """Send jobs one by one over one connection; Celery has no bulk function."""
        with psycopg.connect(url()) as connection:
            connection.execute("insert into expected values (%s)", [count])
        with app.producer_pool.acquire() as producer:
            for number in range(count):
                noop.apply_async((number,), producer=producer)

    def start(self) -> None:
        """Start the worker."""
        command = [sys.executable, "-m", "celery", "--app", _MODULE, "worker", "--pool", "prefork"]
        command += ["--concurrency", os.environ["PEER_PROCESSES"], "--loglevel", "WARNING"]
        environ = {**os.environ, COUNTS: str(self._directory), "C_FORCE_ROOT": "1"}
        self._worker = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL)

    def stop(self) -> None:
        """Stop the worker and wait until it has exited."""
        if self._worker is not None:
            self._worker.send_signal(signal.SIGTERM)
            self._worker.wait(timeout=30)


if __name__ == "__main__":
    with TemporaryDirectory(prefix="scheduled-actions-celery-") as _counts:
        serve(CeleryPeer(Path(_counts)))
