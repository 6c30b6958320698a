"""Deliveries: order, limits, failures, disabled endpoints, recovery and replay."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from scheduled_actions.core.errors import InvalidArgument, UnknownDelivery, UnknownEndpoint, WrongStatus
from scheduled_actions.registry.handler import action
from scheduled_actions.testing import clock
from scheduled_actions.webhooks.endpoints.model import EndpointQueue
from scheduled_actions.webhooks.rules.health import APART, DISABLED_AFTER
from scheduled_actions.webhooks.throttle import EndpointThrottle
from tests.factories import database_now, move_clock, together
from tests.webhooks.test_endpoints import emit
from tests.webhooks.webhook_project import URL, bodies, webhook_project
from tests.webhooks.wire import a_wire

MAILS = []


@action("email:send")
def send_email(payload: dict) -> None:
    MAILS.append(payload)


@pytest.fixture
def project(tmp_path, database_url):
    MAILS.clear()
    toml = """
    [webhooks]
    alert_email = "ops@example.org"
    [webhooks.endpoints.crm]
    env_var = "CRM_URL"
    patterns = ["crm:*"]
    ordering = "fifo"
    """
    with webhook_project(tmp_path, database_url, send_email, toml=toml, CRM_URL="https://crm.example/") as project:
        yield project


@pytest.fixture
def wire(monkeypatch, tmp_path):
    with a_wire(monkeypatch, tmp_path) as wire:
        yield wire


class Later:
    """Advances the database's time, and then runs a tick of the project."""

    def __init__(self, project, connection):
        self.project, self.connection, self.at = project, connection, timedelta(0)

    def __call__(self, **units):
        self.at += timedelta(**units)
        move_clock(self.connection, self.at)
        self.project.endpoint_directory.forget()
        return self.project.processor.tick()


@pytest.fixture
def later(project, connection):
    return Later(project, connection)


def delivery_of(connection):
    """Return the only delivery, as the view shows it."""
    (found,) = connection.execute("select to_jsonb(d) from webhook_deliveries d").fetchall()
    return found[0]


def deliveries(connection):
    rows = connection.execute("select status, count(*) from webhook_deliveries group by 1").fetchall()
    return dict(rows)


# -- the view


def test_the_view_shows_a_delivery_that_arrived(project, wire, connection):
    wire.post(URL, status=201, body="thank you")
    made, _ = project.endpoints.create(url=URL, team_id="blue")

    event_id = emit(project, team_id="blue", entity_id="7")
    project.processor.tick()

    shown = delivery_of(connection)
    assert (shown["status"], shown["endpoint"], shown["team_id"]) == ("completed", made.id, "blue")
    assert (shown["event"], shown["entity_type"], shown["entity_id"]) == ("task:created", "task", "7")
    assert (shown["attempts"], shown["response_status"], shown["error"]) == (1, 201, None)
    assert (shown["event_action_id"], shown["next_attempt_at"]) == (str(event_id), None)
    (attempt,) = shown["attempt_log"]
    assert (attempt["attempt"], attempt["status"], attempt["answer"]) == (1, 201, "thank you")
    assert attempt["duration_ms"] >= 0
    assert attempt["error"] is None


def test_the_view_shows_every_attempt_of_a_failed_delivery(project, wire, later, connection):
    project.endpoints.create(url=URL)
    wire.post(URL, status=500, body="no: such\nluck")
    wire.post(URL, status=None)
    wire.post(URL, status=302, headers={"Location": "https://elsewhere.example/"})
    wire.post(URL, status=429, headers={"Retry-After": "1"}, body="busy")
    wire.post(URL, status=410, body="gone")

    emit(project)
    for _ in range(5):
        later(hours=11)
    assert len(wire.calls) == 5

    shown = delivery_of(connection)
    assert (shown["status"], shown["attempts"], shown["response_status"]) == ("failed", 5, 410)
    log = [(one["attempt"], one["status"], one["answer"]) for one in shown["attempt_log"]]
    assert log == [(1, 500, "no: such\nluck"), (2, None, None), (3, 302, None), (4, 429, "busy"), (5, 410, "gone")]
    assert all(one["duration_ms"] >= 0 and one["at"] and one["error"] for one in shown["attempt_log"])
    assert "did not respond: receiver.example:443" in shown["attempt_log"][1]["error"]


