"""Generate the OpenAPI document from the routes and their models."""

import re
from collections.abc import Iterable
from functools import cache
from http import HTTPStatus
from typing import Any
from zoneinfo import available_timezones

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from scheduled_actions.core.errors import (
    ConflictingChange,
    DatabaseBusy,
    DatabaseUnavailable,
    NotConfigured,
    RefusedByDatabase,
    RegistryInvalid,
    RowLocked,
    ScheduledActionsError,
    SchemaOutdated,
    SchemaUnreleased,
    TooBusy,
    TooLarge,
)
from scheduled_actions.core.version import VERSION
from scheduled_actions.web.api.dispatch import ROUTES
from scheduled_actions.web.api.models import WITHOUT_NUL, EmptyRequest, without_null
from scheduled_actions.web.api.openapi.other_routes import OTHER_PATHS, OTHER_SCHEMAS
from scheduled_actions.web.api.problems import (
    BodyUnreadable,
    FieldsInvalid,
    Forbidden,
    IdempotencyKeyInUse,
    IdempotencyKeyReused,
    PreconditionFailed,
    TooManyAttempts,
    Unauthorized,
    UnknownRoute,
    UnsupportedMediaType,
    status_of,
)
from scheduled_actions.web.api.requests import IDEMPOTENCY_HEADER, IDEMPOTENCY_PATTERN
from scheduled_actions.web.api.routing import Route

#: The path under which the routes are mounted.
BASE = "/api/v1"
_REF = "#/components/schemas/{model}"

#: Errors of every route.
_EVERYWHERE = (
    FieldsInvalid, RefusedByDatabase, Unauthorized, Forbidden, TooManyAttempts,
    NotConfigured, RegistryInvalid, DatabaseUnavailable, DatabaseBusy, SchemaOutdated, SchemaUnreleased, TooBusy,
    RowLocked, ConflictingChange,
)  # fmt: skip
_OF_BODIES = (BodyUnreadable, TooLarge, UnsupportedMediaType)
_OF_KEYS = (IdempotencyKeyReused, IdempotencyKeyInUse)
#: Codes without an error class: failures of the server or the database.
_BROKEN = {HTTPStatus.INTERNAL_SERVER_ERROR: ["internal_error"], HTTPStatus.SERVICE_UNAVAILABLE: ["database_error"]}

#: Schemas without a model: any JSON that Postgres can store.
_OWN_SCHEMAS: dict[str, Any] = {
    "JsonValue": {
        "description": "Any JSON without NUL characters.",
        "anyOf": [
            {"type": ["null", "boolean", "number"]},
            {"type": "string", **WITHOUT_NUL},
            {"type": "array", "items": {"$ref": "#/components/schemas/JsonValue"}},
            {"$ref": "#/components/schemas/JsonObject"},
        ],
    },
    "JsonObject": {
        "description": "Any JSON object without NUL characters.",
        "type": "object",
        "propertyNames": WITHOUT_NUL,
        "additionalProperties": {"$ref": "#/components/schemas/JsonValue"},
    },
}
#: Variable parts of paths.
_NAME = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^\\u0000/]+$"}
_ID = {"type": "string", "format": "uuid"}
#: A name from another system: a slash is sent as %2F.
_PART = {**_NAME, **WITHOUT_NUL}
#: Resources that are found by id or name.
_NAMED = ("/schedules/", "/deadlines/", "/webhooks/endpoints/")


def document(server: str) -> dict[str, Any]:
    """Return the OpenAPI document.

    Args:
        server: The URL path under which the application is mounted; empty for the root.
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Scheduled Actions",
            "version": VERSION,
            "description": "Durable scheduled work in Postgres: schedule, monitor and manage actions.",
        },
        "servers": [{"url": server or "/"}],
        **_fixed(),
    }


@cache
def _fixed() -> dict[str, Any]:
    schemas, definitions = _schemas()
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(BASE + route.path, {})[route.method.lower()] = _operation(route, schemas, definitions)
    queries = {route.query.__name__ for route in ROUTES}
    return {
        "tags": [{"name": tag} for tag in dict.fromkeys(["Ticks", *(route.tag for route in ROUTES)])],
        "paths": {**paths, **OTHER_PATHS},
        "components": {
            "schemas": dict(
                sorted(
                    {
                        **{name: schema for name, schema in definitions.items() if name not in queries},
                        **_OWN_SCHEMAS,
                        **OTHER_SCHEMAS,
                        "TimeZone": {
                            "description": "A name of the IANA time zone database.",
                            "type": "string",
                            "enum": sorted(available_timezones()),
                        },
                    }.items()
                )
            ),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`ADMIN_TOKEN`, or a token created with `scheduled-actions tokens create`.",
                },
                "cronSecret": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "x-cron-secret",
                    "description": "The value of `CRON_SECRET`.",
                },
                "cronToken": {"type": "http", "scheme": "bearer", "description": "The value of `CRON_SECRET`."},
            },
        },
    }


class _Generator(GenerateJsonSchema):
    """Generates schemas without redundant titles and null defaults."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401 - pydantic's own
        """Return False: titles would repeat the names of fields."""
        del schema
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Return the schema without a null default: null is equivalent to an omitted field."""
        result = super().default_schema(schema)
        return {name: value for name, value in result.items() if name != "default" or value is not None}

    def normalize_name(self, name: str) -> str:
        """Return the name of a schema: the class name without the suffix `Document`."""
        return super().normalize_name(name).removesuffix("Document")

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return the schema of a model, titled with its name in the document."""
        return super().model_schema(schema) | {"title": self.normalize_name(schema["cls"].__name__)}


