"""`/cron/process?executor=NAME` runs the due actions of an executor, and looks like no ping of the cron."""

from __future__ import annotations

import threading
import time

import pytest
from flask import Flask

from scheduled_actions import ScheduledActions, action
from scheduled_actions.operations.doctor import service as doctor
from tests.factories import CRON_SECRET, PATIENCE, insert, insert_many, row, statuses, wait_until

FIELDS = {
    "success", "processed", "succeeded", "failed", "retried", "snoozed", "skipped", "rescued", "pruned", "remaining",
    "more", "busy", "errors", "duration_ms", "tick_id",
}  # fmt: skip
OPEN = {"x-cron-secret": CRON_SECRET}


@action("video:cut")
def cut(payload: dict):
    """Take as long as the payload says."""
    time.sleep(payload.get("seconds", 0))


@action("video:render", timeout_seconds=600)
def render(payload: dict):
    """Take longer than a ping may."""


@action("email:send")
def send(payload: dict): ...


@pytest.fixture
def project(a_project):
    return a_project(cut, render, send)


def client_of(project):
    app = Flask("scheduled_actions")
    ScheduledActions(app, runtime=project)
    return app.test_client()


@pytest.fixture
def client(project):
    return client_of(project)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("route", ["/cron/process", "/api/v1/cron/process"])
def test_a_ping_runs_the_actions_of_the_executor_only(client, connection, route, method):
    mine = insert(connection, action_type="video:cut")
    other = insert(connection, action_type="email:send")

    response = client.open(f"{route}?executor=media", method=method, headers=OPEN)

    assert response.status_code == 200
    assert set(response.json) == FIELDS
    assert (response.json["processed"], response.json["succeeded"], response.json["remaining"]) == (1, 1, 0)
    assert response.json["tick_id"] is None
    assert statuses(connection) == {mine: "completed", other: "pending"}


def test_an_ordinary_ping_runs_no_actions_of_an_executor(client, connection):
    mine = insert(connection, action_type="video:cut")
    other = insert(connection, action_type="email:send")

    response = client.get("/cron/process", headers=OPEN)

    assert response.json["processed"] == 1
    assert statuses(connection) == {mine: "pending", other: "completed"}


def test_a_ping_is_neither_a_tick_nor_reported_to_the_heartbeat(project, client, connection, monkeypatch):
    insert(connection, action_type="video:cut")
    beats = []
    monkeypatch.setattr(project, "_beat", lambda **outcome: beats.append(outcome))

    client.get("/cron/process?executor=media", headers=OPEN)

    assert connection.execute("select count(*) from scheduled_action_ticks").fetchone() == (0,)
    assert beats == []
    assert "processor" not in project.__dict__
    [check] = [one for one in doctor.diagnose(project) if one.name == "ticks"]
    assert "nothing has called /cron/process yet" in check.detail


def test_a_second_executor_is_a_problem_and_runs_nothing(client, connection):
    one = insert(connection, action_type="video:cut")

    response = client.get("/cron/process?executor=media&executor=other", headers=OPEN)

    assert (response.status_code, response.json["code"]) == (400, "invalid_argument")
    assert response.json["detail"] == "executor is given more than once: ping each executor by itself"
    assert statuses(connection) == {one: "pending"}


@pytest.mark.parametrize("name", ["medai", ""])
def test_an_unknown_executor_is_a_problem_and_runs_nothing(client, connection, name):
    other = insert(connection, action_type="email:send")

    response = client.get(f"/cron/process?executor={name}", headers=OPEN)

    assert (response.status_code, response.json["code"]) == (422, "unknown_executor")
    assert "  " not in response.json["detail"]
    assert "media" in response.json["detail"]
    assert statuses(connection) == {other: "pending"}


def test_the_secret_is_checked_before_the_name(client):
    response = client.get("/cron/process?executor=medai")

    assert response.status_code == 401


def test_a_second_ping_is_busy_while_one_of_the_executor_runs_but_an_ordinary_one_is_not(project, client, connection):
    insert(connection, action_type="video:cut", payload={"seconds": 1.5})
    first = threading.Thread(target=lambda: client_of(project).get("/cron/process?executor=media", headers=OPEN))
    first.start()
    wait_until(lambda: "processing" in statuses(connection).values())

    second = client.get("/cron/process?executor=media", headers=OPEN)
    ordinary = client.get("/cron/process", headers=OPEN)
    first.join(PATIENCE)

    assert (second.status_code, second.json["busy"]) == (200, True)
    assert ordinary.json["busy"] is False
    assert set(statuses(connection).values()) == {"completed"}


def test_a_ping_ends_in_time_and_leaves_the_rest_uncharged(a_project, connection):
    project = a_project(cut, concurrency=1, max_duration_seconds=3, max_run_seconds=1, default_timeout_seconds=1)
    ids = insert_many(connection, 20, action_type="video:cut", payload={"seconds": 0.3})

    response = client_of(project).get("/cron/process?executor=media", headers=OPEN)

    left = [row(connection, one) for one in ids if statuses(connection)[one] == "pending"]
    assert response.json["duration_ms"] < 3000
    assert response.json["succeeded"] + len(left) == len(ids)
    assert (response.json["remaining"], response.json["more"]) == (len(left), True)
    assert {one["attempts"] for one in left} == {0}


def test_an_action_that_does_not_fit_into_a_ping_is_reported_once_and_left_to_a_worker(client, connection):
    ids = insert_many(connection, 3, action_type="video:render")

    response = client.get("/cron/process?executor=media", headers=OPEN)

    assert (response.json["processed"], response.json["remaining"], response.json["more"]) == (0, 0, False)
    [error] = response.json["errors"]
    assert error["error"] == (
        "left to a worker (`scheduled-actions executors work`): its timeout of 600 s does not fit into a ping of 55 s"
    )
    assert {(row(connection, one)["status"], row(connection, one)["attempts"]) for one in ids} == {("pending", 0)}


def test_actions_that_a_ping_can_run_later_remain_beside_one_that_it_never_can(a_project, connection):
    limits = {"max_duration_seconds": 3, "max_run_seconds": 1, "default_timeout_seconds": 1}
    project = a_project(cut, render, concurrency=1, **limits)
    insert(connection, action_type="video:render", priority=-1)
    insert_many(connection, 20, action_type="video:cut", payload={"seconds": 0.3})

    response = client_of(project).get("/cron/process?executor=media", headers=OPEN)

    assert response.json["succeeded"] > 0
    assert (response.json["remaining"], response.json["more"]) == (20 - response.json["succeeded"], True)


def test_nothing_runs_while_the_settings_disable_processing(a_project, connection):
    insert(connection, action_type="video:cut")
    client = client_of(a_project(cut, enabled=False))

    response = client.get("/cron/process?executor=media", headers=OPEN)

    assert (response.status_code, response.json["enabled"]) == (200, False)
    assert set(statuses(connection).values()) == {"pending"}


def test_a_stopped_process_answers_busy(project, client, connection):
    insert(connection, action_type="video:cut")
    project.executors.stop()

    response = client.get("/cron/process?executor=media", headers=OPEN)

    assert (response.json["busy"], response.json["remaining"]) == (True, 1)
    assert set(statuses(connection).values()) == {"pending"}
