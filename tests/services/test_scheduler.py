"""What application code calls: schedule, read, change; each refusal names what is wrong and changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row
from pydantic import BaseModel

import scheduled_actions
from scheduled_actions import Exponential, NewAction, action, runtime
from scheduled_actions.errors import (
    ActionLocked,
    DatabaseUnavailable,
    FollowUpInvalid,
    InvalidArgument,
    PayloadInvalid,
    RequestError,
    TooLarge,
    UnknownAction,
    UnknownActionType,
    WrongStatus,
)
from tests.factories import database_now, insert, is_waiting, move_clock, projects, row, statuses, together, wait_until

SECOND = timedelta(seconds=1)


class Welcome(BaseModel):
    name: str
    day: date | None = None


@action("test:run")
def run(payload):
    """Take any object."""


@action("test:welcome", dedup_window=30)
def welcome(payload: Welcome): ...


@action("test:gather")
def gather(payload: list[Welcome]): ...


@pytest.fixture
def a_project(database_url):
    """Return a function that makes a project of handlers and settings on the test's database."""
    with projects(database_url) as make:
        yield make


@pytest.fixture
def project(a_project):
    """Give a project of three handlers."""
    return a_project(run, welcome, gather)


def schedule(project, action_type="test:run", payload=None, *, connection=None, **arguments):
    new = NewAction(action_type=action_type, payload={} if payload is None else payload, **arguments)
    return project.scheduler.schedule_action(new, connection=connection)


# -- what is scheduled -------------------------------------------------------------------------------------------------


def test_an_action_is_scheduled_as_it_was_asked_for(project, connection):
    scheduled = schedule(
        project,
        payload={"n": 1, "é": [None, True]},
        scheduled_at=datetime(2027, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))),
        team_id="t",
        priority=-7,
        max_attempts=9,
        retry=Exponential(5, 50),
        lock_group="g",
        lock_group_blocks=True,
        dedup_key="k",
        target={"type": "invoice", "id": "42"},
        user_id="u",
        metadata={"m": 1},
        created_by="c",
    )

    found = project.scheduler.get_action(scheduled.id)
    assert scheduled.deduplicated is False
    assert (found.action_type, found.status, found.payload) == ("test:run", "pending", {"n": 1, "é": [None, True]})
    assert found.scheduled_at == datetime(2027, 1, 2, 1, 4, 5, tzinfo=UTC)
    assert (found.team_id, found.priority, found.max_attempts) == ("t", -7, 9)
    assert (found.lock_group, found.lock_group_blocks, found.dedup_key) == ("g", True, "k")
    assert (found.target_type, found.target_id, found.user_id, found.created_by) == ("invoice", "42", "u", "c")
    assert (found.metadata, found.attempts, found.history) == ({"m": 1}, 0, ())
    assert row(connection, scheduled.id)["retry"] == {
        "kind": "exponential", "base_seconds": 5, "cap_seconds": 50, "jitter": "none",
    }  # fmt: skip


def test_what_is_not_given_has_its_default(project):
    found = project.scheduler.get_action(schedule(project).id)

    assert (found.priority, found.max_attempts, found.team_id, found.metadata) == (0, None, None, None)
    assert found.scheduled_at == found.created_at


@pytest.mark.parametrize("payload", [Welcome(name="Zoë", day=date(2026, 3, 4)), {"name": "Zoë", "day": "2026-03-04"}])
def test_a_payload_is_a_mapping_or_an_instance_of_the_handlers_model(project, payload):
    scheduled = schedule(project, "test:welcome", payload)

    assert project.scheduler.get_action(scheduled.id).payload == {"name": "Zoë", "day": "2026-03-04"}


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("action_type", "payload", "error", "message"),
    [
        ("test:rnu", {}, UnknownActionType, 'did you mean "test:run"?'),
        ("test:welcome", {"nmae": "Zoë"}, PayloadInvalid, "name: Field required"),
        ("test:run", [1], InvalidArgument, "payload: a value of type list is not a JSON object"),
        ("test:run", {"n": float("nan")}, InvalidArgument, "payload.n"),
        ("test:run", {"text": "a\0b"}, InvalidArgument, "payload.text"),
        ("test:run", {"text": "\ud800"}, InvalidArgument, "payload.text"),
        ("test:run", {"n": 10**5000}, InvalidArgument, "payload.n"),
        ("test:run", {"text": "x" * 262_144}, TooLarge, "at most 262,144"),
        ("test:run", {"f": object()}, InvalidArgument, "payload.f"),
    ],
)
def test_a_payload_that_cannot_be_is_refused_at_the_callers_desk(  # noqa: PLR0917 - two fixtures and a row of the table
    project, connection, action_type, payload, error, message
):
    with pytest.raises(error) as refused:
        schedule(project, action_type, payload)

    assert message in str(refused.value)
    assert isinstance(refused.value, RequestError)
    assert statuses(connection) == {}


