"""Factories with valid defaults, so that a test sets only the values it is about, and other shared helpers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from scheduled_actions.actions import claims, settling
from scheduled_actions.actions.rules.settlement import Settlement
from scheduled_actions.core import config
from scheduled_actions.core.action import Claimed, Status
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.database.bounded import StatementLimits
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime
from scheduled_actions.schedules.model import Schedule
from scheduled_actions.testing import clock
from scheduled_actions.ticks import store as tick_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

#: A fixed instant, far from any daylight saving change.
NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
#: Timeout of waits for another thread, in seconds; far longer than any of them takes.
PATIENCE = 20
#: Has the required minimum length.
CRON_SECRET = "a-cron-secret-of-tests"


def a_claimed(**changes: Any) -> Claimed:
    """Return a claimed action before its first attempt."""
    values: dict[str, Any] = dict.fromkeys(Claimed._fields)
    values |= {
        "id": UUID("0197a000-0000-7000-8000-000000000001"),
        "action_type": "test:run",
        "priority": 0,
        "scheduled_epoch": NOW.timestamp(),
        "scheduled_text": "2026-03-04 12:00:00+00",
        "attempts": 0,
        "lock_group_blocks": False,
        "payload_text": "{}",
        "created_epoch": NOW.timestamp(),
        "token": UUID("0197a000-0000-4000-8000-00000000000f"),
    }
    return Claimed(**values | changes)


def a_schedule(**changes: Any) -> Schedule:
    """Return an active daily schedule without a planned occurrence."""
    values: dict[str, Any] = dict.fromkeys(field.name for field in fields(Schedule))
    values |= {
        "id": UUID("0197a000-0000-7000-8000-00000000000a"),
        "action_type": "test:run",
        "payload": {},
        "recurrence": "daily",
        "kind": "interval",
        "timezone": "UTC",
        "anchor_at": NOW,
        "recurrence_type": "fixed",
        "misfire": "fire_once",
        "misfire_grace_seconds": 300.0,
        "catch_up_limit": 100,
        "catch_up_seconds": 604800.0,
        "overlap": "skip",
        "requires_previous": False,
        "jitter_seconds": 0.0,
        "consecutive_failures": 0,
        "priority": 0,
        "lock_group_blocks": False,
        "status": "active",
        "executions": 0,
        "skipped": 0,
        "missed": 0,
        "definition": {},
        "is_declared": False,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Schedule(**values | changes)


def insert(connection: psycopg.Connection[Any], **columns: Any) -> UUID:
    """Insert an action directly, without the checks of the package; by default it has been due for a minute.

    A `str` as `scheduled_at` or `payload` is passed to SQL unchanged: "-infinity", '{"n": 1}'.
    """
    values = {"action_type": "test:run", **columns}
    if isinstance(values.get("payload"), dict):
        values["payload"] = Jsonb(values["payload"])
    for name in ("history", "metadata", "state", "retry", "result"):
        if name in values:
            values[name] = Jsonb(values[name])
    if "scheduled_at" not in values:
        values["scheduled_at"] = database_now(connection) - timedelta(minutes=1)
    statement = sql.SQL("insert into scheduled_actions ({}) values ({}) returning id").format(
        sql.SQL(", ").join(map(sql.Identifier, values)), sql.SQL(", ").join(sql.Placeholder() * len(values))
    )
    row = connection.execute(statement, list(values.values())).fetchone()
    assert row is not None
    return row[0]


def due_for(connection: psycopg.Connection[Any], *, seconds: float) -> dict[str, datetime]:
    """Return the columns of an action that has existed and been due for this long."""
    return dict.fromkeys(("created_at", "scheduled_at"), database_now(connection) - timedelta(seconds=seconds))


def insert_many(connection: psycopg.Connection[Any], count: int, **columns: Any) -> list[UUID]:
    """Insert `count` due actions, by default with the same `scheduled_at`; ids ascend."""
    columns.setdefault("scheduled_at", database_now(connection) - timedelta(minutes=1))
    with connection.transaction():
        return [insert(connection, **columns) for _ in range(count)]


def row(connection: psycopg.Connection[Any], action_id: UUID) -> dict[str, Any]:
    """Return the columns of an action by name; instants as text, so that any row can be read."""
    found = connection.execute(
        "select to_jsonb(a) from (select * from scheduled_actions where id = %s) a", [action_id]
    ).fetchone()
    assert found is not None, f"no action {action_id}"
    return found[0]


def statuses(connection: psycopg.Connection[Any]) -> dict[UUID, str]:
    """Return the status of every action."""
    return dict(connection.execute("select id, status from scheduled_actions").fetchall())


def holds(connection: psycopg.Connection[Any]) -> dict[str, UUID]:
    """Return the id of the action that holds each lock group."""
    return dict(connection.execute("select lock_group, action_id from scheduled_action_holds").fetchall())


def database_now(connection: psycopg.Connection[Any]) -> datetime:
    """Return the time of the database's clock."""
    found = connection.execute("select scheduled_actions_now()").fetchone()
    assert found is not None
    return found[0]


