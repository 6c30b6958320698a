"""Checks of the build output and of the running function."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from proofs.vercel.tools import ProofFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from proofs.vercel.building import Built
    from proofs.vercel.host import Host

_PATH = "/cron/process"
#: Files that `vercel.json` excludes from the function.
_EXCLUDED = (".env", ".env.local", "tests/*", "docs/*", "benchmarks/*", ".scheduled_actions/*", ".vercel/*")
#: A handler of the project that needs only the database.
_ACTION_TYPE = "maintenance:prune"
_MANY = 250
#: The deadline of the checks that bound a tick.
_SHORT_SECONDS = 12.0
#: Delay until the action of the lingering tick is due, and its maximum lateness.
_DUE_SECONDS = 3.0
_LATE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Running:
    """The running function, its secret and a connection to its database."""

    host: Host
    secret: str
    connection: psycopg.Connection[tuple[Any, ...]]

    @property
    def bearer(self) -> dict[str, str]:
        """The headers of Vercel's cron."""
        return {"Authorization": f"Bearer {self.secret}", "user-agent": "vercel-cron/1.0"}

    def schedule(self, count: int, *, in_seconds: float = 0) -> None:
        """Schedule actions that are due in `in_seconds`."""
        self.connection.execute(
            "select count(s.id) from generate_series(1, %s) n cross join lateral schedule_action("
            "%s, jsonb_build_object('limit', n), dedup_window => 0,"
            " scheduled_at => scheduled_actions_now() + make_interval(secs => %s)) s",
            [count, _ACTION_TYPE, in_seconds],
        )

    def statuses(self) -> dict[str, int]:
        """Return the number of actions by status."""
        rows = self.connection.execute("select status, count(*) from scheduled_actions group by status")
        return dict(rows.fetchall())

    def one(self, query: str) -> Any:  # noqa: ANN401 - a value of any type
        """Return the single value of a query; None without a row."""
        row = self.connection.execute(query).fetchone()
        return None if row is None else row[0]


def expect(what: str, found: object, expected: object) -> None:
    """Check that two values are equal.

    Raises:
        ProofFailedError: They differ; the message shows both.
    """
    if found != expected:
        message = f"{what}: {found!r}, expected {expected!r}"
        raise ProofFailedError(message)


def of_the_build(built: Built) -> Iterator[str]:
    """Check the build output; yield a line for each verified fact."""
    crons = built.output.get("crons")
    expect("crons of the output", crons, [{"path": _PATH, "schedule": "* * * * *"}])
    yield f"the cron pings {_PATH} each minute"
    expect("maxDuration of the function", built.config.get("maxDuration"), 60)
    yield "the function may run for 60 seconds: `functions` of vercel.json matches the entry point"
    files = [str(path.relative_to(built.directory)) for path in built.directory.rglob("*") if path.is_file()]
    expect("files that should be excluded", [one for one in files if _is_excluded(one)], [])
    megabytes = sum((built.directory / one).stat().st_size for one in files) / 2**20
    yield f"no secrets, tests, documentation or embedded database among its {len(files):,} files of {megabytes:.0f} MB"
    expect("the registry is in the function", "handlers/_registry.py" in files, True)  # noqa: FBT003 - what is expected
    expect("the build script ran", "handlers/_registry.py:" in built.said, True)  # noqa: FBT003
    yield f"the build wrote the registry; it runs on {built.config.get('runtime')}"


def _is_excluded(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in _EXCLUDED)


def health(running: Running) -> str:
    """Check that the health endpoint responds without a secret."""
    expect("status of /healthz", running.host.request("GET", "/healthz").status, 200)
    return f"/healthz responds; cold start {running.host.cold_start_milliseconds} ms, as reported by the runtime"


def refusal(running: Running) -> str:
    """Check that the cron endpoint refuses requests without the secret, and never redirects."""
    for headers in ({}, {"Authorization": "Bearer wrong-secret"}):
        expect("status without the secret", running.host.request("GET", _PATH, headers=headers).status, 401)
    head = running.host.request("HEAD", _PATH, headers=running.bearer)
    expect("status of HEAD", head.status, 204)
    slash = running.host.request("GET", f"{_PATH}/", headers=running.bearer)
    expect("status with a slash", slash.status, 200)
    return "401 without the secret; HEAD processes nothing; no redirect with a slash"