def test_the_view_shows_the_time_of_the_next_attempt(project, wire, connection):
    wire.post(URL, status=503, headers={"Retry-After": "3600"})
    project.endpoints.create(url=URL)

    emit(project)
    project.processor.tick()

    shown = connection.execute(
        "select status, next_attempt_at - scheduled_actions_now() from webhook_deliveries"
    ).fetchone()
    assert shown[0] == "pending"
    assert timedelta(minutes=59) < shown[1] <= timedelta(hours=1)


def test_an_event_is_not_listed_as_a_delivery(project, connection):
    emit(project)

    assert deliveries(connection) == {}


def test_an_unreadable_delivery_does_not_hide_the_others(project, connection):
    project.endpoints.create(url=URL)
    insert_lost_deliveries(connection, 2, endpoint="crm")
    connection.execute(
        "insert into scheduled_actions (action_type, payload, scheduled_at) values"
        " ('webhook:send', '{\"endpoint\": \"crm\"}', '-infinity')"
    )
    connection.execute(
        "insert into scheduled_actions (action_type, payload, status, scheduled_at, result) values"
        " ('webhook:send', '{\"endpoint\": \"crm\"}', 'completed', 'infinity', '{\"status\": \"fine\"}')"
    )

    found = project.deliveries.page()[0]

    assert len(found) == 4
    assert (found[0].response_status, found[0].event) == (None, "")
    assert found[1].next_attempt_at.year == 1
    assert {one.created_at.utcoffset() for one in found} == {timedelta(0)}


# -- safety


def test_a_host_with_a_private_address_fails_the_attempt_without_details(project, connection, monkeypatch):
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.1.2.3", 443))]
    )
    project.endpoints.create(url=URL)

    emit(project)
    project.processor.tick()

    error = delivery_of(connection)["error"]
    assert error.endswith("did not respond: receiver.example:443 points to a private or reserved address")
    assert "10.1.2.3" not in error


# -- order


def orders(connection):
    rows = connection.execute("select lock_group, lock_group_blocks from scheduled_actions order by 1").fetchall()
    return set(rows)


def test_without_fifo_no_action_has_a_lock_group(project, wire, connection):
    wire.post(URL)
    project.endpoints.create(url=URL)

    emit(project)
    project.processor.tick()

    assert orders(connection) == {(None, False)}


def test_fifo_deliveries_of_an_entity_share_a_blocking_lock_group(project, wire, connection):
    wire.post(URL)
    made, _ = project.endpoints.create(url=URL, ordering="fifo")

    emit(project, entity_id="7")
    project.processor.tick()

    assert orders(connection) == {("webhook::task:7", True), (f"webhook:{made.id}:task:7", True)}


def test_fifo_endpoints_of_the_file_apply_from_the_first_tick(project, wire, connection):
    wire.post("https://crm.example/")
    project.processor.tick()

    emit(project, "crm:made", entity_id="7")
    emit(project, "crm:made", entity_id="8", endpoint="crm")
    project.processor.tick()

    assert orders(connection) == {
        ("webhook::crm:7", True), ("webhook:crm:crm:7", True), ("webhook:crm:crm:8", True)
    }  # fmt: skip


def test_a_fifo_endpoint_of_another_team_sets_no_lock_group(project, connection):
    project.endpoints.create(url=URL, ordering="fifo", team_id="red")

    emit(project, team_id="blue")

    assert orders(connection) == {(None, False)}


def test_the_lock_group_of_a_long_entity_id_contains_its_digest(project, connection):
    project.endpoints.create(url=URL, ordering="fifo")

    emit(project, entity_id="x" * 400)

    ((group, _),) = orders(connection)
    assert group.startswith("webhook-md5:")


def test_fifo_keeps_the_order_of_an_entity_through_retries(project, wire, later):
    project.endpoints.create(url=URL, ordering="fifo")
    answers = [500, 200, 500, 500] + [200] * 50
    wire.call(URL, lambda _: answers.pop(0))

    for step in range(6):
        emit(project, "task:updated", entity_id="7", data={"step": step})
    for _ in range(6):
        later(hours=3)

    arrived = [body["data"]["step"] for body in bodies(wire)]
    # Each delivery is retried until it arrives, before the next one is tried.
    assert list(dict.fromkeys(arrived)) == [0, 1, 2, 3, 4, 5]
    assert arrived == sorted(arrived)
    assert len(arrived) == 9


