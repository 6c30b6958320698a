"""Maintain the tables: find work, prepare, sweep, rescue, wake, release and prune."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from uuid import UUID

import psycopg

from scheduled_actions.actions import claims, settling, store
from scheduled_actions.actions.hooks import SWEEP_SECONDS, SettledAction
from scheduled_actions.actions.rules import settlement
from scheduled_actions.conditions.rules.plan import format_cycle
from scheduled_actions.core import retry
from scheduled_actions.core.action import Claimed, Status
from scheduled_actions.core.log import log
from scheduled_actions.core.messages import counted
from scheduled_actions.database.boundary import TEMPORARY_ERRORS, contain, describe, reason_of
from scheduled_actions.database.connection import Connection
from scheduled_actions.ticks import store as tick_store
from scheduled_actions.ticks.hooks import NamedStep, Prune
from scheduled_actions.ticks.report import TickReport
from scheduled_actions.ticks.worker_state import WorkerState

#: Rows per statement of rescue and prune: small enough to delay no other transaction noticeably.
BATCH_SIZE = 500
#: Maximum number of locks of other sessions that one prune waits for.
_MAX_LOCKED = 4
#: Maximum number of finished actions pruned by one tick: with a tick per minute, enough for two million a day.
_MAX_PRUNED = 1500
#: Number of changes processed by one statement; low, because other ticks that evaluate the same actions wait for it.
_WAKE_BATCH = 100
#: After this time the tick settles finished attempts before it wakes further actions.
_WAKE_SECONDS = 0.5
#: Maximum number of actions parked before the claims, so that the claims begin soon.
_FIRST_PARKED = 1_000
#: How long a tick parks actions after its work.
_PARK_SECONDS = 2.0
#: Maximum number of actions without a handler that one sweep cancels, and seconds after which it cancels no more.
_MAX_UNHANDLED = 500
_UNHANDLED_SECONDS = 0.5
#: Maximum number of cycles of waiting actions that one sweep reports.
_MAX_CYCLES = 10


class RescuedAction(NamedTuple):
    """An action that was settled because its lease had ended."""

    lease: tick_store.ExpiredLease
    status: Status
    #: Why the action has failed, or runs again; empty if its handler had not started.
    error: str


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Rescues and prunes the actions of one project."""

    state: WorkerState

    def rescue(self, connection: Connection) -> list[RescuedAction]:
        """Rescue at most 500 actions with expired leases; charge an attempt to those announced as started.

        An action fails if this was its last attempt; the others become pending again. If its tick had announced other
        actions, too, any of them may have ended the process: the last attempt is then not charged, and the action runs
        again, alone. A tick that did not finish is closed when all of its actions are rescued.

        Returns:
            The actions rescued. Those whose claim is no longer valid are left out; those whose row is locked are left
            to a later rescue.
        """
        rescued = contain(partial(self._rescue_together, connection), partial(self._rescue_each, connection))
        for lease, status, _ in rescued:
            log.warning(
                "action.rescued id=%s action_type=%s started=%s status=%s",
                lease.id, lease.action_type, lease.was_started, status,
            )  # fmt: skip
        # In separate transactions, because schedules have to be locked before actions. If the process crashes before
        # this, the sweep plans the missing occurrences.
        self.state.settler.settled_apart(
            connection,
            [SettledAction(lease.id, lease.schedule_id) for lease, _, _ in rescued],
            {lease.id: status for lease, status, _ in rescued},
        )
        tick_store.close_lost_ticks(connection)
        return rescued

    def _rescue_together(self, connection: Connection) -> list[RescuedAction]:
        with connection.transaction():
            return self._settle(connection, tick_store.expired_leases(connection, limit=BATCH_SIZE))

    def _rescue_each(self, connection: Connection, error: BaseException) -> list[RescuedAction]:
        """Rescue each action separately; the claim token prevents a conflict with a concurrent settlement."""
        log.warning("rescue.refused error=%s", reason_of(error))
        with connection.transaction():
            expired = tick_store.expired_leases(connection, limit=BATCH_SIZE)
        rescued: list[RescuedAction] = []
        for lease in expired:
            rescued += contain(partial(self._settle, connection, [lease]), partial(_fail, connection, lease))
        return rescued

    def _settle(self, connection: Connection, expired: Sequence[tick_store.ExpiredLease]) -> list[RescuedAction]:
        """Settle actions with expired leases; return those whose claim was still valid."""
        outcomes = [self._outcome(one) for one in expired]
        statuses = self.state.settler.settle_actions(connection, outcomes)
        return [
            RescuedAction(one, statuses[one.id], outcome.settlement.error or "")
            for one, outcome in zip(expired, outcomes, strict=True)
            if one.id in statuses
        ]

    def _outcome(self, expired: tick_store.ExpiredLease) -> settling.SettlementRow:
        state, options = self.state, self.state.registry.options(expired.action_type)
        decided = settlement.decide(
            expired,
            settlement.Crashed(expired.announced - 1) if expired.was_started else settlement.Released(),
            max_attempts=expired.max_attempts or options.max_attempts or state.settings.max_attempts,
            policy=retry.effective_policy(expired.retry_text, options.retry, state.default_policy),
            draw=random.random(),  # noqa: S311 - jitter, not a secret
        )
        return settling.SettlementRow(
            action_id=expired.id,
            token=expired.token,
            settlement=decided,
            started_at=expired.started_at,
            entry=settlement.history_entry(
                expired,
                decided,
                started_at=expired.started_at,
                ended_at=None,
                tick_id=expired.tick_id,
                worker_id=expired.worker_id,
            ),
        )

    def cancel_unhandled(self, connection: Connection) -> int:
        """Cancel actions whose type no build had a handler for during `retention_no_action_days`; return their number.

        Each is cancelled in its own transaction, because its schedule is locked first; at most 500, for half a second.
        """
        state, days = self.state, self.state.settings.retention_no_action_days
        if days == 0:
            return 0
        reason = f"no build had a handler for this type for {counted(days, 'day')} (retention_no_action_days)"
        cancelled, until = 0, state.monotonic() + _UNHANDLED_SECONDS
        expired = claims.expired_no_action(connection, state.registry.types, retention_days=days, limit=_MAX_UNHANDLED)
        for action_id in expired:
            cancel = partial(
                state.settler.cancel, connection, action_id, by=None, reason=reason,
                statuses=(Status.NO_ACTION,), team_id=None, edit_lock_seconds=None,
            )  # fmt: skip
            cancelled += contain(cancel, partial(_uncancelled, action_id)) is not None
            if state.monotonic() > until:
                break
        if cancelled:
            log.info("action.unhandled cancelled=%d", cancelled)
        return cancelled

    def prune(self, *, limit: int) -> int:
        """Delete at most `limit` finished actions past their retention, and at most 500 old rows of any other table.

        Returns:
            The number of actions deleted.
        """
        return self.state.database.do(partial(self.prune_on, limit=limit))

    def prune_on(self, connection: Connection, *, limit: int) -> int:
        """Prune as `prune` does, on a connection in autocommit mode, so that each batch commits separately."""
        pruned, is_batch_full = 0, True
        while is_batch_full and pruned < limit:
            batch_size = min(BATCH_SIZE, limit - pruned)
            deleted = self._prune_batch(connection, batch_size)
            pruned, is_batch_full = pruned + deleted, deleted == batch_size
        prune_ticks: Prune = partial(tick_store.prune_ticks, settings=self.state.settings)
        for prune in (prune_ticks, *self.state.hooks.prune):
            contain(partial(prune, connection, limit=BATCH_SIZE), _unpruned)
        return pruned

    def _prune_batch(self, connection: Connection, limit: int) -> int:
        """Delete a batch of finished actions; return the number deleted.

        If the batch is refused (by a foreign key, for example), the actions are deleted one by one until `_MAX_LOCKED`
        of them were locked; the next prune deletes the remaining ones.
        """
        prune = partial(tick_store.prune_actions, connection, self.state.settings)

        def each(_: BaseException) -> int:
            deleted = locked = 0
            for one in tick_store.prunable_actions(connection, self.state.settings, limit=limit):
                pruned = contain(partial(prune, limit=1, action_id=one), _unpruned)
                deleted += pruned or 0
                locked += pruned is None
                if locked == _MAX_LOCKED:
                    break
            return deleted

        return contain(partial(prune, limit=limit), each)

    def first_tick(self, connection: Connection) -> None:
        """Copy the settings and handler options that SQL functions need into the database."""
        window_seconds = self.state.settings.deduplication.window_seconds
        store.share_settings(connection, self.state.registry, window_seconds=window_seconds)


