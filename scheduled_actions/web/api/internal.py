"""The API's routes for one caller, whoever carries the questions: HTTP, or a page of the dashboard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from scheduled_actions.web.api.models import Nothing
from scheduled_actions.web.api.requests.refusals import UnknownRoute
from scheduled_actions.web.api.requests.validation import checked
from scheduled_actions.web.api.routes import ROUTES
from scheduled_actions.web.api.routing import Call, Router

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.actions.management import Management
    from scheduled_actions.runtime import Runtime
    from scheduled_actions.web.api.auth.authentication import Caller
    from scheduled_actions.web.api.models import Given
    from scheduled_actions.web.api.routing import Answer, Route


@cache
def router() -> Router[Route]:
    """Return what finds the API's routes."""
    return Router(ROUTES)


@cache
def words_beside_ids() -> frozenset[str]:
    """Return the words that stand in paths where an id may, such as `counts` in `/actions/counts`: no id is one."""
    split = [route.path.split("/") for route in ROUTES]
    before_id = {tuple(parts[: parts.index("{id}")]) for parts in split if "{id}" in parts}
    return frozenset(
        parts[len(before)]
        for before in before_id
        for parts in split
        if tuple(parts[: len(before)]) == before and len(parts) > len(before) and parts[len(before)] != "{id}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where one caller asks: what it may, and of which team, is the same however the question comes."""

    runtime: Runtime
    management: Management
    caller: Caller
    #: Where the API hangs: what an address of it begins with.
    base: str

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        if_match: str | None = None,
    ) -> Answer:
        """Return what a route answers to this caller.

        Args:
            method: As over HTTP.
            path: Below `/api/v1`.
            query: What would stand behind the question mark.
            body: As JSON would have it.
            if_match: The ETag of what the caller has seen.

        Raises:
            ScheduledActionsError: What the route, or what stands before every route, refuses.
        """
        found = router().find(path)
        if found is None or method not in found[0]:
            raise UnknownRoute(path)
        route = found[0][method]
        self.caller.must_be(route.role)
        call = self.call(
            found[1],
            query=checked(route.query, dict(query or {}), whole="query"),
            body=checked(route.body or Nothing, dict(body or {}), whole="body"),
            if_match=if_match,
        )
        if not route.creates:
            return route.function(call)
        with self.runtime.database.connection() as connection, connection.transaction():
            return route.function(replace(call, connection=connection))

    def call(self, named: Mapping[str, str], *, query: Given, body: Given, if_match: str | None) -> Call:
        """Return what a route's function is given."""
        return Call(
            runtime=self.runtime,
            management=self.management,
            caller=self.caller,
            base=self.base,
            path=named,
            query=query,
            body=body,
            if_match=if_match,
        )
