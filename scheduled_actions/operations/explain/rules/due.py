"""Due actions, and those that wait for a handler: why no tick or worker has run them."""

from collections.abc import Iterator

from scheduled_actions.core.action import Status
from scheduled_actions.core.errors import UnknownActionType
from scheduled_actions.operations.doctor.rules import in_words
from scheduled_actions.operations.doctor.rules.ticks import TICKS_MISSED
from scheduled_actions.operations.explain.rules import executors, limits
from scheduled_actions.operations.explain.rules.facts import AHEAD_MOST, ActionContext, Code, Explanation, at, iso
from scheduled_actions.schedules.model import PreviousOccurrence
from scheduled_actions.schedules.rules import series
from scheduled_actions.ticks.rules import plan as tick_plan


def reasons(context: ActionContext) -> Iterator[Explanation]:
    """Yield the reasons that apply, in the order in which they stop the action; the last one always applies."""
    action = context.action
    yield from _stopped_ticks(context)
    if action.status is Status.NO_ACTION:
        yield Explanation(
            code=Code.HANDLER_IS_BACK,
            sentence=f'it waited for a handler of "{action.action_type}", which this build has: the next tick runs it',
            details={"action_type": action.action_type},
        )
    if context.locked_by is not None:
        claims = "ticks" if context.executor is None else "workers"
        yield Explanation(
            code=Code.ROW_LOCKED,
            sentence=f"{_due_for(context)}, but {claims} skip locked rows",
            remedy=f"end that transaction, or run `select pg_terminate_backend({context.locked_by})`",
            details=context.timing,
        )
    yield from limits.reasons(context)
    yield from _lock_group(context)
    yield from _series(context)
    if _has_no_handler(context):
        yield _no_handler(context)
    yield from _behind_others_of_its_key(context)
    if context.executor is not None:
        yield executors.queued(context, context.executor)
    yield from _ticks_without_room(context)
    tick = context.last_tick
    runner = "the running tick or the next one" if tick is not None and tick.finished_at is None else "the next tick"
    yield Explanation(
        code=Code.NEXT_TICK,
        sentence=f"{_due_for(context)}, and nothing stops it: {runner} runs it",
        details={**context.timing, "last_tick_at": None if tick is None else iso(tick.started_at)},
    )


def _stopped_ticks(context: ActionContext) -> Iterator[Explanation]:
    """Yield why ticks of this build run no actions, or none of this type."""
    build, tick = context.build, context.last_tick
    if context.action.status is Status.NO_ACTION and _has_no_handler(context):
        yield _no_handler(context)
    if not build.is_enabled:
        yield Explanation(
            code=Code.DISABLED,
            sentence=f"{_due_for(context)}, but the setting enabled is false: ticks answer but process nothing",
            remedy="set enabled = true (SCHEDULED_ACTIONS_ENABLED) to resume processing",
            details=context.timing,
        )
    if build.types is None:
        yield Explanation(
            code=Code.REGISTRY_UNREADABLE,
            sentence=f"{_due_for(context)}, but this build cannot run actions: {build.registry_problem}",
            remedy="run `scheduled-actions registry build`, and deploy the result",
            details={**context.timing, "problem": build.registry_problem},
        )
    yield from executors.idle(context)
    if context.executor is not None:
        return
    is_running = tick is not None and tick.finished_at is None and tick.lease_expires_at > context.now
    # A tick that lingered may have started long ago, so the time since its end counts.
    if tick is None or (not is_running and context.now - (tick.finished_at or tick.started_at) > TICKS_MISSED):
        since = "yet" if tick is None else f"for {in_words(context.now - tick.started_at)}"
        yield Explanation(
            code=Code.NO_TICK,
            sentence=f"{_due_for(context)}, but nothing has called /cron/process {since}",
            remedy="have a cron ping /cron/process every minute; `scheduled-actions doctor` shows what prevents it",
            details={**context.timing, "last_tick_at": None if tick is None else iso(tick.started_at)},
        )


def _lock_group(context: ActionContext) -> Iterator[Explanation]:
    """Yield why the action's lock group runs another action first."""
    action, hold, first = context.action, context.hold, context.first_in_group
    group, details = f'its lock group "{action.lock_group}"', {**context.timing, "lock_group": action.lock_group}
    # The action's own hold, kept while the action waited for a retry, does not block it.
    if hold is not None and (hold.action_id != action.id or hold.busy_until is not None):
        held = details | {"held_by": str(hold.action_id), "holder_status": hold.status}
        if hold.busy_until is not None:
            yield Explanation(
                code=Code.GROUP_LINGERING,
                sentence=f"{group} is held by {hold.action_id}: the attempt timed out, but the handler may still be "
                f"running, until {at(hold.busy_until)} at the latest",
                remedy="add timeouts to the blocking calls of that handler; the group is free once the handler returns",
                details=held | {"busy_until": iso(hold.busy_until)},
            )
        if hold.status == Status.PENDING and hold.blocks:
            due = "" if hold.scheduled_at is None else f", due at {at(hold.scheduled_at)}"
            yield Explanation(
                code=Code.GROUP_BLOCKED,
                sentence=f"{group} is blocked by {hold.action_id}, which waits for its next attempt{due} and keeps the "
                "group until then (lock_group_blocks)",
                remedy=f"`scheduled-actions explain {hold.action_id}` shows what it waits for; cancelling it frees the "
                "group",
                details=held | {"holder_scheduled_at": iso(hold.scheduled_at)},
            )
        sentence = f"{group} is held by {hold.action_id}, which is running: members run one at a time"
        remedy = f"`scheduled-actions explain {hold.action_id}` shows how long it has been running"
        if hold.status != Status.PROCESSING:
            sentence = f"{group} was held by {hold.action_id}, which is no longer running: a tick frees it soon"
            remedy = "nothing to do: while ticks run, a hold without a running holder disappears within a minute or two"
        yield Explanation(code=Code.GROUP_HELD, sentence=sentence, remedy=remedy, details=held)
    if first not in {None, action.id}:
        yield Explanation(
            code=Code.GROUP_TURN,
            sentence=f"{group} runs one action at a time, and {first} is first: it has a more urgent priority, or was "
            "due earlier",
            remedy=f"`scheduled-actions explain {first}` shows why that action has not run",
            details=details | {"goes_first": str(first)},
        )


