"""Evaluate the conditions of claimed actions before dispatch, with a few statements per batch."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple, Protocol, TypeVar
from uuid import UUID

from scheduled_actions.actions import store, waits
from scheduled_actions.actions.hooks import SWEEP_SECONDS
from scheduled_actions.actions.rules import settlement
from scheduled_actions.actions.rules.settlement import AttemptResult
from scheduled_actions.conditions.model import (
    BUDGETED,
    PREFIX_MARK,
    STEPS_MOST,
    CheckResult,
    EvaluationInput,
    ExternalCheck,
    FactKey,
    FactValue,
)
from scheduled_actions.conditions.rules.plan import Decision, NextStep, WaitPlan, WaitProgress, decide, decode_plan
from scheduled_actions.core.action import Claimed
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import TEMPORARY_ERRORS, contain, isolate, reason_of
from scheduled_actions.database.connection import Connection

Result = TypeVar("Result")
Value = TypeVar("Value")

#: Maximum number of facts needed by one batch: at most 4 MiB of values.
_FACTS_MOST = 256
#: Maximum number of waiting actions that a sweep reads at once, and time after which it reads no more.
_SWEEP_BATCH = 250
_SWEEP_MOST_SECONDS = 0.5
_NO_PROGRESS = WaitProgress()


class Do(Protocol):
    """Runs a step on a connection in autocommit mode; repeats it after a lost connection."""

    def __call__(self, step: Callable[[Connection], Result], /) -> Result:
        """Run the step and return its result."""


@dataclass(frozen=True, slots=True)
class PendingCheck:
    """An action whose condition depends on external checks, and the data read for it."""

    plan: WaitPlan
    given: EvaluationInput
    progress: WaitProgress


class _Candidate(NamedTuple):
    """An action with its plan, and the rows that the plan needs."""

    action: Claimed | waits.Sweepable | waits.Unchecked
    plan: WaitPlan
    waiter: waits.Waiter


class _Decided(NamedTuple):
    """The decision about an action, and the data that led to it."""

    candidate: _Candidate
    given: EvaluationInput
    progress: WaitProgress
    decision: Decision


def evaluate(claimed: Sequence[Claimed], do: Do) -> dict[UUID, AttemptResult | PendingCheck]:
    """Evaluate the conditions of claimed actions; return outcomes and pending checks by action id.

    An action that is missing from the result can be dispatched.

    Args:
        claimed: Actions with a condition or predecessors.
        do: Runs each step outside any transaction: waits must be visible to other sessions before the data is read.
    """
    found: dict[UUID, AttemptResult | PendingCheck] = {}
    candidates: list[_Candidate] = []
    for one in claimed:
        try:
            candidates.append(_candidate(one))
        except InvalidArgument as error:
            found[one.id] = AttemptResult(settlement.Failed(f"the condition cannot be read: {error}", is_final=True))
    if waiting := [one.waiter for one in candidates if one.plan.is_waiting]:
        do(lambda connection: waits.register(connection, waiting))
    ended: list[UUID] = []
    for (action, plan, _), given, progress, decision in _decide(candidates, do):
        step = decision.next_step
        held = PendingCheck(plan, given, progress) if step is NextStep.CHECK else outcome_of(plan, decision)
        if held is not None:
            found[action.id] = held
        if plan.is_waiting and step is not NextStep.WAIT and step is not NextStep.CHECK:
            ended.append(action.id)
    if ended:
        do(lambda connection: waits.end(connection, ended))
    return found


def unmet(unchecked: Sequence[waits.Unchecked], do: Do) -> list[waits.WaitSettlement]:
    """Register the waits of due actions and evaluate their conditions; return the settlements of those that must wait.

    The settlements require that the actions have not changed since they were read. An action that may run, or whose
    condition cannot be read, is left to a claim.

    Args:
        unchecked: Actions whose conditions have never been checked.
        do: As for `evaluate`.
    """
    candidates: list[_Candidate] = []
    for one in unchecked:
        with suppress(InvalidArgument):
            candidates.append(_candidate(one))
    if candidates:
        waiters = [one.waiter for one in candidates]
        do(lambda connection: waits.register(connection, waiters, are_claimed=False))
    return [
        waits.WaitSettlement(
            action_id=action.id,
            token=waits.UNCLAIMED,
            check_seconds=decision.check_seconds,
            changes_at=decision.changes_at,
            reason=settlement.clean(decision.reason),
            version=action.version,
        )
        for (action, _, _), _, _, decision in _decide(candidates, do)
        if decision.next_step is NextStep.WAIT and isinstance(action, waits.Unchecked)
    ]


def _candidate(action: Claimed | waits.Sweepable | waits.Unchecked) -> _Candidate:
    plan = decode_plan(action.condition_text or "")
    was_checked = not isinstance(action, waits.Unchecked)
    return _Candidate(action, plan, waits.Waiter(action.id, action.team_id or "", plan.needs(), was_checked))


def _decide(candidates: Sequence[_Candidate], do: Do) -> Iterator[_Decided]:
    """Read the data that the plans need, batch by batch, and yield the decision about each action, in order."""
    for batch in _batches(candidates):
        snapshot = do(partial(waits.read_snapshot, waiters=[one.waiter for one in batch]))
        for one in batch:
            given = _input(one, snapshot)
            progress = snapshot.progress.get(one.action.id, _NO_PROGRESS) if snapshot.progress else _NO_PROGRESS
            yield _Decided(one, given, progress, decide(one.plan, given, progress))


def sweep(connection: Connection, *, every_seconds: float = SWEEP_SECONDS) -> int:
    """Make waiting actions due whose condition has changed although no wake-up arrived; return their number.

    A wake-up is missing after a change that recorded none, such as one made directly in a table. Actions without a
    change are only read. A sweep takes about half a second at most; the next one continues. Does nothing if the last
    sweep was less than `every_seconds` ago.
    """
    missed, after, until = 0, None, time.monotonic() + _SWEEP_MOST_SECONDS
    while actions := waits.only_woken(connection, after=after, every_seconds=every_seconds, most=_SWEEP_BATCH):
        # An action whose condition cannot be evaluated here is evaluated, and fails, after a claim.
        changed = isolate(actions, partial(_changed, connection), lambda action, _: [action.id])
        if due := [id_ for ids in changed for id_ in ids]:
            log.warning("waits.missed actions=%d", len(due))
            missed += _make_due(connection, due)
        after = actions[-1].id
        if len(actions) < _SWEEP_BATCH or time.monotonic() >= until:
            break
    if after is not None:
        # Without a full last batch, also an empty one, the sweep is complete.
        waits.end_sweep(connection, after=after if len(actions) == _SWEEP_BATCH else None)
    return missed


def _make_due(connection: Connection, action_ids: Sequence[UUID]) -> int:
    """Make actions due and return their number; the next sweep tries again with those whose update was refused."""

    def make_due(ids: Sequence[UUID]) -> int:
        waits.make_due(connection, ids)
        return len(ids)

    def refused(error: BaseException) -> int:
        log.warning("waits.not_due actions=%d error=%s", len(action_ids), reason_of(error))
        # Waiting for each locked row would take too long.
        is_temporary = isinstance(error, TEMPORARY_ERRORS)
        return 0 if is_temporary else sum(contain(partial(make_due, [one]), lambda _: 0) for one in action_ids)

    return contain(partial(make_due, action_ids), refused)


def _changed(connection: Connection, actions: Sequence[waits.Sweepable]) -> list[UUID]:
    """Return the ids of the actions that no longer wait for a change alone."""
    return [
        one.candidate.action.id
        for one in _decide([_candidate(action) for action in actions], lambda step: step(connection))
        if one.decision.next_step is not NextStep.WAIT or one.decision.check_seconds or one.decision.changes_at
    ]


def cycles_among_waiting(connection: Connection, *, action_id: UUID | None = None, most: int) -> list[list[UUID]]:
    """Return cycles of actions that wait for one another, in the form of `cycle_of`.

    The first action of a cycle is in no later one. Cycles may be missing if more than 10,000 waits must be read.

    Args:
        connection: Reads the waits.
        action_id: Only cycles that contain this action or that it waits for; None: any cycles.
        most: Maximum number of cycles.
    """
    waiting_for = waits.among_waiting(connection, action_id=action_id)
    cycles: list[list[UUID]] = []
    while len(cycles) < most and (cycle := cycle_of(waiting_for)) is not None:
        cycles.append(cycle)
        del waiting_for[cycle[0]]
    return cycles


def cycle_of(waiting_for: Mapping[UUID, Collection[UUID]]) -> list[UUID] | None:
    """Return a cycle of actions, each waiting for the next and the last for the first; None if there is no cycle.

    Args:
        waiting_for: For each waiting action, the actions that must complete before it.
    """
    try:
        TopologicalSorter(waiting_for).prepare()
    except CycleError as error:
        # Each node precedes the one that depends on it; the first is repeated at the end.
        return list(reversed(error.args[1][1:]))
    return None


def _batches(candidates: Sequence[_Candidate]) -> Iterator[list[_Candidate]]:
    """Yield batches of actions that need at most `_FACTS_MOST` facts together, or one action that needs more."""
    batch: list[_Candidate] = []
    size = 0
    for one in candidates:
        needed = len(one.waiter.needs.facts)
        if batch and size + needed > _FACTS_MOST:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += needed
    if batch:
        yield batch


def run_checks(
    pending: PendingCheck, claimed: Claimed, run: Callable[[ExternalCheck, Claimed], CheckResult], do: Do
) -> AttemptResult | None:
    """Run external checks of an action until its condition is decided; return the outcome, or None to run the handler.

    Args:
        pending: The condition of the action, and the data read for it.
        claimed: The action.
        run: Runs one check.
        do: As for `evaluate`.
    """
    results: dict[ExternalCheck, CheckResult] = {}
    # The full budget, because this thread delays no other action and evaluates again after each check.
    given = pending.given._replace(budget=EvaluationBudget(BUDGETED))
    checks = pending.plan.needs().checks
    while True:
        # One at a time: a result may decide the condition, or leave fewer checks to run.
        decision = decide(pending.plan, given._replace(results=results), pending.progress)
        check = next((one for one in checks if one not in results), None)
        if decision.next_step is not NextStep.CHECK or check is None:
            break
        results[check] = run(check, claimed)
    if decision.next_step is not NextStep.WAIT and pending.plan.is_waiting:
        do(lambda connection: waits.end(connection, [claimed.id]))
    return outcome_of(pending.plan, decision)


def outcome_of(plan: WaitPlan, decision: Decision) -> AttemptResult | None:
    """Return the outcome to write for a decision; None for `RUN` and `CHECK`, which write none."""
    match decision.next_step:
        case NextStep.RUN | NextStep.CHECK:
            return None
        case NextStep.WAIT:
            pending = settlement.ConditionPending(decision.reason, decision.check_seconds, decision.changes_at)
            return AttemptResult(pending)
        case NextStep.SKIP:
            return AttemptResult(settlement.ConditionFailed(decision.reason))
        case NextStep.EXPIRE:
            return AttemptResult(
                settlement.ConditionFailed(decision.reason), tuple(store.as_element(one) for one in plan.on_timeout)
            )
        case NextStep.FAIL:
            return AttemptResult(settlement.Failed(decision.reason, is_final=decision.is_final))


def _input(candidate: _Candidate, snapshot: waits.Snapshot) -> EvaluationInput:
    team, needs = candidate.waiter.team_id, candidate.waiter.needs
    facts: dict[FactKey, FactValue] = {}
    if snapshot.facts:
        # Prefixes first: a fact that is needed by its full name overrides them.
        for key in sorted(needs.facts, key=lambda key: not key.name.endswith(PREFIX_MARK)):
            facts.update(snapshot.facts.get((team, key), ()))
    return EvaluationInput(
        now=snapshot.now,
        created_at=datetime.fromtimestamp(candidate.action.created_epoch, UTC),
        budget=EvaluationBudget(BUDGETED, steps=STEPS_MOST),
        facts=facts,
        truncated=frozenset(key for key in needs.facts if (team, key) in snapshot.truncated)
        if snapshot.truncated
        else frozenset(),
        actions=_of_team(snapshot.actions, team, needs.actions) if needs.actions else {},
        deadlines=_of_team(snapshot.deadlines, team, needs.deadlines) if needs.deadlines else {},
    )


def _of_team(read: Mapping[tuple[str, UUID], Value], team: str, needed: Collection[UUID]) -> dict[UUID, Value]:
    return {id_: read[team, id_] for id_ in needed if (team, id_) in read}
