"""The test kit: run due actions, set the clock, check scheduled actions, capture webhooks."""

from __future__ import annotations

import inspect
import re
import threading
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pytest

from handlers import webhook
from scheduled_actions import Snooze, action, emit_event, pause, schedule_action, schedule_recurring_action
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.testing.kit import Kit

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
CRM = '[webhooks.endpoints.crm]\nenv_var = "CRM_URL"\nsecret_env_var = "CRM_SECRET"\n'


@action("test:run")
def run(payload: dict): ...


@action("test:fail", max_attempts=2)
def fail(payload: dict):
    raise RuntimeError("no luck")


@action("test:again")
def again(payload: dict):
    return Snooze(0)


@action("test:chain")
def chain(payload: dict, context):
    if payload["left"]:
        context.schedule("test:chain", {"left": payload["left"] - 1})


# -- run_due -----


def test_due_actions_run_and_are_returned(create_kit):
    kit = create_kit(run)
    due = schedule_action("test:run", {"n": 1})
    schedule_action("test:run", {"n": 2}, scheduled_at=timedelta(hours=1))

    (settled,) = kit.run_due()

    assert (settled.id, settled.status) == (due.id, "completed")
    assert kit.run_due() == []


def test_a_later_instant_makes_scheduled_actions_due(create_kit):
    kit = create_kit(run)
    kit.clock.set(NOON)
    schedule_action("test:run", {}, scheduled_at=NOON + timedelta(days=400))

    assert kit.run_due(at=NOON + timedelta(days=399)) == []
    (settled,) = kit.run_due(at=NOON + timedelta(days=400))

    assert settled.started_at.date() == (NOON + timedelta(days=400)).date()


def test_follow_ups_run_in_the_same_call(create_kit):
    kit = create_kit(chain)
    schedule_action("test:chain", {"left": 3})

    assert [settled.payload["left"] for settled in kit.run_due()] == [3, 2, 1, 0]


def test_the_handler_of_a_follow_up_reads_its_parent(create_kit):
    read = []

    @action("test:alert")
    def alert(payload: dict, context):
        read.append(context.parent)

    kit = create_kit(fail, alert)
    parent = schedule_action("test:fail", {}, on_failure={"action_type": "test:alert", "payload": {}}, max_attempts=1)

    kit.run_due()

    assert [(one.id, one.status, one.attempts) for one in read] == [(parent.id, "failed", 1)]
    assert "no luck" in read[0].error_message


def test_a_failed_attempt_is_returned_with_its_error_and_waits_for_its_retry(create_kit):
    kit = create_kit(fail)
    schedule_action("test:fail", {})

    (first,) = kit.run_due()
    (second,) = kit.run_due(at=timedelta(hours=1))

    assert (first.status, first.attempts) == ("pending", 1)
    assert "no luck" in first.error_message
    assert (second.status, second.attempts) == ("failed", 2)


def test_a_handler_that_snoozes_forever_fails_the_test(create_kit):
    kit = create_kit(again, SCHEDULED_ACTIONS_MAX_RUN_SECONDS="0.2")
    kit.clock.set(NOON)
    schedule_action("test:again", {})

    with pytest.raises(AssertionError, match="still due after 10 ticks"):
        kit.run_due()


def test_an_action_that_no_tick_can_run_fails_the_test(create_kit):
    @action("test:long", timeout_seconds=500)
    def long(payload: dict): ...

    kit = create_kit(long)
    schedule_action("test:long", {})

    with pytest.raises(AssertionError, match="test:long: not started: its timeout of 500 s"):
        kit.run_due()


@pytest.mark.parametrize(
    "take",
    [
        lambda kit, at: kit.run_due(at=at),
        lambda kit, at: kit.run_until(at),
        lambda kit, at: kit.clock.set(at),
        lambda kit, at: kit.assert_scheduled("test:run", scheduled_at=at, count=0),
        lambda kit, at: kit.assert_scheduled("test:run", occurrence_at=at, count=0),
    ],
    ids=["run_due", "run_until", "clock.set", "scheduled_at", "occurrence_at"],
)
def test_an_instant_needs_an_offset_or_is_the_start_of_a_day_in_utc(create_kit, take):
    kit = create_kit(run)

    with pytest.raises(InvalidArgument, match="is not a time with an offset"):
        take(kit, datetime(2036, 3, 4, 9))  # noqa: DTZ001 - the rejected value
    take(kit, "2036-03-04T09:00:00+01:00")
    take(kit, date(2036, 3, 5))


def test_an_action_is_found_by_a_day(create_kit):
    kit = create_kit(run)
    schedule_action("test:run", {}, scheduled_at=date(2036, 3, 4))

    assert len(kit.assert_scheduled("test:run", scheduled_at="2036-03-04")) == 1


def test_nothing_runs_while_the_project_is_disabled(create_kit):
    kit = create_kit(run, toml="enabled = false")

    with pytest.raises(AssertionError, match="`enabled` is false"):
        kit.run_due()


# -- run_until -----


