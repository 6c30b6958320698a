"""If a retry policy of the project fails, its action is retried with the default delay; no other is affected."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest

from scheduled_actions import Delays, action
from tests.factories import NOW, PATIENCE, insert, projects, row, set_clock, statuses

#: The default policy of the project, which applies if the handler's policy fails.
BASE_SECONDS = 60


class Policy:
    """A policy that returns a value, or raises it if it is an exception."""

    def __init__(self, answer):
        self.answer = answer

    def delay(self, attempt, *, draw):
        answer = self.answer() if callable(self.answer) else self.answer
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def a_project(database_url, connection):
    """Return a function that creates a project whose handler of `test:run` fails and has a retry policy."""
    set_clock(connection, NOW)

    @action("test:other")
    def other(payload: dict) -> None:
        """Do nothing."""

    with projects(database_url) as make:

        def a_project(policy, *, fail=None, **settings):
            @action("test:run", retry=policy, max_attempts=3, timeout_seconds=settings.pop("timeout_seconds", 20))
            def handle(payload: dict):
                if fail is not None:
                    fail()
                raise ValueError("no")

            return make(handle, other, retry_base_seconds=BASE_SECONDS, **settings)

        yield a_project


def tried(project, connection):
    """Tick with one action that fails and ten others; return the delay of its retry, and its error."""
    failing = insert(connection, action_type="test:run", scheduled_at=NOW)
    others = [insert(connection, action_type="test:other", scheduled_at=NOW) for _ in range(10)]
    report = project.processor.tick()
    assert [statuses(connection)[one] for one in others] == ["completed"] * 10
    assert (report.succeeded, report.retried) == (10, 1)
    found = row(connection, failing)
    assert (found["status"], found["attempts"]) == ("pending", 1)
    waits = connection.execute("select scheduled_at - %s from scheduled_actions where id = %s", [NOW, failing])
    return waits.fetchone()[0], found["error_message"]


def test_a_policy_defines_the_delay_of_a_retry(a_project, connection):
    wait, error = tried(a_project(Policy(timedelta(seconds=7))), connection)

    assert wait == timedelta(seconds=7)
    assert error.startswith("ValueError: no")
    assert "policy" not in error


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (ZeroDivisionError("division"), "it raised ZeroDivisionError: division"),
        (ValueError("it returned"), "it raised ValueError: it returned"),
        (SystemExit(2), "raised SystemExit"),
        (60, "it returned 60"),
        (float("nan"), "it returned nan"),
        (None, "it returned None"),
        ("soon", "it returned 'soon'"),
        (timedelta(days=400), "it returned 400 days"),
        (timedelta.max, "it returned 999999999 days"),
        (timedelta(seconds=-1), "it returned -1 day"),
    ],
)
def test_a_policy_that_fails_is_replaced_by_the_projects_and_reported(a_project, connection, answer, problem):
    wait, error = tried(a_project(Policy(answer)), connection)

    assert wait == timedelta(seconds=BASE_SECONDS)
    assert error.startswith("ValueError: no")
    assert f"the retry policy failed: {problem}" in error.replace('the function "retry:test:run" ', "")


def test_a_policy_that_hangs_is_abandoned_and_not_called_until_it_returns(a_project, connection):
    released, calls = threading.Event(), []

    def hang():
        calls.append(1)
        released.wait(PATIENCE)

    project = a_project(Policy(hang), function_timeout_seconds=0.1)
    wait, error = tried(project, connection)
    assert wait == timedelta(seconds=BASE_SECONDS)
    assert "did not return within 0.1 s" in error

    connection.execute("delete from scheduled_actions")
    wait, error = tried(project, connection)
    released.set()
    assert wait == timedelta(seconds=BASE_SECONDS)
    assert "is still running" in error
    assert calls == [1]


def test_a_policy_applies_after_a_timeout_without_a_call_on_the_ticks_thread(a_project, connection):
    threads = []

    def answer():
        threads.append(threading.current_thread())
        return timedelta(seconds=7)

    released = threading.Event()
    project = a_project(Policy(answer), fail=lambda: released.wait(PATIENCE), timeout_seconds=0.1)
    wait, error = tried(project, connection)
    released.set()

    assert wait == timedelta(seconds=7)
    assert "timed out" in error
    assert threading.current_thread() not in threads


def test_the_policy_of_an_action_precedes_a_handlers_policy_that_hangs(a_project, connection):
    def hang():
        time.sleep(PATIENCE)

    project = a_project(Policy(hang))
    failing = insert(connection, action_type="test:run", scheduled_at=NOW, retry=Delays([5]).as_json())
    before = time.monotonic()
    project.processor.tick()

    assert time.monotonic() - before < PATIENCE / 2
    assert "policy" not in row(connection, failing)["error_message"]
