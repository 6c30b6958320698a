"""Real brokers on free ports, with directories of their own: Redis and RabbitMQ."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

#: Debian's own script, run as root, would start RabbitMQ as another user.
_RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"
#: RabbitMQ takes up to a minute to start on a busy machine.
START_SECONDS = 120


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Server:
    """A server process that can be killed, frozen and started again on the same port."""

    def __init__(self, command, environ, port, log, is_ready):
        self._command, self._environ, self.port = command, environ, port
        self._log, self._is_ready = log, is_ready
        self._process = None

    def start(self):
        with self._log.open("ab") as log:
            # In a session of its own, so that its own child processes end with it.
            self._process = subprocess.Popen(
                self._command, env=self._environ, stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + START_SECONDS
        while not self._is_ready():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < until, self._log.read_text()
            time.sleep(0.05)

    def kill(self):
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def freeze(self):
        os.killpg(self._process.pid, signal.SIGSTOP)

    def unfreeze(self):
        os.killpg(self._process.pid, signal.SIGCONT)


@contextmanager
def redis(directory, *options):
    """Start Redis; yield the server, whose `url` is the broker's."""
    port = free_port()
    base = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(directory)]
    server = Server([*base, *options], os.environ | {}, port, Path(directory) / "redis.log", lambda: _answers(port))
    server.url = f"redis://127.0.0.1:{port}/0"
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextmanager
def rabbitmq(directory):
    """Start RabbitMQ; yield the server, whose `url` is the broker's."""
    port, distribution_port, mapper_port = free_port(), free_port(), free_port()
    directory = Path(directory)
    environ = os.environ | {
        "HOME": str(directory),
        "RABBITMQ_NODENAME": f"test{port}@localhost",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "ERL_EPMD_PORT": str(mapper_port),
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_LOG_BASE": str(directory),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
        "RABBITMQ_CONF_ENV_FILE": str(directory / "no-env"),
    }
    server = Server(
        [_RABBITMQ if Path(_RABBITMQ).exists() else "rabbitmq-server"],
        environ,
        port,
        directory / "rabbitmq.log",
        lambda: _greets(port),
    )
    server.url = f"amqp://guest:guest@127.0.0.1:{port}//"
    # Otherwise, RabbitMQ would start it as a daemon, which outlives the test.
    mapper = subprocess.Popen(["epmd", "-port", str(mapper_port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        mapper.kill()
        mapper.wait()


def _answers(port):
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as sock:
        sock.sendall(b"PING\r\n")
        return sock.recv(5).startswith((b"+PONG", b"-NOAU"))
    return False


def _greets(port):
    """Return whether RabbitMQ answers to the header of the protocol with its first frame."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as sock:
        sock.settimeout(2)
        sock.sendall(b"AMQP\x00\x00\x09\x01")
        return sock.recv(1) == b"\x01"
    return False
