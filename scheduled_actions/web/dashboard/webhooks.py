"""Show, create, edit, test and delete webhook endpoints, rotate their secrets, and show and resend deliveries.

After an outage, deliveries are resent in batches, one per request, so that the page can show the progress.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from werkzeug.datastructures import MultiDict

from scheduled_actions.core.action import Status
from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.dashboard.forms import (
    Form,
    ObjectForm,
    Parser,
    as_json,
    as_number,
    as_text,
    command,
    count_in,
    local_time,
    parse_fields,
    pretty,
)
from scheduled_actions.web.dashboard.page import DashboardPage, Document, Nav, Redirect, RequestContext, View, address
from scheduled_actions.web.dashboard.times import parsed, when_input
from scheduled_actions.webhooks.rules.health import DEFERRAL_REASONS

#: Number of deliveries on the page of an endpoint.
_LATEST = 20
_ENDED = (Status.COMPLETED, Status.FAILED, Status.SKIPPED, Status.CANCELLED)
#: How long the previous secret may stay valid, in seconds: a day, a week, or not at all.
_GRACE_SECONDS = ("86400", "604800", "0")
KINDS = {"lost": "Failed or skipped deliveries", "missed": "Missed events (without a delivery to the endpoint)"}
_USUAL = timedelta(days=1)
#: A request stops after this number of deliveries or of API calls; its last call may exceed the number of deliveries.
_BATCH, _STEPS = 500, 5
#: Maximum count of lost deliveries.
_COUNT_MOST = 100_000


def path_of(endpoint_id: str) -> str:
    """Return the path of an endpoint's page."""
    return f"/webhooks/endpoints/{quote(endpoint_id, safe='')}"


def name_of(endpoint: Any) -> str:  # noqa: ANN401 - the API's own document
    """Return an endpoint's display name: the host and port of its URL, or its id.

    Port 443 is omitted. The id is shown for an endpoint without a URL, and for an endpoint of
    `scheduled_actions.toml`, whose id is its name there.
    """
    if endpoint.source == "file" or endpoint.place is None:
        return str(endpoint.id)
    return str(endpoint.place).removesuffix(":443")


def names_of(context: RequestContext) -> dict[str, str]:
    """Return the display names of the endpoints by id."""
    return {one.id: name_of(one) for one in context.call("GET", "/webhooks/endpoints").endpoints}


def last_failure(context: RequestContext, endpoint: Any) -> str | None:  # noqa: ANN401 - as above
    """Return the error of the newest delivery that has one (`503 from crm.example.com`), or None.

    Only the latest ten deliveries to the endpoint are read.
    """
    latest = context.call("GET", "/webhooks/deliveries", query={"endpoint": endpoint.id, "limit": 10})
    failed = next((one for one in latest.deliveries if one.error), None)
    if failed is None:
        return None
    if failed.response_status is not None:
        return f"{failed.response_status} from {name_of(endpoint)}"
    return str(failed.error).replace(f'DeliveryFailed: endpoint "{endpoint.id}" ', "")


def _filled(_context: RequestContext, endpoint: Document) -> Form:
    """Return the initial form fields of an endpoint."""
    return MultiDict(
        {
            "url": endpoint.url or "",
            "description": endpoint.description,
            "patterns": "\n".join(endpoint.patterns),
            "ordering": endpoint.ordering,
            "rate_limit": "" if endpoint.rate_limit is None else f"{endpoint.rate_limit:g}",
            "filter": "" if endpoint.filter is None else pretty(endpoint.filter),
            "retry": "" if endpoint.retry is None else pretty(endpoint.retry),
        }
    )


