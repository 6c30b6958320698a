"""Insert test rows, and do the work of a tick with plain SQL on one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import psycopg

from benchmarks.harness import WrongResultError
from benchmarks.noop import ACTION_TYPE
from scheduled_actions.actions import claims, settling
from scheduled_actions.ticks import store as tick_store
from scheduled_actions.ticks.rules.plan import MAX_BATCH

if TYPE_CHECKING:
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Connection

#: Batch size of a single claim: the default of the setting `batch_size`.
BATCH = 100
#: Batch size of a drain: the size to which a tick's claims grow when handlers do nothing.
DRAINED_AT_ONCE = MAX_BATCH

_FILL_DUE = """
insert into scheduled_actions (action_type, payload, scheduled_at)
select %(action_type)s, jsonb_build_object('n', n), now() - interval '1 minute' + n * interval '1 microsecond'
from generate_series(1, %(count)s) n
"""

# Spread over the last day: too recent to be pruned.
_FILL_COMPLETED = """
insert into scheduled_actions (
  action_type, payload, status, scheduled_at, started_at, completed_at, attempts, max_attempts
)
select %(action_type)s, jsonb_build_object('n', n), 'completed', at.ended, at.ended, at.ended, 1, 3
from generate_series(1, %(count)s) n
cross join lateral (select now() - interval '1 day' * n / %(count)s as ended) at
"""

_BARE_CLAIM = """
update scheduled_actions
set status = 'processing', claim_token = gen_random_uuid(), lease_expires_at = now() + interval '70 seconds'
where id = any (array(
  select id from scheduled_actions
  where status = 'pending' and lock_group is null and scheduled_at <= now()
  order by priority, scheduled_at, id
  limit %(wanted)s
  for update skip locked
))
returning id
"""

_BARE_COMPLETE = """
update scheduled_actions
set status = 'completed', attempts = attempts + 1, claim_token = null, lease_expires_at = null, completed_at = now(),
  dedup_open = false
where id = any (%(ids)s)
"""


def fill_due(connection: Connection, count: int) -> None:
    """Insert due actions that sort after all existing ones."""
    connection.execute(_FILL_DUE, {"action_type": ACTION_TYPE, "count": count})


def fill_completed(connection: Connection, count: int) -> None:
    """Insert actions that completed within the last day."""
    connection.execute(_FILL_COMPLETED, {"action_type": ACTION_TYPE, "count": count})


def settle_down(connection: Connection) -> None:
    """Vacuum, analyse and checkpoint, so that inserted rows cause no background work during a measurement."""
    connection.execute("vacuum (analyze) scheduled_actions")
    try:
        connection.execute("checkpoint")
    except psycopg.errors.InsufficientPrivilege:
        return


def drain(connection: Connection) -> int:
    """Claim, announce and settle all due actions with the package's own statements, without handlers.

    Returns:
        The number of settled actions.
    """
    tick = begin(connection)
    running: list[Claimed] = []
    position, settled = claims.START, 0
    while True:
        claimed, position = claims.claim_free(
            connection, tick, wanted=DRAINED_AT_ONCE, after=position, excluded=(), with_series=False
        )
        settled += complete(connection, tick, running, announced=claimed)
        if not claimed:
            return settled
        running = claimed


def begin(connection: Connection) -> claims.TickRow:
    """Insert and return a tick whose leases last longer than the benchmark."""
    return tick_store.begin_tick(connection, uuid4(), lease_seconds=3600, caller="benchmark", budget={})


def complete(
    connection: Connection, tick: claims.TickRow, ended: list[Claimed], *, announced: list[Claimed] | None = None
) -> int:
    """Settle actions as completed and announce the next ones in one statement; return the number settled."""
    running = [one.id for one in announced or ()]
    if not ended:
        settling.settle(connection, tick, [], running=running)
        return 0
    completions = [settling.Completion(one.id, one.token, started=0, ended=0, max_attempts=3) for one in ended]
    return len(ended) - len(settling.complete(connection, tick, completions, running=running).lost)


def bare_drain(connection: Connection) -> int:
    """Claim and complete all due actions with minimal SQL; return their number."""
    completed = 0
    while ids := bare_claim(connection, DRAINED_AT_ONCE):
        completed += bare_complete(connection, ids)
    return completed


def bare_claim(connection: Connection, wanted: int = BATCH) -> list[UUID]:
    """Claim a batch with the shortest safe statement; return the ids."""
    return [row[0] for row in connection.execute(_BARE_CLAIM, {"wanted": wanted})]


def bare_complete(connection: Connection, ids: list[UUID]) -> int:
    """Complete a batch by id, without claim token, start times or announcement; return the number completed."""
    return connection.execute(_BARE_COMPLETE, {"ids": ids}).rowcount


def count_completed(connection: Connection) -> int:
    """Return the number of completed actions.

    Raises:
        WrongResultError: An action is neither completed nor pending, or took more than one attempt.
    """
    row = connection.execute(
        "select count(*) filter (where status = 'completed' and attempts = 1),"
        " count(*) filter (where status not in ('completed', 'pending') or attempts > 1) from scheduled_actions"
    ).fetchone()
    assert row is not None  # an aggregate has one row
    if row[1]:
        raise WrongResultError("actions neither pending nor completed at the first attempt", found=row[1], expected=0)
    return int(row[0])
