"""Drain limited actions, and others behind actions that a full limit or a pause blocks."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError
from benchmarks.noop import ACTION_TYPE
from benchmarks.serving import checked_tick, make_project, runtime_on

if TYPE_CHECKING:
    from pathlib import Path

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.runtime import Runtime

_KEYS = 100
_SETTINGS = """
[limits]
"full" = { at_once = 1 }
"key:*" = { at_once = 3 }
"""
#: Run once before the rounds, so that the process has measured the handler's duration.
_WARM_UP = 300
#: Due actions of a tick whose duration is measured, and ticks per round.
_SMALL, _TICKS = 100, 7
#: Actions inserted by one statement, which has a time limit.
_CHUNK = 50_000

_FILL_LIMITED = """
insert into scheduled_actions (action_type, limit_keys, parked_by, scheduled_at)
select
  %(action_type)s, array['key:' || n %% %(keys)s], 'limit', now() - interval '1 minute' + n * interval '1 microsecond'
from generate_series(1, %(count)s) n
"""
#: The slot of the key belongs to an action that runs during the whole benchmark.
_FILL_KEY = """
with running as (
  insert into scheduled_actions (action_type, limit_keys, status, claim_token, lease_expires_at, scheduled_at)
  values (%(action_type)s, array['full'], 'processing', gen_random_uuid(), now() + interval '1 day', now())
  returning id, claim_token
)
insert into scheduled_action_limit_slots (team_id, limit_key, action_id, claim_token)
select '', 'full', r.id, r.claim_token
from running r
"""
_FILL_BLOCKED = """
insert into scheduled_actions (action_type, limit_keys, parked_by, scheduled_at)
select %(action_type)s, array['full'], 'limit', now() - interval '1 hour' + n * interval '1 microsecond'
from generate_series(%(first)s::bigint, %(last)s) n
"""
_FILL_PAUSE = "insert into scheduled_action_pauses (kind, name) values ('action_type', 'paused:run')"
_FILL_PAUSED = """
insert into scheduled_actions (action_type, parked_by, scheduled_at)
select 'paused:run', p.id::text, now() - interval '1 hour' + n * interval '1 microsecond'
from scheduled_action_pauses p
cross join generate_series(%(first)s::bigint, %(last)s) n
"""


@dataclass(frozen=True, slots=True)
class _Table:
    """A database, and a process that runs ticks on it."""

    connection: Connection
    runtime: Runtime

    def fill(self, prepare: str, insert: str, *, count: int) -> None:
        """Insert blocked actions; then drain once, so that the first round does not read them from disk.

        Args:
            prepare: The statement that inserts what blocks them.
            insert: The statement that inserts those with the numbers `first` to `last`.
            count: Number of actions.
        """
        self.connection.execute(prepare, {"action_type": ACTION_TYPE})
        for first in range(1, count + 1, _CHUNK):
            given = {"action_type": ACTION_TYPE, "first": first, "last": min(first + _CHUNK - 1, count)}
            self.connection.execute(insert, given)
        plain_sql.settle_down(self.connection)
        self.unlimited(_WARM_UP)

    def drain(self, count: int) -> float:
        """Run ticks until `count` actions have completed; return the actions per second."""
        started, done = time.perf_counter(), 0
        while done < count:
            processed = checked_tick(self.runtime)["processed"]
            if not processed:
                raise WrongResultError("actions completed by a drain", found=done, expected=count)
            done += processed
        return count / (time.perf_counter() - started)

    def unlimited(self, count: int) -> float:
        """Return the actions per second of a drain of actions without limits."""
        plain_sql.fill_due(self.connection, count)
        return self.drain(count)

    def limited(self, count: int) -> float:
        """Return the actions per second of a drain of actions of many keys with three slots each."""
        self.connection.execute(_FILL_LIMITED, {"action_type": ACTION_TYPE, "count": count, "keys": _KEYS})
        return self.drain(count)

    def tick(self) -> float:
        """Return the milliseconds of a tick that runs a few actions, the median of several."""
        return _SMALL / median(self.unlimited(_SMALL) for _ in range(_TICKS)) * 1000


def run(bench: Bench) -> list[Comparison]:
    """Compare drains and ticks with and without blocked actions, and drains with and without limits."""
    drained, blocked, paused = bench.scale.drained, bench.scale.pending[-1], bench.scale.backlog[1]
    with ExitStack() as stack:
        project = make_project(bench.project.parent / "limits")
        (project / "scheduled_actions.toml").write_text(_SETTINGS, encoding="utf-8")
        alone, full, paused_many, paused_few = (_table(bench, project, stack) for _ in range(4))
        bench.say(f"inserting {blocked:,} actions of a key without a free slot, and {blocked:,} of a paused type")
        full.fill(_FILL_KEY, _FILL_BLOCKED, count=blocked)
        paused_many.fill(_FILL_PAUSE, _FILL_PAUSED, count=blocked)
        paused_few.fill(_FILL_PAUSE, _FILL_PAUSED, count=paused)
        drains = bench.take_turns(
            {
                "alone": partial(alone.unlimited, drained),
                "limit full": partial(full.unlimited, drained),
                "paused": partial(paused_many.unlimited, drained),
                "limited": partial(alone.limited, drained),
            }
        )
        ticks = bench.take_turns({"alone": alone.tick, "paused": paused_few.tick})
    in_front = Comparison(
        name=f"drain behind {blocked:,} of a full limit",
        baseline_name="the same alone",
        unit="actions/s",
        measured=drains["limit full"],
        baseline=drains["alone"],
        target=Target("ratio", "at least", 0.9),
    )
    return [
        in_front,
        replace(in_front, name=f"drain behind {blocked:,} of a paused type", measured=drains["paused"]),
        replace(
            in_front,
            name=f"drain of {_KEYS} keys with 3 slots each",
            baseline_name="the same without limits",
            measured=drains["limited"],
            target=Target("ratio", "at least", 0.5),
        ),
        Comparison(
            name=f"tick of {_SMALL} behind {paused:,} of a paused type",
            baseline_name="the same alone",
            unit="ms",
            measured=ticks["paused"],
            baseline=ticks["alone"],
            target=Target("ratio", "at most", 1.2),
        ),
    ]


def _table(bench: Bench, project: Path, stack: ExitStack) -> _Table:
    """Return a migrated database with a warm process."""
    dsn = stack.enter_context(bench.databases.fresh())
    table = _Table(stack.enter_context(connected(dsn)), stack.enter_context(runtime_on(project, dsn)))
    table.unlimited(_WARM_UP)
    table.limited(_WARM_UP)
    return table
