"""Serve the project on this machine: gunicorn as a child process that never outlives its starter."""

import errno
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

from scheduled_actions.core.errors import LocalServerFailed

HOST = "127.0.0.1"
#: The server's log, in the project.
LOG_NAME = ".scheduled_actions/server.log"
#: A larger log is emptied at the next start.
_LOG_BYTES = 1_000_000
_PORT_PROBLEMS: dict[int | None, str] = {
    errno.EADDRINUSE: "which another process is using",
    errno.EACCES: "which only root may use",
}


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the port, so that a port in use is reported before anything is started.

    Args:
        port: The port on 127.0.0.1; 0 chooses a free one.

    Raises:
        LocalServerFailed: The port is in use, or this user may not use it.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = _PORT_PROBLEMS.get(getattr(error, "errno", None), str(error))
        raise LocalServerFailed(
            f"cannot listen on {HOST}:{port}, {reason}", "choose another port with --port or PORT"
        ) from error
    return listening


class LocalServer:
    """Gunicorn with one worker on a listening socket; the constructor returns once the server responds.

    Args:
        project: The project's directory.
        listening: The listening socket, which the server inherits; it is closed in this process.
        settings: The path of gunicorn's settings.
        environ: The server's environment.
        log: The file for its output; None: this process's own output.

    Raises:
        LocalServerFailed: The server ended, or did not respond within 30 seconds; the message contains the end of its
            log, if there is one.
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
        options = ["--config", str(settings), "--bind", f"fd://{listening.fileno()}", "--workers", "1"]
        output = None if log is None else _open_log(log)
        self._log_start = 0 if output is None else os.fstat(output).st_size
        try:
            # SIGHUP replaces its workers, which load the current code and settings; SIGTERM lets handlers finish.
            self.process = subprocess.Popen(  # noqa: S603 - our own module, our own arguments
                [sys.executable, "-m", "scheduled_actions.local.gunicorn", *options, "scheduled_actions.wsgi:app"],
                cwd=project,
                env={**environ, "SCHEDULED_ACTIONS_PROJECT": str(project)},
                stdin=subprocess.PIPE,  # The other end stays open while this process lives.
                stdout=output,
                stderr=output,
                pass_fds=[listening.fileno()],
                start_new_session=True,  # Ctrl-C reaches only this process, which lets handlers finish.
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
        """Whether the process is running."""
        return self.process.poll() is None

    def wait(self, timeout_seconds: float) -> bool:
        """Wait at most `timeout_seconds` for the server to end; return whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout_seconds)
        return not self.is_running

    def kill(self) -> None:
        """Kill the server immediately; interrupted actions return to pending when their leases expire."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def log_tail(self) -> str:
        """Return the last lines of the server's output since its start; empty if the output is not in a log."""
        if self._log is None:
            return ""
        with self._log.open("rb") as file:
            file.seek(self._log_start)
            return "\n".join(file.read().decode(errors="replace").splitlines()[-12:])

    def _wait_for_answer(self) -> None:
        deadline = time.monotonic() + 30
        while self.is_running and time.monotonic() < deadline:
            # The socket accepts connections before a worker runs: the first request waits until a worker serves it.
            with (
                suppress(OSError, http.client.HTTPException),
                closing(http.client.HTTPConnection(HOST, self.port, timeout=1)) as connection,
            ):
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                return
            time.sleep(0.02)
        tail = self.log_tail()
        problem = (
            "did not answer within 30 seconds" if self.is_running else f"ended with exit code {self.process.returncode}"
        )
        raise LocalServerFailed(problem, f"end of its log:\n{tail}" if tail else "see its output above")


def _open_log(log: Path) -> int:
    log.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if os.fstat(output).st_size > _LOG_BYTES:
        os.truncate(output, 0)
    return output
