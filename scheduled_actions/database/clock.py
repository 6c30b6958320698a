"""The database's clock: what every statement goes by."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from datetime import datetime

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)


def now(connection: Connection) -> datetime:
    """Return the database's time, in UTC."""
    row = sql.run(connection, "now").fetchone()
    assert row is not None  # noqa: S101 - a select of one row
    moment: datetime = row[0]
    return moment.astimezone(UTC)
