"""List and show actions; run single actions; retry, cancel and delete single actions or all matching ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from scheduled_actions.actions.search import SummaryPage
from scheduled_actions.core.action import FINISHED, Action, Status
from scheduled_actions.core.errors import RequestError, ScheduledActionsError, UnknownAction
from scheduled_actions.operations.explain.rules.facts import Code
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.actions.routes import summarize_actions
from scheduled_actions.web.dashboard.forms import as_flag, as_text, command, count_in, pretty
from scheduled_actions.web.dashboard.page import (
    ROWS,
    DashboardPage,
    Nav,
    Redirect,
    RequestContext,
    View,
    address,
)
from scheduled_actions.web.dashboard.times import from_input, is_endless, parsed

#: The filters of the list; the API's list has the same parameters.
FILTERS = (
    "status", "action_type", "team_id", "lock_group", "user_id", "target_type", "target_id", "schedule_id",
    "deadline_id", "scheduled_by", "due_from", "due_to", "completed_to", "q",
)  # fmt: skip
_INSTANTS = ("due_from", "due_to", "completed_to")
#: Maximum count of newer actions.
_NEWER_MOST = 20
_LAST_ID = UUID(int=2**128 - 1)
#: The fields of an action that can be shown as text.
_DOCUMENTS = ("payload", "result", "state", "metadata", "history", "condition", "on_success", "on_failure")
#: Maximum number of follow-ups on the page of an action.
_FOLLOW_UPS = 20
#: Maximum number of actions that one step of a bulk change processes.
_STEP = 500
_RUN_NOW = "Press `Run now` to run the action on the next tick"
_RETRY = "Press `Retry action` to run the action again"
#: Remedies for the page; those of the explanation contain CLI commands.
_REMEDIES = {
    Code.FAILED: f"Fix the cause. {_RETRY}",
    Code.CANCELLED: _RETRY,
    Code.SKIPPED: _RETRY,
    Code.WAITING_FOR_RETRY: f"Fix the cause before then. {_RUN_NOW}",
    Code.SNOOZED: _RUN_NOW,
    Code.CONDITION_NOT_MET: "Make the condition true. Press `Run now` to evaluate the condition on the next tick",
    Code.NOT_DUE: _RUN_NOW,
    Code.PAUSED: "Resume it on the page Pauses; its actions then run in order",
}
#: The title and the CSS class of each outcome; other outcomes are shown as stored.
_OUTCOMES = {
    "updated": ("Changed", "changed"),
    "cancelled": ("Cancelled", "other"),
    "retried": ("Made pending again", "changed"),
    "cancel_requested": ("Cancellation requested", "other"),
    "snoozed": ("Snoozed", "other"),
    "waited": ("Condition evaluated", "other"),
    "skipped": ("Skipped", "other"),
    "expired": ("Expired", "other"),
    "refused": ("Could not be scheduled", "failed"),
    "follow_up_refused": ("A follow-up could not be scheduled", "failed"),
}
_ATTEMPTS = {
    "completed": ("completed", "completed"),
    "failed": ("failed", "failed"),
    "timed_out": ("timed out", "failed"),
    "crashed": ("crashed with its process", "failed"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """An event in the life of an action."""

    #: A CSS class.
    look: str
    title: str
    at: datetime | None = None
    by: str | None = None
    #: The duration, in seconds.
    seconds: float | None = None
    error: str | None = None
    note: str | None = None


def list_actions(context: RequestContext) -> View | Redirect:
    """Show a page of the actions that match the filters, newest first.

    A query with empty parameters or local times is first redirected to a shareable address.
    """
    given = _filters(context, "cursor", "top")
    if given != context.query.to_dict():
        # Shareable: without empty parameters, and with instants in UTC instead of the viewer's time zone.
        return Redirect(address("/actions", given))
    filters = {name: text for name, text in given.items() if name in FILTERS}
    try:
        types = sorted(context.runtime.registry.types)
    except ScheduledActionsError:
        types = []
    values: dict[str, Any] = {
        "given": given,
        "filters": dict.fromkeys(FILTERS) | filters,
        "is_filtered": bool(filters),
        "has_further": not filters.keys() <= {"status", "action_type", "team_id", "q"},
        "is_first": "cursor" not in given,
        "statuses": list(Status),
        "types": types,
        "held": context.runtime.pauses.held_back(team_id=context.caller.team_id),
        "moments": {name: parsed(filters.get(name)) for name in _INSTANTS},
    }
    try:
        return View("actions.html", values | _page(context, given, filters) | {"problem": None})
    except RequestError as error:
        nothing: dict[str, Any] = {"actions": [], "next_cursor": None, "newer": 0, "top": None}
        return View("actions.html", values | nothing | {"problem": str(error)}, status=400)


def _filters(context: RequestContext, *others: str) -> dict[str, str]:
    """Return the query's filters that are not empty; instants are converted to UTC."""
    given = {name: text for name in (*FILTERS, *others) if (text := context.query.get(name, "").strip())}
    return given | {name: from_input(given[name], context.zone) for name in _INSTANTS if name in given}


