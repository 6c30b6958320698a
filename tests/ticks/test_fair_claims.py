"""Many due actions of one team do not delay those of other teams."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from scheduled_actions import action
from scheduled_actions.ticks.claiming import scanner
from tests.factories import PATIENCE, database_now, insert, insert_many, projects, statuses


@pytest.fixture
def a_project(database_url):
    """Return a function that creates a project with handlers and settings on the test's database."""
    with projects(database_url) as make:
        yield make


@action("test:run")
def run(payload):
    """Do nothing."""


def insert_large_team(connection, count=400, **columns):
    columns = {"team_id": "large", "scheduled_at": database_now(connection) - timedelta(hours=1)} | columns
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
def test_ten_actions_of_another_team_complete_long_before_those_of_the_dominant_team(a_project, connection, team):
    large = insert_large_team(connection, 1200)
    small = insert_many(connection, 10, team_id=team)
    project = a_project(run, concurrency=1)

    report = project.processor.tick()

    assert report.succeeded == len(large) + len(small)
    assert last_place(connection, small) < 100
    assert [one for one in order(connection) if one in set(small)] == small, "the actions of a team keep their order"
    assert [one for one in order(connection) if one in set(large)] == large


def test_many_actions_without_a_team_do_not_delay_those_of_a_team(a_project, connection):
    insert_large_team(connection, 1200, team_id=None)
    small = insert_many(connection, 10, team_id="small")
    project = a_project(run, concurrency=1)

    project.processor.tick()

    assert last_place(connection, small) < 100


def test_a_tick_over_actions_without_a_team_looks_for_other_teams_only_if_any_action_has_one(
    a_project, connection, monkeypatch
):
    claim_of_others, looks = scanner.claim_free_of_others, []
    monkeypatch.setattr(
        scanner, "claim_free_of_others", lambda *given, **more: looks.append(1) or claim_of_others(*given, **more)
    )
    project = a_project(run)
    insert_large_team(connection, 600, team_id=None)
    without = project.processor.tick().succeeded, bool(looks)
    insert(connection, team_id="small", status="completed", completed_at=database_now(connection))
    insert_large_team(connection, 600, team_id=None)
    with_a_team = project.processor.tick().succeeded, bool(looks)

    assert (without, with_a_team) == ((600, False), (600, True))


def test_without_fair_claims_the_oldest_actions_run_first_regardless_of_team(a_project, connection):
    large = insert_large_team(connection)
    small = insert_many(connection, 10, team_id="small")
    project = a_project(run, concurrency=1, fair_by_team=False)

    project.processor.tick()

    assert order(connection) == large + small


def test_many_actions_in_one_lock_group_do_not_delay_the_lock_groups_of_other_teams(a_project, connection):
    first = database_now(connection) - timedelta(hours=1)
    for n in range(150):
        insert(connection, team_id="large", lock_group="g", scheduled_at=first + timedelta(seconds=n))
    small = [insert(connection, team_id="small", lock_group=f"own-{n}") for n in range(5)]
    project = a_project(run, concurrency=2)

    report = project.processor.tick()

    assert report.succeeded == 155
    assert last_place(connection, small) < 60


def test_many_lock_groups_of_one_team_do_not_delay_those_of_other_teams(a_project, connection):
    first = database_now(connection) - timedelta(hours=1)
    for n in range(200):
        insert(connection, team_id="large", lock_group=f"g-{n}", scheduled_at=first)
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
        team = "large" if n < 240 else f"small-{n % 7}"
        group = f"g-{n % 11}" if n % 3 == 0 else None
        insert(connection, team_id=team, payload={"n": n}, lock_group=group, scheduled_at=first + timedelta(seconds=n))
    made = [a_project(count, concurrency=2) for _ in range(2)]

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(one.processor.tick) for one in made]:
            done.result(PATIENCE)
    made[0].processor.tick()

    assert sorted(runs) == list(range(300))
    assert set(statuses(connection).values()) == {"completed"}
