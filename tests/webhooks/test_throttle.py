from __future__ import annotations

import heapq
import itertools

import pytest

from scheduled_actions.webhooks.rules.throttle import (
    CLOSED_MOST_SECONDS,
    CLOSED_SECONDS,
    HUNG_SECONDS,
    IDLE_SECONDS,
    SLOW_SECONDS,
    Deferral,
    ThrottleState,
)

#: What a lane that hangs takes; more than enough, for sums of fractions.
HUNG = HUNG_SECONDS + 0.5


def one_after_the_other(lanes, lane, count, *, took=0.01, at=0.0):
    """Run `count` deliveries one after the other; return when the last has ended."""
    for _ in range(count):
        lanes.begin(lane, at)
        lanes.end(lane, at, at + took)
        at += took
    return at


def room(lanes, lane, now):
    """Return how many more a lane lets start at an instant; they are in flight afterwards."""
    count = 0
    while lanes.check(lane, now, draw=0) == "go":
        lanes.begin(lane, now)
        count += 1
    return count


@pytest.mark.parametrize(("answered", "expected"), [(0, 1), (1, 2), (2, 4), (3, 8), (9, 8)])
def test_the_limit_starts_at_one_and_doubles_with_each_response(answered, expected):
    lanes = ThrottleState(8)
    now = one_after_the_other(lanes, "a", answered)

    assert room(lanes, "a", now) == expected
    assert lanes.check("a", now, draw=0) == "wait"
    assert lanes.check("b", now, draw=0) == "go"


def test_behind_an_unusually_slow_delivery_others_wait_and_are_then_deferred():
    lanes = ThrottleState(8)
    now = one_after_the_other(lanes, "a", 5, took=0.2)

    lanes.begin("a", now)

    assert lanes.check("a", now + 0.3, draw=0) == "go"
    assert lanes.check("a", now + 0.7, draw=0) == "wait"
    assert lanes.check("a", now + 1.3, draw=0.5) == Deferral(pytest.approx(1.3), "slow")


def test_an_endpoint_that_is_always_slow_is_not_throttled():
    lanes = ThrottleState(8)
    now = one_after_the_other(lanes, "a", 5, took=2)

    lanes.begin("a", now)

    assert lanes.check("a", now + 4, draw=0) == "go"


def test_one_quick_response_does_not_change_the_usual_duration():
    lanes = ThrottleState(8)
    now = one_after_the_other(lanes, "a", 5, took=2)
    now = one_after_the_other(lanes, "a", 1, took=0.01, at=now)

    lanes.begin("a", now)

    assert lanes.check("a", now + 4, draw=0) == "go"


def test_each_hung_delivery_closes_the_endpoint_for_longer():
    lanes = ThrottleState(8)
    now, waits = one_after_the_other(lanes, "a", 5), []
    for _ in range(7):
        lanes.begin("a", now)
        lanes.end("a", now, now + HUNG)
        now += HUNG
        verdict = lanes.check("a", now, draw=0)
        waits.append(verdict.seconds)
        now += verdict.seconds

    assert waits == pytest.approx([CLOSED_SECONDS * factor for factor in (1, 2, 4, 8, 16)] + [CLOSED_MOST_SECONDS] * 2)
    assert room(lanes, "a", now) == 1


def test_a_response_resets_the_closing_time():
    lanes = ThrottleState(8)
    now = 0.0
    for took in (HUNG, HUNG, 0.01, HUNG):
        lanes.begin("a", now)
        lanes.end("a", now, now + took)
        now += took + CLOSED_MOST_SECONDS

    now -= CLOSED_MOST_SECONDS
    assert lanes.check("a", now, draw=0) == Deferral(pytest.approx(CLOSED_SECONDS), "hung")


def test_deliveries_that_hang_together_close_the_endpoint_once():
    lanes = ThrottleState(8)
    now = one_after_the_other(lanes, "a", 5)
    for offset in (0.0, 0.05, 0.1):
        lanes.begin("a", now + offset)
    for offset in (0.0, 0.05, 0.1):
        lanes.end("a", now + offset, now + offset + HUNG)

    assert lanes.check("a", now + HUNG, draw=0) == Deferral(pytest.approx(CLOSED_SECONDS), "hung")


def test_deferred_deliveries_return_spread_over_time():
    lanes = ThrottleState(8)
    lanes.begin("a", 0)
    lanes.end("a", 0, HUNG)

    waits = {lanes.check("a", HUNG, draw=draw).seconds for draw in (0, 0.25, 0.5, 0.75)}

    assert len(waits) == 4
    assert min(waits) == CLOSED_SECONDS


