"""The SQL function `schedule_recurring_action` stores a call, and the next tick applies it as Python would."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg.types.json import Jsonb
from pydantic import BaseModel

import scheduled_actions
from handlers import schedule as own
from scheduled_actions import action, next_occurrence, runtime
from scheduled_actions.core.config import Limit
from scheduled_actions.core.errors import ScheduleNotApplied
from scheduled_actions.registry import Registry
from tests.factories import NOW, is_waiting, projects, set_clock, together, wait_until


class Report(BaseModel):
    """The payload of `report:send`."""

    customer: str


@action("report:send")
def send(payload: Report):
    """Send nothing."""


@next_occurrence("never")
def never(at):
    """Return no occurrence."""


PAYLOAD = {"customer": "ada"}


@pytest.fixture
def project(database_url, connection):
    """Yield a project with the handler of `schedule:apply` as the runtime of this process, with the clock at NOW."""
    set_clock(connection, NOW)
    with projects(database_url) as make:
        made = make(registry=Registry.of(own.apply_schedule, send, never))
        made.config.settings.limits.update({"api:*": Limit(at_once=3), "reports": Limit(at_once=1)})
        before = runtime.use(made)
        try:
            yield made
        finally:
            runtime.use(before)


def call(connection, recurrence="daily", payload=PAYLOAD, action_type="report:send", **optional):
    """Call the SQL function, and return the id of the schedule."""
    options = "".join(f", {name} => %({name})s" for name in optional)
    (schedule_id,) = connection.execute(
        f"select id from schedule_recurring_action(%(type)s, %(payload)s, %(recurrence)s{options})",
        {"type": action_type, "payload": Jsonb(payload), "recurrence": recurrence, **optional},
    ).fetchone()
    return schedule_id


def requests_left(connection):
    return connection.execute("select count(*) from scheduled_action_schedules where requested is not null").fetchone()[
        0
    ]


def occurrences(connection, schedule_id):
    return [
        at
        for (at,) in connection.execute(
            "select scheduled_at from scheduled_actions where schedule_id = %s order by scheduled_at", [schedule_id]
        )
    ]


COLUMNS = (
    "recurrence, kind, timezone, anchor_at, recurrence_type, misfire, misfire_grace_seconds, catch_up_limit,"
    " catch_up_seconds, overlap, requires_previous, skip, jitter_seconds, until, remaining, pause_after_failures,"
    " priority, max_attempts, retry, lock_group, lock_group_blocks, limit_keys, expires_seconds, on_expiry,"
    " target_type, target_id, user_id, metadata,"
    " condition, on_success, on_failure, status, status_reason, status_by, next_occurrence_at, definition - 'name',"
    " payload, team_id, is_declared, created_by, requested"
)
#: Arguments that have another name in SQL, where `limit` is a reserved word.
SQL_NAMES = {"limit": "limits"}
START = datetime(2026, 3, 5, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "optional",
    [
        {},
        {
            "scheduled_at": START, "timezone": "Europe/Berlin", "recurrence_type": "fixed", "misfire": "catch_up",
            "misfire_grace_seconds": 5.0, "catch_up_limit": 3, "catch_up_seconds": 60.0, "overlap": "queue",
            "requires_previous": True, "pause_after_failures": 2, "skip": {"weekends": True}, "jitter_seconds": 1.5,
            "until": START + timedelta(days=90), "remaining": 5, "team_id": "blue", "priority": -3, "max_attempts": 2,
            "retry": [5, 10], "lock_group": "reports", "lock_group_blocks": True, "limit": ["api:acme", "reports"],
            "expires_in": timedelta(minutes=90), "on_expiry": "fail",
            "target": {"type": "customer", "id": "ada"}, "user_id": "ada", "metadata": {"a": None},
            "condition": {"kind": "document_state", "target": {"type": "x", "id": "1"}, "state": "paid"},
            "on_success": [{"action_type": "report:send", "payload": PAYLOAD}],
            "on_failure": [{"action_type": "report:send", "payload": PAYLOAD}], "created_by": "billing",
        },
    ],
    ids=["no options", "all options"],
)  # fmt: skip
def test_a_schedule_from_sql_is_stored_like_one_from_python(project, connection, optional):
    documents = {"skip", "retry", "target", "metadata", "condition", "on_success", "on_failure"}
    by_sql = call(
        connection,
        "0 9 * * *",
        name="sql",
        **{SQL_NAMES.get(name, name): Jsonb(value) if name in documents else value for name, value in optional.items()},
    )
    by_python = scheduled_actions.schedule_recurring_action(
        "report:send", PAYLOAD, "0 9 * * *", name="python", **optional
    ).id

    project.processor.tick()

    one, other = (
        connection.execute(f"select {COLUMNS} from scheduled_action_schedules where id = %s", [schedule_id]).fetchone()
        for schedule_id in (by_sql, by_python)
    )
    assert one == other
    # Each schedule has its own jitter, so their occurrences are not due at the same instant.
    assert len(occurrences(connection, by_sql)) == len(occurrences(connection, by_python)) == 1


def test_sql_takes_every_argument_of_python(connection):
    (arguments,) = connection.execute(
        "select proargnames[:pronargs] from pg_proc where proname = 'schedule_recurring_action'"
    ).fetchone()
    wrapped = scheduled_actions.schedule_recurring_action.__wrapped__
    python = wrapped.__code__.co_varnames[: wrapped.__code__.co_argcount + wrapped.__code__.co_kwonlyargcount]

    assert arguments == [SQL_NAMES.get(name, name) for name in python if name != "connection"]


def test_an_explicit_start_that_has_just_passed_is_the_first_occurrence(project, connection):
    schedule_id = call(connection, scheduled_at=NOW)
    set_clock(connection, NOW + timedelta(seconds=40))

    project.processor.tick()

    assert occurrences(connection, schedule_id)[0] == NOW


def test_calls_without_a_name_create_separate_schedules(project, connection):
    ids = {call(connection), call(connection)}

    project.processor.tick()

    assert len(ids) == 2
    assert {one.id for one in scheduled_actions.list_schedules()} == ids
    assert requests_left(connection) == 0


def test_a_second_call_changes_the_schedule_at_the_next_tick(project, connection):
    first = call(connection, "daily", name="report")
    project.processor.tick()

    second = call(connection, "0 18 * * *", name="report")
    before = scheduled_actions.get_schedule("report")
    project.processor.tick()
    after = scheduled_actions.get_schedule("report")

    assert first == second == before.id
    assert (before.recurrence, before.next_occurrence_at) == ("daily", NOW + timedelta(days=1))
    assert (after.recurrence, after.next_occurrence_at) == ("0 18 * * *", NOW.replace(hour=18))
    assert requests_left(connection) == 0


def test_the_same_call_changes_nothing_not_even_a_pause(project, connection):
    call(connection, name="report")
    project.processor.tick()
    before = scheduled_actions.pause_schedule("report", reason="holidays")

    set_clock(connection, NOW + timedelta(hours=1))
    call(connection, name="report")
    project.processor.tick()
    after = scheduled_actions.get_schedule("report")

    assert (after.status, after.status_reason, after.anchor_at) == ("paused", "holidays", before.anchor_at)
    assert requests_left(connection) == 0


def test_a_call_with_a_number_of_many_digits_is_applied_once(project, connection):
    call(connection, metadata='{"rate": 0.12345678901234567890123}', name="report")

    project.processor.tick()

    assert requests_left(connection) == 0


def test_a_rolled_back_call_changes_nothing(project, connection):
    scheduled_actions.schedule_recurring_action("report:send", PAYLOAD, "daily", name="report")
    with connection.transaction(force_rollback=True):
        call(connection, "hourly", name="report")
        call(connection, name="other")

    report = project.processor.tick()

    assert report.succeeded == 0
    assert [(one.name, one.recurrence) for one in scheduled_actions.list_schedules()] == [("report", "daily")]


def test_no_sweep_plans_a_schedule_that_is_not_applied(project, connection):
    schedule_id = call(connection, "no rule")

    project.series.sweep(connection, every_seconds=0)

    assert scheduled_actions.get_schedule(schedule_id).status == "active"
    assert occurrences(connection, schedule_id) == []


def nested(depth):
    return {"customer": "ada"} if depth == 0 else {"x": nested(depth - 1)}


REFUSED = [
    ({"payload": nested(150)}, "the call is nested deeper than 100 levels"),
    ({"recurrence": "every blue moon"}, 'recurrence "every blue moon"'),
    ({"recurrence": "0 0 30 2 *"}, 'recurrence "0 0 30 2 *"'),
    ({"recurrence": "custom:unknown"}, "unknown"),
    ({"recurrence": "custom:never"}, "has no occurrence"),
    ({"payload": {"customer": 5}}, "customer"),
    ({"action_type": "report:unknown"}, "report:unknown"),
    ({"timezone": "Europe/Atlantis"}, "timezone: 'Europe/Atlantis' is not an IANA time zone"),
    ({"skip": Jsonb({"weekend": True})}, "skip"),
    ({"condition": Jsonb({"kind": "unknown"})}, "condition"),
    ({"on_success": Jsonb({"action_type": "report:send", "payload": {}})}, "on_success"),
    ({"limits": ["unknown"]}, 'limit has the key "unknown", which matches no pattern of [limits]'),
]


@pytest.mark.parametrize(("arguments", "problem"), REFUSED, ids=[problem for _, problem in REFUSED])
def test_a_call_that_python_refuses_pauses_the_schedule_with_the_reason(project, connection, arguments, problem):
    call(connection, name="bad", **arguments)

    project.processor.tick()
    paused = scheduled_actions.get_schedule("bad")
    (failed,) = connection.execute("select error_message from scheduled_actions where status = 'failed'").fetchone()

    assert paused.status == "paused"
    assert paused.status_reason.startswith("schedule_recurring_action from SQL was refused: ")
    assert problem in paused.status_reason
    assert problem in failed
    assert paused.next_action_id is None
    with pytest.raises(
        ScheduleNotApplied, match="schedule bad cannot be changed: schedule_recurring_action from SQL was"
    ):
        scheduled_actions.resume_schedule("bad")


def test_a_bad_call_does_not_prevent_the_good_ones_of_the_same_tick(project, connection):
    for number in range(5):
        call(connection, "daily" if number != 2 else "no rule", name=f"n{number}")

    report = project.processor.tick()

    assert (report.succeeded, report.failed) == (4, 1)
    assert {one.name: one.status for one in scheduled_actions.list_schedules()} == {
        "n0": "active", "n1": "active", "n2": "paused", "n3": "active", "n4": "active",
    }  # fmt: skip


def test_a_refused_change_pauses_the_schedule_and_a_valid_one_resumes_it(project, connection):
    schedule_id = call(connection, name="report")
    project.processor.tick()

    call(connection, "no rule", name="report")
    project.processor.tick()
    refused = scheduled_actions.get_schedule("report")
    planned = occurrences(connection, schedule_id)
    call(connection, name="report")
    project.processor.tick()
    resumed = scheduled_actions.get_schedule("report")

    assert (refused.status, refused.recurrence, planned) == ("paused", "daily", [])
    assert (resumed.status, resumed.next_occurrence_at) == ("active", NOW + timedelta(days=1))
    assert requests_left(connection) == 0


def test_a_new_schedule_that_was_refused_starts_with_the_next_valid_call(project, connection):
    call(connection, "no rule", name="report")
    project.processor.tick()

    call(connection, name="report")
    project.processor.tick()

    started = scheduled_actions.get_schedule("report")
    assert (started.status, started.status_reason) == ("active", None)
    assert started.next_occurrence_at == NOW + timedelta(days=1)


def test_every_refused_call_replaces_the_reason_of_the_pause(project, connection):
    call(connection, name="report")
    for recurrence in ("no rule", "0 0 30 2 *"):
        call(connection, recurrence, name="report")
        project.processor.tick()

    refused = scheduled_actions.get_schedule("report")

    assert refused.is_refused
    assert '"0 0 30 2 *"' in refused.status_reason
    assert requests_left(connection) == 1


def test_python_resumes_a_schedule_that_sql_has_paused(project, connection):
    call(connection, "no rule", name="report")
    project.processor.tick()

    resumed = scheduled_actions.schedule_recurring_action("report:send", PAYLOAD, "daily", name="report")

    assert (resumed.status, resumed.status_reason) == ("active", None)
    assert resumed.next_occurrence_at == NOW + timedelta(days=1)


def test_a_refused_change_leaves_a_pause_by_a_person(project, connection):
    call(connection, name="report")
    project.processor.tick()
    scheduled_actions.pause_schedule("report", reason="holidays", by="ann")

    call(connection, "no rule", name="report")
    project.processor.tick()

    after = scheduled_actions.get_schedule("report")
    assert (after.status, after.status_reason, after.status_by) == ("paused", "holidays", "ann")


def test_the_retry_of_a_refused_call_applies_it(project, connection):
    call(connection, "no rule", name="report")
    project.processor.tick()
    connection.execute(
        "update scheduled_action_schedules set requested = jsonb_set(requested, '{recurrence}', '\"daily\"')"
    )

    (action_id,) = connection.execute("select id from scheduled_actions where status = 'failed'").fetchone()
    scheduled_actions.retry_action(action_id)
    project.processor.tick()

    assert scheduled_actions.get_schedule("report").status == "active"


def test_a_schedule_that_is_deleted_before_the_tick_is_not_created_again(project, connection):
    call(connection, name="report")
    scheduled_actions.delete_schedule("report")

    report = project.processor.tick()

    assert (report.skipped, report.failed) == (1, 0)
    assert scheduled_actions.list_schedules() == []


def test_a_call_made_while_an_earlier_one_is_applied_is_applied_afterwards(project, connection, monkeypatch):
    call(connection, "daily", name="report")
    upsert = type(project.schedules).upsert

    def upsert_and_call_again(schedules, *arguments, **options):
        monkeypatch.undo()
        result = upsert(schedules, *arguments, **options)
        call(connection, "hourly", name="report")
        return result

    monkeypatch.setattr(type(project.schedules), "upsert", upsert_and_call_again)
    project.processor.tick()
    project.processor.tick()

    assert scheduled_actions.get_schedule("report").recurrence == "hourly"
    assert requests_left(connection) == 0


def test_concurrent_calls_with_one_name_create_one_schedule(project, connection, database_url):
    ids = together(database_url, 4, lambda own, number: call(own, f"every {number + 1} hours", name="report"))

    project.processor.tick()

    (schedule,) = scheduled_actions.list_schedules()
    assert set(ids) == {schedule.id}
    assert schedule.next_action_id is not None
    assert requests_left(connection) == 0


def test_the_calls_of_one_schedule_are_applied_one_at_a_time(connection):
    schedule_id = call(connection, name="report")
    call(connection, name="report")

    groups = connection.execute("select lock_group from scheduled_actions").fetchall()
    assert groups == [(f"schedule:apply:{schedule_id}",)] * 2


def test_a_call_waits_for_an_open_transaction_with_the_same_name(project, connection, database_url):
    with psycopg.connect(database_url) as first:
        first_id = call(first, "daily", name="report")

        def work(own, _):
            return call(own, "hourly", name="report")

        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(together, database_url, 1, work)
            wait_until(lambda: is_waiting(connection))
            first.commit()

    project.processor.tick()
    assert second.result() == [first_id]
    assert scheduled_actions.get_schedule("report").recurrence == "hourly"


def test_names_are_unique_only_within_a_team(project, connection):
    ids = {call(connection, name="report", team_id=team) for team in (None, "blue", "red")}

    project.processor.tick()

    assert len(ids) == 3
    assert scheduled_actions.get_schedule("report", team_id="blue").status == "active"


INVALID = [
    ("action_type => 'no type'", "action_type: 'no type' is not an action type"),
    ("payload => '[]'", "payload: must be a JSON object, not a JSON array"),
    ("payload => null", "payload: must be a JSON object, not a JSON null"),
    ("recurrence => null", "recurrence: must have 1 to 2000 characters"),
    ("recurrence => ''", "recurrence: must have 1 to 2000 characters"),
    ("recurrence => repeat('x', 2001)", "recurrence: must have 1 to 2000 characters"),
    ("scheduled_at => 'infinity'", "scheduled_at: must be a finite instant"),
    ("scheduled_at => '10000-01-01Z'", "scheduled_at: 10000-01-01 "),
    ("until => 'infinity'", "until: infinity is not in the years 1 to 9999"),
    ("timezone => ''", "timezone: must have 1 to 255 characters"),
    ("name => ''", "name: must have 1 to 200 characters"),
    ("name => '0197a000-0000-7000-8000-000000000001'", "name: 0197a000-0000-7000-8000-000000000001 is a UUID"),
    (
        "name => 'urn:uuid:0197a000-0000-7000-8000-000000000001'",
        "name: urn:uuid:0197a000-0000-7000-8000-000000000001 is",
    ),
    ("recurrence_type => 'rolled'", "recurrence_type: 'rolled' is not fixed or rolling"),
    ("misfire => null", "misfire: NULL is not fire_once, skip or catch_up"),
    ("overlap => 'wait'", "overlap: 'wait' is not skip, queue or allow"),
    ("misfire_grace_seconds => -1", "misfire_grace_seconds: -1 is not a number of seconds between 0 and a year"),
    ("catch_up_seconds => 'NaN'", "catch_up_seconds: NaN is not a number of seconds between 0 and a year"),
    ("jitter_seconds => 31622401", "jitter_seconds: 31622401 is not a number of seconds between 0 and a year"),
    ("catch_up_limit => 0", "catch_up_limit: 0 is not between 1 and 10000"),
    ("pause_after_failures => 10001", "pause_after_failures: 10001 is not between 1 and 10000"),
    ("remaining => 0", "remaining: 0 is not between 1 and 2147483647"),
    ("skip => '[]'", "skip: must be a JSON object, not a JSON array"),
    ("skip => jsonb_build_object('dates', repeat('x', 65536))", "skip is "),
    ("metadata => jsonb_build_object('a', repeat('x', 65536))", "metadata is "),
    ("team_id => ''", "team_id: must have 1 to 255 characters"),
    ("priority => 40000", "priority: 40000 is not between -32768 and 32767"),
    ("max_attempts => 0", "max_attempts: 0 is not between 1 and 1000"),
    ("retry => '\"soon\"'", "retry: must be"),
    ("lock_group => ''", "lock_group: must have 1 to 255 characters"),
    ("target => '{}'", "target: must be an object such as"),
    ("condition => '[]'", "condition: must be a JSON object"),
    ("on_success => '5'", "on_success: must be"),
    ("on_failure => '{\"type\": 1}'", "on_failure: needs an action_type"),
    ("limits => '{}'", "limit"),
    ("limits => '{a,a}'", "limit: the keys must differ from each other"),
    ("limits => '{a,b,c,d}'", "limit: must be a key, or a list of one to three keys, not 4 keys"),
    ("expires_in => interval '0'", "expires_in: must be "),
    ("on_expiry => 'cancel'", "on_expiry: 'cancel' is not skip or fail"),
    ("on_expiry => 'fail'", "on_expiry: has no effect without"),
]


@pytest.mark.parametrize(("argument", "message"), INVALID, ids=[argument[:60] for argument, _ in INVALID])
def test_sql_refuses_an_invalid_argument_by_its_name(connection, argument, message):
    given = {"action_type": "'report:send'", "payload": "'{}'", "recurrence": "'daily'"}
    name, _, value = argument.partition(" => ")
    listed = ", ".join(f"{name} => {value}" for name, value in (given | {name: value}).items())

    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        connection.execute(f"select schedule_recurring_action({listed})")

    assert caught.value.diag.message_primary.startswith(message)
    assert connection.execute("select count(*) from scheduled_action_schedules").fetchone() == (0,)


def test_sql_refuses_another_action_type_for_an_existing_name(connection):
    call(connection, name="report")

    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        call(connection, name="report", action_type="report:other")

    assert caught.value.diag.message_primary == (
        'action_type cannot change to report:other in schedule "report": use another name, or delete the schedule first'
    )


def test_the_stored_call_has_every_argument(connection):
    schedule_id = call(connection)

    (requested,) = connection.execute(
        "select requested::text from scheduled_action_schedules where id = %s", [schedule_id]
    ).fetchone()
    (arguments,) = connection.execute(
        "select proargnames[:pronargs] from pg_proc where proname = 'schedule_recurring_action'"
    ).fetchone()
    assert {SQL_NAMES.get(name, name) for name in json.loads(requested)} == set(arguments)


@pytest.mark.parametrize(
    "change",
    [
        lambda: scheduled_actions.update_schedule("x", recurrence="daily"),
        lambda: scheduled_actions.update_schedule("x", priority=3),
    ],
)
@pytest.mark.parametrize(
    ("rule", "reason"), [("daily", "no tick has applied the call from SQL"), ("no rule", "from SQL was refused")]
)
def test_a_schedule_without_valid_arguments_is_not_updated(project, connection, change, rule, reason):
    schedule_id = call(connection, rule, name="x", timezone="Europe/Berlin")
    if rule == "no rule":
        project.processor.tick()

    with pytest.raises(ScheduleNotApplied, match=reason):
        change()

    assert scheduled_actions.get_schedule("x").id == schedule_id


def test_an_update_of_the_rule_uses_no_connection_that_was_returned(project, connection):
    call(connection, name="x")
    # From now on, connections are closed when they are returned.
    project.database.close()

    with pytest.raises(ScheduleNotApplied):
        scheduled_actions.update_schedule("x", recurrence="daily")


@pytest.mark.parametrize("stored", ["weekly", "every 2 weeks"])
def test_a_later_call_from_python_replaces_a_call_from_sql(project, connection, stored):
    """The stored rule may already be that of the later call, which then changes nothing."""
    scheduled_actions.schedule_recurring_action("report:send", PAYLOAD, stored, name="x")
    call(connection, "hourly", name="x")
    scheduled_actions.schedule_recurring_action("report:send", PAYLOAD, "weekly", name="x")
    project.processor.tick()

    assert scheduled_actions.get_schedule("x").recurrence == "weekly"
    assert requests_left(connection) == 0


def test_a_retry_of_a_refused_call_does_not_pause_a_schedule_that_was_corrected(project, connection):
    call(connection, "no rule", name="x")
    project.processor.tick()
    scheduled_actions.schedule_recurring_action("report:send", PAYLOAD, "daily", name="x")
    (failed,) = connection.execute("select id from scheduled_actions where action_type = 'schedule:apply'").fetchone()

    scheduled_actions.retry_action(failed)
    project.processor.tick()

    assert scheduled_actions.get_action(failed).status == "skipped"
    assert scheduled_actions.get_schedule("x").status == "active"


def test_a_refused_call_is_recorded_although_a_person_paused_the_schedule(project, connection):
    call(connection, "no rule", name="x")
    scheduled_actions.pause_schedule("x", by="ann")

    project.processor.tick()

    assert "from SQL was refused" in scheduled_actions.get_schedule("x").status_reason
    with pytest.raises(ScheduleNotApplied):
        scheduled_actions.resume_schedule("x")


def test_instants_do_not_depend_on_the_time_zone_of_the_session(project, connection):
    connection.execute("set timezone = 'Asia/Tokyo'")
    schedule_id = call(connection, scheduled_at=START, until=datetime(2030, 1, 1, tzinfo=UTC))

    requested = (
        "select requested ->> 'scheduled_at', requested ->> 'until' from scheduled_action_schedules where id = %s"
    )
    assert connection.execute(requested, [schedule_id]).fetchone() == (
        "2026-03-05T09:00:00+00:00",
        "2030-01-01T00:00:00+00:00",
    )
