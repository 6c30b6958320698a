"""Redis and RabbitMQ as real servers on free ports, with data in a temporary directory."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.faults.serving import a_port, wait_until


class Redis:
    """A Redis server without persistence: what is in it is lost with the process."""

    def __init__(self) -> None:
        self.port = a_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._directory = tempfile.mkdtemp(prefix="scheduled-actions-redis-")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self._process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", self._directory],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: self.command("PING") == "+PONG", within=30, what="Redis answers")

    def command(self, *words: str) -> str | None:
        """Return the first line of the answer to a command; None if the server does not answer."""
        text = f"*{len(words)}\r\n" + "".join(f"${len(one)}\r\n{one}\r\n" for one in words)
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(text.encode())
            return connection.recv(4096).decode().partition("\r\n")[0] or None
        return None

    def length(self, queue: str) -> int:
        """Return the number of messages in a queue."""
        return int((self.command("LLEN", queue) or ":0").removeprefix(":"))

    def flush(self) -> None:
        """Lose all messages."""
        assert self.command("FLUSHALL") == "+OK"

    def signal(self, number: int) -> None:
        """Send a signal to the server."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the server."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)
            self._process = None

    def close(self) -> None:
        """Kill the server, and remove its data."""
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)


class RabbitMq:
    """A RabbitMQ node with durable queues."""

    def __init__(self) -> None:
        self.port = a_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"
        self._directory = Path(tempfile.mkdtemp(prefix="scheduled-actions-rabbitmq-"))
        # The server may run as another user.
        self._directory.chmod(0o777)
        self._process: subprocess.Popen[bytes] | None = None
        self._node = f"proof{self.port}@localhost"
        (self._directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.default = 127.0.0.1:{self.port}\nlog.console = true\n", encoding="utf-8"
        )
        (self._directory / "enabled_plugins").write_text("[].", encoding="utf-8")
        self._environ = {
            **os.environ,
            "HOME": str(self._directory),
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_DIST_PORT": str(a_port()),
            "RABBITMQ_CONFIG_FILE": str(self._directory / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._directory / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self._directory / "data"),
            "RABBITMQ_LOG_BASE": str(self._directory / "log"),
            "RABBITMQ_PID_FILE": str(self._directory / "pid"),
            "ERL_EPMD_PORT": str(a_port()),
        }
        self.start()

    def start(self) -> None:
        """Start the node, and wait until it accepts connections."""
        self._process = subprocess.Popen(
            [_rabbitmq_server()],
            env=self._environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_until(self._answers, within=90, what="RabbitMQ answers")

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            connection.settimeout(5)
            return bool(connection.recv(8))
        return False

    def signal(self, number: int) -> None:
        """Send a signal to the node."""
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill the node."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
            self._process.wait(timeout=30)
            self._process = None

    def close(self) -> None:
        """Kill the node, and remove its data."""
        self.kill()
        subprocess.run(["pkill", "-f", f"epmd.*{self._environ['ERL_EPMD_PORT']}"], check=False)
        shutil.rmtree(self._directory, ignore_errors=True)


def _rabbitmq_server() -> str:
    """Return the program of the node; Debian's wrapper in the path refuses to run as another user than its own."""
    own = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    return str(own) if own.exists() else "rabbitmq-server"
