"""WAL and disk space per action, and the time of prune and rescue in a table with many completed actions."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError, seconds_of
from benchmarks.noop import ACTION_TYPE
from benchmarks.serving import checked_tick, runtime_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.runtime import Runtime

_LOG = logging.getLogger("scheduled_actions")
#: Completed actions in the small table.
_SMALL = 10_000
#: Actions pruned, and rescued, by one timed call.
_BATCH = 500
_FLAT = Target("ratio", "at most", 2)

_FILL_OLD = """
insert into scheduled_actions (
  action_type, payload, status, scheduled_at, started_at, completed_at, attempts, max_attempts
)
select %(action_type)s, jsonb_build_object('n', n), 'completed', at.ended, at.ended, at.ended, 1, 3
from generate_series(1, %(count)s) n
cross join lateral (select now() - interval '10 days' + n * interval '1 millisecond' as ended) at
"""

_FILL_EXPIRED = """
insert into scheduled_actions (action_type, payload, status, scheduled_at, claim_token, lease_expires_at)
select %(action_type)s, jsonb_build_object('n', n), 'processing', now(), gen_random_uuid(), now() - interval '1 minute'
from generate_series(1, %(count)s) n
"""

_SCHEDULE = """
select count(*) from schedule_actions((
  select jsonb_agg(jsonb_build_object('action_type', %(action_type)s::text, 'payload', jsonb_build_object('n', n)))
  from generate_series(1, %(count)s) n
))
"""


def run(bench: Bench) -> list[Comparison]:
    """Measure the WAL and disk space per action, and prune and rescue in a small and in a large table."""
    with ExitStack() as stack:
        small, large = (
            _Table(stack, bench, completed) for completed in (min(_SMALL, bench.scale.completed), bench.scale.completed)
        )
        disk = large.disk()
        costs = bench.collect(lambda _: _wal_per_action(large, bench.scale.bulk))
        took = bench.take_turns(
            {
                "prune, small": partial(small.prune, bench.scale.claims),
                "prune, large": partial(large.prune, bench.scale.claims),
                "rescue, small": partial(small.rescue, bench.scale.claims),
                "rescue, large": partial(large.rescue, bench.scale.claims),
            }
        )
    at, baseline = f"{bench.scale.completed:,} completed", f"{small.completed:,} completed"
    return [
        _cost("WAL: schedule, tick, prune", costs["ours"], "insert, claim, complete, delete", costs["bare"]),
        _cost("WAL: schedule_actions()", costs["schedule"], "bare insert", costs["insert"]),
        _cost("WAL: tick", costs["tick"], "bare claim and complete", costs["work"]),
        _cost("WAL: prune", costs["prune"], "bare delete", costs["delete"]),
        Comparison(
            name="disk: a completed action with indexes",
            baseline_name="without indexes",
            unit="bytes",
            measured=[disk[0]],
            baseline=[disk[1]],
        ),
        *(
            Comparison(
                name=f"{what} of {_BATCH}, {at}",
                baseline_name=baseline,
                unit="ms",
                measured=took[f"{what}, large"],
                baseline=took[f"{what}, small"],
                target=_FLAT,
            )
            for what in ("prune", "rescue")
        ),
    ]


class _Table:
    """A database with a given number of recently completed actions."""

    def __init__(self, stack: ExitStack, bench: Bench, completed: int) -> None:
        self.completed = completed
        dsn = stack.enter_context(bench.databases.fresh())
        self.connection: Connection = stack.enter_context(connected(dsn))
        self.runtime: Runtime = stack.enter_context(runtime_on(bench.project, dsn))
        bench.say(f"inserting {completed:,} completed actions")
        plain_sql.fill_completed(self.connection, completed)
        plain_sql.settle_down(self.connection)
        checked_tick(self.runtime)

    def disk(self) -> tuple[float, float]:
        """Return the bytes of a completed action on disk with indexes, and without."""
        row = self.connection.execute(
            "select pg_total_relation_size('scheduled_actions'), pg_table_size('scheduled_actions')"
        ).fetchone()
        assert row is not None  # a select without a table has one row
        return row[0] / self.completed, row[1] / self.completed

    def prune(self, times: int) -> float:
        """Return the median time of `times` prunes in milliseconds."""
        self._fill(_FILL_OLD, _BATCH * times)
        return median(self._timed(self._prune_once) for _ in range(times))

    def rescue(self, times: int) -> float:
        """Return the median time of `times` rescues in milliseconds; rescued actions are deleted."""
        took = []
        _LOG.setLevel(logging.ERROR)  # Every rescued action logs a warning.
        for _ in range(times):
            self._fill(_FILL_EXPIRED, _BATCH)
            took.append(self._timed(self._rescue_once))
            self.connection.execute("delete from scheduled_actions where status = 'pending'")
        _LOG.setLevel(logging.NOTSET)
        return median(took)

    def _prune_once(self) -> None:
        pruned = self.runtime.maintenance.prune_on(self.connection, limit=_BATCH)
        if pruned != _BATCH:
            raise WrongResultError("actions pruned at once", found=pruned, expected=_BATCH)

    def _rescue_once(self) -> None:
        rescued = len(self.runtime.maintenance.rescue(self.connection))
        if rescued != _BATCH:
            raise WrongResultError("actions rescued at once", found=rescued, expected=_BATCH)

    def _fill(self, statement: str, count: int) -> None:
        self.connection.execute(statement, {"action_type": ACTION_TYPE, "count": count})

    @staticmethod
    def _timed(work: Callable[[], None]) -> float:
        return seconds_of(work) * 1000


def _wal_per_action(table: _Table, count: int) -> dict[str, float]:
    """Return the WAL bytes per action of each step from schedule to prune, and of the equivalent plain SQL."""
    connection = table.connection
    many = {"action_type": ACTION_TYPE, "count": count}
    old = "update scheduled_actions set completed_at = now() - interval '10 days' where completed_at > %(since)s"
    since = connection.execute("select now()").fetchone()
    assert since is not None  # a select without a table has one row
    costs: dict[str, float] = {}

    def cost(name: str, work: Callable[[], object]) -> None:
        connection.execute("checkpoint")  # Equal conditions: the first change of a page after it logs the full page.
        before = _wal_position(connection)
        work()
        costs[name] = (_wal_position(connection) - before) / count

    cost("schedule", lambda: connection.execute(_SCHEDULE, many))
    cost("tick", lambda: _tick_until_done(table.runtime))
    connection.execute(old, {"since": since[0]})
    cost("prune", lambda: _prune_all(table, count))
    cost("insert", lambda: plain_sql.fill_due(connection, count))
    cost("work", lambda: plain_sql.bare_drain(connection))
    connection.execute(old, {"since": since[0]})
    cost(
        "delete",
        lambda: connection.execute("delete from scheduled_actions where completed_at < now() - interval '9 days'"),
    )
    return costs | {
        "ours": costs["schedule"] + costs["tick"] + costs["prune"],
        "bare": costs["insert"] + costs["work"] + costs["delete"],
    }


def _tick_until_done(runtime: Runtime) -> None:
    while checked_tick(runtime)["remaining"]:
        pass


def _prune_all(table: _Table, count: int) -> None:
    pruned = table.runtime.maintenance.prune_on(table.connection, limit=count)
    if pruned != count:
        raise WrongResultError("actions pruned", found=pruned, expected=count)


def _wal_position(connection: Connection) -> int:
    row = connection.execute("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").fetchone()
    assert row is not None  # a select without a table has one row
    return int(row[0])


def _cost(name: str, measured: list[float], baseline_name: str, baseline: list[float]) -> Comparison:
    return Comparison(name=name, baseline_name=baseline_name, unit="bytes", measured=measured, baseline=baseline)