def test_run_until_runs_each_occurrence_at_its_instant(create_kit):
    kit = create_kit(run)
    kit.clock.set(NOON)
    schedule_recurring_action("test:run", {}, "hourly", scheduled_at=NOON + timedelta(hours=1))

    settled = kit.run_until(NOON + timedelta(hours=3, minutes=30))

    assert [action.occurrence_at for action in settled] == [NOON + timedelta(hours=n) for n in (1, 2, 3)]
    assert kit.clock.now() == NOON + timedelta(hours=3, minutes=30)


def test_run_until_runs_a_paused_action_when_its_pause_ends(create_kit):
    kit = create_kit(run)
    kit.clock.set(NOON)
    schedule_action("test:run", {})
    pause(action_type="test:run", until=timedelta(hours=1))

    (settled,) = kit.run_until(NOON + timedelta(hours=3))

    assert settled.completed_at - NOON < timedelta(hours=2)


def test_run_until_ends_an_action_at_its_expiry(create_kit):
    kit = create_kit(run, toml='[limits."api:*"]\nrate = "1 per day"\n')
    kit.clock.set(NOON)
    for _ in range(2):
        schedule_action("test:run", {}, limit="api:acme", expires_in=timedelta(hours=1))

    settled = kit.run_until(timedelta(hours=2))

    assert [action.status for action in settled] == ["completed", "skipped"]
    assert settled[1].completed_at == NOON + timedelta(hours=1)


def test_the_misfire_policy_treats_a_clock_jump_as_an_outage(create_kit):
    kit = create_kit(run)
    kit.clock.set(NOON)
    schedule_recurring_action("test:run", {}, "hourly", scheduled_at=NOON + timedelta(hours=1))

    completed = [
        settled for settled in kit.run_due(at=NOON + timedelta(hours=3, minutes=30)) if settled.status == "completed"
    ]

    assert len(completed) == 1


@action("test:limited", limit="api:{payload.customer}")
def limited(payload: dict): ...


def test_run_until_starts_limited_actions_at_the_rate_of_their_key(create_kit):
    kit = create_kit(limited, toml='[limits."api:*"]\nrate = "2 per hour"\nburst = 1\n')
    kit.clock.set(NOON)
    for customer in ("acme", "acme", "acme", "other"):
        schedule_action("test:limited", {"customer": customer})

    settled = kit.run_until(timedelta(hours=2))

    started = [(action.payload["customer"], (action.started_at - NOON) // timedelta(minutes=30)) for action in settled]
    assert started == [("acme", 0), ("other", 0), ("acme", 1), ("acme", 2)]


# -- the clock -----


def test_the_clock_can_be_set_advanced_and_reset(create_kit):
    clock = create_kit(run).clock

    clock.set(NOON)
    assert clock.advance(timedelta(days=2)) == clock.now() == NOON + timedelta(days=2)
    clock.reset()

    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=1)


# -- assert_scheduled -----


def test_an_action_is_found_by_parts_of_its_payload_and_by_its_columns(create_kit):
    kit = create_kit(run)
    order = uuid4()
    schedule_action("test:run", {"order": str(order), "lines": [{"n": 1}, {"n": 2}], "x": 1}, team_id="red")
    schedule_action("test:run", {"order": "other"})

    (found,) = kit.assert_scheduled(
        "test:run", payload__contains={"order": order, "lines": [{"n": 2}]}, team_id="red", status="pending", count=1
    )

    assert found.payload["x"] == 1
    kit.assert_scheduled("test:run", count=2)
    kit.assert_scheduled("test:other", count=0)


def test_an_action_is_found_by_its_instant_or_its_delay(create_kit):
    kit = create_kit(run)
    kit.clock.set(NOON)
    schedule_action("test:run", {}, scheduled_at=timedelta(days=3))

    kit.assert_scheduled("test:run", scheduled_at=timedelta(days=3))
    kit.assert_scheduled("test:run", scheduled_at=NOON + timedelta(days=3))
    with pytest.raises(AssertionError, match="scheduled 3 days, 0:00:00 after its creation, not 2 days"):
        kit.assert_scheduled("test:run", scheduled_at=timedelta(days=2))


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"payload__contains": {"to": "Ann"}}, 'its payload.to is "Bob", not "Ann"'),
        ({"payload__contains": {"cc": 1}}, "its payload has no 'cc'"),
        ({"payload__contains": {"tags": ["c"]}}, "its payload.tags does not contain"),
        ({"payload__contains": {"urgent": 1}}, "its payload.urgent is true, not 1"),
        ({"scheduled_at": NOON + timedelta(hours=1)}, "its scheduled_at is 2026-03-04T12:00:00"),
        ({"team_id": "red"}, "its team_id is None, not 'red'"),
        ({"count": 2}, "expected 2 actions of .*; found 1"),
        ({"count": 0}, "expected 0 actions"),
    ],
)  # fmt: skip
def test_the_error_names_each_difference(create_kit, expected, message):
    kit = create_kit(run)
    kit.clock.set(NOON)
    schedule_action("test:run", {"to": "Bob", "tags": ["a", "b"], "urgent": True})

    with pytest.raises(AssertionError, match=message):
        kit.assert_scheduled("test:run", **expected)


