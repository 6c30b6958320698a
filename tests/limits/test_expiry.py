"""Expiry: no attempt starts at or after `expires_at`; the action ends once, whatever kept it from running."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from scheduled_actions import Context, action
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core.config import settings_of
from scheduled_actions.limits import claims as limit_claims, store as limit_store
from scheduled_actions.limits.rules.expiry import expiry
from scheduled_actions.ticks import store as tick_store
from tests.factories import (
    NOW,
    PATIENCE,
    a_claimed,
    a_tick,
    database_now,
    holds,
    insert,
    insert_many,
    move_clock,
    projects,
    row,
    statuses,
    wait_until,
)

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def a_project(database_url):
    """Return a function that creates a project with handlers and settings on the test's database."""
    with projects(database_url) as make:
        yield make


@pytest.fixture
def project(a_project):
    """Return a project with one handler, which records the ids of its actions in `project.calls`."""
    return recording(a_project)


def recording(a_project, **settings):
    calls = []

    @action("test:run")
    def run(payload, context: Context):
        calls.append(context.id)

    made = a_project(run, **settings)
    made.calls = calls
    return made


def schedule(project, action_type="test:run", **arguments):
    """Schedule an action that by default expires in a minute; return its id."""
    arguments = {"payload": {}, "expires_in": MINUTE} | arguments
    return project.scheduler.schedule_action(NewAction(action_type=action_type, **arguments)).id


def tick_later(project, connection, by=HOUR):
    move_clock(connection, by)
    return project.processor.tick()


def reason(connection, action_id):
    """Return the action's error after "expired at INSTANT "."""
    found = row(connection, action_id)["error_message"]
    return re.fullmatch(r"expired at \S+Z (.*)", found, re.DOTALL)[1]


# -- due actions -------------------------------------------------------------------------------------------------------


def test_a_due_action_past_its_expiry_is_skipped_without_an_attempt(project, connection):
    late, key = schedule(project, dedup_key="k"), {"dedup_key": "k", "expires_in": 2 * HOUR}

    report = tick_later(project, connection)

    found = row(connection, late)
    assert (report.skipped, report.processed, report.errors) == (1, 1, [])
    assert (found["status"], found["attempts"], found["started_at"]) == ("skipped", 0, None)
    assert (found["claim_token"], found["dedup_open"]) == (None, False)
    assert found["completed_at"] is not None
    assert [entry["outcome"] for entry in found["history"]] == ["expired"]
    assert reason(connection, late) == "before it started"
    assert schedule(project, **key) != late
    assert project.processor.tick().succeeded == 1


def test_an_action_runs_until_its_expiry(project, connection):
    early = schedule(project, expires_in=2 * HOUR)

    tick_later(project, connection)

    assert project.calls == [early]


def test_an_expired_action_that_fails_schedules_what_follows_a_failure(a_project, connection):
    followed = []

    @action("test:follow")
    def follow(payload):
        followed.append(payload["after"])

    project = a_project(follow)
    late = schedule(
        project,
        "test:follow",
        payload={"after": "itself"},
        on_expiry="fail",
        on_failure={"action_type": "test:follow", "payload": {"after": "failure"}},
        on_success={"action_type": "test:follow", "payload": {"after": "success"}},
    )

    report = tick_later(project, connection)

    assert (row(connection, late)["status"], followed) == ("failed", ["failure"])
    assert (report.failed, report.succeeded) == (1, 1)
    assert [error["action_id"] for error in report.errors] == [str(late)]


@pytest.mark.parametrize("transactional", [False, True])
def test_an_action_that_expires_while_it_waits_for_a_thread_is_not_started(a_project, connection, transactional):
    ahead, calls = [0.0], []

    @action("test:first")
    def first(payload):
        # The tick's clock passes the expiry of the action that waits for this thread.
        ahead[0] = 5.0

    @action("test:run", transactional=transactional)
    def run(payload, context: Context):
        calls.append(context.id)

    project = a_project(first, run, concurrency=1)
    state = project.processor.state
    state.monotonic = lambda: time.monotonic() + ahead[0]
    schedule(project, "test:first", priority=-1, expires_in=None)
    late = schedule(project, expires_in=3)

    report = project.processor.tick()

    assert (report.succeeded, report.skipped, calls) == (1, 1, [])
    found = row(connection, late)
    assert (found["status"], found["attempts"], found["started_at"]) == ("skipped", 0, None)
    assert state.duration_stats.p95("test:run", at_least=1) is None


