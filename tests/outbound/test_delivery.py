from __future__ import annotations

import gc
import gzip
import logging
import re
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings
import zlib
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from scheduled_actions.core.errors import UrlInvalid
from scheduled_actions.outbound import bounded_http
from scheduled_actions.outbound.delivery import ANSWER_LIMIT, USER_AGENT, check_url, post, retry_after
from scheduled_actions.outbound.reach import Reach

CERTIFICATE = Path(__file__).parents[1] / "vectors/tls/localhost.pem"
NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


class Receiver:
    """A TCP server on loopback that reads each complete request, and then calls `talk(wire, request)` to answer it."""

    def __init__(self, talk, *, tls=False, reads_body=True, is_trusted=True):
        self.talk = talk
        self.is_trusted = tls and is_trusted
        self.reads_body = reads_body
        self.requests = []
        self.connections = 0
        self.closing = threading.Event()
        self.context = None
        if tls:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(CERTIFICATE)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/in"
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        with suppress(OSError):
            while True:
                wire, _ = self.server.accept()
                self.connections += 1
                thread = threading.Thread(target=self.serve, args=[wire])
                self.threads.append(thread)
                thread.start()

    def serve(self, wire):
        wire.settimeout(10)
        with suppress(OSError, ConnectionError):
            if self.context:
                wire = self.context.wrap_socket(wire, server_side=True)
            while request := self.read_request(wire):
                self.requests.append(request)
                if self.talk(wire, request) == "close":
                    break
        wire.close()

    def read_request(self, wire):
        data = b""
        while b"\r\n\r\n" not in data:
            data += (more := wire.recv(65536))
            if not more:
                return None
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        while self.reads_body and len(body) < int(headers.get("content-length", "0")):
            body += wire.recv(65536)
        return {"line": lines[0], "headers": headers, "body": body}

    def drip(self, wire, data):
        """Send one byte at a time, each within any timeout of a single receive."""
        for number in range(len(data)):
            wire.sendall(data[number : number + 1])
            if self.closing.wait(0.02):
                break

    def hang(self):
        self.closing.wait(10)
        return "close"

    def close(self):
        self.closing.set()
        with suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        for thread in self.threads:
            thread.join(10)


@pytest.fixture
def receive():
    """Return a function that starts a receiver."""
    started = []

    def start(talk, **options):
        started.append(Receiver(talk, **options))
        return started[-1]

    yield start
    # Close the client's ends first: a receiver waits for the next request on a connection that is kept open.
    bounded_http.close()
    for receiver in started:
        receiver.close()


def answering(status="200 OK", body=b"", *headers):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    whole = "\r\n".join(lines).encode() + body
    return lambda wire, _: wire.sendall(whole)


def send(receiver, **changes):
    reach = Reach(ca_file=str(CERTIFICATE) if receiver.is_trusted else None)
    return post(receiver.url, **{"body": b"{}", "headers": {}, "total_timeout": 5, "reach": reach, **changes})


def test_a_post_sends_exact_bytes_and_headers_and_returns_the_response(receive):
    receiver = receive(answering("201 Created", b"thank you"))

    answer = send(receiver, body=b'{"a":"\xc3\xab"}', headers={"content-type": "application/json", "x-one": "1"})

    (request,) = receiver.requests
    assert request["line"] == "POST /in HTTP/1.1"
    assert request["body"] == b'{"a":"\xc3\xab"}'
    assert request["headers"]["content-type"] == "application/json"
    assert request["headers"]["x-one"] == "1"
    assert request["headers"]["user-agent"] == USER_AGENT
    assert USER_AGENT.startswith("scheduled-actions/")
    assert (answer.status, answer.excerpt, answer.error) == (201, "thank you", None)
    assert 0 < answer.duration_seconds < 5


def test_a_thread_keeps_its_connection_for_the_next_post(receive):
    receiver = receive(answering(body=b"ok"))

    answers = [send(receiver) for _ in range(3)]

    assert [answer.status for answer in answers] == [200] * 3
    assert receiver.connections == 1


def test_a_connection_idle_for_long_is_not_reused(receive, monkeypatch):
    receiver = receive(answering(body=b"ok"))
    send(receiver)

    monkeypatch.setattr(bounded_http, "IDLE_SECONDS", 0)
    send(receiver)

    assert receiver.connections == 2


