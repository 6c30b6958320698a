"""What `/metrics` asks of the tables: each statement bounded, whatever there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from scheduled_actions.database.connection import Connection


sql = Statements(__file__)


class RecentTicks(NamedTuple):
    """How the ticks of late went."""

    #: How many by how they ended: `finished`, `hung_up`, `lost`, `running`.
    by_outcome: dict[str, int]
    #: In seconds since 1970; None where there was none.
    last_started_epoch: float | None
    #: None while it runs.
    last_seconds: float | None


def recent_ticks(connection: Connection, *, seconds: float, limit: int) -> RecentTicks:
    """Return how the ticks of the last `seconds` went, at most `limit` of them, and the latest of all."""
    row = sql.run(connection, "recent_ticks", {"seconds": seconds, "limit": limit}).fetchone()
    assert row is not None  # noqa: S101 - a select of one row
    return RecentTicks(*row)


def counted(connection: Connection, *, limit: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return what ticks have counted: values by metric, subject and part."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for metric, subject, part, value in sql.run(connection, "read_metrics", {"limit": limit}):
        found.setdefault(metric, {}).setdefault(subject, {})[part] = value
    return found
