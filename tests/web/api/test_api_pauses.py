"""The routes of `/api/v1/pauses`: list, create and resume pauses, within the team of the token."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions.operations import tokens
from tests.factories import database_now, insert, row
from tests.web.conftest import Api

UNKNOWN = "0197a000-0000-7000-8000-00000000ffff"


@pytest.fixture
def red(client, connection):
    """Return the API with an operator's token of team red."""
    return Api(client, tokens.create(connection, name="red", role="operator", team_id="red")[1])


def test_a_pause_is_created_listed_and_resumed(api, connection):
    action_id = insert(connection)
    made = api("POST", "/pauses", {"action_type": "test:run", "note": "provider down", "delay": "PT2H"})

    assert made.status_code == 201
    pause = made.json
    assert row(connection, action_id)["parked_by"] == pause["id"]
    assert api("GET", "/pauses").json == {"pauses": [pause]}
    shown = {name: pause[name] for name in ("kind", "name", "team_id", "note", "paused_by", "parked")}
    assert shown == {
        "kind": "action_type",
        "name": "test:run",
        "team_id": None,
        "note": "provider down",
        "paused_by": "api:admin",
        "parked": 1,
    }

    resumed = api("DELETE", f"/pauses/{pause['id']}")
    assert (resumed.status_code, resumed.json["id"]) == (200, pause["id"])
    assert row(connection, action_id)["parked_by"] is None
    assert api("GET", "/pauses").json == {"pauses": []}
    again = api("DELETE", f"/pauses/{pause['id']}")
    assert (again.status_code, again.json["code"]) == (404, "unknown_pause")
    assert api("DELETE", "/pauses/no-id").json["detail"] == "no active pause has the id no-id"


def test_a_pause_can_have_an_end_and_is_changed_by_another_request(api, connection):
    until = database_now(connection) + timedelta(hours=1)
    first = api("POST", "/pauses", {"lock_group": "g", "until": until.isoformat()}).json
    second = api("POST", "/pauses", {"lock_group": "g"}).json

    assert (first["id"], first["paused_at"]) == (second["id"], second["paused_at"])
    assert first["ends_at"] is not None
    assert second["ends_at"] is None


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 400, "give an action_type, a team_id, a lock_group or a limit"),
        ({"action_type": "test:run", "lock_group": "g"}, 400, "cannot be given together with action_type"),
        ({"action_type": "test:rum"}, 422, 'did you mean \\"test:run\\"'),
        ({"limit": "unknown:acme"}, 400, "matches no pattern of [limits]"),
        ({"lock_group": "g", "until": "2020-01-01"}, 400, "is not in the future"),
        ({"lock_group": "g", "until": "2099-01-01", "delay": 5}, 400, "conflicts with until"),
        ({"lock_group": "g", "note": "n" * 1001}, 400, "note"),
        ({"team": "red"}, 400, "team"),
    ],
)
def test_invalid_pauses_are_refused(api, body, status, text):
    response = api("POST", "/pauses", body)
    assert response.status_code == status, response.text
    assert text in response.text
    assert api("GET", "/pauses").json == {"pauses": []}


def test_a_team_sees_makes_and_resumes_only_its_own_pauses(api, red, connection):
    others = [api("POST", "/pauses", body).json for body in ({"action_type": "test:run"}, {"team_id": "blue"})]
    mine, theirs = insert(connection, team_id="red", lock_group="g"), insert(connection, lock_group="g")
    whole = api("POST", "/pauses", {"team_id": "red"}).json

    made = red("POST", "/pauses", {"lock_group": "g"}).json

    assert (made["team_id"], made["name"]) == ("red", "g")
    assert red("GET", "/pauses").json["pauses"] == [
        one for one in api("GET", "/pauses").json["pauses"] if one["id"] in {whole["id"], made["id"]}
    ]
    assert red("GET", "/pauses?team_id=blue").json == {"pauses": []}
    assert red("POST", "/pauses", {"team_id": "blue"}).status_code == 403
    for other in others:
        response = red("DELETE", f"/pauses/{other['id']}")
        assert response.status_code == 404
        unknown = red("DELETE", f"/pauses/{UNKNOWN}")
        assert response.text.replace(other["id"], UNKNOWN) == unknown.text
    assert red("POST", "/pauses", {}).json["id"] == whole["id"]
    assert red("DELETE", f"/pauses/{whole['id']}").status_code == 200
    assert len(api("GET", "/pauses").json["pauses"]) == 3
    assert row(connection, mine)["parked_by"] is not None
    assert row(connection, theirs)["parked_by"] == others[0]["id"]


def test_a_viewer_reads_pauses_and_changes_none(api, client, connection):
    viewer = Api(client, tokens.create(connection, name="v", role="viewer")[1])
    made = api("POST", "/pauses", {"lock_group": "g"}).json

    assert viewer("GET", "/pauses").json == {"pauses": [made]}
    assert viewer("POST", "/pauses", {"lock_group": "h"}).status_code == 403
    assert viewer("DELETE", f"/pauses/{made['id']}").status_code == 403
