"""Lanes: how many may wait for the same stranger at once, so that one who hangs holds nobody else up.

A lane is a text, such as the endpoint that a delivery goes to. It begins with one in flight, and has room for twice as
many with each that answers. Where one takes much longer than those before it, no other starts beside it; where one
hangs, the lane is closed for a while, longer each time, and begins anew. Lanes of one team that have yet to answer
share a part of the threads: however many of them hang, others go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

#: What takes longer has hung, whatever it says in the end.
HUNG_SECONDS = 5.0
#: A lane is closed for so long after one has hung, doubled each time, up to the longest.
CLOSED_SECONDS = 30.0
CLOSED_MOST_SECONDS = 600.0
#: One in flight for so long, and for much longer than usual, is slow: what waits behind it is put off. It comes back
#: after about as long again as that one has been in flight, so that an endpoint which is only slow is found open soon.
#: Less would put off what answers within half a second, for the sake of what never answers.
SLOW_SECONDS = 0.5
#: Those that wait for a closed lane come back within so long of its opening, not all at once.
SPREAD_SECONDS = 2.0
#: A lane that nothing has gone through for so long is forgotten.
IDLE_SECONDS = 600.0

#: Longer than usual by this factor, and at least so many seconds: then others wait, to see what comes of it.
_SUSPICIOUS = (3.0, 0.1)
#: And then it is slow: they are put off.
_SLOW = (6.0, SLOW_SECONDS)
#: Share of the latest one in what is usual.
_LATEST = 0.2
#: One in so many threads is for the lanes of one team that have yet to answer, but never fewer than so many.
_TRIED_ONE_OF = 4
_TRIED_LEAST = 2


#: Why something is put off: one before it hung; the one in flight takes far longer than usual; there is no room; others
#: of its team, which do not answer, have the threads that it might have.
PutOffReason: TypeAlias = Literal["hung", "slow", "full", "team"]


class PutOff(NamedTuple):
    """Not now: come back after so many seconds."""

    seconds: float
    reason: PutOffReason


Verdict: TypeAlias = Literal["go", "wait"] | PutOff


@dataclass(slots=True)
class _Lane:
    limit: int = 1
    #: When each was started that has not ended.
    in_flight: list[float] = field(default_factory=list)
    #: How long one takes that does not hang; 0 before the first.
    usual_seconds: float = 0.0
    hung_in_a_row: int = 0
    closed_until: float = 0.0
    used_at: float = 0.0
    #: Whose it was when it was last gone through.
    team: str | None = None

    @property
    def has_answered(self) -> bool:
        """Whether the last one that ended was answered in time."""
        return self.usual_seconds > 0 and not self.hung_in_a_row

    def is_longer(self, now: float, limits: tuple[float, float]) -> bool:
        """Whether one has been in flight for longer than a factor of what is usual, and than a least time."""
        factor, least = limits
        return bool(self.in_flight) and now - min(self.in_flight) > max(least, factor * self.usual_seconds)


class Lanes:
    """What is known in one process of its lanes. Instants are of one monotonic clock, in seconds.

    Args:
        threads: How many run at once, all lanes together.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._tried_most = max(_TRIED_LEAST, threads // _TRIED_ONE_OF)
        self._lanes: dict[str, _Lane] = {}
        #: Of each team, the lanes that have yet to answer and have one in flight, with when that was started.
        self._tried: dict[str, dict[str, float]] = {}

    def ask(self, lane: str, now: float, *, draw: float, team: str | None = None) -> Verdict:
        """Return whether one more of a lane may start: now, soon (ask again), or only later.

        Args:
            lane: Which.
            now: On the clock.
            draw: Uniform in [0, 1): what is put off does not come back all at once.
            team: Whose the lane is; None: nobody's whom a share of the threads is to hold.
        """
        found = self._lanes.get(lane)
        if found is None:
            return self._trial(team, now, draw)
        if now < found.closed_until:
            return PutOff(found.closed_until - now + draw * SPREAD_SECONDS, "hung")
        if found.is_longer(now, _SLOW):
            return PutOff((now - min(found.in_flight)) * (0.5 + draw), "slow")
        if len(found.in_flight) >= found.limit or found.is_longer(now, _SUSPICIOUS):
            return "wait"
        return "go" if found.has_answered else self._trial(team, now, draw)

    def _trial(self, team: str | None, now: float, draw: float) -> Verdict:
        """Return whether a lane that has yet to answer may be tried beside the others of its team."""
        tried = self._tried.get(team) if team is not None else None
        if tried is None or len(tried) < self._tried_most:
            return "go"
        waited = now - max(tried.values())
        return PutOff(waited * (0.5 + draw), "team") if waited > SLOW_SECONDS else "wait"

    def begin(self, lane: str, now: float, *, team: str | None = None) -> None:
        """Count one that starts."""
        if lane not in self._lanes:
            self._forget_idle(now)
        found = self._lanes.setdefault(lane, _Lane())
        found.in_flight.append(now)
        found.used_at = now
        found.team = team
        if team is not None and not found.has_answered:
            self._tried.setdefault(team, {})[lane] = now

    def end(self, lane: str, began: float, now: float) -> None:
        """Count one that ended, or was given up.

        Args:
            lane: Its lane.
            began: When it was started, as `begin` was told.
            now: When it ended.
        """
        found = self._lanes.get(lane)
        if found is None or began not in found.in_flight:
            return
        found.in_flight.remove(began)
        found.used_at = now
        self._no_longer_tried(lane, found, began)
        took = now - began
        if took < HUNG_SECONDS:
            found.usual_seconds = (
                took if not found.usual_seconds else (1 - _LATEST) * found.usual_seconds + _LATEST * took
            )
            found.limit = min(2 * found.limit, self._threads)
            found.hung_in_a_row = 0
            return
        found.limit = 1
        if now >= found.closed_until:
            # Those that hung beside the first one say nothing new.
            found.hung_in_a_row += 1
            found.closed_until = now + min(CLOSED_SECONDS * 2 ** (found.hung_in_a_row - 1), CLOSED_MOST_SECONDS)

    def _no_longer_tried(self, lane: str, found: _Lane, began: float) -> None:
        tried = {} if found.team is None else self._tried.get(found.team, {})
        if tried.get(lane) == began:
            del tried[lane]
            if not tried and found.team is not None:
                del self._tried[found.team]

    def _forget_idle(self, now: float) -> None:
        for lane, found in list(self._lanes.items()):
            if not found.in_flight and now - max(found.used_at, found.closed_until) > IDLE_SECONDS:
                del self._lanes[lane]
