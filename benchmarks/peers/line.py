"""A peer in processes of its own, told what to do by lines on their standard input."""

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
#: How an answer begins: libraries print, too.
_ANSWER = '{"answer":'


class Worker:
    """One process of a peer.

    Args:
        command: Its program and arguments.
        environ: All that it sees.
        log: Where it says what is no answer.

    Raises:
        WrongResultError: It ended in place of an answer.
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
        self.ask("ready")

    def ask(self, order: str, **arguments: object) -> Any:  # noqa: ANN401 - what the order answers
        """Give an order and return what the process answers."""
        self.tell(order, **arguments)
        return self.answer(order)

    def tell(self, order: str, **arguments: object) -> None:
        """Give an order; its answer is still to be taken."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"order": order, **arguments}) + "\n")

    def answer(self, order: str) -> Any:  # noqa: ANN401 - what the order answers
        """Wait for the answer to an order that was given."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_ANSWER):
                return json.loads(line)["answer"]
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
        raise WrongResultError(f"exit of {order!r} ({' | '.join(said)})", found=self._process.wait(), expected=0)

    def leave(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def workers(command: Sequence[str | Path], count: int, *, url: str, log: Path) -> Iterator[list[Worker]]:
    """Give so many processes of a peer, ready for orders, and end them afterwards."""
    environ = {**os.environ, "PEER_DATABASE_URL": url}
    started: list[Worker] = []
    try:
        for _ in range(count):
            started.append(Worker(command, environ, log))  # noqa: PERF401 - what has started is ended if the next does not
        yield started
    finally:
        for worker in started:
            worker.leave()
