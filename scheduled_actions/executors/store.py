"""Copy the executors of the settings into the database, where claims and workers read them."""

import json
from collections.abc import Mapping

from scheduled_actions.core.config import Executor
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)


def write_executors(connection: Connection, executors: Mapping[str, Executor], *, replace: bool) -> None:
    """Insert and update the stored executors, if they differ; every claim from now on passes over their action types.

    If an executor has lost types, its queue returns to the claims in bites, by ticks and workers.

    Args:
        connection: In autocommit mode.
        executors: The executors by name.
        replace: Whether to remove all others; otherwise they stay, because a newer process may have written them.
    """
    given = [
        {"name": name, "types": executor.types, "type_patterns": [_like(one) for one in executor.types]}
        for name, executor in executors.items()
    ]
    sql.run(connection, "write_executors", {"executors": json.dumps(given), "replace": replace})


def _like(pattern: str) -> str:
    """Return the pattern of LIKE for an action type, or for a prefix of types followed by `*`."""
    escaped = pattern.removesuffix("*").replace("_", "\\_")
    return f"{escaped}%" if pattern.endswith("*") else escaped
