"""Actions that somebody is working on, and those that have ended: how, and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions.core.action import Status
from scheduled_actions.operations.doctor.rules.database import in_words
from scheduled_actions.operations.explain.rules.facts import Code, Explanation, Facts, at, iso

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.core.action import Action


def completed(facts: Facts) -> Explanation | None:
    """Say that it has run."""
    action = facts.action
    if action.status is not Status.COMPLETED:
        return None
    return Explanation(
        code=Code.COMPLETED,
        sentence=f"it has run: completed {_ended(action)}, with attempt {max(1, action.attempts)}",
        details=_end(action),
    )


def failed(facts: Facts) -> Explanation | None:
    """Say that it has failed for good."""
    action = facts.action
    if action.status is not Status.FAILED:
        return None
    most = facts.here.max_attempts
    last = "its last attempt" if action.attempts >= most else "a failure that no further attempt can mend"
    return Explanation(
        code=Code.FAILED,
        sentence=f"it failed for good {_ended(action)}, with attempt {action.attempts} of {most}, {last}"
        f"{_because(action.error_message)}",
        remedy=f"mend the cause, then {_again(action)}",
        details={**_end(action), "max_attempts": most},
    )


def cancelled(facts: Facts) -> Explanation | None:
    """Say that somebody, or its handler, cancelled it."""
    action = facts.action
    if action.status is not Status.CANCELLED:
        return None
    entry = _last_entry(action, "cancelled", "cancel_requested")
    by = entry.get("by") or ("its handler" if "attempt" in entry else None)
    who = f" by {by}" if by else ""
    return Explanation(
        code=Code.CANCELLED,
        sentence=f"it was cancelled{who} {_ended(action)}"
        f"{_because(entry.get('reason') or entry.get('error') or action.error_message)}",
        remedy=_again(action),
        details={**_end(action), "by": by},
    )


def skipped(facts: Facts) -> Explanation | None:
    """Say that there was nothing to do, or a policy left it out."""
    action = facts.action
    if action.status is not Status.SKIPPED:
        return None
    entry = _last_entry(action, "skipped")
    by = entry.get("by")
    return Explanation(
        code=Code.SKIPPED,
        sentence=f"it was skipped{f' by {by}' if by else ''} {_ended(action)}{_because(action.error_message)}",
        remedy=_again(action),
        details={**_end(action), "by": by},
    )


def lease_expired(facts: Facts) -> Explanation | None:
    """Say that whoever ran it is gone."""
    lease = facts.action.lease_expires_at
    if facts.action.status is not Status.PROCESSING or lease is None or lease >= facts.now:
        return None
    was = "while its handler ran" if facts.is_started else "before its handler was started"
    return Explanation(
        code=Code.LEASE_EXPIRED,
        sentence=f"the process that claimed it went away {was}: its lease ended at {at(lease)}, and it waits for the "
        "next tick to rescue it",
        remedy="let the cron ping; where this recurs, look for what kills processes (memory, the host's time limit)",
        details={**_claim(facts), "lease_expires_at": iso(lease), "is_started": facts.is_started},
    )


def running(facts: Facts) -> Explanation | None:
    """Say that its handler is at work."""
    if facts.action.status is not Status.PROCESSING or not facts.is_started:
        return None
    asked = facts.action.cancel_requested_at
    stop = "" if asked is None else f"; it was asked to stop at {at(asked)}"
    return Explanation(
        code=Code.RUNNING,
        sentence=f"it is being worked on now: attempt {facts.action.attempts + 1}, claimed {_since(facts)}{stop}",
        details={**_claim(facts), "attempt": facts.action.attempts + 1, "cancel_requested_at": iso(asked)},
    )


def claimed(facts: Facts) -> Explanation | None:
    """Say that a tick has it, and has not started its handler."""
    if facts.action.status is not Status.PROCESSING:
        return None
    return Explanation(
        code=Code.CLAIMED,
        sentence=f"claimed {_since(facts)}, and waits there for a free thread",
        details=_claim(facts),
    )


def _ended(action: Action) -> str:
    return f"at {at(action.completed_at or action.updated_at)}"


def _again(action: Action) -> str:
    return f"`scheduled-actions retry {action.id}` makes it pending again"


def _because(reason: object) -> str:
    return f": {reason}" if reason else ""


def _end(action: Action) -> dict[str, Any]:
    return {
        "completed_at": iso(action.completed_at),
        "attempts": action.attempts,
        "error": action.error_message,
    }


def _last_entry(action: Action, *outcomes: str) -> Mapping[str, Any]:
    return next((entry for entry in reversed(action.history) if entry.get("outcome") in outcomes), {})


def _since(facts: Facts) -> str:
    tick = facts.claimed_by
    who = "" if tick is None else f" by the tick {tick.id}, which began at {at(tick.started_at)}"
    return f"{in_words(facts.now - facts.action.updated_at)} ago{who}"


def _claim(facts: Facts) -> dict[str, Any]:
    tick = facts.claimed_by
    return {
        "claimed_at": iso(facts.action.updated_at),
        "tick_id": None if tick is None else str(tick.id),
        "tick_started_at": None if tick is None else iso(tick.started_at),
    }
