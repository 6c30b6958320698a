"""Run a peer in separate processes that receive orders as JSON lines on standard input."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import WrongResultError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ROOT = Path(__file__).parents[2]
#: Prefix of an answer; other lines are output of libraries.
_ANSWER = '{"answer":'


class Worker:
    """One process of a peer.

    Args:
        command: Program and arguments.
        environ: Its whole environment.
        log: File for its standard error.

    Raises:
        WrongResultError: The process exited instead of answering.
    """

    def __init__(self, command: Sequence[str | Path], environ: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=_ROOT,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
            )
        self.call("ready")

    def call(self, order: str, **arguments: object) -> Any:  # noqa: ANN401 - depends on the order
        """Send an order and return the answer of the process."""
        self.send(order, **arguments)
        return self.receive(order)

    def send(self, order: str, **arguments: object) -> None:
        """Send an order without waiting for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"order": order, **arguments}) + "\n")

    def receive(self, order: str) -> Any:  # noqa: ANN401 - depends on the order
        """Wait for and return the answer to an order."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_ANSWER):
                return json.loads(line)["answer"]
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
        raise WrongResultError(f"exit of {order!r} ({' | '.join(said)})", found=self._process.wait(), expected=0)

    def close(self) -> None:
        """Close the standard input and wait for the exit; kill the process after 15 seconds."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def workers(
    command: Sequence[str | Path], count: int, *, environ: Mapping[str, str], log: Path
) -> Iterator[list[Worker]]:
    """Start `count` processes of a peer with these additional variables, yield them, and end them afterwards."""
    environ = {**os.environ, **environ}
    started: list[Worker] = []
    try:
        for _ in range(count):
            started.append(Worker(command, environ, log))  # noqa: PERF401 - started processes are closed if a later one fails
        yield started
    finally:
        for worker in started:
            worker.close()