def rotate_secret(context: RequestContext) -> Redirect:
    """Replace an endpoint's secret, and redirect to the page that shows the new secret once."""
    grace_seconds = context.form.get("grace_seconds", "86400")
    if grace_seconds not in _GRACE_SECONDS:
        raise InvalidArgument("grace_seconds", grace_seconds, f"one of {', '.join(_GRACE_SECONDS)}")
    endpoint = context.call(
        "POST",
        f"/webhooks/endpoints/{context.path['id']}/rotate",
        body={"grace_seconds": int(grace_seconds)} | context.given("secret"),
        if_match=context.form.get("etag"),
    )
    return _to_secret(endpoint, is_new=False)


def show_secret(context: RequestContext) -> View:
    """Show a new secret right after its creation; later, state that it cannot be shown again."""
    endpoint = context.call("GET", f"/webhooks/endpoints/{context.path['id']}")
    shown = {"secret": None, "is_new": False, **context.shown}
    return View("webhook_secret.html", shown | {"endpoint": endpoint, "name": name_of(endpoint)})


def _to_secret(endpoint: Document, *, is_new: bool) -> Redirect:
    # On a separate page: reloading it creates no further secret.
    return Redirect(f"{path_of(endpoint.id)}/secret", shown={"secret": endpoint.secret, "is_new": is_new})


def _headers(_name: str, text: str, _zone: ZoneInfo) -> dict[str, str]:
    """Parse headers, one `Name: value` per line; errors omit the values, which may be secret."""
    lines = {number: line for number, line in enumerate(text.splitlines(), start=1) if line.strip()}
    if invalid := [number for number, line in lines.items() if ":" not in line]:
        raise InvalidArgument(
            "headers", problem=f"need a colon between the name and the value; line {invalid[0]} has none"
        )
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines.values())}


#: The parser of each field.
_PARSERS: dict[str, Parser] = {
    "url": as_text,
    "description": as_text,
    "patterns": lambda _name, text, _zone: re.split(r"[\s,]+", text),
    "ordering": as_text,
    "rate_limit": as_number,
    "headers": _headers,
    "filter": as_json,
    "retry": as_json,
}


def _body(context: RequestContext, form: Form, endpoint: Document | None) -> dict[str, Any]:
    """Return the body of the API request for a form; empty fields have their default value, or None without one."""
    usual = {"url": "", "description": "", "patterns": ["*:*"], "ordering": "none"}
    body = dict.fromkeys(_PARSERS) | usual | parse_fields(form, context.zone, _PARSERS)
    if endpoint is None:
        return body | context.given("team_id", "secret")
    return body | ({"headers": {}} if form.get("no_headers") else {})


def _values(context: RequestContext, endpoint: Document | None, given: Form) -> dict[str, Any]:
    return {
        "given": {"patterns": "*:*"} | dict(given.items()),
        "endpoint": endpoint,
        "name": None if endpoint is None else name_of(endpoint),
        "events": context.call("GET", "/webhooks/events").events,
    }


_FORM = ObjectForm(
    path="/webhooks/endpoints",
    template="webhook_form.html",
    filled=_filled,
    body=_body,
    values=_values,
    created=lambda made, _: _to_secret(made, is_new=True),
    saved=lambda _: "Saved. The changes apply to later events and delivery attempts.",
)


def list_endpoints(context: RequestContext) -> View:
    """Show a page of the webhook endpoints with their health."""
    values = context.list("/webhooks/endpoints", "endpoints")
    return View("webhooks.html", values | {"name_of": name_of, "health_of": _health})


def show_endpoint(context: RequestContext) -> View:
    """Show one endpoint with its health, queue and latest deliveries."""
    answer = context.api.call("GET", f"/webhooks/endpoints/{context.path['id']}")
    endpoint: Document = answer.document
    latest = context.call("GET", "/webhooks/deliveries", query={"endpoint": endpoint.id, "limit": _LATEST})
    return View(
        "webhook_endpoint.html",
        {
            "endpoint": endpoint,
            "etag": answer.headers["ETag"],
            "name": name_of(endpoint),
            "health": _health(endpoint),
            "deferral": DEFERRAL_REASONS.get(endpoint.queue.deferred_reason or ""),
            "latest": latest.deliveries,
            "now": context.now,
        },
    )


