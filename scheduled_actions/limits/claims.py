"""Claim due actions from the queues of limit keys, within the limits of all their keys."""

from collections.abc import Collection, Iterable
from typing import NamedTuple
from uuid import UUID, uuid4

from scheduled_actions.actions import claims
from scheduled_actions.actions.claims import TickRow
from scheduled_actions.core.action import Claimed
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements, texts, uuids
from scheduled_actions.limits.rules.admission import KeyId, QueuedAction, admit

sql = Statements(__file__)

#: Maximum number of queues that one claim visits, so that its duration is bounded.
MAX_QUEUES = 200
#: The position before the first queue.
START = KeyId("", "")


class QueueBatch(NamedTuple):
    """Actions that a claim may take, and where the next scan continues."""

    candidates: list[QueuedAction]
    #: The last queue visited; `START` if there are no further queues.
    position: KeyId
    #: Seconds until the rate of one of the visited queues allows a start; None if no queue waits for its rate only.
    opens_in_seconds: float | None


def find_queued(
    connection: Connection,
    *,
    wanted: int,
    after: KeyId,
    excluded: Collection[str],
    left_out: Collection[str] = (),
    passed_over: Collection[UUID] = (),
    most_queues: int = MAX_QUEUES,
    executor: str | None = None,
) -> QueueBatch:
    """Return due actions whose limit keys are open now, in the order of the claim; lock nothing.

    Args:
        connection: In autocommit mode.
        wanted: Maximum number of actions.
        after: The position after which the scan continues.
        excluded: Action types to leave out.
        left_out: Teams to leave out; '' stands for actions without a team.
        passed_over: Ids of actions to leave out.
        most_queues: Maximum number of queues to visit.
        executor: The executor whose actions are returned; None: those that ticks run.
    """
    rows = sql.run(
        connection,
        "find_queued",
        {
            "wanted": wanted,
            "after_key": after.limit_key,
            "after_team": after.team_id,
            "excluded": list(excluded),
            "left_out": list(left_out),
            "passed_over": uuids(passed_over),
            "most_queues": most_queues,
            "executor": executor,
        },
    )
    *found, (_, last_key, last_team, *_, opens_in_seconds, _, _) = rows.fetchall()
    candidates = [
        QueuedAction(
            action_id,
            tuple(map(KeyId, scopes, limit_keys)),
            None if lock_group is None else (team_id or "", lock_group),
            holds_group,
            priority,
            scheduled_epoch,
            team_id or "",
        )
        for action_id, limit_keys, scopes, team_id, lock_group, holds_group, _, priority, scheduled_epoch in found
    ]
    position = KeyId(last_team[0], last_key[0]) if last_key else START
    return QueueBatch(candidates, position, opens_in_seconds)


def insert_keys(connection: Connection, keys: Iterable[KeyId]) -> None:
    """Insert the rows of limit keys that have none; not in a transaction, because it may wait for other ticks."""
    sql.run(connection, "insert_keys", _columns(keys))


def claim_queued(connection: Connection, tick: TickRow, candidates: Collection[QueuedAction]) -> list[Claimed]:
    """Claim those candidates that the limits of all their keys allow; take their slots and advance their rates.

    Keys that another transaction has locked are passed over.

    Args:
        connection: In a transaction.
        tick: The claiming tick.
        candidates: In the order of the claim; the rows of their keys exist.
    """
    admitted, taken = hold_groups(connection, admit_candidates(connection, candidates))
    if not admitted:
        return []
    token = uuid4()
    claimed = claim_admitted(connection, tick, admitted, token=token)
    if taken and len(claimed) < len(admitted):
        drop_empty_holds(connection, taken, token)
    return claimed


def admit_candidates(connection: Connection, candidates: Collection[QueuedAction]) -> list[QueuedAction]:
    """Lock the keys of the candidates that no other transaction has locked; return the actions that they allow.

    Args:
        connection: In the claiming transaction, which has locked nothing.
        candidates: In the order of the claim; the rows of their keys exist.
    """
    keys = {key for one in candidates for key in one.keys}
    if not keys:
        return admit(candidates, {}, wanted=len(candidates))
    locked = {KeyId._make(row) for row in sql.run(connection, "lock_keys", _columns(keys))}
    # A separate statement: it sees the slots that were committed before the locks were taken.
    rooms = {KeyId(team_id, key): room for team_id, key, room in sql.run(connection, "count_room", _columns(locked))}
    return admit(candidates, rooms, wanted=len(candidates))


