"""Limit the deliveries in flight per endpoint, so that an endpoint that hangs cannot delay the others.

An endpoint starts with a limit of one delivery in flight; each timely response doubles the limit, up to the number of
threads. While a delivery takes much longer than usual, no other starts. An endpoint that hangs is closed for a
while, longer each time, and then starts with one delivery at a time again. The endpoints of a team that have not
responded yet share a limited number of threads.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

#: A delivery that takes this long has hung, whatever its response.
HUNG_SECONDS = 5.0
#: How long an endpoint is closed after a hung delivery; doubled each time, up to the maximum.
CLOSED_SECONDS = 30.0
CLOSED_MOST_SECONDS = 600.0
#: A delivery in flight for this long, and much longer than usual, is slow: others are deferred for about as long as it
#: has been in flight. A lower value would defer deliveries to endpoints that respond within half a second.
SLOW_SECONDS = 0.5
#: Deliveries deferred by a closed endpoint are spread over this time after it opens.
SPREAD_SECONDS = 2.0
#: The state of an endpoint is deleted after this time without deliveries.
IDLE_SECONDS = 600.0

#: A factor of the usual duration, and a minimum in seconds: above both, further deliveries wait.
_SUSPICIOUS = (3.0, 0.1)
#: A factor and a minimum like `_SUSPICIOUS`: above both, further deliveries are deferred.
_SLOW = (6.0, SLOW_SECONDS)
#: Weight of the latest delivery in the usual duration.
_LATEST = 0.2
#: The endpoints of a team that have not responded yet use at most this fraction of the threads (1 / divisor), or the
#: minimum if that is more.
_TRIAL_DIVISOR = 4
_MIN_TRIALS = 2

#: Why a delivery is deferred: an earlier delivery hung; a delivery in flight takes much longer than usual; the limit is
#: reached; other endpoints of the team, which do not respond, occupy the team's threads.
DeferralReason: TypeAlias = Literal["hung", "slow", "full", "team"]


class Deferral(NamedTuple):
    """The decision to defer a delivery: for how many seconds, and the reason."""

    seconds: float
    reason: DeferralReason


@dataclass(slots=True)
class _Endpoint:
    limit: int = 1
    #: Start times of the deliveries in flight.
    in_flight: list[float] = field(default_factory=list)
    #: Average duration without hung deliveries; 0 before the first.
    usual_seconds: float = 0.0
    hung_in_a_row: int = 0
    closed_until: float = 0.0
    used_at: float = 0.0
    #: The team of the latest delivery.
    team: str | None = None

    def has_responded(self) -> bool:
        """Return whether a delivery has ended in time, and none has hung since."""
        return self.usual_seconds > 0 and not self.hung_in_a_row

    def is_longer(self, now: float, limits: tuple[float, float]) -> bool:
        """Return whether a delivery has been in flight for longer than the given limits.

        Args:
            now: The current time on the clock.
            limits: A factor of the usual duration, and a minimum in seconds; the delivery must exceed both.
        """
        factor, least = limits
        return bool(self.in_flight) and now - min(self.in_flight) > max(least, factor * self.usual_seconds)


class ThrottleState:
    """The state of all endpoints in one process. Instants are seconds of one monotonic clock.

    Args:
        threads: Number of threads that deliver, for all endpoints together.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._max_trials = max(_MIN_TRIALS, threads // _TRIAL_DIVISOR)
        self._endpoints: dict[str, _Endpoint] = {}
        #: By team: endpoints with a delivery in flight and no response yet, with the start of that delivery.
        self._trials: dict[str | None, dict[str, float]] = {}

    def check(self, name: str, now: float, *, draw: float, team: str | None = None) -> Literal["go", "wait"] | Deferral:
        """Return whether another delivery may start: "go", "wait" (check again soon), or a deferral.

        Args:
            name: Name or id of the endpoint.
            now: The current time on the clock.
            draw: Uniform in [0, 1); spreads the deferred deliveries.
            team: The endpoint's team, whose endpoints share threads until they have responded; None: no such limit.
        """
        found = self._endpoints.get(name)
        if found is None:
            return self._check_trial(team, now, draw)
        if now < found.closed_until:
            return Deferral(found.closed_until - now + draw * SPREAD_SECONDS, "hung")
        if found.is_longer(now, _SLOW):
            return Deferral((now - min(found.in_flight)) * (0.5 + draw), "slow")
        if len(found.in_flight) >= found.limit or found.is_longer(now, _SUSPICIOUS):
            return "wait"
        return "go" if found.has_responded() else self._check_trial(team, now, draw)

    def _check_trial(self, team: str | None, now: float, draw: float) -> Literal["go", "wait"] | Deferral:
        trials = self._trials.get(team, {})
        if len(trials) < self._max_trials:
            return "go"
        waited = now - max(trials.values())
        return Deferral(waited * (0.5 + draw), "team") if waited > SLOW_SECONDS else "wait"

    def begin(self, name: str, now: float, *, team: str | None = None) -> None:
        """Record the start of a delivery.

        Args:
            name: Name or id of the endpoint.
            now: The current time on the clock.
            team: The endpoint's team, whose endpoints share threads until they have responded; None: no such limit.
        """
        if name not in self._endpoints:
            self._forget_idle(now)
        found = self._endpoints.setdefault(name, _Endpoint())
        found.in_flight.append(now)
        found.used_at = now
        found.team = team
        if team is not None and not found.has_responded():
            self._trials.setdefault(team, {})[name] = now

    def end(self, name: str, began: float, now: float) -> None:
        """Record the end of a delivery, including one that raised an exception.

        Args:
            name: Name or id of the endpoint.
            began: The `now` that was given to `begin`.
            now: The current time on the clock.
        """
        found = self._endpoints.get(name)
        if found is None or began not in found.in_flight:
            return
        found.in_flight.remove(began)
        found.used_at = now
        trials = self._trials.get(found.team, {})
        if trials.get(name) == began:
            del trials[name]
            if not trials:
                del self._trials[found.team]
        took = now - began
        if took < HUNG_SECONDS:
            found.usual_seconds = (1 - _LATEST) * (found.usual_seconds or took) + _LATEST * took
            found.limit = min(2 * found.limit, self._threads)
            found.hung_in_a_row = 0
            return
        found.limit = 1
        # Deliveries that hung at the same time count once.
        if now >= found.closed_until:
            found.hung_in_a_row += 1
            found.closed_until = now + min(CLOSED_SECONDS * 2 ** (found.hung_in_a_row - 1), CLOSED_MOST_SECONDS)

    def _forget_idle(self, now: float) -> None:
        for name, found in list(self._endpoints.items()):
            if not found.in_flight and now - max(found.used_at, found.closed_until) > IDLE_SECONDS:
                del self._endpoints[name]
