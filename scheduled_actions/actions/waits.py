"""What actions wait for: registered, looked at, settled as not met, and woken."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from scheduled_actions.conditions.rules.evaluation import Progress
from scheduled_actions.conditions.rules.kinds import PREFIXED_MOST
from scheduled_actions.conditions.rules.model import ActionState, DeadlineState, Fact, FactKey, Needs
from scheduled_actions.core.action import Status
from scheduled_actions.database.failures import PASSING
from scheduled_actions.database.statements import Statements, instants, numbers, texts, uuids
from scheduled_actions.database.transactions import PATIENCE_MS, wait_shortly

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from scheduled_actions.database.connection import Connection


sql = Statements(__file__)


class Waiter(NamedTuple):
    """An action, and what it needs to be known."""

    action_id: UUID
    #: '' outside any team.
    team_id: str
    needs: Needs


@dataclass(frozen=True, slots=True)
class Seen:
    """What was known at one moment. Everything belongs to a team."""

    now: datetime
    #: By what was needed: one fact, or, where a name stands for all that begin so, at most `PREFIXED_MOST`.
    facts: Mapping[tuple[str, FactKey], Mapping[FactKey, Fact]] = field(default_factory=dict)
    #: The needs for which there are more facts than that.
    cut: Collection[tuple[str, FactKey]] = ()
    actions: Mapping[tuple[str, UUID], ActionState] = field(default_factory=dict)
    progress: Mapping[UUID, Progress] = field(default_factory=dict)
    deadlines: Mapping[tuple[str, UUID], DeadlineState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmet:
    """A waiting action on its way back to pending."""

    action_id: UUID
    token: UUID
    check_seconds: float
    changes_at: datetime | None
    reason: str
    #: `keep` where its lock group waits with it.
    hold: str = "free"
    #: The series that it belongs to.
    schedule_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """What settling waiting actions did."""

    #: Of each whose claim still stood.
    statuses: dict[UUID, Status]
    #: Whether one is due now: something has changed since it was looked at.
    has_woken: bool


def register(connection: Connection, waiters: Sequence[Waiter]) -> None:
    """Have these actions woken by what changes from now on; in no transaction, before what they need is looked at."""
    waiters_of: list[UUID] = []
    topics: list[UUID] = []
    awaited: set[UUID] = set()
    for waiter in waiters:
        wanted = [topic_of(waiter.team_id, key) for key in waiter.needs.facts]
        wanted += waiter.needs.actions | waiter.needs.deadlines
        topics += wanted
        waiters_of += [waiter.action_id] * len(wanted)
        awaited |= waiter.needs.actions
    if not topics:
        return
    sql.run(
        connection,
        "register_waits",
        {
            "action_ids": uuids(waiter.action_id for waiter in waiters),
            "waiters": uuids(waiters_of),
            "topics": uuids(topics),
        },
    )
    if awaited:
        # In a statement of its own: whoever holds marks waits for no action, and the other way round.
        sql.run(connection, "watch_awaited", {"ids": list(awaited)})


def topic_of(team_id: str, key: FactKey) -> UUID:
    """Return what is waited for where a fact is, as the SQL function `scheduled_actions_fact_topic` says it."""
    # As jsonb writes it; in SQL it would take longer than all the rest of the statement.
    text = f"[{', '.join(map(encode_basestring, (team_id, *key)))}]"
    return UUID(bytes=hashlib.md5(text.encode(), usedforsecurity=False).digest())


def look(connection: Connection, waiters: Sequence[Waiter]) -> Seen:
    """Return what the conditions of these actions need to be known, all of one moment."""
    keys = list({(waiter.team_id, *key) for waiter in waiters for key in waiter.needs.facts})
    columns = [texts(column) for column in zip(*keys, strict=True)] if keys else ["{}"] * 4
    row = sql.run(
        connection,
        "look_at_conditions",
        {
            **dict(zip(("teams", "target_types", "target_ids", "names"), columns, strict=True)),
            "prefixed": PREFIXED_MOST + 1,
            "awaited": uuids({one for waiter in waiters for one in waiter.needs.actions}),
            "action_ids": uuids(waiter.action_id for waiter in waiters),
            "deadlines": uuids({one for waiter in waiters for one in waiter.needs.deadlines}),
        },
    ).fetchone()
    assert row is not None  # noqa: S101 - a select of one row
    now, listed, actions, progress, deadlines = row
    facts = _facts(json.loads(listed or "[]"))
    return Seen(
        datetime.fromtimestamp(now, UTC),
        facts,
        {need for need, found in facts.items() if len(found) > PREFIXED_MOST},
        {
            (team, UUID(id_)): ActionState(status, is_watched)
            for id_, team, status, is_watched in json.loads(actions or "[]")
        },
        {
            UUID(id_): Progress(None if since is None else datetime.fromisoformat(since), checks or 0)
            for id_, since, checks in json.loads(progress or "[]")
        },
        {(team, UUID(id_)): DeadlineState(status) for id_, team, status in json.loads(deadlines or "[]")},
    )


def _facts(rows: Sequence[Sequence[Any]]) -> dict[tuple[str, FactKey], dict[FactKey, Fact]]:
    """Return facts by team and need, then by key."""
    found: dict[tuple[str, FactKey], dict[FactKey, Fact]] = {}
    for team, target_type, target_id, needed, name, value, size, changed_at in rows:
        fact = Fact(value, datetime.fromtimestamp(changed_at, UTC), size)
        need = FactKey(target_type, target_id, needed)
        found.setdefault((team, need), {})[FactKey(target_type, target_id, name)] = fact
    return found


def lock(connection: Connection, unmet: Sequence[Unmet]) -> None:
    """Lock what waiting actions wait for until the transaction ends, before `settle` and before anything else.

    Raises:
        psycopg.errors.LockNotAvailable: Another transaction keeps a row locked.
    """
    sql.run(connection, "lock_waits", {"ids": uuids(one.action_id for one in unmet), "patience_ms": PATIENCE_MS})


def settle(connection: Connection, tick_id: UUID, unmet: Sequence[Unmet]) -> Settled:
    """Make waiting actions pending until their next check.

    Raises:
        psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
    """
    rows = sql.run(
        connection,
        "settle_waiting",
        {
            "ids": uuids(one.action_id for one in unmet),
            "tokens": uuids(one.token for one in unmet),
            "seconds": numbers(one.check_seconds for one in unmet),
            "changes_at": instants(one.changes_at for one in unmet),
            "reasons": texts(one.reason for one in unmet),
            "holds": texts(one.hold for one in unmet),
            "tick_id": tick_id,
            "patience_ms": PATIENCE_MS,
        },
    ).fetchall()
    return Settled({one[0]: Status(one[1]) for one in rows}, any(one[2] for one in rows))


def end(connection: Connection, action_ids: Collection[UUID]) -> None:
    """Have these actions wait for nothing any more."""
    sql.run(connection, "end_waits", {"action_ids": list(action_ids)})


#: How long a lock is waited for that was waited for before, in milliseconds; and how many such locks are met.
_HARDLY_MS, _REFUSED_MOST = "5", 8
#: Pairs of waiting actions that are read at once.
_PAIRS_MOST = 10_000


def among_waiting(connection: Connection, *, action_id: UUID | None = None) -> dict[UUID, set[UUID]]:
    """Return, by the id of a waiting action, which other waiting actions it comes after; at most 10,000 pairs.

    Args:
        connection: Where.
        action_id: This one, those that it comes after, those that they come after, and so on; None: all actions that
            were checked once.
    """
    found: dict[UUID, set[UUID]] = {}
    parameters = {"action_id": action_id, "most": _PAIRS_MOST}
    for waiting_id, awaited_id in sql.run(connection, "waits_among_waiting", parameters).fetchall():
        found.setdefault(waiting_id, set()).add(awaited_id)
    return found


def wake(connection: Connection, *, most: int) -> int:
    """Wake those who wait for what has changed; return how many changes were looked at, at most `most`.

    Raises:
        psycopg.errors.DeadlockDetected: Somebody changes the same actions; nothing was changed here.
    """
    row = sql.run(connection, "wake_waiting", {"most": most}).fetchone()
    return int(row[0]) if row else 0


def wake_each(connection: Connection, *, most: int) -> int:
    """Wake for one change after the other, hardly waiting for locks; return how many were woken for, at most `most`.

    A change whose waiting actions are locked by another session is left for later, behind the others.
    """
    woken = refused = 0
    while woken < most and refused < _REFUSED_MOST:
        try:
            with connection.transaction():
                wait_shortly(connection, _HARDLY_MS)
                if not wake(connection, most=1):
                    break
            woken += 1
        except PASSING:
            refused += 1
            sql.run(connection, "postpone_wake")
    return woken


def prune(connection: Connection, *, limit: int) -> int:
    """Forget what actions waited for that have ended without it, at most `limit`; return how many rows."""
    return sql.run(connection, "prune_waits", {"limit": limit}).rowcount
