"""The throttle of deliveries per endpoint, with threads that wait for slots."""

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


class DeliveringThread:
    """A thread that waits for a slot of an endpoint and, if it gets one, keeps the slot until `finish`."""

    def __init__(self, throttle, *, patience=1000.0):
        self.decisions = []
        self.has_decision = threading.Event()
        self.may_finish = threading.Event()
        self._thread = threading.Thread(target=self._deliver, args=[throttle, patience], daemon=True)
        self._thread.start()

    def _deliver(self, throttle, patience):
        with throttle.slot("a", patience=patience) as deferred:
            self.decisions.append(deferred)
            self.has_decision.set()
            if deferred is None:
                self.may_finish.wait(PATIENCE)

    def finish(self):
        self.may_finish.set()
        self._thread.join(PATIENCE)

    def decision(self):
        """Return the deferral, or None for a slot."""
        assert self.has_decision.wait(PATIENCE)
        return self.decisions[0]


def test_one_thread_waits_for_a_slow_endpoint_and_other_deliveries_are_deferred(clock):
    throttle = EndpointThrottle(8, monotonic=clock)
    first = DeliveringThread(throttle)
    assert first.decision() is None
    clock.now = 2 * SLOW_SECONDS

    # The first of the two threads to be checked is the one that waits.
    others = [DeliveringThread(throttle), DeliveringThread(throttle)]
    deferred_thread = first_decided(others)
    (waiting,) = [one for one in others if one is not deferred_thread]

    assert deferred_thread.decision().reason == "slow"
    assert DeliveringThread(throttle).decision().reason == "slow"
    assert waiting.decisions == []
    first.finish()
    assert waiting.decision() is None
    waiting.finish()


def test_no_thread_waits_for_an_endpoint_that_hung(clock):
    throttle = EndpointThrottle(8, monotonic=clock)
    first = DeliveringThread(throttle)
    first.decision()
    clock.now = 2 * SLOW_SECONDS
    others = [DeliveringThread(throttle), DeliveringThread(throttle)]
    deferred_thread = first_decided(others)
    (waiting,) = [one for one in others if one is not deferred_thread]

    clock.now = HUNG_SECONDS + 1
    first.finish()

    assert waiting.decision().reason == "hung"


def test_a_small_pool_has_no_spare_thread_to_wait(clock):
    throttle = EndpointThrottle(2, monotonic=clock)
    first = DeliveringThread(throttle)
    first.decision()
    clock.now = 2 * SLOW_SECONDS

    assert DeliveringThread(throttle).decision().reason == "slow"
    first.finish()


def test_the_spare_thread_stops_waiting_after_its_patience(clock):
    throttle = EndpointThrottle(8, monotonic=clock)
    first = DeliveringThread(throttle)
    first.decision()
    clock.now = 2 * SLOW_SECONDS

    assert DeliveringThread(throttle, patience=0).decision().reason == "slow"
    first.finish()


def first_decided(others):
    """Return the first of these threads that gets a decision."""
    has_decision = threading.Condition()
    found = []

    def wait(one):
        if one.has_decision.wait(PATIENCE):
            with has_decision:
                found.append(one)
                has_decision.notify_all()

    for one in others:
        threading.Thread(target=wait, args=[one], daemon=True).start()
    with has_decision:
        assert has_decision.wait_for(lambda: found, PATIENCE)
    return found[0]
