"""What tests are made of: every value valid by default, so that a test says only what matters to it."""

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

from scheduled_actions import config
from scheduled_actions.action import Action, Claimed, Status
from scheduled_actions.evaluation_budget import EvaluationBudget
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime
from scheduled_actions.schedule import Schedule
from scheduled_actions.settlement import Settlement
from scheduled_actions.store import claims
from scheduled_actions.store.bounded import Limits
from scheduled_actions.testing import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

#: An instant to stand on, far from any change of the clocks.
NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
#: No wait of a test for another thread comes near it, in seconds.
PATIENCE = 20
#: Long enough to open the cron endpoint.
CRON_SECRET = "a-cron-secret-of-tests"


def an_action(**changes: Any) -> Action:
    """Return an action that is being processed for the first time."""
    values = dict.fromkeys(field.name for field in fields(Action))
    values |= {
        "id": UUID("0197a000-0000-7000-8000-000000000001"),
        "action_type": "test:run",
        "status": Status.PROCESSING,
        "payload": {},
        "priority": 0,
        "attempts": 0,
        "history": (),
        "lock_group_blocks": False,
        "scheduled_at": NOW,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Action(**values | changes)


def a_claimed(**changes: Any) -> Claimed:
    """Return an action as a claim reads it, its first attempt ahead."""
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
    """Return a live daily schedule with nothing planned."""
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
    """Put a row in the table by hand, as no function of ours would refuse it; due for a minute unless said otherwise.

    A `str` of `scheduled_at` or `payload` is taken as SQL would take it: "-infinity", '{"n": 1}'.
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


def insert_many(connection: psycopg.Connection[Any], count: int, **columns: Any) -> list[UUID]:
    """Put `count` due rows in the table, all of the same instant unless said otherwise; ids ascend."""
    columns.setdefault("scheduled_at", database_now(connection) - timedelta(minutes=1))
    with connection.transaction():
        return [insert(connection, **columns) for _ in range(count)]


def row(connection: psycopg.Connection[Any], action_id: UUID) -> dict[str, Any]:
    """Return every column of an action, by name; instants as Postgres writes them, so that any row can be read."""
    found = connection.execute(
        "select to_jsonb(a) from (select * from scheduled_actions where id = %s) a", [action_id]
    ).fetchone()
    assert found is not None, f"no action {action_id}"
    return found[0]


def statuses(connection: psycopg.Connection[Any]) -> dict[UUID, str]:
    """Return the status of every action."""
    return dict(connection.execute("select id, status from scheduled_actions").fetchall())


def holds(connection: psycopg.Connection[Any]) -> dict[str, UUID]:
    """Return who holds each lock group."""
    return dict(connection.execute("select lock_group, action_id from scheduled_action_holds").fetchall())


def database_now(connection: psycopg.Connection[Any]) -> datetime:
    """Return the instant that the statements go by."""
    found = connection.execute("select scheduled_actions_now()").fetchone()
    assert found is not None
    return found[0]


#: Set the database's clock ahead of the machine's, or stop it at an instant, for all its connections.
move_clock, set_clock = clock.shift, clock.stop


def a_tick(connection: psycopg.Connection[Any], *, lease_seconds: float = 70) -> claims.TickRow:
    """Return the row of a new tick."""
    return claims.begin_tick(connection, uuid4(), lease_seconds=lease_seconds, caller="tests", budget={})


def an_outcome(claimed: Claimed, **changes: Any) -> claims.Outcome:
    """Return a completed attempt of what was claimed; `changes` are those of the settlement, or of the outcome."""
    of_outcome = {name: changes.pop(name) for name in ("token", "entry", "follow_ups", "started_at") if name in changes}
    values = {"status": Status.COMPLETED, "entry": None, "charge": 1} | changes
    return claims.Outcome(
        **{"action_id": claimed.id, "token": claimed.token, "settlement": Settlement(**values)} | of_outcome
    )


@contextmanager
def projects(database_url: str) -> Iterator[Callable[..., Runtime]]:
    """Give a function that makes a project of handlers and settings on one database; all are closed at the end.

    Settings are named as their variables are: `a_project(send, concurrency=2, retry_base_seconds=1)`.
    """
    made: list[Runtime] = []

    def a_project(
        *handlers: Callable[..., Any], secret: str = CRON_SECRET, registry: Registry | None = None, **settings: Any
    ) -> Runtime:
        environ = {"DATABASE_URL": database_url, "CRON_SECRET": secret}
        for name, value in ({"concurrency": 2} | settings).items():
            environ[f"SCHEDULED_ACTIONS_{name.upper()}"] = str(value).lower()
        runtime = Runtime(config.load(Path(__file__).parent, environ), registry=registry or Registry.of(*handlers))
        made.append(runtime)
        return runtime

    try:
        yield a_project
    finally:
        for runtime in made:
            runtime.close()


def together(database_url: str, count: int, work: Callable[[psycopg.Connection[Any], int], Any]) -> list[Any]:
    """Do `work(connection, number)` in `count` threads that start at once, each on a connection of its own.

    Returns:
        What each of them returned, by number. The first exception of any of them is raised.
    """
    barrier = threading.Barrier(count)

    def start(number: int) -> Any:
        with psycopg.connect(database_url, autocommit=True) as connection:
            barrier.wait(PATIENCE)
            return work(connection, number)

    with ThreadPoolExecutor(count) as pool:
        return [done.result(PATIENCE * 2) for done in [pool.submit(start, number) for number in range(count)]]


def wait_until(is_so: Callable[[], Any]) -> None:
    """Wait for the doing of another thread or session, of which nothing tells."""
    waited = threading.Event()
    for _ in range(PATIENCE * 200):
        if is_so():
            return
        waited.wait(0.005)
    raise AssertionError("waited in vain")


def is_waiting(connection: psycopg.Connection[Any], count: int = 1) -> bool:
    """Whether so many other sessions of this database are waiting for a lock."""
    # A transaction would be shown again what it saw first.
    connection.execute("select pg_stat_clear_snapshot()")
    found = connection.execute(
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid() and wait_event_type = 'Lock'"
    ).fetchone()
    return found is not None and found[0] >= count


def wait_for_locks(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the project's statements wait for a lock as long as a test waits, whatever holds their process up."""
    monkeypatch.setattr(runtime.database, "_limits", Limits(lock_seconds=PATIENCE, statement_seconds=PATIENCE))


def find_circles_late(connection: psycopg.Connection[Any]) -> None:
    """Let the server look for deadlocks on sessions that begin later only when a test has long given up."""
    name = connection.info.dbname
    statement = sql.SQL("alter database {} set deadlock_timeout = {}")
    connection.execute(statement.format(sql.Identifier(name), sql.Literal(f"{PATIENCE}s")))


def steps_spent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the steps which budgets that are no part of another spend from now on."""
    spending, steps = EvaluationBudget.spend, []

    def spend(self: EvaluationBudget, count: int = 1) -> None:
        if self._within is None:
            steps.append(min(count, max(0, self.steps_left)))
        spending(self, count)

    monkeypatch.setattr(EvaluationBudget, "spend", spend)
    return steps
