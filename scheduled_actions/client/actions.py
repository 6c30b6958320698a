"""The functions that application code calls, on the process's own runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions import runtime
from scheduled_actions.actions.model import NewAction
from scheduled_actions.webhooks.sending import event_payload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    import psycopg

    from scheduled_actions.actions.search import Listed
    from scheduled_actions.conditions.fact import Fact, FactChange, Reported
    from scheduled_actions.core.action import Action, DedupMode, Scheduled
    from scheduled_actions.core.retry import RetryPolicy
    from scheduled_actions.operations.explain.rules.facts import Explanation


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
    condition: Mapping[str, Any] | None = None,
    after: UUID | str | Sequence[UUID | str] | None = None,
    on_success: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    on_failure: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
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
        condition: What must hold when it would run; else it ends as skipped. `{"wait": condition, …}` waits, as
            `schedule_when` does.
        after: Ids of actions of the same team: it waits until all of them have completed.
        on_success: What to schedule when it completes, in the transaction that settles it: a mapping with the arguments
            of this function, or a list of them.
        on_failure: The same, when it has failed for good.
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


def schedule_when(
    action_type: str,
    payload: Any,  # noqa: ANN401 - any model
    condition: Mapping[str, Any],
    *,
    check_interval: timedelta | float | str | None = None,
    timeout: timedelta | float | str | None = None,
    max_checks: int | None = None,
    on_timeout: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    **options: Any,  # noqa: ANN401 - those of schedule_action
) -> Scheduled:
    """Put an action in the table that runs once its condition holds.

    A fact or an action that it waits for wakes it at once; whatever else may change is looked at every
    `check_interval`. A check spends no attempt.

    Args:
        action_type: Names the handler.
        payload: As for `schedule_action`.
        condition: What must hold: `{"kind": …}`, `{"all": […]}`, `{"any": […]}` or `{"not": {…}}`.
        check_interval: Between two checks: seconds, a duration such as "PT5M", or a timedelta; None: a minute.
        timeout: From its first check; then it ends as skipped (`condition_timeout`). None: it waits for ever.
        max_checks: The last of so many that is in vain ends it as skipped (`max_checks`).
        on_timeout: What to schedule when it ends so: as `on_success` of `schedule_action`.
        options: The arguments of `schedule_action`; with `scheduled_at` it does not look before then.

    Raises:
        RequestError: As `schedule_action`, or the condition is none: the message names the place in it.
        DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
    """
    wait = {
        "wait": condition,
        "check_interval": check_interval,
        "timeout": timeout,
        "max_checks": max_checks,
        "on_timeout": on_timeout,
    }
    return schedule_action(action_type, payload, condition=wait, **options)


def report_fact(
    target: Mapping[str, str],
    name: str,
    value: Any,  # noqa: ANN401 - any JSON
    *,
    team_id: str | None = None,
    by: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Reported:
    """Say what is so of a thing, for the conditions of actions; see `Facts.report`."""
    return runtime.current().facts.report(target, name, value, team_id=team_id, by=by, connection=connection)


def get_fact(target: Mapping[str, str], name: str, *, team_id: str | None = None) -> Fact:
    """Return a fact; see `Facts.get`."""
    return runtime.current().facts.get(target, name, team_id=team_id)


def list_facts(**filters: Any) -> list[Fact]:  # noqa: ANN401 - the filters of Facts.find
    """Return the newest facts that match every filter given; see `Facts.find`."""
    return runtime.current().facts.find(**filters)


def fact_history(target: Mapping[str, str], name: str, **options: Any) -> list[FactChange]:  # noqa: ANN401 - those of Facts.history
    """Return the latest values that a fact had, the newest first; see `Facts.history`."""
    return runtime.current().facts.history(target, name, **options)


def delete_fact(target: Mapping[str, str], name: str, **options: Any) -> None:  # noqa: ANN401 - those of Facts.delete
    """Forget a fact; see `Facts.delete`."""
    runtime.current().facts.delete(target, name, **options)


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
    from scheduled_actions.operations.explain import service as explaining  # noqa: PLC0415 - few applications ask

    return explaining.explain(runtime.current(), action_id, team_id=team_id)


def list_actions(**filters: Any) -> Listed:  # noqa: ANN401 - the filters of Scheduler.list_actions
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
