"""The run of an attempt: from the claimed row to what came of it. In the runner's threads."""

from __future__ import annotations

import logging
import random
import sys
import time
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import psycopg

from scheduled_actions.actions import claims, settling
from scheduled_actions.actions.rules import settlement
from scheduled_actions.core import json_text, retry, tracing
from scheduled_actions.core.action import READABLE_BEFORE
from scheduled_actions.core.errors import (
    ClaimLost,
    HandlerBroken,
    PayloadInvalid,
    RequestError,
    ScheduledActionsError,
    UnknownActionType,
)
from scheduled_actions.database.boundary import LATER, concerns_all, describe
from scheduled_actions.database.failures import PASSING
from scheduled_actions.database.transactions import running_action
from scheduled_actions.registry import loading
from scheduled_actions.registry.handler import Context, HandlerOptions
from scheduled_actions.ticks.attempts.attempt import Attempt, Ended, began, call
from scheduled_actions.ticks.attempts.transactional import HandlerTransactions
from scheduled_actions.ticks.rules.plan import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from scheduled_actions.actions.rules.settlement import Outcome, Settlement
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.core.retry import RetryPolicy
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.registry.resolution import Handler
    from scheduled_actions.ticks.hooks import Guard, Hooks
    from scheduled_actions.ticks.worker_state import Process

#: How long an attempt waits that the database kept from its start, before its action may be claimed again.
_AGAIN_SECONDS = 0.25

_T = TypeVar("_T")

log = logging.getLogger("scheduled_actions")
_handler_log = logging.getLogger("scheduled_actions.handler")


def _ended_before_its_call(error: Exception, reason: str) -> Ended:
    """Return what becomes of an attempt whose handler was not called: uncharged where the action is not to blame."""
    if not (concerns_all(error) or isinstance(error, LATER)):
        return Ended(settlement.Failed(reason))
    # It is due again at once.
    time.sleep(_AGAIN_SECONDS)
    return Ended(settlement.Unstarted(reason))


def is_plain(claimed: Claimed) -> bool:
    """Whether nothing in its row needs to be looked at to know that it can be read, its payload aside."""
    return (
        claimed.state_text is claimed.metadata_text is claimed.history_text is None
        and claimed.started_epoch is None
        and (claimed.occurrence_epoch is None or 0 <= claimed.occurrence_epoch < READABLE_BEFORE)
        and (claimed.previous_epoch is None or 0 <= claimed.previous_epoch < READABLE_BEFORE)
        and 0 <= claimed.scheduled_epoch < READABLE_BEFORE
        and 0 <= claimed.created_epoch < READABLE_BEFORE
    )


