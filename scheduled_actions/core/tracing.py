"""Create OpenTelemetry spans of ticks, handlers and deliveries; continue the trace in which an action was scheduled.

An application with a tracer provider has imported `opentelemetry.trace` itself. Without that import, this module does
not import OpenTelemetry, and the only cost is a look-up in `sys.modules`.

Source: https://www.w3.org/TR/trace-context/ for `traceparent`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext, Tracer

#: The metadata key of the trace in which an action was scheduled.
TRACEPARENT = "traceparent"
#: The module that an application with a tracer provider has imported.
API = "opentelemetry.trace"
_NAME = "scheduled_actions"


def tracer() -> Tracer | None:
    """Return the tracer; None if the process has no tracer provider."""
    api: Any = sys.modules.get(API)
    if api is None or isinstance(api.get_tracer_provider(), (api.ProxyTracerProvider, api.NoOpTracerProvider)):
        return None
    found: Tracer = api.get_tracer(_NAME)
    return found


def with_trace(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a new action with the `traceparent` of the current span added to `metadata`.

    Without a current span, or if `metadata` is invalid or already has a `traceparent`, they are returned unchanged.
    """
    api: Any = sys.modules.get(API)
    metadata = given.get("metadata")
    if api is None or not isinstance(metadata, dict | None) or TRACEPARENT in (metadata or {}):
        return given
    context: SpanContext = api.get_current_span().get_span_context()
    if not context.is_valid:
        return given
    traceparent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    return {**given, "metadata": {**(metadata or {}), TRACEPARENT: traceparent}}


def tick(made_by: Tracer, caller: str) -> AbstractContextManager[Span]:
    """Return a context manager for the span of a tick; `caller` becomes an attribute of the span."""
    return made_by.start_as_current_span(f"{_NAME}.tick", attributes={f"{_NAME}.caller": caller})


def set_tick_attributes(span: Span, counts: dict[str, Any]) -> None:
    """Set the counts of a tick as attributes of its span."""
    span.set_attributes({f"{_NAME}.{name}": value for name, value in counts.items()})


class HandlerSpans:
    """Creates the spans of the handlers of one tick; must be created inside the span of that tick."""

    def __init__(self, made_by: Tracer) -> None:
        self._tracer = made_by
        self._api: Any = sys.modules[API]
        self._tick: SpanContext = self._api.get_current_span().get_span_context()

    def dispatch(
        self, action_type: str, metadata_text: str | None, attributes: dict[str, Any]
    ) -> AbstractContextManager[Span]:
        """Return a context manager for the span of a handler.

        The span continues the trace in which the action was scheduled, and links to the tick's span. If the metadata
        has no valid trace, the span is a child of the tick's span.

        Args:
            action_type: Part of the span's name.
            metadata_text: The action's metadata as JSON; None: the action has none.
            attributes: Attributes of the span by name; the prefix `scheduled_actions.` is added to the names.
        """
        scheduled_by = self._scheduled_by(metadata_text)
        parent = self._api.NonRecordingSpan(self._tick if scheduled_by is None else scheduled_by)
        return self._tracer.start_as_current_span(
            f"process {action_type}",
            context=self._api.set_span_in_context(parent),
            kind=self._api.SpanKind.CONSUMER,
            links=() if scheduled_by is None else (self._api.Link(self._tick),),
            attributes={f"{_NAME}.{name}": value for name, value in attributes.items()},
        )

    def ended(self, span: Span, outcome: str, *, has_failed: bool) -> None:
        """Set the outcome of a handler on its span, and the span's status to `ERROR` if the attempt has failed.

        The error itself is omitted, because it may contain payload data.
        """
        span.set_attribute(f"{_NAME}.outcome", outcome)
        if has_failed:
            span.set_status(self._api.Status(self._api.StatusCode.ERROR, outcome))

    def _scheduled_by(self, metadata_text: str | None) -> SpanContext | None:
        if metadata_text is None or TRACEPARENT not in metadata_text:
            return None
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - an extra

        try:
            carrier = {TRACEPARENT: str(json.loads(metadata_text).get(TRACEPARENT))}
        except (ValueError, AttributeError, RecursionError):
            return None
        found = self._api.get_current_span(TraceContextTextMapPropagator().extract(carrier))
        context: SpanContext = found.get_span_context()
        return context if context.is_valid else None


@contextmanager
def delivery(endpoint: str, event: str) -> Iterator[Callable[[int | None], None]]:
    """Run the block in the span of a delivery; without a tracer provider, run it without a span.

    Yields:
        A function to call with the HTTP status of the response, or with None if there was none. It sets the status on
        the span, which it marks as failed unless the status is 200 to 299.
    """
    made_by = tracer()
    if made_by is None:
        yield lambda _: None
        return
    api: Any = sys.modules[API]
    attributes = {f"{_NAME}.endpoint": endpoint, f"{_NAME}.event": event, "http.request.method": "POST"}
    with made_by.start_as_current_span("deliver webhook", kind=api.SpanKind.CLIENT, attributes=attributes) as span:

        def set_status(status: int | None) -> None:
            if status is not None:
                span.set_attribute("http.response.status_code", status)
            if status is None or not 200 <= status < 300:  # noqa: PLR2004 - the class of success
                span.set_status(api.Status(api.StatusCode.ERROR, "no answer" if status is None else str(status)))

        yield set_status
