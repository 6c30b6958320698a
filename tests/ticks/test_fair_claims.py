"""One team's crowd of due actions does not keep the others waiting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from scheduled_actions import action
from tests.factories import PATIENCE, database_now, insert, insert_many, projects, statuses


@pytest.fixture
def a_project(database_url):
    """Return a function that makes a project of handlers and settings on the test's database."""
    with projects(database_url) as make:
        yield make


@action("test:run")
def run(payload):
    """Do nothing."""


def a_crowd(connection, count=400, **columns):
    columns = {"team_id": "crowd", "scheduled_at": database_now(connection) - timedelta(hours=1)} | columns
    return insert_many(connection, count, **columns)


def order(connection):
    """Return the ids of the completed actions in the order in which they were started."""
    return [
        found[0]
        for found in connection.execute(
            "select id from scheduled_actions where status = 'completed' order by started_at, scheduled_at, id"
        )
    ]


def last_place(connection, ids):
    places = order(connection)
    return max(places.index(one) for one in ids)


@pytest.mark.parametrize("team", ["small", None])
def test_ten_actions_of_another_team_are_done_long_before_the_crowd(a_project, connection, team):
    crowd = a_crowd(connection, 1200)
    small = insert_many(connection, 10, team_id=team)
    project = a_project(run, concurrency=1)

    report = project.processor.tick()

    assert report.succeeded == len(crowd) + len(small)
    assert last_place(connection, small) < 100
    assert [one for one in order(connection) if one in set(small)] == small, "a team keeps its order"
    assert [one for one in order(connection) if one in set(crowd)] == crowd


def test_a_crowd_without_a_team_gives_way_as_well(a_project, connection):
    a_crowd(connection, 1200, team_id=None)
    small = insert_many(connection, 10, team_id="small")
    project = a_project(run, concurrency=1)

    project.processor.tick()

    assert last_place(connection, small) < 100


def test_without_fairness_the_oldest_go_first_whosever_they_are(a_project, connection):
    crowd = a_crowd(connection)
    small = insert_many(connection, 10, team_id="small")
    project = a_project(run, concurrency=1, fair_by_team=False)

    project.processor.tick()

    assert order(connection) == crowd + small


def test_a_crowd_in_one_lock_group_does_not_keep_the_groups_of_others_waiting(a_project, connection):
    first = database_now(connection) - timedelta(hours=1)
    for n in range(150):
        insert(connection, team_id="crowd", lock_group="g", scheduled_at=first + timedelta(seconds=n))
    small = [insert(connection, team_id="small", lock_group=f"own-{n}") for n in range(5)]
    project = a_project(run, concurrency=2)

    report = project.processor.tick()

    assert report.succeeded == 155
    assert last_place(connection, small) < 60


def test_a_crowd_of_lock_groups_does_not_keep_the_groups_of_others_waiting(a_project, connection):
    first = database_now(connection) - timedelta(hours=1)
    for n in range(200):
        insert(connection, team_id="crowd", lock_group=f"g-{n}", scheduled_at=first)
    small = [insert(connection, team_id="small", lock_group="own") for _ in range(3)]
    project = a_project(run, concurrency=2, batch_size=10)

    report = project.processor.tick()

    assert report.succeeded == 203
    assert last_place(connection, small[:1]) < 30
    assert [one for one in order(connection) if one in set(small)] == small


def test_fair_ticks_of_two_processes_run_every_action_once(a_project, connection):
    runs = []

    @action("test:run")
    def count(payload):
        runs.append(payload["n"])

    first = database_now(connection) - timedelta(hours=1)
    for n in range(300):
        team = "crowd" if n < 240 else f"small-{n % 7}"
        group = f"g-{n % 11}" if n % 3 == 0 else None
        insert(connection, team_id=team, payload={"n": n}, lock_group=group, scheduled_at=first + timedelta(seconds=n))
    made = [a_project(count, concurrency=2) for _ in range(2)]

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(one.processor.tick) for one in made]:
            done.result(PATIENCE)
    made[0].processor.tick()

    assert sorted(runs) == list(range(300))
    assert set(statuses(connection).values()) == {"completed"}
