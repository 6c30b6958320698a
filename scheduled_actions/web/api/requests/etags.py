"""Changes of what was seen: what an answer is named by, and whether it is still so."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from werkzeug.http import parse_etags

from scheduled_actions.web.api.requests.refusals import PreconditionFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from pydantic import BaseModel

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.web.api.routing import Call

Thing = TypeVar("Thing")


def etag_of(shown: BaseModel) -> str:
    """Return the strong ETag of something as it is answered."""
    return f'"{hashlib.sha256(shown.model_dump_json().encode()).hexdigest()[:32]}"'


@contextmanager
def as_it_was_seen(
    call: Call,
    locked: Callable[..., AbstractContextManager[tuple[Thing, Connection]]],
    show: Callable[[Thing], BaseModel],
) -> Iterator[Connection | None]:
    """Give the connection in whose transaction the thing stays what If-Match says; the call's own without If-Match.

    Args:
        call: Names the thing in its path.
        locked: Gives it, and the connection that keeps it so.
        show: Returns it as it is answered.

    Raises:
        ScheduledActionsError: There is none (in that team).
        PreconditionFailed: It is something else by now.
    """
    if call.if_match is None:
        yield call.connection
        return
    reference = call.path.get("id", call.path.get("name", ""))
    with locked(reference, team_id=call.caller.team_id, connection=call.connection) as (thing, connection):
        etag = etag_of(show(thing))
        if not parse_etags(call.if_match).contains(etag.strip('"')):
            raise PreconditionFailed(reference, etag)
        yield connection
