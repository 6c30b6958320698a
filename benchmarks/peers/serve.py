"""Shared by the processes of the Python peers: receive orders, send answers. Uses only the standard library."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import time
from typing import Any, Protocol

#: Number of handlers per recorded time.
MARK_EVERY = 100


class Marks:
    """Count handlers and record the time of every hundredth."""

    def __init__(self) -> None:
        self.count = 0
        self.times: list[float] = []

    def note(self) -> None:
        """Count one handler."""
        self.count += 1
        if self.count % MARK_EVERY == 0:
            self.times.append(time.time())

    def take(self) -> dict[str, Any]:
        """Return the count and times since the last call, and reset them."""
        taken = {"count": self.count, "times": self.times}
        self.count, self.times = 0, []
        return taken


class Peer(Protocol):
    """Orders that a peer executes; each may be a coroutine function."""

    marks: Marks

    def prepare(self) -> Any:  # noqa: ANN401 - nothing, or a coroutine
        """Create the tables; called in one process only."""

    def fill(self, count: int) -> Any:  # noqa: ANN401
        """Enqueue no-op jobs in the fastest way."""

    def start(self) -> Any:  # noqa: ANN401
        """Start processing the queue."""

    def stop(self) -> Any:  # noqa: ANN401
        """Stop processing after the running jobs have ended."""


def serve(peer: Peer) -> None:
    """Execute orders from standard input until it is closed."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # Output of libraries goes to standard error.
    asyncio.run(_serve(peer, answers))


async def _serve(peer: Peer, answers: Any) -> None:  # noqa: ANN401 - a text file
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        answers.write(json.dumps({"answer": await _follow(peer, **order)}) + "\n")


async def _follow(peer: Peer, order: str, **arguments: int) -> Any:  # noqa: ANN401 - None, or the counts
    if order == "ready":
        return None
    done = getattr(peer, order)(**arguments)
    if inspect.isawaitable(done):
        await done
    return peer.marks.take() if order == "stop" else None


def url() -> str:
    """Return the URL of the peer's database."""
    return os.environ["PEER_DATABASE_URL"]
