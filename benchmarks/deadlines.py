"""A thousand deadlines of eight stages, set in one call and moved, beside as many plain actions in one call."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from benchmarks.comparison import Comparison, Wanted
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError, seconds_of
from scheduled_actions import action
from scheduled_actions.core import config
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime

if TYPE_CHECKING:
    from uuid import UUID

    from scheduled_actions.database.connection import Connection

#: A figure of `schedule-bulk` has as many actions as this has stages.
_STAGES = 8
_AT_MOST = Wanted("ratio", "at most", 4)
_GIVEN = {
    "target": {"type": "licence", "id": "42"},
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
    """Stand for the handler that is never reached here."""


@action("escalation:send")
def escalate(payload: dict[str, Any]) -> None:
    """Stand for the handler that is never reached here."""


@action("deadline:miss")
def miss(payload: dict[str, Any]) -> None:
    """Stand for the handler that is never reached here."""


def run(bench: Bench) -> list[Comparison]:
    """Return the seconds of setting, and of moving, beside those of scheduling."""
    wanted = max(10, bench.scale.bulk // 10)
    with bench.databases.fresh() as dsn, connected(dsn) as connection:
        own = Runtime(config.load(bench.project, {"DATABASE_URL": dsn}), registry=Registry.of(remind, escalate, miss))
        try:
            _set(own, connection, 10)
            seconds = bench.take_turns(
                {
                    "set": lambda: _set(own, connection, wanted)[0],
                    "move": lambda: _move(own, connection, wanted),
                    "schedule": lambda: _schedule(own, connection, wanted * _STAGES),
                }
            )
        finally:
            own.close()
    beside = f"{wanted * _STAGES:,} plain actions scheduled"
    return [
        Comparison(
            name=f"{wanted:,} deadlines of {_STAGES} stages {done}", beside_name=beside, unit="s",
            measured=seconds[name], beside=seconds["schedule"], wanted=_AT_MOST if name == "set" else None,
        )
        for name, done in (("set", "set"), ("move", "moved"))
    ]  # fmt: skip


def _set(own: Runtime, connection: Connection, wanted: int) -> tuple[float, list[UUID]]:
    """Return how long setting so many takes, having seen that every stage was planned; and their ids."""
    ids: list[UUID] = []
    seconds = seconds_of(lambda: ids.extend(own.deadlines.set_many([_GIVEN] * wanted)))
    planned = _count(connection, ids)
    if planned != wanted * _STAGES:
        raise WrongResultError("stages planned", found=planned, expected=wanted * _STAGES)
    return seconds, ids


def _move(own: Runtime, connection: Connection, wanted: int) -> float:
    _, ids = _set(own, connection, wanted)
    return seconds_of(lambda: own.deadlines.move_many(dict.fromkeys(ids, timedelta(days=120))))


def _schedule(own: Runtime, connection: Connection, wanted: int) -> float:
    new = [
        {"action_type": "reminder:send", "payload": {"n": number}, "scheduled_at": timedelta(days=30)}
        for number in range(wanted)
    ]
    before = _count(connection, None)
    seconds = seconds_of(lambda: own.scheduler.schedule_actions(new))
    if (added := _count(connection, None) - before) != wanted:
        raise WrongResultError("actions scheduled", found=added, expected=wanted)
    return seconds


def _count(connection: Connection, deadline_ids: list[UUID] | None) -> int:
    row = connection.execute(
        "select count(*) from scheduled_actions where %(ids)s::uuid[] is null or deadline_id = any (%(ids)s)",
        {"ids": deadline_ids},
    ).fetchone()
    assert row is not None  # an aggregate has one row
    return int(row[0])
