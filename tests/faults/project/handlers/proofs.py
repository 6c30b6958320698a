"""Handlers that record when and where they ran, over a separate connection, in a separate database.

The tests compare these records with the tables of the package.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from scheduled_actions import Context, Snooze, action, next_occurrence

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The variable with the address of the ledger's database, for the processes that serve the project.
LEDGER_URL = "PROOF_LEDGER_URL"
#: Longer than any test waits, in seconds.
FOREVER = 600.0
_own = threading.local()


@dataclass(frozen=True)
class Work:
    """The payload of a handler: how long it takes, and how often it fails."""

    number: int = 0
    #: Seconds that the handler takes.
    seconds: float = 0.0
    #: Number of first attempts that raise an exception.
    failures: int = 0


@contextmanager
def recorded(context: Context, payload: Any) -> Iterator[None]:
    """Record the start of the block, and its end if it returns."""
    connection = _ledger()
    values = (context.id, context.action.action_type, context.action.lock_group, os.getpid(), context.attempt)
    row = connection.execute(
        "insert into runs (action_id, action_type, lock_group, pid, attempt, payload)"
        " values (%s, %s, %s, %s, %s, %s) returning number",
        (*values, json.dumps(payload)),
    ).fetchone()
    assert row is not None
    try:
        yield
    finally:
        connection.execute("update runs set ended_at = clock_timestamp() where number = %s", row)


def _ledger() -> psycopg.Connection[tuple[Any, ...]]:
    if not hasattr(_own, "connection"):
        _own.connection = psycopg.connect(os.environ[LEDGER_URL], autocommit=True)
    connection: psycopg.Connection[tuple[Any, ...]] = _own.connection
    return connection


def _do(payload: Work, context: Context) -> dict[str, int]:
    time.sleep(payload.seconds)
    if context.attempt <= payload.failures:
        message = f"failure {context.attempt} of {payload.failures}"
        raise RuntimeError(message)
    return {"pid": os.getpid()}


@action("proof:work")
def work(payload: Work, context: Context) -> dict[str, int]:
    """Take some time; return where it ran."""
    with recorded(context, asdict(payload)):
        return _do(payload, context)


@action("proof:transact", transactional=True)
def transact(payload: Work, context: Context) -> dict[str, int]:
    """Write one effect to the project's database, together with the settlement."""
    with recorded(context, asdict(payload)):
        context.connection.execute("insert into effects (action_id) values (%s)", [context.id])
        # Very fast actions would be announced long before they start.
        context.schedule("proof:work", {"number": payload.number, "seconds": 0.1})
        return _do(payload, context)


@action("proof:gather")
def gather(payload: list[Work], context: Context) -> None:
    """Accept all payloads collected under one key; fail at first."""
    with recorded(context, [one.number for one in payload]):
        _do(payload[0], context)


@action("proof:kill-process")
def kill_process(payload: Work, context: Context) -> None:
    """Kill the process that runs this handler."""
    with recorded(context, asdict(payload)):
        time.sleep(payload.seconds)
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(FOREVER)


@action("proof:hang", timeout_seconds=2)
def hang(payload: Work, context: Context) -> None:
    """Never return, and ignore requests to stop."""
    with recorded(context, asdict(payload)):
        time.sleep(FOREVER)


@action("proof:hang-awaiting", timeout_seconds=2)
async def hang_awaiting(payload: Work, context: Context) -> None:
    """Await a future that is never completed."""
    with recorded(context, asdict(payload)):
        await asyncio.sleep(FOREVER)


@action("proof:hang-blocking", timeout_seconds=2)
async def hang_blocking(payload: Work, context: Context) -> None:
    """Block its event loop."""
    with recorded(context, asdict(payload)):
        time.sleep(FOREVER)  # noqa: ASYNC251 - the mistake that is tested


@action("proof:hang-in-database", timeout_seconds=2, transactional=True)
def hang_in_database(payload: Work, context: Context) -> None:
    """Wait in the database, in the handler's transaction."""
    with recorded(context, asdict(payload)):
        context.connection.execute("insert into effects (action_id) values (%s)", [context.id])
        context.connection.execute("select pg_sleep(%s)", [FOREVER])


@action("proof:listen", timeout_seconds=20)
def listen(payload: Work, context: Context) -> Snooze:
    """Run until asked to stop; then snooze, to continue later."""
    with recorded(context, asdict(payload)):
        while not context.should_stop:
            time.sleep(0.02)
        return Snooze(0)


@action("proof:tell-time")
def tell_time(payload: Work, context: Context) -> dict[str, float]:
    """Record the current time by the clock of this process."""
    with recorded(context, asdict(payload)):
        return {"time": time.time(), "now": datetime.now(UTC).timestamp(), "pid": os.getpid()}


@next_occurrence("half-minutes")
def half_minutes(moment: datetime) -> datetime:
    """Take so long that the process can be killed meanwhile; return the next full or half minute."""
    time.sleep(0.2)
    return moment.replace(second=moment.second // 30 * 30, microsecond=0) + timedelta(seconds=30)