def test_a_connection_closed_by_the_receiver_is_replaced(receive):
    closed = threading.Event()

    def talk(wire, _):
        wire.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        wire.shutdown(socket.SHUT_RDWR)
        closed.set()
        return "close"

    receiver = receive(talk)

    for _ in range(2):
        assert send(receiver).status == 204
        assert closed.wait(5)
        closed.clear()
    assert receiver.connections == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_returned_and_not_followed(receive, status):
    elsewhere = receive(answering())
    receiver = receive(answering(f"{status} Moved", b"", f"Location: {elsewhere.url}"))

    answer = send(receiver)

    assert answer.status == status
    assert len(receiver.requests) == 1
    assert elsewhere.requests == []


def endless(head):
    def talk(wire, _):
        wire.sendall(head)
        while True:
            wire.sendall(b"x" * 65536)

    return talk


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 10485760\r\n\r\n",
    ],
    ids=["ten gigabytes", "no end", "a redirect with a body of ten megabytes"],
)
def test_only_the_beginning_of_a_huge_response_is_read(receive, head):
    receiver = receive(endless(head))
    tracemalloc.start()

    answer = send(receiver)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status in {200, 302}
    assert answer.excerpt == "x" * 1024
    assert peak < 2_000_000
    receiver.threads[-1].join(5)
    assert not receiver.threads[-1].is_alive(), "the connection was left open"


