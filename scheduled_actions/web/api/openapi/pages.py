"""`/openapi.json` and `/docs`: the API's description, for programs and for people."""

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


def described_for_programs() -> Response:
    """Answer the OpenAPI document."""
    return _answer(json.dumps(openapi.document(_mounted("/openapi.json"))), "application/json")


def described_for_people() -> Response:
    """Answer the document as a page; it has no scripts, and takes nothing from elsewhere."""
    style = (_FOLDER / "docs.css").read_text(encoding="utf-8")
    document = openapi.document(_mounted("/docs"))
    response = _answer(_template().render(document=document, style=style, groups=_groups(document)), "text/html")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    response.headers["Content-Security-Policy"] = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _answer(text: str, media_type: str) -> Response:
    response = Response(text, mimetype=media_type)
    response.headers["Cache-Control"] = "no-store"
    return response


def _mounted(path: str) -> str:
    """Return where the application has put the routes."""
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
    """Return the operations by what they are about."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append({**operation, "path": path, "method": method.upper()})
    return groups


def _kind(schema: Any) -> str:  # noqa: ANN401, PLR0911 - a part of a schema; a return per kind
    """Return in a few words what a schema takes."""
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
