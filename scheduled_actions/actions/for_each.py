"""Schedule an action for each row of a query, unless the row already has one."""

from collections.abc import Mapping
from typing import Any

import psycopg

from scheduled_actions.actions import store
from scheduled_actions.actions.model import ARGUMENTS
from scheduled_actions.actions.service import Scheduler
from scheduled_actions.actions.validation import ActionValidator
from scheduled_actions.conditions.external_checks import check_team, unknown_rows
from scheduled_actions.core.errors import ActionTypeForbidden, BudgetExceeded, InvalidArgument, RequestError
from scheduled_actions.core.errors.families import short
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.core.messages import did_you_mean
from scheduled_actions.core.requester import AddressReach, Requester

TYPE = "for_each:run"
#: Maximum number of steps of one run: about five seconds on a handler's thread.
STEPS_MOST = 10 * STEPS
#: Steps of the evaluation budget that a row costs.
_ROW_STEPS = 20
#: Characters of a row, and of the options shared by all rows, that cost one step.
_CHARACTERS_A_STEP = 32
_KEY_LENGTH = 255
#: Maximum number of reasons shown in the result.
_REASONS_MOST = 5
_OPTIONS = ARGUMENTS - {"action_type", "payload", "team_id"}


def check_options(options: object, *, name: str = "options") -> None:
    """Check that the options are arguments of `schedule_action` that can apply to every row.

    Raises:
        InvalidArgument: The options are not a dict, or one is unknown or has a separate field: the type, the payload or
            the team.
    """
    valid = f"valid keys are arguments of schedule_action: {', '.join(sorted(_OPTIONS))}"
    if not isinstance(options, dict):
        raise InvalidArgument(name, problem=f"is of type {type(options).__name__}, not an object; {valid}")
    if unknown := options.keys() - _OPTIONS:
        first = min(unknown, key=str)
        hint = did_you_mean(str(first), _OPTIONS, otherwise=valid) if first not in ARGUMENTS else valid
        raise InvalidArgument(name, problem=f"has the invalid key {short(first)}; {hint}")


def check_payload(payload: dict[str, Any], requester: Requester, validator: ActionValidator) -> dict[str, Any]:
    """Check a payload of `for_each:run`; return it with `reach`, the addresses that its actions may use.

    The payloads of its actions cannot be checked here, because they are rows of a query that has not run yet.

    Args:
        payload: The payload of `for_each:run`.
        requester: The API token.
        validator: Checks which types the requester may schedule, and validates a condition and follow-ups.

    Raises:
        ActionTypeForbidden: The actions would be of the type `for_each:run`, or the requester may not schedule their
            type or that of a follow-up.
        RequestError: The type is unknown, an option is invalid, or the query is not open to the team.
        HandlerBroken: The handler of the actions or of a follow-up cannot be loaded.
    """
    inner = str(payload.get("action_type"))
    validator.payloads.handler(inner, requester=requester, where="payload.action_type")
    if inner == TYPE:
        raise ActionTypeForbidden(inner, "cannot be scheduled for each row over HTTP", where="payload.action_type")
    options = payload.get("options") or {}
    check_options(options, name="payload.options")
    try:
        validator.dependencies(options, requester=requester, team_id=requester.team_id)
    except ActionTypeForbidden as error:
        raise error.inside("payload.options") from None
    query = validator.settings.queries.get(str(payload.get("query")))
    if query is not None:
        check_team(query, requester.team_id, name="payload.query")
    return {**payload, "reach": requester.reach}


