"""The limit of handlers per team in a process: waiting actions use no attempt and delay no other team."""

from __future__ import annotations

import threading
import time
from collections import Counter
from datetime import timedelta

import pytest

from scheduled_actions import action
from scheduled_actions.core import config
from scheduled_actions.core.errors import ConfigInvalid
from tests.factories import PATIENCE, database_now, insert, insert_many, projects, row, statuses


@pytest.fixture
def a_project(database_url):
    """Return a function that creates a project with handlers and settings on the test's database."""
    with projects(database_url) as make:
        yield make


class ConcurrencyCounter:
    """Counts the handlers of each team that run at the same time."""

    def __init__(self):
        self.lock = threading.Lock()
        self.at_work = Counter()
        self.most = Counter()
        self.started = []

    def handler(self, seconds=0.01):
        @action("test:run")
        def run(payload):
            team = payload["team"]
            with self.lock:
                self.started.append((team, payload["n"]))
                self.at_work[team] += 1
                self.most[team] = max(self.most[team], self.at_work[team])
            threading.Event().wait(seconds)
            with self.lock:
                self.at_work[team] -= 1

        return run

    def of(self, team):
        return [n for name, n in self.started if name == team]


def fill(connection, team, count, *, minutes=60, **columns):
    first = database_now(connection) - timedelta(minutes=minutes)
    return [
        insert(
            connection, team_id=team, payload={"team": team, "n": n},
            scheduled_at=first + n * timedelta(milliseconds=1), **columns,
        )
        for n in range(count)
    ]  # fmt: skip


def test_a_team_never_exceeds_its_limit_and_other_teams_continue(a_project, connection):
    counter = ConcurrencyCounter()
    fill(connection, "large", 40)
    fill(connection, "small", 10, minutes=1)
    project = a_project(counter.handler(), concurrency=6, batch_size=20, teams_concurrency=2)

    report = project.processor.tick()

    assert report.succeeded == 50
    assert counter.most["large"] <= 2
    assert counter.most["small"] <= 2
    assert max(place for place, (team, _) in enumerate(counter.started) if team == "small") < 40
    assert sorted(counter.of("large")) == list(range(40))
    assert all(found[0] == 1 for found in connection.execute("select attempts from scheduled_actions"))
    assert all(found[0] == [] for found in connection.execute("select history from scheduled_actions"))


def test_two_teams_at_their_limits_delay_no_other_team_and_complete(a_project, connection):
    counter = ConcurrencyCounter()
    fill(connection, "a", 60, minutes=90)
    fill(connection, "b", 60)
    fill(connection, "small", 5, minutes=1)
    project = a_project(counter.handler(), concurrency=4, batch_size=10, teams_concurrency=1)

    report = project.processor.tick()

    assert report.succeeded == 125
    assert set(counter.most.values()) == {1}
    assert max(place for place, (team, _) in enumerate(counter.started) if team == "small") < 100
    assert [counter.of(team) for team in ("a", "b", "small")] == [list(range(60)), list(range(60)), list(range(5))]


def test_a_tick_with_team_limits_and_without_fair_claims_runs_every_action(a_project, connection):
    counter = ConcurrencyCounter()
    fill(connection, "a", 20)
    fill(connection, "b", 20, minutes=1, lock_group="g")
    project = a_project(counter.handler(0.001), concurrency=4, teams_concurrency=1, fair_by_team=False)

    report = project.processor.tick()

    assert report.succeeded == 40
    assert counter.most["a"] == counter.most["b"] == 1


def test_actions_without_a_team_have_no_limit(a_project, connection):
    barrier = threading.Barrier(3)

    @action("test:run")
    def meet(payload):
        barrier.wait(PATIENCE)

    insert_many(connection, 3)
    project = a_project(meet, concurrency=3, teams_concurrency=1)

    assert project.processor.tick().succeeded == 3


def test_an_abandoned_handler_counts_until_it_returns(a_project, connection):
    released, done = threading.Event(), threading.Event()

    @action("test:hang", timeout_seconds=0.1, max_attempts=1)
    def hang(payload):
        released.wait(PATIENCE)

    @action("test:run")
    def run(payload):
        done.set()

    insert(connection, team_id="a", action_type="test:hang")
    project = a_project(hang, run, concurrency=3, teams_concurrency=1)
    project.processor.tick()
    waiting, other = insert(connection, team_id="a"), insert(connection, team_id="b")

    report = project.processor.tick()

    assert report.succeeded == 1
    assert row(connection, other)["status"] == "completed"
    assert (row(connection, waiting)["status"], row(connection, waiting)["attempts"]) == ("pending", 0)

    released.set()
    until = time.monotonic() + PATIENCE
    while statuses(connection)[waiting] != "completed" and time.monotonic() < until:
        project.processor.tick()
    assert statuses(connection)[waiting] == "completed"


def test_single_teams_can_have_separate_limits(tmp_path):
    (tmp_path / "scheduled_actions.toml").write_text('[teams]\nconcurrency = 1\n[teams.concurrency_of]\n"a b" = 3\n')

    teams = config.load(tmp_path, {"SCHEDULED_ACTIONS_TEAMS_CONCURRENCY": "2"}).settings.teams

    assert (teams.concurrency, teams.concurrency_of) == (2, {"a b": 3})


@pytest.mark.parametrize("table", ["3", '{"a" = 0}', '{"a" = "many"}'])
def test_an_invalid_team_limit_is_rejected_by_name(tmp_path, table):
    (tmp_path / "scheduled_actions.toml").write_text(f"[teams]\nconcurrency_of = {table}\n")

    with pytest.raises(ConfigInvalid, match=r"teams\.concurrency_of"):
        config.load(tmp_path, {})
