"""All statements pass through PgBouncer in transaction mode, with two server connections for all processes."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise

import psycopg
import pytest

from tests.faults.actions import EFFECTS
from tests.faults.ledger import by_group, overlaps
from tests.faults.pooler import SERVER_CONNECTIONS, pooled
from tests.faults.serving import Pings

pytestmark = pytest.mark.slow

ACTIONS = 2_000
GROUPS = 25
KINDS = 4


def test_all_promises_hold_behind_a_transaction_pooler(serve, actions, ledger, database_url, record_property):
    connection = actions.connection
    connection.execute(EFFECTS)

    with pooled(database_url) as address:
        with psycopg.connect(address, autocommit=True, prepare_threshold=None) as through:
            merged = _schedule(through)
        service = serve(workers=4, environ={"DATABASE_URL": address})
        started = time.monotonic()
        most_backends = 0
        with Pings([service.port]) as pings:
            while not actions.are_settled():
                assert time.monotonic() - started < 240, actions.statuses()
                most_backends = max(most_backends, _backends(connection))
        seconds = time.monotonic() - started

    runs = ledger.runs()
    transacted = [row["id"] for row in actions.all() if row["action_type"] == "proof:transact"]
    assert actions.statuses() == {"completed": ACTIONS + len(transacted)}
    assert set(Counter(run.action_id for run in runs).values()) == {1}
    assert len(runs) == ACTIONS + len(transacted)
    assert merged == ACTIONS // KINDS
    assert actions.effects() == Counter(transacted)
    assert overlaps(runs) == []
    groups = by_group(runs)
    assert len(groups) == GROUPS
    for members in groups.values():
        assert all(first.payload["number"] < second.payload["number"] for first, second in pairwise(members))
    assert len({run.pid for run in runs}) == 4
    assert set(pings.statuses) == {200}
    assert most_backends <= SERVER_CONNECTIONS
    record_property(
        "measured",
        f"{len(runs) / seconds:.0f} actions/s through {most_backends} connections, {len(pings.answers)} pings",
    )


def _schedule(through):
    """Schedule plain, grouped, transactional and deduplicated actions, a quarter each; return the number merged."""
    plain, grouped, transactional, keyed = ([] for _ in range(KINDS))
    for number in range(ACTIONS // KINDS):
        action = {"action_type": "proof:work", "payload": {"number": number}}
        plain.append(action)
        grouped.append(action | {"lock_group": f"group {number % GROUPS}"})
        transactional.append(action | {"action_type": "proof:transact"})
        keyed.append(action | {"dedup_key": f"key {number}", "dedup_window": 600})
    statement = "select count(*) filter (where s.deduplicated) from schedule_actions(%s::jsonb) s"
    everything = [*plain, *grouped, *transactional, *keyed, *keyed]
    return through.execute(statement, [psycopg.types.json.Jsonb(everything)]).fetchone()[0]


def _backends(connection):
    """Return the number of connections to the database, without the current one."""
    return connection.execute(
        "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        " and backend_type = 'client backend'"
    ).fetchone()[0]