def _page(context: RequestContext, given: Mapping[str, str], filters: Mapping[str, str]) -> dict[str, Any]:
    cursor, top = given.get("cursor"), _id(given.get("top"))
    if cursor is None and top is not None and top != _LAST_ID:
        # A refresh does not move the list: newer actions are only counted.
        cursor = str(UUID(int=top.int + 1))
    query = {**filters, "limit": ROWS} | ({} if cursor is None else {"cursor": cursor})
    page = _summaries(context, query)
    latest = []
    if top is not None:
        latest = _summaries(context, {**filters, "limit": _NEWER_MOST}).actions
    return {
        "actions": page.actions,
        "next_cursor": page.next_cursor,
        "newer": sum(one.id > str(top) for one in latest),
        "top": top or next((one.id for one in page.actions if "cursor" not in given), None),
    }


def _summaries(context: RequestContext, query: Mapping[str, Any]) -> SummaryPage:
    """Return what the list shows of the actions that the route of the API returns for the same query."""
    return summarize_actions(context.api.prepare("GET", "/actions", query=query)[1])


def _id(text: str | None) -> UUID | None:
    try:
        return None if text is None else UUID(text)
    except ValueError:
        return None


def show_action(context: RequestContext) -> View:
    """Show one action with its explanation, history, follow-ups and JSON fields."""
    action = context.call("GET", f"/actions/{context.path['id']}")
    why = context.call("GET", f"/actions/{action.id}/explain")
    lock = timedelta(seconds=context.runtime.config.settings.edit_lock_seconds)
    is_pending = action.status is Status.PENDING
    cursor = {"cursor": context.query["scheduled"]} if context.query.get("scheduled") else {}
    return View(
        "action.html",
        {
            "action": action,
            "why": why,
            "sentence": _sentence(why),
            "remedy": _remedy(why),
            "events": timeline(action),
            "delivery": _related(context, f"/webhooks/deliveries/{action.id}") if _is_delivery(action) else None,
            "schedule": action.schedule_id and _related(context, f"/schedules/{action.schedule_id}"),
            "parent": action.scheduled_by and _related(context, f"/actions/{action.scheduled_by}"),
            "follow_ups": context.call("GET", f"/actions/{action.id}/scheduled", query={"limit": _FOLLOW_UPS} | cursor),
            "is_first": not cursor,
            "documents": [name for name in _DOCUMENTS if getattr(action, name) is not None and name != "history"],
            "is_locked": is_pending and action.scheduled_at <= context.now + lock,
            "lock_seconds": lock.total_seconds(),
            "can_run": is_pending,
            "can_edit": is_pending,
            "can_cancel": is_pending or action.status is Status.NO_ACTION,
            "can_retry": action.status in FINISHED - {Status.COMPLETED},
            "can_remove": action.status in FINISHED,
        },
    )


def timeline(action: Action) -> list[TimelineEvent]:
    """Return the events of an action from its history and columns, latest first."""
    history = action.history if isinstance(action.history, list | tuple) else ()
    entries = [one for one in history if isinstance(one, dict)]
    events = [
        TimelineEvent(look="created", title="Scheduled", at=action.created_at, by=action.created_by),
        *map(_event, entries),
    ]
    if action.status is Status.COMPLETED and all(one.get("attempt") != action.attempts for one in entries):
        # The history has no entry of a first attempt that completes; the columns have its times.
        events.append(
            TimelineEvent(
                look="completed",
                title=f"Attempt {action.attempts} completed",
                at=action.started_at or action.completed_at,
                seconds=_seconds(action.started_at, action.completed_at),
            )
        )
    elif action.status is Status.PROCESSING:
        events.append(
            TimelineEvent(look="running", title=f"Attempt {action.attempts + 1} is running", at=action.started_at)
        )
    elif action.status is Status.PENDING:
        is_set = not is_endless(action.scheduled_at)
        title = f"Attempt {action.attempts + 1} " + ("is planned" if is_set else "waits for a change")
        events.append(TimelineEvent(look="planned", title=title, at=action.scheduled_at if is_set else None))
    return events[::-1]


def _event(entry: Mapping[str, Any]) -> TimelineEvent:
    outcome = str(entry.get("outcome") or "unknown event")
    attempt, started, ended = entry.get("attempt"), parsed(entry.get("started_at")), parsed(entry.get("ended_at"))
    title, look = _OUTCOMES.get(outcome, (outcome, "other"))
    if outcome in _ATTEMPTS:
        title, look = _ATTEMPTS[outcome]
        title = title.capitalize() if attempt is None else f"Attempt {attempt} {title}"
    notes = (
        f"{entry['count']} times" if entry.get("count") else "",
        ", ".join(map(str, entry["changes"])) if isinstance(entry.get("changes"), list) else "",
        str(entry.get("reason") or ""),
    )
    return TimelineEvent(
        look=look,
        title=title,
        at=started or ended or parsed(entry.get("at")),
        by=None if entry.get("by") is None else str(entry["by"]),
        seconds=_seconds(started, ended),
        error=None if entry.get("error") is None else str(entry["error"]),
        note="; ".join(filter(None, notes)) or None,
    )


