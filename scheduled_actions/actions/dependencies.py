"""What an action waits for and what follows its end, as callers say it, made what SQL takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from scheduled_actions.actions.store import elements_text
from scheduled_actions.core.durations import parse_duration
from scheduled_actions.core.errors import (
    FollowUpInvalid,
    InvalidArgument,
    RequestError,
    TooLarge,
    TypeNotOpen,
    UnknownActionType,
)
from scheduled_actions.core.json_text import Unquoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.conditions.rules.model import Outside

#: The arguments of `schedule_action` that are looked at here.
NAMES = frozenset({"condition", "after", "on_success", "on_failure"})
#: Actions that follow one end.
MOST = 20
#: Follow-ups of follow-ups.
DEEPEST = 5
#: In bytes of their JSON.
LIMIT = 64 * 1024
_AFTER_MOST = 100


def extras_of(
    given: Mapping[str, Any], row_of: Callable[[Mapping[str, Any], int], dict[str, Any]], *, depth: int = 0
) -> dict[str, Any]:
    """Return what the SQL function takes for those of the arguments that are given here.

    Args:
        given: The arguments of `schedule_action`, by name.
        row_of: Makes the arguments of a follow-up, so deep, what SQL takes, having validated its payload.
        depth: How many actions it follows itself.

    Raises:
        RequestError: One cannot be what it is; `FollowUpInvalid` says which follow-up.
    """
    columns: dict[str, Any] = {}
    if "condition" in given:
        columns["condition"] = _condition(given["condition"], row_of, depth)
    if "after" in given:
        columns["after"] = _after(given["after"])
    for name in ("on_success", "on_failure"):
        if name in given:
            columns[name] = _follow_ups(name, given[name], row_of, depth)
    return {name: value for name, value in columns.items() if value is not None}


def _condition(given: Any, row_of: Callable[[Mapping[str, Any], int], dict[str, Any]], depth: int) -> str:  # noqa: ANN401 - any JSON
    from scheduled_actions.conditions.rules.plan import stored_plan  # noqa: PLC0415 - most projects have none

    if isinstance(given, Mapping) and "wait" in given:
        given = {
            name: value.total_seconds() if isinstance(value, timedelta) else value
            for name, value in given.items()
            if value is not None
        }
        if "on_timeout" in given:
            text = _follow_ups("on_timeout", given["on_timeout"], row_of, depth)
            given["on_timeout"] = json.loads(text or "[]")
    return stored_plan(given)


def with_public_reach(condition: str) -> str:
    """Return a stored condition whose HTTP requests go only to the public internet."""
    from scheduled_actions.conditions.rules import parsing, plan  # noqa: PLC0415 - as above

    return plan.stored_plan(parsing.with_public_reach(json.loads(condition)))


def check_outsides(condition: str, check: Callable[[Outside], None]) -> None:
    """Refuse what could not be asked: a query or a function that is not there, an address out of reach."""
    from scheduled_actions.conditions.rules.plan import plan_of  # noqa: PLC0415 - as above

    asked = plan_of(condition).condition
    for outside in asked.outsides() if asked is not None else ():
        check(outside)


def _after(given: Any) -> list[str] | None:  # noqa: ANN401 - it is what is judged
    listed = [given] if isinstance(given, str | UUID) else given
    if not isinstance(listed, list | tuple | set | frozenset) or len(listed) > _AFTER_MOST:
        raise InvalidArgument("after", given, f"a list of at most {_AFTER_MOST} ids of actions")
    return list(dict.fromkeys(_id(one) for one in listed)) or None


def _id(value: Any) -> str:  # noqa: ANN401 - it is what is judged
    try:
        return str(value if isinstance(value, UUID) else UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise InvalidArgument("after", value, "the id of an action") from None


def _follow_ups(
    name: str,
    given: Any,  # noqa: ANN401 - it is what is judged
    row_of: Callable[[Mapping[str, Any], int], dict[str, Any]],
    depth: int,
) -> str | None:
    listed = [given] if isinstance(given, Mapping) else given
    if not isinstance(listed, list | tuple) or not all(isinstance(one, Mapping) for one in listed):
        expected = 'an action to schedule, {"action_type": …, "payload": …}, or a list of them'
        raise InvalidArgument(name, Unquoted(f"a {type(given).__name__}"), expected)
    if len(listed) > MOST:
        raise InvalidArgument(name, Unquoted(f"a list of {len(listed)}"), f"at most {MOST} actions")
    if depth >= DEEPEST:
        raise InvalidArgument(name, Unquoted("this"), f"at most {DEEPEST} levels deep")
    rows = [_row(name, number, one, row_of, depth) for number, one in enumerate(listed)]
    text = elements_text(rows)
    if len(text.encode()) > LIMIT:
        raise TooLarge(name, len(text.encode()), LIMIT)
    return text if rows else None


def _row(
    name: str,
    number: int,
    given: Mapping[str, Any],
    row_of: Callable[[Mapping[str, Any], int], dict[str, Any]],
    depth: int,
) -> dict[str, Any]:
    if given.get("team_id") is not None:
        expected = "there: a follow-up belongs to the team of the action it follows"
        raise InvalidArgument(f"{name}.{number}.team_id", given["team_id"], expected)
    try:
        return row_of({"payload": {}, **_on_time(given)}, depth + 1)
    except (TypeNotOpen, UnknownActionType) as error:
        raise error.inside(f"{name}.{number}") from None
    except RequestError as error:
        raise FollowUpInvalid(f"{name}.{number}", error) from error


def _on_time(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with their time as Python says it; in JSON `delay` counts from the end that is followed."""
    made = dict(given)
    if "delay" in made:
        delay = made.pop("delay")
        seconds = parse_duration(delay, name="delay").total_seconds() if isinstance(delay, str) else delay
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or "scheduled_at" in made:
            raise InvalidArgument("delay", delay, "seconds, or a duration such as PT5M, in place of scheduled_at")
        made["scheduled_at"] = _delay(seconds)
    elif isinstance(made.get("scheduled_at"), str):
        try:
            made["scheduled_at"] = datetime.fromisoformat(made["scheduled_at"])
        except ValueError:
            raise InvalidArgument("scheduled_at", made["scheduled_at"], "an ISO 8601 instant with its offset") from None
    return made


def _delay(seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        raise InvalidArgument("delay", seconds, "a time from now: between zero and a hundred years") from None
