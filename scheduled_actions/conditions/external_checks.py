"""Run external checks of conditions: named queries, HTTP requests and project functions.

Named queries are read-only, and have bound parameters and a time limit. `for_each` also runs named queries.
"""

import codecs
import http.client
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import psycopg

from scheduled_actions.conditions.model import CheckResult, ExternalCheck
from scheduled_actions.conditions.project_functions import ConditionCheck
from scheduled_actions.conditions.rules.parsing import PUBLIC
from scheduled_actions.core import json_text
from scheduled_actions.core.action import Claimed
from scheduled_actions.core.config import Query, Settings
from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.core.errors.families import short
from scheduled_actions.core.json_comparison import MISSING, OPERATORS, resolve_pointer
from scheduled_actions.database.bounded import StatementLimits
from scheduled_actions.database.connection import Database
from scheduled_actions.outbound import bounded_http, delivery, network
from scheduled_actions.outbound.reach import reach_of
from scheduled_actions.registry import Registry

#: Maximum size of an HTTP response body in bytes; a longer one is not evaluated.
ANSWER_LIMIT = 64 * 1024
_CONNECT_SECONDS = 5.0
_HTTP_SECONDS = 10.0
_REASON_LENGTH = 500
_NAMES_SHOWN = 12
#: A parameter that every query may use: the action's team.
TEAM = "team_id"
_PLACEHOLDER = re.compile(r"%\(([A-Za-z_][A-Za-z0-9_]*)\)s")