def test_an_idle_endpoint_is_forgotten_but_a_closed_one_is_not():
    lanes = ThrottleState(4)
    one_after_the_other(lanes, "idle", 3)
    lanes.begin("closed", IDLE_SECONDS)
    lanes.end("closed", IDLE_SECONDS, IDLE_SECONDS + HUNG)

    lanes.begin("another", IDLE_SECONDS + HUNG + 1)

    assert room(lanes, "idle", IDLE_SECONDS + HUNG + 1) == 1
    assert isinstance(lanes.check("closed", IDLE_SECONDS + HUNG + 1, draw=0), Deferral)


def test_ending_an_unknown_delivery_has_no_effect():
    lanes = ThrottleState(4)

    lanes.end("a", 0, 1)

    assert room(lanes, "a", 0) == 1


def test_unresponsive_endpoints_of_a_team_share_a_quarter_of_the_threads():
    lanes = ThrottleState(8)
    for lane in ("a", "b"):
        lanes.begin(lane, 0.0, team="blue")

    assert lanes.check("c", SLOW_SECONDS, draw=0, team="blue") == "wait"
    assert lanes.check("c", 2.0, draw=0.5, team="blue") == Deferral(pytest.approx(2.0), "team")
    assert lanes.check("c", 2.0, draw=0, team="red") == "go"
    assert lanes.check("c", 2.0, draw=0) == "go"

    lanes.end("a", 0.0, 2.0)
    assert lanes.check("c", 2.0, draw=0, team="blue") == "go"


def test_a_responsive_endpoint_is_independent_of_hanging_ones_of_its_team():
    lanes = ThrottleState(8)
    lanes.begin("good", 0.0, team="blue")
    lanes.end("good", 0.0, 0.1)
    for lane in ("a", "b"):
        lanes.begin(lane, 1.0, team="blue")

    assert lanes.check("good", 3.0, draw=0, team="blue") == "go"
    lanes.begin("good", 3.0, team="blue")
    lanes.end("good", 3.0, 3.0 + HUNG)
    opened = 3.0 + HUNG + CLOSED_SECONDS
    assert lanes.check("good", opened, draw=0, team="blue").reason == "team"


def last_good(endpoints, hanging, *, each, took, timeout, threads, use_lanes=True):
    """Simulate threads that take deliveries in their order; return when the last that is answered has ended.

    A thread waits if it has to; a deferred one takes the next delivery.
    """
    lanes = ThrottleState(threads)
    waiting = [(0.0, number, f"e{number % endpoints}") for number in range(each * endpoints)]
    heapq.heapify(waiting)
    numbers = itertools.count()
    events = [(0.0, next(numbers), None) for _ in range(threads)]  # when a thread is free, and what it has just done
    heapq.heapify(events)
    last = 0.0
    while events and waiting:
        now, _, done = heapq.heappop(events)
        if done is not None:
            lane, began = done
            lanes.end(lane, began, now)
            if int(lane[1:]) >= hanging:
                last = now
        due, number, lane = heapq.heappop(waiting)
        if due > now:
            heapq.heappush(waiting, (due, number, lane))
            heapq.heappush(events, (due, next(numbers), None))
            continue
        verdict = lanes.check(lane, now, draw=0.5) if use_lanes else "go"
        if verdict == "go":
            lanes.begin(lane, now)
            ends = now + (timeout if int(lane[1:]) < hanging else took)
            heapq.heappush(events, (ends, next(numbers), (lane, now)))
        elif verdict == "wait":
            heapq.heappush(waiting, (now, number, lane))
            heapq.heappush(events, (now + 0.01, next(numbers), None))
        else:
            heapq.heappush(waiting, (now + verdict.seconds, number, lane))
            heapq.heappush(events, (now, next(numbers), None))
    return last


@pytest.mark.parametrize("threads", [8, 16])
def test_four_hanging_endpoints_of_forty_barely_delay_the_others(threads):
    tick = {"endpoints": 40, "each": 20, "took": 0.05, "timeout": 10.0, "threads": threads}

    without = last_good(hanging=0, **tick)
    with_hanging = last_good(hanging=4, **tick)
    first_come = last_good(hanging=4, use_lanes=False, **tick)

    # Each that hangs keeps one thread.
    assert with_hanging <= without * threads / (threads - 4) + 0.6
    assert first_come > 4 * without
