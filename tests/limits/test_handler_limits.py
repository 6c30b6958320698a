"""Limits that handlers declare: an action counts against the keys of its handler, however it is scheduled."""

from __future__ import annotations

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from scheduled_actions import Context, Snooze, action
from scheduled_actions.actions import claims
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core import config
from scheduled_actions.core.errors import FollowUpInvalid, InvalidArgument
from scheduled_actions.limits import handler_limits
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime
from tests.factories import NOW, a_tick, holds, insert, move_clock, row, set_clock, statuses

LIMITS = {"api:*": {"at_once": 1}, "mail": {"at_once": 5}}


class Ran:
    """Handlers that record the payloads of their actions: `crm:sync` with a limit, `crm:plain` without."""

    def __init__(self, limit="api:{payload.customer}", answer=None, **options):
        self.payloads = []

        @action("crm:sync", limit=limit, **options)
        def sync(payload, context: Context):
            self.payloads.append(payload)
            return answer(context) if answer else None

        @action("crm:gather", limit=limit)
        def gather(payload: list[dict]):
            self.payloads.append(payload)

        @action("crm:plain")
        def plain(payload):
            self.payloads.append(payload)

        self.handlers = [sync, gather, plain]


@pytest.fixture
def a_project(database_url):
    """Return a function that creates a project with the handlers of `Ran` and with limits."""
    made = []

    def a_project(ran, limits=LIMITS, **settings):
        loaded = config.load(Path(__file__).parent, {"DATABASE_URL": database_url, "CRON_SECRET": "a-secret-of-tests"})
        changed = config.settings_of({"limits": limits, "concurrency": 2, **settings})
        project = Runtime(replace(loaded, settings=changed), registry=Registry.of(*ran.handlers))
        made.append(project)
        return project

    yield a_project
    for project in made:
        project.close()


def new(action_type, payload, **arguments):
    return NewAction(action_type=action_type, payload=payload, **arguments)


def from_sql(connection, action_type="crm:sync", **columns):
    """Schedule a due action through the SQL function, which does not know the handlers."""
    arguments = {"payload": '{"customer": "acme"}', **columns}
    named = ", ".join(f"{name} => %({name})s" for name in arguments)
    found = connection.execute(f"select id from schedule_action('{action_type}', {named})", arguments).fetchone()
    return found[0]


def occupy(connection, key, team_id=""):
    """Take a slot of a limit key for as long as the test runs."""
    connection.execute(
        "insert into scheduled_action_limit_slots (team_id, limit_key, action_id, claim_token, busy_until)"
        " values (%s, %s, %s, %s, 'infinity')",
        [team_id, key, uuid4(), uuid4()],
    )


def vacate(connection):
    connection.execute("delete from scheduled_action_limit_slots where busy_until = 'infinity'")


def queued(connection, action_id):
    """Return the limit keys of an action that waits in the queue, and check that nothing else was changed."""
    found = row(connection, action_id)
    assert (found["status"], found["parked_by"], found["claim_token"]) == ("pending", "limit", None)
    assert (found["attempts"], found["history"], found["lease_expires_at"]) == (0, [], None)
    return found["limit_keys"]


# -- scheduled by Python -----------------------------------------------------------------------------------------------


def test_an_action_scheduled_without_a_limit_has_the_keys_of_its_handler(a_project, connection):
    project = a_project(Ran(["api:{payload.customer}", "mail"]))
    schedule = project.scheduler.schedule_action

    own = schedule(new("crm:sync", {"customer": "acme"})).id
    other = schedule(new("crm:plain", {"customer": "acme"})).id
    explicit = schedule(new("crm:sync", {}, limit="mail")).id

    assert queued(connection, own) == ["api:acme", "mail"]
    assert queued(connection, explicit) == ["mail"]
    assert (row(connection, other)["limit_keys"], row(connection, other)["parked_by"]) == (None, None)


def test_fields_are_read_from_the_team_the_user_and_the_first_item(a_project, connection):
    project = a_project(Ran(["api:{payload.customer}", "api:{team_id}/{user_id}"]))

    item = new("crm:gather", {"customer": 5}, dedup_mode="append", dedup_key="k", team_id="red", user_id="u1")
    assert queued(connection, project.scheduler.schedule_action(item).id) == ["api:5", "api:red/u1"]


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({}, "limit 'api:{payload.customer}' of the handler needs payload.customer, which is missing"),
        ({"customer": []}, "needs payload.customer to be a string or a number"),
        ({"customer": "x" * 300}, "is not a string of 1 to 255 characters"),
    ],
)
def test_a_payload_without_the_field_of_the_limit_is_refused(a_project, connection, payload, problem):
    project = a_project(Ran())

    with pytest.raises(InvalidArgument) as refused:
        project.scheduler.schedule_action(new("crm:sync", payload))

    assert problem in str(refused.value)
    assert statuses(connection) == {}


