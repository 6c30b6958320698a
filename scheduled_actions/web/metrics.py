"""Answer `/metrics`: Prometheus metrics from the tables.

The process keeps no counters, because ticks may run in several or in short-lived processes. Counters and histograms are
sums that ticks store in the database, so they survive pruning, deployments and restarts. Gauges are computed at each
scrape, by statements that read a bounded number of rows.
"""

import re

from flask import Response

from scheduled_actions.core.action import Status
from scheduled_actions.core.errors import ExtraMissing
from scheduled_actions.limits import service as limits
from scheduled_actions.operations import recent_activity as store
from scheduled_actions.ticks.report import OTHER_TYPES, SUM, cumulated

try:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ExtraMissing("prometheus_client", "metrics") from error

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from scheduled_actions.database.connection import Connection
from scheduled_actions.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduled_actions.executors.model import ExecutorState

#: The age up to which ticks count as recent, in seconds.
RECENT_SECONDS = 900.0
#: Maximum number of recent ticks that a scrape reads.
_TICKS_MOST = 2_000
#: Maximum number of stored sums that a scrape reads; an action type has about thirty.
_ROWS_MOST = 20_000
#: An action is overdue when it has been due for longer than this, in seconds.
_OVERDUE_SECONDS = 300.0
#: Label of the keys that match no pattern.
NO_PATTERN = "(none)"
_NAME = "scheduled_actions"
_SINCE = ", since the tables were created."

_HISTOGRAMS = {
    "handler_seconds": ("handler_duration_seconds", "Duration of handlers", ["action_type"]),
    "lateness_seconds": ("start_lateness_seconds", "Delay between due time and handler start", ["action_type"]),
    "tick_seconds": ("tick_duration_seconds", "Duration of ticks that processed actions", []),
}
_COUNTERS = {
    "settled": ("settled", "Settlements", ["action_type", "outcome"]),
    "deliveries": ("webhook_deliveries", "Settled webhook delivery attempts", ["endpoint", "outcome"]),
}


def scraped(runtime: Runtime, *, accept: str) -> Response:
    """Return all metrics in the format that the Accept header selects: Prometheus text or OpenMetrics.

    Raises:
        DatabaseUnavailable: The tables cannot be read.
        RegistryInvalid: The registry of the build cannot be read.
    """
    encoder, content_type = choose_encoder(accept)
    return Response(encoder(_Tables(runtime)), content_type=content_type, headers={"Cache-Control": "no-store"})