def _seconds(started: datetime | None, ended: datetime | None) -> float | None:
    return (ended - started).total_seconds() if started and ended else None


def _sentence(why: Any) -> str:  # noqa: ANN401 - the API's own document
    """Return the explanation, shortened where the page shows the details elsewhere."""
    details = why.details
    match why.code:
        case Code.FAILED:
            attempts, most = details.get("attempts"), details.get("max_attempts")
            is_last = attempts is not None and most is not None and attempts >= most
            reason = "it was the last attempt" if is_last else "the error is non-retryable"
            return f"Failed permanently on attempt {attempts} of {most}: {reason}"
        case Code.IN_LINE if details.get("ahead"):
            queue = f' in the queue of "{details["limit_key"]}"' if details.get("limit_key") else ""
            return f"{details['ahead']:,} {'action is' if details['ahead'] == 1 else 'actions are'} ahead of it{queue}"
        case _:
            return str(why.sentence)


def _remedy(why: Any) -> str | None:  # noqa: ANN401 - as above
    """Return what to do; the page links to the actions that hold the slots of a full limit key."""
    if why.code == Code.LIMIT_FULL:
        return f'Wait for a slot, or raise at_once of `[limits."{why.details["pattern"]}"]`'
    remedy: str | None = _REMEDIES.get(why.code, why.remedy)
    return remedy


def _is_delivery(action: Any) -> bool:  # noqa: ANN401 - as above
    return action.action_type == "webhook:send" and isinstance(action.payload, dict) and "endpoint" in action.payload


def _related(context: RequestContext, path: str) -> Any:  # noqa: ANN401 - as above
    """Return a related object; None if it cannot be read, for example because it was deleted."""
    try:
        return context.call("GET", path)
    except ScheduledActionsError:
        return None


def raw_document(context: RequestContext) -> str:
    """Return one JSON field of an action as indented JSON.

    Raises:
        UnknownAction: The caller cannot see the action, or it has no JSON field of this name.
    """
    action, name = context.call("GET", f"/actions/{context.path['id']}"), context.path["name"]
    if name not in _DOCUMENTS:
        raise UnknownAction(f"{action.id}/{name}")
    return pretty(getattr(action, name)) + "\n"


def count_matches(change: str, context: RequestContext) -> View:
    """Count the actions that `change` (`retry`, `cancel` or `delete`) would change, and ask for confirmation."""
    filters = _filters(context)
    found = context.call("POST", f"/actions/{change}", body={**(filters or {"all": True}), "dry_run": True})
    return _bulk(change, filters, total=found.matched, is_capped=found.more, is_asked=True)


def change_matches(change: str, context: RequestContext) -> View:
    """Change the next matching actions and show the progress; with scripts, the page continues automatically."""
    filters = context.given(*FILTERS)
    body: dict[str, Any] = {**(filters or {"all": True}), **context.given("cursor"), "limit": _STEP}
    if change == "cancel":
        body |= context.given("reason") | ({"force": True} if context.form.get("force") else {})
    step = context.call("POST", f"/actions/{change}", body=body)
    changed = count_in(context, "changed") + step.changed
    return _bulk(
        change,
        filters,
        total=max(count_in(context, "total"), changed),
        changed=changed,
        skipped=count_in(context, "skipped") + step.matched - step.changed,
        cursor=step.next_cursor,
        more=step.more,
        reason=context.form.get("reason", ""),
        is_forced=bool(context.form.get("force")),
    )


def _bulk(change: str, filters: Mapping[str, str], **values: Any) -> View:  # noqa: ANN401 - of the template
    usual: dict[str, Any] = {
        "is_capped": False, "is_asked": False, "changed": 0, "skipped": 0, "cursor": None, "more": False, "reason": "",
        "is_forced": False,
    }  # fmt: skip
    return View("bulk.html", usual | {"change": change, "filters": dict(filters)} | values)


PAGES = (
    DashboardPage("GET", "/actions", list_actions, nav=Nav("Actions", "actions")),
    DashboardPage("GET", "/actions/{id}", show_action),
    DashboardPage("GET", "/actions/{id}/as-text/{name}", raw_document),
    command("/actions/{id}", "run", "The action is due now."),
    command("/actions/{id}", "retry", "The action is pending again with its attempts reset, and is due now."),
    command("/actions/{id}", "cancel", "Action cancelled.", {"reason": as_text, "force": as_flag}),
    command("/actions/{id}", "remove", "Action deleted.", method="DELETE", leads_to="/actions"),
    *(
        DashboardPage(method, f"/actions/{change}", partial(function, change), role=Role.OPERATOR)
        for change in ("retry", "cancel", "delete")
        for method, function in (("GET", count_matches), ("POST", change_matches))
    ),
)