def test_a_key_without_a_pattern_is_refused_when_python_schedules(a_project):
    project = a_project(Ran(), {"apis:*": {"at_once": 1}})

    with pytest.raises(InvalidArgument, match=r'the key "api:acme", which matches no pattern of \[limits\]'):
        project.scheduler.schedule_action(new("crm:sync", {"customer": "acme"}))


def test_follow_ups_have_the_keys_of_their_handler(a_project, connection):
    def answer(context):
        if context.action.payload["customer"] == "first":
            context.schedule("crm:sync", {"customer": "second"})

    ran = Ran(answer=answer)
    project = a_project(ran)
    follow_up = {"action_type": "crm:sync", "payload": {"customer": "third"}}
    project.scheduler.schedule_action(new("crm:sync", {"customer": "first"}, on_success=follow_up))

    project.processor.tick()

    keys = connection.execute("select limit_keys[1] from scheduled_actions order by id").fetchall()
    assert sorted(key for (key,) in keys) == ["api:first", "api:second", "api:third"]
    assert len(ran.payloads) == 3


def test_a_follow_up_without_the_field_is_refused_with_its_place(a_project):
    project = a_project(Ran())
    follow_up = {"action_type": "crm:sync", "payload": {}}

    with pytest.raises(FollowUpInvalid, match=r"on_success\.0.*needs payload\.customer, which is missing"):
        project.scheduler.schedule_action(new("crm:plain", {}, on_success=follow_up))


# -- scheduled otherwise -----------------------------------------------------------------------------------------------


def test_an_action_from_sql_runs_in_the_same_tick_through_the_queue_of_its_key(a_project, connection):
    ran = Ran()
    project = a_project(ran)
    limited, plain = from_sql(connection), from_sql(connection, "crm:plain")

    report = project.processor.tick()

    assert (report.succeeded, report.remaining) == (2, 0)
    found = row(connection, limited)
    assert (found["limit_keys"], found["parked_by"], found["status"]) == (["api:acme"], None, "completed")
    assert row(connection, plain)["limit_keys"] is None


def test_actions_from_sql_wait_until_their_key_has_room_and_other_keys_run(a_project, connection):
    project = a_project(Ran())
    occupy(connection, "api:acme")
    waiting = [from_sql(connection, priority=priority) for priority in (0, -1)]
    other = from_sql(connection, payload='{"customer": "other"}')

    assert project.processor.tick().succeeded == 1
    assert [queued(connection, one) for one in waiting] == [["api:acme"]] * 2
    assert row(connection, other)["status"] == "completed"

    vacate(connection)
    assert project.processor.tick().succeeded == 2


def test_the_limit_holds_for_actions_from_sql(a_project, connection):
    at_once = []

    def answer(_):
        with project.database.connection() as own:
            at_once.append(own.execute(COUNT).fetchone()[0])

    project = a_project(Ran(answer=answer), concurrency=8, batch_size=2)
    for _ in range(12):
        from_sql(connection)

    while project.processor.tick().remaining:
        pass

    assert at_once == [1] * 12


def test_two_processes_that_assign_keys_at_the_same_time_stay_within_the_limit(a_project, connection):
    at_once = []

    def answer(_):
        with lock:
            running[0] += 1
            at_once.append(running[0])
        threading.Event().wait(0.005)
        with lock:
            running[0] -= 1

    lock, running = threading.Lock(), [0]
    made = [a_project(Ran(answer=answer), concurrency=4, batch_size=3) for _ in range(2)]
    ids = [from_sql(connection, team_id="red" if n % 2 else None, lock_group=f"g{n % 3}") for n in range(24)]

    def drain(project):
        while any(status != "completed" for status in waiting()):
            project.processor.tick()

    def waiting():
        with made[0].database.connection() as own:
            return statuses(own).values()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(drain, made))

    # One of the team, and one without a team.
    assert (len(at_once), max(at_once) <= 2) == (24, True)
    assert {row(connection, one)["attempts"] for one in ids} == {1}
    assert holds(connection) == {}
    assert connection.execute("select count(*) from scheduled_action_limit_slots").fetchone() == (0,)


def test_actions_of_a_team_that_fills_the_batches_are_queued_with_those_of_the_others(a_project, connection):
    ran = Ran()
    project = a_project(ran, fair_by_team=True, batch_size=4)
    for team, count in (("large", 40), ("small", 3), (None, 3)):
        for n in range(count):
            from_sql(connection, team_id=team, lock_group="g" if n % 2 else None)

    while project.processor.tick().remaining:
        pass

    assert len(ran.payloads) == 46
    keys = connection.execute("select distinct limit_keys, status from scheduled_actions").fetchall()
    assert keys == [(["api:acme"], "completed")]


