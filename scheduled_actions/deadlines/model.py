"""The deadline: a due instant, and what happens before and after it, as a value."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from scheduled_actions.core.requester import AddressReach
    from scheduled_actions.notifications.rules.severity import Severity

#: `missed`: the due instant has passed, and it can still be completed late.
DeadlineStatus: TypeAlias = Literal["open", "missed", "completed", "cancelled"]
#: Statuses in which something is still to be done.
UNRESOLVED = frozenset({"open", "missed"})
#: `due` marks the deadline missed; `renewal` makes the next one of a series.
StageKind: TypeAlias = Literal["reminder", "escalation", "action", "due", "renewal"]
#: `begun`: nothing more of it is to come. `left_out`: its instant had passed when it was planned.
StageState: TypeAlias = Literal["planned", "begun", "left_out", "withdrawn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One thing that happens at a distance from the due instant; it may come again and again."""

    #: Names it within its deadline, and never changes: "reminder:60 days before".
    key: str
    kind: StageKind
    #: The distance in words: "3 business days before at 09:00".
    offset: str
    action_type: str
    #: Of its action; None: the stage itself.
    payload: Any = None
    #: `priority`, `max_attempts`, `lock_group` of its action.
    options: Mapping[str, Any] | None = None
    #: The rule by which it comes again until the deadline is resolved; None: once.
    repeat: str | None = None
    #: How often at most; None: no end.
    times: int | None = None
    #: Who is told; None: the deadline's own recipients.
    to: tuple[Any, ...] | None = None
    #: Who takes the deadline over when this level is reached; None: nobody.
    assign: tuple[Any, ...] | None = None
    #: `unacknowledged`: a person's acknowledgement holds it back, too.
    holds_while: Literal["unresolved", "unacknowledged"] = "unresolved"
    #: Of its notices; None: from the distance.
    severity: Severity | None = None
    #: A sentence of the user's own in its notices.
    message: str | None = None
    state: StageState = "planned"
    #: The instant of what is planned, or would have been; None before it was counted, and without one.
    at: datetime | None = None
    #: The occurrence that is planned next, counted from 1.
    occurrence: int = 1
    #: How many of its occurrences have begun.
    begun: int = 0
    #: When the last of them began, and the deadline's revision then.
    last_at: datetime | None = None
    revision: int = 0

    @property
    def is_planned(self) -> bool:
        """Whether an action waits for its instant."""
        return self.state == "planned" and self.at is not None

    @property
    def is_nagging(self) -> bool:
        """Whether an acknowledgement silences it."""
        return (self.kind == "reminder" and self.repeat is not None) or self.holds_while == "unacknowledged"

    def as_json(self) -> dict[str, Any]:
        """Return it as it is stored: what says nothing is left out."""
        # By hand: `asdict` copies deeply, and takes twenty times as long.
        values = {name: value for name, usual in _STAGE_FIELDS if (value := getattr(self, name)) != usual}
        for name in _INSTANTS:
            if name in values:
                values[name] = values[name].isoformat()
        return values

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Stage:
        """Return the stage that `as_json` made; `deadlines.rules.rows` checks rows that were written by SQL."""
        values = dict(stored)
        for name in _INSTANTS:
            if name in values:
                values[name] = datetime.fromisoformat(values[name]).astimezone(UTC)
        for name in ("to", "assign"):
            if name in values:
                values[name] = tuple(values[name])
        return cls(**values)


_INSTANTS = ("at", "last_at")
#: The fields of a stage and what they are where nothing is said; the state and the occurrence are always written.
_STAGE_FIELDS: tuple[tuple[str, Any], ...] = tuple(
    (one.name, None if one.default is MISSING or one.name in {"state", "occurrence"} else one.default)
    for one in fields(Stage)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """One row of `scheduled_action_deadlines`. All instants are aware and in UTC."""

    #: UUID version 7: ordered by creation.
    id: UUID
    #: Names it within its team while it is unresolved; the deadlines of a series share theirs.
    name: str | None
    team_id: str | None
    #: What it is about.
    target_type: str
    target_id: str
    status: DeadlineStatus
    due_at: datetime
    #: Whose wall clock distances in days are counted on: an IANA name.
    timezone: str
    #: Which days are business days, and the hours of work; None: every day from Monday to Friday, around the clock.
    calendar: Mapping[str, Any] | None
    #: Who is responsible, and gets the reminders.
    recipients: tuple[Any, ...]
    stages: tuple[Stage, ...]
    #: The rule of the series it belongs to; None: it comes once.
    recurrence: str | None
    #: The first deadline of the series.
    series_id: UUID | None
    #: The rule's own instant; never moves.
    occurrence_at: datetime | None
    #: The first occurrence of the series, where intervals count from.
    anchor_at: datetime | None
    #: The deadline that follows in the series, once it is made.
    next_id: UUID | None
    #: Grows with each change after which notices on their way no longer hold.
    revision: int
    #: Since when its clock stands still; None: it runs.
    paused_at: datetime | None
    missed_at: datetime | None
    #: When it was completed or cancelled, by whom, and what they noted.
    closed_at: datetime | None
    closed_by: str | None
    note: str | None
    #: Of a completed one: days begun after the due instant; 0: on time.
    days_late: int | None
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    #: Until when nagging is silent; None with `acknowledged_at`: until it is resolved or moved.
    acknowledged_until: datetime | None
    metadata: Mapping[str, Any] | None
    #: What was asked for, as it was: asking for the same again changes nothing.
    definition: Mapping[str, Any]
    #: What happened to it, oldest first: the first 5 and the last 45 entries.
    history: tuple[Mapping[str, Any], ...]
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    #: What in the stored row cannot be used, and was replaced or left out; None where all can. No column.
    problem: str | None = None

    @property
    def reach(self) -> AddressReach | None:
        """How far the addresses of its people reach where a token gave some; None: all are of application code."""
        match self.definition.get("reach"):
            case None:
                return None
            case "public":
                return "public"
            case _:
                return "team"

    @property
    def is_unresolved(self) -> bool:
        """Whether something is still to be done."""
        return self.status in UNRESOLVED

    def is_acknowledged(self, now: datetime) -> bool:
        """Whether a person's acknowledgement holds nagging back."""
        until = self.acknowledged_until
        return self.acknowledged_at is not None and (until is None or now < until)

    def stage(self, key: str) -> Stage | None:
        """Return the stage of that key; None where there is none."""
        return next((one for one in self.stages if one.key == key), None)
