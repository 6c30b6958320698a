"""A worker claims, takes over, runs and settles the actions of its executor, and nothing else."""

from __future__ import annotations

import threading
import time
from collections import Counter
from datetime import timedelta

import pytest
from psycopg.types.json import Jsonb

from scheduled_actions import Context, Fail, Snooze, action
from scheduled_actions.core.errors import DatabaseUnavailable, UnknownExecutor
from scheduled_actions.executors import ready, worker as worker_module
from scheduled_actions.executors.worker import WorkerOptions
from scheduled_actions.ticks.rules import plan
from tests.factories import PATIENCE, insert, insert_many, move_clock, row, statuses, wait_until

ONCE = WorkerOptions(until_idle=True)
#: Waits for a state that is never reported.
WAITING = {"wait": {"kind": "document_state", "target": {"type": "film", "id": "1"}, "state": "approved"}}


def a_handler(answer=None, action_type="video:cut", **options):
    """Return a handler that returns the value, or raises it if it is an exception."""

    @action(action_type, **options)
    def handle(payload: dict):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return handle


class Held:
    """A handler that runs until it is let go."""

    def __init__(self, action_type="video:cut", **options):
        self.go, self.started = threading.Event(), []
        self.stopped = []

        @action(action_type, **options)
        def handle(payload: dict, context: Context):
            self.started.append(context.id)
            while not self.go.wait(0.005):
                if context.should_stop:
                    self.stopped.append(context.id)

        self.handler = handle


class Working:
    """A worker on a thread of the test."""

    def __init__(self, project, **options):
        self.project, self.lines, self.reports = project, [], []
        options = WorkerOptions(
            **{"on_outage": self.lines.append, "on_report": self.reports.append, "grace_seconds": PATIENCE} | options
        )
        self._options = options
        self._thread = threading.Thread(target=self._work)

    def _work(self):
        self.report = self.project.executors.work("media", self._options)

    def __enter__(self):
        self._thread.start()
        return self

    def stop(self):
        self.project.executors.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def __exit__(self, *_):
        self.stop()


def test_a_worker_runs_the_due_actions_of_its_types_only(connection, a_project):
    project = a_project(a_handler({"cut": True}), a_handler(action_type="email:send"))
    mine = insert(connection, action_type="video:cut")
    later = insert(connection, action_type="video:cut", scheduled_at="2100-01-01")
    other = insert(connection, action_type="email:send")

    report = project.executors.work("media", ONCE)

    assert (report.processed, report.succeeded, report.errors) == (1, 1, [])
    assert statuses(connection) == {mine: "completed", later: "pending", other: "pending"}
    after = row(connection, mine)
    assert (after["result"], after["attempts"]) == ({"cut": True}, 1)
    assert (after["announced_at"], after["worker_id"], after["executor"]) == (None, None, None)


def test_outcomes_are_those_of_a_tick(connection, a_project):
    outcomes = {"video:fail": Fail("no"), "video:retry": ValueError("again"), "video:snooze": Snooze(60)}
    project = a_project(*(a_handler(answer, name) for name, answer in outcomes.items()))
    ids = {name: insert(connection, action_type=name) for name in outcomes}

    report = project.executors.work("media", ONCE)

    assert (report.failed, report.retried, report.snoozed) == (1, 1, 1)
    found = {name: row(connection, one) for name, one in ids.items()}
    assert {name: one["status"] for name, one in found.items()} == {
        "video:fail": "failed", "video:retry": "pending", "video:snooze": "pending",
    }  # fmt: skip
    workers = connection.execute("select id::text from scheduled_action_workers").fetchone()
    for one in found.values():
        assert one["history"][0]["worker"] == workers[0]
        assert "tick" not in one["history"][0]
    assert connection.execute("select count(*) from scheduled_action_ticks").fetchone() == (0,)


