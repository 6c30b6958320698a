"""Spans for OpenTelemetry, and traces that continue from the caller to the handler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from handlers import webhook
from scheduled_actions import Fail, action
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core import tracing
from scheduled_actions.testing.kit import kit
from scheduled_actions.webhooks.sending import event_payload
from tests.factories import insert, projects

#: A `traceparent` as another program would send it.
ELSEWHERE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@action("test:run")
def run(payload: dict, context):
    if payload.get("fails"):
        raise Fail("the secret is zebra")
    if payload.get("follows"):
        context.schedule("test:run", {"followed": True})
    with trace.get_tracer("theirs").start_as_current_span("inside"):
        pass


@action("test:async")
async def run_async(payload: dict):
    with trace.get_tracer("theirs").start_as_current_span("inside"):
        pass


@pytest.fixture
def a_project(database_url):
    with projects(database_url) as make:
        yield make


@pytest.fixture
def spans(monkeypatch):
    """Set up a tracer provider for the test, and return a function that returns the finished spans by name."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)

    def finished():
        return {span.name: span for span in exporter.get_finished_spans()}

    yield finished
    provider.shutdown()


def test_a_tick_and_its_handlers_have_spans_with_their_outcomes(a_project, connection, spans):
    action_id = insert(connection)

    report = a_project(run).processor.tick(caller="cron")

    tick, dispatch, inside = (spans()[name] for name in ("scheduled_actions.tick", "process test:run", "inside"))
    assert tick.attributes["scheduled_actions.caller"] == "cron"
    assert tick.attributes["scheduled_actions.succeeded"] == 1
    assert tick.attributes["scheduled_actions.tick_id"] == report.tick_id
    assert dict(dispatch.attributes) == {
        "scheduled_actions.action_id": str(action_id),
        "scheduled_actions.action_type": "test:run",
        "scheduled_actions.attempt": 1,
        "scheduled_actions.outcome": "completed",
    }
    assert dispatch.parent.span_id == tick.context.span_id
    assert inside.parent.span_id == dispatch.context.span_id


def test_a_handler_continues_the_trace_of_the_caller_and_links_to_its_tick(a_project, spans):
    project = a_project(run)
    with trace.get_tracer("theirs").start_as_current_span("request"):
        project.scheduler.schedule_action(NewAction(action_type="test:run", payload={}, metadata={"mine": 1}))

    project.processor.tick()

    request, tick, dispatch = (spans()[name] for name in ("request", "scheduled_actions.tick", "process test:run"))
    assert dispatch.context.trace_id == request.context.trace_id != tick.context.trace_id
    assert dispatch.parent.span_id == request.context.span_id
    assert [link.context.span_id for link in dispatch.links] == [tick.context.span_id]
    (done,) = project.scheduler.list_actions()
    assert done.metadata["mine"] == 1
    assert done.metadata["traceparent"].split("-")[1] == f"{request.context.trace_id:032x}"


def test_a_follow_up_continues_the_trace_of_its_handler(a_project, connection, spans):
    insert(connection, payload={"follows": True}, metadata={"traceparent": ELSEWHERE})
    project = a_project(run)

    project.processor.tick()

    (followed,) = [one for one in project.scheduler.list_actions() if one.payload == {"followed": True}]
    assert followed.metadata["traceparent"].split("-")[1] == ELSEWHERE.split("-")[1]


def test_a_caller_in_another_language_passes_its_trace_in_the_metadata(a_project, connection, spans):
    insert(connection, action_type="test:async", metadata={"traceparent": ELSEWHERE})

    a_project(run_async).processor.tick()

    assert f"{spans()['process test:async'].context.trace_id:032x}" == ELSEWHERE.split("-")[1]
    assert spans()["inside"].parent.span_id == spans()["process test:async"].context.span_id


@pytest.mark.parametrize(
    "given",
    [
        "nonsense",
        "ff" + ELSEWHERE[2:],
        ELSEWHERE + "-more",
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        ELSEWHERE.upper(),
        5,
        None,
    ],
)
def test_an_invalid_traceparent_is_ignored(a_project, connection, spans, given):
    insert(connection, metadata={"traceparent": given})

    report = a_project(run).processor.tick()

    assert report.succeeded == 1
    assert spans()["process test:run"].parent.span_id == spans()["scheduled_actions.tick"].context.span_id


def test_a_trace_in_the_metadata_precedes_the_current_one(a_project, spans):
    project = a_project(run)
    with trace.get_tracer("theirs").start_as_current_span("request"):
        made = project.scheduler.schedule_action(
            NewAction(action_type="test:run", payload={}, metadata={"traceparent": ELSEWHERE})
        )

    assert project.scheduler.get_action(made.id).metadata == {"traceparent": ELSEWHERE}


def test_the_span_of_a_failure_has_an_error_without_its_reason(a_project, connection, spans):
    insert(connection, payload={"fails": True})

    a_project(run).processor.tick()

    dispatch = spans()["process test:run"]
    assert dispatch.status.status_code is StatusCode.ERROR
    assert dispatch.attributes["scheduled_actions.outcome"] == "failed"
    assert "zebra" not in dispatch.to_json()


def test_a_delivery_has_a_span_in_the_trace_of_its_event(tmp_path, database_url, spans):
    with kit(tmp_path, database_url, handlers=[webhook.send], environ={}) as made:
        made.webhooks.add_endpoint("crm")
        made.webhooks.answer(503, times=1)
        with trace.get_tracer("theirs").start_as_current_span("request"):
            made.runtime.scheduler.schedule_action(
                NewAction(action_type="webhook:send", payload=event_payload("task:created", entity_id="t1", data={}))
            )
        made.run_due()

    delivery, request = spans()["deliver webhook"], spans()["request"]
    assert delivery.context.trace_id == request.context.trace_id
    assert delivery.attributes["scheduled_actions.endpoint"] == "crm"
    assert delivery.attributes["scheduled_actions.event"] == "task:created"
    assert delivery.attributes["http.response.status_code"] == 503
    assert delivery.status.status_code is StatusCode.ERROR


def test_without_a_provider_there_are_no_spans_and_no_metadata(a_project):
    project = a_project(run)

    made = project.scheduler.schedule_action(NewAction(action_type="test:run", payload={}))
    report = project.processor.tick()

    assert report.succeeded == 1
    assert tracing.tracer() is None
    assert project.scheduler.get_action(made.id).metadata is None


def test_this_package_does_not_import_opentelemetry(tmp_path, database_url):
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "_registry.py").write_text("HANDLERS = {}\nOPTIONS = {}\nFUNCTIONS = {}\n")
    ask = (
        "import sys, scheduled_actions.wsgi; from scheduled_actions import runtime\n"
        "print(runtime.current().processor.tick().success, *[n for n in sys.modules if n.startswith('opentelemetry')])"
    )

    completed = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=tmp_path,
        env={"DATABASE_URL": database_url, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )

    assert completed.stdout.split() == ["True"]
