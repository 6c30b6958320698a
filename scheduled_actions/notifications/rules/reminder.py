"""The content of a notification: its message, its severity, and the values of reminder templates."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

from scheduled_actions.core.messages import counted
from scheduled_actions.recurrence.phrases import MONTHS, WEEKDAYS, time_text

#: The severities, the most urgent first.
Severity: TypeAlias = Literal["urgent", "high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
#: The kind of a deadline's notification; each has its own templates.
NoticeKind: TypeAlias = Literal["reminder", "escalation", "missed"]

#: The longest subject, in characters.
SUBJECT_LIMIT = 200
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
#: The minutes from which a length is written in days, and in hours.
_DAYS_FROM = 48 * 60
_HOURS_FROM = 120


@dataclass(frozen=True, slots=True)
class Message:
    """A message to one person."""

    #: One line.
    subject: str
    #: The text for all channels.
    text: str
    #: The HTML for channels that support it; None: these also get the text.
    html: str | None = None


def one_line(text: str) -> str:
    """Return a string as a subject: one line without encoded words, truncated to `SUBJECT_LIMIT`."""
    line = " ".join(_UNPRINTABLE.sub(" ", text).split()).replace("=?", "= ?")
    return line if len(line) <= SUBJECT_LIMIT else f"{line[: SUBJECT_LIMIT - 1]}…"


def severity(distance: timedelta, thresholds: Mapping[Severity, timedelta]) -> Severity:
    """Return the severity of a deadline that is due in `distance`; an overdue deadline (negative) is urgent.

    `thresholds` has the maximum time left for each severity, the most urgent first; if more time is left, the severity
    is low.
    """
    return next((level for level, limit in thresholds.items() if distance <= limit), "low")


def most_urgent(given: Iterable[Severity | None]) -> Severity | None:
    """Return the most urgent of several severities; None if there are none."""
    return min((one for one in given if one is not None), key=SEVERITIES.index, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """The values that describe a deadline in a notification. All instants are aware."""

    #: The name of the deadline.
    name: str
    due_at: datetime
    #: The IANA time zone of the deadline.
    timezone: str = "UTC"
    #: The database's current time.
    now: datetime
    kind: NoticeKind = "reminder"
    #: `{"type", "id"}` of the deadline's entity.
    target: Mapping[str, str] | None = None
    #: When the next reminder is due; None: no further reminder is planned.
    next_reminder_at: datetime | None = None
    #: The number of the escalation level, from 1; None: not an escalation.
    level: int | None = None
    #: The first address or role among the deadline's recipients; None: all recipients are given as objects.
    assignee: str | None = None
    #: A custom sentence; None: the notification has none.
    message: str | None = None
    #: Further values for custom templates.
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def distance(self) -> timedelta:
        """The time left; negative if overdue."""
        return self.due_at - self.now

    def values(self, zone: ZoneInfo, *, recipient: str | None) -> dict[str, Any]:
        """Return the values that templates use for one person.

        `name`, `kind`, `target`, `level`, `assignee`, `message` and `data` are the attributes, `recipient` is the
        argument, and `overdue` is a boolean. `due_at`, `now` and `next_reminder_at` are instants in the person's time
        zone. `local_time` (the due instant), `distance` ("3 days") and `next_reminder` (None if no further
        reminder is planned) are strings.

        Args:
            zone: The person's time zone.
            recipient: The person's name.
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
    """Return an instant in words: `Friday, 15 January 2027, 09:00 (Europe/Berlin)`."""
    shown = moment.astimezone(zone)
    day = f"{WEEKDAYS[shown.weekday()]}, {shown.day} {MONTHS[shown.month - 1]} {shown.year}"
    return f"{day}, {time_text(shown)} ({zone.key})"


def in_words(length: timedelta) -> str:
    """Return a length in words, rounded: `60 days`; below two days in hours, and below two hours in minutes."""
    minutes = round(length / timedelta(minutes=1))
    if minutes >= _DAYS_FROM:
        return counted(round(length / timedelta(days=1)), "day")
    if minutes >= _HOURS_FROM:
        return counted(round(length / timedelta(hours=1)), "hour")
    return counted(minutes, "minute") if minutes else "less than a minute"
