"""Facts over HTTP: report, list, show, remove."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from scheduled_actions.conditions.rules.kinds import APPROVAL
from scheduled_actions.core.errors import InvalidArgument, TooLarge, UnknownFact
from scheduled_actions.core.pages import page_of
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.facts import models
from scheduled_actions.web.api.requests.etags import as_it_was_seen, etag_of
from scheduled_actions.web.api.requests.refusals import Forbidden
from scheduled_actions.web.api.routing import Answer, Call, Route

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from scheduled_actions.conditions.fact import Fact
    from scheduled_actions.conditions.facts import Facts
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.web.api.auth.authentication import Caller


def list_facts(call: Call) -> Answer:
    """Answer a page of the facts that match; of another team there are none."""
    query: models.FactsQuery = call.query
    if not call.caller.sees(query.team_id):
        return Answer(models.FactsPage(facts=[], next_cursor=None))
    read = partial(
        _facts(call).find,
        target_type=query.target_type,
        target_id=query.target_id,
        name=query.name,
        team_id=call.caller.team_id or query.team_id,
        cursor=query.cursor,
    )
    found, next_cursor = page_of(lambda limit: read(limit=limit), query.limit)
    return Answer(models.FactsPage(facts=[models.Fact.model_validate(one) for one in found], next_cursor=next_cursor))


def report(call: Call) -> Answer:
    """Say what is so; answer the fact."""
    given: models.NewFact = call.body
    target, name = _meant(call)
    _check_approver(call.caller, name)
    team_id = call.caller.team_for(given.team_id)
    with _as_it_was_seen(call, team_id) as connection:
        reported = _facts(call).report(
            target, name, given.value, team_id=team_id, by=call.caller.name, connection=connection
        )
        fact = _facts(call).get(target, name, team_id=team_id, connection=connection)
    told = _told(fact)
    shown = models.ReportedFact(
        **dict(models.Fact.model_validate(fact)), changed=reported.changed, awaited=reported.awaited
    )
    return replace(told, document=shown)


def show(call: Call) -> Answer:
    """Answer one fact."""
    target, name = _meant(call)
    return _told(_facts(call).get(target, name, team_id=_team(call, target, name)))


def history(call: Call) -> Answer:
    """Answer the latest values of a fact; one that was never reported has none."""
    target, name = _meant(call)
    changes = _facts(call).history(target, name, team_id=_team(call, target, name), limit=call.query.limit)
    if not changes:
        raise UnknownFact(target["type"], target["id"], name)
    return Answer(models.FactHistory(changes=[models.FactChange(**one._asdict()) for one in changes]))


def delete(call: Call) -> Answer:
    """Forget a fact; answer it as it was."""
    target, name = _meant(call)
    _check_approver(call.caller, name)
    team_id = _team(call, target, name)
    with _as_it_was_seen(call, team_id) as connection:
        fact = _facts(call).get(target, name, team_id=team_id, connection=connection)
        _facts(call).delete(target, name, team_id=team_id, by=call.caller.name, connection=connection)
    return Answer(models.Fact.model_validate(fact))


def _check_approver(caller: Caller, name: str) -> None:
    """Return if the caller may report the fact, or forget it: an approval counts as given by whom its name says.

    Raises:
        Forbidden: It is another person's approval, and the caller is not an admin.
    """
    own = f"{APPROVAL}:{caller.own_name}"
    if name.startswith(f"{APPROVAL}:") and name != own and not caller.role.includes(Role.ADMIN):
        raise Forbidden(f'an approval carries the name of its token: report "{own}", or use an admin token')


def _as_it_was_seen(call: Call, team_id: str | None) -> AbstractContextManager[Connection | None]:
    return as_it_was_seen(call, partial(_locked, call, team_id), _as_reported)


def _locked(
    call: Call, fact_team_id: str | None, _: str, *, team_id: str | None, connection: Connection | None
) -> AbstractContextManager[tuple[Fact, Connection]]:
    """Lock the fact of the path: that of the team asked for, which a caller of no team names."""
    del team_id
    target, name = _meant(call)
    return _facts(call).locked(target, name, team_id=fact_team_id, connection=connection)


def _as_reported(fact: Fact) -> models.Fact:
    """Return it without when it was reported last: the same value again is no change."""
    return models.Fact.model_validate(replace(fact, reported_at=fact.changed_at, reported_by=None))


def _told(fact: Fact) -> Answer:
    return Answer(models.Fact.model_validate(fact), headers={"ETag": etag_of(_as_reported(fact))})


def _facts(call: Call) -> Facts:
    return call.runtime.facts


def _meant(call: Call) -> tuple[dict[str, str], str]:
    return {"type": call.path["target_type"], "id": call.path["target_id"]}, call.path["name"]


def _team(call: Call, target: dict[str, str], name: str) -> str | None:
    """Return whose fact is asked for; another team's answers as one that was never reported."""
    if not call.caller.sees(call.query.team_id):
        raise UnknownFact(target["type"], target["id"], name)
    return call.caller.team_id or call.query.team_id


_ONE = "/facts/{target_type}/{target_id}/{name}"
_ETAG = {"ETag": "For If-Match: names the fact by its value; the same value reported again is the same."}

ROUTES = (
    Route(
        method="GET", path="/facts", function=list_facts, role=Role.VIEWER, tag="Facts",
        summary="List facts, the newest first", query=models.FactsQuery,
        answers={HTTPStatus.OK: (models.FactsPage, "A page.")},
    ),
    Route(
        method="PUT", path=_ONE, function=report, role=Role.OPERATOR, tag="Facts", summary="Say what is so of a thing",
        description="What waits for it is due at once. The same value again changes nothing. `approval:NAME` is taken "
        "only from the token of that name, and from admins.", body=models.NewFact,
        answers={HTTPStatus.OK: (models.ReportedFact, "The fact as it is now.")},
        refuses=(InvalidArgument, TooLarge, UnknownFact),
        headers=_ETAG, takes_if_match=True,
    ),
    Route(
        method="GET", path=_ONE, function=show, role=Role.VIEWER, tag="Facts", summary="Show a fact",
        query=models.FactQuery, answers={HTTPStatus.OK: (models.Fact, "The fact.")}, headers=_ETAG,
        refuses=(UnknownFact, InvalidArgument),
    ),
    Route(
        method="DELETE", path=_ONE, function=delete, role=Role.OPERATOR, tag="Facts", summary="Forget a fact",
        description="Its history stays.", query=models.FactQuery,
        answers={HTTPStatus.OK: (models.Fact, "The fact as it was.")}, refuses=(UnknownFact, InvalidArgument),
        takes_if_match=True,
    ),
    Route(
        method="GET", path=f"{_ONE}/history", function=history, role=Role.VIEWER, tag="Facts",
        summary="Show the latest values of a fact", query=models.HistoryQuery,
        answers={HTTPStatus.OK: (models.FactHistory, "The values, the newest first.")},
        refuses=(UnknownFact, InvalidArgument),
    ),
)  # fmt: skip
