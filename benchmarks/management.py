"""Reads of the management API in a table with many completed actions, compared with a table of a hundred."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError, seconds_of
from benchmarks.noop import ACTION_TYPE
from benchmarks.serving import runtime_on
from scheduled_actions.actions.management import ActionOperations
from scheduled_actions.actions.search import ActionFilters
from scheduled_actions.core.action import Status
from scheduled_actions.operations.explain import service as explaining

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.runtime import Runtime

_FEW = 100
#: Failed actions in each table, whatever its size; they are the oldest rows.
_RARE = 20
#: A team with at least a full page of actions in both tables, so that equal pages are compared.
_TEAM = "team-1"
_PAGE = 100
_CALLS = 10
#: Number of actions that a statement inserts.
_FILLED_AT_ONCE = 50_000

_FILL = """
insert into scheduled_actions (
  action_type, payload, team_id, status, scheduled_at, started_at, completed_at, attempts, max_attempts, error_message
)
select
  %(action_type)s, jsonb_build_object('n', n), 'team-' || n %% %(teams)s,
  case when n <= %(rare)s then 'failed' else 'completed' end, at.ended, at.ended, at.ended, 1, 3,
  case when n <= %(rare)s then 'no' end
from generate_series(%(first)s, least(%(last)s, %(count)s)) n
cross join lateral (select now() - interval '1 day' * n / %(count)s as ended) at
"""
_FILL_WAITING = """
insert into scheduled_actions (action_type, team_id, scheduled_at)
select %(action_type)s, 'team-' || n %% %(teams)s, now() + n * interval '1 minute' - %(due)s * interval '1 minute'
from generate_series(1, %(count)s) n
"""


def run(bench: Bench) -> list[Comparison]:
    """Compare each read in the large table with the same read in the small one."""
    count = bench.scale.completed
    with (
        bench.databases.fresh() as many,
        bench.databases.fresh() as few,
        runtime_on(bench.project, many) as large,
        runtime_on(bench.project, few) as small,
    ):
        bench.say("inserting actions")
        for dsn, finished, waiting in ((many, count, count // 100), (few, _FEW, _FEW)):
            with connected(dsn) as connection:
                _fill(connection, finished=finished, waiting=waiting)
        measures: dict[str, Callable[[], float]] = {
            f"{name} {size}": partial(_median_ms, reading)
            for size, runtime in (("many", large), ("few", small))
            for name, reading in _readings(runtime).items()
        }
        names = list(_readings(small))
        took = bench.take_turns(measures)
    return [
        Comparison(
            name=f"{name}, {count:,} completed",
            baseline_name=f"{_FEW} completed",
            unit="ms",
            measured=took[f"{name} many"],
            baseline=took[f"{name} few"],
            # Counting ten thousand rows takes longer than counting a hundred, so counts have an absolute target.
            target=Target("measured", "at most", 100) if "counts" in name else Target("ratio", "at most", 3),
        )
        for name in names
    ]


def _readings(runtime: Runtime) -> dict[str, Callable[[], Any]]:
    management = ActionOperations(runtime.database, lambda: runtime.scheduler)
    (waiting,) = management.page(ActionFilters(statuses=(Status.PENDING,)), limit=1).actions
    return {
        "list page": partial(_page, management, ActionFilters(), _PAGE),
        "list page of the failed, the oldest": partial(
            _page, management, ActionFilters(statuses=(Status.FAILED,)), _RARE
        ),
        "list page of a team": partial(_page, management, ActionFilters(team_id=_TEAM), _PAGE),
        "bulk retry, dry run": partial(management.count_matching, ActionFilters(statuses=(Status.FAILED,))),
        "counts": management.counts,
        "counts of a team": partial(management.counts, team_id=_TEAM),
        "show": partial(management.get, waiting.id, team_id=None),
        "explain": partial(explaining.explain, runtime, waiting.id),
    }


def _page(management: ActionOperations, filters: ActionFilters, least: int) -> None:
    """Read pages until `least` actions have been read."""
    found, cursor = 0, None
    while found < least:
        page = management.page(filters, cursor=cursor)
        found, cursor = found + len(page.actions), page.next_cursor
        if cursor is None and found < least:
            raise WrongResultError("actions listed", found=found, expected=least)


def _median_ms(reading: Callable[[], Any]) -> float:
    return median(seconds_of(reading) for _ in range(_CALLS)) * 1000


def _fill(connection: Connection, *, finished: int, waiting: int) -> None:
    both = {"action_type": ACTION_TYPE, "teams": min(100, (finished + waiting) // _PAGE)}
    # A million rows at once take longer than the package allows a statement.
    for first in range(1, finished + 1, _FILLED_AT_ONCE):
        piece = {"first": first, "last": first + _FILLED_AT_ONCE - 1}
        connection.execute(_FILL, {**both, **piece, "count": finished, "rare": _RARE})
    connection.execute(_FILL_WAITING, {**both, "count": waiting, "due": waiting // 10})
    plain_sql.settle_down(connection)
