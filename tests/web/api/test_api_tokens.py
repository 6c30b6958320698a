"""The routes of `/api/v1/tokens`: create, list and revoke tokens."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from scheduled_actions.operations import tokens
from tests.factories import database_now
from tests.web.conftest import Api

UNKNOWN = "0197a000-0000-7000-8000-00000000ffff"


def test_a_new_token_is_returned_once_and_accepted(api, client):
    response = api("POST", "/tokens", {"name": "ci", "role": "operator", "expires_in": "P30D"})

    assert response.status_code == 201
    made = response.json
    assert (made["name"], made["role"], made["team_id"], made["created_by"]) == ("ci", "operator", None, "api:admin")
    lives = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert lives == timedelta(days=30)
    assert Api(client, made["token"])("GET", "/actions").status_code == 200
    assert made["token"] not in api("GET", "/tokens").text
    assert made["hint"] == made["token"][:8]


def test_an_action_records_the_token_that_created_it(api, client):
    token = api("POST", "/tokens", {"name": "ci", "role": "operator"}).json["token"]

    assert Api(client, token).schedule()["created_by"] == "token:ci"


def test_tokens_are_listed_in_pages_newest_first(api, connection):
    made = [str(tokens.create(connection, name=f"t{n}", role="viewer")[0].id) for n in range(3)]

    first = api("GET", "/tokens?limit=2").json
    second = api("GET", f"/tokens?limit=2&cursor={first['next_cursor']}").json

    assert [one["id"] for one in first["tokens"] + second["tokens"]] == made[::-1]
    assert second["next_cursor"] is None
    assert {"token", "digest"}.isdisjoint(first["tokens"][0])


def test_a_revoked_token_is_listed_but_rejected(api, client):
    made = api("POST", "/tokens", {"name": "ci", "role": "viewer"}).json

    first, again = api("POST", f"/tokens/{made['id']}/revoke"), api("POST", f"/tokens/{made['id']}/revoke")

    assert first.status_code == again.status_code == 200
    assert first.json["revoked_at"] == again.json["revoked_at"] is not None
    assert Api(client, made["token"])("GET", "/actions").status_code == 401
    assert api("GET", "/tokens").json["tokens"][0]["revoked_at"] == first.json["revoked_at"]


@pytest.mark.parametrize("token_id", [UNKNOWN, "x", "%00"])
def test_an_unknown_or_malformed_token_id_is_not_found(api, token_id):
    response = api("POST", f"/tokens/{token_id}/revoke")

    assert (response.status_code, response.json["code"]) == (404, "unknown_token")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "ci"}, "role"),
        ({"role": "viewer"}, "name"),
        ({"name": "", "role": "viewer"}, "name"),
        ({"name": "x" * 101, "role": "viewer"}, "name"),
        ({"name": "ci", "role": "root"}, "role"),
        ({"name": "ci", "role": "viewer", "team_id": ""}, "team_id"),
        ({"name": "ci", "role": "viewer", "expires_at": "2030-01-01T00:00:00"}, "expires_at"),
        ({"name": "ci", "role": "viewer", "expires_in": -1}, "expires_in"),
        ({"name": "ci", "role": "viewer", "expires_in": 1, "expires_at": "2030-01-01T00:00:00Z"}, "expires_in"),
        ({"name": "ci", "role": "viewer", "token": "my own"}, "token"),
    ],
    ids=str,
)
def test_the_error_of_an_invalid_token_request_names_the_field(api, connection, body, field):
    response = api("POST", "/tokens", body)

    assert response.status_code == 400
    assert [one["field"] for one in response.json["errors"]] == [field]
    assert connection.execute("select count(*) from scheduled_action_tokens").fetchone() == (0,)


def test_an_admin_of_a_team_manages_only_tokens_of_the_team(api, a_caller, connection):
    red = a_caller("admin", "red")
    blue_token, _ = tokens.create(connection, name="blue", role="viewer", team_id="blue")
    wide_token, _ = tokens.create(connection, name="wide", role="viewer")

    made = red("POST", "/tokens", {"name": "mine", "role": "admin"})
    other = red("POST", "/tokens", {"name": "other", "role": "viewer", "team_id": "blue"})

    assert (made.status_code, made.json["team_id"]) == (201, "red")
    assert (other.status_code, other.json["code"]) == (403, "forbidden")
    assert {one["team_id"] for one in red("GET", "/tokens").json["tokens"]} == {"red"}
    for token_id in (blue_token.id, wide_token.id, UNKNOWN):
        response = red("POST", f"/tokens/{token_id}/revoke")
        assert (response.status_code, response.json["code"]) == (404, "unknown_token")
    assert all(one["revoked_at"] is None for one in api("GET", "/tokens").json["tokens"])


def test_a_token_that_expires_in_the_past_is_expired(api, client, connection):
    past = (database_now(connection) - timedelta(seconds=1)).isoformat()

    made = api("POST", "/tokens", {"name": "ci", "role": "viewer", "expires_at": past}).json

    assert made["is_expired"] is True
    assert Api(client, made["token"])("GET", "/actions").status_code == 401


@pytest.mark.parametrize("column", ["created_at", "expires_at", "last_used_at"])
def test_a_token_with_an_infinite_instant_can_be_used_listed_and_revoked(api, client, connection, column):
    made = api("POST", "/tokens", {"name": "ci", "role": "viewer"}).json
    connection.execute(f"update scheduled_action_tokens set {column} = 'infinity'")
    own = Api(client, made["token"])

    assert own("GET", "/actions").status_code == 200
    listed = api("GET", "/tokens")
    assert (listed.status_code, listed.json["tokens"][0]["name"]) == (200, "ci")
    assert api("POST", f"/tokens/{made['id']}/revoke").status_code == 200
    assert own("GET", "/actions").status_code == 401
