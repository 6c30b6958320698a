"""Post a webhook or a notification within limits of time and size; return failures as results."""

import email.utils
import http.client
import re
import socket
import ssl
import time
import unicodedata
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from scheduled_actions.core.errors import UrlInvalid
from scheduled_actions.core.version import VERSION
from scheduled_actions.outbound import bounded_http, network
from scheduled_actions.outbound.network import PostResult
from scheduled_actions.outbound.reach import AddressForbidden, Network, ProxyRefused, Reach, may_reach

#: Seconds for each address of the host, and for the TLS handshake.
CONNECT_TIMEOUT = 5.0
#: Seconds for the whole exchange.
TOTAL_TIMEOUT = 15.0
#: Maximum number of bytes read from a response.
ANSWER_LIMIT = 64 * 1024
#: Maximum size of the excerpt kept of a response, in bytes of UTF-8.
EXCERPT_LIMIT = 1024
#: The response header with which a receiver ends this delivery (`abort`) or all deliveries (`disable`).
DIRECTIVE_HEADER = "webhook-delivery"
#: The longest delay that a receiver can ask for.
RETRY_AFTER_LIMIT = timedelta(hours=24)
#: The longest URL accepted from a user, in characters.
URL_LIMIT = 2048
USER_AGENT = f"scheduled-actions/{VERSION}"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_TENANT_URL = "https:// with a host on the public internet"
_BAD_HOST = "has an invalid host or port"


def post(
    url: str,
    *,
    body: bytes,
    headers: Mapping[str, str],
    reach: Reach = Reach(),  # noqa: B008 - a frozen value
    connect_timeout: float = CONNECT_TIMEOUT,
    total_timeout: float = TOTAL_TIMEOUT,
) -> PostResult:
    """Post a body; return the response, or the reason why there is none.

    The host is resolved once, and all of its addresses must be allowed. Redirects are not followed. Connections are
    kept per thread. At most 64 KiB of the response are read, compressed or not, and 1 KiB is kept.

    Args:
        url: http or https.
        body: Sent unchanged.
        headers: Added to default headers such as `User-Agent`, or replacing those with exactly the same name.
        reach: The addresses that may be reached, the proxy and the certificate authorities.
        connect_timeout: Seconds for each address of the host, and for the TLS handshake.
        total_timeout: Seconds for everything except the system's name resolution.

    Raises:
        UrlInvalid: The URL is not a valid http or https URL.
    """
    host = check_url(url)
    if network.substitute is not None:
        return network.substitute.post(url, body, headers)
    started = time.monotonic()
    limits = bounded_http.Limits(started + total_timeout, connect_timeout, reach)
    status = None
    try:
        with bounded_http.exchange(
            "POST", urlsplit(url), body=body, headers={"User-Agent": USER_AGENT, **headers}, limits=limits
        ) as response:
            status = response.status
            content = _read_beginning(response)
    except (OSError, http.client.HTTPException, ValueError) as error:
        duration = time.monotonic() - started
        after = "" if status is None else f" (after status {status})"
        return PostResult(
            status=None,
            excerpt="",
            duration_seconds=duration,
            error=f"{host} {_describe(error, duration)}{after}",
            is_forbidden=isinstance(error, AddressForbidden),
        )
    return PostResult(
        status=status,
        excerpt=_excerpt(content, response.headers.get("Content-Encoding", "")),
        duration_seconds=time.monotonic() - started,
        retry_after=retry_after(response.headers, now=datetime.now(UTC)),
        directive=response.headers.get(DIRECTIVE_HEADER, "").strip().lower() or None,
    )


def check_url(url: str) -> str:
    """Validate a URL; return its host and port as "host:port", without login, path and query.

    Raises:
        UrlInvalid: The scheme is not http or https, the host or port is invalid, or a character is not allowed in URLs.
    """
    if not url.isprintable() or " " in url:
        raise UrlInvalid("contains a space or a control character")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UrlInvalid(_BAD_HOST) from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise UrlInvalid("has a scheme other than http or https")
    if not host:
        raise UrlInvalid("has no host")
    return f"{host}:{port or _DEFAULT_PORTS[parts.scheme]}"


def check_tenant_url(url: str) -> str:
    """Validate a URL supplied by a user; return its host and port as "host:port".

    Only https URLs of at most 2,048 characters, on the public internet, without a login or fragment are allowed. Host
    names are checked again when a connection is made, because their addresses may change.

    Raises:
        UrlInvalid: The URL is not allowed; the message does not contain it.
    """
    if len(url) > URL_LIMIT:
        raise UrlInvalid(f"has {len(url):,} characters", f"at most {URL_LIMIT:,} characters long")
    place = check_url(url)
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise UrlInvalid("does not use https", _TENANT_URL)
    if parts.username is not None or parts.password is not None:
        raise UrlInvalid("contains a login", f"{_TENANT_URL}; send the login in a header")
    if parts.fragment:
        raise UrlInvalid("has a fragment, which is never sent", f"{_TENANT_URL}, without a fragment")
    host = unicodedata.normalize("NFKC", parts.hostname or "").replace("\u3002", ".").rstrip(".")
    if parts.port == 0 or not _is_resolvable(host):
        raise UrlInvalid(_BAD_HOST, _TENANT_URL)
    is_local = host == "localhost" or host.endswith((".localhost", ".local", ".internal"))
    if is_local or (_is_numeric(host) and not may_reach(host)):
        raise UrlInvalid(str(AddressForbidden()), _TENANT_URL)
    return place


