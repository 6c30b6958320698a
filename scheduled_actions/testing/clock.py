"""Move the database's clock: every statement gets the time from `scheduled_actions_now()`, which is replaced here."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from psycopg import Connection, sql

from scheduled_actions.core.checks import check_instant
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

    def set(self, at: datetime | date | str) -> datetime:
        """Stop the clock at an instant; return the instant in UTC.

        Args:
            at: A datetime or an ISO 8601 string with an offset, in the future or in the past; or a day, which means its
                start in UTC.

        Raises:
            InvalidArgument: `at` is not an instant.
        """
        moment = instant("at", at)
        with self._database.connection() as connection:
            stop(connection, moment)
        return moment

    def advance(self, by: timedelta) -> datetime:
        """Stop the clock `by` after its current time; return that instant in UTC."""
        return self.set(self.now() + by)

    def reset(self) -> None:
        """Let the clock follow the machine's clock again."""
        with self._database.connection() as connection:
            shift(connection, timedelta(0))


def instant(name: str, at: datetime | date | str) -> datetime:
    """Return an instant in UTC, as `check_instant`; raise `InvalidArgument` for None, too."""
    if (moment := check_instant(name, at)) is None:
        raise InvalidArgument(name, problem="is required")
    return moment


def stop(connection: Connection[Any], at: datetime) -> None:
    """Stop the database's clock at an instant, for all its connections."""
    _replace(connection, sql.SQL("select {}::timestamptz").format(at.isoformat()))


def shift(connection: Connection[Any], by: timedelta) -> None:
    """Set the database's clock `by` ahead of the machine's, for all its connections."""
    interval = sql.SQL("make_interval(secs => {})").format(by.total_seconds())
    _replace(connection, sql.SQL("select statement_timestamp() + {}").format(interval))


def _replace(connection: Connection[Any], body: sql.Composed) -> None:
    connection.execute(_FUNCTION.format(sql.Literal(body.as_string(connection))))
