"""What a page is, what it is given, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from scheduled_actions.core import json_text
from scheduled_actions.database.clock import now as database_now
from scheduled_actions.operations.tokens import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from werkzeug.datastructures import MultiDict

    from scheduled_actions.runtime import Runtime
    from scheduled_actions.web.api.auth.authentication import Caller
    from scheduled_actions.web.api.internal import Desk
    from scheduled_actions.web.api.routing import Answer


@dataclass(frozen=True, slots=True)
class View:
    """A page: a template, and what it shows."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Moved:
    """What a change answers: where to look now."""

    #: Below the dashboard, with what stands behind its question mark.
    path: str
    #: Told there, once.
    said: str | None = None
    #: Shown there, once: what nobody may read on the way, such as a secret. A reload shows it no more.
    shown: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Raw:
    """A text as it is, for programs and for saving."""

    text: str
    media_type: str = "application/json"
    #: What a browser saves it as; None: it shows it.
    filename: str | None = None


@dataclass(frozen=True, slots=True)
class Nav:
    """A page's place in the navigation."""

    label: str
    #: A name of `icons.html`.
    icon: str
    #: Not shown to those who see one team alone.
    is_of_no_team: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """One method of one address."""

    method: str
    #: Below `/dashboard`, with its parts in braces: `/actions/{id}`.
    path: str
    function: Callable[[Visit], View | Moved | Raw]
    #: The least role that may open it.
    role: Role = Role.VIEWER
    nav: Nav | None = None


class Visit:
    """One request to a page, by somebody who has signed in.

    Args:
        desk: The API, as this caller may use it.
        base: Where the dashboard hangs: what its addresses begin with.
        here: The address of the page below `base`, with what stands behind its question mark.
        path: The parts of the address in braces, by name.
        query: What stands behind the question mark.
        form: What was sent.
        zone: Where the viewer's clock is.
        shown: What the change before leaves to be shown here, once.
    """

    def __init__(
        self,
        *,
        desk: Desk,
        base: str,
        here: str,
        path: Mapping[str, str],
        query: MultiDict[str, str],
        form: MultiDict[str, str],
        zone: ZoneInfo,
        shown: Mapping[str, Any],
    ) -> None:
        self.desk = desk
        self.base = base
        self.here = here
        self.path = path
        self.query = query
        self.form = form
        self.zone = zone
        self.shown = shown

    @property
    def caller(self) -> Caller:
        """Who looks."""
        return self.desk.caller

    @property
    def runtime(self) -> Runtime:
        """The project's parts."""
        return self.desk.runtime

    @cached_property
    def now(self) -> datetime:
        """The database's present moment, in UTC."""
        with self.runtime.database.connection() as connection:
            return database_now(connection)

    def ask(self, method: str, path: str, **given: Any) -> Any:  # noqa: ANN401 - the route's own document
        """Return the document that a route of the API answers; see `Desk.ask`."""
        return self.asked(method, path, **given).document

    def asked(self, method: str, path: str, **given: Any) -> Answer:  # noqa: ANN401 - as Desk.ask
        """Return the whole answer of a route of the API; see `Desk.ask`."""
        return self.desk.ask(method, path, **given)

    def may(self, role: str) -> bool:
        """Whether the caller may do what a role may."""
        return self.caller.role.includes(Role(role))

    def link(self, path: str, **query: object) -> str:
        """Return the address of a page; what is None or empty is left out."""
        return address(self.base + path, query)

    def given(self, *names: str) -> dict[str, str]:
        """Return those fields of what was sent that hold something."""
        return {name: text for name in names if (text := self.form.get(name, "").strip())}

    def json(self, name: str, *, inside: str = "") -> Any:  # noqa: ANN401 - any JSON
        """Return the JSON of a field of what was sent.

        Raises:
            InvalidArgument: It is none; `inside` is what it is called, where that is not the field's name.
        """
        return json_text.decode(self.form.get(name, ""), name=inside or name)


def address(path: str, query: Mapping[str, object]) -> str:
    """Return a path with what stands behind its question mark; what is None or empty is left out."""
    pairs = [f"{_quoted(name)}={_quoted(str(value))}" for name, value in query.items() if value not in {None, ""}]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


@lru_cache(maxsize=1024)
def _quoted(text: str) -> str:
    """Return a text as it stands in an address; the same few stand in all the addresses of a page."""
    return quote_plus(text)


@dataclass(slots=True)
class Frame:
    """What stands around a page."""

    #: Stands in each of its forms; empty where there is nobody who could send one.
    csrf: str = ""
    theme: str = "auto"
    #: What the last change did, told once.
    said: str | None = None
    #: The pages of the navigation that the caller may open, each with whether it is the present one.
    pages: list[tuple[Page, bool]] = field(default_factory=list)
