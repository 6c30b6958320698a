"""The SQL function `emit_event` stores the action that Python's `emit_event` stores, and refuses the same arguments."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.types.json import Jsonb

import scheduled_actions
from scheduled_actions.core.errors import RequestError
from tests.webhooks.webhook_project import webhook_project


def emit(connection, event="order:paid", entity_id="7", data=None, **optional):
    options = "".join(f", {name} => %({name})s" for name in optional)
    return connection.execute(
        f"select id, deduplicated from emit_event(%(event)s, %(entity_id)s, %(data)s{options})",
        {"event": event, "entity_id": entity_id, "data": data or Jsonb({"total": 5}), **optional},
    ).fetchone()


def actions_of(connection):
    return connection.execute(
        "select action_type, payload, team_id, priority, dedup_event from scheduled_actions order by id"
    ).fetchall()


@pytest.mark.parametrize(
    "optional", [{}, {"team_id": "blue"}, {"endpoint": "0197a000-0000-7000-8000-000000000001"}], ids=str
)
def test_sql_and_python_store_the_same_action(connection, tmp_path, database_url, optional):
    with webhook_project(tmp_path, database_url):
        scheduled_actions.emit_event("order:paid:late", entity_id="7", data={"total": 5}, **optional)
    connection.execute("update scheduled_actions set dedup_open = false")

    emit(connection, "order:paid:late", **optional)

    by_python, by_sql = actions_of(connection)
    assert by_sql == by_python


def test_an_event_that_is_pending_only_gets_the_new_data(connection):
    first, was_merged = emit(connection)

    assert emit(connection, data=Jsonb({"total": 6})) == (first, True)
    assert not was_merged
    assert [payload["data"] for _, payload, *_ in actions_of(connection)] == [{"total": 6}]


def test_any_json_value_can_be_the_data_of_an_event(connection):
    for entity_id, data in enumerate([None, 5, [1], "text"]):
        emit(connection, entity_id=str(entity_id), data=Jsonb(data))

    assert [payload["data"] for _, payload, *_ in actions_of(connection)] == [None, 5, [1], "text"]


def test_a_rolled_back_transaction_emits_no_event(connection):
    with connection.transaction(force_rollback=True):
        emit(connection)

    assert actions_of(connection) == []


NOT_EVENTS = ["paid", ":paid", "::paid", "order:", "", "or\nder:paid", "order:pa\nid", "o:" + "x" * 199]


@pytest.mark.parametrize("event", NOT_EVENTS)
def test_sql_and_python_refuse_the_same_events_with_the_same_text(connection, tmp_path, database_url, event):
    with pytest.raises(psycopg.errors.InvalidParameterValue) as by_sql:
        emit(connection, event)
    with webhook_project(tmp_path, database_url), pytest.raises(RequestError) as by_python:
        scheduled_actions.emit_event(event, entity_id="7", data={})

    (expected,) = str(by_python.value).splitlines()
    assert by_sql.value.diag.message_primary.partition(" is not ")[2] == expected.partition(" is not ")[2]
    assert by_sql.value.diag.message_primary.startswith("event: ")
    assert actions_of(connection) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("null, '7', '{}'", "event: NULL is not an event such as task:created"),
        ("'order:paid', null, '{}'", "entity_id: must have 1 to 500 characters"),
        ("'order:paid', '', '{}'", "entity_id: must have 1 to 500 characters"),
        ("'order:paid', repeat('7', 501), '{}'", "entity_id: must have 1 to 500 characters"),
        ("'order:paid', '7', null", "data: must be a JSON value, not an SQL null"),
        ("'order:paid', '7', '{}', endpoint => ''", "endpoint: must have 1 to 100 characters"),
        ("'order:paid', '7', '{}', team_id => ''", "team_id: must have 1 to 255 characters"),
        ("'order:paid', '7', to_jsonb(repeat('x', 262144))", "payload is 262"),
    ],
)
def test_sql_refuses_an_invalid_argument_of_an_event_by_its_name(connection, arguments, message):
    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        connection.execute(f"select emit_event({arguments})")

    assert caught.value.diag.message_primary.startswith(message)
    assert actions_of(connection) == []
