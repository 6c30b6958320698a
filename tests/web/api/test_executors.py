"""`GET /api/v1/executors`."""

from __future__ import annotations

import pytest

from scheduled_actions.core import config
from scheduled_actions.executors import store
from tests.executors.test_service import write
from tests.factories import insert


@pytest.fixture
def media(connection):
    """Store an executor `media`, as `migrate` does."""
    settings = config.settings_of({"executors": {"media": {"types": ["video:*"]}}})
    store.write_executors(connection, settings.executors, replace=True)


@pytest.mark.usefixtures("media")
def test_executors_are_listed_with_their_queues_and_workers(api, connection):
    insert(connection, action_type="video:cut", team_id="red")
    write(connection, "render-1:7")

    [one] = api("GET", "/executors").json["executors"]
    [worker] = one.pop("seen_workers")

    assert {name: value for name, value in one.items() if not name.endswith("_at")} == {
        "name": "media", "types": ["video:*"], "carrier": "postgres", "untaken": 0,
        "due": 1, "queued": 0, "running": 0, "workers": 1, "is_attended": True,
    }  # fmt: skip
    assert one["last_taken_at"] is None
    assert one["oldest_due_at"].endswith("Z")
    assert {name: value for name, value in worker.items() if name not in {"started_at", "seen_at"}} == {
        "name": "render-1:7", "concurrency": 4, "running": 0, "last_taken_at": None,
    }  # fmt: skip
    assert one["last_seen_at"] == worker["seen_at"]


@pytest.mark.usefixtures("media")
def test_a_token_of_a_team_cannot_list_executors(a_caller):
    response = a_caller("admin", "red")("GET", "/executors")

    assert (response.status_code, response.json["code"]) == (403, "forbidden")
    assert [one["name"] for one in a_caller("viewer")("GET", "/executors").json["executors"]] == ["media"]


def test_without_executors_the_list_is_empty(api):
    assert api("GET", "/executors").json == {"executors": []}
