"""Read and write named values that the processes of a project share with each other and with the SQL functions."""

import json
from typing import Any

from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)


def read(connection: Connection, name: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the JSON value with this name; None if no value was written."""
    row = sql.run(connection, "setting", {"name": name}).fetchone()
    return None if row is None else row[0]


def write(connection: Connection, name: str, value: object) -> None:
    """Store a JSON value under this name; write nothing if the value has not changed."""
    sql.run(connection, "write_setting", {"name": name, "value": json.dumps(value)})
