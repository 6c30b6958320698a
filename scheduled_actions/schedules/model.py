"""Data classes of schedules: the stored definition of a recurring action, and the parts that planning reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict
from uuid import UUID

from scheduled_actions.core.action import OnExpiry
from scheduled_actions.core.retry import RetryPolicy

#: `fixed`: occurrences follow the rule; `rolling`: the next one is counted from the end of the last run.
RecurrenceType: TypeAlias = Literal["fixed", "rolling"]
#: What happens to occurrences that no tick claimed in time.
Misfire: TypeAlias = Literal["fire_once", "skip", "catch_up"]
#: What happens when an occurrence is due while the previous one is running.
Overlap: TypeAlias = Literal["skip", "queue", "allow"]
ScheduleStatus: TypeAlias = Literal["active", "paused", "ended"]
#: The anchor of rules whose occurrences do not depend on it.
ANY_ANCHOR = datetime(2000, 1, 1, tzinfo=UTC)

#: The `status_by` of schedules that are paused because a call from SQL was refused.
APPLY = "schedule:apply"


class ScheduleOptions(TypedDict, total=False):
    """The optional arguments of `schedule_recurring_action`; None selects the default."""

    scheduled_at: datetime | date | str | timedelta | None
    timezone: str | None
    name: str | None
    recurrence_type: RecurrenceType | None
    misfire: Misfire | None
    misfire_grace_seconds: float | None
    catch_up_limit: int | None
    catch_up_seconds: float | None
    overlap: Overlap | None
    requires_previous: bool | None
    skip: Mapping[str, Any] | None
    jitter_seconds: float | None
    until: datetime | date | str | None
    remaining: int | None
    pause_after_failures: int | None
    priority: int | None
    max_attempts: int | None
    retry: RetryPolicy | Mapping[str, Any] | Sequence[float] | None
    lock_group: str | None
    lock_group_blocks: bool | None
    limit: str | Sequence[str] | None
    expires_in: timedelta | float | None
    on_expiry: OnExpiry | None
    target: Mapping[str, str] | None
    user_id: str | None
    metadata: Mapping[str, Any] | None
    condition: Mapping[str, Any] | None
    on_success: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
    on_failure: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


class ScheduleChanges(ScheduleOptions, total=False):
    """The arguments of a schedule that can be changed; None resets an argument to its default."""

    recurrence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRule:
    """A rule and the values that determine its occurrences; instants are aware and in UTC, also in derived classes."""

    #: The rule as given.
    recurrence: str
    #: The IANA time zone in which the rule is evaluated.
    timezone: str = "UTC"
    #: The start of intervals, and the DTSTART of an RRULE without one.
    anchor_at: datetime = ANY_ANCHOR
    #: Skipped instants: weekends, holidays, dates, windows; None skips nothing.
    skip: Mapping[str, Any] | None = None
    #: The rule has no occurrence after this instant; None: no end.
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningState(ScheduleRule):
    """The part of a schedule that a claim reads to plan the next occurrence."""

    #: UUID version 7: ordered by creation.
    id: UUID
    action_type: str
    #: One of `recurrence.Kind`.
    kind: str
    recurrence_type: RecurrenceType
    misfire: Misfire
    #: With the misfire policy `skip`: how many seconds late an occurrence may be claimed and still run.
    misfire_grace_seconds: float
    #: Maximum number, and maximum age in seconds, of the missed occurrences that `catch_up` runs: the latest ones.
    catch_up_limit: int
    catch_up_seconds: float
    overlap: Overlap
    #: Maximum delay of an occurrence in seconds; the delay of each occurrence is fixed.
    jitter_seconds: float
    #: Remaining executions; None: unlimited.
    remaining: int | None
    #: Pause after this number of final failures in a row; None: never.
    pause_after_failures: int | None
    #: The instant of the planned occurrence; for a rolling schedule also of the running one.
    next_occurrence_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(PlanningState):
    """One row of `scheduled_action_schedules`."""

    #: Unique within its team, for upserts; None: the schedule is identified only by its id.
    name: str | None
    #: The payload of every occurrence.
    payload: Any
    team_id: str | None
    #: Whether an occurrence is skipped unless the previous one has completed.
    requires_previous: bool
    consecutive_failures: int
    priority: int
    max_attempts: int | None
    retry: Any
    lock_group: str | None
    lock_group_blocks: bool
    #: The limit keys of every occurrence; None: no limits, or those of the handler.
    limit_keys: Sequence[str] | None
    #: Seconds from the due time of an occurrence until it expires; None: it does not expire.
    expires_seconds: float | None
    #: What happens to an occurrence that expires; None without `expires_seconds`.
    on_expiry: OnExpiry | None
    target_type: str | None
    target_id: str | None
    user_id: str | None
    metadata: Mapping[str, Any] | None
    #: As `Action.condition`, for every occurrence.
    condition: Any
    #: The follow-ups to schedule when an occurrence completes, and when it fails permanently.
    on_success: Any
    on_failure: Any
    status: ScheduleStatus
    #: Why the schedule is paused, has ended, or has no planned occurrence yet.
    status_reason: str | None
    status_by: str | None
    status_at: datetime | None
    #: The planned occurrence; for a rolling schedule also the running one.
    next_action_id: UUID | None
    last_action_id: UUID | None
    last_occurrence_at: datetime | None
    #: Number of occurrences that ran: counted when they are claimed, or for a rolling schedule when they end.
    executions: int
    #: Number of occurrences that did not run, for example because a person, the overlap policy or the misfire policy
    #: skipped them.
    skipped: int
    #: Number of occurrences dropped after outages; per outage, at most 100 are counted (with `catch_up`, 1,000).
    missed: int
    #: The given arguments; an upsert with the same arguments changes nothing.
    definition: Mapping[str, Any]
    #: Whether the schedule is synchronised with a declaration in code.
    is_declared: bool
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    #: Which stored value is unusable and was replaced; None if all are usable. Not a column.
    problem: str | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the schedule is paused because a call from SQL was refused; the next valid change resumes it."""
        return self.status == "paused" and self.status_by == APPLY


