"""Pings that were refused: counted in memory, and noted in the database at most once a minute, for `doctor` to tell."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

import psycopg

from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.operations import pings_store as pings

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.database.connection import Database

log = logging.getLogger("scheduled_actions")

#: How often one process writes a note, however many are refused.
_NOTED_EVERY_SECONDS = 60.0
#: Callers that a note names.
_CALLERS_MOST = 5
#: The refusal waits no longer for its note: a host may freeze the process once it has answered.
_PATIENCE_SECONDS = 1.0


class Refusals:
    """The refused pings of one process.

    Args:
        database: Where they are noted.
        monotonic: Seconds that never go back.
    """

    def __init__(self, database: Database, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._next_note = float("-inf")
        self._wrong = self._without = 0
        self._callers: dict[str, None] = {}

    def count(self, caller: str, *, is_without: bool) -> None:
        """Count one; what it showed is kept nowhere.

        Args:
            caller: What it calls itself.
            is_without: It showed neither a secret nor a signature.
        """
        with self._lock:
            if is_without:
                self._without += 1
            else:
                self._wrong += 1
            if len(self._callers) < _CALLERS_MOST:
                self._callers[caller] = None
            if self._monotonic() < self._next_note:
                return
            self._next_note = self._monotonic() + _NOTED_EVERY_SECONDS
            note = pings.Refused(self._wrong, self._without, tuple(self._callers))
            self._wrong = self._without = 0
            self._callers.clear()
        # In a thread of its own: a database that does not answer holds nobody up.
        noting = threading.Thread(target=self._write, args=(note,), name="scheduled-actions-refusals", daemon=True)
        noting.start()
        noting.join(_PATIENCE_SECONDS)

    def _write(self, note: pings.Refused) -> None:
        try:
            with self._database.connection() as connection:
                pings.note_refusals(connection, note)
        except (psycopg.Error, ScheduledActionsError) as error:
            log.warning("ping.refusals_not_noted error=%s", type(error).__name__)
