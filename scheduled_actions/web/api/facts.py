"""Report, list, show and delete facts, and return their history."""

from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from scheduled_actions.conditions.model import Fact, FactChange, FactReport
from scheduled_actions.conditions.rules.kinds import APPROVAL
from scheduled_actions.core.errors import InvalidArgument, TooLarge, UnknownFact
from scheduled_actions.core.pages import MAX_PAGE_SIZE
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.auth import Caller
from scheduled_actions.web.api.models import (
    EmptyRequest,
    Limit,
    RequestModel,
    ResponseModel,
    ShortText,
    TeamPageQuery,
    TeamQuery,
    page_of,
    shares_fields,
)
from scheduled_actions.web.api.problems import Forbidden
from scheduled_actions.web.api.routing import Answer, Call, Locked, Route, page_answer, require_if_match


class ReportFactRequest(RequestModel):
    """The value to report for a fact."""

    value: Annotated[Any, WithJsonSchema({})] = Field(
        description="Any JSON, at most 16 KiB. Reporting the current value again is not a change."
    )
    team_id: ShortText | None = Field(
        None, description="The team that owns the fact. A team's token reports only for its own team."
    )


class FactsQuery(TeamPageQuery):
    """Filters of a list of facts."""

    target_type: ShortText | None = None
    target_id: ShortText | None = None
    name: ShortText | None = None


class FactHistoryQuery(TeamQuery):
    """The team that owns the fact, and the number of changes to return."""

    limit: Limit = MAX_PAGE_SIZE


@shares_fields(
    Fact,
    id=None,
    team_id=None,
    target_type=None,
    target_id=None,
    name=None,
    value=None,
    reported_by=None,
    changed_at="When the value last changed.",
    reported_at=None,
)
class FactDocument(ResponseModel):
    """The current value of a fact about a target."""


@shares_fields(
    FactReport,
    changed="Whether the value changed.",
    has_waiters="Whether the value changed while actions were waiting for the fact; the next tick wakes them.",
)
class ReportedFact(FactDocument):
    """A fact after a report."""


FactPage = page_of("FactPage", "A page of facts, newest first.", facts=list[FactDocument])


@shares_fields(
    FactChange,
    value=None,
    is_removal="Whether the fact was deleted; `value` is null then.",
    reported_by=None,
    changed_at=None,
)
class FactChangeDocument(ResponseModel):
    """A change of a fact: its new value, or its deletion."""


class FactHistory(ResponseModel):
    """The latest changes of a fact, newest first."""

    changes: list[FactChangeDocument]


def list_facts(call: Call[FactsQuery, EmptyRequest]) -> Answer:
    """Return a page of facts, newest first."""
    return page_answer(call, FactPage, partial(call.runtime.facts.find, **call.filters))


def report_fact(call: Call[EmptyRequest, ReportFactRequest]) -> Answer:
    """Report the value of a fact; return the fact."""
    target, name = _fact_of(call)
    _check_approver(call.caller, name)
    facts = call.runtime.facts
    team_id = call.caller.team_for(call.body.team_id)
    with _require_if_match(call, team_id) as connection:
        reported = facts.report(
            target, name, call.body.value, team_id=team_id, by=call.caller.name, connection=connection
        )
        fact = facts.get(target, name, team_id=team_id, connection=connection)
    return _answer(fact).extended(ReportedFact, **reported._asdict())


def get_fact(call: Call[TeamQuery, EmptyRequest]) -> Answer:
    """Return the current value of a fact."""
    return _answer(call.runtime.facts.get(*_fact_of(call), team_id=_team_of(call)))


def get_fact_history(call: Call[FactHistoryQuery, EmptyRequest]) -> Answer:
    """Return the latest changes of a fact, newest first, even if the fact was deleted."""
    changes = call.runtime.facts.history(*_fact_of(call), team_id=_team_of(call), limit=call.query.limit)
    if not changes:
        raise UnknownFact(**call.path)
    return Answer(FactHistory.model_validate({"changes": changes}))


