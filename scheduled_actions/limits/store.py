"""Copy the limits of the settings into the database, where claims and SQL functions read them."""

import json
from collections.abc import Mapping
from datetime import datetime

from scheduled_actions.core.config import Limit
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)


def write_rules(connection: Connection, limits: Mapping[str, Limit]) -> None:
    """Replace the stored limits with those of the settings, if they differ; every claim from now on applies them.

    Args:
        connection: In autocommit mode.
        limits: The limits by pattern.
    """
    rules = [
        {
            "pattern": pattern,
            "at_once": limit.at_once,
            "interval_seconds": None if limit.rate is None else limit.rate.interval_seconds,
            "burst": None if limit.rate is None else limit.burst or limit.rate.starts,
            "across_teams": limit.across_teams,
        }
        for pattern, limit in limits.items()
    ]
    sql.run(connection, "write_rules", {"rules": json.dumps(rules)})


def next_start(connection: Connection) -> datetime | None:
    """Return when the rate of a limit key allows the next start of a queued action; None if no rate delays one.

    Reads every queued action: for tests, which have few.
    """
    found: datetime | None = sql.run_one(connection, "next_start")[0]
    return found
