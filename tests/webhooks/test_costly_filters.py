"""Filters over their step limit: no event is lost, and no request takes long."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions.core.errors import BudgetExceeded
from scheduled_actions.core.evaluation_budget import STEPS
from tests.factories import NOW, move_clock, set_clock, steps_spent
from tests.webhooks.webhook_project import URL, bodies, webhook_project
from tests.webhooks.wire import a_wire

#: A filter that searches the list twenty times.
COSTLY = {"$or": [{"data.items": {"$contains": "x"}}] * 20}
#: Lists for which the filter exceeds its limit, and for which it does not.
ENDLESS, LONG = [1] * 60_000, [1] * 30_000


@pytest.fixture
def project(tmp_path, database_url, connection):
    set_clock(connection, NOW)
    with webhook_project(tmp_path, database_url) as project:
        yield project


@pytest.fixture
def wire(monkeypatch, tmp_path):
    with a_wire(monkeypatch, tmp_path) as wire:
        wire.post(URL, body="thanks")
        yield wire


def emit(project, items):
    payload = {"event": "task:created", "entity_type": "task", "entity_id": "1", "data": {"items": items}}
    return project.scheduler.schedule_action({"action_type": "webhook:send", "payload": payload, "dedup_window": 0}).id


def deliveries(connection):
    return connection.execute(
        "select id, status, error_message from scheduled_actions where payload ? 'endpoint' order by id"
    ).fetchall()


def test_a_filter_over_its_step_limit_fails_the_delivery_with_the_reason(project, wire, connection):
    made, _ = project.endpoints.create(url=URL, filter=COSTLY)

    event = emit(project, ENDLESS)
    project.processor.tick()

    ((_, status, reason),) = deliveries(connection)
    assert status == "failed"
    assert f'the filter of endpoint "{made.id}" needs more than 20,000 steps to evaluate' in reason
    assert project.scheduler.get_action(event).result == {"endpoints": [made.id]}
    assert bodies(wire) == []


def test_a_failed_delivery_is_sent_after_its_filter_is_simplified(project, wire, connection):
    made, _ = project.endpoints.create(url=URL, filter=COSTLY)
    emit(project, ENDLESS)
    project.processor.tick()

    project.endpoints.update(made.id, filter={"data.items": {"$contains": 1}})
    ((delivery, *_),) = deliveries(connection)
    project.scheduler.retry_action(delivery)
    project.processor.tick()

    assert [status for _, status, _ in deliveries(connection)] == ["completed"]
    assert len(bodies(wire)) == 1


def test_a_simplified_filter_that_rejects_the_event_skips_its_delivery(project, wire, connection):
    made, _ = project.endpoints.create(url=URL, filter=COSTLY)
    emit(project, ENDLESS)
    project.processor.tick()

    project.endpoints.update(made.id, filter={"data.items": {"$contains": "x"}})
    ((delivery, *_),) = deliveries(connection)
    project.scheduler.retry_action(delivery)
    project.processor.tick()

    assert [(status, reason) for _, status, reason in deliveries(connection)] == [
        ("skipped", f'the filter of endpoint "{made.id}" rejects the event')
    ]
    assert bodies(wire) == []


def test_a_batch_of_missed_events_spends_one_budget_and_the_next_batch_continues(project, connection, monkeypatch):
    for _ in range(20):
        emit(project, LONG)
    project.processor.tick()
    made, _ = project.endpoints.create(url=URL, filter={"$and": [COSTLY, {"data.items": {"$contains": 1}}]})
    move_clock(connection, timedelta(minutes=1))
    spent = steps_spent(monkeypatch)

    steps = []
    for _ in walk(project, made):
        steps.append(sum(spent))
        spent.clear()

    assert max(steps) <= STEPS
    assert sum(steps) > STEPS


def test_a_missed_event_whose_filter_exceeds_the_budget_is_named_in_the_error(project, connection):
    event = emit(project, ENDLESS)
    project.processor.tick()
    made, _ = project.endpoints.create(url=URL, filter=COSTLY)
    move_clock(connection, timedelta(minutes=1))

    with pytest.raises(BudgetExceeded, match=f'the filter of endpoint "{made.id}" for event {event} needs more than'):
        list(walk(project, made))


def walk(project, endpoint):
    """Yield the batches of a replay of all events that an endpoint missed."""
    step = None
    while step is None or not step.is_done:
        step = project.deliveries.replay_missed(endpoint.id, NOW - timedelta(days=1), after=step)
        yield step
