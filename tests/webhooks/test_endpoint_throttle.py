"""The gate of lanes, with the threads that go through it."""

from __future__ import annotations

import threading

import pytest

from scheduled_actions.webhooks.rules.throttle import HUNG_SECONDS, SLOW_SECONDS
from scheduled_actions.webhooks.throttle import EndpointThrottle
from tests.factories import PATIENCE


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


class Someone:
    """A thread that goes through a lane, and stays as long as it is let."""

    def __init__(self, gate, *, patience=1000.0):
        self.told = []
        self.is_told = threading.Event()
        self.may_leave = threading.Event()
        self._thread = threading.Thread(target=self._go, args=[gate, patience], daemon=True)
        self._thread.start()

    def _go(self, gate, patience):
        with gate.slot("a", patience=patience) as deferred:
            self.told.append(deferred)
            self.is_told.set()
            if deferred is None:
                self.may_leave.wait(PATIENCE)

    def leaves(self):
        self.may_leave.set()
        self._thread.join(PATIENCE)

    def hears(self):
        assert self.is_told.wait(PATIENCE)
        return self.told[0]


def test_one_thread_waits_for_a_slow_endpoint_and_the_others_defer(clock):
    gate = EndpointThrottle(8, monotonic=clock)
    first = Someone(gate)
    assert first.hears() is None
    clock.now = 2 * SLOW_SECONDS

    # Whichever of the two comes first is the one that waits.
    others = [Someone(gate), Someone(gate)]
    put_off = wait_for_one(others)
    (waiting,) = [one for one in others if one is not put_off]

    assert put_off.hears().reason == "slow"
    assert Someone(gate).hears().reason == "slow"
    assert waiting.told == []
    first.leaves()
    assert waiting.hears() is None
    waiting.leaves()


def test_no_thread_waits_for_an_endpoint_that_hung(clock):
    gate = EndpointThrottle(8, monotonic=clock)
    first = Someone(gate)
    first.hears()
    clock.now = 2 * SLOW_SECONDS
    others = [Someone(gate), Someone(gate)]
    put_off = wait_for_one(others)
    (waiting,) = [one for one in others if one is not put_off]

    clock.now = HUNG_SECONDS + 1
    first.leaves()

    assert waiting.hears().reason == "hung"


def test_a_small_pool_has_no_spare_thread_to_wait(clock):
    gate = EndpointThrottle(2, monotonic=clock)
    first = Someone(gate)
    first.hears()
    clock.now = 2 * SLOW_SECONDS

    assert Someone(gate).hears().reason == "slow"
    first.leaves()


def test_the_spare_thread_stops_waiting_after_its_patience(clock):
    gate = EndpointThrottle(8, monotonic=clock)
    first = Someone(gate)
    first.hears()
    clock.now = 2 * SLOW_SECONDS

    assert Someone(gate, patience=0).hears().reason == "slow"
    first.leaves()


def wait_for_one(others):
    """Return the first of them that has an answer."""
    is_told = threading.Condition()
    found = []

    def wait(one):
        if one.is_told.wait(PATIENCE):
            with is_told:
                found.append(one)
                is_told.notify_all()

    for one in others:
        threading.Thread(target=wait, args=[one], daemon=True).start()
    with is_told:
        assert is_told.wait_for(lambda: found, PATIENCE)
    return found[0]