def test_an_action_without_a_handler_expires_as_well(a_project, connection):
    project = a_project()
    late = insert(connection, expires_at=database_now(connection) - MINUTE)

    project.processor.tick()

    assert row(connection, late)["status"] == "skipped"


@pytest.mark.parametrize(("expires_at", "status"), [("-infinity", "skipped"), ("infinity", "failed")])
def test_an_unreadable_expiry_ends_only_its_own_action(project, connection, expires_at, status):
    strange = insert(connection, expires_at=expires_at)
    other = insert(connection)

    project.processor.tick()

    assert statuses(connection) == {strange: status, other: "completed"}


# -- actions that claims pass over -------------------------------------------------------------------------------------


def queued(project, connection):
    limit_store.write_rules(connection, settings_of({"limits": {"api:*": {"at_once": 1}}}).limits)
    running = schedule_in_sql(connection, limits=["api:acme"])
    limit_claims.insert_keys(connection, limit_claims.find_queued(
        connection, wanted=1, after=limit_claims.START, excluded=()
    ).candidates[0].keys)  # fmt: skip
    tick = a_tick(connection, lease_seconds=86400)
    found = limit_claims.find_queued(connection, wanted=1, after=limit_claims.START, excluded=())
    with connection.transaction():
        assert [one.id for one in limit_claims.claim_queued(connection, tick, found.candidates)] == [running]
    return schedule_in_sql(connection, limits=["api:acme"], expires_in=MINUTE)


def without_a_rule(project, connection):
    return schedule_in_sql(connection, limits=["unknown"], expires_in=MINUTE)


def schedule_in_sql(connection, **arguments):
    named = ", ".join(f"{name} => %({name})s" for name in arguments)
    return connection.execute(f"select id from schedule_action('test:run', {named})", arguments).fetchone()[0]


def pause(connection, kind, name):
    return connection.execute(
        "insert into scheduled_action_pauses (kind, name) values (%s, %s) returning id", [kind, name]
    ).fetchone()[0]


def paused(project, connection):
    pause(connection, "action_type", "test:run")
    return schedule(project)


def parked_by_a_pause(project, connection):
    late = schedule(project)
    pause_id = pause(connection, "action_type", "test:run")
    connection.execute("update scheduled_actions set parked_by = %s where id = %s", [str(pause_id), late])
    return late


def behind_its_lock_group(project, connection):
    running = insert(
        connection,
        lock_group="g",
        status="processing",
        claim_token=uuid4(),
        lease_expires_at=database_now(connection) + timedelta(days=1),
    )
    connection.execute("insert into scheduled_action_holds values ('', 'g', %s)", [running])
    return schedule(project, lock_group="g")


def scheduled_for_later(project, connection):
    late = schedule(project)
    connection.execute("update scheduled_actions set scheduled_at = scheduled_at + interval '1 year'")
    return late


def waiting(project, connection):
    target = {"type": "order", "id": "42"}
    late = schedule(project, condition={"wait": {"kind": "document_state", "target": target, "state": "paid"}})
    project.processor.tick()
    connection.execute("update scheduled_actions set scheduled_at = scheduled_at + interval '1 year'")
    return late


