"""Validate and change the conditions, predecessors and follow-ups of actions."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID

from scheduled_actions.actions import store
from scheduled_actions.conditions.model import ExternalCheck
from scheduled_actions.core.durations import parse_duration
from scheduled_actions.core.errors import (
    ActionTypeForbidden,
    FollowUpInvalid,
    InvalidArgument,
    RefusedByDatabase,
    RequestError,
    TooLarge,
    UnknownActionType,
)
from scheduled_actions.core.errors.families import short
from scheduled_actions.core.stored_values import parse_uuid
from scheduled_actions.database.connection import Connection

#: Maximum number of follow-ups in one list.
MOST = 20
#: Maximum nesting depth of follow-ups.
DEEPEST = 5
#: Maximum size of one list of follow-ups, in bytes of JSON.
LIMIT = 64 * 1024
_AFTER_MOST = 100

#: Validates the arguments of a follow-up at a nesting depth; returns its columns.
ColumnsOf: TypeAlias = Callable[[Mapping[str, Any], int], dict[str, Any]]


def dependency_columns(given: Mapping[str, Any], columns_of: ColumnsOf, *, depth: int = 0) -> dict[str, Any]:
    """Validate dependencies; return the columns that store them.

    Args:
        given: Arguments of `schedule_action`, by name; those not in `NAMES` are ignored.
        columns_of: Validates a follow-up and returns its columns.
        depth: The nesting depth of the action itself; 0 unless it is a follow-up.

    Raises:
        RequestError: A value is invalid; `FollowUpInvalid` names the follow-up.
        HandlerBroken: As raised by `columns_of`.
    """
    columns = {name: check(name, given[name], columns_of, depth) for name, check in _CHECKS.items() if name in given}
    columns = {name: value for name, value in columns.items() if value is not None}
    if "condition" in columns and "after" not in columns:
        from scheduled_actions.conditions.rules.plan import decode_plan  # noqa: PLC0415 - most projects have none

        decode_plan(columns["condition"])  # raises if it limits a wait for predecessors
    return columns


def _condition(_: str, given: Any, columns_of: ColumnsOf, depth: int) -> str:  # noqa: ANN401 - any JSON
    from scheduled_actions.conditions.rules.plan import encode_plan, is_wait  # noqa: PLC0415 - as above

    if isinstance(given, Mapping) and is_wait(given):
        given = {
            name: value.total_seconds() if isinstance(value, timedelta) else value
            for name, value in given.items()
            if value is not None
        }
        if "on_timeout" in given:
            given["on_timeout"] = json.loads(_follow_ups("on_timeout", given["on_timeout"], columns_of, depth) or "[]")
    return encode_plan(given)


def restrict_to_public(condition: str) -> str:
    """Return a stored condition with every HTTP request restricted to public addresses."""
    from scheduled_actions.conditions.rules import parsing, plan  # noqa: PLC0415 - as above

    return plan.encode_plan(parsing.restrict_to_public(json.loads(condition)))


def external_checks(condition: str) -> Sequence[ExternalCheck]:
    """Return the external checks of a stored condition."""
    from scheduled_actions.conditions.rules.plan import parse_plan  # noqa: PLC0415 - as above

    return parse_plan(json.loads(condition)).needs().checks


def _after(name: str, given: Any, _: ColumnsOf, __: int) -> list[str] | None:  # noqa: ANN401 - any value
    listed = [given] if isinstance(given, str | UUID) else given
    if not isinstance(listed, list | tuple | set | frozenset) or len(listed) > _AFTER_MOST:
        raise InvalidArgument(
            name, problem=f"({short(given)}) must be an action id or a list of at most {_AFTER_MOST} action ids"
        )
    ids: dict[str, None] = {}
    for one in listed:
        if (found := parse_uuid(one)) is None:
            raise InvalidArgument(name, one, "the id of an action (a UUID)")
        ids[str(found)] = None
    return list(ids) or None


def _follow_ups(name: str, given: Any, columns_of: ColumnsOf, depth: int) -> str | None:  # noqa: ANN401 - any value
    listed = [given] if isinstance(given, Mapping) else given
    if not isinstance(listed, list | tuple) or not all(isinstance(one, Mapping) for one in listed):
        raise InvalidArgument(
            name,
            problem='must be an action to schedule, {"action_type": …, "payload": …}, or a list of such actions',
        )
    if len(listed) > MOST:
        raise InvalidArgument(name, problem=f"has {len(listed)} actions; at most {MOST} are allowed")
    if depth >= DEEPEST:
        raise InvalidArgument(name, problem=f"is nested deeper than {DEEPEST} levels")
    rows = [_follow_up(f"{name}.{number}", one, columns_of, depth) for number, one in enumerate(listed)]
    text = store.elements_text(rows)
    if len(text.encode()) > LIMIT:
        raise TooLarge(name, len(text.encode()), LIMIT)
    return text if rows else None


_CHECKS: dict[str, Callable[[str, Any, ColumnsOf, int], Any]] = {
    "condition": _condition,
    "after": _after,
    "on_success": _follow_ups,
    "on_failure": _follow_ups,
}
#: The arguments of `schedule_action` that are handled here.
NAMES = frozenset(_CHECKS)


def _follow_up(where: str, given: Mapping[str, Any], columns_of: ColumnsOf, depth: int) -> dict[str, Any]:
    if given.get("team_id") is not None:
        raise InvalidArgument(
            f"{where}.team_id", problem="is not allowed: a follow-up belongs to the team of the action it follows"
        )
    try:
        return columns_of({"payload": {}, **_with_python_time(given)}, depth + 1)
    except (ActionTypeForbidden, UnknownActionType) as error:
        raise error.inside(where) from None
    except RequestError as error:
        raise FollowUpInvalid(where, error) from error


def _with_python_time(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the `scheduled_at` or `delay` of JSON to a Python value; a delay starts when the followed action ends."""
    converted = dict(given)
    if "delay" in converted:
        delay = converted.pop("delay")
        seconds = parse_duration(delay, name="delay").total_seconds() if isinstance(delay, str) else delay
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or "scheduled_at" in converted:
            raise InvalidArgument(
                "delay",
                problem=f"({short(delay)}) must be a number of seconds or a duration such as PT5M, and cannot be "
                "combined with scheduled_at",
            )
        try:
            converted["scheduled_at"] = timedelta(seconds=seconds)
        except (OverflowError, ValueError):
            raise InvalidArgument("delay", seconds, "a duration between zero and a hundred years") from None
    return converted


