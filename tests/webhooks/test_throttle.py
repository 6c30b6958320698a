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

#: The seconds of a delivery that hangs, with a margin for rounding errors.
HUNG = HUNG_SECONDS + 0.5


def deliver_in_turn(state, endpoint, count, *, took=0.01, at=0.0):
    """Simulate `count` deliveries one after the other; return the end of the last one."""
    for _ in range(count):
        state.begin(endpoint, at)
        state.end(endpoint, at, at + took)
        at += took
    return at


def start_all(state, endpoint, now):
    """Start deliveries to an endpoint until one has to wait; return the number of deliveries started."""
    count = 0
    while state.check(endpoint, now, draw=0) == "go":
        state.begin(endpoint, now)
        count += 1
    return count


@pytest.mark.parametrize(("answered", "expected"), [(0, 1), (1, 2), (2, 4), (3, 8), (9, 8)])
def test_the_limit_starts_at_one_and_doubles_with_each_response(answered, expected):
    state = ThrottleState(8)
    now = deliver_in_turn(state, "a", answered)

    assert start_all(state, "a", now) == expected
    assert state.check("a", now, draw=0) == "wait"
    assert state.check("b", now, draw=0) == "go"


def test_deliveries_behind_an_unusually_slow_one_wait_and_are_then_deferred():
    state = ThrottleState(8)
    now = deliver_in_turn(state, "a", 5, took=0.2)

    state.begin("a", now)

    assert state.check("a", now + 0.3, draw=0) == "go"
    assert state.check("a", now + 0.7, draw=0) == "wait"
    assert state.check("a", now + 1.3, draw=0.5) == Deferral(pytest.approx(1.3), "slow")


def test_an_endpoint_that_is_always_slow_is_not_throttled():
    state = ThrottleState(8)
    now = deliver_in_turn(state, "a", 5, took=2)

    state.begin("a", now)

    assert state.check("a", now + 4, draw=0) == "go"


def test_one_quick_response_does_not_change_the_usual_duration():
    state = ThrottleState(8)
    now = deliver_in_turn(state, "a", 5, took=2)
    now = deliver_in_turn(state, "a", 1, took=0.01, at=now)

    state.begin("a", now)

    assert state.check("a", now + 4, draw=0) == "go"


def test_each_hung_delivery_closes_the_endpoint_for_longer():
    state = ThrottleState(8)
    now, waits = deliver_in_turn(state, "a", 5), []
    for _ in range(7):
        state.begin("a", now)
        state.end("a", now, now + HUNG)
        now += HUNG
        decision = state.check("a", now, draw=0)
        waits.append(decision.seconds)
        now += decision.seconds

    assert waits == pytest.approx([CLOSED_SECONDS * factor for factor in (1, 2, 4, 8, 16)] + [CLOSED_MOST_SECONDS] * 2)
    assert start_all(state, "a", now) == 1


def test_a_response_resets_the_closing_time():
    state = ThrottleState(8)
    now = 0.0
    for took in (HUNG, HUNG, 0.01, HUNG):
        state.begin("a", now)
        state.end("a", now, now + took)
        now += took + CLOSED_MOST_SECONDS

    now -= CLOSED_MOST_SECONDS
    assert state.check("a", now, draw=0) == Deferral(pytest.approx(CLOSED_SECONDS), "hung")


def test_deliveries_that_hang_together_close_the_endpoint_once():
    state = ThrottleState(8)
    now = deliver_in_turn(state, "a", 5)
    for offset in (0.0, 0.05, 0.1):
        state.begin("a", now + offset)
    for offset in (0.0, 0.05, 0.1):
        state.end("a", now + offset, now + offset + HUNG)

    assert state.check("a", now + HUNG, draw=0) == Deferral(pytest.approx(CLOSED_SECONDS), "hung")


def test_deferred_deliveries_are_spread_over_time():
    state = ThrottleState(8)
    state.begin("a", 0)
    state.end("a", 0, HUNG)

    waits = {state.check("a", HUNG, draw=draw).seconds for draw in (0, 0.25, 0.5, 0.75)}

    assert len(waits) == 4
    assert min(waits) == CLOSED_SECONDS


