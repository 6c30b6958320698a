"""The same request, sent twice with one Idempotency-Key, is carried out once and answered twice.

The key is a row that the request's own transaction inserts: a second request with it waits for the first to end, then
finds the answer, or, where the first was refused, the key free.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import psycopg

from scheduled_actions.actions import management_store as store
from scheduled_actions.core.errors import FieldProblem
from scheduled_actions.web.api.requests.refusals import FieldsInvalid, IdempotencyKeyInUse, IdempotencyKeyReused

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.database.connection import Connection

HEADER = "Idempotency-Key"
#: What a key may be; the header's value without spaces around it.
PATTERN = "[!-~]([ -~]{0,253}[!-~])?"


def check_key(value: str | None) -> str | None:
    """Return the key of a header; None where there is no header.

    Raises:
        FieldsInvalid: It is none.
    """
    if value is not None and not re.fullmatch(PATTERN, value):
        raise FieldsInvalid([FieldProblem(HEADER, "should be 1 to 255 printable ASCII characters")])
    return value


def digest_of(*parts: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Return what two requests have in common when they ask for the same; the order of an object's names is no part."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


def once(
    connection: Connection,
    *,
    scope: str,
    key: str,
    digest: bytes,
    answer: Callable[[], dict[str, Any]],
    shown_once: str | None = None,
) -> tuple[dict[str, Any], bool]:
    """Return the answer, and whether it is one of before.

    Args:
        connection: In a transaction, which decides whether the request ever was.
        scope: Whose keys these are: the team's.
        key: The Idempotency-Key.
        digest: Of the request.
        answer: Carries the request out, on the same connection.
        shown_once: The field of its body that is not stored: a repeated request is answered with null there.

    Raises:
        IdempotencyKeyReused: The key came before with another request.
        IdempotencyKeyInUse: The first request with it was not answered within the lock limit of the connection.
        Exception: What `answer` raises; then the key is free again.
    """
    try:
        is_ours = store.claim_key(connection, scope=scope, key=key, digest=digest)
    except psycopg.errors.LockNotAvailable:
        raise IdempotencyKeyInUse(key) from None
    if is_ours:
        answered = answer()
        store.keep_answer(connection, scope=scope, key=key, answer=_without(answered, shown_once))
        return answered, False
    kept = store.kept_answer(connection, scope=scope, key=key)
    if kept is None or kept[1] is None:
        # It was removed between the two statements.
        raise IdempotencyKeyInUse(key)
    if kept[0] != digest:
        raise IdempotencyKeyReused(key)
    return kept[1], True


def _without(answered: dict[str, Any], shown_once: str | None) -> dict[str, Any]:
    """Return an answer as it is stored."""
    if shown_once is None:
        return answered
    return answered | {"body": json.dumps(json.loads(answered["body"]) | {shown_once: None})}