def _series(context: ActionContext) -> Iterator[Explanation]:
    """Yield why the policies of the schedule skip the occurrence, or delay it until another one has ended."""
    seen, action = context.series, context.action
    if seen is None or (seen.schedule.recurrence_type == "rolling" and (action.attempts or action.history)):
        return
    decision = series.decide(
        seen.schedule,
        due_at=action.scheduled_at,
        now=context.now,
        running_since=seen.running_since,
        waiting_since=seen.waiting_since,
        has_unhandled=seen.has_unhandled,
        previous=seen.previous,
    )
    name = seen.schedule.name or str(seen.schedule.id)
    details = {**context.timing, "schedule_id": str(seen.schedule.id), "schedule": name}
    if decision.verdict == "skip":
        yield Explanation(
            code=Code.SERIES_SKIP,
            sentence=f"the next tick skips it because of the policies of its schedule {name}: {decision.reason}",
            remedy=_retry(seen.previous) + "`scheduled-actions schedules update REF` with --misfire, --overlap or "
            "--no-requires-previous changes the policies",
            details=details,
        )
    if decision.verdict == "wait":
        yield Explanation(
            code=Code.SERIES_TURN,
            sentence=f"another occurrence of its schedule {name} is running; this one runs after it",
            details=details,
        )


def _retry(previous: PreviousOccurrence | None) -> str:
    if previous is None or previous.status not in {Status.FAILED, Status.CANCELLED}:
        return ""
    return f"`scheduled-actions actions retry {previous.action_id}` runs the previous occurrence again; "


def _behind_others_of_its_key(context: ActionContext) -> Iterator[Explanation]:
    """Yield how many actions are ahead of a limited action in the queue of its first key."""
    tick, ahead = context.last_tick, context.ahead
    if context.limits and ahead:
        yield Explanation(
            code=Code.IN_LINE,
            sentence=f"{_due_for(context)}, and {limits.ahead_in_queue(context)}",
            remedy="it runs after them, as fast as the limits of the key allow",
            details={
                **context.timing,
                "ahead": ahead,
                "limit_key": context.limits[0].limit_key,
                "last_tick_at": None if tick is None else iso(tick.started_at),
            },
        )


def _ticks_without_room(context: ActionContext) -> Iterator[Explanation]:
    """Yield why no tick has time for the action, or why the next tick may not reach the action."""
    build, tick, ahead = context.build, context.last_tick, context.ahead
    if not build.budget.could_ever_fit(build.expected_seconds):
        yield Explanation(
            code=Code.TOO_LONG,
            sentence=tick_plan.too_long(
                timeout_seconds=build.timeout_seconds, tick_seconds=build.budget.duration_seconds
            ),
            remedy="raise max_duration_seconds (and the limits of host and caller), lower the handler's "
            "timeout_seconds, or split the work with Snooze",
            details={
                **context.timing,
                "timeout_seconds": build.timeout_seconds,
                "expected_seconds": build.expected_seconds,
                "tick_seconds": build.budget.duration_seconds,
            },
        )
    was_left = tick is not None and tick.remaining and context.action.scheduled_at <= tick.started_at
    if ahead or (ahead is None and was_left):
        number = "other due" if ahead is None else f"{ahead:,}{'+' if ahead >= AHEAD_MOST else ''}"
        yield Explanation(
            code=Code.IN_LINE,
            sentence=f"{_due_for(context)}, and {number} {'action is' if ahead == 1 else 'actions are'} ahead of it "
            "(by priority, then by time)",
            remedy="it runs after them; if the backlog grows, raise concurrency, add processes, or ping more often",
            details={
                **context.timing,
                "ahead": ahead,
                "last_tick_at": None if tick is None else iso(tick.started_at),
            },
        )


def _has_no_handler(context: ActionContext) -> bool:
    return context.build.types is not None and context.action.action_type not in context.build.types


def _no_handler(context: ActionContext) -> Explanation:
    action_type = context.action.action_type
    return Explanation(
        code=Code.NO_HANDLER,
        sentence=str(UnknownActionType(action_type, context.build.types or ())),
        remedy="write the handler, or correct its name, and build the registry: the first tick of that build runs the "
        "action; or cancel the action",
        details={"action_type": action_type},
    )


def _due_for(context: ActionContext) -> str:
    if context.action.status is Status.NO_ACTION:
        return "it waits for a handler"
    return f"it has been due for {in_words(context.now - context.action.due_since)}"
