"""Database queries of the doctor."""

from __future__ import annotations

import time
from datetime import timedelta

import psycopg

from scheduled_actions.database.connection import Database
from scheduled_actions.operations.doctor import store as diagnosis


def test_clock_lead_is_positive_when_this_machine_is_ahead(connection):
    ahead = diagnosis.clock_lead(connection, now=lambda: time.time() + 3600)
    behind = diagnosis.clock_lead(connection, now=lambda: time.time() - 60)

    assert abs(ahead - timedelta(hours=1)) < timedelta(seconds=1)
    assert abs(behind + timedelta(minutes=1)) < timedelta(seconds=1)


def test_open_transactions_are_listed_by_process_oldest_first(connection, database_url):
    with psycopg.connect(database_url) as first, psycopg.connect(database_url) as second:
        for session in (first, second):
            session.execute("select 1")

        found = diagnosis.old_transactions(connection, older_than=timedelta(0))
        older_than_default = diagnosis.old_transactions(connection)

        assert [pid for pid, _ in found] == [first.info.backend_pid, second.info.backend_pid]
        assert all(timedelta(0) < age < timedelta(minutes=1) for _, age in found)
    assert older_than_default == []


def test_no_pooler_is_detected_on_a_direct_connection(database_url):
    assert diagnosis.detect_pooler(Database(lambda: database_url).connect) == (False, False)
