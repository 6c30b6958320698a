"""One HTTP exchange that ends on time and goes no further than it may.

On `http.client` rather than `requests`: the timeouts of `requests` hold for one receive each, so that a receiver that
sends a byte a second is never too slow for them; and it spends twice the time on a post that everything else here does.
Here one deadline holds from dialling to the last byte read, and is looked at before each send and receive. Not covered
is the system's resolver, which has its own timeouts and cannot be interrupted.

Each name is resolved once, every address it has is judged, and the judged addresses are dialled, by number; the host's
name is still what the certificate and the `Host` header are about. Nothing is followed, no cookie is kept, and the
environment (proxies, .netrc) is not read.
"""

from __future__ import annotations

import base64
import functools
import http.client
import io
import re
import selectors
import socket
import ssl
import threading
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, unquote

from scheduled_actions.outbound.reach import AddressForbidden, ProxyRefused, Reach
from scheduled_actions.outbound.rules.addresses import may_reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from urllib.parse import SplitResult

#: A connection that waited longer than this for its next post is not trusted: hosts that freeze a process
#: between two ticks, and firewalls, drop connections without telling either end.
IDLE_SECONDS = 30.0
#: Connections that one thread keeps.
KEPT_MOST = 32
_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)
#: What may stand in a path or a query as it is, and what is quoted already.
_UNQUOTED = "/%:@!$&'()*+,;=~?"
#: Bytes of a proxy's answer to CONNECT.
_PROXY_HEAD_LIMIT = 8192


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an exchange may take, and how far it may go."""

    #: By the monotonic clock.
    ends_at: float
    #: Seconds for each address of the host, and for the TLS handshake.
    connect_timeout: float
    #: A connection that was made under one reach is never used under another.
    reach: Reach

    def seconds_left(self) -> float:
        """Return what is left of the time.

        Raises:
            TimeoutError: Nothing is.
        """
        left = self.ends_at - monotonic()
        if left <= 0:
            message = "the time for the whole exchange is up"
            raise TimeoutError(message)
        return min(left, 86400.0)

    def seconds_to_connect(self) -> float:
        """Return how long one step of connecting may take."""
        return min(self.connect_timeout, self.seconds_left())


class _Way(NamedTuple):
    """What a kept connection leads to."""

    reach: Reach
    is_tls: bool
    host: str
    port: int


class _Connections(OrderedDict[_Way, tuple[socket.socket, float]]):
    """Each with when it was used last; the latest at the end. They are closed when their thread ends."""

    def close(self) -> None:
        while self:
            self.popitem()[1][0].close()

    __del__ = close


class _Kept(threading.local):
    def __init__(self) -> None:
        self.connections = _Connections()


_kept = _Kept()


def close() -> None:
    """Close the connections that this thread keeps."""
    _kept.connections.close()


def got(
    url: SplitResult, *, headers: Mapping[str, str], limits: Limits
) -> AbstractContextManager[http.client.HTTPResponse]:
    """Get a URL as `posted` posts to one."""
    return _exchanged("GET", url, body=b"", headers=headers, limits=limits)


def posted(
    url: SplitResult, *, body: bytes, headers: Mapping[str, str], limits: Limits
) -> AbstractContextManager[http.client.HTTPResponse]:
    """Post to a URL; give the answer, its body still to be read, for as long as the block lasts.

    Read to its end, the answer leaves a connection that this thread's next post to the host uses.

    Raises:
        OSError: No connection, or it broke, or the time is up (`TimeoutError`), or the host is out of reach.
        http.client.HTTPException: The answer is no HTTP.
        ValueError: The host is no name, or a header no header.
    """
    return _exchanged("POST", url, body=body, headers=headers, limits=limits)


@contextmanager
def _exchanged(
    method: str, url: SplitResult, *, body: bytes, headers: Mapping[str, str], limits: Limits
) -> Iterator[http.client.HTTPResponse]:
    is_tls = url.scheme == "https"
    host = (url.hostname or "").encode("idna").decode() if ":" not in (url.hostname or "") else url.hostname or ""
    way = _Way(limits.reach, is_tls, host, url.port or (443 if is_tls else 80))
    message = _head(method, url, way, headers, len(body)) + body
    sock = _taken(way) or _dialled(way, limits)
    try:
        _send(sock, message, limits)
        response = _TimedResponse(sock, limits, method)
        response.begin()
        yield response
    except BaseException:
        sock.close()
        raise
    if response.isclosed() and not response.will_close:
        _keep(way, sock)
    else:
        sock.close()


def _head(method: str, url: SplitResult, way: _Way, headers: Mapping[str, str], length: int) -> bytes:
    host = f"[{way.host}]" if ":" in way.host else way.host
    query = f"?{quote(url.query, safe=_UNQUOTED)}" if url.query else ""
    target = quote(url.path or "/", safe=_UNQUOTED) + query
    lines = {
        "Host": host if way.port == (443 if way.is_tls else 80) else f"{host}:{way.port}",
        # Nothing is gained by a packed answer of which only the beginning is read.
        "Accept-Encoding": "identity",
        "Accept": "*/*",
        "Content-Length": str(length),
        **headers,
    }
    if url.username is not None:
        login = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
        lines["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
    if any(not value.isprintable() or not name.isprintable() for name, value in lines.items()):
        message = "a header has a character that would end it"
        raise ValueError(message)
    head = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items()), "", ""]
    return "\r\n".join(head).encode("latin-1")


def _send(sock: socket.socket, message: bytes, limits: Limits) -> None:
    left = memoryview(message)
    while left:
        sock.settimeout(limits.seconds_left())
        left = left[sock.send(left) :]


class _TimedFile(io.RawIOBase):
    """Reads from a socket, the time left looked at before each receive."""

    def __init__(self, source: io.RawIOBase, sock: socket.socket, limits: Limits) -> None:
        self._source = source
        self._sock = sock
        self._limits = limits

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:  # noqa: ANN401 - a writable buffer
        self._sock.settimeout(self._limits.seconds_left())
        return cast("int | None", self._source.readinto(buffer))

    def close(self) -> None:
        self._source.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, limits: Limits, method: str) -> None:
        super().__init__(sock, method=method)
        self.fp = io.BufferedReader(_TimedFile(self.fp.detach(), sock, limits))


# -- connections -------------------------------------------------------------------------------------------------------


def _taken(way: _Way) -> socket.socket | None:
    """Return a kept connection that still stands; None where there is none."""
    sock, used_at = _kept.connections.pop(way, (None, 0.0))
    if sock is None:
        return None
    # What can be read before anything was asked is the other end's goodbye.
    if monotonic() - used_at > IDLE_SECONDS or _can_be_read(sock):
        sock.close()
        return None
    return sock


def _can_be_read(sock: socket.socket) -> bool:
    # Where there is poll(), it opens nothing of its own, and takes file numbers above 1023.
    with _Selector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(timeout=0))


def _keep(way: _Way, sock: socket.socket) -> None:
    _kept.connections[way] = (sock, monotonic())
    if len(_kept.connections) > KEPT_MOST:
        _kept.connections.popitem(last=False)[1][0].close()


def _dialled(way: _Way, limits: Limits) -> socket.socket:
    addresses = _judged(way)
    if way.reach.proxy is None:
        sock = _connected(addresses, limits)
    else:
        proxies = socket.getaddrinfo(*way.reach.proxy, type=socket.SOCK_STREAM)
        sock = _first(addresses, lambda found: _tunnel(_connected(proxies, limits), found, limits))
    if not way.is_tls:
        return sock
    try:
        # The handshake runs on one timeout, as a whole.
        sock.settimeout(limits.seconds_to_connect())
        return _context(_authorities(way.reach)).wrap_socket(sock, server_hostname=way.host)
    except BaseException:
        sock.close()
        raise


def _judged(way: _Way) -> list[Any]:
    """Return the addresses of a host; one that is out of reach condemns them all."""
    addresses = socket.getaddrinfo(way.host, way.port, type=socket.SOCK_STREAM)
    if not all(may_reach(str(found[4][0]), also=way.reach.networks) for found in addresses):
        raise AddressForbidden
    return addresses


def _connected(addresses: Sequence[Any], limits: Limits) -> socket.socket:
    def connect(found: Any) -> socket.socket:  # noqa: ANN401 - as getaddrinfo answers
        family, kind, protocol, _, address = found
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(limits.seconds_to_connect())
            sock.connect(address)
        except BaseException:
            sock.close()
            raise
        return sock

    return _first(addresses, connect)


def _first(addresses: Sequence[Any], connect: Callable[[Any], socket.socket]) -> socket.socket:
    """Return a connection to the first address that takes one."""
    for number, found in enumerate(addresses, start=1):
        try:
            return connect(found)
        except OSError:
            if number == len(addresses):
                raise
    message = "the host has no address"
    raise OSError(message)


def _tunnel(sock: socket.socket, found: Any, limits: Limits) -> socket.socket:  # noqa: ANN401 - as getaddrinfo answers
    """Return the connection to the proxy, made one to the judged address: by number, so that it asks no resolver."""
    address, port = found[4][:2]
    target = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    try:
        _send(sock, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode(), limits)
        status = _proxy_status(sock, limits)
    except BaseException:
        sock.close()
        raise
    if not re.match(r"HTTP/1\.[01] 2[0-9][0-9]\b", status):
        sock.close()
        raise ProxyRefused(status[:80])
    return sock


def _proxy_status(sock: socket.socket, limits: Limits) -> str:
    """Return the first line of the proxy's answer, the rest of its head read, too."""
    answer = b""
    # Byte by byte: what comes after the head is the receiver's.
    while not answer.endswith(b"\r\n\r\n"):
        sock.settimeout(limits.seconds_to_connect())
        more = sock.recv(1)
        if not more or len(answer) > _PROXY_HEAD_LIMIT:
            raise ProxyRefused("it did not answer in HTTP")
        answer += more
    return answer.split(b"\r\n", 1)[0].decode("latin-1")


def _authorities(reach: Reach) -> str:
    if reach.ca_file is not None:
        return reach.ca_file
    import certifi  # noqa: PLC0415 - with the first post over TLS

    return certifi.where()


@functools.cache
def _context(authorities: str) -> ssl.SSLContext:
    """Return what checks certificates: loading the authorities takes longer than a post."""
    return ssl.create_default_context(cafile=authorities)
