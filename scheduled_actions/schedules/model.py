"""The schedule: the lasting definition of a recurring action, as a value."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

#: Whether occurrences come from the rule, or the next one is counted from the end of the last run.
RecurrenceType: TypeAlias = Literal["fixed", "rolling"]
#: What becomes of occurrences that no tick ran in time.
Misfire: TypeAlias = Literal["fire_once", "skip", "catch_up"]
#: What an occurrence does that comes due while the one before still runs.
Overlap: TypeAlias = Literal["skip", "queue", "allow"]
ScheduleStatus: TypeAlias = Literal["active", "paused", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One row of `scheduled_action_schedules`. All instants are aware and in UTC."""

    #: UUID version 7: ordered by creation.
    id: UUID
    #: Names it within its team, for upserts; None for one that is known by its id alone.
    name: str | None
    action_type: str
    #: The payload of every occurrence.
    payload: Any
    team_id: str | None
    #: The rule as it was typed.
    recurrence: str
    #: One of `recurrence.Kind`.
    kind: str
    #: Whose wall clock the rule follows: an IANA name.
    timezone: str
    #: Where intervals count from, and the DTSTART of an RRULE that brings none.
    anchor_at: datetime
    recurrence_type: RecurrenceType
    misfire: Misfire
    #: How late an occurrence may be found and still be run by the policy `skip`.
    misfire_grace_seconds: float
    #: How many missed occurrences `catch_up` runs, the latest of them, and how old they may be.
    catch_up_limit: int
    catch_up_seconds: float
    overlap: Overlap
    #: What is left out: weekends, holidays, dates, windows; None leaves nothing out.
    skip: Mapping[str, Any] | None
    #: Each occurrence is put off by its own share of this many seconds, the same whenever it is asked.
    jitter_seconds: float
    #: No occurrence after it.
    until: datetime | None
    #: Executions still to come; None: no end.
    remaining: int | None
    #: Pause after as many final failures in a row; None: go on.
    pause_after_failures: int | None
    consecutive_failures: int
    priority: int
    max_attempts: int | None
    retry: Any
    lock_group: str | None
    lock_group_blocks: bool
    target_type: str | None
    target_id: str | None
    user_id: str | None
    metadata: Mapping[str, Any] | None
    #: What must hold when an occurrence would run; see `Action.condition`.
    condition: Any
    #: What is scheduled when an occurrence completes, and when it has failed for good.
    on_success: Any
    on_failure: Any
    status: ScheduleStatus
    #: Why it is paused, has ended, or is active with nothing planned yet.
    status_note: str | None
    status_by: str | None
    status_at: datetime | None
    #: The planned occurrence; of a rolling schedule also the one at work.
    next_action_id: UUID | None
    next_occurrence_at: datetime | None
    last_action_id: UUID | None
    last_occurrence_at: datetime | None
    #: Occurrences that were started.
    executions: int
    #: Occurrences that a person, the overlap policy or the misfire policy left out one by one.
    skipped: int
    #: Occurrences that passed while nothing ticked and were dropped; of one outage, `fire_once` and `skip` count 100,
    #: `catch_up` 1,000.
    missed: int
    #: What was asked for, as it was: asking for the same again changes nothing.
    definition: Mapping[str, Any]
    #: Whether it is kept in step with a declaration in the code.
    is_declared: bool
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    #: What in the stored row cannot be used, and was replaced; None where all can. No column.
    problem: str | None = None


class Course(NamedTuple):
    """What of a schedule decides where it goes on from an occurrence: all that a claim reads of it, instants as epochs.

    Its fields and properties are those of `Schedule`: what follows either takes both.
    """

    id: UUID
    action_type: str
    recurrence: str
    kind: str
    timezone: str
    anchor_epoch: float
    recurrence_type: RecurrenceType
    misfire: Misfire
    misfire_grace_seconds: float
    catch_up_limit: int
    catch_up_seconds: float
    overlap: Overlap
    skip: Mapping[str, Any] | None
    jitter_seconds: float
    until_epoch: float | None
    remaining: int | None
    pause_after_failures: int | None
    next_occurrence_epoch: float | None

    @property
    def anchor_at(self) -> datetime:
        """Where intervals count from."""
        return instant(self.anchor_epoch)

    @property
    def until(self) -> datetime | None:
        """No occurrence after it."""
        return None if self.until_epoch is None else instant(self.until_epoch)

    @property
    def next_occurrence_at(self) -> datetime | None:
        """The rule's instant of the planned occurrence."""
        return None if self.next_occurrence_epoch is None else instant(self.next_occurrence_epoch)


def project_functions(schedule: Course | Schedule) -> tuple[str, ...]:
    """Return the keys of the project's functions that planning the schedule calls: "next:payday", "skip:holidays"."""
    return functions_named(schedule.recurrence, schedule.skip)


def functions_named(recurrence: str, skip: object) -> tuple[str, ...]:
    """Return the keys of the project's functions that a rule and its skips name."""
    prefix, _, name = recurrence.strip().partition(":")
    functions = [f"next:{name.strip()}"] if prefix.lower() == "custom" else []
    function = skip.get("function") if isinstance(skip, dict) else None
    if isinstance(function, str):
        functions.append(f"skip:{function}")
    return tuple(functions)


def is_planned_alike(one: Schedule, other: Schedule) -> bool:
    """Whether two readings of a schedule lead to the same next occurrence: nothing that planning reads has changed."""
    return all(getattr(one, name) == getattr(other, name) for name in _PLANNING)


#: What planning reads of a schedule besides the present moment: what a claim reads of it, for both plan by the same
#: functions, and where it stands.
_PLANNING = (
    *(field.name for field in fields(Schedule) if hasattr(Course, field.name)),
    "status", "next_action_id", "last_action_id", "last_occurrence_at",
)  # fmt: skip


def instant(epoch: float) -> datetime:
    """Return an instant in UTC; the first or the last there is for what SQL can hold and a datetime cannot."""
    try:
        return datetime.fromtimestamp(epoch, UTC)
    except (OverflowError, ValueError):
        return _FIRST if epoch < 0 else _LAST


#: What stands for `-infinity` and `infinity`, and for what lies beyond a datetime.
_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)
