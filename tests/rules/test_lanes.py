from __future__ import annotations

import heapq
import itertools

import pytest

from scheduled_actions.lanes import (
    CLOSED_MOST_SECONDS,
    CLOSED_SECONDS,
    HUNG_SECONDS,
    IDLE_SECONDS,
    SLOW_SECONDS,
    Lanes,
)

#: What a lane that hangs takes; more than enough, for sums of fractions.
HUNG = HUNG_SECONDS + 0.5


def one_after_the_other(lanes, lane, count, *, took=0.01, at=0.0):
    """Let so many go through a lane; return when the last has ended."""
    for _ in range(count):
        lanes.begin(lane, at)
        lanes.end(lane, at, at + took)
        at += took
    return at


def test_a_lane_begins_with_one_and_grows_while_it_answers():
    lanes = Lanes(8)

    rooms = [lanes.room("a", 0)]
    for _ in range(9):
        one_after_the_other(lanes, "a", 1)
        rooms.append(lanes.room("a", 0.01))

    assert rooms == [1, 2, 3, 4, 5, 6, 7, 8, 8, 8]


def test_what_is_in_flight_takes_room():
    lanes = Lanes(8)
    now = one_after_the_other(lanes, "a", 3)

    lanes.begin("a", now)
    lanes.begin("a", now)

    assert lanes.room("a", now) == 2


def test_beside_others_a_lane_has_half_of_the_threads():
    lanes = Lanes(8)
    now = one_after_the_other(lanes, "a", 20)
    assert lanes.room("a", now) == 8

    one_after_the_other(lanes, "b", 1, at=now)

    assert lanes.room("a", now) == 4
    assert lanes.room("a", now + IDLE_SECONDS + 1) == 8


def test_while_one_is_slow_no_other_starts_beside_it():
    lanes = Lanes(8)
    now = one_after_the_other(lanes, "a", 5)

    lanes.begin("a", now)

    assert lanes.room("a", now + SLOW_SECONDS / 2) == 5
    assert lanes.room("a", now + SLOW_SECONDS * 2) == 0


def test_after_one_that_hung_a_lane_is_closed_for_longer_each_time():
    lanes = Lanes(8)
    now, waits = one_after_the_other(lanes, "a", 5), []
    for _ in range(7):
        lanes.begin("a", now)
        lanes.end("a", now, now + HUNG)
        now += HUNG
        waits.append(lanes.closed_seconds("a", now))
        assert lanes.room("a", now) == 0
        now += waits[-1]
        assert lanes.room("a", now) == 1

    assert waits == pytest.approx([CLOSED_SECONDS * factor for factor in (1, 2, 4, 8, 16)] + [CLOSED_MOST_SECONDS] * 2)
    one_after_the_other(lanes, "a", 1, at=now)
    lanes.begin("a", now)
    lanes.end("a", now, now + HUNG)
    assert lanes.closed_seconds("a", now + HUNG) == pytest.approx(CLOSED_SECONDS)


def test_those_that_hung_side_by_side_close_a_lane_once():
    lanes = Lanes(8)
    now = one_after_the_other(lanes, "a", 5)
    for offset in (0.0, 0.1, 0.2):
        lanes.begin("a", now + offset)
    for offset in (0.0, 0.1, 0.2):
        lanes.end("a", now + offset, now + offset + HUNG)

    assert lanes.closed_seconds("a", now + HUNG) == pytest.approx(CLOSED_SECONDS)


def test_an_idle_lane_is_forgotten_and_a_closed_one_is_not():
    lanes = Lanes(4)
    one_after_the_other(lanes, "idle", 3)
    lanes.begin("closed", 0)
    lanes.end("closed", 0, HUNG)

    lanes.forget_idle(IDLE_SECONDS + 2)

    assert lanes.room("idle", IDLE_SECONDS + 2) == 1
    assert lanes.closed_seconds("closed", HUNG) == pytest.approx(CLOSED_SECONDS)


def test_an_end_that_never_began_is_nothing():
    lanes = Lanes(4)

    lanes.end("a", 0, 1)

    assert lanes.room("a", 0) == 1


def last_good(endpoints, hanging, *, each, took, timeout, threads, use_lanes=True):
    """Simulate a tick; return when the last delivery to an endpoint that answers has ended."""
    lanes = Lanes(threads)
    waiting = [f"e{number}" for _ in range(each) for number in range(endpoints)]
    running, now, last, order = [], 0.0, 0.0, itertools.count()
    while waiting or running:
        for lane in list(waiting):
            if len(running) == threads:
                break
            if use_lanes and lanes.room(lane, now) == 0:
                continue
            waiting.remove(lane)
            lanes.begin(lane, now)
            hangs = int(lane[1:]) < hanging
            heapq.heappush(running, (now + (timeout if hangs else took), next(order), lane, now, hangs))
        if use_lanes and waiting and all(lanes.closed_seconds(lane, now) for lane in waiting) and not running:
            break
        ended, _, lane, began, hangs = heapq.heappop(running)
        now = ended
        lanes.end(lane, began, now)
        last = last if hangs else max(last, now)
    return last


def test_four_of_forty_endpoints_that_hang_cost_the_others_no_more_than_twice_the_time():
    tick = {"endpoints": 40, "each": 10, "took": 0.05, "timeout": 10.0, "threads": 8}

    without = last_good(hanging=0, **tick)
    with_hanging = last_good(hanging=4, **tick)
    first_come = last_good(hanging=4, use_lanes=False, **tick)

    assert with_hanging <= 2 * without * 1.05
    assert first_come > 10 * without