def _schemas() -> tuple[dict[type[BaseModel], Any], dict[str, Any]]:
    """Return each model's schema, and all definitions by name."""
    modes: dict[type[BaseModel], JsonSchemaMode] = {}
    for route in ROUTES:
        modes |= dict.fromkeys((model for model in (route.query, route.body) if model is not None), "validation")
        modes |= dict.fromkeys((model for model, _ in route.answers.values()), "serialization")
    found, made = models_json_schema(list(modes.items()), ref_template=_REF, schema_generator=_Generator)
    schemas = {model: schema for (model, _), schema in found.items() if issubclass(model, BaseModel)}
    return schemas, {name: _resolved(schema) for name, schema in made["$defs"].items()}


def _resolved(schema: Any) -> Any:  # noqa: ANN401 - a part of a schema
    """Replace each `x-schema` in a schema with a reference to the schema that it names."""
    match schema:
        case {"x-schema": name, **others}:
            return {"$ref": _REF.format(model=name), **others}
        case dict():
            return {name: _resolved(value) for name, value in schema.items()}
        case list():
            return [_resolved(value) for value in schema]
        case _:
            return schema


def _operation(route: Route, schemas: dict[type[BaseModel], Any], definitions: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.function.__name__,
        "tags": [route.tag],
        "summary": route.summary,
        "description": " ".join(part for part in (route.description, f"Requires the role `{route.role}`.") if part),
        "security": [{"token": []}],
        "parameters": [
            *({"name": name, "in": "path", "required": True, **_path_part(route, name)}
              for name in re.findall(r"{(\w+)}", route.path)),
            *_query_parameters(route, definitions),
            *_header_parameters(route),
        ],
        "responses": {**_successes(route, schemas), **_problems(route)},
    }  # fmt: skip
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.is_body_optional,
            "content": {"application/json": {"schema": schemas[route.body]}},
        }
    return operation


def _path_part(route: Route, name: str) -> dict[str, Any]:
    if name != "id":
        return {"schema": _PART}
    return (
        {
            "description": "Id or name of the resource. By name, a team's token finds only resources of the team, and "
            "any other token only resources without a team.",
            "schema": _NAME,
        }
        if route.path.startswith(_NAMED)
        else {"schema": _ID}
    )


def _query_parameters(route: Route, definitions: dict[str, Any]) -> Iterable[dict[str, Any]]:
    if route.query is EmptyRequest:
        return
    model = definitions[route.query.__name__]
    for name, schema in model["properties"].items():
        described = dict(without_null(schema))
        description = described.pop("description", None)
        yield {
            "name": name,
            "in": "query",
            "required": name in model.get("required", ()),
            **({"description": description} if description else {}),
            "schema": described,
        }


def _header_parameters(route: Route) -> Iterable[dict[str, Any]]:
    if route.creates:
        yield {
            "name": IDEMPOTENCY_HEADER,
            "in": "header",
            "description": "If the same request is repeated with the same key within a day, the repetition is not "
            "executed and gets the response of the first successful request.",
            "schema": {"type": "string", "pattern": f"^{IDEMPOTENCY_PATTERN}$"},
        }
    if route.takes_if_match:
        yield {
            "name": "If-Match",
            "in": "header",
            "description": "The ETag of the version that the client has read; 412 if the resource has changed since.",
            "schema": {"type": "string"},
        }


def _successes(route: Route, schemas: dict[type[BaseModel], Any]) -> dict[str, Any]:
    headers = {
        name: {"description": description, "schema": {"type": "string"}} for name, description in route.headers.items()
    }
    return {
        str(int(status)): {
            "description": description,
            **({"headers": headers} if headers else {}),
            "content": {"application/json": {"schema": schemas[model]}},
        }
        for status, (model, description) in route.answers.items()
    }


def _problems(route: Route) -> dict[str, Any]:
    kinds: dict[type[ScheduledActionsError], None] = dict.fromkeys(
        (
            *route.refuses,
            *_EVERYWHERE,
            *(_OF_BODIES if route.body is not None else ()),
            *(_OF_KEYS if route.creates else ()),
            *((PreconditionFailed,) if route.takes_if_match else ()),
            *((UnknownRoute,) if "{" in route.path else ()),
        )
    )
    codes: dict[HTTPStatus, list[str]] = {status: list(named) for status, named in _BROKEN.items()}
    for kind in kinds:
        codes.setdefault(status_of(kind), []).append(kind.code)
    return {str(int(status)): _problem(status, named) for status, named in sorted(codes.items())}


def _problem(status: HTTPStatus, codes: list[str]) -> dict[str, Any]:
    match status:
        case HTTPStatus.BAD_REQUEST | HTTPStatus.NOT_FOUND | HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            schema = "InvalidProblem"
        case HTTPStatus.CONFLICT:
            schema = "StateProblem"
        case _:
            schema = "Problem"
    return {
        "description": f"{status.phrase}: {', '.join(f'`{code}`' for code in codes)}.",
        **({"headers": _PROBLEM_HEADERS[status]} if status in _PROBLEM_HEADERS else {}),
        "content": {
            "application/problem+json": {
                "schema": {
                    "$ref": _REF.format(model=schema),
                    "properties": {"status": {"const": int(status)}, "code": {"enum": codes}},
                }
            }
        },
    }


_SECONDS = {"description": "Seconds to wait before the next request.", "schema": {"type": "integer", "minimum": 0}}
_PROBLEM_HEADERS: dict[HTTPStatus, Any] = {
    HTTPStatus.UNAUTHORIZED: {
        "WWW-Authenticate": {"description": "The authentication scheme.", "schema": {"type": "string"}}
    },
    HTTPStatus.TOO_MANY_REQUESTS: {"Retry-After": _SECONDS},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": _SECONDS},
}
