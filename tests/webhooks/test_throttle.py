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
    Lanes,
    PutOff,
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


def room(lanes, lane, now):
    """Return how many more a lane lets start at an instant; they are in flight afterwards."""
    count = 0
    while lanes.ask(lane, now, draw=0) == "go":
        lanes.begin(lane, now)
        count += 1
    return count


@pytest.mark.parametrize(("answered", "expected"), [(0, 1), (1, 2), (2, 4), (3, 8), (9, 8)])
def test_a_lane_begins_with_one_and_doubles_while_it_answers(answered, expected):
    lanes = Lanes(8)
    now = one_after_the_other(lanes, "a", answered)

    assert room(lanes, "a", now) == expected
    assert lanes.ask("a", now, draw=0) == "wait"
    assert lanes.ask("b", now, draw=0) == "go"


def test_where_one_takes_longer_than_usual_others_wait_and_then_are_put_off():
    lanes = Lanes(8)
    now = one_after_the_other(lanes, "a", 5, took=0.2)

    lanes.begin("a", now)

    assert lanes.ask("a", now + 0.3, draw=0) == "go"
    assert lanes.ask("a", now + 0.7, draw=0) == "wait"
    assert lanes.ask("a", now + 1.3, draw=0.5) == PutOff(pytest.approx(1.3), "slow")


def test_a_lane_that_is_always_slow_is_not_suspected():
    lanes = Lanes(8)
    now = one_after_the_other(lanes, "a", 5, took=2)

    lanes.begin("a", now)

    assert lanes.ask("a", now + 4, draw=0) == "go"


def test_one_quick_answer_does_not_change_what_is_usual():
    lanes = Lanes(8)
    now = one_after_the_other(lanes, "a", 5, took=2)
    now = one_after_the_other(lanes, "a", 1, took=0.01, at=now)

    lanes.begin("a", now)

    assert lanes.ask("a", now + 4, draw=0) == "go"


def test_after_one_that_hung_a_lane_is_closed_for_longer_each_time_and_begins_anew():
    lanes = Lanes(8)
    now, waits = one_after_the_other(lanes, "a", 5), []
    for _ in range(7):
        lanes.begin("a", now)
        lanes.end("a", now, now + HUNG)
        now += HUNG
        verdict = lanes.ask("a", now, draw=0)
        waits.append(verdict.seconds)
        now += verdict.seconds

    assert waits == pytest.approx([CLOSED_SECONDS * factor for factor in (1, 2, 4, 8, 16)] + [CLOSED_MOST_SECONDS] * 2)
    assert room(lanes, "a", now) == 1


def test_an_answer_makes_the_next_closing_a_short_one_again():
    lanes = Lanes(8)
    now = 0.0
    for took in (HUNG, HUNG, 0.01, HUNG):
        lanes.begin("a", now)
        lanes.end("a", now, now + took)
        now += took + CLOSED_MOST_SECONDS

    now -= CLOSED_MOST_SECONDS
    assert lanes.ask("a", now, draw=0) == PutOff(pytest.approx(CLOSED_SECONDS), "hung")


def test_those_that_hung_side_by_side_close_a_lane_once():
    lanes = Lanes(8)
    now = one_after_the_other(lanes, "a", 5)
    for offset in (0.0, 0.05, 0.1):
        lanes.begin("a", now + offset)
    for offset in (0.0, 0.05, 0.1):
        lanes.end("a", now + offset, now + offset + HUNG)

    assert lanes.ask("a", now + HUNG, draw=0) == PutOff(pytest.approx(CLOSED_SECONDS), "hung")


def test_what_is_put_off_does_not_come_back_all_at_once():
    lanes = Lanes(8)
    lanes.begin("a", 0)
    lanes.end("a", 0, HUNG)

    waits = {lanes.ask("a", HUNG, draw=draw).seconds for draw in (0, 0.25, 0.5, 0.75)}

    assert len(waits) == 4
    assert min(waits) == CLOSED_SECONDS


def test_an_idle_lane_is_forgotten_and_a_closed_one_is_not():
    lanes = Lanes(4)
    one_after_the_other(lanes, "idle", 3)
    lanes.begin("closed", IDLE_SECONDS)
    lanes.end("closed", IDLE_SECONDS, IDLE_SECONDS + HUNG)

    lanes.begin("another", IDLE_SECONDS + HUNG + 1)

    assert room(lanes, "idle", IDLE_SECONDS + HUNG + 1) == 1
    assert isinstance(lanes.ask("closed", IDLE_SECONDS + HUNG + 1, draw=0), PutOff)


def test_an_end_that_never_began_is_nothing():
    lanes = Lanes(4)

    lanes.end("a", 0, 1)

    assert room(lanes, "a", 0) == 1


def test_lanes_of_a_team_that_do_not_answer_hold_a_quarter_of_the_threads_together():
    lanes = Lanes(8)
    for lane in ("a", "b"):
        lanes.begin(lane, 0.0, team="blue")

    assert lanes.ask("c", SLOW_SECONDS, draw=0, team="blue") == "wait"
    assert lanes.ask("c", 2.0, draw=0.5, team="blue") == PutOff(pytest.approx(2.0), "team")
    assert lanes.ask("c", 2.0, draw=0, team="red") == "go"
    assert lanes.ask("c", 2.0, draw=0) == "go"

    lanes.end("a", 0.0, 2.0)
    assert lanes.ask("c", 2.0, draw=0, team="blue") == "go"


def test_a_lane_that_answered_goes_on_beside_those_of_its_team_that_hang_until_it_hangs_itself():
    lanes = Lanes(8)
    lanes.begin("good", 0.0, team="blue")
    lanes.end("good", 0.0, 0.1)
    for lane in ("a", "b"):
        lanes.begin(lane, 1.0, team="blue")

    assert lanes.ask("good", 3.0, draw=0, team="blue") == "go"
    lanes.begin("good", 3.0, team="blue")
    lanes.end("good", 3.0, 3.0 + HUNG)
    opened = 3.0 + HUNG + CLOSED_SECONDS
    assert lanes.ask("good", opened, draw=0, team="blue").reason == "team"


def last_good(endpoints, hanging, *, each, took, timeout, threads, use_lanes=True):
    """Simulate threads that take deliveries in their order; return when the last that is answered has ended.

    A thread that is told to wait waits; one that is put off takes the next.
    """
    lanes = Lanes(threads)
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
        verdict = lanes.ask(lane, now, draw=0.5) if use_lanes else "go"
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
def test_four_of_forty_endpoints_that_hang_cost_the_others_little(threads):
    tick = {"endpoints": 40, "each": 20, "took": 0.05, "timeout": 10.0, "threads": threads}

    without = last_good(hanging=0, **tick)
    with_hanging = last_good(hanging=4, **tick)
    first_come = last_good(hanging=4, use_lanes=False, **tick)

    # Each that hangs keeps one thread.
    assert with_hanging <= without * threads / (threads - 4) + 0.6
    assert first_come > 4 * without
