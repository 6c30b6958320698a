"""The test kit captures mails, notices, webhooks, HTTP conditions and heartbeats instead of sending them."""

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
    """Listen on a local port; return it and the list of accepted connections."""
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

        server.settimeout(0)


def test_mails_are_captured_and_not_sent(create_kit, listener):
    port, connections = listener
    kit = create_kit(email.send_email, toml=f'[email]\nhost = "127.0.0.1"\nport = {port}\n')
    schedule_action("email:send", {"to": "ada@example.org", "subject": "Your invoice", "text": "It is attached."})

    (settled,) = kit.run_due()

    assert (settled.status, connections) == ("completed", [])
    (mail,) = kit.mails
    assert (mail["To"], mail["Subject"]) == ("ada@example.org", "Your invoice")
    assert mail.get_content().strip() == "It is attached."


@pytest.mark.parametrize("channel", ["json://127.0.0.1:{}/hook", "http://127.0.0.1:{}/hook"])
def test_notices_to_services_and_webhooks_are_captured_and_not_sent(create_kit, listener, channel):
    port, connections = listener
    address = channel.format(port)
    kit = create_kit(notification.send, toml='[notifications.channels]\nops = "OPS_URL"\n', OPS_URL=address)
    notify("ops", "The disk is full", subject="Disk")

    (settled,) = kit.run_due()

    assert (settled.status, connections) == ("completed", [])
    (notice,) = kit.notices
    assert (notice.address, notice.subject, notice.text) == (address, "Disk", "The disk is full")


def test_http_conditions_receive_the_prepared_response(create_kit, listener):
    port, connections = listener
    url = f"http://127.0.0.1:{port}/stock"
    kit = create_kit(run, toml='[conditions]\nprivate_networks = ["127.0.0.0/8"]\n')
    condition = {"kind": "http", "url": url, "pointer": "/left", "op": "gt", "value": 3}

    def run_once():
        schedule_action("test:run", {}, condition=condition)
        (settled,) = kit.run_due()
        return settled.status, settled.error_message

    status, message = run_once()
    assert status == "pending"
    assert f"127.0.0.1:{port} did not answer" in message
    kit.answer_get(url, {"left": 2})
    assert run_once()[0] == "skipped"
    kit.answer_get(url, {"left": 5})
    assert run_once()[0] == "completed"
    assert connections == []


def test_heartbeats_are_not_sent(create_kit, listener):
    port, connections = listener
    kit = create_kit(run, SCHEDULED_ACTIONS_HEARTBEAT_URL=f"http://127.0.0.1:{port}/beat")

    kit.run_due()

    assert not kit.runtime.heartbeat_url
    assert connections == []


def test_webhooks_and_notices_are_distinguished(create_kit):
    toml = '[webhooks.endpoints.crm]\nenv_var = "CRM_URL"\n[notifications.channels]\nops = "OPS_URL"\n'
    kit = create_kit(webhook.send, notification.send, toml=toml, OPS_URL="https://hooks.example/ops")
    emit_event("task:created", entity_id="1", data={})
    notify("ops", "Hello")

    kit.run_due()

    assert [delivery.event for delivery in kit.webhooks] == ["task:created"]
    assert [notice.text for notice in kit.notices] == ["Hello"]
    assert json.loads(kit.webhooks[0].body)["entity_id"] == "1"
