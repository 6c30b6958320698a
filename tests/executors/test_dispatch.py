"""Ticks hand the due actions of an executor to its broker as tickets, and workers run them once."""

from __future__ import annotations

from scheduled_actions import action
from tests.factories import insert, insert_many, row, statuses


@action("video:cut")
def cut(payload: dict) -> dict:
    return {"cut": True}


@action("email:send")
def send(payload: dict) -> None:
    pass


def test_a_tick_sends_a_ticket_of_each_due_action_of_the_executor(connection, a_carried_project, broker):
    project = a_carried_project(cut, send)
    mine = insert(connection, action_type="video:cut", team_id="acme")
    later = insert(connection, action_type="video:cut", scheduled_at="2100-01-01")
    other = insert(connection, action_type="email:send")

    report = project.processor.tick()

    assert report.errors == []
    assert statuses(connection) == {mine: "processing", later: "pending", other: "completed"}
    [message] = broker.messages
    token = row(connection, mine)["claim_token"]
    assert message.as_json() == {
        "v": 1,
        "executor": "media",
        "tickets": [{"id": str(mine), "token": str(token), "action_type": "video:cut", "team_id": "acme"}],
    }


def test_the_worker_of_a_process_runs_the_actions_of_a_message(connection, a_carried_project, broker):
    project = a_carried_project(cut, tickets_per_message=3)
    ids = insert_many(connection, 7, action_type="video:cut")
    project.processor.tick()
    assert [len(message.tickets) for message in broker.messages] == [3, 3, 1]

    for message in broker.messages:
        project.executors.run_message(message.as_json())

    assert statuses(connection) == dict.fromkeys(ids, "completed")
