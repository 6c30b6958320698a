"""Two consumers receive exactly the committed changes of a watched table; the fifo endpoint receives them in order."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.factories import move_clock, together
from tests.faults.receiver import Receiver, a_secret
from tests.faults.serving import a_port
from tests.webhooks.webhook_project import webhook_project

TOML = """
[webhooks.endpoints.audit]
env_var = "AUDIT_URL"
secret_env_var = "AUDIT_SECRET"
patterns = ["task:*"]

[webhooks.endpoints.crm]
env_var = "CRM_URL"
secret_env_var = "CRM_SECRET"
patterns = ["task:updated", "task:deleted"]
ordering = "fifo"
"""
WRITERS = 4
ROUNDS = 6


@pytest.fixture
def consumers():
    """Return two receivers; the second rejects the first delivery of each entity, which later ones could overtake."""
    return Receiver(a_port(), a_secret()), Receiver(a_port(), a_secret(), fails_first=True)


@pytest.fixture
def project(tmp_path, database_url, consumers):
    audit, crm = consumers
    with (
        webhook_project(
            tmp_path, database_url, toml=TOML,
            AUDIT_URL=audit.url, AUDIT_SECRET=audit.secret, CRM_URL=crm.url, CRM_SECRET=crm.secret,
        ) as project,
        audit.listening(),
        crm.listening(),
    ):  # fmt: skip
        yield project


def deliver_everything(project, connection):
    """Move the clock minute by minute, and tick while actions are due, until no delivery is pending."""
    for minute in range(1, 60):
        while project.processor.tick().processed:
            pass
        if not connection.execute("select from webhook_deliveries where status = 'pending'").fetchall():
            return
        move_clock(connection, timedelta(minutes=minute))
    pytest.fail("some deliveries are still pending after an hour")


def change_tasks(connection, number):
    """Insert, update and delete rows, two of them shared by all writers; roll back every third transaction."""
    for step in range(ROUNDS):
        own = 100 * (number + 1) + step
        with connection.transaction(force_rollback=step % 3 == 2):
            connection.execute("insert into tasks values (%s, 'new')", [own])
            connection.execute("update tasks set title = %s where id = %s", [f"{number}.{step}", step % 2 + 1])
            connection.execute("update tasks set title = title where id = %s", [own])
            connection.execute("delete from tasks where id = %s and id %% 2 = 0", [own])


def test_two_consumers_get_exactly_the_committed_changes_and_one_in_order(project, consumers, connection, database_url):
    connection.execute("create table tasks (id int primary key, title text)")
    project.processor.tick()  # This tick stores in the database which endpoints require order.
    connection.execute("select scheduled_actions_watch('tasks', 'task')")
    connection.execute("insert into tasks values (1, 'start'), (2, 'start')")

    together(database_url, WRITERS, change_tasks)
    deliver_everything(project, connection)

    audit, crm = ([content for _, content in consumer.received] for consumer in consumers)
    assert [consumer.refused for consumer in consumers] == [[], []]
    committed = [step for step in range(ROUNDS) if step % 3 != 2]
    own = {(number + 1) * 100 + step for number in range(WRITERS) for step in committed}
    deleted = {one for one in own if one % 2 == 0}
    assert ids(audit, "task:created") == sorted([1, 2, *own])
    assert ids(audit, "task:deleted") == ids(crm, "task:deleted") == sorted(deleted)
    assert ids(audit, "task:updated") == ids(crm, "task:updated")
    assert len(ids(crm, "task:updated")) == WRITERS * len(committed)
    assert {"1", "2"} <= consumers[1].failed_first
    for entity in ("1", "2"):
        updates = [one["data"] for one in crm if one["entity_id"] == entity]
        before = ["start", *(update["record"]["title"] for update in updates)]
        assert [update["previous"]["title"] for update in updates] == before[:-1]


def ids(contents, event):
    return sorted(int(content["entity_id"]) for content in contents if content["event"] == event)
