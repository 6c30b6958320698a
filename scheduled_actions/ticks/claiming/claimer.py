"""Claim for a tick, and decide which claimed actions may start: conditions, team limits, imports and time left."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from scheduled_actions.actions.claims import START, BatchClaimer, ClaimResult, ScanPosition
from scheduled_actions.actions.rules.settlement import AttemptResult, Failed, NoHandler, Released
from scheduled_actions.core.action import Claimed
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import RETRYABLE_ERRORS, contain, isolate, reason_of
from scheduled_actions.database.connection import Connection, RetryingConnection
from scheduled_actions.registry import Registry
from scheduled_actions.ticks.attempts.attempt import Attempt, RunningTick
from scheduled_actions.ticks.attempts.attempt_runner import AttemptRunner
from scheduled_actions.ticks.claiming.scanner import ClaimScanner
from scheduled_actions.ticks.hooks import Evaluate, Evaluated
from scheduled_actions.ticks.rules.plan import (
    MAX_BATCH,
    Candidate,
    claim_size,
    expected_seconds,
    next_wave,
    round_robin,
    too_long,
)
from scheduled_actions.ticks.settling import ResultWriter
from scheduled_actions.ticks.worker_state import WorkerState

if TYPE_CHECKING:
    from scheduled_actions.ticks.claiming.look_ahead import LookAhead

#: Minimum number of actions of a batch that had to wait, and minimum share of the batch, for a look ahead to pay.
_LOOK_LEAST, _LOOK_SHARE = 10, 0.25
#: After this number of refused claims in a row, a tick claims and starts no more actions.
MAX_REFUSED_CLAIMS = 3


class TeamLimits:
    """Applies the concurrency limits of teams in one tick.

    A tick keeps at most about two seconds of claimed work for each team with a limit; actions claimed beyond that are
    released without using an attempt. Later claims leave out teams that have half a second of work or more.
    """

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        #: Teams with more due actions than they may run: claims stay so small that nothing has to be released again.
        self._large: set[str] = set()

    def has_room(self, ready: Sequence[Attempt], in_flight: Iterable[Attempt]) -> Callable[[int], bool]:
        """Return a function that checks whether the attempt at a position of `ready` may start, and if so counts it."""
        stuck = [job for job in self._state.threads.stuck_jobs if isinstance(job, Attempt)]
        running = Counter([one.claimed.team_id for one in (*stuck, *in_flight)])

        def takes_room(position: int) -> bool:
            team = ready[position].claimed.team_id
            limit = self._limit(team)
            if limit is not None and running[team] >= limit:
                return False
            running[team] += 1
            return True

        return takes_room

    def waiting(self, ready: Sequence[Attempt]) -> int:
        """Return the number of ready attempts, without those of the teams that claims leave out."""
        left_out = self.left_out(ready)
        return sum(1 for one in ready if (one.claimed.team_id or "") not in left_out) if left_out else len(ready)

    def left_out(self, ready: Iterable[Attempt]) -> frozenset[str]:
        """Return the teams that claims leave out because at least half of their claim size is ready."""
        return frozenset(
            team
            for team, count in Counter(one.claimed.team_id for one in ready).items()
            if team is not None and (most := self._claim_size(team)) is not None and 2 * count >= most
        )

    def wanted(self, wanted: int, left_out: Collection[str]) -> int:
        """Return the number of actions to claim at once, reduced so that no large team gets more than it may run."""
        return min([wanted, *(self._claim_size(team) or wanted for team in self._large if team not in left_out)])

    def surplus(self, ready: Sequence[Attempt]) -> list[Attempt]:
        """Return the ready attempts to release: those beyond twice the claim size of their team."""
        counted: Counter[str] = Counter()
        surplus = []
        for one in ready:
            team = one.claimed.team_id or ""
            counted[team] += 1
            if (most := self._claim_size(team)) is not None and counted[team] > 2 * most:
                self._large.add(team)
                surplus.append(one)
        return surplus

    def _limit(self, team: str | None) -> int | None:
        teams = self._state.settings.teams
        return teams.concurrency_of.get(team, teams.concurrency) if team else None

    def _claim_size(self, team: str) -> int | None:
        limit, state = self._limit(team), self._state
        return limit and claim_size(batch_size=state.settings.batch_size, concurrency=limit, stats=state.duration_stats)


class Claimer:
    """Claims for one tick, and keeps the claimed actions until they may start.

    Args:
        tick: The running tick.
        writer: Counts skipped actions.
    """

    def __init__(self, tick: RunningTick, writer: ResultWriter) -> None:
        self._tick = tick
        self._state = state = tick.state
        self._in_flight = tick.in_flight
        self._attempts = AttemptRunner(tick)
        self._writer = writer
        self._look_ahead: LookAhead | None = None
        self._too_long: set[str] = set()
        #: Number of claims in a row that the database has refused.
        self.refused_claims = 0
        teams = state.settings.teams
        #: None in projects without team limits, so that no time is spent on them there.
        self._limits = None if teams.concurrency is None and not teams.concurrency_of else TeamLimits(state)
        self.scanner = ClaimScanner(state, tick.budget)
        #: The attempts of claimed actions that have not been started.
        self.ready: list[Attempt] = []
        #: Whether any work was claimed since the tick last reset this.
        self.has_claimed = False
        #: Whether pending actions may have passed their `expires_at`.
        self.has_late = False

    # -- starting --------------------------------------------------------------------------------------------------

    def startable(self) -> list[int]:
        """Return the positions in `ready` of the attempts that may start now."""
        candidates = [attempt.candidate for attempt in self.ready]
        in_flight = self._in_flight.attempts.keys()
        has_room = None if self._limits is None else self._limits.has_room(self.ready, in_flight)
        return next_wave(
            candidates,
            free=self._state.threads.capacity - sum(attempt.ended is None for attempt in in_flight),
            in_flight=len(in_flight),
            one_runs_alone=any(attempt.candidate.runs_alone for attempt in in_flight),
            now=self._state.monotonic(),
            budget=self._tick.budget,
            stats=self._state.duration_stats,
            has_room=one_per_import(self._state.registry, candidates, in_flight, has_room),
        )

    def next_wave(self) -> list[Attempt]:
        """Remove the attempts that may start now from `ready`, and return them."""
        wave = [self.ready[position] for position in self.startable()]
        started = set(wave)
        self.ready = [attempt for attempt in self.ready if attempt not in started]
        return wave

    # -- claiming --------------------------------------------------------------------------------------------------

    def wants_more(self) -> bool:
        """Return whether to claim again: few ready attempts are left, and further actions may be due."""
        ready = self.ready
        if importing := types_being_imported(self._state.registry, self._in_flight.attempts):
            ready = [attempt for attempt in ready if attempt.claimed.action_type not in importing]
        waiting = len(ready) if self._limits is None else self._limits.waiting(ready)
        if waiting > self._claim_size() // 2:
            return False
        if left_out := self._left_out():
            return self.scanner.may_step_for_others(
                left_out, self._state.monotonic(), is_running=bool(self._in_flight.attempts)
            )
        # After everything is claimed, scans continue as long as attempts are in flight; then the tick ends.
        return not self.scanner.is_done or (
            bool(self._in_flight.attempts) and self.scanner.is_stale(self._state.monotonic())
        )

    def _left_out(self) -> frozenset[str]:
        return frozenset() if self._limits is None else self._limits.left_out(self.ready)

    def _claim_size(self) -> int:
        return claim_size(
            batch_size=self._state.settings.batch_size,
            concurrency=max(1, self._state.threads.capacity),
            stats=self._state.duration_stats,
        )

    def claim(self) -> None:
        """Claim a batch; count refusals by the database.

        After three in a row, or one statement timeout, the tick claims and starts no more actions.
        """
        self.refused_claims = contain(self._claim_batch, self._count_refusal)

    def _count_refusal(self, error: BaseException) -> int:
        self._tick.report.add_refusal("claim", error)
        # A claim that hit its statement timeout has used enough of the tick's time.
        return MAX_REFUSED_CLAIMS if isinstance(error, psycopg.errors.QueryCanceled) else self.refused_claims + 1

    def _claim_batch(self) -> int:
        """Claim a batch with the scan whose turn it is; return 0, the new number of refusals in a row."""
        left_out = self._left_out()
        wanted = self._claim_size()
        excluded = self._too_long | types_being_imported(self._state.registry, self._in_flight.attempts)
        claimed = self._tick.connection.do(
            partial(
                self.scanner.step,
                tick=self._tick.row,
                wanted=wanted if self._limits is None else self._limits.wanted(wanted, left_out),
                excluded=excluded,
                now=self._state.monotonic(),
                left_out=left_out,
            )
        )
        self.has_claimed = self.has_claimed or claimed.has_found_work
        if claimed.has_queued:
            self.scanner.include_queues()
        waiting = self._sort_out(claimed)
        if waiting >= max(_LOOK_LEAST, _LOOK_SHARE * len(claimed.kept)):
            self._look(excluded)
        if claimed.is_round_robin:
            self.ready = [self.ready[n] for n in round_robin([one.claimed.team_id for one in self.ready])]
        if self._limits is not None and (surplus := self._limits.surplus(self.ready)):
            # Released before the next claim, which starts from the front, so that a team's actions keep their order.
            self.ready = [one for one in self.ready if one not in surplus]
            self._in_flight.unwritten += surplus
            self.scanner.restart()
        return 0

    def _look(self, excluded: Collection[str]) -> None:
        """Settle the next due actions that have to wait for their condition."""
        from scheduled_actions.ticks.claiming.look_ahead import LookAhead  # noqa: PLC0415 - most projects have no conditions

        self._look_ahead = self._look_ahead or LookAhead(self._tick, self._writer)
        if self._look_ahead.look(self.scanner.position, excluded):
            self.scanner.scan_again()

    def expire(self) -> None:
        """End a batch of the actions that have expired, including those that the other claims pass over."""
        # Another batch is only claimed after a full one. After an error, the next tick tries again.
        self.has_late = False
        self._tick.report.run_step("expiry", self._expire_batch)

    def _expire_batch(self) -> None:
        claimed, result, _ = self._tick.connection.do(self._claim_expired)
        self._sort_out(result)
        self.has_late = len(claimed) == MAX_BATCH and result.has_found_work

    def _claim_expired(self, connection: Connection) -> tuple[list[Claimed], ClaimResult, ScanPosition]:
        from scheduled_actions.limits import claims as limit_claims  # noqa: PLC0415 - most projects have no expiry

        batches = BatchClaimer(self._state.hooks.after_claim)
        return batches.claim(
            connection, lambda: (limit_claims.claim_expired(connection, self._tick.row, limit=MAX_BATCH), START)
        )

    def _sort_out(self, claimed: ClaimResult) -> int:
        """Add to `ready` the attempts of actions that can run; add the other attempts to the unwritten results.

        Returns:
            Number of actions that have to wait for their condition after its first check.
        """
        for skipped, reason in claimed.skipped:
            self._writer.count_skipped(skipped, reason)
        for refused, reason in claimed.refused:
            self._end(self._attempts.make(refused), AttemptResult(Failed(reason, is_final=True)))
        fits, before = False, None
        awaited = self._state.settler.awaited(claimed.kept) - claimed.unawaited
        evaluated = evaluate_claimed(self._tick, claimed.kept)
        waiting = 0
        for one in claimed.kept:
            attempt = self._attempts.make(one)
            # An empty collection is not searched: Python computes the hash of a UUID slowly.
            if awaited and one.id in awaited:
                attempt.is_awaited = True
            found = evaluated.get(one.id) if evaluated else None
            if attempt.candidate is not before:
                # Most are the same object as the one before.
                before = attempt.candidate
                fits = self._tick.budget.could_ever_fit(expected_seconds(before, self._state.duration_stats))
            if isinstance(found, AttemptResult):
                self._end(attempt, found)
                waiting += attempt.is_waiting and one.last_outcome is None
            elif one.action_type not in self._state.registry.types:
                reason = f'this build has no handler for "{one.action_type}"'
                self._end(attempt, AttemptResult(NoHandler(reason)))
            elif fits:
                if found is not None:
                    attempt.pending_check = found
                self.ready.append(attempt)
            else:
                self._release_too_long(attempt)
        return waiting

    def _end(self, attempt: Attempt, result: AttemptResult) -> None:
        """End an attempt without starting it."""
        attempt.result = result
        self._in_flight.unwritten.append(attempt)

    def _release_too_long(self, attempt: Attempt) -> None:
        """Release an action that does not fit into a tick; report its type once, and exclude it from later claims."""
        claimed = attempt.claimed
        reason = too_long(timeout_seconds=attempt.timeout_seconds, tick_seconds=self._tick.budget.duration_seconds)
        self._end(attempt, AttemptResult(Released(reason)))
        if claimed.action_type not in self._too_long:
            self._too_long.add(claimed.action_type)
            self._tick.report.add_error(claimed.id, claimed.action_type, reason)
            log.warning("action.too_long id=%s action_type=%s", claimed.id, claimed.action_type)


def evaluate_claimed(tick: RunningTick, claimed: Sequence[Claimed]) -> Evaluated:
    """Return the result of each action that has expired or whose condition does not hold, as `evaluate_conditions`."""
    expired = {
        one.id: late for one in claimed if one.expires_epoch is not None and (late := tick.expired(one)) is not None
    }
    unexpired = [one for one in claimed if one.id not in expired] if expired else claimed
    return {**evaluate_conditions(unexpired, tick.connection, tick.state.hooks.evaluate), **expired}


def evaluate_conditions(claimed: Sequence[Claimed], connection: RetryingConnection, evaluate: Evaluate) -> Evaluated:
    """Return the result of each condition that does not hold, and the external checks that others still need, by id.

    A condition that cannot be evaluated fails only the attempt of its action. If another session is changing the data
    that the conditions wait for, all of these actions are released without using an attempt, because a wait would delay
    every settlement.
    """
    conditional = [one for one in claimed if one.condition_text is not None]
    if not conditional:
        return {}

    def evaluate_batch(batch: Sequence[Claimed]) -> Evaluated:
        try:
            return evaluate(batch, connection.do)
        except RETRYABLE_ERRORS as error:
            log.info("waits.deferred actions=%d error=%s", len(batch), type(error).__name__)
            released = Released("another session is changing the data that its condition waits for")
            return {one.id: AttemptResult(released) for one in batch}

    def fail(one: Claimed, error: BaseException) -> Evaluated:
        return {one.id: AttemptResult(Failed(f"the condition cannot be evaluated: {reason_of(error)}"))}

    return {key: one for found in isolate(conditional, evaluate_batch, fail) for key, one in found.items()}


def one_per_import(
    registry: Registry,
    candidates: Sequence[Candidate],
    in_flight: Iterable[Attempt],
    has_room: Callable[[int], bool] | None,
) -> Callable[[int], bool] | None:
    """Return a function that reports whether a candidate may start; each module is imported by one attempt only.

    Args:
        registry: The handlers, with the state of their modules.
        candidates: The ready attempts; the function takes a position in this sequence.
        in_flight: The announced attempts without a result.
        has_room: Another such function, which also counts the candidates that may start; None: no other limit.

    Returns:
        The function; `has_room` if no candidate needs an import.
    """
    modules = {
        name: module for name in {one.action_type for one in candidates} if (module := registry.awaits_import(name))
    }
    if not modules:
        return has_room
    importing = {modules.get(one.claimed.action_type) for one in in_flight}

    def may_start(position: int) -> bool:
        module = modules.get(candidates[position].action_type)
        if (module is not None and module in importing) or (has_room is not None and not has_room(position)):
            return False
        importing.add(module)
        return True

    return may_start


def types_being_imported(registry: Registry, in_flight: Iterable[Attempt]) -> frozenset[str]:
    """Return the action types to exclude from claims, because their module is being imported."""
    modules = {registry.awaits_import(one.claimed.action_type) for one in in_flight if one.import_deadline is not None}
    if not modules:
        return frozenset()
    return frozenset(name for name in registry.types if registry.awaits_import(name) in modules - {None})
