"""What is known of heartbeats, and what it means: whether somebody outside would notice that ticks stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduled_actions.operations.doctor.rules import Check, Level
from scheduled_actions.operations.doctor.rules.database import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduled_actions.operations.doctor.rules.ticks import Ping

#: What a tick's row says of the heartbeat before it: none was sent by that process yet, or it was heard. Anything else
#: says why it was not.
UNSENT, ANSWERED = "unsent", "answered"
_VARIABLE = "SCHEDULED_ACTIONS_HEARTBEAT_URL"
#: So many ticks without one are no chance.
_ENOUGH = 3
_ONLY_FIRST = (
    "is set; every tick of the last hour was the first of its process, which ended before it could tell how its "
    "heartbeat went: the log has heartbeat.failed, and the receiver knows when the last one came"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatFound:
    """The heartbeat, as the settings here and the ticks of the last hour have it."""

    #: Whether an address is set where this is asked: not always where the pings arrive.
    is_set: bool
    #: Why nothing can be posted to that address, which is not repeated; None when it can.
    problem: str | None
    #: The latest first.
    pings: Sequence[Ping]

    def judged(self) -> Check:
        """Return a fault where it cannot be sent, a warning where the last one was not heard, or where none is sent."""
        if self.problem is not None:
            remedy = f"set {_VARIABLE} to the address that your monitoring gave you, or unset it"
            return Check("heartbeat", Level.FAULT, f"{_VARIABLE}: {self.problem}", remedy)
        telling = [ping for ping in self.pings if ping.heartbeat is not None]
        known = next((ping for ping in telling if ping.heartbeat != UNSENT), None)
        if known is not None and known.heartbeat != ANSWERED:
            detail = f"the last heartbeat {known.heartbeat}, says the tick of {in_words(known.ago)} ago"
            remedy = f"see whether what {_VARIABLE} names is still there, and can be reached from where pings arrive"
            return Check("heartbeat", Level.WARNING, detail, remedy)
        if self.is_set and len(self.pings) >= _ENOUGH and not telling:
            detail = f"{_VARIABLE} is set here, but no tick of the last hour had it: none was sent"
            remedy = "set it for the process that answers /cron/process, too, and restart that"
            return Check("heartbeat", Level.WARNING, detail, remedy)
        if known is not None:
            return Check("heartbeat", Level.OK, "the last one was answered")
        if self.is_set or telling:
            # A first tick cannot know how a heartbeat of its process went; where all are, that process ended with each.
            are_first = len(telling) >= _ENOUGH
            return Check("heartbeat", Level.OK, _ONLY_FIRST if are_first else "is set; no tick knows yet how one went")
        return Check("heartbeat", Level.OK, f"none is wanted: {_VARIABLE} would tell somebody outside when ticks stop")