def _health(endpoint: Document) -> str:
    """Return the health of an endpoint: `disabled` (by failures), `off`, `failing` or `healthy`."""
    if endpoint.disabled_at is not None:
        return "disabled"
    if not endpoint.enabled:
        return "off"
    return "healthy" if endpoint.failing_since is None else "failing"


def list_deliveries(context: RequestContext) -> View:
    """Show a page of the deliveries that match the filters."""
    values = context.list("/webhooks/deliveries", "deliveries", "status", "endpoint", "event", "team_id")
    return View(
        "deliveries.html",
        values | {"places": names_of(context), "statuses": (Status.PENDING, Status.PROCESSING, *_ENDED)},
    )


def show_delivery(context: RequestContext) -> View:
    """Show one delivery with its attempts, responses and payload."""
    delivery = context.call("GET", f"/webhooks/deliveries/{context.path['id']}")
    return View(
        "delivery.html",
        {
            "delivery": delivery,
            "place": names_of(context).get(delivery.endpoint, delivery.endpoint),
            "payload": context.call("GET", f"/actions/{delivery.id}").payload,
            "attempts": [(one, parsed(one.at)) for one in reversed(delivery.attempt_log)],
            "has_ended": delivery.status in _ENDED,
        },
    )


def list_events(context: RequestContext) -> View:
    """Show the event types declared in the settings, those that watched tables can emit, and those already emitted."""
    return View("event_types.html", {"events": context.call("GET", "/webhooks/events").events})


def show_recovery(context: RequestContext) -> View:
    """Show the recovery form; if the query has an instant and selects lost deliveries, count these deliveries."""
    given = _given(context.query)
    if not given["since"]:
        return _page(context, given | {"since": when_input(context.now - _USUAL, context.zone)})
    found: dict[str, Any] = {}
    try:
        found["since"] = _since(context, given)
        if given["what"] == "lost":
            found["total"] = context.runtime.deliveries.count_lost(
                found["since"], endpoint=given["endpoint"] or None, team_id=context.caller.team_id
            )
        if given["endpoint"]:
            found["waiting"] = context.call("GET", f"/webhooks/endpoints/{given['endpoint']}").queue.waiting
    except ScheduledActionsError as error:
        return _page(context, given, error)
    return _page(context, given, **found)


def resend(context: RequestContext) -> View | Redirect:
    """Schedule a batch of deliveries and show the progress; after the last batch, redirect to the deliveries."""
    given = _given(context.form)
    try:
        since = _since(context, given)
        count, cursor = _resend_batch(context, given, since)
    except ScheduledActionsError as error:
        return _page(context, given, error)
    done = count_in(context, "done") + count
    if cursor is not None:
        return _page(context, given, since=since, total=count_in(context, "total"), done=done, cursor=cursor)
    said = f"{done:,} {'delivery' if done == 1 else 'deliveries'} will be sent." if done else "No deliveries to send."
    return Redirect(address("/webhooks/deliveries", {"endpoint": given["endpoint"]}), said)


def send_waiting(context: RequestContext) -> Redirect:
    """Make the pending deliveries to an endpoint due now, one batch per request."""
    endpoint, count = context.path["id"], 0
    # Raises if the caller may not see the endpoint; the list of deliveries would only be empty.
    context.call("GET", f"/webhooks/endpoints/{endpoint}")
    query: dict[str, Any] = {"endpoint": endpoint, "status": "pending", "limit": 100}
    while count < _BATCH:
        page = context.call("GET", "/webhooks/deliveries", query=query)
        for one in page.deliveries:
            if one.next_attempt_at and one.next_attempt_at > context.now:
                context.call("POST", f"/actions/{one.id}/run")
                count += 1
        if page.next_cursor is None:
            break
        query["cursor"] = str(page.next_cursor)
    more = '; press "Send waiting deliveries now" again to send more' if count >= _BATCH else ""
    return Redirect(path_of(endpoint), f"{count:,} {'delivery is' if count == 1 else 'deliveries are'} due now{more}.")


