"""Run transactional handlers, whose writes and settlement are committed in one transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from scheduled_actions.actions.rules.settlement import AttemptResult, Failed, Released
from scheduled_actions.core.errors import ClaimLost, DatabaseUnavailable, ScheduledActionsError
from scheduled_actions.database.boundary import TEMPORARY_ERRORS, describe, is_outage
from scheduled_actions.database.bounded import UNLIMITED
from scheduled_actions.database.connection import CancellableConnection, Connection
from scheduled_actions.database.transactions import (
    SavedConnectionState,
    TransactionEnded,
    joined_connection,
    limit_lock_waits,
)
from scheduled_actions.registry.handler import Context
from scheduled_actions.ticks.attempts.attempt import RELEASED, Attempt, EndedEarly, RunningTick, call
from scheduled_actions.ticks.hooks import AttemptGuard

if TYPE_CHECKING:
    from scheduled_actions.registry.resolution import Handler

#: Pause between two tries to connect, for example while the server accepts no more connections.
_RECONNECT_SECONDS = 0.25
_TRANSACTION_ENDED = (
    "the handler ended its transaction itself (commit or rollback in SQL): use `with context.connection.transaction()` "
    "for a part that may be rolled back, and a separate connection for anything else"
)


class HandlerTransactions:
    """Runs the transactional handlers of one tick.

    Args:
        tick: The running tick.
    """

    def __init__(self, tick: RunningTick) -> None:
        self._tick = tick
        self._monotonic = tick.state.monotonic
        # Handlers hold a connection on at most half of the threads.
        self._slots = threading.BoundedSemaphore(max(1, tick.state.settings.concurrency // 2))

    def run(
        self,
        attempt: Attempt,
        handler: Handler,
        context: Context,
        payload: Any,  # noqa: ANN401 - the handler's own type
        guards: Sequence[AttemptGuard],
    ) -> AttemptResult:
        """Call the handler and settle the attempt in one transaction; the attempt's time begins with the call.

        Returns:
            The result. If `attempt.is_settled` is true, it has been committed together with the handler's writes;
            otherwise the tick has to settle it.

        Raises:
            EndedEarly: The handler was not called, or it failed and its writes were rolled back.
        """
        attempt.started = None
        with ExitStack() as stack:
            if not self._slots.acquire(timeout=max(0.0, attempt.start_until - self._monotonic())):
                raise EndedEarly(RELEASED)
            stack.callback(self._slots.release)
            try:
                connection = self._connect(attempt, stack)
                attempt.connection = stack.enter_context(CancellableConnection(connection))
                context._connection = connection  # noqa: SLF001 - internal to handlers' contexts
                stack.callback(joined_connection.reset, joined_connection.set(connection))
                with connection.transaction():
                    self._begin(connection, attempt, context, guards)
                    attempt.result = self._call(connection, attempt, partial(call, attempt, handler, context, payload))
                    self._settle_patiently(attempt, connection)
            except TransactionEnded:
                return AttemptResult(Failed(_TRANSACTION_ENDED, is_final=True))
            except ClaimLost as error:
                return AttemptResult(Failed(str(error)))
            except (psycopg.Error, ScheduledActionsError) as error:
                is_uncalled = attempt.started is None and (is_outage(error) or isinstance(error, TEMPORARY_ERRORS))
                reason = f"the handler's transaction failed: {describe(error)}"
                return AttemptResult(Released(reason) if is_uncalled else Failed(reason))
            attempt.is_settled = True
            return attempt.result

    def _connect(self, attempt: Attempt, stack: ExitStack) -> Connection:
        """Return a connection for the handler; retry until the latest start of the attempt.

        Raises:
            EndedEarly: No connection could be opened until then, or the attempt was asked to stop.
        """
        while True:
            try:
                # No time limit per statement: the handler's statements are cancelled when its attempt is abandoned.
                return stack.enter_context(self._tick.state.database.connection(UNLIMITED))
            except (psycopg.Error, DatabaseUnavailable) as error:
                if attempt.is_stopped or self._monotonic() + _RECONNECT_SECONDS >= attempt.start_until:
                    reason = f"no connection could be opened for the handler's transaction: {describe(error)}"
                    raise EndedEarly(AttemptResult(Released(reason))) from error
                time.sleep(_RECONNECT_SECONDS)

    def _begin(
        self, connection: Connection, attempt: Attempt, context: Context, guards: Sequence[AttemptGuard]
    ) -> None:
        """Check the guards in the transaction, then begin the attempt's time.

        Raises:
            EndedEarly: A guard no longer holds, the action has expired, or the attempt was abandoned or asked to stop.
        """
        for guard in guards:
            if not guard.holds(connection):
                raise EndedEarly(AttemptResult(Released(f"{guard.subject} was changed")))
        if (expired := self._tick.expired(attempt.claimed)) is not None:
            raise EndedEarly(expired)
        if attempt.is_stopped or not attempt.start(self._monotonic()):
            # The attempt was abandoned, or asked to stop, while it waited for its slot: its handler was never called.
            raise EndedEarly(RELEASED)
        context._deadline = self._ends_at(attempt)  # noqa: SLF001 - internal to handlers' contexts

    def _ends_at(self, attempt: Attempt) -> float:
        answer_by = self._tick.budget.answer_by
        return min(attempt.times_out_at or answer_by, answer_by)

    @staticmethod
    def _call(connection: Connection, attempt: Attempt, call_handler: Callable[[], AttemptResult]) -> AttemptResult:
        """Call the handler, and restore its connection; undo the writes of a handler that failed.

        Raises:
            EndedEarly: The handler failed.
            ClaimLost: The attempt was abandoned.
            TransactionEnded: The handler ended the transaction.
            psycopg.Error: The transaction is in a failed state, for example because the handler caught an SQL error.
        """
        saved = SavedConnectionState.save(connection)
        result = call_handler()
        if isinstance(result.outcome, Failed):
            saved.undo()
            raise EndedEarly(result)
        saved.restore()
        # From here on the tick cannot abandon the attempt, because two settlements would race.
        if not attempt.end():
            raise ClaimLost(attempt.claimed.id)
        return result

    def _settle_patiently(self, attempt: Attempt, connection: Connection) -> None:
        """Settle; if another transaction has locked a row, retry until the attempt's time is up.

        Raises:
            ClaimLost: The claim is no longer valid: the action was rescued.
            psycopg.errors.LockNotAvailable: The row was still locked.
            psycopg.errors.DeadlockDetected: The last try ended in a deadlock.
            psycopg.Error: The database rejected the settlement.
        """
        until = self._ends_at(attempt)
        while True:
            try:
                # An error rolls back the settlement, but not the handler's writes.
                with connection.transaction():
                    # A handler's connection is opened without time limits.
                    limit_lock_waits(connection)
                    settlements = [self._tick.settlement_of(attempt)]
                    settled = self._tick.state.settler.settle(connection, self._tick.row, settlements, running=None)
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                if self._monotonic() >= until:
                    raise
            else:
                if attempt.claimed.id not in settled.statuses:
                    raise ClaimLost(attempt.claimed.id)
                return