def delete_fact(call: Call[TeamQuery, EmptyRequest]) -> Answer:
    """Delete a fact and return its last value."""
    target, name = _fact_of(call)
    _check_approver(call.caller, name)
    team_id = _team_of(call)
    facts = call.runtime.facts
    with _require_if_match(call, team_id) as connection:
        fact = facts.get(target, name, team_id=team_id, connection=connection)
        facts.delete(target, name, team_id=team_id, by=call.caller.name, connection=connection)
    return Answer(FactDocument.model_validate(fact))


def _check_approver(caller: Caller, name: str) -> None:
    """Check that the caller may report or delete a fact of this name.

    Raises:
        Forbidden: The fact is the approval of another token, and the caller is not an admin.
    """
    own = f"{APPROVAL}:{caller.own_name}"
    if name.startswith(f"{APPROVAL}:") and name != own and not caller.role.includes(Role.ADMIN):
        raise Forbidden(f'"{name}" is the approval of another token: use "{own}", or an admin token')


def _require_if_match(call: Call[Any, Any], team_id: str | None) -> Locked:
    lock = partial(call.runtime.facts.locked, *_fact_of(call), team_id=team_id)
    return require_if_match(call, lock, _without_report)


def _without_report(fact: Fact) -> FactDocument:
    """Return a fact without its last report, so that reporting the same value again does not change the ETag."""
    return FactDocument.model_validate(replace(fact, reported_at=fact.changed_at, reported_by=None))


def _answer(fact: Fact) -> Answer:
    return Answer.with_etag(FactDocument.model_validate(fact), version=_without_report(fact))


def _fact_of(call: Call[Any, Any]) -> tuple[dict[str, str], str]:
    return {"type": call.path["target_type"], "id": call.path["target_id"]}, call.path["name"]


def _team_of(call: Call[Any, Any]) -> str | None:
    """Return the team of the fact: the caller's team, else the team in the query; None: a fact without a team.

    Raises:
        UnknownFact: The caller may not see the team in the query.
    """
    if not call.sees_team:
        raise UnknownFact(**call.path)
    return call.team_filter


_PATH = "/facts/{target_type}/{target_id}/{name}"
_ETAG = {"ETag": "Version of the fact, for If-Match; reporting the same value again does not change the version."}

ROUTES = (
    Route(
        "GET", "/facts", list_facts, "List facts, newest first",
        tag="Facts", query=FactsQuery, answers={HTTPStatus.OK: (FactPage, "A page of facts.")},
    ),
    Route(
        "PUT", _PATH, report_fact, "Report a fact", tag="Facts",
        description="If the value changed, the next tick wakes the actions that wait for the fact. Only the token "
        "called NAME, or an admin, may report `approval:NAME`.",
        body=ReportFactRequest, answers={HTTPStatus.OK: (ReportedFact, "The fact.")},
        refuses=(InvalidArgument, TooLarge, UnknownFact), headers=_ETAG, takes_if_match=True,
    ),
    Route(
        "GET", _PATH, get_fact, "Get a fact", tag="Facts",
        query=TeamQuery, answers={HTTPStatus.OK: (FactDocument, "The fact.")}, headers=_ETAG,
        refuses=(UnknownFact, InvalidArgument),
    ),
    Route(
        "DELETE", _PATH, delete_fact, "Delete a fact", tag="Facts",
        description="The history of the fact is kept. The next tick wakes the actions that wait for the fact. Only the "
        "token called NAME, or an admin, may delete `approval:NAME`.",
        query=TeamQuery,
        answers={HTTPStatus.OK: (FactDocument, "The deleted fact.")}, refuses=(UnknownFact, InvalidArgument),
        takes_if_match=True,
    ),
    Route(
        "GET", f"{_PATH}/history", get_fact_history, "List the latest changes of a fact, newest first",
        tag="Facts", query=FactHistoryQuery,
        answers={HTTPStatus.OK: (FactHistory, "The changes, newest first.")},
        refuses=(UnknownFact, InvalidArgument),
    ),
)  # fmt: skip
