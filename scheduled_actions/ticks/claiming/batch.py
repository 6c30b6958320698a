"""One claimed batch, with what features make of it, in one transaction."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from scheduled_actions.actions.hooks import ClaimResult
from scheduled_actions.database.boundary import contain, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduled_actions.actions import claims
    from scheduled_actions.actions.hooks import ClaimHook
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Connection

log = logging.getLogger("scheduled_actions")

#: Claims a batch: what it claimed, and where the next one goes on.
Claim: TypeAlias = "Callable[[], tuple[list[Claimed], claims.Position]]"


class Batches:
    """Claims batches and calls the hooks of features for them.

    Args:
        hooks: Each is given what the one before has kept.
    """

    def __init__(self, hooks: Sequence[ClaimHook]) -> None:
        self._hooks = tuple(hooks)

    def claim(self, connection: Connection, claim: Claim) -> tuple[list[Claimed], ClaimResult, claims.Position]:
        """Claim a batch and call the hooks, in one transaction; where that is refused, for each action on its own.

        Args:
            connection: In autocommit mode.
            claim: Claims the batch; called again where the first transaction is refused.

        Returns:
            Those claimed, what became of them, and where the next claim goes on.
        """
        return contain(
            lambda: self._claim_with(connection, claim, self._together),
            lambda error: self._claim_again(connection, claim, error),
        )

    @staticmethod
    def _claim_with(
        connection: Connection, claim: Claim, call_hooks: Callable[[Connection, list[Claimed]], ClaimResult]
    ) -> tuple[list[Claimed], ClaimResult, claims.Position]:
        with connection.transaction():
            claimed, position = claim()
            return claimed, call_hooks(connection, claimed), position

    def _claim_again(
        self, connection: Connection, claim: Claim, error: BaseException
    ) -> tuple[list[Claimed], ClaimResult, claims.Position]:
        log.warning("claim.refused error=%s", reason_of(error))
        return self._claim_with(connection, claim, self._each)

    def _together(self, connection: Connection, claimed: list[Claimed]) -> ClaimResult:
        result = ClaimResult(claimed)
        for hook in self._hooks:
            result.narrow(hook.after_claim(connection, result.kept))
        return result

    def _each(self, connection: Connection, claimed: list[Claimed]) -> ClaimResult:
        """Call the hooks for each action on its own: one that is refused harms no other."""
        result = ClaimResult(claimed)
        for hook in self._hooks:
            of_hook = ClaimResult([])
            for one in result.kept:
                of_hook.add(
                    contain(partial(self._apart, connection, hook, one), partial(hook.claim_refused, connection, one))
                )
            result.narrow(of_hook)
        return result

    @staticmethod
    def _apart(connection: Connection, hook: ClaimHook, claimed: Claimed) -> ClaimResult:
        with connection.transaction():
            return hook.after_claim(connection, [claimed])
