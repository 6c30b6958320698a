"""Teams in the routes of actions: an id of another team gets the same response as an unknown id."""

from __future__ import annotations

from uuid import uuid4

import pytest

from scheduled_actions.core.action import Status
from scheduled_actions.operations import tokens
from scheduled_actions.web.api.dispatch import ROUTES
from tests.factories import database_now, insert

#: Bodies and queries with which the routes of an existing action make a change.
BODIES = {"PATCH": {"priority": 5, "force": True}}
QUERIES = ["", "?force=true"]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"]


@pytest.fixture
def blue_ids(connection):
    """Return the ids of the resources of team blue: an action of each status, and a token."""
    now = database_now(connection)
    ids = {}
    for status in Status:
        is_claimed = status is Status.PROCESSING
        ids[status.value] = insert(
            connection,
            team_id="blue",
            status=status,
            lock_group="shared-group",
            dedup_key=f"key-of-blue-{status}",
            completed_at=None if status in {Status.PENDING, Status.PROCESSING, Status.NO_ACTION} else now,
            claim_token=uuid4() if is_claimed else None,
            lease_expires_at=now if is_claimed else None,
        )
    ids["token"] = tokens.create(connection, name="of blue", role="viewer", team_id="blue")[0].id
    return ids


def everything(connection):
    """Return all rows that a request could have changed."""
    tables = ("scheduled_actions", "scheduled_action_tokens", "scheduled_action_idempotency_keys")
    return [
        connection.execute(f"select to_jsonb(t) - 'last_used_at' from {table} t order by 1").fetchall()
        for table in tables
    ]


def answer(caller, method, path, wanted):
    """Return the status, headers and body of a response, with its id replaced."""
    response = caller(method, path.replace("{id}", str(wanted)), BODIES.get(method))
    headers = {name: value for name, value in response.headers.items() if name != "Content-Length"}
    return response.status_code, headers, response.text.replace(str(wanted), "<id>")


def routed(path):
    """Return the methods of the routes of a path, including `HEAD`."""
    methods = {route.method for route in ROUTES if route.path == path}
    return methods | ({"HEAD"} if "GET" in methods else set())


@pytest.mark.parametrize("path", sorted({route.path for route in ROUTES if "{id}" in route.path}))
def test_an_id_of_another_team_is_indistinguishable_from_an_unknown_id(a_caller, connection, blue_ids, path):
    for role in ("viewer", "operator", "admin"):
        red = a_caller(role, "red")
        before = everything(connection)

        for method in METHODS:
            # Without a route, the query and the kind of id make no difference.
            is_routed = method in routed(path)
            ids = blue_ids if is_routed else {"pending": blue_ids["pending"]}
            for query in QUERIES if is_routed else QUERIES[:1]:
                unknown = answer(red, method, path + query, uuid4())
                for what, blue_id in ids.items():
                    assert answer(red, method, path + query, blue_id) == unknown, (role, method, query, what)

        assert everything(connection) == before


@pytest.mark.parametrize("headers", [{"If-Match": "*"}, {"If-Match": '"x"'}])
def test_if_match_reveals_nothing_about_an_action_of_another_team(a_caller, blue_ids, headers):
    red = a_caller("operator", "red")

    for method, path, body in (
        ("PATCH", "", {"force": True}),
        ("POST", "/cancel", {"force": True}),
        ("DELETE", "", None),
    ):
        for wanted in (blue_ids["pending"], uuid4()):
            response = red(method, f"/actions/{wanted}{path}", body, headers=headers)
            assert (response.status_code, response.json["code"]) == (404, "unknown_action")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?team_id=blue",
        "?team_id=unknown",
        "?status=failed",
        "?lock_group=shared-group",
        "?q=key-of-blue",
        "?q=test",
    ],
)
def test_lists_and_counts_exclude_other_teams(a_caller, connection, blue_ids, query):
    red = a_caller("viewer", "red")
    insert(connection)

    assert red("GET", f"/actions{query}").json == {"actions": [], "next_cursor": None}
    if "team_id" in query or not query:
        counts = red("GET", f"/actions/counts{query}").json
        assert counts["by_type"] == {}
        assert {value for value in counts.values() if isinstance(value, int)} == {0}


def test_a_page_after_a_cursor_has_no_rows_of_another_team(a_caller, blue_ids, connection):
    red = a_caller("viewer", "red")
    mine = insert(connection, team_id="red")

    page = red("GET", f"/actions?cursor={mine}").json

    assert page == {"actions": [], "next_cursor": None}
    assert red("GET", "/actions").json["actions"][0]["id"] == str(mine)


