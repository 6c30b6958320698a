"""OpenAPI descriptions of routes and documents that have no models, such as ticks, health checks and problems."""

from typing import Any

_COUNT = {"type": "integer", "minimum": 0}
_COUNTED = ("processed", "succeeded", "failed", "retried", "snoozed", "skipped", "rescued", "pruned", "remaining")
_TEXT = {"type": ["string", "null"]}
_METRICS = {media_type: {"schema": {"type": "string"}} for media_type in ("text/plain", "application/openmetrics-text")}


def _problem(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


def _json(description: str, schema: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }


def _tick(suffix: str) -> dict[str, Any]:
    return {
        "operationId": f"run_tick{suffix}",
        "tags": ["Ticks"],
        "summary": "Run one tick",
        "description": "Returns 200 even if actions failed, if another tick was running in the process (`busy`), or if "
        "the setting `enabled` is false. A request can be signed with the secret (Standard Webhooks) instead of "
        "containing the secret.",
        "parameters": [
            {
                "name": "executor",
                "in": "query",
                "required": False,
                "description": "Run the due actions of this executor, as one of its workers does, instead of a tick.",
                "schema": {"type": "string"},
            }
        ],
        "security": [{"cronSecret": []}, {"cronToken": []}],
        "responses": {
            "200": _json("The result of the tick.", "TickReport"),
            "400": _problem(
                "The body of a signed request cannot be read (`body_unreadable`), or `executor` is given more than "
                "once (`invalid_argument`)."
            ),
            "401": _problem("Unauthorized: `unauthorized`."),
            "413": _problem("The body of a signed request is over 64 KiB: `too_large`."),
            "422": _problem("The settings have no such executor: `unknown_executor`."),
            "500": _problem("Internal Server Error: `internal_error`."),
            "503": _problem(
                "Service Unavailable: `not_configured`, `database_unavailable`, `database_busy`, `database_error`, "
                "`schema_outdated`, `schema_unreleased`, `registry_invalid`."
            ),
        },
    }


def _health(name: str, summary: str, schema: str) -> dict[str, Any]:
    return {
        "get": {
            "operationId": name,
            "tags": ["Health"],
            "summary": summary,
            "security": [],
            "responses": {
                "200": _json("The check passed.", schema),
                "503": _json("The check failed; the body has the reason.", schema),
            },
        }
    }


#: The members of every problem document.
_PROBLEM = {
    "type": {"type": "string"},
    "title": {"type": "string"},
    "status": {"type": "integer"},
    "detail": {"type": "string"},
    "code": {"description": "Identifies the kind of error; clients branch on it.", "type": "string"},
}


def _problem_schema(name: str, description: str, **more: object) -> dict[str, Any]:
    return {
        "title": name,
        "description": description,
        "type": "object",
        "properties": {**_PROBLEM, **more},
        "required": [*_PROBLEM],
    }


OTHER_PATHS: dict[str, Any] = {
    "/cron/process": {"get": _tick("_by_get"), "post": _tick("")},
    "/api/v1/cron/process": {"get": _tick("_of_api_by_get"), "post": _tick("_of_api")},
    "/healthz": _health("check_health", "Check whether the process is alive", "Health"),
    "/readyz": _health("check_readiness", "Check whether ticks can run", "Readiness"),
    "/metrics": {
        "get": {
            "operationId": "get_metrics",
            "tags": ["Health"],
            "summary": "Get metrics in the Prometheus format",
            "description": "Requires a token without a team. Returns the OpenMetrics format to clients that prefer it.",
            "security": [{"token": []}],
            "responses": {
                "200": {"description": "The metrics.", "content": _METRICS},
                "401": _problem("Unauthorized: `unauthorized`."),
                "403": _problem("Forbidden: `forbidden` (the token is bound to a team)."),
                "429": _problem("Too Many Requests: `too_many_attempts`."),
                "500": _problem("Internal Server Error: `internal_error`."),
                "503": _problem(
                    "Service Unavailable: `not_configured`, `extra_missing`, `database_unavailable`, `database_busy`, "
                    "`database_error`, `too_busy`, `schema_outdated`, `schema_unreleased`, `registry_invalid`."
                ),
            },
        }
    },
    "/openapi.json": {
        "get": {
            "operationId": "get_openapi_document",
            "tags": ["Documentation"],
            "summary": "Get this document",
            "security": [],
            "responses": {
                "200": {"description": "The document.", "content": {"application/json": {"schema": {"type": "object"}}}}
            },
        }
    },
    "/docs": {
        "get": {
            "operationId": "read_documentation",
            "tags": ["Documentation"],
            "summary": "Show this document as a web page",
            "security": [],
            "responses": {
                "200": {"description": "The page.", "content": {"text/html": {"schema": {"type": "string"}}}}
            },
        }
    },
}

OTHER_SCHEMAS: dict[str, Any] = {
    "Problem": _problem_schema("Problem", "An RFC 9457 problem document."),
    "InvalidProblem": _problem_schema(
        "InvalidProblem",
        "A rejected request; `errors` lists the invalid fields, if any.",
        errors={"type": "array", "items": {"$ref": "#/components/schemas/FieldError"}, "default": []},
    ),
    "StateProblem": _problem_schema(
        "StateProblem",
        "A request that the current state of a resource does not allow.",
        action_status={"anyOf": [{"$ref": "#/components/schemas/Status"}, {"type": "null"}]},
    ),
    "FieldError": {
        "title": "FieldError",
        "description": "An invalid field of a request.",
        "type": "object",
        "properties": {
            "field": {
                "description": "Path of the field, such as `payload.name` or `actions.3.priority`; a header name; or "
                "`body` or `query` if the whole is invalid. Empty in the entry that counts further errors.",
                "type": "string",
            },
            "message": {"type": "string"},
        },
        "required": ["field", "message"],
    },
    "TickReport": {
        "description": "The result of a tick.",
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
            "enabled": {"const": False, "description": "Present only if the setting `enabled` is false."},
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
