"""`schedule_action()` with a dedup key, one action per commit, compared with an insert of the same columns."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError, seconds_of
from benchmarks.noop import ACTION_TYPE
from benchmarks.serving import runtime_on
from scheduled_actions import runtime, schedule_action

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.database.connection import Connection

#: Pending and completed actions in the table, each.
_EXISTING = 100_000
#: Scheduled once each way before the rounds, so that functions are compiled and handlers imported.
_WARM_UP = 20

# As called from other languages: the function reads the dedup window from the settings.
_FUNCTION = (
    "select id, deduplicated from schedule_action(%(action_type)s, %(payload)s::jsonb, dedup_key => %(dedup_key)s)"
)

# Every column that the function writes, into the same table with the same indexes.
_INSERT = """
insert into scheduled_actions (
  action_type, payload, team_id, priority, scheduled_at, max_attempts, retry, lock_group, lock_group_blocks, dedup_key,
  dedup_event, dedup_open, target_type, target_id, user_id, metadata, created_by
)
values (
  %(action_type)s, %(payload)s::jsonb, %(team_id)s, %(priority)s, now(), %(max_attempts)s, %(retry)s::jsonb,
  %(lock_group)s, %(lock_group_blocks)s, %(dedup_key)s, %(dedup_event)s, true, %(target_type)s, %(target_id)s,
  %(user_id)s, %(metadata)s::jsonb, %(created_by)s
)
returning id
"""
_EMPTY = dict.fromkeys(
    (
        *("team_id", "max_attempts", "retry", "lock_group", "dedup_event"),
        *("target_type", "target_id", "user_id", "metadata", "created_by"),
    )
)


def run(bench: Bench) -> list[Comparison]:
    """Compare the Python function and the SQL function with a plain insert."""
    with (
        bench.databases.fresh() as dsn,
        connected(dsn) as connection,
        runtime_on(bench.project, dsn) as own,
    ):
        plain_sql.fill_completed(connection, min(_EXISTING, bench.scale.completed))
        plain_sql.fill_due(connection, min(_EXISTING, bench.scale.completed))
        plain_sql.settle_down(connection)
        before = runtime.use(own)
        try:
            for put in _ways(connection).values():
                _rate(connection, _WARM_UP, put)
            rates = bench.take_turns(
                {way: partial(_rate, connection, bench.scale.singles, put) for way, put in _ways(connection).items()}
            )
        finally:
            runtime.use(before)
    return [
        Comparison(
            name=name,
            baseline_name="insert, same columns",
            unit="actions/s",
            measured=rates[way],
            baseline=rates["insert"],
            target=Target("ratio", "at least", 0.6),
        )
        for name, way in {"schedule_action(), keyed": "Python", "SQL schedule_action(), keyed": "SQL"}.items()
    ]


def _ways(connection: Connection) -> dict[str, Callable[[str, int], object]]:
    """Return three functions that insert an action with a dedup key."""

    def by_function(key: str, number: int) -> object:
        named = {"action_type": ACTION_TYPE, "payload": _payload(number), "dedup_key": key}
        return connection.execute(_FUNCTION, named).fetchone()

    def by_insert(key: str, number: int) -> object:
        named = {"action_type": ACTION_TYPE, "payload": _payload(number), "dedup_key": key}
        row = _EMPTY | named | {"priority": 0, "lock_group_blocks": False}
        return connection.execute(_INSERT, row).fetchone()

    return {
        "Python": lambda key, number: schedule_action(ACTION_TYPE, {"n": number}, dedup_key=key),
        "SQL": by_function,
        "insert": by_insert,
    }


def _payload(number: int) -> str:
    return f'{{"n": {number}}}'


def _rate(connection: Connection, wanted: int, schedule: Callable[[str, int], object]) -> float:
    """Return the actions per second, after checking that each call inserted a new row."""
    prefix, numbers = uuid4().hex, count()

    def schedule_all() -> None:
        for _ in range(wanted):
            number = next(numbers)
            schedule(f"{prefix}:{number}", number)

    seconds = seconds_of(schedule_all)
    row = connection.execute(
        "select count(*) from scheduled_actions where dedup_key like %s and dedup_open", [f"{prefix}:%"]
    ).fetchone()
    if row is None or row[0] != wanted:
        raise WrongResultError("actions scheduled", found=row and row[0], expected=wanted)
    return wanted / seconds
