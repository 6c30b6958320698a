"""`ended_after` aborts a connection only while its borrower still has it."""

from __future__ import annotations

import threading

import psycopg

from scheduled_actions.database.connection import Database
from scheduled_actions.operations.doctor.store import ended_after
from tests.factories import PATIENCE


class _SlowConnection:
    """A connection that aborts slowly, and records whether it was aborted after its return to the pool."""

    def __init__(self):
        self.entered, self.released = threading.Event(), threading.Event()
        self.is_returned = self.was_aborted_late = False

    def cancel_safe(self, *, timeout):
        self.entered.set()
        self.released.wait(PATIENCE)

    def fileno(self):
        self.was_aborted_late = self.is_returned
        raise psycopg.OperationalError

    def close(self):
        """Nothing to close."""


def test_a_returned_connection_is_not_aborted_for_its_next_borrower():
    slow = _SlowConnection()

    with ended_after(0.01, [slow]) as is_over:
        assert slow.entered.wait(PATIENCE)
        threading.Timer(0.1, slow.released.set).start()
    slow.is_returned = True
    slow.released.wait(PATIENCE)
    # The watchdog needs a moment to finish.
    threading.Event().wait(0.1)

    assert is_over.is_set()
    assert not slow.was_aborted_late


def test_an_aborted_connection_is_not_reused(database_url):
    database = Database(lambda: database_url)
    with database.connection() as first, ended_after(0.01, [first]) as is_over:
        assert is_over.wait(PATIENCE)
    with database.connection() as second:
        assert second is not first
        assert second.execute("select 1").fetchone() == (1,)
    database.close()
