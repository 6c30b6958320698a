"""Parse the fields of forms, and build the pages that create and edit one kind of object with a form.

An edit saves only the fields that differ from the form as it was shown, and only if the object has not changed since
then.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote
from zoneinfo import ZoneInfo

from werkzeug.datastructures import MultiDict

from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.problems import PreconditionFailed
from scheduled_actions.web.dashboard.page import DashboardPage, Document, Redirect, RequestContext, View
from scheduled_actions.web.dashboard.times import from_input

Form: TypeAlias = MultiDict[str, str]
#: Converts the text of a field to its value. Arguments: name, text (not empty), and the viewer's time zone.
Parser: TypeAlias = Callable[[str, str, ZoneInfo], Any]
#: The name of the hidden field with the form as it was shown.
FIELD = "seen"
_STALE = (
    "The object has changed since this form was opened, so nothing was saved. Copy your input, open the form again, "
    "and repeat your change."
)
_DIGITS_MOST = 300
_COUNT_DIGITS_MOST = 9


def as_text(_name: str, text: str, _zone: ZoneInfo) -> str:
    """Return the text unchanged."""
    return text


def as_flag(_name: str, _text: str, _zone: ZoneInfo) -> bool:
    """Return True: browsers send a checkbox only if it is checked."""
    return True


def as_number(name: str, text: str, _zone: ZoneInfo) -> float | str:
    """Parse a number in JSON notation; return other text unchanged, so that the API's error names the field."""
    try:
        value = json_text.decode(text, name=name) if len(text) <= _DIGITS_MOST else text
    except InvalidArgument:
        return text
    return value if isinstance(value, int | float) and not isinstance(value, bool) else text


def as_lines(_name: str, text: str, _zone: ZoneInfo) -> list[str]:
    """Return the lines that are not blank, without spaces around them."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def as_json(name: str, text: str, _zone: ZoneInfo) -> Any:  # noqa: ANN401 - any JSON
    """Decode JSON.

    Raises:
        InvalidArgument: The text is not valid JSON.
    """
    return json_text.decode(text, name=name)


def as_instant(_name: str, text: str, zone: ZoneInfo) -> str:
    """Convert a local time of the viewer to ISO 8601 in UTC; return other text unchanged."""
    return from_input(text, zone)


def count_in(context: RequestContext, name: str) -> int:
    """Return the count in a hidden field; 0 if the field is missing or invalid."""
    text = context.form.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= _COUNT_DIGITS_MOST else 0


def local_time(context: RequestContext, name: str, text: str) -> datetime:
    """Parse a local time of the viewer; return the instant in UTC.

    Raises:
        InvalidArgument: The text is not a local time.
    """
    try:
        return datetime.fromisoformat(from_input(text, context.zone)).astimezone(UTC)
    except ValueError:
        raise InvalidArgument(name, text, "a local time, such as 2026-03-29T00:00") from None


def parse_fields(form: Mapping[str, str], zone: ZoneInfo, parsers: Mapping[str, Parser]) -> dict[str, Any]:
    """Parse the form fields that are not empty; return their values by name.

    Raises:
        InvalidArgument: The text of a field is malformed.
    """
    return {name: parse(name, text, zone) for name, parse in parsers.items() if (text := form.get(name, "").strip())}


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not None, by name."""
    return {name: value for name, value in values.items() if value is not None}