@dataclass(frozen=True, slots=True)
class ExternalChecker:
    """Runs the external checks of one project.

    Args:
        database: Runs queries.
        registry: Holds the project's functions.
        settings: Contains the queries, and the private networks that requests may reach.
    """

    database: Database
    registry: Registry
    settings: Settings

    def validate(self, check: ExternalCheck, *, team_id: str | None = None) -> None:
        """Check, when an action is scheduled, that an external check can run.

        Args:
            check: A check of the action's condition.
            team_id: The action's team.

        Raises:
            RequestError: The query or the function does not exist, the team may not use the query, a parameter of the
                query is missing or unknown, or the URL is not allowed.
        """
        given = json.loads(check.text)
        match check.kind:
            case "query":
                _check_known(given["name"], "query of [queries]", self.settings.queries)
                query = self.settings.queries[given["name"]]
                check_team(query, team_id, name="condition.name")
                check_parameters(query, given["parameters"], name="condition.parameters")
            case "http":
                self._check_url(given, team_id)
            case _:
                _check_known(given["name"], "function declared with @condition", self.registry.conditions)

    def run(self, check: ExternalCheck, claimed: Claimed) -> CheckResult:
        """Run a check for a claimed action; an error is returned as a result with `is_broken`."""
        given = json.loads(check.text)
        try:
            match check.kind:
                case "query":
                    return self._query(given, claimed.team_id)
                case "http":
                    return self._request(given, claimed.team_id)
                case _:
                    return self._call(given, claimed)
        except psycopg.Error as error:
            # The message of a database error may contain values; its class name does not.
            return _broken(type(error).__name__)
        except (ScheduledActionsError, TimeoutError) as error:
            return _broken(str(error))

    def _query(self, given: dict[str, Any], team_id: str | None) -> CheckResult:
        query = self.settings.queries.get(given["name"])
        name = f'query "{given["name"]}"'
        if query is None:
            return _broken(f"{name} is no longer in [queries]")
        row = first_row(self.database, query, given["parameters"], team_id=team_id)
        if given["op"] is None:
            return CheckResult(is_met=row is not None, found=f"{name} returned no row")
        value = None if row is None else float(row[0]) if isinstance(row[0], Decimal) else row[0]
        return CheckResult(
            is_met=row is not None and OPERATORS[given["op"]](value, given["value"]),
            found=f"{name} returned {'no row' if row is None else short(value)}; the condition requires {given['op']} "
            f"{short(given['value'])}",
        )

    def _networks(self, given: dict[str, Any], team_id: str | None) -> tuple[str, ...]:
        """Return the private networks that a request may reach; none for a team or a condition given over HTTP."""
        is_public = team_id is not None or given.get("reach") == PUBLIC
        return () if is_public else self.settings.conditions.private_networks

    def _check_url(self, given: dict[str, Any], team_id: str | None) -> str:
        check = delivery.check_url if self._networks(given, team_id) else delivery.check_tenant_url
        check(given["url"])
        return delivery.check_url(given["url"])

    def _request(self, given: dict[str, Any], team_id: str | None) -> CheckResult:
        place = self._check_url(given, team_id)
        limits = bounded_http.Limits(
            time.monotonic() + _HTTP_SECONDS,
            _CONNECT_SECONDS,
            reach_of(self.settings.webhooks, networks=self._networks(given, team_id)),
        )
        try:
            if (substitute := network.substitute) is not None:
                status, body = substitute.get(given["url"])
            else:
                with bounded_http.exchange(
                    "GET",
                    urlsplit(given["url"]),
                    headers={"User-Agent": delivery.USER_AGENT, "Accept": "application/json"},
                    limits=limits,
                ) as response:
                    status, body = response.status, response.read(ANSWER_LIMIT + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            # The message of the error may contain an internal address.
            return _broken(f"{place} did not answer ({type(error).__name__})")
        if status not in given["status"]:
            expected = " or ".join(map(str, given["status"]))
            return CheckResult(is_met=False, found=f"{place} answered {status}, not {expected}")
        return CheckResult(is_met=True, found="") if given["op"] is None else _evaluate_body(place, given, body)

    def _call(self, given: dict[str, Any], claimed: Claimed) -> CheckResult:
        function = self.registry.conditions.get(given["name"])
        name = f'function "{given["name"]}"'
        if function is None:
            return _broken(f"{name} is not in this build")
        check = ConditionCheck(
            parameters=given["parameters"],
            action_id=claimed.id,
            action_type=claimed.action_type,
            payload=json_text.decode(claimed.payload_text),
            team_id=claimed.team_id,
        )
        try:
            result = function(check)
        except BaseException as error:  # noqa: BLE001 - project code may raise anything, SystemExit included
            return _broken(f"{name} raised {type(error).__name__}")
        if isinstance(result, str):
            return CheckResult(is_met=False, found=f"{name}: {result[:_REASON_LENGTH]}")
        if not isinstance(result, bool):
            return _broken(f"{name} returned {type(result).__name__}, not a bool or a reason")
        return CheckResult(is_met=result, found=f"{name} returned False")


def _broken(found: str) -> CheckResult:
    return CheckResult(is_met=False, found=found, is_broken=True)


def _check_known(name: str, noun: str, known: Iterable[str]) -> None:
    """Check that `name` is one of the known names; the error lists them."""
    if name not in known:
        names = ", ".join(sorted(known)[:_NAMES_SHOWN]) or "none"
        raise InvalidArgument("condition.name", name, f"a {noun}; known names: {names}")


def _evaluate_body(place: str, given: dict[str, Any], body: bytes) -> CheckResult:
    if len(body) > ANSWER_LIMIT:
        return _broken(f"{place} answered with more than {ANSWER_LIMIT:,} bytes")
    try:
        document = json_text.decode(body.removeprefix(codecs.BOM_UTF8), name="answer")
    except InvalidArgument:
        return _broken(f"{place} did not answer with JSON")
    value = resolve_pointer(given["pointer"], document)
    is_met = (value is not MISSING or given["op"] == "exists") and OPERATORS[given["op"]](value, given["value"])
    found = "no value" if value is MISSING else short(value)
    return CheckResult(
        is_met=is_met,
        found=f"{place} answered {found} at {given['pointer']!r}; the condition requires {given['op']} "
        f"{short(given['value'])}",
    )


def check_team(query: Query, team_id: str | None, *, name: str = "query") -> None:
    """Check that an action of a team may use a query; actions without a team may use every query.

    Args:
        query: The query of the settings.
        team_id: The team of the action; None: no team.
        name: The name of the argument in errors.

    Raises:
        InvalidArgument: The query neither binds `team_id` nor is shared.
    """
    if team_id is not None and not query.shared and "%(team_id)s" not in query.sql:
        raise InvalidArgument(
            name, problem="must name a query that teams may use: bind %(team_id)s in its sql, or set shared = true"
        )


def check_parameters(query: Query, given: Mapping[str, Any], *, name: str = "parameters") -> None:
    """Check that the parameters are exactly those of the query, apart from `team_id`.

    Args:
        query: The query of the settings.
        given: The parameters, by name.
        name: The name of the argument in errors.

    Raises:
        InvalidArgument: A parameter is unknown or missing.
    """
    wanted = frozenset(_PLACEHOLDER.findall(query.sql)) - {TEAM}
    if wanted != given.keys():
        names = ", ".join(sorted(wanted)) or "none"
        raise InvalidArgument(name, problem=f"has the names {short(sorted(given))}; the query takes: {names}")


def first_row(
    database: Database, query: Query, given: Mapping[str, Any], *, team_id: str | None
) -> Sequence[Any] | None:
    """Run a query and return its first row; None if it returns no row.

    Raises:
        InvalidArgument: The team may not use the query, or the parameters are not those of the query.
        TimeoutError: The query exceeded its time limit.
        psycopg.Error: The database rejected the query, or the query tried to write.
    """
    return next(iter(_run(database, query, "select * from (%s) query limit 1", given, team_id=team_id)), None)


def unknown_rows(
    database: Database, query: Query, given: Mapping[str, Any], key: str, name: str, *, team_id: str | None, limit: int
) -> list[dict[str, Any]]:
    """Run a query and return the rows that may become actions, as JSON objects.

    A row that became an action is left out until the instant `until` that is stored with its key.

    Args:
        database: Runs the query.
        query: The query to run.
        given: The parameters of the query.
        key: The name of the column that identifies a row.
        name: The name under which the keys of rows that became actions are stored.
        team_id: The team of the actions, bound as `team_id`; None: no team.
        limit: Maximum number of rows.

    Raises:
        InvalidArgument: The team may not use the query, or the parameters are not those of the query.
        TimeoutError: The query exceeded its time limit.
        psycopg.Error: The database rejected the query, or the query tried to write.
    """
    return [
        row[0]
        for row in _run(
            database,
            query,
            _UNKNOWN,
            {**given},
            team_id=team_id,
            ours={"sa_key": key, "sa_name": name, "sa_team": team_id or "", "sa_limit": limit},
        )
    ]


_UNKNOWN = """
select to_jsonb(query) from (%s) query
where not exists (
  select
  from scheduled_action_for_each known
  where known.team_id = %%(sa_team)s
    and known.name = %%(sa_name)s
    and known.key = to_jsonb(query) ->> %%(sa_key)s
    and known.until > scheduled_actions_now()
)
limit %%(sa_limit)s
"""


def _run(
    database: Database,
    query: Query,
    around: str,
    given: Mapping[str, Any],
    *,
    team_id: str | None,
    ours: Mapping[str, Any] | None = None,
) -> list[Sequence[Any]]:
    """Run a query of the settings inside a statement of this package, and return the rows.

    Parameters are bound through the extended protocol, which rejects a second statement after a semicolon.
    """
    check_team(query, team_id)
    check_parameters(query, given)
    text = around % f"\n{query.sql.strip().removesuffix(';')}\n"
    rows: list[Sequence[Any]] = []
    mistake: psycopg.ProgrammingError | None = None
    with database.connection(StatementLimits(statement_seconds=query.timeout_seconds)) as connection:
        try:
            with connection.transaction():
                connection.execute("set transaction read only")
                rows = list(connection.execute(text, {**given, **(ours or {}), TEAM: team_id}))
        except psycopg.errors.QueryCanceled:
            # `run` returns the message of a TimeoutError, but only the class name of a database error.
            raise TimeoutError(f"the query took longer than {query.timeout_seconds:g} s") from None
        except psycopg.ProgrammingError as error:
            # Raised after the block, which would treat an unknown name in the query as a sign of an outdated schema.
            mistake = error
    if mistake is not None:
        raise mistake
    return rows
