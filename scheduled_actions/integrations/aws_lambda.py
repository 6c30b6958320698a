"""AWS Lambda: serve an application with a function that EventBridge Scheduler also invokes for each tick."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from flask import Flask

from scheduled_actions.core.errors import ExtraMissing, InvalidArgument

#: The values of `source` in the events of EventBridge Scheduler and of EventBridge rules.
_SCHEDULERS = ("aws.scheduler", "aws.events")


class LambdaContext(Protocol):
    """The part of Lambda's context object that is used here."""

    def get_remaining_time_in_millis(self) -> int:
        """Return the time until Lambda ends the invocation."""


def lambda_handler(app: Flask) -> Callable[[Mapping[str, Any], LambdaContext], dict[str, Any]]:
    """Return the handler of a Lambda function that serves an application and runs its ticks.

    An HTTP event (function URL, API Gateway or load balancer) is a request to the application. An event of EventBridge
    Scheduler runs a tick, which ends before Lambda's timeout. IAM decides who may invoke the function, so a tick needs
    no secret. The handler returns the response in Lambda's format, or the report of the tick.

    The handler raises `InvalidArgument` for any other event, `ExtraMissing` for an HTTP event without the extra
    `lambda`, and the errors of the tick, such as `DatabaseUnavailable`. Lambda then counts a failed invocation.

    Args:
        app: With the extension `ScheduledActions`.
    """

    def handle(event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        if "requestContext" in event:
            return _serve(app, event, context)
        if event.get("source") in _SCHEDULERS:
            return _tick(app, str(event["source"]), context)
        raise InvalidArgument(
            "event",
            problem="is neither an HTTP request nor an event of EventBridge Scheduler: to run a tick, invoke the "
            'function with {"source": "aws.scheduler"}',
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
