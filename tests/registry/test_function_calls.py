"""Each function of the project runs on its own thread, within a time limit."""

from __future__ import annotations

import contextvars
import threading
import time

import pytest

from scheduled_actions.core.errors import FunctionFailed, FunctionTimedOut
from scheduled_actions.registry import project_functions
from scheduled_actions.registry.project_functions import FunctionCalls, total_time_limit
from tests.factories import PATIENCE, wait_until

SHORT = 0.05


@pytest.fixture
def hanging():
    """Return a function that hangs until its `released` event is set, and counts its calls."""
    released, calls = threading.Event(), []

    def hang():
        calls.append(threading.current_thread())
        released.wait(PATIENCE)
        return "late"

    hang.released, hang.calls = released, calls
    yield hang
    released.set()


def test_a_call_returns_the_result_or_raises_the_exception_of_the_function():
    calls = FunctionCalls()

    assert calls.call("add", lambda one, other: one + other, 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        calls.call("divide", lambda: 1 / 0)


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_an_exit_of_the_function_becomes_an_error_and_the_thread_continues(raised):
    def leave():
        raise raised

    calls = FunctionCalls()
    with pytest.raises(FunctionFailed, match=f'the function "leave" raised {type(raised).__name__}'):
        calls.call("leave", leave)
    assert calls.call("leave", lambda: 1) == 1


def test_a_hanging_call_fails_at_its_limit_and_further_calls_fail_immediately_until_it_returns(hanging):
    calls = FunctionCalls(SHORT)
    with pytest.raises(FunctionTimedOut, match=r'"hang" did not return within 0\.05 s'):
        calls.call("hang", hanging)

    calls.timeout_seconds = PATIENCE
    before = time.monotonic()
    for _ in range(100):
        with pytest.raises(FunctionTimedOut, match="is still running"):
            calls.call("hang", hanging)
    assert time.monotonic() - before < PATIENCE / 2
    assert len(hanging.calls) == 1
    assert calls.call("other", lambda: "well") == "well"

    hanging.released.set()
    wait_until(lambda: _has_returned(calls, hanging))
    assert set(hanging.calls) == {hanging.calls[0]}


def _has_returned(calls, function):
    try:
        return calls.call("hang", function) == "late"
    except FunctionTimedOut:
        return False


def test_waiting_for_another_caller_counts_towards_the_limit(hanging):
    calls = FunctionCalls(PATIENCE)
    first = threading.Thread(target=calls.call, args=["hang", hanging])
    first.start()
    wait_until(lambda: hanging.calls)

    with pytest.raises(FunctionTimedOut, match="was busy"):
        calls.call("hang", hanging, timeout_seconds=SHORT)
    hanging.released.set()
    first.join(PATIENCE)
    assert calls.call("hang", hanging) == "late"


def test_all_calls_in_a_block_share_its_time_limit(hanging):
    calls = FunctionCalls(PATIENCE)
    with total_time_limit(SHORT), total_time_limit(PATIENCE), pytest.raises(FunctionTimedOut):
        calls.call("hang", hanging)


def test_a_function_may_call_itself_by_name():
    calls = FunctionCalls(PATIENCE)

    assert calls.call("twice", lambda: calls.call("twice", lambda: 2)) == 2


def test_a_function_runs_in_an_empty_context():
    held = contextvars.ContextVar("held", default=None)
    held.set("a connection")

    assert FunctionCalls().call("look", held.get) is None


def test_a_timeout_error_raised_by_the_function_is_not_reported_as_an_exceeded_limit():
    def fail():
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        FunctionCalls().call("fail", fail)


class Unprintable:
    def __str__(self):
        raise SystemExit(4)


def test_an_error_that_cannot_be_printed_does_not_end_the_thread():
    def leave():
        raise SystemExit(Unprintable())

    calls = FunctionCalls()
    for _ in range(2):
        with pytest.raises(FunctionFailed, match="raised SystemExit"):
            calls.call("leave", leave)


def test_an_idle_thread_ends_and_the_next_call_gets_a_new_one(monkeypatch):
    monkeypatch.setattr(project_functions, "_IDLE_SECONDS", 0.02)
    calls = FunctionCalls()

    first = calls.call("who", threading.current_thread)
    wait_until(lambda: not first.is_alive())

    assert calls.call("who", threading.current_thread).is_alive()
