"""What a schedule will bring beyond the occurrence that it has planned, as things are now."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from scheduled_actions.errors import ScheduledActionsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from scheduled_actions.occurrences import Occurrences
    from scheduled_actions.recurrence import Recurrence
    from scheduled_actions.schedule import Schedule

#: Executions counted to find where a schedule with a number of them ends.
_COUNTED_MOST = 5000
#: A schedule that occurs so often in a day fills every hour of a calendar.
A_DAY_MOST = 24
_MOMENT = timedelta(microseconds=1)


def instants(
    occurrences: Occurrences, schedule: Schedule, start: datetime, end: datetime, *, most: int
) -> Iterator[datetime]:
    """Yield the instants between two, in order: at most one more than `most`, which tells that there are more.

    Args:
        occurrences: Has the rules of schedules.
        schedule: Whose.
        start: Aware; from this instant on.
        end: Aware; before this one.
        most: So many are wanted.
    """
    found = _planned_by_the_rule(occurrences, schedule, start, end, most)
    if not schedule.jitter_seconds:
        yield from found
        return
    # Put off, they may come in another order.
    put_off = (occurrences.put_off(schedule, at) for at in found)
    yield from sorted(at for at in put_off if at < end)


def _planned_by_the_rule(
    occurrences: Occurrences, schedule: Schedule, start: datetime, end: datetime, most: int
) -> Iterator[datetime]:
    planned, last = schedule.next_occurrence_at, end - _MOMENT
    if planned is None:
        return
    try:
        rule = occurrences.rule_of(schedule)
        if schedule.remaining is not None:
            # Its executions are counted from the planned one on.
            counted = rule.between(planned, last, limit=min(schedule.remaining - 1, _COUNTED_MOST))
            yield from [one.at for one in counted if one.at >= start][: most + 1]
            return
        found = rule.next_after(max(planned, start - _MOMENT))
        for _ in range(most + 1):
            if found is None or found.at > last:
                return
            yield found.at
            found = rule.next_after(found.at)
    except ScheduledActionsError:
        # Its rule names a function that this build does not have, say: `schedules show` tells.
        return


def is_frequent(occurrences: Occurrences, schedule: Schedule) -> bool:
    """Whether a schedule occurs too often in a day for a calendar to show each time."""
    planned = schedule.next_occurrence_at
    if planned is None:
        return False
    try:
        return fills_a_day(occurrences.rule_of(schedule), planned)
    except ScheduledActionsError:
        return False


def fills_a_day(rule: Recurrence, start: datetime) -> bool:
    """Whether a rule names so many instants in the day after one that a calendar would show nothing else."""
    return len(rule.between(start, start + timedelta(days=1), limit=A_DAY_MOST)) == A_DAY_MOST
