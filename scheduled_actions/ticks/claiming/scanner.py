"""Scan the due actions and claim them, batch by batch, during one tick."""

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from scheduled_actions.actions.claims import (
    START,
    BatchClaimer,
    ClaimResult,
    ScanPosition,
    TickRow,
    claim_free,
    claim_free_of_others,
    claim_grouped,
    claim_grouped_of_others,
)
from scheduled_actions.core.action import Claimed
from scheduled_actions.database.connection import Connection
from scheduled_actions.ticks.rules.plan import FRESH_SECONDS, ScanBudget, TickBudget, dominant_teams
from scheduled_actions.ticks.worker_state import WorkerState

if TYPE_CHECKING:
    from scheduled_actions.ticks.claiming.queue_scan import QueueScan

#: A scan that leaves out only actions without a team waits this long for the next one, if no team was found so far.
_RARE_SECONDS = 5.0

_Claim: TypeAlias = Callable[..., tuple[list[Claimed], ScanPosition]]


class ClaimScanner:
    """Claims due actions in alternating scans: of actions without a lock group, with one, and of queues of limit keys.

    Each scan has its own keyset position. The queues are only scanned in projects with limits, or if the tick found
    actions in them.

    Args:
        state: The shared state, with the settings and the hooks that run in the claiming transaction.
        budget: The time limits of the tick.
    """

    def __init__(self, state: WorkerState, budget: TickBudget) -> None:
        batches = BatchClaimer(state.hooks.after_claim)
        # A hook of other features than schedules needs the transaction for every batch.
        is_alone = all(hook.column == "schedule_id" for hook in batches.hooks)
        claim_alone = partial(claim_free, with_series=False) if is_alone else None
        self._scans: list[_Scan | QueueScan] = [
            free := _Scan(claim_free, batches, state, claim_alone),
            grouped := _Scan(claim_grouped, batches, state),
        ]
        self._free, self._grouped = free, grouped
        self._batches = batches
        self._queues: QueueScan | None = None
        if state.settings.limits:
            self.include_queues()
        self.fair_share = FairShareClaims(batches, budget, state.monotonic)
        self._is_fair = state.settings.fair_by_team
        self._turn = 0

    def include_queues(self) -> None:
        """Also claim from the queues of limit keys in this tick; force another scan of them."""
        from scheduled_actions.ticks.claiming.queue_scan import QueueScan  # noqa: PLC0415 - most projects have no limits

        if self._queues is None:
            self._queues = QueueScan(self._batches)
            self._scans.append(self._queues)
        self._queues.scan_again()

    def skip_groups(self, now: float) -> None:
        """Regard a scan for actions with a lock group that began now as done, because there were none."""
        self._grouped.is_empty, self._grouped.begun_at = True, now

    @property
    def position(self) -> ScanPosition:
        """The position of the scan for actions without a lock group."""
        return self._free.position

    @property
    def has_queues(self) -> bool:
        """Whether this tick claims from the queues of limit keys."""
        return self._queues is not None

    @property
    def opens_at(self) -> float | None:
        """When the rate of a limit key allows the next start, on the monotonic clock; None if no queue waits for it."""
        return None if self._queues is None else self._queues.opens_at

    @property
    def is_done(self) -> bool:
        """Whether the last complete scans claimed nothing."""
        return all(scan.is_empty for scan in self._scans)

    def is_stale(self, now: float) -> bool:
        """Return whether one of the scans began at least `FRESH_SECONDS` ago."""
        return any(now - scan.begun_at >= FRESH_SECONDS for scan in self._scans)

    def may_step_for_others(self, left_out: frozenset[str], now: float, *, is_running: bool) -> bool:
        """Return whether a scan for teams other than `left_out` is in progress, or may begin.

        Args:
            left_out: Teams whose actions are not claimed; "" for actions without a team.
            now: The current time on the monotonic clock.
            is_running: Whether attempts are in flight, so that a scan of the queues is repeated.
        """
        queues = self._queues
        return self.fair_share.may_step(left_out) or (
            queues is not None and (not queues.is_empty or (is_running and now - queues.begun_at >= FRESH_SECONDS))
        )

    def scan_again(self) -> None:
        """Force another scan, because rows may have become due behind the current position."""
        for scan in self._scans:
            scan.scan_again()

    def scan_queues_again(self) -> None:
        """Force another scan of the queues of limit keys, because slots were freed."""
        if self._queues is not None:
            self._queues.scan_again()

    def restart(self) -> None:
        """Restart both scans from the front, because claimed actions were released."""
        for scan in self._scans:
            scan.restart()
        self.fair_share.restart()

    def step(
        self,
        connection: Connection,
        tick: TickRow,
        *,
        wanted: int,
        excluded: Collection[str],
        now: float,
        left_out: frozenset[str] = frozenset(),
    ) -> ClaimResult:
        """Claim a batch; with `fair_by_team`, also claim one for the other teams if a few teams fill the batch.

        The scans take turns; a scan that has just found nothing is passed over.

        Args:
            connection: In autocommit mode.
            tick: The row of the tick that claims.
            wanted: Maximum number of actions per batch.
            excluded: Action types that are not claimed.
            now: The current time on the monotonic clock.
            left_out: Teams whose actions are not claimed; "" for actions without a team.
        """
        self._turn = (self._turn + 1) % len(self._scans)
        scan = self._scans[self._turn]
        if left_out and self._queues is not None and not self.fair_share.may_step(left_out):
            scan = self._queues
        if left_out and scan is not self._queues:
            return self.fair_share.step(
                connection,
                tick,
                is_grouped=scan is self._grouped,
                left_out=left_out,
                wanted=wanted,
                excluded=excluded,
            )
        if scan.is_empty and now - scan.begun_at < FRESH_SECONDS:
            # The next one in turn that may find something.
            others = (self._scans[(self._turn + n) % len(self._scans)] for n in range(1, len(self._scans)))
            scan = next((other for other in others if not other.is_empty), scan)
        if self._queues is not None and scan is self._queues:
            return self._queues.step(connection, tick, wanted=wanted, excluded=excluded, now=now, left_out=left_out)
        assert isinstance(scan, _Scan)  # noqa: S101 - the only other scan
        result = scan.step(connection, tick, wanted=wanted, excluded=excluded, now=now)
        if self._is_fair and (dominant := scan.dominant_teams(wanted)):
            others_claimed = self.fair_share.step(
                connection,
                tick,
                is_grouped=scan is self._grouped,
                left_out=dominant,
                wanted=wanted,
                excluded=excluded,
            )
            result.take_turns_with(others_claimed)
        if self._queues is not None and not self._queues.is_empty and not result.has_found_work:
            # Otherwise freed slots would stay unused until the tick claims again, at the next result of a handler.
            queued = self._queues.step(connection, tick, wanted=wanted, excluded=excluded, now=now, left_out=left_out)
            queued.has_queued |= result.has_queued
            return queued
        return result