def fail_action(
    run: Callable[[Callable[[Connection], bool]], bool], action: Claimed | tick_store.ExpiredLease, reason: str
) -> bool:
    """Set an action to failed without any other change; if the database refuses even that, log the error.

    Args:
        run: Runs a step on a connection, and returns its result.
        action: The action; it is changed only if its claim token is still valid.
        reason: Stored as the error of the action.

    Returns:
        False if the database refused the change, or the claim token is no longer valid.
    """

    def log_refused(error: BaseException) -> bool:
        log.error("action.unwritten id=%s action_type=%s error=%s", action.id, action.action_type, describe(error))
        return False

    return contain(
        lambda: run(partial(settling.fail, action_id=action.id, token=action.token, reason=reason)), log_refused
    )


def _fail(connection: Connection, lease: tick_store.ExpiredLease, error: BaseException) -> list[RescuedAction]:
    """Set an action that cannot be rescued to failed; leave a locked one to a later rescue."""
    reason = f"the action could not be rescued: {reason_of(error)}"
    if isinstance(error, TEMPORARY_ERRORS) or not fail_action(lambda step: step(connection), lease, reason):
        return []
    return [RescuedAction(lease, Status.FAILED, reason)]


def _prune_limit_keys(connection: Connection) -> None:
    """Delete limit keys that have not been used for an hour."""
    from scheduled_actions.limits import claims as limit_claims  # noqa: PLC0415 - most projects have no limits

    limit_claims.prune_keys(connection, limit=BATCH_SIZE)