REFUSED = [
    ({"scheduled_at": datetime(2026, 3, 4)}, InvalidArgument, "aware: give it a tzinfo, or say timezone="),  # noqa: DTZ001 - that is the point
    ({"scheduled_at": -SECOND}, InvalidArgument, "between zero and a hundred years"),
    ({"scheduled_at": timedelta(days=99999)}, InvalidArgument, "between zero and a hundred years"),
    ({"scheduled_at": "tomorrow"}, InvalidArgument, "a datetime or a timedelta"),
    ({"scheduled_at": date(2026, 3, 4)}, InvalidArgument, "a datetime or a timedelta"),
    (
        {"scheduled_at": datetime.max.replace(tzinfo=timezone(-timedelta(hours=9)))},
        InvalidArgument,
        "between the years 1 and 9999",
    ),
    ({"timezone": "Europe/Atlantis"}, InvalidArgument, "'Europe/Atlantis' is not an IANA time zone"),
    ({"timezone": ("Europe", "Berlin")}, InvalidArgument, "('Europe', 'Berlin') is not an IANA time zone"),
    ({"timezone": "../etc/passwd"}, InvalidArgument, "an IANA time zone"),
    ({"priority": 32_768}, InvalidArgument, "priority: 32768 is not an integer between -32768 and 32767"),
    ({"priority": True}, InvalidArgument, "priority: True"),
    ({"priority": 1.5}, InvalidArgument, "priority: 1.5"),
    ({"max_attempts": 0}, InvalidArgument, "max_attempts: 0 is not an integer between 1 and 1000"),
    ({"retry": "soon"}, InvalidArgument, "a policy, a list of seconds"),
    ({"team_id": ""}, InvalidArgument, "a text of 1 to 255 characters"),
    ({"team_id": 7}, InvalidArgument, "team_id: 7 is not a text"),
    ({"lock_group": "x" * 256}, InvalidArgument, "a text of 1 to 255 characters"),
    ({"dedup_key": "x" * 513}, InvalidArgument, "a text of 1 to 512 characters"),
    ({"dedup_key": "a\0b"}, InvalidArgument, "dedup_key"),
    ({"dedup_window": -1}, InvalidArgument, "between 0 and a year"),
    ({"dedup_window": float("nan")}, InvalidArgument, "between 0 and a year"),
    ({"dedup_window": 10**400}, InvalidArgument, "between 0 and a year"),
    ({"dedup_mode": "last"}, InvalidArgument, "dedup_mode: 'last' is not"),
    ({"target": {"type": "invoice"}}, InvalidArgument, "the thing it is about"),
    ({"target": {"type": "invoice", "id": 42}}, InvalidArgument, "the thing it is about"),
    ({"user_id": 42}, InvalidArgument, "user_id: 42 is not a text"),
    ({"metadata": [1]}, InvalidArgument, "metadata"),
    ({"metadata": {"text": "x" * 70_000}}, TooLarge, "metadata is 70,011 bytes"),
    ({"dedup_mode": "append"}, InvalidArgument, "dedup_mode"),
    ({"condition": {}}, InvalidArgument, "an object without a kind"),
    ({"after": "7"}, InvalidArgument, "the id of an action"),
    ({"on_success": 7}, InvalidArgument, "an action to schedule"),
    ({"on_failure": {"payload": {}}}, FollowUpInvalid, "on_failure.0: action_type"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), REFUSED)
def test_an_argument_that_cannot_be_is_refused_with_what_would_be_right(project, connection, arguments, error, message):
    with pytest.raises(error) as refused:
        schedule(project, **arguments)

    assert message in str(refused.value)
    assert statuses(connection) == {}


