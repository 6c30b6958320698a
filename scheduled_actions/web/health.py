"""`/healthz` and `/readyz`: whether the process lives, and whether it could work."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

from flask import Response

from scheduled_actions.operations.doctor import gather as diagnosis
from scheduled_actions.operations.doctor.rules import Level, worst

if TYPE_CHECKING:
    from scheduled_actions.runtime import Runtime


def alive(runtime: Runtime) -> Response:
    """Answer 200 while this process can work, or ends; 503 once only a new one could."""
    threads = diagnosis.threads(runtime)
    if threads.is_exhausted:
        check = threads.judged()
        return _answer(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "stuck", "detail": f"{check.detail}: {check.remedy}"})
    return _answer(HTTPStatus.OK, {"status": "ok"})


def ready(runtime: Runtime) -> Response:
    """Answer 200 when a ping would be processed; 503 with what is missing and what to do otherwise."""
    checks = [fact.judged() for fact in diagnosis.readiness(runtime)]
    is_ready = worst(checks) is not Level.FAULT
    return _answer(
        HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE,
        {"status": "ready" if is_ready else "not ready", "checks": [check.as_json() for check in checks]},
    )


def _answer(status: int, document: dict[str, object]) -> Response:
    response = Response(json.dumps(document, ensure_ascii=False), status, mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response
