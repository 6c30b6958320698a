"""AWS Lambda: serve an application with a function that EventBridge Scheduler invokes for each tick.

The same function, or one of its own, can run the actions of an executor whose tickets SQS carries.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from flask import Flask

from scheduled_actions.core.errors import ExtraMissing, InvalidArgument, UnknownExecutor, WrongCarrier
from scheduled_actions.core.log import log
from scheduled_actions.executors.tickets import TicketMessage

#: The values of `source` in the events of EventBridge Scheduler and of EventBridge rules.
_SCHEDULERS = ("aws.scheduler", "aws.events")
#: The value of `eventSource` in each record of an event of SQS.
_SQS = "aws:sqs"


class LambdaContext(Protocol):
    """The part of Lambda's context object that is used here."""

    def get_remaining_time_in_millis(self) -> int:
        """Return the time until Lambda ends the invocation."""


def lambda_handler(app: Flask) -> Callable[[Mapping[str, Any], LambdaContext], dict[str, Any]]:
    """Return the handler of a Lambda function that serves an application, and runs its ticks and executors.

    An HTTP event (function URL, API Gateway or load balancer) is a request to the application. An event of EventBridge
    Scheduler runs a tick, which ends before Lambda's timeout. IAM decides who may invoke the function, so a tick needs
    no secret. The messages of an SQS queue run the actions of an executor before Lambda's timeout; those that did not
    start are released. The handler returns the response in Lambda's format, the report of the tick, or the messages
    that are not tickets of an executor as `batchItemFailures`.

    The handler raises `InvalidArgument` for any other event, `ExtraMissing` for an HTTP event without the extra
    `lambda`, and the errors of the tick or the messages, such as `DatabaseUnavailable`. Lambda then counts a failed
    invocation, and SQS delivers the messages again.

    Args:
        app: With the extension `ScheduledActions`.
    """

    def handle(event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        if "requestContext" in event:
            return _serve(app, event, context)
        if event.get("source") in _SCHEDULERS:
            return _tick(app, str(event["source"]), context)
        if (records := event.get("Records")) and all(one.get("eventSource") == _SQS for one in records):
            return _run_messages(app, records, context)
        raise InvalidArgument(
            "event",
            problem="is neither an HTTP request nor an event of EventBridge Scheduler or SQS: to run a tick, invoke "
            'the function with {"source": "aws.scheduler"}',
        )

    return handle


def _serve(app: Flask, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
    try:
        from apig_wsgi import make_lambda_handler  # noqa: PLC0415 - a function that is only scheduled does not need it
    except ImportError as error:
        raise ExtraMissing("apig-wsgi", "lambda") from error
    return make_lambda_handler(app)(dict(event), context)


def _tick(app: Flask, caller: str, context: LambdaContext) -> dict[str, Any]:
    runtime = app.extensions["scheduled_actions"]
    report = runtime.processor.tick(caller=caller, host_seconds=context.get_remaining_time_in_millis() / 1000)
    result: dict[str, Any] = json.loads(report.as_text())
    return result


def _run_messages(app: Flask, records: Sequence[Mapping[str, Any]], context: LambdaContext) -> dict[str, Any]:
    """Run the actions of the messages of an event; return the messages to deliver again."""
    runtime = app.extensions["scheduled_actions"]
    messages, failures = [], []
    for one in records:
        try:
            message = TicketMessage.of_text(one["body"])
            runtime.executors.check_carrier(message.executor, "celery", "sqs")
        except (InvalidArgument, UnknownExecutor, WrongCarrier) as error:
            log.warning("executor.foreign_message message_id=%s error=%s", one["messageId"], error)
            failures.append({"itemIdentifier": one["messageId"]})
        else:
            messages.append(message.as_json())
    if messages and runtime.config.settings.enabled:
        runtime.executors.run_messages(messages, seconds=context.get_remaining_time_in_millis() / 1000)
    return {"batchItemFailures": failures}
