"""Worker process of Procrastinate: an async worker with ten concurrent jobs."""

from __future__ import annotations

import asyncio

from procrastinate import App, PsycopgConnector

from benchmarks.peers.serve import Marks, serve, url

CONCURRENCY = 10


class ProcrastinatePeer:
    """A Procrastinate worker."""

    def __init__(self) -> None:
        self.marks = Marks()
        self._app = App(connector=PsycopgConnector(conninfo=url(), min_size=5, max_size=20))
        self._is_open = False

        @self._app.task(name="noop")
        async def noop(n: int) -> None:
            del n
            self.marks.note()

        self._noop = noop

    async def _opened(self) -> App:
        if not self._is_open:
            await self._app.open_async()
            self._is_open = True
        return self._app

    async def prepare(self) -> None:
        """Create the tables."""
        await (await self._opened()).schema_manager.apply_schema_async()

    async def fill(self, count: int) -> None:
        """Defer jobs in one batch."""
        await self._opened()
        await self._noop.batch_defer_async(*[{"n": number} for number in range(count)])

    async def start(self) -> None:
        """Start the worker."""
        app = await self._opened()
        self._running = asyncio.create_task(
            app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
        )

    async def stop(self) -> None:
        """Cancel the worker and wait for it."""
        self._running.cancel()
        await asyncio.wait([self._running])


if __name__ == "__main__":
    serve(ProcrastinatePeer())
