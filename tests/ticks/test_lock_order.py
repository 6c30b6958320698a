"""Locks are taken in one order: wait marks, schedules, actions, holds, slots, limit keys. No two paths can deadlock."""

from __future__ import annotations

import itertools
from concurrent import futures
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import psycopg
import pytest
from psycopg import sql

from scheduled_actions import action
from scheduled_actions.actions import claims, evaluation, management, settling, waits
from scheduled_actions.actions.model import NewAction
from scheduled_actions.actions.search import ActionFilters
from scheduled_actions.core import config
from scheduled_actions.core.action import Status
from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.database.bounded import UNLIMITED
from scheduled_actions.executors.claims import ExecutorQueue
from scheduled_actions.executors.store import write_executors
from scheduled_actions.limits import claims as limit_claims, parking, store as limit_store
from scheduled_actions.schedules import operations
from scheduled_actions.schedules.sync import sync
from tests.factories import NOW, PATIENCE, a_tick, an_outcome, is_waiting, projects, set_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scheduled_actions.actions.claims import ScanPosition
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.runtime import Runtime

HOUR = timedelta(hours=1)
LIMITS = {"key:*": {"at_once": 2, "rate": "100 per second"}}
CONDITION = {
    "wait": {"kind": "document_state", "target": {"type": "order", "id": "42"}, "state": "approved"},
    "check_interval": "PT1H",
}

#: Kinds of rows in the order of their locks. Within a kind, marks and schedules are also locked in order.
KINDS = {
    "marks": (
        "select from scheduled_action_waits where action_id = any (%(first)s)",
        "select from scheduled_action_waits where action_id = any (%(second)s)",
    ),
    "schedules": (
        "select from scheduled_action_schedules where id = any (%(first)s)",
        "select from scheduled_action_schedules where id = any (%(second)s)",
    ),
    "actions": ("select from scheduled_actions",),
    "holds": ("select from scheduled_action_holds",),
    "slots": ("select from scheduled_action_limit_slots",),
    "keys": ("select from scheduled_action_limit_keys",),
}
IN_ORDER = [(kind, rows) for kind, parts in KINDS.items() for rows in parts]
TABLES = (
    "scheduled_action_schedules", "scheduled_actions", "scheduled_action_waits", "scheduled_action_holds",
    "scheduled_action_limit_slots", "scheduled_action_limit_keys", "scheduled_action_wakes",
    "scheduled_action_settings", "scheduled_action_executors",
)  # fmt: skip


