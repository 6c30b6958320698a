"""The SQL function `set_deadline` stores a call, and the next tick applies it as Python would."""

from __future__ import annotations

import threading
from datetime import timedelta

import psycopg
import pytest
from psycopg.types.json import Jsonb

import scheduled_actions
from handlers import deadline as own
from scheduled_actions.core.errors import DeadlineNotApplied, UnknownDeadline
from scheduled_actions.deadlines import requested
from scheduled_actions.deadlines.validation import DeadlineValidator
from tests.deadlines.deadline_project import deadline_project, planned, send, start
from tests.factories import NOW, PATIENCE, is_waiting, set_clock, together, wait_until

DUE = NOW + timedelta(days=90)
TARGET = {"type": "license", "id": "42"}
ANN = "ann@example.org"
REMINDERS = ["60 days before", "30 days before"]
BAD = ["some day"]
DOCUMENTS = {"target", "reminders", "escalation", "auto_actions", "recipients", "calendar", "metadata"}


@pytest.fixture
def project(database_url, connection):
    """Yield a project with deadlines and `deadline:apply`; the database's time is NOW."""
    set_clock(connection, NOW)
    with deadline_project(database_url, own.apply_deadline, send, start) as made:
        yield made


def call(connection, **changes):
    """Call the SQL function, and return the id of the deadline."""
    given = {"target": TARGET, "due_at": DUE, "recipients": ANN, "reminders": REMINDERS} | changes
    listed = ", ".join(f"{name} => %({name})s" for name in given)
    values = {name: Jsonb(value) if name in DOCUMENTS else value for name, value in given.items()}
    return connection.execute(f"select id from set_deadline({listed})", values).fetchone()[0]


def requests_left(connection):
    return connection.execute("select count(*) from scheduled_action_deadlines where requested is not null").fetchone()[
        0
    ]


def history(reference):
    return [entry["what"] for entry in scheduled_actions.get_deadline(reference).history]


COLUMNS = (
    "team_id, target_type, target_id, status, due_at, timezone, calendar, recipients, stages, recurrence,"
    " occurrence_at, anchor_at, metadata, definition - 'reach', closed_at, created_by, requested"
)


@pytest.mark.parametrize(
    "optional",
    [
        {},
        {"due_at": None, "recurrence": "0 9 1 * *", "reminders": ["3 days before"]},
        {
            "escalation": [{"offset": "2 days after", "to": "cfo@example.org"}],
            "auto_actions": [{"offset": "30 days before", "action_type": "approval:start", "payload": {"n": 1}}],
            "timezone": "Europe/Berlin", "calendar": {"holidays": "US"}, "team_id": "blue",
            "metadata": {"a": None}, "created_by": "billing",
        },
    ],
    ids=["no options", "a series", "all options"],
)  # fmt: skip
def test_a_deadline_from_sql_is_stored_like_one_from_python(project, connection, optional):
    by_sql = call(connection, name="sql", **optional)
    given = {"target": TARGET, "due_at": DUE, "recipients": ANN, "reminders": REMINDERS} | optional
    by_python = scheduled_actions.set_deadline(**given, name="python").id

    project.processor.tick()

    one, other = (
        connection.execute(f"select {COLUMNS} from scheduled_action_deadlines where id = %s", [deadline_id]).fetchone()
        for deadline_id in (by_sql, by_python)
    )
    assert one == other
    assert planned(connection, by_sql) == planned(connection, by_python) != {}


def test_sql_takes_every_argument_of_python(connection):
    (arguments,) = connection.execute(
        "select proargnames[:pronargs] from pg_proc where proname = 'set_deadline'"
    ).fetchone()
    code = scheduled_actions.set_deadline.__wrapped__.__code__
    python = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    assert arguments == [name for name in python if name != "connection"]


