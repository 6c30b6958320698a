"""Routes of the management API, their calls and responses, and the router that finds routes by path."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from http import HTTPStatus
from typing import Any, Generic, Protocol, Self, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel
from werkzeug.http import parse_etags

from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.core.pages import read_page
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.transactions import borrowed_connection
from scheduled_actions.operations.tokens import Role
from scheduled_actions.runtime import Runtime
from scheduled_actions.web.api.auth import Caller
from scheduled_actions.web.api.models import EmptyRequest, RequestModel
from scheduled_actions.web.api.problems import PreconditionFailed

#: The default maximum size of a body, in bytes.
BODY_LIMIT = 1024 * 1024

Query = TypeVar("Query", bound=RequestModel)
Body = TypeVar("Body", bound=RequestModel)
Thing = TypeVar("Thing")


@dataclass(frozen=True, kw_only=True)
class CallContext:
    """The context of a call: the project, the caller, and the path of the API."""

    runtime: Runtime
    caller: Caller
    #: The URL path under which the API is mounted.
    base: str


@dataclass(frozen=True, kw_only=True)
class Call(CallContext, Generic[Query, Body]):
    """A validated request, as the function of its route receives it."""

    #: The variable parts of the path, by name.
    path: Mapping[str, str]
    query: Query
    body: Body
    #: The If-Match header; None without one.
    if_match: str | None
    #: The transaction of a route that `creates`; None for other routes.
    connection: Connection | None = None

    def borrowed(self) -> AbstractContextManager[Connection]:
        """Return a context manager that yields the transaction's connection or, without a transaction, a new one."""
        return borrowed_connection(self.runtime.database, self.connection)

    @property
    def reference(self) -> str:
        """The id or name in the path."""
        return self.path.get("id", self.path.get("name", ""))

    @property
    def team_filter(self) -> str | None:
        """The team that limits a list: the caller's team, else the team in the query; None: all teams."""
        return self.caller.team_id or getattr(self.query, "team_id", None)

    @property
    def filters(self) -> dict[str, Any]:
        """The fields of the query by name, without `limit`; `team_id` has the value of `team_filter`."""
        return {**self.query.model_dump(exclude={"limit"}), "team_id": self.team_filter}

    @property
    def sees_team(self) -> bool:
        """Whether the caller may see the team in the query; True without a team in the query."""
        return self.caller.sees(getattr(self.query, "team_id", None))


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a route."""

    document: BaseModel
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def with_etag(cls, document: BaseModel, *, version: BaseModel | None = None) -> Self:
        """Return a response with the ETag of `version`, which is the document by default."""
        return cls(document, headers={"ETag": etag_of(version or document)})

    def located(self, path: str, *, is_new: bool) -> Self:
        """Return the response with `path` as its Location, and with status 201 if the resource is new, else 200."""
        return replace(
            self,
            status=HTTPStatus.CREATED if is_new else HTTPStatus.OK,
            headers={**self.headers, "Location": path},
        )

    def extended(self, model: type[BaseModel], **fields: Any) -> Self:  # noqa: ANN401 - values of any fields
        """Return the response with its document converted to another model, which has additional fields."""
        return replace(self, document=model.model_validate({**dict(self.document), **fields}))


@dataclass(frozen=True, slots=True)
class Route:
    """A method and path of the API, with its documentation; `function.__name__` is the operation id in OpenAPI."""

    method: str
    #: The path below `/api/v1`, with variable parts in braces: `/actions/{id}`.
    path: str
    function: Callable[[Call[Any, Any]], Answer]
    summary: str
    _: KW_ONLY
    description: str = ""
    #: Groups the routes in the documentation.
    tag: str
    #: The lowest role that may call the route; None: `viewer` for GET, else `operator`.
    least_role: Role | None = None
    query: type[RequestModel] = EmptyRequest
    body: type[RequestModel] | None = None
    is_body_optional: bool = False
    body_limit: int = BODY_LIMIT
    #: The model and the description of each successful response.
    answers: Mapping[HTTPStatus, tuple[type[BaseModel], str]]
    #: Errors in addition to those of every route, which `openapi/document.py` lists.
    refuses: tuple[type[ScheduledActionsError], ...] = ()
    #: Whether the route runs in a transaction and accepts an Idempotency-Key.
    creates: bool = False
    #: The field of the response that is not stored for the Idempotency-Key: null in a replayed response.
    shown_once: str | None = None
    takes_if_match: bool = False
    #: Descriptions of response headers, by name.
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def role(self) -> Role:
        """The lowest role that may call the route."""
        return self.least_role or (Role.VIEWER if self.method == "GET" else Role.OPERATOR)


def page_answer(call: Call[Any, Any], page: type[BaseModel], read: Callable[..., Sequence[Any]]) -> Answer:
    """Return a page of rows; an empty page for a team that the caller may not see.

    Args:
        call: The request; its query has the `limit`.
        page: The model of the response: `next_cursor`, and the field that holds the rows.
        read: Returns at most `limit` rows, which have ids, in the order of the page.
    """
    return found_page(call, page, lambda limit: read_page(lambda most: read(limit=most), limit))


def found_page(
    call: Call[Any, Any], page: type[BaseModel], find: Callable[..., tuple[Sequence[Any], object]]
) -> Answer:
    """Return a page as `page_answer` does; `find` takes `limit` and returns the rows and the next page's cursor."""
    rows, next_cursor = find(limit=call.query.limit) if call.sees_team else ((), None)
    (name,) = page.model_fields.keys() - {"next_cursor"}
    return Answer(page.model_validate({name: rows, "next_cursor": next_cursor}))


