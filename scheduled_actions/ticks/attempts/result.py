"""The call of a handler, and what comes of it: whatever it returns or raises is an outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions.rules import settlement
from scheduled_actions.core import json_text
from scheduled_actions.core.action import RESULT_LIMIT
from scheduled_actions.database.boundary import describe, text_of
from scheduled_actions.registry.handler import Cancel, Fail, RetryAfter, Skip, Snooze
from scheduled_actions.ticks.attempts.runner import run_coroutine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.actions.rules.settlement import Outcome
    from scheduled_actions.registry.handler import Context
    from scheduled_actions.registry.resolution import Handler
    from scheduled_actions.ticks.attempts.runner import Job


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of an attempt."""

    outcome: Outcome
    follow_ups: tuple[Mapping[str, Any], ...] = ()
    #: The handler's transaction has committed its settlement; nothing is left to write.
    is_settled: bool = False

    @property
    def waits(self) -> bool:
        """Whether its condition does not hold yet."""
        return isinstance(self.outcome, settlement.Waited)


def call(job: Job, handler: Handler, context: Context | None, payload: Any) -> Ended:  # noqa: ANN401 - the handler's own type
    """Call the handler and make an outcome of what it returns or raises: the one place that catches everything."""
    arguments = (payload, context) if handler.takes_context else (payload,)
    try:
        answer = handler.function(*arguments)
        if handler.is_async:
            answer = run_coroutine(job, answer)
        outcome = _outcome(answer)
    except RetryAfter as error:
        return Ended(settlement.Failed(text_of(error.reason), retry_after=error.delay))
    except Fail as error:
        return Ended(settlement.Failed(text_of(error.reason), is_final=True))
    except BaseException as error:  # noqa: BLE001 - SystemExit of a handler ends the attempt, not the process
        return Ended(settlement.Failed(describe(error)))
    if context is None:
        return _COMPLETED if answer is None else Ended(outcome)
    return Ended(outcome, tuple(context._follow_ups))  # noqa: SLF001 - the context's other half


#: What comes of most attempts.
_COMPLETED = Ended(settlement.Completed())


def _outcome(answer: object) -> Outcome:
    match answer:
        case None:
            return settlement.Completed()
        case Snooze():
            state = None if answer.state is None else json_text.encode("state", answer.state, limit=RESULT_LIMIT)
            return settlement.Snoozed(answer.delay, state)
        case Skip(reason):
            return settlement.Skipped(text_of(reason))
        case Cancel(reason):
            return settlement.Cancelled(text_of(reason))
        case _:
            return settlement.Completed(json_text.encode("result", answer, limit=RESULT_LIMIT))