def test_fifo_entities_do_not_wait_for_each_other(project, wire, connection):
    project.endpoints.create(url=URL, ordering="fifo")

    wire.call(URL, lambda call: 500 if b'"entity_id":"bad"' in call.body else 200)
    for entity in ("bad", "good", "bad", "good"):
        emit(project, "task:updated", entity_id=entity)
    project.processor.tick()

    assert deliveries(connection) == {"completed": 2, "pending": 2}
    assert [body["entity_id"] for body in bodies(wire)].count("bad") == 1


# -- queues


def insert_delivery(
    connection, endpoint, *, status="pending", due="0 s", deferred=None, team_id=None, outcome="snoozed"
):
    """Insert a delivery as a tick stores it."""
    history = json.dumps([{"outcome": outcome}] if deferred else [])
    connection.execute(
        "insert into scheduled_actions"
        " (action_type, payload, status, scheduled_at, team_id, state, history, claim_token, lease_expires_at)"
        " values ('webhook:send', jsonb_build_object('endpoint', %s::text), %s, scheduled_actions_now() + %s::interval,"
        "  %s, %s, %s, %s, %s)",
        [
            endpoint, status, due, team_id, json.dumps({"deferred": deferred}) if deferred else None, history,
            uuid4() if status == "processing" else None, datetime.now(UTC) if status == "processing" else None,
        ],
    )  # fmt: skip


def test_an_endpoint_without_deliveries_has_an_empty_queue(project):
    made, _ = project.endpoints.create(url=URL)

    assert made.queue == EndpointQueue(
        in_flight=0, in_flight_limit=2, waiting=0, next_attempt_at=None, deferred=0, deferred_until=None,
        deferred_reason=None, is_complete=True,
    )  # fmt: skip


def test_a_queue_shows_deliveries_in_flight_waiting_and_deferred_with_the_reason(project, connection):
    now = database_now(connection)
    clock.stop(connection, now)
    made, _ = project.endpoints.create(url=URL)
    insert_delivery(connection, made.id, status="processing")
    insert_delivery(connection, made.id, due="-1 s", deferred="hung")  # due again, so no longer deferred
    insert_delivery(connection, made.id, due="90 s", deferred="slow")
    insert_delivery(connection, made.id, due="30 s", deferred="hung")
    insert_delivery(
        connection, made.id, due="10 s", deferred="hung", outcome="failed"
    )  # attempted after it was deferred
    insert_delivery(connection, made.id, status="completed")
    insert_delivery(connection, "crm", due="5 s", deferred="rate_limit")

    shown = {one.id: one.queue for one in project.endpoints.page()[0]}

    assert project.endpoints.get(made.id).queue == shown[made.id]
    assert shown[made.id] == EndpointQueue(
        in_flight=1, in_flight_limit=1, waiting=4, next_attempt_at=now - timedelta(seconds=1), deferred=2,
        deferred_until=now + timedelta(seconds=30), deferred_reason="hung", is_complete=True,
    )  # fmt: skip
    assert (shown["crm"].waiting, shown["crm"].deferred_reason, shown["crm"].in_flight_limit) == (1, "rate_limit", 2)


def test_a_long_queue_shows_the_next_due_delivery_and_lower_bounds(project, connection, monkeypatch):
    made, _ = project.endpoints.create(url=URL)
    monkeypatch.setattr("scheduled_actions.webhooks.endpoints.store.LOOKED_AT", 3)
    for number in range(5):
        insert_delivery(connection, made.id, due=f"{number} s")

    queue = project.endpoints.get(made.id).queue

    assert (queue.waiting, queue.is_complete) == (3, False)


def test_the_queue_of_a_teams_endpoint_contains_only_deliveries_of_the_team(project, connection):
    made, _ = project.endpoints.create(url=URL, team_id="blue")
    insert_delivery(connection, made.id, team_id="blue")
    insert_delivery(connection, made.id, team_id="red")

    assert project.endpoints.get(made.id, team_id="blue").queue.waiting == 1


def test_the_queue_shows_deliveries_deferred_by_a_rate_limit(project, wire):
    wire.post(URL)
    made, _ = project.endpoints.create(url=URL, rate_limit=0.01)

    for number in range(4):
        emit(project, entity_id=str(number))
    project.processor.tick()

    queue = project.endpoints.get(made.id).queue
    assert (queue.waiting, queue.deferred, queue.deferred_reason) == (3, 3, "rate_limit")
    assert queue.deferred_until == queue.next_attempt_at


def record_hung_delivery(project, endpoint):
    """Record a delivery in the throttle that took hours on its clock."""
    hours = iter([0, 0])
    project.endpoint_directory.throttle = EndpointThrottle(2, monotonic=lambda: next(hours, 3600))
    with project.endpoint_directory.throttle.slot(endpoint, patience=0):
        pass


