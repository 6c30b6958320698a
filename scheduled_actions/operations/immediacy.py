"""Say how long an action that is due at once waits before it starts, and what makes that shorter."""

from typing import NamedTuple

from scheduled_actions.core.config import Settings
from scheduled_actions.core.messages import counted
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)

#: Number of pings of which the median interval is taken.
_PINGS = 10
#: The interval of a cron whose pings are not known yet.
_CRON_SECONDS = 60.0


class PingRhythm(NamedTuple):
    """What starts ticks at the moment; the columns of `ping_rhythm.sql`."""

    has_listener: bool
    #: Whether a tick that has nothing more to run is waiting for actions, or will be.
    is_lingering: bool
    #: The usual time between two pings by crons in seconds; None if it is not known.
    interval_seconds: float | None


def ping_rhythm(connection: Connection) -> PingRhythm:
    """Return what starts ticks at the moment."""
    return PingRhythm(*sql.run_one(connection, "ping_rhythm", {"limit": _PINGS}))


def describe(rhythm: PingRhythm, settings: Settings, *, can_ping: bool, is_pinged: bool) -> str:
    """Return how soon immediate actions start, as one or two sentences without the last full stop.

    Args:
        rhythm: What starts ticks at the moment.
        settings: The settings of this process.
        can_ping: Whether a due action sends a ping: to the setting `url`, or else to `dev`.
        is_pinged: Whether a cron has pinged recently.
    """
    interval = max(1, round(rhythm.interval_seconds or _CRON_SECONDS))
    linger = settings.linger_seconds
    remedy = "Set `url` or `linger_seconds` to start them at once"
    if not settings.enabled:
        return "Immediate actions do not start, because the setting `enabled` is false"
    if (reason := _reason_at_once(rhythm, settings, can_ping=can_ping)) is not None:
        return f"Immediate actions start at once: {reason}"
    if not is_pinged:
        return f"Immediate actions wait for the next ping. {remedy}"
    if linger >= interval or (rhythm.is_lingering and not linger):
        return "Immediate actions start at once: ticks wait for them (`linger_seconds`)"
    if linger:
        return (
            f"Immediate actions start within {counted(round(interval - linger), 'second')}: in every "
            f"{counted(interval, 'second')}, ticks wait for them for {linger:g} (`linger_seconds`). Set `url` to start "
            "them at once"
        )
    return f"Immediate actions start within {counted(interval, 'second')}, with the next ping. {remedy}"


def _reason_at_once(rhythm: PingRhythm, settings: Settings, *, can_ping: bool) -> str | None:
    """Return why immediate actions start at once even if no cron pings; None if they do not."""
    if rhythm.has_listener:
        return "a listener is running"
    if not can_ping:
        return None
    return "`scheduled-actions dev` is running" if settings.url is None else "scheduling one pings `url`"
