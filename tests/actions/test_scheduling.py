"""`Scheduler`: schedule, read, change, cancel and retry actions; a rejected call changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row
from pydantic import BaseModel

from scheduled_actions import Exponential, NewAction, action
from scheduled_actions.core.errors import (
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
_PARENT, _OTHER = UUID("0197a000-0000-7000-8000-000000000001"), UUID("0197a000-0000-7000-8000-000000000002")


class Welcome(BaseModel):
    name: str
    day: date | None = None


@action("test:run")
def run(payload):
    """Accept any payload."""


@action("test:welcome", dedup_window=30)
def welcome(payload: Welcome): ...


@action("test:digest")
def digest(payload: list[Welcome]): ...


@pytest.fixture
def create_project(database_url):
    """Return a function that creates a project of handlers and settings on the test database."""
    with projects(database_url) as create:
        yield create


@pytest.fixture
def project(create_project):
    """Return a project with three handlers."""
    return create_project(run, welcome, digest)


def schedule(project, action_type="test:run", payload=None, *, connection=None, **arguments):
    new = NewAction(action_type=action_type, payload={} if payload is None else payload, **arguments)
    return project.scheduler.schedule_action(new, connection=connection)


# -- arguments ---------------------------------------------------------------------------------------------------------


def test_an_action_is_scheduled_with_its_arguments(project, connection):
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


def test_omitted_arguments_have_their_defaults(project):
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
        ("test:run", [1], InvalidArgument, "payload is of type list, not a JSON object"),
        ("test:run", {"n": float("nan")}, InvalidArgument, "payload.n"),
        ("test:run", {"text": "a\0b"}, InvalidArgument, "payload.text"),
        ("test:run", {"text": "\ud800"}, InvalidArgument, "payload.text"),
        ("test:run", {"n": 10**5000}, InvalidArgument, "payload.n"),
        ("test:run", {"text": "x" * 262_144}, TooLarge, "the limit is 262,144"),
        ("test:run", {"f": object()}, InvalidArgument, "payload.f"),
    ],
)
def test_an_invalid_payload_is_rejected_when_scheduled(  # noqa: PLR0917 - two fixtures and a row of the table
    project, connection, action_type, payload, error, message
):
    with pytest.raises(error) as refused:
        schedule(project, action_type, payload)

    assert message in str(refused.value)
    assert isinstance(refused.value, RequestError)
    assert statuses(connection) == {}


REJECTED = [
    (
        {"scheduled_at": datetime(2026, 3, 4)},  # noqa: DTZ001 - that is the point
        InvalidArgument,
        'is not a time with an offset: write it as datetime(2026, 12, 1, 9, tzinfo=ZoneInfo("Europe/Berlin"))',
    ),
    ({"scheduled_at": -SECOND}, InvalidArgument, "between zero and a hundred years"),
    ({"scheduled_at": timedelta(days=99999)}, InvalidArgument, "between zero and a hundred years"),
    ({"scheduled_at": "tomorrow"}, InvalidArgument, "'tomorrow' is not an ISO 8601 time or day"),
    ({"scheduled_at": 1772582400}, InvalidArgument, "1772582400 is not a datetime, a date, an ISO 8601 string such as"),
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
    ({"team_id": ""}, InvalidArgument, "a string of 1 to 255 characters"),
    ({"team_id": 7}, InvalidArgument, "team_id: 7 is not a string of 1 to 255 characters"),
    ({"lock_group": "x" * 256}, InvalidArgument, "a string of 1 to 255 characters"),
    ({"dedup_key": "x" * 513}, InvalidArgument, "a string of 1 to 512 characters"),
    ({"dedup_key": "a\0b"}, InvalidArgument, "dedup_key"),
    ({"dedup_window": -1}, InvalidArgument, "between 0 and a year"),
    ({"dedup_window": float("nan")}, InvalidArgument, "between 0 and a year"),
    ({"dedup_window": 10**400}, InvalidArgument, "between 0 and a year"),
    ({"dedup_mode": "last"}, InvalidArgument, "dedup_mode: 'last' is not"),
    ({"target": {"type": "invoice"}}, InvalidArgument, "an object such as"),
    ({"target": {"type": "invoice", "id": 42}}, InvalidArgument, "an object such as"),
    ({"user_id": 42}, InvalidArgument, "user_id: 42 is not a string"),
    ({"metadata": [1]}, InvalidArgument, "metadata"),
    ({"metadata": {"text": "x" * 70_000}}, TooLarge, "metadata is 70,011 bytes"),
    ({"dedup_mode": "append"}, InvalidArgument, "dedup_mode"),
    ({"condition": {}}, InvalidArgument, "condition has none of"),
    ({"after": "7"}, InvalidArgument, "the id of an action"),
    ({"on_success": 7}, InvalidArgument, "an action to schedule"),
    ({"on_failure": {"payload": {}}}, FollowUpInvalid, "on_failure.0: action_type"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), REJECTED)
def test_an_invalid_argument_is_rejected_with_the_expected_value(project, connection, arguments, error, message):
    with pytest.raises(error) as refused:
        schedule(project, **arguments)

    assert message in str(refused.value)
    assert statuses(connection) == {}


@pytest.mark.parametrize(
    ("element", "hint"),
    [
        ({"actionType": "test:run", "payload": {}}, "'actionType' is unknown; did you mean \"action_type\"?"),
        ({"action_type": "test:run", "payload": {}, "maxAttempts": 3}, 'did you mean "max_attempts"?'),
        ({"action_type": "test:run", "payload": {}, "queue": "mails"}, "'queue' is unknown; schedule_action takes "),
        (
            {"action_type": "test:run", "payload": {}, "on_success": {"actionType": "test:run"}},
            'did you mean "action_type"?',
        ),
    ],
)
def test_the_error_of_an_unknown_key_of_an_action_has_the_name_to_use(project, connection, element, hint):
    with pytest.raises(RequestError) as refused:
        project.scheduler.schedule_actions([element])

    assert hint in str(refused.value)
    assert statuses(connection) == {}


# -- instants ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("local", "instant"),
    [
        (datetime.fromisoformat("2026-07-01T09:00"), "2026-07-01T07:00+00:00"),
        # The clock jumps from 2 to 3: 02:30 does not exist and moves forward by the gap.
        (datetime.fromisoformat("2026-03-29T02:30"), "2026-03-29T01:30+00:00"),
        (datetime.fromisoformat("2026-03-29T03:30"), "2026-03-29T01:30+00:00"),
        # The clock goes back from 3 to 2: 02:30 occurs twice, and the first one is the default.
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


def test_a_timedelta_counts_from_the_database_clock(project, connection):
    move_clock(connection, timedelta(hours=1))

    scheduled = schedule(project, scheduled_at=timedelta(minutes=5))

    found = project.scheduler.get_action(scheduled.id)
    assert found.scheduled_at - found.created_at == timedelta(minutes=5)
    assert abs(found.created_at - database_now(connection)) < timedelta(minutes=1)


def test_instants_are_in_utc_with_any_time_zone_of_the_database(create_project, connection):
    name = connection.info.dbname
    connection.execute(f"alter database \"{name}\" set timezone = 'Asia/Tokyo'")
    project = create_project(run)

    found = project.scheduler.get_action(schedule(project).id)

    assert {found.scheduled_at.tzinfo, found.created_at.tzinfo, found.updated_at.tzinfo} == {UTC}


# -- deduplication -----------------------------------------------------------------------------------------------------


def test_the_dedup_window_of_the_call_precedes_those_of_the_handler_and_the_settings(create_project, connection):
    project = create_project(run, welcome, deduplication_window_seconds=10)
    for changes, seconds in (({"dedup_window": 50}, 50), ({"action_type": "test:welcome"}, 30), ({}, 10)):
        arguments = {"dedup_key": f"k{seconds}", "payload": {"name": "Zoë"}} | changes
        move_clock(connection, timedelta(0))
        schedule(project, **arguments)

        move_clock(connection, timedelta(seconds=seconds - 1))
        assert schedule(project, **arguments).deduplicated is True
        move_clock(connection, timedelta(seconds=seconds + 1))
        assert schedule(project, **arguments).deduplicated is False


def test_appended_payloads_are_passed_to_the_handler_as_a_list(create_project):
    received = []

    @action("test:digest")
    def handle(payload: list[Welcome]):
        received.append([item.name for item in payload])

    project = create_project(handle)
    for name in ("Ada", "Zoë"):
        schedule(project, "test:digest", {"name": name}, dedup_key="k", dedup_mode="append")

    project.processor.tick()

    assert received == [["Ada", "Zoë"]]


# -- schedule_actions --------------------------------------------------------------------------------------------------


def test_schedule_actions_keeps_the_order_of_the_elements(project):
    scheduled = project.scheduler.schedule_actions(
        [
            NewAction(action_type="test:run", payload={"n": 0}, scheduled_at=timedelta(hours=1)),
            {"action_type": "test:run", "payload": {"n": 1}, "scheduled_at": datetime(2027, 1, 1, tzinfo=UTC)},
            {"action_type": "test:welcome", "payload": Welcome(name="Zoë"), "team_id": "t", "metadata": {"m": 1}},
            {"action_type": "test:run", "payload": {"n": 3}, "dedup_key": "k"},
            {"action_type": "test:run", "payload": {"n": 4}, "dedup_key": "k"},
        ]
    )

    found = [project.scheduler.get_action(result.id) for result in scheduled]
    assert [stored.payload for stored in found] == [
        {"n": 0}, {"n": 1}, {"name": "Zoë", "day": None}, {"n": 4}, {"n": 4},
    ]  # fmt: skip
    assert [result.deduplicated for result in scheduled] == [False] * 4 + [True]
    assert found[0].scheduled_at - found[0].created_at == timedelta(hours=1)
    assert found[1].scheduled_at == datetime(2027, 1, 1, tzinfo=UTC)
    assert (found[2].team_id, found[2].metadata) == ("t", {"m": 1})


def test_scheduling_an_empty_list_returns_an_empty_list(project):
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
def test_an_invalid_action_is_named_by_position_and_nothing_is_scheduled(project, connection, broken, error):
    good = {"action_type": "test:run", "payload": {}}

    with pytest.raises(error) as refused:
        project.scheduler.schedule_actions([good, good, broken, good])

    assert refused.value.__notes__ == ["in new_actions[2]"]
    assert statuses(connection) == {}


# -- connections of callers --------------------------------------------------------------------------------------------


def test_an_action_in_a_rolled_back_transaction_of_the_caller_does_not_exist(project, connection, database_url):
    with psycopg.connect(database_url) as own:
        schedule(project, connection=own)
        project.scheduler.schedule_actions([{"action_type": "test:run", "payload": {}}], connection=own)
        own.rollback()

    assert statuses(connection) == {}


@pytest.mark.parametrize("row_factory", [dict_row, namedtuple_row])
@pytest.mark.parametrize("autocommit", [False, True])
def test_a_connection_of_the_caller_may_have_any_row_factory_and_autocommit(
    project, connection, database_url, row_factory, autocommit
):
    with psycopg.connect(database_url, row_factory=row_factory, autocommit=autocommit) as own:
        scheduled = schedule(project, dedup_key="k", connection=own)
        assert schedule(project, dedup_key="k", connection=own) == type(scheduled)(scheduled.id, deduplicated=True)
        project.scheduler.schedule_actions([{"action_type": "test:run", "payload": {}}], connection=own)
        project.scheduler.update_action(scheduled.id, priority=3, connection=own)
        project.scheduler.cancel_action(scheduled.id, connection=own)
        assert project.scheduler.retry_action(scheduled.id, connection=own).priority == 3
        assert own.row_factory is row_factory

    assert len(statuses(connection)) == 2


def test_a_rejected_first_call_leaves_the_connection_usable(project, connection, database_url):
    with psycopg.connect(database_url) as own:
        with pytest.raises(RequestError):
            schedule(project, connection=own, after=str(uuid4()))
        schedule(project, connection=own)
        assert statuses(connection) == {}

    assert len(statuses(connection)) == 1


def test_a_rejected_call_leaves_the_open_transaction_usable(project, connection, database_url):
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
def test_a_value_that_is_not_a_connection_is_rejected(project, connection_):
    with pytest.raises(InvalidArgument, match="use a psycopg 3 Connection"):
        schedule(project, connection=connection_)


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action_id", [UUID(int=7), str(UUID(int=7)), "no id", ""])
def test_an_invalid_id_is_rejected_like_an_unknown_id(project, action_id):
    for call in (project.scheduler.get_action, project.scheduler.cancel_action, project.scheduler.retry_action):
        with pytest.raises(UnknownAction, match="no action has the id"):
            call(action_id)
    with pytest.raises(UnknownAction):
        project.scheduler.update_action(action_id, priority=1)


def test_an_action_of_another_team_is_rejected_like_an_unknown_id(project, connection):
    scheduled = schedule(project, team_id="a", scheduled_at=timedelta(hours=1))
    before = row(connection, scheduled.id)

    for call in (
        project.scheduler.get_action,
        project.scheduler.cancel_action,
        project.scheduler.retry_action,
        lambda action_id, **team: project.scheduler.update_action(action_id, payload={"n": 1}, **team),
        lambda action_id, **team: project.scheduler.update_action(action_id, priority=1, **team),
    ):
        with pytest.raises(UnknownAction) as refused:
            call(scheduled.id, team_id="b")
        assert str(refused.value) == f"no action has the id {scheduled.id}"

    assert row(connection, scheduled.id) == before
    assert project.scheduler.get_action(scheduled.id, team_id="a").id == scheduled.id


def test_actions_are_listed_newest_first_page_by_page(project):
    inserted = [schedule(project).id for _ in range(7)]

    first = project.scheduler.list_actions(limit=3)
    second = project.scheduler.list_actions(limit=3, cursor=first[-1].id)
    third = project.scheduler.list_actions(limit=3, cursor=str(second[-1].id))

    assert [listed.id for page in (first, second, third) for listed in page] == inserted[::-1]


def test_a_page_has_the_cursor_of_the_next_page(project):
    inserted = [schedule(project).id for _ in range(3)]

    first = project.scheduler.list_actions(limit=2)
    second = project.scheduler.list_actions(limit=2, cursor=first.next_cursor)

    assert [listed.id for page in (first, second) for listed in page] == inserted[::-1]
    assert (first.next_cursor, second.next_cursor) == (inserted[1], None)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, "abcdef"),
        ({"status": "completed"}, "b"),
        ({"action_type": "test:welcome"}, "c"),
        ({"team_id": "t"}, "bc"),
        ({"lock_group": "g"}, "d"),
        ({"due_from": datetime(2026, 1, 2, tzinfo=UTC)}, "bcdef"),
        ({"due_to": datetime(2026, 1, 3, tzinfo=UTC)}, "ab"),
        ({"team_id": "t", "status": "pending"}, "c"),
        ({"user_id": "ann"}, "de"),
        ({"target": {"type": "invoice", "id": "7"}}, "e"),
        ({"target": {"type": "order", "id": "7"}}, ""),
        ({"schedule_id": _PARENT}, "f"),
        ({"deadline_id": _PARENT}, "f"),
        ({"scheduled_by": str(_PARENT)}, "f"),
        ({"user_id": "ann", "target": {"type": "invoice", "id": "7"}, "lock_group": "g"}, ""),
        ({"schedule_id": _PARENT, "scheduled_by": _OTHER}, ""),
        ({"schedule_id": _PARENT, "status": "pending", "team_id": "t"}, ""),
        ({"completed_to": datetime(2026, 1, 9, tzinfo=UTC)}, "b"),
        ({"completed_to": datetime(2026, 1, 8, tzinfo=UTC)}, ""),
        ({"q": "welc"}, "c"),
        ({"q": "key-d"}, "d"),
        ({"q": "%"}, ""),
        ({"q": "nothing"}, ""),
    ],
)
def test_a_list_contains_the_actions_that_match_every_filter(project, connection, filters, found):
    columns = {
        "a": {},
        "b": {"status": "completed", "team_id": "t", "completed_at": datetime(2026, 1, 8, tzinfo=UTC)},
        "c": {"action_type": "test:welcome", "team_id": "t"},
        "d": {"lock_group": "g", "dedup_key": "key-d", "user_id": "ann"},
        "e": {"user_id": "ann", "target_type": "invoice", "target_id": "7"},
        "f": {"schedule_id": _PARENT, "deadline_id": _PARENT, "scheduled_by": _PARENT},
    }
    inserted = {
        insert(connection, scheduled_at=datetime(2026, 1, day, tzinfo=UTC), **columns[name]): name
        for day, name in enumerate(columns, start=1)
    }

    listed = project.scheduler.list_actions(**filters)

    assert "".join(sorted(inserted[action.id] for action in listed)) == found


def test_an_action_is_found_by_a_prefix_of_its_id(project):
    scheduled = schedule(project)

    assert [listed.id for listed in project.scheduler.list_actions(q=str(scheduled.id)[:20])] == [scheduled.id]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"limit": 0}, "between 1 and 100"),
        ({"limit": 101}, "between 1 and 100"),
        ({"status": "done"}, "one of pending, processing, completed"),
        ({"due_from": datetime(2026, 1, 1)}, "a time with an offset"),  # noqa: DTZ001 - that is the point
        ({"target": {"type": "invoice"}}, "target: .* is not an object such as"),
        ({"target": "invoice 7"}, "target: 'invoice 7' is not an object such as"),
        ({"schedule_id": "nightly"}, "schedule_id: 'nightly' is not a UUID"),
        ({"deadline_id": "x"}, "deadline_id: 'x' is not a UUID"),
        ({"scheduled_by": 7}, "scheduled_by: 7 is not a UUID"),
    ],
)
def test_an_invalid_filter_is_rejected(project, filters, message):
    with pytest.raises(InvalidArgument, match=message):
        project.scheduler.list_actions(**filters)


def test_an_unreadable_row_does_not_hide_the_others(project, connection):
    inserted = [
        insert(connection, scheduled_at="-infinity"),
        insert(connection, payload='{"n": ' + "9" * 5001 + "}"),
        insert(connection, payload='{"n": ' + "[" * 7000 + "]" * 7000 + "}"),
        insert(connection, completed_at="infinity", status="completed"),
        schedule(project, payload={"n": 1}).id,
    ]

    listed = project.scheduler.list_actions()

    assert [action.id for action in listed] == inserted[::-1]
    assert listed[0].payload == {"n": 1}
    assert [project.scheduler.get_action(action_id).id for action_id in inserted] == inserted


# -- changing ----------------------------------------------------------------------------------------------------------


def test_only_given_values_are_changed_and_the_history_lists_them(project, connection):
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
def test_an_invalid_change_changes_nothing(project, connection, changes, error):
    scheduled = schedule(project, "test:welcome", {"name": "Zoë"})
    before = row(connection, scheduled.id)

    with pytest.raises(error):
        project.scheduler.update_action(scheduled.id, **({"priority": 3} | changes))

    assert row(connection, scheduled.id) == before


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "skipped", "no_action", "processing"])
def test_only_pending_actions_can_be_changed(project, connection, status):
    fence = {"claim_token": uuid4(), "lease_expires_at": database_now(connection)} if status == "processing" else {}
    action_id = insert(connection, status=status, **fence)
    before = row(connection, action_id)

    with pytest.raises(WrongStatus, match=f"is {status}, not pending"):
        project.scheduler.update_action(action_id, priority=1)

    assert row(connection, action_id) == before


@pytest.mark.parametrize(("seconds", "is_locked"), [(119, True), (121, False)])
def test_an_action_that_is_due_soon_is_locked_for_api_callers(project, seconds, is_locked):
    for change in (
        lambda action_id, **lock: project.scheduler.update_action(action_id, priority=1, **lock),
        project.scheduler.cancel_action,
    ):
        action_id = schedule(project, scheduled_at=timedelta(seconds=seconds)).id

        if is_locked:
            with pytest.raises(ActionLocked, match=r"cannot be changed later than 120 seconds \(edit_lock_seconds\)"):
                change(action_id, edit_lock_seconds=120)
        change(action_id, edit_lock_seconds=None if is_locked else 120)


@pytest.mark.parametrize("status", ["pending", "no_action"])
def test_a_pending_action_can_be_cancelled_from_code(project, connection, status):
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
def test_a_finished_action_cannot_be_cancelled(project, connection, status):
    action_id = insert(connection, status=status)

    with pytest.raises(WrongStatus, match=f"is {status}, .*: it has already ended"):
        project.scheduler.cancel_action(action_id)


def test_a_running_action_is_not_cancelled_without_also_running(project, connection):
    action_id = insert(connection, status="processing", claim_token=uuid4(), lease_expires_at=database_now(connection))

    with pytest.raises(WrongStatus, match="is processing"):
        project.scheduler.cancel_action(action_id, also_running=False)

    assert row(connection, action_id)["cancel_requested_at"] is None


@pytest.mark.parametrize("status", ["failed", "cancelled", "skipped"])
def test_a_failed_cancelled_or_skipped_action_can_be_retried(project, connection, status):
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
def test_an_action_with_another_status_cannot_be_retried(project, connection, status):
    action_id = insert(connection, status=status)

    with pytest.raises(WrongStatus, match=f"is {status}, not failed, cancelled or skipped"):
        project.scheduler.retry_action(action_id)


def test_a_change_during_a_claim_waits_and_is_rejected(project, connection, database_url):
    """The change waits for the row lock of the claim and then reads the new status."""
    action_id = schedule(project).id

    def work(own, number):
        if number == 0:
            with pytest.raises(WrongStatus, match="is processing"):
                # On a connection without a lock timeout.
                project.scheduler.update_action(action_id, priority=1, connection=own)
            return
        with own.transaction():
            own.execute(
                "update scheduled_actions set status = 'processing', claim_token = gen_random_uuid(),"
                " lease_expires_at = now() + interval '1 minute'"
            )
            locked.append(True)
            wait_until(lambda: is_waiting(connection))

    locked = []

    def after_the_lock(own, number):
        if number == 0:
            wait_until(lambda: locked)
        work(own, number)

    together(database_url, 2, after_the_lock)

    assert row(connection, action_id)["priority"] == 0


# -- database errors ---------------------------------------------------------------------------------------------------


def test_an_unreachable_database_raises_database_unavailable(create_project, admin, connection):
    project = create_project(run)
    admin.execute(f'alter database "{connection.info.dbname}" allow_connections false')

    with pytest.raises(DatabaseUnavailable):
        schedule(project)

    assert statuses(connection) == {}


@pytest.mark.parametrize("name", ["q", "action_type", "team_id", "lock_group", "user_id"])
def test_a_filter_with_a_nul_character_is_rejected_by_name(project, name):
    with pytest.raises(InvalidArgument, match=name):
        project.scheduler.list_actions(**{name: "nul\0"})


def test_a_caller_name_with_a_nul_character_is_rejected(project):
    scheduled = project.scheduler.schedule_action(NewAction(action_type="test:run", payload={}))

    with pytest.raises(InvalidArgument, match="by"):
        project.scheduler.cancel_action(scheduled.id, by="nul\0")

    assert project.scheduler.get_action(scheduled.id).status == "pending"