def test_a_build_without_the_handler_stores_no_action_without_an_attempt(connection, a_project):
    project = a_project()
    one = insert(connection, action_type="video:cut")

    report = project.executors.work("media", ONCE)

    after = row(connection, one)
    assert (after["status"], after["attempts"]) == ("no_action", 0)
    assert report.processed == 0
    assert "no handler" in report.errors[0]["error"]
    assert connection.execute("select running from scheduled_action_workers").fetchone() == ([],), "never taken over"


def test_an_action_cancelled_before_it_is_taken_over_never_runs(connection, a_project, monkeypatch):
    held = Held()
    held.go.set()
    project = a_project(held.handler)
    one = insert(connection, action_type="video:cut")
    take_over = worker_module.takeover.take_over

    def cancel_first(own, worker, tickets, **rest):
        project.scheduler.cancel_action(one, by="test")
        return take_over(own, worker, tickets, **rest)

    monkeypatch.setattr(worker_module.takeover, "take_over", cancel_first)

    project.executors.work("media", ONCE)

    after = row(connection, one)
    assert (after["status"], after["attempts"], held.started) == ("cancelled", 0, [])


def test_an_action_whose_condition_does_not_hold_waits_uncharged(connection, a_project):
    project = a_project(a_handler())
    one = insert(connection, action_type="video:cut", condition=Jsonb(WAITING))

    report = project.executors.work("media", ONCE)

    after = row(connection, one)
    worker = connection.execute("select id::text, running from scheduled_action_workers").fetchone()
    assert report.snoozed == 1
    assert (after["status"], after["attempts"], after["executor"]) == ("pending", 0, None)
    assert [(one["outcome"], one["worker"]) for one in after["history"]] == [("waited", worker[0])]
    assert worker[1] == [], "it was never taken over"


def test_only_as_many_slow_actions_are_taken_as_threads_are_free(connection, a_project):
    held = Held()
    project = a_project(held.handler, concurrency=2)
    insert_many(connection, 5, action_type="video:cut")

    with Working(project):
        wait_until(lambda: len(held.started) == 2)
        time.sleep(0.3)
        processing = Counter(statuses(connection).values())
        listed = project.executors.find()
        held.go.set()
        wait_until(lambda: set(statuses(connection).values()) == {"completed"})

    assert processing == {"processing": 2, "pending": 3}
    [media] = listed
    assert (media.due, media.running, media.workers) == (3, 2, 1)
    assert media.last_taken_at is not None


def test_a_notification_starts_an_action_and_without_one_a_look_does_within_a_second(connection, a_project):
    held = Held()
    held.go.set()
    project = a_project(held.handler)

    with Working(project) as working:
        wait_until(lambda: project.executors.find()[0].workers)
        insert(connection, action_type="video:cut")
        wait_until(lambda: len(held.started) == 1)

    assert working.report.succeeded == 1


def test_a_stopped_worker_lets_handlers_end_starts_no_more_and_releases_the_rest_uncharged(connection, a_project):
    held = Held()
    project = a_project(held.handler, concurrency=1)
    ids = insert_many(connection, 3, action_type="video:cut")

    with Working(project):
        wait_until(lambda: held.started)
        project.executors.stop()
        wait_until(lambda: held.stopped)
        held.go.set()

    found = [row(connection, one) for one in ids]
    assert [(one["status"], one["attempts"]) for one in found] == [("completed", 1), ("pending", 0), ("pending", 0)]
    assert all(one["claim_token"] is None for one in found)
    finished = connection.execute("select finished_at is not null from scheduled_action_workers").fetchall()
    assert finished == [(True,)]


def test_a_stopped_worker_releases_an_action_that_waits_to_run_alone(connection, a_project):
    held = Held()
    project = a_project(held.handler)
    insert(connection, action_type="video:cut")

    with Working(project):
        wait_until(lambda: held.started)
        waiting = insert(
            connection, action_type="video:cut", attempts=1, history=[{"attempt": 1, "outcome": "crashed"}]
        )
        wait_until(lambda: statuses(connection)[waiting] == "processing")
        project.executors.stop()
        wait_until(lambda: held.stopped)
        held.go.set()

    after = row(connection, waiting)
    assert (after["status"], after["attempts"], after["claim_token"]) == ("pending", 1, None)


