"""What ticks count for `/metrics`: sums and histograms that a tick adds to the database's when it ends."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scheduled_actions.core.action import Claimed

#: Upper bounds of the histograms, in seconds; one more holds what is above.
BUCKETS: dict[str, tuple[float, ...]] = {
    "handler_seconds": (0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0),
    "lateness_seconds": (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0),
    "tick_seconds": (0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0),
}
#: Stands for action types that no handler of this build has: anybody who schedules may make them up.
OTHER_TYPES = "(other)"
#: Stands for the endpoints of the database: tenants make as many as they like.
OTHER_ENDPOINTS = "(database)"
#: The last part of a histogram that is no bucket.
SUM = "sum"
_ABOVE = "+Inf"
_DELIVERY = "webhook:send"


class Tally:
    """Counts since it was last cleared; not safe to use from several threads.

    Args:
        types: The action types of this build, each counted by its name.
        endpoints: The endpoints of the settings, each counted by its name.
    """

    def __init__(self, types: Collection[str], endpoints: Collection[str]) -> None:
        self._types = types
        self._endpoints = endpoints
        self._counts: defaultdict[tuple[str, str, str], float] = defaultdict(float)
        #: By metric and subject: how many fell into each bucket, and at the end the sum of all.
        self._histograms: dict[tuple[str, str], list[float]] = {}
        #: Of the tallies of this process: a tick's row says which it has added.
        self.number = 1

    def settled(self, action_type: str, outcome: str, *, payload_text: str) -> None:
        """Count a settlement, and the delivery that it is where it is one.

        Args:
            action_type: Of the action.
            outcome: `completed`, `failed`, `retried`, `snoozed`, `skipped`, `cancelled` or `no_action`.
            payload_text: Read of `webhook:send` alone.
        """
        self._counts["settled", self._named(action_type), outcome] += 1
        if action_type == _DELIVERY:
            self._delivered(outcome, payload_text)

    def completed(self, actions: Sequence[Claimed]) -> None:
        """Count many settlements at once: those of actions that completed."""
        for action_type, count in Counter([one.action_type for one in actions]).items():
            self._counts["settled", self._named(action_type), "completed"] += count
        for one in actions:
            if one.action_type == _DELIVERY:
                self._delivered("completed", one.payload_text)

    def ran(self, action_type: str, *, seconds: float, lateness_seconds: float) -> None:
        """Count how long a handler took, and how late it had started."""
        named = self._named(action_type)
        self._observe("handler_seconds", named, seconds)
        if math.isfinite(lateness_seconds):
            self._observe("lateness_seconds", named, max(0.0, lateness_seconds))

    def ticked(self, seconds: float) -> None:
        """Count a tick that had something to do."""
        self._observe("tick_seconds", "", seconds)

    def rows(self) -> tuple[list[str], list[str], list[str], list[float]]:
        """Return the counts as columns: metric, subject, part, value."""
        values = dict(self._counts)
        for (metric, subject), histogram in self._histograms.items():
            for part, value in zip(_parts(metric), histogram, strict=True):
                if value or part == SUM:
                    values[metric, subject, part] = value
        keys = sorted(values)
        return (
            [metric for metric, _, _ in keys],
            [subject for _, subject, _ in keys],
            [part for _, _, part in keys],
            [values[key] for key in keys],
        )

    def clear(self) -> None:
        """Begin again: what was counted is written."""
        self._counts.clear()
        self._histograms.clear()
        self.number += 1

    def _delivered(self, outcome: str, payload_text: str) -> None:
        endpoint = _endpoint_in(payload_text)
        if endpoint is not None:
            named = endpoint if endpoint in self._endpoints else OTHER_ENDPOINTS
            self._counts["deliveries", named, outcome] += 1

    def _named(self, action_type: str) -> str:
        return action_type if action_type in self._types else OTHER_TYPES

    def _observe(self, metric: str, subject: str, value: float) -> None:
        bounds = BUCKETS[metric]
        histogram = self._histograms.get((metric, subject))
        if histogram is None:
            histogram = self._histograms[metric, subject] = [0.0] * (len(bounds) + 2)
        histogram[bisect_left(bounds, value)] += 1
        histogram[-1] += value


def _endpoint_in(payload_text: str) -> str | None:
    try:
        endpoint = json.loads(payload_text).get("endpoint")
    except (ValueError, AttributeError, RecursionError):
        return None
    return endpoint if isinstance(endpoint, str) else None


def _parts(metric: str) -> list[str]:
    return [*(f"{bound:g}" for bound in BUCKETS[metric]), _ABOVE, SUM]


def cumulated(metric: str, counts: dict[str, float]) -> list[tuple[str, float]]:
    """Return the buckets of a histogram as Prometheus has them: how many were at most each bound."""
    total, found = 0.0, []
    for part in _parts(metric)[:-1]:
        total += counts.get(part, 0.0)
        found.append((part, total))
    return found