# -- when --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("local", "instant"),
    [
        (datetime.fromisoformat("2026-07-01T09:00"), "2026-07-01T07:00+00:00"),
        # The clocks go from 2 to 3: half past two does not exist, and moves forward by the gap.
        (datetime.fromisoformat("2026-03-29T02:30"), "2026-03-29T01:30+00:00"),
        (datetime.fromisoformat("2026-03-29T03:30"), "2026-03-29T01:30+00:00"),
        # They go from 3 back to 2: half past two comes twice, and the first is meant unless said otherwise.
        (datetime.fromisoformat("2026-10-25T02:30"), "2026-10-25T00:30+00:00"),
        (datetime.fromisoformat("2026-10-25T02:30").replace(fold=1), "2026-10-25T01:30+00:00"),
    ],
)
def test_a_naive_datetime_is_local_to_its_time_zone(project, local, instant):
    scheduled = schedule(project, scheduled_at=local, timezone="Europe/Berlin")

    assert project.scheduler.get_action(scheduled.id).scheduled_at == datetime.fromisoformat(instant)


def test_an_aware_datetime_needs_no_time_zone_and_is_not_moved_by_one(project):
    moment = datetime(2026, 7, 1, 9, 0, tzinfo=ZoneInfo("Asia/Tokyo"))

    scheduled = schedule(project, scheduled_at=moment, timezone="Europe/Berlin")

    assert project.scheduler.get_action(scheduled.id).scheduled_at == moment


def test_a_timedelta_counts_from_the_databases_now(project, connection):
    move_clock(connection, timedelta(hours=1))

    scheduled = schedule(project, scheduled_at=timedelta(minutes=5))

    found = project.scheduler.get_action(scheduled.id)
    assert found.scheduled_at - found.created_at == timedelta(minutes=5)
    assert abs(found.created_at - database_now(connection)) < timedelta(minutes=1)


def test_instants_are_in_utc_whatever_the_databases_time_zone(a_project, connection):
    name = connection.info.dbname
    connection.execute(f"alter database \"{name}\" set timezone = 'Asia/Tokyo'")
    project = a_project(run)

    found = project.scheduler.get_action(schedule(project).id)

    assert {found.scheduled_at.tzinfo, found.created_at.tzinfo, found.updated_at.tzinfo} == {UTC}


# -- once --------------------------------------------------------------------------------------------------------------


def test_the_dedup_window_is_the_calls_own_then_the_handlers_then_the_settings(a_project, connection):
    project = a_project(run, welcome, deduplication_window_seconds=10)
    for its_own, seconds in (({"dedup_window": 50}, 50), ({"action_type": "test:welcome"}, 30), ({}, 10)):
        arguments = {"dedup_key": f"k{seconds}", "payload": {"name": "Zoë"}} | its_own
        move_clock(connection, timedelta(0))
        schedule(project, **arguments)

        move_clock(connection, timedelta(seconds=seconds - 1))
        assert schedule(project, **arguments).deduplicated is True
        move_clock(connection, timedelta(seconds=seconds + 1))
        assert schedule(project, **arguments).deduplicated is False


def test_gathered_payloads_reach_a_handler_that_takes_a_list(a_project):
    got = []

    @action("test:gather")
    def handle(payload: list[Welcome]):
        got.append([one.name for one in payload])

    project = a_project(handle)
    for name in ("Ada", "Zoë"):
        schedule(project, "test:gather", {"name": name}, dedup_key="k", dedup_mode="append")

    project.processor.tick()

    assert got == [["Ada", "Zoë"]]


# -- many --------------------------------------------------------------------------------------------------------------


def test_many_are_scheduled_in_their_order(project):
    scheduled = project.scheduler.schedule_actions(
        [
            NewAction(action_type="test:run", payload={"n": 0}, scheduled_at=timedelta(hours=1)),
            {"action_type": "test:run", "payload": {"n": 1}, "scheduled_at": datetime(2027, 1, 1, tzinfo=UTC)},
            {"action_type": "test:welcome", "payload": Welcome(name="Zoë"), "team_id": "t", "metadata": {"m": 1}},
            {"action_type": "test:run", "payload": {"n": 3}, "dedup_key": "k"},
            {"action_type": "test:run", "payload": {"n": 4}, "dedup_key": "k"},
        ]
    )

    found = [project.scheduler.get_action(one.id) for one in scheduled]
    assert [one.payload for one in found] == [
        {"n": 0}, {"n": 1}, {"name": "Zoë", "day": None}, {"n": 4}, {"n": 4},
    ]  # fmt: skip
    assert [one.deduplicated for one in scheduled] == [False] * 4 + [True]
    assert found[0].scheduled_at - found[0].created_at == timedelta(hours=1)
    assert found[1].scheduled_at == datetime(2027, 1, 1, tzinfo=UTC)
    assert (found[2].team_id, found[2].metadata) == ("t", {"m": 1})


