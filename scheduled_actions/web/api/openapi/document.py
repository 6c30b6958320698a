"""The OpenAPI document of everything that answers, made of the routes and their models."""

from __future__ import annotations

import re
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from zoneinfo import available_timezones

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from scheduled_actions.core.errors import (
    ConflictingChange,
    DatabaseBusy,
    DatabaseUnavailable,
    NotConfigured,
    RefusedByDatabase,
    RowLocked,
    SchemaOutdated,
    SchemaUnreleased,
    TooBusy,
    TooLarge,
)
from scheduled_actions.core.version import VERSION
from scheduled_actions.web.api.models import InvalidProblem, Nothing, Problem, StateProblem, without_null
from scheduled_actions.web.api.openapi.other_routes import OTHER_PATHS, OTHER_SCHEMAS
from scheduled_actions.web.api.requests import idempotency, refusals
from scheduled_actions.web.api.requests.problems import status_of
from scheduled_actions.web.api.requests.refusals import NotAuthorised
from scheduled_actions.web.api.routes import ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue
    from pydantic_core import core_schema

    from scheduled_actions.core.errors import ScheduledActionsError
    from scheduled_actions.web.api.routing import Route

#: Where the routes hang.
BASE = "/api/v1"
_REF = "#/components/schemas/{model}"
_NO_NUL = "^[^\\u0000]*$"

#: What every route may answer.
_EVERYWHERE = (
    refusals.FieldsInvalid, RefusedByDatabase, NotAuthorised, refusals.Forbidden, refusals.TooManyAttempts,
    NotConfigured, DatabaseUnavailable, DatabaseBusy, SchemaOutdated, SchemaUnreleased, TooBusy, RowLocked,
    ConflictingChange,
)  # fmt: skip
_OF_BODIES = (refusals.BodyUnreadable, TooLarge, refusals.UnsupportedMediaType)
_OF_KEYS = (refusals.IdempotencyKeyReused, refusals.IdempotencyKeyInUse)
#: Codes without a class: what broke here or in the database.
_BROKEN = {HTTPStatus.INTERNAL_SERVER_ERROR: ["internal_error"], HTTPStatus.SERVICE_UNAVAILABLE: ["database_error"]}

#: Schemas that no model makes: any JSON that Postgres can keep, and the zones of this installation.
_OWN_SCHEMAS: dict[str, Any] = {
    "JsonValue": {
        "description": "Any JSON without NUL characters.",
        "anyOf": [
            {"type": ["null", "boolean", "number"]},
            {"type": "string", "pattern": _NO_NUL},
            {"type": "array", "items": {"$ref": "#/components/schemas/JsonValue"}},
            {"$ref": "#/components/schemas/JsonObject"},
        ],
    },
    "JsonObject": {
        "description": "Any JSON object without NUL characters.",
        "type": "object",
        "propertyNames": {"pattern": _NO_NUL},
        "additionalProperties": {"$ref": "#/components/schemas/JsonValue"},
    },
}


#: The parts of paths: ids, and names that callers have given.
_NAME = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^\\u0000/]+$"}
_ID = {"type": "string", "format": "uuid"}
#: What things are called elsewhere: a slash in it is sent as %2F.
_PART = {**_NAME, "pattern": _NO_NUL}
#: What has a name beside its id, and is found by either.
_NAMED = ("/schedules/", "/deadlines/", "/webhooks/endpoints/")


