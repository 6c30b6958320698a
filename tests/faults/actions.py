"""The table of actions, which the tests fill and read by SQL, with a clock that they can move."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg import sql
from psycopg.rows import dict_row

if TYPE_CHECKING:
    from uuid import UUID

    import psycopg

#: The table in the project's database to which `proof:transact` writes.
EFFECTS = "create table effects (action_id uuid not null)"
_ENDED = ("completed", "failed", "cancelled", "skipped")


class Actions:
    """The project's actions.

    Args:
        connection: A connection to the project's database, in autocommit mode.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self._moved = 0.0

    def schedule(self, *new_actions: dict[str, Any]) -> list[UUID]:
        """Schedule actions by SQL; return their ids in the given order."""
        rows = self.connection.execute(
            "select s.id from schedule_actions(%s::jsonb) s", [json.dumps(new_actions)]
        ).fetchall()
        return [row[0] for row in rows]

    def one(self, action_id: UUID) -> dict[str, Any]:
        """Return an action."""
        return next(row for row in self.all() if row["id"] == action_id)

    def all(self) -> list[dict[str, Any]]:
        """Return every action, in the order they were scheduled."""
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute("select * from scheduled_actions order by id").fetchall()

    def statuses(self) -> Counter[str]:
        """Return the number of actions by status."""
        rows = self.connection.execute("select status, count(*) from scheduled_actions group by status")
        return Counter(dict(rows.fetchall()))

    def are_settled(self) -> bool:
        """Return whether no action is pending, processing or without a handler."""
        return not set(self.statuses()) - set(_ENDED)

    def effects(self) -> Counter[UUID]:
        """Return the number of effects of each `proof:transact` action."""
        rows = self.connection.execute("select action_id, count(*) from effects group by action_id")
        return Counter(dict(rows.fetchall()))

    def ungrouped_pending(self) -> int:
        """Return the number of pending actions without a lock group."""
        return self._number("select count(*) from scheduled_actions where status = 'pending' and lock_group is null")

    def holds(self) -> int:
        """Return the number of held lock groups."""
        return self._number("select count(*) from scheduled_action_holds")

    def open_ticks(self, *, for_seconds: float = 0) -> int:
        """Return the number of unfinished ticks that began at least this long ago."""
        return self._number(
            "select count(*) from scheduled_action_ticks where finished_at is null"
            " and started_at <= scheduled_actions_now() - make_interval(secs => %s)",
            for_seconds,
        )

    def lost_ticks(self) -> set[str]:
        """Return the ids of the ticks that were closed as lost."""
        rows = self.connection.execute("select id::text from scheduled_action_ticks where outcome = 'lost'")
        return {row[0] for row in rows.fetchall()}

    def _number(self, query: LiteralString, *parameters: float) -> int:
        row = self.connection.execute(query, parameters).fetchone()
        assert row is not None
        return int(row[0])

    def move_clock(self, seconds: float) -> None:
        """Move the database's clock ahead by this number of further seconds."""
        self._moved += seconds
        self.connection.execute(
            sql.SQL(
                "create or replace function scheduled_actions_now() returns timestamptz"
                " language sql stable parallel safe"
                " as 'select statement_timestamp() + make_interval(secs => {})'"
            ).format(sql.Literal(self._moved))
        )