def test_none_of_none_is_nothing(project):
    assert project.scheduler.schedule_actions([]) == []


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ({"action_type": "test:rnu", "payload": {}}, UnknownActionType),
        ({"action_type": "test:welcome", "payload": {}}, PayloadInvalid),
        ({"action_type": "test:run"}, InvalidArgument),
        ({"action_type": "test:run", "payload": {}, "pirority": 1}, InvalidArgument),
        ({"action_type": "test:run", "payload": {}, "priority": 99_999}, InvalidArgument),
    ],
)
def test_one_that_cannot_be_names_its_position_and_none_is_scheduled(project, connection, broken, error):
    good = {"action_type": "test:run", "payload": {}}

    with pytest.raises(error) as refused:
        project.scheduler.schedule_actions([good, good, broken, good])

    assert refused.value.__notes__ == ["in new_actions[2]"]
    assert statuses(connection) == {}


# -- the caller's own connection ---------------------------------------------------------------------------------------


def test_an_action_of_the_callers_transaction_never_was_when_it_is_rolled_back(project, connection, database_url):
    with psycopg.connect(database_url) as own:
        schedule(project, connection=own)
        project.scheduler.schedule_actions([{"action_type": "test:run", "payload": {}}], connection=own)
        own.rollback()

    assert statuses(connection) == {}


@pytest.mark.parametrize("row_factory", [dict_row, namedtuple_row])
@pytest.mark.parametrize("autocommit", [False, True])
def test_the_callers_connection_may_be_of_any_kind(project, connection, database_url, row_factory, autocommit):
    with psycopg.connect(database_url, row_factory=row_factory, autocommit=autocommit) as own:
        scheduled = schedule(project, dedup_key="k", connection=own)
        assert schedule(project, dedup_key="k", connection=own) == type(scheduled)(scheduled.id, deduplicated=True)
        project.scheduler.schedule_actions([{"action_type": "test:run", "payload": {}}], connection=own)
        project.scheduler.update_action(scheduled.id, priority=3, connection=own)
        project.scheduler.cancel_action(scheduled.id, connection=own)
        assert project.scheduler.retry_action(scheduled.id, connection=own).priority == 3
        assert own.row_factory is row_factory

    assert len(statuses(connection)) == 2


def test_a_refusal_leaves_the_transaction_usable_that_it_would_have_begun(project, connection, database_url):
    with psycopg.connect(database_url) as own:
        with pytest.raises(RequestError):
            schedule(project, connection=own, after=str(uuid4()))
        schedule(project, connection=own)
        assert statuses(connection) == {}

    assert len(statuses(connection)) == 1


def test_a_refusal_leaves_the_callers_transaction_usable(project, connection, database_url):
    with psycopg.connect(database_url) as own:
        schedule(project, connection=own)
        for broken in ({"priority": 99_999}, {"payload": {"n": 1e400}}):
            with pytest.raises(RequestError):
                schedule(project, connection=own, **broken)
        with pytest.raises(RequestError):
            project.scheduler.schedule_actions(
                [{"action_type": "test:run", "payload": {}, "scheduled_at": -SECOND}], connection=own
            )
        schedule(project, connection=own)

    assert len(statuses(connection)) == 2


@pytest.mark.parametrize("connection_", ["a dsn", 7, object()])
def test_what_is_no_connection_is_refused(project, connection_):
    with pytest.raises(InvalidArgument, match="is not a psycopg 3 Connection"):
        schedule(project, connection=connection_)


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action_id", [UUID(int=7), str(UUID(int=7)), "no id", ""])
def test_an_id_that_is_none_and_one_of_another_team_answer_the_same(project, action_id):
    for call in (project.scheduler.get_action, project.scheduler.cancel_action, project.scheduler.retry_action):
        with pytest.raises(UnknownAction, match="no action has the id"):
            call(action_id)
    with pytest.raises(UnknownAction):
        project.scheduler.update_action(action_id, priority=1)


