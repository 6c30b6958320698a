"""Read and validate requests: bodies, fields and idempotency keys."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args

import psycopg
from flask import Request
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from werkzeug.datastructures import MultiDict

from scheduled_actions.actions import store
from scheduled_actions.core import json_text
from scheduled_actions.core.errors import FieldProblem, InvalidArgument, RequestError, TooLarge
from scheduled_actions.core.messages import argument_hint
from scheduled_actions.database.connection import Connection
from scheduled_actions.web.api.models import RequestModel
from scheduled_actions.web.api.problems import (
    BodyUnreadable,
    FieldsInvalid,
    IdempotencyKeyInUse,
    IdempotencyKeyReused,
    UnsupportedMediaType,
    receiving,
)

Model = TypeVar("Model", bound="RequestModel")

_JSON = re.compile(r"application/(?:[a-z0-9!#$&^_.+-]+\+)?json", re.IGNORECASE)
#: Encoding a parsed body again can make it longer: a character of one byte can become an escape of six bytes.
_MAX_GROWTH = 6
_MAX_PROBLEMS = 100
_MAX_NAME = 60
_MAX_KNOWN = 12
_QUERY = "query"
#: Prefixes of pydantic's messages, which are removed.
_PREFIXES = re.compile(r"^(?:Value error, |(?:Input|String|List|Dictionary|Tuple|Set|Data) (?=should ))")
#: Types of errors whose message repeats the value: it is short, and neither a payload nor a secret.
_REPEATABLE = frozenset(
    {"literal_error", "enum", "greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"}
)
IDEMPOTENCY_HEADER = "Idempotency-Key"
IDEMPOTENCY_PATTERN = "[!-~]([ -~]{0,253}[!-~])?"


def read_json(request: Request, *, limit: int, is_optional: bool) -> Any:  # noqa: ANN401 - any JSON
    """Return the JSON of a request's body; an empty object for an optional body that is empty.

    Raises:
        TooLarge: The body exceeds `limit` bytes; the rest is not read.
        UnsupportedMediaType: The media type is not JSON, or the charset is not UTF-8.
        BodyUnreadable: The body is empty, incomplete or not JSON, is nested deeper than 100 levels, or contains a value
            that cannot be stored: NUL, half a surrogate pair, NaN, Infinity, or an integer of more than 4,300 digits.
    """
    body = _read(request, limit)
    if not body and is_optional:
        return {}
    content_type = request.headers.get("Content-Type", "")
    media_type, _, parameters = content_type.partition(";")
    charset = re.search(r"charset\s*=\s*\"?([^\";\s]+)", parameters, re.IGNORECASE)
    if not _JSON.fullmatch(media_type.strip()) or (charset and charset[1].lower() not in {"utf-8", "utf8"}):
        raise UnsupportedMediaType(content_type)
    if not body:
        raise BodyUnreadable("it is empty; send a JSON object")
    try:
        value = json_text.decode(body, name="body")
        # A value that cannot be encoded again cannot be stored; the error has its path.
        json_text.encode("body", value, limit=len(body) * _MAX_GROWTH)
    except InvalidArgument as error:
        path = error.name.removeprefix("body").removeprefix(".")
        raise BodyUnreadable(str(error) if path else str(error).partition("body")[2].lstrip(": "), field=path) from None
    except RequestError as error:
        raise BodyUnreadable(str(error)) from None
    return value


def _read(request: Request, limit: int) -> bytes:
    declared = request.content_length or 0
    if declared > limit:
        raise TooLarge("the body", declared, limit)
    # A chunked body is truncated silently at the maximum; the additional byte shows that the body was longer.
    request.max_content_length = limit + 1
    with receiving(limit):
        # Flask caches the body: the application that mounts the API may have read it before.
        body = request.get_data()
    if len(body) > limit:
        raise TooLarge("the body", len(body), limit)
    return body


def validate(model: type[Model], value: Any, *, whole: str) -> Model:  # noqa: ANN401 - any JSON
    """Validate a value; return it as an instance of the model.

    Args:
        model: The model of the request.
        value: The value as parsed from JSON.
        whole: The name of the whole value in errors, `body` or `query`.

    Raises:
        FieldsInvalid: The value does not match the model; the first 100 invalid fields are listed.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=True, include_input=True)
        problems = [_problem(one, model, value, whole) for one in found[:_MAX_PROBLEMS]]
        if len(found) > _MAX_PROBLEMS:
            problems.append(FieldProblem("", f"and {len(found) - _MAX_PROBLEMS:,} more"))
        # Not chained: a validator's own error may contain the values.
        raise FieldsInvalid(problems) from None


def validate_query(model: type[Model], given: MultiDict[str, str]) -> Model:
    """Validate query parameters; return them as an instance of the model.

    Raises:
        FieldsInvalid: A parameter is unknown, repeated or invalid.
    """
    repeated = [name for name, values in given.lists() if len(values) > 1]
    if repeated:
        raise FieldsInvalid([FieldProblem(_printable(name), "is given more than once") for name in repeated])
    return validate(model, given.to_dict(), whole=_QUERY)


