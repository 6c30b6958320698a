"""Simulate Vercel's host: run the entry point of the built function and send it requests as the platform does.

The runtime inside the function reports its port, the start and end of each request and its logs as NUL-terminated JSON
on the Unix socket in `VERCEL_IPC_PATH`. Requests are sent over loopback HTTP, with the invocation's ids and deadline in
headers that the runtime removes.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from proofs.vercel.tools import ProofFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from proofs.vercel.building import Built

_START_SECONDS = 30.0
_STOP_SECONDS = 10.0
_ENTRY = "vc__handler__python.py"


@dataclass(frozen=True, slots=True)
class Answer:
    """Response of the function to a request."""

    status: int
    headers: Mapping[str, str]
    text: str
    #: Duration of the request.
    seconds: float
    #: Time left until the function's deadline; if negative, Vercel would have aborted the request.
    seconds_left: float

    @property
    def json(self) -> dict[str, Any]:
        """The body as an object."""
        body: dict[str, Any] = json.loads(self.text)
        return body


class Host:
    """The running function; stopped at the end of the block.

    Args:
        built: The built function.
        environ: The project's environment variables, as set in Vercel's dashboard.
        directory: Contains the socket and the log; its path must be short.

    Raises:
        ProofFailedError: The function exited, or did not report a port.
    """

    def __init__(self, built: Built, environ: Mapping[str, str], directory: Path) -> None:
        self._built = built
        self._directory = directory
        self._messages: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._ids = count(1)
        address = directory / "ipc"
        address.unlink(missing_ok=True)
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(address))
        self._listening.listen(1)
        threading.Thread(target=self._read, daemon=True).start()
        self._log = (directory / "function.log").open("ab")
        self._process = subprocess.Popen(  # noqa: S603 - our own build and arguments
            [built.python, _ENTRY],
            cwd=built.directory,
            env=self._environment(address, environ),
            stdout=self._log,
            stderr=self._log,
        )
        try:
            started = self._await("server-started", _START_SECONDS)
        except BaseException:
            self.stop()
            raise
        self._port = int(started["httpPort"])
        #: Milliseconds from the start of the interpreter until it accepts requests, as reported by the runtime.
        self.cold_start_milliseconds = int(started["initDuration"])

    def request(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, deadline_seconds: float | None = None
    ) -> Answer:
        """Send a request and return the response.

        Args:
            method: HTTP method.
            path: Path with query.
            headers: Headers of the caller.
            deadline_seconds: Time limit of the function; None: its `maxDuration`.
        """
        allowed = float(self._built.config["maxDuration"]) if deadline_seconds is None else deadline_seconds
        deadline = datetime.now(UTC) + timedelta(seconds=allowed)
        number = next(self._ids)
        platform = {
            "x-vercel-internal-invocation-id": f"invocation-{number}",
            "x-vercel-internal-request-id": str(number),
            "x-vercel-internal-span-id": f"{number:016x}",
            "x-vercel-internal-trace-id": f"{number:032x}",
            "x-vercel-internal-deadline": deadline.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        started = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=allowed + 5)
        try:
            connection.request(method, path, headers={**(headers or {}), **platform})
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        took = time.monotonic() - started
        return Answer(response.status, dict(response.headers), text, took, allowed - took)

    def logged(self) -> str:
        """Return the whole log of the function."""
        with self._changed:
            lines = [
                base64.b64decode(one["payload"]["message"]).decode(errors="replace")
                for one in self._messages
                if one["type"] == "log"
            ]
        self._log.flush()
        return "\n".join(lines) + (self._directory / "function.log").read_text(errors="replace")

    def stop(self) -> None:
        """Stop the function as the platform does: terminate it, and kill it if it does not exit."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listening.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _environment(self, address: Path, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the platform, the build and the project; nothing is inherited from this process."""
        platform = {
            "VERCEL": "1",
            "VERCEL_ENV": "production",
            "VERCEL_REGION": "local",
            "VERCEL_IPC_PATH": str(address),
        }
        system = {"PATH": os.defpath, "HOME": str(self._directory), "LANG": "C.UTF-8", "TZ": "UTC"}
        return {**system, **platform, **self._built.config.get("environment", {}), **environ}

    def _read(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:
            return
        pending = b""
        with connection:
            while data := connection.recv(65536):
                *whole, pending = (pending + data).split(b"\0")
                with self._changed:
                    self._messages += [json.loads(one) for one in whole if one]
                    self._changed.notify_all()

    def _await(self, kind: str, within_seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + within_seconds
        with self._changed:
            while time.monotonic() < deadline:
                for one in self._messages:
                    if one["type"] == kind:
                        payload: dict[str, Any] = one["payload"]
                        return payload
                    if one["type"] == "unrecoverable-error":
                        message = f"the function did not start: {one['payload']['message']}"
                        raise ProofFailedError(message)
                if self._process.poll() is not None:
                    break
                self._changed.wait(0.1)
        log = (self._directory / "function.log").read_text(errors="replace")[-2000:]
        message = f"the function sent no {kind!r} message within {within_seconds:g} seconds, "
        message += f"exit code {self._process.poll()}:\n{log}"
        raise ProofFailedError(message)
