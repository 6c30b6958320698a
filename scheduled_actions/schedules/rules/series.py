"""What becomes of an occurrence that is claimed, and which one comes next: the policies of a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, assert_never

if TYPE_CHECKING:
    from scheduled_actions.recurrence.model import Occurrence
    from scheduled_actions.schedules.model import Course, Schedule

#: How much the pings of a minute cron may come apart before an occurrence counts as missed.
PING_JITTER = timedelta(seconds=10)
#: An occurrence before a schedule's creation never was, save one that an explicit start names and a call took time for.
START_TOLERANCE = timedelta(seconds=60)
#: Missed occurrences of one outage counted where none of them is run.
_COUNTED_MOST = 100
#: Missed occurrences of one outage counted that `catch_up` drops.
_DROPPED_MOST = 1000

#: `wait`: not now, and nothing has changed.
Verdict: TypeAlias = Literal["run", "skip", "wait"]


class Instants(Protocol):
    """The instants of a recurrence."""

    def next_after(self, moment: datetime) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None once it has ended."""

    def between(self, start: datetime, end: datetime, *, limit: int) -> list[Occurrence]:
        """Return the occurrences after `start` and up to `end`, the first `limit` of them."""


@dataclass(frozen=True, slots=True)
class Next:
    """Which occurrence is planned."""

    #: None: no more; the series has ended.
    at: datetime | None
    #: Occurrences that were missed and are dropped.
    missed: int = 0
    #: It is one of those selected to catch up on, and so are all after it up to this instant; None: it is not.
    selected_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What becomes of a claimed occurrence."""

    verdict: Verdict
    #: Why it is skipped.
    reason: str | None = None


def first(rule: Instants, *, anchor: datetime, is_explicit: bool, now: datetime) -> datetime | None:
    """Return the first occurrence that a schedule plans when it has none: neither before its start nor before now.

    Args:
        rule: Its instants.
        anchor: Its start.
        is_explicit: The start was named in this very call: it may be a moment ago.
        now: The database's.
    """
    since = now - START_TOLERANCE if is_explicit else now
    return instant(rule.next_after(max(anchor - timedelta(microseconds=1), since)))


def instant(occurrence: Occurrence | None) -> datetime | None:
    """Return when an occurrence is; None for none."""
    return None if occurrence is None else occurrence.at


def judge(
    schedule: Course | Schedule,
    *,
    due_at: datetime,
    now: datetime,
    running_since: datetime | None,
    waiting_since: datetime | None = None,
    has_unhandled: bool,
) -> Judgement:
    """Decide whether the claimed, never started occurrence of a schedule runs.

    Args:
        schedule: Whose.
        due_at: When the occurrence came due: its instant and its jitter, or what a person made of it.
        now: Of the claim.
        running_since: The claim of the earliest other occurrence that is at work; None when none is.
        waiting_since: Since when another one waits for its condition; None when none does.
        has_unhandled: Whether an earlier occurrence waits for a build that has its handler.
    """
    late = now - due_at
    if has_unhandled:
        return Judgement("skip", "no handler of its type is in this build, and an occurrence before it waits for one")
    if schedule.misfire == "skip" and late > timedelta(seconds=schedule.misfire_grace_seconds):
        return Judgement("skip", f"missed: found {_in_words(late)} late")
    if schedule.overlap != "skip" or schedule.recurrence_type == "rolling":
        return Judgement("run")
    return _beside(due_at, running_since, waiting_since)


def _beside(due_at: datetime, running_since: datetime | None, waiting_since: datetime | None) -> Judgement:
    """Decide beside others of its series, which are not to overlap."""
    if waiting_since is not None:
        since = f"{waiting_since:%Y-%m-%d %H:%M:%S}Z"
        return Judgement("skip", f"overlap: an occurrence before it waits for its condition since {since}")
    if running_since is None:
        return Judgement("run")
    if running_since < due_at:
        return Judgement(
            "skip", f"overlap: an occurrence before it was at work since {running_since:%Y-%m-%d %H:%M:%S}Z"
        )
    # A retry that began in this moment, or the one before of a catch-up: this one comes after it.
    return Judgement("wait")


def following(
    schedule: Course | Schedule,
    rule: Instants,
    *,
    after: datetime,
    now: datetime,
    selected_until: datetime | None = None,
) -> Next:
    """Return the occurrence of a fixed schedule that follows the one at `after`, as the misfire policy has it.

    Args:
        schedule: Whose policies decide.
        rule: Its instants.
        after: The rule's own instant of the occurrence before.
        now: Occurrences before it were missed.
        selected_until: What was returned with the one before: the selection is not made again for each of its members.
    """
    found = rule.next_after(after)
    if found is None or found.at > now - PING_JITTER:
        return Next(instant(found))
    match schedule.misfire:
        case "skip" if found.at >= now - timedelta(seconds=schedule.misfire_grace_seconds):
            return Next(found.at)
        case "fire_once" | "skip":
            return _after_all(rule, now, missed=len(rule.between(after, now, limit=_COUNTED_MOST)))
        case "catch_up":
            since = now - timedelta(seconds=schedule.catch_up_seconds)
            if selected_until is not None and since < found.at <= selected_until:
                return Next(found.at, selected_until=selected_until)
            return _to_catch_up(rule, after=after, since=since, now=now, limit=schedule.catch_up_limit)
        case _:
            assert_never(schedule.misfire)


def _to_catch_up(rule: Instants, *, after: datetime, since: datetime, now: datetime, limit: int) -> Next:
    """Return the first of the latest `limit` missed occurrences that are not too old."""
    first = _first_of_latest(rule, max(after, since), now, limit=limit)
    dropped_until = now if first is None else first - timedelta(microseconds=1)
    missed = len(rule.between(after, dropped_until, limit=_DROPPED_MOST))
    return _after_all(rule, now, missed=missed) if first is None else Next(first, missed, selected_until=now)


def _first_of_latest(rule: Instants, start: datetime, end: datetime, *, limit: int) -> datetime | None:
    """Return the first of the latest `limit` occurrences after `start` and up to `end`; None where there is none.

    A rule can only be asked forward. So the latest are gathered backward in stretches, each so long that it holds what
    is missing at the density seen so far; one that holds more is tried again from a later beginning. The work grows
    with `limit`, and with the logarithm of how unevenly the occurrences lie.
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


def _after_all(rule: Instants, now: datetime, *, missed: int) -> Next:
    return Next(instant(rule.next_after(now)), missed)


def _in_words(late: timedelta) -> str:
    seconds = int(late.total_seconds())
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{seconds} seconds"
