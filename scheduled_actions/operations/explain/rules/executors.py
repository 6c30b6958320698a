"""Due actions of an executor, and those that its workers have claimed."""

from collections.abc import Iterator
from typing import Any

from scheduled_actions.core.messages import counted
from scheduled_actions.operations.doctor.rules import in_words
from scheduled_actions.operations.explain.rules.facts import (
    AHEAD_MOST,
    ActionContext,
    Code,
    ExecutorClaim,
    ExecutorQueueState,
    Explanation,
    at,
    iso,
)


def idle(context: ActionContext) -> Iterator[Explanation]:
    """Yield that no worker of the action's executor has been seen lately."""
    executor = context.executor
    # With a broker, a tick sends the ticket of the action first.
    if executor is None or executor.is_attended or executor.carrier != "postgres":
        return
    seen = executor.last_seen_at
    since = "within the last day" if seen is None else f"for {in_words(context.now - seen)}"
    yield Explanation(
        code=Code.EXECUTOR_IDLE,
        sentence=f'it waits for a worker of its executor "{executor.name}", and none has been seen {since}',
        remedy=f"start a worker: `scheduled-actions executors work {executor.name}`",
        details=_details(context, executor),
    )


def queued(context: ActionContext, executor: ExecutorQueueState) -> Explanation:
    """Explain that the action waits in the queue of its executor."""
    ahead = context.ahead
    place = ", and nothing is ahead of it"
    if ahead is None:
        place = ""
    elif ahead:
        number = counted(ahead, "action") if ahead < AHEAD_MOST else f"{ahead:,}+ actions"
        place = f", and {number} {'is' if ahead == 1 else 'are'} ahead of it (by priority, then by time)"
    if executor.carrier != "postgres":
        return Explanation(
            code=Code.EXECUTOR_QUEUE,
            sentence=f'it waits for a tick to send its ticket to the workers of its executor "{executor.name}"{place}',
            remedy="if ticks run, the broker is away (their answers say so), or as many tickets are untaken as the "
            "setting outstanding allows (`scheduled-actions executors list` counts them)",
            details=_details(context, executor),
        )
    workers = (
        f"; {counted(executor.workers, 'worker')} of the executor {'is' if executor.workers == 1 else 'are'} running"
    )
    if not executor.workers:
        workers = "; the last worker has ended"
    return Explanation(
        code=Code.EXECUTOR_QUEUE,
        sentence=f'it waits for a worker of its executor "{executor.name}"{place}{workers}',
        remedy="if the queue grows, start more workers, or raise their concurrency: `scheduled-actions executors list` "
        "shows them",
        details=_details(context, executor),
    )


def untaken(context: ActionContext, claim: ExecutorClaim, details: dict[str, Any]) -> Explanation:
    """Explain that no worker has taken the ticket of a claimed action."""
    lease = context.action.lease_expires_at
    returns = "" if lease is None else f"; if none does, it returns at {at(lease)}, and is sent again"
    return Explanation(
        code=Code.EXECUTOR_TICKET,
        sentence=f"it was claimed {in_words(context.now - context.action.updated_at)} ago for its executor "
        f'"{claim.name}", whose tickets {claim.carrier} carries, and no worker has taken its ticket{returns}',
        remedy="check that workers run, consume the queue of the executor and reach the database: `scheduled-actions "
        "executors list` shows them",
        details={**details, "lease_expires_at": iso(lease)},
    )


def claimed_by(claim: ExecutorClaim) -> str:
    """Return by whom an action was claimed, as the end of a sentence."""
    if claim.taken_at is None:
        return f' by a worker of the executor "{claim.name}"'
    worker = "a worker" if claim.worker is None else f"the worker {claim.worker}"
    return f' by {worker} of the executor "{claim.name}", which started it at {at(claim.taken_at)}'


def claim_details(claim: ExecutorClaim | None) -> dict[str, Any]:
    """Return the facts about a claim for `details`; empty for an action that a tick claimed."""
    if claim is None:
        return {}
    return {"executor": claim.name, "worker": claim.worker, "taken_at": iso(claim.taken_at)}


def _details(context: ActionContext, executor: ExecutorQueueState) -> dict[str, Any]:
    return {
        **context.timing,
        "executor": executor.name,
        "ahead": context.ahead,
        "workers": executor.workers,
        "last_seen_at": iso(executor.last_seen_at),
    }
