"""How late ten actions of one team start while another has a crowd due, beside the same ten alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Wanted
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError
from benchmarks.noop import ACTION_TYPE
from benchmarks.serving import checked_tick, runtime_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.database.connection import Connection

_SMALL = 10
#: Drained once before all rounds: a process learns there that the handler is fast.
_WARM_UP = 300

_FILL = """
insert into scheduled_actions (action_type, team_id, scheduled_at)
select %(action_type)s, %(team_id)s, now() - %(age)s::interval + n * interval '1 microsecond'
from generate_series(1, %(count)s) n
"""
_LATENESS = """
select extract(epoch from max(started_at) - %(began)s)::float8 * 1000, count(*)
from scheduled_actions
where team_id = 'small' and status = 'completed'
"""


def run(bench: Bench) -> list[Comparison]:
    """Return the lateness of the ten behind the crowd with turns and without, and what the turns cost a drain."""
    crowd = bench.scale.backlog[1]
    ways: dict[str, tuple[int, Mapping[str, object]]] = {
        "turns": (crowd, {}),
        "no turns": (crowd, {"fair_by_team": False}),
        "idle": (0, {}),
    }
    took = bench.take_turns(
        {name: partial(_late, bench, count, settings) for name, (count, settings) in ways.items()},
        rounds=bench.scale.backlog_rounds,
    )
    return [
        Comparison(
            name=f"ten of one team behind {crowd:,} of another, {name}",
            beside_name="the ten alone",
            unit="ms",
            measured=took[name],
            beside=took["idle"],
            wanted=Wanted("measured", "at most", 1000) if name == "turns" else None,
        )
        for name in ("turns", "no turns")
    ]


def _late(bench: Bench, crowd: int, settings: Mapping[str, object]) -> float:
    """Return in milliseconds after the beginning of a tick when the last of the ten was started."""
    with (
        bench.databases.fresh() as dsn,
        connected(dsn) as connection,
        runtime_on(bench.project, dsn, settings=settings) as runtime,
    ):
        plain_sql.fill_due(connection, _WARM_UP)
        checked_tick(runtime)
        _fill(connection, "crowd", crowd, age="1 hour")
        _fill(connection, "small", _SMALL, age="1 minute")
        plain_sql.settle_down(connection)
        began = connection.execute("select now()").fetchone()
        late, done = 0.0, 0
        while checked_tick(runtime)["processed"] and done < _SMALL:
            late, done = connection.execute(_LATENESS, {"began": began and began[0]}).fetchone() or (0.0, 0)
    if done != _SMALL:
        raise WrongResultError("actions of the small team completed", found=done, expected=_SMALL)
    return late


def _fill(connection: Connection, team_id: str, count: int, *, age: str) -> None:
    connection.execute(_FILL, {"action_type": ACTION_TYPE, "team_id": team_id, "age": age, "count": count})
