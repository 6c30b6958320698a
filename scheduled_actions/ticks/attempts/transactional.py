"""Attempts of transactional handlers: what they write commits together with their settlement, or not at all."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from scheduled_actions.actions.rules import settlement
from scheduled_actions.core.errors import ClaimLost, DatabaseUnavailable, ScheduledActionsError
from scheduled_actions.database.boundary import LATER, concerns_all, describe
from scheduled_actions.database.bounded import UNLIMITED
from scheduled_actions.database.connection import Loan
from scheduled_actions.database.lending import Lent, TransactionEnded
from scheduled_actions.database.transactions import joined_connection, wait_shortly
from scheduled_actions.ticks.attempts.attempt import Ended, call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.registry.handler import Context
    from scheduled_actions.registry.resolution import Handler
    from scheduled_actions.ticks.attempts.attempt import Attempt
    from scheduled_actions.ticks.hooks import Guard

#: How often a connection is asked for where the server has none to spare.
_RECONNECT_SECONDS = 0.25
_ENDED = (
    "the handler ended its transaction by itself (commit or rollback in SQL): use `with "
    "context.connection.transaction()` for a part that may be undone, and a connection of your own for the rest"
)


class HandlerTransactions:
    """Runs the transactional handlers of one tick.

    Args:
        database: Lends connections.
        most: How many handlers have one at a time.
        settle: Writes what came of an attempt, in its transaction; raises `ClaimLost`, or `psycopg.Error`.
        monotonic: Seconds that never go back.
        answer_by: When the tick must have answered.
    """

    def __init__(
        self,
        database: Database,
        *,
        most: int,
        settle: Callable[[Attempt, Ended, Connection], None],
        monotonic: Callable[[], float],
        answer_by: float,
    ) -> None:
        self._database = database
        self._turns = threading.BoundedSemaphore(most)
        self._settle = settle
        self._monotonic = monotonic
        self._answer_by = answer_by

    def run(
        self,
        attempt: Attempt,
        handler: Handler,
        context: Context,
        payload: Any,  # noqa: ANN401 - the handler's own type
        guards: Sequence[Guard],
    ) -> Ended:
        """Call the handler in a transaction and settle the attempt in it; its time begins with the call."""
        attempt.hold()
        with ExitStack() as stack:
            if not self._turns.acquire(timeout=max(0.0, attempt.start_until - self._monotonic())):
                return Ended(settlement.Unstarted())
            stack.callback(self._turns.release)
            connection = self._connected(attempt, stack)
            if isinstance(connection, Ended):
                return connection
            attempt.loan = stack.enter_context(Loan(connection))
            context._connection = connection  # noqa: SLF001 - the context's other half
            return self._run_on(connection, partial(call, attempt, handler, context, payload), attempt, context, guards)

    def _connected(self, attempt: Attempt, stack: ExitStack) -> Connection | Ended:
        """Return a connection for the handler, asked for until nothing may start any more."""
        while True:
            try:
                # The handler's own statements end with its attempt.
                return stack.enter_context(self._database.connection(UNLIMITED))
            except (psycopg.Error, DatabaseUnavailable) as error:
                if attempt.is_stopped or self._monotonic() + _RECONNECT_SECONDS >= attempt.start_until:
                    return Ended(settlement.Unstarted(f"there is no connection for its transaction: {describe(error)}"))
                time.sleep(_RECONNECT_SECONDS)

    def _run_on(
        self,
        connection: Connection,
        call_handler: Callable[[], Ended],
        attempt: Attempt,
        context: Context,
        guards: Sequence[Guard],
    ) -> Ended:
        token = joined_connection.set(connection)
        try:
            with connection.transaction():
                self._begin(connection, attempt, context, guards)
                ended = self._call(connection, call_handler, attempt)
        except _RolledBack as rolled_back:
            return rolled_back.ended
        except TransactionEnded:
            connection.close()
            return Ended(settlement.Failed(_ENDED, is_final=True))
        except ClaimLost as error:
            return Ended(settlement.Failed(str(error)))
        except (psycopg.Error, ScheduledActionsError) as error:
            is_uncalled = attempt.started is None and (concerns_all(error) or isinstance(error, LATER))
            reason = f"the handler's transaction failed: {describe(error)}"
            return Ended(settlement.Unstarted(reason) if is_uncalled else settlement.Failed(reason))
        finally:
            joined_connection.reset(token)
        return Ended(ended.outcome, ended.follow_ups, is_settled=True)

    def _begin(self, connection: Connection, attempt: Attempt, context: Context, guards: Sequence[Guard]) -> None:
        """Ask its guards once more, then begin the attempt's time.

        Raises:
            _RolledBack: It may not start.
        """
        for guard in guards:
            if not guard.holds(connection):
                raise _RolledBack(Ended(settlement.Unstarted(f"{guard.subject} was changed")))
        if attempt.is_stopped or not attempt.start(self._monotonic()):
            # Given up, or asked to end, while it waited for its turn: its handler was never called.
            raise _RolledBack(Ended(settlement.Unstarted()))
        context._deadline = min(attempt.gives_up_at or self._answer_by, self._answer_by)  # noqa: SLF001 - the context's other half

    def _call(self, connection: Connection, call_handler: Callable[[], Ended], attempt: Attempt) -> Ended:
        lent = Lent.begin(connection)
        ended = call_handler()
        if isinstance(ended.outcome, settlement.Failed):
            lent.undo()
            raise _RolledBack(ended)
        lent.restore()
        # From here on the tick cannot give the attempt up any more: two settlements would race.
        if not attempt.end():
            raise ClaimLost(attempt.claimed.id)
        self._settle_patiently(attempt, ended, connection)
        return ended

    def _settle_patiently(self, attempt: Attempt, ended: Ended, connection: Connection) -> None:
        """Settle; a row that another transaction has locked is waited for as long as the attempt may take.

        Raises:
            psycopg.errors.LockNotAvailable: It was locked all the time.
        """
        until = min(attempt.gives_up_at or self._answer_by, self._answer_by)
        while True:
            try:
                # A refusal undoes the settlement alone, not what the handler wrote.
                with connection.transaction():
                    # The connection has no limit of its own.
                    wait_shortly(connection)
                    return self._settle(attempt, ended, connection)
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                if self._monotonic() >= until:
                    raise


class _RolledBack(Exception):
    def __init__(self, ended: Ended) -> None:
        self.ended = ended
