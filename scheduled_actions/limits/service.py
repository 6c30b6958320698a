"""List the limit keys in use: their limits, the slots in use, and the actions that wait in their queues."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from scheduled_actions.core import checks
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.pages import MAX_PAGE_SIZE, read_page_by
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.database.statements import Statements, texts
from scheduled_actions.limits.rules.admission import KeyId
from scheduled_actions.limits.rules.display import WAITING_MOST, rate_text
from scheduled_actions.registry.limit_keys import KEY_LIMIT

sql = Statements(__file__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitKey:
    """A limit key in use: of queued or running actions, or of actions that started within the last hour."""

    limit_key: str
    #: None: actions without a team, or of all teams if the limit applies across teams.
    team_id: str | None
    across_teams: bool
    #: The pattern of the settings that applies; None: no pattern matches the key, so that its actions never start.
    pattern: str | None
    #: Maximum number of actions that run at the same time; None: any number.
    at_once: int | None
    #: Number of slots in use; None if the list is of one team and the limit applies across teams.
    in_use: int | None
    #: Maximum rate of starts, such as `100 per minute`; None: any rate.
    rate: str | None
    #: Seconds between two starts at that rate; None without a rate.
    interval_seconds: float | None
    #: Maximum number of starts at once after a pause; None without a rate.
    burst: int | None
    #: Number of actions that may start now; None: any number, or as for `in_use`.
    room: int | None
    #: When the rate allows the next start; None if it does now, or as for `in_use`.
    opens_at: datetime | None
    #: Number of queued actions, at most `WAITING_MOST`. An action waits in the queue of its first key.
    waiting: int
    #: When the oldest of them was due; None if the queue is empty.
    oldest_due_at: datetime | None
    #: Whether the key is paused.
    is_paused: bool


class LimitPage(NamedTuple):
    """A page of limit keys, by key and team."""

    limits: Sequence[LimitKey]
    #: None on the last page.
    next_cursor: str | None


class LimitList(list[LimitKey]):
    """The limit keys of a page as a list with the attribute `next_cursor`, as in `LimitPage`.

    Args:
        page: The keys and the cursor.
    """

    def __init__(self, page: LimitPage) -> None:
        super().__init__(page.limits)
        self.next_cursor = page.next_cursor


class PatternCounts(NamedTuple):
    """The slots in use and the queued actions of the keys of a pattern, each counted to `WAITING_MOST`."""

    #: None: keys that match no pattern.
    pattern: str | None
    in_use: int
    queued: int


@dataclass(frozen=True, slots=True)
class LimitKeys:
    """Reads the limit keys of one project.

    Args:
        database: Holds the rules, the queues and the slots.
    """

    database: Database

    def page(
        self, *, prefix: str | None = None, team_id: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> LimitPage:
        """Return the limit keys in use, by key and team.

        Args:
            prefix: Only keys that begin with this.
            team_id: Only keys of this team, and keys of its queued actions whose limits apply across teams; of those,
                the numbers of running actions are not given, because they include other teams. None: all keys.
            cursor: The `next_cursor` of the previous page; None: the first page.
            limit: Maximum number of keys, 1 to 100.

        Raises:
            InvalidArgument: A filter, the cursor or the limit is invalid.
        """
        prefix = checks.check_text("prefix", prefix, longest=KEY_LIMIT) or ""
        checks.check_text("team_id", team_id)
        checks.check_limit(limit, most=MAX_PAGE_SIZE)
        after = None if cursor is None else _parse_cursor(cursor)
        with self.database.connection() as connection:
            return LimitPage(
                *read_page_by(
                    lambda key: _cursor(KeyId(key.team_id or "", key.limit_key)),
                    lambda most: _find(connection, prefix, team_id, after, most),
                    limit,
                )
            )


def _find(connection: Connection, prefix: str, team_id: str | None, after: KeyId | None, most: int) -> list[LimitKey]:
    """Return at most `most` limit keys after a position; None: the first ones with the prefix."""
    start = max(after or KeyId("", prefix), KeyId("", prefix), key=lambda key: (key.limit_key, key.team_id))
    parameters = {"after_key": start.limit_key, "after_team": start.team_id, "prefix": prefix, "most": most}
    if team_id is None:
        found = [KeyId(*row) for row in sql.run(connection, "find_keys", parameters)]
        first = KeyId("", prefix)
    else:
        found = [KeyId(*row) for row in sql.run(connection, "find_team_keys", parameters, team_id=team_id)]
        first = KeyId(team_id, prefix)
    # The search begins after the position; the prefix itself may be a key.
    keys = found if after is not None or not prefix else [first, *found]
    return read_keys(connection, keys, is_of_team=team_id is not None)[:most]


def read_keys(connection: Connection, keys: Sequence[KeyId], *, is_of_team: bool = False) -> list[LimitKey]:
    """Return limit keys in the given order; the first one is left out if it is not in use.

    Args:
        connection: Any connection.
        keys: The keys with their teams; '' stands for none, and for all teams if the limit applies across teams.
        is_of_team: Leave out the numbers of keys whose limits apply across teams, and count only the queue of the team.
    """
    columns: dict[str, Any] = {
        "team_ids": texts(key.team_id for key in keys),
        "limit_keys": texts(key.limit_key for key in keys),
        "is_of_team": is_of_team,
        "most": WAITING_MOST,
    }
    return [_limit_key(*row) for row in sql.run_leniently(connection, "read_keys", columns)]


def count_patterns(connection: Connection) -> list[PatternCounts]:
    """Return the counts of each pattern, and those of keys without one, reading few rows per pattern."""
    return [PatternCounts(*row) for row in sql.run(connection, "count_patterns", most=WAITING_MOST)]


def count_pauses(connection: Connection) -> int:
    """Return the number of active pauses."""
    return int(sql.run_one(connection, "count_pauses")[0])


def _limit_key(  # noqa: PLR0917 - the columns of read_keys.sql
    limit_key: str,
    team_id: str | None,
    across_teams: bool,  # noqa: FBT001 - a column
    pattern: str | None,
    at_once: int | None,
    in_use: int | None,
    interval_seconds: float | None,
    burst: int | None,
    room: int | None,
    opens_at: datetime | None,
    waiting: int,
    oldest_due_at: datetime | None,
    is_paused: bool,  # noqa: FBT001 - a column
) -> LimitKey:
    return LimitKey(
        limit_key=limit_key,
        team_id=team_id,
        across_teams=across_teams,
        pattern=pattern,
        at_once=at_once,
        in_use=in_use,
        rate=None if interval_seconds is None else rate_text(interval_seconds),
        interval_seconds=interval_seconds,
        burst=burst,
        room=room,
        opens_at=opens_at,
        waiting=waiting,
        oldest_due_at=oldest_due_at,
        is_paused=is_paused,
    )


def _cursor(key: KeyId) -> str:
    return base64.urlsafe_b64encode(json.dumps([key.limit_key, key.team_id], ensure_ascii=False).encode()).decode()


def _parse_cursor(cursor: str) -> KeyId:
    """Return the position that a cursor contains; raise `InvalidArgument` for a malformed cursor."""
    try:
        limit_key, team_id = json.loads(base64.urlsafe_b64decode(cursor.encode("ascii")))
        for part in (limit_key, team_id):
            checks.check_name("cursor", part, longest=None)
        return KeyId(team_id, limit_key)
    except (AttributeError, TypeError, ValueError, RecursionError, InvalidArgument):
        raise InvalidArgument("cursor", cursor, "a cursor: use next_cursor of the previous page") from None