def test_an_error_that_ends_the_worker_leaves_no_action_claimed(connection, a_project, monkeypatch):
    """For example, its output was closed."""
    monkeypatch.setattr(worker_module, "_REPORT_SECONDS", 0.1)
    held = Held()
    project = a_project(held.handler, a_handler(action_type="video:short"))
    one = insert(connection, action_type="video:cut")

    def fail(report):
        raise BrokenPipeError

    insert(connection, action_type="video:short")
    with pytest.raises(BrokenPipeError):
        project.executors.work("media", WorkerOptions(on_report=fail))
    held.go.set()

    after = row(connection, one)
    assert (after["status"], after["claim_token"], after["attempts"]) == ("pending", None, 1)
    assert "BrokenPipeError" in after["history"][0]["error"]


def test_actions_that_were_taken_over_but_not_started_are_released_uncharged(connection, a_project, monkeypatch):
    # Handlers count as fast on a busy machine, too.
    monkeypatch.setattr(plan, "FAST_SECONDS", 0.2)
    monkeypatch.setattr(ready, "FAST_SECONDS", 0.2)
    may_block, started = threading.Event(), []

    @action("video:cut")
    def cut(payload: dict, context: Context):
        started.append(context.id)
        while may_block.is_set() and not context.should_stop:
            time.sleep(0.005)

    project = a_project(cut, concurrency=1)
    insert_many(connection, 50, action_type="video:cut")

    with Working(project):
        wait_until(lambda: set(statuses(connection).values()) == {"completed"})
        may_block.set()
        ids = insert_many(connection, 50, action_type="video:cut")
        wait_until(lambda: len(started) == 51)
        [[running]] = connection.execute("select cardinality(running) from scheduled_action_workers")
        project.executors.stop()

    assert running > 1, "fast actions are taken over in batches"
    found = Counter((one["status"], one["attempts"]) for one in [row(connection, one) for one in ids])
    assert found == {("completed", 1): 1, ("pending", 0): 49}


def test_a_handler_that_outlasts_the_grace_period_is_abandoned_and_charged(connection, a_project):
    held = Held(max_attempts=3)
    project = a_project(held.handler)
    one = insert(connection, action_type="video:cut")

    with Working(project, grace_seconds=0.2):
        wait_until(lambda: held.started)

    after = row(connection, one)
    held.go.set()
    assert (after["status"], after["attempts"]) == ("pending", 1)
    assert "grace period" in after["error_message"]


def test_a_handler_may_take_longer_than_a_tick(connection, a_project):
    held = Held(timeout_seconds=100)
    project = a_project(held.handler, max_duration_seconds=1.5, max_run_seconds=1, default_timeout_seconds=1)
    one = insert(connection, action_type="video:cut")

    with Working(project):
        wait_until(lambda: held.started)
        time.sleep(2)
        held.go.set()
        wait_until(lambda: statuses(connection)[one] == "completed")

    assert row(connection, one)["attempts"] == 1


def test_a_handler_that_times_out_is_abandoned_and_its_late_result_changes_nothing(connection, a_project, caplog):
    held = Held(timeout_seconds=0.2, max_attempts=1)
    project = a_project(held.handler)
    one = insert(connection, action_type="video:cut")

    with Working(project):
        wait_until(lambda: statuses(connection)[one] == "failed")
        held.go.set()
        wait_until(lambda: "action.stale" in caplog.text)

    assert "timed out" in row(connection, one)["error_message"]


def test_a_running_action_whose_cancellation_is_requested_is_asked_to_stop(connection, a_project):
    held = Held()
    project = a_project(held.handler)
    one = insert(connection, action_type="video:cut")

    with Working(project):
        wait_until(lambda: held.started)
        project.scheduler.cancel_action(one, by="test")
        wait_until(lambda: held.stopped)
        held.go.set()