def etag_of(shown: BaseModel) -> str:
    """Return the strong ETag of a representation, including the quotes."""
    return f'"{hashlib.sha256(shown.model_dump_json().encode()).hexdigest()[:32]}"'


#: Yields the connection that holds the lock of a resource; without If-Match, the connection of the call or None.
Locked = AbstractContextManager[Connection | None]


@contextmanager
def require_if_match(
    call: Call[Any, Any],
    lock: Callable[..., AbstractContextManager[tuple[Thing, Connection]]],
    show: Callable[[Thing], BaseModel],
) -> Iterator[Connection | None]:
    """Lock a resource and compare its ETag with If-Match; yield the connection that holds the lock.

    Args:
        call: The request. Without If-Match, nothing is locked and `call.connection` is yielded.
        lock: Takes a connection, which can be None, and locks the resource; yields the resource and the connection.
        show: Returns the representation that the ETag identifies.

    Raises:
        ScheduledActionsError: Any error of `lock`, for example that the resource does not exist (in that team).
        PreconditionFailed: The resource has changed since the caller read it.
    """
    if call.if_match is None:
        yield call.connection
        return
    with lock(connection=call.connection) as (thing, connection):
        etag = etag_of(show(thing))
        if not parse_etags(call.if_match).contains(etag.strip('"')):
            raise PreconditionFailed(call.reference, etag)
        yield connection


class Routable(Protocol):
    """A route: a method and a path."""

    @property
    def method(self) -> str:
        """The HTTP method."""

    @property
    def path(self) -> str:
        """The path, with variable parts in braces."""


RouteType = TypeVar("RouteType", bound=Routable)


class Router(Generic[RouteType]):
    """Finds routes by path."""

    def __init__(self, routes: Iterable[RouteType]) -> None:
        templates: dict[tuple[str, ...], dict[str, RouteType]] = {}
        for route in routes:
            templates.setdefault(_parts(route.path), {})[route.method] = route
        # Fixed parts take precedence over variable ones: `/actions/counts` is not an action.
        self._templates = sorted(templates.items(), key=lambda item: [part.startswith("{") for part in item[0]])

    def find(
        self, path: str, parts: tuple[str, ...] | None = None
    ) -> tuple[Mapping[str, RouteType], Mapping[str, str]] | None:
        """Return the routes of a path by method, and the values of its variable parts; None if no route matches.

        Args:
            path: Decoded; a trailing slash is ignored.
            parts: The parts of the path, which may contain slashes; None: the path is split at its slashes.
        """
        parts = _parts(path) if parts is None else parts
        for template, by_method in self._templates:
            if len(parts) == len(template):
                named = dict(zip(template, parts, strict=True))
                if all(name == part or (name.startswith("{") and part) for name, part in named.items()):
                    return by_method, {name[1:-1]: part for name, part in named.items() if name.startswith("{")}
        return None


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))


def undecoded_parts(path: str, target: str | None) -> tuple[str, ...] | None:
    """Split a path before decoding it, so that `%2F` does not separate parts; return the decoded parts.

    Args:
        path: The end of the request's path, decoded.
        target: The request target as the server received it; None if the server does not provide it.

    Returns:
        None if the target is unknown, has no `%2F`, or does not end with the path, for example behind a proxy that
        rewrites paths.
    """
    if target is None or "%2f" not in target.lower():
        return None
    parts = tuple(unquote(part) for part in target.partition("?")[0].rstrip("/").split("/"))
    ends = (parts[start:] for start in reversed(range(len(parts))))
    return next((end for end in ends if "/".join(end) == path.strip("/")), None)
