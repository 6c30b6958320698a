"""The routes `/api/v1/action-types` and `/api/v1/ticks`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import pytest

from scheduled_actions import Exponential, action
from scheduled_actions.registry import Registry
from tests.factories import CRON_SECRET, database_now
from tests.web.conftest import ADMIN_TOKEN, Api, application


@dataclass
class Order:
    number: int


@action(
    "order:ship",
    timeout_seconds=12.5,
    max_attempts=4,
    retry=Exponential(5, 50),
    dedup_window=9,
    transactional=True,
    limit="carrier:{payload.number}",
)
def ship(payload: Order):
    """Ship an order.

    This line is not part of the description.
    """


@action("order:weigh")
def weigh(payload: Missing):  # noqa: F821 - the test needs a handler that cannot be loaded
    """Weigh one."""


@pytest.fixture
def api(a_runtime):
    return Api(application(a_runtime(registry=Registry.of(weigh, ship))).test_client(), ADMIN_TOKEN)


def test_action_types_are_listed_with_handler_options_and_payload_schema(api):
    (shipping, _) = api("GET", "/action-types").json["action_types"]

    assert shipping == {
        "action_type": "order:ship",
        "description": "Ship an order.",
        "payload_schema": {
            "title": "Order",
            "type": "object",
            "properties": {"number": {"title": "Number", "type": "integer"}},
            "required": ["number"],
        },
        "timeout_seconds": 12.5,
        "max_attempts": 4,
        "retry": {"kind": "exponential", "base_seconds": 5, "cap_seconds": 50, "jitter": "none"},
        "dedup_window": 9,
        "transactional": True,
        "limit": ["carrier:{payload.number}"],
        "schedulable": True,
        "error": None,
    }


def test_an_unloadable_handler_is_listed_with_the_reason(api):
    response = api("GET", "/action-types")

    assert response.status_code == 200
    weighing = response.json["action_types"][1]
    assert weighing["action_type"] == "order:weigh"
    assert weighing["payload_schema"] is None
    assert "Missing" in weighing["error"]


def tick(connection, number, **columns):
    """Insert a tick that started `number` minutes ago; return its id as a string."""
    tick_id = UUID(int=number)
    now = database_now(connection)
    values = {
        "id": tick_id,
        "started_at": now - timedelta(minutes=number),
        "finished_at": now - timedelta(minutes=number) + timedelta(seconds=2),
        "lease_expires_at": now,
        "caller": "cron/1",
        "outcome": "finished",
        "counts": json.dumps({"processed": 3}),
    } | columns
    names = ", ".join(values)
    marks = ", ".join(["%s"] * len(values))
    connection.execute(f"insert into scheduled_action_ticks ({names}) values ({marks})", list(values.values()))
    return str(tick_id)


def test_ticks_are_listed_newest_first_with_their_lag_and_duration(api, connection):
    tick(connection, 5)
    tick(connection, 2, finished_at=None, outcome=None, running=[UUID(int=9)])

    latest, earlier = api("GET", "/ticks").json["ticks"]

    assert (latest["outcome"], latest["running"], latest["duration_seconds"]) == (None, 1, None)
    assert latest["lag_seconds"] == pytest.approx(180, abs=1)
    assert (earlier["caller"], earlier["counts"], earlier["lag_seconds"]) == ("cron/1", {"processed": 3}, None)
    assert earlier["duration_seconds"] == pytest.approx(2, abs=0.1)


def test_pages_of_ticks_are_complete_if_several_ticks_started_at_once(api, connection):
    at = database_now(connection)
    inserted = [tick(connection, number, started_at=at) for number in range(1, 6)] + [tick(connection, 6)]

    found, cursor = [], ""
    while cursor is not None:
        page = api("GET", f"/ticks?limit=2{f'&cursor={cursor}' if cursor else ''}").json
        found += [one["id"] for one in page["ticks"]]
        cursor = page["next_cursor"]

    assert found == [*inserted[4::-1], inserted[5]]


def test_a_finished_tick_is_listed(api):
    client = api.client
    report = client.post("/cron/process", headers={"x-cron-secret": CRON_SECRET, "User-Agent": "pinger"}).json

    (listed,) = api("GET", "/ticks").json["ticks"]

    assert (listed["id"], listed["caller"], listed["outcome"]) == (report["tick_id"], "pinger", "finished")


@pytest.mark.parametrize("cursor", ["x", "1", f"1_{'x' * 36}", f"{'9' * 18}_{UUID(int=1)}", f"-1_{UUID(int=1)}"])
def test_a_forged_cursor_of_ticks_is_rejected(api, cursor):
    response = api("GET", f"/ticks?cursor={cursor}")

    assert response.status_code == 400
    assert response.json["errors"][0]["field"] == "cursor"