def ticks(running: Running) -> str:
    """Check that GET and POST with Vercel's header process due actions."""
    for method in ("GET", "POST"):
        running.schedule(5)
        answer = running.host.request(method, _PATH, headers=running.bearer)
        expect(f"status of {method}", answer.status, 200)
        expect(f"Cache-Control of {method}", answer.headers.get("Cache-Control"), "no-store")
        report = answer.json
        counts = {name: report[name] for name in ("success", "processed", "succeeded", "remaining", "errors")}
        expect(
            f"report of {method}",
            counts,
            {"success": True, "processed": 5, "succeeded": 5, "remaining": 0, "errors": []},
        )
    expect("statuses", running.statuses(), {"completed": 10})
    return "GET and POST with `Authorization: Bearer $CRON_SECRET` process and report due actions"


def overlaps(running: Running) -> str:
    """Check that simultaneous pings, which Vercel's cron may send, run every action once."""
    before = running.statuses().get("completed", 0)
    running.schedule(_MANY)
    with ThreadPoolExecutor(4) as pool:
        pings = [pool.submit(running.host.request, "GET", _PATH, headers=running.bearer) for _ in range(4)]
        answers = [ping.result() for ping in pings]
    expect("statuses of overlapping pings", {answer.status for answer in answers}, {200})
    _drain(running)
    expect("actions processed by simultaneous pings", running.statuses(), {"completed": before + _MANY})
    expect("attempts", running.one("select max(attempts) from scheduled_actions"), 1)
    return f"4 simultaneous pings with {_MANY} due actions: each ran once"


def deadline(running: Running) -> str:
    """Check that the tick's budget ends before the function's deadline."""
    answer = running.host.request("GET", _PATH, headers=running.bearer, deadline_seconds=_SHORT_SECONDS)
    expect("status", answer.status, 200)
    seconds = running.one(
        "select (budget ->> 'max_duration_seconds')::float from scheduled_action_ticks order by started_at desc limit 1"
    )
    if not _SHORT_SECONDS - 3 <= seconds <= _SHORT_SECONDS:
        message = f"max_duration_seconds of a tick with {_SHORT_SECONDS:g} seconds left: {seconds}"
        raise ProofFailedError(message)
    return f"with {_SHORT_SECONDS:g} s left, a tick limits itself to {seconds:.1f} s (`vercel_runtime.get_deadline()`)"


def lingering(running: Running) -> str:
    """Check that a lingering tick runs actions that become due, and responds before the function's deadline."""
    running.schedule(1, in_seconds=_DUE_SECONDS)
    answer = running.host.request("GET", _PATH, headers=running.bearer, deadline_seconds=_SHORT_SECONDS)
    expect("status", answer.status, 200)
    late = running.one(
        "select extract(epoch from started_at - scheduled_at)::float from scheduled_actions"
        " order by scheduled_at desc limit 1"
    )
    if late is None or late > _LATE_SECONDS:
        message = f"an action due {_DUE_SECONDS:g} s into a lingering tick started late by {late} s"
        raise ProofFailedError(message)
    if answer.seconds_left <= 0:
        message = f"a lingering tick responded {-answer.seconds_left:.1f} s after the function's deadline"
        raise ProofFailedError(message)
    return (
        f"lingering: an action due {_DUE_SECONDS:g} s into the tick started {late * 1000:.0f} ms late, "
        f"and the tick responded {answer.seconds_left:.1f} s before its deadline"
    )


def _drain(running: Running) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        report = running.host.request("GET", _PATH, headers=running.bearer).json
        if not report["remaining"] and not report["busy"]:
            return
    raise ProofFailedError("the backlog was not drained within 30 seconds")


#: Checks with the shipped settings, in this order.
AS_SHIPPED: tuple[Callable[[Running], str], ...] = (health, refusal, ticks, overlaps, deadline)
#: Checks of a function whose ticks linger longer than any of its requests may take.
LINGERING: tuple[Callable[[Running], str], ...] = (lingering,)
LINGERING_SETTINGS = {
    "SCHEDULED_ACTIONS_LINGER_SECONDS": "65",
    "SCHEDULED_ACTIONS_DEFAULT_TIMEOUT_SECONDS": "5",
    "SCHEDULED_ACTIONS_MAX_DURATION_SECONDS": "70",
}