class Series:
    """Two rolling schedules, each with a planned occurrence that waits for a fact and a manual run in progress.

    All four actions have a mark and hold a lock group; the runs in progress also have a slot of a limit key each. Each
    list has its ids in ascending order.
    """

    def __init__(self, project: Runtime, connection: psycopg.Connection) -> None:
        self.project, self.connection = project, connection
        self.management = management.ActionOperations(project.database, lambda: project.scheduler)
        self.schedules = [
            project.schedules.schedule_recurring(
                "test:run", {}, "every 1 hour", name=f"series-{n}",
                recurrence_type="rolling", condition=CONDITION, lock_group=f"planned-{n}", lock_group_blocks=True,
            ).id
            for n in range(2)
        ]  # fmt: skip
        set_clock(connection, NOW + HOUR)
        self.planned = [project.schedules.get(one).next_action_id for one in self.schedules]
        self.by_hand = [operations.run_now(project.schedules, one).id for one in self.schedules]
        first, second = zip(self.schedules, self.planned, self.by_hand, strict=True)
        self.ids = {"first": list(first), "second": list(second)}
        self.change("update scheduled_actions set lock_group = 'by-hand-' || id where id = any (%s)", self.by_hand)
        project.processor.tick(lingers=False)
        limit_store.write_rules(connection, config.settings_of({"limits": LIMITS}).limits)
        self.add_limits(self.by_hand)
        self.make_due(self.by_hand)
        self.tick = a_tick(connection)
        self.claim(connection)
        self.claimed = self.claim_queued(connection)
        assert sorted(one.id for one in self.claimed) == self.by_hand
        assert [self.count(f"select from {name}") for name in TABLES[:6]] == [2, 4, 4, 4, 2, 2]
        for name in TABLES:
            connection.execute(f"create table before_{name} as table {name}")
        self._restore = "; ".join(
            f"delete from {name}; insert into {name} overriding system value table before_{name}" for name in TABLES
        )

    def restore(self) -> None:
        """Restore all rows."""
        self.connection.execute(self._restore)

    def change(self, statement: str, *parameters: object) -> None:
        """Change rows before they are locked."""
        self.connection.execute(statement, parameters)

    def make_due(self, action_ids: list) -> None:
        """Make the actions due, so that a claim finds them."""
        due = "update scheduled_actions set scheduled_at = scheduled_actions_now() where id = any (%s)"
        self.change(due, action_ids)

    def claim(self, connection: psycopg.Connection) -> tuple[list[Claimed], ScanPosition]:
        """Claim the actions that are due, all in lock groups; in a transaction."""
        return claims.claim_grouped(connection, self.tick, wanted=9, after=claims.START, excluded=())

    def add_limits(self, action_ids: list) -> None:
        """Give each of the actions a limit key of its own, whose rates and slots are limited."""
        self.change("update scheduled_actions set limit_keys = array['key:' || id] where id = any (%s)", action_ids)

    def add_executor(self, action_ids: list, *, parked_by: str | None = "queue:media") -> None:
        """Make the actions due actions of an executor, by default in its queue."""
        executors = config.settings_of({"executors": {"media": {"types": ["test:*"]}}}).executors
        write_executors(self.connection, executors, replace=True)
        self.change("update scheduled_actions set parked_by = %s where id = any (%s)", parked_by, action_ids)
        self.make_due(action_ids)

    def claim_queued(self, connection: psycopg.Connection) -> list[Claimed]:
        """Claim the actions that are in the queues of limit keys, as a tick does; in autocommit mode."""
        queued = limit_claims.find_queued(connection, wanted=9, after=limit_claims.START, excluded=())
        limit_claims.insert_keys(connection, {key for one in queued.candidates for key in one.keys})
        with connection.transaction():
            return limit_claims.claim_queued(connection, self.tick, queued.candidates)

    def count(self, select: str) -> int:
        """Return how many rows a statement of `KINDS` returns."""
        return self.connection.execute(select, self.ids).rowcount

    def are_free(self, select: str) -> bool:
        """Return whether no other session has locked any of these rows."""
        return self.count(select) == self.count(f"{select} for update skip locked")

    @property
    def outcomes(self) -> list[settling.SettlementRow]:
        """Return outcomes of the claimed actions, in an order other than that of their ids."""
        latest_first = sorted(self.claimed, key=lambda one: one.id, reverse=True)
        return [an_outcome(one, schedule_id=one.schedule_id) for one in latest_first]


class Path(NamedTuple):
    """A code path that waits for locks."""

    name: str
    #: The kinds of rows that the path waits for.
    waits_for: tuple[str, ...]
    #: Prepares the rows; returns the step to run on a separate connection.
    prepare: Callable[[Series], Callable[[psycopg.Connection], object]]


PATHS: list[Path] = []


def path(*waits_for: str) -> Callable:
    """Register a path that waits for rows of these kinds, in this order."""

    def register(prepare: Callable) -> Callable:
        PATHS.append(Path(prepare.__name__, waits_for, prepare))
        return prepare

    return register


@path("schedules", "actions", "holds", "slots")
def settle(series):
    return lambda own: series.project.settler.settle(own, series.tick, series.outcomes, running=None)


@path("actions", "slots")
def complete(series):
    series.change("update scheduled_actions set schedule_id = null where id = any (%s)", series.by_hand)
    completions = [
        settling.Completion(one.id, one.token, 0, 1, max_attempts=3, has_slots=True) for one in series.claimed
    ]
    return lambda own: settling.complete(own, series.tick, completions, running=[])