def test_the_queue_shows_deliveries_deferred_after_one_hung(project, wire):
    wire.post(URL)
    made, _ = project.endpoints.create(url=URL)
    record_hung_delivery(project, made.id)

    emit(project)
    project.processor.tick()

    queue = project.endpoints.get(made.id).queue
    assert (queue.deferred, queue.deferred_reason, queue.in_flight_limit) == (1, "hung", 1)


def test_a_failing_endpoint_shows_when_a_failure_will_disable_it(project, wire, later):
    wire.call(URL, lambda _: 500)
    made, _ = project.endpoints.create(url=URL)
    emit(project)
    project.processor.tick()
    assert project.endpoints.get(made.id).auto_disable_at is None

    for _ in range(8):
        later(hours=5)

    shown = project.endpoints.get(made.id)
    assert APART <= shown.auto_disable_at - DISABLED_AFTER - shown.failing_since < APART + timedelta(hours=10)


# -- limits


def test_a_rate_limit_sends_one_second_of_deliveries_and_defers_the_rest(project, wire, connection):
    wire.post(URL)
    project.endpoints.create(url=URL, rate_limit=0.5)

    for number in range(4):
        emit(project, entity_id=str(number))
    project.processor.tick()

    assert deliveries(connection)["completed"] in {1, 2}
    waits = connection.execute(
        "select extract(epoch from next_attempt_at - scheduled_actions_now()) from webhook_deliveries"
        " where status = 'pending' order by 1"
    ).fetchall()
    assert all(wait > 0 for (wait,) in waits)
    charged = connection.execute("select sum(attempts) from webhook_deliveries where status = 'pending'").fetchone()
    assert charged == (0,)


def test_deliveries_to_a_closed_endpoint_reserve_no_rate_limit_slots(project, wire, connection):
    wire.post(URL)
    made, _ = project.endpoints.create(url=URL, rate_limit=1)
    record_hung_delivery(project, made.id)

    emit(project)
    project.processor.tick()

    assert project.endpoints.get(made.id).queue.deferred_reason == "hung"
    assert connection.execute("select count(*) from webhook_endpoint_states").fetchone() == (0,)


def test_rate_limit_slots_are_evenly_spaced(connection):
    def take(rate, patience):
        return connection.execute("select * from webhook_reserve_slot('x', %s, %s)", [rate, patience]).fetchone()

    at_once = [take(4, 0) for _ in range(8)]

    # The slots of one second are free; then each request is deferred to a later time than the previous one.
    assert [is_taken for is_taken, _ in at_once] == [True] * 4 + [False] * 4
    waits = [wait for is_taken, wait in at_once if not is_taken]
    assert waits == sorted(waits)
    assert 0.3 < waits[0] <= 0.51
    is_taken, wait = take(4, 5)
    assert is_taken
    assert 0 < wait <= 0.25


def test_concurrent_requests_never_get_the_same_rate_limit_slot(connection, database_url):
    before = connection.execute("select clock_timestamp()").fetchone()[0]

    def take(other, _):
        for _ in range(50):
            assert other.execute("select is_taken from webhook_reserve_slot('x', 10, 1000)").fetchone() == (True,)

    together(database_url, 8, take)

    (next_at,) = connection.execute("select rate_next_at from webhook_endpoint_states").fetchone()
    # 400 slots, a tenth of a second apart; the slots of the first second were free.
    assert next_at - before >= timedelta(seconds=39)


# -- directives of receivers


@pytest.mark.parametrize(
    ("answered", "ends", "is_enabled"),
    [
        ((410, None), "failed", False),
        ((500, "abort"), "failed", True),
        ((500, " Disable "), "failed", False),
        ((200, "disable"), "completed", False),
        ((200, "abort"), "completed", True),
        ((500, "dance"), "pending", True),
        ((500, None), "pending", True),
    ],
)
def test_a_receiver_can_disable_its_endpoint(project, wire, answered, ends, is_enabled):
    status, wish = answered
    wire.post(URL, status=status, headers={"webhook-delivery": wish} if wish else {})
    made, _ = project.endpoints.create(url=URL, patterns=["task:*"])

    emit(project)
    project.processor.tick()

    assert [one.status for one in project.deliveries.page()[0]] == [ends]
    assert project.endpoints.get(made.id).enabled is is_enabled


