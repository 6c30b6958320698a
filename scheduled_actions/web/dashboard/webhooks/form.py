"""Making and changing an endpoint, and giving it a new secret, which is shown this once."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from werkzeug.datastructures import MultiDict

from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.dashboard.edits import FIELD, Seen, differing, said_of_edit, seen_of, status_of_edit
from scheduled_actions.web.dashboard.page import Moved, Page, View
from scheduled_actions.web.dashboard.webhooks.words import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.web.dashboard.page import Visit

_JSON = ("filter", "retry")
#: For how long the secret before may sign beside a new one, in seconds, and how it is told.
OVERLAPS = {"86400": "for a day", "604800": "for a week", "0": "no longer: it was stolen"}


def new(visit: Visit) -> View:
    """Show the form of a new endpoint."""
    return _form(visit, {"patterns": "*:*"} | dict(visit.query.items()), None)


def create(visit: Visit) -> View | Moved:
    """Make an endpoint and lead to its secret, or the form again with what is wrong."""
    try:
        body = {name: value for name, value in _body(visit.form).items() if value is not None}
        made = visit.ask("POST", "/webhooks/endpoints", body=body | visit.given("team_id", "secret"))
    except ScheduledActionsError as error:
        return _form(visit, visit.form, error)
    return _to_secret(made, is_new=True)


def edit(visit: Visit) -> View:
    """Show the form of an endpoint that is there."""
    answer = visit.asked("GET", f"/webhooks/endpoints/{visit.path['id']}")
    endpoint: Any = answer.document
    seen = Seen(answer.headers["ETag"], _filled(endpoint))
    return _form(visit, seen.form, None, endpoint, seen=seen)


def change(visit: Visit) -> View | Moved:
    """Change what is different in the form, or show the form again with what is wrong."""
    endpoint = visit.ask("GET", f"/webhooks/endpoints/{visit.path['id']}")
    try:
        seen = seen_of(visit.form, _filled(endpoint))
        body = differing(_body(visit.form), _body(seen.form))
        if "description" in body:
            body["description"] = body["description"] or ""
        if visit.form.get("no_headers"):
            body["headers"] = {}
        visit.ask("PATCH", f"/webhooks/endpoints/{endpoint.id}", body=body, if_match=seen.etag)
    except ScheduledActionsError as error:
        return _form(visit, visit.form, error, endpoint)
    return Moved(f"/webhooks/endpoints/{quote(endpoint.id, safe='')}", "Changed: the next delivery goes by it.")


def _filled(endpoint: Any) -> MultiDict[str, str]:  # noqa: ANN401 - as the API tells it
    """Return the fields of the form as an endpoint fills them in."""
    given = {
        "url": endpoint.url or "",
        "description": endpoint.description,
        "patterns": "\n".join(endpoint.patterns),
        "ordering": endpoint.ordering,
        "rate_limit": "" if endpoint.rate_limit is None else f"{endpoint.rate_limit:g}",
    }
    for name in _JSON:
        value = getattr(endpoint, name)
        given[name] = "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)
    return MultiDict(given)


def rotate(visit: Visit) -> Moved:
    """Give an endpoint a new secret and lead to it."""
    beside = visit.form.get("beside", "86400")
    if beside not in OVERLAPS:
        raise InvalidArgument("beside", beside, f"one of {', '.join(OVERLAPS)} seconds")
    body = {"beside": int(beside)} | visit.given("secret")
    path = f"/webhooks/endpoints/{visit.path['id']}/rotate"
    made = visit.ask("POST", path, body=body, if_match=visit.form.get("etag"))
    return _to_secret(made, is_new=False)


def show_secret(visit: Visit) -> View:
    """Show the secret that was just made; once, then the way to another one."""
    endpoint = visit.ask("GET", f"/webhooks/endpoints/{visit.path['id']}")
    values = {"endpoint": endpoint, "name": name_of(endpoint), "secret": visit.shown.get("secret")}
    return View("webhook_secret.html", values | {"is_new": visit.shown.get("is_new", False)})


def _to_secret(endpoint: Any, *, is_new: bool) -> Moved:  # noqa: ANN401 - as the API tells it
    """Lead to where the secret is shown: a page of its own, that makes nothing when it is loaded again."""
    return Moved(
        f"/webhooks/endpoints/{quote(endpoint.id, safe='')}/secret",
        shown={"secret": endpoint.secret, "is_new": is_new},
    )


def _body(form: MultiDict[str, str]) -> dict[str, Any]:
    """Return what a form asks for, as the API takes it; what is empty is None."""
    given = {name: text.strip() for name, text in form.items() if text.strip()}
    body: dict[str, Any] = {
        "url": given.get("url", ""),
        "description": given.get("description"),
        "patterns": re.split(r"[\s,]+", given.get("patterns", "*:*")),
        "ordering": given.get("ordering", "none"),
        "rate_limit": _rate(given.get("rate_limit")),
        "headers": _headers(given.get("headers")),
    }
    return body | {name: json_text.decode(given[name], name=name) if name in given else None for name in _JSON}


def _rate(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        raise InvalidArgument("rate_limit", text, "a number of deliveries a second, such as 5") from None


def _headers(text: str | None) -> dict[str, str] | None:
    """Return the headers of lines such as `X-Key: value`; a refusal does not repeat a value, which may be a secret."""
    if text is None:
        return None
    headers = {}
    for number, line in enumerate(text.splitlines(), start=1):
        name, colon, value = line.partition(":")
        if line.strip() and not colon:
            raise InvalidArgument("headers", f"line {number}", "a name, a colon and a value on each line")
        if line.strip():
            headers[name.strip()] = value.strip()
    return headers


def _form(
    visit: Visit,
    given: Mapping[str, str],
    error: ScheduledActionsError | None,
    endpoint: Any = None,  # noqa: ANN401 - as the API tells it
    *,
    seen: Seen | None = None,
) -> View:
    values: dict[str, Any] = {
        "given": given,
        "endpoint": endpoint,
        "seen": visit.form.get(FIELD) if seen is None else seen.as_field(),
        "problem": None if error is None else said_of_edit(error),
    }
    values["name"] = None if endpoint is None else name_of(endpoint)
    values["events"] = visit.ask("GET", "/webhooks/events").events
    return View("webhook_form.html", values, status=status_of_edit(error))


PAGES = (
    Page("GET", "/webhooks/endpoints/new", new, role=Role.OPERATOR),
    Page("POST", "/webhooks/endpoints/new", create, role=Role.OPERATOR),
    Page("GET", "/webhooks/endpoints/{id}/secret", show_secret, role=Role.OPERATOR),
    Page("GET", "/webhooks/endpoints/{id}/edit", edit, role=Role.OPERATOR),
    Page("POST", "/webhooks/endpoints/{id}/edit", change, role=Role.OPERATOR),
    Page("POST", "/webhooks/endpoints/{id}/rotate", rotate, role=Role.OPERATOR),
)
