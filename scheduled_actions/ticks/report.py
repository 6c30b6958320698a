"""Report the results of a tick: the JSON of its answer, its caller, and the values counted for `/metrics`."""

import json
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import accumulate
from math import isfinite
from typing import Any
from uuid import UUID

from scheduled_actions.actions.rules.settlement import ConditionPending, Outcome, Snoozed
from scheduled_actions.core.action import Claimed, Status
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import contain, reason_of

#: Maximum number of errors in the answer, and characters of each.
_MAX_ERRORS = 20
_ERROR_LENGTH = 200
#: Cron callers keep at most 8 KB of an answer.
_ANSWER_BYTES = 8000


@dataclass(slots=True, kw_only=True)
class TickReport:
    """The results of a tick, returned as the JSON of its answer."""

    success: bool = True
    #: The sum of the next five counts.
    processed: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    snoozed: int = 0
    #: Skipped or cancelled.
    skipped: int = 0
    rescued: int = 0
    pruned: int = 0
    #: Number of due actions left, at most 10,000.
    remaining: int = 0
    #: Whether due actions are left.
    more: bool = False
    #: Whether nothing was done, because another tick of this process was running or the process is stopping.
    busy: bool = False
    errors: list[dict[str, str | None]] = field(default_factory=list)
    duration_ms: int = 0
    tick_id: str | None = None
    #: The setting `enabled`.
    enabled: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return the fields of the answer; `enabled` is left out if it is true."""
        answer = {name: getattr(self, name) for name in _ANSWER_FIELDS}
        answer["errors"] = list(self.errors)
        return answer if self.enabled else answer | {"enabled": False}

    def count_processed(self) -> None:
        """Set the sum of the settlements."""
        self.processed = self.succeeded + self.failed + self.retried + self.snoozed + self.skipped

    def add(self, other: "TickReport") -> None:
        """Add the counts and errors of a later part of the same work."""
        for name in ("processed", "succeeded", "failed", "retried", "snoozed", "skipped"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.errors += other.errors[: _MAX_ERRORS - len(self.errors)]

    def counts(self) -> dict[str, int]:
        """Return the counts stored in the tick's row, without the duration, which the row's timestamps show."""
        return {name: getattr(self, name) for name in _COUNTS}

    def as_text(self) -> str:
        """Return the answer as JSON of at most 8,000 bytes; the last errors are left out if they do not fit."""
        answer = self.as_json()
        while len((text := json.dumps(answer, ensure_ascii=False)).encode()) > _ANSWER_BYTES and answer["errors"]:
            answer["errors"].pop()
        return text

    def count(self, claimed: Claimed, outcome: Outcome, status: Status) -> None:
        """Count a settlement by the action's new status; add the error of a failed attempt or a missing handler."""
        is_again = status is Status.PENDING
        if is_again and isinstance(outcome, Snoozed | ConditionPending):
            self.snoozed += 1
        elif status is Status.COMPLETED:
            self.succeeded += 1
        elif status in {Status.SKIPPED, Status.CANCELLED}:
            self.skipped += 1
        else:
            self.retried += is_again
            self.failed += status is Status.FAILED
            self.add_error(claimed.id, claimed.action_type, getattr(outcome, "reason", None) or "")

    def add_error(self, action_id: UUID | None, action_type: str | None, error: str) -> None:
        """Add an error, shortened to 200 characters; drop the errors after the 20th."""
        if len(self.errors) < _MAX_ERRORS:
            # The message of an exception may contain half a surrogate pair, which cannot be encoded.
            shown = error[: _ERROR_LENGTH + 1].encode(errors="replace").decode()
            self.errors.append(
                {
                    "action_id": None if action_id is None else str(action_id),
                    "action_type": action_type,
                    "error": shown if len(error) <= _ERROR_LENGTH else f"{shown[: _ERROR_LENGTH - 1]}…",
                }
            )

    def run_step(self, subject: str, step: Callable[[], object], *, event: str = "") -> bool:
        """Run a step, and return whether it succeeded; log and add the error that it raises.

        An error for which `is_outage` is true is raised unchanged, because no later step could succeed.

        Args:
            subject: The name of the step, for the error.
            step: The function to call.
            event: Name of the log event; by default `<subject>.refused`.
        """

        def run() -> bool:
            step()
            return True

        return contain(run, partial(self.add_refusal, subject, event=event))

    def add_refusal(self, subject: str, error: BaseException, *, event: str = "") -> bool:
        """Log and add an error that belongs to no action; return False.

        Args:
            subject: The step that raised the error.
            error: The exception that the step raised.
            event: Name of the log event; by default `<subject>.refused`.
        """
        reason = f"{subject}: {reason_of(error)}"
        log.error("%s tick_id=%s error=%s", event or f"{subject}.refused", self.tick_id, reason)
        self.add_error(None, None, reason)
        return False


_ANSWER_FIELDS = tuple(one.name for one in fields(TickReport) if one.name != "enabled")
_COUNTS = tuple(one.name for one in fields(TickReport) if one.type is int and one.name != "duration_ms")


@dataclass(slots=True)
class TickCaller:
    """The caller of one tick."""

    #: The name that the caller sent.
    name: str
    #: Returns whether the caller has closed its connection; None if that cannot be determined.
    is_gone: Callable[[], bool] | None
    #: When the tick began, on the monotonic clock.
    started: float
    #: Seconds from the start of the tick until the caller was found to have closed its connection; None if it was not.
    hung_up_seconds: float | None = None

    def look(self, now: float) -> None:
        """Check whether the caller has closed its connection, and record when; `now` is on the monotonic clock."""
        if self.is_gone is not None and self.hung_up_seconds is None and self.is_gone():
            self.hung_up_seconds = now - self.started

    def notes(self, joined: Sequence[str]) -> dict[str, Any]:
        """Return the fields about callers that are stored in the tick's row.

        Args:
            joined: The first callers that were answered `busy` while the tick was running.
        """
        return {
            **({} if self.hung_up_seconds is None else {"hung_up_seconds": round(self.hung_up_seconds, 1)}),
            **({"joined": list(joined)} if joined else {}),
        }