def test_a_disabled_endpoint_receives_nothing_until_it_is_enabled(project, wire, connection):
    wire.post(URL, status=410, body="we moved out")
    wire.post(URL, status=200)
    made, _ = project.endpoints.create(url=URL, patterns=["task:*"])
    emit(project)
    project.processor.tick()

    emit(project)
    project.processor.tick()
    shown = project.endpoints.get(made.id)
    project.endpoints.update(made.id, enabled=True)
    emit(project)
    project.processor.tick()

    assert (shown.disabled_reason, shown.disabled_at is not None) == ("answered 410: we moved out", True)
    assert deliveries(connection) == {"failed": 1, "skipped": 1, "completed": 1}
    assert len(wire.calls) == 2


def test_an_endpoint_of_the_file_can_be_disabled_and_enabled(project, wire, connection):
    wire.post("https://crm.example/", status=410)
    emit(project, "crm:made")
    project.processor.tick()

    assert project.endpoints.get("crm").enabled is False
    emit(project, "crm:made")
    project.processor.tick()
    assert deliveries(connection) == {"failed": 1, "skipped": 1}
    assert project.endpoints.update("crm", enabled=True).enabled is True


# -- failing for days


def test_five_days_of_failures_disable_an_endpoint(project, wire, later, connection):
    wire.post(URL, status=500, body="broken")
    made, _ = project.endpoints.create(url=URL, patterns=["task:*"])
    watcher, _ = project.endpoints.create(url="https://ops.example/", patterns=["webhook:*"])
    wire.post("https://ops.example/")

    emit(project)
    later(hours=0)
    assert project.endpoints.get(made.id).failing_since is not None
    emit(project)
    later(hours=APART.total_seconds() / 3600)
    for _ in range(5):
        assert project.endpoints.get(made.id).enabled
        emit(project)
        later(days=1)

    shown = project.endpoints.get(made.id)
    assert shown.enabled is False
    assert shown.disabled_reason == "failed for more than five days; latest failure: answered 500: broken"
    notices = bodies(wire, "https://ops.example/")
    assert [body["event"] for body in notices] == ["webhook:endpoint-failing"] * 5 + ["webhook:endpoint-disabled"]
    assert all(body["entity_id"] == made.id for body in notices)
    assert notices[0]["data"]["auto_disable_at"] > notices[0]["data"]["failing_since"]
    assert [mail["to"] for mail in MAILS] == ["ops@example.org"] * 6
    assert MAILS[-1]["subject"] == f"Webhook endpoint {made.id} is disabled"
    assert f"\nscheduled-actions webhooks endpoints update {made.id} --enable\n" in MAILS[-1]["text"]
    assert f"\nscheduled-actions webhooks deliveries recover --endpoint {made.id} --from WHEN\n" in MAILS[-1]["text"]
    assert project.endpoints.get(watcher.id).enabled


def test_a_success_resets_the_clock_that_disables_an_endpoint(project, wire, later):
    made, _ = project.endpoints.create(url=URL, patterns=["task:*"])
    for status in (500, 500, 200, 500):
        wire.post(URL, status=status)

    for hours in (0, 13, 1, 24 * 6):
        emit(project)
        later(hours=hours)

    shown = project.endpoints.get(made.id)
    assert shown.enabled
    assert shown.failing_since > shown.created_at + timedelta(hours=14)


def test_an_endpoint_does_not_receive_the_events_of_its_own_failures(project, wire, connection):
    wire.post(URL, status=410)
    project.endpoints.create(url=URL)

    emit(project)
    project.processor.tick()

    assert [body["event"] for body in bodies(wire)] == ["task:created"]
    assert deliveries(connection) == {"failed": 1}


def test_a_failing_endpoint_of_a_team_emits_an_event_of_that_team(project, wire, connection):
    wire.post(URL, status=410)
    project.endpoints.create(url=URL, team_id="blue", patterns=["task:*"])

    emit(project, team_id="blue")
    project.processor.tick()

    events = connection.execute(
        "select team_id from scheduled_actions where payload ->> 'event' = 'webhook:endpoint-disabled'"
    ).fetchall()
    assert events == [("blue",)]


def test_the_periods_before_disabling_match_the_documentation():
    assert (timedelta(hours=12), timedelta(days=5)) == (APART, DISABLED_AFTER)


