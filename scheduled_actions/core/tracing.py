"""Spans for OpenTelemetry: a tick, a dispatch, a delivery; and the way of a trace from who schedules to what runs.

Nothing is imported here: an application that has set a tracer provider up has imported `opentelemetry.trace` itself,
and where it has not there is nobody to tell. Without one, all this is a look into `sys.modules`.

Source: https://www.w3.org/TR/trace-context/ for `traceparent`.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.trace import Span, SpanContext, Tracer

#: The key of an action's metadata under which the trace of its scheduling goes along.
TRACEPARENT = "traceparent"
#: Loaded where the process may have a tracer provider.
API = "opentelemetry.trace"
_NAME = "scheduled_actions"
_SHAPE = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_FORBIDDEN_VERSION = "ff"


def tracer() -> Tracer | None:
    """Return what makes spans; None unless the process has set a tracer provider up."""
    api: Any = sys.modules.get(API)
    if api is None or isinstance(api.get_tracer_provider(), (api.ProxyTracerProvider, api.NoOpTracerProvider)):
        return None
    found: Tracer = api.get_tracer(_NAME)
    return found


def present() -> str | None:
    """Return the `traceparent` of the span that is at work here; None where there is none."""
    api: Any = sys.modules.get(API)
    if api is None:
        return None
    context: SpanContext = api.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def with_trace(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a new action, with the present trace in its metadata; one that is there stays."""
    traceparent = present()
    metadata = given.get("metadata")
    if traceparent is None or not isinstance(metadata, dict | None) or TRACEPARENT in (metadata or {}):
        return given
    return {**given, "metadata": {**(metadata or {}), TRACEPARENT: traceparent}}


@contextmanager
def tick(made_by: Tracer, caller: str) -> Iterator[Span]:
    """Give the span of a tick, for as long as it lasts."""
    with made_by.start_as_current_span(f"{_NAME}.tick", attributes={f"{_NAME}.caller": caller}) as span:
        yield span


def tell(span: Span, counts: dict[str, Any]) -> None:
    """Say on a tick's span what it did."""
    for name, value in counts.items():
        span.set_attribute(f"{_NAME}.{name}", value)


class Dispatches:
    """Makes the spans of one tick's dispatches.

    Args:
        made_by: The tracer.
    """

    def __init__(self, made_by: Tracer) -> None:
        self._tracer = made_by
        self._api: Any = sys.modules["opentelemetry.trace"]
        self._tick: SpanContext = self._api.get_current_span().get_span_context()

    @contextmanager
    def dispatch(self, action_type: str, metadata_text: str | None, attributes: dict[str, Any]) -> Iterator[Span]:
        """Give the span of a handler: it continues the trace of its scheduling, and links to the tick.

        An action that nobody's trace scheduled is a part of the tick's.

        Args:
            action_type: Names the span.
            metadata_text: Of the action, JSON; whatever else it holds is left alone.
            attributes: Without the package's name before them.
        """
        scheduled_by = self._scheduled_by(metadata_text)
        links = () if scheduled_by is None else (self._api.Link(self._tick),)
        parent = self._api.NonRecordingSpan(self._tick if scheduled_by is None else scheduled_by)
        with self._tracer.start_as_current_span(
            f"process {action_type}",
            context=self._api.set_span_in_context(parent),
            kind=self._api.SpanKind.CONSUMER,
            links=links,
            attributes={f"{_NAME}.{name}": value for name, value in attributes.items()},
        ) as span:
            yield span

    def ended(self, span: Span, outcome: str, *, has_failed: bool) -> None:
        """Say what came of a handler; never why: an error's text may quote what it worked on."""
        span.set_attribute(f"{_NAME}.outcome", outcome)
        if has_failed:
            span.set_status(self._api.Status(self._api.StatusCode.ERROR, outcome))

    def _scheduled_by(self, metadata_text: str | None) -> SpanContext | None:
        if metadata_text is None or TRACEPARENT not in metadata_text:
            return None
        try:
            found = _SHAPE.fullmatch(str(json.loads(metadata_text).get(TRACEPARENT)))
        except (ValueError, AttributeError, RecursionError):
            return None
        if found is None or found[1] == _FORBIDDEN_VERSION or (found[1] == "00" and found[5]):
            return None
        flags = self._api.TraceFlags(int(found[4], 16))
        context: SpanContext = self._api.SpanContext(int(found[2], 16), int(found[3], 16), True, flags)  # noqa: FBT003 - is_remote
        return context if context.is_valid else None


@contextmanager
def delivery(endpoint: str, event: str) -> Iterator[Delivering]:
    """Give what is told of a delivery; its span lasts as long as the block. Nothing where nobody traces."""
    made_by = tracer()
    if made_by is None:
        yield Delivering(None)
        return
    api: Any = sys.modules["opentelemetry.trace"]
    attributes = {f"{_NAME}.endpoint": endpoint, f"{_NAME}.event": event, "http.request.method": "POST"}
    with made_by.start_as_current_span("deliver webhook", kind=api.SpanKind.CLIENT, attributes=attributes) as span:
        yield Delivering(span)


class Delivering:
    """A delivery under way."""

    def __init__(self, span: Span | None) -> None:
        self._span = span

    def answered(self, status: int | None) -> None:
        """Say what the receiver answered; None: nothing."""
        if self._span is None:
            return
        api: Any = sys.modules["opentelemetry.trace"]
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
        if status is None or not 200 <= status < 300:  # noqa: PLR2004 - the class of success
            self._span.set_status(api.Status(api.StatusCode.ERROR, "no answer" if status is None else str(status)))
