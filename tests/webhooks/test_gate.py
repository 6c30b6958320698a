"""The gate of lanes, with the threads that go through it."""

from __future__ import annotations

import threading

import pytest

from scheduled_actions.webhooks.gate import Gate
from scheduled_actions.webhooks.rules.throttle import HUNG_SECONDS, SLOW_SECONDS
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
        with gate.through("a", patience=patience) as put_off:
            self.told.append(put_off)
            self.is_told.set()
            if put_off is None:
                self.may_leave.wait(PATIENCE)

    def leaves(self):
        self.may_leave.set()
        self._thread.join(PATIENCE)

    def hears(self):
        assert self.is_told.wait(PATIENCE)
        return self.told[0]


def test_behind_one_that_is_slow_one_thread_waits_on_and_the_others_are_put_off(clock):
    gate = Gate(8, monotonic=clock)
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


def test_when_the_slow_one_hangs_nobody_waits_on(clock):
    gate = Gate(8, monotonic=clock)
    first = Someone(gate)
    first.hears()
    clock.now = 2 * SLOW_SECONDS
    others = [Someone(gate), Someone(gate)]
    put_off = wait_for_one(others)
    (waiting,) = [one for one in others if one is not put_off]

    clock.now = HUNG_SECONDS + 1
    first.leaves()

    assert waiting.hears().reason == "hung"


def test_of_few_threads_none_is_spared_to_wait(clock):
    gate = Gate(2, monotonic=clock)
    first = Someone(gate)
    first.hears()
    clock.now = 2 * SLOW_SECONDS

    assert Someone(gate).hears().reason == "slow"
    first.leaves()


def test_patience_ends_also_for_the_one_that_waits_on(clock):
    gate = Gate(8, monotonic=clock)
    first = Someone(gate)
    first.hears()
    clock.now = 2 * SLOW_SECONDS

    assert Someone(gate, patience=0).hears().reason == "slow"
    first.leaves()


def wait_for_one(others):
    """Return the first of them that is told something."""
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
