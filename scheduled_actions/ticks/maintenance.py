"""What keeps the table in order: rescue of what a dead process held, release, and pruning."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from scheduled_actions.actions import settling, shared
from scheduled_actions.actions.hooks import SettledAction
from scheduled_actions.actions.rules import settlement
from scheduled_actions.core import retry
from scheduled_actions.core.action import Status
from scheduled_actions.database.boundary import LATER, contain, describe, reason_of
from scheduled_actions.ticks import maintenance_store as upkeep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from scheduled_actions.actions.settling import Settler
    from scheduled_actions.core.config import Settings
    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.registry import Registry
    from scheduled_actions.ticks.hooks import Prune

log = logging.getLogger("scheduled_actions")

#: Rows handled by one statement of rescue or prune: a bite short enough to stand in nobody's way.
BITE = 500
#: Locks of other sessions that one prune waits for.
_LOCKED_MOST = 4


@dataclass(slots=True)
class Rescued:
    """What a rescue found."""

    count: int = 0
    #: Those that had no attempt left: id, type and error.
    failed: list[tuple[UUID, str, str]] = field(default_factory=list)


class Maintenance:
    """Rescue, release and prune of one project.

    Args:
        database: Where the tables are.
        registry: The handlers, and what they declare.
        settings: Retention, and what SQL needs of them.
        settler: Writes what becomes of rescued actions.
        prunes: What features remove besides finished actions.
    """

    def __init__(
        self,
        database: Database,
        registry: Registry,
        settings: Settings,
        settler: Settler,
        prunes: Sequence[Prune] = (),
    ) -> None:
        self._database = database
        self._settler = settler
        self._prunes = tuple(prunes)
        self._registry = registry
        self._settings = settings
        self._usual_policy = retry.Exponential(settings.retry.base_seconds, settings.retry.cap_seconds)

    def rescue(self, connection: Connection) -> Rescued:
        """Return expired leases to pending, charging those whose handlers had started; at most a bite of them."""
        rescued = Rescued()
        ended = contain(
            lambda: self._rescue_together(connection, rescued),
            lambda error: self._rescue_each(connection, rescued, error),
        )
        # In transactions of their own: schedules are locked before actions. The sweep repairs what a crash leaves.
        self._settler.settled_apart(
            connection,
            [SettledAction(one.id, one.schedule_id) for one in ended],
            {one.id: status for one, status in ended.items()},
        )
        upkeep.close_lost_ticks(connection)
        return rescued

    def _rescue_together(self, connection: Connection, rescued: Rescued) -> dict[upkeep.Expired, Status]:
        with connection.transaction():
            expired = upkeep.expired(connection, limit=BITE)
            outcomes = [self._outcome(one) for one in expired]
            statuses = self._settler.settle_actions(connection, outcomes)
        return self._note(rescued, expired, outcomes, statuses)

    def _rescue_each(
        self, connection: Connection, rescued: Rescued, error: BaseException
    ) -> dict[upkeep.Expired, Status]:
        """Rescue each on its own; the claim token fences it against a settlement at the same time."""
        log.warning("rescue.refused error=%s", reason_of(error))
        with connection.transaction():
            expired = upkeep.expired(connection, limit=BITE)
        ended: dict[upkeep.Expired, Status] = {}
        for one in expired:
            ended |= contain(
                partial(self._rescue_alone, connection, rescued, one), partial(self._fail, connection, rescued, one)
            )
        return ended

    def _rescue_alone(
        self, connection: Connection, rescued: Rescued, one: upkeep.Expired
    ) -> dict[upkeep.Expired, Status]:
        outcome = self._outcome(one)
        return self._note(rescued, [one], [outcome], self._settler.settle_actions(connection, [outcome]))

    def _fail(
        self, connection: Connection, rescued: Rescued, one: upkeep.Expired, error: BaseException
    ) -> dict[upkeep.Expired, Status]:
        """End as failed what cannot be rescued; leave what is locked, or refuses even that, to a later rescue."""
        reason = f"it could not be rescued: {reason_of(error)}"
        if isinstance(error, LATER):
            return {}

        def unwritten(refusal: BaseException) -> bool:
            log.error("action.unwritten id=%s action_type=%s error=%s", one.id, one.action_type, describe(refusal))
            return False

        fail = partial(settling.fail, connection, action_id=one.id, token=one.token, reason=reason)
        if not contain(fail, unwritten):
            return {}
        rescued.count += 1
        rescued.failed.append((one.id, one.action_type, reason))
        return {one: Status.FAILED}

    @staticmethod
    def _note(
        rescued: Rescued,
        expired: Sequence[upkeep.Expired],
        outcomes: Sequence[settling.Outcome],
        statuses: Mapping[UUID, Status],
    ) -> dict[upkeep.Expired, Status]:
        """Count and log what was rescued; return the status of each whose claim still stood."""
        ended = {}
        for one, outcome in zip(expired, outcomes, strict=True):
            status = statuses.get(one.id)
            if status is None:
                continue
            ended[one] = status
            rescued.count += 1
            if status is Status.FAILED:
                rescued.failed.append((one.id, one.action_type, outcome.settlement.error or ""))
            log.warning(
                "action.rescued id=%s action_type=%s started=%s status=%s",
                one.id, one.action_type, one.was_started, status,
            )  # fmt: skip
        return ended

    def _outcome(self, expired: upkeep.Expired) -> settling.Outcome:
        options = self._registry.options(expired.action_type)
        outcome = settlement.Crashed(expired.neighbours) if expired.was_started else settlement.Unstarted()
        decided = settlement.decide(
            expired,
            outcome,
            max_attempts=expired.max_attempts or options.max_attempts or self._settings.max_attempts,
            policy=retry.policy_of(expired.retry_text, options.retry, self._usual_policy),
            draw=random.random(),  # noqa: S311 - jitter, no secret
        )
        entry = settlement.history_entry(
            expired, decided, started_at=expired.tick_started_at, ended_at=None, tick_id=expired.tick_id
        )
        return settling.Outcome(
            action_id=expired.id,
            token=expired.token,
            settlement=decided,
            started_at=expired.tick_started_at,
            entry=entry,
        )

    def prune(self, *, limit: int) -> int:
        """Remove at most `limit` finished actions past their retention, and old ticks; return how many actions."""
        with self._database.connection() as connection:
            return self.prune_on(connection, limit=limit)

    def prune_on(self, connection: Connection, *, limit: int) -> int:
        """Prune as `prune` does, on a connection in autocommit mode: each bite commits on its own."""
        pruned = 0
        while pruned < limit:
            bite = min(BITE, limit - pruned)
            gone = self._prune_bite(connection, bite)
            pruned += gone
            if gone < bite:
                break
        # A type of event is known for as long as there may be an action of it.
        days = self._settings.retention_days
        unseen_days = max(days, self._settings.retention_failed_days)
        prune_ticks = partial(upkeep.prune_ticks, retention_days=days, unseen_days=unseen_days, limit=BITE)
        contain(lambda: prune_ticks(connection), _unpruned)
        for prune in self._prunes:
            contain(partial(prune, connection, BITE), _unpruned)
        return pruned

    def _prune_bite(self, connection: Connection, limit: int) -> int:
        """Remove a bite of finished actions; where that is refused (a foreign key, say), each on its own.

        Few locks are waited for: what is left is past its retention at the next prune, too.
        """
        days, failed_days = self._settings.retention_days, self._settings.retention_failed_days
        prune = partial(upkeep.prune_actions, connection, retention_days=days, retention_failed_days=failed_days)

        def each(_: BaseException) -> int:
            ids = upkeep.prunable(connection, retention_days=days, retention_failed_days=failed_days, limit=limit)
            gone = locked = 0
            for one in ids:
                pruned = contain(partial(prune, limit=1, action_id=one), _unpruned)
                gone += pruned or 0
                locked += pruned is None
                if locked == _LOCKED_MOST:
                    break
            return gone

        return contain(partial(prune, limit=limit), each)

    def first_tick(self, connection: Connection) -> None:
        """Copy what SQL needs of the settings and of the registry."""
        shared.share(connection, self._registry, window_seconds=self._settings.deduplication.window_seconds)


def _unpruned(error: BaseException) -> int | None:
    """Report what was not pruned; return None where it was locked, and may be pruned later."""
    log.warning("prune.refused error=%s", reason_of(error))
    return None if isinstance(error, LATER) else 0
