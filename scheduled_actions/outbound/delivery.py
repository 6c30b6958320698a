"""The HTTP post of a delivery: bounded in time and size, and an answer whatever happens."""

from __future__ import annotations

import email.utils
import functools
import http.client
import importlib.metadata
import re
import socket
import ssl
import time
import unicodedata
import zlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scheduled_actions.core.errors import UrlInvalid
from scheduled_actions.outbound import bounded_http, network
from scheduled_actions.outbound.answer import Answer
from scheduled_actions.outbound.reach import AddressForbidden, ProxyRefused, Reach
from scheduled_actions.outbound.rules.addresses import may_reach

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Seconds for each address of the host, and for the TLS handshake.
CONNECT_TIMEOUT = 5.0
#: Seconds for the whole exchange.
TOTAL_TIMEOUT = 15.0
#: Bytes of an answer that are read.
ANSWER_LIMIT = 64 * 1024
#: Bytes of an answer that are kept, in UTF-8.
EXCERPT_LIMIT = 1024
#: By it a receiver says what it wants: `abort` (this delivery no more) or `disable` (nothing any more).
WISH_HEADER = "webhook-delivery"
#: No receiver puts off its next delivery longer than this.
RETRY_AFTER_LIMIT = timedelta(hours=24)


#: The longest URL that a tenant may give.
URL_LIMIT = 2048


def post(
    url: str,
    *,
    body: bytes,
    headers: Mapping[str, str],
    reach: Reach = Reach(),  # noqa: B008 - a frozen value
    connect_timeout: float = CONNECT_TIMEOUT,
    total_timeout: float = TOTAL_TIMEOUT,
) -> Answer:
    """Return what the receiver answered, or why it did not.

    The host is resolved once; all its addresses must be within reach, and those are dialled. Redirects are answers
    like others. Connections are kept per thread. Of the answer at most 64 KiB are read, packed or not, and 1 KiB kept.

    Args:
        url: http or https.
        body: Sent as it is.
        headers: Added to `User-Agent` and `Accept`.
        reach: How far the post may go.
        connect_timeout: Seconds for each address of the host, and for the TLS handshake.
        total_timeout: Seconds for everything but the system's name resolution: a receiver that sends a byte a
            second is cut off all the same.

    Raises:
        UrlInvalid: Nothing can be posted there.
    """
    place = check_url(url)
    if (instead := network.substitute()) is not None:
        return instead.post(url, body, headers)
    started = time.monotonic()
    limits = bounded_http.Limits(started + total_timeout, connect_timeout, reach)
    status = None
    try:
        with bounded_http.posted(
            urlsplit(url), body=body, headers={"User-Agent": user_agent(), **headers}, limits=limits
        ) as response:
            status = response.status
            packed = _beginning(response)
    except (OSError, http.client.HTTPException, ValueError) as error:
        duration = time.monotonic() - started
        reason = _reason(error, duration)
        told = "" if status is None else f" (status {status} had come)"
        return Answer(
            status=None,
            excerpt="",
            duration_seconds=duration,
            error=f"{place} {reason}{told}",
            is_forbidden=isinstance(error, AddressForbidden),
        )
    return Answer(
        status=status,
        excerpt=_excerpt(packed, response.headers.get("Content-Encoding", "")),
        duration_seconds=time.monotonic() - started,
        retry_after=retry_after(response.headers, now=datetime.now(UTC)),
        wish=response.headers.get(WISH_HEADER, "").strip().lower() or None,
    )


def check_url(url: str) -> str:
    """Return the URL's host and port, without login, path and query.

    Raises:
        UrlInvalid: It is not http or https, has no host, or has characters that no URL has.
    """
    if not url.isprintable() or " " in url:
        raise UrlInvalid("has a space or a character that cannot be printed")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UrlInvalid("has a host or a port that cannot be one") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise UrlInvalid("is not one of http or https")
    if not host:
        raise UrlInvalid("has no host")
    return f"{host}:{port or _DEFAULT_PORTS[parts.scheme]}"


_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_tenant_url(url: str) -> str:
    """Return the host and port of a URL that a tenant gives: https, to the public internet, without a login.

    Names are judged when they are dialled: what they resolve to may change. Numbers are judged here, too.

    Raises:
        UrlInvalid: Nothing may be posted there.
    """
    if len(url) > URL_LIMIT:
        raise UrlInvalid(f"has {len(url):,} characters", f"at most {URL_LIMIT:,} long")
    place = check_url(url)
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise UrlInvalid("is not https", _OF_TENANTS)
    if parts.username is not None or parts.password is not None:
        raise UrlInvalid("has a login", f"{_OF_TENANTS}; put the login into a header")
    if parts.fragment:
        raise UrlInvalid("has a fragment, which is never sent", _OF_TENANTS)
    host = unicodedata.normalize("NFKC", parts.hostname or "").replace("\u3002", ".").rstrip(".")
    if parts.port == 0 or not _can_be_asked_for(host):
        raise UrlInvalid("has a host or a port that cannot be one", _OF_TENANTS)
    is_local = host == "localhost" or host.endswith((".localhost", ".local", ".internal"))
    if is_local or (_looks_like_a_number(host) and not may_reach(host)):
        raise UrlInvalid("leads to an address that webhooks do not reach", _OF_TENANTS)
    return place


