"""Serve the API documentation: `/openapi.json` and the page `/docs`."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flask import Response, request
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from scheduled_actions.web.api.openapi import document as openapi

if TYPE_CHECKING:
    from jinja2 import Template

_FOLDER = Path(__file__).parent


def openapi_json() -> Response:
    """Return the OpenAPI document."""
    return Response(
        json.dumps(openapi.document(_mounted("/openapi.json"))),
        headers={"Cache-Control": "no-store"},
        mimetype="application/json",
    )


def documentation_page() -> Response:
    """Return the OpenAPI document as an HTML page without scripts or external resources."""
    style = (_FOLDER / "docs.css").read_text(encoding="utf-8")
    document = openapi.document(_mounted("/docs"))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
    }
    page = _template().render(document=document, style=style, groups=_groups(document))
    return Response(page, headers=headers, mimetype="text/html")


def _mounted(path: str) -> str:
    """Return the URL path under which the application has mounted the route `path`."""
    rule = "" if request.url_rule is None else request.url_rule.rule
    return f"{request.script_root}{rule.removesuffix(path)}"


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["kind"] = _kind
    return environment.get_template("docs.html")


def _groups(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the operations of the document by tag."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append({**operation, "path": path, "method": method.upper()})
    return groups


def _kind(schema: Any) -> str:  # noqa: ANN401, PLR0911 - a part of a schema; a return per kind
    """Return a short description of the values that a schema allows."""
    match schema:
        case {"$ref": reference}:
            return str(reference).rpartition("/")[2]
        case {"anyOf": kinds} | {"oneOf": kinds}:
            return " or ".join(dict.fromkeys(_kind(kind) for kind in kinds))
        case {"const": value}:
            return json.dumps(value)
        case {"enum": values}:
            return ", ".join(json.dumps(value) for value in values)
        case {"type": "array", "items": items}:
            return f"list of {_kind(items)}"
        case {"type": "object", "additionalProperties": dict() as values}:
            return f"object of {_kind(values)}"
        case {"type": list() as kinds}:
            return " or ".join(map(str, kinds))
        case {"type": kind, "format": form}:
            return f"{kind} ({form})"
        case {"type": kind}:
            return str(kind)
        case _:
            return "any JSON"
