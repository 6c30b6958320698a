"""Park the due actions that claims pass over, and return them in order, in bounded bites.

Pauses park the actions that they hold back until they end; executors park their actions in queues, for their workers.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeAlias

from scheduled_actions.actions.claims import START as FIRST, ScanPosition
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements
from scheduled_actions.limits.claims import MAX_QUEUES, START
from scheduled_actions.limits.rules.admission import KeyId

sql = Statements(__file__)

#: Maximum number of actions that one statement parks.
MAX_PARKED = 5_000
#: Maximum number of actions that one statement returns: few, so that it delays no settlement noticeably.
MAX_RETURNED = 1_000
#: Maximum number of actions that one statement reads in each index of the claims, and in each queue.
_WINDOW = 5_000
_PER_QUEUE = 500
#: Maximum number of ended pauses that one statement deletes.
_MAX_DELETED = 500

#: Runs a step on a connection in autocommit mode, and returns its result.
Do: TypeAlias = Callable[[Callable[[Connection], "Bite"]], "Bite"]


class Position(NamedTuple):
    """Where the next bite continues: in the order of the claims, or in the queues of limit keys."""

    due: ScanPosition | None
    queue: KeyId = START


class Bite(NamedTuple):
    """What one statement has parked."""

    parked: int
    #: None if the statement has read the last action.
    position: Position | None


def park_all(do: Do) -> Iterator[int]:
    """Park every action that a pause holds back or an executor runs; yield the number parked by each statement.

    Actions locked by other transactions are left to a later call.
    """
    position: Position | None = Position(FIRST)
    parked_in_queues = 0
    while position is not None:
        bite = do(partial(park, position=position, most=MAX_PARKED))
        parked_in_queues += bite.parked if position.due is None else 0
        position = bite.position
        if position is None and parked_in_queues:
            # Each pass reads the front of every queue only.
            position, parked_in_queues = Position(None), 0
        yield bite.parked
    while (bite := do(partial(park_in_executor_queues, most=MAX_PARKED))).parked:
        yield bite.parked


def park_first(connection: Connection, *, most: int, has_queued: bool, has_pauses: bool = True) -> bool:
    """Park at most `most` of the first due actions, and as many in the queues; return whether more may be left.

    Args:
        connection: In autocommit mode.
        most: Maximum number of actions.
        has_queued: Whether actions are in the queues of limit keys.
        has_pauses: Whether there are pauses. Without, actions are parked for executors only: if none of the first due
            actions was, further ones are left to later calls.
    """
    due = park(connection, Position(FIRST), most=most)
    has_left = due.position != Position(None)
    if not has_pauses:
        return has_left and due.parked > 0
    queued = park(connection, Position(None), most=most) if has_queued else Bite(0, None)
    in_executor_queues = park_in_executor_queues(connection, most=most)
    return has_left or queued.parked > 0 or queued.position is not None or in_executor_queues.parked == most


def park(connection: Connection, position: Position, *, most: int) -> Bite:
    """Park a bite of actions, first among the due actions, then, for pauses, in the queues of limit keys.

    Args:
        connection: In autocommit mode.
        position: Where to continue.
        most: Maximum number of actions.
    """
    if position.due is None:
        return _park_queued(connection, position.queue, most)
    after = position.due
    parked, *last = sql.run_one(
        connection,
        "park_due",
        {
            "after_priority": after.priority,
            "after_at": after.scheduled_at,
            "after_id": after.id,
            "window": _WINDOW,
            "most": most,
        },
    )
    return Bite(parked, Position(None if last[0] is None else ScanPosition(*last)))


def _park_queued(connection: Connection, after: KeyId, most: int) -> Bite:
    parked, limit_key, team_id = sql.run_one(
        connection,
        "park_queued",
        {
            "after_key": after.limit_key,
            "after_team": after.team_id,
            "most_queues": MAX_QUEUES,
            "per_queue": _PER_QUEUE,
            "most": most,
        },
    )
    if parked == most:
        return Bite(parked, Position(None, after))
    return Bite(parked, None if limit_key is None else Position(None, KeyId(team_id, limit_key)))


def park_in_executor_queues(connection: Connection, *, most: int) -> Bite:
    """Park at most `most` of the first actions in the queues of executors that a pause holds back.

    Args:
        connection: In autocommit mode.
        most: Maximum number of actions.
    """
    parameters = {"most": most, "per_queue": _WINDOW}
    return Bite(sql.run_one(connection, "park_in_executor_queues", parameters)[0], None)


def return_queues(connection: Connection, *, most: int = MAX_RETURNED) -> bool:
    """Return at most `most` actions from queues of changed executors to the claims; return whether more may be left.

    Args:
        connection: In autocommit mode.
        most: Maximum number of actions.
    """
    found, locked = sql.run_one(connection, "return_queues", {"most": most})
    if found == most and locked < most:
        return True
    sql.run(connection, "finish_returns")
    return False


def unpark(connection: Connection, *, most: int = MAX_RETURNED) -> bool:
    """Return at most `most` actions of ended pauses to the claims, in order; return whether more may be left.

    Ended pauses whose actions have all returned are deleted.

    Args:
        connection: In autocommit mode.
        most: Maximum number of actions.
    """
    found, locked = sql.run_one(connection, "unpark", {"most": most})
    if found == most and locked < most:
        return True
    with connection.transaction():
        ids = [row[0] for row in sql.run(connection, "lock_ended", {"most": _MAX_DELETED})]
        if ids:
            sql.run(connection, "delete_ended", {"ids": ids})
    return False