def pretty(value: object) -> str:
    """Format a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def command(
    path: str,
    verb: str,
    said: str,
    parsers: Mapping[str, Parser] | None = None,
    *,
    method: str = "POST",
    body: Mapping[str, Any] | None = None,
    leads_to: str | None = None,
) -> DashboardPage:
    """Build the POST page of a button: it calls a route of the API, then redirects with a message.

    Args:
        path: The path of an object, with `{id}`.
        verb: The last part of the page's path: `pause`. With POST, the API's route has the same path as the page; with
            another method it has the path of the object.
        said: The message on the next page.
        parsers: The form fields that are sent in the body, by name.
        method: The HTTP method of the API's route.
        body: Values of the body in addition to the form fields.
        leads_to: The path of the next page; `{0}` is the document of the API's response: `/actions/{0.id}`. None: the
            page of the object.
    """

    def post(context: RequestContext) -> Redirect:
        route = path.replace("{id}", context.path["id"])
        document = context.call(
            method,
            f"{route}/{verb}" if method == "POST" else route,
            body=parse_fields(context.form, context.zone, parsers or {}) | dict(body or {}),
            if_match=context.form.get("etag"),
        )
        next_page = leads_to.format(document) if leads_to else path.replace("{id}", quote(context.path["id"], safe=""))
        return Redirect(next_page, said)

    return DashboardPage("POST", f"{path}/{verb}", post, role=Role.OPERATOR)


class Seen(NamedTuple):
    """A form as it was shown."""

    #: The ETag of the object; None if the form does not carry it.
    etag: str | None
    #: The initial values of the fields.
    form: Form


@dataclass(frozen=True, kw_only=True)
class ObjectForm:
    """The form that creates and edits one kind of object."""

    #: The path of the objects, in the dashboard and in the API.
    path: str
    template: str
    #: Returns the initial form fields of an existing object.
    filled: Callable[[RequestContext, Document], Form]
    #: Converts form fields to the body of an API request, given the object to change (None: a new one); the value of an
    #: empty field is None.
    body: Callable[[RequestContext, Form, Document | None], dict[str, Any]]
    #: Returns the template's values, given the object (None: a new one) and the fields to show.
    values: Callable[[RequestContext, Document | None, Form], dict[str, Any]]
    #: Returns the redirect after a creation, given the new object and the HTTP status.
    created: Callable[[Document, int], Redirect]
    #: Returns the message after a change, given the changed object.
    saved: Callable[[Document], str]

    @property
    def pages(self) -> tuple[DashboardPage, ...]:
        """The pages that show and submit the form, for new and for existing objects."""
        return (
            # The query has the initial values.
            DashboardPage("GET", f"{self.path}/new", lambda one: self._view(one, one.query), role=Role.OPERATOR),
            DashboardPage("POST", f"{self.path}/new", self._create, role=Role.OPERATOR),
            DashboardPage("GET", f"{self.path}/{{id}}/edit", self._show_edit, role=Role.OPERATOR),
            DashboardPage("POST", f"{self.path}/{{id}}/edit", self._change, role=Role.OPERATOR),
        )

    def _create(self, context: RequestContext) -> View | Redirect:
        """Create an object, or show the form again with the error."""
        try:
            answer = context.api.call("POST", self.path, body=without_none(self.body(context, context.form, None)))
        except ScheduledActionsError as error:
            return self._view(context, context.form, error=error)
        return self.created(answer.document, answer.status)

    def _show_edit(self, context: RequestContext) -> View:
        """Show the form of an existing object."""
        answer = context.api.call("GET", f"{self.path}/{context.path['id']}")
        seen = Seen(answer.headers["ETag"], self.filled(context, answer.document))
        return self._view(context, seen.form, answer.document, seen=seen)

    def _change(self, context: RequestContext) -> View | Redirect:
        """Save the fields that the user changed, or show the form again with the error."""
        current = context.call("GET", f"{self.path}/{context.path['id']}")
        try:
            seen = seen_of(context.form, self.filled(context, current))
            body = self.changes(context, current, seen)
            saved = context.call("PATCH", f"{self.path}/{current.id}", body=body, if_match=seen.etag)
        except ScheduledActionsError as error:
            return self._view(context, context.form, current, error=error)
        return Redirect(f"{self.path}/{quote(str(current.id), safe='')}", self.saved(saved))

    def changes(self, context: RequestContext, current: Document, seen: Seen) -> dict[str, Any]:
        """Return the fields that the user changed: the fields whose values differ from those of the unchanged form."""
        shown = self.body(context, seen.form, current)
        asked = self.body(context, context.form, current)
        return {name: value for name, value in asked.items() if name not in shown or value != shown[name]}

    def _view(
        self,
        context: RequestContext,
        given: Form,
        current: Document | None = None,
        *,
        error: ScheduledActionsError | None = None,
        seen: Seen | None = None,
    ) -> View:
        status, problem = HTTPStatus.OK, None
        if error is not None:
            status, problem = HTTPStatus.BAD_REQUEST, str(error)
        if isinstance(error, PreconditionFailed):
            status, problem = HTTPStatus.PRECONDITION_FAILED, _STALE
        hidden = context.form.get(FIELD)
        if seen is not None:
            hidden = json.dumps({"etag": seen.etag, "fields": list(seen.form.items(multi=True))})
        values = self.values(context, current, given) | {"seen": hidden, "problem": problem}
        return View(self.template, values, status)


def seen_of(form: Form, current: Form) -> Seen:
    """Return the form as it was shown.

    Args:
        form: The submitted form.
        current: The form fields of the object now; used for a form without the hidden field.

    Raises:
        InvalidArgument: The hidden field is malformed.
    """
    if FIELD not in form:
        return Seen(None, current)
    try:
        found = json.loads(form[FIELD])
        etag = None if found["etag"] is None else str(found["etag"])
        return Seen(etag, MultiDict([(str(name), str(value)) for name, value in found["fields"]]))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidArgument(FIELD, problem="(a hidden field of the form) is malformed: open the form again") from None
