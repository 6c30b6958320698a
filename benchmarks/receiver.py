"""A minimal webhook receiver that runs in its own process: `python -m benchmarks.receiver`.

It prints its port and responds with 204: `/at-once…` immediately, `/slow…` after 50 ms, `/hang…` never. `GET /seen`
returns the number of answered posts and the time of the last one; `GET /release` closes hanging connections.
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
    """Posts that a receiver has answered."""

    posts: int
    #: Time of the last one on the monotonic clock, in seconds.
    last_at: float


@dataclass(frozen=True, slots=True)
class Receiver:
    """A running receiver."""

    url: str

    def seen(self) -> Seen:
        """Return the posts answered so far."""
        return self._get("seen")

    def release(self) -> None:
        """Close all hanging connections, so that their senders do not wait for their timeout."""
        self._get("release")

    def _get(self, path: str) -> Seen:
        with urllib.request.urlopen(f"{self.url}/{path}", timeout=10) as answer:
            return Seen(**json.load(answer))


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Start a receiver, yield it and stop it afterwards."""
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
            seen = json.dumps({"posts": _Connection.posts, "last_at": _Connection.last_at}).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(seen), seen))
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
