"""Run a temporary Redis server for the peers that need one."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.serving import stop

if TYPE_CHECKING:
    from collections.abc import Iterator

_START_SECONDS = 10.0


@contextmanager
def redis_server(program: Path) -> Iterator[str]:
    """Start a Redis server with its default settings in a temporary directory, yield its URL, and stop it afterwards.

    Raises:
        TimeoutError: It does not accept connections.
    """
    directory = tempfile.mkdtemp(prefix="scheduled-actions-redis-")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [str(program), "--bind", "127.0.0.1", "--port", str(port), "--dir", directory]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until_up(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        stop(process)
        shutil.rmtree(directory, ignore_errors=True)


def _wait_until_up(port: int) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError as error:
            if time.monotonic() > until:
                message = "the Redis server does not accept connections"
                raise TimeoutError(message) from error
            time.sleep(0.05)
        else:
            return
