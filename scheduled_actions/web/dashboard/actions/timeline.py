"""What happened to an action, from its history and its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.action import Status
from scheduled_actions.web.dashboard.times import parsed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from scheduled_actions.web.api.actions.models import Action

#: What a history calls an entry, in words; what is not here stands as it is.
_WORDS = {
    "updated": "Changed",
    "cancelled": "Cancelled",
    "retried": "Made pending again",
    "cancel_requested": "Asked to stop",
    "snoozed": "Snoozed",
    "waited": "Its condition was looked at",
    "skipped": "Skipped",
    "refused": "Could not be scheduled",
    "follow_up_refused": "A follow-up could not be scheduled",
}
_ATTEMPTS = {
    "completed": "completed",
    "failed": "failed",
    "timed_out": "ran out of time",
    "crashed": "ended with its process",
}
#: How each looks: a class of the style.
_LOOKS = {
    "completed": "completed",
    "failed": "failed",
    "timed_out": "failed",
    "crashed": "failed",
    "refused": "failed",
    "follow_up_refused": "failed",
    "updated": "changed",
    "retried": "changed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened, or is to happen."""

    look: str
    title: str
    at: datetime | None = None
    by: str | None = None
    #: For how long it went on, in seconds.
    seconds: float | None = None
    error: str | None = None
    note: str | None = None


def timeline(action: Action) -> list[Event]:
    """Return what happened to an action, the latest first."""
    events = [Event(look="created", title="Scheduled", at=action.created_at, by=action.created_by)]
    history = action.history if isinstance(action.history, list | tuple) else ()
    entries = [entry for entry in history if isinstance(entry, dict)]
    events += [_event(entry) for entry in entries]
    told = {entry.get("attempt") for entry in entries}
    if action.status is Status.COMPLETED and action.attempts not in told:
        # A first attempt that completes leaves no entry: its columns say it all.
        events.append(_completed(action))
    events += _present(action)
    return events[::-1]


def _event(entry: Mapping[str, Any]) -> Event:
    outcome = str(entry.get("outcome") or "something")
    attempt, started, ended = entry.get("attempt"), parsed(entry.get("started_at")), parsed(entry.get("ended_at"))
    count = entry.get("count")
    title = _WORDS.get(outcome, outcome)
    if outcome in _ATTEMPTS:
        title = f"Attempt {attempt} {_ATTEMPTS[outcome]}" if attempt is not None else _ATTEMPTS[outcome].capitalize()
    changes = entry.get("changes")
    notes = [f"{count} times" if count else "", ", ".join(map(str, changes)) if isinstance(changes, list) else ""]
    reason = entry.get("reason")
    return Event(
        look=_LOOKS.get(outcome, "other"),
        title=title,
        at=started or ended or parsed(entry.get("at")),
        by=None if entry.get("by") is None else str(entry["by"]),
        seconds=(ended - started).total_seconds() if started and ended else None,
        error=None if entry.get("error") is None else str(entry["error"]),
        note="; ".join(filter(None, [*notes, str(reason) if reason else ""])) or None,
    )


def _completed(action: Action) -> Event:
    started, ended = action.started_at, action.completed_at
    return Event(
        look="completed",
        title=f"Attempt {action.attempts} completed",
        at=started or ended,
        seconds=(ended - started).total_seconds() if started and ended else None,
    )


def _present(action: Action) -> list[Event]:
    match action.status:
        case Status.PROCESSING:
            return [Event(look="running", title=f"Attempt {action.attempts + 1} is at work", at=action.started_at)]
        case Status.PENDING:
            return [Event(look="planned", title=f"Attempt {action.attempts + 1} is due", at=action.scheduled_at)]
        case _:
            return []
