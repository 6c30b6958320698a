"""Where a tick's claims stand on their way over the due range."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from scheduled_actions.actions import claims
from scheduled_actions.actions.claims import Batches, ClaimResult
from scheduled_actions.ticks.rules.fairness import crowd_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.ticks.claiming.fair_share import Others
    from scheduled_actions.ticks.rules.plan import Budget
    from scheduled_actions.ticks.worker_state import Process

#: A claim without keyset runs at least this often, so that nothing newly urgent waits.
FRESH_SECONDS = 1.0


class Walk:
    """Where this tick's claims stand: two walks over the due range, result turns, each with a keyset of its own.

    Args:
        process: Its settings, and what judges the occurrences of series in the transaction that claims them.
        budget: The tick's.
    """

    def __init__(self, process: Process, budget: Budget) -> None:
        batches = Batches(process.hooks.after_claim)
        claim_alone = partial(claims.claim_free, with_series=False)
        self._kinds = (_Kind(claims.claim_free, batches, claim_alone), _Kind(claims.claim_grouped, batches))
        self._turn = 0
        self._process = process
        self._batches = batches
        self._budget = budget
        self._others: Others | None = None

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
            kind.look_again()

    def start_over(self) -> None:
        """Go on from the front: something that was claimed went back."""
        for kind in self._kinds:
            kind.start_over()
        if self._others is not None:
            self._others.start_over()

    def may_look_beyond(self, left_out: frozenset[str]) -> bool:
        """Whether there may be something to claim now for other teams than these."""
        return self._for_others().may_step(left_out)

    def step(
        self,
        connection: Connection,
        tick: claims.TickRow,
        *,
        wanted: int,
        excluded: Collection[str],
        now: float,
        left_out: frozenset[str] = frozenset(),
    ) -> ClaimResult:
        """Claim a batch of the kind whose turn it is, of any team but those left out."""
        self._turn = 1 - self._turn
        if left_out:
            return self._for_others().step(
                connection, tick, is_grouped=bool(self._turn), left_out=left_out, wanted=wanted, excluded=excluded
            )
        kind, other = self._kinds[self._turn], self._kinds[1 - self._turn]
        if kind.is_empty and not other.is_empty and now - kind.begun_at < FRESH_SECONDS:
            kind = other
        result = kind.step(connection, tick, wanted=wanted, excluded=excluded, now=now)
        if self._process.settings.fair_by_team and (crowd := kind.crowd(wanted)):
            is_grouped = kind is self._kinds[1]
            result.take_turns_with(
                self._for_others().step(
                    connection, tick, is_grouped=is_grouped, left_out=crowd, wanted=wanted, excluded=excluded
                )
            )
        return result

    def _for_others(self) -> Others:
        """Return what claims for the teams behind one that fills batches; most ticks meet none that does."""
        if self._others is None:
            from scheduled_actions.ticks.claiming.fair_share import Others  # noqa: PLC0415 - a cold tick does without

            self._others = Others(self._batches, self._budget, self._process.monotonic)
        return self._others


class _Kind:
    """One of the two walks."""

    def __init__(
        self,
        claim: Callable[..., tuple[list[Claimed], claims.Position]],
        batches: Batches,
        claim_alone: Callable[..., tuple[list[Claimed], claims.Position]] | None = None,
    ) -> None:
        self._claim = claim
        #: Claims in one statement and no transaction, or nothing where an occurrence of a series would be among it.
        self._claim_alone = claim_alone
        self._meets_series = True
        self._batches = batches
        self._position = claims.START
        self._claimed: list[Claimed] = []
        self._has_claimed = False
        self.begun_at = float("-inf")
        #: Whether a whole walk from the beginning claimed nothing.
        self.is_empty = False

    def step(
        self, connection: Connection, tick: claims.TickRow, *, wanted: int, excluded: Collection[str], now: float
    ) -> ClaimResult:
        """Claim a batch; begin again from the front at least every second, so that nothing newly urgent waits."""
        if self._position == claims.START or now - self.begun_at >= FRESH_SECONDS:
            self._position, self._has_claimed, self.begun_at = claims.START, False, now
        result, self._position = self._claim_batch(connection, tick, wanted=wanted, excluded=excluded)
        # What has to wait for its turn is no work: the next walk would only meet it again.
        self._has_claimed = self._has_claimed or result.has_found_work
        self.is_empty = self._position == claims.START and not self._has_claimed
        return result

    def look_again(self) -> None:
        """Go on; a walk that is under way may have passed by what appeared, and is not the last one."""
        self.is_empty, self._has_claimed = False, True

    def start_over(self) -> None:
        """Go on from the front."""
        self.look_again()
        self._position = claims.START

    def crowd(self, wanted: int) -> frozenset[str]:
        """Return the teams that filled the last batch, '' for actions without one; none where it was not full."""
        last = self._position
        if last.has_more or len(self._claimed) >= wanted:
            crowd = crowd_of([one.team_id for one in self._claimed], wanted=wanted)
            # Of members whose group is held nothing is claimed, however many are in the way.
            return crowd if last.team_id is None else crowd | {last.team_id}
        return frozenset()

    def _claim_batch(
        self, connection: Connection, tick: claims.TickRow, *, wanted: int, excluded: Collection[str]
    ) -> tuple[ClaimResult, claims.Position]:
        """Claim a batch, alone where the last one met no series: a transaction costs two round trips more."""
        if self._claim_alone is not None and not self._meets_series:
            claimed, position = self._claim_alone(
                connection, tick, wanted=wanted, after=self._position, excluded=excluded
            )
            self._claimed = claimed
            if claimed:
                return ClaimResult(claimed), position
        claim = partial(self._claim, connection, tick, wanted=wanted, after=self._position, excluded=excluded)
        claimed, result, position = self._batches.claim(connection, claim)
        self._claimed = claimed
        self._meets_series = not claimed or any(one.schedule_id is not None for one in claimed)
        return result, position
