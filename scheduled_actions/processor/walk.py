"""Where a tick's claims stand on their way over the due range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions.store import claims

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scheduled_actions.action import Claimed
    from scheduled_actions.occurrences import Taking
    from scheduled_actions.store.connection import Connection

#: A claim without keyset runs at least this often, so that nothing newly urgent waits.
FRESH_SECONDS = 1.0


class Walk:
    """Where this tick's claims stand: two walks over the due range, taking turns, each with a keyset of its own.

    Args:
        take: Judges the occurrences of series among those claimed, in the transaction that claimed them.
    """

    def __init__(self, take: Callable[[Connection, list[Claimed]], Taking]) -> None:
        self._kinds = (_Kind(claims.claim_free, take), _Kind(claims.claim_grouped, take))
        self._turn = 0

    @property
    def is_done(self) -> bool:
        """Whether the last walks from the beginning claimed nothing."""
        return all(kind.is_empty for kind in self._kinds)

    def is_stale(self, now: float) -> bool:
        """Whether it is time to look again from the beginning."""
        return any(now - kind.begun_at >= FRESH_SECONDS for kind in self._kinds)

    def look_again(self) -> None:
        """Something due may have appeared: go on claiming."""
        for kind in self._kinds:
            kind.is_empty = False

    def step(
        self, connection: Connection, tick: claims.TickRow, *, wanted: int, excluded: Collection[str], now: float
    ) -> Taking:
        """Claim a batch of the kind whose turn it is."""
        self._turn = 1 - self._turn
        kind, other = self._kinds[self._turn], self._kinds[1 - self._turn]
        if kind.is_empty and not other.is_empty and now - kind.begun_at < FRESH_SECONDS:
            kind = other
        return kind.step(connection, tick, wanted=wanted, excluded=excluded, now=now)


class _Kind:
    """One of the two walks."""

    def __init__(
        self,
        claim: Callable[..., tuple[list[Claimed], claims.Position]],
        take: Callable[[Connection, list[Claimed]], Taking],
    ) -> None:
        self._claim = claim
        self._take = take
        self._position = claims.START
        self._has_claimed = False
        self.begun_at = float("-inf")
        #: Whether a whole walk from the beginning claimed nothing.
        self.is_empty = False

    def step(
        self, connection: Connection, tick: claims.TickRow, *, wanted: int, excluded: Collection[str], now: float
    ) -> Taking:
        """Claim a batch; begin again from the front at least every second, so that nothing newly urgent waits."""
        if self._position == claims.START or now - self.begun_at >= FRESH_SECONDS:
            self._position, self._has_claimed, self.begun_at = claims.START, False, now
        with connection.transaction():
            claimed, position = self._claim(connection, tick, wanted=wanted, after=self._position, excluded=excluded)
            taking = self._take(connection, claimed)
        self._position = position
        # What has to wait for its turn is no work: the next walk would only meet it again.
        self._has_claimed = self._has_claimed or bool(taking.kept or taking.skipped)
        self.is_empty = self._position == claims.START and not self._has_claimed
        return taking