@path("schedules", "actions", "holds", "slots")
def settle_in_the_transaction_of_a_handler(series):
    def step(own):
        with own.transaction():
            series.project.scheduler.schedule_action(NewAction(action_type="test:run", payload={}), connection=own)
            series.project.settler.settle(own, series.tick, series.outcomes[:1], running=None)

    return step


@path("marks", "schedules", "actions", "holds", "slots")
def settle_waiting(series):
    unmet = [
        waits.WaitSettlement(
            action_id=one.id,
            token=one.token,
            schedule_id=one.schedule_id,
            check_seconds=60,
            changes_at=None,
            reason="not approved",
        )
        for one in series.claimed
    ]
    return lambda own: series.project.settler.settle_waiting(own, series.tick.id, unmet)


@path("marks", "actions")
def settle_unclaimed_waiting(series):
    planned = "select id, xmin::text from scheduled_actions where id = any (%s)"
    versions = dict(series.connection.execute(planned, [series.planned]).fetchall())
    unmet = [
        waits.WaitSettlement(
            action_id=one,
            token=waits.UNCLAIMED,
            version=versions[one],
            check_seconds=60,
            changes_at=None,
            reason="not approved",
            hold="keep",
        )
        for one in series.planned
    ]
    return lambda own: series.project.settler.settle_waiting(own, series.tick.id, unmet)


@path("schedules", "holds", "slots")
def rescue(series):
    series.change(
        "update scheduled_actions set lease_expires_at = '-infinity', lock_group_blocks = false where id = any (%s)",
        series.by_hand,
    )
    return series.project.maintenance.rescue


@path("actions", "holds", "slots")
def fail(series):
    return lambda own: settling.fail(own, series.claimed[0].id, series.claimed[0].token, "no outcome can be written")


@path("schedules", "actions", "holds")
def cancel(series):
    return lambda own: series.project.scheduler.cancel_action(series.planned[0], connection=own)


@path("schedules", "actions")
def cancel_running(series):
    return lambda own: series.project.scheduler.cancel_action(series.by_hand[0], also_running=True, connection=own)


@path("schedules", "actions", "holds")
def bulk_cancel(series):
    return lambda _: series.management.cancel_matching(
        ActionFilters(statuses=(Status.PENDING,)), by=None, reason=None, limit=9, cursor=None
    )


@path("actions")
def bulk_retry(series):
    series.change("update scheduled_actions set status = 'failed' where id = any (%s)", series.planned)
    return lambda _: series.management.retry_matching(
        ActionFilters(statuses=(Status.FAILED,)), by=None, limit=9, cursor=None
    )


@path("actions")
def change_condition(series):
    return lambda own: series.project.scheduler.update_action(series.planned[0], condition=None, connection=own)


@path("schedules", "actions")
def skip(series):
    return lambda own: operations.skip_next(series.project.schedules, series.schedules[0], connection=own)


@path("schedules", "actions")
def pause(series):
    return lambda own: operations.pause(series.project.schedules, series.schedules[0], connection=own)


@path("schedules", "actions")
def change(series):
    return lambda own: series.project.schedules.update(series.schedules[0], jitter_seconds=60, connection=own)


@path("schedules", "actions")
def delete(series):
    return lambda own: operations.delete(series.project.schedules, series.schedules[0], connection=own)


@path("schedules", "actions")
def delete_schedules_no_longer_declared(series):
    series.change("update scheduled_action_schedules set is_declared = true")
    return lambda own: sync(series.project.schedules, own, force=True)


@path("schedules", "actions")
def schedule_for_users(series):
    # In an order other than that of the ids.
    users = {"second": "UTC", "first": "UTC"}
    for user, one in zip(reversed(users), series.schedules, strict=True):
        series.change("update scheduled_action_schedules set name = %s where id = %s", f"greet:{user}", one)
    return lambda own: series.project.local_scheduling.schedule_local(
        "test:run", {}, "09:00", users, recurrence="daily", name="greet", connection=own
    )


@path()
def claim(series):
    series.make_due(series.planned)
    batches = claims.BatchClaimer((series.project.series,))
    return lambda own: batches.claim(own, lambda: series.claim(own))