#: The number of running actions.
COUNT = "select count(*) from scheduled_actions where status = 'processing'"


def test_an_action_whose_field_is_missing_fails_alone_and_without_a_retry(a_project, connection):
    ran = Ran(max_attempts=5)
    project = a_project(ran)
    bad = [from_sql(connection, payload=payload) for payload in ("{}", '{"customer": null}', '{"customer": "a\\tb"}')]
    good = from_sql(connection)

    project.processor.tick()

    assert [row(connection, one)["status"] for one in bad] == ["failed"] * 3
    assert row(connection, bad[0])["error_message"] == (
        "limit 'api:{payload.customer}' of the handler needs payload.customer, which is missing"
    )
    assert row(connection, bad[0])["limit_keys"] is None
    assert row(connection, good)["status"] == "completed"
    assert ran.payloads == [{"customer": "acme"}]


def test_a_limit_that_is_new_in_the_code_applies_to_actions_scheduled_before(a_project, connection):
    snoozed = {"is_first": True}

    def answer(_):
        return Snooze(0.01) if snoozed.pop("is_first", False) else None

    plain = Ran(answer=answer)
    plain.handlers[0].__scheduled_action__ = replace(plain.handlers[0].__scheduled_action__, limit=None)
    before = a_project(plain)
    [later, now] = [
        before.scheduler.schedule_action(new("crm:sync", {"customer": "acme"}, scheduled_at=at)).id
        for at in (timedelta(hours=1), None)
    ]
    assert row(connection, now)["limit_keys"] is None
    occupy(connection, "api:acme")
    move_clock(connection, timedelta(hours=2))
    project = a_project(Ran())

    project.processor.tick()

    assert [queued(connection, one) for one in (later, now)] == [["api:acme"]] * 2
    vacate(connection)
    assert project.processor.tick().succeeded == 2


def test_a_key_without_a_pattern_stays_queued_and_is_logged_once_per_type(a_project, connection, caplog):
    project = a_project(Ran(), {"mail": {"at_once": 1}})
    caplog.set_level(logging.WARNING)
    ids = [from_sql(connection), from_sql(connection)]

    for _ in range(2):
        assert project.processor.tick().succeeded == 0
        ids.append(from_sql(connection))

    project.processor.tick()
    assert [queued(connection, one) for one in ids] == [["api:acme"]] * 4
    warnings = [record.getMessage() for record in caplog.records if "limit.unmatched" in record.getMessage()]
    assert warnings == ["limit.unmatched action_type=crm:sync limit=api:{payload.customer}"]
    assert a_project(Ran()).processor.tick().succeeded == 4


def test_the_condition_is_evaluated_only_when_the_action_is_claimed_from_its_queue(a_project, connection):
    project = a_project(Ran())
    occupy(connection, "api:acme")
    waiting = from_sql(
        connection, condition=json.dumps({"kind": "document_state", "target": {"type": "a", "id": "1"}, "state": "b"})
    )

    project.processor.tick()

    assert queued(connection, waiting) == ["api:acme"]
    vacate(connection)
    project.processor.tick()
    assert row(connection, waiting)["status"] == "skipped"


# -- lock groups -------------------------------------------------------------------------------------------------------


def test_a_queued_member_of_a_lock_group_holds_nothing_and_stays_the_first(a_project, connection):
    ran = Ran()
    project = a_project(ran)
    occupy(connection, "api:acme")
    first = from_sql(connection, lock_group="g")
    second = from_sql(connection, "crm:plain", lock_group="g", payload='{"second": true}')

    project.processor.tick()

    assert queued(connection, first) == ["api:acme"]
    assert (holds(connection), row(connection, second)["status"]) == ({}, "pending")
    vacate(connection)
    while project.processor.tick().remaining:
        pass
    assert ran.payloads == [{"customer": "acme"}, {"second": True}]
    assert holds(connection) == {}


def test_a_member_that_blocks_its_group_and_has_started_keeps_it_in_the_queue(a_project, connection):
    project = a_project(Ran())
    occupy(connection, "api:acme")
    action_id = insert(
        connection,
        action_type="crm:sync",
        payload={"customer": "acme"},
        lock_group="g",
        lock_group_blocks=True,
        attempts=1,
    )
    connection.execute(
        "insert into scheduled_action_holds (team_id, lock_group, action_id) values ('', 'g', %s)", [action_id]
    )

    project.processor.tick()

    assert row(connection, action_id)["parked_by"] == "limit"
    assert holds(connection) == {"g": action_id}
    vacate(connection)
    assert project.processor.tick().succeeded == 1
    assert holds(connection) == {}


# -- series ------------------------------------------------------------------------------------------------------------