def test_an_action_of_another_team_is_not_there(project, connection):
    scheduled = schedule(project, team_id="a", scheduled_at=timedelta(hours=1))
    before = row(connection, scheduled.id)

    for call in (
        project.scheduler.get_action,
        project.scheduler.cancel_action,
        project.scheduler.retry_action,
        lambda one, **team: project.scheduler.update_action(one, payload={"n": 1}, **team),
        lambda one, **team: project.scheduler.update_action(one, priority=1, **team),
    ):
        with pytest.raises(UnknownAction) as refused:
            call(scheduled.id, team_id="b")
        assert str(refused.value) == f"no action has the id {scheduled.id}"

    assert row(connection, scheduled.id) == before
    assert project.scheduler.get_action(scheduled.id, team_id="a").id == scheduled.id


def test_actions_are_listed_newest_first_page_by_page(project):
    made = [schedule(project).id for _ in range(7)]

    first = project.scheduler.list_actions(limit=3)
    second = project.scheduler.list_actions(limit=3, cursor=first[-1].id)
    third = project.scheduler.list_actions(limit=3, cursor=str(second[-1].id))

    assert [one.id for page in (first, second, third) for one in page] == made[::-1]


def test_a_list_says_where_the_next_begins(project):
    made = [schedule(project).id for _ in range(3)]

    first = project.scheduler.list_actions(limit=2)
    second = project.scheduler.list_actions(limit=2, cursor=first.next_cursor)

    assert [one.id for page in (first, second) for one in page] == made[::-1]
    assert (first.next_cursor, second.next_cursor) == (made[1], None)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, "abcd"),
        ({"status": "completed"}, "b"),
        ({"action_type": "test:welcome"}, "c"),
        ({"team_id": "t"}, "bc"),
        ({"lock_group": "g"}, "d"),
        ({"scheduled_from": datetime(2026, 1, 2, tzinfo=UTC)}, "bcd"),
        ({"scheduled_to": datetime(2026, 1, 3, tzinfo=UTC)}, "ab"),
        ({"team_id": "t", "status": "pending"}, "c"),
        ({"q": "welc"}, "c"),
        ({"q": "key-d"}, "d"),
        ({"q": "%"}, ""),
        ({"q": "nothing"}, ""),
    ],
)
def test_a_list_holds_what_matches_every_filter(project, connection, filters, found):
    columns = {
        "a": {},
        "b": {"status": "completed", "team_id": "t"},
        "c": {"action_type": "test:welcome", "team_id": "t"},
        "d": {"lock_group": "g", "dedup_key": "key-d"},
    }
    made = {
        insert(connection, scheduled_at=datetime(2026, 1, day, tzinfo=UTC), **columns[name]): name
        for day, name in enumerate(columns, start=1)
    }

    listed = project.scheduler.list_actions(**filters)

    assert "".join(sorted(made[one.id] for one in listed)) == found


def test_an_action_is_found_by_the_beginning_of_its_id(project):
    scheduled = schedule(project)

    assert [one.id for one in project.scheduler.list_actions(q=str(scheduled.id)[:20])] == [scheduled.id]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"limit": 0}, "between 1 and 100"),
        ({"limit": 101}, "between 1 and 100"),
        ({"status": "done"}, "one of pending, processing, completed"),
        ({"scheduled_from": datetime(2026, 1, 1)}, "aware"),  # noqa: DTZ001 - that is the point
    ],
)
def test_a_filter_that_cannot_be_is_refused(project, filters, message):
    with pytest.raises(InvalidArgument, match=message):
        project.scheduler.list_actions(**filters)


def test_one_row_that_cannot_be_read_hides_no_other(project, connection):
    made = [
        insert(connection, scheduled_at="-infinity"),
        insert(connection, payload='{"n": ' + "9" * 5001 + "}"),
        insert(connection, payload='{"n": ' + "[" * 7000 + "]" * 7000 + "}"),
        insert(connection, completed_at="infinity", status="completed"),
        schedule(project, payload={"n": 1}).id,
    ]

    listed = project.scheduler.list_actions()

    assert [one.id for one in listed] == made[::-1]
    assert listed[0].payload == {"n": 1}
    assert [project.scheduler.get_action(one).id for one in made] == made


