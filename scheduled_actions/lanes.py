"""Lanes: how many actions that wait for the same stranger may run at once, so that one who hangs holds nobody else up.

A lane is a text, such as the endpoint that a delivery goes to. It begins with one action in flight, has room for one
more with each that ends soon, and for one alone after one that took too long; then it is closed for a while, longer
each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: What takes longer has hung, whatever it says in the end.
HUNG_SECONDS = 5.0
#: While one has been in flight for so long, no other starts beside it.
SLOW_SECONDS = 1.0
#: A lane is closed for so long after one has hung, doubled each time, up to the longest.
CLOSED_SECONDS = 30.0
CLOSED_MOST_SECONDS = 600.0
#: A lane that nothing has gone through for so long leaves its share to the others, and is forgotten when it is open.
IDLE_SECONDS = 60.0

_FIRST_LIMIT = 1


@dataclass(slots=True)
class _Lane:
    limit: int = _FIRST_LIMIT
    #: When each was started that has not ended.
    in_flight: list[float] = field(default_factory=list)
    hung_in_a_row: int = 0
    closed_until: float = 0.0
    used_at: float = 0.0


class Lanes:
    """What is known in one process of its lanes. Instants are of one monotonic clock, in seconds.

    Args:
        threads: How many actions run at once, all lanes together.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._lanes: dict[str, _Lane] = {}

    def room(self, lane: str, now: float) -> int:
        """Return how many more of a lane may start now."""
        found = self._lanes.get(lane)
        if found is None:
            return min(_FIRST_LIMIT, self._share(lane, now))
        if now < found.closed_until or any(now - began > SLOW_SECONDS for began in found.in_flight):
            return 0
        return max(0, min(found.limit, self._share(lane, now)) - len(found.in_flight))

    def closed_seconds(self, lane: str, now: float) -> float:
        """Return for how long a lane is closed yet; 0 when it is open."""
        found = self._lanes.get(lane)
        return 0.0 if found is None else max(0.0, found.closed_until - now)

    def begin(self, lane: str, now: float) -> None:
        """Count one that starts."""
        found = self._lanes.setdefault(lane, _Lane())
        found.in_flight.append(now)
        found.used_at = now

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
        if now - began < HUNG_SECONDS:
            found.limit = min(found.limit + 1, self._threads)
            found.hung_in_a_row = 0
            return
        found.limit = _FIRST_LIMIT
        if now >= found.closed_until:
            # Those that hung beside the first one say nothing new.
            found.hung_in_a_row += 1
            found.closed_until = now + min(CLOSED_SECONDS * 2 ** (found.hung_in_a_row - 1), CLOSED_MOST_SECONDS)

    def forget_idle(self, now: float) -> None:
        """Forget the lanes that were not used of late and are open: they begin anew."""
        for lane, found in list(self._lanes.items()):
            if not found.in_flight and now - max(found.used_at, found.closed_until) > IDLE_SECONDS:
                del self._lanes[lane]

    def _share(self, lane: str, now: float) -> int:
        """Return the most that one lane may have: all threads when it is alone, else half of them."""
        others = any(name != lane and now - one.used_at <= IDLE_SECONDS for name, one in self._lanes.items())
        return max(1, self._threads // 2) if others else self._threads
