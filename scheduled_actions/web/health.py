"""Answer `/healthz` (whether this process works) and `/readyz` (whether a tick would run)."""

import json
from http import HTTPStatus

from flask import Response

from scheduled_actions.operations.doctor import service as diagnosis
from scheduled_actions.operations.doctor.rules import Level, worst
from scheduled_actions.runtime import Runtime


def alive(runtime: Runtime) -> Response:
    """Answer 200; 503 if handlers that never returned hold every thread, so that the process must be restarted."""
    if check := diagnosis.exhausted_threads(runtime):
        return _answer(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "stuck", "detail": f"{check.detail}: {check.remedy}"})
    return _answer(HTTPStatus.OK, {"status": "ok"})


def ready(runtime: Runtime) -> Response:
    """Answer 200 if a ping would run a tick, otherwise 503; the body lists every check, with remedies."""
    checks = diagnosis.readiness(runtime)
    is_ready = worst(checks) is not Level.FAULT
    return _answer(
        HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE,
        {"status": "ready" if is_ready else "not ready", "checks": [check.as_json() for check in checks]},
    )


def _answer(status: int, document: dict[str, object]) -> Response:
    text = json.dumps(document, ensure_ascii=False)
    return Response(text, status, mimetype="application/json", headers={"Cache-Control": "no-store"})
