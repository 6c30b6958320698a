"""The database's clock, moved: every statement asks `scheduled_actions_now()`, so moving it moves all of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from psycopg import sql

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.database import clock

if TYPE_CHECKING:
    import psycopg

    from scheduled_actions.database.connection import Database

_FUNCTION = sql.SQL(
    "create or replace function scheduled_actions_now() returns timestamptz language sql stable parallel safe as {}"
)


class Clock:
    """The clock of one test's database: it runs with the machine's until it is set.

    Python's own `datetime.now()` stays as it is; no decision of this package depends on it.

    Args:
        database: Where the function is replaced, for all connections.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def now(self) -> datetime:
        """Return what the database takes for the present, in UTC."""
        with self._database.connection() as connection:
            return clock.now(connection).astimezone(UTC)

    def set(self, at: datetime) -> datetime:
        """Stop the clock at an instant, and return it.

        Args:
            at: Aware, in any zone; in the future or in the past.
        """
        check_aware(at)
        with self._database.connection() as connection:
            stop(connection, at)
        return at.astimezone(UTC)

    def advance(self, by: timedelta) -> datetime:
        """Stop the clock so much later than it is now, and return that instant."""
        return self.set(self.now() + by)

    def reset(self) -> None:
        """Let the clock run with the machine's again."""
        with self._database.connection() as connection:
            shift(connection, timedelta(0))


def check_aware(at: object) -> None:
    """Raise unless it is an instant.

    Raises:
        InvalidArgument: It is no datetime, or has no zone.
    """
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidArgument("at", at, "a datetime with a zone, such as datetime(2026, 3, 4, 12, tzinfo=UTC)")


def stop(connection: psycopg.Connection[Any], at: datetime) -> None:
    """Stop the database's clock at an instant, for all its connections."""
    _replace(connection, sql.SQL("select {}::timestamptz").format(sql.Literal(at.isoformat())))


def shift(connection: psycopg.Connection[Any], by: timedelta) -> None:
    """Set the database's clock `by` ahead of the machine's, for all its connections."""
    seconds = sql.Literal(by.total_seconds())
    _replace(connection, sql.SQL("select statement_timestamp() + make_interval(secs => {})").format(seconds))


def _replace(connection: psycopg.Connection[Any], body: sql.Composed) -> None:
    connection.execute(_FUNCTION.format(sql.Literal(body.as_string(connection))))
