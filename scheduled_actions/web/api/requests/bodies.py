"""Bodies of requests: read to their limit, and JSON that Postgres can keep before anybody looks at it."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from werkzeug.exceptions import ClientDisconnected, RequestEntityTooLarge

from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument, RequestError, TooLarge
from scheduled_actions.web.api.requests.refusals import BodyUnreadable, UnsupportedMediaType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flask import Request

_JSON = re.compile(r"application/(?:[a-z0-9!#$&^_.+-]+\+)?json", re.IGNORECASE)


def read_json(request: Request, *, limit: int, is_optional: bool) -> Any:  # noqa: ANN401 - any JSON
    """Return the JSON of a request's body; an object without fields for an empty one that may be.

    Raises:
        TooLarge: It is over the limit; no more than that is read.
        UnsupportedMediaType: It is not said to be JSON.
        BodyUnreadable: It is no JSON; is nested deeper than 100; or holds what Postgres or a later reader could not
            take: NUL, half a surrogate pair, NaN, Infinity, an integer of more than 4,300 digits.
    """
    body = _read(request, limit)
    if not body and is_optional:
        return {}
    _check_type(request.headers.get("Content-Type", ""))
    if not body:
        raise BodyUnreadable("it is empty; send a JSON object")
    try:
        value = json_text.decode(body, name="body")
        # What cannot be written again cannot be kept; whatever it is, it is named by its place.
        json_text.encode("body", value, limit=len(body) * _GROWTH_MOST)
    except InvalidArgument as error:
        raise BodyUnreadable(_said(error), field=error.name.removeprefix("body").removeprefix(".")) from None
    except RequestError as error:
        raise BodyUnreadable(str(error)) from None
    return value


#: A character may take six bytes when it is written again.
_GROWTH_MOST = 6


def _read(request: Request, limit: int) -> bytes:
    declared = request.content_length or 0
    if declared > limit:
        raise TooLarge("the body", declared, limit)
    # One that comes in chunks is cut off at its most without a word: one byte more tells that it was.
    request.max_content_length = limit + 1
    with receiving(limit):
        # Cached where the application that we are part of has read it already.
        body = request.get_data()
    if len(body) > limit:
        raise TooLarge("the body", len(body), limit)
    return body


@contextmanager
def receiving(limit: int) -> Iterator[None]:
    """Convert what a server raises while a request's body arrives to refusals of the request.

    Args:
        limit: The largest body taken, in bytes.

    Raises:
        TooLarge: The body is over its limit.
        BodyUnreadable: The body ends early, or its chunks are malformed.
    """
    try:
        yield
    except RequestEntityTooLarge:
        raise TooLarge("the body", limit + 1, limit) from None
    except ClientDisconnected:
        raise BodyUnreadable("it ended before its Content-Length") from None
    except Exception as error:  # each server has its own errors for malformed chunks, without a common class
        reason = f"it cannot be received ({type(error).__name__}): it ended early, or its chunks are malformed"
        raise BodyUnreadable(reason) from error


def _check_type(content_type: str) -> None:
    media_type, _, parameters = content_type.partition(";")
    charset = re.search(r"charset\s*=\s*\"?([^\";\s]+)", parameters, re.IGNORECASE)
    if not _JSON.fullmatch(media_type.strip()) or (charset and charset[1].lower() not in {"utf-8", "utf8"}):
        raise UnsupportedMediaType(content_type)


def _said(error: InvalidArgument) -> str:
    return str(error) if error.name != "body" else f"{error.value!r} is not {error.expected}"
