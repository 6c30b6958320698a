"""Load an action with everything that decides when it runs, and explain why it has not run, or how it ended.

Every query reads a bounded number of rows: due actions ahead and waits are read up to 10,000.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any
from uuid import UUID

from scheduled_actions.actions.store import action_of
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.action import Action, Status
from scheduled_actions.core.errors import RegistryInvalid, RequestError, UnknownAction
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements
from scheduled_actions.operations.doctor.rules import in_words
from scheduled_actions.operations.explain.rules import due, not_due
from scheduled_actions.operations.explain.rules.facts import (
    AHEAD_MOST,
    ActionContext,
    BuildContext,
    ExecutorClaim,
    ExecutorQueueState,
    Explanation,
    HoldState,
    LimitState,
    PauseState,
    SeriesState,
    TickState,
    at,
    iso,
)
from scheduled_actions.operations.installation import Installation
from scheduled_actions.registry.handler import HandlerOptions
from scheduled_actions.schedules import store as schedules
from scheduled_actions.schedules.model import PreviousOccurrence
from scheduled_actions.ticks.rules.plan import Candidate, DurationStats, TickBudget, expected_seconds

sql = Statements(__file__)

_ACTION_COLUMNS = len(Action.__dataclass_fields__)


def explain(parts: Installation, action_id: UUID | str, *, team_id: str | None = None) -> Explanation:
    """Return why an action has not run, or how it ended.

    Args:
        parts: The installation, whose settings and registry decide what a tick would do.
        action_id: The id of the action.
        team_id: Only an action of this team. The due actions ahead of the action are then not counted, because they may
            belong to other teams.

    Raises:
        UnknownAction: No action (of that team) has the id.
    """
    parameters = {"id": arguments.check_id(action_id), "team_id": arguments.check_text("team_id", team_id)}
    with parts.database.connection() as connection:
        row = sql.run_leniently(connection, "explain_action", parameters).fetchone()
        if row is None:
            raise UnknownAction(action_id)
        action, (now, *rest) = action_of(row[:_ACTION_COLUMNS]), row[_ACTION_COLUMNS:]
        last_tick, claimed_by = (
            TickState(*values) if values[0] is not None else None for values in (rest[:6], rest[6:12])
        )
        is_started, *hold, first, pid, since = rest[12:21]
        queue, claim = rest[21:26], rest[26:]
        executor = None if queue[0] is None else ExecutorQueueState(*queue)
        is_pending = action.status is Status.PENDING
        is_due = is_pending and action.scheduled_at <= now
        limits = _limits(connection, action, visible_to=team_id) if is_due and action.limit_keys else ()
        context = ActionContext(
            action=action,
            now=now,
            build=_build(parts, action, last_tick),
            last_tick=last_tick,
            claimed_by=claimed_by,
            is_started=is_started,
            hold=None if hold[0] is None else HoldState(*hold),
            first_in_group=first,
            locked_by=pid,
            locked_since=since,
            series=_series(connection, action) if is_due else None,
            cycle=_cycle(connection, action) if is_pending else (),
            stage_condition=_stage_condition(connection, action) if is_pending else None,
            pause=_pause(connection, action, visible_to=team_id) if is_due else None,
            limits=limits,
            ahead=_ahead(connection, action, executor, visible_to=team_id) if is_due else None,
            executor=executor,
            claimed_for=None if claim[0] is None else _claim(*claim, visible_to=team_id),
        )
    return _explain(context)


def _explain(context: ActionContext) -> Explanation:
    """Return the first reason that applies; if another session has locked the action's row, add the session."""
    found = _with_expiry(next(chain(not_due.reasons(context), due.reasons(context))), context)
    process, since = context.locked_by, context.locked_since
    if process is None:
        return found
    age = "" if since is None else f" for {in_words(context.now - since)}"
    return replace(
        found,
        sentence=f"{found.sentence}; a transaction of another session (process {process}) has locked its row{age}",
        details={**found.details, "locked_by": process, "locked_since": iso(since)},
    )


def _with_expiry(found: Explanation, context: ActionContext) -> Explanation:
    """Return the explanation with the expiry of a pending action, if it has one."""
    action, expires_at = context.action, context.action.expires_at
    if action.status is not Status.PENDING or expires_at is None:
        return found
    sentence = found.sentence
    if expires_at > context.now:
        sentence += f"; it expires at {at(expires_at)}: unless it has started by then, it {context.at_expiry}"
    return replace(
        found,
        sentence=sentence,
        details={**found.details, "expires_at": iso(expires_at), "on_expiry": action.on_expiry},
    )


def _build(parts: Installation, action: Action, last_tick: TickState | None) -> BuildContext:
    settings, state = parts.config.settings, parts.worker_state
    types, problem, options = None, None, HandlerOptions(action_type=action.action_type)
    try:
        types, options = parts.registry.types, parts.registry.options(action.action_type)
    except RegistryInvalid as error:
        problem = str(error)
    timeout = options.timeout_seconds or settings.default_timeout_seconds
    host_seconds = None if last_tick is None else last_tick.duration_seconds
    return BuildContext(
        is_enabled=settings.enabled,
        types=types,
        registry_problem=problem,
        max_attempts=action.max_attempts or options.max_attempts or settings.max_attempts,
        timeout_seconds=timeout,
        expected_seconds=expected_seconds(
            Candidate(action.action_type, timeout, is_last_attempt=False, runs_alone=False),
            # Without ticks in this process, nothing was measured.
            DurationStats() if state is None else state.duration_stats,
        ),
        budget=TickBudget.by_settings(settings, started=0.0, host_seconds=host_seconds, lingers=False),
        endpoint_rate=_endpoint_rate(parts, action),
    )