class _Tables(Collector):
    """The metrics of one scrape; the database is read before the first metric is written."""

    def __init__(self, runtime: Runtime) -> None:
        self._types = runtime.registry.types
        with runtime.database.connection() as connection:
            self._counted = store.counted(connection, limit=_ROWS_MOST)
            self._ticks = store.recent_ticks(connection, seconds=RECENT_SECONDS, limit=_TICKS_MOST)
            self._patterns = limits.count_patterns(connection)
            self._pauses = limits.count_pauses(connection)
            self._executors = _executors(connection) if runtime.config.settings.executors else ()
        self._counts = runtime.action_operations.counts(overdue_seconds=_OVERDUE_SECONDS)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield from self._sums()
        yield from self._gauges()
        yield from self._limits()
        yield from self._of_executors()
        yield from self._recent()

    def _sums(self) -> Iterator[Metric]:
        for metric, (name, help_text, labels) in _COUNTERS.items():
            counter = CounterMetricFamily(f"{_NAME}_{name}", f"{help_text}{_SINCE}", labels=labels)
            for subject, parts in self._counted.get(metric, {}).items():
                for part, value in parts.items():
                    counter.add_metric([_label(subject), part], value)
            yield counter
        for metric, (name, help_text, labels) in _HISTOGRAMS.items():
            histogram = HistogramMetricFamily(f"{_NAME}_{name}", f"{help_text}{_SINCE}", labels=labels)
            for subject, parts in self._counted.get(metric, {}).items():
                histogram.add_metric([_label(subject)] if labels else [], cumulated(metric, parts), parts.get(SUM, 0.0))
            yield histogram

    def _gauges(self) -> Iterator[Metric]:
        counts = self._counts
        actions = GaugeMetricFamily(
            f"{_NAME}_actions",
            "Actions by status and type; at most 10,000 are counted per status.",
            labels=["status", "action_type"],
        )
        totals: Counter[tuple[str, str]] = Counter()
        for action_type, by_status in counts.by_type.items():
            named = action_type if action_type in self._types else OTHER_TYPES
            for status, number in by_status.items():
                totals[status, named] += number
        for (of_status, named), number in sorted(totals.items()):
            actions.add_metric([of_status, _label(named)], number)
        yield actions
        capped = GaugeMetricFamily(
            f"{_NAME}_actions_capped",
            "1 if a status has more actions than are counted, otherwise 0.",
            labels=["status"],
        )
        for one in Status:
            capped.add_metric([one], float(one in counts.capped))
        yield capped
        yield _gauge("due_actions", "Due actions, counted up to 10,000.", counts.due)
        yield _gauge(
            "overdue_actions",
            "Actions due for more than 300 s and neither queued nor paused, counted up to 10,000.",
            counts.overdue,
        )
        yield _gauge(
            "oldest_due_age_seconds",
            "Seconds for which the oldest due action that is neither queued nor paused has been due; 0 without any.",
            counts.oldest_due_seconds or 0.0,
        )

    def _limits(self) -> Iterator[Metric]:
        slots = GaugeMetricFamily(
            f"{_NAME}_limit_slots_in_use",
            "Slots of limit keys in use, by pattern; the first 1,000 slots are counted.",
            labels=["pattern"],
        )
        queued = GaugeMetricFamily(
            f"{_NAME}_limit_queued_actions",
            "Due actions in the queues of limit keys, by the pattern of their first key, counted up to 1,000.",
            labels=["pattern"],
        )
        for one in self._patterns:
            if one.pattern is not None or one.in_use or one.queued:
                slots.add_metric([_label(one.pattern or NO_PATTERN)], one.in_use)
                queued.add_metric([_label(one.pattern or NO_PATTERN)], one.queued)
        yield slots
        yield queued
        yield _gauge("active_pauses", "Active pauses.", self._pauses)
        yield _gauge("paused_actions", "Due actions held back by pauses, counted up to 10,000.", self._counts.paused)

    def _of_executors(self) -> Iterator[Metric]:
        if not self._executors:
            return
        due = GaugeMetricFamily(
            f"{_NAME}_executor_due_actions",
            "Due actions of executors, also those in the queues of limit keys, counted up to 10,000.",
            labels=["executor"],
        )
        untaken = GaugeMetricFamily(
            f"{_NAME}_executor_untaken_actions",
            "Claimed actions of executors that no worker has taken over, counted up to 10,000.",
            labels=["executor"],
        )
        running = GaugeMetricFamily(
            f"{_NAME}_executor_running_actions", "Actions that workers of executors run.", labels=["executor"]
        )
        workers = GaugeMetricFamily(
            f"{_NAME}_executor_workers",
            "Workers of executors that were seen within the last two minutes and have not ended.",
            labels=["executor"],
        )
        for one in self._executors:
            numbers = ((due, one.due), (untaken, one.untaken), (running, one.running), (workers, one.workers))
            for gauge, number in numbers:
                gauge.add_metric([_label(one.name)], number)
        yield from (due, untaken, running, workers)

    def _recent(self) -> Iterator[Metric]:
        recent = GaugeMetricFamily(
            f"{_NAME}_recent_ticks",
            f"Ticks in the last {RECENT_SECONDS:g} s by outcome, including idle ticks; counted up to {_TICKS_MOST:,}.",
            labels=["outcome"],
        )
        for outcome in ("finished", "hung_up", "lost", "running"):
            recent.add_metric([outcome], self._ticks.by_outcome.get(outcome, 0))
        yield recent
        if self._ticks.last_started_epoch is not None:
            yield _gauge(
                "last_tick_timestamp_seconds",
                "Unix time of the start of the latest tick.",
                self._ticks.last_started_epoch,
            )
        if self._ticks.last_seconds is not None:
            yield _gauge(
                "last_tick_duration_seconds",
                "Duration of the latest tick; missing while it runs.",
                self._ticks.last_seconds,
            )


def _executors(connection: Connection) -> "Sequence[ExecutorState]":
    from scheduled_actions.executors.store import find_executors  # noqa: PLC0415 - most projects have no executors

    return find_executors(connection)


def _gauge(name: str, help_text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_NAME}_{name}", help_text, value=value)


def _label(value: str) -> str:
    """Return a label value with its control characters replaced by `?`."""
    return re.sub(r"[\x00-\x1f\x7f]", "?", value)
