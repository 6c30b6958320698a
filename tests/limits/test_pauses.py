"""Pauses: no tick claims what is paused, parked actions return in order, and nothing is lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from scheduled_actions import action
from scheduled_actions.actions import claims
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core import config
from scheduled_actions.core.errors import DatabaseBusy, InvalidArgument, RowLocked, UnknownActionType, UnknownPause
from scheduled_actions.limits import parking
from scheduled_actions.limits.pauses import Subject
from tests.factories import (
    PATIENCE,
    a_tick,
    database_now,
    holds,
    insert,
    insert_many,
    move_clock,
    projects,
    row,
    statuses,
    together,
    wait_until,
)

HOUR = timedelta(hours=1)
EMAILS = Subject("action_type", "email:send", None)


def a_handler(action_type, ran):
    @action(action_type)
    def handle(payload):
        ran.append((action_type, payload.get("n")))

    return handle


@pytest.fixture
def ran():
    """Return the type and the number of each action that ran, in order."""
    return []


@pytest.fixture
def project(database_url, ran):
    """Return a project with handlers for two types, and with limits."""
    limits = config.settings_of({"limits": {"api:*": {"at_once": 100}}}).limits
    with projects(database_url) as make:
        made = make(a_handler("email:send", ran), a_handler("test:run", ran), concurrency=1)
        made.config = replace(made.config, settings=replace(made.config.settings, limits=limits))
        yield made


@pytest.fixture
def pauses(project):
    return project.pauses


def pause(connection, kind, name, **arguments):
    named = "".join(f", {argument} => %({argument})s" for argument in arguments)
    statement = f"select scheduled_actions_pause(%(kind)s, %(name)s{named})"
    return connection.execute(statement, {"kind": kind, "name": name, **arguments}).fetchone()[0]


def resume(connection, kind, name, team_id=None):
    return connection.execute("select scheduled_actions_resume(%s, %s, %s)", [kind, name, team_id]).fetchone()[0]


def parked(connection):
    """Return what parks each pending action, by id."""
    return dict(connection.execute("select id, parked_by from scheduled_actions where status = 'pending'").fetchall())


def pause_count(connection):
    return connection.execute("select count(*) from scheduled_action_pauses").fetchone()[0]


def park(connection):
    return sum(parking.park_all(lambda step: step(connection)))


def completed(connection):
    return {action_id for action_id, status in statuses(connection).items() if status == "completed"}


# -- what is paused ----------------------------------------------------------------------------------------------------

SUBJECTS = [
    ({"action_type": "email:send"}, "email"),
    ({"action_type": "email:send", "team_id": "red"}, "email of red"),
    ({"team_id": "red"}, "of red"),
    ({"lock_group": "g"}, "in g"),
    ({"lock_group": "g", "team_id": "red"}, "in g of red"),
    ({"limit": "api:acme"}, "limited"),
    ({"limit": "api:acme", "team_id": "red"}, "limited of red"),
]


def held_back(subject, columns):
    """Return whether the pause of a subject holds back an action with these columns."""
    names = {"action_type": "action_type", "team_id": "team_id", "lock_group": "lock_group"}
    return all(columns.get(names[key]) == value for key, value in subject.items() if key in names) and (
        "limit" not in subject or subject["limit"] in (columns.get("limit_keys") or ())
    )


@pytest.mark.parametrize("subject", [subject for subject, _ in SUBJECTS], ids=[name for _, name in SUBJECTS])
@pytest.mark.parametrize("is_parked", [False, True])
def test_a_tick_runs_everything_but_what_is_paused(project, connection, subject, is_parked):
    actions = {}
    for action_type in ("email:send", "test:run"):
        for team in (None, "red", "blue"):
            for group in (None, "g", "h"):
                for keys in (None, ["api:acme"], ["api:other", "api:acme"]):
                    # A paused member holds its group back, so each action has a group of its own team and type.
                    columns = {"action_type": action_type, "team_id": team, "limit_keys": keys}
                    if group is not None:
                        is_first = group == "g" and keys is None and action_type == "email:send"
                        columns["lock_group"] = group if is_first else f"{group}-{uuid4()}"
                    actions[insert(connection, **columns)] = columns
    kind = Subject.of(**subject)
    if is_parked:
        project.pauses.pause(kind)
    else:
        pause(connection, kind.kind, kind.name, team_id=kind.team_id)

    project.processor.tick()

    expected = {action_id for action_id, columns in actions.items() if not held_back(subject, columns)}
    assert completed(connection) == expected
    project.pauses.resume(kind)
    project.processor.tick()
    assert completed(connection) == actions.keys()
    assert pause_count(connection) == 0


def test_claims_honour_a_pause_before_anything_is_parked(connection):
    [free, grouped] = [insert(connection), insert(connection, lock_group="g")]
    pause(connection, "action_type", "test:run")

    for claim in (claims.claim_free, claims.claim_grouped):
        with connection.transaction():
            assert claim(connection, a_tick(connection), wanted=10, after=claims.START, excluded=())[0] == []
    assert parked(connection) == {free: None, grouped: None}


def test_a_claim_takes_no_paused_member_for_another_one_of_its_group(connection):
    insert(connection, action_type="email:send", lock_group="g")
    insert(connection, action_type="test:run", lock_group="g")
    other = insert(connection, action_type="test:run", lock_group="h")
    pause(connection, "action_type", "email:send")

    with connection.transaction():
        claimed, _ = claims.claim_grouped(connection, a_tick(connection), wanted=10, after=claims.START, excluded=())
    assert [one.id for one in claimed] == [other]
    assert holds(connection) == {"h": other}


def test_a_paused_member_holds_its_lock_group_back(project, connection, ran):
    first = insert(connection, action_type="email:send", lock_group="g")
    second = insert(connection, action_type="test:run", lock_group="g")
    other = insert(connection, action_type="test:run", lock_group="h")
    pause(connection, "action_type", "email:send")

    project.processor.tick()
    assert completed(connection) == {other}

    project.pauses.resume(EMAILS)
    project.processor.tick()
    assert completed(connection) == {first, second, other}
    assert ran[-2:] == [("email:send", None), ("test:run", None)]


def test_a_paused_lock_group_lets_its_running_member_finish(connection):
    running, waiting = insert(connection, lock_group="g"), insert(connection, lock_group="g")
    tick = a_tick(connection)
    with connection.transaction():
        [claimed], _ = claims.claim_grouped(connection, tick, wanted=10, after=claims.START, excluded=())
    pause(connection, "lock_group", "g")
    park(connection)

    assert claimed.id == running
    assert row(connection, running)["status"] == "processing"
    assert parked(connection) == {waiting: str(one_pause(connection))}


def one_pause(connection):
    return connection.execute("select id from scheduled_action_pauses").fetchone()[0]


# -- parking and returning ---------------------------------------------------------------------------------------------


def test_parked_actions_return_by_priority_and_time_and_run_in_order(project, connection, ran):
    start = database_now(connection) - HOUR
    with connection.transaction():
        for n in range(2500):
            insert(
                connection,
                action_type="email:send",
                payload={"n": n},
                priority=n % 3,
                scheduled_at=start + timedelta(seconds=(n * 7919) % 2500),
            )
    pause_id = project.pauses.pause(EMAILS).id
    assert set(parked(connection).values()) == {str(pause_id)}

    connection.execute("select scheduled_actions_resume('action_type', 'email:send')")
    project.processor.tick()

    order = connection.execute(
        "select (payload ->> 'n')::int from scheduled_actions order by priority, scheduled_at, id"
    )
    assert [n for _, n in ran] == [n for (n,) in order]
    assert len(ran) == 2500
    assert pause_count(connection) == 0


def test_each_statement_returns_the_first_of_the_parked_actions(connection):
    start = database_now(connection) - HOUR
    for n in range(60):
        columns = {"priority": n % 3, "scheduled_at": start + timedelta(seconds=(n * 37) % 60)}
        insert(connection, action_type="email:send" if n % 2 else "test:run", **columns)
    for action_type in ("email:send", "test:run"):
        pause(connection, "action_type", action_type)
    assert park(connection) == 60
    for action_type in ("email:send", "test:run"):
        resume(connection, "action_type", action_type)
    in_order = [
        one for (one,) in connection.execute("select id from scheduled_actions order by priority, scheduled_at, id")
    ]

    for count in (25, 50):
        assert parking.unpark(connection, most=25) is True
        returned = {action_id for action_id, parked_by in parked(connection).items() if parked_by is None}
        assert returned == set(in_order[:count])
    assert parking.unpark(connection, most=25) is False


@pytest.mark.parametrize("window", [3, 11])
def test_more_actions_than_one_statement_parks_are_parked_behind_others(connection, monkeypatch, window):
    monkeypatch.setattr(parking, "MAX_PARKED", 7)
    monkeypatch.setattr(parking, "_WINDOW", window)
    monkeypatch.setattr(parking, "_PER_QUEUE", 30)
    monkeypatch.setattr(parking, "MAX_QUEUES", 2)
    paused, others = [], []
    start = database_now(connection) - HOUR
    for n in range(120):
        columns = {
            "scheduled_at": start + timedelta(seconds=(n * 37) % 50),
            "priority": n % 4 - 1,
            "lock_group": f"g{n}" if n % 3 == 1 else None,
            **({"limit_keys": [f"api:{n % 5}"], "parked_by": "limit"} if n % 3 == 2 else {}),
        }
        paused.append(insert(connection, action_type="email:send", **columns))
        others.append(insert(connection, action_type="test:run", **columns))
    pause_id = pause(connection, "action_type", "email:send")

    assert park(connection) == 120

    found = parked(connection)
    assert {found[one] for one in paused} == {str(pause_id)}
    assert {found[one] for one in others} == {None, "limit"}
    assert park(connection) == 0


def test_actions_that_a_second_pause_holds_back_are_parked_again(project, connection):
    mine = insert(connection, action_type="email:send", team_id="red")
    other = insert(connection, action_type="email:send", team_id="blue")
    project.pauses.pause(EMAILS)
    by_team = project.pauses.pause(Subject("team", "red", None))
    assert by_team.parked == 0

    project.pauses.resume(EMAILS)
    project.processor.tick()

    assert completed(connection) == {other}
    project.processor.tick()
    assert parked(connection) == {mine: str(by_team.id)}
    project.pauses.resume(Subject("team", "red", None))
    project.processor.tick()
    assert completed(connection) == {mine, other}


def test_a_limited_action_returns_to_the_queue_of_its_key(project, connection):
    limited = insert(connection, action_type="email:send", limit_keys=["api:acme"], parked_by="limit")
    pause_id = project.pauses.pause(EMAILS).id
    assert parked(connection) == {limited: str(pause_id)}

    project.pauses.resume(EMAILS)
    assert parked(connection) == {limited: "limit"}


def test_paused_actions_at_the_front_of_a_queue_do_not_hold_up_those_behind_them(project, connection):
    insert_many(connection, 600, action_type="email:send", limit_keys=["api:acme"], parked_by="limit")
    behind = insert(connection, action_type="test:run", limit_keys=["api:acme"], parked_by="limit")
    pause(connection, "action_type", "email:send")

    project.processor.tick()
    assert completed(connection) == {behind}


def test_a_pause_ends_at_its_instant(project, connection):
    one = insert(connection, action_type="email:send")
    project.pauses.pause(EMAILS, until=HOUR)
    project.processor.tick()
    assert completed(connection) == set()

    move_clock(connection, 2 * HOUR)
    project.processor.tick()
    assert completed(connection) == {one}
    assert project.pauses.find() == []


def test_a_pause_of_the_same_subject_keeps_its_id_also_while_its_actions_return(project, connection):
    insert_many(connection, 5, action_type="email:send")
    first = project.pauses.pause(EMAILS, note="down", by="ann", until=HOUR)
    resume(connection, "action_type", "email:send")
    assert parking.unpark(connection, most=2) is True

    again = project.pauses.pause(EMAILS)

    assert (again.id, again.note, again.paused_by, again.ends_at) == (first.id, None, None, None)
    assert set(parked(connection).values()) == {str(first.id)}
    assert parking.unpark(connection) is False
    assert again.parked == 5


def test_the_remaining_work_of_a_tick_does_not_include_what_is_paused(project, connection):
    insert(connection, action_type="email:send")
    project.pauses.pause(EMAILS)
    assert project.processor.tick().remaining == 0


def test_an_action_that_becomes_due_while_paused_is_parked_by_the_next_tick(project, connection):
    pause_id = project.pauses.pause(EMAILS).id
    one = project.scheduler.schedule_action(NewAction(action_type="email:send", payload={}, scheduled_at=HOUR)).id
    project.processor.tick()
    assert parked(connection) == {one: None}

    move_clock(connection, 2 * HOUR)
    project.processor.tick()
    assert parked(connection) == {one: str(pause_id)}


# -- the SQL functions -------------------------------------------------------------------------------------------------


def test_pausing_twice_by_sql_updates_one_row_and_resuming_twice_returns_false(connection):
    ends_at = database_now(connection) + HOUR
    first = pause(connection, "team", "red", note="n", paused_by="ann", ends_at=ends_at)
    assert pause(connection, "team", "red") == first
    assert pause(connection, "action_type", "a:b", team_id="red") != pause(connection, "action_type", "a:b")
    assert pause_count(connection) == 3

    assert resume(connection, "team", "red") is True
    assert resume(connection, "team", "red") is False
    assert resume(connection, "action_type", "a:b", "blue") is False


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"kind": "type", "name": "a"}, "kind: 'type' is not action_type, team, lock_group or limit"),
        ({"kind": None, "name": "a"}, "kind"),
        ({"kind": "action_type", "name": "no spaces"}, "name: 'no spaces' is not an action type"),
        ({"kind": "team", "name": ""}, "name: a team must have 1 to 255 characters"),
        ({"kind": "lock_group", "name": None}, "name: a lock group must have 1 to 255 characters"),
        ({"kind": "limit", "name": "api:*"}, "name: 'api:*' is a pattern; pause each of its limit keys"),
        ({"kind": "limit", "name": "a\tb"}, "control characters"),
        ({"kind": "team", "name": "a", "team_id": "a"}, "team_id: must be null for the kind team"),
        ({"kind": "lock_group", "name": "a", "team_id": ""}, "team_id: must have 1 to 255 characters"),
        ({"kind": "team", "name": "a", "note": "n" * 1001}, "note: must have at most 1000 characters"),
        ({"kind": "team", "name": "a", "paused_by": "n" * 256}, "paused_by: must have at most 255 characters"),
        ({"kind": "team", "name": "a", "ends_at": "infinity"}, "ends_at: must be a finite instant, not infinity"),
        ({"kind": "team", "name": "a", "ends_at": "2020-01-01"}, "is not in the future"),
    ],
)
def test_invalid_arguments_are_refused_by_sql(connection, arguments, named):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=named.replace("*", r"\*")):
        pause(connection, **arguments)
    assert pause_count(connection) == 0


# -- the service -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "action_type is missing: give an action_type, a team_id, a lock_group or a limit"),
        ({"action_type": "a:b", "lock_group": "g"}, "lock_group cannot be given together with action_type"),
        ({"action_type": ""}, "action_type"),
        ({"team_id": "x" * 256}, "team_id"),
        ({"limit": 5}, "limit"),
    ],
)
def test_exactly_one_subject_is_paused(arguments, named):
    with pytest.raises(InvalidArgument, match=named):
        Subject.of(**arguments)


def test_unknown_names_are_refused_with_a_hint(pauses):
    with pytest.raises(UnknownActionType, match='did you mean "email:send"'):
        pauses.pause(Subject("action_type", "emial:send", None))
    with pytest.raises(InvalidArgument, match="matches no pattern"):
        pauses.pause(Subject("limit", "apis:acme", None))


def test_resuming_what_is_not_paused_names_the_active_pauses(pauses):
    pauses.pause(Subject("team", "red", None))
    pauses.pause(Subject("action_type", "test:run", "blue"))
    with pytest.raises(UnknownPause) as raised:
        pauses.resume(EMAILS)
    assert str(raised.value) == (
        'no active pause of the action type "email:send"; paused are the team "red", '
        'the action type "test:run" of team "blue"'
    )


@pytest.mark.parametrize("until", ["tomorrow", "2020-01-01T00:00:00Z", timedelta(seconds=-1), timedelta(0), 5])
def test_a_pause_needs_a_future_end(pauses, until):
    with pytest.raises(Exception, match=r"until|ends_at") as raised:
        pauses.pause(EMAILS, until=until)
    assert raised.value.__class__.__module__.startswith("scheduled_actions")


def test_a_pause_in_a_transactional_handler_commits_with_its_outcome(database_url, connection):
    paused = []

    @action("test:run", transactional=True)
    def handle(payload, context):
        paused.append(project.pauses.pause(Subject("team", "red", None)))
        if payload["fails"]:
            raise RuntimeError

    with projects(database_url) as make:
        project = make(handle)
        for fails in (True, False):
            insert(connection, payload={"fails": fails})
            project.processor.tick()
            assert pause_count(connection) == (0 if fails else 1)
    assert len(paused) == 2


def test_a_pause_that_another_session_is_changing_is_refused_after_a_while(database_url, pauses):
    with psycopg.connect(database_url) as other:
        pause(other, "team", "red")
        with pytest.raises((RowLocked, DatabaseBusy)):
            pauses.pause(Subject("team", "red", None))


# -- concurrency -------------------------------------------------------------------------------------------------------


def test_nothing_is_lost_or_run_while_paused_when_ticks_pause_and_resume_at_the_same_time(
    database_url, connection, monkeypatch
):
    monkeypatch.setattr(parking, "MAX_PARKED", 20)
    monkeypatch.setattr(parking, "MAX_RETURNED", 20)
    insert_many(connection, 300, action_type="email:send")
    insert_many(connection, 100, action_type="email:send", limit_keys=["api:acme"], parked_by="limit")
    stop = threading.Event()

    def work(own, number):
        if number == 0:
            for _ in range(25):
                pause(own, "action_type", "email:send")
                park(own)
                resume(own, "action_type", "email:send")
                parking.unpark(own)
            stop.set()
            return []
        claimed = []
        while not stop.is_set():
            if number == 1:
                park(own)
            elif number == 2:
                parking.unpark(own)
            else:
                found, _ = claims.claim_free(own, a_tick(own), wanted=2, after=claims.START, excluded=())
                claimed += [one.id for one in found]
        return claimed

    claimed = [action_id for ids in together(database_url, 4, work) for action_id in ids]

    assert len(claimed) == len(set(claimed))
    while parking.unpark(connection):
        pass
    assert pause_count(connection) == 0
    assert set(parked(connection).values()) <= {None, "limit"}
    assert len(statuses(connection)) == 400


def test_ticks_of_two_processes_run_each_action_once_and_none_while_it_is_paused(database_url, connection, ran):
    handlers = (a_handler("email:send", ran), a_handler("test:run", ran))
    for n in range(400):
        lock_group = f"g{n % 7}" if n % 4 == 0 else None
        insert(connection, action_type="email:send", payload={"n": n}, lock_group=lock_group)
    stop = threading.Event()

    def tick_on(project):
        while not stop.is_set():
            project.processor.tick()

    def are_running():
        return connection.execute(
            "select exists (select from scheduled_actions where status = 'processing')"
        ).fetchone()[0]

    with projects(database_url) as make, ThreadPoolExecutor(2) as pool:
        made = [make(*handlers, batch_size=5) for _ in range(2)]
        ticking = [pool.submit(tick_on, project) for project in made]
        try:
            for count in range(1, 5):
                wait_until(lambda count=count: len(ran) >= 20 * count)
                made[0].pauses.pause(EMAILS)
                # Those claimed before.
                wait_until(lambda: not are_running())
                before = len(ran)
                for n in range(25):
                    insert(connection, action_type="email:send", payload={"n": 400 + 25 * (count - 1) + n})
                other = insert(connection, action_type="test:run", payload={"n": -count})
                wait_until(lambda other=other: row(connection, other)["status"] == "completed")
                assert len(ran) == before + 1
                made[1].pauses.resume(EMAILS)
            wait_until(lambda: set(statuses(connection).values()) == {"completed"})
        finally:
            stop.set()
        assert [one.result(PATIENCE) for one in ticking] == [None, None]

    assert sorted(n for action_type, n in ran if action_type == "email:send") == list(range(500))
    while parking.unpark(connection):
        pass
    assert pause_count(connection) == 0


def test_a_lingering_tick_runs_the_actions_of_a_pause_that_ends(database_url, connection, ran):
    one = insert(connection, action_type="email:send")
    settings = {"linger_seconds": 20, "max_duration_seconds": 60, "default_timeout_seconds": 5}
    with projects(database_url) as make, ThreadPoolExecutor(1) as pool:
        project = make(a_handler("email:send", ran), **settings)
        project.pauses.pause(EMAILS)
        tick = pool.submit(project.processor.tick)
        wait_until(
            lambda: connection.execute(
                "select exists (select from scheduled_action_settings where name = 'linger_lease')"
            ).fetchone()[0]
        )

        resume(connection, "action_type", "email:send")

        wait_until(lambda: row(connection, one)["status"] == "completed")
        project.processor.tick(lingers=False)
        project.processor.state.is_stopping.set()
        tick.result(PATIENCE)


def test_a_pause_is_not_deleted_while_another_transaction_parks_by_it(database_url, connection):
    pause_id = pause(connection, "action_type", "test:run")
    one = insert(connection)
    with psycopg.connect(database_url) as other:
        assert parking.park(other, parking.Position(claims.START), most=5).parked == 1
        resume(connection, "action_type", "test:run")
        assert parking.unpark(connection) is False
        assert pause_count(connection) == 1
        other.commit()

    assert parked(connection) == {one: str(pause_id)}
    parking.unpark(connection)
    assert (parked(connection), pause_count(connection)) == ({one: None}, 0)
