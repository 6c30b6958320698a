"""Data classes of a deadline and its stages."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Literal, TypeAlias
from uuid import UUID

from scheduled_actions.core.requester import AddressReach
from scheduled_actions.notifications.rules.reminder import Severity

#: `missed`: the due instant has passed; it can still be completed late.
DeadlineStatus: TypeAlias = Literal["open", "missed", "completed", "cancelled"]
#: Statuses that are not final.
UNRESOLVED = frozenset({"open", "missed"})
#: `due` marks the deadline missed; `renewal` creates the next one of a series.
StageKind: TypeAlias = Literal["reminder", "escalation", "action", "due", "renewal"]
#: `begun`: no further occurrence is planned. `left_out`: its instant was in the past when it was planned.
StageState: TypeAlias = Literal["planned", "begun", "left_out", "withdrawn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """An action or notification at an offset from the due instant; it may repeat."""

    #: Unique within its deadline, never changes: "reminder:60 days before".
    key: str
    kind: StageKind
    #: For example "3 business days before at 09:00".
    offset: str
    action_type: str
    #: The payload of its action; None: an object of `deadline_id`, `stage` (the key) and `occurrence` (the number).
    payload: Any = None
    #: `priority`, `max_attempts` and `lock_group` of its action; None: the defaults.
    options: Mapping[str, Any] | None = None
    #: The condition of an escalation level or an auto-action, as for `schedule_action`; an occurrence is skipped if the
    #: condition is not met before an attempt. None: no condition.
    condition: Mapping[str, Any] | None = None
    #: The rule by which the stage repeats while the deadline is unresolved; None: the stage runs once.
    repeat: str | None = None
    #: The maximum number of occurrences; None: unlimited.
    times: int | None = None
    #: The recipients of its notifications; None: those of the deadline.
    to: tuple[Any, ...] | None = None
    #: The new recipients of the deadline once this level is reached; None: no change.
    assign: tuple[Any, ...] | None = None
    #: `acknowledged`: an acknowledgement also stops the stage.
    stop_when: Literal["resolved", "acknowledged"] = "resolved"
    #: The severity of its notifications; None: derived from the time left.
    severity: Severity | None = None
    #: A custom sentence in its notifications.
    message: str | None = None
    state: StageState = "planned"
    #: The instant of the occurrence numbered `occurrence`; None before planning, and if there is no such occurrence.
    at: datetime | None = None
    #: The number of the planned occurrence, from 1; without a planned occurrence, of the last one.
    occurrence: int = 1
    #: The number of occurrences that have begun, including those held back by an acknowledgement or by the condition.
    begun: int = 0
    #: When an occurrence last began, not counting those held back by an acknowledgement; None: never.
    last_at: datetime | None = None
    #: The deadline's revision when an occurrence last began or was held back.
    revision: int = 0
    #: The first of the occurrences that the last one replaces, because a change of the deadline prevented some of their
    #: notifications; recipients of the others are not notified again. None: it replaces none.
    replaces: int | None = None

    @property
    def is_planned(self) -> bool:
        """Whether an occurrence of the stage is planned; its action is scheduled unless the deadline is paused."""
        return self.state == "planned" and self.at is not None

    @property
    def is_acknowledgeable(self) -> bool:
        """Whether an acknowledgement stops the stage: a repeated reminder, or `stop_when` is `acknowledged`."""
        return (self.kind == "reminder" and self.repeat is not None) or self.stop_when == "acknowledged"

    def as_json(self) -> dict[str, Any]:
        """Return the stage as a JSON object, without fields at their defaults except `state` and `occurrence`."""
        # `asdict` copies deeply and takes forty times as long.
        given = zip(_STAGE_FIELDS, _stage_values(self), strict=True)
        values = {name: value for (name, usual), value in given if value != usual}
        return values | {name: values[name].isoformat() for name in _INSTANTS & values.keys()}

    def changed(self, **changes: Any) -> "Stage":  # noqa: ANN401 - by field
        """Return the stage with other values of some fields, in a third of the time of `dataclasses.replace`."""
        other = object.__new__(Stage)
        for set_value, value in zip(_STAGE_SETTERS, _stage_values(self), strict=True):
            set_value(other, value)
        for name, value in changes.items():
            object.__setattr__(other, name, value)
        return other

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Stage":
        """Return the stage of an `as_json` object; `deadlines.rules.rows` validates objects written by SQL."""
        lists = {name: tuple(stored[name]) for name in _LISTS & stored.keys() if stored[name] is not None}
        instants = {name: datetime.fromisoformat(stored[name]).astimezone(UTC) for name in _INSTANTS & stored.keys()}
        return cls(**{**stored, **lists, **instants})


_INSTANTS, _LISTS = frozenset({"at", "last_at"}), frozenset({"to", "assign"})
#: The fields of a stage with their defaults; the state and the occurrence are always stored.
_STAGE_FIELDS: tuple[tuple[str, Any], ...] = tuple(
    (one.name, None if one.default is MISSING or one.name in {"state", "occurrence"} else one.default)
    for one in fields(Stage)
)
_stage_values = attrgetter(*(name for name, _ in _STAGE_FIELDS))
_STAGE_SETTERS = tuple(vars(Stage)[name].__set__ for name, _ in _STAGE_FIELDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A row of `scheduled_action_deadlines`. All instants are aware and in UTC."""

    #: UUID version 7: ordered by creation.
    id: UUID
    #: Unique among the unresolved single deadlines of a team; shared by the deadlines of a series.
    name: str | None
    team_id: str | None
    #: The entity that the deadline belongs to.
    target_type: str
    target_id: str
    status: DeadlineStatus
    due_at: datetime
    #: The IANA time zone in which days are counted.
    timezone: str
    #: Business days and working hours; None: Monday to Friday, around the clock.
    calendar: Mapping[str, Any] | None
    #: The people responsible, who receive the reminders.
    recipients: tuple[Any, ...]
    stages: tuple[Stage, ...]
    #: The rule of its series; None: a single deadline.
    recurrence: str | None
    #: The id of the first deadline of the series; None: a single deadline.
    series_id: UUID | None
    #: The original due instant, which moves do not change. None: a single deadline.
    occurrence_at: datetime | None
    #: The instant from which the rule counts intervals: the first occurrence or, after a change of the rule, the last
    #: occurrence that existed then. None: a single deadline.
    anchor_at: datetime | None
    #: The id of the next deadline of the series; None: none has been created. In the last deadline of a cancelled
    #: series, the id of that deadline itself.
    next_id: UUID | None
    #: Grows with each change that invalidates notifications in progress.
    revision: int
    #: When the deadline was paused; None: not paused.
    paused_at: datetime | None
    missed_at: datetime | None
    #: When the deadline was completed or cancelled, by whom, and why.
    closed_at: datetime | None
    closed_by: str | None
    closed_reason: str | None
    #: Days from the due instant to the completion, rounded up; 0: on time. None: not completed.
    days_late: int | None
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    #: The end of the acknowledgement. If this is None but `acknowledged_at` is set, the acknowledgement lasts until the
    #: deadline is completed, cancelled, moved or reassigned.
    acknowledged_until: datetime | None
    metadata: Mapping[str, Any] | None
    #: The arguments of `set_deadline`; a later call with equal arguments changes nothing.
    definition: Mapping[str, Any]
    #: The history of the deadline, oldest first: the first 5 and the last 45 entries.
    history: tuple[Mapping[str, Any], ...]
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    #: Describes the first invalid value of the stored row; invalid values are replaced or left out. None for a valid
    #: row. Not a column.
    problem: str | None = None

    @property
    def reach(self) -> AddressReach | None:
        """Which addresses the deadline may use if any was given with a token; None: any, for application code."""
        reach = self.definition.get("reach")
        return None if reach is None else "public" if reach == "public" else "team"

    @property
    def is_unresolved(self) -> bool:
        """Whether the deadline is open or missed."""
        return self.status in UNRESOLVED

    def is_acknowledged(self, now: datetime) -> bool:
        """Return whether an acknowledgement is in effect at `now`, an aware instant."""
        until = self.acknowledged_until
        return self.acknowledged_at is not None and (until is None or now < until)

    def stage(self, key: str) -> Stage | None:
        """Return the stage with that key; None if there is none."""
        return next((one for one in self.stages if one.key == key), None)