def pending(connection):
    """Return the pending occurrences, in order: the limit keys and the instant, relative to NOW."""
    found = connection.execute(
        "select limit_keys, occurrence_at from scheduled_actions where status = 'pending' order by occurrence_at"
    )
    return [(keys, at - NOW) for keys, at in found]


@pytest.mark.parametrize("overlap", ["skip", "queue", "allow"])
def test_a_series_plans_the_next_occurrence_once_when_the_queued_one_starts(a_project, connection, overlap):
    set_clock(connection, NOW)
    ran = Ran()
    project = a_project(ran)
    occupy(connection, "api:acme")
    hour = timedelta(hours=1)
    schedule = project.schedules.schedule_recurring("crm:sync", {"customer": "acme"}, "hourly", overlap=overlap)

    for minutes in (61, 62):
        set_clock(connection, NOW + timedelta(minutes=minutes))
        project.processor.tick()
    assert pending(connection) == [(["api:acme"], hour)]

    vacate(connection)
    project.processor.tick()
    assert pending(connection) == [(None, 2 * hour)]
    assert len(ran.payloads) == 1
    counted = project.schedules.get(schedule.id)
    assert (counted.executions, counted.skipped, counted.status) == (1, 0, "active")


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_a_rolling_series_plans_the_next_occurrence_when_the_queued_one_has_ended(a_project, connection, overlap):
    set_clock(connection, NOW)
    ran = Ran()
    project = a_project(ran)
    occupy(connection, "api:acme")
    schedule = project.schedules.schedule_recurring(
        "crm:sync", {"customer": "acme"}, "hourly", recurrence_type="rolling", overlap=overlap
    )

    for minutes in (61, 62, 63):
        set_clock(connection, NOW + timedelta(minutes=minutes))
        project.processor.tick()
    assert [keys for keys, _ in pending(connection)] == [["api:acme"]]

    vacate(connection)
    project.processor.tick()
    assert [keys for keys, _ in pending(connection)] == [None]
    assert (len(ran.payloads), project.schedules.get(schedule.id).executions) == (1, 1)


def test_an_occurrence_without_the_field_fails_and_the_series_goes_on(a_project, connection):
    set_clock(connection, NOW)
    project = a_project(Ran())
    schedule = project.schedules.schedule_recurring("crm:sync", {}, "hourly")

    set_clock(connection, NOW + timedelta(minutes=61))
    project.processor.tick()

    assert sorted(statuses(connection).values()) == ["failed", "pending"]
    assert pending(connection) == [(None, timedelta(hours=2))]
    assert project.schedules.get(schedule.id).status == "active"


# -- faults ------------------------------------------------------------------------------------------------------------


def test_a_crash_before_the_commit_leaves_the_action_as_it_was(a_project, connection, database_url, monkeypatch):
    """The keys are stored in the transaction that claims the action."""
    project = a_project(Ran())
    waiting = from_sql(connection)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(handler_limits.sql, "run", killed)
        with pytest.raises(KeyboardInterrupt):
            project.processor.tick()

    assert (row(connection, waiting)["status"], row(connection, waiting)["limit_keys"]) == ("pending", None)
    other = a_project(Ran())
    assert other.processor.tick().succeeded == 1
    assert row(connection, waiting)["attempts"] == 1


def test_an_action_whose_lease_ended_is_queued_by_the_next_tick(a_project, connection):
    project = a_project(Ran())
    waiting = from_sql(connection)
    tick = a_tick(connection, lease_seconds=0)
    claims.claim_free(connection, tick, wanted=10, after=claims.START, excluded=())
    assert row(connection, waiting)["status"] == "processing"

    move_clock(connection, timedelta(minutes=2))
    report = project.processor.tick()

    assert (report.rescued, report.succeeded) == (1, 1)
    assert row(connection, waiting)["limit_keys"] == ["api:acme"]


@pytest.mark.parametrize("customer", ["9" * 5000, "[" * 3000 + "]" * 3000, '{"a": {"b": "c"}}'])
def test_a_payload_that_cannot_be_read_fails_only_its_action(a_project, connection, customer):
    project = a_project(Ran())
    bad, good = from_sql(connection, payload=f'{{"customer": {customer}}}'), from_sql(connection)

    project.processor.tick()

    assert statuses(connection) == {bad: "failed", good: "completed"}


def test_keys_that_the_database_rejects_fail_only_their_action(a_project, connection, monkeypatch):
    project = a_project(Ran())
    bad, good = from_sql(connection, payload='{"customer": "bad"}'), from_sql(connection)
    connection.execute(
        "alter table scheduled_actions add constraint no_bad_keys check (limit_keys is distinct from '{api:bad}')"
    )

    project.processor.tick()

    assert row(connection, good)["status"] == "completed"
    assert row(connection, bad)["status"] == "failed"
    assert row(connection, bad)["error_message"].startswith("its limit keys cannot be set: ")
