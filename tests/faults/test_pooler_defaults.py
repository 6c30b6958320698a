"""Behind PgBouncer in transaction mode: unusual defaults of the database have no effect, and no setting leaks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import sql

from scheduled_actions import action
from scheduled_actions.database.bounded import StatementLimits
from scheduled_actions.database.connection import Database
from tests.factories import insert_many, projects, statuses
from tests.faults.pooler import SERVER_CONNECTIONS, pooled

pytestmark = pytest.mark.slow

DEFAULTS = {"datestyle": "German", "default_transaction_isolation": "serializable"}


@pytest.fixture
def address(database_url, connection):
    """Yield the address of a pooler in front of a database with unusual defaults."""
    database = sql.Identifier(connection.info.dbname)
    for name, value in DEFAULTS.items():
        connection.execute(
            sql.SQL("alter database {} set {} to {}").format(database, sql.SQL(name), sql.Literal(value))
        )
    with pooled(database_url) as address:
        yield address


def test_statements_are_limited_and_read_committed_and_leak_nothing_to_other_clients(address):
    asked = "select array[current_setting('transaction_isolation'), current_setting('lock_timeout'),"
    asked += " current_setting('statement_timeout'), current_setting('datestyle')], now()"
    database = Database(lambda: address, limits=StatementLimits(lock_seconds=0.7, statement_seconds=9))
    with database.connection() as one, database.connection() as other, one.transaction():
        assert not one.has_own_session
        # On both server connections, outside and inside a transaction.
        found = [used.execute(asked).fetchone() for used in (one, other, one, other)]
    with psycopg.connect(address, autocommit=True, prepare_threshold=None) as client:
        leaked = [
            client.execute("select current_setting('lock_timeout'), current_setting('statement_timeout')").fetchone()
            for _ in range(2 * SERVER_CONNECTIONS)
        ]
        isolation = client.execute("show transaction_isolation").fetchone()
    database.close()

    assert {tuple(settings[:3]) for settings, _ in found} == {("read committed", "700ms", "9s")}
    assert all(settings[3].startswith("ISO") for settings, _ in found)
    assert all(moment.year > 2000 for _, moment in found)
    assert set(leaked) == {("0", "0")}
    assert isolation == ("serializable",)


def test_racing_ticks_run_each_action_once(address, connection):
    @action("test:run")
    def handle(payload: dict): ...

    ids = insert_many(connection, 200)
    with projects(address) as a_project:
        racing = [a_project(handle, batch_size=20) for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            reports = list(pool.map(lambda project: project.processor.tick(), racing))

    assert statuses(connection) == dict.fromkeys(ids, "completed")
    assert sum(report.succeeded for report in reports) == len(ids)
