from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduled_actions.actions.rules.settlement import (
    Cancelled,
    Completed,
    Crashed,
    Failed,
    NoHandler,
    Settlement,
    Skipped,
    Snoozed,
    TimedOut,
    Unstarted,
    decide,
    history_entry,
)
from scheduled_actions.core.action import ERROR_LIMIT, Status
from scheduled_actions.core.retry import Linear
from tests.factories import NOW, a_claimed

TICK = UUID("0197a000-0000-4000-8000-0000000000aa")
SECOND = timedelta(seconds=1)
PENDING, COMPLETED, FAILED, CANCELLED, SKIPPED, NO_ACTION = (
    Status.PENDING,
    Status.COMPLETED,
    Status.FAILED,
    Status.CANCELLED,
    Status.SKIPPED,
    Status.NO_ACTION,
)

outcomes = st.one_of(
    st.builds(Completed),
    st.builds(Failed, st.text(), st.booleans(), st.none() | st.just(SECOND)),
    st.builds(TimedOut, st.text()),
    st.builds(Crashed, st.integers(0, 8)),
    st.builds(Unstarted),
    st.builds(Snoozed, st.just(SECOND), st.none()),
    st.builds(Skipped, st.text()),
    st.builds(Cancelled, st.text()),
    st.builds(NoHandler, st.text()),
)


def decided(outcome, *, attempts=0, max_attempts=3, **changes):
    return decide(
        a_claimed(attempts=attempts, **changes), outcome, max_attempts=max_attempts, policy=Linear(60), draw=0.0
    )


@pytest.mark.parametrize(
    ("outcome", "attempts", "status", "charge", "delay"),
    [
        (Completed(), 0, COMPLETED, 1, None),
        (Completed(), 2, COMPLETED, 1, None),
        (Failed("no"), 0, PENDING, 1, 60 * SECOND),
        (Failed("no"), 1, PENDING, 1, 120 * SECOND),
        (Failed("no"), 2, FAILED, 1, None),
        (Failed("no", is_final=True), 0, FAILED, 1, None),
        (Failed("no", retry_after=5 * SECOND), 0, PENDING, 1, 5 * SECOND),
        (Failed("no", retry_after=5 * SECOND), 2, FAILED, 1, None),
        (TimedOut("late"), 1, PENDING, 1, 120 * SECOND),
        (TimedOut("late"), 2, FAILED, 1, None),
        # The one that ends its process at each attempt ends `failed`, and never a neighbour with it.
        (Crashed(neighbours=0), 0, PENDING, 1, 0 * SECOND),
        (Crashed(neighbours=3), 1, PENDING, 1, 0 * SECOND),
        (Crashed(neighbours=3), 2, PENDING, 0, 0 * SECOND),
        (Crashed(neighbours=0), 2, FAILED, 1, None),
        (Unstarted(), 2, PENDING, 0, None),
        (Unstarted("too long"), 0, PENDING, 0, None),
        (Snoozed(9 * SECOND), 2, PENDING, 0, 9 * SECOND),
        (Skipped("gone"), 2, SKIPPED, 1, None),
        (Cancelled("gone"), 2, CANCELLED, 1, None),
        (NoHandler("none"), 2, NO_ACTION, 0, None),
    ],
)
def test_each_outcome_has_its_status_its_charge_and_its_delay(outcome, attempts, status, charge, delay):
    settlement = decided(outcome, attempts=attempts)

    assert (settlement.status, settlement.charge, settlement.delay) == (status, charge, delay)


@pytest.mark.parametrize(
    ("outcome", "entry"),
    [
        (Failed("no"), "failed"),
        (TimedOut("late"), "timed_out"),
        (Crashed(0), "crashed"),
        (Snoozed(SECOND), "snoozed"),
        (Skipped("gone"), "skipped"),
        (Cancelled("gone"), "cancelled"),
        (Unstarted(), None),
        (NoHandler("none"), None),
    ],
)
def test_every_attempt_is_in_the_history_and_what_was_none_is_not(outcome, entry):
    assert decided(outcome).entry == entry


