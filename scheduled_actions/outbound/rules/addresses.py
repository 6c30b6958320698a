"""Which addresses a webhook may be posted to: those of the public internet, and what is allowed beside them.

A receiver's address is somebody else's choice. What it must not reach is what only this machine's place in the network
can reach: the machine itself, its neighbours, the cloud's metadata.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Network: TypeAlias = IPv4Network | IPv6Network

LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))

#: Not reached, although some of them look like any other address.
#: Source: IANA IPv4 Special-Purpose Address Registry; the last one is Azure's, for its virtual machines alone.
_FORBIDDEN_V4 = tuple(
    IPv4Network(one)
    for one in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3", "168.63.129.16/32",
    )
)  # fmt: skip
#: Global unicast; whatever is mapped, translated, local or multicast lies outside.
#: Source: RFC 4291 §2.4, and the IANA IPv6 Special-Purpose Address Registry for what is special inside.
_GLOBAL_V6 = IPv6Network("2000::/3")
_FORBIDDEN_V6 = tuple(
    IPv6Network(one)
    # Teredo and its neighbours, examples, 6to4, AS112, examples.
    for one in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)


def may_reach(address: str, *, also: Iterable[Network] = ()) -> bool:
    """Return whether an address may be posted to.

    Args:
        address: As the resolver gives it; a zone after `%` is not looked at.
        also: Networks that are allowed beside the public internet.
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if any(found.version == network.version and found in network for network in also):
        return True
    if found.version == 4:  # noqa: PLR2004 - the version of the protocol
        return not any(found in network for network in _FORBIDDEN_V4)
    return found in _GLOBAL_V6 and not any(found in network for network in _FORBIDDEN_V6)


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks of texts such as `10.0.0.0/8`, which the settings have checked."""
    return tuple(ip_network(one) for one in texts)