#: Upper bounds of the histograms' buckets, in seconds; one more bucket counts the values above them.
BUCKETS: dict[str, tuple[float, ...]] = {
    "handler_seconds": (0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0),
    "lateness_seconds": (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0),
    "tick_seconds": (0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0),
}
#: The label of action types without a handler in this build: SQL could create any number of them.
OTHER_TYPES = "(other)"
#: The label of endpoints stored in the database: teams could create any number of them.
OTHER_ENDPOINTS = "(database)"
#: The part of a histogram that contains the sum of its values; the other parts are buckets.
SUM = "sum"
_DELIVERY = "webhook:send"
#: The buckets of each histogram, named by their upper bounds.
_PARTS = {metric: [*(f"{bound:g}" for bound in bounds), "+Inf"] for metric, bounds in BUCKETS.items()}


class MetricsBuffer:
    """Counts the values of metrics until they are written and cleared; not thread-safe.

    Args:
        types: The action types of this build, each counted by its name.
        endpoints: The endpoints of `scheduled_actions.toml`, each counted by its name.
    """

    def __init__(self, types: Collection[str], endpoints: Collection[str]) -> None:
        self._types = types
        self._endpoints = endpoints
        #: By metric, subject and part; the parts of a histogram are its buckets and the sum of its values.
        self._counts: defaultdict[tuple[str, str, str], float] = defaultdict(float)
        #: Number of this content; a tick's row stores it, so that a repeated statement adds the content only once.
        self.number = 1

    def settled(self, action_type: str, outcome: str, *, payload_text: str) -> None:
        """Count a settlement; count a delivery (`webhook:send`) by its endpoint, too.

        Args:
            action_type: The type of the action.
            outcome: `completed`, `failed`, `retried`, `snoozed`, `skipped`, `cancelled` or `no_action`.
            payload_text: The payload as JSON; read for `webhook:send` only.
        """
        self._counts["settled", self._label(action_type), outcome] += 1
        if action_type == _DELIVERY and (endpoint := _endpoint_in(payload_text)) is not None:
            self._counts["deliveries", endpoint if endpoint in self._endpoints else OTHER_ENDPOINTS, outcome] += 1

    def waited(self, action_types: Iterable[str]) -> None:
        """Count the settlements of many actions that have to wait for their condition at once."""
        for action_type, count in Counter(action_types).items():
            self._counts["settled", self._label(action_type), "snoozed"] += count

    def completed(self, actions: Sequence[Claimed]) -> None:
        """Count the settlements of many completed actions at once."""
        for action_type, count in Counter([one.action_type for one in actions]).items():
            if action_type != _DELIVERY:
                self._counts["settled", self._label(action_type), "completed"] += count
        for one in actions:
            if one.action_type == _DELIVERY:
                self.settled(_DELIVERY, "completed", payload_text=one.payload_text)

    def ran(self, action_type: str, *, seconds: Sequence[float], lateness_seconds: Iterable[float]) -> None:
        """Count the durations of handlers, and the lateness of their starts; both in seconds."""
        label = self._label(action_type)
        self._observe("handler_seconds", label, seconds)
        self._observe(
            "lateness_seconds", label, [max(0.0, lateness) for lateness in lateness_seconds if isfinite(lateness)]
        )

    def ticked(self, seconds: float) -> None:
        """Count the duration of a tick that was not idle."""
        self._observe("tick_seconds", "", [seconds])

    def columns(self) -> dict[str, list[Any]]:
        """Return the counted values as four lists of the same length: metrics, subjects, parts and values."""
        keys = sorted(self._counts)
        return {
            "metrics": [metric for metric, _, _ in keys],
            "subjects": [subject for _, subject, _ in keys],
            "parts": [part for _, _, part in keys],
            "values": [self._counts[key] for key in keys],
        }

    def clear(self) -> None:
        """Remove all values after they have been written."""
        self._counts.clear()
        self.number += 1

    def _label(self, action_type: str) -> str:
        return action_type if action_type in self._types else OTHER_TYPES

    def _observe(self, metric: str, subject: str, values: Sequence[float]) -> None:
        if not values:
            return
        counts, ascending = self._counts, sorted(values)
        counted = 0
        for part, bound in zip(_PARTS[metric], (*BUCKETS[metric], math.inf), strict=True):
            # Buckets without a value are left out.
            if (up_to_bound := bisect_right(ascending, bound)) > counted:
                counts[metric, subject, part] += up_to_bound - counted
                counted = up_to_bound
        counts[metric, subject, SUM] += sum(ascending)


def _endpoint_in(payload_text: str) -> str | None:
    try:
        endpoint = json.loads(payload_text).get("endpoint")
    except (ValueError, AttributeError, RecursionError):
        return None
    return endpoint if isinstance(endpoint, str) else None


def cumulated(metric: str, counts: dict[str, float]) -> list[tuple[str, float]]:
    """Return the buckets of a histogram as Prometheus defines them: the number of values up to each bound."""
    parts = _PARTS[metric]
    return list(zip(parts, accumulate(counts.get(part, 0.0) for part in parts), strict=True))
