"""The conditions of what a tick has just claimed."""

from __future__ import annotations

import logging
from collections import ChainMap
from typing import TYPE_CHECKING

from scheduled_actions.actions.rules import settlement
from scheduled_actions.database.boundary import isolate, reason_of
from scheduled_actions.database.connection import PASSING
from scheduled_actions.ticks.attempts.result import Ended

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from scheduled_actions.actions.evaluation import Asking
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.ticks.hooks import Evaluate
    from scheduled_actions.ticks.retrying_connection import Line

log = logging.getLogger("scheduled_actions")


def judged(claimed: Sequence[Claimed], line: Line, evaluate: Evaluate) -> Mapping[UUID, Ended | Asking]:
    """Return, by id, the outcome of each unmet condition, and the external checks that others still need.

    A condition that cannot be judged fails its own action: its facts or its progress may be unreadable. Where another
    session changes at this moment what they wait for, all of them go back uncharged: this thread does not wait for it,
    because nothing that ends meanwhile would be settled.
    """
    having = [one for one in claimed if one.condition_text is not None]
    if not having:
        return {}

    def judge(batch: Sequence[Claimed]) -> dict[UUID, Ended | Asking]:
        try:
            found = evaluate(batch, line.do)
        except PASSING as error:
            log.info("waits.put_off actions=%d error=%s", len(batch), type(error).__name__)
            reason = "another session changes what its condition waits for"
            return {one.id: Ended(settlement.Unstarted(reason)) for one in batch}
        return {
            action_id: Ended(one.outcome, one.follow_ups) if isinstance(one, settlement.Held) else one
            for action_id, one in found.items()
        }

    def refused(one: Claimed, error: BaseException) -> dict[UUID, Ended | Asking]:
        return {one.id: Ended(settlement.Failed(f"its condition cannot be judged: {reason_of(error)}"))}

    return dict(ChainMap(*isolate(having, judge, refused)))