@path()
def claim_with_schedules_that_cannot_be_followed(series):
    series.make_due(series.planned)

    def step(own):
        with own.transaction():
            for one in series.claim(own)[0]:
                series.project.series.claim_refused(own, one, ValueError("no rule"))

    return step


@path()
def claim_from_queues(series):
    series.add_limits(series.planned)
    series.change("update scheduled_actions set parked_by = 'limit' where id = any (%s)", series.planned)
    series.change(
        "insert into scheduled_action_limit_keys (team_id, limit_key)"
        " select '', limit_keys[1] from scheduled_actions where id = any (%s)",
        series.planned,
    )
    series.make_due(series.planned)
    return series.claim_queued


@path()
def claim_for_a_worker(series):
    series.add_executor(series.planned)
    queue = ExecutorQueue("media", (series.project.series,), series.project.config.settings)
    return lambda own: queue.claim(own, wanted=9, lease_seconds=60)


@path()
def claim_to_send_tickets(series):
    series.add_executor(series.planned)
    queue = ExecutorQueue("media", (series.project.series,), series.project.config.settings, outstanding=9)
    return lambda own: queue.claim(own, wanted=9, lease_seconds=60)


@path()
def claim_limited_actions_for_a_worker(series):
    series.add_limits(series.planned)
    series.add_executor(series.planned, parked_by="limit")
    queue = ExecutorQueue("media", (series.project.series,), series.project.config.settings)
    return lambda own: queue.claim(own, wanted=9, lease_seconds=60)


@path()
def park(series):
    series.add_executor(series.planned, parked_by=None)
    return lambda own: parking.park_first(own, most=9, has_queued=True)


@path()
def return_queues(series):
    series.add_executor(series.planned)
    write_executors(series.connection, {}, replace=True)
    return parking.return_queues


@path()
def give_back(series):
    return lambda own: limit_claims.give_back(own, series.claimed)


@path()
def prune_keys(series):
    series.change("update scheduled_action_limit_keys set used_at = '-infinity'")
    return lambda own: limit_claims.prune_keys(own, limit=9)


@path("holds", "slots")
def end_linger(series):
    for name in ("holds", "limit_slots"):
        series.change(f"update scheduled_action_{name} set busy_until = 'infinity'")
    return lambda own: settling.end_linger(own, series.claimed[0].id, series.claimed[0].token)


@path()
def free_stale_holds(series):
    for name in ("holds", "limit_slots"):
        series.change(f"update scheduled_action_{name} set busy_until = '-infinity', action_id = gen_random_uuid()")
    return settling.free_stale_holds


@path("marks")
def evaluate(series):
    series.change("update scheduled_action_waits set is_woken = true")
    return lambda own: evaluation.evaluate(series.claimed, lambda step: step(own))


@path("marks", "actions")
def wake(series):
    series.change("insert into scheduled_action_wakes (topic) select topic from scheduled_action_waits")
    return lambda own: waits.wake(own, most=100)


@path()
def sweep(series):
    series.change("delete from scheduled_action_settings where name = 'last_sweep'")
    series.change("update scheduled_action_schedules set next_action_id = null")
    return lambda own: series.project.series.sweep(own, every_seconds=0)


@pytest.fixture
def series(database_url, connection, monkeypatch) -> Iterator[Series]:
    """Yield the rows, without time limits for lock waits, so that no result depends on the speed of the machine."""
    monkeypatch.setattr(settling, "LOCK_WAIT_MS", "0")
    monkeypatch.setattr(waits, "LOCK_WAIT_MS", "0")
    monkeypatch.setattr(management, "_SHORT_LOCK_WAIT", UNLIMITED)
    set_clock(connection, NOW)
    # Postgres detects a deadlock immediately.
    name = connection.execute("select current_database()").fetchone()[0]
    connection.execute(sql.SQL("alter database {} set deadlock_timeout = '2ms'").format(sql.Identifier(name)))

    @action("test:run")
    def run(payload: dict) -> None: ...

    with projects(database_url) as a_project:
        yield Series(a_project(run), connection)


