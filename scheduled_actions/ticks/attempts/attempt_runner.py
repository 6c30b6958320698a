"""Create the attempts of a tick, and run them on the handler threads."""

from __future__ import annotations

import logging
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from scheduled_actions.actions import settling, store
from scheduled_actions.actions.rules.settlement import AttemptResult, Failed, NoHandler, Outcome, Released
from scheduled_actions.core import json_text, retry, tracing
from scheduled_actions.core.action import READABLE_BEFORE, Claimed, ParentAction
from scheduled_actions.core.errors import (
    HandlerBroken,
    PayloadInvalid,
    RequestError,
    ScheduledActionsError,
    UnknownActionType,
)
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import RETRYABLE_ERRORS, TEMPORARY_ERRORS, describe, is_outage
from scheduled_actions.database.transactions import running_action
from scheduled_actions.registry import loading
from scheduled_actions.registry.handler import Context, HandlerOptions
from scheduled_actions.ticks.attempts.attempt import RELEASED, Attempt, EndedEarly, RunningTick, call, outcome_name
from scheduled_actions.ticks.attempts.transactional import HandlerTransactions
from scheduled_actions.ticks.hooks import AttemptGuard
from scheduled_actions.ticks.rules.plan import Candidate

if TYPE_CHECKING:
    from uuid import UUID

    from scheduled_actions.actions.evaluation import PendingCheck
    from scheduled_actions.registry.resolution import Handler

#: Pause before an action whose start the database prevented is released: it is due again immediately.
_RELEASE_PAUSE_SECONDS = 0.25

_handler_log = logging.getLogger("scheduled_actions.handler")


def needs_no_context(claimed: Claimed) -> bool:
    """Return whether every value of the row except the payload is certainly readable.

    For other rows, a context is built even if the handler takes none, because building it finds an unreadable value.
    """
    return (
        claimed.state_text is claimed.metadata_text is claimed.history_text is None
        and claimed.started_epoch is None
        and (claimed.occurrence_epoch is None or 0 <= claimed.occurrence_epoch < READABLE_BEFORE)
        and (claimed.previous_epoch is None or 0 <= claimed.previous_epoch < READABLE_BEFORE)
        and (claimed.expires_epoch is None or claimed.expires_epoch < READABLE_BEFORE)
        and 0 <= claimed.scheduled_epoch < READABLE_BEFORE
        and 0 <= claimed.created_epoch < READABLE_BEFORE
    )


def _uncalled(error: Exception, reason: str) -> EndedEarly:
    """Return the end of an attempt whose handler was not called: released after a temporary error, otherwise failed."""
    if not (is_outage(error) or isinstance(error, TEMPORARY_ERRORS)):
        return EndedEarly(AttemptResult(Failed(reason)))
    time.sleep(_RELEASE_PAUSE_SECONDS)
    return EndedEarly(AttemptResult(Released(reason)))


@contextmanager
def _evaluating() -> Iterator[None]:
    """Convert errors of the evaluation of a condition to the end of the attempt.

    Raises:
        EndedEarly: The condition cannot be evaluated.
    """
    try:
        yield
    except RETRYABLE_ERRORS:
        released = Released("another session is changing the data that its condition waits for")
        raise EndedEarly(AttemptResult(released)) from None
    except (psycopg.Error, ScheduledActionsError) as error:
        raise _uncalled(error, f"the condition cannot be evaluated: {describe(error)}") from error


class _Properties(NamedTuple):
    """Properties of an attempt that depend on the options of its handler; fields as those of `Attempt`."""

    options: HandlerOptions
    timeout_seconds: float
    max_attempts: int
    candidate: Candidate


