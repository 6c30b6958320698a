"""Changing the limit keys and the expiry of an action: by `update_action`, and by a merge under its dedup key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from psycopg.types.json import Jsonb

from scheduled_actions import action
from scheduled_actions.actions import claims
from scheduled_actions.actions.model import UNSET, NewAction
from scheduled_actions.core import config
from scheduled_actions.core.errors import ActionLocked, InvalidArgument, WrongStatus
from scheduled_actions.limits import claims as limit_claims, store
from tests.factories import a_tick, database_now, insert, move_clock, projects, row

AN_HOUR = timedelta(hours=1)
LIMITS = {"api:*": {"at_once": 1}, "reports": {"at_once": 1}}


@pytest.fixture
def project(database_url, connection):
    @action("test:run")
    def run(payload: dict) -> None: ...

    @action("test:gather")
    def gather(payload: list[dict]) -> None: ...

    store.write_rules(connection, config.settings_of({"limits": LIMITS}).limits)
    with projects(database_url) as a_project:
        made = a_project(run, gather)
        made.config.settings.limits.update(config.settings_of({"limits": LIMITS}).limits)
        yield made


def schedule(project, **arguments):
    return project.scheduler.schedule_action(NewAction(action_type="test:run", payload={}, **arguments)).id


def claimed(connection):
    """Claim due actions as a tick does: those without keys, which parks the others, then those that are queued."""
    tick = a_tick(connection)
    found, _ = claims.claim_free(connection, tick, wanted=100, after=claims.START, excluded=())
    queued = limit_claims.find_queued(connection, wanted=100, after=limit_claims.START, excluded=())
    limit_claims.insert_keys(connection, {key for one in queued.candidates for key in one.keys})
    with connection.transaction():
        return [one.id for one in (*found, *limit_claims.claim_queued(connection, tick, queued.candidates))]


# -- update_action -----------------------------------------------------------------------------------------------------


def test_a_queued_action_moves_to_the_queue_of_its_new_key(project, connection):
    first, second = (schedule(project, limit="api:acme") for _ in range(2))
    assert claimed(connection) == [first]
    assert claimed(connection) == []

    changed = project.scheduler.update_action(second, limit=["reports", "api:other"], by="zoe")

    assert (changed.limit_keys, changed.parked_by) == (["reports", "api:other"], "limit")
    assert changed.history[-1]["changes"] == ["limit"]
    assert claimed(connection) == [second]


def test_a_queued_action_without_its_keys_is_claimed_like_any_other(project, connection):
    first, second = (schedule(project, limit="api:acme") for _ in range(2))
    assert claimed(connection) == [first]

    changed = project.scheduler.update_action(second, limit=None)

    assert (changed.limit_keys, changed.parked_by) == (None, None)
    assert claimed(connection) == [second]


def test_a_due_action_that_gets_a_key_is_queued(project, connection):
    first, second = schedule(project, limit="api:acme"), schedule(project)
    project.scheduler.update_action(second, limit="api:acme")

    assert claimed(connection) == [first]
    assert row(connection, second)["parked_by"] == "limit"


def test_a_change_of_the_keys_does_not_resume_a_paused_action(project, connection):
    pause = "0197a000-0000-7000-8000-0000000000aa"
    paused = insert(connection, limit_keys=["api:acme"], parked_by=pause)

    assert project.scheduler.update_action(paused, limit="reports").parked_by == pause
    assert project.scheduler.update_action(paused, limit=None).parked_by == pause


def test_a_postponed_action_leaves_its_queue_and_keeps_its_keys(project, connection):
    queued = schedule(project, limit="api:acme")

    changed = project.scheduler.update_action(queued, scheduled_at=AN_HOUR, limit="reports")

    assert (changed.limit_keys, changed.parked_by) == (["reports"], None)
    assert claimed(connection) == []
    move_clock(connection, AN_HOUR)
    assert claimed(connection) == [queued]


def test_the_expiry_can_be_set_changed_and_removed(project, connection):
    action_id = schedule(project, scheduled_at=AN_HOUR)
    later = database_now(connection) + 2 * AN_HOUR

    changed = project.scheduler.update_action(action_id, expires_at=later)
    assert (changed.expires_at, changed.on_expiry) == (later, "skip")
    assert changed.history[-1]["changes"] == ["expires_at"]

    local = project.scheduler.update_action(action_id, expires_at="2040-06-01", timezone="Europe/Berlin")
    assert local.expires_at == datetime(2040, 6, 1, 21, 59, 59, tzinfo=UTC)

    removed = project.scheduler.update_action(action_id, expires_at=None)
    assert (removed.expires_at, removed.on_expiry) == (None, None)


def test_a_changed_expiry_keeps_what_happens_at_it(project, connection):
    action_id = schedule(project, expires_in=60, on_expiry="fail")

    changed = project.scheduler.update_action(action_id, expires_at=database_now(connection) + AN_HOUR)

    assert changed.on_expiry == "fail"


def test_other_changes_keep_the_keys_and_the_expiry(project):
    action_id = schedule(project, limit="api:acme", expires_in=60, on_expiry="fail")
    before = project.scheduler.get_action(action_id)

    after = project.scheduler.update_action(action_id, priority=3, condition=None, limit=UNSET, expires_at=UNSET)

    for name in ("limit_keys", "parked_by", "expires_at", "on_expiry"):
        assert getattr(after, name) == getattr(before, name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at .* must be after scheduled_at"),
        ({"scheduled_at": 3 * AN_HOUR}, "expires_at .* must be after scheduled_at"),
        ({"scheduled_at": 3 * AN_HOUR, "expires_at": "2031-01-01T00:00:00Z"}, None),
        ({"scheduled_at": "2031-01-01T00:00:00Z", "expires_at": "2031-01-01T00:00:00Z"}, "must be after scheduled_at"),
        ({"expires_at": "soon"}, "expires_at: 'soon'"),
        ({"limit": "unknown"}, "matches no pattern"),
        ({"limit": []}, "limit: "),
        ({"limit": ["api:a", "api:a"]}, "differ from each other"),
    ],
)
def test_a_change_that_expires_too_early_or_names_an_invalid_key_changes_nothing(project, connection, changes, message):
    action_id = schedule(project, scheduled_at=AN_HOUR, expires_in=AN_HOUR, limit="api:acme")
    before = row(connection, action_id)

    if message is None:
        project.scheduler.update_action(action_id, priority=7, **changes)
        assert row(connection, action_id)["priority"] == 7
        return
    with pytest.raises(InvalidArgument, match=message):
        project.scheduler.update_action(action_id, priority=7, **changes)
    assert row(connection, action_id) == before


def test_the_clock_of_the_database_decides_whether_a_new_expiry_has_passed(project, connection):
    action_id = schedule(project)
    soon = database_now(connection) + AN_HOUR
    move_clock(connection, AN_HOUR)

    with pytest.raises(InvalidArgument, match="must be after"):
        project.scheduler.update_action(action_id, expires_at=soon)


def test_an_action_that_waits_for_its_condition_can_expire_before_the_next_check(project, connection):
    now = database_now(connection)
    waits = insert(connection, scheduled_at=now + AN_HOUR, waiting=Jsonb({"since": now.isoformat()}))

    assert project.scheduler.update_action(waits, expires_at=now + AN_HOUR / 2).expires_at == now + AN_HOUR / 2


def test_the_edit_lock_and_the_status_are_named_before_an_expiry_that_is_too_early(project, connection):
    due, ended = schedule(project), insert(connection, status="completed")

    with pytest.raises(ActionLocked):
        project.scheduler.update_action(due, expires_at="2020-01-01", edit_lock_seconds=120)
    with pytest.raises(WrongStatus):
        project.scheduler.update_action(ended, expires_at="2020-01-01")


# -- merges ------------------------------------------------------------------------------------------------------------

WAYS = ["one", "many"]


def merged(project, way, mode, *arguments):
    """Schedule actions with one dedup key, one after the other; return the id of the action they are merged into."""
    action_type = "test:gather" if mode == "append" else "test:run"
    shared = {"dedup_key": "k", "dedup_window": 60, "dedup_mode": mode}
    new = [NewAction(action_type=action_type, payload={}, **shared, **given) for given in arguments]
    if way == "one":
        ids = {project.scheduler.schedule_action(one).id for one in new}
    else:
        ids = {one.id for one in project.scheduler.schedule_actions(new)}
    (action_id,) = ids
    return action_id


FIRST = {"limit": "api:first", "expires_in": 60, "on_expiry": "fail"}


@pytest.mark.parametrize("way", WAYS)
def test_a_merge_with_the_latest_takes_its_keys_and_its_expiry(project, connection, way):
    second = {"limit": ["reports"], "expires_at": "2040-01-01T00:00:00Z"}

    found = project.scheduler.get_action(merged(project, way, "latest", FIRST, second))

    assert (found.limit_keys, found.parked_by) == (["reports"], "limit")
    assert (found.expires_at, found.on_expiry) == (datetime(2040, 1, 1, tzinfo=UTC), "skip")
    assert claimed(connection) == [found.id]


@pytest.mark.parametrize("way", WAYS)
def test_a_merge_with_the_latest_without_keys_leaves_the_queue(project, connection, way):
    found = project.scheduler.get_action(merged(project, way, "latest", FIRST, {}))

    assert (found.limit_keys, found.parked_by, found.expires_at, found.on_expiry) == (None, None, None, None)
    assert claimed(connection) == [found.id]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["first", "append"])
def test_a_merge_with_the_first_keeps_its_keys_and_its_expiry(project, way, mode):
    action_id = merged(project, way, mode, FIRST, {"limit": "reports", "expires_in": 7200})

    found = project.scheduler.get_action(action_id)

    assert (found.limit_keys, found.parked_by, found.on_expiry) == (["api:first"], "limit", "fail")
    assert found.expires_at == found.scheduled_at + timedelta(seconds=60)
