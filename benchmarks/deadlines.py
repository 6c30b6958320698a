"""Create and move 1,000 deadlines of eight stages in one call, compared with scheduling 8,000 plain actions."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError, seconds_of
from scheduled_actions import action
from scheduled_actions.core import config
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime

if TYPE_CHECKING:
    from uuid import UUID

    from scheduled_actions.database.connection import Connection

_STAGES = 8
_AT_MOST = Target("ratio", "at most", 4)
_GIVEN = {
    "target": {"type": "license", "id": "42"},
    "due_at": timedelta(days=90),
    "timezone": "Europe/Berlin",
    "recipients": "ann@example.org",
    "reminders": [
        "60 days before at 09:00",
        "30 days before",
        "14 days before",
        "3 business days before",
        "PT12H before",
    ],
    "escalation": [
        {"offset": "1 day after", "to": "cfo@example.org"},
        {"offset": "3 days after", "to": "ceo@example.org"},
    ],
}


@action("reminder:send")
def remind(payload: dict[str, Any]) -> None:
    """Never called: the benchmark only schedules."""


@action("escalation:send")
def escalate(payload: dict[str, Any]) -> None:
    """Never called: the benchmark only schedules."""


@action("deadline:miss")
def miss(payload: dict[str, Any]) -> None:
    """Never called: the benchmark only schedules."""


def run(bench: Bench) -> list[Comparison]:
    """Compare the time to create and to move deadlines with the time to schedule plain actions."""
    count = max(10, bench.scale.bulk // 10)
    with bench.databases.fresh() as dsn, connected(dsn) as connection:
        own = Runtime(config.load(bench.project, {"DATABASE_URL": dsn}), registry=Registry.of(remind, escalate, miss))
        try:
            _set(own, connection, 10)
            seconds = bench.take_turns(
                {
                    "set": lambda: _set(own, connection, count)[0],
                    "move": lambda: _move(own, connection, count),
                    "schedule": lambda: _schedule(own, connection, count * _STAGES),
                }
            )
        finally:
            own.close()
    baseline = f"{count * _STAGES:,} plain actions scheduled"
    return [
        Comparison(
            name=f"{count:,} deadlines of {_STAGES} stages {done}", baseline_name=baseline, unit="s",
            measured=seconds[name], baseline=seconds["schedule"], target=_AT_MOST if name == "set" else None,
        )
        for name, done in (("set", "set"), ("move", "moved"))
    ]  # fmt: skip


def _set(own: Runtime, connection: Connection, count: int) -> tuple[float, list[UUID]]:
    """Create `count` deadlines, check that all stages were planned, and return the seconds and the ids."""
    ids: list[UUID] = []
    seconds = seconds_of(lambda: ids.extend(own.deadlines.set_many([_GIVEN] * count)))
    planned = _count(connection, ids)
    if planned != count * _STAGES:
        raise WrongResultError("stages planned", found=planned, expected=count * _STAGES)
    return seconds, ids


def _move(own: Runtime, connection: Connection, count: int) -> float:
    _, ids = _set(own, connection, count)
    return seconds_of(lambda: own.deadlines.move_many(dict.fromkeys(ids, timedelta(days=120))))


def _schedule(own: Runtime, connection: Connection, count: int) -> float:
    new = [
        {"action_type": "reminder:send", "payload": {"n": number}, "scheduled_at": timedelta(days=30)}
        for number in range(count)
    ]
    before = _count(connection, None)
    seconds = seconds_of(lambda: own.scheduler.schedule_actions(new))
    if (added := _count(connection, None) - before) != count:
        raise WrongResultError("actions scheduled", found=added, expected=count)
    return seconds


def _count(connection: Connection, deadline_ids: list[UUID] | None) -> int:
    row = connection.execute(
        "select count(*) from scheduled_actions where %(ids)s::uuid[] is null or deadline_id = any (%(ids)s)",
        {"ids": deadline_ids},
    ).fetchone()
    assert row is not None  # an aggregate has one row
    return int(row[0])
