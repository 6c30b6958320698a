"""Edits made with a form: the fields that differ from what the form showed, of the version that it showed."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from werkzeug.datastructures import MultiDict

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.json_text import Unquoted
from scheduled_actions.web.api.requests.refusals import PreconditionFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.core.errors import ScheduledActionsError

#: The hidden field that holds what a form showed.
FIELD = "seen"


class Seen(NamedTuple):
    """What a form showed."""

    #: The ETag of the object; None: the form does not say.
    etag: str | None
    #: The fields as they were filled in.
    form: MultiDict[str, str]

    def as_field(self) -> str:
        """Return the value of the hidden field."""
        return json.dumps({"etag": self.etag, "fields": list(self.form.items(multi=True))})


def seen_of(form: MultiDict[str, str], current: MultiDict[str, str]) -> Seen:
    """Return what the form that was sent had shown.

    Args:
        form: As it was sent.
        current: The fields as the object fills them in now: what a form without the hidden field is compared with.

    Raises:
        InvalidArgument: The hidden field is not one of ours.
    """
    if FIELD not in form:
        return Seen(None, current)
    try:
        found = json.loads(form[FIELD])
        etag = None if found["etag"] is None else str(found["etag"])
        return Seen(etag, MultiDict([(str(name), str(value)) for name, value in found["fields"]]))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidArgument(FIELD, Unquoted("this"), "what the form was sent with: open it again") from None


def differing(asked: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that differ from the request that the untouched form would make."""
    return {name: value for name, value in asked.items() if name not in shown or value != shown[name]}


def said_of_edit(error: ScheduledActionsError) -> str:
    """Return what a form that is shown again says of a refusal."""
    if isinstance(error, PreconditionFailed):
        return (
            "It has changed since this form was opened, so nothing was saved. Copy what you wrote, open the form "
            "again, and repeat your change."
        )
    return str(error)


def status_of_edit(error: ScheduledActionsError | None) -> int:
    """Return the status of a form that is shown, again after a refusal."""
    match error:
        case None:
            return HTTPStatus.OK
        case PreconditionFailed():
            return HTTPStatus.PRECONDITION_FAILED
        case _:
            return HTTPStatus.BAD_REQUEST
