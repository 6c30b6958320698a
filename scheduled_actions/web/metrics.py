"""`/metrics`: what the tables know, as Prometheus reads it.

Nothing is kept in the process: ticks may run in many, or in none that lives. Counters and histograms are sums that
ticks have added up in the database, so they survive pruning, deployments and processes; gauges are asked for at each
scrape, by statements that read a bounded number of rows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flask import Response

from scheduled_actions.core.action import Status
from scheduled_actions.core.errors import ExtraMissing
from scheduled_actions.operations import metrics_store as store
from scheduled_actions.ticks.report import OTHER_TYPES, SUM, cumulated

try:
    import prometheus_client
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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduled_actions.actions.management import Counts, Management
    from scheduled_actions.runtime import Runtime

#: Ticks before this are not among the recent ones, in seconds.
RECENT_SECONDS = 900.0
_TICKS_MOST = 2_000
#: Rows of what ticks have counted: some thirty for each action type.
_ROWS_MOST = 20_000
#: An action is overdue that has been due for longer, in seconds.
_OVERDUE_SECONDS = 300.0
_NAME = "scheduled_actions"

_HISTOGRAMS = {
    "handler_seconds": ("handler_duration_seconds", "How long handlers took", ["action_type"]),
    "lateness_seconds": ("start_lateness_seconds", "How long after it was due a handler started", ["action_type"]),
    "tick_seconds": ("tick_duration_seconds", "How long ticks took that had something to do", []),
}
_COUNTERS = {
    "settled": ("settled", "Settlements", ["action_type", "outcome"]),
    "deliveries": ("webhook_deliveries", "Attempts to deliver a webhook that were settled", ["endpoint", "outcome"]),
}


def scraped(runtime: Runtime, management: Management, *, accept: str) -> Response:
    """Answer a scrape, in the form that the Accept header prefers: Prometheus's text, or OpenMetrics.

    Raises:
        DatabaseUnavailable: The tables cannot be read.
    """
    registry = prometheus_client.CollectorRegistry(auto_describe=False)
    registry.register(_Tables(runtime, management))
    encoder, content_type = choose_encoder(accept)
    response = Response(encoder(registry), content_type=content_type)
    response.headers["Cache-Control"] = "no-store"
    return response


class _Tables(Collector):
    """One scrape of the tables; everything is read before anything is told."""

    def __init__(self, runtime: Runtime, management: Management) -> None:
        self._types = runtime.registry.types
        with runtime.database.connection() as connection:
            self._counted = store.counted(connection, limit=_ROWS_MOST)
            self._ticks = store.recent_ticks(connection, seconds=RECENT_SECONDS, limit=_TICKS_MOST)
        self._counts = management.counts(overdue_seconds=_OVERDUE_SECONDS)

    def describe(self) -> list[Metric]:
        """Return nothing: the registry would otherwise collect twice."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield from self._sums()
        yield from self._standing(self._counts)
        yield from self._recent()

    def _sums(self) -> Iterator[Metric]:
        for metric, (name, told, labels) in _COUNTERS.items():
            counter = CounterMetricFamily(f"{_NAME}_{name}", f"{told}, since the tables were made.", labels=labels)
            for subject, parts in self._counted.get(metric, {}).items():
                for part, value in parts.items():
                    counter.add_metric([_label(subject), part], value)
            yield counter
        for metric, (name, told, labels) in _HISTOGRAMS.items():
            histogram = HistogramMetricFamily(f"{_NAME}_{name}", f"{told}, since the tables were made.", labels=labels)
            for subject, parts in self._counted.get(metric, {}).items():
                own = [_label(subject)] if labels else []
                histogram.add_metric(own, cumulated(metric, parts), parts.get(SUM, 0.0))
            yield histogram

    def _standing(self, counts: Counts) -> Iterator[Metric]:
        actions = GaugeMetricFamily(
            f"{_NAME}_actions",
            "Actions by status and type, of each status counted to 10,000.",
            labels=["status", "action_type"],
        )
        standing: dict[tuple[str, str], int] = {}
        for action_type, by_status in counts.by_type.items():
            named = action_type if action_type in self._types else OTHER_TYPES
            for status, number in by_status.items():
                standing[status, named] = standing.get((status, named), 0) + number
        for (of_status, named), number in sorted(standing.items()):
            actions.add_metric([of_status, _label(named)], number)
        yield actions
        capped = GaugeMetricFamily(
            f"{_NAME}_actions_capped", "1 where there are more actions of a status than are counted.", labels=["status"]
        )
        for one in Status:
            capped.add_metric([one], float(one in counts.capped))
        yield capped
        yield _gauge("due_actions", "Pending actions whose time has come, counted to 10,000.", counts.due)
        yield _gauge("overdue_actions", "Actions due for more than 300 s, counted to 10,000.", counts.overdue)
        yield _gauge(
            "oldest_due_age_seconds",
            "For how long the oldest due action has been due; 0 where nothing is.",
            counts.oldest_due_seconds or 0.0,
        )

    def _recent(self) -> Iterator[Metric]:
        recent = GaugeMetricFamily(
            f"{_NAME}_recent_ticks",
            f"Ticks of the last {RECENT_SECONDS:g} s by how they ended, idle ones included.",
            labels=["outcome"],
        )
        for outcome in ("finished", "hung_up", "lost", "running"):
            recent.add_metric([outcome], self._ticks.by_outcome.get(outcome, 0))
        yield recent
        if self._ticks.last_started_epoch is not None:
            yield _gauge("last_tick_timestamp_seconds", "When the latest tick started.", self._ticks.last_started_epoch)
        if self._ticks.last_seconds is not None:
            yield _gauge("last_tick_duration_seconds", "How long the latest tick took.", self._ticks.last_seconds)


def _gauge(name: str, told: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_NAME}_{name}", told, value=value)


def _label(value: str) -> str:
    """Return a text that may be a label: whoever reads it expects no control characters."""
    return re.sub(r"[\x00-\x1f\x7f]", "?", value)
