"""`RejectedPings`: pings without the secret are counted in memory and stored at most once a minute."""

from __future__ import annotations

from datetime import timedelta

from scheduled_actions.database.connection import Database
from scheduled_actions.operations.rejected_pings import RejectedPings
from tests.factories import move_clock


def test_rejected_pings_are_stored_each_minute_and_reset_each_day(database_url, connection):
    now = [0.0]
    database = Database(lambda: database_url)
    rejected = RejectedPings(database, monotonic=lambda: now[0])
    for _ in range(3):
        for number in range(9):
            rejected.count(f"caller {number}", is_without=number == 0)
        now[0] += 60

    def stored():
        (value,) = connection.execute(
            "select value from scheduled_action_settings where name = 'refused_pings'"
        ).fetchone()
        return value["wrong"], value["without"], len(value["callers"])

    assert stored() == (16, 3, 5)
    move_clock(connection, timedelta(hours=25))
    rejected.count("caller", is_without=False)
    assert stored() == (9, 0, 5)
    database.close()
