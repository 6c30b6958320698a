"""The starts and ends that the test handlers record, and queries about them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from psycopg.rows import class_row

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    import psycopg

TABLE = """
create table runs (
  number bigint generated always as identity primary key,
  action_id uuid not null,
  action_type text not null,
  lock_group text,
  pid integer not null,
  attempt integer not null,
  payload jsonb not null,
  started_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz
)
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One start of a handler."""

    number: int
    action_id: UUID
    action_type: str
    lock_group: str | None
    pid: int
    attempt: int
    payload: Any
    started_at: datetime
    #: None: the process died first, or the handler has not returned yet.
    ended_at: datetime | None


class Ledger:
    """The database to which the handlers write.

    Args:
        url: Its address.
        connection: A connection to it, in autocommit mode.
    """

    def __init__(self, url: str, connection: psycopg.Connection[Any]) -> None:
        self.url = url
        self._connection = connection
        connection.execute(TABLE)

    def runs(self, action_type: str | None = None) -> list[Run]:
        """Return all runs, in the order of their starts."""
        with self._connection.cursor(row_factory=class_row(Run)) as cursor:
            return cursor.execute(
                "select * from runs where action_type = coalesce(%s, action_type) order by started_at, number",
                [action_type],
            ).fetchall()

    def count(self) -> int:
        """Return the number of runs."""
        return self._number("select count(*) from runs")

    def running(self, *, for_seconds: float = 0) -> Counter[int]:
        """Return the number of unfinished runs that began at least this long ago, by process, also of dead ones."""
        rows = self._connection.execute(
            "select pid, count(*) from runs"
            " where ended_at is null and started_at <= clock_timestamp() - make_interval(secs => %s) group by pid",
            [for_seconds],
        )
        return Counter(dict(rows.fetchall()))

    def ended(self) -> Counter[int]:
        """Return the number of ended runs by process."""
        rows = self._connection.execute("select pid, count(*) from runs where ended_at is not null group by pid")
        return Counter(dict(rows.fetchall()))

    def now(self) -> datetime:
        """Return the time of the clock that dates the starts and ends."""
        row = self._connection.execute("select clock_timestamp()").fetchone()
        assert row is not None
        now: datetime = row[0]
        return now

    def _number(self, query: Any) -> int:
        row = self._connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])


def by_group(runs: list[Run]) -> dict[str, list[Run]]:
    """Return the runs of each lock group, in the order of their starts."""
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.lock_group is not None:
            groups[run.lock_group].append(run)
    return groups


def overlaps(runs: list[Run]) -> list[tuple[Run, Run]]:
    """Return the pairs of one lock group that ran at the same time, among attempts with a known end."""
    return [
        (first, second)
        for members in by_group(runs).values()
        for first, second in pairwise(members)
        if first.ended_at is not None and second.started_at < first.ended_at
    ]