class Attempts:
    """Makes and runs the attempts of one tick.

    Args:
        process: Its registry, settings, database and clock.
        tick: The row of the tick.
        begun: When the database was asked to begin it, on the monotonic clock.
        answer_by: When the tick must have answered, on the monotonic clock.
        nudge: Called in an attempt's thread: what waited for a module may start now.
    """

    def __init__(
        self,
        process: Process,
        *,
        tick: claims.TickRow,
        begun: float,
        answer_by: float,
        nudge: Callable[[], None],
    ) -> None:
        self._database = process.database
        self._registry = process.registry
        self._settings = process.settings
        self._prepare = process.prepare
        self._hooks: Hooks = process.hooks
        self._stuck_by_team = process.stuck_by_team
        self._settler = process.settler
        self._monotonic = process.monotonic
        self._tick = tick
        self._nudge = nudge
        self._begun = begun
        #: The database's time at the zero of the monotonic clock, in epoch seconds.
        self._epoch = tick.started_at.timestamp() - begun
        self._answer_by = answer_by
        tracer = tracing.tracer() if tracing.API in sys.modules else None
        self._dispatches = None if tracer is None else tracing.Dispatches(tracer)
        #: Most actions are like the one before.
        self._candidates: dict[tuple[str, float, bool, bool], Candidate] = {}
        self._usual_policy = process.usual_policy

    @cached_property
    def _transactions(self) -> HandlerTransactions:
        # At most half of the threads hold a connection for their handler.
        return HandlerTransactions(
            self._database,
            most=max(1, self._settings.concurrency // 2),
            settle=self._settle_inside,
            monotonic=self._monotonic,
            answer_by=self._answer_by,
        )

    def make(self, claimed: Claimed, *, start_until: float) -> Attempt:
        """Return an attempt of a claimed action, ready to be submitted."""
        run = self._run if self._dispatches is None else self._run_traced
        attempt = Attempt(claimed, run, start_until=start_until, on_late=self._late)
        self._learn(attempt, self._registry.options(claimed.action_type))
        is_last_attempt = claimed.attempts + 1 >= attempt.max_attempts
        known = claimed.action_type, attempt.timeout_seconds, is_last_attempt, claimed.last_outcome == "crashed"
        attempt.candidate = self._candidates.get(known) or self._candidates.setdefault(known, Candidate(*known))
        return attempt

    def _learn(self, attempt: Attempt, options: HandlerOptions) -> None:
        """Take in the handler's options: at first what its text declares, all of them once it is imported."""
        attempt.options = options
        attempt.timeout_seconds = options.timeout_seconds or self._settings.default_timeout_seconds
        attempt.max_attempts = attempt.claimed.max_attempts or options.max_attempts or self._settings.max_attempts

    def settle_as(self, attempt: Attempt, ended: Ended) -> settling.Outcome:
        """Return the outcome as it is written."""
        decided = self._decide(attempt, ended.outcome)
        started = began(attempt, ended)
        started_at = None if started is None else self._at(started)
        ended_at = None if started is None else self._at(self._monotonic() if attempt.ended is None else attempt.ended)
        return settling.Outcome(
            action_id=attempt.claimed.id,
            token=attempt.claimed.token,
            settlement=decided,
            started_at=started_at,
            ended_at=ended_at,
            entry=settlement.history_entry(
                attempt.claimed, decided, started_at=started_at, ended_at=ended_at, tick_id=self._tick.id
            ),
            max_attempts=attempt.max_attempts,
            schedule_id=attempt.claimed.schedule_id,
            follow_ups=ended.follow_ups,
        )

    def _at(self, instant: float) -> datetime:
        """Return the database's time for an instant of the monotonic clock."""
        return self._tick.started_at + timedelta(seconds=instant - self._begun)

    def lateness(self, attempt: Attempt) -> float:
        """Return for how many seconds an action had been due when its handler started."""
        started = attempt.started
        assert started is not None  # noqa: S101 - it has
        return self._epoch + started - attempt.claimed.scheduled_epoch

    def completions(self, ended: Iterable[tuple[Attempt, Ended]]) -> list[settling.Completion] | None:
        """Return the outcomes as the completions that they are; None unless each is one that leaves only its times."""
        begun = self._begun
        completions = []
        for attempt, one in ended:
            claimed = attempt.claimed
            if one.follow_ups or one.is_settled or attempt.is_awaited:
                return None
            if not settlement.leaves_only_times(claimed, one.outcome):
                return None
            assert attempt.started is not None and attempt.ended is not None  # noqa: S101, PT018 - its handler has returned
            started, until = int((attempt.started - begun) * 1e6), int((attempt.ended - begun) * 1e6)
            completions.append(settling.Completion(claimed.id, claimed.token, started, until, attempt.max_attempts))
        return completions

    def _decide(self, attempt: Attempt, outcome: Outcome) -> Settlement:
        policy = self._usual_policy
        if isinstance(outcome, settlement.Failed | settlement.TimedOut):
            policy, problem = self._policy(attempt)
            if problem is not None:
                outcome = replace(outcome, reason=f"{outcome.reason}; the retry policy failed: {problem}")
        return settlement.decide(
            attempt.claimed,
            outcome,
            max_attempts=attempt.max_attempts,
            policy=policy,
            draw=random.random(),  # noqa: S311 - jitter, no secret
        )

    def _policy(self, attempt: Attempt) -> tuple[RetryPolicy, str | None]:
        """Return the retry policy of an attempt that failed, and what is wrong with the project's own."""
        declared, problem = attempt.options.retry, None
        if not retry.is_ours(declared):
            # Its code runs in the attempt's own thread alone: see `_foresee_wait`.
            declared = None if attempt.own_wait is None else retry.Decided(attempt.own_wait)
            problem = attempt.wait_problem
        return retry.policy_of(attempt.claimed.retry_text, declared, self._usual_policy), problem

    def _foresee_wait(self, attempt: Attempt) -> None:
        """Ask a retry policy of the project's own how long to wait if this attempt fails.

        Before the handler is called, so that the answer is there after a timeout as well. A policy that raises, hangs
        or returns anything but a wait is replaced by the project's default.
        """
        policy = attempt.options.retry
        is_used = attempt.claimed.retry_text is None and attempt.claimed.attempts + 1 < attempt.max_attempts
        if policy is None or retry.is_ours(policy) or not is_used:
            return
        number, draw = attempt.claimed.attempts + 1, random.random()  # noqa: S311 - jitter, no secret
        try:
            found = self._registry.calls.call(
                f"retry:{attempt.claimed.action_type}",
                lambda: retry.wait_or_problem(policy.delay(number, draw=draw)),
            )
        except ScheduledActionsError as error:
            found = str(error)
        except Exception as error:  # noqa: BLE001 - the project's own code
            found = f"it raised {describe(error)}"
        if isinstance(found, timedelta):
            attempt.own_wait = found
        else:
            attempt.wait_problem = found

    def _run(self, attempt: Attempt) -> Ended:
        """Run the handler; whatever it does, and whatever is wrong with us, an outcome comes of it."""
        try:
            return self._run_handler(attempt)
        except BaseException as error:
            # A validator that raises SystemExit, say: its thread would be lost, and the action told to have timed out.
            log.exception("action.broken id=%s action_type=%s", attempt.claimed.id, attempt.claimed.action_type)
            return Ended(settlement.Failed(f"it could not be run: {describe(error)}"))

    def _run_handler(self, attempt: Attempt) -> Ended:  # noqa: PLR0911 - a return per way to end early
        if attempt.asking is not None:
            held = self._held_by_its_condition(attempt)
            if held is not None or attempt.is_stopped:
                return held or Ended(settlement.Unstarted())
        try:
            handler = self._handler_of(attempt)
            if handler is None:
                return Ended(settlement.Unstarted())
            payload = handler.payload.validate_text(attempt.claimed.payload_text)
            guards = self._before(attempt)
            if isinstance(guards, Ended):
                return guards
            # Putting a context together takes longer than many a handler: one that asks for none goes without.
            is_wanted = handler.takes_context or handler.options.transactional or not is_plain(attempt.claimed)
            context = self._context(attempt) if is_wanted else None
        except UnknownActionType as error:
            return Ended(settlement.NoHandler(str(error)))
        except HandlerBroken as error:
            return Ended(settlement.Failed(str(error)))
        except (PayloadInvalid, RequestError) as error:
            return Ended(settlement.Failed(str(error), is_final=True))
        except (ValueError, OverflowError, RecursionError, ArithmeticError, OSError) as error:
            return Ended(settlement.Failed(f"the row cannot be read: {type(error).__name__}: {error}", is_final=True))
        # Each start has a context of its own (the runner sees to it): nothing is to be put back.
        running_action.set(attempt.claimed.id)
        if handler.options.transactional:
            assert context is not None  # noqa: S101 - made above
            try:
                return self._transactions.run(attempt, handler, context, payload, guards)
            finally:
                # The tick does what they have left.
                self._settler.release_left()
        return call(attempt, handler, context, payload)

    def _handler_of(self, attempt: Attempt) -> Handler | None:
        """Return the handler; None where the attempt was given up meanwhile.

        The handler's time begins after the import of its module, and after its own retry policy was asked.
        """
        action_type = attempt.claimed.action_type
        is_import = self._registry.awaits_import(action_type) is not None
        if is_import:
            attempt.hold()
            attempt.imported_by = self._monotonic() + loading.IMPORT_SECONDS
        try:
            handler = self._registry.resolve(action_type)
        finally:
            if is_import:
                attempt.imported_by = None
                # Others wait for the same module.
                self._nudge()
        self._learn(attempt, handler.options)
        if handler.options.retry is not None and not retry.is_ours(handler.options.retry):
            attempt.hold()
            self._foresee_wait(attempt)
        return handler if attempt.started is not None or attempt.start(self._monotonic()) else None

    def _before(self, attempt: Attempt) -> list[Guard] | Ended:
        """Return what the features have to say before the handler is called: guards, or what becomes of the action.

        The handler's time begins afterwards: they may wait for locks.
        """
        guards: list[Guard] = []
        for hook in self._hooks.around_attempt:
            if getattr(attempt.claimed, hook.column) is None:
                continue
            attempt.hold()
            try:
                found = hook.before_attempt(attempt.claimed)
            except (psycopg.Error, ScheduledActionsError, ValueError, TypeError, KeyError) as error:
                return _ended_before_its_call(error, f"{hook.subject} cannot be looked at: {describe(error)}")
            if isinstance(found, settlement.Outcome):
                return Ended(found)
            if found is not None:
                guards.append(found)
            if not attempt.start(self._monotonic()):
                return Ended(settlement.Unstarted())
        return guards

    def _run_traced(self, attempt: Attempt) -> Ended:
        claimed, dispatches = attempt.claimed, self._dispatches
        assert dispatches is not None  # noqa: S101 - chosen for it
        number = claimed.attempts + 1
        told = {"action_id": str(claimed.id), "action_type": claimed.action_type, "attempt": number}
        with dispatches.dispatch(claimed.action_type, claimed.metadata_text, told) as span:
            ended = self._run(attempt)
            has_failed = isinstance(ended.outcome, settlement.Failed)
            dispatches.ended(span, type(ended.outcome).__name__.lower(), has_failed=has_failed)
            return ended

    def _held_by_its_condition(self, attempt: Attempt) -> Ended | None:
        """Ask the world for the condition; None where the handler is to start."""
        assert attempt.asking is not None  # noqa: S101 - asked for
        try:
            held = self._hooks.check_external(attempt.asking, attempt.claimed, self._on_a_connection)
        except PASSING:
            return Ended(settlement.Unstarted("another session changes what its condition waits for"))
        except (psycopg.Error, ScheduledActionsError) as error:
            return _ended_before_its_call(error, f"its condition cannot be judged: {describe(error)}")
        attempt.asking = None
        return None if held is None else Ended(held.outcome, held.follow_ups)

    def _on_a_connection(self, step: Callable[[Connection], _T]) -> _T:
        """Do a step on a connection of its own: none is held while the world takes its time to answer."""
        with self._database.connection() as connection:
            return step(connection)

    def _context(self, attempt: Attempt) -> Context:
        claimed = attempt.claimed
        state, metadata, history = (
            None if text is None else json_text.decode(text)
            for text in (claimed.state_text, claimed.metadata_text, claimed.history_text)
        )
        action = claimed.as_action(
            payload=json_text.decode(claimed.payload_text),
            state=state,
            metadata=metadata,
            history=history,
            lease_ends=self._tick.lease_expires_at,
        )
        assert attempt.started is not None  # noqa: S101 - the runner has begun it
        number = claimed.attempts + 1
        return Context(
            action=action,
            attempt=number,
            state=state,
            log=logging.LoggerAdapter(
                _handler_log, {"action_id": claimed.id, "action_type": claimed.action_type, "attempt": number}
            ),
            _monotonic=self._monotonic,
            _deadline=min(attempt.started + attempt.timeout_seconds, self._answer_by),
            _prepare=self._prepare,
            _is_stopped=lambda: attempt.is_stopped,
            _previous_occurrence_at=claimed.previous_occurrence_at,
            _next_occurrence=self._hooks.next_occurrence,
        )

    def _settle_inside(self, attempt: Attempt, ended: Ended, connection: Connection) -> None:
        """Settle in the transaction of a handler.

        Raises:
            ClaimLost: Another tick has the action now.
        """
        settled = self._settler.settle(connection, self._tick, [self.settle_as(attempt, ended)], running=None)
        if attempt.claimed.id not in settled.statuses:
            raise ClaimLost(attempt.claimed.id)

    def _late(self, attempt: Attempt, ended: Ended) -> None:
        """Refuse the outcome of a handler that came back after it had been given up; its lock group is free again."""
        claimed = attempt.claimed
        self._stuck_by_team.add(claimed.team_id, -1)
        log.warning(
            "action.stale id=%s action_type=%s attempt=%d outcome=%s",
            claimed.id, claimed.action_type, claimed.attempts + 1, type(ended.outcome).__name__.lower(),
        )  # fmt: skip
        if claimed.lock_group is None:
            return
        try:
            with self._database.connection() as connection:
                settling.end_linger(connection, claimed.id)
        except (psycopg.Error, ScheduledActionsError) as error:
            # The hold ends with the lease; the next tick finds it.
            log.warning("hold.linger_kept id=%s error=%s", claimed.id, describe(error))