_OF_TENANTS = "https:// with a host of the public internet"


def _can_be_asked_for(host: str) -> bool:
    """Whether a resolver could be asked for the host at all: no empty part, none too long, letters, digits, - and _."""
    try:
        return ":" in host or re.fullmatch(r"[A-Za-z0-9_.-]+", host.encode("idna").decode()) is not None
    except UnicodeError:
        return False


def _looks_like_a_number(host: str) -> bool:
    """Whether a resolver would read the host as an address: the last part decides, as WHATWG's URL standard says."""
    return ":" in host or re.fullmatch(r"[0-9]+|0x[0-9a-f]*", host.rpartition(".")[2].lower()) is not None


@functools.cache
def user_agent() -> str:
    """Return the name and version this package gives itself."""
    try:
        version = importlib.metadata.version("scheduled-actions")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return f"scheduled-actions/{version}"


def retry_after(headers: Mapping[str, str] | http.client.HTTPMessage, *, now: datetime) -> timedelta | None:
    """Return how long `Retry-After` asks to wait, between nothing and 24 hours; None when it does not say.

    A date counts from the answer's own `Date`, so that neither clock has to be right.

    Args:
        headers: In any case.
        now: Aware; for an answer without `Date`.

    Source: RFC 9110 §10.2.3; the three forms of a date, §5.6.7.
    """
    value = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]+", value):
        # More digits than these are more than a day, and int() refuses thousands of them.
        wait = timedelta(seconds=int(value.lstrip("0")[:9] or "0"))
    else:
        until = _http_date(value)
        if until is None:
            return None
        wait = until - (_http_date(headers.get("Date", "")) or now)
    return min(max(wait, timedelta(0)), RETRY_AFTER_LIMIT)


def _http_date(value: str) -> datetime | None:
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _beginning(response: http.client.HTTPResponse) -> bytes:
    """Return at most 64 KiB as they came; reading up to the end finds out a body shorter than announced."""
    read = b""
    while len(read) < ANSWER_LIMIT and (more := response.read(ANSWER_LIMIT - len(read))):
        read += more
    if len(read) < ANSWER_LIMIT and response.length:
        raise http.client.IncompleteRead(read, response.length)
    return read


def _excerpt(packed: bytes, encoding: str) -> str:
    match encoding.strip().lower():
        case "" | "identity":
            plain = packed[:EXCERPT_LIMIT]
        case "gzip" | "x-gzip" | "deflate":
            plain = _unpacked(packed)
        case _:
            plain = b""
    text = plain.decode(errors="replace").replace("\0", "").strip()
    return text.encode()[:EXCERPT_LIMIT].decode(errors="ignore")


def _unpacked(packed: bytes) -> bytes:
    """Return the beginning of a gzip or zlib stream; never more, however much is packed in it."""
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(packed, EXCERPT_LIMIT)
    except zlib.error:
        return b""


def _reason(error: Exception, duration: float) -> str:
    """Return the fact behind an exception, in words of ours: what others say may name the whole URL."""
    for kind, words in _FACTS:
        if isinstance(error, kind):
            return words.format(cause=error, duration=duration)
    # Such as "Network is unreachable".
    told = error.strerror if isinstance(error, OSError) else None
    return f"cannot be reached: {told}" if told else f"could not be posted to: {type(error).__name__}"


#: The first that fits counts; a later one may be wider.
_FACTS: tuple[tuple[type[BaseException], str], ...] = (
    (AddressForbidden, "{cause}"),
    (ProxyRefused, "{cause}"),
    (TimeoutError, "did not answer in time: given up after {duration:.1f} seconds"),
    (socket.gaierror, "cannot be found: the name does not resolve"),
    (ssl.SSLCertVerificationError, "has a certificate that cannot be trusted: {cause.verify_message}"),
    (ssl.SSLError, "failed to speak TLS: {cause.reason}"),
    (ConnectionRefusedError, "refused the connection"),
    (http.client.RemoteDisconnected, "closed the connection without an answer"),
    (ConnectionError, "reset the connection"),
    (http.client.IncompleteRead, "broke off its answer"),
    (http.client.HTTPException, "did not answer in HTTP: {cause.__class__.__name__}"),
)