class _Scan:
    """A scan of the due range, for actions without or with a lock group."""

    def __init__(
        self, claim: _Claim, batches: BatchClaimer, state: WorkerState, claim_alone: _Claim | None = None
    ) -> None:
        self._claim = claim
        #: Claims in one statement outside a transaction; claims nothing if the batch has an occurrence of a schedule.
        self._claim_alone = claim_alone
        self._state = state
        #: Whether the next batch probably has an occurrence of a schedule.
        self._meets_series = state.meets_series
        self._batches = batches
        self._claimed: list[Claimed] = []
        self._has_claimed = False
        self.position = START
        self.begun_at = float("-inf")
        #: Whether a complete scan claimed nothing.
        self.is_empty = False

    def step(
        self, connection: Connection, tick: TickRow, *, wanted: int, excluded: Collection[str], now: float
    ) -> ClaimResult:
        """Claim a batch; start from the front again at least every `FRESH_SECONDS`."""
        if self.position == START or now - self.begun_at >= FRESH_SECONDS:
            self.position, self._has_claimed, self.begun_at = START, False, now
        result = self._claim_batch(connection, tick, wanted=wanted, excluded=excluded)
        # Actions that have to wait for their turn do not count: the next scan would only find them again.
        self._has_claimed = self._has_claimed or result.has_found_work
        self.is_empty = self.position == START and not self._has_claimed
        return result

    def scan_again(self) -> None:
        """Force another scan, because rows may have become due behind the current position."""
        self.is_empty, self._has_claimed = False, True

    def restart(self) -> None:
        """Force another scan from the front."""
        self.scan_again()
        self.position = START

    def dominant_teams(self, wanted: int) -> frozenset[str]:
        """Return the teams that dominate the last batch, "" for actions without a team.

        Empty if the scan has reached the end of the due range and its last batch was not full.
        """
        if not self.position.has_more and len(self._claimed) < wanted:
            return frozenset()
        teams = dominant_teams([one.team_id for one in self._claimed], wanted=wanted)
        # The scan may also have passed many actions of held lock groups without claiming any.
        return teams if self.position.team_id is None else teams | {self.position.team_id}

    def _claim_batch(
        self, connection: Connection, tick: TickRow, *, wanted: int, excluded: Collection[str]
    ) -> ClaimResult:
        """Claim a batch, without a transaction if the last batch had no occurrence of a schedule.

        A transaction costs two more round trips.
        """
        after, has_queued = self.position, False
        if self._claim_alone is not None and not self._meets_series:
            self._claimed, self.position = self._claim_alone(
                connection, tick, wanted=wanted, after=after, excluded=excluded
            )
            has_queued = self.position.has_parked
            if self._claimed:
                return ClaimResult(self._claimed, has_queued=has_queued)
        claim = partial(self._claim, connection, tick, wanted=wanted, after=after, excluded=excluded)
        self._claimed, result, self.position = self._batches.claim(connection, claim)
        result.has_queued |= has_queued
        self._meets_series = not self._claimed or any(one.schedule_id is not None for one in self._claimed)
        if self._claim_alone is not None and self._claimed:
            self._state.meets_series = self._meets_series
        return result


