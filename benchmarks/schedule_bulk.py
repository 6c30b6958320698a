"""`schedule_actions()` with 10,000 actions in one call, compared with one insert from `jsonb_to_recordset`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError, seconds_of
from benchmarks.noop import ACTION_TYPE
from benchmarks.serving import runtime_on
from scheduled_actions import runtime, schedule_actions

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from scheduled_actions.database.connection import Connection

#: Completed actions in the table.
_EXISTING = 100_000
#: Scheduled once each way before the rounds, so that functions are compiled and handlers imported.
_WARM_UP = 100
_AT_LEAST = Target("ratio", "at least", 0.4)

_FUNCTION = "select id, deduplicated from schedule_actions(%(rows)s::jsonb)"

_INSERT = """
insert into scheduled_actions (action_type, payload, scheduled_at)
select r.action_type, r.payload, now()
from jsonb_to_recordset(%(rows)s::jsonb) as r (action_type text, payload jsonb)
returning id
"""

_INSERT_KEYED = """
insert into scheduled_actions (action_type, payload, scheduled_at, dedup_key, dedup_open)
select r.action_type, r.payload, now(), r.dedup_key, true
from jsonb_to_recordset(%(rows)s::jsonb) as r (action_type text, payload jsonb, dedup_key text)
returning id
"""


def run(bench: Bench) -> list[Comparison]:
    """Compare the Python function and the SQL function, without and with dedup keys, with a plain insert."""
    with (
        bench.databases.fresh() as dsn,
        connected(dsn) as connection,
        runtime_on(bench.project, dsn) as own,
    ):
        plain_sql.fill_completed(connection, min(_EXISTING, bench.scale.completed))
        plain_sql.settle_down(connection)
        before = runtime.use(own)
        try:
            for measure in _measures(connection, _WARM_UP).values():
                measure()
            rates = bench.take_turns(_measures(connection, bench.scale.bulk))
        finally:
            runtime.use(before)
    return [
        _comparison("schedule_actions()", rates["Python"], "one insert", rates["insert"], _AT_LEAST),
        _comparison("SQL schedule_actions()", rates["SQL"], "one insert", rates["insert"], _AT_LEAST),
        _comparison(
            "schedule_actions(), keyed", rates["Python keyed"], "one insert, keyed", rates["insert keyed"], None
        ),
    ]


def _measures(connection: Connection, wanted: int) -> dict[str, Callable[[], float]]:
    def by_statement(statement: str) -> Callable[[list[dict[str, Any]]], object]:
        return lambda rows: connection.execute(statement.encode(), {"rows": json.dumps(rows)}).fetchall()

    def measure(put: Callable[[list[dict[str, Any]]], object], *, keyed: bool) -> Callable[[], float]:
        return lambda: _rate(connection, _rows(wanted, keyed=keyed), put)

    return {
        "Python": measure(schedule_actions, keyed=False),
        "SQL": measure(by_statement(_FUNCTION), keyed=False),
        "insert": measure(by_statement(_INSERT), keyed=False),
        "Python keyed": measure(schedule_actions, keyed=True),
        "insert keyed": measure(by_statement(_INSERT_KEYED), keyed=True),
    }


def _rows(wanted: int, *, keyed: bool) -> list[dict[str, Any]]:
    prefix = uuid4().hex
    return [
        {"action_type": ACTION_TYPE, "payload": {"n": number}} | ({"dedup_key": f"{prefix}:{number}"} if keyed else {})
        for number in range(wanted)
    ]


def _rate(connection: Connection, rows: list[dict[str, Any]], put: Callable[[list[dict[str, Any]]], object]) -> float:
    """Return the actions per second of one call, after checking that each inserted a new row."""
    before = _count(connection)
    seconds = seconds_of(lambda: put(rows))
    added = _count(connection) - before
    if added != len(rows):
        raise WrongResultError("actions scheduled in one call", found=added, expected=len(rows))
    return len(rows) / seconds


def _count(connection: Connection) -> int:
    row = connection.execute("select count(*) from scheduled_actions where status = 'pending'").fetchone()
    assert row is not None  # an aggregate has one row
    return int(row[0])


def _comparison(
    name: str, measured: list[float], baseline_name: str, baseline: list[float], target: Target | None
) -> Comparison:
    return Comparison(
        name=name, baseline_name=baseline_name, unit="actions/s", measured=measured, baseline=baseline, target=target
    )
