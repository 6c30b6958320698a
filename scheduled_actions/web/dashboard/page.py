"""Define the pages of the dashboard: their paths, the request passed to a page, and the responses that it returns."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, TypeAlias
from urllib.parse import quote_plus
from zoneinfo import ZoneInfo

from werkzeug.datastructures import MultiDict

from scheduled_actions.database.clock import now as database_now
from scheduled_actions.operations.tokens import Role
from scheduled_actions.runtime import Runtime
from scheduled_actions.web.api.auth import Caller
from scheduled_actions.web.api.dispatch import InternalApi

#: A response document of the API; its model depends on the route.
Document: TypeAlias = Any
#: Rows on one page of a list.
ROWS = 50


@dataclass(frozen=True, slots=True)
class View:
    """A response that renders a template."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class HtmlPart:
    """A response that shows the HTML of a third party, which must not reach the session or the network."""

    html: str


@dataclass(frozen=True, slots=True)
class Redirect:
    """A response to a change that redirects to the next page."""

    #: The path below `/dashboard`, with its query.
    path: str
    #: A message that the next page shows once.
    said: str | None = None
    #: Values that the next page of this session shows once, such as a secret.
    shown: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Nav:
    """The entry of a page in the navigation."""

    label: str
    #: The name of an icon in `icons.html`.
    icon: str
    #: Whether the entry is hidden from callers bound to a team.
    is_of_no_team: bool = False
    #: Returns whether this project uses the page; otherwise, the entry is hidden.
    is_in_use: Callable[[Runtime], bool] = lambda _runtime: True


@dataclass(frozen=True, slots=True)
class DashboardPage:
    """One HTTP method of one path of the dashboard."""

    method: str
    #: The path below `/dashboard`, with parameters in braces: `/actions/{id}`.
    path: str
    #: Returns a string for plain text.
    function: "Callable[[RequestContext], View | HtmlPart | Redirect | str]"
    #: The lowest role that may open the page.
    role: Role = Role.VIEWER
    nav: Nav | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class RequestContext:
    """A request from a signed-in caller."""

    #: The API with this caller's rights.
    api: InternalApi
    #: The path of the dashboard on this host, such as `/dashboard`.
    base: str
    #: The path of the page below `base`, with its query.
    here: str
    #: The path parameters, by name.
    path: Mapping[str, str]
    query: MultiDict[str, str]
    form: MultiDict[str, str]
    #: The viewer's time zone.
    zone: ZoneInfo
    #: Values that the preceding change passes to this page, to be shown once.
    shown: Mapping[str, Any]

    @property
    def caller(self) -> Caller:
        """The signed-in caller."""
        return self.api.caller

    @property
    def runtime(self) -> Runtime:
        """The runtime of the project."""
        return self.api.runtime

    @cached_property
    def now(self) -> datetime:
        """The current time of the database's clock, in UTC; read once per request."""
        with self.runtime.database.connection() as connection:
            return database_now(connection)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        if_match: str | None = None,
    ) -> Any:  # noqa: ANN401 - the route's own document
        """Call a route of the API and return the document of its response.

        Raises:
            ScheduledActionsError: The route refuses the request, or the database is unavailable.
        """
        return self.api.call(method, path, query=query, body=body, if_match=if_match).document

    def list(self, path: str, name: str, *filters: str, limit: int = ROWS) -> dict[str, Any]:
        """Read one page of a list of the API; return the template values for the page.

        Args:
            path: The path of the list in the API.
            name: The field of the document that has the rows; also the name of the template value.
            filters: The query parameters that are passed to the API, in addition to `cursor`.
            limit: The maximum number of rows.

        Returns:
            The rows under `name`, `given` (the parameters that are not empty), `filters` (`given` without `cursor`),
            `next_cursor` (None on the last page) and `is_first`.

        Raises:
            ScheduledActionsError: The route refuses the request, for example because a filter is invalid.
        """
        given = {one: text for one in (*filters, "cursor") if (text := self.query.get(one, "").strip())}
        document = self.call("GET", path, query={**given, "limit": limit})
        return {
            name: getattr(document, name),
            "given": given,
            "filters": {one: text for one, text in given.items() if one != "cursor"},
            "next_cursor": document.next_cursor,
            "is_first": "cursor" not in given,
        }

    def may(self, role: str) -> bool:
        """Return whether the caller's role includes a role: `viewer`, `operator` or `admin`."""
        return self.caller.role.includes(Role(role))

    def choice(self, name: str, options: Iterable[str]) -> str:
        """Return the option that a query parameter names; the first option if the parameter is missing or invalid."""
        known = list(options)
        return next((one for one in known if one == self.query.get(name)), known[0])

    def link(self, path: str, **query: object) -> str:
        """Return the URL of a page of the dashboard; query values that are None or empty are omitted."""
        return address(self.base + path, query)

    def given(self, *names: str) -> dict[str, str]:
        """Return the named form fields that are not empty, by name, without surrounding spaces."""
        return {name: text for name in names if (text := self.form.get(name, "").strip())}


def address(path: str, query: Mapping[str, object]) -> str:
    """Return a path with a query; values that are None or empty are omitted."""
    pairs = [f"{_quoted(name)}={_quoted(str(value))}" for name, value in query.items() if value not in {None, ""}]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


#: Cached: the links of a page repeat the same few values.
_quoted = lru_cache(maxsize=1024)(quote_plus)


@dataclass(slots=True)
class PageContext:
    """Values for the frame of a page: navigation, theme, message and CSRF token."""

    #: The CSRF token of the forms; empty without a session.
    csrf: str = ""
    theme: str = "auto"
    #: The message of the preceding change; None: no message.
    said: str | None = None
    #: The navigation entries that the caller may open, each with whether it is the current page.
    pages: list[tuple[DashboardPage, bool]] = field(default_factory=list)