def test_concurrent_ticks_disable_an_endpoint_once(project, wire, connection):
    wire.post(URL, status=410)
    project.endpoints.create(url=URL, patterns=["task:*"])
    for number in range(6):
        emit(project, entity_id=str(number))

    project.processor.tick()

    events = connection.execute(
        "select count(*) from scheduled_actions where payload ->> 'event' = 'webhook:endpoint-disabled'"
    ).fetchone()
    assert events == (1,)


# -- replay and recovery


def test_a_failed_delivery_is_replayed_as_the_same_message(project, wire, connection):
    wire.post(URL, status=500, headers={"webhook-delivery": "abort"})
    wire.post(URL, status=200)
    project.endpoints.create(url=URL)
    emit(project)
    project.processor.tick()
    (lost,) = project.deliveries.page()[0]

    again = project.deliveries.replay(lost.id, by="ann")
    project.processor.tick()

    assert again.id == lost.id
    assert project.deliveries.get(lost.id).status == "completed"
    assert [one["status"] for one in project.deliveries.get(lost.id).attempt_log] == [500, 200]
    assert [call.headers["webhook-id"] for call in wire.calls] == [str(lost.id)] * 2


def test_a_completed_delivery_is_replayed_as_a_new_action_with_the_same_message_id(project, wire):
    wire.post(URL)
    project.endpoints.create(url=URL)
    emit(project, data={"n": 1})
    project.processor.tick()
    (arrived,) = project.deliveries.page()[0]

    for _ in range(2):
        again = project.deliveries.replay(project.deliveries.page()[0][0].id, by="ann")
        project.processor.tick()

    assert again.id != arrived.id
    assert {call.headers["webhook-id"] for call in wire.calls} == {str(arrived.id)}
    first, second, third = bodies(wire)
    assert first == second == third


def test_a_replayed_delivery_uses_the_retry_delays_of_its_endpoint(project, wire, connection):
    wire.post(URL)
    project.endpoints.create(url=URL, retry=[7, 70])
    emit(project)
    project.processor.tick()
    (arrived,) = project.deliveries.page()[0]

    again = project.deliveries.replay(arrived.id)

    found = connection.execute("select retry, max_attempts from scheduled_actions where id = %s", [again.id]).fetchone()
    assert (found[0]["seconds"], found[1]) == ([7, 70], 3)


def test_a_pending_delivery_is_not_replayed_and_those_of_other_teams_are_unknown(project, wire):
    wire.post(URL, status=500)
    project.endpoints.create(url=URL)
    event_id = emit(project, team_id="blue")
    project.processor.tick()
    (waiting,) = project.deliveries.page()[0]

    with pytest.raises(WrongStatus, match=r"is pending, not completed, .*: a pending delivery is sent automatically"):
        project.deliveries.replay(waiting.id)
    for delivery_id, team_id in ((waiting.id, "red"), ("nothing", None), (event_id, None)):
        with pytest.raises(UnknownDelivery, match=f"no webhook delivery has the id {delivery_id}"):
            project.deliveries.replay(delivery_id, team_id=team_id)
        with pytest.raises(UnknownDelivery):
            project.deliveries.get(delivery_id, team_id=team_id)
    assert project.deliveries.page(team_id="red")[0] == []
    assert [one.id for one in project.deliveries.page(team_id="blue")[0]] == [waiting.id]


def insert_lost_deliveries(connection, count, *, endpoint, status="failed", team_id=None):
    """Insert deliveries that have just been lost."""
    connection.execute(
        "insert into scheduled_actions (action_type, payload, status, scheduled_at, completed_at, attempts, team_id)"
        " select 'webhook:send', jsonb_build_object('event', 'task:made', 'entity_type', 'task', 'entity_id', n::text,"
        "  'data', '{}'::jsonb, 'endpoint', %s::text), %s, scheduled_actions_now(), scheduled_actions_now(), 10, %s"
        " from generate_series(1, %s) n",
        [endpoint, status, team_id, count],
    )


def counts_of_batches(step, *arguments, **options):
    """Return the number of deliveries of each batch of a recovery or replay."""
    counts, after = [], None
    while after is None or not after.is_done:
        after = step(*arguments, after=after, **options)
        counts.append(after.count)
    return counts


