"""The address of a caller, behind proxies or not."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from scheduled_actions.outbound.rules.addresses import networks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flask import Request

    from scheduled_actions.core.config import Settings
    from scheduled_actions.outbound.rules.addresses import Network


def client_address(request: Request, settings: Settings) -> str:
    """Return the address that a request came from.

    Args:
        request: The request; its `X-Forwarded-For` counts only as far as trusted proxies wrote it.
        settings: The networks of the proxies, `trusted_proxies`; without any, the header is ignored.
    """
    trusted = networks_of(settings.trusted_proxies)
    address = request.remote_addr or ""
    # Each proxy appends the address that it saw: the last entries are true, the first are the caller's claims.
    forwarded = ",".join(request.headers.getlist("X-Forwarded-For")).split(",") if trusted else []
    while forwarded and _is_in(address, trusted):
        nearer = forwarded.pop().strip()
        if not _is_address(nearer):
            break
        address = nearer
    return address


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_in(address: str, networks: Sequence[Network]) -> bool:
    if not _is_address(address):
        return False
    parsed = ipaddress.ip_address(address)
    # A socket of both versions shows IPv4 addresses as IPv6.
    plain = (parsed.ipv4_mapped if parsed.version == 6 else None) or parsed  # noqa: PLR2004 - the version of the protocol
    return any(plain in network for network in networks)