def changed_dependencies(
    connection: Connection,
    action_id: UUID,
    given: Mapping[str, Any],
    validate: Callable[..., dict[str, Any]],
    *,
    team_id: str | None,
) -> dict[str, Any]:
    """Return the parameters of `update_action.sql` that change the dependencies of an action.

    Args:
        connection: In a transaction, which locks the action until it ends.
        action_id: The action.
        given: The dependencies to change, by a name of `NAMES`; None removes a dependency.
        validate: Validates dependencies for the action's team and returns their columns.
        team_id: Only within this team.

    Raises:
        UnknownAction: No action has this id (in that team).
        RequestError: A value is invalid, or the action would wait for itself.
        HandlerBroken: As raised by `validate`.
    """
    if given.get("after") is not None:
        # Taken before any row is locked, so that the check below sees every earlier change of predecessors.
        store.sql.run(connection, "lock_after")
    action = store.get(connection, action_id, team_id=team_id, locked=True)
    stored = _split(action.condition)
    # A new condition may limit the wait for the stored predecessors.
    wanted = {"after": stored["after"], **given} if "condition" in given else given
    columns = validate({name: value for name, value in wanted.items() if value is not None}, team_id=action.team_id)
    changed = {name: columns.get(name) if name in given else None for name in NAMES}
    problem, waits_for_itself = store.sql.run_one(
        connection, "waits_for_itself", {**changed, "id": action_id, "team_id": action.team_id}
    )
    if problem is not None:
        raise RefusedByDatabase(problem)
    if waits_for_itself:
        raise InvalidArgument(
            "after", problem="contains an action that waits for this one: no action can wait for itself"
        )
    follow_ups = ("on_success", "on_failure")
    return {
        **{f"sets_{name}": name in given for name in follow_ups},
        **{name: changed[name] for name in follow_ups},
        "sets_condition": not given.keys().isdisjoint({"condition", "after"}),
        "condition": _combined(
            changed["after"] if "after" in given else stored["after"],
            json.loads(changed["condition"] or "null") if "condition" in given else stored["condition"],
        ),
    }


def _split(stored: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Return the predecessors and the condition of the column `condition`."""
    parts = stored if isinstance(stored, dict) and "after" in stored else {"condition": stored}
    return {"after": parts.get("after"), "condition": parts.get("condition")}


def _combined(after: Any, condition: Any) -> str | None:  # noqa: ANN401 - any JSON
    """Return the column `condition`, in the form of the SQL function `scheduled_actions_condition`."""
    from scheduled_actions.conditions.rules.plan import is_wait  # noqa: PLC0415 - as above

    if after:
        return json.dumps({"after": after} | ({} if condition is None else {"condition": condition}))
    limits_after = isinstance(condition, dict) and is_wait(condition) and "wait" not in condition
    return None if condition is None or limits_after else json.dumps(condition)
