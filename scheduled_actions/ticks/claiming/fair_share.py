"""What a tick claims for the teams that would wait behind one that fills its batches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from scheduled_actions.actions import claims
from scheduled_actions.actions import claims_of_others as others
from scheduled_actions.actions.claims import ClaimResult
from scheduled_actions.ticks.rules.fairness import Allowance

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scheduled_actions.actions.claims import Batches
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.ticks.rules.plan import Budget

#: What newly comes due is met by a look from the front at least this often, as far as the allowance goes.
_AGAIN_SECONDS = 1.0
#: And so often where the crowd has no team and no other team was met: then there are none, most likely.
_SELDOM_SECONDS = 5.0


class Others:
    """Claims for other teams than those left out, beside the walk that has met nothing else.

    It goes over the same range as the walk does, with a keyset of its own: all that a team in front has due costs it is
    being read over, once. That is far less than to run it, and bounded: see `Allowance`.

    Args:
        batches: Claims, and calls the hooks of features.
        budget: The tick's.
        monotonic: Seconds that never go back.
    """

    def __init__(self, batches: Batches, budget: Budget, monotonic: Callable[[], float]) -> None:
        self._batches = batches
        self._monotonic = monotonic
        self._allowance = Allowance(budget.started, budget.run_until)
        self._free = _Look(others.claim_free_of_others)
        self._grouped = _Look(others.claim_grouped_of_others)

    def may_step(self, left_out: frozenset[str]) -> bool:
        """Whether a look for other teams than these is under way, or may begin."""
        now = self._monotonic()
        may_begin = self._allowance.may_begin(now)
        return self._allowance.has_more() and any(
            not look.is_over or (may_begin and look.is_wanted(left_out, now)) for look in (self._free, self._grouped)
        )

    def start_over(self) -> None:
        """Begin the next looks from the front, as soon as they may."""
        for look in (self._free, self._grouped):
            look.is_over = look.has_claimed = True

    def step(
        self,
        connection: Connection,
        tick: claims.TickRow,
        *,
        is_grouped: bool,
        left_out: frozenset[str],
        wanted: int,
        excluded: Collection[str],
    ) -> ClaimResult:
        """Claim a batch of the other teams; nothing where a look would cost too much now, or just met nobody."""
        look = self._grouped if is_grouped else self._free
        now = self._monotonic()
        if look.is_wanted(left_out, now) and self._allowance.may_begin(now):
            look.begin(left_out, now)
        while not look.is_over and self._allowance.has_more():
            claim = partial(
                look.claim, connection, tick, wanted=wanted, after=look.position, excluded=excluded, left_out=left_out
            )
            claimed, result, look.position = self._batches.claim(connection, claim)
            look.is_over = not look.position.has_more
            before, now = now, self._monotonic()
            self._allowance.spend(now - before, claimed=len(claimed), wanted=wanted)
            if claimed:
                look.has_claimed = True
                return result
        return ClaimResult([])


class _Look:
    """Where one of the two looks stands."""

    def __init__(self, claim: Callable[..., tuple[list[Claimed], claims.Position]]) -> None:
        self.claim = claim
        self.position = claims.START
        #: Whether it has come to the end of what is due.
        self.is_over = True
        #: Whether it has met another team, the last time or ever.
        self.has_claimed = False
        self._has_ever_claimed = False
        self._begun_at = float("-inf")
        self._left_out: frozenset[str] = frozenset()

    def is_wanted(self, left_out: frozenset[str], now: float) -> bool:
        """Whether to begin again: for what came due, for more of a team just met, for one left out no more."""
        if self.has_claimed or not self._left_out <= left_out:
            return True
        has_no_teams = left_out == {""} and not self._has_ever_claimed
        return now - self._begun_at >= (_SELDOM_SECONDS if has_no_teams else _AGAIN_SECONDS)

    def begin(self, left_out: frozenset[str], now: float) -> None:
        """Go on from the front."""
        self.position, self.is_over = claims.START, False
        self._has_ever_claimed, self.has_claimed = self._has_ever_claimed or self.has_claimed, False
        self._begun_at, self._left_out = now, left_out
