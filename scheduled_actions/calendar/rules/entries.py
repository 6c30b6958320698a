"""Order the entries of a calendar, and mark the place where a page ends."""

import heapq
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias
from uuid import UUID

from scheduled_actions.core.errors import InvalidArgument

#: `reminder`, `escalation`: a pending action that sends one for a deadline; `action`: any other pending action;
#: `deadline`: the due instant of a deadline; `forecast`: an occurrence of a schedule that is not planned yet.
EntryKind: TypeAlias = Literal["deadline", "action", "reminder", "escalation", "forecast"]
#: Like `EntryKind`; `ended`: actions that ended.
DayItemKind: TypeAlias = EntryKind | Literal["ended"]
#: The sources of entries, in their order at one instant.
Source: TypeAlias = Literal["deadlines", "actions", "schedules"]
SOURCES: tuple[Source, ...] = ("deadlines", "actions", "schedules")
_OF_KIND: Mapping[str, Source] = {"deadline": "deadlines", "forecast": "schedules"}

#: The longest range of one calendar.
LONGEST = timedelta(days=366)
_FIRST_ID, _LAST_ID = UUID(int=0), UUID(int=2**128 - 1)
_CURSOR = re.compile(r"([0-9T:.\-]{19,26})~([0-2])~([0-9a-f]{32})")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """The fields that entries and items of days have in common."""

    #: The instant of the entry; for a `DayItem` with several entries, of the first. Aware, in UTC.
    at: datetime
    #: The name of the deadline or schedule; without a name, the action type or the target of the deadline.
    title: str
    #: None for a deadline.
    action_type: str | None = None
    #: The status of the actions or the deadline (`open`, `missed`, `paused`); None for a forecast.
    status: str | None = None
    #: The action; for a `DayItem` with several actions, one of them. None for a deadline or forecast.
    action_id: UUID | None = None
    deadline_id: UUID | None = None
    schedule_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DayItem(_Item):
    """A group of similar entries of one day, with their number."""

    kind: DayItemKind
    count: int = 1
    #: Whether there may be more than `count`.
    is_truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(_Item):
    """An entry of a calendar."""

    kind: EntryKind
    #: The id of the action, deadline or schedule; unique together with the instant and the kind.
    id: UUID
    team_id: str | None
    user_id: str | None = None
    target_type: str | None
    target_id: str | None
    #: When the row last changed; aware. None for a forecast.
    changed_at: datetime | None = None

    @property
    def is_forecast(self) -> bool:
        """Whether the entry is computed from a rule and has no row yet."""
        return self.kind == "forecast"

    @property
    def place(self) -> "Place":
        """The place of the entry in the order of the calendar."""
        return Place(self.at, SOURCES.index(_OF_KIND.get(self.kind, "actions")), self.id)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in the order of a calendar: by instant, then by source, then by id."""

    #: Aware.
    at: datetime
    #: The index in `SOURCES`; -1 is before all sources.
    source: int
    id: UUID

    def __str__(self) -> str:
        """Return the place as a cursor."""
        return f"{self.at.astimezone(UTC).replace(tzinfo=None).isoformat()}~{self.source}~{self.id.hex}"

    @classmethod
    def parse(cls, cursor: str) -> "Place":
        """Return the place of a cursor.

        Raises:
            InvalidArgument: The string is not a cursor of the calendar.
        """
        # A cursor in this format is invalid if no such instant exists.
        with suppress(ValueError):
            if isinstance(cursor, str) and (match := _CURSOR.fullmatch(cursor)) is not None:
                return cls(datetime.fromisoformat(match[1]).replace(tzinfo=UTC), int(match[2]), UUID(match[3]))
        raise InvalidArgument("cursor", cursor, "the next_cursor of the previous page")

    def parameters(self, source: Source) -> dict[str, Any]:
        """Return the instant and the id after which a source continues, as parameters of its statement."""
        rank = SOURCES.index(source)
        after_id = self.id if rank == self.source else _FIRST_ID if rank > self.source else _LAST_ID
        return {"after_at": self.at, "after_id": after_id}


def begin(start: datetime) -> Place:
    """Return the place before all entries at `start`."""
    return Place(start, -1, _FIRST_ID)


def merge(sources: Iterable[Iterable[Entry]], *, limit: int) -> tuple[list[Entry], bool]:
    """Merge ordered sources; return the first `limit` entries, and whether there are more."""
    in_order = heapq.merge(*sources, key=lambda entry: entry.place)
    found = [entry for _, entry in zip(range(limit + 1), in_order, strict=False)]
    return found[:limit], len(found) > limit
