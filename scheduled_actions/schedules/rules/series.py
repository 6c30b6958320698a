"""Apply the policies of a schedule: decide whether a claimed occurrence runs, and which one comes next."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol, assert_never

from scheduled_actions.core.action import Status
from scheduled_actions.core.messages import counted
from scheduled_actions.recurrence.model import Occurrence
from scheduled_actions.schedules.model import PlanningState, PreviousOccurrence

#: How late the ping of a minute cron may be before an occurrence counts as missed.
PING_JITTER = timedelta(seconds=10)
#: How far in the past an explicit start may be and still have its occurrence planned.
START_TOLERANCE = timedelta(seconds=60)
#: Maximum number of missed occurrences counted per outage if none of them runs.
_COUNTED_MOST = 100
_INSTANT = "%Y-%m-%d %H:%M:%SZ"
#: Maximum number of missed occurrences counted per outage among those that `catch_up` drops.
_DROPPED_MOST = 1000


class OccurrenceSource(Protocol):
    """The occurrences of a recurrence."""

    def next_after(self, moment: datetime) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None if the rule has ended."""

    def between(self, start: datetime, end: datetime, *, limit: int) -> list[Occurrence]:
        """Return the first `limit` occurrences after `start` and up to `end`."""


@dataclass(frozen=True, slots=True)
class NextOccurrence:
    """The occurrence to plan."""

    #: None: the series has ended.
    at: datetime | None
    #: Number of missed occurrences that are dropped.
    missed: int = 0
    #: The catch-up includes all occurrences up to this instant; None: the occurrence is not part of a catch-up.
    selected_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class OccurrenceDecision:
    """The decision about a claimed occurrence."""

    #: `wait` returns the occurrence to pending.
    verdict: Literal["run", "skip", "wait"]
    #: Why the occurrence is skipped; None for the other verdicts.
    reason: str | None = None


RUN = OccurrenceDecision("run")
WAIT = OccurrenceDecision("wait")
#: The states of a previous occurrence that has ended or is running, in words.
_STATES: dict[str, str] = {
    Status.FAILED: "failed",
    Status.CANCELLED: "was cancelled",
    Status.PROCESSING: "is still running",
}


def first(rule: OccurrenceSource, *, anchor: datetime, is_explicit: bool, now: datetime) -> datetime | None:
    """Return the first occurrence at or after the start and after now; None if there is none.

    Args:
        rule: The rule of the schedule.
        anchor: The start of the schedule.
        is_explicit: Whether the caller gave the start, which may then be up to `START_TOLERANCE` in the past.
        now: The database's time.
    """
    since = now - START_TOLERANCE if is_explicit else now
    return instant(rule.next_after(max(anchor - timedelta(microseconds=1), since)))


def instant(occurrence: Occurrence | None) -> datetime | None:
    """Return the instant of an occurrence; None for None."""
    return None if occurrence is None else occurrence.at


def decide(  # noqa: PLR0911 - a return per rule
    schedule: PlanningState,
    *,
    due_at: datetime,
    now: datetime,
    running_since: datetime | None,
    waiting_since: datetime | None = None,
    has_unhandled: bool,
    previous: PreviousOccurrence | None = None,
) -> OccurrenceDecision:
    """Decide whether a claimed occurrence that has never started runs.

    Args:
        schedule: The schedule of the occurrence.
        due_at: When the occurrence was due: its instant with jitter, unless a person rescheduled it.
        now: When the occurrence was claimed.
        running_since: When the earliest other running occurrence was claimed; None if no other is running.
        waiting_since: When another occurrence began to wait for its condition; None if no other is waiting.
        has_unhandled: Whether an earlier occurrence has the status `no_action`.
        previous: The previous occurrence if it is required and has not completed; else None.
    """
    late = now - due_at
    if has_unhandled:
        return OccurrenceDecision(
            "skip", "this build has no handler for its type, and an earlier occurrence is waiting for one"
        )
    if schedule.misfire == "skip" and late > timedelta(seconds=schedule.misfire_grace_seconds):
        return OccurrenceDecision("skip", f"missed: claimed {_duration(late)} late")
    if previous is not None:
        if previous.status == Status.PROCESSING and previous.status_at >= due_at:
            return WAIT
        return OccurrenceDecision(
            "skip",
            f"requires_previous: the occurrence of {previous.occurrence_at:{_INSTANT}} ({previous.action_id}) "
            f"{_STATES.get(previous.status, 'has not completed yet')}",
        )
    if schedule.overlap != "skip" or schedule.recurrence_type == "rolling":
        return RUN
    if waiting_since is not None:
        return OccurrenceDecision(
            "skip",
            f"overlap: an earlier occurrence has been waiting for its condition since {waiting_since:{_INSTANT}}",
        )
    if running_since is None:
        return RUN
    if running_since < due_at:
        return OccurrenceDecision(
            "skip", f"overlap: an earlier occurrence has been running since {running_since:{_INSTANT}}"
        )
    # A retry that has just begun, or the previous occurrence of a catch-up: this one runs after it.
    return WAIT


