"""Values that the processes of a project share with one another and with the SQL functions, each under a name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)


def read(connection: Connection, name: str) -> Any:  # noqa: ANN401 - any JSON
    """Return a value; None when it was never written."""
    row = sql.run(connection, "setting", {"name": name}).fetchone()
    return None if row is None else row[0]


def write(connection: Connection, name: str, value: object) -> None:
    """Keep a value; one that is there already writes nothing."""
    sql.run(connection, "write_setting", {"name": name, "value": json.dumps(value)})
