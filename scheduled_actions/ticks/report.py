"""Who pinged for a tick, what it did (the JSON of its answer), and what it counts for `/metrics`."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, assert_never

from scheduled_actions.actions.rules import settlement
from scheduled_actions.core.action import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from uuid import UUID

    from scheduled_actions.actions.rules.settlement import Outcome
    from scheduled_actions.core.action import Claimed

#: Errors told in the answer.
_ERRORS_MOST = 20
_ERROR_LENGTH = 200
#: Callers keep no more than 8 KB of an answer.
_ANSWER_BYTES = 8000


@dataclass(slots=True, kw_only=True)
class Report:
    """What a tick did: the JSON of its answer."""

    success: bool = True
    #: Settled by this tick.
    processed: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    snoozed: int = 0
    #: Skipped or cancelled.
    skipped: int = 0
    rescued: int = 0
    pruned: int = 0
    #: Due actions left, counted to 10,000.
    remaining: int = 0
    #: Whether anything due is left.
    more: bool = False
    #: Another tick in this process was at work, and this one left it to it.
    busy: bool = False
    errors: list[dict[str, str | None]] = field(default_factory=list)
    duration_ms: int = 0
    tick_id: str | None = None
    #: False while the setting `enabled` is.
    enabled: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return the answer's fields; `enabled` only when it is false."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields["errors"] = list(self.errors)
        if self.enabled:
            del fields["enabled"]
        return fields

    def counts(self) -> dict[str, int]:
        """Return what the tick's row keeps of the answer: what it counted; how long it took is known from the row."""
        numbers = {name: value for name, value in self.as_json().items() if type(value) is int}
        return {name: value for name, value in numbers.items() if name != "duration_ms"}

    def as_text(self) -> str:
        """Return the answer as JSON below 8 KB: callers cut longer ones off; errors that do not fit are left out."""
        fields = self.as_json()
        text = json.dumps(fields, ensure_ascii=False)
        while len(text.encode()) > _ANSWER_BYTES and fields["errors"]:
            fields["errors"].pop()
            text = json.dumps(fields, ensure_ascii=False)
        return text

    def count(self, claimed: Claimed, outcome: Outcome, status: Status) -> None:
        """Count one settlement by the status it ended in, and tell its error."""
        error = getattr(outcome, "reason", None) or ""
        match status:
            case Status.COMPLETED:
                self.succeeded += 1
            case Status.FAILED:
                self.failed += 1
                self.add_error(claimed.id, claimed.action_type, error)
            case Status.PENDING if isinstance(outcome, settlement.Snoozed | settlement.Waited):
                self.snoozed += 1
            case Status.PENDING:
                self.retried += 1
                self.add_error(claimed.id, claimed.action_type, error)
            case Status.SKIPPED | Status.CANCELLED:
                self.skipped += 1
            case Status.NO_ACTION:
                self.add_error(claimed.id, claimed.action_type, error)
            case Status.PROCESSING:
                message = f"action {claimed.id} was settled as processing"
                raise AssertionError(message)
            case _:
                assert_never(status)

    def add_error(self, action_id: UUID | None, action_type: str | None, error: str) -> None:
        """Tell an error, shortened; at most 20 are told."""
        if len(self.errors) < _ERRORS_MOST:
            # Half a surrogate pair, which an exception may hold, has no bytes to be sent as.
            shown = error[: _ERROR_LENGTH + 1].encode(errors="replace").decode()
            shown = shown if len(error) <= _ERROR_LENGTH else f"{shown[: _ERROR_LENGTH - 1]}…"
            told = None if action_id is None else str(action_id)
            self.errors.append({"action_id": told, "action_type": action_type, "error": shown})


class Caller:
    """The caller of one tick.

    Args:
        name: What it calls itself.
        is_gone: Whether it has hung up; None where nobody can tell.
        started: When the tick began, on the monotonic clock.
    """

    def __init__(self, name: str, is_gone: Callable[[], bool] | None, started: float) -> None:
        self.name = name
        self._is_gone = is_gone
        self._started = started
        self._hung_up_seconds: float | None = None

    def look(self, now: float) -> None:
        """Notice when it hangs up: how long it had waited is its own time limit, to within a look."""
        if self._is_gone is not None and self._hung_up_seconds is None and self._is_gone():
            self._hung_up_seconds = now - self._started

    @property
    def outcome(self) -> str:
        """How the tick ended, seen from here."""
        return "finished" if self._hung_up_seconds is None else "hung_up"

    def notes(self, joined: Sequence[str]) -> dict[str, Any]:
        """Return what the tick's row says of its callers beside its counts.

        Args:
            joined: Those that pinged while the tick was at work, and were told that it is busy.
        """
        notes: dict[str, Any] = {}
        if self._hung_up_seconds is not None:
            notes["hung_up_seconds"] = round(self._hung_up_seconds, 1)
        if joined:
            notes["joined"] = list(joined)
        return notes


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
