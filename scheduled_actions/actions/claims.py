"""Claiming: the statements, and what features add to a claimed batch in its transaction."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias
from uuid import UUID, uuid4

from scheduled_actions.core.action import Claimed
from scheduled_actions.database.boundary import contain, reason_of
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from scheduled_actions.database.connection import Connection


sql = Statements(__file__)

log = logging.getLogger("scheduled_actions")


@dataclass(frozen=True, slots=True)
class TickRow:
    """A tick as the database knows it."""

    id: UUID
    started_at: datetime
    #: End of the lease of everything this tick claims.
    lease_expires_at: datetime


class Position(NamedTuple):
    """Where a walk over due actions stands: after this row."""

    priority: int | None = None
    scheduled_at: str | None = None
    id: UUID | None = None
    #: The row's team, '' without one; known of walks that may meet rows which they do not claim.
    team_id: str | None = None
    #: Whether that walk ended at its window, and not at the end of what is due.
    has_more: bool = False


#: Before the first row.
START = Position()


def claim_free(
    connection: Connection,
    tick: TickRow,
    *,
    wanted: int,
    after: Position,
    excluded: Collection[str],
    with_series: bool = True,
) -> tuple[list[Claimed], Position]:
    """Claim due actions without a lock group: the most urgent first, at most `wanted`.

    Args:
        connection: In a transaction wherever a claimed occurrence has to be judged before anybody sees it claimed.
        tick: Whose they are.
        wanted: How many.
        after: Where the scan goes on.
        excluded: Action types left where they are.
        with_series: False claims nothing when an occurrence of a series is among what would be claimed.

    Returns:
        Those claimed, in order, and where the next scan goes on; `START` when this one met nothing.
    """
    token = uuid4()
    claimed = _claimed(
        connection,
        "claim_free",
        {
            **behind(after, excluded),
            "wanted": wanted,
            "token": token,
            "lease_expires_at": tick.lease_expires_at,
            "with_series": with_series,
        },
    )
    if not claimed:
        return [], START
    last = claimed[-1]
    return claimed, Position(last.priority, last.scheduled_text, last.id)


def claim_grouped(
    connection: Connection,
    tick: TickRow,
    *,
    wanted: int,
    after: Position,
    excluded: Collection[str],
    left_out: Collection[str] = (),
    window: int | None = None,
) -> tuple[list[Claimed], Position]:
    """Claim the oldest due member of each lock group met that nobody holds, at most `wanted`; in a transaction.

    Args:
        connection: In a transaction.
        tick: Whose they are.
        wanted: How many.
        after: Where the scan goes on.
        excluded: Action types left where they are.
        left_out: Teams left where they are, '' for actions without one.
        window: How many rows are looked at; then no more groups are held than are wanted. None: a few for each.

    Returns:
        Those claimed, in order, and where the next scan goes on: after the last row seen, which may be none claimed.
        `START` when no row was met.
    """
    token = uuid4()
    row = sql.run(
        connection,
        "hold_groups",
        {
            # A crowd of members of few groups is walked over in larger steps.
            "window": window or 4 * wanted,
            "most": wanted if window else 4 * wanted,
            "left_out": list(left_out),
            **behind(after, excluded),
        },
    ).fetchone()
    assert row is not None  # noqa: S101 - a select of one row
    kept, team_ids, lock_groups, *last = row
    if not kept and not team_ids:
        return [], Position(*last)
    groups = {"team_ids": team_ids, "lock_groups": lock_groups, "token": token}
    claimed = claim_held(connection, tick, {**groups, "kept": kept, "wanted": wanted, "excluded": list(excluded)})
    if len(claimed) < len(kept) + len(team_ids):
        sql.run(connection, "drop_empty_holds", groups)
    return claimed, Position(*last)


def claim_held(connection: Connection, tick: TickRow, held: Mapping[str, Any]) -> list[Claimed]:
    """Claim what this transaction holds: lock groups, and actions by their ids."""
    return _claimed(connection, "claim_held", {**held, "lease_expires_at": tick.lease_expires_at})


def behind(after: Position, excluded: Collection[str]) -> dict[str, Any]:
    """Return where a scan goes on, and what it leaves, as the statements name it."""
    return {
        "after_priority": after.priority,
        "after_at": after.scheduled_at,
        "after_id": after.id,
        "excluded": list(excluded),
    }


def _claimed(connection: Connection, name: str, parameters: Mapping[str, Any]) -> list[Claimed]:
    """Return what the statement claims, in order."""
    token = parameters["token"]

    def made(_: object) -> Callable[[Sequence[Any]], Claimed]:
        return lambda values: Claimed._make((*values, token))

    claimed = connection.cursor(row_factory=made).execute(sql.text(name), parameters).fetchall()
    # `returning` has no order of its own.
    claimed.sort(key=_ORDER)
    return claimed


#: Where an action stands among those claimed: priority, then time, then age.
_ORDER = itemgetter(*(Claimed._fields.index(name) for name in ("priority", "scheduled_epoch", "id")))


def release_no_action(connection: Connection, action_types: Collection[str], *, action_id: UUID | None = None) -> int:
    """Make pending what had waited for a handler of one of these types; return how many.

    Args:
        connection: In autocommit mode.
        action_types: Those that this build has handlers of.
        action_id: None: every action that did.
    """
    ids = None if action_id is None else [action_id]
    return sql.run(connection, "release_no_action", {"action_types": list(action_types), "ids": ids}).rowcount


def unhandled(connection: Connection, action_types: Collection[str]) -> list[UUID]:
    """Return the ids of actions that wait for a handler of one of these types, at most 1,000."""
    return [row[0] for row in sql.run(connection, "unhandled_actions", {"action_types": list(action_types)})]


#: Claims a batch: what it claimed, and where the next one goes on.
ClaimStep: TypeAlias = "Callable[[], tuple[list[Claimed], Position]]"


@dataclass(slots=True)
class ClaimResult:
    """What became of claimed actions."""

    #: To be run.
    kept: list[Claimed]
    #: Ended as skipped, each with the reason.
    skipped: list[tuple[Claimed, str]] = field(default_factory=list)
    #: Occurrences whose end nothing waits for: neither their schedule, to take its next step, nor another occurrence.
    unawaited: frozenset[UUID] = frozenset()
    #: Some of them are to be run before others that were claimed first: teams take turns.
    is_by_turns: bool = False
    #: Cannot be run at all, each with the reason: they fail.
    refused: list[tuple[Claimed, str]] = field(default_factory=list)

    @property
    def has_found_work(self) -> bool:
        """Whether anything came of the claim but actions that wait for their turn."""
        return bool(self.kept or self.skipped or self.refused)

    def add(self, other: ClaimResult) -> None:
        """Add what became of others."""
        self.kept += other.kept
        self.skipped += other.skipped
        self.refused += other.refused
        self.unawaited |= other.unawaited

    def narrow(self, later: ClaimResult) -> None:
        """Take in what a later hook made of those kept."""
        self.kept = later.kept
        self.skipped += later.skipped
        self.refused += later.refused
        self.unawaited |= later.unawaited

    def take_turns_with(self, other: ClaimResult) -> None:
        """Add what was claimed for other teams."""
        self.kept = self.kept + other.kept
        self.skipped = self.skipped + other.skipped
        self.refused = self.refused + other.refused
        self.unawaited |= other.unawaited
        self.is_by_turns = bool(other.kept)


class ClaimHook(Protocol):
    """What a feature does in the transaction that claims a batch. No function of the project runs here."""

    @property
    def column(self) -> str:
        """The field of `Claimed` that is null for actions which are none of the feature's."""

    def after_claim(self, connection: Connection, claimed: list[Claimed]) -> ClaimResult:
        """Return what becomes of actions that were just claimed.

        Args:
            connection: In the transaction that claimed them.
            claimed: Some of them concern the feature; the others are kept as they are.
        """

    def claim_refused(self, connection: Connection, claimed: Claimed, error: BaseException) -> ClaimResult:
        """Return what becomes of one for which `after_claim` was refused; its changes were undone.

        Args:
            connection: In the transaction that claimed it.
            claimed: The action.
            error: Why.
        """