class FairShareClaims:
    """Claims for the teams that would otherwise wait behind a team that fills the batches.

    Its scans cover the same range with their own positions, and read every due row of the teams left out once. That
    costs far less than running those actions, and `ScanBudget` limits it.

    Args:
        batches: Claims batches, and calls the hooks of features.
        budget: The time limits of the tick.
        monotonic: A monotonic clock, in seconds.
    """

    def __init__(self, batches: BatchClaimer, budget: TickBudget, monotonic: Callable[[], float]) -> None:
        self._batches = batches
        self._monotonic = monotonic
        self._budget = ScanBudget(budget.started, budget.run_until)
        self._scans = (_FairShareScan(claim_free_of_others), _FairShareScan(claim_grouped_of_others))

    def may_step(self, left_out: frozenset[str]) -> bool:
        """Return whether a scan for teams other than `left_out` is in progress, or may begin."""
        now = self._monotonic()
        may_begin = self._budget.may_begin(now)
        return self._budget.has_more() and any(
            not scan.is_over or (may_begin and scan.is_wanted(left_out, now)) for scan in self._scans
        )

    def skip_teams(self, now: float) -> None:
        """Regard scans that leave out only actions without a team, and began now, as done: no action had a team."""
        for scan in self._scans:
            scan.begin(frozenset({""}), now)
            scan.is_over = True

    def restart(self) -> None:
        """Begin the next scans from the front, as soon as the budget allows it."""
        for scan in self._scans:
            scan.is_over = scan.has_claimed = True

    def step(
        self,
        connection: Connection,
        tick: TickRow,
        *,
        is_grouped: bool,
        left_out: frozenset[str],
        wanted: int,
        excluded: Collection[str],
    ) -> ClaimResult:
        """Claim a batch for other teams; the result is empty if the budget is used up or a recent scan found none.

        Args:
            connection: In autocommit mode.
            tick: The row of the tick that claims.
            is_grouped: Whether to claim actions with a lock group, or those without.
            left_out: Teams whose actions are not claimed; "" for actions without a team.
            wanted: Maximum number of actions.
            excluded: Action types that are not claimed.
        """
        scan = self._scans[is_grouped]
        now = self._monotonic()
        has_queued = False
        if scan.is_wanted(left_out, now) and self._budget.may_begin(now):
            scan.begin(left_out, now)
        while not scan.is_over and self._budget.has_more():
            claim = partial(
                scan.claim, connection, tick, wanted=wanted, after=scan.position, excluded=excluded, left_out=left_out
            )
            claimed, result, scan.position = self._batches.claim(connection, claim)
            scan.is_over = not scan.position.has_more
            before, now = now, self._monotonic()
            self._budget.spend(now - before, claimed=len(claimed), wanted=wanted)
            has_queued = result.has_queued = has_queued or result.has_queued
            if claimed:
                scan.has_claimed = True
                return result
        return ClaimResult([], has_queued=has_queued)


class _FairShareScan:
    """A scan for other teams, for actions without or with a lock group."""

    def __init__(self, claim: _Claim) -> None:
        self.claim = claim
        self.position = START
        #: Whether the scan has reached the end of the due range.
        self.is_over = True
        #: Whether this scan claimed actions, and whether any earlier scan did.
        self.has_claimed = self._has_ever_claimed = False
        self._begun_at = float("-inf")
        self._left_out: frozenset[str] = frozenset()

    def is_wanted(self, left_out: frozenset[str], now: float) -> bool:
        """Return whether to scan again: another team was found, a team is no longer left out, or enough time passed."""
        if self.has_claimed or not self._left_out <= left_out:
            return True
        has_no_teams = left_out == {""} and not self._has_ever_claimed
        return now - self._begun_at >= (_RARE_SECONDS if has_no_teams else FRESH_SECONDS)

    def begin(self, left_out: frozenset[str], now: float) -> None:
        """Start from the front of the due range."""
        self.position, self.is_over = START, False
        self._has_ever_claimed, self.has_claimed = self._has_ever_claimed or self.has_claimed, False
        self._begun_at, self._left_out = now, left_out