class PreviousOccurrence(NamedTuple):
    """The latest earlier occurrence that was not skipped, which has not completed."""

    action_id: UUID
    status: str
    occurrence_at: datetime
    #: When it got its status: if it is running, when it was claimed.
    status_at: datetime


#: The fields that planning needs: first the id, then the columns that a claim reads, in order.
PLANNING_FIELDS = ("id", *(field.name for field in fields(PlanningState) if field.name != "id"))
#: Each of them sets one of these fields of a new object, in the same order.
_SET_FIELDS = tuple(getattr(PlanningState, name).__set__ for name in PLANNING_FIELDS)


def planning_state(*values: object) -> PlanningState:
    """Return a `PlanningState` from the values of `PLANNING_FIELDS`, in a third of the time of its constructor."""
    state = object.__new__(PlanningState)
    for set_field, value in zip(_SET_FIELDS, values, strict=True):
        set_field(state, value)
    return state


def project_functions(rule: ScheduleRule) -> tuple[str, ...]:
    """Return the keys of the project functions that the rule calls, such as "next:payday" or "skip:holidays"."""
    prefix, _, name = rule.recurrence.strip().partition(":")
    functions = [f"next:{name.strip()}"] if prefix.lower() == "custom" else []
    function = rule.skip.get("function") if isinstance(rule.skip, dict) else None
    if isinstance(function, str):
        functions.append(f"skip:{function}")
    return tuple(functions)


def has_same_plan(one: Schedule, other: Schedule) -> bool:
    """Whether two snapshots of a schedule are equal in all fields that determine the next occurrence."""
    return all(
        getattr(one, name) == getattr(other, name)
        for name in (*PLANNING_FIELDS, "status", "next_action_id", "last_action_id", "last_occurrence_at")
    )


def instant(epoch: float) -> datetime:
    """Convert epoch seconds to an instant in UTC; clamp infinite and too large values to the first or last datetime."""
    try:
        return datetime.fromtimestamp(epoch, UTC)
    except (OverflowError, ValueError):
        return datetime.min.replace(tzinfo=UTC) if epoch < 0 else datetime.max.replace(tzinfo=UTC)
