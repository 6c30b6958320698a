"""After an outage: what was lost goes on its way again, a batch at a press, with how far it came."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.dashboard.page import Moved, Page, View, address
from scheduled_actions.web.dashboard.times import from_input, when_input
from scheduled_actions.web.dashboard.webhooks.words import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.web.dashboard.page import Visit

#: What may be sent, and how it is told.
KINDS = {"lost": "Deliveries that failed or were skipped", "missed": "Events that an endpoint never got"}
_USUAL = timedelta(days=1)
#: After so many a press ends, and after so many questions to the API.
_BATCH, _STEPS = 500, 5
#: Where the count of what was lost ends.
_COUNT_MOST = 100_000


def ask(visit: Visit) -> View:
    """Show the form, and how much there is once an instant is given."""
    given = _given(visit.query)
    if not given["since"]:
        return _shown(visit, given | {"since": when_input(visit.now - _USUAL, visit.zone)})
    try:
        since = _since(visit, given)
        total = _count(visit, given, since)
    except ScheduledActionsError as error:
        return _shown(visit, given, error)
    return _shown(visit, given, since=since, total=total)


def go_on(visit: Visit) -> View | Moved:
    """Send a batch again; show how far it came, until all is done."""
    given = _given(visit.form)
    done, total = (_number(visit.form.get(name, "")) for name in ("done", "total"))
    try:
        since = _since(visit, given)
        count, cursor = _batch(visit, given, since)
    except ScheduledActionsError as error:
        return _shown(visit, given, error)
    done = (done or 0) + count
    if cursor is not None:
        return _shown(visit, given, since=since, total=total, done=done, cursor=cursor)
    return Moved(address("/webhooks/deliveries", {"endpoint": given["endpoint"]}), _said(done))


def _said(done: int) -> str:
    if not done:
        return "There was nothing to send again."
    return "One delivery is on its way again." if done == 1 else f"{done:,} deliveries are on their way again."


def _given(form: Mapping[str, str]) -> dict[str, str]:
    given = {name: form.get(name, "").strip() for name in ("since", "endpoint", "what")}
    return given | {"what": given["what"] if given["what"] in KINDS else "lost"}


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < len(str(_COUNT_MOST)) + 3 else None


def _since(visit: Visit, given: Mapping[str, str]) -> datetime:
    """Return the instant of the form.

    Raises:
        InvalidArgument: It is none, or what is asked for needs an endpoint.
    """
    if given["what"] == "missed" and not given["endpoint"]:
        raise InvalidArgument("endpoint", "", "the endpoint that missed them")
    try:
        return datetime.fromisoformat(from_input(given["since"], visit.zone)).astimezone(UTC)
    except ValueError:
        raise InvalidArgument("since", given["since"], "a local time, such as 2026-03-29T00:00") from None


def _count(visit: Visit, given: Mapping[str, str], since: datetime) -> int | None:
    """Return how much was lost; None where only going through it tells."""
    if given["what"] == "missed":
        return None
    return visit.runtime.deliveries.count_lost(since, endpoint=given["endpoint"] or None, team_id=visit.caller.team_id)


def _batch(visit: Visit, given: Mapping[str, str], since: datetime) -> tuple[int, str | None]:
    """Send as much again as one press does; return how much, and where the next goes on, if anywhere."""
    count, cursor = 0, visit.form.get("cursor", "").strip() or None
    # The last steps of a run find nothing: they are none that a person should press for.
    for _ in range(_STEPS):
        step = _step(visit, given, {"since": since.isoformat()} | ({} if cursor is None else {"cursor": cursor}))
        count, cursor = count + step.count, step.next_cursor
        if cursor is None or count >= _BATCH:
            break
    return count, cursor


def _step(visit: Visit, given: Mapping[str, str], body: dict[str, str]) -> Any:  # noqa: ANN401 - the API's progress
    if given["what"] == "missed":
        return visit.ask("POST", f"/webhooks/endpoints/{given['endpoint']}/replay-missed", body=body)
    return visit.ask(
        "POST",
        "/webhooks/deliveries/recover",
        body=body | ({"endpoint": given["endpoint"]} if given["endpoint"] else {}),
    )


def _shown(
    visit: Visit,
    given: Mapping[str, str],
    error: ScheduledActionsError | None = None,
    **found: Any,  # noqa: ANN401 - how far it is
) -> View:
    endpoints = visit.ask("GET", "/webhooks/endpoints").endpoints
    values: dict[str, Any] = {"since": None, "total": None, "done": None, "cursor": None, "most": _COUNT_MOST}
    values |= {"given": given, "kinds": KINDS, "places": {one.id: name_of(one) for one in endpoints}, **found}
    values["problem"] = None if error is None else str(error)
    return View("webhook_recovery.html", values, status=200 if error is None else 400)


PAGES = (
    Page("GET", "/webhooks/recover", ask, role=Role.OPERATOR),
    Page("POST", "/webhooks/recover", go_on, role=Role.OPERATOR),
)