def test_lost_deliveries_are_recovered_in_batches(project, connection):
    made, _ = project.endpoints.create(url=URL)
    insert_lost_deliveries(connection, 5, endpoint=made.id)
    later = Later(project, connection)
    later.at = timedelta(hours=1)
    move_clock(connection, later.at)
    since = database_now(connection)
    insert_lost_deliveries(connection, 12, endpoint=made.id)
    insert_lost_deliveries(connection, 3, endpoint=made.id, status="skipped")
    insert_lost_deliveries(connection, 4, endpoint="crm")

    assert project.deliveries.count_lost(since, endpoint=made.id) == 15
    counts = counts_of_batches(project.deliveries.recover, since, endpoint=made.id, by="ann", limit=5)

    assert sum(counts) == 15
    assert max(counts) == 5
    assert deliveries(connection) == {"failed": 9, "pending": 15}
    found = connection.execute(
        "select attempts, history from scheduled_actions where status = 'pending' limit 1"
    ).fetchone()
    assert found[0] == 0
    assert (found[1][0]["outcome"], found[1][0]["by"]) == ("recovered", "ann")


def test_a_recovery_starts_with_the_oldest_lost_delivery(project, connection):
    since = database_now(connection) - timedelta(hours=1)
    insert_lost_deliveries(connection, 6, endpoint="crm")
    # The deliveries that were inserted last were lost first.
    connection.execute(
        "update scheduled_actions"
        " set completed_at = completed_at - make_interval(mins => (payload ->> 'entity_id')::integer)"
    )

    step, recovered = None, []
    while step is None or step.count:
        step = project.deliveries.recover(since, after=step, limit=2)
        recovered.append({one.entity_id for one in project.deliveries.page(status="pending")[0]})

    assert recovered[:3] == [{"6", "5"}, {"6", "5", "4", "3"}, {"6", "5", "4", "3", "2", "1"}]


def test_an_interrupted_recovery_continues(project, connection):
    made, _ = project.endpoints.create(url=URL)
    since = database_now(connection)
    insert_lost_deliveries(connection, 10, endpoint=made.id)

    step = project.deliveries.recover(since, limit=4)
    assert (step.count, step.is_done) == (4, False)
    again = counts_of_batches(project.deliveries.recover, since, limit=4)

    assert sum(again) == 6
    assert deliveries(connection) == {"pending": 10}


def test_a_recovery_does_not_repeat_deliveries_that_fail_again(project, connection):
    made, _ = project.endpoints.create(url=URL, enabled=False)
    since = database_now(connection)
    insert_lost_deliveries(connection, 6, endpoint=made.id, status="skipped")

    after, rounds = None, 0
    while after is None or not after.is_done:
        after = project.deliveries.recover(since, limit=2, after=after)
        project.processor.tick()
        rounds += 1
        assert rounds < 10

    assert deliveries(connection) == {"skipped": 6}


def test_a_recovered_delivery_that_had_expired_is_attempted(project, connection):
    made, _ = project.endpoints.create(url=URL)
    since = database_now(connection)
    insert_lost_deliveries(connection, 1, endpoint=made.id, status="skipped")
    connection.execute("update scheduled_actions set expires_at = scheduled_at, on_expiry = 'skip', attempts = 0")

    assert sum(counts_of_batches(project.deliveries.recover, since)) == 1
    project.processor.tick()

    found = connection.execute("select status, attempts, expires_at, on_expiry from scheduled_actions").fetchone()
    assert found == ("pending", 1, None, None)


def test_a_team_recovers_only_its_own_deliveries(project, connection):
    since = database_now(connection)
    insert_lost_deliveries(connection, 2, endpoint="crm", team_id="blue")
    insert_lost_deliveries(connection, 3, endpoint="crm", team_id="red")

    assert project.deliveries.count_lost(since, team_id="blue") == 2
    assert sum(counts_of_batches(project.deliveries.recover, since, team_id="blue")) == 2
    assert project.deliveries.count_lost(since) == 3


def test_recovered_deliveries_keep_the_order_of_their_events(project, wire, later, connection):
    answers = [410]
    wire.call(URL, lambda _: answers.pop() if answers else 200)
    made, _ = project.endpoints.create(url=URL, ordering="fifo", patterns=["task:*"])
    since = database_now(connection)
    for step in range(5):
        emit(project, "task:updated", entity_id="7", data={"step": step})
    project.processor.tick()
    assert deliveries(connection) == {"failed": 1, "skipped": 4}

    project.endpoints.update(made.id, enabled=True)
    counts_of_batches(project.deliveries.recover, since, limit=2)
    later(minutes=1)

    assert [body["data"]["step"] for body in bodies(wire)] == [0, 0, 1, 2, 3, 4]


