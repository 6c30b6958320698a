"""Durable scheduled work for applications that have Postgres and an HTTP endpoint: no worker, no broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions.conditions.project_functions import ConditionCheck, condition
from scheduled_actions.core import errors, version
from scheduled_actions.core.action import Action, ParentAction, Scheduled, Status
from scheduled_actions.core.retry import Delays, Exponential, Linear
from scheduled_actions.notifications.project_functions import resolve_recipients
from scheduled_actions.registry.handler import Cancel, Context, Fail, RetryAfter, Skip, Snooze, action
from scheduled_actions.schedules.project_functions import next_occurrence, skip_occurrence

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.actions.model import NewAction
    from scheduled_actions.client.actions import (
        cancel_action,
        delete_fact,
        emit_event,
        explain_action,
        fact_history,
        get_action,
        get_fact,
        list_actions,
        list_facts,
        report_fact,
        retry_action,
        schedule_action,
        schedule_actions,
        schedule_when,
        update_action,
    )
    from scheduled_actions.client.calendar import get_calendar
    from scheduled_actions.client.deadlines import (
        acknowledge_deadline,
        cancel_deadline,
        complete_deadline,
        get_deadline,
        list_deadlines,
        move_deadline,
        move_deadlines,
        pause_deadline,
        reassign_deadline,
        resume_deadline,
        set_deadline,
        set_deadlines,
        update_deadline,
    )
    from scheduled_actions.client.executors import list_executors
    from scheduled_actions.client.limits import list_limits
    from scheduled_actions.client.pauses import list_pauses, pause, resume
    from scheduled_actions.client.people import notify, schedule_local
    from scheduled_actions.client.schedules import (
        backfill_schedule,
        delete_schedule,
        get_schedule,
        list_schedules,
        pause_schedule,
        resume_schedule,
        run_schedule,
        schedule_recurring_action,
        skip_next_occurrence,
        update_schedule,
    )
    from scheduled_actions.conditions.model import Fact
    from scheduled_actions.deadlines.model import Deadline
    from scheduled_actions.limits.model import Pause
    from scheduled_actions.notifications.rules.people import Person
    from scheduled_actions.schedules.model import Schedule
    from scheduled_actions.web.extension import ScheduledActions

__all__ = [
    "Action",
    "Cancel",
    "ConditionCheck",
    "Context",
    "Deadline",
    "Delays",
    "Exponential",
    "Fact",
    "Fail",
    "Linear",
    "NewAction",
    "ParentAction",
    "Pause",
    "Person",
    "RetryAfter",
    "Schedule",
    "Scheduled",
    "ScheduledActions",
    "Skip",
    "Snooze",
    "Status",
    "acknowledge_deadline",
    "action",
    "backfill_schedule",
    "cancel_action",
    "cancel_deadline",
    "complete_deadline",
    "condition",
    "delete_fact",
    "delete_schedule",
    "emit_event",
    "errors",
    "explain_action",
    "fact_history",
    "get_action",
    "get_calendar",
    "get_deadline",
    "get_fact",
    "get_schedule",
    "list_actions",
    "list_deadlines",
    "list_executors",
    "list_facts",
    "list_limits",
    "list_pauses",
    "list_schedules",
    "move_deadline",
    "move_deadlines",
    "next_occurrence",
    "notify",
    "pause",
    "pause_deadline",
    "pause_schedule",
    "reassign_deadline",
    "report_fact",
    "resolve_recipients",
    "resume",
    "resume_deadline",
    "resume_schedule",
    "retry_action",
    "run_schedule",
    "schedule_action",
    "schedule_actions",
    "schedule_local",
    "schedule_recurring_action",
    "schedule_when",
    "set_deadline",
    "set_deadlines",
    "skip_next_occurrence",
    "skip_occurrence",
    "update_action",
    "update_deadline",
    "update_schedule",
]


__version__ = version.VERSION

# Modules of handlers often need only `action`: the database and Flask are imported with the first name that needs them.
_LATER = {
    "Deadline": "scheduled_actions.deadlines.model",
    "Fact": "scheduled_actions.conditions.model",
    "NewAction": "scheduled_actions.actions.model",
    "Pause": "scheduled_actions.limits.model",
    "Person": "scheduled_actions.notifications.rules.people",
    "Schedule": "scheduled_actions.schedules.model",
    "ScheduledActions": "scheduled_actions.web.extension",
    "get_calendar": "scheduled_actions.client.calendar",
    "list_executors": "scheduled_actions.client.executors",
    "list_limits": "scheduled_actions.client.limits",
    **dict.fromkeys(("notify", "schedule_local"), "scheduled_actions.client.people"),
    **dict.fromkeys(
        (
            "cancel_action",
            "delete_fact",
            "emit_event",
            "explain_action",
            "fact_history",
            "get_action",
            "get_fact",
            "list_actions",
            "list_facts",
            "report_fact",
            "retry_action",
            "schedule_action",
            "schedule_actions",
            "schedule_when",
            "update_action",
        ),
        "scheduled_actions.client.actions",
    ),
    **dict.fromkeys(
        (
            "backfill_schedule",
            "delete_schedule",
            "get_schedule",
            "list_schedules",
            "pause_schedule",
            "resume_schedule",
            "run_schedule",
            "schedule_recurring_action",
            "skip_next_occurrence",
            "update_schedule",
        ),
        "scheduled_actions.client.schedules",
    ),
    **dict.fromkeys(("list_pauses", "pause", "resume"), "scheduled_actions.client.pauses"),
    **dict.fromkeys(
        (
            "acknowledge_deadline",
            "cancel_deadline",
            "complete_deadline",
            "get_deadline",
            "list_deadlines",
            "move_deadline",
            "move_deadlines",
            "pause_deadline",
            "reassign_deadline",
            "resume_deadline",
            "set_deadline",
            "set_deadlines",
            "update_deadline",
        ),
        "scheduled_actions.client.deadlines",
    ),
}


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - next to its only use

    found: Callable[..., Any] = getattr(import_module(_LATER[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
