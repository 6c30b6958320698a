"""Ticks pass over the types of executors, and keep their actions in queues, which return when the types change."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner

import scheduled_actions
from scheduled_actions import action
from scheduled_actions.actions import claims, settling, waits
from scheduled_actions.actions.model import NewAction
from scheduled_actions.actions.search import ActionFilters
from scheduled_actions.cli import main
from scheduled_actions.core import config
from scheduled_actions.core.action import Status
from scheduled_actions.executors.claims import ExecutorQueue
from scheduled_actions.executors.store import write_executors
from scheduled_actions.limits import parking
from scheduled_actions.limits.pauses import Subject
from scheduled_actions.schedules import store as schedule_store
from tests.factories import (
    PATIENCE,
    a_claimed,
    a_tick,
    an_outcome,
    database_now,
    insert,
    insert_many,
    move_clock,
    projects,
    row,
    statuses,
)
from tests.statements import statement

PACKAGE = Path(scheduled_actions.__file__).parent

MEDIA = {"media": {"types": ["video:*"]}}


def executors(connection, table, *, replace=True):
    return write_executors(connection, config.settings_of({"executors": table}).executors, replace=replace)


def stored(connection):
    """Return the types of each executor, and whether its queue returns."""
    found = connection.execute("select name, types, is_returning from scheduled_action_executors")
    return {name: (types, is_returning) for name, types, is_returning in found}


def parked(connection):
    return dict(connection.execute("select id, parked_by from scheduled_actions where status = 'pending'").fetchall())


def park(connection):
    return sum(parking.park_all(lambda step: step(connection)))


def handler(action_type, ran):
    @action(action_type)
    def handle(payload: dict):
        ran.append(action_type)

    return handle


@pytest.fixture
def ran():
    """Return the type of each action that ran, in order."""
    return []


@pytest.fixture
def a_project(database_url, ran):
    """Return a function that creates a project with a table of executors, and with handlers for two types."""
    with projects(database_url) as make:

        def project(table=None, **settings):
            made = make(handler("video:render", ran), handler("test:run", ran))
            changed = config.settings_of({"executors": table or {}, "concurrency": 2} | settings)
            made.config = replace(made.config, settings=changed)
            return made

        yield project


# -- what ticks run ----------------------------------------------------------------------------------------------------


def test_a_tick_runs_no_type_of_an_executor_whatever_its_lock_group_team_limit_or_condition(connection, a_project, ran):
    project = a_project(MEDIA, limits={"api": {"at_once": 5}})
    columns = [
        {}, {"lock_group": "g"}, {"team_id": "red"}, {"limit_keys": ["api"]}, {"priority": -5},
        {"limit_keys": ["api"], "parked_by": "limit"}, {"lock_group": "g", "limit_keys": ["api"]},
    ]  # fmt: skip
    passed_over = [insert(connection, action_type="video:render", **one) for one in columns]
    local = insert_many(connection, 3)

    report = project.processor.tick()

    assert ran == ["test:run"] * 3
    assert (report.processed, report.remaining, report.more) == (3, 0, False)
    found = parked(connection)
    assert [found[one] for one in passed_over] == ["queue:media"] * 3 + ["limit", "queue:media", "limit", "limit"]
    assert {status for one, status in statuses(connection).items() if one in local} == {"completed"}


def test_a_process_without_the_section_runs_no_type_of_an_executor(connection, a_project, ran):
    executors(connection, MEDIA)
    video = insert(connection, action_type="video:render")
    older = a_project()

    assert older.processor.tick().processed == 0

    assert (ran, parked(connection)) == ([], {video: "queue:media"})
    assert stored(connection) == {"media": (["video:*"], False)}


def test_claims_pass_over_actions_that_are_not_parked_yet(connection):
    insert_many(connection, 5, action_type="video:render")
    insert_many(connection, 5, action_type="video:render", lock_group="g")
    executors(connection, MEDIA)
    tick, scan = a_tick(connection), {"after": claims.START, "excluded": (), "wanted": 100}

    with connection.transaction():
        assert claims.claim_free(connection, tick, **scan)[0] == []
        assert claims.claim_free_of_others(connection, tick, left_out=["x"], **scan)[0] == []
    with connection.transaction():
        assert claims.claim_grouped(connection, tick, **scan)[0] == []
    assert connection.execute("select count(*) from scheduled_action_holds").fetchone() == (0,)


def test_a_tick_is_idle_while_actions_wait_in_queues_of_executors(connection, a_project):
    project = a_project(MEDIA)
    insert_many(connection, 3, action_type="video:render")
    project.processor.tick()

    project.processor.tick()

    found = connection.execute("select finished_at - started_at from scheduled_action_ticks order by started_at")
    assert found.fetchall()[-1] == (timedelta(0),)


def test_a_tick_parks_all_actions_of_executors_in_bites(connection, a_project, monkeypatch):
    monkeypatch.setattr("scheduled_actions.ticks.maintenance._FIRST_PARKED", 7)
    monkeypatch.setattr(parking, "MAX_PARKED", 10)
    project = a_project(MEDIA)
    videos = insert_many(connection, 60, action_type="video:render")

    project.processor.tick()

    assert parked(connection) == dict.fromkeys(videos, "queue:media")


def test_a_lingering_tick_parks_what_becomes_due_and_claims_in_vain_only_once_a_second(connection, a_project, ran):
    project = a_project(MEDIA, linger_seconds=3, default_timeout_seconds=5)
    soon = database_now(connection) + timedelta(seconds=1)
    video = insert(connection, action_type="video:render", scheduled_at=soon)
    local = insert(connection, scheduled_at=soon + timedelta(seconds=0.5))

    project.processor.tick(lingers=True)

    assert (ran, parked(connection)) == (["test:run"], {video: "queue:media"})
    assert row(connection, local)["status"] == "completed"


def test_ticks_end_expired_actions_of_executors(connection, a_project):
    project = a_project(MEDIA)
    expires_at = database_now(connection) + timedelta(minutes=1)
    video = insert(connection, action_type="video:render", expires_at=expires_at, on_expiry="skip")
    project.processor.tick()
    move_clock(connection, timedelta(minutes=2))

    project.processor.tick()

    found = row(connection, video)
    assert (found["status"], found["parked_by"]) == ("skipped", None)
    assert "while no worker of its executor (media) was free" in found["error_message"]


def test_ticks_move_queued_actions_that_a_pause_holds_back_to_the_pause_and_back(connection, a_project):
    project = a_project(MEDIA)
    videos = insert_many(connection, 3, action_type="video:render")
    project.processor.tick()
    project.pauses.pause(Subject("action_type", "video:render", None))
    late = insert(connection, action_type="video:render")

    project.processor.tick()

    (pause,) = project.pauses.find()
    assert pause.parked == 4
    assert parked(connection) == dict.fromkeys([*videos, late], str(pause.id))
    project.pauses.resume(Subject("action_type", "video:render", None))
    project.processor.tick()
    assert parked(connection) == dict.fromkeys([*videos, late], "queue:media")


def test_a_tick_parks_for_a_pause_that_was_begun_by_sql(connection, a_project):
    project = a_project(MEDIA)
    video = insert(connection, action_type="video:render")
    project.processor.tick()
    (pause_id,) = connection.execute("select scheduled_actions_pause('action_type', 'video:render')::text").fetchone()

    project.processor.tick()

    assert parked(connection) == {video: pause_id}


# -- the map -----------------------------------------------------------------------------------------------------------


def test_the_first_tick_of_a_process_stores_its_executors_and_removes_none(connection, a_project):
    executors(connection, {"media": {"types": ["video:*"]}, "gpu": {"types": ["model:*"]}})

    a_project({"media": {"types": ["video:*", "audio_mix"]}}).processor.tick()

    assert stored(connection) == {"media": (["video:*", "audio_mix"], False), "gpu": (["model:*"], False)}
    patterns = connection.execute("select type_patterns from scheduled_action_executors where name = 'media'")
    assert patterns.fetchone() == (["video:%", r"audio\_mix"],)


def test_migrate_stores_the_executors_of_the_settings_and_removes_the_others(
    connection, database_url, tmp_path, monkeypatch
):
    executors(connection, {"gpu": {"types": ["model:*"]}})
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "_registry.py").write_text("HANDLERS = {}\nOPTIONS = {}\nFUNCTIONS = {}\n")
    (tmp_path / "scheduled_actions.toml").write_text('[executors.media]\ntypes = ["video:*"]\n')
    monkeypatch.chdir(tmp_path)

    result = CliRunner().invoke(main, ["migrate"], env={"DATABASE_URL": database_url}, catch_exceptions=False)

    assert result.exit_code == 0, result.output
    assert result.stdout == "executor gpu removed (model:*)\nexecutor media added (video:*)\n"
    assert stored(connection) == {"media": (["video:*"], False), "gpu": ([], True)}
    assert parking.return_queues(connection) is False
    assert stored(connection) == {"media": (["video:*"], False)}


def test_the_changes_of_the_stored_executors_are_returned(connection):
    both = {"media": {"types": ["video:*"]}, "gpu": {"types": ["model:*"]}}
    more = {"media": {"types": ["video:*", "audio:mix"]}}

    assert executors(connection, both) == [("gpu", (), ("model:*",)), ("media", (), ("video:*",))]
    assert executors(connection, both) == []
    assert executors(connection, more, replace=False) == [("media", ("video:*",), ("video:*", "audio:mix"))]
    assert executors(connection, more) == [("gpu", ("model:*",), ())]
    assert executors(connection, more) == []
    assert executors(connection, both, replace=False)[0] == ("gpu", (), ("model:*",)), "it was being removed"


def test_the_same_executors_are_neither_written_nor_locked_again(connection, database_url):
    executors(connection, MEDIA)
    with psycopg.connect(database_url) as other:
        # A transaction that parks.
        other.execute("select from scheduled_action_executors for share")
        connection.execute("set lock_timeout = '1ms'")

        executors(connection, MEDIA)
        executors(connection, {}, replace=False)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            executors(connection, {"media": {"types": ["video:render"]}})


def test_the_queue_of_a_removed_executor_returns_and_ticks_run_it(connection, a_project, ran):
    executors(connection, MEDIA)
    insert_many(connection, 5, action_type="video:render")
    park(connection)

    executors(connection, {})
    a_project().processor.tick()

    assert ran == ["video:render"] * 5
    assert stored(connection) == {}


def test_a_queue_returns_in_order_in_bites(connection):
    executors(connection, MEDIA)
    late = insert(connection, action_type="video:render", priority=5)
    videos = insert_many(connection, 5, action_type="video:render")
    park(connection)
    executors(connection, {})

    assert parking.return_queues(connection, most=4) is True
    assert {one for one, why in parked(connection).items() if why is None} == set(videos[:4])
    assert park(connection) == 0, "nothing is parked while the queue returns"
    assert stored(connection) == {"media": ([], True)}
    assert parking.return_queues(connection, most=4) is False
    assert (stored(connection), set(parked(connection).values())) == ({}, {None})
    assert late in parked(connection)


def test_a_type_that_moves_to_another_executor_takes_its_actions_with_it(connection, a_project, ran):
    executors(connection, {"media": {"types": ["video:*", "test:run"]}})
    video, other = insert(connection, action_type="video:render"), insert(connection)
    park(connection)
    project = a_project()

    executors(connection, {"media": {"types": ["test:run"]}, "gpu": {"types": ["video:*"]}})
    project.processor.tick()
    project.processor.tick()

    assert (ran, parked(connection)) == ([], {video: "queue:gpu", other: "queue:media"})
    assert stored(connection) == {"media": (["test:run"], False), "gpu": (["video:*"], False)}


def test_an_executor_that_only_gets_types_keeps_its_queue(connection):
    executors(connection, MEDIA)
    video = insert(connection, action_type="video:render")
    park(connection)

    executors(connection, {"media": {"types": ["audio:*", "video:*"]}})

    assert stored(connection) == {"media": (["audio:*", "video:*"], False)}
    assert parked(connection) == {video: "queue:media"}


def test_no_action_is_parked_in_a_queue_that_has_returned_meanwhile(connection, database_url):
    executors(connection, MEDIA)
    video = insert(connection, action_type="video:render")
    removed = threading.Event()

    def remove():
        with psycopg.connect(database_url, autocommit=True) as own:
            executors(own, {})
            parking.return_queues(own)
            parking.return_queues(own)
            removed.set()

    with connection.transaction():
        parking.park(connection, parking.Position(claims.START), most=10)
        thread = threading.Thread(target=remove)
        thread.start()
        # The removal waits for this transaction, and then finds what it has parked.
        assert not removed.wait(0.3)
    thread.join(PATIENCE)

    assert (parked(connection), stored(connection)) == ({video: None}, {})


def test_workers_return_the_queue_of_their_executor_without_ticks(connection):
    executors(connection, {"media": {"types": ["video:*", "audio:*"]}})
    insert(connection, action_type="audio:mix")
    video = insert(connection, action_type="video:render")
    park(connection)
    executors(connection, MEDIA)
    queue = ExecutorQueue("media", (), config.settings_of({}))

    claimed = [one.id for _ in range(3) for one in queue.claim(connection, wanted=10, lease_seconds=60).kept]

    assert claimed == [video]
    assert stored(connection) == {"media": (["video:*"], False)}


# -- changes of queued actions -----------------------------------------------------------------------------------------


@pytest.fixture
def queued(connection, a_project):
    """Return a project, and an action in the queue of its executor."""
    project = a_project(MEDIA, limits={"api": {"at_once": 5}}, edit_lock_seconds=0)
    video = insert(connection, action_type="video:render")
    project.processor.tick()
    assert parked(connection) == {video: "queue:media"}
    return project, video


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"priority": -5}, "queue:media"),
        ({"payload": {"n": 2}}, "queue:media"),
        ({"limit": "api"}, "limit"),
        ({"scheduled_at": timedelta(hours=1)}, None),
    ],
)
def test_an_edited_action_is_parked_again_in_the_place_it_has_then(connection, queued, changes, place):
    project, video = queued

    if (delay := changes.get("scheduled_at")) is not None:
        changes = {"scheduled_at": database_now(connection) + delay}
    project.scheduler.update_action(video, **changes)

    assert parked(connection) == {video: None}
    project.processor.tick()
    assert parked(connection) == {video: place}


def test_a_cancelled_action_leaves_the_queue_and_a_retried_one_returns_to_it(connection, queued):
    project, video = queued
    queue = ExecutorQueue("media", (), project.config.settings)

    project.scheduler.cancel_action(video)
    assert queue.claim(connection, wanted=1, lease_seconds=60).kept == []

    project.scheduler.retry_action(video)
    assert [one.id for one in queue.claim(connection, wanted=1, lease_seconds=60).kept] == [video]


def test_a_merge_that_brings_limit_keys_moves_the_action_to_their_queue(connection, a_project):
    project = a_project(MEDIA, limits={"api": {"at_once": 5}})
    schedule = project.scheduler.schedule_action
    first = schedule(NewAction(action_type="video:render", payload={"n": 1}, dedup_key="k")).id
    project.processor.tick()
    assert parked(connection) == {first: "queue:media"}

    second = schedule(NewAction(action_type="video:render", payload={"n": 2}, dedup_key="k", limit="api"))
    project.processor.tick()

    assert (second.id, parked(connection)) == (first, {first: "limit"})


# -- the end of a claim ------------------------------------------------------------------------------------------------


def claimed_by_a_worker(connection, **columns):
    """Insert an action as a worker has taken it over; return its id and its token."""
    token = uuid4()
    action_id = insert(
        connection, action_type="video:render", status="processing", claim_token=token, executor="media",
        lease_expires_at=database_now(connection) + timedelta(minutes=1), announced_at=database_now(connection),
        worker_id=uuid4(), **columns,
    )  # fmt: skip
    return action_id, token


def _settle(connection, action_id, token):
    outcome = an_outcome(a_claimed(id=action_id, token=token), status=Status.FAILED, error="broken")
    settling.settle(connection, a_tick(connection), [outcome], running=None)


def _release(connection, action_id, token):
    outcome = an_outcome(a_claimed(id=action_id, token=token), status=Status.PENDING, charge=0)
    settling.settle(connection, a_tick(connection), [outcome], running=None)


def _complete(connection, action_id, token):
    completion = settling.Completion(action_id, token, 0, 1, 3)
    settling.complete(connection, a_tick(connection), [completion], running=[])


def _complete_with_slots(connection, action_id, token):
    completion = settling.Completion(action_id, token, 0, 1, 3, has_slots=True)
    settling.complete(connection, a_tick(connection), [completion], running=[])


def _wait(connection, action_id, token):
    waits.settle(connection, a_tick(connection).id, [waits.WaitSettlement(action_id, token, 60.0, None, "not yet")])


def _fail(connection, action_id, token):
    assert settling.fail(connection, action_id, token, "unreadable")


def _unclaim(connection, action_id, token):
    schedule_store.unclaim(connection, [action_id])


def _skip(connection, action_id, token):
    schedule_store.skip_claimed(connection, {action_id: "missed"})


def _assign_keys(connection, action_id, token):
    given = json.dumps([{"id": str(action_id), "limit_keys": ["api"]}])
    connection.execute(statement("assign_keys"), {"given": given})


@pytest.mark.parametrize(
    "end",
    [_settle, _release, _complete, _complete_with_slots, _wait, _fail, _unclaim, _skip, _assign_keys],
)
def test_every_end_of_a_claim_clears_the_executor_and_the_worker(connection, end):
    action_id, token = claimed_by_a_worker(connection)

    end(connection, action_id, token)

    found = row(connection, action_id)
    assert found["status"] != "processing"
    cleared = ("claim_token", "lease_expires_at", "executor", "announced_at", "worker_id")
    assert [found[name] for name in cleared] == [None] * 5


def test_every_statement_that_clears_a_claim_clears_the_executor_too():
    ending = [path for path in PACKAGE.rglob("*.sql") if "claim_token = null" in path.read_text()]

    assert len(ending) >= 7
    for path in ending:
        text = path.read_text()
        assert all(f"{name} = null" in text for name in ("executor", "announced_at", "worker_id")), path


# -- counts and lists --------------------------------------------------------------------------------------------------


def test_queued_actions_of_executors_count_as_due_but_neither_as_paused_nor_as_work_of_ticks(connection, a_project):
    project = a_project(MEDIA)
    insert_many(connection, 3, action_type="video:render", team_id="red")
    project.processor.tick()

    for team_id in (None, "red"):
        counts = project.action_operations.counts(team_id=team_id)
        assert (counts.due, counts.for_executors, counts.paused, counts.queued, counts.overdue) == (3, 3, 0, 0, 0)
    exact = project.action_operations.exact_counts()
    assert (exact.due, exact.for_executors, exact.paused) == (3, 3, 0)
    page = project.action_operations.page(ActionFilters(statuses=[Status.PENDING]))
    assert [one.parked_by for one in page.actions] == ["queue:media"] * 3
