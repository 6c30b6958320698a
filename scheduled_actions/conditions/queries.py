"""The named queries of the project: read only, bounded, with bound parameters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import psycopg

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.json_text import Unquoted
from scheduled_actions.database.bounded import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduled_actions.core.config import Query
    from scheduled_actions.database.connection import Database

#: Bound by itself: the action's team.
TEAM = "team_id"
_PLACEHOLDER = re.compile(r"%\(([A-Za-z_][A-Za-z0-9_]*)\)s")


def check_team(query: Query, team_id: str | None, *, name: str = "query") -> None:
    """Return if actions of a team may use the query; None: an action without a team, which may use all.

    Raises:
        InvalidArgument: It does not bind the team, and is not shared.
    """
    if team_id is not None and not query.is_open_to_teams:
        expected = "one that teams may use: bind %(team_id)s in its sql, or set shared = true"
        raise InvalidArgument(name, Unquoted("this query"), expected)


def parameters_of(query: Query, given: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the parameters that a query takes, the team's aside.

    Raises:
        InvalidArgument: Others are given, or one is missing.
    """
    wanted = frozenset(_PLACEHOLDER.findall(query.sql)) - {TEAM}
    if wanted != given.keys():
        names = ", ".join(sorted(wanted)) or "none"
        raise InvalidArgument("condition.parameters", sorted(given), f"what the query takes: {names}")
    return wanted


def first_row(
    database: Database, query: Query, given: Mapping[str, Any], *, team_id: str | None
) -> Sequence[Any] | None:
    """Return the first row of a query; None where it has none.

    Raises:
        InvalidArgument: The parameters are not those of the query.
        TimeoutError: Its time is up.
        psycopg.Error: The database refuses it, or it would change something.
    """
    found = _run(database, query, f"select * from ({_own(query)}) query limit 1", given, team_id=team_id)  # noqa: S608
    return found[0] if found else None


def unknown_rows(
    database: Database, query: Query, given: Mapping[str, Any], key: str, name: str, *, team_id: str | None, limit: int
) -> list[dict[str, Any]]:
    """Return rows of a query that have become no action yet, as JSON has them, by column; at most `limit`.

    Args:
        database: Where it is asked.
        query: Which.
        given: Its parameters.
        key: The column that tells the rows apart.
        name: Under which those that have become actions are known.
        team_id: Bound as `team_id`.
        limit: Of the rows.

    Raises:
        InvalidArgument: The parameters are not those of the query.
        TimeoutError: Its time is up.
        psycopg.Error: The database refuses it, or it would change something.
    """
    text = f"select to_jsonb(query) from ({_own(query)}) query {_UNKNOWN}"  # noqa: S608 - the operator's own text
    ours = {"sa_key": key, "sa_name": name, "sa_team": team_id or "", "sa_limit": limit}
    return [row[0] for row in _run(database, query, text, given, team_id=team_id, ours=ours)]


_UNKNOWN = """
where not exists (
  select
  from scheduled_action_for_each known
  where known.team_id = %(sa_team)s
    and known.name = %(sa_name)s
    and known.key = to_jsonb(query) ->> %(sa_key)s
    and known.until > scheduled_actions_now()
)
limit %(sa_limit)s
"""


def _own(query: Query) -> str:
    return f"\n{query.sql.strip().removesuffix(';')}\n"


def _run(
    database: Database,
    query: Query,
    text: str,
    given: Mapping[str, Any],
    *,
    team_id: str | None,
    ours: Mapping[str, Any] | None = None,
) -> list[Sequence[Any]]:
    """Return the rows of a statement made of the operator's own text; what callers give is bound.

    With parameters it goes the extended way, on which a second statement behind a semicolon is refused.
    """
    check_team(query, team_id)
    parameters_of(query, given)
    found: list[Sequence[Any]] = []
    mistake: psycopg.ProgrammingError | None = None
    with database.connection(Limits(statement_seconds=query.timeout_seconds)) as connection:
        try:
            with connection.transaction():
                connection.execute("set transaction read only")
                found = list(connection.execute(text, {**given, **(ours or {}), TEAM: team_id}))
        except psycopg.errors.QueryCanceled:
            # Told apart here from a connection that an operator ended.
            message = f"took longer than {query.timeout_seconds:g} s"
            raise TimeoutError(message) from None
        except psycopg.ProgrammingError as error:
            # A name in the operator's text that is nowhere; the connection would take it for a table of ours.
            mistake = error
    if mistake is not None:
        raise mistake
    return found
