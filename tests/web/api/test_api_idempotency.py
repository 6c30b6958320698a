"""Idempotency-Key: a repeated request is executed once, and gets the same response."""

from __future__ import annotations

import threading
from datetime import timedelta

import psycopg
import pytest

from tests.factories import is_waiting, move_clock, wait_until
from tests.web.conftest import ADMIN_TOKEN, Api, application

NEW = {"action_type": "test:run", "payload": {"n": 1}}
KEY = {"Idempotency-Key": "order-42"}


def count(connection):
    return connection.execute("select count(*) from scheduled_actions").fetchone()[0]


@pytest.mark.parametrize(("path", "body"), [("/actions", NEW), ("/actions/batch", {"actions": [NEW, NEW]})])
def test_a_repeated_request_gets_the_first_response_and_is_not_executed(api, connection, path, body):
    first = api("POST", path, body, headers=KEY)
    scheduled = count(connection)

    again = api("POST", path, body, headers=KEY)

    assert first.status_code == again.status_code == 201
    assert again.data == first.data
    assert again.headers.get("ETag") == first.headers.get("ETag")
    assert again.headers.get("Location") == first.headers.get("Location")
    assert (first.headers.get("Idempotent-Replayed"), again.headers.get("Idempotent-Replayed")) == (None, "true")
    assert count(connection) == scheduled


def test_a_repeated_request_without_a_key_is_executed_again(api, connection):
    api("POST", "/actions", NEW)
    api("POST", "/actions", NEW)

    assert count(connection) == 2


def test_requests_that_differ_only_in_member_order_are_the_same(client, connection):
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"} | KEY

    for body in (
        '{"action_type": "test:run", "payload": {"a": 1, "b": 2}}',
        '{"payload":{"b":2,"a":1},"action_type":"test:run"}',
    ):
        assert client.post("/api/v1/actions", data=body, headers=headers).status_code == 201

    assert count(connection) == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/actions", {**NEW, "payload": {"n": 2}}),
        ("/actions", {**NEW, "priority": 1}),
        ("/actions/batch", {"actions": [NEW]}),
    ],
)
def test_the_key_of_another_request_is_rejected(api, connection, path, body):
    api("POST", "/actions", NEW, headers=KEY)

    response = api("POST", path, body, headers=KEY)

    assert (response.status_code, response.json["code"]) == (422, "idempotency_key_reused")
    assert count(connection) == 1


def test_the_key_of_a_rejected_request_can_be_used_again(api, connection):
    refused = api("POST", "/actions", {"action_type": "test:welcome", "payload": {}}, headers=KEY)

    assert refused.status_code == 400
    assert api("POST", "/actions", NEW, headers=KEY).status_code == 201
    assert connection.execute("select count(*) from scheduled_action_idempotency_keys").fetchone() == (1,)


def test_a_key_can_be_used_again_after_a_day(api, connection):
    first = api("POST", "/actions", NEW, headers=KEY)
    move_clock(connection, timedelta(hours=23, minutes=59))
    assert api("POST", "/actions", NEW, headers=KEY).json["id"] == first.json["id"]

    move_clock(connection, timedelta(hours=24, minutes=1))

    assert api("POST", "/actions", {**NEW, "payload": {}}, headers=KEY).status_code == 201
    assert count(connection) == 2


def test_new_requests_delete_expired_keys(api, connection):
    for number in range(15):
        api("POST", "/actions", NEW, headers={"Idempotency-Key": f"old-{number}"})
    move_clock(connection, timedelta(days=2))

    for number in range(2):
        api("POST", "/actions", NEW, headers={"Idempotency-Key": f"new-{number}"})

    kept = connection.execute("select key from scheduled_action_idempotency_keys order by key").fetchall()
    assert kept == [("new-0",), ("new-1",)]


def test_teams_can_use_the_same_key_independently(api, a_caller, connection):
    red, blue = a_caller("operator", "red"), a_caller("operator", "blue")

    answers = [caller("POST", "/actions", NEW, headers=KEY) for caller in (api, red, blue)]

    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert [answer.json["team_id"] for answer in answers] == [None, "red", "blue"]
    assert red("POST", "/actions", NEW, headers=KEY).json["id"] == answers[1].json["id"]


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "é", "a\tb"])
def test_a_malformed_key_is_rejected(client, connection, key):
    response = client.post(
        "/api/v1/actions",
        json=NEW,
        headers={"Authorization": f"Bearer {ADMIN_TOKEN}"},
        environ_overrides={"HTTP_IDEMPOTENCY_KEY": key},
    )

    assert response.status_code == 400
    assert response.json["errors"][0]["field"] == "Idempotency-Key"
    assert count(connection) == 0


def test_a_viewer_cannot_replay_the_response_to_an_operator(api, a_caller):
    api("POST", "/actions", NEW, headers=KEY)

    assert a_caller("viewer")("POST", "/actions", NEW, headers=KEY).status_code == 403


def test_one_of_several_concurrent_requests_is_executed_and_all_get_its_response(a_runtime, connection):
    client = application(a_runtime(SCHEDULED_ACTIONS_HTTP_THREADS="10")).test_client()
    barrier = threading.Barrier(8)
    answers = []

    def send():
        barrier.wait(20)
        answers.append(Api(client.application.test_client(), ADMIN_TOKEN)("POST", "/actions", NEW, headers=KEY))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.data for answer in answers}) == 1
    assert count(connection) == 1


@pytest.mark.usefixtures("patient_runtime")
def test_a_second_request_waits_for_the_first_and_is_executed_if_the_first_fails(client, connection, database_url):
    answers = []

    def send():
        answers.append(Api(client, ADMIN_TOKEN)("POST", "/actions", NEW, headers=KEY).status_code)

    with psycopg.connect(database_url) as first:
        first.execute("insert into scheduled_action_idempotency_keys (scope, key, digest) values ('', 'order-42', 'x')")
        second = threading.Thread(target=send)
        second.start()
        wait_until(lambda: is_waiting(connection))
        first.rollback()
    second.join()

    assert answers == [201]


def test_a_second_request_gets_a_temporary_conflict_while_the_first_is_running(api, connection, database_url):
    with psycopg.connect(database_url) as first:
        first.execute("insert into scheduled_action_idempotency_keys (scope, key, digest) values ('', 'order-42', 'x')")
        response = api("POST", "/actions", NEW, headers=KEY)

    assert (response.status_code, response.json["code"]) == (409, "idempotency_key_in_use")
    assert int(response.headers["Retry-After"]) > 0
    assert count(connection) == 0