def test_recovery_in_batches_of_any_size_delivers_in_the_order_of_events(project, wire, later, connection):
    wire.call(URL, lambda _: 410 if len(wire.calls) == 1 else 200)
    made, _ = project.endpoints.create(url=URL, ordering="fifo", patterns=["task:*"], enabled=False)
    since = database_now(connection)
    for step in range(3):
        emit(project, "task:updated", entity_id="7", data={"step": step})
        if step == 1:
            project.processor.tick()
            project.endpoints.update(made.id, enabled=True)
    project.processor.tick()
    assert deliveries(connection) == {"failed": 1, "skipped": 2}

    project.endpoints.update(made.id, enabled=True)
    counts_of_batches(project.deliveries.recover, since, limit=1)
    later(minutes=1)

    assert [body["data"]["step"] for body in bodies(wire)] == [2, 0, 1, 2]


def test_events_from_before_an_endpoint_existed_are_replayed_once(project, wire, connection):
    wire.post(URL)
    since = database_now(connection)
    for number in range(5):
        emit(project, "task:made", entity_id=str(number), team_id="blue")
    emit(project, "note:made", team_id="blue")
    emit(project, "task:made", team_id="red")
    project.processor.tick()
    made, _ = project.endpoints.create(url=URL, patterns=["task:*"], team_id="blue", retry=[7])
    emit(project, "task:made", entity_id="after", team_id="blue")
    project.processor.tick()

    counts = counts_of_batches(project.deliveries.replay_missed, made.id, since, by="ann", limit=2)
    again = counts_of_batches(project.deliveries.replay_missed, made.id, since)
    project.processor.tick()

    assert (sum(counts), sum(again)) == (5, 0)
    got = bodies(wire)
    assert sorted(body["entity_id"] for body in got) == ["0", "1", "2", "3", "4", "after"]
    events = dict(
        connection.execute(
            "select id::text, created_at from scheduled_actions where not payload ? 'endpoint'"
        ).fetchall()
    )
    assert all(body["action_id"] in events for body in got)
    found = connection.execute(
        "select max_attempts, created_by from scheduled_actions where created_by = 'ann' limit 1"
    ).fetchone()
    assert found == (2, "ann")


def test_concurrent_replays_send_no_event_twice(project, wire, connection, database_url):
    since = database_now(connection)
    for number in range(20):
        emit(project, "task:made", entity_id=str(number))
    project.processor.tick()
    made, _ = project.endpoints.create(url=URL)

    counts = together(
        database_url, 4, lambda *_: sum(counts_of_batches(project.deliveries.replay_missed, made.id, since, limit=3))
    )

    assert sum(counts) == 20
    assert deliveries(connection) == {"pending": 20}


def test_missed_events_of_another_teams_endpoint_cannot_be_replayed(project, connection):
    made, _ = project.endpoints.create(url=URL, team_id="blue")
    nobodys, _ = project.endpoints.create(url=URL)
    since = database_now(connection)

    for endpoint in (made.id, nobodys.id, "crm", "nothing"):
        with pytest.raises(UnknownEndpoint):
            project.deliveries.replay_missed(endpoint, since, team_id="red")
    with pytest.raises(InvalidArgument, match="since"):
        project.deliveries.replay_missed(made.id, since.replace(tzinfo=None))
    with pytest.raises(InvalidArgument, match="limit: 1001 is not an integer between 1 and 1000"):
        project.deliveries.recover(since, limit=1001)


def test_a_recovery_rejects_unknown_endpoints_and_hides_those_of_other_teams(project, connection):
    made, _ = project.endpoints.create(url=URL, team_id="blue")
    since = database_now(connection)

    for refused in (project.deliveries.count_lost, project.deliveries.recover):
        with pytest.raises(UnknownEndpoint, match="no webhook endpoint has the id or name nothing"):
            refused(since, endpoint="nothing")
    for name in ("nothing", made.id):
        assert project.deliveries.recover(since, endpoint=name, team_id="red").count == 0


def test_no_event_is_lost_in_an_outage_of_an_hour(project, wire, later, connection):
    """Every attempt of an hour fails; when the endpoint works again, each event arrives once."""
    state = {"is_down": True}
    wire.call(URL, lambda _: 503 if state["is_down"] else 204)
    project.endpoints.create(url=URL)

    for minute in range(12):
        emit(project, entity_id=str(minute))
        later(minutes=5)
    state["is_down"] = False
    for _ in range(4):
        later(hours=5)

    assert deliveries(connection) == {"completed": 12}
    shown = connection.execute("select endpoint, response_status from webhook_deliveries").fetchall()
    assert {status for _, status in shown} == {204}
