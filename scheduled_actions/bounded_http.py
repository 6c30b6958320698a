"""A `requests` session whose exchanges end on time and go no further than they may.

The timeouts of `requests` hold for one receive each: a receiver that sends a byte a second is never too slow
for them. Here one deadline holds from dialling to the last byte read, and is looked at before each receive.
Not covered is the system's resolver, which has its own timeouts and cannot be interrupted.

Each name is resolved once, every address it has is judged, and the judged addresses are dialled, by number; the host's
name is still what the certificate and the `Host` header are about.

Imported when the first post is due: `requests` takes a while to load.
"""

from __future__ import annotations

import io
import logging
import math
import re
import socket
import threading
from contextlib import contextmanager
from http.client import HTTPResponse
from http.cookiejar import DefaultCookiePolicy
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from scheduled_actions.reach import AddressForbidden, ProxyRefused, Reach
from scheduled_actions.webhooks.addresses import may_reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: A connection that waited longer than this for its next post is not trusted: hosts that freeze a process
#: between two ticks, and firewalls, drop connections without telling either end.
IDLE_SECONDS = 30.0
#: Hosts that one thread stays connected to.
HOSTS_KEPT = 32


def session(now: float, reach: Reach = Reach()) -> requests.Session:  # noqa: B008 - a frozen value
    """Return this thread's session for posts of that reach, with the connections it kept.

    It follows no redirect, keeps no cookie, reads no environment (proxies, .netrc) and checks certificates.

    Args:
        now: By the monotonic clock.
        reach: A connection that was made under one reach is never used under another.
    """
    kept = _kept.by_reach.get(reach)
    if kept is None:
        kept = _kept.by_reach[reach] = _Session()
    elif now - kept.used_at > IDLE_SECONDS:
        kept.close()
    kept.used_at = now
    return kept


def close() -> None:
    """Close the connections that this thread keeps."""
    for session in _kept.by_reach.values():
        session.close()


@contextmanager
def limits(ends_at: float, *, connect_timeout: float, reach: Reach) -> Iterator[None]:
    """Let this thread's exchanges raise `TimeoutError` at an instant, and `AddressForbidden` beyond a reach.

    Args:
        ends_at: By the monotonic clock.
        connect_timeout: Seconds for each address of the host, and for the TLS handshake.
        reach: Where they may go.
    """
    _limits.ends_at, _limits.connect_timeout, _limits.reach = ends_at, connect_timeout, reach
    try:
        yield
    finally:
        _limits.ends_at = math.inf


class _Kept(threading.local):
    def __init__(self) -> None:
        self.by_reach: dict[Reach, _Session] = {}


class _Limits(threading.local):
    ends_at: float = math.inf
    connect_timeout: float = 5.0
    reach: Reach = Reach()


_kept = _Kept()
_limits = _Limits()


def _is_elsewhere(_record: logging.LogRecord) -> bool:
    return _limits.ends_at == math.inf


# The library logs paths, of a header it cannot parse even as a warning; a webhook's path may be its secret.
for _name in ("urllib3.connection", "urllib3.connectionpool"):
    logging.getLogger(_name).addFilter(_is_elsewhere)


def _seconds_left() -> float:
    left = _limits.ends_at - monotonic()
    if left <= 0:
        message = "the time for the whole exchange is up"
        raise TimeoutError(message)
    return min(left, 86400.0)


class _Session(requests.Session):
    #: By the monotonic clock.
    used_at: float = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        # Nothing is gained by a packed answer of which only the beginning is read.
        self.headers["Accept-Encoding"] = "identity"
        for prefix in ("http://", "https://"):
            self.mount(prefix, _Adapter(pool_connections=HOSTS_KEPT, pool_maxsize=1))

    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002 - the library's
        # Told not to follow, requests would still read a redirect's whole body, unpacked and without a bound.
        return None


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed through
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}

    def close(self) -> None:
        # The library drops its pools and leaves the closing to their end, which a failed post puts off: its
        # exception and the frame it came from hold each other, and the pool with them.
        for key in self.poolmanager.pools.keys():  # noqa: SIM118 - the container forbids iteration
            if pool := self.poolmanager.pools.get(key):
                pool.close()
        super().close()


class _TimedFile(io.RawIOBase):
    """Reads from a socket, the time left looked at before each receive."""

    def __init__(self, source: io.RawIOBase, sock: socket.socket) -> None:
        self._source = source
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:  # noqa: ANN401 - a writable buffer
        self._sock.settimeout(_seconds_left())
        return cast("int | None", self._source.readinto(buffer))

    def close(self) -> None:
        self._source.close()
        super().close()


class _TimedResponse(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed through
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_TimedFile(self.fp.detach(), sock))


class _Connection(HTTPConnection):
    #: What `http.client` makes of the socket once the request is sent.
    response_class: type[HTTPResponse] = _TimedResponse

    def _new_conn(self) -> socket.socket:
        return _dial(self._dns_host.strip("[]"), self.port, self.socket_options or ())

    def send(self, data: Any) -> None:  # noqa: ANN401 - whatever http.client sends
        if self.sock is None:
            self.connect()
        # sendall counts its timeout over all of the data.
        self.sock.settimeout(_seconds_left())
        super().send(data)


class _TlsConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


def _dial(host: str, port: int, options: Any) -> socket.socket:  # noqa: ANN401 - triples for setsockopt
    reach = _limits.reach
    addresses = _judged(host, port, reach)
    if reach.proxy is None:
        return _connected(addresses, options)
    proxies = socket.getaddrinfo(*reach.proxy, type=socket.SOCK_STREAM)
    return _first(addresses, lambda address: _tunnel(_connected(proxies, options), address))


def _judged(host: str, port: int, reach: Reach) -> list[Any]:
    """Return the addresses of a host; one that is out of reach condemns them all."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if not all(may_reach(str(found[4][0]), also=reach.networks) for found in addresses):
        raise AddressForbidden
    return addresses


def _connected(addresses: Sequence[Any], options: Any) -> socket.socket:  # noqa: ANN401 - triples for setsockopt
    def connect(found: Any) -> socket.socket:  # noqa: ANN401 - as getaddrinfo answers
        family, kind, protocol, _, address = found
        sock = socket.socket(family, kind, protocol)
        try:
            for option in options:
                sock.setsockopt(*option)
            # The TLS handshake that may follow runs on the same timeout, as a whole.
            sock.settimeout(min(_limits.connect_timeout, _seconds_left()))
            sock.connect(address)
        except OSError:
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


def _tunnel(sock: socket.socket, found: Any) -> socket.socket:  # noqa: ANN401 - as getaddrinfo answers
    """Return the connection to the proxy, made one to the judged address: by number, so that it asks no resolver."""
    address, port = found[4][:2]
    target = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    try:
        sock.settimeout(min(_limits.connect_timeout, _seconds_left()))
        sock.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        answer = b""
        # Byte by byte: what comes after the head is the receiver's.
        while not answer.endswith(b"\r\n\r\n"):
            sock.settimeout(min(_limits.connect_timeout, _seconds_left()))
            more = sock.recv(1)
            if not more or len(answer) > _PROXY_HEAD_LIMIT:
                raise ProxyRefused("it did not answer in HTTP")
            answer += more
        status = answer.split(b"\r\n", 1)[0].decode("latin-1")
        if not re.match(r"HTTP/1\.[01] 2[0-9][0-9]\b", status):
            raise ProxyRefused(status[:80])
    except OSError:
        sock.close()
        raise
    return sock


#: Bytes of a proxy's answer to CONNECT.
_PROXY_HEAD_LIMIT = 8192
