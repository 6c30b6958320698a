"""What a route of the management API is, and which one a path means."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import unquote

from scheduled_actions.database.transactions import borrowed_connection
from scheduled_actions.web.api.models import Nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from pydantic import BaseModel

    from scheduled_actions.actions.management import Management
    from scheduled_actions.core.errors import ScheduledActionsError
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.operations.tokens import Role
    from scheduled_actions.runtime import Runtime
    from scheduled_actions.web.api.auth.authentication import Caller
    from scheduled_actions.web.api.models import Given

#: The largest body taken, in bytes, where a route does not say.
BODY_LIMIT = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, checked: what a route's function is given."""

    runtime: Runtime
    management: Management
    caller: Caller
    #: Where the routes hang: what an address begins with.
    base: str
    #: The parts of the path in braces, by name.
    path: Mapping[str, str]
    #: An instance of the route's own `query`.
    query: Any
    #: An instance of the route's own `body`; of `Nothing` where it has none.
    body: Any
    #: The If-Match header as it came; None where there was none.
    if_match: str | None
    #: In the transaction of a route that `creates`; None elsewhere.
    connection: Connection | None = None

    def borrowed(self) -> AbstractContextManager[Connection]:
        """Lend the connection of the transaction, or one of the project's own."""
        return borrowed_connection(self.runtime.database, self.connection)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a route's function answers."""

    document: BaseModel
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path; the OpenAPI document is made of these."""

    method: str
    #: Below `/api/v1`, with its parts in braces: `/actions/{id}`.
    path: str
    function: Callable[[Call], Answer]
    #: The least role that may ask.
    role: Role
    summary: str
    #: Further lines for people, in plain text.
    description: str = ""
    #: What it is about; routes are grouped by it.
    tag: str
    query: type[Given] = Nothing
    body: type[Given] | None = None
    #: Whether a body may be left out.
    is_body_optional: bool = False
    body_limit: int = BODY_LIMIT
    #: Each success: its model, and when it is answered.
    answers: Mapping[HTTPStatus, tuple[type[BaseModel], str]]
    #: The errors of its own; those that every route may answer are known.
    refuses: tuple[type[ScheduledActionsError], ...] = ()
    #: Runs in one transaction, and takes an Idempotency-Key.
    creates: bool = False
    #: The field of its answer that is shown only once: null in what is kept for its Idempotency-Key.
    shown_once: str | None = None
    #: Takes If-Match.
    takes_if_match: bool = False
    #: The headers of its successes, by name: what they say.
    headers: Mapping[str, str] = field(default_factory=dict)


class Located(Protocol):
    """What answers to a method at a path."""

    @property
    def method(self) -> str:
        """The method."""

    @property
    def path(self) -> str:
        """The path, with its parts in braces."""


Found = TypeVar("Found", bound=Located)


class Router(Generic[Found]):
    """Finds routes by path.

    Args:
        routes: All of them.
    """

    def __init__(self, routes: Iterable[Found]) -> None:
        templates: dict[tuple[str, ...], dict[str, Found]] = {}
        for route in routes:
            templates.setdefault(_parts(route.path), {})[route.method] = route
        # A word before a part in braces: `/actions/counts` is no action's id.
        self._templates = sorted(templates.items(), key=lambda item: [part.startswith("{") for part in item[0]])

    def find(
        self, path: str, parts: tuple[str, ...] | None = None
    ) -> tuple[Mapping[str, Found], Mapping[str, str]] | None:
        """Return the routes of a path by method, and its parts in braces; None where nothing answers.

        A slash at the end says nothing.

        Args:
            path: Decoded.
            parts: Of the path, where a part may hold a slash; None: each slash of the path divides parts.
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


def parts_as_sent(path: str, sent: str | None) -> tuple[str, ...] | None:
    """Return the parts of a path as they were divided before decoding: `%2F` does not divide.

    Args:
        path: Decoded; the end of the request's path.
        sent: The request's target as the server received it; None where it does not say.

    Returns:
        None where the two do not fit, as behind a proxy that rewrites paths.
    """
    if sent is None or "%2f" not in sent.lower():
        return None
    parts = [unquote(part) for part in sent.partition("?")[0].rstrip("/").split("/")]
    wanted = path.strip("/")
    found = next((parts[-n:] for n in range(1, len(parts) + 1) if "/".join(parts[-n:]) == wanted), None)
    return None if found is None else tuple(found)
