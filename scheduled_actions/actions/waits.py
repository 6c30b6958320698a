"""Store, read, settle and wake the waits of actions for facts, other actions and deadlines."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from json.encoder import encode_basestring
from typing import NamedTuple
from uuid import UUID

from scheduled_actions.actions.claims import START, ScanPosition, scan_parameters
from scheduled_actions.actions.rules.settlement import SettlementResult
from scheduled_actions.conditions.model import ActionState, FactKey, FactValue, Needs
from scheduled_actions.conditions.rules.kinds import PREFIXED_MOST
from scheduled_actions.conditions.rules.plan import WaitProgress
from scheduled_actions.core.action import Status
from scheduled_actions.database.boundary import RETRYABLE_ERRORS
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements, binary_uuids, instants, numbers, texts, uuid_array, uuids
from scheduled_actions.database.transactions import LOCK_WAIT_MS, limit_lock_waits

sql = Statements(__file__)

#: The lock timeout in milliseconds when stored changes are handled one by one.
_RETRY_PATIENCE_MS = "5"
#: Maximum number of locked changes that one call skips.
_REFUSED_MOST = 8
#: Maximum number of pairs of waiting actions read at once.
_PAIRS_MOST = 10_000


class Waiter(NamedTuple):
    """An action and the rows its condition needs."""

    action_id: UUID
    #: '' for an action without a team.
    team_id: str
    needs: Needs
    #: Whether the condition has been checked before, so that the row may have progress.
    was_checked: bool = True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The data needed to evaluate a batch of conditions, read at one instant.

    Keys include the team, except in `progress`, whose keys are action ids.
    """

    now: datetime
    #: By need: one fact; for a name prefix, up to `PREFIXED_MOST` facts and one more if there are too many.
    facts: Mapping[tuple[str, FactKey], Mapping[FactKey, FactValue]] = field(default_factory=dict)
    #: The prefixes that match more than `PREFIXED_MOST` facts.
    truncated: frozenset[tuple[str, FactKey]] = frozenset()
    actions: Mapping[tuple[str, UUID], ActionState] = field(default_factory=dict)
    progress: Mapping[UUID, WaitProgress] = field(default_factory=dict)
    #: The status of each deadline.
    deadlines: Mapping[tuple[str, UUID], str] = field(default_factory=dict)


#: Instead of a claim token, which is never zero.
UNCLAIMED = UUID(int=0)


class WaitSettlement(NamedTuple):
    """A settlement that makes an action pending until the next check of its condition."""

    action_id: UUID
    #: The token of the claim; `UNCLAIMED` with a `version`.
    token: UUID
    #: None: no check until a change, or `changes_at`.
    check_seconds: float | None
    changes_at: datetime | None
    reason: str
    #: `keep` if the action keeps its lock group while it waits.
    hold: str = "free"
    #: The schedule of the action; None without one.
    schedule_id: UUID | None = None
    #: For an action that is not claimed: the version of its row, which must be unchanged.
    version: str = ""


def register(connection: Connection, waiters: Sequence[Waiter], *, are_claimed: bool = True) -> None:
    """Store the waits of these actions, so that changes wake the actions.

    Call it outside any transaction and before the data is read; otherwise a change in between could be missed.

    Args:
        connection: In autocommit mode.
        waiters: The actions.
        are_claimed: Whether this tick alone checks the actions, so that it may clear their marks. Another tick that
            looks at the same unclaimed action still needs a mark, because it may have read the data before the change.
    """
    waiting: list[bytes] = []
    topics: list[bytes] = []
    for action_id, team_id, needs, _ in waiters:
        found = [topic_of(team_id, key) for key in needs.facts]
        if needs.actions or needs.deadlines:
            found += [one.bytes for one in needs.actions | needs.deadlines]
        waiting += [action_id.bytes] * len(found)
        topics += found
    if not topics:
        return
    sql.run(
        connection,
        "register_waits",
        {
            "claimed": uuids(waiter.action_id for waiter in waiters) if are_claimed else "{}",
            "waiters": uuid_array(waiting),
            "topics": uuid_array(topics),
        },
    )
    if awaited := {id_ for waiter in waiters for id_ in waiter.needs.actions}:
        # A separate statement, so that no transaction holds locks on waits and on awaited actions at the same time.
        sql.run(connection, "watch_awaited", {"ids": list(awaited)})


