"""Claim due actions in batches, and run the claim hooks of features in the same transaction."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias
from uuid import UUID, uuid4

from psycopg.rows import tuple_row

from scheduled_actions.core.action import Claimed
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import contain, reason_of
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)


@dataclass(frozen=True, slots=True)
class TickRow:
    """A tick as stored in the database."""

    id: UUID
    started_at: datetime
    #: The end of the lease on every action this tick claims.
    lease_expires_at: datetime


class ScanPosition(NamedTuple):
    """A position in the scan over due actions: the last row that was read."""

    priority: int | None = None
    scheduled_at: str | None = None
    id: UUID | None = None
    #: The row's team, '' if it has none; set only by `claim_grouped`.
    team_id: str | None = None
    #: Whether the scan may have ended before the last due action; always False after `claim_free`.
    has_more: bool = False
    #: Whether due actions with limit keys were parked in their queues.
    has_parked: bool = False


#: The position before the first due action.
START = ScanPosition()
#: Maximum number of rows that a scan reads when it leaves out teams; reading them takes a few milliseconds.
WINDOW = 10000


def claim_free(
    connection: Connection,
    tick: TickRow,
    *,
    wanted: int,
    after: ScanPosition,
    excluded: Collection[str],
    with_series: bool = True,
) -> tuple[list[Claimed], ScanPosition]:
    """Claim due actions without a lock group, in order of priority and time.

    Actions with limit keys are parked instead, each in the queue of its first key.

    Args:
        connection: In a transaction if hooks must decide about occurrences before the claim is committed; otherwise in
            autocommit mode.
        tick: The claiming tick.
        wanted: Maximum number of actions.
        after: The position after which the scan continues.
        excluded: Action types not to claim.
        with_series: False claims nothing if the batch would contain an occurrence of a schedule.

    Returns:
        The claimed actions in order, and where the next scan continues; `START` if nothing was claimed or parked.
    """
    found = _claim(
        connection,
        "claim_free",
        tick,
        {"wanted": wanted, "token": uuid4(), "with_series": with_series, **scan_parameters(after, excluded)},
    )
    last = found[-1] if found else None
    claimed = [one for one in found if one.limit_keys is None]
    if last is None:
        return claimed, START
    return claimed, ScanPosition(last.priority, last.scheduled_text, last.id, has_parked=len(claimed) < len(found))


def claim_free_of_others(
    connection: Connection,
    tick: TickRow,
    *,
    wanted: int,
    after: ScanPosition,
    excluded: Collection[str],
    left_out: Collection[str],
    window: int = WINDOW,
) -> tuple[list[Claimed], ScanPosition]:
    """Claim due actions without a lock group, except those of some teams.

    Args:
        connection: In a transaction.
        tick: The claiming tick.
        wanted: Maximum number of actions.
        after: The position after which the scan continues.
        excluded: Action types not to claim.
        left_out: Teams not to claim from; '' stands for actions without a team.
        window: Maximum number of rows read, skipped ones included.

    Returns:
        The claimed actions in order, and where the next scan continues; `START` if this scan reached the last
        due action.
    """
    found, *last = sql.run_one(
        connection,
        "find_others",
        {"wanted": wanted, "window": window, "left_out": list(left_out), **scan_parameters(after, excluded)},
    )
    if not found:
        return [], ScanPosition(*last)
    held = {"kept": found, "wanted": wanted, "excluded": list(excluded), "team_ids": [], "lock_groups": []}
    return _claim(connection, "claim_held", tick, {**held, "token": uuid4()}), ScanPosition(*last)


def claim_grouped(
    connection: Connection,
    tick: TickRow,
    *,
    wanted: int,
    after: ScanPosition,
    excluded: Collection[str],
    left_out: Collection[str] = (),
    window: int | None = None,
) -> tuple[list[Claimed], ScanPosition]:
    """Claim the first due action of each free lock group, and the due actions that still hold their group.

    Within a group, actions are ordered by priority, then by due time.

    Args:
        connection: In a transaction.
        tick: The claiming tick.
        wanted: Maximum number of actions.
        after: The position after which the scan continues.
        excluded: Action types not to claim.
        left_out: Teams not to claim from; '' stands for actions without a team.
        window: Maximum number of rows to read; at most `wanted` groups are then taken. None: at most `4 * wanted`
            rows, and as many groups.

    Returns:
        The claimed actions in order, and the last row read, claimed or not; `START` if no row was read.
    """
    parameters = {
        # Several due actions may belong to one group: to find `wanted` groups, more rows are read.
        "window": window or 4 * wanted,
        "most": wanted if window else 4 * wanted,
        "left_out": list(left_out),
        **scan_parameters(after, excluded),
    }
    kept, team_ids, lock_groups, *last = sql.run_one(connection, "hold_groups", parameters)
    if not kept and not team_ids:
        return [], ScanPosition(*last)
    groups = {"team_ids": team_ids, "lock_groups": lock_groups, "token": uuid4()}
    claimed = _claim(
        connection, "claim_held", tick, {**groups, "kept": kept, "wanted": wanted, "excluded": list(excluded)}
    )
    if len(claimed) < len(kept) + len(team_ids):
        drop_empty_holds(connection, team_ids, lock_groups, groups["token"])
    return claimed, ScanPosition(*last)


def drop_empty_holds(connection: Connection, team_ids: Sequence[str], lock_groups: Sequence[str], token: UUID) -> None:
    """Free the lock groups, given by team and name, that this transaction took and in which it claimed nothing."""
    sql.run(
        connection, "drop_empty_holds", {"team_ids": list(team_ids), "lock_groups": list(lock_groups), "token": token}
    )


def claim_grouped_of_others(
    connection: Connection,
    tick: TickRow,
    *,
    wanted: int,
    after: ScanPosition,
    excluded: Collection[str],
    left_out: Collection[str],
    window: int = WINDOW,
) -> tuple[list[Claimed], ScanPosition]:
    """Claim actions as `claim_grouped` does, except those of the teams `left_out`.

    If `wanted` actions were claimed, the next scan starts at `after` again.
    """
    claimed, position = claim_grouped(
        connection, tick, wanted=wanted, after=after, excluded=excluded, left_out=left_out, window=window
    )
    # The next scan starts at the same position: it passes over the groups just claimed, which are then held, and finds
    # the next groups.
    return claimed, after._replace(has_more=True) if len(claimed) >= wanted else position


def scan_parameters(after: ScanPosition, excluded: Collection[str]) -> dict[str, Any]:
    """Return the position of a scan and the action types it excludes as statement parameters."""
    return {
        "after_priority": after.priority,
        "after_at": after.scheduled_at,
        "after_id": after.id,
        "excluded": list(excluded),
    }


def _claim(connection: Connection, name: str, tick: TickRow, parameters: Mapping[str, Any]) -> list[Claimed]:
    return claim_with(connection, sql.text(name), tick, parameters)


def claim_with(connection: Connection, statement: str, tick: TickRow, parameters: Mapping[str, Any]) -> list[Claimed]:
    """Run a claiming statement, which returns the columns of `claim_columns`.

    Args:
        connection: In autocommit mode or in a transaction.
        statement: The text of the statement.
        tick: The claiming tick.
        parameters: Those of the statement, with the claim token as `token`; the end of the lease is added.

    Returns:
        The claimed actions by priority, then time, then age.
    """
    # Binary rows are read in two thirds of the time.
    cursor = connection.cursor(row_factory=tuple_row, binary=True)
    cursor.execute(statement, {**parameters, "lease_expires_at": tick.lease_expires_at})
    token = (parameters["token"],)
    claimed = [Claimed._make(values + token) for values in cursor]
    # `returning` guarantees no order.
    claimed.sort(key=_ORDER)
    return claimed


#: The order of claimed actions: priority, then time, then age.
_ORDER = itemgetter(*(Claimed._fields.index(name) for name in ("priority", "scheduled_epoch", "id")))


def release_no_action(connection: Connection, action_types: Collection[str], *, action_id: UUID | None = None) -> int:
    """Make at most 10,000 actions with status `no_action` pending again; return their number.

    Args:
        connection: In autocommit mode.
        action_types: The action types for which this build has handlers.
        action_id: Only this action; None: any action.
    """
    return sql.run(
        connection,
        "release_no_action",
        {"action_types": list(action_types), "ids": None if action_id is None else [action_id]},
    ).rowcount


def unhandled(connection: Connection, action_types: Collection[str]) -> list[UUID]:
    """Return the ids of at most 1,000 actions of these types that have the status `no_action`."""
    return [row[0] for row in sql.run(connection, "unhandled_actions", {"action_types": list(action_types)})]


def expired_no_action(
    connection: Connection, action_types: Collection[str], *, retention_days: int, limit: int
) -> list[UUID]:
    """Return the ids of at most `limit` actions that had the status `no_action` for more than `retention_days`.

    Args:
        connection: In autocommit mode.
        action_types: The action types for which this build has handlers; their actions are left out.
        retention_days: Days since the last change of an action.
        limit: Maximum number of ids.
    """
    parameters = {"action_types": list(action_types), "days": retention_days, "limit": limit}
    return [row[0] for row in sql.run(connection, "expired_no_action", parameters)]


@dataclass(slots=True)
class ClaimResult:
    """The decisions of hooks about claimed actions."""

    #: Actions to run.
    kept: list[Claimed]
    #: Actions that ended as skipped, each with the reason.
    skipped: list[tuple[Claimed, str]] = field(default_factory=list)
    #: Occurrences whose end affects neither their schedule nor another occurrence.
    unawaited: frozenset[UUID] = frozenset()
    #: Whether teams take turns: some actions run before others that were claimed earlier.
    is_round_robin: bool = False
    #: Actions that fail without running, each with the reason.
    refused: list[tuple[Claimed, str]] = field(default_factory=list)
    #: Whether actions returned to pending in the queues of limit keys.
    has_queued: bool = False

    @property
    def has_found_work(self) -> bool:
        """Whether any action runs, was skipped or fails, instead of returning to pending."""
        return bool(self.kept or self.skipped or self.refused)

    def add(self, other: "ClaimResult") -> None:
        """Add the result of a hook for other actions."""
        self.kept = self.kept + other.kept
        self.skipped += other.skipped
        self.refused += other.refused
        self.unawaited |= other.unawaited
        self.has_queued |= other.has_queued

    def narrow(self, later: "ClaimResult") -> None:
        """Replace the kept actions with those that a later hook kept, and add its other decisions."""
        self.kept = []
        self.add(later)

    def take_turns_with(self, other: "ClaimResult") -> None:
        """Add the result for actions of other teams, which then take turns with these."""
        self.add(other)
        self.is_round_robin = bool(other.kept)


class ClaimHook(Protocol):
    """A feature's part in the claiming transaction; an implementation must not call project functions."""

    @property
    def column(self) -> str:
        """The field of `Claimed` that is None if an action does not concern the feature."""

    def after_claim(self, connection: Connection, claimed: list[Claimed]) -> ClaimResult:
        """Decide which of the actions just claimed run, are skipped, fail, or return to pending.

        Args:
            connection: In the claiming transaction.
            claimed: At least one of these actions concerns the feature; the result keeps the others.
        """

    def claim_refused(self, connection: Connection, claimed: Claimed, error: BaseException) -> ClaimResult:
        """Decide about one action whose `after_claim` failed; the changes of that call were rolled back.

        Args:
            connection: In the claiming transaction.
            claimed: The action.
            error: The error that `after_claim` raised.
        """


