"""The project served on this machine: gunicorn as a child process that never outlives its starter."""

from __future__ import annotations

import errno
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from scheduled_actions.core.errors import LocalServerFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOST = "127.0.0.1"
#: What the server says goes here, below the project.
LOG_NAME = ".scheduled_actions/server.log"
#: A longer log begins anew.
_LOG_BYTES = 1_000_000
#: Longest wait for the first answer.
_START_SECONDS = 30.0
#: Lines of the log that tell why there was none.
_TOLD_LINES = 12
_PORT_FACTS: dict[int | None, str] = {
    errno.EADDRINUSE: "where something else listens",
    errno.EACCES: "where only root may",
}


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the port, so that a port that is taken is known before anything is started.

    Args:
        port: 0 takes any that is free.

    Raises:
        LocalServerFailed: The port is taken, or not for this user.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        number = error.errno if isinstance(error, OSError) else None
        problem = f"it cannot listen on {HOST}:{port}, {_PORT_FACTS.get(number, str(error))}"
        raise LocalServerFailed(problem, "choose another port with --port or PORT") from error
    return listening


class LocalServer:
    """Gunicorn with one worker on a socket that listens already; it answers once this is made.

    Args:
        project: The project's directory.
        listening: Given up to the server.
        settings: The file of gunicorn's settings.
        environ: The server's environment.
        log: Where its output goes; None: where this process's own goes.

    Raises:
        LocalServerFailed: It ended or fell silent before its first answer; the message ends with its last words.
    """

    def __init__(
        self,
        project: Path,
        listening: socket.socket,
        *,
        settings: Path,
        environ: Mapping[str, str],
        log: Path | None,
    ) -> None:
        self.port: int = listening.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}"
        self._log = log
        command = [sys.executable, "-m", "scheduled_actions.local.gunicorn", "--config", str(settings)]
        command += ["--bind", f"fd://{listening.fileno()}", "--workers", "1", "scheduled_actions.wsgi:app"]
        output = None if log is None else _opened(log)
        self._told_from = 0 if output is None else os.fstat(output).st_size
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, our own arguments
                command,
                cwd=project,
                env={**environ, "SCHEDULED_ACTIONS_PROJECT": str(project)},
                stdin=subprocess.PIPE,  # The end that stays here says that we live.
                stdout=output,
                stderr=output,
                pass_fds=[listening.fileno()],
                start_new_session=True,  # Ctrl-C is for the starter, who lets handlers finish.
            )
        finally:
            listening.close()
            if output is not None:
                os.close(output)
        try:
            self._wait_for_answer()
        except BaseException:
            self.kill()
            raise

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def reload(self) -> None:
        """Replace the workers by new ones, which see the code and the settings as they are now."""
        self._process.send_signal(signal.SIGHUP)

    def terminate(self) -> None:
        """Tell it to end: handlers at work may finish, none starts any more."""
        self._process.terminate()

    def wait(self, timeout_seconds: float) -> bool:
        """Return whether it has ended by itself within the time."""
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End it at once; what its handlers were at returns to pending when the lease ends."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def last_words(self) -> str:
        """Return the end of what it has said since it was started; empty when that goes elsewhere."""
        if self._log is None:
            return ""
        with self._log.open("rb") as file:
            file.seek(self._told_from)
            lines = file.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_TOLD_LINES:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _wait_for_answer(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while self.is_running and time.monotonic() < deadline:
            # The socket takes connections from the beginning: the first request waits until somebody serves it.
            connection = http.client.HTTPConnection(HOST, self.port, timeout=1)
            try:
                connection.request("GET", "/healthz")
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
            else:
                return
            finally:
                connection.close()
        words = self.last_words()
        problem = "it did not answer" if self.is_running else f"it ended with exit code {self._process.returncode}"
        raise LocalServerFailed(problem, f"its last words:\n{words}" if words else "see what it said above")


def _opened(log: Path) -> int:
    log.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if os.fstat(output).st_size > _LOG_BYTES:
        os.truncate(output, 0)
    return output
