"""What a reminder knows, and what its templates are given."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from scheduled_actions.recurrence.phrases import MONTHS, WEEKDAYS, counted, time_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from zoneinfo import ZoneInfo

#: What a notice about a deadline is; each has templates of its own.
NoticeKind: TypeAlias = Literal["reminder", "escalation", "missed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """What there is to say about a deadline at an instant. All instants are aware."""

    #: What the deadline is called.
    name: str
    due_at: datetime
    #: The database's.
    now: datetime
    kind: NoticeKind = "reminder"
    #: `{"type", "id"}` of what it is about.
    target: Mapping[str, str] | None = None
    #: None: this was the last one.
    next_reminder_at: datetime | None = None
    #: Of an escalation: which step of the ladder, from 1.
    level: int | None = None
    #: Whoever has it on their desk.
    assignee: str | None = None
    #: A sentence of the user's own.
    message: str | None = None
    #: Yours, for templates of your own.
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def distance(self) -> timedelta:
        """How far away it is; below zero once it is overdue."""
        return self.due_at - self.now

    def values(self, zone: ZoneInfo, *, recipient: str | None) -> dict[str, Any]:
        """Return what templates are given, as one person is told it.

        `name kind target level assignee message data recipient overdue` as they are; `due_at now next_reminder_at` as
        instants in the person's zone; and in words `local_time` (when it is due, on the person's clock), `distance`
        ("3 days"), `next_reminder` (None after the last one).

        Args:
            zone: The person's.
            recipient: How the person is called.
        """
        following = self.next_reminder_at
        return {
            "name": self.name,
            "kind": self.kind,
            "target": self.target,
            "level": self.level,
            "assignee": self.assignee,
            "message": self.message,
            "data": self.data,
            "recipient": recipient,
            "overdue": self.distance < timedelta(0),
            "due_at": self.due_at.astimezone(zone),
            "now": self.now.astimezone(zone),
            "next_reminder_at": None if following is None else following.astimezone(zone),
            "local_time": local_time(self.due_at, zone),
            "distance": in_words(abs(self.distance)),
            "next_reminder": None if following is None else local_time(following, zone),
        }


def local_time(moment: datetime, zone: ZoneInfo) -> str:
    """Return `Friday, 15 January 2027, 09:00 (Europe/Berlin)`."""
    shown = moment.astimezone(zone)
    day = f"{WEEKDAYS[shown.weekday()]}, {shown.day} {MONTHS[shown.month - 1]} {shown.year}"
    return f"{day}, {time_text(shown)} ({zone.key})"


def in_words(length: timedelta) -> str:
    """Return `60 days`, `5 hours`, `12 minutes`: the largest unit, rounded to the nearest; below two days in hours."""
    minutes = round(length / timedelta(minutes=1))
    if minutes >= _DAYS_FROM:
        return counted(round(length / timedelta(days=1)), "day")
    if minutes >= _HOURS_FROM:
        return counted(round(length / timedelta(hours=1)), "hour")
    return counted(minutes, "minute") if minutes else "less than a minute"


_DAYS_FROM = 48 * 60
_HOURS_FROM = 120
