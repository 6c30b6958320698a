"""Schedule and change actions, report facts and emit events from application code, with the runtime of the process."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from scheduled_actions import runtime
from scheduled_actions.actions.model import UNSET, NewAction, Unset
from scheduled_actions.actions.search import ActionList
from scheduled_actions.client.checks import checked
from scheduled_actions.conditions.model import Fact, FactChange, FactReport
from scheduled_actions.core.action import Action, DedupMode, OnExpiry, Scheduled
from scheduled_actions.core.messages import suggests_keywords
from scheduled_actions.core.retry import RetryPolicy
from scheduled_actions.operations.explain.rules.facts import Explanation
from scheduled_actions.webhooks.sending import event_payload


@suggests_keywords
def schedule_action(
    action_type: str,
    payload: Any,  # noqa: ANN401 - any model
    *,
    scheduled_at: datetime | date | str | timedelta | None = None,
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
    limit: str | Sequence[str] | None = None,
    expires_at: datetime | date | str | None = None,
    expires_in: timedelta | float | None = None,
    on_expiry: OnExpiry = "skip",
    connection: psycopg.Connection[Any] | None = None,
) -> Scheduled:
    """Schedule an action, or merge it into a pending one; return the id of that action, and whether it was merged.

    Args:
        action_type: Selects the handler.
        payload: A mapping, or an instance of the handler's model; validated before anything is written.
        scheduled_at: A datetime or an ISO 8601 string with an offset, or without one in `timezone`; a date or a string
            such as "2026-12-31", which means the start of the day; or a timedelta from now. None: now.
        timezone: IANA name, for a `scheduled_at` without an offset. A local time inside a DST gap moves forward by the
            gap. None: a time needs an offset, and a day is a day in UTC.
        team_id: The team that owns the action; None: no team.
        priority: Actions with lower numbers run first.
        max_attempts: Maximum number of attempts, including the first; None: the handler's value, else the setting.
        retry: Retry policy: `Exponential`, `Linear`, `Delays`, its JSON form, or a list of seconds; None: the handler's
            policy, else the setting.
        lock_group: Actions of a group (within a team) run one at a time, by priority, then by due time.
        lock_group_blocks: Whether the group waits while this action waits for a retry, a snooze or its condition.
        dedup_key: The new action is merged into a pending action with the same key that was created within
            `dedup_window`. None: a key derived from the payload if the payload has `entity_id`.
        dedup_window: How many seconds after its creation an action accepts further actions with its key; 0 disables
            merging; None: the handler's value, else the setting.
        dedup_mode: Payload of a merged action: the `latest`, the `first`, or with `append` a list of all payloads.
        target: The entity that the action is about: `{"type": "invoice", "id": "42"}`.
        user_id: Id of the user that the action concerns.
        metadata: Stored with the action, not interpreted.
        created_by: The creator, stored with the action.
        condition: Evaluated before each attempt; the action is skipped if the condition is not met. With
            `{"wait": condition, …}` the action waits, as in `schedule_when`; `{"timeout": …}` limits the wait for
            `after`.
        after: Ids of actions of the same team that must complete first.
        on_success: Actions to schedule in the transaction that completes this one: a mapping with the arguments of
            this function, or a list of such mappings.
        on_failure: Actions to schedule when this one fails permanently, in the same form.
        limit: One to three limit keys, whose limits in `[limits]` of the settings apply while the action runs; None:
            the handler's keys, or no limits.
        expires_at: No attempt starts from then on; a datetime or string as for `scheduled_at`, a day means its last
            second. None: the action does not expire.
        expires_in: The same as a timedelta or seconds after `scheduled_at`.
        on_expiry: What happens to an action that has not started by then: `skip` or `fail`.
        connection: Your own psycopg connection, whose transaction the insert joins; None: a separate transaction.

    Raises:
        RequestError: The action type is unknown, or the payload or an argument is invalid; nothing was scheduled.
        HandlerBroken: The handler, or that of a follow-up, cannot be loaded; nothing was scheduled.
        DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
    """
    # A dict takes a tenth of the time of a NewAction.
    new = {
        "action_type": action_type,
        "payload": payload,
        "scheduled_at": scheduled_at,
        "timezone": timezone,
        "team_id": team_id,
        "priority": priority,
        "max_attempts": max_attempts,
        "retry": retry,
        "lock_group": lock_group,
        "lock_group_blocks": lock_group_blocks,
        "dedup_key": dedup_key,
        "dedup_window": dedup_window,
        "dedup_mode": dedup_mode,
        "target": target,
        "user_id": user_id,
        "metadata": metadata,
        "created_by": created_by,
        "condition": condition,
        "after": after,
        "on_success": on_success,
        "on_failure": on_failure,
        "limit": limit,
        "expires_at": expires_at,
        "expires_in": expires_in,
        "on_expiry": on_expiry,
    }
    return runtime.current().scheduler.schedule_action(new, connection=connection)


@suggests_keywords
def schedule_actions(
    new_actions: Sequence[NewAction | Mapping[str, Any]], *, connection: psycopg.Connection[Any] | None = None
) -> list[Scheduled]:
    """Schedule many actions in one round trip, all of them or none; return their results in the given order.

    Args:
        new_actions: `NewAction` values, or mappings with the arguments of `schedule_action`.
        connection: Your own psycopg connection, whose transaction the insert joins; None: a separate transaction.

    Raises:
        RequestError, HandlerBroken: As for `schedule_action`; a note on the error contains the position of the action,
            from 0. Nothing was scheduled.
        DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
    """
    return runtime.current().scheduler.schedule_actions(new_actions, connection=connection)


@suggests_keywords
def schedule_when(
    action_type: str,
    payload: Any,  # noqa: ANN401 - any model
    condition: Mapping[str, Any] | None = None,
    *,
    check_interval: timedelta | float | str | None = None,
    timeout: timedelta | float | str | None = None,
    max_checks: int | None = None,
    on_timeout: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    scheduled_at: datetime | date | str | timedelta | None = None,
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
    after: UUID | str | Sequence[UUID | str] | None = None,
    on_success: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    on_failure: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    limit: str | Sequence[str] | None = None,
    expires_at: datetime | date | str | None = None,
    expires_in: timedelta | float | None = None,
    on_expiry: OnExpiry = "skip",
    connection: psycopg.Connection[Any] | None = None,
) -> Scheduled:
    """Schedule an action that runs when its condition is met; return the result of `schedule_action`.

    A change of a fact, an action or a deadline in the condition wakes the action immediately; a query, HTTP or a custom
    function is checked every `check_interval`. A check does not use an attempt.

    Args:
        action_type: Selects the handler.
        payload: As for `schedule_action`.
        condition: `{"kind": …}`, `{"all": […]}`, `{"any": […]}` or `{"not": {…}}`; None: the action waits only for
            `after`, within `timeout` or `max_checks`.
        check_interval: Time between two checks: seconds, a duration such as "PT5M", or a timedelta; None: a minute.
            Used only if the condition contains a query, HTTP or a custom function, or with `max_checks`.
        timeout: Maximum wait from the first check, in the same forms; then the action is skipped. None: unlimited.
        max_checks: Maximum number of checks; then the action is skipped. None: unlimited.
        on_timeout: Actions to schedule when `timeout` or `max_checks` is reached, in the form of `on_success`.
        scheduled_at: Time of the first check, as for `schedule_action`.
        timezone: As for `schedule_action`.
        team_id: As for `schedule_action`.
        priority: As for `schedule_action`.
        max_attempts: As for `schedule_action`.
        retry: As for `schedule_action`.
        lock_group: As for `schedule_action`.
        lock_group_blocks: As for `schedule_action`.
        dedup_key: As for `schedule_action`.
        dedup_window: As for `schedule_action`.
        dedup_mode: As for `schedule_action`.
        target: As for `schedule_action`.
        user_id: As for `schedule_action`.
        metadata: As for `schedule_action`.
        created_by: As for `schedule_action`.
        after: As for `schedule_action`.
        on_success: As for `schedule_action`.
        on_failure: As for `schedule_action`.
        limit: As for `schedule_action`.
        expires_at: As for `schedule_action`.
        expires_in: As for `schedule_action`.
        on_expiry: As for `schedule_action`.
        connection: As for `schedule_action`.

    Raises:
        RequestError: The condition or, as for `schedule_action`, another argument is invalid; nothing was scheduled.
        HandlerBroken: As for `schedule_action`.
        DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
    """
    return schedule_action(
        action_type,
        payload,
        condition={
            "wait": condition,
            "check_interval": check_interval,
            "timeout": timeout,
            "max_checks": max_checks,
            "on_timeout": on_timeout,
        },
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
        after=after,
        on_success=on_success,
        on_failure=on_failure,
        limit=limit,
        expires_at=expires_at,
        expires_in=expires_in,
        on_expiry=on_expiry,
        connection=connection,
    )


@suggests_keywords
def report_fact(
    target: Mapping[str, str],
    name: str,
    value: Any,  # noqa: ANN401 - any JSON
    *,
    team_id: str | None = None,
    by: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> FactReport:
    """Report a fact about a target; if its value changes, wake the actions that wait for it. See `Facts.report`."""
    return runtime.current().facts.report(target, name, value, team_id=team_id, by=by, connection=connection)


@suggests_keywords
def get_fact(target: Mapping[str, str], name: str, *, team_id: str | None = None) -> Fact:
    """Return the current value of a fact about a target; see `Facts.get`."""
    return runtime.current().facts.get(target, name, team_id=team_id)


@suggests_keywords
def list_facts(
    *,
    target_type: str | None = None,
    target_id: str | None = None,
    name: str | None = None,
    team_id: str | None = None,
    cursor: UUID | str | None = None,
    limit: int = 100,
) -> list[Fact]:
    """Return at most `limit` facts that match all filters, newest first; see `Facts.find`."""
    return runtime.current().facts.find(
        target_type=target_type, target_id=target_id, name=name, team_id=team_id, cursor=cursor, limit=limit
    )


@checked
def fact_history(
    target: Mapping[str, str],
    name: str,
    *,
    team_id: str | None = None,
    limit: int = 100,
) -> list[FactChange]:
    """Return the latest changes of a fact, newest first, even after its deletion; see `Facts.history`."""
    return runtime.current().facts.history(target, name, team_id=team_id, limit=limit)


@checked
def delete_fact(
    target: Mapping[str, str],
    name: str,
    *,
    team_id: str | None = None,
    by: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> None:
    """Delete a fact, keep its history, and wake the actions that wait for the fact; see `Facts.delete`."""
    runtime.current().facts.delete(target, name, team_id=team_id, by=by, connection=connection)


@suggests_keywords
def emit_event(
    event: str,
    *,
    entity_id: str | int,
    data: Any,  # noqa: ANN401 - any JSON
    team_id: str | None = None,
    endpoint: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Scheduled:
    """Emit an event: the next tick sends it to webhook endpoints. Return its action's id, and whether it was merged.

    Args:
        event: `entity:verb`, such as `task:created`.
        entity_id: Id of the entity. While an event is pending, the same event emitted again within the dedup window
            only replaces its data.
        data: Any JSON.
        team_id: The team that owns the event; None: no team.
        endpoint: Id or name of the only endpoint that receives the event, regardless of its patterns and filter;
            None: all endpoints that accept the type, the team and the data of the event.
        connection: Your own psycopg connection, whose transaction the insert joins; None: a separate transaction.

    Raises:
        RequestError: The event is not `entity:verb`, or another argument is invalid; nothing was scheduled.
        DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
    """
    return schedule_action(
        "webhook:send",
        event_payload(event, entity_id=entity_id, data=data, endpoint=endpoint),
        team_id=team_id,
        connection=connection,
    )


@suggests_keywords
def get_action(action_id: UUID | str, *, team_id: str | None = None) -> Action:
    """Return an action by id; see `Scheduler.get_action`."""
    return runtime.current().scheduler.get_action(action_id, team_id=team_id)


@suggests_keywords
def explain_action(action_id: UUID | str, *, team_id: str | None = None) -> Explanation:
    """Explain why an action has not run, or how it ended.

    Args:
        action_id: The id of the action.
        team_id: Only within this team; None: all teams.

    Raises:
        UnknownAction: No action has that id (in that team).
    """
    from scheduled_actions.operations.explain import service as explaining  # noqa: PLC0415 - few applications use it

    return explaining.explain(runtime.current(), action_id, team_id=team_id)


@suggests_keywords
def list_actions(
    *,
    status: str | None = None,
    action_type: str | None = None,
    team_id: str | None = None,
    lock_group: str | None = None,
    user_id: str | None = None,
    target: Mapping[str, str] | None = None,
    schedule_id: UUID | str | None = None,
    deadline_id: UUID | str | None = None,
    scheduled_by: UUID | str | None = None,
    due_from: datetime | date | str | None = None,
    due_to: datetime | date | str | None = None,
    completed_to: datetime | date | str | None = None,
    q: str | None = None,
    cursor: UUID | str | None = None,
    limit: int = 100,
) -> ActionList:
    """Return at most `limit` actions that match all filters, newest first; see `Scheduler.list_actions`."""
    return runtime.current().scheduler.list_actions(
        status=status,
        action_type=action_type,
        team_id=team_id,
        lock_group=lock_group,
        user_id=user_id,
        target=target,
        schedule_id=schedule_id,
        deadline_id=deadline_id,
        scheduled_by=scheduled_by,
        due_from=due_from,
        due_to=due_to,
        completed_to=completed_to,
        q=q,
        cursor=cursor,
        limit=limit,
    )


@checked
def update_action(
    action_id: UUID | str,
    *,
    payload: Any = None,  # noqa: ANN401 - any model
    scheduled_at: datetime | date | str | timedelta | None = None,
    timezone: str | None = None,
    priority: int | None = None,
    max_attempts: int | None = None,
    retry: RetryPolicy | Mapping[str, Any] | Sequence[float] | None = None,
    metadata: Mapping[str, Any] | None = None,
    condition: Mapping[str, Any] | Unset | None = UNSET,
    after: UUID | str | Sequence[UUID | str] | Unset | None = UNSET,
    on_success: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Unset | None = UNSET,
    on_failure: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Unset | None = UNSET,
    limit: str | Sequence[str] | Unset | None = UNSET,
    expires_at: datetime | date | str | Unset | None = UNSET,
    by: str | None = None,
    team_id: str | None = None,
    edit_lock_seconds: int | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Action:
    """Change a pending action; omitted arguments keep their values. See `Scheduler.update_action`."""
    return runtime.current().scheduler.update_action(
        action_id,
        payload=payload,
        scheduled_at=scheduled_at,
        timezone=timezone,
        priority=priority,
        max_attempts=max_attempts,
        retry=retry,
        metadata=metadata,
        condition=condition,
        after=after,
        on_success=on_success,
        on_failure=on_failure,
        limit=limit,
        expires_at=expires_at,
        by=by,
        team_id=team_id,
        edit_lock_seconds=edit_lock_seconds,
        connection=connection,
    )


@checked
def cancel_action(
    action_id: UUID | str,
    *,
    reason: str | None = None,
    by: str | None = None,
    also_running: bool = True,
    team_id: str | None = None,
    edit_lock_seconds: int | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Action:
    """Cancel an action that is pending or has no handler, or request a running one to stop without a retry.

    See `Scheduler.cancel_action`.
    """
    return runtime.current().scheduler.cancel_action(
        action_id,
        reason=reason,
        by=by,
        also_running=also_running,
        team_id=team_id,
        edit_lock_seconds=edit_lock_seconds,
        connection=connection,
    )


@checked
def retry_action(
    action_id: UUID | str,
    *,
    by: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Action:
    """Make a failed, cancelled or skipped action pending again, with no attempts used; see `Scheduler.retry_action`."""
    return runtime.current().scheduler.retry_action(action_id, by=by, team_id=team_id, connection=connection)
