"""Series that run an occurrence only if the previous one has completed, in real ticks with a fixed clock."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from scheduled_actions import Delays, action
from scheduled_actions.schedules import operations
from tests.factories import NOW, PATIENCE, projects, row, set_clock, wait_until

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class Handler:
    """A handler that fails while `fails` is set, and waits for `leave` while it is unset."""

    def __init__(self):
        self.fails, self.entered, self.leave = False, threading.Semaphore(0), threading.Event()
        self.leave.set()

        @action("test:run", timeout_seconds=15, max_attempts=1)
        def handle(payload: dict):
            self.entered.release()
            self.leave.wait(PATIENCE)
            if self.fails:
                raise ValueError

        self.handle = handle


@pytest.fixture
def handler():
    return Handler()


@pytest.fixture
def projects_of(database_url, connection, handler):
    """Return a function that creates a project with the handler; the clock is set to NOW."""
    set_clock(connection, NOW)
    with projects(database_url) as create:
        yield lambda: create(handler.handle)


@pytest.fixture
def project(projects_of):
    return projects_of()


def series(project, rule="daily", **options):
    return project.schedules.schedule_recurring(
        "test:run", {}, rule, **{"name": "import", "requires_previous": True, **options}
    )


def tick(project, connection, *moments):
    for moment in moments:
        set_clock(connection, NOW + moment)
        project.processor.tick()


def occurrences(connection):
    """Return the id, the status and the reason of each occurrence, in order."""
    return connection.execute(
        "select id, status, error_message from scheduled_actions where occurrence_at is not null order by occurrence_at"
    ).fetchall()


def statuses(connection):
    return [status for _, status, _ in occurrences(connection)]


def fail_first(project, connection, handler):
    """Let the first occurrence fail, and the later ones succeed; return the id of the first."""
    handler.fails = True
    tick(project, connection, DAY)
    handler.fails = False
    return occurrences(connection)[0][0]


def test_occurrences_are_skipped_after_a_failed_one_until_its_retry_has_completed(project, connection, handler):
    series(project)
    first = fail_first(project, connection, handler)
    tick(project, connection, 2 * DAY, 3 * DAY)
    assert statuses(connection) == ["failed", "skipped", "skipped", "pending"]
    assert [reason for _, status, reason in occurrences(connection) if status == "skipped"] == [
        f"requires_previous: the occurrence of {NOW + DAY:%Y-%m-%d %H:%M:%SZ} ({first}) failed"
    ] * 2

    project.scheduler.retry_action(first)
    tick(project, connection, 3 * DAY + HOUR, 4 * DAY)

    assert statuses(connection) == ["completed", "skipped", "skipped", "completed", "pending"]
    assert project.schedules.get("import").skipped == 2


def test_a_manual_run_that_completes_lets_the_series_continue(project, connection, handler):
    series(project)
    fail_first(project, connection, handler)
    set_clock(connection, NOW + DAY + HOUR)
    operations.run_now(project.schedules, "import")

    tick(project, connection, DAY + HOUR, 2 * DAY)

    assert statuses(connection) == ["failed", "completed", "pending"]


def test_a_manual_run_before_the_failure_does_not_count(project, connection, handler):
    series(project)
    operations.run_now(project.schedules, "import")
    project.processor.tick()
    fail_first(project, connection, handler)

    tick(project, connection, 2 * DAY)

    assert statuses(connection) == ["failed", "skipped", "pending"]


def test_a_cancelled_occurrence_holds_up_the_series_and_a_skipped_one_does_not(project, connection):
    schedule = series(project)
    operations.skip_next(project.schedules, "import")
    tick(project, connection, 2 * DAY)
    assert statuses(connection) == ["skipped", "completed", "pending"]

    project.scheduler.cancel_action(project.schedules.get(schedule.id).next_action_id)
    tick(project, connection, 4 * DAY)

    assert statuses(connection) == ["skipped", "completed", "cancelled", "skipped", "pending"]
    assert occurrences(connection)[3][2].endswith("was cancelled")


def test_an_occurrence_is_skipped_while_the_previous_one_waits_for_its_retry(project, connection, handler):
    series(project, max_attempts=2, retry=Delays([2 * 86400]))
    fail_first(project, connection, handler)

    tick(project, connection, 2 * DAY)

    assert statuses(connection) == ["pending", "skipped", "pending"]
    assert occurrences(connection)[1][2].endswith("has not completed yet")


@pytest.mark.parametrize(
    ("overlap", "while_it_runs"),
    [
        ("skip", ["processing", "skipped", "pending"]),
        ("allow", ["processing", "skipped", "pending"]),
        ("queue", ["processing", "pending"]),
    ],
)
def test_while_the_previous_occurrence_runs_the_next_one_is_skipped_or_queued(
    projects_of, connection, handler, overlap, while_it_runs
):
    project, other = projects_of(), projects_of()
    series(project, "every minute", overlap=overlap)
    handler.leave.clear()
    set_clock(connection, NOW + MINUTE)
    first = threading.Thread(target=project.processor.tick)
    first.start()
    assert handler.entered.acquire(timeout=PATIENCE)

    set_clock(connection, NOW + 2 * MINUTE)
    second = threading.Thread(target=other.processor.tick)
    second.start()
    wait_until(lambda: statuses(connection) == while_it_runs)
    handler.leave.set()
    first.join(PATIENCE)
    second.join(PATIENCE)
    other.processor.tick()

    assert statuses(connection) == ["completed", "completed" if overlap == "queue" else "skipped", "pending"]


def test_a_queued_occurrence_is_skipped_if_the_one_before_it_failed(projects_of, connection, handler):
    project = projects_of()
    series(project, "every minute", overlap="queue")
    handler.fails = True

    tick(project, connection, MINUTE, 2 * MINUTE)

    assert statuses(connection) == ["failed", "skipped", "pending"]


@pytest.mark.parametrize(
    ("fails", "ended"), [(False, ["completed"] * 4), (True, ["failed", "skipped", "skipped", "skipped"])]
)
def test_a_catch_up_runs_in_order_and_stops_at_the_first_failure(project, connection, handler, fails, ended):
    series(project, misfire="catch_up", overlap="allow")
    handler.fails = fails

    tick(project, connection, 4 * DAY)

    assert statuses(connection) == [*ended, "pending"]


def test_a_backfill_runs_whatever_happened_before_and_lets_the_series_continue(project, connection, handler):
    series(project)
    fail_first(project, connection, handler)
    tick(project, connection, 4 * DAY)
    assert statuses(connection) == ["failed", "skipped", "pending"]

    operations.backfill(project.schedules, "import", NOW + 3 * DAY, NOW + 4 * DAY)
    tick(project, connection, 4 * DAY, 5 * DAY)

    assert statuses(connection) == ["failed", "skipped", "completed", "completed", "completed", "pending"]


def test_a_rolling_series_is_held_up_until_the_retry_has_completed(project, connection, handler):
    series(project, recurrence_type="rolling")
    first = fail_first(project, connection, handler)
    tick(project, connection, 2 * DAY)
    assert statuses(connection) == ["failed", "skipped", "pending"]

    project.scheduler.retry_action(first)
    tick(project, connection, 2 * DAY + HOUR, 3 * DAY)

    assert statuses(connection) == ["completed", "skipped", "completed", "pending"]


def test_skipped_occurrences_do_not_count_as_failures_and_failed_retries_do(project, connection, handler):
    series(project, pause_after_failures=2)
    first = fail_first(project, connection, handler)
    tick(project, connection, 2 * DAY, 3 * DAY)
    assert (project.schedules.get("import").status, statuses(connection)[1:]) == (
        "active",
        ["skipped", "skipped", "pending"],
    )

    handler.fails = True
    project.scheduler.retry_action(first)
    tick(project, connection, 3 * DAY + HOUR)

    assert project.schedules.get("import").status == "paused"


def test_without_the_option_a_failure_does_not_hold_up_the_series(project, connection, handler):
    series(project)
    fail_first(project, connection, handler)

    project.schedules.update("import", requires_previous=None)
    tick(project, connection, 2 * DAY)

    assert statuses(connection) == ["failed", "completed", "pending"]


@pytest.mark.parametrize("requires_previous", [False, True])
def test_a_retry_and_the_next_occurrence_claimed_together_run_one_after_the_other(
    projects_of, connection, handler, requires_previous
):
    project = projects_of()
    schedule = series(project, "every minute", max_attempts=2, retry=Delays([60]), requires_previous=requires_previous)
    handler.fails = True
    tick(project, connection, MINUTE)
    assert handler.entered.acquire(timeout=PATIENCE)
    handler.fails = False
    handler.leave.clear()

    set_clock(connection, NOW + 2 * MINUTE)
    running = threading.Thread(target=project.processor.tick)
    running.start()
    assert handler.entered.acquire(timeout=PATIENCE)
    assert row(connection, schedule.next_action_id)["status"] == "processing"
    assert statuses(connection) == ["processing", "pending"]
    handler.leave.set()
    running.join(PATIENCE)

    assert statuses(connection) == ["completed", "completed", "pending"]
