"""Whether the caller of a request still waits for the answer, as far as the server lets us see its socket."""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Where servers put the connection: gunicorn, and Flask's own for development.
_SOCKETS = ("gunicorn.socket", "werkzeug.socket")


def watch(environ: Mapping[str, Any]) -> Callable[[], bool] | None:
    """Return what tells whether the caller has hung up; None where the connection cannot be seen.

    A reverse proxy hangs up on us when its own caller does, unless it is told to go on.
    """
    found = next((environ[name] for name in _SOCKETS if isinstance(environ.get(name), socket.socket)), None)
    if found is None or not hasattr(select, "poll") or type(found) is not socket.socket:
        # Nothing can be peeked at behind TLS.
        return None
    connection: socket.socket = found
    return lambda: _is_gone(connection)


def _is_gone(connection: socket.socket) -> bool:
    poll = select.poll()
    try:
        poll.register(connection, select.POLLIN)
        # What can be read is the next request, or the goodbye.
        return bool(poll.poll(0)) and not connection.recv(1, socket.MSG_PEEK)
    except (OSError, ValueError):
        return True
