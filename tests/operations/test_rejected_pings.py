"""Pings without the secret are counted, so that many of them write little."""

from __future__ import annotations

from datetime import timedelta

from scheduled_actions.database.connection import Database
from scheduled_actions.operations.rejected_pings import Refusals
from tests.factories import move_clock


def test_refusals_add_up_over_the_minutes_and_are_counted_anew_each_day(database_url, connection):
    now = [0.0]
    database = Database(lambda: database_url)
    refusals = Refusals(database, monotonic=lambda: now[0])
    for _ in range(3):
        for number in range(9):
            refusals.count(f"caller {number}", is_without=number == 0)
        now[0] += 60

    def noted():
        (value,) = connection.execute(
            "select value from scheduled_action_settings where name = 'refused_pings'"
        ).fetchone()
        return value["wrong"], value["without"], len(value["callers"])

    assert noted() == (16, 3, 5)
    move_clock(connection, timedelta(hours=25))
    refusals.count("caller", is_without=False)
    assert noted() == (9, 0, 5)
    database.close()
