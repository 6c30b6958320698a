"""Pending actions whose time has come, and those that wait for a handler: why no tick has run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions.core.action import Status
from scheduled_actions.core.errors import UnknownActionType
from scheduled_actions.operations.doctor.rules.database import TICKS_MISSED, in_words
from scheduled_actions.operations.explain.rules.facts import AHEAD_MOST, Code, Explanation, Facts, at, iso
from scheduled_actions.schedules.rules import series
from scheduled_actions.ticks.rules import plan as tick_plan

if TYPE_CHECKING:
    from scheduled_actions.operations.explain.rules.facts import HoldSeen, TickSeen


def unhandled(facts: Facts) -> Explanation | None:
    """Say that a tick has found no handler of its type, and there is none here either."""
    is_so = facts.action.status is Status.NO_ACTION and facts.here.types is not None and not _has_handler(facts)
    return _no_handler(facts) if is_so else None


def disabled(facts: Facts) -> Explanation | None:
    """Say that ticks process nothing."""
    if not _wants_a_tick(facts) or facts.here.is_enabled:
        return None
    return Explanation(
        code=Code.DISABLED,
        sentence=f"{_since(facts)}, but the setting enabled is false: ticks answer, and process nothing",
        remedy="set enabled = true (SCHEDULED_ACTIONS_ENABLED) when work may go on",
        details=_due(facts),
    )


def registry_unreadable(facts: Facts) -> Explanation | None:
    """Say that no tick of this build can work."""
    if not _wants_a_tick(facts) or facts.here.types is not None:
        return None
    return Explanation(
        code=Code.REGISTRY_UNREADABLE,
        sentence=f"{_since(facts)}, but no tick of this build can work: {facts.here.registry_problem}",
        remedy="run `scheduled-actions registry build`, and deploy what it writes",
        details={**_due(facts), "problem": facts.here.registry_problem},
    )


def no_tick(facts: Facts) -> Explanation | None:
    """Say that nobody pings."""
    tick = facts.last_tick
    if not _wants_a_tick(facts) or (tick is not None and _is_recent(tick, facts)):
        return None
    ago = None if tick is None else in_words(facts.now - tick.started_at)
    last = "there has never been a tick" if tick is None else f"there has been no tick for {ago}"
    return Explanation(
        code=Code.NO_TICK,
        sentence=f"{_since(facts)}, but {last}: nobody calls /cron/process",
        remedy="let a cron ping /cron/process every minute; `scheduled-actions doctor` says what keeps it from it",
        details={**_due(facts), "last_tick_at": None if tick is None else iso(tick.started_at)},
    )


def row_locked(facts: Facts) -> Explanation | None:
    """Say that ticks pass it by, because another session has locked its row."""
    if not facts.is_due or facts.lock is None:
        return None
    return Explanation(
        code=Code.ROW_LOCKED,
        sentence=f"{_since(facts)}, but ticks skip a locked row",
        remedy=f"end that transaction, or its session with `select pg_terminate_backend({facts.lock.process})`",
        details=_due(facts),
    )


def lock_words(facts: Facts) -> str:
    """Return who has locked the action's row, and for how long."""
    assert facts.lock is not None  # noqa: S101 - asked for
    since = facts.lock.since
    age = "" if since is None else f" for {in_words(facts.now - since)}"
    return f"a transaction of another session (process {facts.lock.process}) has locked its row{age}"


def handler_is_back(facts: Facts) -> Explanation | None:
    """Say that a tick had found no handler of its type; this build has one."""
    if facts.action.status is not Status.NO_ACTION:
        return None
    return Explanation(
        code=Code.HANDLER_IS_BACK,
        sentence=f'it waited for a handler of "{facts.action.action_type}", which is here now: the next tick frees it',
        details={"action_type": facts.action.action_type},
    )


