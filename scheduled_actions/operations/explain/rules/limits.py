"""Due actions that a pause or a limit key holds back."""

from collections.abc import Iterator
from typing import Any

from scheduled_actions.core.messages import counted
from scheduled_actions.limits.rules.display import rate_text
from scheduled_actions.operations.doctor.rules import in_words
from scheduled_actions.operations.explain.rules.facts import (
    AHEAD_MOST,
    ActionContext,
    Code,
    Explanation,
    LimitState,
    PauseState,
    at,
    iso,
)

#: Kinds of pauses, in words.
_KINDS = {"action_type": "action type", "team": "team", "lock_group": "lock group", "limit": "limit key"}


def reasons(context: ActionContext) -> Iterator[Explanation]:
    """Yield the pause and the limit key that hold the action back, if any."""
    if context.pause is not None:
        yield _paused(context, context.pause)
    for key in context.limits:
        if key.pattern is None:
            yield _unknown(context, key)
    for key in context.limits:
        if key.is_full:
            yield _full(context, key)
        elif key.room < 1 and key.interval_seconds is not None:
            yield _rate(context, key, key.interval_seconds)


def ahead_in_queue(context: ActionContext) -> str:
    """Return how many actions are ahead of a limited action, as the end of a sentence; empty if there are none."""
    ahead = context.ahead
    if not ahead:
        return ""
    number = counted(ahead, "action") if ahead < AHEAD_MOST else f"{ahead:,}+ actions"
    return f'{number} {"is" if ahead == 1 else "are"} ahead of it in the queue of "{context.limits[0].limit_key}"'


def _paused(context: ActionContext, pause: PauseState) -> Explanation:
    subject = f'{_KINDS.get(pause.kind, pause.kind)} "{pause.name}"'
    if pause.team_id is not None:
        subject += f' of team "{pause.team_id}"'
    details = {
        **context.timing,
        "kind": pause.kind,
        "name": pause.name,
        "note": pause.note,
        "paused_by": pause.paused_by,
        "paused_at": iso(pause.paused_at),
        "ends_at": iso(pause.ends_at),
    }
    if pause.ends_at is not None and pause.ends_at <= context.now:
        return Explanation(
            code=Code.PAUSE_ENDED,
            sentence=f"the pause of its {subject} ended at {at(pause.ends_at)}: the next ticks return its actions",
            details=details,
        )
    by = f" by {pause.paused_by}" if pause.paused_by else ""
    until = "until it is resumed" if pause.ends_at is None else f"until {at(pause.ends_at)}"
    return Explanation(
        code=Code.PAUSED,
        sentence=f"its {subject} has been paused{by} since {at(pause.paused_at)}, {until}"
        + (f": {pause.note}" if pause.note else ""),
        remedy="resume it, and its actions run in order",
        details=details,
    )


def _unknown(context: ActionContext, key: LimitState) -> Explanation:
    return Explanation(
        code=Code.LIMIT_UNKNOWN,
        sentence=f'its limit key "{key.limit_key}" matches no pattern of [limits], so it stays in its queue',
        remedy=f'add a pattern to scheduled_actions.toml, such as [limits."{key.limit_key}"] with at_once = 3',
        details=_details(context, key),
    )


def _full(context: ActionContext, key: LimitState) -> Explanation:
    remedy = f'raise at_once of [limits."{key.pattern}"], or wait for a slot'
    if key.running:
        remedy = f"`scheduled-actions explain {key.running[0]}` shows how long an action that holds a slot has been "
        remedy += f'running; more slots: raise at_once of [limits."{key.pattern}"]'
    return Explanation(
        code=Code.LIMIT_FULL,
        sentence=f"{_subject(key)} is full: {key.in_use} of {key.at_once} slots are in use{_and_ahead(context)}",
        remedy=remedy,
        details=_details(context, key)
        | {"at_once": key.at_once, "in_use": key.in_use, "running": [str(one) for one in key.running]},
    )


def _rate(context: ActionContext, key: LimitState, interval_seconds: float) -> Explanation:
    rate = rate_text(interval_seconds)
    when = ""
    if key.opens_at is not None:
        when = f": the next start is possible in {in_words(key.opens_at - context.now)}, at {at(key.opens_at)}"
    return Explanation(
        code=Code.LIMIT_RATE,
        sentence=f"{_subject(key)} has started as many actions as its rate of {rate} allows{when}{_and_ahead(context)}",
        remedy=f'raise rate or burst of [limits."{key.pattern}"], or wait',
        details=_details(context, key) | {"rate": rate, "burst": key.burst, "opens_at": iso(key.opens_at)},
    )


def _subject(key: LimitState) -> str:
    scope = ", which applies across teams," if key.across_teams else ""
    return f'its limit key "{key.limit_key}" (pattern "{key.pattern}"){scope}'


def _and_ahead(context: ActionContext) -> str:
    ahead = ahead_in_queue(context)
    return f", and {ahead}" if ahead else ""


def _details(context: ActionContext, key: LimitState) -> dict[str, Any]:
    return {**context.timing, "limit_key": key.limit_key, "pattern": key.pattern, "ahead": context.ahead}
