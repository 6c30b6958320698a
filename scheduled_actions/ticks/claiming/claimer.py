"""What a tick claims, and which of it may start: conditions, team limits, imports and the time that is left."""

from __future__ import annotations

import logging
from collections import ChainMap
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from scheduled_actions.actions.rules import settlement
from scheduled_actions.database.boundary import contain, isolate, reason_of
from scheduled_actions.database.failures import PASSING
from scheduled_actions.ticks.attempts.attempt import Ended
from scheduled_actions.ticks.claiming.scanner import Walk
from scheduled_actions.ticks.rules.plan import claim_size, expected_seconds, next_wave, too_long

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from uuid import UUID

    from scheduled_actions.actions.claims import ClaimResult, TickRow
    from scheduled_actions.actions.evaluation import Asking
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Line
    from scheduled_actions.registry import Registry
    from scheduled_actions.ticks.attempts.attempt import Attempt, Flight
    from scheduled_actions.ticks.attempts.attempt_runner import Attempts
    from scheduled_actions.ticks.claiming.team_limits import TeamLimits
    from scheduled_actions.ticks.hooks import Evaluate
    from scheduled_actions.ticks.report import Report
    from scheduled_actions.ticks.rules.plan import Budget, Candidate
    from scheduled_actions.ticks.settling import Settling
    from scheduled_actions.ticks.worker_state import Process

log = logging.getLogger("scheduled_actions")

#: Claims that the database refuses in a row, until a tick starts nothing more.
_REFUSED_CLAIMS_MOST = 3


