"""Under gunicorn, requests that wait for a locked row leave threads to health checks and pings."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import closing

import psycopg
import pytest

from tests.factories import insert

pytestmark = pytest.mark.slow

ADMIN_TOKEN = "an-admin-token-of-tests"
PRESSES = 12
#: Maximum time of an answer in seconds, also on a busy machine.
SOON = 4.0


def ask(port, method, path):
    began = time.monotonic()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Connection": "close"}
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        body = response.read()
    return response.status, json.loads(body).get("code"), response.getheader("Retry-After"), time.monotonic() - began


def test_twelve_requests_for_a_locked_row_block_neither_health_checks_nor_ticks(serve, actions, database_url):
    # The eight threads of gunicorn are the limit, not the setting.
    service = serve(environ={"ADMIN_TOKEN": ADMIN_TOKEN}, http_threads=100)
    action_id = insert(actions.connection, action_type="proof:work", scheduled_at="2099-01-01")
    ask(service.port, "GET", "/api/v1/actions")
    answers = []

    def request_run():
        answers.append(ask(service.port, "POST", f"/api/v1/actions/{action_id}/run"))

    with psycopg.connect(database_url) as holder:
        holder.execute("select from scheduled_actions for update")
        presses = [threading.Thread(target=request_run) for _ in range(PRESSES)]
        for one in presses:
            one.start()
        health, ping = ask(service.port, "GET", "/healthz"), service.ping()
        for one in presses:
            one.join()

    assert (health[0], ping.status) == (200, 200)
    assert health[-1] < SOON
    codes = [code for _, code, *_ in answers]
    assert set(codes) == {"row_locked", "too_busy"}, codes
    assert {status for status, *_ in answers} == {409, 503}
    assert all(int(retry_after) > 0 for *_, retry_after, _ in answers)
    assert max(seconds for *_, seconds in answers) < SOON
