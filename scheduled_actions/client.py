"""The functions that application code calls, on the process's own runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions import runtime
from scheduled_actions.events import event_payload
from scheduled_actions.new_action import NewAction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    import psycopg

    from scheduled_actions.action import Action, Scheduled
    from scheduled_actions.explanation import Explanation
    from scheduled_actions.handler import RetryPolicy
    from scheduled_actions.new_action import DedupMode


def schedule_action(
    action_type: str,
    payload: Any,  # noqa: ANN401 - any model
    *,
    scheduled_at: datetime | timedelta | None = None,
    timezone: str | None = None,
    team_id: str | None = None,
    priority: int = 0,
    max_attempts: int | None = None,
    retry: RetryPolicy | Mapping[str, Any] | Sequence[float] | None = None,
    lock_group: str | None = None,
    lock_group_blocks: bool = False,
    dedup_key: str | None = None,
    dedup_window: float | None = None,
    dedup_mode: DedupMode = "latest",
    target: Mapping[str, str] | None = None,
    user_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    created_by: str | None = None,
    condition: Any = None,  # noqa: ANN401 - not in this version
    after: Any = None,  # noqa: ANN401 - not in this version
    on_success: Any = None,  # noqa: ANN401 - not in this version
    on_failure: Any = None,  # noqa: ANN401 - not in this version
    connection: psycopg.Connection[Any] | None = None,
) -> Scheduled:
    """Put an action in the table; say its id, and whether it was merged into one that already waited.

    Args:
        action_type: Names the handler.
        payload: A mapping, or an instance of the handler's own model; checked against it before anything is written.
        scheduled_at: An aware datetime, a timedelta from the database's now, or a naive datetime with `timezone`;
            None: at once.
        timezone: IANA name, for a naive `scheduled_at`. A local time that does not exist moves forward by the gap.
        team_id: The tenant.
        priority: The lower number goes first.
        max_attempts: The first included; None: the handler's, else the setting.
        retry: A policy for this action alone: `Exponential`, `Linear`, `Delays`, its JSON form, or a list of seconds.
        lock_group: Members of a group (within a team) run one at a time, the oldest first.
        lock_group_blocks: While this member waits for its retry, the others wait, too.
        dedup_key: The same intent; None: derived when the payload has `entity_id`.
        dedup_window: Seconds from the creation of the first; 0 merges nothing; None: the handler's, else the setting.
        dedup_mode: When merged: `latest` payload replaces, `first` is kept, `append` gathers all in a list.
        target: The thing it is about: `{"type": "invoice", "id": "42"}`.
        user_id: Whom it concerns.
        metadata: Your own notes.
        created_by: Who asked for it.
        condition: Not in this version.
        after: Not in this version.
        on_success: Not in this version.
        on_failure: Not in this version.
        connection: Your own psycopg connection: roll its transaction back, and the action never was.

    Raises:
        RequestError: Unknown type, payload refused, or an argument out of its range; nothing was scheduled.
        DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
    """
    new = NewAction(
        action_type=action_type,
        payload=payload,
        scheduled_at=scheduled_at,
        timezone=timezone,
        team_id=team_id,
        priority=priority,
        max_attempts=max_attempts,
        retry=retry,
        lock_group=lock_group,
        lock_group_blocks=lock_group_blocks,
        dedup_key=dedup_key,
        dedup_window=dedup_window,
        dedup_mode=dedup_mode,
        target=target,
        user_id=user_id,
        metadata=metadata,
        created_by=created_by,
        condition=condition,
        after=after,
        on_success=on_success,
        on_failure=on_failure,
    )
    return runtime.current().scheduler.schedule_action(new, connection=connection)


def schedule_actions(
    new_actions: Sequence[NewAction | Mapping[str, Any]], *, connection: psycopg.Connection[Any] | None = None
) -> list[Scheduled]:
    """Put many actions in the table in one round trip, all of them or none; answered in their order.

    Args:
        new_actions: `NewAction` values, or mappings with the names of `schedule_action`'s arguments.
        connection: Your own psycopg connection.

    Raises:
        RequestError: As `schedule_action`; a note on the error names the position.
        DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
    """
    return runtime.current().scheduler.schedule_actions(new_actions, connection=connection)


def emit_event(
    event: str,
    *,
    entity_id: str | int,
    data: Any,  # noqa: ANN401 - any JSON
    team_id: str | None = None,
    endpoint: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Scheduled:
    """Send an event to every webhook endpoint that wants it, at the next tick.

    Args:
        event: `entity:verb`, such as `task:created`.
        entity_id: Which entity. The same event of the same entity within the dedup window is sent once, with the
            latest data.
        data: Any JSON.
        team_id: The tenant.
        endpoint: Name of the one endpoint to send to, whatever its patterns.
        connection: Your own psycopg connection: roll its transaction back, and nothing is sent.

    Raises:
        RequestError: The event is no `entity:verb`, or the data is no JSON.
        DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
    """
    payload = event_payload(event, entity_id=entity_id, data=data, endpoint=endpoint)
    return schedule_action("webhook:send", payload, team_id=team_id, connection=connection)


def get_action(action_id: UUID | str, *, team_id: str | None = None) -> Action:
    """Return one action; see `Scheduler.get_action`."""
    return runtime.current().scheduler.get_action(action_id, team_id=team_id)


def explain_action(action_id: UUID | str, *, team_id: str | None = None) -> Explanation:
    """Return why an action has not run, or how it ended: the one reason that holds it where it is.

    Args:
        action_id: Which.
        team_id: Only if it belongs to this team.

    Raises:
        UnknownAction: There is none of that id (in that team).
    """
    from scheduled_actions import explaining  # noqa: PLC0415 - few applications ask

    return explaining.explain(runtime.current(), action_id, team_id=team_id)


def list_actions(**filters: Any) -> list[Action]:  # noqa: ANN401 - the filters of Scheduler.list_actions
    """Return the newest actions that match every filter given; see `Scheduler.list_actions`."""
    return runtime.current().scheduler.list_actions(**filters)


def update_action(action_id: UUID | str, **changes: Any) -> Action:  # noqa: ANN401 - the changes of Scheduler.update_action
    """Change what is given of a pending action; see `Scheduler.update_action`."""
    return runtime.current().scheduler.update_action(action_id, **changes)


def cancel_action(action_id: UUID | str, **options: Any) -> Action:  # noqa: ANN401 - the options of Scheduler.cancel_action
    """Cancel a waiting action, or ask a running one to stop; see `Scheduler.cancel_action`."""
    return runtime.current().scheduler.cancel_action(action_id, **options)


def retry_action(action_id: UUID | str, **options: Any) -> Action:  # noqa: ANN401 - the options of Scheduler.retry_action
    """Make a failed, cancelled or skipped action pending again; see `Scheduler.retry_action`."""
    return runtime.current().scheduler.retry_action(action_id, **options)
