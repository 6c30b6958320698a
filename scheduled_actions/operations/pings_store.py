"""What a doctor asks of the latest pings, and the note of those that were refused."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduled_actions.database.statements import Statements
from scheduled_actions.operations.doctor.rules.heartbeat import HeartbeatFound
from scheduled_actions.operations.doctor.rules.ticks import (
    WINDOW,
    DoublesFound,
    HangUpsFound,
    LossesFound,
    Ping,
    RefusalsFound,
    TicksFound,
    anonymous,
)
from scheduled_actions.ticks import store as tick_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.operations.doctor.rules import Fact

sql = Statements(__file__)

#: So many pings are looked at: those of an hour at two a minute, and some more.
_PINGS_MOST = 150


def pings(connection: Connection, *, names_callers: bool = True) -> list[Ping]:
    """Return the latest pings that became ticks, the latest first: at least the last one, and those of the last hour.

    Args:
        connection: Where the tables are.
        names_callers: Whether to say what they call themselves.
    """
    rows = sql.run(connection, "doctor_ticks", {"limit": _PINGS_MOST}).fetchall()
    found = [_ping(row, names_callers=names_callers) for row in rows]
    return found[:1] + [one for one in found[1:] if one.ago <= WINDOW]


def ticks(
    connection: Connection, *, max_run_seconds: float, linger_seconds: float, names_callers: bool = True
) -> Iterator[Fact]:
    """Give what the latest pings show; the tables must be there.

    Args:
        connection: Where they are.
        max_run_seconds: The setting.
        linger_seconds: The setting.
        names_callers: Whether to say who pings.
    """
    found = pings(connection, names_callers=names_callers)
    latest = TicksFound(last=found[0] if found else None, due=tick_store.due(connection))
    yield latest
    recent = [one for one in found if one.ago <= WINDOW]
    yield DoublesFound(recent)
    yield HangUpsFound(pings=recent, max_run_seconds=max_run_seconds, linger_seconds=linger_seconds)
    yield LossesFound(recent)
    yield _refusals(connection, is_missing=latest.is_missing, names_callers=names_callers)


def heartbeat(connection: Connection, *, is_set: bool, problem: str | None) -> HeartbeatFound:
    """Return what the ticks of the last hour say of heartbeats, beside the address that is set here."""
    recent = [one for one in pings(connection) if one.ago <= WINDOW]
    return HeartbeatFound(is_set=is_set, problem=problem, pings=recent)


class Refused(NamedTuple):
    """Pings that were refused."""

    wrong: int
    #: Those that showed neither a secret nor a signature.
    without: int
    callers: tuple[str, ...]


def note_refusals(connection: Connection, refused: Refused) -> None:
    """Add these to the refused pings of the day; the callers are those of the latest note."""
    sql.run(connection, "note_refusals", refused._asdict() | {"callers": json.dumps(refused.callers)})


def _ping(row: Sequence[Any], *, names_callers: bool) -> Ping:
    ago, duration, caller, is_lost, is_at_work, hung_up, joined, heartbeat = row
    named = str if names_callers else anonymous
    return Ping(
        ago=timedelta(seconds=ago),
        duration=None if duration is None or is_lost else timedelta(seconds=duration),
        caller=named(caller or ""),
        is_lost=bool(is_lost),
        is_at_work=is_at_work,
        hung_up_after=timedelta(seconds=hung_up) if isinstance(hung_up, int | float) else None,
        joined=tuple(named(str(one)) for one in joined) if isinstance(joined, list) else (),
        heartbeat=heartbeat,
    )


def _refusals(connection: Connection, *, is_missing: bool, names_callers: bool) -> RefusalsFound:
    row = sql.run(connection, "doctor_refusals").fetchone()
    if row is None:
        return RefusalsFound(is_missing=is_missing)
    value, ago = row
    return RefusalsFound(
        wrong=value["wrong"],
        without=value["without"],
        last_ago=timedelta(seconds=ago),
        callers=tuple(value["callers"]) if names_callers else (),
        is_missing=is_missing,
    )
