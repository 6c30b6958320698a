"""Read the database's clock."""

from datetime import UTC, datetime

from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)


def now(connection: Connection) -> datetime:
    """Return the current time of the database's clock, in UTC."""
    moment: datetime = sql.run_one(connection, "now")[0]
    return moment.astimezone(UTC)
