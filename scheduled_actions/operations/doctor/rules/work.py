"""What the work that stands in the tables means for the person who keeps it going."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from scheduled_actions.conditions.rules.plan import in_a_circle
from scheduled_actions.operations.doctor.rules import Check, Level
from scheduled_actions.operations.doctor.rules.database import in_words

if TYPE_CHECKING:
    from uuid import UUID

#: What has been due for longer waits for more than the next ping.
_LATE = timedelta(minutes=5)
#: Counts stop here.
COUNTED = 10_000
#: Names told of many.
_NAMES_MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogFound:
    """What is due."""

    #: Counted to 10,000.
    due: int
    #: For how long the oldest has been; None where nothing is.
    oldest: timedelta | None
    #: Whether no cron seems to ping: then that is the reason, and is told elsewhere.
    is_missing: bool

    def judged(self) -> Check:
        """Return a warning where ticks come, and still something has long been due."""
        if self.oldest is None or not self.due:
            return Check("backlog", Level.OK, "nothing is due")
        waits = f"{_counted(self.due, 'action')} due, the oldest for {in_words(self.oldest)}"
        if self.is_missing or self.oldest <= _LATE:
            return Check("backlog", Level.OK, waits)
        remedy = (
            "`scheduled-actions list --status pending` and `explain ID` say what holds one; where all is just slow, "
            "raise concurrency or max_run_seconds, or ping more often"
        )
        return Check("backlog", Level.WARNING, f"{waits}: ticks do not keep up", remedy)


@dataclass(frozen=True, slots=True)
class FailuresFound:
    """Actions that failed in the last day and still stand so, counted to 10,000."""

    count: int

    def judged(self) -> Check:
        """Return a warning where there are any: a failed action waits for a person."""
        if not self.count:
            return Check("failed_actions", Level.OK, "none failed in the last day")
        remedy = "`scheduled-actions list --status failed` tells why; `bulk retry` makes those that match pending again"
        return Check(
            "failed_actions", Level.WARNING, f"{_counted(self.count, 'action')} failed in the last day", remedy
        )


@dataclass(frozen=True, slots=True)
class UnhandledFound:
    """The action types of actions that wait for a build that has their handler."""

    action_types: tuple[str, ...]

    def judged(self) -> Check:
        """Return a warning where there are any."""
        if not self.action_types:
            return Check("no_action", Level.OK, "no action waits for a handler")
        detail = f"actions wait for a handler that the build which ticks does not have: {_named(self.action_types)}"
        remedy = (
            "deploy a build that has it: they run by themselves; or `scheduled-actions bulk cancel --status no_action`"
        )
        return Check("no_action", Level.WARNING, detail, remedy)


@dataclass(frozen=True, slots=True)
class StoppedSchedulesFound:
    """Schedules that were paused after failures, by name or id."""

    names: tuple[str, ...]

    def judged(self) -> Check:
        """Return a warning where there are any."""
        if not self.names:
            return Check("schedules", Level.OK, "none is paused after failures")
        remedy = "mend what failed, then `scheduled-actions schedules resume` it"
        return Check("schedules", Level.WARNING, f"paused after failures: {_named(self.names)}", remedy)


@dataclass(frozen=True, slots=True)
class DisabledEndpointsFound:
    """Webhook endpoints that were disabled because nothing could be delivered there, by name or id."""

    names: tuple[str, ...]

    def judged(self) -> Check:
        """Return a warning where there are any."""
        if not self.names:
            return Check("webhook_endpoints", Level.OK, "none is disabled for its failures")
        remedy = (
            "once its receiver works again, `scheduled-actions webhooks endpoints update ID --enable`, then "
            "`webhooks deliveries recover --since WHEN` sends what was lost"
        )
        return Check("webhook_endpoints", Level.WARNING, f"disabled for failures: {_named(self.names)}", remedy)


@dataclass(frozen=True, slots=True)
class WaitingCyclesFound:
    """Actions that wait for one another: in each cycle every one comes after the next, the last after the first."""

    cycles: tuple[tuple[UUID, ...], ...]

    def judged(self) -> Check:
        """Return a warning where there are any: none of them ever runs."""
        if not self.cycles:
            return Check("waiting_cycles", Level.OK, "no actions wait for one another")
        detail = f"actions wait for one another for ever: {_named(tuple(map(in_a_circle, self.cycles)))}"
        return Check("waiting_cycles", Level.WARNING, detail, BREAK_CYCLE)


#: What to do about actions that wait for one another.
BREAK_CYCLE = (
    "give one of them another `after`, or none: `scheduled-actions update ID --after OTHER`, `update ID --reset after`"
)


def _named(names: tuple[str, ...]) -> str:
    more = len(names) - _NAMES_MOST
    return ", ".join(names[:_NAMES_MOST]) + (f" and {more} more" if more > 0 else "")


def _counted(count: int, noun: str) -> str:
    return f"{count:,}{'+' if count >= COUNTED else ''} {noun}{'' if count == 1 else 's'}"
