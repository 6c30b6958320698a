"""Schedules whose occurrences have limit keys and expire: what occurrences inherit, and in which order they run."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from scheduled_actions import action
from scheduled_actions.actions import claims
from scheduled_actions.core.config import Limit
from scheduled_actions.core.config.checks import Rate
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.limits import claims as limit_claims, store as limits
from scheduled_actions.limits.pauses import Subject
from scheduled_actions.schedules import operations
from scheduled_actions.schedules.model import instant
from tests.factories import NOW, a_tick, projects, row, set_clock

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class Handler:
    """A handler that records the instants for which it ran, and how many of its attempts ran at the same time."""

    def __init__(self):
        self.ran, self.running, self.most = [], 0, 0

        @action("test:run", max_attempts=1)
        def handle(payload: dict, context):
            self.running += 1
            self.most = max(self.most, self.running)
            self.ran.append(context.occurrence_at)
            self.running -= 1

        self.handle = handle


@pytest.fixture
def handler():
    return Handler()


@pytest.fixture
def project(database_url, connection, handler):
    """Yield a project with the limit patterns `api:*` and `total`; the clock is set to NOW."""
    set_clock(connection, NOW)
    with projects(database_url) as create:
        made = create(handler.handle, concurrency=4)
        made.config.settings.limits.update(
            {"api:*": Limit(at_once=1), "total": Limit(at_once=5), "full": Limit(at_once=1)}
        )
        yield made


@pytest.fixture
def schedules(project):
    return project.schedules


def series(schedules, rule="daily", **options):
    return schedules.schedule_recurring("test:run", {}, rule, **{"name": "report", **options})


def options_of(connection, action_id):
    """Return the columns of an action that limits and expiry set."""
    return connection.execute(
        "select limit_keys, parked_by, expires_at, on_expiry from scheduled_actions where id = %s", [action_id]
    ).fetchone()


def planned(connection, schedule):
    return options_of(connection, schedule.next_action_id)


def test_an_occurrence_inherits_the_limit_keys_and_expires_after_its_due_time(schedules, connection):
    made = series(schedules, limit=["api:acme", "total"], expires_in=HOUR, on_expiry="fail")

    assert (made.limit_keys, made.expires_seconds, made.on_expiry) == (["api:acme", "total"], 3600.0, "fail")
    assert planned(connection, made) == (["api:acme", "total"], None, NOW + DAY + HOUR, "fail")


def test_jitter_delays_the_expiry_of_an_occurrence(schedules, connection):
    made = series(schedules, jitter_seconds=3600, expires_in=60)

    ((due_at,),) = connection.execute("select scheduled_at from scheduled_actions")
    assert due_at > NOW + DAY
    assert planned(connection, made) == (None, None, due_at + MINUTE, "skip")


def test_an_occurrence_without_the_options_has_none_of_their_columns(schedules, connection):
    made = series(schedules)

    assert (made.limit_keys, made.expires_seconds, made.on_expiry) == (None, None, None)
    assert planned(connection, made) == (None, None, None, None)


def test_the_expiry_of_an_occurrence_stays_in_the_calendar(schedules, connection):
    made = series(schedules, scheduled_at="9990-01-01T00:00:00Z", expires_in=36525 * DAY)

    assert planned(connection, made)[2].year == 9999


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"limit": "apis:acme"},
            'limit has the key "apis:acme", which matches no pattern of [limits]; did you mean "api:"?',
        ),
        ({"limit": []}, "limit"),
        ({"limit": ["total", "total"]}, "limit"),
        ({"limit": 7}, "limit"),
        ({"expires_in": 0}, "expires_in"),
        ({"expires_in": 1e-9}, "expires_in"),
        ({"expires_in": "1h"}, "expires_in"),
        ({"expires_in": 36526 * DAY}, "expires_in"),
        ({"expires_in": HOUR, "on_expiry": "cancel"}, "on_expiry: 'cancel' is not one of skip, fail"),
        ({"on_expiry": "fail"}, "on_expiry has no effect without expires_in"),
    ],
)
def test_invalid_options_are_refused_by_name_when_a_schedule_is_created_or_changed(
    schedules, connection, options, message
):
    with pytest.raises(InvalidArgument) as refused:
        series(schedules, **options)
    assert message in str(refused.value)
    assert connection.execute("select count(*) from scheduled_action_schedules").fetchone() == (0,)

    made = series(schedules)
    with pytest.raises(InvalidArgument) as refused:
        schedules.update("report", **options)
    assert message in str(refused.value)
    assert schedules.get("report") == made


def test_the_default_of_on_expiry_does_not_change_a_schedule(schedules):
    made = series(schedules, on_expiry="skip")

    assert made.on_expiry is None
    assert series(schedules) == made


# -- changes -----------------------------------------------------------------------------------------------------------


def test_a_change_applies_to_the_planned_occurrence(schedules, connection):
    made = series(schedules)

    schedules.update("report", limit="api:acme", expires_in=2 * HOUR)
    assert planned(connection, made) == (["api:acme"], None, NOW + DAY + 2 * HOUR, "skip")

    schedules.update("report", expires_in=HOUR, on_expiry="fail")
    assert planned(connection, made) == (["api:acme"], None, NOW + DAY + HOUR, "fail")

    changed = schedules.update("report", limit=None, expires_in=None)
    assert planned(connection, made) == (None, None, None, None)
    assert (changed.limit_keys, changed.expires_seconds, changed.on_expiry) == (None, None, None)
    assert changed.next_action_id == made.next_action_id


def test_another_change_keeps_the_expiry_that_a_person_has_given_an_occurrence(schedules, connection):
    made = series(schedules, expires_in=HOUR)
    connection.execute(
        "update scheduled_actions set expires_at = %s, on_expiry = 'fail' where id = %s",
        [NOW + 9 * DAY, made.next_action_id],
    )

    schedules.update("report", priority=5)

    assert planned(connection, made) == (None, None, NOW + 9 * DAY, "fail")


def test_an_occurrence_that_waits_for_its_condition_keeps_its_due_time_as_the_start_of_its_expiry(
    project, schedules, connection
):
    condition = {"kind": "document_state", "target": {"type": "books", "id": "2026"}, "state": "closed"}
    made = series(schedules, recurrence_type="rolling", expires_in=4 * HOUR, condition={"wait": condition})
    connection.execute(
        "update scheduled_actions set scheduled_at = scheduled_at + interval '30 minutes', waiting = %s where id = %s",
        ['{"checks": 3}', made.next_action_id],
    )

    schedules.update("report", expires_in=6 * HOUR)

    assert planned(connection, made)[2] == NOW + DAY + 6 * HOUR


def test_an_occurrence_that_only_a_change_makes_due_expires_after_its_instant(project, schedules, connection):
    condition = {"kind": "document_state", "target": {"type": "books", "id": "2026"}, "state": "closed"}
    made = series(schedules, recurrence_type="rolling", condition={"wait": condition})
    set_clock(connection, NOW + DAY)
    project.processor.tick()
    assert row(connection, made.next_action_id)["waiting"] is not None

    schedules.update("report", expires_in=6 * HOUR)

    assert planned(connection, made)[2] == NOW + DAY + 6 * HOUR


@pytest.mark.parametrize("limit", ["api:other", None])
def test_a_queued_occurrence_runs_with_the_new_limit_keys_of_its_schedule(project, connection, handler, limit):
    series(project.schedules, limit="full")
    set_clock(connection, NOW + DAY)
    occupy(connection, "full")
    project.processor.tick()
    assert handler.ran == []

    changed = project.schedules.update("report", limit=limit)
    project.processor.tick()

    assert changed.limit_keys == (None if limit is None else [limit])
    assert handler.ran == [NOW + DAY]


def test_an_occurrence_held_back_by_a_pause_stays_so_when_the_limit_of_its_schedule_changes(
    project, connection, handler
):
    series(project.schedules)
    set_clock(connection, NOW + DAY)
    subject = Subject("action_type", "test:run", None)
    project.pauses.pause(subject)

    for limit in ("api:acme", None):
        project.schedules.update("report", limit=limit)
        project.processor.tick()
    assert handler.ran == []

    project.pauses.resume(subject)
    project.processor.tick()
    assert handler.ran == [NOW + DAY]


def occupy(connection, key):
    """Take a slot of a limit key for nine days, as a handler that does not return after its timeout."""
    connection.execute(
        "insert into scheduled_action_limit_slots (team_id, limit_key, action_id, claim_token, busy_until)"
        " values ('', %s, %s, %s, %s)",
        [key, uuid4(), uuid4(), NOW + 9 * DAY],
    )


def test_an_overdue_occurrence_that_gets_a_limit_is_queued_and_runs(project, connection, handler):
    made = series(project.schedules)
    set_clock(connection, NOW + DAY + MINUTE)

    project.schedules.update("report", limit="api:acme")
    project.processor.tick()

    assert row(connection, made.next_action_id)["status"] == "completed"
    assert handler.ran == [NOW + DAY]


# -- occurrences that are due at once ----------------------------------------------------------------------------------


def test_a_limited_catch_up_queues_every_missed_occurrence_and_runs_them_in_order(project, connection, handler):
    series(project.schedules, "hourly", misfire="catch_up", overlap="allow", limit="api:acme")
    set_clock(connection, NOW + 6 * HOUR)

    project.processor.tick()

    assert handler.ran == [NOW + number * HOUR for number in range(1, 7)]
    assert handler.most == 1
    assert connection.execute("select count(*) from scheduled_action_limit_slots").fetchone() == (0,)


@pytest.mark.parametrize("overlap", ["allow", "queue"])
def test_a_limited_backfill_is_queued_and_runs_in_order(project, connection, handler, overlap):
    series(project.schedules, "hourly", overlap=overlap, limit="api:acme", expires_in=HOUR)
    set_clock(connection, NOW + 30 * MINUTE)

    ids = operations.backfill(project.schedules, "report", NOW - 5 * HOUR, NOW)
    queued = [options_of(connection, action_id) for action_id in ids]
    project.processor.tick()

    assert queued == [(["api:acme"], "limit", NOW + 90 * MINUTE, "skip")] * 6
    assert handler.ran == [NOW - number * HOUR for number in range(5, -1, -1)]
    assert handler.most == 1


def test_a_manual_run_has_the_options_of_the_schedule(schedules, connection):
    series(schedules, limit="api:acme", expires_in=HOUR, on_expiry="fail")

    run = operations.run_now(schedules, "report")

    assert options_of(connection, run.id) == (["api:acme"], "limit", NOW + HOUR, "fail")


def test_a_manual_run_without_limit_keys_is_not_queued(schedules, connection):
    series(schedules, expires_in=HOUR)

    assert row(connection, operations.run_now(schedules, "report").id)["parked_by"] is None


def test_a_limited_series_plans_each_occurrence_once(project, connection, handler):
    series(project.schedules, "hourly", limit="api:acme")
    for hour in range(1, 4):
        set_clock(connection, NOW + hour * HOUR)
        project.processor.tick()

    assert handler.ran == [NOW + hour * HOUR for hour in range(1, 4)]
    assert connection.execute(
        "select status, count(*) from scheduled_actions group by status order by status"
    ).fetchall() == [("completed", 3), ("pending", 1)]
    assert project.schedules.get("report").executions == 3


def test_a_skipped_occurrence_does_not_use_the_rate_of_its_key(project, connection, handler):
    project.config.settings.limits["daily:*"] = Limit(rate=Rate(1, DAY.total_seconds()), burst=1)
    series(project.schedules, "hourly", misfire="skip", limit="daily:report")

    for hours in (1.5, 2):
        set_clock(connection, NOW + hours * HOUR)
        project.processor.tick()

    assert handler.ran == [NOW + 2 * HOUR]
    assert project.schedules.get("report").skipped == 1


def test_an_occurrence_that_waits_for_its_turn_stays_in_the_queue_of_its_key(project, connection):
    series(project.schedules, "hourly", misfire="catch_up", limit="total")
    limits.write_rules(connection, project.config.settings.limits)
    set_clock(connection, NOW + 2 * HOUR)
    claims.claim_free(connection, a_tick(connection), wanted=5, after=claims.START, excluded=())

    assert claim_queued(project, connection) == [NOW + HOUR]
    assert claim_queued(project, connection) == []

    waiting = project.schedules.get("report").next_action_id
    assert options_of(connection, waiting)[:2] == (["total"], "limit")
    assert row(connection, waiting)["status"] == "pending"
    assert connection.execute("select count(*) from scheduled_action_limit_slots").fetchone() == (1,)


def claim_queued(project, connection):
    """Claim from the queues as a tick does; return the instants of the occurrences that the hook of series keeps."""
    queued = limit_claims.find_queued(connection, wanted=5, after=limit_claims.START, excluded=())
    limit_claims.insert_keys(connection, {key for one in queued.candidates for key in one.keys})
    with connection.transaction():
        claimed = limit_claims.claim_queued(connection, a_tick(connection), queued.candidates)
        kept = project.series.after_claim(connection, claimed).kept
    return [instant(one.occurrence_epoch) for one in kept]


# -- expired occurrences -----------------------------------------------------------------------------------------------


def outcomes(connection):
    """Return the status of each occurrence, in order."""
    return [
        status
        for (status,) in connection.execute(
            "select status from scheduled_actions where occurrence_at is not null order by occurrence_at"
        )
    ]


@pytest.mark.parametrize("recurrence_type", ["fixed", "rolling"])
def test_an_occurrence_that_is_too_late_is_skipped_and_the_series_goes_on(
    project, connection, handler, recurrence_type
):
    series(project.schedules, recurrence_type=recurrence_type, expires_in=HOUR)
    for at in (DAY + HOUR, 2 * DAY + HOUR + MINUTE, 4 * DAY):
        set_clock(connection, NOW + at)
        project.processor.tick()

    # The second occurrence of the rolling series is due a day after the first one has expired.
    if recurrence_type == "rolling":
        assert handler.ran == [NOW + 2 * DAY + HOUR]
        assert outcomes(connection) == ["skipped", "completed", "skipped", "pending"]
    else:
        assert handler.ran == [NOW + 4 * DAY]
        assert outcomes(connection) == ["skipped", "skipped", "skipped", "completed", "pending"]
    found = project.schedules.get("report")
    assert (found.status, found.executions) == ("active", 1)
    assert found.skipped == outcomes(connection).count("skipped")


def test_an_occurrence_expires_in_the_queue_of_a_full_key(project, connection, handler):
    series(project.schedules, limit="full", expires_in=HOUR)
    occupy(connection, "full")
    for at in (DAY, DAY + HOUR):
        set_clock(connection, NOW + at)
        project.processor.tick()

    assert outcomes(connection) == ["skipped", "pending"]
    assert project.schedules.get("report").next_occurrence_at == NOW + 2 * DAY
    assert handler.ran == []


def test_a_failed_expiry_counts_as_a_failure_and_schedules_the_follow_ups(project, connection):
    follow_up = {"action_type": "test:run", "payload": {"late": True}}
    options = {"expires_in": HOUR, "on_expiry": "fail", "pause_after_failures": 2, "on_failure": follow_up}
    series(project.schedules, **options)
    for days in (1, 2):
        set_clock(connection, NOW + days * DAY + 2 * HOUR)
        project.processor.tick()

    assert outcomes(connection) == ["failed", "failed"]
    found = project.schedules.get("report")
    assert (found.status, found.status_reason) == ("paused", "paused after 2 final failures in a row")
    assert connection.execute(
        "select count(*) from scheduled_actions where payload = '{\"late\": true}'"
    ).fetchone() == (2,)


def test_a_catch_up_runs_only_the_missed_occurrences_that_have_not_expired(project, connection, handler):
    series(project.schedules, "hourly", misfire="catch_up", expires_in=2 * HOUR + MINUTE)
    set_clock(connection, NOW + 6 * HOUR)

    project.processor.tick()

    assert handler.ran == [NOW + number * HOUR for number in (4, 5, 6)]
    assert outcomes(connection) == ["skipped"] * 3 + ["completed"] * 3 + ["pending"]


def test_expired_occurrences_do_not_use_up_the_remaining_executions(project, connection, handler):
    series(project.schedules, expires_in=HOUR, remaining=1)
    for at in (DAY + 2 * HOUR, 2 * DAY):
        set_clock(connection, NOW + at)
        project.processor.tick()

    assert handler.ran == [NOW + 2 * DAY]
    assert project.schedules.get("report").status == "ended"


def test_schedules_of_users_have_the_options(project, connection):
    created = project.local_scheduling.schedule_local(
        "test:run", {}, "09:00", {"ann": "UTC", "ben": "UTC"}, recurrence="daily", limit="api:acme", expires_in=HOUR
    )

    for one in created:
        assert options_of(connection, one.action_id) == (["api:acme"], None, one.at + HOUR, "skip")
