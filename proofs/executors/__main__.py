"""Let Celery workers run actions while a worker and Redis are killed: `python -m proofs.executors`.

Exit codes: 0 all actions have completed and no action had two live holders, 1 otherwise, 2 something is not installed.
"""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

import click
import psycopg

from benchmarks.databases import databases
from proofs.executors.processes import Processes, write_project
from scheduled_actions import runtime
from scheduled_actions.core import config
from scheduled_actions.executors.store import write_executors

if TYPE_CHECKING:
    from datetime import datetime

NUMBER = 2_000
TYPES = ("video:cut", "video:mix")
_DEADLINE_SECONDS = 110.0
_SHOW_SECONDS, _PAUSE_SECONDS = 3.0, 0.2
_TABLE = """
create table demo_runs (
  number bigint generated always as identity primary key,
  action_id uuid not null,
  pid integer not null,
  started_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz
)
"""
#: Two holders: two runs of an action of which the first had neither ended nor been killed when the second one began.
_SUMMARY = """
select
  count(*) filter (where status = 'completed'),
  (select count(*) from demo_runs),
  count(*) filter (where attempts > 1),
  (
    select count(*)
    from demo_runs a
    join demo_runs b on b.action_id = a.action_id and b.number > a.number
    where b.started_at
      < coalesce(a.ended_at, case when a.pid = any (%(killed)s) then %(killed_at)s::timestamptz end, 'infinity')
  )
from scheduled_actions
"""


class Summary(NamedTuple):
    """What the ledger and the actions say at the end."""

    completed: int
    runs: int
    #: Number of actions with a second attempt.
    charged_again: int
    two_holders: int
    seconds: float

    def is_good(self, number: int) -> bool:
        """Return whether every action has completed, and no action had two live holders."""
        return self.completed == number and self.two_holders == 0


def main(number: int = NUMBER) -> int:
    """Run the actions, print what happens and return the exit code."""
    if missing := _missing():
        click.echo(missing, err=True)
        return 2
    # Rescued actions are expected here.
    logging.getLogger("scheduled_actions").setLevel(logging.CRITICAL)
    with databases() as server, server.fresh() as dsn, tempfile.TemporaryDirectory() as name:
        summary = play(Path(name), dsn, number)
    click.echo(f"{summary.completed:,} of {number:,} actions completed in {summary.seconds:.0f} seconds.")
    click.echo(f"Runs: {summary.runs:,}; actions with a second attempt: {summary.charged_again}")
    click.echo(f"Actions with two live holders: {summary.two_holders}")
    return 0 if summary.is_good(number) else 1


def _missing() -> str | None:
    if shutil.which("redis-server") is None:
        return "redis-server is not installed: apt-get install redis-server"
    if find_spec("celery") is None or find_spec("redis") is None:
        return "Celery with Redis is not installed: make install"
    return None


def play(directory: Path, dsn: str, number: int) -> Summary:
    """Run the actions on two workers; kill a worker after a quarter of them and Redis after the half.

    Args:
        directory: An empty directory, for the project.
        dsn: The project's database.
        number: Number of actions.
    """
    write_project(directory)
    began = time.monotonic()
    with Processes(directory, dsn) as processes, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_TABLE)
        project = runtime.Runtime(config.load(directory, processes.environ))
        try:
            write_executors(connection, project.config.settings.executors, replace=True)
            project.scheduler.schedule_actions([{"action_type": TYPES[n % 2], "payload": {}} for n in range(number)])
            processes.start_worker()
            processes.start_worker()
            click.echo(f"{number:,} actions of {len(TYPES)} types; Redis and two Celery workers are running")
            killed_at = _run(project, processes, connection, number, began)
        finally:
            project.close()
        parameters = {"killed": processes.killed, "killed_at": killed_at}
        values = connection.execute(_SUMMARY, parameters).fetchone()
    assert values is not None
    completed, runs, charged_again, two_holders = values
    return Summary(completed, runs, charged_again, two_holders, time.monotonic() - began)


def _run(
    project: runtime.Runtime, processes: Processes, connection: psycopg.Connection[Any], number: int, began: float
) -> datetime | None:
    """Run ticks until all actions have completed; return when the worker was killed, by the database's clock."""
    killed_at: datetime | None = None
    has_lost_redis = False
    shown = 0.0
    while time.monotonic() - began < _DEADLINE_SECONDS:
        project.processor.tick()
        [done] = _row(connection, "select count(*) from scheduled_actions where status = 'completed'")
        if done == number:
            break
        if killed_at is None and done >= number // 4:
            processes.kill_worker()
            [killed_at] = _row(connection, "select clock_timestamp()")
            processes.start_worker()
            click.echo(f"{done:,} done: a worker was killed, and another one starts")
        elif not has_lost_redis and done >= number // 2:
            has_lost_redis = True
            processes.restart_redis()
            click.echo(f"{done:,} done: Redis was killed, has lost its messages, and is running again")
        elif time.monotonic() - shown > _SHOW_SECONDS:
            shown = time.monotonic()
            [media] = project.executors.find()
            click.echo(f"{done:,} done, {media.due:,} due, {media.untaken:,} untaken tickets")
        time.sleep(_PAUSE_SECONDS)
    return killed_at


def _row(connection: psycopg.Connection[Any], query: LiteralString) -> Any:  # noqa: ANN401 - the columns of the query
    return connection.execute(query).fetchone()


if __name__ == "__main__":
    sys.exit(main())
