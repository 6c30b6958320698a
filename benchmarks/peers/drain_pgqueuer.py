"""Worker process of PgQueuer: batches and autovacuum as in its tuning guide, default durability."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.queries import Queries

from benchmarks.peers.serve import Marks, serve, url

if TYPE_CHECKING:
    from pgqueuer.models import Job

BATCH = 500


class PgQueuerPeer:
    """A PgQueuer queue manager."""

    def __init__(self) -> None:
        self.marks = Marks()
        self._pool: asyncpg.Pool[Any] | None = None

    async def _connected(self) -> asyncpg.Pool[Any]:
        if self._pool is None:
            self._pool = await asyncpg.create_pool(url(), min_size=5, max_size=20)
        return self._pool

    async def prepare(self) -> None:
        """Create the tables and tune autovacuum."""
        queries = Queries(AsyncpgPoolDriver(await self._connected()))
        await queries.install()
        await queries.optimize_autovacuum()

    async def fill(self, count: int) -> None:
        """Enqueue jobs in one call."""
        queries = Queries(AsyncpgPoolDriver(await self._connected()))
        await queries.enqueue(["noop"] * count, [b'{"n": 1}'] * count, [0] * count)

    async def start(self) -> None:
        """Start the queue manager."""
        self._peer = PgQueuer(AsyncpgPoolDriver(await self._connected()))

        @self._peer.entrypoint("noop")
        async def noop(job: Job) -> None:
            del job
            self.marks.note()

        self._running = asyncio.create_task(self._peer.qm.run(batch_size=BATCH))

    async def stop(self) -> None:
        """Shut down the queue manager."""
        self._peer.qm.shutdown.set()
        await self._running


if __name__ == "__main__":
    uvloop.install()
    serve(PgQueuerPeer())
