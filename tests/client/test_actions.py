"""The functions for actions and facts use the runtime of the process."""

from __future__ import annotations

from datetime import timedelta

import pytest

import scheduled_actions
from scheduled_actions.core.config import Limit
from scheduled_actions.core.errors import InvalidArgument, UnknownAction, UnknownFact
from tests.factories import insert

INVOICE = {"type": "invoice", "id": "42"}
APPROVED = {"kind": "document_state", "target": INVOICE, "state": "approved"}


def test_actions_are_scheduled_updated_cancelled_and_retried(project):
    scheduled = scheduled_actions.schedule_action("test:run", {"n": 1}, scheduled_at=timedelta(hours=1))
    many = scheduled_actions.schedule_actions([{"action_type": "test:run", "payload": {}}])
    updated = scheduled_actions.update_action(scheduled.id, priority=2)
    cancelled = scheduled_actions.cancel_action(scheduled.id)
    retried = scheduled_actions.retry_action(scheduled.id)
    found = scheduled_actions.get_action(scheduled.id)
    listed = scheduled_actions.list_actions(status="pending")

    assert (updated.priority, cancelled.status, retried.status) == (2, "cancelled", "pending")
    assert found == retried
    assert {one.id for one in listed} == {scheduled.id, many[0].id}


def test_an_action_waits_until_a_fact_is_reported(project):
    waiting = scheduled_actions.schedule_when("test:run", {}, APPROVED, check_interval="PT1H", timeout="P1D").id
    before = project.processor.tick()

    scheduled_actions.report_fact(INVOICE, "state", "approved", by="ann")
    project.processor.tick()

    assert before.succeeded == 0
    assert scheduled_actions.get_action(waiting).condition["check_interval"] == "PT1H"
    assert scheduled_actions.get_action(waiting).status == "completed"


def test_an_action_waits_for_another_one_until_a_timeout(project):
    first = scheduled_actions.schedule_action("test:run", {}, scheduled_at=timedelta(hours=1)).id

    waiting = scheduled_actions.schedule_when("test:run", {}, after=first, timeout=timedelta(hours=2)).id

    expected = {"after": [str(first)], "condition": {"timeout": 7200}}
    assert scheduled_actions.get_action(waiting).condition == expected


def test_a_waiting_action_has_a_limit_and_an_expiry_which_can_change(project):
    project.config.settings.limits["api:*"] = Limit(at_once=1)
    options = {"limit": "api:acme", "expires_in": timedelta(hours=1), "on_expiry": "fail"}
    waiting = scheduled_actions.schedule_when("test:run", {}, APPROVED, **options).id
    found = scheduled_actions.get_action(waiting)

    changed = scheduled_actions.update_action(waiting, limit=None, expires_at="2040-01-01")

    assert (found.limit_keys, found.on_expiry) == (["api:acme"], "fail")
    assert found.expires_at == found.scheduled_at + timedelta(hours=1)
    assert (changed.limit_keys, changed.expires_at.year) == (None, 2040)


def test_facts_are_reported_read_and_deleted(project):
    scheduled_actions.report_fact(INVOICE, "state", "draft", team_id="blue")
    scheduled_actions.report_fact(INVOICE, "state", "approved", team_id="blue")

    found = scheduled_actions.get_fact(INVOICE, "state", team_id="blue")
    listed = scheduled_actions.list_facts(target_type="invoice", team_id="blue")
    scheduled_actions.delete_fact(INVOICE, "state", team_id="blue")

    assert found.value == "approved"
    assert listed == [found]
    with pytest.raises(UnknownFact):
        scheduled_actions.get_fact(INVOICE, "state", team_id="blue")
    values = [one.value for one in scheduled_actions.fact_history(INVOICE, "state", team_id="blue")]
    assert values[-2:] == ["approved", "draft"]


@pytest.mark.parametrize("by", ["a\x00b", "", 7])
@pytest.mark.usefixtures("project")
def test_an_invalid_by_is_rejected_when_a_fact_is_reported_or_deleted(by):
    scheduled_actions.report_fact(INVOICE, "state", "draft")

    with pytest.raises(InvalidArgument, match=r"^by"):
        scheduled_actions.report_fact(INVOICE, "state", "approved", by=by)
    with pytest.raises(InvalidArgument, match=r"^by"):
        scheduled_actions.delete_fact(INVOICE, "state", by=by)

    assert scheduled_actions.get_fact(INVOICE, "state").value == "draft"


def test_an_action_is_explained_only_to_its_own_team(project, connection):
    action_id = insert(connection, team_id="blue", status="completed", completed_at="now")

    mine = scheduled_actions.explain_action(str(action_id), team_id="blue")

    assert mine.code == scheduled_actions.explain_action(action_id).code == "completed"
    with pytest.raises(UnknownAction):
        scheduled_actions.explain_action(action_id, team_id="red")


def test_limit_keys_are_listed_in_pages(project, connection):
    for key in ("api:a", "api:b", "other"):
        insert(connection, limit_keys=[key], parked_by="limit", team_id="blue")

    first = scheduled_actions.list_limits(prefix="api:", team_id="blue", limit=1)
    rest = scheduled_actions.list_limits(prefix="api:", team_id="blue", cursor=first.next_cursor)

    assert [(one.limit_key, one.waiting) for one in [*first, *rest]] == [("api:a", 1), ("api:b", 1)]
    assert rest.next_cursor is None