@pytest.mark.parametrize("status", ["200 OK", "302 Found"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compression_bomb_is_only_decompressed_to_the_excerpt(receive, encoding, status):
    plain = b"b" * 50_000_000
    bomb = gzip.compress(plain, 1) if encoding == "gzip" else zlib.compress(plain, 1)
    del plain
    receiver = receive(answering(status, bomb, f"Content-Encoding: {encoding}", "Location: /x"))
    tracemalloc.start()

    answer = send(receiver)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.excerpt == "b" * 1024
    assert peak < 2_000_000


@pytest.mark.parametrize("encoding", ["br", "gzip", "gzip, gzip", "deflate"])
def test_an_undecodable_response_has_an_empty_excerpt(receive, encoding):
    receiver = receive(answering("500 Oops", b"not packed at all", f"Content-Encoding: {encoding}"))

    answer = send(receiver)

    assert (answer.status, answer.excerpt, answer.error) == (500, "", None)


@pytest.mark.parametrize(
    ("body", "excerpt"),
    [
        (b"no\0 nul\0", "no nul"),
        (b"caf\xe9", "caf\ufffd"),
        (b"x" * (ANSWER_LIMIT + 5), "x" * 1024),
        ("ë".encode() * 1000, "ë" * 512),
        (b"\xff" * 2000, "\ufffd" * 341),
        ("€".encode() * 1000, "€" * 341),
    ],
)
def test_an_excerpt_is_text_of_at_most_a_kibibyte_without_nul(receive, body, excerpt):
    receiver = receive(answering("500 Oops", body))

    answer = send(receiver)

    assert answer.excerpt == excerpt
    assert len(answer.excerpt.encode()) <= 1024


def drips_its_headers(receiver, wire):
    receiver.drip(wire, b"HTTP/1.1 200 OK\r\nX-Padding: " + b"x" * 60_000)


def drips_its_status(receiver, wire):
    receiver.drip(wire, b"H" * 60_000)


def drips_its_body(receiver, wire):
    wire.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
    receiver.drip(wire, b"x" * 60_000)


def drips_a_chunk(receiver, wire):
    wire.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nea60\r\n")
    receiver.drip(wire, b"x" * 60_000)


def drips_the_length_of_a_chunk(receiver, wire):
    wire.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    receiver.drip(wire, b"0" * 60_000)


def sends_continue_forever(receiver, wire):
    while not receiver.closing.is_set():
        wire.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def sends_nothing(receiver, wire):
    del wire
    receiver.hang()


TALKS = [
    drips_its_headers,
    drips_its_status,
    drips_its_body,
    drips_a_chunk,
    drips_the_length_of_a_chunk,
    sends_continue_forever,
    sends_nothing,
]


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("talk", TALKS)
def test_an_endless_response_ends_at_the_deadline(receive, talk, tls):
    receiver = receive(lambda wire, _: talk(receiver, wire), tls=tls)
    started = time.monotonic()

    answer = send(receiver, total_timeout=0.3)

    assert 0.3 <= time.monotonic() - started < 4
    assert answer.status is None
    assert re.search(r"timed out after [0-3]\.", answer.error)


def test_the_error_of_an_endless_body_names_the_status(receive):
    receiver = receive(lambda wire, _: drips_its_body(receiver, wire))

    answer = send(receiver, total_timeout=0.2)

    assert answer.status is None
    assert answer.error.endswith("(after status 200)")


@pytest.mark.parametrize("posts_before", [0, 1], ids=["new connection", "kept connection"])
def test_a_receiver_that_does_not_read_is_disconnected_at_the_deadline(receive, posts_before):
    def talk(wire, request):
        if request["headers"]["content-length"] != "2":
            return receiver.hang()
        return answering()(wire, request)

    receiver = receive(talk)
    for _ in range(posts_before):
        assert send(receiver, body=b"{}").status == 200
    receiver.reads_body = False
    started = time.monotonic()

    answer = send(receiver, body=b"x" * 30_000_000, total_timeout=0.3)

    assert time.monotonic() - started < 4
    assert "timed out after" in answer.error


def test_a_tls_handshake_ends_at_the_connect_timeout(receive):
    receiver = receive(lambda *_: None)  # The receiver does not use TLS, and waits for the rest of a request.
    started = time.monotonic()

    answer = post(f"https://127.0.0.1:{receiver.port}/", body=b"", headers={}, connect_timeout=0.2, total_timeout=5)

    assert 0.2 <= time.monotonic() - started < 4
    assert "timed out after" in answer.error


def test_each_post_has_its_own_deadline(receive):
    hanging = receive(lambda *_: hanging.hang())
    receiver = receive(answering())

    assert send(hanging, total_timeout=0.1).status is None
    assert send(receiver, total_timeout=5).status == 200


def test_without_any_time_left_nothing_is_sent(receive):
    receiver = receive(answering())

    answer = send(receiver, total_timeout=0)

    assert "timed out after" in answer.error
    assert receiver.requests == []


def test_a_trusted_receiver_is_posted_to_over_tls(receive):
    receiver = receive(answering(body=b"sealed"), tls=True)

    answers = [send(receiver) for _ in range(2)]

    assert [answer.excerpt for answer in answers] == ["sealed"] * 2
    assert receiver.connections == 1


def test_an_untrusted_certificate_is_rejected(receive):
    receiver = receive(answering(), tls=True, is_trusted=False)

    answer = send(receiver)

    assert answer.status is None
    assert f"127.0.0.1:{receiver.port} has an untrusted certificate: self" in answer.error
    assert receiver.requests == []


def test_a_certificate_for_another_name_is_rejected(receive, monkeypatch):
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _, port, **__: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
    )
    receiver = receive(answering(), tls=True)

    answer = post(
        f"https://another.example:{receiver.port}/hook",
        body=b"{}",
        headers={},
        reach=Reach(ca_file=str(CERTIFICATE)),
    )

    assert answer.status is None
    assert "has an untrusted certificate: Hostname mismatch" in answer.error
    assert receiver.requests == []


@pytest.mark.parametrize("value", ["a\r\nHost: evil.example", "a\nb", "a\0b", "grün €"])
def test_a_header_with_a_line_break_is_not_sent(receive, value):
    receiver = receive(answering())

    answer = post(receiver.url, body=b"{}", headers={"X-Tenant": value})

    assert answer.status is None
    assert "evil" not in answer.error
    assert receiver.requests == []


def test_the_environment_cannot_disable_certificate_verification(receive, monkeypatch):
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(CERTIFICATE))
    receiver = receive(answering(), tls=True, is_trusted=False)

    assert send(receiver).status is None


def resets(wire, _):
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return "close"


def sends(data):
    def talk(wire, _):
        wire.sendall(data)
        return "close"

    return talk