class Claimer:
    """Claims for one tick, and keeps what is claimed until it may start.

    Args:
        process: What the ticks of the process share.
        budget: The tick's.
        flight: What is at work.
        ended: Takes what ends without being started.
        report: Takes errors.
        tick_seconds: How long the tick may take.
    """

    def __init__(
        self,
        process: Process,
        budget: Budget,
        flight: Flight,
        ended: list[tuple[Attempt, Ended]],
        report: Report,
        *,
        tick_seconds: float,
    ) -> None:
        self._process = process
        self._settings = process.settings
        self._budget = budget
        self._flight = flight
        self._ended = ended
        self._report = report
        self._tick_seconds = tick_seconds
        self._too_long: set[str] = set()
        #: Claims refused by the database in a row.
        self._refused_claims = 0
        self._limits = _limits_of(process)
        self.walk = Walk(process, budget)
        #: Claimed, and not started yet.
        self.ready: list[Attempt] = []
        #: Whether anything was claimed since somebody asked last.
        self.has_claimed = False

    def begin(self, line: Line, row: TickRow, attempts: Attempts, settling: Settling) -> None:
        """Take what there is once the tick has its row."""
        self._line, self._row, self._attempts, self._settling = line, row, attempts, settling

    @property
    def is_refused(self) -> bool:
        """Whether the database refuses claims again and again: then this tick starts nothing more."""
        return self._refused_claims >= _REFUSED_CLAIMS_MOST

    # -- starting --------------------------------------------------------------------------------------------------

    def startable(self) -> list[int]:
        """Return the positions of those ready that may start now."""
        candidates = [attempt.candidate for attempt in self.ready]
        in_flight = self._flight.attempts
        has_room = None if self._limits is None else self._limits.has_room(self.ready, in_flight)
        return next_wave(
            candidates,
            free=self._process.runner.capacity - self._flight.busy_threads,
            in_flight=len(self._flight),
            one_runs_alone=any(attempt.candidate.runs_alone for attempt in in_flight),
            now=self._process.monotonic(),
            budget=self._budget,
            pace=self._process.pace,
            has_room=one_per_import(self._process.registry, candidates, in_flight, has_room),
        )

    def next_wave(self) -> list[Attempt]:
        """Return those ready that may start now; they are ready no more."""
        chosen = set(self.startable())
        if not chosen:
            return []
        wave = [attempt for position, attempt in enumerate(self.ready) if position in chosen]
        self.ready = [attempt for position, attempt in enumerate(self.ready) if position not in chosen]
        return wave

    # -- claiming --------------------------------------------------------------------------------------------------

    def wants_more(self) -> bool:
        """Whether to claim again."""
        ready = self.ready
        if held := types_held(self._process.registry, self._flight.attempts):
            ready = [attempt for attempt in ready if attempt.claimed.action_type not in held]
        waiting = len(ready) if self._limits is None else self._limits.waiting(ready)
        if waiting > self._claim_size() // 2:
            return False
        if left_out := self._left_out():
            return self.walk.may_look_beyond(left_out)
        # Once all is claimed, new work is looked for as long as something runs; then the tick ends.
        return not self.walk.is_done or (bool(self._flight) and self.walk.is_stale(self._process.monotonic()))

    def _left_out(self) -> frozenset[str]:
        return frozenset() if self._limits is None else self._limits.left_out(self.ready)

    def _claim_size(self) -> int:
        process = self._process
        concurrency = max(1, process.runner.capacity)
        return claim_size(batch_size=self._settings.batch_size, concurrency=concurrency, pace=process.pace)

    def claim(self) -> None:
        """Claim a batch; where the database refuses it again and again, this tick claims no more."""
        self._refused_claims = contain(self._claim_batch, self._claim_refused)

    def _claim_refused(self, error: BaseException) -> int:
        reason = f"claim: {reason_of(error)}"
        log.error("claim.refused tick_id=%s error=%s", self._row.id, reason)
        self._report.add_error(None, None, reason)
        # One that was ended for its time has used up enough of it.
        is_last = isinstance(error, psycopg.errors.QueryCanceled)
        return _REFUSED_CLAIMS_MOST if is_last else self._refused_claims + 1

    def _claim_batch(self) -> int:
        """Claim a batch of one kind, the kinds taking turns; sort out what cannot be started at all."""
        left_out = self._left_out()
        wanted = self._claim_size() if self._limits is None else self._limits.wanted(self._claim_size(), left_out)
        excluded = self._too_long | types_held(self._process.registry, self._flight.attempts)
        claimed = self._line.do(
            partial(
                self.walk.step,
                tick=self._row,
                wanted=wanted,
                excluded=excluded,
                now=self._process.monotonic(),
                left_out=left_out,
            )
        )
        self.has_claimed = self.has_claimed or claimed.has_found_work
        self._sort_out(claimed)
        if claimed.is_by_turns:
            from scheduled_actions.ticks.rules.fairness import by_turns  # noqa: PLC0415 - most ticks meet no crowd

            self.ready = [self.ready[n] for n in by_turns([one.claimed.team_id for one in self.ready])]
        if self._limits is not None and (surplus := self._limits.surplus(self.ready)):
            # They go back before the next claim, which begins from the front: a team keeps its order.
            self.ready = [one for one in self.ready if one not in surplus]
            self._ended.extend(surplus.items())
            self.walk.start_over()
        return 0

    def _sort_out(self, claimed: ClaimResult) -> None:
        for skipped, reason in claimed.skipped:
            self._settling.skipped(skipped, reason)
        for refused, reason in claimed.refused:
            attempt = self._attempts.make(refused, start_until=self._budget.run_until)
            self._ended.append((attempt, Ended(settlement.Failed(reason, is_final=True))))
        types = self._process.registry.types
        fitting: set[Candidate] = set()
        held = judged(claimed.kept, self._line, self._process.hooks.evaluate)
        for one in claimed.kept:
            attempt = self._attempts.make(one, start_until=self._budget.run_until)
            attempt.is_awaited = self._process.settler.awaits(one) and one.id not in claimed.unawaited
            candidate = attempt.candidate
            found = held.get(one.id)
            if isinstance(found, Ended):
                self._ended.append((attempt, found))
                continue
            attempt.asking = found
            if one.action_type not in types:
                reason = f'no handler of "{one.action_type}" is in this build'
                self._ended.append((attempt, Ended(settlement.NoHandler(reason))))
            elif candidate in fitting or self._could_ever_fit(candidate):
                fitting.add(candidate)
                self.ready.append(attempt)
            else:
                self._set_aside(attempt)

    def _could_ever_fit(self, candidate: Candidate) -> bool:
        return self._budget.could_ever_fit(expected_seconds(candidate, self._process.pace))

    def _set_aside(self, attempt: Attempt) -> None:
        """Report a type that could never end within a tick; it is claimed no more by this one."""
        claimed = attempt.claimed
        reason = too_long(timeout_seconds=attempt.timeout_seconds, tick_seconds=self._tick_seconds)
        self._ended.append((attempt, Ended(settlement.Unstarted(reason))))
        if claimed.action_type not in self._too_long:
            self._too_long.add(claimed.action_type)
            self._report.add_error(claimed.id, claimed.action_type, reason)
            log.warning("action.too_long id=%s action_type=%s", claimed.id, claimed.action_type)


