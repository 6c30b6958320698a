"""A receiver of webhooks that costs as little as can be, in a process of its own: `python -m benchmarks.receiver`.

It prints its port, and answers 204: `/at-once…` at once, `/slow…` after 50 ms, `/hang…` never. `GET /seen` tells how
many posts it has answered, and when the last one came; `GET /release` hangs up on those that wait.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from benchmarks.serving import stop

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOW_SECONDS = 0.05
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_ANSWER = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a receiver has answered."""

    posts: int
    #: On the system's monotonic clock, in seconds.
    last_at: float


@dataclass(frozen=True, slots=True)
class Receiver:
    """One that runs."""

    url: str

    def seen(self) -> Seen:
        """Return what it has answered so far."""
        return self._told("seen")

    def release(self) -> None:
        """Hang up on all that wait for an answer in vain, so that they need not be waited for."""
        self._told("release")

    def _told(self, path: str) -> Seen:
        with urllib.request.urlopen(f"{self.url}/{path}", timeout=10) as answer:
            return Seen(**json.load(answer))


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Give a receiver, and stop it afterwards."""
    root = Path(__file__).parents[1]
    with subprocess.Popen([sys.executable, "-m", "benchmarks.receiver"], stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout is not None
        try:
            yield Receiver(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            stop(process)


class _Connection(asyncio.Protocol):
    posts, last_at = 0, 0.0
    waiting: ClassVar[set[asyncio.Transport]] = set()

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        needed = int(length[1]) if length else 0
        if not end or len(body) < needed:
            return
        self._buffer = body[needed:]
        if head.startswith(b"GET"):
            if head.startswith(b"GET /release"):
                while _Connection.waiting:
                    _Connection.waiting.pop().abort()
            told = json.dumps({"posts": _Connection.posts, "last_at": _Connection.last_at}).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(told), told))
        elif head.startswith(b"POST /at-once"):
            self._answer()
        elif head.startswith(b"POST /slow"):
            asyncio.get_running_loop().call_later(SLOW_SECONDS, self._answer)
        else:
            _Connection.waiting.add(self._transport)

    def _answer(self) -> None:
        _Connection.posts += 1
        _Connection.last_at = time.monotonic()
        self._transport.write(_ANSWER)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
