"""How late ten actions of one team start behind 100,000 of another team, compared with the ten alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError
from benchmarks.noop import ACTION_TYPE
from benchmarks.serving import checked_tick, runtime_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.database.connection import Connection

_SMALL = 10
#: Drained once before the rounds, so that the process has measured the handler's duration.
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
    """Compare the lateness of the ten behind a backlog, with and without fair sharing, with the ten alone."""
    backlog = bench.scale.backlog[1]
    ways: dict[str, tuple[int, Mapping[str, object]]] = {
        "fair": (backlog, {}),
        "not fair": (backlog, {"fair_by_team": False}),
        "idle": (0, {}),
    }
    took = bench.take_turns(
        {name: partial(_late, bench, count, settings) for name, (count, settings) in ways.items()},
        rounds=bench.scale.backlog_rounds,
    )
    return [
        Comparison(
            name=f"ten of one team behind {backlog:,} of another, {name}",
            baseline_name="the ten alone",
            unit="ms",
            measured=took[name],
            baseline=took["idle"],
            target=Target("measured", "at most", 1000) if name == "fair" else None,
        )
        for name in ("fair", "not fair")
    ]


def _late(bench: Bench, backlog: int, settings: Mapping[str, object]) -> float:
    """Return the milliseconds from the start of a tick to the start of the last of the ten actions."""
    with (
        bench.databases.fresh() as dsn,
        connected(dsn) as connection,
        runtime_on(bench.project, dsn, settings=settings) as runtime,
    ):
        plain_sql.fill_due(connection, _WARM_UP)
        checked_tick(runtime)
        _fill(connection, "large", backlog, age="1 hour")
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