class Batches:
    """Claims batches and calls the hooks of features for them.

    Args:
        hooks: Each is given what the one before has kept.
    """

    def __init__(self, hooks: Sequence[ClaimHook]) -> None:
        self._hooks = tuple(hooks)

    def claim(self, connection: Connection, claim: ClaimStep) -> tuple[list[Claimed], ClaimResult, Position]:
        """Claim a batch and call the hooks, in one transaction; where that is refused, for each action on its own.

        Args:
            connection: In autocommit mode.
            claim: ClaimSteps the batch; called again where the first transaction is refused.

        Returns:
            Those claimed, what became of them, and where the next claim goes on.
        """
        return contain(
            lambda: self._claim_with(connection, claim, self._together),
            lambda error: self._claim_again(connection, claim, error),
        )

    @staticmethod
    def _claim_with(
        connection: Connection, claim: ClaimStep, call_hooks: Callable[[Connection, list[Claimed]], ClaimResult]
    ) -> tuple[list[Claimed], ClaimResult, Position]:
        with connection.transaction():
            claimed, position = claim()
            return claimed, call_hooks(connection, claimed), position

    def _claim_again(
        self, connection: Connection, claim: ClaimStep, error: BaseException
    ) -> tuple[list[Claimed], ClaimResult, Position]:
        log.warning("claim.refused error=%s", reason_of(error))
        return self._claim_with(connection, claim, self._each)

    def _together(self, connection: Connection, claimed: list[Claimed]) -> ClaimResult:
        result = ClaimResult(claimed)
        for hook in self._hooks:
            if any(getattr(one, hook.column) is not None for one in result.kept):
                result.narrow(hook.after_claim(connection, result.kept))
        return result

    def _each(self, connection: Connection, claimed: list[Claimed]) -> ClaimResult:
        """Call the hooks for each action on its own: one that is refused harms no other."""
        result = ClaimResult(claimed)
        for hook in self._hooks:
            of_hook = ClaimResult([])
            for one in result.kept:
                if getattr(one, hook.column) is None:
                    of_hook.kept.append(one)
                    continue
                of_hook.add(
                    contain(partial(self._apart, connection, hook, one), partial(hook.claim_refused, connection, one))
                )
            result.narrow(of_hook)
        return result

    @staticmethod
    def _apart(connection: Connection, hook: ClaimHook, claimed: Claimed) -> ClaimResult:
        with connection.transaction():
            return hook.after_claim(connection, [claimed])