def document(server: str) -> dict[str, Any]:
    """Return the document.

    Args:
        server: Where the paths hang; empty for the root.
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Scheduled Actions",
            "version": VERSION,
            "description": "Durable scheduled work in Postgres: schedule actions, watch them, mend them.",
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
                    "description": "ADMIN_TOKEN, or a token of `scheduled-actions token create`.",
                },
                "cronSecret": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "x-cron-secret",
                    "description": "CRON_SECRET.",
                },
                "cronToken": {"type": "http", "scheme": "bearer", "description": "CRON_SECRET."},
            },
        },
    }


class _Generator(GenerateJsonSchema):
    """Schemas without the titles and nulls that say nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401 - pydantic's own
        """Leave out titles that repeat the field's name."""
        del schema
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Leave out defaults of null: they stand for what is left out."""
        made = super().default_schema(schema)
        return {name: value for name, value in made.items() if name != "default" or value is not None}


def _schemas() -> tuple[dict[type[BaseModel], Any], dict[str, Any]]:
    """Return each model's schema, and all definitions by name."""
    modes: dict[type[BaseModel], JsonSchemaMode] = {}
    for route in ROUTES:
        modes |= dict.fromkeys((model for model in (route.query, route.body) if model is not None), "validation")
        modes |= dict.fromkeys((model for model, _ in route.answers.values()), "serialization")
    modes |= dict.fromkeys((Problem, InvalidProblem, StateProblem), "serialization")
    found, made = models_json_schema(list(modes.items()), ref_template=_REF, schema_generator=_Generator)
    definitions = {name: _resolved(schema) for name, schema in made["$defs"].items()}
    schemas = {model: schema for (model, _), schema in found.items() if issubclass(model, BaseModel)}
    return schemas, definitions


def _resolved(schema: Any) -> Any:  # noqa: ANN401 - a part of a schema
    """Return the schema with references to what no model makes."""
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
        "operationId": "_".join([route.method.lower(), *re.findall(r"[a-z]+", route.path)]),
        "tags": [route.tag],
        "summary": route.summary,
        "description": " ".join(part for part in (route.description, f"Needs the role `{route.role}`.") if part),
        "security": [{"token": []}],
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": _path_part(route, name)}
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
        return _PART
    return {"description": "Its id, or its name.", **_NAME} if route.path.startswith(_NAMED) else _ID


def _query_parameters(route: Route, definitions: dict[str, Any]) -> Iterable[dict[str, Any]]:
    if route.query is Nothing:
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
            "name": idempotency.HEADER,
            "in": "header",
            "description": "The same request, sent again with the same key within a day, is answered the same and not "
            "carried out again.",
            "schema": {"type": "string", "pattern": f"^{idempotency.PATTERN}$"},
        }
    if route.takes_if_match:
        yield {
            "name": "If-Match",
            "in": "header",
            "description": "The ETag of what was seen: the request is refused when that has changed since.",
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
    kinds: list[type[ScheduledActionsError]] = [*route.refuses, *_EVERYWHERE]
    kinds += _OF_BODIES if route.body is not None else ()
    kinds += _OF_KEYS if route.creates else ()
    kinds += (refusals.PreconditionFailed,) if route.takes_if_match else ()
    kinds += (refusals.UnknownRoute,) if "{" in route.path else ()
    codes: dict[HTTPStatus, list[str]] = {status: list(named) for status, named in _BROKEN.items()}
    for kind in kinds:
        known = codes.setdefault(status_of(kind), [])
        if kind.code not in known:
            known.append(kind.code)
    return {str(int(status)): _problem(status, named) for status, named in sorted(codes.items())}


def _problem(status: HTTPStatus, codes: list[str]) -> dict[str, Any]:
    match status:
        case HTTPStatus.BAD_REQUEST | HTTPStatus.NOT_FOUND | HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            model: type[BaseModel] = InvalidProblem
        case HTTPStatus.CONFLICT:
            model = StateProblem
        case _:
            model = Problem
    return {
        "description": f"{status.phrase}: {', '.join(f'`{code}`' for code in codes)}.",
        **({"headers": _PROBLEM_HEADERS[status]} if status in _PROBLEM_HEADERS else {}),
        "content": {
            "application/problem+json": {
                "schema": {
                    "$ref": _REF.format(model=model.__name__),
                    "properties": {"status": {"const": int(status)}, "code": {"enum": codes}},
                }
            }
        },
    }


_SECONDS = {"description": "In how many seconds to try again.", "schema": {"type": "integer", "minimum": 0}}
_PROBLEM_HEADERS: dict[HTTPStatus, Any] = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": {"description": "Bearer.", "schema": {"type": "string"}}},
    HTTPStatus.TOO_MANY_REQUESTS: {"Retry-After": _SECONDS},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": _SECONDS},
}