def group_lingering(facts: Facts) -> Explanation | None:
    """Say that a member of its group timed out, and its handler may not have returned."""
    hold = _other_hold(facts)
    if hold is None or hold.busy_until is None:
        return None
    return Explanation(
        code=Code.GROUP_LINGERING,
        sentence=f"{_group(facts)} is held by {hold.action_id}: its attempt timed out, but its handler may still be at "
        f"work, until {at(hold.busy_until)} at the latest",
        remedy="bound what that handler waits for; the group is free once it returns",
        details={**_held(facts, hold), "busy_until": iso(hold.busy_until)},
    )


def group_held(facts: Facts) -> Explanation | None:
    """Say that a member of its group is at work, or nobody who could be."""
    hold = _other_hold(facts)
    if hold is None or (hold.status is Status.PENDING and hold.blocks):
        return None
    if hold.status is Status.PROCESSING:
        sentence = f"{_group(facts)} is held by {hold.action_id}, which is at work: members run one at a time"
        remedy = f"`scheduled-actions explain {hold.action_id}` says since when"
    else:
        sentence = f"{_group(facts)} was held by {hold.action_id}, which runs no more: the next tick frees it"
        remedy = "nothing: a hold without a holder is gone within a minute or two of ticks"
    return Explanation(code=Code.GROUP_HELD, sentence=sentence, remedy=remedy, details=_held(facts, hold))


def group_blocked(facts: Facts) -> Explanation | None:
    """Say that a member of its group waits for its retry and keeps the others out."""
    hold = _other_hold(facts)
    if hold is None:
        return None
    due = "" if hold.scheduled_at is None else f", due at {at(hold.scheduled_at)}"
    return Explanation(
        code=Code.GROUP_BLOCKED,
        sentence=f"{_group(facts)} is blocked by {hold.action_id}: it waits for its next attempt{due}, and was "
        "scheduled to keep the others out meanwhile (lock_group_blocks)",
        remedy=f"`scheduled-actions explain {hold.action_id}` says what it waits for; cancelling it lets the others go",
        details={**_held(facts, hold), "holder_scheduled_at": iso(hold.scheduled_at)},
    )


def group_turn(facts: Facts) -> Explanation | None:
    """Say that another member of its group goes first."""
    if not facts.is_due or facts.first_in_group in {None, facts.action.id}:
        return None
    return Explanation(
        code=Code.GROUP_TURN,
        sentence=f"{_group(facts)} runs one at a time, and {facts.first_in_group} goes first: it is more urgent, or "
        "older",
        remedy=f"`scheduled-actions explain {facts.first_in_group}` says why that one has not run",
        details={**_due(facts), "lock_group": facts.action.lock_group, "goes_first": str(facts.first_in_group)},
    )


def series_judged(facts: Facts) -> Explanation | None:
    """Say that the policies of its schedule leave it out, or let another occurrence end first."""
    seen = facts.series
    if not facts.is_due or seen is None:
        return None
    if seen.schedule.recurrence_type == "rolling" and (facts.action.attempts or facts.action.history):
        return None
    judged = series.judge(
        seen.schedule,
        due_at=facts.action.scheduled_at,
        now=facts.now,
        running_since=seen.running_since,
        waiting_since=seen.waiting_since,
        has_unhandled=seen.has_unhandled,
    )
    name = seen.schedule.name or str(seen.schedule.id)
    details = {**_due(facts), "schedule_id": str(seen.schedule.id), "schedule": name}
    match judged.verdict:
        case "run":
            return None
        case "skip":
            sentence = f"the next tick will skip it, as its schedule {name} says: {judged.reason}"
            remedy = "the policies misfire and overlap of the schedule decide: `scheduled-actions schedules edit`"
            return Explanation(code=Code.SERIES_SKIP, sentence=sentence, remedy=remedy, details=details)
        case "wait":
            sentence = f"another occurrence of its schedule {name} is at work; it comes after that one"
            return Explanation(code=Code.SERIES_TURN, sentence=sentence, details=details)


def no_handler(facts: Facts) -> Explanation | None:
    """Say that the tick that claims it will find no handler."""
    return None if not facts.is_due or _has_handler(facts) else _no_handler(facts)


