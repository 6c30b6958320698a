"""Where a tick's claims stand on their way over the due range."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from scheduled_actions.occurrences import Taking
from scheduled_actions.store import claims

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scheduled_actions.action import Claimed
    from scheduled_actions.store.connection import Connection

#: A claim without keyset runs at least this often, so that nothing newly urgent waits.
FRESH_SECONDS = 1.0


class Walk:
    """Where this tick's claims stand: two walks over the due range, taking turns, each with a keyset of its own.

    Args:
        take: Judges the occurrences of series among those claimed, in the transaction that claimed them.
    """

    def __init__(self, take: Callable[[Connection, list[Claimed]], Taking]) -> None:
        claim_alone = partial(claims.claim_free, with_series=False)
        self._kinds = (_Kind(claims.claim_free, take, claim_alone), _Kind(claims.claim_grouped, take))
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
        claim_alone: Callable[..., tuple[list[Claimed], claims.Position]] | None = None,
    ) -> None:
        self._claim = claim
        #: Claims in one statement and no transaction, or nothing where an occurrence of a series would be among it.
        self._claim_alone = claim_alone
        self._meets_series = True
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
        taking, self._position = self._claim_batch(connection, tick, wanted=wanted, excluded=excluded)
        # What has to wait for its turn is no work: the next walk would only meet it again.
        self._has_claimed = self._has_claimed or bool(taking.kept or taking.skipped)
        self.is_empty = self._position == claims.START and not self._has_claimed
        return taking

    def _claim_batch(
        self, connection: Connection, tick: claims.TickRow, *, wanted: int, excluded: Collection[str]
    ) -> tuple[Taking, claims.Position]:
        """Claim a batch, alone where the last one met no series: a transaction costs two round trips more."""
        if self._claim_alone is not None and not self._meets_series:
            claimed, position = self._claim_alone(
                connection, tick, wanted=wanted, after=self._position, excluded=excluded
            )
            if claimed:
                return Taking(claimed), position
        with connection.transaction():
            claimed, position = self._claim(connection, tick, wanted=wanted, after=self._position, excluded=excluded)
            taking = self._take(connection, claimed)
        self._meets_series = not claimed or any(one.schedule_id is not None for one in claimed)
        return taking, position