@dataclass(frozen=True, slots=True)
class BatchClaimer:
    """Claims batches and calls the claim hooks.

    Args:
        hooks: Called in this order, each with the actions that the previous hook kept.
    """

    hooks: Sequence[ClaimHook]

    def claim(
        self, connection: Connection, claim: Callable[[], tuple[list[Claimed], ScanPosition]]
    ) -> tuple[list[Claimed], ClaimResult, ScanPosition]:
        """Claim a batch and call the hooks, in one transaction; if it fails, repeat it with one hook call per action.

        An error for which `is_outage` is true is raised unchanged.

        Args:
            connection: In autocommit mode.
            claim: Claims the batch, and returns it and where the next one continues; called again after a failed
                transaction.

        Returns:
            The claimed actions, the hooks' result, and where the next claim continues.
        """

        def claim_with(call: _HookCall) -> tuple[list[Claimed], ClaimResult, ScanPosition]:
            with connection.transaction():
                claimed, position = claim()
                result = ClaimResult(claimed, has_queued=position.has_parked)
                for hook in self.hooks:
                    if any(getattr(one, hook.column) is not None for one in result.kept):
                        result.narrow(call(hook, connection, result.kept))
                return claimed, result, position

        def claim_again(error: BaseException) -> tuple[list[Claimed], ClaimResult, ScanPosition]:
            log.warning("claim.refused error=%s", reason_of(error))
            return claim_with(_call_separately)

        return contain(lambda: claim_with(lambda hook, *given: hook.after_claim(*given)), claim_again)


_HookCall: TypeAlias = Callable[[ClaimHook, Connection, list[Claimed]], ClaimResult]


def _call_separately(hook: ClaimHook, connection: Connection, claimed: list[Claimed]) -> ClaimResult:
    """Call a hook for each action that concerns it, in a savepoint, so that a failure affects only that action."""

    def call(one: Claimed) -> ClaimResult:
        with connection.transaction():
            return hook.after_claim(connection, [one])

    result = ClaimResult([one for one in claimed if getattr(one, hook.column) is None])
    for one in claimed:
        if getattr(one, hook.column) is not None:
            result.add(contain(partial(call, one), partial(hook.claim_refused, connection, one)))
    # Restore the order of the claim: priority, then time.
    result.kept.sort(key=_ORDER)
    return result