@pytest.mark.parametrize("filters", [{"all": True}, {"team_id": "blue"}, {"team_id": "nobody"}, {"q": "key-of-blue"}])
@pytest.mark.parametrize(
    "options", [{"path": "retry"}, {"path": "cancel", "force": True}, {"path": "retry", "dry_run": True}]
)
def test_a_bulk_change_matches_no_actions_of_another_team(a_caller, connection, blue_ids, filters, options):
    red = a_caller("operator", "red")
    before = everything(connection)
    path, others = options["path"], {name: value for name, value in options.items() if name != "path"}

    response = red("POST", f"/actions/{path}", filters | others)

    assert (response.json["matched"], response.json["changed"], response.json["more"]) == (0, 0, False)
    assert everything(connection) == before


@pytest.mark.parametrize("team_id", ["blue", "nobody"])
def test_a_bulk_change_that_names_another_team_changes_nothing(a_caller, connection, blue_ids, team_id):
    red = a_caller("operator", "red")
    insert(connection, team_id="red")
    insert(connection, team_id="red", status="failed", completed_at=database_now(connection))
    before = everything(connection)

    for path, options in (("retry", {}), ("cancel", {"force": True}), ("retry", {"dry_run": True})):
        response = red("POST", f"/actions/{path}", {"team_id": team_id} | options)
        assert (response.json["matched"], response.json["changed"]) == (0, 0)

    assert everything(connection) == before


def test_a_bulk_change_matches_all_actions_of_the_team(a_caller, connection, blue_ids):
    blue = a_caller("operator", "blue")

    assert blue("POST", "/actions/retry", {"all": True}).json["changed"] == 1
    assert blue("POST", "/actions/cancel", {"all": True, "force": True}).json["changed"] == 3


def test_a_team_can_read_and_change_its_own_actions(a_caller, blue_ids):
    blue = a_caller("operator", "blue")

    assert len(blue("GET", "/actions?team_id=blue").json["actions"]) == len(Status)
    assert blue("GET", "/actions/counts").json["failed"] == 1
    assert blue("PATCH", f"/actions/{blue_ids['pending']}?force=true", {"priority": 3}).json["priority"] == 3
    assert blue("POST", f"/actions/{blue_ids['failed']}/retry").json["status"] == "pending"
    assert blue("DELETE", f"/actions/{blue_ids['completed']}").status_code == 200


@pytest.mark.parametrize("team_id", ["blue", "nobody"])
@pytest.mark.parametrize("many", [False, True])
def test_a_team_creates_actions_only_for_itself(a_caller, connection, team_id, many):
    red = a_caller("operator", "red")
    own = {"action_type": "test:run", "payload": {}}
    other = own | {"team_id": team_id}

    refused = red("POST", "/actions/batch", {"actions": [own, other]}) if many else red("POST", "/actions", other)

    assert (refused.status_code, refused.json["code"]) == (403, "forbidden")
    assert team_id not in refused.text
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)
    assert red.schedule()["team_id"] == red.schedule(team_id="red")["team_id"] == "red"
    red("POST", "/actions/batch", {"actions": [own]})
    assert connection.execute("select distinct team_id from scheduled_actions").fetchall() == [("red",)]


def test_an_action_is_not_merged_into_an_action_of_another_team(a_caller, connection, blue_ids):
    red = a_caller("operator", "red")
    connection.execute("update scheduled_actions set dedup_open = true where id = %s", [blue_ids["pending"]])

    scheduled = red.schedule(dedup_key="key-of-blue-pending", dedup_window=3600)

    assert scheduled["deduplicated"] is False
    assert scheduled["team_id"] == "red"


def test_a_token_of_a_team_cannot_list_ticks(a_caller):
    response = a_caller("admin", "red")("GET", "/ticks")

    assert (response.status_code, response.json["code"]) == (403, "forbidden")


def test_scheduled_actions_of_another_team_are_not_listed(a_caller, connection):
    parent = insert(connection, team_id="red")
    mine = insert(connection, team_id="red", scheduled_by=parent)
    insert(connection, team_id="blue", scheduled_by=parent)

    assert [one["id"] for one in a_caller("viewer", "red")("GET", f"/actions/{parent}/scheduled").json["actions"]] == [
        str(mine)
    ]
    assert a_caller("viewer", "blue")("GET", f"/actions/{parent}/scheduled").status_code == 404
    assert len(a_caller("viewer", None)("GET", f"/actions/{parent}/scheduled").json["actions"]) == 2
