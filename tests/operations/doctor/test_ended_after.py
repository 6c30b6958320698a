"""A connection is ended after a time only while its borrower has it."""

from __future__ import annotations

import threading

import psycopg

from scheduled_actions.database.connection import Database
from scheduled_actions.operations.doctor.store import ended_after
from tests.factories import PATIENCE


class _Slow:
    """A connection whose end takes its time: it says whether it was ended after it had been given back."""

    def __init__(self):
        self.entered, self.released = threading.Event(), threading.Event()
        self.is_given_back = self.was_ended_late = False

    def cancel_safe(self, *, timeout):
        self.entered.set()
        self.released.wait(PATIENCE)

    def fileno(self):
        self.was_ended_late = self.is_given_back
        raise psycopg.OperationalError

    def close(self):
        """Nothing to close."""


def test_a_connection_that_was_given_back_is_not_ended_for_the_next_borrower():
    slow = _Slow()

    with ended_after(0.01, [slow]) as is_over:
        assert slow.entered.wait(PATIENCE)
        threading.Timer(0.1, slow.released.set).start()
    slow.is_given_back = True
    slow.released.wait(PATIENCE)
    # The watchdog goes on for a moment.
    threading.Event().wait(0.1)

    assert is_over.is_set()
    assert not slow.was_ended_late


def test_a_connection_that_was_ended_is_lent_to_nobody(database_url):
    database = Database(lambda: database_url)
    with database.connection() as first, ended_after(0.01, [first]) as is_over:
        assert is_over.wait(PATIENCE)
    with database.connection() as second:
        assert second is not first
        assert second.execute("select 1").fetchone() == (1,)
    database.close()
