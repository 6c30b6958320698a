"""Actions that are not due: those that have ended, are running, or are scheduled for later."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from scheduled_actions.conditions.rules.plan import decode_plan, format_cycle, times_out_at
from scheduled_actions.core.action import Action, Status
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.operations.doctor.rules import in_words
from scheduled_actions.operations.doctor.rules.project import BREAK_CYCLE
from scheduled_actions.operations.explain.rules import executors
from scheduled_actions.operations.explain.rules.facts import ActionContext, Code, Explanation, at, iso

#: Outcomes of an attempt that is retried, in words.
_FAILED = {"failed": "failed", "timed_out": "timed out", "crashed": "ended because its process died"}
#: Outcomes in the history that set `scheduled_at`. An update that lists `scheduled_at` in its changes sets it, too.
_RESCHEDULING = _FAILED.keys() | {"snoozed", "waited", "retried", "recovered"}
#: Kinds of conditions that are only polled: no change of their answer makes an action due.
_POLLED = frozenset({"query", "http", "custom"})


def reasons(context: ActionContext) -> Iterator[Explanation]:
    """Yield the reasons that apply, the decisive one first; for a due action, only a cycle of waiting actions."""
    match context.action.status:
        case Status.COMPLETED | Status.FAILED | Status.CANCELLED | Status.SKIPPED:
            yield _ended(context)
        case Status.PROCESSING:
            yield _processing(context)
        case Status.PENDING:
            yield from _pending(context)
        case Status.NO_ACTION:
            pass


def _ended(context: ActionContext) -> Explanation:
    action, most, status = context.action, context.build.max_attempts, context.action.status
    ended_at = f"at {at(action.completed_at or action.updated_at)}"
    retry: str | None = f"`scheduled-actions actions retry {action.id}` makes it pending again"
    reason: object = action.error_message
    details: dict[str, Any] = {
        "completed_at": iso(action.completed_at),
        "attempts": action.attempts,
        "error": action.error_message,
    }
    if status is Status.COMPLETED:
        sentence, reason, retry = f"completed {ended_at}, in attempt {max(1, action.attempts)}", None, None
    elif status is Status.FAILED and action.history and action.history[-1].get("outcome") == "expired":
        sentence = f"failed {ended_at}"
        details["max_attempts"] = most
    elif status is Status.FAILED:
        last = "its last attempt" if action.attempts >= most else "with a non-retryable error"
        sentence = f"failed {ended_at} in attempt {action.attempts} of {most}, {last}"
        retry = f"fix the cause, then {retry}"
        details["max_attempts"] = most
    else:
        outcomes = {"skipped"} if status is Status.SKIPPED else {"cancelled", "cancel_requested"}
        entry: Mapping[str, Any] = next((one for one in reversed(action.history) if one.get("outcome") in outcomes), {})
        by = entry.get("by")
        if status is Status.CANCELLED:
            by = by or ("its handler" if "attempt" in entry else None)
            reason = entry.get("reason") or entry.get("error") or reason
        sentence = f"{status}{f' by {by}' if by else ''} {ended_at}"
        details["by"] = by
    return Explanation(
        code=Code(status.value),
        sentence=f"{sentence}: {reason}" if reason else sentence,
        remedy=retry,
        details=details,
    )


def _processing(context: ActionContext) -> Explanation:
    """Explain whether a claimed action waits for a thread, is running, or has an expired lease."""
    action, tick, lease = context.action, context.claimed_by, context.action.lease_expires_at
    details = {
        "claimed_at": iso(action.updated_at),
        "tick_id": None if tick is None else str(tick.id),
        "tick_started_at": None if tick is None else iso(tick.started_at),
        **executors.claim_details(context.claimed_for),
    }
    if lease is not None and lease < context.now:
        return Explanation(
            code=Code.LEASE_EXPIRED,
            sentence="the process that claimed it died "
            f"{'while its handler ran' if context.is_started else 'before its handler started'}: its lease expired at "
            f"{at(lease)}, and the next tick rescues it",
            remedy="check that the cron job runs and pings /cron/process; if this recurs, find out why processes are "
            "killed (memory, time limit)",
            details={**details, "lease_expires_at": iso(lease), "is_started": context.is_started},
        )
    if (claim := context.claimed_for) is not None and claim.taken_at is None and claim.carrier != "postgres":
        return executors.untaken(context, claim, details)
    by = "" if tick is None else f" by the tick {tick.id}, which started at {at(tick.started_at)}"
    if context.claimed_for is not None:
        by = executors.claimed_by(context.claimed_for)
    claimed = f"claimed {in_words(context.now - action.updated_at)} ago{by}"
    if not context.is_started:
        return Explanation(code=Code.CLAIMED, sentence=f"{claimed}; it waits for a free thread", details=details)
    asked = action.cancel_requested_at
    return Explanation(
        code=Code.RUNNING,
        sentence=f"running now: attempt {action.attempts + 1}, {claimed}"
        + ("" if asked is None else f"; its cancellation was requested at {at(asked)}"),
        details={**details, "attempt": action.attempts + 1, "cancel_requested_at": iso(asked)},
    )


def _pending(context: ActionContext) -> Iterator[Explanation]:
    """Yield why the action is not due yet, and whether it waits for actions that wait for one another."""
    action, entry = context.action, _rescheduled_by(context)
    if action.expires_at is not None and action.expires_at <= context.now:
        yield Explanation(
            code=Code.EXPIRED,
            sentence=f"it expired at {at(action.expires_at)} before {'its next attempt' if action.attempts else 'it'} "
            f"started, and {context.at_expiry} with the next tick",
            remedy="schedule it again if it is still wanted",
            details=context.timing,
        )
    outcome = entry.get("outcome") if context.is_early else None
    if outcome in _FAILED:
        yield _waiting_for_retry(context, entry)
    if outcome == "snoozed":
        yield _snoozed(context, entry)
    if context.cycle:
        yield _waiting_cycle(context)
    waiting = action.waiting or {}
    if outcome == "waited" and waiting.get("unmet"):
        wakes = [] if _is_polled(action.condition) else ["when data that it depends on changes"]
        again = ", or ".join(wakes + ([] if wakes and context.is_never else [_when(context)]))
        ends_at = _times_out_at(action)
        yield Explanation(
            code=Code.CONDITION_NOT_MET,
            sentence=f"its condition is not met: {waiting['unmet']}; it is evaluated again {again}"
            + ("" if ends_at is None else f"; the wait times out at {at(ends_at)}"),
            remedy=f"make the condition true; {_run_now(context)}, and the next tick evaluates the condition",
            details=context.timing
            | {name: waiting.get(name) for name in ("unmet", "unmet_since", "since", "checks")}
            | {"times_out_at": iso(ends_at)},
        )
    if context.is_early:
        condition = context.stage_condition
        then = "" if condition is None else f"; it then runs only if its condition is met: {json.dumps(condition)}"
        yield Explanation(
            code=Code.NOT_DUE,
            sentence=f"it becomes due {_when(context)}{then}",
            remedy=_run_now(context),
            details=context.timing | ({} if condition is None else {"condition": condition}),
        )


def _waiting_for_retry(context: ActionContext, entry: Mapping[str, Any]) -> Explanation:
    action, most = context.action, context.build.max_attempts
    error = action.error_message or entry.get("error")
    return Explanation(
        code=Code.WAITING_FOR_RETRY,
        sentence=f"attempt {action.attempts} of {most} {_FAILED[entry['outcome']]}{f' ({error})' if error else ''}; "
        f"the next one is due {_when(context)}",
        remedy=f"fix the cause before then; {_run_now(context)}",
        details={
            **context.timing,
            "attempts": action.attempts,
            "next_attempt": action.attempts + 1,
            "max_attempts": most,
            "outcome": entry["outcome"],
            "error": error,
        },
    )


def _snoozed(context: ActionContext, entry: Mapping[str, Any]) -> Explanation:
    """Explain that the handler snoozed the action, or that the endpoint of a delivery is busy."""
    action, rate = context.action, context.build.endpoint_rate
    endpoint = action.payload.get("endpoint") if isinstance(action.payload, dict) else None
    details = {**context.timing, "snoozes": entry.get("count", 1)}
    if action.action_type != "webhook:send" or not isinstance(endpoint, str):
        return Explanation(
            code=Code.SNOOZED,
            sentence=f"its handler snoozed it: it is due {_when(context)}",
            remedy=_run_now(context),
            details=details,
        )
    reason = (
        "answered slowly or not at all, so its other deliveries wait"
        if rate is None
        else f"accepts at most {rate:g} deliveries a second, or was slow to answer"
    )
    return Explanation(
        code=Code.DELIVERY_DEFERRED,
        sentence=f'the delivery was deferred: endpoint "{endpoint}" {reason}; this delivery is due {_when(context)}',
        remedy="`scheduled-actions webhooks deliveries list` shows how that endpoint answers",
        details={**details, "endpoint": endpoint, "rate_limit": rate},
    )


def _waiting_cycle(context: ActionContext) -> Explanation:
    """Explain that the action is in a cycle of actions that wait for one another, or waits for such a cycle."""
    action_id, cycle = context.action.id, list(context.cycle)
    problem = "it waits for actions that wait for one another and never run"
    if action_id in cycle:
        first = cycle.index(action_id)
        cycle = cycle[first:] + cycle[:first]
        problem = "these actions wait for one another and never run"
    return Explanation(
        code=Code.WAITING_CYCLE,
        sentence=f"{problem}: {format_cycle(cycle)}",
        remedy=BREAK_CYCLE,
        details={"scheduled_at": iso(context.action.scheduled_at), "cycle": [str(one) for one in cycle]},
    )


def _is_polled(condition: Any) -> bool:  # noqa: ANN401 - any JSON
    """Return whether only queries, HTTP requests and functions decide the condition: no change wakes the action."""
    kinds, parts = set(), [condition]
    while parts:
        match parts.pop():
            case list(inside):
                parts += inside
            case dict(part):
                kinds |= {str(part["kind"])} if "kind" in part else {"after"} & part.keys()
                parts += [part[name] for name in ("condition", "wait", "all", "any", "not") if name in part]
            case _:
                pass
    return bool(kinds) and kinds <= _POLLED


def _times_out_at(action: Action) -> datetime | None:
    """Return when the timeout of the action's wait ends; None without a timeout, or if SQL stored an invalid value."""
    try:
        since = datetime.fromisoformat((action.waiting or {})["since"]).astimezone(UTC)
        return times_out_at(decode_plan(json.dumps(action.condition)), since)
    except (InvalidArgument, KeyError, OverflowError, TypeError, ValueError):
        return None


def _run_now(context: ActionContext) -> str:
    action_id = context.action.id
    return (
        f"`scheduled-actions actions run {action_id}` (`POST /api/v1/actions/{action_id}/run`) makes the action due now"
    )


def _rescheduled_by(context: ActionContext) -> Mapping[str, Any]:
    """Return the latest entry of the history that set `scheduled_at`; empty if `scheduled_at` was never changed."""
    entry: Mapping[str, Any]
    for entry in reversed(context.action.history):
        changes = entry.get("changes")
        if entry.get("outcome") in _RESCHEDULING or (isinstance(changes, list) and "scheduled_at" in changes):
            return entry
    return {}


def _when(context: ActionContext) -> str:
    moment = context.action.scheduled_at
    if context.is_never:
        return "at infinity (never)"
    return f"in {in_words(moment - context.now)}, at {at(moment)}"
