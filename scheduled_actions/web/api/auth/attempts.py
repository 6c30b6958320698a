"""Wrong tokens, counted by their beginning and by the address that sent them."""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from scheduled_actions.operations import tokens

if TYPE_CHECKING:
    from collections.abc import Callable

#: How many wrong tokens in a row are answered 401…
BURST = 20
#: …and how many per second from then on.
PER_SECOND = 1.0
_ACCOUNTS_MOST = 10_000


class FailedAttempts:
    """Counts the recent wrong tokens of this process, per address and beginning of the token. Thread-safe.

    Only wrong tokens are counted and delayed: callers behind one proxy share an address, and none of them may lock
    out another. Tokens of one beginning are one token that is tried over and over; everything that does not have the
    form of a stored token counts as a guess of `ADMIN_TOKEN`.

    Args:
        monotonic: Measures the time, in seconds.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        #: How many wrong tokens an account has, and since when; they wear off with time.
        self._accounts: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of accounts in memory."""
        return len(self._accounts)

    def failed(self, address: str, shown: str) -> int:
        """Count a wrong token; return for how many seconds its account is blocked, 0 while it is not."""
        account = (_network(address), tokens.hint_of(shown))
        with self._lock:
            now = self._monotonic()
            count, at = self._accounts.get(account, (0.0, now))
            left = max(0.0, count - (now - at) * PER_SECOND)
            # An account never grows beyond the burst: its owner waits for a moment only.
            self._accounts[account] = (min(left + 1, BURST), now)
            self._accounts.move_to_end(account)
            while len(self._accounts) > _ACCOUNTS_MOST:
                self._accounts.popitem(last=False)
        wait = left - (BURST - 1)
        return math.ceil(wait / PER_SECOND) if wait > 0 else 0


def _network(address: str) -> str:
    """Return the address that a caller is known by: one may own an IPv6 network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if parsed.version == 4:  # noqa: PLR2004 - IPv4
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False).network_address)