def _limits_of(process: Process) -> TeamLimits | None:
    """Return the limits of teams; most projects have none, and pay nothing."""
    teams = process.settings.teams
    if teams.concurrency is None and not teams.concurrency_of:
        return None
    from scheduled_actions.ticks.claiming.team_limits import TeamLimits  # noqa: PLC0415 - as above

    return TeamLimits(process)


def judged(claimed: Sequence[Claimed], line: Line, evaluate: Evaluate) -> Mapping[UUID, Ended | Asking]:
    """Return, by id, the outcome of each unmet condition, and the external checks that others still need.

    A condition that cannot be judged fails its own action: its facts or its progress may be unreadable. Where another
    session changes at this moment what they wait for, all of them go back uncharged: this thread does not wait for it,
    because nothing that ends meanwhile would be settled.
    """
    having = [one for one in claimed if one.condition_text is not None]
    if not having:
        return {}

    def judge(batch: Sequence[Claimed]) -> dict[UUID, Ended | Asking]:
        try:
            found = evaluate(batch, line.do)
        except PASSING as error:
            log.info("waits.put_off actions=%d error=%s", len(batch), type(error).__name__)
            reason = "another session changes what its condition waits for"
            return {one.id: Ended(settlement.Unstarted(reason)) for one in batch}
        return {
            action_id: Ended(one.outcome, one.follow_ups) if isinstance(one, settlement.Held) else one
            for action_id, one in found.items()
        }

    def refused(one: Claimed, error: BaseException) -> dict[UUID, Ended | Asking]:
        return {one.id: Ended(settlement.Failed(f"its condition cannot be judged: {reason_of(error)}"))}

    return dict(ChainMap(*isolate(having, judge, refused)))


def one_per_import(
    registry: Registry,
    candidates: Sequence[Candidate],
    in_flight: Iterable[Attempt],
    has_room: Callable[[int], bool] | None,
) -> Callable[[int], bool] | None:
    """Return what says, position by position, whether a candidate may start: of each module to import, one at a time.

    Args:
        registry: Knows what is imported.
        candidates: What is ready.
        in_flight: What has been started and has not ended.
        has_room: Says so for another reason, and counts those that may; None: all may.
    """
    awaited = {
        name: module for name in {one.action_type for one in candidates} if (module := registry.awaits_import(name))
    }
    if not awaited:
        return has_room
    importing = {awaited.get(one.claimed.action_type) for one in in_flight}

    def may_start(position: int) -> bool:
        module = awaited.get(candidates[position].action_type)
        if module is not None and module in importing:
            return False
        if has_room is not None and not has_room(position):
            return False
        importing.add(module)
        return True

    return may_start


def types_held(registry: Registry, in_flight: Iterable[Attempt]) -> frozenset[str]:
    """Return the types whose actions wait for a module that is being imported: claims leave them where they are."""
    modules = {registry.awaits_import(one.claimed.action_type) for one in in_flight if one.imported_by is not None}
    if not modules:
        return frozenset()
    return frozenset(name for name in registry.types if registry.awaits_import(name) in modules - {None})
