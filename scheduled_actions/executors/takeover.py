"""Take claimed actions over for a worker, and write the worker's row."""

import os
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID, uuid4

from psycopg.rows import tuple_row

from scheduled_actions.core.action import Claimed
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements, numbers, uuids
from scheduled_actions.executors.model import Ticket
from scheduled_actions.ticks.report import MetricsBuffer

sql = Statements(__file__)


def name_of_process() -> str:
    """Return the host and the process id, as workers are named."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker as stored in the database."""

    id: UUID = field(default_factory=uuid4)
    executor: str
    #: Host and process id.
    name: str = field(default_factory=name_of_process)
    #: Number of actions that it runs at the same time.
    concurrency: int


class TakenAction(NamedTuple):
    """An action that a worker has taken over."""

    #: With the new claim token.
    claimed: Claimed
    lease_expires_at: datetime


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The tickets of one take-over, sorted by what became of them; those in neither collection are no longer valid."""

    #: The actions to run, by id.
    taken: Mapping[UUID, TakenAction]
    #: The actions that have to wait until the worker runs nothing else. Their tickets are still valid.
    waiting: frozenset[UUID]


def take_over(
    connection: Connection,
    worker: WorkerRow,
    tickets: Sequence[Ticket],
    *,
    seconds: Sequence[float],
    running: Collection[UUID],
    token: UUID,
) -> TakeOver:
    """Take over the actions whose tickets are valid; the attempts of these actions count from now on.

    Calling this again with the same arguments after a lost connection returns the same result.

    Args:
        connection: In autocommit mode, or in a transaction.
        worker: The worker, whose row is written, too.
        tickets: In the order in which the actions should start.
        seconds: By ticket: seconds until the new lease ends.
        running: The ids of all actions that the worker runs now. If the worker is killed, any of them may be the cause.
        token: The new claim token of the actions; a new one for each call.
    """
    cursor = connection.cursor(row_factory=tuple_row, binary=True)
    cursor.execute(
        sql.text("take_over"),
        {
            "ids": uuids(one.id for one in tickets),
            "tokens": uuids(one.token for one in tickets),
            "seconds": numbers(seconds),
            "running": uuids(running),
            "token": token,
            **_columns(worker),
        },
    )
    taken: dict[UUID, TakenAction] = {}
    waiting: set[UUID] = set()
    for *values, lease_expires_at, is_taken in cursor:
        claimed = Claimed._make([*values, token])
        if is_taken:
            taken[claimed.id] = TakenAction(claimed, lease_expires_at)
        else:
            waiting.add(claimed.id)
    return TakeOver(taken, frozenset(waiting))


def write_worker(connection: Connection, worker: WorkerRow, *, has_finished: bool) -> datetime:
    """Insert or update the row of a worker; return the time of the database's clock.

    Args:
        connection: In autocommit mode.
        worker: The worker.
        has_finished: Whether the worker has ended.
    """
    seen_at: datetime = sql.run_one(connection, "write_worker", {**_columns(worker), "finished": has_finished})[0]
    return seen_at


def count_metrics(connection: Connection, metrics: MetricsBuffer) -> None:
    """Add the values of metrics that the worker has counted; after a lost connection they may be added twice."""
    columns = metrics.columns()
    if columns["metrics"]:
        sql.run(connection, "count_metrics", columns)


def prune_workers(connection: Connection, *, limit: int) -> int:
    """Delete at most `limit` workers that were last seen more than a day ago; return their number."""
    return sql.run(connection, "prune_workers", {"limit": limit}).rowcount


def _columns(worker: WorkerRow) -> dict[str, object]:
    return {
        "worker_id": worker.id,
        "executor": worker.executor,
        "name": worker.name,
        "concurrency": worker.concurrency,
    }
