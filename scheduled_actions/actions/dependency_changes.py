"""Another condition, or other follow-ups, for an action that is there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions import management_store as management
from scheduled_actions.actions import store
from scheduled_actions.core.errors import InvalidArgument, RefusedByDatabase, UnknownAction
from scheduled_actions.core.json_text import Unquoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from scheduled_actions.core.action import Action
    from scheduled_actions.database.connection import Connection


def changed_extras(
    connection: Connection,
    action_id: UUID,
    given: Mapping[str, Any],
    prepare: Callable[..., dict[str, Any]],
    *,
    team_id: str | None,
) -> dict[str, Any]:
    """Return what `update_action.sql` takes for them.

    Args:
        connection: In a transaction: nobody else changes the action until it ends.
        action_id: Which.
        given: Those of `condition`, `after`, `on_success` and `on_failure` that are to change; None takes one away.
        prepare: Validates them, for the team of the action.
        team_id: Only within this team.

    Raises:
        UnknownAction: There is none of that id (in that team).
        RequestError: One cannot be what it is.
    """
    if given.get("after") is not None:
        # Before any row: the check below must see every change of this kind that was made before.
        store.lock_after(connection)
    found = management.lock(connection, action_id, team_id=team_id)
    if found is None:
        raise UnknownAction(action_id)
    columns = prepare({name: value for name, value in given.items() if value is not None}, team_id=found.team_id)
    _check(connection, found, columns)
    changes: dict[str, Any] = {f"sets_{name}": name in given for name in ("on_success", "on_failure")}
    changes |= {name: columns.get(name) for name in ("on_success", "on_failure")}
    changes["sets_condition"] = not given.keys().isdisjoint({"condition", "after"})
    return changes | {"condition": _combined(found.condition, given, columns)}


def _check(connection: Connection, action: Action, columns: Mapping[str, Any]) -> None:
    problem, waits_for_itself = store.extras_problem(connection, action.id, columns, team_id=action.team_id)
    if problem is not None:
        raise RefusedByDatabase(problem)
    if waits_for_itself:
        raise InvalidArgument("after", Unquoted("this"), "a list of actions that do not wait for this one themselves")


def _combined(stored: Any, given: Mapping[str, Any], columns: Mapping[str, Any]) -> str | None:  # noqa: ANN401 - any JSON
    """Return what the row keeps, as the SQL function `scheduled_actions_condition` puts it together."""
    has_after = isinstance(stored, dict) and "after" in stored
    after = columns.get("after") if "after" in given else stored["after"] if has_after else None
    condition = stored.get("condition") if has_after else stored
    if "condition" in given:
        condition = json.loads(columns.get("condition", "null"))
    if after:
        condition = {"after": after} | ({} if condition is None else {"condition": condition})
    return None if condition is None else json.dumps(condition)
