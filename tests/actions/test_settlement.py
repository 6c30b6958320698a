from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from scheduled_actions.actions.rules.settlement import (
    Cancelled,
    Completed,
    Crashed,
    Failed,
    NoHandler,
    Released,
    Settlement,
    Skipped,
    Snoozed,
    TimedOut,
    decide,
    history_entry,
    reports_failure,
)
from scheduled_actions.core import json_text
from scheduled_actions.core.action import ERROR_LIMIT, RESULT_LIMIT, Status
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
    st.builds(Released),
    st.builds(Snoozed, st.just(SECOND), st.none()),
    st.builds(Skipped, st.text()),
    st.builds(Cancelled, st.text()),
    st.builds(NoHandler, st.text()),
)


def decide_outcome(outcome, *, attempts=0, max_attempts=3, **changes):
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
        # An action that crashes its process at each attempt fails; the attempts of its neighbours are not counted.
        (Crashed(neighbours=0), 0, PENDING, 1, 0 * SECOND),
        (Crashed(neighbours=3), 1, PENDING, 1, 0 * SECOND),
        (Crashed(neighbours=3), 2, PENDING, 0, 0 * SECOND),
        (Crashed(neighbours=0), 2, FAILED, 1, None),
        (Released(), 2, PENDING, 0, None),
        (Released("too long"), 0, PENDING, 0, None),
        (Snoozed(9 * SECOND), 2, PENDING, 0, 9 * SECOND),
        (Skipped("gone"), 2, SKIPPED, 1, None),
        (Cancelled("gone"), 2, CANCELLED, 1, None),
        (NoHandler("none"), 2, NO_ACTION, 0, None),
    ],
)
def test_status_charge_and_delay_of_each_outcome(outcome, attempts, status, charge, delay):
    settlement = decide_outcome(outcome, attempts=attempts)

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
        (Released(), None),
        (NoHandler("none"), None),
    ],
)
def test_every_attempt_has_a_history_entry_and_releases_have_none(outcome, entry):
    assert decide_outcome(outcome).entry == entry


@pytest.mark.parametrize(
    ("attempts", "last_outcome", "entry"),
    [(0, None, None), (1, "failed", "completed"), (0, "snoozed", "completed"), (0, "retried", "completed")],
)
def test_a_first_attempt_that_completes_needs_no_entry(attempts, last_outcome, entry):
    assert decide_outcome(Completed(), attempts=attempts, last_outcome=last_outcome).entry == entry


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
        (Released(), "g", True, "free"),
        (NoHandler("none"), "g", True, "free"),
        # Its handler may still be running.
        (TimedOut("late"), "g", False, "linger"),
        (TimedOut("late"), None, False, "free"),
    ],
)
def test_a_hold_is_freed_kept_or_lingers(outcome, group, blocks, hold):
    assert decide_outcome(outcome, lock_group=group, lock_group_blocks=blocks).hold == hold


def test_a_released_blocking_member_with_attempts_keeps_its_hold():
    released = decide_outcome(Released(), attempts=1, last_outcome="failed", lock_group="g", lock_group_blocks=True)

    assert released.hold == "keep"


def test_the_result_and_the_state_are_part_of_the_settlement():
    assert decide_outcome(Completed('{"n": 1}')).result == '{"n": 1}'
    assert decide_outcome(Snoozed(SECOND, '{"page": 2}')).state == '{"page": 2}'


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
def test_an_error_text_is_cleaned_and_cut_for_postgres(outcome, reason, kept):
    assert decide_outcome(outcome(reason)).error == kept


@given(outcomes, st.integers(0, 10), st.integers(1, 10))
def test_every_failed_action_has_an_error_and_every_retry_an_attempt_left(outcome, attempts, max_attempts):
    settlement = decide_outcome(outcome, attempts=attempts, max_attempts=max_attempts)

    assert settlement.charge in {0, 1}
    if settlement.status is FAILED:
        assert attempts + settlement.charge >= max_attempts or getattr(outcome, "is_final", False)
        assert settlement.error is not None
    if settlement.status is PENDING and settlement.charge:
        assert attempts + 1 < max_attempts
        assert settlement.delay is not None


def test_the_fields_of_a_history_entry():
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


def test_a_history_entry_omits_unknown_fields():
    settlement = Settlement(status=PENDING, entry="crashed", charge=1)

    assert history_entry(a_claimed(), settlement, started_at=None, ended_at=None, tick_id=None) == {
        "attempt": 1,
        "outcome": "crashed",
    }


def test_a_settlement_without_an_entry_adds_nothing_to_the_history():
    settlement = Settlement(status=COMPLETED, entry=None)

    assert history_entry(a_claimed(), settlement, started_at=NOW, ended_at=NOW, tick_id=TICK) is None


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"success": False}, True),
        ({"success": False, "error": "no license"}, True),
        ({"reason": None, "error": {"code": 7}, "success": False}, True),
        ({"success": False, "checked": 7}, False),
        ({"success": True, "error": "no license"}, False),
        ({"success": 0}, False),
        ({"error": "no license"}, False),
        ({"error": {"success": False}}, False),
        ([{"success": False}], False),
        ('{"success":false}', False),
    ],
)
def test_a_result_that_only_says_that_the_work_failed_reports_a_failure(result, expected):
    assert reports_failure(json_text.encode("result", result, limit=RESULT_LIMIT)) is expected