@pytest.mark.parametrize(
    ("attempts", "last_outcome", "entry"),
    [(0, None, None), (1, "failed", "completed"), (0, "snoozed", "completed"), (0, "retried", "completed")],
)
def test_a_first_attempt_that_completes_needs_no_entry(attempts, last_outcome, entry):
    assert decided(Completed(), attempts=attempts, last_outcome=last_outcome).entry == entry


@pytest.mark.parametrize(
    ("outcome", "group", "blocks", "hold"),
    [
        (Failed("no"), "g", False, "free"),
        (Failed("no"), "g", True, "keep"),
        (Failed("no", is_final=True), "g", True, "free"),
        (Crashed(0), "g", True, "keep"),
        (Snoozed(SECOND), "g", False, "free"),
        (Snoozed(SECOND), "g", True, "keep"),
        (Completed(), "g", True, "free"),
        (Skipped("gone"), "g", True, "free"),
        (Unstarted(), "g", True, "free"),
        (NoHandler("none"), "g", True, "free"),
        # Its handler may still be at work.
        (TimedOut("late"), "g", False, "linger"),
        (TimedOut("late"), None, False, "free"),
    ],
)
def test_a_hold_is_freed_kept_by_a_blocking_member_or_lingers_under_a_late_handler(outcome, group, blocks, hold):
    assert decided(outcome, lock_group=group, lock_group_blocks=blocks).hold == hold


def test_a_blocking_member_that_has_begun_keeps_its_hold_when_it_is_released():
    released = decided(Unstarted(), attempts=1, last_outcome="failed", lock_group="g", lock_group_blocks=True)

    assert released.hold == "keep"


def test_a_result_and_a_state_are_passed_on():
    assert decided(Completed('{"n": 1}')).result == '{"n": 1}'
    assert decided(Snoozed(SECOND, '{"page": 2}')).state == '{"page": 2}'


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("a\0b", "a\N{REPLACEMENT CHARACTER}b"),
        ("half \ud800", "half ?"),
        ("é" * ERROR_LIMIT, "é" * ERROR_LIMIT),
        ("é" * (ERROR_LIMIT + 1), "é" * (ERROR_LIMIT - 1) + "…"),
    ],
)
@pytest.mark.parametrize("outcome", [Failed, TimedOut, Skipped, Cancelled, NoHandler])
def test_an_error_is_kept_as_postgres_can_hold_it(outcome, reason, kept):
    assert decided(outcome(reason)).error == kept


@given(outcomes, st.integers(0, 10), st.integers(1, 10))
def test_whatever_happens_an_action_stays_alive_or_ends_for_a_reason(outcome, attempts, max_attempts):
    settlement = decided(outcome, attempts=attempts, max_attempts=max_attempts)

    assert settlement.charge in {0, 1}
    if settlement.status is FAILED:
        assert attempts + settlement.charge >= max_attempts or getattr(outcome, "is_final", False)
        assert settlement.error is not None
    if settlement.status is PENDING and settlement.charge:
        assert attempts + 1 < max_attempts
        assert settlement.delay is not None


def test_an_entry_tells_which_attempt_when_how_and_in_which_tick():
    settlement = Settlement(status=PENDING, entry="failed", charge=1, error="no")

    entry = history_entry(a_claimed(attempts=1), settlement, started_at=NOW, ended_at=NOW + SECOND, tick_id=TICK)

    assert entry == {
        "attempt": 2,
        "outcome": "failed",
        "started_at": "2026-03-04T12:00:00+00:00",
        "ended_at": "2026-03-04T12:00:01+00:00",
        "error": "no",
        "tick": str(TICK),
    }


def test_an_entry_leaves_out_what_is_not_known():
    settlement = Settlement(status=PENDING, entry="crashed", charge=1)

    assert history_entry(a_claimed(), settlement, started_at=None, ended_at=None, tick_id=None) == {
        "attempt": 1,
        "outcome": "crashed",
    }


def test_a_settlement_without_a_word_for_the_history_leaves_no_entry():
    settlement = Settlement(status=COMPLETED, entry=None)

    assert history_entry(a_claimed(), settlement, started_at=NOW, ended_at=NOW, tick_id=TICK) is None
