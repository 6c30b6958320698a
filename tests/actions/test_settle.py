"""Settling: fenced by the claim token, atomic with follow-ups and with the announcement of starting actions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from scheduled_actions.actions import claims, settling, store as actions
from scheduled_actions.core.action import Status
from tests.factories import (
    NOW,
    a_tick,
    an_outcome,
    database_now,
    insert,
    move_clock,
    row,
    set_clock,
    statuses,
    together,
)


@pytest.fixture
def claimed(connection):
    """Insert and claim an action; return the claim."""
    insert(connection)
    return claim(connection)


def claim(connection):
    (claimed,), _ = claims.claim_free(connection, a_tick(connection), wanted=1, after=claims.START, excluded=())
    return claimed


def settle(connection, *outcomes, running=None, tick=None):
    return settling.settle(connection, tick or a_tick(connection), outcomes, running=running)


def cancel(connection, action_id):
    return actions.one(
        connection,
        "cancel_action",
        id=action_id,
        by="zoe",
        reason="no need",
        statuses=["pending", "no_action", "processing"],
        team_id=None,
        edit_lock_seconds=None,
    )


def new_follow_up(**changes):
    return {"action_type": "test:next", "payload": '{"n": 1}'} | changes


def test_an_outcome_is_stored_and_its_status_returned(connection, claimed):
    started_at = database_now(connection)

    settled = settle(connection, an_outcome(claimed, result='{"n": 1}', started_at=started_at))

    found = row(connection, claimed.id)
    assert settled.statuses == {claimed.id: Status.COMPLETED}
    assert (found["status"], found["attempts"], found["result"]) == ("completed", 1, {"n": 1})
    assert found["claim_token"] is found["lease_expires_at"] is found["error_message"] is None
    assert found["completed_at"] is not None
    assert connection.execute("select started_at from scheduled_actions").fetchone() == (started_at,)


@pytest.mark.parametrize("rescued_to", ["pending", "processing", "completed"])
def test_a_late_settlement_cannot_overwrite_a_rescued_action(connection, claimed, rescued_to):
    if rescued_to == "processing":
        connection.execute("update scheduled_actions set claim_token = %s", [uuid4()])
    else:
        connection.execute(
            "update scheduled_actions set status = %s, claim_token = null, lease_expires_at = null", [rescued_to]
        )
    before = row(connection, claimed.id)

    settled = settle(connection, an_outcome(claimed, status=Status.FAILED, error="late", follow_ups=[new_follow_up()]))

    assert settled.statuses == {}
    assert row(connection, claimed.id) == before
    assert list(statuses(connection)) == [claimed.id], "a rejected outcome schedules no follow-up"


def test_an_outcome_that_is_sent_twice_settles_once(connection, claimed):
    outcome = an_outcome(claimed, follow_ups=[new_follow_up()])
    settle(connection, outcome)

    again = settle(connection, outcome)

    assert again.statuses == {}
    assert row(connection, claimed.id)["attempts"] == 1
    assert len(statuses(connection)) == 2


def test_one_of_sixteen_concurrent_settlements_is_stored(database_url, connection, claimed):
    outcome = an_outcome(claimed, follow_ups=[new_follow_up()])

    results = together(database_url, 16, lambda own, _: settle(own, outcome).statuses)

    assert sorted(map(len, results)) == [0] * 15 + [1]
    assert row(connection, claimed.id)["attempts"] == 1
    assert len(statuses(connection)) == 2


def test_a_stale_outcome_does_not_affect_the_others(connection):
    insert(connection)
    insert(connection)
    first, second = claim(connection), claim(connection)

    settled = settle(connection, an_outcome(first, token=uuid4()), an_outcome(second))

    assert settled.statuses == {second.id: Status.COMPLETED}
    assert statuses(connection) == {first.id: "processing", second.id: "completed"}


def test_follow_ups_are_scheduled_with_the_settlement(connection, claimed):
    follow_ups = [new_follow_up(), new_follow_up(delay=60, team_id="t", priority=4, lock_group="g")]

    settle(connection, an_outcome(claimed, follow_ups=follow_ups))

    rows = connection.execute(
        "select action_type, payload, team_id, priority, lock_group, scheduled_at > now() + interval '50 s'"
        " from scheduled_actions where id <> %s order by id",
        [claimed.id],
    ).fetchall()
    assert rows == [("test:next", {"n": 1}, None, 0, None, False), ("test:next", {"n": 1}, "t", 4, "g", True)]


def test_a_merged_follow_up_keeps_its_first_parent(connection, claimed):
    follow_up = new_follow_up(dedup_key="k", dedup_window=60)
    settle(connection, an_outcome(claimed, follow_ups=[follow_up]))
    insert(connection)
    second = claim(connection)
    connection.execute("update scheduled_actions set created_at = now() - interval '2 minutes' where dedup_key = 'k'")

    # The open key has expired: the first of the two is inserted, the second is merged into it.
    settle(connection, an_outcome(second, follow_ups=[follow_up, follow_up]))

    rows = connection.execute("select scheduled_by from scheduled_actions where dedup_key = 'k' order by id").fetchall()
    assert rows == [(claimed.id,), (second.id,)]


def test_a_follow_up_that_cannot_be_scheduled_does_not_undo_the_settlement(connection, claimed):
    settle(connection, an_outcome(claimed, follow_ups=[new_follow_up(), new_follow_up(priority=99999)]))

    assert statuses(connection)[claimed.id] == "completed"
    assert sorted(statuses(connection).values()) == ["completed", "failed", "pending"]


def test_a_settlement_that_is_rolled_back_leaves_no_follow_up(connection, claimed):
    with connection.transaction(force_rollback=True):
        settle(connection, an_outcome(claimed, follow_ups=[new_follow_up()]))

    assert statuses(connection) == {claimed.id: "processing"}


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.CANCELLED, Status.SKIPPED, Status.PENDING])
def test_follow_ups_are_scheduled_with_every_outcome_of_a_handler(connection, claimed, status):
    settle(connection, an_outcome(claimed, status=status, follow_ups=[new_follow_up()]))

    assert len(statuses(connection)) == 2


def test_follow_ups_of_a_cancelled_snooze_are_not_scheduled(connection, claimed):
    cancel(connection, claimed.id)

    settle(
        connection,
        an_outcome(claimed, status=Status.PENDING, delay=timedelta(1), follow_ups=[new_follow_up()]),
    )

    assert statuses(connection) == {claimed.id: "cancelled"}


def test_a_retry_moves_the_instant_by_its_delay_and_keeps_the_error(connection, claimed):
    delay = timedelta(seconds=90)

    settle(connection, an_outcome(claimed, status=Status.PENDING, delay=delay, error="no"))

    found = connection.execute(
        "select status, error_message, completed_at, scheduled_at - updated_at from scheduled_actions"
    ).fetchone()
    assert found == ("pending", "no", None, delay)


def test_a_release_changes_nothing_but_the_status(connection, claimed):
    before = row(connection, claimed.id)

    settle(connection, an_outcome(claimed, status=Status.PENDING, charge=0))

    changed = {"status", "claim_token", "lease_expires_at", "updated_at"}
    after = row(connection, claimed.id)
    assert {name for name in after if after[name] != before[name]} == changed
    assert after["status"] == "pending"


def test_completing_clears_the_error_of_the_previous_attempt(connection):
    insert(connection, error_message="no", attempts=1)

    settle(connection, an_outcome(claim(connection)))

    found = connection.execute("select error_message, attempts from scheduled_actions").fetchone()
    assert found == (None, 2)


def test_a_snooze_without_a_state_keeps_the_stored_state(connection):
    insert(connection, state={"page": 2})

    settle(connection, an_outcome(claim(connection), status=Status.PENDING, delay=timedelta(0)))

    assert connection.execute("select state from scheduled_actions").fetchone() == ({"page": 2},)


@pytest.mark.parametrize("status", [Status.PENDING, Status.NO_ACTION])
def test_an_action_cancelled_while_running_is_not_started_again(connection, claimed, status):
    cancel(connection, claimed.id)

    settled = settle(connection, an_outcome(claimed, status=status, delay=timedelta(0), error="no"))

    found = row(connection, claimed.id)
    assert settled.statuses == {claimed.id: Status.CANCELLED}
    assert (found["status"], found["attempts"]) == ("cancelled", 1)
    assert found["completed_at"] is not None


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED, Status.SKIPPED])
def test_an_action_that_ends_after_a_cancel_request_keeps_its_outcome(connection, claimed, status):
    cancel(connection, claimed.id)

    assert settle(connection, an_outcome(claimed, status=status)).statuses == {claimed.id: status}


def new_entry(outcome, **more):
    return {"attempt": 1, "outcome": outcome} | more


def history_after(connection, entries):
    """Settle an action once per entry; return its history."""
    action_id = insert(connection)
    for entry in entries:
        outcome = an_outcome(claim(connection), status=Status.PENDING, charge=0, delay=timedelta(0), entry=entry)
        settle(connection, outcome)
        connection.execute("update scheduled_actions set scheduled_at = now()")
    return row(connection, action_id)["history"]


def test_the_history_keeps_the_first_five_and_the_last_forty_five_entries(connection):
    entries = [new_entry("failed", n=n) for n in range(60)]

    history = history_after(connection, entries)

    assert [entry["n"] for entry in history] == [*range(5), *range(15, 60)]


def test_a_history_of_fifty_entries_is_kept_completely(connection):
    entries = [new_entry("failed", n=n) for n in range(50)]

    assert history_after(connection, entries) == entries


def test_consecutive_snoozes_are_one_counted_entry(connection):
    entries = [
        new_entry("snoozed", started_at="1", ended_at="2"),
        new_entry("snoozed", started_at="3", ended_at="4"),
        new_entry("snoozed", started_at="5", ended_at="6"),
        new_entry("failed"),
        new_entry("snoozed", started_at="7", ended_at="8"),
    ]

    assert history_after(connection, entries) == [
        new_entry("snoozed", started_at="1", ended_at="6", count=3),
        new_entry("failed"),
        new_entry("snoozed", started_at="7", ended_at="8"),
    ]


def test_a_settlement_without_an_entry_leaves_the_history_alone(connection):
    assert history_after(connection, [new_entry("failed"), None]) == [new_entry("failed")]


def running(connection, tick):
    return connection.execute("select running from scheduled_action_ticks where id = %s", [tick.id]).fetchone()[0]


def test_the_settlement_announces_the_starting_actions(connection, claimed):
    tick, starting = a_tick(connection), uuid4()

    settled = settle(connection, an_outcome(claimed), running=[starting], tick=tick)

    assert settled.announced
    assert running(connection, tick) == [starting]
    assert settle(connection, running=[], tick=tick).announced
    assert running(connection, tick) == []


def test_nothing_is_announced_after_the_leases_have_expired(connection, claimed):
    tick = a_tick(connection, lease_seconds=70)
    move_clock(connection, timedelta(seconds=71))

    settled = settle(connection, an_outcome(claimed), running=[uuid4()], tick=tick)

    assert not settled.announced
    assert running(connection, tick) == []
    assert settled.statuses == {claimed.id: Status.COMPLETED}, "its claim token is still valid"


def test_a_settlement_without_an_announcement_keeps_the_previous_one(connection, claimed):
    tick, starting = a_tick(connection), uuid4()
    settle(connection, running=[starting], tick=tick)

    settle(connection, an_outcome(claimed), running=None, tick=tick)

    assert running(connection, tick) == [starting]


@pytest.mark.parametrize("text", ['a "quoted" \\ text', "percent %s %(x)s", "é€😀", "line\nbreak"])
def test_texts_are_stored_unchanged(connection, claimed, text):
    settle(connection, an_outcome(claimed, status=Status.FAILED, error=text, entry=new_entry("failed", error=text)))

    found = row(connection, claimed.id)
    assert found["error_message"] == text
    assert found["history"][0]["error"] == text


# -- completions -------------------------------------------------------------------------------------------------------


def new_completion(claimed, *, token=None, started=1_000, ended=2_500):
    return settling.Completion(claimed.id, token or claimed.token, started=started, ended=ended, max_attempts=3)


def complete(connection, *completions, running=(), tick=None):
    return settling.complete(connection, tick or a_tick(connection), completions, running=running)


@given(
    columns=st.fixed_dictionaries(
        {},
        optional={
            "payload": st.sampled_from(["{}", '{"n": 1}', '[{"n": 1}, {"n": 2}]', '"text"']),
            "priority": st.integers(-(2**15), 2**15 - 1),
            "team_id": st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8),
            "error_message": st.just("snoozed"),
            "attempts": st.sampled_from([0, 2**31 - 2]),
            "max_attempts": st.integers(1, 1000),
            "metadata": st.dictionaries(st.sampled_from(["a", "b"]), st.integers()),
            "state": st.lists(st.integers(), max_size=2),
            "history": st.just([{"outcome": "snoozed", "count": 2}]),
            "user_id": st.just("u1"),
            "created_by": st.just("zoe"),
            "result": st.just({"n": 1}),
        },
    ),
    times=st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)),
    outcome=st.fixed_dictionaries(
        {
            "max_attempts": st.integers(1, 1000),
            "result": st.sampled_from([None, "null", '"null"', '{"text": "\\\\ \\" {},é"}', "[1, 2]", "false"]),
        }
    ),
    has_slots=st.booleans(),
)
@example(columns={"result": {"n": 1}}, times=(0, 1), outcome={"max_attempts": 1, "result": "null"}, has_slots=False)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_completion_stores_the_same_row_as_settling_the_outcome(connection, columns, times, outcome, has_slots):
    set_clock(connection, NOW)
    for _ in range(2):
        insert(connection, **columns)
    by_settle, by_complete, tick = claim(connection), claim(connection), a_tick(connection)
    started, ended = min(times), max(times)
    at = {"started_at": NOW + timedelta(microseconds=started), "ended_at": NOW + timedelta(microseconds=ended)}
    settled = replace(an_outcome(by_settle, result=outcome["result"]), max_attempts=outcome["max_attempts"], **at)
    completion = new_completion(by_complete, started=started, ended=ended)
    completion = completion._replace(has_slots=has_slots, **outcome)

    settle(connection, settled, tick=tick)
    complete(connection, completion, tick=tick)

    rows = [row(connection, claimed.id) for claimed in (by_settle, by_complete)]
    first, second = ({name: value for name, value in found.items() if name != "id"} for found in rows)
    assert first == second
    assert (second["status"], second["error_message"]) == ("completed", None)


def test_a_completion_that_lost_its_claim_is_returned_and_changes_nothing(connection):
    insert(connection)
    insert(connection)
    stale, good = claim(connection), claim(connection)
    before = row(connection, stale.id)

    done = complete(connection, new_completion(stale, token=uuid4()), new_completion(good))

    assert done.lost == {stale.id}
    assert row(connection, stale.id) == before
    assert statuses(connection)[good.id] == "completed"


def test_one_of_sixteen_concurrent_completions_is_stored(database_url, connection, claimed):
    results = together(database_url, 16, lambda own, _: complete(own, new_completion(claimed)).lost)

    assert sorted(map(len, results)) == [0] + [1] * 15
    assert row(connection, claimed.id)["attempts"] == 1


def test_a_completion_announces_the_starting_actions_within_the_lease(connection, claimed):
    tick, following = a_tick(connection), uuid4()

    done = complete(connection, new_completion(claimed), running=[following], tick=tick)

    assert done.announced
    assert connection.execute("select running from scheduled_action_ticks where id = %s", [tick.id]).fetchone() == (
        [following],
    )


def test_after_the_lease_has_expired_a_completion_is_stored_and_nothing_is_announced(connection, claimed):
    tick = a_tick(connection, lease_seconds=70)
    move_clock(connection, timedelta(seconds=71))

    done = complete(connection, new_completion(claimed), running=[uuid4()], tick=tick)

    assert not done.announced
    assert not done.lost


def test_a_completion_does_not_wait_for_a_row_locked_by_another_transaction(database_url, connection, claimed):
    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_actions for update")

        with pytest.raises(psycopg.errors.LockNotAvailable):
            complete(connection, new_completion(claimed))

    assert statuses(connection) == {claimed.id: "processing"}
