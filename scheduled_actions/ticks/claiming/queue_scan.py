"""Scan the queues of limit keys and claim from them, batch by batch, during one tick."""

import math
from collections.abc import Collection
from functools import partial
from uuid import UUID

from scheduled_actions.actions import claims
from scheduled_actions.actions.claims import BatchClaimer, ClaimResult, TickRow
from scheduled_actions.core.action import Claimed
from scheduled_actions.database.connection import Connection
from scheduled_actions.limits import claims as limit_claims
from scheduled_actions.limits.rules.admission import KeyId, QueuedAction
from scheduled_actions.ticks.rules.plan import FRESH_SECONDS


class QueueScan:
    """Claims from the queues of limit keys that are open; it continues after the last queue visited.

    Args:
        batches: Claims batches, and calls the hooks of features.
    """

    def __init__(self, batches: BatchClaimer) -> None:
        self._batches = batches
        #: The keys whose rows this tick has inserted or found.
        self._known: set[KeyId] = set()
        #: When actions were claimed that a hook returned to their queue, on the clock of `step`; they must not keep the
        #: actions behind them waiting.
        self._returned: dict[UUID, float] = {}
        self._position = limit_claims.START
        self._has_claimed = False
        self.begun_at = float("-inf")
        #: Whether a complete scan claimed nothing.
        self.is_empty = False
        #: When the rate of a queue allows the next start, on the clock of `step`; None if no queue waits for its rate.
        self.opens_at: float | None = None

    def scan_again(self) -> None:
        """Force another scan, because actions may have been queued or slots freed."""
        self.is_empty, self._has_claimed = False, True

    def restart(self) -> None:
        """Force another scan from the first queue."""
        self.scan_again()
        self._position = limit_claims.START

    def step(
        self,
        connection: Connection,
        tick: TickRow,
        *,
        wanted: int,
        excluded: Collection[str],
        now: float,
        left_out: Collection[str] = (),
    ) -> ClaimResult:
        """Claim a batch from the next queues.

        Args:
            connection: In autocommit mode.
            tick: The row of the tick that claims.
            wanted: Maximum number of actions.
            excluded: Action types that are not claimed.
            now: The current time on the monotonic clock.
            left_out: Teams whose actions are not claimed; "" for actions without a team.
        """
        if self._position == limit_claims.START or now - self.begun_at >= FRESH_SECONDS:
            self._position, self._has_claimed, self.begun_at = limit_claims.START, False, now
            self.opens_at = None
        self._returned = {key: at for key, at in self._returned.items() if now - at < FRESH_SECONDS}
        queued = limit_claims.find_queued(
            connection,
            wanted=wanted,
            after=self._position,
            excluded=excluded,
            left_out=left_out,
            passed_over=self._returned,
        )
        self._position = queued.position
        if queued.opens_in_seconds is not None:
            self.opens_at = min(now + queued.opens_in_seconds, self.opens_at or math.inf)
        result = ClaimResult([])
        if queued.candidates:
            has_inserted = self._insert_keys(connection, queued.candidates)
            claim = partial(self._claim, connection, tick, queued.candidates)
            claimed, result, _ = self._batches.claim(connection, claim)
            decided = [*result.kept, *(one for one, _ in result.skipped), *(one for one, _ in result.refused)]
            returned = {one.id for one in claimed} - {one.id for one in decided}
            self._returned |= dict.fromkeys(returned, now)
            self._has_claimed = self._has_claimed or bool(claimed)
            if not claimed and not has_inserted:
                # Another transaction may have pruned the rows of these keys: the next claim inserts them.
                self._known.clear()
                self._has_claimed = True
        self.is_empty = self._position == limit_claims.START and not self._has_claimed
        return result

    def _insert_keys(self, connection: Connection, candidates: Collection[QueuedAction]) -> bool:
        """Insert the rows of keys that this tick has not met yet; return whether there were any."""
        unknown = {key for one in candidates for key in one.keys} - self._known
        if unknown:
            limit_claims.insert_keys(connection, unknown)
            self._known |= unknown
        return bool(unknown)

    @staticmethod
    def _claim(
        connection: Connection, tick: TickRow, candidates: Collection[QueuedAction]
    ) -> tuple[list[Claimed], claims.ScanPosition]:
        return limit_claims.claim_queued(connection, tick, candidates), claims.START
