"""Keep the actions that a worker has claimed until it can take them over."""

from collections.abc import Callable

from scheduled_actions.actions.claims import ClaimResult
from scheduled_actions.actions.rules.settlement import AttemptResult, Failed, NoHandler, Released
from scheduled_actions.core.action import Claimed
from scheduled_actions.core.log import log
from scheduled_actions.registry.loading import IMPORT_SECONDS
from scheduled_actions.ticks.attempts.attempt import Attempt, RunningTick
from scheduled_actions.ticks.attempts.attempt_runner import AttemptRunner
from scheduled_actions.ticks.claiming.claimer import TeamLimits, evaluate_claimed, one_per_import
from scheduled_actions.ticks.hooks import Evaluated
from scheduled_actions.ticks.rules.plan import (
    FAST_SECONDS,
    TickBudget,
    claim_size,
    expected_seconds,
    next_wave,
)
from scheduled_actions.ticks.settling import ResultWriter
from scheduled_actions.ticks.tick import LEASE_MARGIN_SECONDS
from scheduled_actions.ticks.worker_state import WorkerState

#: Lease of a claimed action until it is taken over, in seconds.
CLAIM_SECONDS = 30.0
#: After this time, actions for which no thread was free are released, so that another worker can claim them.
_KEPT_SECONDS = 15.0
#: An attempt is abandoned this long before its lease ends.
_LEASE_RESERVE_SECONDS = 2.0
#: Maximum number of actions kept until the end of a ping because their timeout is too long for it.
_MAX_TOO_LONG = 500


