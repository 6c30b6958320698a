"""What happens when an action of a deadline is about to begin: it is looked at once more, and noted as begun."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, assert_never

import psycopg

from scheduled_actions.actions.rules import settlement
from scheduled_actions.database.transactions import wait_shortly
from scheduled_actions.deadlines import shared as book
from scheduled_actions.deadlines import store
from scheduled_actions.deadlines.rules import planning

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.actions.rules.settlement import Outcome
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.deadlines.model import Deadline, Stage


@dataclass(frozen=True, slots=True)
class Guard:
    """What an action of a deadline was allowed to begin under."""

    deadline_id: UUID
    stage: str
    revision: int
    subject: ClassVar[str] = "its deadline"

    def holds(self, connection: Connection) -> bool:
        """Whether it still may; until the transaction ends nobody can change that.

        The lock is the one that changes take: two handlers that share a lesser one, and both write, wait in a circle.
        """
        found = store.lock(connection, [self.deadline_id])
        key, _ = planning.parse_occurrence(self.stage)
        return bool(found) and planning.holds(found[0].deadline, key, self.revision, now=found[0].now)


def begin(database: Database, claimed: Claimed) -> Guard | Outcome | None:
    """Note that an action of a deadline begins, and plan the occurrence of its stage that follows.

    Returns:
        What it begins under; None where nothing can take that back; or what becomes of it instead.
    """
    try:
        with database.connection() as connection, connection.transaction():
            wait_shortly(connection, store.PATIENCE_MS)
            return _begin(connection, claimed)
    except psycopg.errors.LockNotAvailable:
        return settlement.Unstarted("its deadline is being changed")


def _begin(connection: Connection, claimed: Claimed) -> Guard | Outcome | None:
    deadline_id, name = store.stage_of(connection, claimed.id)
    found = [] if deadline_id is None else store.lock(connection, [deadline_id])
    if not found:
        return settlement.Skipped("its deadline is not there any more")
    deadline, now = found[0]
    if deadline.problem is not None and deadline.is_unresolved:
        return settlement.Failed(f"the stored row of its deadline cannot be used: {deadline.problem}", is_final=True)
    if name is None:
        refused = planning.not_holding(deadline)
        return Guard(deadline.id, "", deadline.revision) if refused is None else settlement.Skipped(refused)
    key, occurrence = planning.parse_occurrence(name)
    verdict = planning.judge(deadline, key, occurrence, now=now, is_first=claimed.attempts == 0)
    match verdict:
        case planning.Go(stage):
            _note(connection, deadline, stage)
            return None if stage.kind == "renewal" else Guard(deadline.id, name, deadline.revision)
        case planning.Later(delay, stage):
            if stage is not None:
                # Its own action waits for the new instant: nothing is to be planned beside it.
                store.write(connection, {deadline.id: {"stages": _with(deadline, stage)}})
            return settlement.Snoozed(delay)
        case planning.Gone(reason, stage):
            if stage is not None:
                _note(connection, deadline, stage, now=now, reason=reason)
            return settlement.Skipped(reason)
        case _:
            assert_never(verdict)


def _note(
    connection: Connection, deadline: Deadline, stage: Stage, *, now: datetime | None = None, reason: str | None = None
) -> None:
    """Write how far a stage has come, and plan what follows of it."""
    if stage == deadline.stage(stage.key):
        return
    changes: dict[str, object] = {"stages": _with(deadline, stage)}
    if now is not None:
        changes["entry"] = book.entry("held_back", now, stage=stage.key, reason=reason)
    store.write(connection, {deadline.id: changes})
    store.plan(connection, deadline.id, [stage])


def _with(deadline: Deadline, stage: Stage) -> list[Stage]:
    """Return a deadline's stages, one of them as it is from now on."""
    return [stage if one.key == stage.key else one for one in deadline.stages]
