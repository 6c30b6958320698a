"""A tick's line to the database, which outlives a lost connection but not the tick's time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import psycopg

from scheduled_actions.core.errors import DatabaseUnavailable
from scheduled_actions.database.connection import Loan

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.database.connection import Connection, Database

#: How often a tick tries to reach a database that has gone away under it.
_RECONNECT_SECONDS = 0.25

Result = TypeVar("Result")


class Line:
    """The tick's connection, made anew when the database goes away under it, until the tick's time is up."""

    def __init__(self, database: Database, monotonic: Callable[[], float], until: float) -> None:
        self._database = database
        self._monotonic = monotonic
        self._until = until
        self._loan: Loan | None = None
        #: Whether anything had to be done a second time: then an outcome may have been written by the first.
        self.was_repeated = False
        self._has_worked = False

    def do(self, step: Callable[[Connection], Result]) -> Result:
        """Do one step on the connection; do it again on a new one when the connection was lost.

        The steps of a tick may be repeated: outcomes are fenced, rows of ticks upserted, and what a lost claim took
        returns with its lease.
        """
        while True:
            try:
                with self._database.connection() as connection, Loan(connection) as self._loan:
                    result = step(connection)
            except psycopg.errors.QueryCanceled as error:
                if self._loan is not None and self._loan.is_cut:
                    raise DatabaseUnavailable("it did not answer before the tick's time was up") from error
                raise
            except DatabaseUnavailable:
                if not self._has_worked or self._monotonic() + _RECONNECT_SECONDS >= self._until:
                    raise
                self.was_repeated = True
                time.sleep(_RECONNECT_SECONDS)
            else:
                self._has_worked = True
                return result

    def cut(self) -> None:
        """End the wait of the step that is being done, from another thread."""
        loan = self._loan
        if loan is not None:
            loan.cut()
