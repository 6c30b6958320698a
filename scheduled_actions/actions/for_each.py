"""Actions made of the rows of a query, one of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions.actions import rows_store as store
from scheduled_actions.actions.model import ARGUMENTS
from scheduled_actions.conditions import queries
from scheduled_actions.core.errors import BudgetExceeded, InvalidArgument, RequestError, TypeNotOpen
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.core.json_text import Unquoted
from scheduled_actions.core.requester import Requester

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psycopg

    from scheduled_actions.actions.service import Scheduler
    from scheduled_actions.actions.validation import PayloadAccess
    from scheduled_actions.core.config import Settings
    from scheduled_actions.core.requester import AddressReach
    from scheduled_actions.database.connection import Database

TYPE = "for_each:run"
#: Steps of one run, some five seconds of a handler's thread; and what a row takes of them.
STEPS_MOST = 10 * STEPS
_ROW_STEPS = 20
#: Of a row, and of what all rows share: it is checked for each.
_CHARACTERS_A_STEP = 32
_KEY_LENGTH = 255
#: Refusals that the result tells.
_TOLD = 5


def check_options(options: object, *, name: str = "options") -> None:
    """Return if these are arguments of `schedule_action` that all rows may share.

    Raises:
        InvalidArgument: They are not: the type, the payload and the team are not for the options to say.
    """
    if not isinstance(options, dict) or not options.keys() <= _OPTIONS:
        expected = f"an object of arguments of schedule_action: {', '.join(sorted(_OPTIONS))}"
        raise InvalidArgument(name, Unquoted("this"), expected)


_OPTIONS = ARGUMENTS - {"action_type", "payload", "team_id"}


def check_payload(
    payload: dict[str, Any],
    requester: Requester,
    *,
    access: PayloadAccess,
    settings: Settings,
    check_follow_ups: Callable[[Mapping[str, Any]], object],
) -> dict[str, Any]:
    """Return the payload of `for_each:run` as a requester may give it: it says how far the actions of its rows reach.

    Their own payloads are rows that are not known yet.

    Args:
        payload: Of `for_each:run`.
        requester: The token that asks over HTTP.
        access: Says which types the requester may schedule.
        settings: The named queries.
        check_follow_ups: Validates a condition and follow-ups for the requester, and raises what is wrong with them.

    Raises:
        TypeNotOpen: The requester may not schedule the type of the actions, their follow-ups, or use the query.
        InvalidArgument: The options are none.
    """
    inner = str(payload.get("action_type"))
    access.handler(inner, requester=requester, where="payload.action_type")
    if inner == TYPE:
        raise TypeNotOpen(inner, "cannot be scheduled for each row over HTTP", where="payload.action_type")
    options = payload.get("options") or {}
    check_options(options, name="payload.options")
    try:
        check_follow_ups(options)
    except TypeNotOpen as error:
        raise error.inside("payload.options") from None
    query = settings.queries.get(str(payload.get("query")))
    if query is not None:
        queries.check_team(query, requester.team_id, name="payload.query")
    return {**payload, "reach": requester.reach}


class ForEach:
    """Makes actions of rows, for one project.

    Args:
        database: For the query.
        scheduler: Validates and schedules.
        settings: The queries.
    """

    def __init__(self, database: Database, scheduler: Scheduler, settings: Settings) -> None:
        self._database = database
        self._scheduler = scheduler
        self._settings = settings

    def schedule(
        self,
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
        """Schedule an action for each row that has not become one yet; its payload is the row, by column.

        Args:
            query: A name of `[queries]`.
            action_type: Of the actions.
            key: The column that tells the rows apart.
            parameters: Of the query.
            limit: At most so many; the others wait for the next run.
            again_after_seconds: When a row of the same key may become an action again; None: never.
            name: Whose rows they are: the same key of another name is another row. None: the query's and the type's.
            options: Arguments of `schedule_action` for each of them.
            reach: Of the token that asked for it over HTTP; None: application code.
            team_id: The tenant of the actions, bound in the query, too.
            connection: In the transaction that decides over all of it.

        Returns:
            `scheduled`, how many; `refused`, how many rows are no payload of that type, with the first of the reasons;
            `more`, whether rows may have been left for the next run.

        Raises:
            RequestError: There is no such query, it has no such column, or an option cannot be.
            TimeoutError: The time of the query is up.
            psycopg.Error: The database refuses it.
        """
        found = self._settings.queries.get(query)
        if found is None:
            known = ", ".join(sorted(self._settings.queries)) or "none"
            raise InvalidArgument("query", query, f"a query of [queries]; there are: {known}")
        check_options(options)
        name = name or f"{query} {action_type}"
        rows = queries.unknown_rows(self._database, found, parameters, key, name, team_id=team_id, limit=limit)
        if rows and key not in rows[0]:
            raise InvalidArgument("key", key, f"a column of the query; it has {', '.join(rows[0])}")
        requester = None if reach is None else Requester(team_id=team_id)
        shared = {**options, "team_id": team_id}
        prepared, refused, is_cut = self._prepared(rows, action_type, key, shared, requester)
        taken = store.note(
            connection, list(prepared), name=name, team_id=team_id, again_after_seconds=again_after_seconds
        )
        scheduled = self._scheduler.schedule_prepared(
            [row for row_key, row in prepared.items() if row_key in taken], connection=connection
        )
        result: dict[str, Any] = {
            "scheduled": len(scheduled),
            "refused": len(refused),
            "more": is_cut or len(rows) == limit,
        }
        return result | ({"reasons": refused[:_TOLD]} if refused else {})

    def _prepared(
        self,
        rows: list[dict[str, Any]],
        action_type: str,
        key: str,
        options: Mapping[str, Any],
        requester: Requester | None,
    ) -> tuple[dict[str, dict[str, Any]], list[str], bool]:
        """Return what SQL takes for each row, by key, why others are refused, and whether some exceed the budget."""
        given = {name: value for name, value in options.items() if value is not None}
        prepared: dict[str, dict[str, Any]] = {}
        refused: list[str] = []
        budget = EvaluationBudget("the rows", steps=STEPS_MOST)
        shared = len(str(given))
        for row in rows:
            try:
                budget.spend(_ROW_STEPS + (shared + len(str(row))) // _CHARACTERS_A_STEP)
            except BudgetExceeded:
                return prepared, refused, True
            row_key = str(row[key]) if row[key] is not None else ""
            if not 1 <= len(row_key) <= _KEY_LENGTH:
                refused.append(f"{key} is not between 1 and {_KEY_LENGTH} characters")
                continue
            try:
                # The row is told apart by its key: nothing else merges what it has become.
                prepared[row_key] = self._scheduler.prepare(
                    action_type, row, requester=requester, **{"dedup_window": 0, **given}
                )
            except RequestError as error:
                refused.append(str(error))
        return prepared, refused, False