def _problem(error: ErrorDetails, model: type[RequestModel], value: Any, whole: str) -> FieldProblem:  # noqa: ANN401 - any JSON
    path = [_printable(step) for step in _steps(error, value)]
    context: Mapping[str, Any] = error.get("ctx", {})
    # Our own validators may name the field more precisely, or a field inside the value.
    if "name" in context:
        path = [*path[:-1], str(context["name"])]
    if context.get("inside"):
        path.append(str(context["inside"]))
    message = _message(error, model, "query parameter" if whole == _QUERY else "field")
    # Query parameters can be repeated: URLs, and thus logs, contain them in any case.
    if message.startswith("should ") and (whole == _QUERY or error["type"] in _REPEATABLE):
        given = error["input"]
        text = str(given) if isinstance(given, int | float) else repr(given)
        message += f", not {text if len(text) <= _MAX_NAME else f'{text[: _MAX_NAME - 1]}…'}"
    return FieldProblem(".".join(path) or whole, message)


def _steps(error: ErrorDetails, value: Any) -> Iterator[int | str]:  # noqa: ANN401 - any JSON
    """Yield the steps of an error's path in the value, without pydantic's names of union members."""
    for position, step in enumerate(error["loc"], start=1):
        is_index = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if is_index or (isinstance(value, dict) and step in value):
            value = value[step]
        elif position < len(error["loc"]) or error["type"] != "missing":
            continue
        yield step


def _message(error: ErrorDetails, model: type[RequestModel], noun: str) -> str:
    match error["type"]:
        case "extra_forbidden":
            inner = _model_at(error["loc"][:-1], model)
            hint = "" if inner is None else _suggestion(str(error["loc"][-1]), inner, noun)
            return f"is an unknown {noun}; {hint}" if hint else f"is an unknown {noun}"
        case "missing":
            return "is required"
        case "dict_type" | "model_type" | "model_attributes_type":
            return "should be a JSON object"
        case _ if error["loc"][-1:] == ("cursor",):
            return "is an invalid cursor: send next_cursor of the previous page"
        case "uuid_parsing":
            return "should be an id, such as 0197a000-0000-7000-8000-000000000001"
        case _:
            return _PREFIXES.sub("", error["msg"]).replace(" after validation", "")


def _model_at(steps: Sequence[int | str], model: type[RequestModel]) -> type[RequestModel] | None:
    """Return the model that the steps of an error's path lead to; None if there is none, or if a union has several."""
    for step in steps:
        if isinstance(step, int):
            continue
        inner = next((field for own, field in model.model_fields.items() if step in {own, field.alias}), None)
        found = [] if inner is None else list(_models_of(inner.annotation))
        if len(found) != 1:
            return None
        model = found[0]
    return model


def _models_of(annotation: Any) -> Iterator[type[RequestModel]]:  # noqa: ANN401 - any type
    if isinstance(annotation, type) and issubclass(annotation, RequestModel):
        yield annotation
    for one in get_args(annotation):
        yield from _models_of(one)


def _suggestion(name: str, model: type[RequestModel], noun: str) -> str:
    known = [field.alias or own for own, field in model.model_fields.items()]
    listed = f"known {noun}s: {', '.join(known)}" if 0 < len(known) <= _MAX_KNOWN else ""
    return argument_hint(name, known, otherwise=listed)


def _printable(step: object) -> str:
    text = str(step)
    return text if text.isprintable() and len(text) <= _MAX_NAME else ascii(text[:_MAX_NAME])


def check_idempotency_key(value: str | None) -> str | None:
    """Validate and return the value of an Idempotency-Key header; None if the header is missing.

    Raises:
        FieldsInvalid: The key is malformed.
    """
    if value is not None and not re.fullmatch(IDEMPOTENCY_PATTERN, value):
        raise FieldsInvalid(
            [
                FieldProblem(
                    IDEMPOTENCY_HEADER, "should be 1 to 255 printable ASCII characters, without a space at either end"
                )
            ]
        )
    return value


def request_digest(*parts: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Return a digest that is the same for equal requests; the order of object members does not matter."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


def run_once(
    connection: Connection,
    *,
    scope: str,
    key: str,
    digest: bytes,
    answer: Callable[[], dict[str, Any]],
    shown_once: str | None = None,
) -> tuple[dict[str, Any], bool]:
    """Return the response to a request with an Idempotency-Key, and whether the response is replayed.

    The transaction of the request inserts the key as a row. A second request with the same key therefore waits for the
    first request to end: the response of the first is then replayed or, if the first failed, the second is executed.

    Args:
        connection: In the transaction of the request.
        scope: The team that owns the key; empty: no team.
        key: The Idempotency-Key.
        digest: The digest of the request.
        answer: Executes the request on the same connection; returns the status, body and headers of the response.
        shown_once: The field of the body that is not stored: null in a replayed response.

    Raises:
        IdempotencyKeyReused: The key was used for another request.
        IdempotencyKeyInUse: The first request with the key did not end within the lock timeout of the connection, or
            the key has just been pruned.
        Exception: Any error of `answer`; the key can then be used again.
    """
    try:
        is_new = store.claim_key(connection, scope=scope, key=key, digest=digest)
    except psycopg.errors.LockNotAvailable:
        raise IdempotencyKeyInUse(key) from None
    if is_new:
        answered = stored = answer()
        if shown_once is not None:
            stored = answered | {"body": json.dumps(json.loads(answered["body"]) | {shown_once: None})}
        store.store_response(connection, scope=scope, key=key, response=stored)
        return answered, False
    kept = store.stored_response(connection, scope=scope, key=key)
    if kept is None or kept[1] is None:
        # The key was pruned between the two statements.
        raise IdempotencyKeyInUse(key)
    if kept[0] != digest:
        raise IdempotencyKeyReused(key)
    return kept[1], True