class ReadyAttempts:
    """The attempts of claimed actions that a worker has not taken over yet.

    Args:
        state: The state of the worker's process.
        budget: The time limits of the worker.
    """

    def __init__(self, state: WorkerState, budget: TickBudget) -> None:
        self._state = state
        self._budget = budget
        teams = state.settings.teams
        self._limits = None if teams.concurrency is None and not teams.concurrency_of else TeamLimits(state)
        #: In the order of the claim.
        self.attempts: list[Attempt] = []
        #: Attempts whose timeout does not fit into the budget; released at the end, or they would be claimed again.
        self._too_long: list[Attempt] = []
        #: Number of claimed actions that are left to other workers for this reason.
        self.left = 0

    def wanted(self, tick: RunningTick) -> int:
        """Return the number of actions to claim: as many as threads are free, or a batch if handlers are fast."""
        in_flight = tick.in_flight.attempts
        if any(one.candidate.runs_alone for one in (*self.attempts, *in_flight)) or self._is_full:
            # Nothing else starts before an action that runs alone has ended.
            return 0
        free = self._free(tick) - len(self.attempts)
        mean = self._state.duration_stats.mean()
        if free <= 0 or mean is None or mean >= FAST_SECONDS:
            return max(0, free)
        size = claim_size(
            batch_size=self._state.settings.batch_size,
            concurrency=max(1, self._state.threads.capacity),
            stats=self._state.duration_stats,
        )
        return max(free, size - len(self.attempts))

    @property
    def _is_full(self) -> bool:
        return len(self._too_long) >= _MAX_TOO_LONG

    def _free(self, tick: RunningTick) -> int:
        return self._state.threads.capacity - sum(one.ended is None for one in tick.in_flight.attempts)

    def add(
        self, claimed: ClaimResult, tick: RunningTick, runner: AttemptRunner, writer: ResultWriter, *, sent: float
    ) -> None:
        """Add the attempts of claimed actions that can run, and the other attempts to the unwritten results.

        Args:
            claimed: The result of the claim.
            tick: The worker, as a tick.
            runner: Creates the attempts.
            writer: Counts skipped actions.
            sent: When the claim was sent, on the monotonic clock.
        """
        for skipped, reason in claimed.skipped:
            writer.count_skipped(skipped, reason)
        end = tick.in_flight.unwritten.append
        for refused, reason in claimed.refused:
            end(_ended(runner.make(refused), Failed(reason, is_final=True)))
        try:
            evaluated = evaluate_claimed(tick, claimed.kept)
        except BaseException:
            # During an outage: they are released when the database answers again.
            tick.in_flight.unwritten += map(runner.make, claimed.kept)
            raise
        awaited = self._state.settler.awaited(claimed.kept) - claimed.unawaited
        for one in claimed.kept:
            attempt = runner.make(one)
            attempt.is_awaited = one.id in awaited
            attempt.lease_until = sent + CLAIM_SECONDS
            self._sort(attempt, evaluated, tick, end)

    def _sort(
        self, attempt: Attempt, evaluated: Evaluated, tick: RunningTick, end: Callable[[Attempt], object]
    ) -> None:
        claimed = attempt.claimed
        found = evaluated.get(claimed.id)
        if isinstance(found, AttemptResult):
            attempt.result = found
            end(attempt)
        elif claimed.action_type not in self._state.registry.types:
            end(_ended(attempt, NoHandler(f'this build has no handler for "{claimed.action_type}"')))
        elif not self._budget.could_ever_fit(expected_seconds(attempt.candidate, self._state.duration_stats)):
            self._keep_too_long(attempt, claimed, tick)
        else:
            if found is not None:
                attempt.pending_check = found
            self.attempts.append(attempt)

    def _keep_too_long(self, attempt: Attempt, claimed: Claimed, tick: RunningTick) -> None:
        reason = (
            "left to a worker (`scheduled-actions executors work`): its timeout of "
            f"{attempt.timeout_seconds:g} s does not fit into a ping of {self._budget.duration_seconds:g} s"
        )
        attempt.result = AttemptResult(Released(reason))
        if all(one.claimed.action_type != claimed.action_type for one in self._too_long):
            tick.report.add_error(claimed.id, claimed.action_type, reason)
            log.warning("action.too_long id=%s action_type=%s", claimed.id, claimed.action_type)
        self._too_long.append(attempt)
        self.left += 1

    def next_wave(self, tick: RunningTick) -> list[Attempt]:
        """Remove and return the attempts to take over now."""
        in_flight = tick.in_flight.attempts
        candidates = [one.candidate for one in self.attempts]
        running = len(in_flight) + len(tick.in_flight.unwritten)
        if running and any(one.runs_alone for one in candidates):
            # The action that runs alone would wait forever if others kept starting.
            return []
        has_room = None if self._limits is None else self._limits.has_room(self.attempts, in_flight)
        positions = next_wave(
            candidates,
            free=self._free(tick),
            in_flight=running,
            one_runs_alone=any(one.candidate.runs_alone for one in in_flight),
            now=self._state.monotonic(),
            budget=self._budget,
            stats=self._state.duration_stats,
            has_room=one_per_import(self._state.registry, candidates, in_flight, has_room),
        )
        wave = [self.attempts[position] for position in positions]
        self.keep_without(wave)
        return wave

    def keep_without(self, taken: list[Attempt]) -> None:
        """Remove attempts."""
        removed = set(taken)
        self.attempts = [one for one in self.attempts if one not in removed]

    def take_old(self, now: float) -> list[Attempt]:
        """Remove and return the attempts that have waited too long for a thread; `now` is on the monotonic clock."""
        old = [one for one in self.attempts if (one.lease_until or now) - CLAIM_SECONDS + _KEPT_SECONDS <= now]
        if old:
            self.keep_without(old)
        return old

    def take_all(self) -> list[Attempt]:
        """Remove and return all attempts."""
        taken, self.attempts, self._too_long = self.attempts + self._too_long, [], []
        return taken

    def lease_seconds(self, attempt: Attempt, now: float) -> float:
        """Return the duration of the lease of an attempt that is taken over now: its longest time, and a margin."""
        seconds = attempt.timeout_seconds
        if attempt.pending_check is not None:
            # The time of the checks is limited separately.
            seconds += attempt.timeout_seconds
        if self._state.registry.awaits_import(attempt.claimed.action_type) is not None:
            seconds += IMPORT_SECONDS
        return max(0.0, min(seconds, self._budget.answer_by - now)) + LEASE_MARGIN_SECONDS

    @staticmethod
    def lease(attempt: Attempt, *, sent: float, seconds: float) -> None:
        """Set the time limits of an attempt by the lease that its take-over asked for.

        Args:
            attempt: The attempt.
            sent: When the take-over was sent, on the monotonic clock.
            seconds: Duration of the lease.
        """
        attempt.lease_until = sent + seconds - _LEASE_RESERVE_SECONDS
        # A thread that is free only later must not start it: it could run longer than its lease.
        attempt.start_until = min(attempt.start_until, sent + LEASE_MARGIN_SECONDS - _LEASE_RESERVE_SECONDS)


def _ended(attempt: Attempt, outcome: Failed | NoHandler) -> Attempt:
    attempt.result = AttemptResult(outcome)
    return attempt
