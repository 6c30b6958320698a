"""What a calendar shows: entries of several sources in one order, and the place where a page ended."""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias
from uuid import UUID

from scheduled_actions.core.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: `action`: any that waits; `reminder` and `escalation`: those of a deadline; `deadline`: a due instant itself;
#: `forecast`: an occurrence of a schedule that is not planned yet.
EntryKind: TypeAlias = Literal["deadline", "action", "reminder", "escalation", "forecast"]
#: Where entries come from; at one instant in this order.
Source: TypeAlias = Literal["deadlines", "actions", "schedules"]
SOURCES: tuple[Source, ...] = ("deadlines", "actions", "schedules")
_OF_KIND: Mapping[str, Source] = {"deadline": "deadlines", "forecast": "schedules"}

#: The longest time that one calendar spans.
LONGEST = timedelta(days=366)
_FIRST_ID, _LAST_ID = UUID(int=0), UUID(int=2**128 - 1)
_CURSOR = re.compile(r"([0-9T:.\-]{19,26})~([0-2])~([0-9a-f]{32})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing at one instant."""

    kind: EntryKind
    #: Aware, in UTC.
    at: datetime
    #: Of the action, of the deadline, or of the schedule: unique together with the instant and the kind.
    id: UUID
    #: For people: the deadline's name, the schedule's name, or the action type.
    title: str
    #: None for a deadline.
    action_type: str | None
    #: Of the action or the deadline (`open`, `missed`, `paused`); None for a forecast.
    status: str | None
    team_id: str | None
    user_id: str | None
    target_type: str | None
    target_id: str | None
    action_id: UUID | None
    deadline_id: UUID | None
    schedule_id: UUID | None
    #: When the row was changed last; aware. None for a forecast.
    changed_at: datetime | None = None

    @property
    def is_forecast(self) -> bool:
        """Whether it is no row yet, but what a rule names as things are now."""
        return self.kind == "forecast"

    @property
    def place(self) -> Place:
        """Where it stands in the order."""
        return Place(self.at, SOURCES.index(_OF_KIND.get(self.kind, "actions")), self.id)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in the order of a calendar: by instant, then by source, then by id."""

    at: datetime
    source: int
    id: UUID

    def __str__(self) -> str:
        """Return it as a cursor."""
        return f"{self.at.astimezone(UTC).replace(tzinfo=None).isoformat()}~{self.source}~{self.id.hex}"

    @classmethod
    def parse(cls, cursor: str) -> Place:
        """Return the place that a cursor says.

        Raises:
            InvalidArgument: It is none.
        """
        match = _CURSOR.fullmatch(cursor)
        try:
            if match is not None:
                at = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
                return cls(at, int(match[2]), UUID(match[3]))
        except ValueError:
            pass
        raise InvalidArgument("cursor", cursor, "the next_cursor of the page before")

    def after(self, source: Source) -> tuple[datetime, UUID]:
        """Return the instant and the id after which a source goes on."""
        rank = SOURCES.index(source)
        return self.at, self.id if rank == self.source else _FIRST_ID if rank > self.source else _LAST_ID


def begin(start: datetime) -> Place:
    """Return the place before everything at `start`."""
    return Place(start, -1, _FIRST_ID)


def merged(sources: Iterable[Iterable[Entry]], *, limit: int) -> tuple[list[Entry], bool]:
    """Return the first entries of ordered sources in one order, and whether there are more."""
    in_order = heapq.merge(*sources, key=lambda entry: entry.place)
    found = [entry for _, entry in zip(range(limit + 1), in_order, strict=False)]
    return found[:limit], len(found) > limit
