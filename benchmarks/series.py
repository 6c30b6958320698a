"""Ticks over occurrences of schedules, compared with ticks over as many plain actions."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError
from benchmarks.noop import ACTION_TYPE
from benchmarks.serving import checked_tick, runtime_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.runtime import Runtime

#: Drained once before the rounds, so that the process has measured the handler's duration.
_WARM_UP = 300

# Anchors spread over a day, as with real schedules: up to 86,400 different ones.
_FILL_SCHEDULES = """
insert into scheduled_action_schedules (name, action_type, recurrence, kind, timezone, anchor_at)
select
  'bench-' || n, %(action_type)s,
  (array['every 10 minutes', 'daily', '0 9 * * 1-5', 'RRULE:FREQ=DAILY;BYHOUR=9'])[n %% 4 + 1],
  (array['interval', 'interval', 'cron', 'rrule'])[n %% 4 + 1], 'Europe/Berlin',
  date_trunc('second', now()) - interval '1 day' + n * interval '1 day' / %(count)s
from generate_series(0, %(count)s - 1) n
"""

# An hour ahead, so that no following occurrence becomes due during the round.
_PLAN = """
with planned as (
  insert into scheduled_actions (action_type, scheduled_at, occurrence_at, schedule_id)
  select s.action_type, now() + interval '1 day', now() + interval '1 hour', s.id
  from scheduled_action_schedules s
  returning id, schedule_id, occurrence_at
)
update scheduled_action_schedules s
set next_action_id = p.id, next_occurrence_at = p.occurrence_at
from planned p
where s.id = p.schedule_id
"""

_MAKE_DUE = """
update scheduled_actions
set scheduled_at = now() - interval '1 minute'
where status = 'pending' and schedule_id is not null
"""

_PLANNED = """
select count(*)
from scheduled_action_schedules s
join scheduled_actions a on a.id = s.next_action_id and a.status = 'pending' and a.occurrence_at = s.next_occurrence_at
"""


def run(bench: Bench) -> list[Comparison]:
    """Measure the occurrences of one tick, and many schedules that are due in the same minute."""
    few, many = bench.scale.recurring
    return [
        _compare(bench, few, f"tick of {few:,} occurrences", rounds=bench.scale.rounds, at_most=1.6),
        _compare(bench, many, f"{many:,} schedules due at once", rounds=bench.scale.backlog_rounds),
    ]


def _compare(bench: Bench, count: int, name: str, *, rounds: int, at_most: float | None = None) -> Comparison:
    with (
        bench.databases.fresh() as dsn,
        connected(dsn) as connection,
        runtime_on(bench.project, dsn) as runtime,
    ):
        bench.say(f"{name}: inserting schedules")
        connection.execute(_FILL_SCHEDULES, {"action_type": ACTION_TYPE, "count": count})
        connection.execute(_PLAN)
        plain_sql.settle_down(connection)
        _drain(runtime, connection, _WARM_UP, partial(plain_sql.fill_due, connection, _WARM_UP))
        measures: dict[str, Callable[[], float]] = {
            "occurrences": partial(_occurrences, runtime, connection, count),
            "plain": partial(_drain, runtime, connection, count, partial(plain_sql.fill_due, connection, count)),
        }
        took = bench.take_turns(measures, rounds=rounds)
    return Comparison(
        name=name,
        baseline_name="as many plain actions",
        unit="ms",
        measured=took["occurrences"],
        baseline=took["plain"],
        target=None if at_most is None else Target("ratio", "at most", at_most),
    )


def _occurrences(runtime: Runtime, connection: Connection, count: int) -> float:
    took = _drain(runtime, connection, count, lambda: connection.execute(_MAKE_DUE))
    row = connection.execute(_PLANNED).fetchone()
    if row is None or row[0] != count:
        raise WrongResultError("schedules with a planned occurrence", found=row and row[0], expected=count)
    return took


def _drain(runtime: Runtime, connection: Connection, count: int, fill: Callable[[], object]) -> float:
    """Tick until nothing is due, check that all actions completed, and return the milliseconds."""
    fill()
    plain_sql.settle_down(connection)
    done, started = 0, time.perf_counter()
    while True:
        answer = checked_tick(runtime)
        done += answer["succeeded"]
        if not answer["remaining"]:
            break
    took = time.perf_counter() - started
    if done != count:
        raise WrongResultError("actions completed by a drain", found=done, expected=count)
    return took * 1000
