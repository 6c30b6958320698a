from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from scheduled_actions.ticks.rules.plan import (
    MAX_BATCH,
    Candidate,
    DurationStats,
    TickBudget,
    claim_size,
    expected_seconds,
    next_wave,
)

BUDGET = TickBudget(started=0.0, run_until=20.0, answer_by=54.0)


def a_candidate(**changes):
    values = {"action_type": "test:run", "timeout_seconds": 30.0, "is_last_attempt": False, "runs_alone": False}
    return Candidate(**values | changes)


def stats_with(**durations):
    """Return duration statistics with twenty measured attempts of each type."""
    stats = DurationStats()
    for action_type, seconds in durations.items():
        for _ in range(20):
            stats.record(action_type, [seconds])
    return stats


def a_wave(candidates, **changes):
    values = {
        "free": 4,
        "in_flight": 0,
        "one_runs_alone": False,
        "now": 0.0,
        "budget": BUDGET,
        "stats": DurationStats(),
    }
    return next_wave(candidates, **values | changes)


def test_one_action_per_free_thread_starts_in_the_order_of_the_claim():
    assert a_wave([a_candidate() for _ in range(9)], free=3) == [0, 1, 2]


@pytest.mark.parametrize("changes", [{"free": 0}, {"now": 20.0}, {"one_runs_alone": True, "in_flight": 1}])
def test_nothing_starts_without_a_thread_after_the_limit_or_next_to_an_action_that_runs_alone(changes):
    assert a_wave([a_candidate()], **changes) == []


@pytest.mark.parametrize(("now", "started"), [(4.0, [0]), (4.1, [])])
def test_an_action_starts_only_if_its_timeout_ends_in_time(now, started):
    assert a_wave([a_candidate(timeout_seconds=50.0)], now=now) == started


def test_an_action_that_would_end_too_late_is_passed_over():
    slow, quick = a_candidate(timeout_seconds=50.0), a_candidate(timeout_seconds=5.0)

    assert a_wave([slow, quick], now=10.0, free=1) == [1]


def test_a_measured_type_is_expected_to_take_its_p95_rather_than_its_timeout():
    candidate = a_candidate(action_type="slow", timeout_seconds=50.0)

    assert a_wave([candidate], now=10.0, stats=stats_with(slow=2.0)) == [0]
    assert expected_seconds(candidate, stats_with(slow=2.0)) == 2.0
    assert expected_seconds(candidate, stats_with(other=2.0)) == 50.0
    assert expected_seconds(candidate, stats_with(slow=70.0)) == 50.0


@pytest.mark.parametrize(
    ("seconds", "announced"), [(0.005, 2), (0.0049, 102), (0.002, 250), (0.0009, MAX_BATCH), (0.00001, MAX_BATCH)]
)
def test_as_many_fast_actions_are_announced_as_one_thread_runs_in_half_a_second(seconds, announced):
    wave = a_wave([a_candidate(action_type="fast") for _ in range(700)], free=2, stats=stats_with(fast=seconds))

    assert wave == list(range(announced))


def test_fast_actions_in_flight_count_towards_the_wave():
    candidates = [a_candidate(action_type="fast") for _ in range(300)]

    wave = a_wave(candidates, free=2, in_flight=240, stats=stats_with(fast=0.002))

    assert wave == list(range(10))


def test_a_free_thread_gets_a_slow_action_however_many_fast_ones_are_announced():
    candidates = [a_candidate(action_type="fast") for _ in range(700)] + [a_candidate(action_type="slow")]

    wave = a_wave(candidates, free=2, stats=stats_with(fast=0.0001, slow=1.0))

    assert wave == [*range(MAX_BATCH), 700]


def test_a_last_attempt_never_queues_behind_others_however_fast_its_type():
    candidates = [a_candidate(action_type="fast", is_last_attempt=True) for _ in range(300)]

    assert a_wave(candidates, free=2, stats=stats_with(fast=0.002)) == [0, 1]


def test_a_type_is_fast_only_after_enough_measurements():
    stats = DurationStats()
    for _ in range(4):
        stats.record("fast", [0.0001])
    assert stats.wave("fast") is None

    stats.record("fast", [0.0001])

    assert stats.wave("fast") == MAX_BATCH


@pytest.mark.parametrize(("seconds", "is_brief"), [(0.0049, False), (0.005, True), (0.249, True), (0.25, False)])
def test_attempts_of_types_between_5_and_250_ms_start_before_earlier_results_are_written(seconds, is_brief):
    assert stats_with(test=seconds).is_brief("test") is is_brief
    assert not stats_with(test=seconds).is_brief("other")