def snoozed(project, connection):
    return insert(
        connection,
        scheduled_at=database_now(connection) + timedelta(days=1),
        expires_at=database_now(connection) + MINUTE,
        history=[{"outcome": "snoozed"}],
    )


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (queued, "while it was queued by its limit (api:acme)"),
        (without_a_rule, "while it was queued by its limit (unknown)"),
        (paused, "while it was paused"),
        (parked_by_a_pause, "while it was paused"),
        (behind_its_lock_group, "before it started"),
        (scheduled_for_later, "before it started"),
        (waiting, "while it waited for its condition"),
        (snoozed, "while it was snoozed"),
    ],
)
def test_an_action_that_no_claim_reaches_ends_in_the_first_tick_after_its_expiry(project, connection, block, why):
    late = block(project, connection)
    project.processor.tick()
    assert row(connection, late)["status"] == "pending"

    report = tick_later(project, connection)

    found = row(connection, late)
    assert (report.skipped, project.calls) == (1, [])
    assert (found["status"], found["attempts"], found["parked_by"]) == ("skipped", 0, None)
    assert reason(connection, late) == why


def test_an_action_that_expires_in_its_queue_changes_no_rate(project, connection):
    project.processor.tick()  # It replaces the stored limits with those of the settings.
    limit_store.write_rules(connection, settings_of({"limits": {"api:*": {"rate": "1 per day"}}}).limits)
    started = schedule_in_sql(connection, limits=["api:acme"])
    project.processor.tick()
    late = schedule_in_sql(connection, limits=["api:acme"], expires_in=MINUTE)
    rate = connection.execute("select full_until from scheduled_action_limit_keys").fetchone()

    tick_later(project, connection)

    assert (project.calls, row(connection, late)["status"]) == ([started], "skipped")
    assert connection.execute("select full_until from scheduled_action_limit_keys").fetchone() == rate
    schedule_in_sql(connection, limits=["api:acme"], expires_in=MINUTE)
    move_clock(connection, 2 * HOUR)
    with connection.transaction():
        claimed = limit_claims.claim_expired(connection, a_tick(connection), limit=1)
    limit_claims.give_back(connection, claimed)
    assert connection.execute("select full_until from scheduled_action_limit_keys").fetchone() == rate


def test_more_expired_actions_than_one_statement_claims_end_in_one_tick(project, connection):
    pause(connection, "action_type", "test:run")
    insert_many(connection, 1100, expires_at=database_now(connection) - MINUTE)

    assert project.processor.tick().skipped == 1100


def test_expired_actions_end_even_if_every_handler_thread_is_occupied(a_project, connection):
    leave = threading.Event()

    @action("test:hang", timeout_seconds=1)
    def hang(payload):
        leave.wait(PATIENCE)

    project = a_project(hang, concurrency=1, max_run_seconds=2)
    schedule(project, "test:hang", expires_in=None)
    project.processor.tick()
    assert project.processor.state.is_exhausted
    late = insert(connection, expires_at=database_now(connection) - MINUTE)

    project.processor.tick()
    leave.set()

    assert row(connection, late)["status"] == "skipped"


def test_a_listener_that_wakes_ticks_learns_of_expired_actions(connection):
    def has_late():
        return tick_store.find_upcoming(connection, "listen:test", window_seconds=60).has_late

    at = database_now(connection) + HOUR
    insert(connection, scheduled_at=at + HOUR, expires_at=at)
    assert not has_late()
    move_clock(connection, HOUR)
    assert has_late()


# -- attempts before the expiry ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_expiry", ["skip", "fail"])
def test_an_action_in_retry_fails_with_its_last_error(a_project, connection, on_expiry):
    @action("test:run", max_attempts=5)
    def run(payload):
        raise RuntimeError("the printer is on fire")

    project = a_project(run, retry_base_seconds=86400, retry_cap_seconds=86400)
    late = schedule(project, on_expiry=on_expiry)
    project.processor.tick()

    report = tick_later(project, connection)

    found = row(connection, late)
    assert (report.failed, found["status"], found["attempts"]) == (1, "failed", 1)
    assert [entry["outcome"] for entry in found["history"]] == ["failed", "expired"]
    assert reason(connection, late).startswith("before attempt 2; the last attempt failed: ")
    assert "the printer is on fire" in found["error_message"]