class Sessions:
    """Two sessions on separate threads, and a third that locks the rows for which both wait."""

    def __init__(self, database_url: str, connection: psycopg.Connection, pool: futures.ThreadPoolExecutor) -> None:
        self._connection, self._pool = connection, pool
        self.own = [psycopg.connect(database_url, autocommit=True) for _ in range(2)]
        self.holder = psycopg.connect(database_url)
        self.under_way: list[futures.Future] = []

    def close(self) -> None:
        for one in (self.holder, *self.own):
            one.close()

    def begin(self, step: Callable[[psycopg.Connection], object]) -> futures.Future:
        """Begin a step; return once it waits for a lock, or has ended."""
        self.under_way.append(self._pool.submit(step, self.own[len(self.under_way)]))
        for _ in range(PATIENCE * 1000):
            at_work = [one for one in self.under_way if not one.done()]
            if not at_work or is_waiting(self._connection, len(at_work)):
                break
            futures.wait(at_work, timeout=0.001)
        else:
            raise AssertionError("the step neither ends nor waits for a lock")
        return self.under_way[-1]

    def unlock_and_wait(self) -> list[BaseException | None]:
        """Unlock the rows; return the error that each step raised, or None."""
        self.holder.rollback()
        raised = [one.exception(PATIENCE) for one in self.under_way]
        self.under_way.clear()
        return raised


@pytest.fixture
def sessions(database_url, connection, series) -> Iterator[Sessions]:
    with futures.ThreadPoolExecutor(2) as pool:
        sessions = Sessions(database_url, connection, pool)
        yield sessions
        sessions.unlock_and_wait()
        sessions.close()


def test_a_path_that_waits_for_a_row_has_locked_no_row_that_comes_later(series, sessions):
    problems, waited_for = [], {}
    for one in PATHS:
        kinds = waited_for[one.name] = []
        for position, (kind, rows) in enumerate(IN_ORDER):
            series.restore()
            step = one.prepare(series)
            sessions.holder.execute(f"{rows} for update", series.ids)
            waits = not sessions.begin(step).done()
            locked = [later for later, those in IN_ORDER[position + 1 :] if not series.are_free(those)]
            if waits and kind not in kinds:
                kinds.append(kind)
            if waits and locked:
                problems.append(f"{one.name} waits for {kind} and has locked {' and '.join(dict.fromkeys(locked))}")
            (error,) = sessions.unlock_and_wait()
            assert error is None, f"{one.name}: {error!r}"

    assert not problems, "\n".join(problems)
    # Each path has waited for all kinds of rows that it declares.
    assert waited_for == {one.name: list(one.waits_for) for one in PATHS}


def test_two_paths_that_wait_for_the_same_actions_continue_one_after_the_other(series, sessions, monkeypatch):
    deadlocks, made = [], psycopg.errors.DeadlockDetected.__init__

    def counted(error: psycopg.Error, *given: object, **named: object) -> None:
        # Counted here, because the error may be caught anywhere.
        deadlocks.append(error)
        made(error, *given, **named)

    monkeypatch.setattr(psycopg.errors.DeadlockDetected, "__init__", counted)
    circles = []
    # The other paths skip locked rows, or lock nothing before they wait for them.
    for pair in itertools.product([one for one in PATHS if "actions" in one.waits_for], repeat=2):
        series.restore()
        steps = [one.prepare(series) for one in pair]
        sessions.holder.execute("select from scheduled_actions for update")
        for step in steps:
            # The first path waits for an action while it holds its earlier locks; then the second begins.
            sessions.begin(step)
        raised = sessions.unlock_and_wait()
        names = " and ".join(one.name for one in pair)
        # The second path may find that its action or schedule was deleted or has ended.
        assert all(isinstance(one, psycopg.Error | ScheduledActionsError | None) for one in raised), (names, raised)
        if deadlocks:
            circles.append(names)
            deadlocks.clear()

    assert not circles, f"deadlock between {'; '.join(circles)}"