#: Move the database's clock ahead of the machine's, or stop it at an instant, for all connections.
move_clock, set_clock = clock.shift, clock.stop


def a_tick(connection: psycopg.Connection[Any], *, lease_seconds: float = 70) -> claims.TickRow:
    """Return the row of a new tick."""
    return tick_store.begin_tick(connection, uuid4(), lease_seconds=lease_seconds, caller="tests", budget={})


_OF_OUTCOME = ("token", "entry", "follow_ups", "started_at", "schedule_id")


def an_outcome(claimed: Claimed, **changes: Any) -> settling.SettlementRow:
    """Return a completed attempt of a claimed action; `changes` override fields of the row or of its settlement."""
    of_outcome = {name: changes.pop(name) for name in _OF_OUTCOME if name in changes}
    values = {"status": Status.COMPLETED, "entry": None, "charge": 1} | changes
    return settling.SettlementRow(
        **{"action_id": claimed.id, "token": claimed.token, "settlement": Settlement(**values)} | of_outcome
    )


@contextmanager
def projects(database_url: str) -> Iterator[Callable[..., Runtime]]:
    """Yield a function that creates a project with handlers and settings on one database; closes all at the end.

    Settings are named like their variables: `a_project(send, concurrency=2, retry_base_seconds=1)`.
    """
    made: list[Runtime] = []

    def a_project(
        *handlers: Callable[..., Any], secret: str = CRON_SECRET, registry: Registry | None = None, **settings: Any
    ) -> Runtime:
        environ = {"DATABASE_URL": database_url, "CRON_SECRET": secret}
        for name, value in ({"concurrency": 2} | settings).items():
            environ[f"SCHEDULED_ACTIONS_{name.upper()}"] = value if isinstance(value, str) else str(value).lower()
        runtime = Runtime(config.load(Path(__file__).parent, environ), registry=registry or Registry.of(*handlers))
        made.append(runtime)
        return runtime

    try:
        yield a_project
    finally:
        for runtime in made:
            runtime.close()


def together(database_url: str, count: int, work: Callable[[psycopg.Connection[Any], int], Any]) -> list[Any]:
    """Call `work(connection, number)` in `count` threads at the same time, each with its own connection.

    Returns:
        The results, by number. The first exception is raised.
    """
    barrier = threading.Barrier(count)

    def start(number: int) -> Any:
        with psycopg.connect(database_url, autocommit=True) as connection:
            barrier.wait(PATIENCE)
            return work(connection, number)

    with ThreadPoolExecutor(count) as pool:
        return [done.result(PATIENCE * 2) for done in [pool.submit(start, number) for number in range(count)]]


def wait_until(is_so: Callable[[], Any]) -> None:
    """Wait until a condition holds that another thread or session brings about, polling every 5 ms."""
    waited = threading.Event()
    for _ in range(PATIENCE * 200):
        if is_so():
            return
        waited.wait(0.005)
    raise AssertionError(f"the condition did not hold within {PATIENCE} seconds")


def is_waiting(connection: psycopg.Connection[Any], count: int = 1) -> bool:
    """Return whether `count` other sessions of this database are waiting for a lock."""
    # Within a transaction, Postgres would return the same snapshot again.
    connection.execute("select pg_stat_clear_snapshot()")
    found = connection.execute(
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid() and wait_event_type = 'Lock'"
    ).fetchone()
    return found is not None and found[0] >= count


def wait_for_locks(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the statement and lock timeouts of a project to those of the test."""
    monkeypatch.setattr(runtime.database, "_limits", StatementLimits(lock_seconds=PATIENCE, statement_seconds=PATIENCE))


def delay_deadlock_detection(connection: psycopg.Connection[Any]) -> None:
    """Delay deadlock detection in later sessions until after the test's own timeout."""
    name = connection.info.dbname
    statement = sql.SQL("alter database {} set deadlock_timeout = {}")
    connection.execute(statement.format(sql.Identifier(name), sql.Literal(f"{PATIENCE}s")))


def steps_spent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which every outermost evaluation budget appends the steps it spends."""
    spending, steps = EvaluationBudget.spend, []

    def spend(self: EvaluationBudget, count: int = 1) -> None:
        if self._within is None:
            steps.append(min(count, max(0, self.steps_left)))
        spending(self, count)

    monkeypatch.setattr(EvaluationBudget, "spend", spend)
    return steps