def too_long(facts: Facts) -> Explanation | None:
    """Say that no tick has as much time as it may take."""
    here = facts.here
    if not facts.is_due or here.budget.could_ever_fit(here.expected_seconds):
        return None
    return Explanation(
        code=Code.TOO_LONG,
        sentence=tick_plan.too_long(timeout_seconds=here.timeout_seconds, tick_seconds=here.tick_seconds),
        remedy="raise max_duration_seconds (and what the host and the caller allow), lower the handler's "
        "timeout_seconds, or let the handler go on in pieces with Snooze",
        details={
            **_due(facts),
            "timeout_seconds": here.timeout_seconds,
            "expected_seconds": here.expected_seconds,
            "tick_seconds": here.tick_seconds,
        },
    )


def in_line(facts: Facts) -> Explanation | None:
    """Say that others go first."""
    tick = facts.last_tick
    is_left = facts.ahead is None and tick is not None and tick.remaining > 0 and _was_due(facts, tick)
    if not facts.is_due or not (facts.ahead or is_left):
        return None
    ahead = facts.ahead
    who = (
        "others that are due go" if ahead is None else f"{ahead:,}{'+' if ahead >= AHEAD_MOST else ''} due before it go"
    )
    return Explanation(
        code=Code.IN_LINE,
        sentence=f"{_since(facts)}, and stands in line: {who} first (the more urgent priority, then the older time)",
        remedy="it runs when they have; where the line grows, raise concurrency, add processes, or ping more often",
        details={**_due(facts), "ahead": ahead, "last_tick_at": None if tick is None else iso(tick.started_at)},
    )


def next_tick(facts: Facts) -> Explanation:
    """Say that nothing stands in its way."""
    tick = facts.last_tick
    is_at_work = tick is not None and tick.finished_at is None
    return Explanation(
        code=Code.NEXT_TICK,
        sentence=f"{_since(facts)}, and nothing stands in its way: "
        f"{'the tick that is at work takes it, or the next one' if is_at_work else 'the next tick takes it'}",
        details={**_due(facts), "last_tick_at": None if tick is None else iso(tick.started_at)},
    )


def _wants_a_tick(facts: Facts) -> bool:
    return facts.is_due or facts.action.status is Status.NO_ACTION


def _has_handler(facts: Facts) -> bool:
    return facts.here.types is None or facts.action.action_type in facts.here.types


def _no_handler(facts: Facts) -> Explanation:
    error = UnknownActionType(facts.action.action_type, facts.here.types or ())
    return Explanation(
        code=Code.NO_HANDLER,
        sentence=str(error),
        remedy="write the handler or mend its name and build the registry: the first tick of a build that has it takes "
        "the action; or cancel it",
        details={"action_type": facts.action.action_type},
    )


def _is_recent(tick: TickSeen, facts: Facts) -> bool:
    """Whether it is at work, or was a short while ago: one that lingers may have begun long before."""
    if tick.finished_at is None and tick.lease_expires_at > facts.now:
        return True
    return facts.now - (tick.finished_at or tick.started_at) <= TICKS_MISSED


def _was_due(facts: Facts, tick: TickSeen) -> bool:
    return facts.action.scheduled_at <= tick.started_at


def _other_hold(facts: Facts) -> HoldSeen | None:
    """Return the hold of another action on the group; its own, kept while it waited, keeps it from nothing."""
    hold = facts.hold
    if not facts.is_due or hold is None or (hold.action_id == facts.action.id and hold.busy_until is None):
        return None
    return hold


def _group(facts: Facts) -> str:
    return f'its lock group "{facts.action.lock_group}"'


def _held(facts: Facts, hold: HoldSeen) -> dict[str, str | float | None]:
    return {
        **_due(facts),
        "lock_group": facts.action.lock_group,
        "held_by": str(hold.action_id),
        "holder_status": hold.status,
    }


def _since(facts: Facts) -> str:
    if not facts.is_due:
        return "it waits for a handler"
    return f"it has been due for {in_words(facts.now - facts.action.scheduled_at)}"


def _due(facts: Facts) -> dict[str, str | float | None]:
    moment = facts.action.scheduled_at
    return {"scheduled_at": iso(moment), "due_for_seconds": round((facts.now - moment).total_seconds(), 3)}
