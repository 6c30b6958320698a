"""Wrong tokens, counted by the address they come from: guessing is slow, and costs bounded memory here."""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: So many wrong tokens in a row an address may send…
BURST = 20
#: …and so many a second from then on.
PER_SECOND = 1.0
_ADDRESSES_MOST = 10_000
_KNOWN_MOST = 1_000


class FailedAttempts:
    """Keeps how many wrong tokens each address has sent of late, in this process. Safe to use from many threads.

    An address that has sent too many is not listened to for a while, except for tokens that have opened the API before:
    behind a proxy all callers have one address, and one of them must not lock out the others.

    Args:
        monotonic: Measures the time, in seconds.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        #: By address: how many wrong ones are on its account, and when that was. They wear off with time.
        self._accounts: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        """Return of how many addresses and tokens something is kept."""
        return len(self._accounts) + len(self._known)

    def wait(self, address: str, digest: bytes) -> int:
        """Return for how many seconds the address is not listened to; 0 for one that is."""
        with self._lock:
            if digest in self._known:
                return 0
            left = self._on_account(_group(address)) - (BURST - 1)
            return math.ceil(left / PER_SECOND) if left > 0 else 0

    def failed(self, address: str, digest: bytes) -> None:
        """Put a wrong token on the address's account."""
        group = _group(address)
        with self._lock:
            self._known.pop(digest, None)
            # An account never grows beyond what the next token may find: nobody waits longer than a moment.
            count = min(self._on_account(group) + 1, BURST)
            self._accounts[group] = (count, self._monotonic())
            self._accounts.move_to_end(group)
            while len(self._accounts) > _ADDRESSES_MOST:
                self._accounts.popitem(last=False)

    def succeeded(self, digest: bytes) -> None:
        """Remember a token that opens the API."""
        with self._lock:
            self._known[digest] = None
            self._known.move_to_end(digest)
            while len(self._known) > _KNOWN_MOST:
                self._known.popitem(last=False)

    def _on_account(self, group: str) -> float:
        count, at = self._accounts.get(group, (0.0, 0.0))
        return max(0.0, count - (self._monotonic() - at) * PER_SECOND)


def _group(address: str) -> str:
    """Return whom an address stands for: one caller may have all of an IPv6 network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if parsed.version == 4:  # noqa: PLR2004 - IPv4
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False).network_address)
