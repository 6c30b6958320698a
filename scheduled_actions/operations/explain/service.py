"""Why has this action not run? The facts gathered, and the one true reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import RegistryInvalid, RequestError, UnknownAction
from scheduled_actions.operations.explain import rules as explanation
from scheduled_actions.operations.explain import store
from scheduled_actions.operations.explain.rules.facts import Facts, Here
from scheduled_actions.registry.handler import HandlerOptions
from scheduled_actions.ticks.rules.plan import Budget, Candidate, Pace, expected_seconds, tick_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from scheduled_actions.core.action import Action
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.operations.explain.rules.facts import Explanation
    from scheduled_actions.operations.installation import Installation


def explain(parts: Installation, action_id: UUID | str, *, team_id: str | None = None) -> Explanation:
    """Return why an action has not run, or how it ended.

    Args:
        parts: The installation's parts: what a tick of this build would do is judged by its settings and registry.
        action_id: Which.
        team_id: Only if it belongs to this team; then nothing is said of how many of others' go first.

    Raises:
        UnknownAction: There is none of that id (in that team).
    """
    wanted = arguments.check_id(action_id)
    arguments.check_text("team_id", team_id)
    with parts.database.connection() as connection:
        found = store.surroundings(connection, wanted, team_id=team_id)
        if found is None:
            raise UnknownAction(action_id)
        host_seconds = None if found.last_tick is None else found.last_tick.duration_seconds
        facts = Facts(
            action=found.action,
            now=found.now,
            here=_here(parts, found.action, host_seconds),
            last_tick=found.last_tick,
            claimed_by=found.claimed_by,
            is_started=found.is_started,
            hold=found.hold,
            first_in_group=found.first_in_group,
            lock=found.lock,
            cycle=_cycle(connection, found.action),
            **_of_its_line(connection, found, is_team_bound=team_id is not None),
        )
    return explanation.explain(facts)


def _cycle(connection: Connection, action: Action) -> Sequence[UUID]:
    """Return actions that wait for one another, where this one is one of them or comes after one."""
    if action.status != "pending" or not isinstance(action.condition, dict) or "after" not in action.condition:
        return ()
    from scheduled_actions.actions.evaluation import cycles_among_waiting  # noqa: PLC0415 - most projects have no conditions

    return next(iter(cycles_among_waiting(connection, action_id=action.id, most=1)), ())


def _of_its_line(connection: Connection, found: store.Surroundings, *, is_team_bound: bool) -> dict[str, Any]:
    """Return what matters for a due action only."""
    action = found.action
    if action.status != "pending" or action.scheduled_at > found.now:
        return {}
    is_counted = action.lock_group is None and not is_team_bound
    return {
        "series": store.series(connection, action),
        "ahead": store.ahead(connection, action) if is_counted else None,
    }


def _here(parts: Installation, action: Action, host_seconds: float | None) -> Here:
    settings = parts.config.settings
    types, problem, options = None, None, HandlerOptions(action_type=action.action_type)
    try:
        types, options = parts.registry.types, parts.registry.options(action.action_type)
    except RegistryInvalid as error:
        problem = str(error)
    timeout = options.timeout_seconds or settings.default_timeout_seconds
    duration = tick_seconds(settings, host_seconds)
    candidate = Candidate(action.action_type, timeout, is_last_attempt=False, runs_alone=False)
    return Here(
        is_enabled=settings.enabled,
        types=types,
        registry_problem=problem,
        max_attempts=action.max_attempts or options.max_attempts or settings.max_attempts,
        timeout_seconds=timeout,
        expected_seconds=expected_seconds(candidate, _pace(parts)),
        budget=Budget.by_settings(settings, started=0.0, duration_seconds=duration, lingers=False),
        tick_seconds=duration,
        endpoint_rate=_endpoint_rate(parts, action),
    )


def _pace(parts: Installation) -> Pace:
    """Return what the ticks of this process have measured; nothing where there was none."""
    state = parts.worker_state
    return Pace() if state is None else state.pace


def _endpoint_rate(parts: Installation, action: Action) -> float | None:
    payload = action.payload
    if action.action_type != "webhook:send" or not isinstance(payload, dict):
        return None
    name = payload.get("endpoint")
    try:
        endpoint = parts.endpoint_book.find(name, team_id=action.team_id) if isinstance(name, str) else None
    except RequestError:
        # Its stored row cannot be used: the delivery says so when it is tried.
        return None
    return None if endpoint is None else endpoint.rate_limit