def test_the_error_lists_the_most_similar_actions_first(create_kit):
    kit = create_kit(run, fail)
    schedule_action("test:fail", {"to": "Ann"})
    schedule_action("test:run", {"to": "Bob"})

    with pytest.raises(AssertionError) as failure:
        kit.assert_scheduled("test:run", payload__contains={"to": "Ann"})

    expected, _, first, _, second, reason = str(failure.value).splitlines()
    assert expected == 'expected at least one action of "test:run", payload containing {"to": "Ann"}; found 0.'
    assert '"test:run" pending' in first
    assert '"test:fail" pending' in second
    assert 'its type is "test:fail"' in reason


def test_the_error_says_that_nothing_was_scheduled(create_kit):
    with pytest.raises(AssertionError, match="Nothing was scheduled"):
        create_kit(run).assert_scheduled("test:run")


FIELDS = inspect.signature(Kit.assert_scheduled).parameters.keys() - {
    "self", "action_type", "payload__contains", "scheduled_at", "count",
}  # fmt: skip


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_an_action_is_found_by_each_field(create_kit, field):
    kit = create_kit(run)
    schedule_action("test:run", {}, metadata={"a": 1}, target={"type": "order", "id": "7"})
    (scheduled,) = kit.actions()

    assert kit.assert_scheduled("test:run", **{field: getattr(scheduled, field)}) == [scheduled]
    another = datetime(2026, 3, 4, tzinfo=UTC) if field == "occurrence_at" else "another"
    with pytest.raises(AssertionError, match=f"its {field} is .*, not {re.escape(repr(another))}"):
        kit.assert_scheduled("test:run", **{field: another})


# -- captured webhooks -----


def test_a_delivery_is_captured_and_its_signature_verified(create_kit):
    kit = create_kit(webhook.send, toml=CRM, CRM_URL="https://production.example/", CRM_SECRET="whsec_none")
    emit_event("task:created", entity_id="t1", data={"name": "Write"}, team_id="red")

    kit.run_due()

    (delivery,) = kit.webhooks
    assert (delivery.event, delivery.endpoint, delivery.status, delivery.is_verified) == (
        "task:created",
        "crm",
        200,
        True,
    )
    assert (delivery.payload["entity_id"], delivery.payload["team_id"], delivery.payload["data"]) == (
        "t1",
        "red",
        {"name": "Write"},
    )
    assert delivery.url == "https://crm.webhooks.test/"
    assert {"webhook-id", "webhook-timestamp", "webhook-signature"} <= delivery.headers.keys()
    assert kit.webhooks.of("task:created", endpoint="crm") == [delivery]
    assert kit.webhooks.of("task:deleted") == []


def test_prepared_responses_are_processed_like_those_of_a_receiver(create_kit):
    kit = create_kit(webhook.send, toml=CRM)
    kit.webhooks.answer(503, times=1, headers={"Retry-After": "3600"}, body="busy")
    kit.webhooks.answer(None, times=1)
    kit.clock.set(NOON)
    emit_event("task:created", entity_id="t1", data={})

    kit.run_due()
    assert kit.run_due(at=timedelta(minutes=59)) == []
    kit.run_due(at=timedelta(minutes=1))
    kit.run_due(at=timedelta(hours=1))

    assert [delivery.status for delivery in kit.webhooks] == [503, 0, 200]
    kit.webhooks.clear()
    assert len(kit.webhooks) == 0


def test_deliveries_to_added_endpoints_and_endpoints_in_the_database_are_captured(create_kit):
    kit = create_kit(webhook.send)
    kit.webhooks.add_endpoint("billing", patterns=["invoice:*"])
    stored, _ = kit.runtime.endpoints.create(url="https://tenant.example/hook", patterns=["task:*"])
    emit_event("invoice:paid", entity_id="i1", data={})
    emit_event("task:created", entity_id="t1", data={})

    kit.run_due()

    captured = {delivery.event: delivery for delivery in kit.webhooks}
    assert captured["invoice:paid"].endpoint == "billing"
    assert captured["task:created"].endpoint == stored.id
    assert all(delivery.is_verified for delivery in kit.webhooks)


def test_a_delivery_with_an_invalid_signature_is_rejected(create_kit):
    kit = create_kit(webhook.send, toml=CRM)
    emit_event("task:created", entity_id="t1", data={})
    kit.run_due()
    (delivery,) = kit.webhooks

    response = kit.webhooks.capture(delivery.url, delivery.body + b" ", delivery.headers)

    assert response.status == 401
    assert not kit.webhooks[1].is_verified


# -- threads -----


def test_the_threads_of_a_kit_end_with_it(tmp_path, database_url):
    from scheduled_actions.testing.kit import kit
    from tests.factories import wait_until

    before = set(threading.enumerate())
    with kit(tmp_path, database_url, handlers=[run], environ={}) as created:
        for _ in range(5):
            schedule_action("test:run", {})
        created.run_due()
        own = set(threading.enumerate()) - before
        assert own

    wait_until(lambda: not any(thread.is_alive() for thread in own))
