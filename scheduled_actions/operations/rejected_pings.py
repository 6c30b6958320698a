"""Count rejected pings in memory, and store the counts at most once a minute for `doctor`."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.core.log import log
from scheduled_actions.database.connection import Database
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)

#: Minimum interval between two writes of one process.
_INTERVAL_SECONDS = 60.0
#: Maximum number of callers whose names are stored.
_CALLERS_MOST = 5
#: How long the response waits for the write: a host may freeze the process after the response.
_PATIENCE_SECONDS = 1.0


class RejectedPings:
    """Counts the rejected pings of one process, and adds them to the stored counts at most once a minute.

    Args:
        database: The database that stores the counts.
        monotonic: Returns seconds of a monotonic clock.
    """

    def __init__(self, database: Database, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._next_write = float("-inf")
        self._wrong = self._without = 0
        self._callers: dict[str, None] = {}

    def count(self, caller: str, *, is_without: bool) -> None:
        """Count a rejected ping; the secret that it sent is not stored.

        Args:
            caller: The user agent of the ping.
            is_without: Whether the ping had neither a secret nor a signature; otherwise, one of them was wrong.
        """
        with self._lock:
            self._without += is_without
            self._wrong += not is_without
            if len(self._callers) < _CALLERS_MOST:
                self._callers[caller] = None
            if self._monotonic() < self._next_write:
                return
            self._next_write = self._monotonic() + _INTERVAL_SECONDS
            refused = {"wrong": self._wrong, "without": self._without, "callers": json.dumps(list(self._callers))}
            self._wrong = self._without = 0
            self._callers.clear()
        # On a separate thread, so that the response waits at most a second for a database that hangs.
        writer = threading.Thread(target=self._write, args=(refused,), name="scheduled-actions-refusals", daemon=True)
        writer.start()
        writer.join(_PATIENCE_SECONDS)

    def _write(self, refused: dict[str, Any]) -> None:
        try:
            with self._database.connection() as connection:
                sql.run(connection, "store_rejected_pings", refused)
        except (psycopg.Error, ScheduledActionsError) as error:
            log.warning("ping.rejections_not_stored error=%s", type(error).__name__)
