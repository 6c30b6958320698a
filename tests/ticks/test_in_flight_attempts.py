"""The attempts in flight: results are taken together, and only attempts that have begun time out."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from scheduled_actions.ticks.attempts.attempt import Attempt, InFlightAttempts
from scheduled_actions.ticks.attempts.handler_threads import HandlerThreads, JobState
from scheduled_actions.ticks.rules.plan import TickBudget

#: A time that no test reaches.
PATIENCE = 10


@pytest.fixture
def released():
    """Yield an event that releases hanging handlers, and set it at the end."""
    event = threading.Event()
    yield event
    event.set()


def in_flight_on(threads):
    now = time.monotonic()
    budget = TickBudget(started=now, run_until=now + PATIENCE, answer_by=now + PATIENCE)
    return InFlightAttempts(SimpleNamespace(threads=threads, monotonic=time.monotonic), budget)


def an_attempt(work=lambda _: "done", *, timeout_seconds=PATIENCE):
    attempt = Attempt(None, work, start_until=float("inf"), on_late=lambda *_: None)
    attempt.timeout_seconds = timeout_seconds
    return attempt


def wait_until(is_so):
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until, "the condition did not become true"
        threading.Event().wait(0.002)


def test_all_results_that_are_there_are_taken_at_once_together_with_a_nudge():
    in_flight = in_flight_on(HandlerThreads(1))
    wave = [an_attempt() for _ in range(20)]
    in_flight.announce(wave)
    in_flight.start(wave)
    # The thread reports a result before it begins the next attempt.
    wait_until(lambda: wave[-1].state is JobState.ENDED)
    in_flight.nudge()

    is_nudged = in_flight.wait(PATIENCE)

    assert is_nudged
    assert in_flight.unwritten[:19] == wave[:19]


def test_without_a_nudge_a_wait_reports_none():
    in_flight = in_flight_on(HandlerThreads(1))
    attempt = an_attempt()
    in_flight.announce([attempt])
    in_flight.start([attempt])

    assert not in_flight.wait(PATIENCE)
    assert in_flight.unwritten == [attempt]
    assert not in_flight.attempts


def test_a_running_attempt_times_out_and_one_that_waits_for_a_thread_does_not(released):
    in_flight = in_flight_on(HandlerThreads(1))
    hanging = an_attempt(lambda _: released.wait(PATIENCE), timeout_seconds=0.01)
    waiting = an_attempt(timeout_seconds=0.01)
    in_flight.announce([hanging, waiting])
    in_flight.start([hanging, waiting])
    wait_until(lambda: hanging.started is not None)

    limit = in_flight.times_out_at()
    wait_until(lambda: time.monotonic() >= limit)
    in_flight.collect(0.001)

    assert limit == hanging.started + 0.01
    assert in_flight.unwritten == [hanging]
    assert hanging.state is JobState.ABANDONED
    assert list(in_flight.attempts) == [waiting]


@pytest.mark.parametrize(("is_urgent", "taken"), [(True, 1), (False, 2)])
def test_further_results_are_collected_unless_the_first_is_urgent(released, is_urgent, taken):
    in_flight = in_flight_on(HandlerThreads(2))
    wave = [an_attempt(), an_attempt(lambda _: released.wait(PATIENCE))]
    in_flight.announce(wave)
    in_flight.start(wave)

    def asks():
        released.set()
        wait_until(lambda: wave[1].state is JobState.ENDED)
        return is_urgent

    in_flight.collect(PATIENCE, is_urgent=asks)

    assert in_flight.unwritten == wave[:taken]


def test_an_abandoned_attempt_is_not_taken_twice(released):
    in_flight = in_flight_on(HandlerThreads(1))
    attempt = an_attempt(lambda _: released.wait(PATIENCE))
    in_flight.announce([attempt])
    in_flight.start([attempt])
    wait_until(lambda: attempt.started is not None)

    in_flight.give_up()
    released.set()
    wait_until(lambda: attempt.has_returned)
    in_flight.wait(0.001)

    assert in_flight.unwritten == [attempt]
