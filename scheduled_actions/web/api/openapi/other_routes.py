"""The routes beside the management API, as OpenAPI describes them: the tick, health, and the documentation."""

from __future__ import annotations

from typing import Any

_COUNT = {"type": "integer", "minimum": 0}
_COUNTED = ("processed", "succeeded", "failed", "retried", "snoozed", "skipped", "rescued", "pruned", "remaining")
_TEXT = {"type": ["string", "null"]}


_METRICS = {media_type: {"schema": {"type": "string"}} for media_type in ("text/plain", "application/openmetrics-text")}


def _problem(description: str) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": description, "content": content}


def _json(description: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": description, "content": content}


def _tick(method: str, suffix: str) -> dict[str, Any]:
    return {
        "operationId": f"{method}_cron_process{suffix}",
        "tags": ["Ticks"],
        "summary": "Run one tick",
        "description": "Answers 200 whenever the tick ran, also when actions failed. In place of a secret the request "
        "may be signed with it, the Standard Webhooks way.",
        "security": [{"cronSecret": []}, {"cronToken": []}],
        "responses": {
            "200": _json("The tick ran.", "TickReport"),
            "401": _problem("Unauthorized: `unauthorized`."),
            "413": _problem("The body of a signed request is over 64 KiB: `too_large`."),
            "500": _problem("Internal Server Error: `internal_error`."),
            "503": _problem(
                "Service Unavailable: `not_configured`, `database_unavailable`, `database_busy`, `database_error`, "
                "`schema_outdated`, `registry_invalid`."
            ),
        },
    }


def _health(name: str, summary: str, schema: str) -> dict[str, Any]:
    return {
        "get": {
            "operationId": f"get_{name}",
            "tags": ["Health"],
            "summary": summary,
            "security": [],
            "responses": {"200": _json("Yes.", schema), "503": _json("No; it says why.", schema)},
        }
    }


OTHER_PATHS: dict[str, Any] = {
    "/cron/process": {method: _tick(method, "") for method in ("get", "post")},
    "/api/v1/cron/process": {method: _tick(method, "_too") for method in ("get", "post")},
    "/healthz": _health("healthz", "Whether the process lives", "Health"),
    "/readyz": _health("readyz", "Whether a ping would be processed", "Readiness"),
    "/metrics": {
        "get": {
            "operationId": "get_metrics",
            "tags": ["Health"],
            "summary": "Metrics for Prometheus",
            "description": "Any token without a team. Prometheus's text, or OpenMetrics where it is preferred.",
            "security": [{"token": []}],
            "responses": {
                "200": {"description": "The metrics.", "content": _METRICS},
                "401": _problem("Unauthorized: `unauthorized`."),
                "403": _problem("Forbidden: `forbidden`: the token is bound to a team."),
                "429": _problem("Too Many Requests: `too_many_attempts`."),
                "500": _problem("Internal Server Error: `internal_error`."),
                "503": _problem(
                    "Service Unavailable: `not_configured`, `extra_missing`, `database_unavailable`, `database_busy`, "
                    "`database_error`, `too_busy`, "
                    "`schema_outdated`, `registry_invalid`."
                ),
            },
        }
    },
    "/openapi.json": {
        "get": {
            "operationId": "get_openapi",
            "tags": ["Documentation"],
            "summary": "This document",
            "security": [],
            "responses": {
                "200": {"description": "The document.", "content": {"application/json": {"schema": {"type": "object"}}}}
            },
        }
    },
    "/docs": {
        "get": {
            "operationId": "get_docs",
            "tags": ["Documentation"],
            "summary": "This document for people",
            "security": [],
            "responses": {"200": {"description": "A page.", "content": {"text/html": {"schema": {"type": "string"}}}}},
        }
    },
}

OTHER_SCHEMAS: dict[str, Any] = {
    "TickReport": {
        "description": "What a tick did.",
        "type": "object",
        "properties": {
            "success": {"type": "boolean"},
            **dict.fromkeys(_COUNTED, _COUNT),
            "more": {"type": "boolean"},
            "busy": {"type": "boolean"},
            "errors": {
                "type": "array",
                "maxItems": 20,
                "items": {
                    "type": "object",
                    "properties": dict.fromkeys(("action_id", "action_type", "error"), _TEXT),
                    "required": ["action_id", "action_type", "error"],
                },
            },
            "duration_ms": _COUNT,
            "tick_id": {"type": ["string", "null"], "format": "uuid"},
            "enabled": {"const": False, "description": "Only when the project is switched off."},
        },
        "required": ["success", *_COUNTED, "more", "busy", "errors", "duration_ms", "tick_id"],
    },
    "Health": {
        "type": "object",
        "properties": {"status": {"enum": ["ok", "stuck"]}, "detail": {"type": "string"}},
        "required": ["status"],
    },
    "Readiness": {
        "type": "object",
        "properties": {
            "status": {"enum": ["ready", "not ready"]},
            "checks": {"type": "array", "items": {"type": "object"}},
        },
        "required": ["status", "checks"],
    },
}  # fmt: skip
