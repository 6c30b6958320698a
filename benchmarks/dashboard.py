"""Time to first byte of the dashboard's pages with a million actions, compared with an empty table."""

from __future__ import annotations

import re
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from flask import Flask

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError, seconds_of
from benchmarks.noop import ACTION_TYPE
from benchmarks.serving import runtime_on
from scheduled_actions import ScheduledActions

if TYPE_CHECKING:
    from collections.abc import Callable

    from flask.testing import FlaskClient

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.runtime import Runtime

_CALLS = 8
_TOKEN = "the-admin-token-of-a-benchmark"
#: Completed actions over 30 days, of which 2 % failed, and pending ones over the next 30 days.
#: Number of actions that a statement inserts.
_FILLED_AT_ONCE = 50_000
_FILL = """
insert into scheduled_actions (
  action_type, payload, team_id, status, scheduled_at, started_at, completed_at, attempts, max_attempts, error_message
)
select
  %(action_type)s, jsonb_build_object('n', n), 'team-' || n %% 100,
  case when n %% 50 = 0 then 'failed' else 'completed' end, at.ended, at.ended, at.ended, 1, 3,
  case when n %% 50 = 0 then 'no' end
from generate_series(%(first)s, least(%(last)s, %(count)s)) n
cross join lateral (select now() - interval '30 days' * (%(count)s - n) / %(count)s as ended) at
"""
_FILL_WAITING = """
insert into scheduled_actions (action_type, team_id, scheduled_at, priority)
select %(action_type)s, 'team-' || n %% 100, now() + interval '30 days' * n / %(count)s, n %% 3
from generate_series(1, %(count)s) n
"""


def run(bench: Bench) -> list[Comparison]:
    """Return two comparisons per page: time to first byte, and transferred bytes."""
    count = bench.scale.completed
    environ = {"ADMIN_TOKEN": _TOKEN}
    with (
        bench.databases.fresh() as many,
        bench.databases.fresh() as empty,
        runtime_on(bench.project, many, environ=environ) as large,
        runtime_on(bench.project, empty, environ=environ) as small,
    ):
        bench.say("inserting actions")
        with connected(many) as connection:
            _fill(connection, finished=count, waiting=max(1, count // 100))
        # The "empty" table has one action, for the page of a single action.
        with connected(empty) as connection:
            _fill(connection, finished=0, waiting=1)
        crowded, calm = _Browser(large), _Browser(small)
        measures: dict[str, Callable[[], float]] = {
            f"{name} {size}": partial(browser.first_byte_ms, path)
            for size, browser in (("many", crowded), ("empty", calm))
            for name, path in browser.pages().items()
        }
        names = list(calm.pages())
        took = bench.take_turns(measures)
        costs = {name: (crowded.cost(crowded.pages()[name]), calm.cost(calm.pages()[name])) for name in names}
    return [
        *(
            Comparison(
                name=f"first byte of {name}, {count:,} completed",
                baseline_name="an empty table",
                unit="ms",
                measured=took[f"{name} many"],
                baseline=took[f"{name} empty"],
                target=Target("ratio", "at most", 2),
            )
            for name in names
        ),
        *(
            Comparison(
                name=f"{name} with its {busy[1]} requests, {count:,} completed",
                baseline_name="an empty table",
                unit="KB",
                measured=[busy[0] / 1024],
                baseline=[idle[0] / 1024],
                target=Target("measured", "at most", 100),
            )
            for name, (busy, idle) in costs.items()
        ),
    ]


class _Browser:
    """A signed-in client that calls the application in process, without a network."""

    def __init__(self, runtime: Runtime) -> None:
        app = Flask("benchmark", static_folder=None)
        ScheduledActions(app, runtime=runtime)
        self._client: FlaskClient = app.test_client()
        with runtime.database.connection() as connection:
            row = connection.execute("select id from scheduled_actions order by id desc limit 1").fetchone()
        self._action = None if row is None else row[0]
        csrf = re.search(r'name="csrf" value="([^"]+)"', self._get("/login"))
        sent: dict[str, Any] = {"csrf": csrf[1] if csrf else "", "token": _TOKEN}
        self._client.post("/dashboard/login", data=sent)

    def pages(self) -> dict[str, str]:
        """Return the measured pages: path by name."""
        return {"overview": "", "actions": "/actions", "one action": f"/actions/{self._action}", "month": "/calendar"}

    def first_byte_ms(self, path: str) -> float:
        """Return the median time of a page in milliseconds."""
        self._get(path)
        return median(seconds_of(partial(self._get, path)) for _ in range(_CALLS)) * 1000

    def cost(self, path: str) -> tuple[int, int]:
        """Return the bytes and requests of a page with its assets, for a browser with an empty cache."""
        text = self._get(path)
        loaded = re.findall(r'(?:src|href)="(/dashboard/static/[^"]+)"', text)
        sizes = [len(self._client.get(one, headers={"Accept-Encoding": "gzip"}).data) for one in loaded]
        return len(text.encode()) + sum(sizes), 1 + len(loaded)

    def _get(self, path: str) -> str:
        response = self._client.get(f"/dashboard{path}")
        if response.status_code != 200:
            raise WrongResultError(f"status of {path or '/'}", found=response.status_code, expected=200)
        return response.text


def _fill(connection: Connection, *, finished: int, waiting: int) -> None:
    # A million rows at once take longer than the package allows a statement.
    for first in range(1, finished + 1, _FILLED_AT_ONCE):
        connection.execute(
            _FILL,
            {"action_type": ACTION_TYPE, "count": finished, "first": first, "last": first + _FILLED_AT_ONCE - 1},
        )
    connection.execute(_FILL_WAITING, {"action_type": ACTION_TYPE, "count": waiting})
    plain_sql.settle_down(connection)