@pytest.mark.parametrize(
    ("talk", "words"),
    [
        (resets, "reset the connection"),
        (sends(b""), "closed the connection without a response"),
        (
            sends(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"),
            "sent an incomplete response (after status 200)",
        ),
        (sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha"), "sent an incomplete response"),
        (sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "sent an incomplete response"),
        (sends(b"SSH-2.0-OpenSSH_9.9\r\n"), "sent an invalid HTTP response: BadStatusLine"),
        (sends(b"HTTP/1.1 9999 What\r\n\r\n"), "sent an invalid HTTP response: BadStatusLine"),
        (sends(b"HTTP/1.1 200 " + b"x" * 70_000), "sent an invalid HTTP response: LineTooLong"),
        (
            sends(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n"),
            "sent an invalid HTTP response: HTTPException",
        ),
    ],
)
def test_a_broken_exchange_returns_a_descriptive_error(receive, talk, words):
    receiver = receive(talk)

    answer = send(receiver)

    assert (answer.status, answer.excerpt, answer.retry_after) == (None, "", None)
    assert words in answer.error


def test_a_closed_port_returns_connection_refused():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    answer = post(f"http://127.0.0.1:{port}/", body=b"", headers={})

    assert answer.error == f"127.0.0.1:{port} refused the connection"


def test_plain_http_at_an_https_url_returns_a_tls_error(receive):
    receiver = receive(answering())
    receiver.read_request = lambda wire: wire.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    answer = post(f"https://127.0.0.1:{receiver.port}/", body=b"", headers={}, total_timeout=5)

    assert "failed the TLS handshake: " in answer.error


def test_an_unresolvable_name_returns_a_dns_error(monkeypatch):
    def unknown(*_args, **_options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)

    answer = post("http://hooks.example.com/", body=b"", headers={})

    assert answer.error == "hooks.example.com:80 could not be resolved by DNS"


@pytest.mark.parametrize("url", ["http://.example.com/secret", "http://too-long-a-label.example.com/secret"])
def test_an_invalid_host_name_returns_an_error(monkeypatch, url):
    def too_long(*_args, **_options):
        raise UnicodeError("label too long")

    monkeypatch.setattr(socket, "getaddrinfo", too_long)

    answer = post(url, body=b"", headers={})

    assert answer.status is None
    assert "secret" not in answer.error


def test_the_next_address_of_a_host_is_tried_after_a_refusal(receive, monkeypatch):
    receiver = receive(answering())
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed_port = server.getsockname()[1]

    def two_addresses(_host, _port, **_options):
        kinds = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
        return [(*kinds, ("127.0.0.1", port)) for port in (closed_port, receiver.port)]

    monkeypatch.setattr(socket, "getaddrinfo", two_addresses)

    assert post("http://hooks.example.com/", body=b"", headers={}).status == 200


@pytest.mark.parametrize(
    "talk", [resets, sends(b""), sends(b"junk\r\n"), drips_its_body], ids=lambda talk: talk.__name__
)
def test_errors_contain_neither_path_nor_login_of_the_url(receive, talk):
    receiver = receive(lambda wire, _: drips_its_body(receiver, wire) if talk is drips_its_body else talk(wire, _))
    url = f"http://ann:hunter2@127.0.0.1:{receiver.port}/services/T0KEN?key=s3cret"

    answer = post(url, body=b"", headers={}, total_timeout=0.5)

    assert answer.error.startswith(f"127.0.0.1:{receiver.port} ")
    for secret in ("ann", "hunter2", "T0KEN", "s3cret", "services"):
        assert secret not in answer.error


@pytest.mark.parametrize("header", [b"Server: x", b"this line is no header"])
def test_logs_do_not_contain_the_path_of_the_url(receive, caplog, header):
    caplog.set_level(logging.DEBUG)
    receiver = receive(sends(b"HTTP/1.1 200 OK\r\n" + header + b"\r\nContent-Length: 0\r\n\r\n"))

    post(f"http://127.0.0.1:{receiver.port}/services/T0KEN", body=b"", headers={}, total_timeout=5)

    assert "T0KEN" not in caplog.text


def test_the_login_of_a_url_is_sent_as_authorization_header(receive):
    receiver = receive(answering())

    post(f"http://ann:hunter2@127.0.0.1:{receiver.port}/in", body=b"", headers={}, total_timeout=5)

    (request,) = receiver.requests
    assert request["line"] == "POST /in HTTP/1.1"
    assert request["headers"]["authorization"] == "Basic YW5uOmh1bnRlcjI="


def test_a_proxy_in_the_environment_is_not_used(receive, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    receiver = receive(answering())

    assert send(receiver).status == 200


def test_a_cookie_is_not_kept_for_the_next_post(receive):
    receiver = receive(answering("200 OK", b"", "Set-Cookie: session=1; Path=/"))

    for _ in range(2):
        send(receiver)

    assert "cookie" not in receiver.requests[1]["headers"]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example.com/in",
        "//hooks.example.com/in",
        "ftp://hunter2@example.com/",
        "file:///etc/passwd",
        "https://",
        "https:///hunter2",
        "https://:443/hunter2",
        "https://example.com:port/hunter2",
        "https://example.com:99999/hunter2",
        "https://[::1/hunter2",
        "https://exa mple.com/hunter2",
        "https://example.com/hunter2\r\nX: y",
        "https://example.com/hunter2\t",
    ],
)
def test_an_invalid_url_is_rejected_without_repeating_it(url):
    with pytest.raises(UrlInvalid, match="it must be an http:// or https:// address with a host") as caught:
        post(url, body=b"", headers={})

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://example.com", "example.com:80"),
        ("HTTPS://Example.com/a/b?c#d", "example.com:443"),
        ("https://ann:hunter2@example.com:8443/x", "example.com:8443"),
        ("http://[::1]:8000/x", "::1:8000"),
    ],
)
def test_a_url_is_named_by_its_host_and_port_alone(url, place):
    assert check_url(url) == place


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"Retry-After": "120"}, timedelta(seconds=120)),
        ({"Retry-After": " 0 "}, timedelta(0)),
        ({"Retry-After": "00086400"}, timedelta(hours=24)),
        ({"Retry-After": "86401"}, timedelta(hours=24)),
        ({"Retry-After": "9" * 5000}, timedelta(hours=24)),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "1.5"}, None),
        ({"Retry-After": "٣"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Wed, 04 Mar 2026 12:02:00 GMT"}, timedelta(seconds=120)),
        ({"Retry-After": "Wed, 04 Mar 2026 11:00:00 GMT"}, timedelta(0)),
        ({"Retry-After": "Wed, 04 Mar 2099 12:00:00 GMT"}, timedelta(hours=24)),
        ({"Retry-After": "Wed, 99 Mar 2026 12:00:00 GMT"}, None),
        ({"Retry-After": "Wed Mar  4 12:02:00 2026"}, timedelta(seconds=120)),
        ({"Retry-After": "Wednesday, 04-Mar-26 12:02:00 GMT"}, timedelta(seconds=120)),
        (
            {"Retry-After": "Thu, 05 Mar 2026 08:00:30 GMT", "Date": "Thu, 05 Mar 2026 08:00:00 GMT"},
            timedelta(seconds=30),
        ),
        ({"Retry-After": "Wed, 04 Mar 2026 12:02:00 GMT", "Date": "today"}, timedelta(seconds=120)),
    ],
)
def test_retry_after_accepts_seconds_and_dates(headers, wait):
    assert retry_after(headers, now=NOW) == wait


