"""Store the executors of the settings in the database, and read them with their queues and workers."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from scheduled_actions.core.config import Executor
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements
from scheduled_actions.executors.model import WORKERS_MOST, ExecutorChange, ExecutorState, SeenWorker

sql = Statements(__file__)


def write_executors(
    connection: Connection, executors: Mapping[str, Executor], *, replace: bool
) -> list[ExecutorChange]:
    """Insert and update the stored executors, if they differ; every claim from now on passes over their action types.

    If an executor has lost types, its queue returns to the claims in bites, by ticks and workers.

    Args:
        connection: In autocommit mode.
        executors: The executors by name.
        replace: Whether to remove all others; otherwise they stay, because a newer process may have written them.

    Returns:
        The executors that were added, changed or removed, by name.
    """
    given = [
        {
            "name": name,
            "types": executor.types,
            "type_patterns": [_like(one) for one in executor.types],
            "carrier": executor.carrier,
        }
        for name, executor in executors.items()
    ]
    rows = sql.run(connection, "write_executors", {"executors": json.dumps(given), "replace": replace})
    return [ExecutorChange(name, tuple(before), tuple(after)) for name, before, after in rows]


def find_executors(connection: Connection, name: str | None = None) -> list[ExecutorState]:
    """Return the executors in the database, by name; with `name`, only that one."""
    parameters = {"names": None if name is None else [name], "workers": WORKERS_MOST}
    return [_state(*values) for values in sql.run(connection, "list_executors", parameters)]


def _state(  # noqa: PLR0917 - the columns of list_executors.sql
    name: str,
    types: Sequence[str],
    carrier: str,
    untaken: int,
    oldest_untaken_at: datetime | None,
    due: int,
    queued: int,
    oldest_due_at: datetime | None,
    running: int,
    workers: int,
    last_taken_at: datetime | None,
    last_seen_at: datetime | None,
    is_attended: bool,  # noqa: FBT001 - a column
    *columns: Sequence[Any],
) -> ExecutorState:
    return ExecutorState(
        name=name,
        types=tuple(types),
        carrier=carrier,
        untaken=untaken,
        oldest_untaken_at=oldest_untaken_at,
        due=due,
        queued=queued,
        oldest_due_at=oldest_due_at,
        running=running,
        workers=workers,
        last_taken_at=last_taken_at,
        last_seen_at=last_seen_at,
        is_attended=is_attended,
        seen_workers=tuple(_seen_worker(*one) for one in zip(*columns, strict=True)),
    )


def _seen_worker(  # noqa: PLR0917 - the columns of list_executors.sql
    name: str, concurrency: int, running: int, started_at: datetime, seen_at: datetime, taken_at: datetime | None
) -> SeenWorker:
    return SeenWorker(
        name=name,
        concurrency=concurrency,
        running=running,
        started_at=started_at,
        seen_at=seen_at,
        last_taken_at=taken_at,
    )


def _like(pattern: str) -> str:
    """Return the pattern of LIKE for an action type, or for a prefix of types followed by `*`."""
    escaped = pattern.removesuffix("*").replace("_", "\\_")
    return f"{escaped}%" if pattern.endswith("*") else escaped
