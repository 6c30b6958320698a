"""Limited actions that were scheduled for later: the tick that finds them due also runs them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions import action
from scheduled_actions.actions import claims
from scheduled_actions.core.config import Limit
from tests.factories import a_tick, insert_many, move_clock, projects, statuses


@action("test:run")
def run(payload: dict):
    """Do nothing."""


@pytest.fixture
def project(database_url):
    with projects(database_url) as create:
        made = create(run)
        made.config.settings.limits["api:*"] = Limit(at_once=2)
        yield made


@pytest.mark.parametrize("lock_group", [None, "g"])
@pytest.mark.parametrize("others", [0, 30])
def test_the_tick_that_finds_limited_actions_due_runs_them(project, connection, lock_group, others):
    arguments = {"payload": {}, "limit": "api:acme", "lock_group": lock_group, "scheduled_at": timedelta(hours=1)}
    project.scheduler.schedule_actions([{"action_type": "test:run", **arguments}] * 5)
    insert_many(connection, others)
    move_clock(connection, timedelta(hours=2))

    report = project.processor.tick()

    assert (report.succeeded, report.remaining, report.errors) == (5 + others, 0, [])
    assert set(statuses(connection).values()) == {"completed"}


def test_a_claim_reports_that_it_has_queued_members_of_lock_groups(connection):
    connection.execute(
        "select schedule_action('test:run', lock_group => 'g', limits => '{api:acme}',"
        " scheduled_at => scheduled_actions_now() + interval '1 hour')"
    )
    move_clock(connection, timedelta(hours=2))

    claim = {"wanted": 10, "after": claims.START, "excluded": ()}
    found = [claims.claim_grouped(connection, a_tick(connection), **claim) for _ in range(2)]

    assert [(claimed, position.has_parked) for claimed, position in found] == [([], True), ([], False)]
