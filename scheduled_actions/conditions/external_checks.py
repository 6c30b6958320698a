"""What conditions ask the world: named queries, HTTP answers, functions of the project."""

from __future__ import annotations

import http.client
import json
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg

from scheduled_actions.conditions.project_functions import ConditionCheck
from scheduled_actions.conditions.queries import check_team, first_row, parameters_of
from scheduled_actions.conditions.rules.kinds import compares
from scheduled_actions.conditions.rules.model import Checked
from scheduled_actions.conditions.rules.parsing import PUBLIC
from scheduled_actions.conditions.rules.pointer import MISSING, found_at
from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.core.errors.families import short
from scheduled_actions.outbound import bounded_http, delivery, network
from scheduled_actions.outbound.reach import reach_of

if TYPE_CHECKING:
    from scheduled_actions.conditions.rules.model import Outside
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.core.config import Settings
    from scheduled_actions.database.connection import Database
    from scheduled_actions.outbound.reach import Reach
    from scheduled_actions.registry import Registry

#: Of an HTTP answer, in bytes; a longer one cannot be judged.
ANSWER_LIMIT = 64 * 1024
_CONNECT_SECONDS = 5.0
_HTTP_SECONDS = 10.0
_REASON_LENGTH = 500


class Asker:
    """Asks for the conditions of one project.

    Args:
        database: For queries.
        registry: Finds functions.
        settings: The queries, and how far requests go.
    """

    def __init__(self, database: Database, registry: Registry, settings: Settings) -> None:
        self._database = database
        self._registry = registry
        self._settings = settings

    def check(self, outside: Outside, *, team_id: str | None = None) -> None:
        """Refuse what could not be asked, when the action is scheduled.

        Args:
            outside: What its condition asks.
            team_id: Of the action.

        Raises:
            RequestError: The query, the function or the address cannot be.
        """
        given = json.loads(outside.text)
        match outside.kind:
            case "query":
                known = self._settings.queries
                if given["name"] not in known:
                    raise InvalidArgument("condition.name", given["name"], _one_of("query", "[queries]", known))
                check_team(known[given["name"]], team_id, name="condition.name")
                parameters_of(known[given["name"]], given["parameters"])
            case "http":
                self._check_url(given, team_id)
            case _:
                functions = self._registry.conditions
                if given["name"] not in functions:
                    raise InvalidArgument("condition.name", given["name"], _one_of("function", "@condition", functions))

    def ask(self, outside: Outside, claimed: Claimed) -> Checked:
        """Ask; whatever goes wrong, the answer says so."""
        given = json.loads(outside.text)
        try:
            match outside.kind:
                case "query":
                    return self._query(given, claimed)
                case "http":
                    return self._get(given, claimed.team_id)
                case _:
                    return self._call(given, claimed)
        except (psycopg.Error, ScheduledActionsError, TimeoutError) as error:
            # The message of the database may hold values; its class says enough.
            told = type(error).__name__ if isinstance(error, psycopg.Error) else str(error)
            return Checked(is_met=False, found=told, is_broken=True)

    # -- queries -------------------------------------------------------------------------------------------------------

    def _query(self, given: dict[str, Any], claimed: Claimed) -> Checked:
        query = self._settings.queries.get(given["name"])
        name = f'query "{given["name"]}"'
        if query is None:
            return Checked(is_met=False, found=f"{name} is not in [queries] any more", is_broken=True)
        row = first_row(self._database, query, given["parameters"], team_id=claimed.team_id)
        if given["op"] is None:
            return Checked(is_met=row is not None, found="" if row else f"{name} has no row")
        figure = None if row is None else _plain(row[0])
        is_met = row is not None and compares(given["op"], figure, given["value"])
        return Checked(is_met=is_met, found=f"{name} is {short(figure)}, not {given['op']} {short(given['value'])}")

    # -- HTTP ----------------------------------------------------------------------------------------------------------

    def _networks(self, given: dict[str, Any], team_id: str | None) -> tuple[str, ...]:
        """Return the networks besides the public internet: none for teams, nor for what came over HTTP."""
        is_public = team_id is not None or given.get("reach") == PUBLIC
        return () if is_public else self._settings.conditions.private_networks

    def _check_url(self, given: dict[str, Any], team_id: str | None) -> None:
        check = delivery.check_url if self._networks(given, team_id) else delivery.check_tenant_url
        check(given["url"])

    def _get(self, given: dict[str, Any], team_id: str | None) -> Checked:
        self._check_url(given, team_id)
        place = delivery.check_url(given["url"])
        limits = bounded_http.Limits(time.monotonic() + _HTTP_SECONDS, _CONNECT_SECONDS, self._reach(given, team_id))
        headers = {"User-Agent": delivery.user_agent(), "Accept": "application/json"}
        try:
            if (instead := network.substitute()) is not None:
                status, body = instead.get(given["url"])
            else:
                with bounded_http.got(urlsplit(given["url"]), headers=headers, limits=limits) as response:
                    status = response.status
                    body = response.read(ANSWER_LIMIT + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            # Not what it says: it may name an address inside.
            return Checked(is_met=False, found=f"{place} did not answer ({type(error).__name__})", is_broken=True)
        if status not in given["status"]:
            return Checked(
                is_met=False, found=f"{place} answers {status}, not {' or '.join(map(str, given['status']))}"
            )
        if given["op"] is None:
            return Checked(is_met=True, found="")
        return _judged(place, given, body)

    def _reach(self, given: dict[str, Any], team_id: str | None) -> Reach:
        return reach_of(self._settings.webhooks, networks=self._networks(given, team_id))

    # -- functions -----------------------------------------------------------------------------------------------------

    def _call(self, given: dict[str, Any], claimed: Claimed) -> Checked:
        name = f'function "{given["name"]}"'
        function = self._registry.conditions.get(given["name"])
        if function is None:
            return Checked(is_met=False, found=f"{name} is not in this build", is_broken=True)
        asked = ConditionCheck(
            parameters=given["parameters"],
            action_id=claimed.id,
            action_type=claimed.action_type,
            payload=json_text.decode(claimed.payload_text),
            team_id=claimed.team_id,
        )
        try:
            answer = function(asked)
        except BaseException as error:  # noqa: BLE001 - the project's own code: SystemExit is an answer like any error
            return Checked(is_met=False, found=f"{name} raised {type(error).__name__}", is_broken=True)
        if isinstance(answer, str):
            return Checked(is_met=False, found=f"{name}: {answer[:_REASON_LENGTH]}")
        if not isinstance(answer, bool):
            return Checked(is_met=False, found=f"{name} answered a {type(answer).__name__}, not a bool", is_broken=True)
        return Checked(is_met=answer, found=f"{name} says no")


def _one_of(noun: str, where: str, known: Any) -> str:  # noqa: ANN401 - names
    names = ", ".join(sorted(known)[:12]) or "none"
    return f"a {noun} of {where}; there are: {names}"


def _plain(value: object) -> object:
    """Return a figure of the database as JSON has it."""
    from decimal import Decimal  # noqa: PLC0415 - next to its only use

    return float(value) if isinstance(value, Decimal) else value


def _judged(place: str, given: dict[str, Any], body: bytes) -> Checked:
    if len(body) > ANSWER_LIMIT:
        return Checked(is_met=False, found=f"{place} answers more than {ANSWER_LIMIT:,} bytes", is_broken=True)
    try:
        document = json_text.decode(re.sub(rb"^\xef\xbb\xbf", b"", body), name="answer")
    except InvalidArgument:
        return Checked(is_met=False, found=f"{place} does not answer JSON", is_broken=True)
    value = found_at(given["pointer"], document)
    if value is MISSING:
        is_met = given["op"] == "exists" and given["value"] is False
        return Checked(is_met=is_met, found=f"{place} answers nothing at {given['pointer']!r}")
    is_met = compares(given["op"], value, given["value"])
    return Checked(is_met=is_met, found=f"{place} answers {short(value)} at {given['pointer']!r}")