def test_a_second_call_changes_the_deadline_at_the_next_tick(project, connection):
    first = call(connection, name="renewal")
    project.processor.tick()

    second = call(connection, name="renewal", due_at=DUE + timedelta(days=5))
    before = scheduled_actions.get_deadline(first)
    project.processor.tick()
    after = scheduled_actions.get_deadline(first)

    assert first == second
    assert (before.due_at, after.due_at) == (DUE, DUE + timedelta(days=5))
    assert requests_left(connection) == 0


def test_the_same_call_changes_nothing(project, connection):
    deadline_id = call(connection, name="renewal")
    project.processor.tick()
    before = planned(connection, deadline_id)

    call(connection, name="renewal")
    project.processor.tick()

    assert planned(connection, deadline_id) == before
    assert history(deadline_id) == ["set"]
    assert requests_left(connection) == 0


def test_a_rolled_back_call_changes_nothing(project, connection):
    made = scheduled_actions.set_deadline(TARGET, DUE, name="renewal")
    with connection.transaction(force_rollback=True):
        call(connection, name="renewal")
        call(connection, name="other")

    report = project.processor.tick()

    assert report.processed == 0
    assert [(one.id, one.stages) for one in scheduled_actions.list_deadlines()] == [(made.id, made.stages)]


def test_a_call_after_the_deadline_was_completed_creates_another_one(project, connection):
    first = call(connection, name="renewal")
    project.processor.tick()
    scheduled_actions.complete_deadline(first)

    second = call(connection, name="renewal")
    project.processor.tick()

    assert first != second
    assert scheduled_actions.get_deadline("renewal").id == second


REFUSED = [
    ({"reminders": BAD}, "reminders[0].offset"),
    ({"reminders": [True]}, "reminders[0]"),
    ({"recurrence": "every blue moon", "due_at": None}, "every blue moon"),
    ({"timezone": "Europe/Atlantis"}, "timezone: 'Europe/Atlantis' is not an IANA time zone"),
    ({"calendar": {"holidays": "Atlantis"}}, "Atlantis"),
    ({"recipients": "resolver:missing"}, "missing"),
    ({"auto_actions": [{"offset": "when due", "action_type": "no:type"}]}, "no:type"),
]


@pytest.mark.parametrize(("arguments", "problem"), REFUSED, ids=[problem for _, problem in REFUSED])
def test_a_call_that_python_refuses_cancels_the_new_deadline_with_the_reason(project, connection, arguments, problem):
    deadline_id = call(connection, name="bad", **arguments)

    project.processor.tick()
    refused = scheduled_actions.get_deadline(deadline_id)
    (failed,) = connection.execute("select error_message from scheduled_actions where status = 'failed'").fetchone()

    assert (refused.status, history(deadline_id)) == ("cancelled", ["cancelled"])
    assert refused.closed_reason == refused.history[-1]["reason"]
    assert refused.closed_reason.startswith("set_deadline from SQL was refused: ")
    assert problem in refused.closed_reason
    assert problem in failed
    assert requests_left(connection) == 1


@pytest.mark.parametrize("recurrence", [None, "0 9 1 * *"], ids=["a single deadline", "a series"])
def test_a_refused_change_leaves_the_deadline_and_is_in_its_history(project, connection, recurrence):
    deadline_id = call(connection, name="renewal", recurrence=recurrence)
    project.processor.tick()
    before = scheduled_actions.get_deadline(deadline_id)

    call(connection, name="renewal", recurrence=recurrence, reminders=BAD)
    project.processor.tick()
    after = scheduled_actions.get_deadline(deadline_id)

    assert (after.status, after.due_at, after.stages) == ("open", before.due_at, before.stages)
    assert history(deadline_id)[-1] == "refused"
    assert "reminders[0].offset" in after.history[-1]["reason"]
    assert requests_left(connection) == 1