def is_exposed(url: str, *, networks: Iterable[Network]) -> bool:
    """Return whether requests to a URL would be sent in plain text to a host outside the networks.

    The host is resolved, which can take as long as the system's resolver needs.

    Args:
        url: Any URL.
        networks: The networks in which plain HTTP is acceptable.

    Returns:
        False for an https URL, for an invalid URL, and for a host without an address.
    """
    if network.substitute is not None:
        return False
    try:
        check_url(url)
        parts = urlsplit(url)
        addresses = () if parts.scheme == "https" else socket.getaddrinfo(parts.hostname, None, type=socket.SOCK_STREAM)
    except (UrlInvalid, OSError, ValueError):
        return False
    allowed = tuple(networks)
    return not all(may_reach(str(one[4][0]), also=allowed, includes_internet=False) for one in addresses)


def _is_resolvable(host: str) -> bool:
    """Return whether a resolver accepts the host: no label is empty or too long, and its characters are valid."""
    try:
        return ":" in host or re.fullmatch(r"[A-Za-z0-9_.-]+", host.encode("idna").decode()) is not None
    except UnicodeError:
        return False


def _is_numeric(host: str) -> bool:
    """Return whether a resolver parses the host as an IP address; the last label decides (WHATWG URL standard)."""
    return ":" in host or re.fullmatch(r"[0-9]+|0x[0-9a-f]*", host.rpartition(".")[2].lower()) is not None


def retry_after(headers: Mapping[str, str] | http.client.HTTPMessage, *, now: datetime) -> timedelta | None:
    """Return the delay of `Retry-After`, limited to between 0 and 24 hours; None without a valid header.

    A date is compared with the response's own `Date`, so neither clock has to be right.

    Args:
        headers: The headers of the response; in a plain dict, named exactly `Retry-After` and `Date`.
        now: The current time, aware; used if the response has no valid `Date`.

    Source: RFC 9110 §10.2.3; the three date formats: §5.6.7.
    """
    value = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]+", value):
        # Nine digits are more than the limit needs; int() raises an error for thousands of digits.
        delay = timedelta(seconds=int(value.lstrip("0")[:9] or "0"))
    else:
        until = _http_date(value)
        if until is None:
            return None
        delay = until - (_http_date(headers.get("Date", "")) or now)
    return min(max(delay, timedelta(0)), RETRY_AFTER_LIMIT)


def _http_date(value: str) -> datetime | None:
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _read_beginning(response: http.client.HTTPResponse) -> bytes:
    """Return at most the first 64 KiB of a response.

    Raises:
        http.client.IncompleteRead: The body is shorter than announced.
    """
    content = response.read(ANSWER_LIMIT)
    if len(content) < ANSWER_LIMIT and response.length:
        raise http.client.IncompleteRead(content, response.length)
    return content


def _excerpt(content: bytes, encoding: str) -> str:
    plain = b""
    coding = encoding.strip().lower()
    if coding in {"", "identity"}:
        plain = content[:EXCERPT_LIMIT]
    elif coding in {"gzip", "x-gzip", "deflate"}:
        with suppress(zlib.error):  # at most 1 KiB, whatever the size of the stream
            plain = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(content, EXCERPT_LIMIT)
    text = plain.decode(errors="replace").replace("\0", "").strip()
    return text.encode()[:EXCERPT_LIMIT].decode(errors="ignore")


def _describe(error: Exception, duration: float) -> str:
    """Describe an exception in fixed words, because its own message may contain the URL."""
    for kind, words in _DESCRIPTIONS:
        if isinstance(error, kind):
            return words.format(error=error, duration=duration)
    # The system's message, such as "Network is unreachable".
    reason = error.strerror if isinstance(error, OSError) else None
    return f"cannot be reached: {reason}" if reason else f"could not be posted to: {type(error).__name__}"


#: Messages by exception class. The first match counts: a base class comes after its subclasses.
_DESCRIPTIONS: tuple[tuple[type[BaseException], str], ...] = (
    (AddressForbidden, "{error}"),
    (ProxyRefused, "{error}"),
    (TimeoutError, "timed out after {duration:.1f} seconds"),
    (socket.gaierror, "could not be resolved by DNS"),
    (ssl.SSLCertVerificationError, "has an untrusted certificate: {error.verify_message}"),
    (ssl.SSLError, "failed the TLS handshake: {error.reason}"),
    (ConnectionRefusedError, "refused the connection"),
    (http.client.RemoteDisconnected, "closed the connection without a response"),
    (ConnectionError, "reset the connection"),
    (http.client.IncompleteRead, "sent an incomplete response"),
    (http.client.HTTPException, "sent an invalid HTTP response: {error.__class__.__name__}"),
)
