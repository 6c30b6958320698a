"""What the doctor asks of the database."""

from __future__ import annotations

import time
from datetime import timedelta

import psycopg

from scheduled_actions.database.connection import Database
from scheduled_actions.operations.doctor import store as diagnosis


def test_the_clocks_difference_is_this_machines_lead(connection):
    ahead = diagnosis.clocks(connection, now=lambda: time.time() + 3600).machine_ahead
    behind = diagnosis.clocks(connection, now=lambda: time.time() - 60).machine_ahead

    assert abs(ahead - timedelta(hours=1)) < timedelta(seconds=1)
    assert abs(behind + timedelta(minutes=1)) < timedelta(seconds=1)


def test_open_transactions_are_named_by_their_process_the_oldest_first(connection, database_url):
    with psycopg.connect(database_url) as first, psycopg.connect(database_url) as second:
        for one in (first, second):
            one.execute("select 1")

        found = diagnosis.transactions(connection, older_than=timedelta(0))
        of_five_minutes = diagnosis.transactions(connection)

        assert [pid for pid, _ in found.old] == [first.info.backend_pid, second.info.backend_pid]
        assert all(timedelta(0) < age < timedelta(minutes=1) for _, age in found.old)
    assert of_five_minutes.old == ()
    assert found.sees_all


def test_without_a_pooler_none_is_seen(database_url):
    line = diagnosis.line(Database(lambda: database_url).connect, is_declared_direct=True)

    assert (line.is_shared, line.is_relayed) == (False, False)
