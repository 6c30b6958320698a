"""`GET /api/v1/limits`."""

from __future__ import annotations

from tests.limits.test_claims import claim, limits, schedule


def test_a_team_lists_its_own_keys_without_numbers_of_other_teams(api, a_caller, connection):
    limits(connection, {"all:*": {"at_once": 1, "across_teams": True}, "own:*": {"at_once": 2}})
    for team in ("red", "blue"):
        schedule(connection, "all:x", count=2, team_id=team)
        schedule(connection, "own:x", count=3, team_id=team)
    claim(connection)

    red = a_caller("viewer", "red")
    own = red("GET", "/limits").json["limits"]
    everything = api("GET", "/limits").json["limits"]

    assert [(one["limit_key"], one["team_id"], one["in_use"], one["waiting"]) for one in own] == [
        ("all:x", None, None, own[0]["waiting"]), ("own:x", "red", 2, 1),
    ]  # fmt: skip
    assert own[0]["waiting"] in {1, 2}
    assert [(one["limit_key"], one["team_id"], one["in_use"], one["waiting"]) for one in everything] == [
        ("all:x", None, 1, 3), ("own:x", "blue", 2, 1), ("own:x", "red", 2, 1),
    ]  # fmt: skip
    assert red("GET", "/limits?team_id=blue").json == {"limits": [], "next_cursor": None}
    assert api("GET", "/limits?prefix=own&team_id=blue").json["limits"] == everything[1:2]


def test_invalid_filters_of_the_list_are_rejected_by_name(api):
    for query in ("cursor=x", "prefix=", "limit=0", f"prefix={'x' * 256}"):
        response = api("GET", f"/limits?{query}")

        assert response.status_code == 400, query
        assert query.partition("=")[0] in response.text