def _uncancelled(action_id: UUID, error: BaseException) -> None:
    """Log the error of a cancellation; the next sweep tries again."""
    log.warning("action.uncancelled id=%s error=%s", action_id, reason_of(error))


def _unpruned(error: BaseException) -> int | None:
    """Log the error of a prune; return None if the rows were locked and can be pruned later, otherwise 0."""
    log.warning("prune.refused error=%s", reason_of(error))
    return None if isinstance(error, TEMPORARY_ERRORS) else 0


class TickMaintenance:
    """Maintains the tables during one tick.

    Args:
        state: The state shared by the ticks of the process.
        report: Receives counts and errors.
    """

    def __init__(self, state: WorkerState, report: TickReport) -> None:
        self._state = state
        self._maintenance = Maintenance(state)
        self._report = report
        self._found: tick_store.PendingWork | None = None
        #: Whether the last wake-up may have left changes to process.
        self.has_wakes_left = False
        #: Whether ended pauses, and changed executors, may not have returned all of their actions.
        self._has_pauses_left = self._has_queues_left = False
        #: Whether pauses or executors may have due actions that are not parked yet.
        self._is_park_due = False

    def finds_nothing(
        self, connection: Connection, tick_id: UUID, *, caller: str, budget: Mapping[str, float], may_be_idle: bool
    ) -> bool:
        """Look for work; if there is none and the tick may be idle, write its row as ended, and return True.

        Args:
            connection: In autocommit mode.
            tick_id: The id of the tick.
            caller: The caller, stored in the tick's row.
            budget: The time limits, stored in the tick's row.
            may_be_idle: Whether the tick has nothing else to do or to wait for.
        """
        state = self._state
        self._is_sweep_due = state.monotonic() >= state.next_sweep
        self._found = tick_store.find_work(
            connection,
            state.settings,
            tick_id=tick_id,
            may_be_idle=may_be_idle and state.had_first_tick and not (self._is_sweep_due or state.is_exhausted),
            caller=caller,
            budget=budget,
            counts=state.counts(self._report),
            action_types=state.registry.types,
        )
        return self._found.is_recorded

    @property
    def has_queued(self) -> bool:
        """Whether the tick has found actions in the queues of limit keys."""
        return self._found is not None and self._found.has_queued

    @property
    def has_late(self) -> bool:
        """Whether the tick has found a pending action that has passed its `expires_at`."""
        return self._found is not None and self._found.has_late

    @property
    def has_only_free(self) -> bool:
        """Whether the tick has found only due actions without a lock group, and no maintenance step has work."""
        return (
            self._state.had_first_tick
            and not self._is_sweep_due
            and self._found is not None
            and self._found.has_only_free
        )

    @property
    def has_teams(self) -> bool:
        """Whether the tick has found an action, also an ended one, that has a team."""
        return self._found is not None and self._found.has_teams

    def begin(self, connection: Connection) -> None:
        """Run the maintenance steps that have work, before the claims; a failed step does not prevent the others."""
        state, found = self._state, self._found
        assert found is not None  # noqa: S101 - set by `finds_nothing`
        may_park = found.may_park
        if not state.had_first_tick:
            # `finds_nothing` did not know the executors that these steps store.
            may_park = may_park or bool(state.settings.executors)
            steps = (NamedStep("first_tick", self._maintenance.first_tick), *state.hooks.prepare)
            refused = [name for name, run in steps if not self._try(name, run, connection)]
            if not refused:
                for name, run in state.hooks.checks:
                    self._try(name, run, connection)
            # If one was refused, the next tick repeats them all.
            state.had_first_tick = not refused
        if self._is_sweep_due:
            state.next_sweep = state.monotonic() + SWEEP_SECONDS
            cancel_unhandled = NamedStep("no_action", self._maintenance.cancel_unhandled)
            for name, run in (*state.hooks.sweep, cancel_unhandled, NamedStep("cycles", self._report_cycles)):
                self._try(name, run, connection)
        for has_work, name, step in (
            (found.has_expired or found.has_lost_ticks, "rescue", self._rescue),
            (found.has_wakes, "wake", self._wake),
            (found.has_ended_pauses, "pauses", self._unpark),
            (found.has_returning, "executors", self._return_queues),
            (found.has_pauses or may_park, "parking", self._park),
            (found.has_old_keys, "limits", _prune_limit_keys),
            (found.has_old_holds, "holds", settling.free_stale_holds),
            (found.has_unhandled, "release", self._release),
        ):
            if has_work:
                self._try(name, step, connection)
        if state.is_exhausted:
            self._report.add_error(
                None,
                None,
                f"all {state.threads.concurrency} handler threads are occupied by handlers that exceeded their timeout "
                "and did not return; this process claims nothing until one returns or the process is restarted",
            )

    def _try(self, name: str, step: Callable[[Connection], object], connection: Connection) -> bool:
        return self._report.run_step(name, partial(step, connection))

    def _release(self, connection: Connection) -> None:
        """Release `no_action` rows whose type this build handles; if that is refused, release each separately."""
        release = partial(claims.release_no_action, connection, self._state.registry.types)

        def report(action_id: UUID, error: BaseException) -> int:
            self._report.add_error(action_id, None, f"release: {reason_of(error)}")
            return 0

        def each(_: BaseException) -> int:
            return sum(
                contain(partial(release, action_id=one), partial(report, one))
                for one in claims.unhandled(connection, self._state.registry.types)
            )

        contain(release, each)

    def wake(self, connection: Connection) -> None:
        """Wake the actions whose conditions wait for a fact, action or deadline that has changed."""
        self._try("wake", self._wake, connection)

    def _wake(self, connection: Connection) -> None:
        from scheduled_actions.actions import waits  # noqa: PLC0415 - most projects have no conditions

        until = self._state.monotonic() + _WAKE_SECONDS
        self.has_wakes_left = False
        try:
            while waits.wake(connection, most=_WAKE_BATCH) == _WAKE_BATCH:
                if self._state.monotonic() >= until:
                    self.has_wakes_left = True
                    return
        except (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable):
            # Another session is changing some of these actions: the changes stay recorded for the next wake-up.
            log.info("waits.deferred")
            self.has_wakes_left = waits.wake_each(connection, most=_WAKE_BATCH) == _WAKE_BATCH

    def park(self, connection: Connection) -> None:
        """Park the first due actions of executors that have become due since the tick began."""
        self._try("parking", self._park, connection)

    def _park(self, connection: Connection) -> None:
        """Park the first due actions of pauses and executors."""
        from scheduled_actions.limits import parking  # noqa: PLC0415 - most projects have neither

        has_pauses = self._found is not None and self._found.has_pauses
        self._is_park_due = parking.park_first(
            connection, most=_FIRST_PARKED, has_queued=self.has_queued, has_pauses=has_pauses
        )

    def _park_rest(self, connection: Connection) -> None:
        from scheduled_actions.limits import parking  # noqa: PLC0415 - as above

        has_pauses = self._found is not None and self._found.has_pauses
        until = self._state.monotonic() + _PARK_SECONDS
        for parked in parking.park_all(lambda step: step(connection)):
            if self._state.monotonic() >= until or not (parked or has_pauses):
                break

    def unpark(self, connection: Connection) -> None:
        """Return a bite of the actions of ended pauses, and of changed executors, to the claims."""
        is_of_pauses, is_of_executors = self._has_pauses_left, self._has_queues_left
        if is_of_pauses or not is_of_executors:
            self._has_pauses_left = False
            self._try("pauses", self._unpark, connection)
        if is_of_executors:
            self._has_queues_left = False
            self._try("executors", self._return_queues, connection)

    def _unpark(self, connection: Connection) -> None:
        from scheduled_actions.limits import parking  # noqa: PLC0415 - as above

        self._has_pauses_left = parking.unpark(connection)

    def _return_queues(self, connection: Connection) -> None:
        from scheduled_actions.limits import parking  # noqa: PLC0415 - as above

        self._has_queues_left = parking.return_queues(connection)

    @property
    def has_parked_left(self) -> bool:
        """Whether ended pauses or changed executors may not have returned all of their actions."""
        return self._has_pauses_left or self._has_queues_left

    def _report_cycles(self, connection: Connection) -> None:
        """Report cycles of actions that wait for one another forever; SQL or the retry of an action can create them."""
        from scheduled_actions.actions.evaluation import cycles_among_waiting  # noqa: PLC0415 - as above

        for cycle in cycles_among_waiting(connection, most=_MAX_CYCLES):
            ids = format_cycle(cycle)
            log.warning("waits.cycle actions=%s", ids)
            self._report.add_error(
                cycle[0], None, f"these actions wait for one another; change the `after` of one of them: {ids}"
            )

    def _rescue(self, connection: Connection) -> None:
        rescued = self._maintenance.rescue(connection)
        self._report.rescued += len(rescued)
        for lease, status, error in rescued:
            if status is Status.FAILED:
                self._report.failed += 1
                self._report.add_error(lease.id, lease.action_type, error)
                if self._state.metrics is not None:
                    self._state.metrics.settled(lease.action_type, "failed", payload_text="")

    def end(self, connection: Connection) -> None:
        """Park the actions that `begin` has left, and delete rows past their retention, if the tick found any."""
        if self._is_park_due:
            self._try("parking", self._park_rest, connection)
        if self._found is not None and self._found.has_prunable:
            self._report.pruned += contain(
                partial(self._maintenance.prune_on, connection, limit=_MAX_PRUNED),
                partial(self._report.add_refusal, "prune"),
            )
