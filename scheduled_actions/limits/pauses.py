"""Pause and resume action types, teams, lock groups and limit keys, and list what is paused."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from scheduled_actions.core import checks
from scheduled_actions.core.config import Settings
from scheduled_actions.core.errors import InvalidArgument, UnknownActionType, UnknownPause
from scheduled_actions.core.errors.families import short_name, short_text
from scheduled_actions.core.log import log
from scheduled_actions.core.stored_values import parse_uuid
from scheduled_actions.core.wake import Wake
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.database.statements import Statements
from scheduled_actions.database.transactions import announce, borrowed_connection, commits_itself, database_refusal
from scheduled_actions.limits import parking
from scheduled_actions.limits.model import HeldBack, Pause, PauseKind
from scheduled_actions.registry import Registry, limit_keys

sql = Statements(__file__)

Result = TypeVar("Result")

_KINDS: dict[PauseKind, str] = {
    "action_type": "action type",
    "team": "team",
    "lock_group": "lock group",
    "limit": "limit key",
}
#: Maximum number of pauses that a list has.
MAX_LISTED = 1000
#: Maximum number of parked actions that the list counts for each pause.
MAX_COUNTED = 10_000
#: How long a call parks or returns actions; ticks do the rest.
_PARK_SECONDS = 5.0
_NAME_LIMIT = 255
_NOTE_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Subject:
    """What is paused: an action type, a lock group or a limit key, of one team or of all, or a team."""

    kind: PauseKind
    name: str
    team_id: str | None

    def __str__(self) -> str:
        team = "" if self.team_id is None else f' of team "{short_text(self.team_id)}"'
        return f'the {_KINDS[self.kind]} "{short_text(self.name)}"{team}'

    @classmethod
    def of(
        cls,
        *,
        action_type: str | None = None,
        team_id: str | None = None,
        lock_group: str | None = None,
        limit: str | None = None,
    ) -> "Subject":
        """Return the subject that the arguments of a call describe.

        Raises:
            InvalidArgument: None or several of `action_type`, `lock_group` and `limit` are given without a team, or one
                of the values is invalid.
        """
        named: dict[PauseKind, str | None] = {"action_type": action_type, "lock_group": lock_group, "limit": limit}
        given = [(kind, name) for kind, name in named.items() if name is not None]
        checks.check_text("team_id", team_id, longest=_NAME_LIMIT)
        if len(given) > 1:
            problem = f"cannot be given together with {given[0][0]}: pause them separately"
            raise InvalidArgument(given[1][0], problem=problem)
        for kind, name in given:
            return cls(kind, checks.check_name(kind, name, longest=_NAME_LIMIT), team_id)
        if team_id is None:
            problem = "is missing: give an action_type, a team_id, a lock_group or a limit"
            raise InvalidArgument("action_type", problem=problem)
        return cls("team", team_id, None)


#: The end of a pause, as callers give it.
Until = datetime | date | str | timedelta | None


class Pauses:
    """Pauses and resumes, and lists the pauses of one project.

    Args:
        database: Holds the pauses.
        registry: The known action types.
        settings: Holds the limits, whose patterns the limit keys match.
        wake: Starts a tick for the actions that a resumed pause has returned; None: the next cron tick runs them.
    """

    def __init__(self, database: Database, registry: Registry, settings: Settings, wake: Wake | None = None) -> None:
        self._database = database
        self._registry = registry
        self._settings = settings
        self._wake = wake

    def pause(self, subject: Subject, *, note: str | None = None, by: str | None = None, until: Until = None) -> Pause:
        """Pause a subject, and park its due actions for at most five seconds; ticks park the rest.

        Actions that a tick has already claimed still run. A pause of the same subject gets this note, author and end.

        Args:
            subject: What to pause.
            note: Why, at most 1,000 characters.
            by: Who pauses it.
            until: When the pause ends, as a time with an offset, a day (its last second in UTC) or a timedelta from
                now; None: when it is resumed.

        Raises:
            RequestError: The action type is unknown, or an argument is invalid; nothing was changed.
            RowLocked: Another session is changing the pause.
            DatabaseUnavailable: The database cannot be reached.
        """
        self._check_known(subject)
        ends_at, delay = checks.check_scheduled_at(until, name="until", time_of_day=checks.LAST_SECOND)
        parameters = {
            "kind": subject.kind,
            "name": subject.name,
            "team_id": subject.team_id,
            "note": checks.check_text("note", note, longest=_NOTE_LIMIT),
            "paused_by": checks.check_text("by", by, longest=_NAME_LIMIT),
            "ends_at": ends_at,
            "delay": delay,
        }
        try:
            started = self._do(partial(_pause, parameters=parameters))
        except (psycopg.errors.InvalidParameterValue, psycopg.DataError) as error:
            refusal = database_refusal(error)
            if str(refusal).startswith("ends_at: "):
                raise InvalidArgument("until", until, "in the future") from error
            raise refusal from error
        log.info("pause.started id=%s kind=%s", started.id, started.kind)
        if commits_itself(None):
            _within(_PARK_SECONDS, self.park())
        # With the number of parked actions; by now, the pause may have ended and be deleted.
        return next(iter(self.find(pause_id=started.id)), started)

    def park(self) -> Iterator[int]:
        """Park every due action that a pause holds back; yield the number parked by each statement."""
        return parking.park_all(self._database.do)

    def resume(self, subject: Subject, *, by: str | None = None) -> Pause:
        """End the pause of a subject, and return its actions in order for at most five seconds; ticks return the rest.

        Args:
            subject: What to resume, with the same team as it was paused.
            by: Who resumes it; logged.

        Raises:
            UnknownPause: The subject is not paused.
            InvalidArgument: An argument is invalid.
            DatabaseUnavailable: The database cannot be reached.
        """
        resumed = self._resume(subject, by=by)
        if resumed is None:
            active = [str(Subject(one.kind, one.name, one.team_id)) for one in self.find(most=12)]
            raise UnknownPause(f"of {subject}", active)
        return resumed

    def resume_by_id(self, pause_id: UUID | str, *, team_id: str | None = None, by: str | None = None) -> Pause:
        """End a pause, as `resume` does.

        Args:
            pause_id: The id.
            team_id: Only a pause of this team; None: any pause.
            by: Who resumes it; logged.

        Raises:
            UnknownPause: No active pause (of that team) has the id.
            InvalidArgument: An argument is invalid.
            DatabaseUnavailable: The database cannot be reached.
        """
        found = self.get(pause_id, team_id=team_id)
        resumed = self._resume(Subject(found.kind, found.name, found.team_id), by=by)
        if resumed is None:
            raise UnknownPause(f"has the id {found.id}")
        return resumed

    def _resume(self, subject: Subject, *, by: str | None) -> Pause | None:
        checks.check_text("by", by, longest=_NAME_LIMIT)
        parameters = {"kind": subject.kind, "name": subject.name, "team_id": subject.team_id}
        resumed = self._do(partial(_resume, parameters=parameters))
        if resumed is None:
            return None
        log.info("pause.ended id=%s kind=%s by=%s", resumed.id, resumed.kind, by)
        if commits_itself(None):
            _within(_PARK_SECONDS, self.unpark())
        announce(self._wake, None)
        return resumed

    def unpark(self) -> Iterator[int]:
        """Return the actions of ended pauses in order; yield the maximum number after each statement but the last."""
        while self._database.do(parking.unpark):
            yield parking.MAX_RETURNED

    def get(self, pause_id: UUID | str, *, team_id: str | None = None) -> Pause:
        """Return a pause.

        Args:
            pause_id: The id.
            team_id: Only a pause of this team; None: any pause.

        Raises:
            UnknownPause: There is no such pause, or it ended and its actions have returned.
        """
        found = parse_uuid(pause_id)
        pauses = [] if found is None else self.find(pause_id=found, team_id=team_id)
        if not pauses:
            raise UnknownPause(f"has the id {short_name(pause_id)}")
        return pauses[0]

    def find(self, *, pause_id: UUID | None = None, team_id: str | None = None, most: int = MAX_LISTED) -> list[Pause]:
        """Return the pauses that hold actions back, the oldest first.

        Args:
            pause_id: Only this pause; None: all.
            team_id: Only pauses of this team; None: of all teams.
            most: Maximum number of pauses.
        """
        parameters = {"id": pause_id, "team_id": team_id, "most": most}
        return self._do(partial(_list, parameters=parameters))

    def _do(self, step: Callable[[Connection], Result]) -> Result:
        """Run a step in the transaction of the running transactional handler, else on a connection of its own."""
        with borrowed_connection(self._database, None) as connection:
            return step(connection)

    def held_back(self, *, team_id: str | None = None) -> HeldBack:
        """Count the active pauses and the due actions that they hold back, each to a limit; takes a few milliseconds.

        Args:
            team_id: Only pauses of this team; None: of all teams.
        """
        parameters = {"team_id": team_id, "most": MAX_LISTED}
        with self._database.connection() as connection:
            return HeldBack(*sql.run_one(connection, "count_held_back", parameters))

    def _check_known(self, subject: Subject) -> None:
        if subject.kind == "action_type" and subject.name not in self._registry.types:
            raise UnknownActionType(subject.name, self._registry.types)
        if subject.kind == "limit":
            limit_keys.check(subject.name)
            if subject.name.endswith("*"):
                example = short_text(f"{subject.name.rstrip('*')}acme", 80)
                problem = (
                    f'is the pattern "{short_text(subject.name, 80)}"; pause each of its keys, such as "{example}"'
                )
                raise InvalidArgument("limit", subject.name, problem=problem)
            limit_keys.check_known([subject.name], self._settings.limits)


def _pause(connection: Connection, *, parameters: dict[str, Any]) -> Pause:
    with connection.transaction():
        (pause_id,) = sql.run_one(connection, "pause", parameters)
        return _list(connection, parameters={"id": pause_id, "team_id": None, "most": 1})[0]


def _resume(connection: Connection, *, parameters: dict[str, Any]) -> Pause | None:
    """End a pause, and return it with the number of actions that it has parked; None if the subject is not paused."""
    with connection.transaction():
        row = sql.run(connection, "resume", parameters).fetchone()
        # In this transaction, which has locked the row: ticks delete it as soon as its actions have returned.
        if row is None or not row[1]:
            return None
        return _list(connection, parameters={"id": row[0], "team_id": None, "most": 1})[0]


def _list(connection: Connection, *, parameters: dict[str, Any]) -> list[Pause]:
    return [Pause(*row) for row in sql.run_leniently(connection, "list_pauses", parameters)]


def _within(seconds: float, bites: Iterator[int]) -> None:
    until = time.monotonic() + seconds
    for _ in bites:
        if time.monotonic() >= until:
            break