def test_an_action_that_ended_its_process_runs_alone(connection, a_project):
    held = Held()
    project = a_project(held.handler, concurrency=3)
    ordinary = insert(connection, action_type="video:cut")
    crashed = insert(
        connection, action_type="video:cut", attempts=1, history=[{"attempt": 1, "outcome": "crashed"}], priority=1
    )

    with Working(project):
        wait_until(lambda: held.started)
        time.sleep(1.5)
        first = list(held.started)
        insert_many(connection, 2, action_type="video:cut", priority=2)
        time.sleep(1.5)
        before = list(held.started)
        held.go.set()
        wait_until(lambda: set(statuses(connection).values()) == {"completed"})

    assert first == before
    assert len(first) == 1, first
    assert {ordinary, crashed} == set(held.started[:2])


def test_an_action_that_has_to_run_alone_is_left_to_an_idle_worker(connection, a_project, monkeypatch):
    """The busy worker would otherwise claim it again at once, and keep it until its own handlers have ended."""
    monkeypatch.setattr(ready, "_KEPT_SECONDS", 3.0)
    held, alone = Held(), Held("video:alone")
    alone.go.set()
    busy, idle = (a_project(held.handler, alone.handler) for _ in range(2))
    insert(connection, action_type="video:cut")
    with Working(busy):
        wait_until(lambda: held.started)
        one = insert(connection, action_type="video:alone", history=[{"attempt": 1, "outcome": "crashed"}])
        wait_until(lambda: statuses(connection)[one] == "processing")
        # The workers look at different times, so that the idle one does not happen to look just after the release.
        time.sleep(0.5)
        with Working(idle):
            wait_until(lambda: statuses(connection)[one] == "completed")
            held.go.set()


def test_an_action_that_has_to_run_alone_waits_for_the_running_ones_only(connection, a_project, monkeypatch):
    """After it was released, those of a team that has had fewer turns do not start before it."""
    monkeypatch.setattr(ready, "_KEPT_SECONDS", 0.3)
    monkeypatch.setattr(worker_module, "_OFFER_SECONDS", 0.0)
    monkeypatch.setattr(worker_module, "_LOOK_SECONDS", 0.1)
    started = []

    @action("video:cut")
    def cut(payload: dict):
        started.append("video:cut")
        time.sleep(payload["seconds"])

    @action("video:alone")
    def run_alone(payload: dict):
        started.append("video:alone")

    project = a_project(cut, run_alone)
    insert(connection, action_type="video:cut", team_id="large", payload={"seconds": 1.0})
    with Working(project):
        wait_until(lambda: started)
        alone = insert(
            connection, action_type="video:alone", team_id="small", history=[{"attempt": 1, "outcome": "crashed"}]
        )
        wait_until(lambda: statuses(connection)[alone] == "processing")
        for _ in range(8):
            insert(connection, action_type="video:cut", team_id="large", payload={"seconds": 1.0})
        wait_until(lambda: set(statuses(connection).values()) == {"completed"})

    assert started.index("video:alone") == 1


def test_fast_actions_are_taken_over_in_batches(connection, a_project, monkeypatch):
    project = a_project(a_handler(), concurrency=2)
    ids = insert_many(connection, 300, action_type="video:cut")
    sizes = []
    take_over = worker_module.takeover.take_over

    def count(own, worker, tickets, **rest):
        sizes.append(len(tickets))
        return take_over(own, worker, tickets, **rest)

    monkeypatch.setattr(worker_module.takeover, "take_over", count)

    report = project.executors.work("media", ONCE)

    assert report.succeeded == len(ids)
    assert len(sizes) < 30, sizes


def test_a_worker_survives_an_outage_and_stores_the_results_of_handlers_that_ended_meanwhile(
    connection, a_project, monkeypatch
):
    held = Held()
    project = a_project(held.handler)
    one = insert(connection, action_type="video:cut")
    is_away = threading.Event()
    connect = project.database.connect

    def connect_unless_away():
        if is_away.is_set():
            raise DatabaseUnavailable("it is away")
        return connect()

    monkeypatch.setattr(project.database, "connect", connect_unless_away)

    with Working(project) as working:
        wait_until(lambda: held.started)
        is_away.set()
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        wait_until(lambda: working.lines)
        held.go.set()
        # The outage is longer than a step waits for its connection.
        wait_until(lambda: len(working.lines) == 3)
        before = statuses(connection)[one]
        is_away.clear()
        wait_until(lambda: statuses(connection)[one] == "completed")

    assert before == "processing"
    assert "trying again" in working.lines[0]
    assert row(connection, one)["attempts"] == 1


