"""Limit the addresses that outbound requests may reach: the public internet, and networks allowed in the settings.

A receiver's address is user input. It must not give access to hosts that only this machine can reach: the machine
itself, its private networks, and the metadata service of the cloud.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from scheduled_actions.core.config import Webhooks

Network: TypeAlias = IPv4Network | IPv6Network

LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
#: Source: IANA IPv4 Special-Purpose Address Registry; the last entry is Azure's virtual machine host.
_FORBIDDEN_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3", "168.63.129.16/32",
    )
)  # fmt: skip
#: Global unicast; excludes mapped, translated, local and multicast addresses.
#: Source: RFC 4291 §2.4; IANA IPv6 Special-Purpose Address Registry for the exceptions inside.
_GLOBAL_V6 = IPv6Network("2000::/3")
_FORBIDDEN_V6 = tuple(
    IPv6Network(network)
    # Teredo and other protocol assignments, documentation, 6to4, AS112, documentation.
    for network in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The network limits of a request. Requests with different limits share no connection."""

    #: Networks allowed in addition to the public internet.
    networks: tuple[Network, ...] = LOOPBACK
    #: Whether the public internet is allowed.
    includes_internet: bool = True
    #: Host and port of the HTTP proxy for all requests; None: direct connections.
    proxy: tuple[str, int] | None = None
    #: Path of a file of certificate authorities; None: those of `certifi`.
    ca_file: str | None = None


class AddressForbidden(OSError):
    """A host has a forbidden address; nothing was sent. The message does not contain the address."""

    def __init__(self, problem: str = "points to a private or reserved address") -> None:
        super().__init__(problem)


class ProxyRefused(OSError):
    """The proxy refused the connection, or its response is not HTTP."""

    def __init__(self, answer: str) -> None:
        super().__init__(f"was refused by the proxy: {answer}")


def may_reach(address: str, *, also: Iterable[Network] = (), includes_internet: bool = True) -> bool:
    """Return whether requests to an IP address are allowed.

    Args:
        address: As the resolver returns it; a zone after `%` is ignored.
        also: Networks allowed in addition to the public internet.
        includes_internet: Whether the public internet is allowed.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    # An address is never in a network of the other version.
    if any(parsed in network for network in also):
        return True
    if not includes_internet:
        return False
    if parsed.version == 4:  # noqa: PLR2004 - the IP version
        return not any(parsed in network for network in _FORBIDDEN_V4)
    return parsed in _GLOBAL_V6 and not any(parsed in network for network in _FORBIDDEN_V6)


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse validated networks in CIDR notation, such as `10.0.0.0/8`."""
    return tuple(map(ip_network, texts))


def reach_of(settings: Webhooks, *, is_tenants: bool = True, networks: tuple[str, ...] = ()) -> Reach:
    """Return the network limits of a request.

    Args:
        settings: The proxy, the private networks and the certificate authorities.
        is_tenants: Whether the address is user input. If so, only the public internet, `networks` and the public
            certificate authorities are allowed.
        networks: Networks that are also allowed if the address is user input.
    """
    if is_tenants:
        return _reach(networks, settings.egress_proxy, None)
    return _reach(settings.private_networks, settings.egress_proxy, settings.ca_file)


@functools.cache
def _reach(networks: tuple[str, ...], proxy: str | None, ca_file: str | None) -> Reach:
    host, _, port = (proxy or "").removeprefix("http://").rpartition(":")
    address = None if proxy is None else (host.strip("[]"), int(port))
    return Reach(networks=parse_networks(networks), proxy=address, ca_file=ca_file)