def test_an_action_that_blocks_its_lock_group_frees_it_when_it_expires(a_project, connection):
    runs = []

    @action("test:run", max_attempts=5)
    def run(payload):
        runs.append(payload["n"])
        if payload["n"] == 1:
            raise RuntimeError("not yet")

    project = a_project(run, retry_base_seconds=86400, retry_cap_seconds=86400)
    group = {"lock_group": "g", "lock_group_blocks": True}
    first = schedule(project, payload={"n": 1}, **group)
    project.processor.tick()
    assert holds(connection) == {"g": first}
    schedule(project, payload={"n": 2}, expires_in=None, **group)
    assert project.processor.tick().processed == 0

    tick_later(project, connection)

    assert (runs, holds(connection)) == ([1, 2], {})


def test_an_expired_action_does_not_free_the_group_of_its_handler_that_still_runs(a_project, connection):
    leave = threading.Event()

    @action("test:run", timeout_seconds=1, max_attempts=5)
    def run(payload):
        leave.wait(PATIENCE)

    project = a_project(run)
    late = schedule(project, lock_group="g")
    project.processor.tick()
    assert row(connection, late)["history"][0]["outcome"] == "timed_out"
    # Its lease, which also bounds the hold, has not ended.
    connection.execute("update scheduled_actions set expires_at = scheduled_actions_now()")

    project.processor.tick()

    assert (row(connection, late)["status"], holds(connection)) == ("failed", {"g": late})
    leave.set()
    wait_until(lambda: holds(connection) == {})


def test_an_expired_action_runs_after_a_retry_by_a_person(project, connection):
    late = schedule(project)
    tick_later(project, connection)

    project.scheduler.retry_action(late)
    project.processor.tick()

    assert project.calls == [late]
    assert row(connection, late)["expires_at"] is None


def test_a_rescued_action_that_never_started_expires_uncharged(project, connection):
    """A process that dies after it has claimed an expired action leaves it to the rescue."""
    late = without_a_rule(project, connection)
    move_clock(connection, HOUR)
    tick = a_tick(connection, lease_seconds=1)
    with connection.transaction():
        assert [one.id for one in limit_claims.claim_expired(connection, tick, limit=10)] == [late]

    move_clock(connection, 2 * HOUR)
    reports = [project.processor.tick() for _ in range(2)]

    found = row(connection, late)
    assert [report.rescued for report in reports] == [1, 0]
    assert (found["status"], found["attempts"], project.calls) == ("skipped", 0, [])


# -- other features ----------------------------------------------------------------------------------------------------


def test_an_expired_delivery_ends_as_skipped(project, connection):
    late = insert(
        connection,
        action_type="webhook:send",
        payload={"event": "order.paid", "endpoint": "crm"},
        expires_at=database_now(connection) - MINUTE,
    )

    project.processor.tick()

    found = connection.execute("select status from webhook_deliveries where id = %s", [late]).fetchone()
    assert found == ("skipped",)


def test_an_action_that_waits_for_an_expired_one_is_woken(project, connection):
    first = schedule(project)
    connection.execute("update scheduled_actions set scheduled_at = scheduled_at + interval '1 year'")
    skipped = {"kind": "action_status", "action_id": str(first), "status": "skipped"}
    second = schedule(project, condition={"wait": skipped}, expires_in=None)
    project.processor.tick()

    tick_later(project, connection, 2 * MINUTE)
    project.processor.tick()

    assert project.calls == [second]


def a_series(project, connection, **options):
    """Return the id of a daily series whose planned occurrence expires a minute after it is due."""
    made = project.schedules.schedule_recurring("test:run", {}, "P1D", **options)
    connection.execute("update scheduled_actions set expires_at = scheduled_at + interval '1 minute'")
    return made.id


def series_row(connection, schedule_id):
    return connection.execute(
        "select to_jsonb(s) from scheduled_action_schedules s where s.id = %s", [schedule_id]
    ).fetchone()[0]


