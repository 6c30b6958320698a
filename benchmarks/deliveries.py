"""Webhook deliveries through `/cron/process` under gunicorn, compared with plain `requests`, and hanging endpoints."""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import requests

from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import FULL, Bench, WrongResultError
from benchmarks.receiver import Receiver, receiver
from benchmarks.serving import gunicorn, make_project
from scheduled_actions.core.config import Settings
from scheduled_actions.operations import registry_build
from scheduled_actions.webhooks.rules.throttle import SLOW_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scheduled_actions.database.connection import Connection

#: Threads of both sides: the default of the setting `concurrency`.
_THREADS = Settings().concurrency
#: Endpoints of the third measurement, and how many of them never respond.
_ENDPOINTS, _HANGING = 40, 4
#: Delivered once before the rounds, so that connections are open.
_WARM_UP = 50
_PATIENCE_SECONDS = 90
_SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
_DATA = {"name": "Write the invoices", "state": "open", "priority": 3, "tags": ["a", "b"]}

_FILL = """
insert into scheduled_actions (action_type, payload, scheduled_at, max_attempts)
select 'webhook:send', jsonb_build_object(
    'event', 'task:created', 'entity_type', 'task', 'entity_id', n::text, 'data', %(data)s::jsonb,
    'endpoint', (%(endpoints)s::text[])[1 + n %% cardinality(%(endpoints)s::text[])]
  ), now() - interval '1 minute' + n * interval '1 microsecond', 10
from generate_series(1, %(count)s) n
"""


def run(bench: Bench) -> list[Comparison]:
    """Compare deliveries with plain posts, to fast and slow endpoints, and measure the cost of hanging endpoints."""
    with receiver() as there:
        project = _project(bench, there)
        return [*_rates(bench, project, there), *_with_hanging_endpoints(bench, project, there)]


def _project(bench: Bench, there: Receiver) -> Path:
    """Create a project whose endpoints all point to the receiver."""
    project = make_project(bench.project.parent / "deliveries")
    handler = Path(__file__).parents[1] / "handlers" / "webhook.py"
    (project / "handlers" / "webhook.py").write_text(handler.read_text(encoding="utf-8"), encoding="utf-8")
    registry_build.write(project)
    names = ["fast", "slow", *_names("good"), *_names("hang")]
    (project / "scheduled_actions.toml").write_text(
        "".join(
            f'[webhooks.endpoints.{name}]\nenv_var = "URL_{name.upper()}"\nsecret_env_var = "THE_SECRET"\n'
            for name in names
        ),
        encoding="utf-8",
    )
    paths = {name: {"slow": "slow", "hang": "hang"}.get(name.rstrip("0123456789"), "at-once") for name in names}
    urls = {f"URL_{name.upper()}": f"{there.url}/{path}/{name}" for name, path in paths.items()}
    (project / "environment.json").write_text(json.dumps(urls | {"THE_SECRET": _SECRET}), encoding="utf-8")
    return project


def _names(kind: str) -> list[str]:
    return [f"{kind}{number}" for number in range(_ENDPOINTS)]


def _environ(project: Path) -> dict[str, str]:
    environ: dict[str, str] = json.loads((project / "environment.json").read_text(encoding="utf-8"))
    return environ


def _rates(bench: Bench, project: Path, there: Receiver) -> Iterator[Comparison]:
    fast, slow = bench.scale.deliveries
    with (
        bench.databases.fresh() as dsn,
        connected(dsn) as connection,
        gunicorn(project, dsn, environ=_environ(project)) as app,
    ):

        def delivered(endpoint: str, count: int) -> float:
            _fill(connection, [endpoint], count)
            before = there.seen().posts
            seconds = app.drain()
            _check(count, there.seen().posts - before)
            return count / seconds

        measures = {
            "deliveries": partial(delivered, "fast", fast),
            "requests": partial(_posted, there, "at-once", fast),
            "deliveries, 50 ms": partial(delivered, "slow", slow),
            "requests, 50 ms": partial(_posted, there, "slow", slow),
        }
        for endpoint in ("fast", "slow"):
            delivered(endpoint, _WARM_UP)
        rates = bench.take_turns(measures)
    baseline = f"requests, {_THREADS} sessions"
    yield _rate("deliveries, 1 endpoint", rates["deliveries"], baseline, rates["requests"], 0.8)
    yield _rate("deliveries, answered after 50 ms", rates["deliveries, 50 ms"], baseline, rates["requests, 50 ms"])


