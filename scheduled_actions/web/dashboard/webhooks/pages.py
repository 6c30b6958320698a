"""Webhooks: the endpoints and how they do, what was delivered to them, and what there is to deliver."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from scheduled_actions.core.action import Status
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.dashboard.page import Moved, Nav, Page, View
from scheduled_actions.web.dashboard.webhooks import form as webhook_form
from scheduled_actions.web.dashboard.webhooks import recovery as webhook_recovery
from scheduled_actions.web.dashboard.webhooks.words import name_of, state_of
from scheduled_actions.webhooks.rules.health import PUT_OFF_BECAUSE

if TYPE_CHECKING:
    from scheduled_actions.web.dashboard.page import Visit

_FILTERS = ("status", "endpoint", "event", "team_id")
_ROWS = 50
#: Deliveries shown on the page of their endpoint.
_LATEST = 20
#: What a delivery may be, as it is asked for.
_STATUSES = (
    Status.PENDING, Status.PROCESSING, Status.COMPLETED, Status.FAILED, Status.SKIPPED, Status.CANCELLED,
)  # fmt: skip
_ENDED = {Status.COMPLETED, Status.FAILED, Status.SKIPPED, Status.CANCELLED}


def list_endpoints(visit: Visit) -> View:
    """Show a page of the endpoints, and how each does."""
    cursor = visit.query.get("cursor", "").strip()
    page = visit.ask("GET", "/webhooks/endpoints", query={"limit": _ROWS} | ({"cursor": cursor} if cursor else {}))
    return View(
        "webhooks.html",
        {
            "endpoints": page.endpoints,
            "name_of": name_of,
            "states": {one.id: state_of(one) for one in page.endpoints},
            "next_cursor": page.next_cursor,
            "cursor": cursor,
        },
    )


def show_endpoint(visit: Visit) -> View:
    """Show one endpoint, and what was delivered to it last."""
    answer = visit.asked("GET", f"/webhooks/endpoints/{visit.path['id']}")
    endpoint: Any = answer.document
    latest = visit.ask("GET", "/webhooks/deliveries", query={"endpoint": endpoint.id, "limit": _LATEST}).deliveries
    return View(
        "webhook_endpoint.html",
        {
            "endpoint": endpoint,
            "etag": answer.headers["ETag"],
            "name": name_of(endpoint),
            "state": state_of(endpoint),
            "put_off_because": PUT_OFF_BECAUSE.get(endpoint.lane.put_off_reason or ""),
            "latest": latest,
        },
    )


def enable(visit: Visit) -> Moved:
    """Let it get deliveries again; what disabled it is forgiven."""
    return _switched(visit, "It gets deliveries from now on.", is_on=True)


def disable(visit: Visit) -> Moved:
    """Let it get no more deliveries."""
    return _switched(visit, "It gets no more deliveries; what comes for it is kept as skipped.", is_on=False)


def _switched(visit: Visit, said: str, *, is_on: bool) -> Moved:
    found = visit.ask("PATCH", f"/webhooks/endpoints/{visit.path['id']}", body={"enabled": is_on})
    return Moved(endpoint_path(found.id), said)


def endpoint_path(endpoint: str) -> str:
    """Return the address of an endpoint's page."""
    return f"/webhooks/endpoints/{quote(endpoint, safe='')}"


def send_test(visit: Visit) -> Moved:
    """Deliver a test event."""
    sent = visit.ask("POST", f"/webhooks/endpoints/{visit.path['id']}/test")
    return Moved(f"/webhooks/deliveries/{sent.id}", "A test event is on its way: the next tick delivers it.")


def delete(visit: Visit) -> Moved:
    """Remove an endpoint."""
    gone = visit.ask("DELETE", f"/webhooks/endpoints/{visit.path['id']}")
    return Moved("/webhooks", f"The endpoint {name_of(gone)} is removed.")


def list_deliveries(visit: Visit) -> View:
    """Show a page of the deliveries that match."""
    given = {name: text for name in (*_FILTERS, "cursor") if (text := visit.query.get(name, "").strip())}
    page = visit.ask("GET", "/webhooks/deliveries", query={**given, "limit": _ROWS})
    endpoints = visit.ask("GET", "/webhooks/endpoints").endpoints
    return View(
        "deliveries.html",
        {
            "given": given,
            "filters": {name: text for name, text in given.items() if name != "cursor"},
            "deliveries": page.deliveries,
            "next_cursor": page.next_cursor,
            "places": {one.id: name_of(one) for one in endpoints},
            "statuses": _STATUSES,
        },
    )


def show_delivery(visit: Visit) -> View:
    """Show one delivery: each attempt, what was answered, and what was sent."""
    delivery = visit.ask("GET", f"/webhooks/deliveries/{visit.path['id']}")
    action = visit.ask("GET", f"/actions/{delivery.id}")
    endpoints = visit.ask("GET", "/webhooks/endpoints").endpoints
    places = {one.id: name_of(one) for one in endpoints}
    return View(
        "delivery.html",
        {
            "delivery": delivery,
            "place": places.get(delivery.endpoint, delivery.endpoint),
            "payload": action.payload,
            "attempts": [(one, _moment(one.at)) for one in reversed(delivery.attempt_log)],
            "has_ended": delivery.status in _ENDED,
        },
    )


def _moment(text: str | None) -> datetime | None:
    """Return the instant of an attempt; None where a handler of the project's own wrote none."""
    try:
        moment = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def replay(visit: Visit) -> Moved:
    """Send one delivery again."""
    again = visit.ask("POST", f"/webhooks/deliveries/{visit.path['id']}/replay")
    return Moved(f"/webhooks/deliveries/{again.id}", "It is on its way again, as the same message.")


def list_events(visit: Visit) -> View:
    """Show the event types that were declared or seen."""
    return View("event_types.html", {"events": visit.ask("GET", "/webhooks/events").events})


PAGES = (
    Page("GET", "/webhooks", list_endpoints, nav=Nav("Webhooks", "webhook")),
    Page("GET", "/webhooks/events", list_events),
    Page("GET", "/webhooks/deliveries", list_deliveries),
    Page("GET", "/webhooks/deliveries/{id}", show_delivery),
    Page("POST", "/webhooks/deliveries/{id}/replay", replay, role=Role.OPERATOR),
    *webhook_recovery.PAGES,
    *webhook_form.PAGES,
    Page("GET", "/webhooks/endpoints/{id}", show_endpoint),
    Page("POST", "/webhooks/endpoints/{id}/enable", enable, role=Role.OPERATOR),
    Page("POST", "/webhooks/endpoints/{id}/disable", disable, role=Role.OPERATOR),
    Page("POST", "/webhooks/endpoints/{id}/test", send_test, role=Role.OPERATOR),
    Page("POST", "/webhooks/endpoints/{id}/delete", delete, role=Role.OPERATOR),
)