@pytest.mark.parametrize(("seconds", "is_prompt"), [(0.024, False), (0.025, True), (0.249, True), (0.25, False)])
def test_attempts_of_types_between_25_and_250_ms_start_without_a_wait_for_further_results(seconds, is_prompt):
    assert stats_with(test=seconds).is_prompt("test") is is_prompt
    assert not stats_with(test=seconds).is_prompt("other")


def test_an_action_that_crashed_its_process_starts_alone():
    ordinary, alone = a_candidate(), a_candidate(runs_alone=True)

    assert a_wave([ordinary, alone, ordinary]) == [1]
    assert a_wave([ordinary, alone, ordinary], in_flight=1) == [0, 2]
    assert a_wave([alone, alone]) == [0]


def test_an_action_that_has_to_run_alone_but_no_longer_fits_delays_no_other():
    alone, other = a_candidate(runs_alone=True, timeout_seconds=50.0), a_candidate(timeout_seconds=5.0)

    assert a_wave([alone, other], now=10.0) == [1]


@settings(max_examples=50)
@given(
    st.lists(
        st.builds(
            Candidate,
            st.sampled_from(["fast", "slow", "new"]),
            st.floats(0.1, 100),
            st.booleans(),
            st.booleans(),
        ),
        max_size=60,
    ),
    st.integers(0, 8),
    st.integers(0, 120),
    st.floats(0, 60),
)
def test_no_wave_exceeds_its_limits_or_mixes_an_action_that_runs_alone_with_others(candidates, free, in_flight, now):
    stats = stats_with(fast=0.001, slow=3.0)

    wave = a_wave(candidates, free=free, in_flight=in_flight, now=now, stats=stats)

    started = [candidates[position] for position in wave]
    assert wave == sorted(set(wave))
    assert not wave or (free > 0 and now < BUDGET.run_until)
    assert all(now + expected_seconds(one, stats) <= BUDGET.answer_by for one in started)
    assert sum(1 for one in started if one.action_type != "fast" or one.is_last_attempt) <= free
    assert len(wave) <= max(free, MAX_BATCH - in_flight) + free
    if any(one.runs_alone for one in started):
        assert len(wave) == 1
        assert in_flight == 0


@pytest.mark.parametrize(
    ("mean", "size"),
    [
        (None, 16),  # No duration is known: two actions per thread.
        (0.00001, 500),
        (0.0009, 500),  # As many as one thread runs in half a second.
        (0.00199, 251),
        (0.005, 100),
        (0.02, 100),
        (0.125, 64),
        (1.0, 8),
        (30.0, 8),
    ],
)
def test_a_claim_takes_about_as_many_actions_as_the_threads_run_in_a_second(mean, size):
    stats = DurationStats() if mean is None else stats_with(any=mean)

    assert claim_size(batch_size=100, concurrency=8, stats=stats) == size


def test_a_claim_of_slow_actions_takes_at_most_one_batch():
    assert claim_size(batch_size=5, concurrency=8, stats=DurationStats()) == 5
    assert claim_size(batch_size=5, concurrency=8, stats=stats_with(any=60.0)) == 5


def test_a_claim_of_very_fast_actions_takes_up_to_five_batches_and_never_less_than_one():
    assert claim_size(batch_size=7, concurrency=8, stats=stats_with(any=0.0001)) == 35
    assert claim_size(batch_size=1000, concurrency=8, stats=stats_with(any=0.0001)) == 1000


@pytest.mark.parametrize(("seconds", "fits"), [(53.0, True), (53.1, False), (300.0, False)])
def test_a_handler_that_could_never_end_within_a_tick_is_recognized(seconds, fits):
    assert BUDGET.could_ever_fit(seconds) is fits


def test_the_p95_covers_only_the_latest_durations():
    stats = stats_with(test=10.0)
    for _ in range(64):
        stats.record("test", [1.0])

    assert stats.p95("test") == 1.0


@settings(max_examples=50)
@given(st.lists(st.floats(0.0, 100.0), min_size=20, max_size=64))
def test_no_more_than_one_in_twenty_takes_longer_than_the_p95(durations):
    stats = DurationStats()
    for seconds in durations:
        stats.record("test", [seconds])

    p95 = stats.p95("test")

    assert p95 in durations
    assert sum(1 for seconds in durations if seconds > p95) <= len(durations) * 0.05