def test_the_state_of_an_idle_endpoint_is_deleted_but_not_of_a_closed_one():
    state = ThrottleState(4)
    deliver_in_turn(state, "idle", 3)
    state.begin("closed", IDLE_SECONDS)
    state.end("closed", IDLE_SECONDS, IDLE_SECONDS + HUNG)

    state.begin("another", IDLE_SECONDS + HUNG + 1)

    assert start_all(state, "idle", IDLE_SECONDS + HUNG + 1) == 1
    assert isinstance(state.check("closed", IDLE_SECONDS + HUNG + 1, draw=0), Deferral)


def test_ending_an_unknown_delivery_has_no_effect():
    state = ThrottleState(4)

    state.end("a", 0, 1)

    assert start_all(state, "a", 0) == 1


def test_unresponsive_endpoints_of_a_team_share_a_quarter_of_the_threads():
    state = ThrottleState(8)
    for endpoint in ("a", "b"):
        state.begin(endpoint, 0.0, team="blue")

    assert state.check("c", SLOW_SECONDS, draw=0, team="blue") == "wait"
    assert state.check("c", 2.0, draw=0.5, team="blue") == Deferral(pytest.approx(2.0), "team")
    assert state.check("c", 2.0, draw=0, team="red") == "go"
    assert state.check("c", 2.0, draw=0) == "go"

    state.end("a", 0.0, 2.0)
    assert state.check("c", 2.0, draw=0, team="blue") == "go"


def test_a_responsive_endpoint_is_independent_of_hanging_ones_of_its_team():
    state = ThrottleState(8)
    state.begin("good", 0.0, team="blue")
    state.end("good", 0.0, 0.1)
    for endpoint in ("a", "b"):
        state.begin(endpoint, 1.0, team="blue")

    assert state.check("good", 3.0, draw=0, team="blue") == "go"
    state.begin("good", 3.0, team="blue")
    state.end("good", 3.0, 3.0 + HUNG)
    opened = 3.0 + HUNG + CLOSED_SECONDS
    assert state.check("good", opened, draw=0, team="blue").reason == "team"


def last_good(endpoints, hanging, *, each, took, timeout, threads, is_throttled=True):
    """Simulate threads that take deliveries in order; return the end of the last delivery to a working endpoint.

    A thread whose delivery has to wait tries again; a thread whose delivery is deferred takes the next one.
    """
    state = ThrottleState(threads)
    waiting = [(0.0, number, f"e{number % endpoints}") for number in range(each * endpoints)]
    heapq.heapify(waiting)
    numbers = itertools.count()
    events = [
        (0.0, next(numbers), None) for _ in range(threads)
    ]  # when a thread is free, and the delivery that it ended
    heapq.heapify(events)
    last = 0.0
    while events and waiting:
        now, _, done = heapq.heappop(events)
        if done is not None:
            endpoint, began = done
            state.end(endpoint, began, now)
            if int(endpoint[1:]) >= hanging:
                last = now
        due, number, endpoint = heapq.heappop(waiting)
        if due > now:
            heapq.heappush(waiting, (due, number, endpoint))
            heapq.heappush(events, (due, next(numbers), None))
            continue
        decision = state.check(endpoint, now, draw=0.5) if is_throttled else "go"
        if decision == "go":
            state.begin(endpoint, now)
            ends = now + (timeout if int(endpoint[1:]) < hanging else took)
            heapq.heappush(events, (ends, next(numbers), (endpoint, now)))
        elif decision == "wait":
            heapq.heappush(waiting, (now, number, endpoint))
            heapq.heappush(events, (now + 0.01, next(numbers), None))
        else:
            heapq.heappush(waiting, (now + decision.seconds, number, endpoint))
            heapq.heappush(events, (now, next(numbers), None))
    return last


@pytest.mark.parametrize("threads", [8, 16])
def test_four_hanging_endpoints_of_forty_barely_delay_the_others(threads):
    tick = {"endpoints": 40, "each": 20, "took": 0.05, "timeout": 10.0, "threads": threads}

    without = last_good(hanging=0, **tick)
    with_hanging = last_good(hanging=4, **tick)
    unthrottled = last_good(hanging=4, is_throttled=False, **tick)

    # Each hanging endpoint occupies one thread.
    assert with_hanging <= without * threads / (threads - 4) + 0.6
    assert unthrottled > 4 * without