def _endpoint_rate(parts: Installation, action: Action) -> float | None:
    name = action.payload.get("endpoint") if isinstance(action.payload, dict) else None
    if action.action_type != "webhook:send" or not isinstance(name, str):
        return None
    try:
        endpoint = parts.endpoint_directory.find(name, team_id=action.team_id)
    except RequestError:
        # The stored row of the endpoint is invalid: the delivery fails with the reason.
        return None
    return None if endpoint is None else endpoint.rate_limit


def _pause(connection: Connection, action: Action, *, visible_to: str | None) -> PauseState | None:
    """Return the pause that holds the action back; a team gets the note only of a pause of its own.

    Args:
        connection: Any connection.
        action: A due action.
        visible_to: The team that reads the explanation; None: all teams.
    """
    row = sql.run_leniently(
        connection,
        "pause_of_action",
        {name: getattr(action, name) for name in ("parked_by", "action_type", "team_id", "lock_group", "limit_keys")},
    ).fetchone()
    if row is None:
        return None
    pause = PauseState(*row)
    is_own = visible_to in {None, pause.team_id} or (pause.kind == "team" and pause.name == visible_to)
    return pause if is_own else replace(pause, note=None, paused_by=None)


def _limits(connection: Connection, action: Action, *, visible_to: str | None) -> Sequence[LimitState]:
    """Return the states of the action's limit keys, in order; a team gets only its own actions among those running."""
    parameters = {"limit_keys": action.limit_keys, "team_id": action.team_id, "visible_to": visible_to}
    return [LimitState(*row) for row in sql.run_leniently(connection, "limit_states", parameters)]


def _claim(
    name: str, carrier: str, worker: str | None, taken_at: datetime | None, *, visible_to: str | None
) -> ExecutorClaim:
    """Return the claim of a worker; a team does not get the worker's name, which contains that of a host."""
    return ExecutorClaim(name, carrier, worker if visible_to is None else None, taken_at)


def _ahead(
    connection: Connection, action: Action, executor: ExecutorQueueState | None, *, visible_to: str | None
) -> int | None:
    """Return the number of due actions that are claimed before this one, at most `AHEAD_MOST`.

    Of a limited action, those in the queue of its first key are counted, which are of its own team. Otherwise, nothing
    is counted for a team, because actions of other teams may be ahead. Of an action of an executor, those in the queue
    of the executor are counted; of others, those without a lock group, and nothing for an action in a lock group.
    """
    place = {"priority": action.priority, "scheduled_at": action.scheduled_at, "id": action.id, "most": AHEAD_MOST}
    if action.limit_keys:
        queue = {"limit_key": action.limit_keys[0], "team_id": action.team_id}
        return int(sql.run_one(connection, "count_queued", place | queue)[0])
    if executor is not None and visible_to is None:
        return int(sql.run_one(connection, "count_in_executor_queue", place | {"executor": executor.name})[0])
    if action.lock_group is not None or visible_to is not None:
        return None
    return int(sql.run_one(connection, "count_ahead", place)[0])


def _series(connection: Connection, action: Action) -> SeriesState | None:
    """Return the action's schedule as a claim would read it; None unless the action is the planned occurrence."""
    if action.schedule_id is None:
        return None
    row = sql.run_leniently(
        connection, "schedule_state", {"schedule_id": action.schedule_id, "action_id": action.id}
    ).fetchone()
    found = schedules.get(connection, schedule_id=action.schedule_id)
    if row is None or found is None:
        return None
    running_since, waiting_since, has_unhandled, *previous = row
    return SeriesState(
        found.schedule,
        running_since,
        waiting_since,
        has_unhandled,
        None if previous[0] is None else PreviousOccurrence(*previous),
    )


def _cycle(connection: Connection, action: Action) -> Sequence[UUID]:
    """Return a cycle of waiting actions that contains the action or that it waits for; empty if there is none."""
    if not isinstance(action.condition, dict) or "after" not in action.condition:
        return ()
    from scheduled_actions.actions.evaluation import cycles_among_waiting  # noqa: PLC0415 - most projects have no conditions

    return next(iter(cycles_among_waiting(connection, action_id=action.id, most=1)), ())


def _stage_condition(connection: Connection, action: Action) -> Any:  # noqa: ANN401 - any JSON
    """Return the condition of the action's stage of a deadline; None without one."""
    if action.deadline_id is None:
        return None
    from scheduled_actions.deadlines import store as deadlines  # noqa: PLC0415 - most actions have no deadline
    from scheduled_actions.deadlines.rules.planning import parse_occurrence  # noqa: PLC0415 - as above

    found = deadlines.get(connection, action.deadline_id)
    _, name = deadlines.stage_of(connection, action.id)
    stage = None if found is None or name is None else found.deadline.stage(parse_occurrence(name)[0])
    return None if stage is None else stage.condition
