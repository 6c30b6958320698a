"""Nothing that a test of an application does reaches the network, whichever way it would go."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import closing

import pytest

from handlers import email, notification, webhook
from scheduled_actions import action, emit_event, notify, schedule_action


@action("test:run")
def run(payload: dict): ...


@pytest.fixture
def listener():
    """Give a socket on this machine, and the connections that it was asked for."""
    connections = []
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def accept():
            try:
                while True:
                    connection, _ = server.accept()
                    connections.append(connection)
                    connection.close()
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], connections
        # Whatever was sent before is in the queue before this one.
        server.settimeout(0)


def test_mails_are_kept_and_not_sent(a_kit, listener):
    port, connections = listener
    kit = a_kit(email.send_email, toml=f'[email]\nhost = "127.0.0.1"\nport = {port}\n')
    schedule_action("email:send", {"to": "ada@example.org", "subject": "Your invoice", "text": "It is attached."})

    (settled,) = kit.run_due()

    assert (settled.status, connections) == ("completed", [])
    (mail,) = kit.mails
    assert (mail["To"], mail["Subject"]) == ("ada@example.org", "Your invoice")
    assert mail.get_content().strip() == "It is attached."


@pytest.mark.parametrize("channel", ["json://127.0.0.1:{}/hook", "http://127.0.0.1:{}/hook"])
def test_notices_to_services_and_webhooks_are_kept_and_not_sent(a_kit, listener, channel):
    port, connections = listener
    address = channel.format(port)
    kit = a_kit(notification.send, toml='[notifications.channels]\nops = "OPS_URL"\n', OPS_URL=address)
    notify("ops", "The disk is full", subject="Disk")

    (settled,) = kit.run_due()

    assert (settled.status, connections) == ("completed", [])
    (notice,) = kit.notices
    assert (notice.address, notice.subject, notice.text) == (address, "Disk", "The disk is full")


def test_http_conditions_ask_nobody_and_get_the_answer_of_the_test(a_kit, listener):
    port, connections = listener
    url = f"http://127.0.0.1:{port}/stock"
    kit = a_kit(run, toml='[conditions]\nprivate_networks = ["127.0.0.0/8"]\n')
    condition = {"kind": "http", "url": url, "pointer": "/left", "op": "gt", "value": 3}

    def runs():
        schedule_action("test:run", {}, condition=condition)
        (settled,) = kit.run_due()
        return settled.status, settled.error_message

    status, told = runs()
    assert status == "pending"
    assert f"127.0.0.1:{port} did not answer" in told
    kit.answer_get(url, {"left": 2})
    assert runs()[0] == "skipped"
    kit.answer_get(url, {"left": 5})
    assert runs()[0] == "completed"
    assert connections == []


def test_heartbeats_are_not_sent(a_kit, listener):
    port, connections = listener
    kit = a_kit(run, SCHEDULED_ACTIONS_HEARTBEAT_URL=f"http://127.0.0.1:{port}/beat")

    kit.run_due()

    assert not kit.runtime.has_heartbeat
    assert connections == []


def test_webhooks_and_notices_are_told_apart(a_kit):
    toml = '[webhooks.endpoints.crm]\nenv_var = "CRM_URL"\n[notifications.channels]\nops = "OPS_URL"\n'
    kit = a_kit(webhook.send, notification.send, toml=toml, OPS_URL="https://hooks.example/ops")
    emit_event("task:created", entity_id="1", data={})
    notify("ops", "Hello")

    kit.run_due()

    assert [one.event for one in kit.webhooks] == ["task:created"]
    assert [one.text for one in kit.notices] == ["Hello"]
    assert json.loads(kit.webhooks[0].body)["entity_id"] == "1"