def test_a_worker_that_starts_while_the_database_is_away_waits_for_it(connection, a_project, monkeypatch):
    held = Held()
    held.go.set()
    project = a_project(held.handler)
    one = insert(connection, action_type="video:cut")
    is_away = threading.Event()
    is_away.set()
    connect = project.database.connect

    def connect_unless_away():
        if is_away.is_set():
            raise DatabaseUnavailable("it is away")
        return connect()

    monkeypatch.setattr(project.database, "connect", connect_unless_away)
    project.database.close()

    with Working(project) as working:
        wait_until(lambda: working.lines)
        is_away.clear()
        wait_until(lambda: statuses(connection)[one] == "completed")

    assert working.lines == ["the database cannot be reached: it is away; trying again in 1 s"]
    assert working.report.succeeded == 1


def test_a_worker_that_waits_for_the_database_ends_at_once_when_it_is_stopped(a_project, monkeypatch):
    project = a_project()

    def refuse():
        raise DatabaseUnavailable("it is away")

    monkeypatch.setattr(project.database, "connect", refuse)
    monkeypatch.setattr(worker_module, "_FIRST_RETRY_SECONDS", 2.0 * PATIENCE)

    with Working(project) as working:
        wait_until(lambda: working.lines)

    assert working.report.processed == 0


def test_a_stopped_worker_says_how_many_handlers_are_running(connection, a_project):
    held, said = Held(), []
    project = a_project(held.handler)
    insert_many(connection, 3, action_type="video:cut")

    with Working(project, on_stop=said.append):
        wait_until(lambda: len(held.started) == 2)
        project.executors.stop()
        wait_until(lambda: said)
        held.go.set()

    assert said == [2]


def test_two_workers_at_once_run_each_action_once(connection, a_project):
    ran = Counter()
    lock = threading.Lock()
    have_begun = [threading.Event(), threading.Event()]

    def handler_of(number):
        @action("video:cut")
        def cut(payload: dict, context: Context):
            have_begun[number].set()
            assert have_begun[1 - number].wait(PATIENCE), "only one worker runs actions"
            with lock:
                ran[context.id] += 1
            time.sleep(0.002)

        return cut

    projects = [a_project(handler_of(number), concurrency=4) for number in range(2)]
    ids = insert_many(connection, 200, action_type="video:cut")

    threads = [threading.Thread(target=one.executors.work, args=["media", ONCE]) for one in projects]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert ran == Counter(ids)
    assert set(statuses(connection).values()) == {"completed"}
    took = connection.execute("select count(*) from scheduled_action_workers where taken_at is not null").fetchone()
    assert took == (2,)


def test_a_worker_never_judges_time_by_its_own_clock(connection, a_project):
    project = a_project(a_handler())
    due = insert(connection, action_type="video:cut", scheduled_at="2099-01-01")
    project.executors.work("media", ONCE)
    before = statuses(connection)[due]

    move_clock(connection, timedelta(days=30000))
    project.executors.work("media", ONCE)

    after = row(connection, due)
    assert (before, after["status"]) == ("pending", "completed")
    assert after["started_at"] > "2099", "instants are those of the database"


def test_an_unknown_executor_is_an_error_with_the_known_ones(a_project):
    project = a_project()

    with pytest.raises(UnknownExecutor, match=r'"medai" is unknown; did you mean "media"\?$'):
        project.executors.work("medai", ONCE)


def test_without_executors_the_error_says_what_to_add(a_project):
    project = a_project(executors={})

    with pytest.raises(UnknownExecutor, match=r"\[executors\.media\]"):
        project.executors.ping("media")
    with pytest.raises(UnknownExecutor, match=r"\[executors\.NAME\]"):
        project.executors.ping("a name with spaces")
