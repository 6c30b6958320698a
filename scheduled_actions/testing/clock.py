"""Move the database's clock: every statement gets the time from `scheduled_actions_now()`, which is replaced here."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import Connection, sql

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.database import clock
from scheduled_actions.database.connection import Database

_FUNCTION = sql.SQL(
    "create or replace function scheduled_actions_now() returns timestamptz language sql stable parallel safe as {}"
)


@dataclass(frozen=True)
class Clock:
    """The clock of one test's database, which follows the machine's clock until it is set.

    Python's own `datetime.now()` does not change; no decision of this package depends on it.
    """

    #: The test's database; its clock changes for all connections.
    _database: Database

    def now(self) -> datetime:
        """Return the database's current time, in UTC."""
        with self._database.connection() as connection:
            return clock.now(connection).astimezone(UTC)

    def set(self, at: datetime) -> datetime:
        """Stop the clock at an instant; return the instant in UTC.

        Args:
            at: Aware, in any time zone; in the future or in the past.

        Raises:
            InvalidArgument: `at` is not an aware datetime.
        """
        check_aware(at)
        with self._database.connection() as connection:
            stop(connection, at)
        return at.astimezone(UTC)

    def advance(self, by: timedelta) -> datetime:
        """Stop the clock `by` after its current time; return that instant in UTC."""
        return self.set(self.now() + by)

    def reset(self) -> None:
        """Let the clock follow the machine's clock again."""
        with self._database.connection() as connection:
            shift(connection, timedelta(0))


def check_aware(at: object, *, name: str = "at") -> None:
    """Require an aware datetime.

    Raises:
        InvalidArgument: The value is not a datetime, or has no time zone.
    """
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidArgument(name, at, "a datetime with a time zone, such as datetime(2026, 3, 4, 12, tzinfo=UTC)")


def stop(connection: Connection[Any], at: datetime) -> None:
    """Stop the database's clock at an instant, for all its connections."""
    _replace(connection, sql.SQL("select {}::timestamptz").format(at.isoformat()))


def shift(connection: Connection[Any], by: timedelta) -> None:
    """Set the database's clock `by` ahead of the machine's, for all its connections."""
    interval = sql.SQL("make_interval(secs => {})").format(by.total_seconds())
    _replace(connection, sql.SQL("select statement_timestamp() + {}").format(interval))


def _replace(connection: Connection[Any], body: sql.Composed) -> None:
    connection.execute(_FUNCTION.format(sql.Literal(body.as_string(connection))))
