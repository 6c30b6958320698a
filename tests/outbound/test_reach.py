"""The addresses that a post may reach: forbidden networks, changing DNS answers, proxies, and kept connections."""

from __future__ import annotations

import _socket
import json
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from scheduled_actions.core.errors import UrlInvalid
from scheduled_actions.outbound import bounded_http
from scheduled_actions.outbound.delivery import check_tenant_url, post
from scheduled_actions.outbound.reach import Reach, parse_networks

VECTORS = Path(__file__).parents[1] / "vectors/ssrf"
BLOCKED = json.loads((VECTORS / "blocked.json").read_text(encoding="utf-8"))
ALLOWED = json.loads((VECTORS / "allowed.json").read_text(encoding="utf-8"))
PUBLIC = Reach(networks=())
#: The domain under which each test has its own names.
NAME = "receiver.example"


@pytest.fixture(autouse=True)
def connections_end():
    yield
    bounded_http.close()


@pytest.fixture
def resolver(monkeypatch):
    """Return a table of names, each with its successive answers; numeric addresses are resolved as by the system."""
    names, asked = {}, []

    def getaddrinfo(host, port, **options):
        asked.append(host)
        if host not in names:
            return _socket.getaddrinfo(host, port, **options, flags=socket.AI_NUMERICHOST)
        answers = names[host]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [found for one in addresses for found in _socket.getaddrinfo(one, port, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    names["asked"] = asked
    return names


@pytest.fixture
def attempted(monkeypatch):
    """Return the list of addresses to which a connection was attempted; each attempt is refused."""
    addresses = []

    def connect(_self, address):
        addresses.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    return addresses


def send(url, reach=PUBLIC):
    return post(url, body=b"{}", headers={}, reach=reach, total_timeout=5)


@pytest.mark.parametrize("address", [address for address, _ in BLOCKED["addresses"]])
def test_a_name_with_a_forbidden_address_is_rejected_before_connecting(resolver, attempted, address):
    resolver[NAME] = [[address]]

    answer = send(f"https://{NAME}/hook")

    assert answer.is_forbidden
    assert answer.error == f"{NAME}:443 points to a private or reserved address"
    assert attempted == []


@pytest.mark.parametrize("host", BLOCKED["hosts"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_forbidden_address_in_any_notation_is_rejected_before_connecting(resolver, attempted, host, scheme):
    answer = send(f"{scheme}://{host}/hook")

    assert answer.status is None
    assert attempted == []


@pytest.mark.parametrize("host", BLOCKED["hosts"])
def test_a_tenant_url_with_a_forbidden_address_in_any_notation_is_rejected(host):
    with pytest.raises(UrlInvalid):
        check_tenant_url(f"https://{host}/hook")


@pytest.mark.parametrize("address", ALLOWED["addresses"])
def test_an_address_of_the_public_internet_is_tried_by_number(resolver, attempted, address):
    resolver[NAME] = [[address]]

    answer = send(f"https://{NAME}/hook")

    assert attempted == [address]
    assert not answer.is_forbidden
    assert "refused the connection" in answer.error


def test_one_forbidden_address_rejects_the_host_name(resolver, attempted):
    resolver[NAME] = [["8.8.8.8", "10.0.0.1"]]

    assert send(f"https://{NAME}/").is_forbidden
    assert attempted == []


def test_a_name_is_resolved_once_and_the_checked_address_is_used(resolver, attempted):
    """A resolver that gives a different second answer is not asked a second time."""
    resolver[NAME] = [["8.8.8.8"], ["127.0.0.1"]]

    send(f"https://{NAME}/")

    assert resolver["asked"] == [NAME]
    assert attempted == ["8.8.8.8"]
    assert send(f"https://{NAME}/").is_forbidden
    assert attempted == ["8.8.8.8"]


class Listener:
    """Accepts connections on loopback and answers each request with 200."""

    def __init__(self, answer=b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"):
        self.answer = answer
        self.heads = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.thread = threading.Thread(target=self.accept)
        self.thread.start()

    def accept(self):
        with suppress(OSError):
            while True:
                wire, _ = self.server.accept()
                wire.settimeout(10)
                with wire, suppress(OSError):
                    while head := self.read_head(wire):
                        self.heads.append(head)
                        wire.sendall(self.answer)

    def read_head(self, wire):
        data = b""
        while b"\r\n\r\n" not in data:
            data += (more := wire.recv(4096))
            if not more:
                return None
        head, _, body = data.partition(b"\r\n\r\n")
        for line in head.decode().split("\r\n"):
            name, _, value = line.partition(": ")
            if name.lower() == "content-length":
                while len(body) < int(value):
                    body += wire.recv(4096)
        return head.decode()

    def close(self):
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()


@pytest.fixture
def listener():
    listener = Listener()
    yield listener
    bounded_http.close()
    listener.close()
    listener.thread.join(10)


def test_networks_allowed_by_the_operator_are_not_open_to_tenants(listener):
    url = f"http://127.0.0.1:{listener.port}/"

    assert send(url, Reach(networks=parse_networks(["127.0.0.0/8"]))).status == 200
    # The first connection to the same host and port is still open.
    assert send(url, PUBLIC).is_forbidden
    assert len(listener.heads) == 1


def test_a_redirect_to_a_forbidden_address_is_not_followed(resolver):
    listener = Listener(
        b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://169.254.169.254/latest/meta-data/\r\n"
        b"Content-Length: 0\r\n\r\n"
    )
    try:
        answer = send(f"http://127.0.0.1:{listener.port}/", Reach())
        bounded_http.close()
    finally:
        listener.close()
        listener.thread.join(10)

    assert answer.status == 307
    assert resolver["asked"] == ["127.0.0.1"]


def test_the_proxies_of_the_environment_are_ignored(listener, resolver, attempted, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{listener.port}")
    resolver[NAME] = [["8.8.8.8"]]

    send(f"https://{NAME}/")

    assert attempted == ["8.8.8.8"]


def test_the_proxy_receives_the_checked_address(resolver):
    proxy = Listener(b"HTTP/1.1 403 Not from here\r\n\r\n")
    resolver[NAME] = [["8.8.8.8"], ["127.0.0.1"]]
    try:
        answer = send(f"https://{NAME}/hook", Reach(networks=(), proxy=("127.0.0.1", proxy.port)))
    finally:
        proxy.close()
        proxy.thread.join(10)

    assert [head.split("\r\n")[0] for head in proxy.heads] == ["CONNECT 8.8.8.8:443 HTTP/1.1"]
    assert "hook" not in "".join(proxy.heads)
    assert answer.error == f"{NAME}:443 was refused by the proxy: HTTP/1.1 403 Not from here"


def test_a_proxy_does_not_bypass_the_address_check(resolver, attempted):
    resolver[NAME] = [["10.0.0.1"]]

    assert send(f"https://{NAME}/", Reach(networks=(), proxy=("127.0.0.1", 3128))).is_forbidden
    assert attempted == []


def test_tls_through_the_proxy_verifies_the_receiver(listener):
    """The proxy accepts every CONNECT and then acts as the receiver."""

    class ProxyAndReceiver(Listener):
        def read_head(self, wire):
            head = super().read_head(wire)
            if head and head.startswith("CONNECT"):
                self.heads.append(head)
                wire.sendall(b"HTTP/1.1 200 Connected\r\nX-Via: us\r\n\r\n")
                head = super().read_head(wire)
            return head

    proxy = ProxyAndReceiver()
    try:
        answer = send("http://8.8.8.8:8080/hook", Reach(networks=(), proxy=("127.0.0.1", proxy.port)))
    finally:
        bounded_http.close()
        proxy.close()
        proxy.thread.join(10)

    assert answer.status == 200
    connect, request = proxy.heads
    assert connect.startswith("CONNECT 8.8.8.8:8080 HTTP/1.1")
    assert request.startswith("POST /hook HTTP/1.1")
    assert "Host: 8.8.8.8:8080" in request


@pytest.mark.parametrize("answer", [b"", b"x" * 9000, b"\r\n\r\n", b"SSH-2.0-OpenSSH\r\n\r\n"])
def test_an_invalid_proxy_response_fails_before_the_deadline(answer):
    proxy = Listener(answer)
    try:
        result = post(
            "https://8.8.8.8/", body=b"", headers={}, total_timeout=0.5,
            reach=Reach(networks=(), proxy=("127.0.0.1", proxy.port)),
        )  # fmt: skip
    finally:
        proxy.close()
        proxy.thread.join(10)

    assert result.status is None
    assert result.error.startswith("8.8.8.8:443 ")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://example.org/hook", "does not use https; it must be https:// with a host on the public internet"),
        ("ftp://example.org/", "has a scheme other than http or https"),
        ("https://ann:pw@example.org/", "contains a login"),
        ("https://@example.org/", "contains a login"),
        ("https://example.org/#here", "has a fragment"),
        ("https:///hook", "has no host"),
        ("https://example.org:99999/", "has an invalid host or port"),
        ("https://example.org:0/", "has an invalid host or port"),
        ("https://hooks..example.org/", "has an invalid host or port"),
        ("https://.example.org/", "has an invalid host or port"),
        (f"https://{'a' * 64}.example.org/", "has an invalid host or port"),
        ("https://./", "has an invalid host or port"),
        ("https://exa mple.org/", "contains a space"),
        ("https://example.org/" + "a" * 2048, "at most 2,048 characters long"),
        ("https://localhost/", "points to a private"),
        ("https://LOCALHOST.:8443/", "points to a private"),
        ("https://a.localhost/", "points to a private"),
        ("https://metadata.google.internal/", "points to a private"),
        ("https://10.0.0.1.", "points to a private"),
        ("", "has a scheme other"),
    ],
)
def test_a_forbidden_tenant_url_is_rejected_without_repeating_it(url, problem):
    with pytest.raises(UrlInvalid, match=problem) as caught:
        check_tenant_url(url)

    assert "/hook" not in str(caught.value)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://example.org/hook?a=b", "example.org:443"),
        ("https://hooks.example.org:8443/", "hooks.example.org:8443"),
        ("https://8.8.8.8/", "8.8.8.8:443"),
        ("https://[2606:4700:4700::1111]/", "2606:4700:4700::1111:443"),
        ("https://bücher.example/", "bücher.example:443"),
        ("https://1.example.org/", "1.example.org:443"),
    ],
)
def test_a_valid_tenant_url_is_accepted(url, place):
    assert check_tenant_url(url) == place
