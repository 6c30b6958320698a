"""A minimal pooler in transaction mode: all clients share one session of the server."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOST = "127.0.0.1"


@contextlib.contextmanager
def pooling(server_port: int) -> Iterator[int]:
    """Run a pooler in front of the server on `server_port`, and yield the port of the pooler."""
    with socket.create_server((_HOST, 0)) as listener:
        pool = _Pool(server_port)
        threading.Thread(target=_accept, args=(listener, pool), daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            pool.close()


class _Pool:
    """The session that the clients share."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self._kept: socket.socket | None = None
        self._is_free = threading.Condition()

    def offer(self, session: socket.socket) -> None:
        """Keep the first session, or take it back from a client; close any other session."""
        with self._is_free:
            if self._kept is None:
                self._kept = session
                self._is_lent = False
            elif session is self._kept:
                self._is_lent = False
            else:
                session.close()
            self._is_free.notify()

    def take(self) -> socket.socket:
        """Return the session as soon as no other client uses it."""
        with self._is_free:
            assert self._is_free.wait_for(lambda: not self._is_lent, timeout=20)
            self._is_lent = True
            assert self._kept is not None
            return self._kept

    def close(self) -> None:
        """Close the session."""
        if self._kept is not None:
            self._kept.close()


def _accept(listener: socket.socket, pool: _Pool) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, pool), daemon=True).start()


def _serve(client: socket.socket, pool: _Pool) -> None:
    with client, contextlib.suppress(OSError, EOFError):
        if not _log_in(client, pool):
            return
        session: socket.socket | None = None
        while True:
            kind, message = _message(client)
            if kind == b"X":
                if session is not None:
                    pool.offer(session)
                return
            session = session or pool.take()
            session.sendall(message)
            if kind in b"QS" and _relay_until_ready(session, client) == b"I":
                pool.offer(session)
                session = None


def _log_in(client: socket.socket, pool: _Pool) -> bool:
    """Relay the login of the client to the server, with a cancel key of the pooler; return whether it succeeded."""
    while True:
        length = _exactly(client, 4)
        rest = _exactly(client, struct.unpack("!I", length)[0] - 4)
        code = struct.unpack("!I", rest[:4])[0]
        if code == 80877102:  # A cancel request; the pooler ignores its key.
            return False
        if code not in {80877103, 80877104}:
            break
        client.sendall(b"N")  # Neither TLS nor GSSAPI.
    session = socket.create_connection((_HOST, pool.server_port))
    session.sendall(length + rest)
    while True:
        kind, message = _message(session)
        if kind == b"K":
            message = message[:5] + struct.pack("!I", 424242) + message[9:]
        client.sendall(message)
        if kind == b"R" and struct.unpack("!I", message[5:9])[0] in {3, 5, 10, 11}:
            session.sendall(_message(client)[1])
        if kind == b"Z":
            pool.offer(session)
            return True
        if kind == b"E":
            session.close()
            return False


def _relay_until_ready(session: socket.socket, client: socket.socket) -> bytes:
    while True:
        kind, message = _message(session)
        client.sendall(message)
        if kind == b"Z":
            return message[5:6]


def _message(source: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(source, 5)
    return head[:1], head + _exactly(source, struct.unpack("!I", head[1:])[0] - 4)


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data
