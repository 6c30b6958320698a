"""Test receivers on the internet: names that resolve to a public address, whose connections lead to a local server."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import certifi
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduled_actions.outbound import bounded_http

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

#: The public address that every name resolves to; not used by a real host in tests.
ADDRESS = "93.184.215.14"
#: The names below `.example`; a certificate cannot be valid for all names of a top-level domain.
NAMES = ("receiver", "crm", "blue", "red", "all", "exact", "rest", "ops", "other")


@dataclass(frozen=True)
class Call:
    """A request that a receiver got."""

    url: str
    headers: dict[str, str]
    body: bytes


@dataclass(eq=False)
class Wire:
    """The requests that the receivers got, and their responses."""

    calls: list[Call] = field(default_factory=list)
    #: The next responses by URL; the last one is repeated. A status of None closes the connection.
    answers: dict[str, list[Any]] = field(default_factory=dict)

    def post(
        self, url: str, *, status: int | None = 200, body: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Add a response to posts to a URL; the last one is repeated. A status of None closes the connection."""
        self.answers.setdefault(url, []).append((status, headers or {}, body))

    def call(self, url: str, answer: Callable[[Call], int]) -> None:
        """Respond to every post to a URL with the status that a function returns."""
        self.answers[url] = [answer]

    def take(self, call: Call) -> tuple[int | None, dict[str, str], str]:
        """Record a request; return the status, the headers and the body of its response."""
        self.calls.append(call)
        answers = self.answers.get(call.url, [(404, {}, "not found")])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return (answer(call), {}, "") if callable(answer) else answer


@contextmanager
def a_wire(monkeypatch: pytest.MonkeyPatch, directory: Path) -> Iterator[Wire]:
    """Yield the receivers at `https://….example`, whose certificate the tests trust."""
    wire = Wire()
    server = _Server(("127.0.0.1", 0), _handler_of(wire))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_certificate(directory))
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=[0.02], daemon=True)
    thread.start()
    resolve, connect = socket.getaddrinfo, socket.socket.connect

    def getaddrinfo(host: str, port: int, *arguments: Any, **options: Any) -> Any:
        return resolve(ADDRESS if str(host).endswith(".example") else host, port, *arguments, **options)

    def connect_near(self: socket.socket, address: Any) -> None:
        near = self.family == socket.AF_INET and address[0] == ADDRESS
        connect(self, ("127.0.0.1", server.server_port) if near else address)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket.socket, "connect", connect_near)
    monkeypatch.setattr(certifi, "where", lambda: str(directory / "authorities.pem"))
    try:
        yield wire
    finally:
        bounded_http.close()
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Log nothing about broken connections: the tests check the requests."""


def _handler_of(wire: Wire) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 20

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more, text = wire.take(Call(f"https://{headers['host']}{self.path}", headers, body))
            if status is None:
                self.close_connection = True
                return
            self.send_response_only(status)
            for name, value in {"Content-Length": str(len(text.encode())), **more}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler


def _certificate(directory: Path) -> Path:
    """Return a file with a key and a self-signed certificate for the names."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.now(UTC)
    hosts = [x509.DNSName(f"{one}.example") for one in NAMES]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    (directory / "authorities.pem").write_bytes(pem)
    path = directory / "receiver.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + pem
    )
    return path
