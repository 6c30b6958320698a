"""Messages are read as they were written, and anything else in a queue is refused; tickets end once."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from scheduled_actions.core.errors import InvalidArgument, UnknownExecutor, WrongCarrier
from scheduled_actions.executors.model import Ticket
from scheduled_actions.executors.tickets import TicketMessage, TicketQueue
from tests.factories import insert

TICKET = Ticket(uuid4(), uuid4(), "video:cut", "acme")
VALID = TicketMessage("media", [TICKET, TICKET._replace(team_id=None)]).as_json()
OF_ANOTHER = "another program writes to its queue"


def test_a_message_is_read_as_it_was_written():
    assert TicketMessage.of_json(json.loads(json.dumps(VALID))).as_json() == VALID


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (None, OF_ANOTHER),
        ([], OF_ANOTHER),
        ({}, OF_ANOTHER),
        (VALID | {"v": "1"}, OF_ANOTHER),
        (VALID | {"v": 2}, "has format version 2, and this version reads 1: update the worker"),
        (VALID | {"tickets": None}, OF_ANOTHER),
        (VALID | {"tickets": [3]}, OF_ANOTHER),
        (VALID | {"tickets": [VALID["tickets"][0] | {"id": "x"}]}, OF_ANOTHER),
        (VALID | {"tickets": [VALID["tickets"][0] | {"token": None}]}, OF_ANOTHER),
        (VALID | {"tickets": VALID["tickets"] * 51}, OF_ANOTHER),
    ],
)
def test_anything_else_is_refused_with_the_cause(message, problem):
    with pytest.raises(InvalidArgument, match=problem):
        TicketMessage.of_json(message)


def test_the_team_of_a_message_is_that_of_all_its_tickets():
    assert TicketMessage("media", [TICKET, TICKET]).team_id == "acme"
    assert TicketMessage("media", [TICKET, TICKET._replace(team_id="other")]).team_id is None
    assert TicketMessage("media", [TICKET._replace(team_id=None)]).team_id is None


def test_messages_of_executors_that_this_process_cannot_work_for_are_refused(a_project):
    project = a_project(executors={"media": {"types": ["video:*"]}})

    with pytest.raises(WrongCarrier, match="executors work media"):
        project.executors.run_message(VALID)
    with pytest.raises(UnknownExecutor, match=r"mediaa.*did you mean"):
        project.executors.run_message(VALID | {"executor": "mediaa"})


def test_tickets_whose_action_is_claimed_by_another_claim_are_dropped(connection):
    token = uuid4()
    columns = {"status": "processing", "claim_token": token, "action_type": "video:cut", "lease_expires_at": "infinity"}
    mine, other = insert(connection, **columns), insert(connection, **columns | {"claim_token": uuid4()})
    queue = TicketQueue()
    arrivals = [queue.add([Ticket(one, token, "video:cut", None)]) for one in (other, mine, mine)]

    claimed = queue.claim(connection, wanted=5, lease_seconds=1).kept

    assert [(one.id, one.token) for one in claimed] == [(mine, token)]
    assert [one.wait(0) for one in arrivals] == [True, False, False]
    arrivals.append(queue.add([Ticket(mine, token, "video:cut", None)]))
    assert queue.claim(connection, wanted=5, lease_seconds=1).kept == []
    assert not arrivals[-1].wait(0)
    queue.ended([mine])
    assert all(one.wait(0) for one in arrivals)


def test_the_room_of_a_queue_is_what_its_last_claim_wanted_and_did_not_find(connection):
    queue = TicketQueue()
    assert queue.wait_for_room(0) == 0

    queue.claim(connection, wanted=3, lease_seconds=1)
    assert queue.wait_for_room(0) == 3
    queue.add([TICKET])
    assert queue.wait_for_room(0) == 2


def test_a_closed_queue_ends_all_tickets_and_takes_no_more():
    queue = TicketQueue()
    arrival = queue.add([TICKET])

    queue.close()

    assert arrival.wait(0)
    assert queue.add([TICKET]).wait(0)