def test_a_bad_call_does_not_prevent_the_good_ones_of_the_same_tick(project, connection):
    ids = [call(connection, name=f"n{number}", reminders=BAD if number == 2 else REMINDERS) for number in range(5)]

    report = project.processor.tick()

    assert (report.succeeded, report.failed) == (4, 1)
    assert [scheduled_actions.get_deadline(one).status for one in ids] == [
        "open", "open", "cancelled", "open", "open",
    ]  # fmt: skip


def test_a_deadline_that_a_person_cancels_before_the_tick_stays_cancelled(project, connection):
    deadline_id = call(connection, name="renewal")
    scheduled_actions.cancel_deadline(deadline_id, reason="a mistake", by="ann")

    report = project.processor.tick()

    found = scheduled_actions.get_deadline(deadline_id)
    assert report.failed == 1
    assert (found.status, found.closed_by, found.closed_reason) == ("cancelled", "ann", "a mistake")


def test_a_call_made_while_an_earlier_one_is_applied_is_applied_afterwards(project, connection, monkeypatch):
    call(connection, name="renewal")
    validate = DeadlineValidator.validate

    def call_again(validator, *arguments, **options):
        monkeypatch.undo()
        call(connection, name="renewal", due_at=DUE + timedelta(days=5))
        return validate(validator, *arguments, **options)

    monkeypatch.setattr(DeadlineValidator, "validate", call_again)
    project.processor.tick()
    project.processor.tick()

    assert scheduled_actions.get_deadline("renewal").due_at == DUE + timedelta(days=5)
    assert requests_left(connection) == 0


def test_concurrent_calls_with_one_name_create_one_deadline(project, connection, database_url):
    ids = together(database_url, 4, lambda own, number: call(own, name="renewal"))

    project.processor.tick()

    (made,) = scheduled_actions.list_deadlines()
    assert set(ids) == {made.id}
    assert requests_left(connection) == 0


def test_calls_without_a_name_create_separate_deadlines(project, connection):
    ids = {call(connection), call(connection)}

    project.processor.tick()

    assert {one.id for one in scheduled_actions.list_deadlines()} == ids
    assert len(ids) == 2


def test_only_the_deadline_of_a_team_is_limited_to_channels_open_to_teams(project, connection):
    of_team, of_none = call(connection, team_id="blue"), call(connection)

    project.processor.tick()

    assert scheduled_actions.get_deadline(of_team).reach == "team"
    assert scheduled_actions.get_deadline(of_none).reach is None


INVALID = [
    ("target => null", "target: must be"),
    ('target => \'{"type": "license"}\'', "target: must be"),
    ("due_at => null", "due_at is required for a deadline without a recurrence"),
    ("due_at => 'infinity'", "due_at: infinity is not an instant between the years 1900 and 9800"),
    ("due_at => '1899-12-31Z'", "due_at: 1899-12-31"),
    ("reminders => '{}'", "reminders: must be a JSON array, not a JSON object"),
    ("escalation => '5'", "escalation: must be a JSON array or object, not a JSON number"),
    ("auto_actions => '{}'", "auto_actions: must be a JSON array, not a JSON object"),
    ("calendar => '[]'", "calendar: must be a JSON object, not a JSON array"),
    ("recurrence => ''", "recurrence: must have 1 to 2000 characters"),
    ("timezone => ''", "timezone: must have 1 to 255 characters"),
    ("team_id => ''", "team_id: must have 1 to 255 characters"),
    ("name => ''", "name: must have 1 to 200 characters"),
    ("name => '0197a000-0000-7000-8000-000000000001'", "name: 0197a000-0000-7000-8000-000000000001 is a UUID"),
    ("name => '{0197a000-0000-7000-8000-000000000001}'", "name: {0197a000-0000-7000-8000-000000000001} is a UUID"),
    ("metadata => '[]'", "metadata: must be a JSON object, not a JSON array"),
    ("metadata => jsonb_build_object('a', repeat('x', 65536))", "metadata is "),
    ("created_by => repeat('x', 65537)", "created_by is 65537 bytes; the limit is 65536"),
    ("recipients => to_jsonb(repeat('x', 1048576))", "the deadline is "),
]


