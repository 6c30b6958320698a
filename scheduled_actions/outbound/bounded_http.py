"""Perform a single HTTP exchange under one deadline, and check every address before connecting.

Built on `http.client` instead of `requests`: the timeouts of `requests` apply to each receive, so a receiver that sends
one byte per second never times out; and `requests` doubles the CPU time of a post. Here one deadline covers everything
from connecting to the last byte read. The only exception is the system's resolver, which cannot be interrupted.

Each host name is resolved once, all of its addresses are checked, and the connection uses a checked address; the
certificate and the `Host` header still use the name. Redirects, cookies, and the environment are ignored.
"""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple, cast
from urllib.parse import SplitResult, quote, unquote

from scheduled_actions.outbound.reach import AddressForbidden, ProxyRefused, Reach, may_reach

#: Idle time after which a connection is not reused: hosts that freeze a process between two ticks, and firewalls, drop
#: connections without notifying either end.
IDLE_SECONDS = 30.0
#: Maximum number of idle connections per thread.
MAX_IDLE_CONNECTIONS = 32
#: Maximum number of bytes of a proxy's response to CONNECT.
_PROXY_HEAD_LIMIT = 8192
#: Characters of a path or query that are not percent-encoded; includes `%`, because the URL may already be encoded.
_UNQUOTED = "/%:@!$&'()*+,;=~?"
# poll() needs no file descriptor of its own and accepts descriptors above 1023.
_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


@dataclass(frozen=True, slots=True)
class Limits:
    """The time and network limits of an exchange."""

    #: The deadline of the whole exchange, on the monotonic clock.
    ends_at: float
    #: Seconds for each address of the host, and for the TLS handshake.
    connect_timeout: float
    #: The addresses that may be reached; a connection made under one reach is never reused under another.
    reach: Reach

    def seconds_left(self) -> float:
        """Return the remaining time in seconds, at most one day.

        Raises:
            TimeoutError: The deadline has passed.
        """
        left = self.ends_at - monotonic()
        if left <= 0:
            raise TimeoutError("the deadline of the exchange has passed")
        return min(left, 86400.0)

    def seconds_to_connect(self) -> float:
        """Return the timeout in seconds of one step of connecting.

        Raises:
            TimeoutError: The deadline has passed.
        """
        return min(self.connect_timeout, self.seconds_left())


class _ConnectionKey(NamedTuple):
    reach: Reach
    is_tls: bool
    host: str
    port: int


class _IdleConnections(OrderedDict[_ConnectionKey, tuple[socket.socket, float]]):
    """Sockets with the time of their last use, the latest at the end; closed when their thread ends."""

    def close(self) -> None:
        while self:
            self.popitem()[1][0].close()

    __del__ = close


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.idle = _IdleConnections()


_this_thread = _PerThread()


def close() -> None:
    """Close the idle connections of this thread."""
    _this_thread.idle.close()


@contextmanager
def exchange(
    method: str, url: SplitResult, *, body: bytes = b"", headers: Mapping[str, str], limits: Limits
) -> Iterator[http.client.HTTPResponse]:
    """Send a request; yield the response, whose body has not been read yet.

    If the block reads the body to its end, this thread's next request to the host can reuse the connection.

    Raises:
        OSError: The connection failed, was lost or timed out (`TimeoutError`); the host has a forbidden address
            (`AddressForbidden`); or the proxy refused the connection (`ProxyRefused`).
        http.client.HTTPException: The response is not HTTP.
        ValueError: The host name or a header is invalid.
    """
    is_tls = url.scheme == "https"
    host = url.hostname or ""
    host = host if ":" in host else host.encode("idna").decode()
    origin = _ConnectionKey(limits.reach, is_tls, host, url.port or (443 if is_tls else 80))
    head = _head(method, url, origin, headers, len(body))
    sock = _idle_connection(origin) or _open(origin, limits)
    with _closing_on_error(sock):
        _send(sock, head + body, limits)
        response = http.client.HTTPResponse(sock, method=method)
        response.fp = io.BufferedReader(_TimedFile(response.fp.detach(), sock, limits))
        response.begin()
        yield response
    if response.isclosed() and not response.will_close:
        _keep(origin, sock)
    else:
        sock.close()


@contextmanager
def _closing_on_error(sock: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        sock.close()
        raise


def _head(method: str, url: SplitResult, origin: _ConnectionKey, headers: Mapping[str, str], length: int) -> bytes:
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    lines = {
        "Host": host if origin.port == (443 if origin.is_tls else 80) else f"{host}:{origin.port}",
        # Only the beginning of the response is read, so compression gains nothing.
        "Accept-Encoding": "identity",
        "Accept": "*/*",
        "Content-Length": str(length),
        **headers,
    }
    if url.username is not None:
        login = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
        lines["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
    if not all(value.isprintable() and name.isprintable() for name, value in lines.items()):
        raise ValueError("a header contains a control character")
    target = quote(url.path or "/", safe=_UNQUOTED) + (f"?{quote(url.query, safe=_UNQUOTED)}" if url.query else "")
    head = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items()), "", ""]
    return "\r\n".join(head).encode("latin-1")