def following(
    schedule: PlanningState,
    rule: OccurrenceSource,
    *,
    after: datetime,
    now: datetime,
    selected_until: datetime | None = None,
) -> NextOccurrence:
    """Return the next occurrence of a fixed schedule by its misfire policy.

    Args:
        schedule: The schedule, with its misfire policy.
        rule: The rule of the schedule.
        after: The rule's own instant of the previous occurrence.
        now: The database's time; occurrences at least `PING_JITTER` before it were missed.
        selected_until: The value returned with the previous occurrence, so that a catch-up is selected only once; None
            outside a catch-up.
    """
    found = rule.next_after(after)
    if found is None or found.at > now - PING_JITTER:
        return NextOccurrence(instant(found))
    match schedule.misfire:
        case "skip" if found.at >= now - timedelta(seconds=schedule.misfire_grace_seconds):
            return NextOccurrence(found.at)
        case "fire_once" | "skip":
            return NextOccurrence(instant(rule.next_after(now)), len(rule.between(after, now, limit=_COUNTED_MOST)))
        case "catch_up":
            since = now - timedelta(seconds=schedule.catch_up_seconds)
            if selected_until is not None and since < found.at <= selected_until:
                return NextOccurrence(found.at, selected_until=selected_until)
            return _to_catch_up(rule, after=after, since=since, now=now, limit=schedule.catch_up_limit)
        case _:
            assert_never(schedule.misfire)


def _to_catch_up(
    rule: OccurrenceSource, *, after: datetime, since: datetime, now: datetime, limit: int
) -> NextOccurrence:
    """Return the first of the latest `limit` missed occurrences since `since`; without any, the next one after now."""
    earliest = _first_of_latest(rule, max(after, since), now, limit=limit)
    dropped_until = now if earliest is None else earliest - timedelta(microseconds=1)
    missed = len(rule.between(after, dropped_until, limit=_DROPPED_MOST))
    return (
        NextOccurrence(instant(rule.next_after(now)), missed)
        if earliest is None
        else NextOccurrence(earliest, missed, selected_until=now)
    )


def _first_of_latest(rule: OccurrenceSource, start: datetime, end: datetime, *, limit: int) -> datetime | None:
    """Return the first of the latest `limit` occurrences after `start` and up to `end`; None if there are none.

    Rules can only be evaluated forwards. The search therefore goes backwards in intervals, each long enough to contain
    the missing number at the density seen so far; an interval that contains more is shortened. The work grows with
    `limit`, and with the logarithm of how unevenly the occurrences are distributed.
    """
    found = rule.between(start, end, limit=limit + 1)
    if len(found) <= limit:
        return found[0].at if found else None
    low, high, missing = start, end, limit
    gap = (found[-1].at - start) / len(found)
    while True:
        gap = min(max(gap, timedelta(microseconds=1)), high - low)
        since = high - gap * missing if gap * missing < high - low else low + (high - low) / 2
        part = rule.between(since, high, limit=missing + 1)
        if len(part) == missing:
            return part[0].at
        if len(part) > missing:
            low, gap = since, (part[-1].at - since) / len(part)
        else:
            gap = (high - since) / len(part) if part else 2 * gap
            high, missing = since, missing - len(part)


def _duration(late: timedelta) -> str:
    seconds = int(late.total_seconds())
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return counted(seconds // size, unit)
    return counted(seconds, "second")
