"""What the processes of the Python peers have in common: orders in, answers out. The standard library alone."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import time
from typing import Any, Protocol

#: Handlers between two marks.
MARK_EVERY = 100


class Marks:
    """Counts handlers, and notes the time of each hundredth."""

    def __init__(self) -> None:
        self.count = 0
        self.times: list[float] = []

    def note(self) -> None:
        """Count one handler."""
        self.count += 1
        if self.count % MARK_EVERY == 0:
            self.times.append(time.time())

    def take(self) -> dict[str, Any]:
        """Return what was counted since the last time."""
        taken = {"count": self.count, "times": self.times}
        self.count, self.times = 0, []
        return taken


class Peer(Protocol):
    """What can be ordered of a peer; each may be a coroutine function."""

    marks: Marks

    def prepare(self) -> Any:  # noqa: ANN401 - nothing, or a coroutine
        """Make the tables; ordered of one process only."""

    def fill(self, count: int) -> Any:  # noqa: ANN401
        """Put jobs that do nothing into the queue, in whatever way is quickest."""

    def start(self) -> Any:  # noqa: ANN401
        """Begin to work on the queue."""

    def stop(self) -> Any:  # noqa: ANN401
        """End the work in order; what was begun is ended."""


def serve(peer: Peer) -> None:
    """Follow the orders on standard input until it is closed."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # What libraries print is no answer.
    asyncio.run(_serve(peer, answers))


async def _serve(peer: Peer, answers: Any) -> None:  # noqa: ANN401 - a text file
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        answers.write(json.dumps({"answer": await _follow(peer, **order)}) + "\n")


async def _follow(peer: Peer, order: str, **arguments: int) -> Any:  # noqa: ANN401 - null, or what was counted
    if order == "ready":
        return None
    done = getattr(peer, order)(**arguments)
    if inspect.isawaitable(done):
        await done
    return peer.marks.take() if order == "stop" else None


def url() -> str:
    """Return the address of the peer's own database."""
    return os.environ["PEER_DATABASE_URL"]
