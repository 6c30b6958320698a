"""The database restarts, and its backends are terminated, while processes run ticks."""

from __future__ import annotations

import signal
import time
from collections import Counter
from contextlib import closing

import psycopg
import pytest

from scheduled_actions.actions import claims, settling
from scheduled_actions.database.embedded import attach
from scheduled_actions.database.migrate import migrate
from tests.factories import a_tick, insert, row
from tests.faults.actions import EFFECTS, Actions
from tests.faults.ledger import overlaps
from tests.faults.serving import Pings, stop_postgres, wait_until

pytestmark = pytest.mark.slow

TICKS = {"max_duration_seconds": 8, "max_run_seconds": 5, "default_timeout_seconds": 4}
LEASE_SECONDS = 8 + 15
#: The signals of the modes of `pg_ctl stop`.
MODES = {"immediate": signal.SIGQUIT, "fast": signal.SIGINT}
TERMINATIONS = 20
#: Number of crashes directly after an announcement: without a wait for the disk, each would lose it.
CRASHES = 3
#: Number of actions scheduled before each restart and each termination, enough for the whole test.
STOP_LOT, END_LOT = 300, 60


def test_a_crash_of_postgres_after_an_announcement_keeps_the_claim_and_the_tick(own_server):
    handles = [server := attach(own_server)]
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        migrate(connection)
    for _ in range(CRASHES):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            action_id = insert(connection)
            tick = a_tick(connection)
            (claimed,), _ = claims.claim_free(connection, tick, wanted=1, after=claims.START, excluded=())
            assert settling.announce(connection, tick, running=[claimed.id])
            stop_postgres(own_server, server.dsn, signal.SIGQUIT)
        handles.append(attach(own_server))

        with psycopg.connect(server.dsn, autocommit=True) as connection:
            assert row(connection, action_id)["claim_token"] == str(claimed.token)
            found = connection.execute("select running from scheduled_action_ticks where id = %s", [tick.id]).fetchone()
            assert found == ([claimed.id],)
    for handle in handles:
        handle.close()


def test_a_database_restart_causes_503_answers_and_no_other_loss(own_server, serve, ledger, record_property):
    server = attach(own_server)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        migrate(connection)
        connection.execute(EFFECTS)
    service = serve(workers=2, environ={"DATABASE_URL": server.dsn}, **TICKS)
    handles = [server]
    away, given = [], []

    with Pings([service.port], clients=8) as pings:
        for mode, is_long in (("immediate", False), ("fast", False), ("immediate", False), ("fast", True)):
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                given += _schedule(connection, STOP_LOT)
            done = ledger.count()
            wait_until(lambda done=done: ledger.count() > done + 50, within=60, what="the processes run actions")
            stopped = time.monotonic()
            stop_postgres(own_server, server.dsn, MODES[mode])
            seen = len(pings.answers)
            patience = TICKS["max_run_seconds"] if is_long else 0
            wait_until(
                lambda seen=seen, patience=patience: any(
                    answer.status == 503 and answer.seconds >= patience for answer in pings.answers[seen:]
                ),
                within=60,
                what="callers get 503",
            )
            handles.append(attach(own_server))
            assert service.ping().status == 200, f"the first ping after a stop ({mode})"
            away.append(time.monotonic() - stopped)
        assert handles[-1].dsn == server.dsn
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            wait_until(lambda: not _pending(connection), within=120, what="no action is pending")
    with closing(psycopg.connect(server.dsn, autocommit=True)) as connection:
        _end_lost_leases(Actions(connection), service)
        assert set(pings.statuses) == {200, 503}
        assert all(answer.retry_after for answer in pings.answers if answer.status == 503)
        repeated = _assert_nothing_is_lost(Actions(connection), ledger, given)
    for handle in handles:
        handle.close()
    record_property(
        "measured",
        f"away for {[round(one, 1) for one in away]} s, pings {dict(pings.statuses)}, runs repeated {repeated}",
    )


def _schedule(connection, count):
    return Actions(connection).schedule(
        *(
            {
                "action_type": "proof:transact" if number % 10 == 0 else "proof:work",
                "payload": {"number": number, "seconds": 0.05},
                "max_attempts": 20,
                "retry": [0],
                "lock_group": f"group {number % 7}" if number % 5 == 1 else None,
            }
            for number in range(count)
        )
    )


def _pending(connection):
    return connection.execute(
        "select count(*) from scheduled_actions where status = 'pending' and lock_group is null"
    ).fetchone()[0]


def _end_lost_leases(actions, service):
    """End the leases of claims whose answer never reached the process, while no tick is running."""
    actions.move_clock(LEASE_SECONDS + 1)
    with Pings([service.port], clients=4) as pings:
        wait_until(actions.are_settled, within=120, what="all actions are settled")
    assert set(pings.statuses) == {200}


def _assert_nothing_is_lost(actions, ledger, given):
    """Require that each action completed; return the number of repeated runs by action type."""
    rows = actions.all()
    transactions = Counter(row["id"] for row in rows if row["action_type"] == "proof:transact")
    assert set(given) < {row["id"] for row in rows}
    assert actions.statuses() == {"completed": len(given) + len(transactions)}
    runs = ledger.runs()
    assert {run.action_id for run in runs} == {row["id"] for row in rows}
    assert overlaps(runs) == []
    # However often a transaction was interrupted, its effect, follow-up and settlement exist exactly once, together.
    assert actions.effects() == transactions
    return Counter(run.action_type for run in runs) - Counter(row["action_type"] for row in rows)


def test_dead_connections_in_the_pool_cause_no_failed_answer(own_server, serve):
    server = attach(own_server)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        migrate(connection)
    service = serve(workers=1, environ={"DATABASE_URL": server.dsn}, **TICKS)
    handles = [server]

    for mode in MODES.values():
        with Pings([service.port], clients=4) as pings:
            wait_until(lambda pings=pings: len(pings.answers) > 20, within=60, what="connections are opened and kept")
        stop_postgres(own_server, server.dsn, mode)
        handles.append(attach(own_server))

        answers = [service.ping().status for _ in range(4)]

        assert answers == [200] * 4
    for handle in handles:
        handle.close()


def test_terminated_backends_lose_no_action_and_repeat_no_committed_effect(
    serve, actions, ledger, admin, record_property
):
    connection = actions.connection
    connection.execute(EFFECTS)
    service = serve(workers=2, **TICKS)
    database = connection.info.dbname
    ended, given = 0, []

    with Pings([service.port], clients=8) as pings:
        for _ in range(TERMINATIONS):
            given += _schedule(connection, END_LOT)
            done = ledger.count()
            wait_until(lambda done=done: ledger.count() > done + 20, within=60, what="the processes run actions")
            ended += len(
                admin.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and pid <> %s",
                    [database, connection.info.backend_pid],
                ).fetchall()
            )
        wait_until(lambda: not _pending(connection), within=120, what="no action is pending")
    _end_lost_leases(actions, service)

    assert set(pings.statuses) <= {200, 503}
    repeated = _assert_nothing_is_lost(actions, ledger, given)
    assert not repeated["proof:work"], "an outcome is written on the next connection"
    record_property("measured", f"{ended} backends ended, pings {dict(pings.statuses)}, runs repeated {repeated}")
