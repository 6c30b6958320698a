"""Requests for locked rows, and requests to a process without a free thread, get a response within seconds."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest

from handlers import deadline as own
from scheduled_actions.operations.request_threads import RequestThreads, threads_of_gunicorn
from scheduled_actions.registry import Registry
from tests.factories import CRON_SECRET, database_now
from tests.web.conftest import ADMIN_TOKEN, Api, application, run

#: Seconds: the documented limit is two; a busy machine needs longer.
SOON = 5.0
DEADLINE = {"target": {"type": "license", "id": "42"}, "name": "renewal", "recipients": ["ann@example.org"]}


@pytest.fixture
def runtime(a_runtime):
    handlers = (run, own.send_reminder, own.send_escalation, own.mark_missed, own.create_next)
    return a_runtime(registry=Registry.of(*handlers), SCHEDULED_ACTIONS_HTTP_THREADS="20")


@pytest.fixture
def locked(api, connection, database_url):
    """Yield the ids of a pending and a failed action, a schedule and a deadline; another session locks their rows."""
    due_at = database_now(connection) + timedelta(days=9)
    ids = {
        "action": api.schedule(delay="P1D")["id"],
        "failed": api.schedule(delay="P1D", payload={"n": 2})["id"],
        "schedule": api("POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": "daily"}).json[
            "id"
        ],
        "deadline": api("POST", "/deadlines", {**DEADLINE, "due_at": due_at.isoformat()}).json["id"],
    }
    connection.execute(
        "update scheduled_actions set status = 'failed', completed_at = now() where id = %s", [ids["failed"]]
    )
    with psycopg.connect(database_url) as holder:
        holder.execute("select from scheduled_actions for update")
        holder.execute("select from scheduled_action_schedules for update")
        holder.execute("select from scheduled_action_deadlines for update")
        yield ids


CHANGES = [
    ("POST", "/actions/{action}/run", None),
    ("PATCH", "/actions/{action}", {"priority": 3}),
    ("POST", "/actions/{action}/cancel", None),
    ("POST", "/actions/{failed}/retry", None),
    ("POST", "/schedules/{schedule}/pause", {}),
    ("PATCH", "/schedules/{schedule}", {"recurrence": "hourly"}),
    ("DELETE", "/schedules/{schedule}", None),
    ("POST", "/deadlines/{deadline}/complete", {}),
    ("PATCH", "/deadlines/{deadline}", {"reminders": ["1 day before"]}),
]


def test_changes_of_locked_rows_return_a_conflict_within_seconds(api, locked):
    def change(one):
        method, path, body = one
        began = time.monotonic()
        return api(method, path.format(**locked), body), time.monotonic() - began

    with ThreadPoolExecutor(len(CHANGES)) as pool:
        answers = list(pool.map(change, CHANGES))

    assert {(response.status_code, response.json["code"]) for response, _ in answers} == {(409, "row_locked")}
    assert all("another session" in response.json["detail"] for response, _ in answers)
    assert all(int(response.headers["Retry-After"]) > 0 for response, _ in answers)
    assert max(seconds for _, seconds in answers) < SOON


def test_explain_names_the_process_that_locks_a_row(api, connection, database_url):
    action_id = api.schedule()["id"]
    connection.execute(
        "insert into scheduled_action_ticks (id, started_at, lease_expires_at)"
        " values (gen_random_uuid(), now(), now() + interval '1 minute')"
    )
    with psycopg.connect(database_url) as holder:
        holder.execute("select from scheduled_actions for update")
        found = api("GET", f"/actions/{action_id}/explain").json

        assert found["code"] == "row_locked"
        assert found["details"]["locked_by"] == holder.info.backend_pid
        assert re.search(rf"process {holder.info.backend_pid}\) has locked its row for \d+ seconds?", found["sentence"])
        assert str(holder.info.backend_pid) in found["remedy"]
    assert api("GET", f"/actions/{action_id}/explain").json["code"] != "row_locked"


def test_explain_names_the_process_that_locks_the_row_of_an_action_that_is_not_due(api, locked):
    found = api("GET", f"/actions/{locked['action']}/explain").json

    assert found["code"] == "not_due"
    assert found["details"]["locked_by"] > 0
    assert found["details"]["locked_since"] is not None


def test_a_bulk_change_skips_locked_rows_within_seconds(api, connection, database_url):
    ids = [api.schedule(delay="P1D", payload={"n": n})["id"] for n in range(12)]
    with psycopg.connect(database_url) as holder:
        holder.execute("select from scheduled_actions where id <> %s for update", [ids[5]])
        began = time.monotonic()
        response = api("POST", "/actions/cancel", {"action_type": "test:run"})

    assert time.monotonic() - began < SOON
    assert response.json["changed"] == 1, response.text


def test_requests_beyond_the_thread_limit_are_rejected_while_health_and_cron_respond(a_runtime):
    runtime = a_runtime(SCHEDULED_ACTIONS_HTTP_THREADS="4")
    client = application(runtime).test_client()
    api = Api(client, ADMIN_TOKEN)
    address = api("POST", "/calendar/feeds", {"name": "Work"}).json["path"]
    threads = runtime.request_threads
    with threads.one(), threads.one():
        refused = [
            api("GET", "/actions"),
            client.get("/dashboard/login"),
            client.get("/metrics", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}),
            client.get(address),
        ]
        health = client.get("/healthz")
        cron = client.post("/cron/process", headers={"x-cron-secret": CRON_SECRET})

    assert [one.status_code for one in refused] == [503, 503, 503, 503]
    assert all(int(one.headers["Retry-After"]) > 0 for one in refused)
    assert refused[0].json["code"] == "too_busy"
    assert (health.status_code, cron.status_code) == (200, 200)
    assert api("GET", "/actions").status_code == 200


@pytest.mark.parametrize(("http_threads", "limit"), [(1, 1), (2, 1), (3, 1), (4, 2), (8, 6), (64, 62)])
def test_two_threads_are_reserved_for_health_and_cron(http_threads, limit):
    assert RequestThreads(http_threads).limit == limit


def test_the_setting_determines_the_thread_limit_without_gunicorn(a_runtime):
    assert threads_of_gunicorn() is None
    assert a_runtime().request_threads.limit == 6
