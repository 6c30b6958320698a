"""The functions about people and their local time, on the process's own runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions import runtime
from scheduled_actions.notifications.planning import Options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    import psycopg

    from scheduled_actions.core.action import Scheduled
    from scheduled_actions.notifications.local_scheduling import LocallyScheduled
    from scheduled_actions.notifications.rules.people import Person
    from scheduled_actions.notifications.rules.severity import Severity


def notify(
    recipients: str | Person | Mapping[str, Any] | Sequence[str | Person | Mapping[str, Any]],
    text: str,
    *,
    subject: str | None = None,
    html: str | None = None,
    severity: Severity | None = None,
    gather: bool = False,
    scheduled_at: datetime | timedelta | None = None,
    team_id: str | None = None,
    target: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    created_by: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> list[Scheduled]:
    """Tell people something, each through the first of their channels that works; return the action of each.

    Args:
        recipients: One or a list: an address ("ann@example.org", "https://…", a name of `[notifications.channels]`),
            `resolver:name` for what a function under `@resolve_recipients` knows ("role:cfo"), a `Person`, or a
            mapping of its fields. Who is away is stood in for; nobody is told twice.
        text: The words.
        subject: One line; None: the text's first.
        html: The same words for channels that can show them.
        severity: urgent, high, medium or low. Urgent ones pass quiet hours, unless the settings say otherwise.
        gather: Let notices to one person that come together become one message, a few seconds later.
        scheduled_at: When: an aware datetime, or a timedelta from now. None: at once. A person's quiet hours put it
            off to their end.
        team_id: The tenant.
        target: The thing it is about: `{"type": "invoice", "id": "42"}`.
        metadata: Your own notes.
        created_by: Who asked for it.
        connection: Your own psycopg connection: roll its transaction back, and nobody is told.

    Raises:
        InvalidArgument: A recipient means nobody, or an argument cannot be what it is; nothing was scheduled.
        DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
    """
    given = {"target": target, "metadata": metadata, "created_by": created_by}
    return runtime.current().notifications.notify(
        recipients,
        text,
        Options(severity=severity, gather=gather, team_id=team_id, arguments=given),
        subject=subject,
        html=html,
        at=scheduled_at,
        connection=connection,
    )


def schedule_local(
    action_type: str,
    payload: Any,  # noqa: ANN401 - any model
    local_time: str,
    users: Mapping[str, str | None] | Sequence[Person | Mapping[str, str]],
    *,
    recurrence: str | None = None,
    name: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
    **options: Any,  # noqa: ANN401 - checked by name
) -> list[LocallyScheduled]:
    """Schedule for each user at the next such time of day on the clock on their wall: all of them, or nobody.

    Args:
        action_type: Names the handler.
        payload: The same for all; `context.action.user_id` says for whom.
        local_time: "09:00". Where the clocks skip it, it comes later by the gap; where they show it twice, once.
        users: Zones by user id; or a list of `Person`s with an id, and of objects of `user_id` and `timezone`. Those
            without a zone live in that of the setting `notifications.timezone`.
        recurrence: A rule that begins then ("daily", "weekly", an RRULE): one series per user. None: one action.
        name: Of the series, with the user's id behind it ("greeting:ann"): asking again brings them up to date.
        team_id: The tenant.
        connection: Your own psycopg connection: roll its transaction back, and nothing was scheduled.
        options: More arguments of `schedule_action`, or with a recurrence of `schedule_recurring_action`.

    Raises:
        RequestError: An argument cannot be what it is, or the rule has another time of day; nothing was scheduled.
        DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
    """
    return runtime.current().local_scheduling.schedule_local(
        action_type,
        payload,
        local_time,
        users,
        recurrence=recurrence,
        name=name,
        team_id=team_id,
        connection=connection,
        **options,
    )