@pytest.mark.parametrize("recurrence_type", ["fixed", "rolling"])
@pytest.mark.parametrize("is_blocked", [False, True])
def test_the_series_of_an_expired_occurrence_goes_on(project, connection, recurrence_type, is_blocked):
    series = a_series(project, connection, recurrence_type=recurrence_type, remaining=3)
    if is_blocked:
        pause(connection, "action_type", "test:run")

    tick_later(project, connection, timedelta(days=1, minutes=2))

    found = series_row(connection, series)
    assert sorted(statuses(connection).values()) == ["pending", "skipped"]
    assert (found["status"], found["executions"], found["skipped"], found["remaining"]) == ("active", 0, 1, 3)
    assert found["next_action_id"] is not None


def test_an_occurrence_that_fails_because_it_expired_counts_for_pause_after_failures(project, connection):
    series = a_series(project, connection, pause_after_failures=1)
    connection.execute("update scheduled_actions set on_expiry = 'fail'")

    tick_later(project, connection, timedelta(days=1, minutes=2))

    assert series_row(connection, series)["status"] == "paused"


@pytest.mark.parametrize("began", [timedelta(0), timedelta(days=1)], ids=["skip", "wait"])
def test_the_overlap_policy_neither_skips_nor_delays_an_expired_occurrence(project, connection, began):
    series = a_series(project, connection)
    connection.execute("update scheduled_actions set on_expiry = 'fail'")
    now = database_now(connection)
    running = insert(
        connection,
        schedule_id=series,
        status="processing",
        claim_token=uuid4(),
        updated_at=now + began,
        lease_expires_at=now + timedelta(days=9),
    )

    tick_later(project, connection, timedelta(days=1, minutes=2))

    found = statuses(connection)
    assert found.pop(running) == "processing"
    assert sorted(found.values()) == ["failed", "pending"]


# -- several processes -------------------------------------------------------------------------------------------------


def test_two_ticks_end_each_of_a_thousand_expired_actions_once_while_they_run_others(a_project, connection, caplog):
    running = [recording(a_project), recording(a_project)]
    now = database_now(connection)
    half = {"expires_at": now - MINUTE}
    late = insert_many(connection, 500, **half) + insert_many(connection, 500, scheduled_at=now + HOUR, **half)
    others = insert_many(connection, 300, expires_at=now + HOUR)

    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda one: [one.processor.tick() for _ in range(3)], running))

    assert "action.stale" not in caplog.text
    assert sum(report.skipped for each in reports for report in each) == 1000
    assert sorted(one for project in running for one in project.calls) == sorted(others)
    ended = connection.execute(
        "select count(*) from scheduled_actions where id = any (%s) and status = 'skipped' and attempts = 0"
        " and jsonb_array_length(history) = 1",
        [late],
    ).fetchone()
    assert ended == (1000,)


def test_an_action_that_another_transaction_has_locked_expires_later(project, connection, database_url):
    late = insert(connection, expires_at=database_now(connection) - MINUTE)
    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_actions where id = %s for update", [late])
        report = project.processor.tick()
        assert (report.processed, report.errors) == (0, [])

    assert project.processor.tick().skipped == 1


# -- the rule ----------------------------------------------------------------------------------------------------------


def late_by(seconds, **changes):
    """Return the outcome of an action that is this late."""
    claimed = a_claimed(expires_epoch=NOW.timestamp(), fails_on_expiry=False, **changes)
    return expiry(claimed, now=NOW.timestamp() + seconds)


@pytest.mark.parametrize(("seconds", "is_over"), [(-0.001, False), (0, True), (1, True)])
def test_an_action_expires_at_its_instant(seconds, is_over):
    assert (late_by(seconds) is not None) == is_over


def test_the_clock_of_the_database_decides_for_an_action_that_it_found_expired():
    assert late_by(-60, expired_while="").reason == "expired at 2026-03-04T12:00:00Z before it started"


def test_an_action_without_an_expiry_never_expires():
    assert expiry(a_claimed(), now=float("inf")) is None


def test_a_long_error_of_the_last_attempt_does_not_hide_the_reason(project, connection):
    late = insert(
        connection, attempts=1, error_message="x" * 4096, expires_at=database_now(connection) - MINUTE,
        history=[{"outcome": "failed"}],
    )  # fmt: skip

    project.processor.tick()

    assert reason(connection, late).startswith("before attempt 2; the last attempt failed: xxx")