def _send(sock: socket.socket, message: bytes, limits: Limits) -> None:
    left = memoryview(message)
    while left:
        sock.settimeout(limits.seconds_left())
        left = left[sock.send(left) :]


class _TimedFile(io.RawIOBase):
    """A socket's file that limits each receive to the remaining time."""

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


# -- connections -------------------------------------------------------------------------------------------------------


def _idle_connection(origin: _ConnectionKey) -> socket.socket | None:
    """Remove an idle connection to the host from the pool and return it; None if there is no usable one."""
    sock, used_at = _this_thread.idle.pop(origin, (None, 0.0))
    # An idle connection is readable only if the other end has closed it, or has sent data that belongs to no request.
    if sock is not None and (monotonic() - used_at > IDLE_SECONDS or _is_readable(sock)):
        sock.close()
        return None
    return sock


def _is_readable(sock: socket.socket) -> bool:
    with _Selector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(timeout=0))


def _keep(origin: _ConnectionKey, sock: socket.socket) -> None:
    idle = _this_thread.idle
    idle[origin] = (sock, monotonic())
    if len(idle) > MAX_IDLE_CONNECTIONS:
        idle.popitem(last=False)[1][0].close()


def _open(origin: _ConnectionKey, limits: Limits) -> socket.socket:
    addresses = _checked_addresses(origin)
    if origin.reach.proxy is None:
        sock = _first_success(addresses, lambda address: _connect(address, limits))
    else:
        proxies = socket.getaddrinfo(*origin.reach.proxy, type=socket.SOCK_STREAM)
        sock = _first_success(addresses, lambda address: _tunnel(proxies, address, limits))
    if not origin.is_tls:
        return sock
    with _closing_on_error(sock):
        # One timeout covers the whole handshake.
        sock.settimeout(limits.seconds_to_connect())
        return _tls_context(origin.reach.ca_file or _public_authorities()).wrap_socket(
            sock, server_hostname=origin.host
        )


def _checked_addresses(origin: _ConnectionKey) -> list[Any]:
    """Resolve a host; return the entries of `getaddrinfo`.

    Raises:
        AddressForbidden: At least one of the addresses is not allowed.
    """
    addresses = socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    reach = origin.reach
    if not all(
        may_reach(str(address[4][0]), also=reach.networks, includes_internet=reach.includes_internet)
        for address in addresses
    ):
        raise AddressForbidden(*() if reach.includes_internet else ("has an address outside the allowed networks",))
    return addresses


def _first_success(addresses: Sequence[Any], connect: Callable[[Any], socket.socket]) -> socket.socket:
    """Return a connection to the first address that accepts one.

    Raises:
        OSError: No address accepts a connection; this is the error of the last address.
    """
    error = OSError("the host has no address")
    for address in addresses:
        try:
            return connect(address)
        except OSError as failure:
            error = failure
    raise error


def _connect(info: Any, limits: Limits) -> socket.socket:  # noqa: ANN401 - an entry of getaddrinfo
    family, kind, protocol, _, address = info
    sock = socket.socket(family, kind, protocol)
    with _closing_on_error(sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(limits.seconds_to_connect())
        sock.connect(address)
    return sock


def _tunnel(proxies: Sequence[Any], info: Any, limits: Limits) -> socket.socket:  # noqa: ANN401 - an entry of getaddrinfo
    """Connect through the proxy to a checked IP address, because the proxy would resolve a host name again.

    Raises:
        ProxyRefused: The proxy did not respond with a status of 2xx.
    """
    address, port = info[4][:2]
    target = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    sock = _first_success(proxies, lambda proxy: _connect(proxy, limits))
    with _closing_on_error(sock):
        _send(sock, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode(), limits)
        status = _proxy_status(sock, limits)
        if not re.match(r"HTTP/1\.[01] 2[0-9][0-9]\b", status):
            raise ProxyRefused(status[:80])
    return sock


def _proxy_status(sock: socket.socket, limits: Limits) -> str:
    """Read the head of the proxy's response; return its status line.

    Raises:
        ProxyRefused: The head is incomplete, or longer than `_PROXY_HEAD_LIMIT`.
    """
    head = b""
    # Byte by byte, because the receiver's data follows the head.
    while not head.endswith(b"\r\n\r\n"):
        sock.settimeout(limits.seconds_to_connect())
        byte = sock.recv(1)
        if not byte or len(head) > _PROXY_HEAD_LIMIT:
            raise ProxyRefused("the response is not HTTP")
        head += byte
    return head.split(b"\r\n", 1)[0].decode("latin-1")


def _public_authorities() -> str:
    import certifi  # noqa: PLC0415 - loaded with the first post over TLS

    return certifi.where()


@functools.cache
def _tls_context(ca_file: str) -> ssl.SSLContext:
    """Return a TLS context that verifies certificates; cached, because loading a CA file takes longer than a post."""
    return ssl.create_default_context(cafile=ca_file)