def topic_of(team_id: str, key: FactKey) -> bytes:
    """Return the topic of a fact: the id that the SQL function `scheduled_actions_fact_topic` returns, as 16 bytes."""
    # Formatted like jsonb as text. Computed in SQL, the topics would take most of the statement's time.
    text = f"[{', '.join(map(encode_basestring, (team_id, *key)))}]"
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()


def read_snapshot(connection: Connection, waiters: Sequence[Waiter]) -> Snapshot:
    """Return the data that the conditions of these actions need, read at one instant."""
    keys = list({(waiter.team_id, *key) for waiter in waiters for key in waiter.needs.facts})
    columns = [texts(column) for column in zip(*keys, strict=True)] if keys else ["{}"] * 4
    row = sql.run_one(
        connection,
        "read_condition_inputs",
        {
            **dict(zip(("teams", "target_types", "target_ids", "names"), columns, strict=True)),
            "prefixed": PREFIXED_MOST + 1,
            "awaited": uuids({one for waiter in waiters for one in waiter.needs.actions}),
            "action_ids": uuids(waiter.action_id for waiter in waiters if waiter.was_checked),
            "deadlines": uuids({one for waiter in waiters for one in waiter.needs.deadlines}),
        },
    )
    fact_rows, action_rows, progress_rows, deadline_rows = (json.loads(text or "[]") for text in row[1:])
    facts: dict[tuple[str, FactKey], dict[FactKey, FactValue]] = {}
    for team, target_type, target_id, needed, name, value, size, changed_at in fact_rows:
        found = facts.setdefault((team, FactKey(target_type, target_id, needed)), {})
        found[FactKey(target_type, target_id, name)] = FactValue(value, datetime.fromtimestamp(changed_at, UTC), size)
    return Snapshot(
        now=datetime.fromtimestamp(row[0], UTC),
        facts=facts,
        truncated=frozenset(need for need, found in facts.items() if len(found) > PREFIXED_MOST),
        actions={(team, UUID(id_)): ActionState(status, is_watched) for id_, team, status, is_watched in action_rows},
        progress={
            UUID(id_): WaitProgress(None if since is None else datetime.fromisoformat(since), checks or 0)
            for id_, since, checks in progress_rows
        },
        deadlines={(team, UUID(id_)): status for id_, team, status in deadline_rows},
    )


def lock(connection: Connection, settlements: Sequence[WaitSettlement]) -> None:
    """Lock the waits of these actions until the transaction ends, before `settle` and any other lock.

    Raises:
        psycopg.errors.LockNotAvailable: Another transaction keeps a row locked.
    """
    sql.run(connection, "lock_waits", {"ids": uuids(one.action_id for one in settlements), "patience_ms": LOCK_WAIT_MS})


def settle(
    connection: Connection,
    tick_id: UUID | None,
    settlements: Sequence[WaitSettlement],
    *,
    worker_id: UUID | None = None,
) -> SettlementResult:
    """Make actions pending until the next checks of their conditions; cancel those with a cancellation request.

    Args:
        connection: In autocommit mode or in a transaction.
        tick_id: The tick that checked the conditions, for the history; None: a worker did.
        settlements: Either all of claimed or all of unclaimed actions.
        worker_id: The worker that checked the conditions; None: a tick did.

    Raises:
        psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
    """
    ids = [one.action_id for one in settlements]
    settled, cancelled, has_woken = sql.run_one(
        connection,
        "settle_waiting",
        {
            "ids": binary_uuids(ids),
            "tokens": binary_uuids(one.token for one in settlements),
            "versions": texts(one.version for one in settlements),
            "seconds": numbers(one.check_seconds or 0 for one in settlements),
            "changes_at": instants(one.changes_at for one in settlements),
            "reasons": texts(one.reason for one in settlements),
            "holds": texts(one.hold for one in settlements),
            "tick_id": tick_id,
            "worker_id": worker_id,
            "patience_ms": LOCK_WAIT_MS,
            "are_unclaimed": all(one.token is UNCLAIMED for one in settlements),
        },
    )
    statuses = dict.fromkeys(ids if settled is None else settled, Status.PENDING)
    return SettlementResult(statuses | dict.fromkeys(cancelled, Status.CANCELLED), has_woken=has_woken)