def _rate(
    name: str, measured: list[float], baseline_name: str, baseline: list[float], at_least: float | None = None
) -> Comparison:
    target = None if at_least is None else Target("ratio", "at least", at_least)
    return Comparison(
        name=name, baseline_name=baseline_name, unit="posts/s", measured=measured, baseline=baseline, target=target
    )


def _fill(connection: Connection, endpoints: list[str], count: int) -> None:
    connection.execute(_FILL, {"data": json.dumps(_DATA), "endpoints": endpoints, "count": count})


def _posted(there: Receiver, path: str, count: int) -> float:
    """Return the posts per second of plain `requests` sessions, one per thread, with bodies of a delivery's size."""
    body = json.dumps({"event": "task:created", "entity_id": "1", "data": _DATA, "padding": "x" * 150}).encode()
    before = there.seen().posts

    def post(share: int) -> None:
        with requests.Session() as session:
            for _ in range(share):
                session.post(f"{there.url}/{path}/bare", data=body, timeout=15).raise_for_status()

    shares = [count // _THREADS + (number < count % _THREADS) for number in range(_THREADS)]
    started = time.perf_counter()
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(post, shares))
    seconds = time.perf_counter() - started
    _check(count, there.seen().posts - before)
    return count / seconds


def _check(wanted: int, found: int) -> None:
    if found != wanted:
        raise WrongResultError("posts that arrived", found=found, expected=wanted)


def _with_hanging_endpoints(bench: Bench, project: Path, there: Receiver) -> Iterator[Comparison]:
    mixed = [*_names("good")[_HANGING:], *_names("hang")[:_HANGING]]
    seconds = bench.take_turns(
        {
            "4 of 40 hang": partial(_until_last_good, bench, project, there, sorted(mixed, key=_position)),
            "0 of 40 hang": partial(_until_last_good, bench, project, there, _names("good")),
        }
    )
    some_hang, all_good = seconds["4 of 40 hang"], seconds["0 of 40 hang"]
    each = bench.scale.each_endpoint
    yield Comparison(
        name=f"last good delivery, {each} each, {_HANGING} of {_ENDPOINTS} endpoints hanging",
        baseline_name="0 hanging",
        unit="ms",
        measured=some_hang,
        baseline=all_good,
        # With less work, the one-off half second of the next line dominates the ratio.
        target=Target("ratio", "at most", 2) if each >= FULL.each_endpoint else None,
    )
    yield Comparison(
        name="one-off delay of the others by hanging endpoints",
        baseline_name="time until an endpoint counts as slow",
        unit="ms",
        measured=[one - other for one, other in zip(some_hang, all_good, strict=True)],
        baseline=[SLOW_SECONDS * 1000] * len(all_good),
    )


def _position(name: str) -> int:
    """Return the sort position of an endpoint, with the hanging ones spread evenly."""
    number = int(name.lstrip("abcdefghijklmnopqrstuvwxyz"))
    return number * (_ENDPOINTS // _HANGING) + 1 if name.startswith("hang") else number


def _until_last_good(bench: Bench, project: Path, there: Receiver, endpoints: list[str]) -> float:
    """Return the milliseconds from the ping to the last delivery to a good endpoint.

    Each call starts a new process, which knows nothing about the hanging endpoints yet.
    """
    count = bench.scale.each_endpoint * _ENDPOINTS
    good = bench.scale.each_endpoint * sum(name.startswith("good") for name in endpoints)
    with (
        bench.databases.fresh() as dsn,
        connected(dsn) as connection,
        gunicorn(project, dsn, environ=_environ(project)) as app,
    ):
        app.ping()
        _fill(connection, endpoints, count)
        before = there.seen().posts
        started = time.monotonic()
        with _pinging(app.ping):
            while (seen := there.seen()).posts - before < good:
                if time.monotonic() - started > _PATIENCE_SECONDS:
                    raise WrongResultError("good deliveries", found=seen.posts - before, expected=good)
                time.sleep(0.02)
        there.release()
    return (seen.last_at - started) * 1000


@contextmanager
def _pinging(ping: Callable[[], object]) -> Iterator[None]:
    """Ping in the background while the block runs, each time after the previous response."""
    is_over = threading.Event()

    def go_on() -> None:
        # The last ping is aborted, because its hanging deliveries are not awaited.
        with suppress(OSError, http.client.HTTPException, WrongResultError):
            while not is_over.is_set():
                ping()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