def _given(form: Mapping[str, str]) -> dict[str, str]:
    given = {name: form.get(name, "").strip() for name in ("since", "endpoint", "what")}
    return given | {"what": given["what"] if given["what"] in KINDS else "lost"}


def _since(context: RequestContext, given: Mapping[str, str]) -> datetime:
    """Return the start of the time range, in UTC.

    Raises:
        InvalidArgument: `since` is not a local time, or missed events are selected without an endpoint.
    """
    if given["what"] == "missed" and not given["endpoint"]:
        raise InvalidArgument("endpoint", problem="is missing: choose the endpoint that missed the events")
    return local_time(context, "since", given["since"])


def _resend_batch(context: RequestContext, given: Mapping[str, str], since: datetime) -> tuple[int, str | None]:
    """Schedule one batch; return the number of deliveries and the cursor of the next batch, None after the last."""
    count, cursor = 0, context.form.get("cursor", "").strip() or None
    path, body = f"/webhooks/endpoints/{given['endpoint']}/replay-missed", {"from": since.isoformat()}
    if given["what"] == "lost":
        path, body = "/webhooks/deliveries/recover", body | context.given("endpoint")
    # Calls that find few deliveries share a request.
    for _ in range(_STEPS):
        step = context.call("POST", path, body=body | ({} if cursor is None else {"cursor": cursor}))
        count, cursor = count + step.count, step.next_cursor
        if cursor is None or count >= _BATCH:
            break
    return count, cursor


def _page(
    context: RequestContext,
    given: Mapping[str, str],
    error: ScheduledActionsError | None = None,
    **found: Any,  # noqa: ANN401 - values of the template
) -> View:
    values = {
        **dict.fromkeys(("since", "total", "done", "cursor")),
        "waiting": 0,
        **found,
        "given": given,
        "kinds": KINDS,
        "places": names_of(context),
        "most": _COUNT_MOST,
        "problem": None if error is None else str(error),
    }
    return View("webhook_recovery.html", values, status=200 if error is None else 400)


_ENDPOINT = "/webhooks/endpoints/{id}"
PAGES = (
    DashboardPage("GET", "/webhooks", list_endpoints, nav=Nav("Webhooks", "webhook")),
    DashboardPage("GET", "/webhooks/events", list_events),
    DashboardPage("GET", "/webhooks/deliveries", list_deliveries),
    DashboardPage("GET", "/webhooks/deliveries/{id}", show_delivery),
    command("/webhooks/deliveries/{id}", "replay", "Resend scheduled with the same webhook-id."),
    DashboardPage("GET", "/webhooks/recover", show_recovery, role=Role.OPERATOR),
    DashboardPage("POST", "/webhooks/recover", resend, role=Role.OPERATOR),
    DashboardPage("POST", "/webhooks/endpoints/{id}/send-waiting", send_waiting, role=Role.OPERATOR),
    *_FORM.pages,
    DashboardPage("GET", "/webhooks/endpoints/{id}/secret", show_secret, role=Role.OPERATOR),
    DashboardPage("POST", "/webhooks/endpoints/{id}/rotate", rotate_secret, role=Role.OPERATOR),
    DashboardPage("GET", "/webhooks/endpoints/{id}", show_endpoint),
    command(_ENDPOINT, "enable", "Enabled. New events are delivered.", method="PATCH", body={"enabled": True}),
    command(
        _ENDPOINT,
        "disable",
        "Disabled. Deliveries to this endpoint are stored as skipped.",
        method="PATCH",
        body={"enabled": False},
    ),
    command(
        _ENDPOINT,
        "test",
        "Test event scheduled. The next tick sends the event.",
        leads_to="/webhooks/deliveries/{0.id}",
    ),
    command(_ENDPOINT, "delete", "Endpoint deleted.", method="DELETE", leads_to="/webhooks"),
)