# -- changing ----------------------------------------------------------------------------------------------------------


def test_what_is_given_is_changed_and_the_rest_is_left_and_the_history_tells(project, connection):
    scheduled = schedule(project, payload={"n": 1}, metadata={"m": 1}, scheduled_at=timedelta(hours=1))

    changed = project.scheduler.update_action(
        scheduled.id,
        payload={"n": 2},
        scheduled_at=datetime(2027, 3, 28, 2, 30),  # noqa: DTZ001 - with its timezone
        timezone="Europe/Berlin",
        priority=4,
        max_attempts=7,
        retry=[1, 2],
        by="zoe",
    )

    assert (changed.payload, changed.priority, changed.max_attempts, changed.metadata) == ({"n": 2}, 4, 7, {"m": 1})
    assert changed.scheduled_at == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)
    assert row(connection, scheduled.id)["retry"]["seconds"] == [1, 2]
    (entry,) = changed.history
    assert (entry["outcome"], entry["by"]) == ("updated", "zoe")
    assert entry["changes"] == ["max_attempts", "payload", "priority", "retry", "scheduled_at"]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"payload": {"nmae": "x"}}, PayloadInvalid),
        ({"priority": 99_999}, InvalidArgument),
        ({"max_attempts": 0}, InvalidArgument),
        ({"scheduled_at": "soon"}, InvalidArgument),
        ({"retry": {}}, InvalidArgument),
        ({"metadata": [1]}, InvalidArgument),
    ],
)
def test_a_change_that_cannot_be_changes_nothing(project, connection, changes, error):
    scheduled = schedule(project, "test:welcome", {"name": "Zoë"})
    before = row(connection, scheduled.id)

    with pytest.raises(error):
        project.scheduler.update_action(scheduled.id, **({"priority": 3} | changes))

    assert row(connection, scheduled.id) == before


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "skipped", "no_action", "processing"])
def test_only_what_is_pending_can_be_changed(project, connection, status):
    fence = {"claim_token": uuid4(), "lease_expires_at": database_now(connection)} if status == "processing" else {}
    action_id = insert(connection, status=status, **fence)
    before = row(connection, action_id)

    with pytest.raises(WrongStatus, match=f"is {status}; this takes only pending"):
        project.scheduler.update_action(action_id, priority=1)

    assert row(connection, action_id) == before


@pytest.mark.parametrize(("seconds", "is_locked"), [(119, True), (121, False)])
def test_what_is_due_too_soon_is_locked_for_those_who_ask_from_outside(project, seconds, is_locked):
    for change in (
        lambda one, **lock: project.scheduler.update_action(one, priority=1, **lock),
        project.scheduler.cancel_action,
    ):
        action_id = schedule(project, scheduled_at=timedelta(seconds=seconds)).id

        if is_locked:
            with pytest.raises(ActionLocked, match=r"due within 120 seconds \(edit_lock_seconds\), and locked"):
                change(action_id, edit_lock_seconds=120)
        change(action_id, edit_lock_seconds=None if is_locked else 120)


@pytest.mark.parametrize("status", ["pending", "no_action"])
def test_what_waits_can_be_cancelled(project, connection, status):
    action_id = insert(connection, status=status, dedup_key="k", dedup_open=True)

    cancelled = project.scheduler.cancel_action(action_id, by="zoe", reason="no need")

    assert (cancelled.status, cancelled.error_message) == ("cancelled", "no need")
    assert cancelled.completed_at is not None
    (entry,) = cancelled.history
    assert {name: entry[name] for name in ("outcome", "by", "reason")} == {
        "outcome": "cancelled", "by": "zoe", "reason": "no need",
    }  # fmt: skip
    assert row(connection, action_id)["dedup_open"] is False
    assert schedule(project, dedup_key="k").deduplicated is False


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "skipped"])
def test_what_has_ended_cannot_be_cancelled(project, connection, status):
    action_id = insert(connection, status=status)

    with pytest.raises(WrongStatus, match=f"is {status}; .*: it has ended, so there is nothing to cancel"):
        project.scheduler.cancel_action(action_id)