@given(st.text(), st.text())
def test_retry_after_accepts_any_text_and_returns_at_most_a_day(value, date):
    wait = retry_after({"Retry-After": value, "Date": date}, now=NOW)

    assert wait is None or timedelta(0) <= wait <= timedelta(hours=24)


@pytest.mark.parametrize(
    ("value", "seconds"), [("90", 90), ("Thu, 05 Mar 2026 08:01:00 GMT", 60)], ids=["seconds", "date"]
)
def test_a_result_contains_the_delay_of_retry_after(receive, value, seconds):
    receiver = receive(answering("429 Slow", b"", f"retry-after: {value}", "date: Thu, 05 Mar 2026 08:00:00 GMT"))

    answer = send(receiver)

    assert (answer.status, answer.retry_after) == (429, timedelta(seconds=seconds))


def test_certificates_are_not_loaded_before_the_first_post():
    code = "import sys, scheduled_actions.outbound.delivery; sys.exit('certifi' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_thread_closes_its_idle_connections_when_it_ends(receive):
    receiver = receive(answering("200 OK", b""))
    answers = []

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        thread = threading.Thread(target=lambda: answers.append(send(receiver)))
        thread.start()
        thread.join()
        gc.collect()

    assert answers[0].status == 200
    assert [str(one.message) for one in warned if issubclass(one.category, ResourceWarning)] == []