def end(connection: Connection, action_ids: Collection[UUID]) -> None:
    """Delete the waits of these actions."""
    sql.run(connection, "end_waits", {"action_ids": list(action_ids)})


def among_waiting(connection: Connection, *, action_id: UUID | None = None) -> dict[UUID, set[UUID]]:
    """Return, for each waiting action, the unfinished actions that must complete before it; at most 10,000 pairs.

    Args:
        connection: Reads the waits.
        action_id: Start from this action and follow its waits; None: start from all that were checked before.
    """
    found: dict[UUID, set[UUID]] = {}
    for waiting_id, awaited_id in sql.run(
        connection, "waits_among_waiting", {"action_id": action_id, "most": _PAIRS_MOST}
    ).fetchall():
        found.setdefault(waiting_id, set()).add(awaited_id)
    return found


def wake(connection: Connection, *, most: int) -> int:
    """Wake the actions that wait for stored changes; return the number of changes handled, at most `most`.

    Raises:
        psycopg.errors.DeadlockDetected: Another session changes the same actions; nothing was changed.
    """
    row = sql.run(connection, "wake_waiting", {"most": most}).fetchone()
    return int(row[0]) if row else 0


def wake_each(connection: Connection, *, most: int) -> int:
    """Handle stored changes one by one with a short lock timeout; return their number, at most `most`.

    A change whose waiting actions are locked by another session moves to the end of the queue; after eight such
    changes, the call returns.
    """
    woken = refused = 0
    while woken < most and refused < _REFUSED_MOST:
        try:
            with connection.transaction():
                limit_lock_waits(connection, _RETRY_PATIENCE_MS)
                if not wake(connection, most=1):
                    break
            woken += 1
        except RETRYABLE_ERRORS:
            refused += 1
            sql.run(connection, "postpone_wake")
    return woken


class Unchecked(NamedTuple):
    """A due action whose condition has never been checked."""

    id: UUID
    #: '' for an action without a team.
    team_id: str
    condition_text: str
    created_epoch: float
    action_type: str
    #: Changes with each change of the row.
    version: str


def unchecked(
    connection: Connection, *, after: ScanPosition, excluded: Collection[str], window: int
) -> tuple[list[Unchecked], ScanPosition]:
    """Return the due actions that wait for a condition which has never been checked; locks nothing.

    Args:
        connection: Reads the actions.
        after: The position of the claims.
        excluded: Action types not to read.
        window: Number of due actions to read, among which these are.

    Returns:
        The actions, and the last position read; `START` if there are none.
    """
    rows = sql.run(connection, "unchecked", {"window": window, **scan_parameters(after, excluded)}).fetchall()
    if not rows:
        return [], START
    last_id, *_, priority, scheduled_at = rows.pop()
    return [Unchecked(*row[:-2]) for row in rows], ScanPosition(priority, scheduled_at, last_id)


class Sweepable(NamedTuple):
    """A waiting action that only a change makes due."""

    id: UUID
    #: '' for an action without a team.
    team_id: str
    condition_text: str
    created_epoch: float


def only_woken(connection: Connection, *, after: UUID | None, every_seconds: float, most: int) -> list[Sweepable]:
    """Return waiting actions that only a change makes due, by id; none if the last sweep was a short time ago.

    Args:
        connection: Reads the actions.
        after: The last action read before; None: start where the last sweep ended.
        every_seconds: The shortest time between two sweeps; ignored after the first call of a sweep.
        most: Maximum number of actions.
    """
    parameters = {"after_id": after, "every_seconds": every_seconds, "most": most}
    return [Sweepable(*row) for row in sql.run(connection, "only_woken", parameters)]


def end_sweep(connection: Connection, *, after: UUID | None) -> None:
    """Record the end of a sweep; the next one starts after this action, or with the first one."""
    sql.run(connection, "end_sweep", {"after_id": after})


def make_due(connection: Connection, action_ids: Collection[UUID]) -> None:
    """Make waiting actions due, except those that were rescheduled after the last check of their condition."""
    sql.run(connection, "make_due", {"ids": uuids(action_ids)})


def prune(connection: Connection, *, limit: int) -> int:
    """Delete waits of actions that have ended or no longer exist; return the number deleted.

    Checks at most `limit` waits, each at most once an hour.
    """
    return sql.run(connection, "prune_waits", {"limit": limit}).rowcount