def test_what_runs_is_left_alone_by_those_who_may_only_cancel_what_waits(project, connection):
    action_id = insert(connection, status="processing", claim_token=uuid4(), lease_expires_at=database_now(connection))

    with pytest.raises(WrongStatus, match="is processing"):
        project.scheduler.cancel_action(action_id, also_running=False)

    assert row(connection, action_id)["cancel_requested_at"] is None


@pytest.mark.parametrize("status", ["failed", "cancelled", "skipped"])
def test_what_ended_badly_can_be_tried_again_from_the_beginning(project, connection, status):
    action_id = insert(
        connection,
        status=status,
        attempts=3,
        state={"page": 2},
        error_message="no",
        completed_at=database_now(connection),
        cancel_requested_at=database_now(connection),
        history=[{"attempt": 3, "outcome": "failed"}],
        scheduled_at="2020-01-01",
    )

    pending = project.scheduler.retry_action(action_id, by="zoe")

    assert (pending.status, pending.attempts, pending.state) == ("pending", 0, None)
    assert pending.completed_at is pending.error_message is pending.cancel_requested_at is None
    assert pending.scheduled_at == pending.updated_at
    assert [entry["outcome"] for entry in pending.history] == ["failed", "retried"]
    assert project.processor.tick().succeeded == 1


@pytest.mark.parametrize("status", ["pending", "completed", "no_action"])
def test_nothing_else_can_be_tried_again(project, connection, status):
    action_id = insert(connection, status=status)

    with pytest.raises(WrongStatus, match=f"is {status}; this takes only failed, cancelled or skipped"):
        project.scheduler.retry_action(action_id)


def test_a_change_that_meets_a_claim_finds_the_action_claimed(project, connection, database_url):
    """The change waits for the claim's row lock, and then sees what became of the row."""
    action_id = schedule(project).id

    def work(own, number):
        if number == 0:
            with pytest.raises(WrongStatus, match="is processing"):
                # On a connection that waits for a lock as long as it takes.
                project.scheduler.update_action(action_id, priority=1, connection=own)
            return
        with own.transaction():
            own.execute(
                "update scheduled_actions set status = 'processing', claim_token = gen_random_uuid(),"
                " lease_expires_at = now() + interval '1 minute'"
            )
            held.append(True)
            wait_until(lambda: is_waiting(connection))

    held = []

    def after_the_lock(own, number):
        if number == 0:
            wait_until(lambda: held)
        work(own, number)

    together(database_url, 2, after_the_lock)

    assert row(connection, action_id)["priority"] == 0


# -- the functions of the package --------------------------------------------------------------------------------------


def test_the_functions_of_the_package_work_on_the_processs_own_project(project):
    before = runtime.use(project)
    try:
        scheduled = scheduled_actions.schedule_action("test:run", {"n": 1}, scheduled_at=timedelta(hours=1))
        many = scheduled_actions.schedule_actions([{"action_type": "test:run", "payload": {}}])
        updated = scheduled_actions.update_action(scheduled.id, priority=2)
        cancelled = scheduled_actions.cancel_action(scheduled.id)
        retried = scheduled_actions.retry_action(scheduled.id)
        found = scheduled_actions.get_action(scheduled.id)
        listed = scheduled_actions.list_actions(status="pending")
    finally:
        runtime.use(before)

    assert (updated.priority, cancelled.status, retried.status) == (2, "cancelled", "pending")
    assert found == retried
    assert {one.id for one in listed} == {scheduled.id, many[0].id}


def test_a_database_that_cannot_be_reached_is_said_to_be_so(a_project, admin, connection):
    project = a_project(run)
    admin.execute(f'alter database "{connection.info.dbname}" allow_connections false')

    with pytest.raises(DatabaseUnavailable):
        schedule(project)

    assert statuses(connection) == {}


@pytest.mark.parametrize("name", ["q", "action_type", "team_id", "lock_group"])
def test_a_filter_that_postgres_cannot_hold_is_refused_by_name(project, name):
    with pytest.raises(InvalidArgument, match=name):
        project.scheduler.list_actions(**{name: "nul\0"})


def test_who_changes_an_action_is_said_in_a_text_that_postgres_can_hold(project):
    scheduled = project.scheduler.schedule_action(NewAction(action_type="test:run", payload={}))

    with pytest.raises(InvalidArgument, match="by"):
        project.scheduler.cancel_action(scheduled.id, by="nul\0")

    assert project.scheduler.get_action(scheduled.id).status == "pending"
