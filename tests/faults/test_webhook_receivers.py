"""Deliveries of events to two real receivers, one of which is down at first."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest

from tests.factories import database_now, set_clock
from tests.faults.receiver import Receiver, a_secret
from tests.faults.serving import a_port

pytestmark = pytest.mark.slow

EVENTS = 10
SETTINGS = """
[webhooks.endpoints.good]
env_var = "GOOD_URL"
secret_env_var = "GOOD_SECRET"
patterns = ["task:*"]

[webhooks.endpoints.down]
env_var = "DOWN_URL"
secret_env_var = "DOWN_SECRET"
patterns = ["*:created"]
"""
EMIT = """
from scheduled_actions import emit_event
for number in range({count}):
    emit_event("task:created", entity_id=f"t{{number}}", data={{"name": "Grüße €", "number": number}})
"""
#: Maximum delay after the first failure in the delivery's retry policy.
FIRST_DELAY = timedelta(seconds=5)


def test_a_working_endpoint_gets_each_event_once_and_a_failed_one_when_it_recovers(serve, actions, project, environ):
    good, down = (Receiver(a_port(), a_secret()) for _ in range(2))
    (project / "scheduled_actions.toml").write_text(SETTINGS, encoding="utf-8")
    endpoint_environ = {
        "GOOD_URL": good.url,
        "GOOD_SECRET": good.secret,
        "DOWN_URL": down.url,
        "DOWN_SECRET": down.secret,
    }
    service = serve(workers=2, environ=endpoint_environ)

    with good.listening():
        _emit(environ | endpoint_environ)
        # However long the tick takes, no second attempt is due in it.
        now = database_now(actions.connection)
        set_clock(actions.connection, now)
        first = service.ping().report
        while_down = actions.all()
        set_clock(actions.connection, now + FIRST_DELAY)
        with down.listening():
            second = service.ping().report
            third = service.ping().report

    assert (good.refused, down.refused) == ([], [])
    # The events and their deliveries, half of which failed at first.
    assert (first["succeeded"], first["retried"], first["failed"]) == (2 * EVENTS, EVENTS, 0)
    assert (second["succeeded"], third["processed"]) == (EVENTS, 0)
    for receiver in (good, down):
        assert [content["entity_id"] for _, content in sorted(receiver.received, key=_entity)] == [
            f"t{number}" for number in range(EVENTS)
        ]
        assert all(
            content["event"] == "task:created" and content["data"]["name"] == "Grüße €"
            for _, content in receiver.received
        )
    ids = [message_id for message_id, _ in good.received + down.received]
    assert len(set(ids)) == 2 * EVENTS, "each delivery has a different id"
    waited = [row for row in while_down if row["status"] == "pending"]
    assert {str(row["id"]) for row in waited} == {message_id for message_id, _ in down.received}
    assert all(row["attempts"] == 1 and "refused the connection" in row["error_message"] for row in waited)
    assert actions.statuses() == {"completed": 3 * EVENTS}
    of_one_event = {content["action_id"] for _, content in good.received}
    assert of_one_event == {content["action_id"] for _, content in down.received}


def test_a_slow_endpoint_gets_every_delivery_in_the_first_tick_of_a_process(serve, actions, project, environ):
    good = Receiver(a_port(), a_secret(), delay_seconds=0.8)
    (project / "scheduled_actions.toml").write_text(
        SETTINGS.partition("[webhooks.endpoints.down]")[0], encoding="utf-8"
    )
    endpoint_environ = {"GOOD_URL": good.url, "GOOD_SECRET": good.secret}
    service = serve(environ=endpoint_environ)
    _emit(environ | endpoint_environ)

    with good.listening():
        service.ping()

    assert len(good.received) == EVENTS
    assert actions.statuses() == {"completed": 2 * EVENTS}


def _emit(environ):
    subprocess.run([sys.executable, "-c", EMIT.format(count=EVENTS)], env=environ, check=True, timeout=120)


def _entity(received):
    return received[1]["entity_id"]
