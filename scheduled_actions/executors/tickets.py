"""Tickets: write them as messages of a broker, and keep those that have arrived until a worker can start them."""

import threading
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import tuple_row

from scheduled_actions.actions.claims import ClaimResult
from scheduled_actions.core import json_text
from scheduled_actions.core.action import Claimed
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements, uuids
from scheduled_actions.executors.model import Ticket

sql = Statements(__file__)

#: The version of the format of messages.
_VERSION = 1
#: Maximum number of tickets in a message, as in the settings.
_MAX_TICKETS = 100


class TicketMessage(NamedTuple):
    """A message of a broker: tickets of one executor."""

    executor: str
    tickets: Sequence[Ticket]

    @property
    def team_id(self) -> str | None:
        """The team of all tickets; None if they belong to several teams, or to none."""
        teams = {one.team_id for one in self.tickets}
        return teams.pop() if len(teams) == 1 else None

    def as_json(self) -> dict[str, Any]:
        """Return the message as a JSON object."""
        tickets = [
            {"id": str(one.id), "token": str(one.token), "action_type": one.action_type, "team_id": one.team_id}
            for one in self.tickets
        ]
        return {"v": _VERSION, "executor": self.executor, "tickets": tickets}

    @classmethod
    def of_text(cls, text: str) -> "TicketMessage":
        """Return the message that a JSON text contains.

        Raises:
            InvalidArgument: It is not such a message, or a newer version has written it.
        """
        return cls.of_json(json_text.decode(text, name="message"))

    @classmethod
    def of_json(cls, value: Any) -> "TicketMessage":  # noqa: ANN401 - anything that a queue may contain
        """Return the message that a JSON object contains.

        Raises:
            InvalidArgument: It is not such a message, or a newer version has written it.
        """
        version = value.get("v") if isinstance(value, dict) else None
        if isinstance(version, int) and version > _VERSION:
            problem = f"has format version {version}, and this version reads {_VERSION}: update the worker"
            raise InvalidArgument("message", problem=problem)
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            tickets = value["tickets"]
            if version == _VERSION and isinstance(tickets, list) and len(tickets) <= _MAX_TICKETS:
                return cls(str(value["executor"]), [_ticket(one) for one in tickets])
        raise InvalidArgument("message", problem="is not a message of an executor: another program writes to its queue")


def _ticket(value: Mapping[str, Any]) -> Ticket:
    team_id = value["team_id"]
    return Ticket(
        UUID(value["id"]), UUID(value["token"]), str(value["action_type"]), None if team_id is None else str(team_id)
    )


class Arrival:
    """The tickets of one message in a process; ends when each has been run, released or dropped."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._ended = threading.Event()
        self.end(0)

    def end(self, number: int = 1) -> None:
        """Count tickets that have ended; called by one thread at a time."""
        self._left -= number
        if self._left <= 0:
            self._ended.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all tickets have ended, at most `seconds`; return whether they have."""
        return self._ended.wait(seconds)


class TicketQueue:
    """The tickets that have arrived in this process, from which its worker takes what it can start at once.

    Thread-safe, because the threads that receive messages add tickets. Tickets whose action is no longer claimed with
    their token, or whose lease has ended, are dropped.
    """

    #: A claim that finds nothing costs no statement.
    futile_seconds = 0.0

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Ticket, Arrival]] = deque()
        #: By action that the worker has claimed and not settled: the arrivals of its ticket, several if it was sent
        #: twice.
        self._claimed: dict[UUID, list[Arrival]] = {}
        #: Number of tickets that the last claim wanted and did not find.
        self._missing = 0
        self._is_closed = False
        #: Whether further tickets are expected, so that a worker that runs until it is idle waits for them.
        self.expects_more = False

    @property
    def is_closed(self) -> bool:
        """Whether its worker has ended."""
        return self._is_closed

    def add(self, tickets: Sequence[Ticket]) -> Arrival:
        """Add the tickets of a message; return its arrival, which has ended if the queue is closed."""
        with self._changed:
            if self._is_closed:
                return Arrival(0)
            arrival = Arrival(len(tickets))
            self._waiting += [(one, arrival) for one in tickets]
            return arrival

    def wait_for_room(self, seconds: float) -> int:
        """Return how many further tickets the worker could start at once; wait at most `seconds` for room."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._missing > len(self._waiting), seconds)
            return 0 if self._is_closed else max(0, self._missing - len(self._waiting))

    def claim(self, connection: Connection, *, wanted: int, lease_seconds: float) -> ClaimResult:  # noqa: ARG002 - as the queue in Postgres
        """Return the actions of at most `wanted` valid tickets, in the order of their arrival."""
        kept: list[Claimed] = []
        while tickets := self._first(wanted - len(kept)):
            # During an outage, the tickets stay in the queue.
            found = [one for one in _read_valid(connection, tickets) if one.id not in self._claimed]
            self._remove(len(tickets), {one.id for one in found})
            kept += found
        with self._changed:
            self._missing = wanted - len(kept)
            self._changed.notify_all()
        return ClaimResult(kept)

    def take_rest(self, connection: Connection) -> list[Claimed]:
        """Return the actions of all remaining tickets, which are to be released."""
        return self.claim(connection, wanted=len(self._waiting), lease_seconds=0.0).kept

    def give_back_turns(self, team_ids: Iterable[str | None]) -> None:
        """Do nothing: the sender of the tickets lets teams take turns."""

    def ended(self, ids: Iterable[UUID]) -> None:
        """End the tickets of claimed actions that were settled or released."""
        with self._changed:
            for action_id in ids:
                self._missing += 1
                for arrival in self._claimed.pop(action_id, ()):
                    arrival.end()
            self._changed.notify_all()

    def close(self) -> None:
        """End all tickets, and take no further ones: the worker has ended."""
        self.ended(list(self._claimed))
        with self._changed:
            self._is_closed = True
            for _, arrival in self._waiting:
                arrival.end()
            self._waiting.clear()
            self._changed.notify_all()

    def _first(self, most: int) -> list[Ticket]:
        with self._changed:
            return [one for one, _ in islice(self._waiting, most)]

    def _remove(self, number: int, found: Collection[UUID]) -> None:
        """Remove the first tickets; those of the found actions end with them, the others now."""
        with self._changed:
            for ticket, arrival in [self._waiting.popleft() for _ in range(number)]:
                if ticket.id in found or ticket.id in self._claimed:
                    self._claimed.setdefault(ticket.id, []).append(arrival)
                else:
                    arrival.end()


def _read_valid(connection: Connection, tickets: Sequence[Ticket]) -> list[Claimed]:
    """Return the claimed actions whose tickets are valid, in the order of the tickets."""
    cursor = connection.cursor(row_factory=tuple_row, binary=True)
    tokens = {one.id: one.token for one in tickets}
    cursor.execute(sql.text("read_tickets"), {"ids": uuids(tokens), "tokens": uuids(tokens.values())})
    found = {values[0]: Claimed._make([*values, tokens[values[0]]]) for values in cursor}
    return [found[one] for one in tokens if one in found]
