"""Actions run at their instant by lingering ticks, pings after commits and a listener; each action runs once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median, quantiles

import pytest

from tests.faults.ledger import overlaps
from tests.faults.serving import has_ended, wait_until

pytestmark = pytest.mark.slow

SCHEDULERS = 2
THREADS = 8
#: Number of actions that run before a process is started or stopped.
ENOUGH = 60
#: A shortened minute in seconds, and how much longer a tick lingers.
MINUTE = 4.0
OVERLAP = 3.0
MINUTES = 3
#: Handlers in these tests return immediately, so an action that starts this late was not started on time.
LATEST = 2.0


def test_linger_wake_and_listen_together_run_every_action_once(  # noqa: PLR0917 - fixtures
    serve, actions, ledger, environ, tmp_path, record_property
):
    service = serve(workers=2, linger_seconds=4, max_run_seconds=1, max_duration_seconds=35)
    url = {"SCHEDULED_ACTIONS_URL": f"http://127.0.0.1:{service.port}"}

    with Cron(service, every=1.0) as cron, ExitStack() as stack:
        schedulers = [stack.enter_context(_scheduler(environ | url, seed)) for seed in range(SCHEDULERS)]
        _wait_for(lambda: ledger.ended().total(), "actions run without a listener")
        with listener(environ, tmp_path / "listen.log") as listening:
            _wait_for(lambda: ledger.ended()[listening.pid], "the listener runs actions")
            stopped(listening)
        by_listener = ledger.ended()[listening.pid]
        before = ledger.ended().total()
        _wait_for(lambda: ledger.ended().total() - before, "actions run after the listener has ended")
        count = sum(int(scheduler.communicate(timeout=120)[0]) for scheduler in schedulers)
        wait_until(actions.are_settled, within=60, what="all actions are settled")

    runs = ledger.runs()
    assert Counter(Counter(run.action_id for run in runs).values()) == {1: count}
    assert actions.statuses() == {"completed": count}
    assert {row["attempts"] for row in actions.all()} == {1}
    assert overlaps(runs) == []
    assert (actions.holds(), actions.open_ticks()) == (0, 0)
    assert set(cron.statuses) == {200}
    woken, lingering = _processed_by(actions, "scheduled-actions-wake"), _processed_by(actions, "")
    assert min(woken, lingering) > 0, "each of the three ran actions"
    record_property(
        "measured",
        f"{count} actions: {lingering} by lingering, {woken} woken, {by_listener} by listen; "
        f"{summary(lateness(actions, runs))}",
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_a_minute_cron_with_lingering_runs_every_action_on_time(workers, serve, actions, ledger, record_property):
    count, draw = 40 * MINUTES, random.Random(1)
    service = serve(workers=workers, linger_seconds=MINUTE + OVERLAP, max_run_seconds=1, max_duration_seconds=40)

    with Cron(service, every=MINUTE) as cron:
        wait_until(lambda: actions.open_ticks() == 1, within=30, what="the first tick lingers")
        first = ledger.now() + timedelta(seconds=1)
        instants = [first + timedelta(seconds=draw.uniform(0, MINUTE * MINUTES)) for _ in range(count)]
        actions.schedule(
            *({"action_type": "proof:work", "payload": {}, "scheduled_at": at.isoformat()} for at in instants)
        )
        wait_until(actions.are_settled, within=60, what="all actions are settled")

    runs = ledger.runs()
    assert Counter(Counter(run.action_id for run in runs).values()) == {1: count}
    late = lateness(actions, runs)
    assert max(late) < LATEST
    assert min(late) >= 0
    assert [answer.report["busy"] for answer in cron.answers] == [False] * len(cron.answers)
    assert len(cron.answers) > MINUTES
    handed_over = [answer.seconds for answer in cron.answers[: MINUTES - 1]]
    assert max(handed_over) < MINUTE + OVERLAP - 1, "a newer ping replaces the older one, which is answered"
    record_property("measured", summary(late))


@pytest.mark.parametrize("asked", ["worker", "master"])
def test_a_lingering_worker_exits_immediately_after_sigterm(asked, serve, actions, record_property):
    service = serve(workers=1, linger_seconds=60, max_duration_seconds=100)
    [worker] = service.workers()

    with Cron(service, every=600.0) as cron:
        wait_until(lambda: actions.open_ticks() == 1, within=30, what="the tick lingers")
        os.kill(worker if asked == "worker" else service.master, signal.SIGTERM)
        began = time.monotonic()
        wait_until(lambda: has_ended(worker), within=60, what="the worker has ended")
        took = time.monotonic() - began

    assert [answer.status for answer in cron.answers] == [200]
    assert actions.open_ticks() == 0
    assert took < 12, "about a tenth of the time that it would have lingered"
    record_property("measured", f"ended after {took:.2f} s")


class Cron:
    """Pings at a fixed interval, whether or not the last ping has been answered."""

    def __init__(self, service, *, every):
        #: In the order of arrival.
        self.answers = []
        self.statuses = Counter()
        self._service = service
        self._every = every
        self._stop = threading.Event()
        self._pings = []
        self._thread = threading.Thread(target=self._go)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in [self._thread, *self._pings]:
            thread.join(timeout=60)

    def _go(self):
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            self._pings.append(threading.Thread(target=self._ping))
            self._pings[-1].start()
            due += self._every

    def _ping(self):
        answer = self._service.ping()
        self.statuses[answer.status] += 1
        self.answers.append(answer)


@contextmanager
def listener(environ, log):
    """Start `scheduled-actions listen`; end it when the block ends."""
    command = [sys.executable, "-m", "scheduled_actions.cli", "listen"]
    with ExitStack() as stack:
        process = subprocess.Popen(
            command, env=environ, cwd=environ["SCHEDULED_ACTIONS_PROJECT"], stdout=stack.enter_context(log.open("wb"))
        )
        stack.callback(process.wait, timeout=10)
        stack.callback(process.kill)
        yield process


def stopped(process):
    """Send SIGTERM to a process, and require that it exits with status 0."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


def _scheduler(environ, seed):
    command = [sys.executable, Path(__file__).with_name("schedule_soon.py"), str(THREADS), str(seed)]
    return subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _wait_for(count, what):
    wait_until(lambda: count() >= ENOUGH, within=240, what=what)


def _processed_by(actions, caller):
    """Return the number of actions that the ticks of a caller have settled."""
    found = actions.connection.execute(
        "select coalesce(sum((counts ->> 'processed')::int), 0) from scheduled_action_ticks where caller = %s", [caller]
    )
    return found.fetchone()[0]


def lateness(actions, runs):
    """Return how many seconds after its instant each handler started, both by the database's clock."""
    due = {row["id"]: row["scheduled_at"] for row in actions.all()}
    return [(run.started_at - due[run.action_id]).total_seconds() for run in runs]


def summary(late):
    """Return a readable summary of the lateness."""
    return (
        f"late by {median(late) * 1000:.0f} ms (median), {quantiles(late, n=100)[98] * 1000:.0f} ms (99th percentile), "
        f"{max(late) * 1000:.0f} ms (most)"
    )