def schedule_rows(
    scheduler: Scheduler,
    query: str,
    action_type: str,
    *,
    key: str,
    parameters: Mapping[str, Any],
    limit: int,
    again_after_seconds: float | None,
    name: str | None,
    options: Mapping[str, Any],
    reach: AddressReach | None = None,
    team_id: str | None,
    connection: psycopg.Connection[Any],
) -> dict[str, Any]:
    """Schedule an action for each row that has none yet; its payload is the row, by column.

    Args:
        scheduler: Validates and schedules the actions.
        query: The name of a query in `[queries]`.
        action_type: The type of the actions.
        key: The column that identifies a row; a row is refused unless the value has 1 to 255 characters as text. It is
            not part of the payloads if the model of the handler forbids it.
        parameters: The parameters of the query.
        limit: Maximum number of rows; further rows are left for the next run.
        again_after_seconds: Seconds until a row with the same key may become an action again; None: never.
        name: Scope of the keys; None: the query and the type.
        options: Arguments of `schedule_action` for each action.
        reach: The addresses that the API token may reach; None: application code.
        team_id: The team of the actions, also bound in the query.
        connection: In the transaction that stores the keys and the actions.

    Returns:
        `scheduled` and `refused`, numbers of rows; `more`, whether rows may be left for the next run; and, for
        refused rows, the first five `reasons`.

    Raises:
        RequestError: The query, the column or the action type does not exist, the team may not use the query or the
            type, or the parameters or the names of the options are invalid.
        HandlerBroken: The handler of the actions or of a follow-up cannot be loaded.
        TimeoutError: The query exceeded its time limit.
        psycopg.Error: The database rejected the query.
    """
    queries = scheduler.validator.settings.queries
    if query not in queries:
        raise InvalidArgument(
            "query",
            query,
            f"a query of [queries]; known queries: {', '.join(sorted(queries)) or 'none'}",
        )
    check_options(options)
    scope = name or f"{query} {action_type}"
    rows = unknown_rows(scheduler.database, queries[query], parameters, key, scope, team_id=team_id, limit=limit)
    if rows and key not in rows[0]:
        raise InvalidArgument("key", key, f"a column of the query, which returns {', '.join(rows[0])}")
    # The key identifies the row, so merging by other keys is off unless the options set `dedup_window`.
    shared = {"dedup_window": 0} | {name: value for name, value in options.items() if value is not None}
    prepared, refused, is_cut = _prepare(
        scheduler.validator,
        rows,
        key,
        {**shared, "action_type": action_type, "team_id": team_id},
        None if reach is None else Requester(team_id=team_id),
    )
    new = store.insert_rows(
        connection, list(prepared), name=scope, team_id=team_id, again_after_seconds=again_after_seconds
    )
    scheduled = scheduler.schedule_prepared(
        [row for row_key, row in prepared.items() if row_key in new], connection=connection
    )
    return {
        "scheduled": len(scheduled),
        "refused": len(refused),
        "more": is_cut or len(rows) == limit,
        **({"reasons": refused[:_REASONS_MOST]} if refused else {}),
    }


def _prepare(
    validator: ActionValidator,
    rows: list[dict[str, Any]],
    key: str,
    options: Mapping[str, Any],
    requester: Requester | None,
) -> tuple[dict[str, dict[str, Any]], list[str], bool]:
    """Return the validated actions by row key, why other rows are refused, and whether the budget was exceeded."""
    prepared: dict[str, dict[str, Any]] = {}
    refused: list[str] = []
    budget = EvaluationBudget("the rows", steps=STEPS_MOST)
    shared = len(str(options))
    handler = validator.payloads.handler(options["action_type"], requester=requester)
    left_out = {key} if handler.payload.forbids(key) else set()
    for row in rows:
        row_key = "" if row[key] is None else str(row[key])
        try:
            budget.spend(_ROW_STEPS + (shared + len(str(row))) // _CHARACTERS_A_STEP)
        except BudgetExceeded:
            return prepared, refused, True
        try:
            if 1 <= len(row_key) <= _KEY_LENGTH:
                payload = {column: value for column, value in row.items() if column not in left_out}
                prepared[row_key] = validator.row({**options, "payload": payload}, requester=requester)
            else:
                refused.append(f"the key in column {key} must have 1 to {_KEY_LENGTH} characters")
        except RequestError as error:
            refused.append(f"{key} {short(row_key)}: {error}")
    return prepared, refused, False
