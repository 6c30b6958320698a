"""Pages of actions that emit events."""

from __future__ import annotations

import pytest

from handlers.webhook import send
from scheduled_actions import action
from scheduled_actions.registry import Registry
from tests.web.conftest import ADMIN_TOKEN, Api, application
from tests.web.dashboard.conftest import Person


@action("any:thing")
def anything(payload: dict): ...


@pytest.fixture
def app(a_runtime):
    return application(a_runtime(registry=Registry.of(send, anything)))


@pytest.mark.parametrize("data", [{}, {"data": None}, {"data": {"n": 1}}])
def test_the_pages_of_an_event_and_of_the_action_that_emits_it_open(app, data):
    person, api = Person(app.test_client()), Api(app.test_client(), ADMIN_TOKEN)
    person.signs_in(ADMIN_TOKEN)
    event = {"event": "payout:sent", "entity_type": "payout", "entity_id": "17", **data}
    follow_up = {"action_type": "webhook:send", "payload": event}
    parent = api.schedule(action_type="any:thing", payload={}, on_success=follow_up)["id"]
    assert person.opens(f"/actions/{parent}").status_code == 200

    person.sends("/ticks/run")

    emitted = api("GET", f"/actions/{parent}/scheduled").json["actions"]
    assert [one["action_type"] for one in emitted] == ["webhook:send"]
    for one in (parent, emitted[0]["id"]):
        page = person.opens(f"/actions/{one}")
        assert page.status_code == 200, page.text
    assert person.opens(f"/action-types/webhook:send?from={emitted[0]['id']}").status_code == 200
    assert person.opens(f"/actions/{emitted[0]['id']}/edit").status_code == 200