def claim_admitted(
    connection: Connection,
    tick: TickRow,
    admitted: Collection[QueuedAction],
    *,
    token: UUID,
    executor: str | None = None,
) -> list[Claimed]:
    """Claim actions from the queues of their limit keys; take their slots and advance their rates.

    Args:
        connection: In the transaction that has locked their keys and taken their lock groups.
        tick: The claiming tick.
        admitted: The actions; each has limit keys.
        token: The claim token.
        executor: The executor whose worker claims; None: a tick claims.
    """
    pairs = [(one.id, key) for one in admitted for key in one.keys]
    return claims.claim_with(
        connection,
        sql.text("claim_queued"),
        tick,
        {
            "ids": uuids(one.id for one in admitted),
            "keys_of": uuids(action_id for action_id, _ in pairs),
            **_columns(key for _, key in pairs),
            "token": token,
            "executor": executor,
        },
    )


def drop_empty_holds(connection: Connection, taken: Iterable[tuple[str, str]], token: UUID) -> None:
    """Free the lock groups, by team and name, that this transaction took and in which it claimed nothing."""
    team_ids, lock_groups = zip(*taken, strict=True)
    claims.drop_empty_holds(connection, team_ids, lock_groups, token)


def claim_expired(connection: Connection, tick: TickRow, *, limit: int) -> list[Claimed]:
    """Claim at most `limit` pending actions that have passed their `expires_at`, whatever else keeps them from running.

    They take no slots, and must end without an attempt.

    Args:
        connection: In a transaction.
        tick: The claiming tick.
        limit: Maximum number of actions; those expired the longest come first.
    """
    return claims.claim_with(connection, sql.text("claim_expired"), tick, {"limit": limit, "token": uuid4()})


def hold_groups(
    connection: Connection, admitted: list[QueuedAction]
) -> tuple[list[QueuedAction], list[tuple[str, str]]]:
    """Take the lock groups of actions; return the actions that have theirs or need none, and the groups taken.

    Args:
        connection: In the claiming transaction, which has not locked any action.
        admitted: At most one action of each group.
    """
    wanting = [one for one in admitted if one.lock_group is not None and not one.holds_group]
    if not wanting:
        return admitted, []
    groups = [one.lock_group for one in wanting if one.lock_group is not None]
    held = sql.run(
        connection,
        "hold_groups_of_queued",
        {
            "team_ids": texts(team_id for team_id, _ in groups),
            "lock_groups": texts(lock_group for _, lock_group in groups),
            "action_ids": uuids(one.id for one in wanting),
        },
    ).fetchall()
    refused = {one.id for one in wanting} - {action_id for action_id, _, _ in held}
    return [one for one in admitted if one.id not in refused], [
        (team_id, lock_group) for _, team_id, lock_group in held
    ]


def _columns(keys: Iterable[KeyId]) -> dict[str, str]:
    """Return limit keys as two parameters, in any order."""
    listed = list(keys)
    return {
        "team_ids": texts(key.team_id for key in listed),
        "limit_keys": texts(key.limit_key for key in listed),
    }


def give_back(connection: Connection, claimed: Iterable[Claimed]) -> None:
    """Move the rates of limit keys back for actions that were claimed and not started.

    Those that had expired when they were claimed are left out: `claim_expired` takes no start of a rate.

    Args:
        connection: In autocommit mode.
        claimed: The actions; each has limit keys.
    """
    advanced = [one for one in claimed if one.expired_while is None]
    keys = [KeyId(one.team_id or "", key) for one in advanced for key in one.limit_keys or ()]
    if keys:
        sql.run(connection, "give_back", _columns(keys))


def prune_keys(connection: Connection, *, limit: int) -> int:
    """Delete at most `limit` limit keys that have not been used for an hour; return the number of keys examined."""
    return sql.run(connection, "prune_keys", {"limit": limit}).rowcount
