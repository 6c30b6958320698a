"""Check that 1,000 actions at random instants start on time with a minute cron: `python -m proofs.on_time`.

Exit codes: 0 every action ran once and on time, 1 otherwise. The plot is written to benchmarks/results/.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from benchmarks.databases import connected, databases
from benchmarks.serving import App, gunicorn, make_project
from benchmarks.setting import load
from proofs.on_time.plot import plot
from scheduled_actions.local.cron import seconds_to_next_minute
from scheduled_actions.operations import registry_build

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduled_actions.database.connection import Connection

ACTIONS = 1_000
MINUTES = 3
#: As documented: ticks cover every second, and the last action to start still has its full timeout.
SETTINGS = {"linger_seconds": 65, "max_duration_seconds": 100}
TARGETS_MS = {"p50": 15.0, "p99": 100.0}
PLOT = Path("benchmarks/results/on-time.svg")

_ROOT = Path(__file__).parents[2]
#: Time between the first ping and the first instant, in which handlers are imported.
_LEAD_SECONDS = 5.0
_WARM_UP = 30
_PATIENCE_SECONDS = 60.0

_SCHEDULE = """
insert into scheduled_actions (action_type, payload, scheduled_at)
select 'proof:run', '{}', now() + make_interval(secs => s) from unnest(%s::float8[]) s
returning id
"""
_RESULT = """
select
  extract(epoch from a.scheduled_at)::float8,
  extract(epoch from a.started_at - a.scheduled_at)::float8 * 1000,
  a.status = 'completed' and a.attempts = 1 and (select count(*) from runs r where r.action_id = a.id) = 1
from scheduled_actions a
where a.id = any (%s)
order by a.scheduled_at
"""


def main() -> int:
    """Run the actions, print the results, draw the plot and return the exit code."""
    _print(f"{ACTIONS:,} actions at random instants of {MINUTES} minutes; gunicorn with two workers; load {load()}")
    with databases() as server, tempfile.TemporaryDirectory(prefix="on-time-proof-") as directory:
        project = _project(Path(directory))
        with (
            server.fresh() as dsn,
            connected(dsn) as connection,
            gunicorn(project, dsn, workers=2, settings=SETTINGS) as app,
        ):
            connection.execute("create table runs (action_id uuid not null)")
            with _minute_cron(app) as pings:
                rows = _run(connection, pings)
                pinged = list(pings)
    late = [row[1] for row in rows]
    figures = {"p50": median(late), "p90": quantiles(late, n=10)[8], "p99": quantiles(late, n=100)[98]}
    summary = ", ".join(f"{name} {value:.1f} ms" for name, value in figures.items())
    _print(f"lateness: {summary}, max {max(late):.1f} ms, min {min(late):.1f} ms; load {load()}")
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    PLOT.write_text(plot([(row[0], row[1]) for row in rows], pinged), encoding="utf-8")
    _print(f"plot: {PLOT}")
    return _check(rows, figures)


def _check(rows: Sequence[tuple[float, float, bool]], figures: dict[str, float]) -> int:
    wrong = sum(not once for _, _, once in rows)
    if len(rows) != ACTIONS or wrong:
        _print(f"FAILED: {wrong} of {len(rows)} actions did not run exactly once")
        return 1
    _print(f"each of {len(rows):,} actions ran once")
    missed = [f"{name} over {bound:g} ms" for name, bound in TARGETS_MS.items() if figures[name] > bound]
    if missed:
        _print(f"FAILED: {', '.join(missed)}")
    return 1 if missed else 0


def _run(connection: Connection, pings: list[float]) -> list[tuple[float, float, bool]]:
    """Return the instant, the lateness in milliseconds and whether it ran once, for each action."""
    _print("waiting for the first full minute")
    while not pings:
        time.sleep(0.1)
    connection.execute(_SCHEDULE, [[0.0] * _WARM_UP])
    draw = random.Random(MINUTES)  # noqa: S311 - not a secret
    instants = [_LEAD_SECONDS + draw.uniform(0, 60 * MINUTES) for _ in range(ACTIONS)]
    ids = [row[0] for row in connection.execute(_SCHEDULE, [instants])]
    _print(f"scheduled; {MINUTES} minutes to go")
    time.sleep(max(instants))
    until = time.monotonic() + _PATIENCE_SECONDS
    waiting = "select count(*) from scheduled_actions where status in ('pending', 'processing')"
    while (row := connection.execute(waiting).fetchone()) and row[0] and time.monotonic() < until:
        time.sleep(0.2)
    return [(at, late, bool(once)) for at, late, once in connection.execute(_RESULT, [ids])]


def _project(directory: Path) -> Path:
    """Create a project with the proof's handler and the shipped gunicorn.conf.py."""
    project = make_project(directory)
    shutil.copy(Path(__file__).with_name("handler.py"), project / "handlers" / "proof.py")
    shutil.copy(_ROOT / "gunicorn.conf.py", project)
    registry_build.write(project)
    return project


@contextmanager
def _minute_cron(app: App) -> Iterator[list[float]]:
    """Ping at each full minute, without waiting for the last response; yield the ping times (seconds since 1970)."""
    pinged: list[float] = []
    threads: list[threading.Thread] = []
    is_over = threading.Event()

    def go() -> None:
        while not is_over.wait(seconds_to_next_minute(time.time())):
            threads.append(threading.Thread(target=app.ping, daemon=True))
            threads[-1].start()
            pinged.append(time.time())

    cron = threading.Thread(target=go)
    cron.start()
    try:
        yield pinged
    finally:
        is_over.set()
        cron.join()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
