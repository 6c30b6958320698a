"""`schedule_action()` with a dedup key, one action a commit, beside an insert of the same columns."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Wanted
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError, seconds_of
from benchmarks.noop import ACTION_TYPE
from benchmarks.serving import runtime_on
from scheduled_actions import runtime, schedule_action

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.database.connection import Connection

#: Waiting and finished actions beside the new ones.
_BESIDE = 100_000
#: Scheduled once each way before all rounds: functions are compiled, handlers imported.
_WARM_UP = 20

# As another language calls it: the dedup window is looked up in the settings.
_FUNCTION = (
    "select id, deduplicated from schedule_action(%(action_type)s, %(payload)s::jsonb, dedup_key => %(dedup_key)s)"
)

# Every column that the function writes, in the same table, under the same indexes.
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
    """Return the Python call, and the SQL function alone, beside a plain insert."""
    with (
        bench.databases.fresh() as dsn,
        connected(dsn) as connection,
        runtime_on(bench.project, dsn) as own,
    ):
        plain_sql.fill_completed(connection, min(_BESIDE, bench.scale.completed))
        plain_sql.fill_due(connection, min(_BESIDE, bench.scale.completed))
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
            beside_name="insert, same columns",
            unit="actions/s",
            measured=rates[way],
            beside=rates["insert"],
            wanted=Wanted("ratio", "at least", 0.6),
        )
        for name, way in {"schedule_action(), keyed": "Python", "SQL schedule_action(), keyed": "SQL"}.items()
    ]


def _ways(connection: Connection) -> dict[str, Callable[[str, int], object]]:
    """Return three ways to put one action with a dedup key in the table."""

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
    """Return how many actions a second are put in the table, having seen that each was a new one."""
    prefix, numbers = uuid4().hex, count()

    def all_of_them() -> None:
        for _ in range(wanted):
            number = next(numbers)
            schedule(f"{prefix}:{number}", number)

    seconds = seconds_of(all_of_them)
    row = connection.execute(
        "select count(*) from scheduled_actions where dedup_key like %s and dedup_open", [f"{prefix}:%"]
    ).fetchone()
    if row is None or row[0] != wanted:
        raise WrongResultError("actions scheduled", found=row and row[0], expected=wanted)
    return wanted / seconds