@pytest.mark.parametrize(("argument", "message"), INVALID, ids=[argument[:60] for argument, _ in INVALID])
def test_sql_refuses_an_invalid_argument_by_its_name(connection, argument, message):
    name, _, value = argument.partition(" => ")
    given = {"target": '\'{"type": "license", "id": "42"}\'', "due_at": "now()"} | {name: value}
    listed = ", ".join(f"{name} => {value}" for name, value in given.items())

    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        connection.execute(f"select set_deadline({listed})")

    assert caught.value.diag.message_primary.startswith(message)
    assert connection.execute("select count(*) from scheduled_action_deadlines").fetchone() == (0,)


def test_a_deleted_deadline_is_not_created_again(project, connection):
    deadline_id = call(connection)
    connection.execute("delete from scheduled_action_deadlines")

    report = project.processor.tick()

    assert (report.skipped, report.failed) == (1, 0)
    with pytest.raises(UnknownDeadline):
        scheduled_actions.get_deadline(deadline_id)


CHANGES = {
    "update": lambda: scheduled_actions.update_deadline("x", metadata={"a": 1}),
    "move": lambda: scheduled_actions.move_deadline("x", timedelta(days=9)),
    "pause": lambda: scheduled_actions.pause_deadline("x"),
    "complete": lambda: scheduled_actions.complete_deadline("x"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_reserved_deadline_is_not_changed_before_the_tick(project, connection, change):
    call(connection, name="x", due_at=None, recurrence="0 9 1 * *", reminders=["3 days before"])

    with pytest.raises(DeadlineNotApplied, match="deadline x cannot be changed: no tick has applied the call of set_"):
        change()
    project.processor.tick()

    assert scheduled_actions.get_deadline("x").series_id is not None


@pytest.mark.parametrize("is_new", [True, False])
def test_a_later_call_from_python_replaces_a_call_from_sql(project, connection, is_new):
    if not is_new:
        scheduled_actions.set_deadline(TARGET, DUE, recipients=ANN, name="x")
    deadline_id = call(connection, name="x")
    scheduled_actions.set_deadline(TARGET, DUE + timedelta(days=9), recipients=ANN, name="x")

    project.processor.tick()

    found = scheduled_actions.get_deadline("x")
    assert (found.id, found.due_at) == (deadline_id, DUE + timedelta(days=9))
    assert requests_left(connection) == 0


def test_two_calls_from_python_that_replace_the_same_call_from_sql_take_turns(project, connection, database_url):
    deadline_id = call(connection, name="x")
    later = DUE + timedelta(days=9)

    def replace_later():
        # This connection has no lock timeout, so the call waits for the lock of the test.
        with psycopg.connect(database_url, autocommit=True) as other:
            scheduled_actions.set_deadline(TARGET, later, recipients=ANN, name="x", connection=other)

    replacing = threading.Thread(target=replace_later)
    with connection.transaction():
        scheduled_actions.set_deadline(TARGET, DUE, recipients=ANN, name="x", connection=connection)
        replacing.start()
        wait_until(lambda: is_waiting(connection))
    replacing.join(PATIENCE)

    found = scheduled_actions.get_deadline("x")
    assert (found.id, found.due_at) == (deadline_id, later)
    assert requests_left(connection) == 0


def test_a_refusal_does_not_cancel_a_deadline_with_a_later_call(project, connection, monkeypatch):
    call(connection, name="x", reminders=BAD)
    refuse = requested.refuse_requested

    def refuse_late(*arguments):
        monkeypatch.setattr(requested, "refuse_requested", refuse)
        call(connection, name="x")
        refuse(*arguments)

    monkeypatch.setattr(requested, "refuse_requested", refuse_late)
    for _ in range(2):
        project.processor.tick()

    assert scheduled_actions.get_deadline("x").status == "open"
    assert requests_left(connection) == 0