class AttemptRunner:
    """Creates and runs the attempts of one tick."""

    def __init__(self, tick: RunningTick) -> None:
        self._tick = tick
        self._state = tick.state
        tracer = tracing.tracer() if tracing.API in sys.modules else None
        self._spans = None if tracer is None else tracing.HandlerSpans(tracer)
        #: A cache, because most actions have the same properties as the one before: by the values of a claimed action,
        #: what follows from them and from the options of its handler.
        self._properties: dict[tuple[str, int | None, int, str | None], _Properties] = {}

    @cached_property
    def _transactions(self) -> HandlerTransactions:
        return HandlerTransactions(self._tick)

    def make(self, claimed: Claimed) -> Attempt:
        """Return an attempt of a claimed action, ready to be submitted."""
        attempt = Attempt(
            claimed,
            self._run if self._spans is None else partial(self._run_traced, self._spans),
            start_until=self._tick.budget.run_until,
            on_late=self._refuse_late,
        )
        self._apply_options(attempt, self._state.registry.options(claimed.action_type))
        return attempt

    def _apply_options(self, attempt: Attempt, options: HandlerOptions) -> None:
        """Set the options of the attempt: first those in the handler's source text, later those of its function."""
        claimed = attempt.claimed
        key = claimed.action_type, claimed.max_attempts, claimed.attempts, claimed.last_outcome
        found = self._properties.get(key)
        if found is None or found.options is not options:
            found = self._properties[key] = self._properties_of(claimed, options)
        attempt.options, attempt.timeout_seconds, attempt.max_attempts, attempt.candidate = found

    def _properties_of(self, claimed: Claimed, options: HandlerOptions) -> _Properties:
        settings = self._state.settings
        timeout_seconds = options.timeout_seconds or settings.default_timeout_seconds
        max_attempts = claimed.max_attempts or options.max_attempts or settings.max_attempts
        candidate = Candidate(
            claimed.action_type,
            timeout_seconds,
            is_last_attempt=claimed.attempts + 1 >= max_attempts,
            runs_alone=claimed.last_outcome == "crashed",
        )
        return _Properties(options, timeout_seconds, max_attempts, candidate)

    def _run_traced(self, spans: tracing.HandlerSpans, attempt: Attempt) -> AttemptResult:
        claimed = attempt.claimed
        attributes = {"action_id": str(claimed.id), "action_type": claimed.action_type, "attempt": claimed.attempts + 1}
        with spans.dispatch(claimed.action_type, claimed.metadata_text, attributes) as span:
            result = self._run(attempt)
            spans.ended(span, outcome_name(result.outcome), has_failed=isinstance(result.outcome, Failed))
            return result

    def _run(self, attempt: Attempt) -> AttemptResult:
        """Run the handler; convert every exception, even one of this package, to a result."""
        try:
            return self._run_handler(attempt)
        except EndedEarly as ended:
            return ended.result
        except BaseException as error:
            # For example SystemExit in a validator: if it ended the thread, the attempt would have no result until its
            # timeout.
            log.exception("action.broken id=%s action_type=%s", attempt.claimed.id, attempt.claimed.action_type)
            return AttemptResult(Failed(f"the action could not be run: {describe(error)}"))

    def _run_handler(self, attempt: Attempt) -> AttemptResult:
        if attempt.pending_check is not None:
            self._check_condition(attempt, attempt.pending_check)
        try:
            handler = self._handler_of(attempt)
            payload = handler.payload.validate_text(attempt.claimed.payload_text)
            guards = self._run_hooks(attempt)
            # Building a context takes longer than many handlers do, so it is built only if it is needed.
            is_wanted = handler.takes_context or handler.options.transactional or not needs_no_context(attempt.claimed)
            context = self._context(attempt) if is_wanted else None
        except UnknownActionType as error:
            return AttemptResult(NoHandler(str(error)))
        except HandlerBroken as error:
            return AttemptResult(Failed(str(error)))
        except (PayloadInvalid, RequestError) as error:
            return AttemptResult(Failed(str(error), is_final=True))
        except (ValueError, OverflowError, RecursionError, ArithmeticError, OSError) as error:
            return AttemptResult(Failed(f"the row cannot be read: {type(error).__name__}: {error}", is_final=True))
        # Each start has its own `contextvars` context (see `HandlerThreads`), so nothing has to be reset.
        running_action.set(attempt.claimed.id)
        if not handler.options.transactional:
            if (expired := self._tick.expired(attempt.claimed)) is not None:
                raise EndedEarly(expired)
            return call(attempt, handler, context, payload)
        assert context is not None  # noqa: S101 - built above
        try:
            return self._transactions.run(attempt, handler, context, payload, guards)
        finally:
            # The tick plans the occurrences that these transactions have not planned.
            self._state.settler.release_deferred()

    def _check_condition(self, attempt: Attempt, pending: PendingCheck) -> None:
        """Run the external checks of the condition.

        Raises:
            EndedEarly: The condition is not met or cannot be evaluated, or the attempt was asked to stop.
        """
        with _evaluating():
            held = self._state.hooks.check_external(pending, attempt.claimed, self._state.database.do)
        attempt.pending_check = None
        if held is not None or attempt.is_stopped:
            raise EndedEarly(held or RELEASED)

    def _check_guard(self, attempt: Attempt, guard: AttemptGuard) -> None:
        """Evaluate the condition of a guard: outside any transaction, and within the time of the attempt.

        Raises:
            EndedEarly: The condition is not met or cannot be evaluated, or the attempt was asked to stop.
        """
        if guard.condition_text is None:
            return
        hooks, do = self._state.hooks, self._state.database.do
        claimed = attempt.claimed._replace(condition_text=guard.condition_text)
        with _evaluating():
            held = hooks.evaluate([claimed], do).get(claimed.id)
            if held is not None and not isinstance(held, AttemptResult):
                held = hooks.check_external(held, claimed, do)
            if attempt.is_stopped:
                raise EndedEarly(RELEASED)
            outcome = do(partial(guard.after_condition, outcome=None if held is None else held.outcome))
        if outcome is not None:
            raise EndedEarly(AttemptResult(outcome))

    def _handler_of(self, attempt: Attempt) -> Handler:
        """Return the handler; import its module and call its own retry policy before the time of the attempt begins.

        Raises:
            EndedEarly: The attempt was abandoned during the import or the call of the policy.
            HandlerBroken: The handler cannot be loaded.
            UnknownActionType: This build has no handler for the type.
        """
        registry, action_type = self._state.registry, attempt.claimed.action_type
        handler = registry.loaded(action_type) or self._load(attempt)
        if attempt.options is not handler.options:
            self._apply_options(attempt, handler.options)
        if handler.options.retry is not None and not retry.is_builtin(handler.options.retry):
            attempt.started = None
            self._ask_retry_policy(attempt, handler.options.retry)
        if attempt.started is None and not attempt.start(self._state.monotonic()):
            raise EndedEarly(RELEASED)
        return handler

    def _load(self, attempt: Attempt) -> Handler:
        """Load the handler; if its module has to be imported, the time of the attempt stands still.

        Raises:
            HandlerBroken: The handler cannot be loaded.
            UnknownActionType: This build has no handler for the type.
        """
        registry, action_type = self._state.registry, attempt.claimed.action_type
        is_import = registry.awaits_import(action_type) is not None
        if is_import:
            attempt.started = None
            attempt.import_deadline = self._state.monotonic() + loading.IMPORT_SECONDS
        try:
            return registry.resolve(action_type)
        finally:
            if is_import:
                attempt.import_deadline = None
                # Other attempts may be waiting for the same module.
                self._tick.in_flight.nudge()

    def _ask_retry_policy(self, attempt: Attempt, policy: retry.RetryPolicy) -> None:
        """Call the project's retry policy, and store the delay in case this attempt fails.

        Does nothing if the action has its own policy or this is its last attempt. The policy is called before the
        handler, so that the delay is also available after a timeout. If the policy raises, hangs or returns no delay,
        the default policy of the project applies.
        """
        number = attempt.claimed.attempts + 1
        if attempt.claimed.retry_text is not None or number >= attempt.max_attempts:
            return
        try:
            attempt.chosen_delay = self._state.registry.calls.call(
                f"retry:{attempt.claimed.action_type}",
                lambda: retry.check_chosen_delay(policy.delay(number, draw=random.random())),  # noqa: S311 - jitter, not a secret
            )
        except ScheduledActionsError as error:
            attempt.chosen_delay = str(error)
        except Exception as error:  # noqa: BLE001 - the project's own code
            attempt.chosen_delay = f"it raised {describe(error)}"

    def _run_hooks(self, attempt: Attempt) -> list[AttemptGuard]:
        """Run the hooks of features before the handler is called; return their guards.

        The handler's time begins after the hooks, because they may wait for locks; the conditions of the guards are
        evaluated within it.

        Raises:
            EndedEarly: A hook returned an outcome or failed, the condition of a guard is not met, or the attempt was
                abandoned.
        """
        guards: list[AttemptGuard] = []
        for hook in self._state.hooks.around_attempt:
            if getattr(attempt.claimed, hook.column) is None:
                continue
            attempt.started = None
            try:
                found = hook.before_attempt(attempt.claimed)
            except (psycopg.Error, ScheduledActionsError, ValueError, TypeError, KeyError) as error:
                raise _uncalled(error, f"{hook.subject} cannot be read: {describe(error)}") from error
            if isinstance(found, Outcome):
                raise EndedEarly(AttemptResult(found))
            if not attempt.start(self._state.monotonic()):
                raise EndedEarly(RELEASED)
            if found is not None:
                self._check_guard(attempt, found)
                guards.append(found)
        return guards

    def _context(self, attempt: Attempt) -> Context:
        claimed = attempt.claimed
        state, metadata, history = (
            None if text is None else json_text.decode(text)
            for text in (claimed.state_text, claimed.metadata_text, claimed.history_text)
        )
        assert attempt.started is not None  # noqa: S101 - set when its thread started it
        number = claimed.attempts + 1
        return Context(
            action=claimed.as_action(
                payload=json_text.decode(claimed.payload_text),
                state=state,
                metadata=metadata,
                history=history,
                lease_ends=self._tick.lease_ends(attempt),
            ),
            attempt=number,
            state=state,
            log=logging.LoggerAdapter(
                _handler_log, {"action_id": claimed.id, "action_type": claimed.action_type, "attempt": number}
            ),
            _monotonic=self._state.monotonic,
            _deadline=min(attempt.started + attempt.timeout_seconds, self._tick.budget.answer_by),
            _prepare=self._state.prepare,
            _is_stopped=lambda: attempt.is_stopped,
            previous_occurrence_at=claimed.previous_occurrence_at,
            _next_occurrence=self._state.hooks.next_occurrence,
            _read_parent=self._read_parent,
        )

    def _read_parent(self, action_id: UUID, team_id: str | None) -> ParentAction | None:
        return self._state.database.do(partial(store.parent, action_id=action_id, team_id=team_id))

    def _refuse_late(self, attempt: Attempt, result: AttemptResult) -> None:
        """Reject the result of a handler that returned after its attempt was abandoned; free its group and slots."""
        claimed = attempt.claimed
        log.warning(
            "action.stale id=%s action_type=%s attempt=%d outcome=%s",
            claimed.id, claimed.action_type, claimed.attempts + 1, outcome_name(result.outcome),
        )  # fmt: skip
        if claimed.lock_group is None and claimed.limit_keys is None:
            return
        try:
            self._state.database.do(partial(settling.end_linger, action_id=claimed.id, token=claimed.token))
        except (psycopg.Error, ScheduledActionsError) as error:
            # The hold ends with the lease; the next tick deletes it.
            log.warning("hold.linger_kept id=%s error=%s", claimed.id, describe(error))
