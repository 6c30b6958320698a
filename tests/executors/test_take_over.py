"""Take over: a worker gets exactly the actions whose tickets are valid."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from scheduled_actions.executors import takeover
from scheduled_actions.executors.claims import ExecutorQueue
from scheduled_actions.executors.model import Ticket
from scheduled_actions.ticks.maintenance import Maintenance
from tests.factories import database_now, insert, insert_many, move_clock, row

CRASHED = [{"attempt": 1, "outcome": "crashed"}]


class Tickets:
    """Claims for the executor `media`, and takes over."""

    def __init__(self, connection, project):
        self.connection = connection
        self.queue = ExecutorQueue("media", (), project.config.settings)
        self.worker = takeover.WorkerRow(executor="media", concurrency=2)

    def claim(self, wanted=10):
        claimed = self.queue.claim(self.connection, wanted=wanted, lease_seconds=30).kept
        return [Ticket(one.id, one.token, one.action_type, one.team_id) for one in claimed]

    def take(self, tickets, *, running=(), token=None, seconds=100.0, worker=None):
        return takeover.take_over(
            self.connection, worker or self.worker, tickets, seconds=[seconds] * len(tickets), running=running,
            token=token or uuid4(),
        )  # fmt: skip


@pytest.fixture
def project(a_project):
    return a_project()


@pytest.fixture
def tickets(connection, project):
    return Tickets(connection, project)


def workers(connection):
    """Return the running actions of each worker."""
    return dict(connection.execute("select id, running from scheduled_action_workers").fetchall())


def test_a_valid_ticket_becomes_an_announced_action_with_a_new_token_and_a_lease_of_its_own(connection, tickets):
    one = insert(connection, action_type="video:cut", payload={"n": 1}, team_id="acme")
    [ticket] = tickets.claim()
    before = row(connection, one)

    found = tickets.take([ticket], seconds=100)

    after, claimed = row(connection, one), found.taken[one].claimed
    assert (before["announced_at"], before["worker_id"], before["executor"]) == (None, None, "media")
    assert str(claimed.token) == after["claim_token"] != before["claim_token"]
    assert after["announced_at"] is not None
    assert after["worker_id"] == str(tickets.worker.id)
    assert (claimed.payload_text, claimed.team_id, claimed.attempts) == ('{"n": 1}', "acme", 0)
    lasts = connection.execute(
        "select lease_expires_at - announced_at = interval '100 s' from scheduled_actions"
    ).fetchone()
    assert lasts == (True,)
    assert workers(connection) == {tickets.worker.id: [one]}


def test_a_ticket_is_taken_once(connection, tickets):
    insert(connection, action_type="video:cut")
    [ticket] = tickets.claim()

    first = tickets.take([ticket])
    again = tickets.take([ticket], worker=takeover.WorkerRow(executor="media", concurrency=2))

    assert len(first.taken) == 1
    assert (again.taken, again.waiting) == ({}, frozenset())
    assert len(workers(connection)) == 1, "a worker that took nothing over is not written"


def test_a_repeated_take_over_returns_the_same_actions(connection, tickets):
    insert_many(connection, 2, action_type="video:cut")
    claimed, token = tickets.claim(), uuid4()

    first = tickets.take(claimed, token=token)
    again = tickets.take(claimed, token=token)

    assert first.taken.keys() == again.taken.keys() == {one.id for one in claimed}


@pytest.mark.parametrize(
    "change",
    [
        "update scheduled_actions set cancel_requested_at = scheduled_actions_now()",
        "update scheduled_actions set lease_expires_at = scheduled_actions_now() - interval '1 s'",
        "update scheduled_actions set status = 'pending', claim_token = null, lease_expires_at = null",
        "delete from scheduled_actions",
    ],
    ids=["cancel requested", "lease ended", "released", "deleted"],
)
def test_a_ticket_is_not_valid_after(connection, tickets, change):
    insert(connection, action_type="video:cut")
    claimed = tickets.claim()
    connection.execute(change)

    found = tickets.take(claimed)

    assert (found.taken, found.waiting) == ({}, frozenset())


def test_the_tokens_of_slots_change_with_those_of_their_actions(connection, tickets):
    token = uuid4()
    one = insert(
        connection,
        action_type="video:cut",
        limit_keys=["key"],
        status="processing",
        claim_token=token,
        lease_expires_at=database_now(connection) + timedelta(minutes=1),
    )
    ticket = Ticket(one, token, "video:cut", None)
    connection.execute(
        "insert into scheduled_action_limit_slots (team_id, limit_key, action_id, claim_token)"
        " values ('', 'key', %s, %s)",
        [one, ticket.token],
    )

    found = tickets.take([ticket])

    slots = connection.execute("select claim_token from scheduled_action_limit_slots").fetchall()
    assert slots == [(found.taken[one].claimed.token,)]


def test_an_action_that_ended_its_process_waits_until_the_worker_runs_nothing_else(connection, tickets):
    crashed = insert(connection, action_type="video:cut", history=CRASHED)
    other = insert(connection, action_type="video:cut")
    claimed = {one.id: one for one in tickets.claim()}

    together = tickets.take(list(claimed.values()))
    while_busy = tickets.take([claimed[crashed]], running=[other])
    alone = tickets.take([claimed[crashed]], running=[])

    assert (together.taken.keys(), together.waiting) == ({other}, {crashed})
    assert (while_busy.taken, while_busy.waiting) == ({}, {crashed})
    assert alone.taken.keys() == {crashed}
    assert workers(connection) == {tickets.worker.id: [crashed]}


def test_of_several_actions_that_ended_their_process_the_first_is_taken_alone(connection, tickets):
    insert_many(connection, 3, action_type="video:cut", history=CRASHED)
    claimed = tickets.claim()

    found = tickets.take(claimed)

    assert found.taken.keys() == {claimed[0].id}
    assert found.waiting == {claimed[1].id, claimed[2].id}


def test_an_action_that_another_session_has_locked_is_left_out(connection, tickets, database_url):
    ids = insert_many(connection, 2, action_type="video:cut")
    claimed = tickets.claim()
    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_actions where id = %s for update", [ids[0]])

        found = tickets.take(claimed)

    assert found.taken.keys() == {ids[1]}


def test_a_claim_that_was_not_taken_over_is_rescued_uncharged(connection, tickets, project):
    one = insert(connection, action_type="video:cut", max_attempts=1)
    tickets.claim()
    move_clock(connection, timedelta(seconds=31))

    [rescued] = Maintenance(project.processor.state).rescue(connection)

    after = row(connection, one)
    assert rescued.lease.was_started is False
    assert (after["status"], after["attempts"], after["history"], after["executor"]) == ("pending", 0, [], None)


@pytest.mark.parametrize(
    ("companions", "settled"), [(0, ("failed", 1)), (1, ("pending", 0))], ids=["alone", "with another"]
)
def test_the_last_attempt_of_a_killed_worker_is_charged_only_to_an_action_that_ran_alone(
    connection, tickets, project, companions, settled
):
    ids = insert_many(connection, 1 + companions, action_type="video:cut", max_attempts=1)
    tickets.take(tickets.claim())
    move_clock(connection, timedelta(seconds=101))

    rescued = Maintenance(project.processor.state).rescue(connection)

    assert [one.lease.announced for one in rescued] == [len(ids)] * len(ids)
    for one in ids:
        after = row(connection, one)
        assert (after["status"], after["attempts"]) == settled
        assert after["history"][0]["outcome"] == "crashed"
        assert after["history"][0]["worker"] == str(tickets.worker.id)
        assert "tick" not in after["history"][0]
        assert (after["announced_at"], after["worker_id"], after["executor"]) == (None, None, None)


def test_a_companion_is_counted_although_its_own_lease_goes_on(connection, tickets, project):
    short, long = insert_many(connection, 2, action_type="video:cut", max_attempts=1)
    claimed = tickets.claim()
    takeover.take_over(
        connection, tickets.worker, claimed, seconds=[50.0 if one.id == short else 500.0 for one in claimed],
        running=[], token=uuid4(),
    )  # fmt: skip
    maintenance = Maintenance(project.processor.state)

    move_clock(connection, timedelta(seconds=51))
    maintenance.rescue(connection)
    meanwhile = row(connection, short), row(connection, long)
    move_clock(connection, timedelta(seconds=501))
    maintenance.rescue(connection)

    assert [one["status"] for one in meanwhile] == ["pending", "processing"]
    assert (row(connection, short)["attempts"], row(connection, long)["attempts"]) == (0, 0)
    assert (row(connection, short)["status"], row(connection, long)["status"]) == ("pending", "pending")


def test_workers_are_pruned_a_day_after_they_were_seen_unless_rescue_needs_them(connection, tickets):
    insert(connection, action_type="video:cut")
    tickets.take(tickets.claim(), seconds=2 * 86400)
    ended = takeover.WorkerRow(executor="media", concurrency=2)
    takeover.write_worker(connection, ended, has_finished=True)

    early = takeover.prune_workers(connection, limit=10)
    move_clock(connection, timedelta(seconds=86401))
    late = takeover.prune_workers(connection, limit=10)

    assert (early, late) == (0, 1)
    assert workers(connection).keys() == {tickets.worker.id}
