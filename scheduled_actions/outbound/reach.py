"""How far a post may go, and what stops it on the way."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduled_actions.outbound.rules.addresses import LOOPBACK, networks_of

if TYPE_CHECKING:
    from scheduled_actions.core.config import Webhooks
    from scheduled_actions.outbound.rules.addresses import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far a post may go. Posts of different reach share no connection."""

    #: Networks allowed beside the public internet; none for an address that a tenant chose.
    networks: tuple[Network, ...] = LOOPBACK
    #: Host and port of the HTTP proxy that everything goes through; None: straight to the receiver.
    proxy: tuple[str, int] | None = None
    #: File of certificate authorities; None: those that `certifi` ships.
    ca_file: str | None = None


class AddressForbidden(OSError):
    """A host has an address that is not to be reached; nothing was sent. The message does not say which."""

    def __init__(self) -> None:
        super().__init__("leads to an address that webhooks do not reach")


class ProxyRefused(OSError):
    """The proxy did not make a connection."""

    def __init__(self, answer: str) -> None:
        super().__init__(f"was refused by the proxy: {answer}")


def reach_of(settings: Webhooks, *, is_tenants: bool = True, networks: tuple[str, ...] = ()) -> Reach:
    """Return how far an exchange may go: a tenant's to the public internet alone, as public authorities vouch for.

    Args:
        settings: The proxy and the rest.
        is_tenants: Whether its address is of a tenant's choosing.
        networks: Those beside the public internet that a tenant's may be in all the same.
    """
    if is_tenants:
        return _reach(networks, settings.egress_proxy, None)
    return _reach(settings.private_networks, settings.egress_proxy, settings.ca_file)


@functools.cache
def _reach(networks: tuple[str, ...], proxy: str | None, ca_file: str | None) -> Reach:
    host, _, port = (proxy or "").removeprefix("http://").rpartition(":")
    return Reach(
        networks=networks_of(networks),
        proxy=None if proxy is None else (host.strip("[]"), int(port)),
        ca_file=ca_file,
    )
