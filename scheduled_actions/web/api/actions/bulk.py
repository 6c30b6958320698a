"""Changes of many actions over HTTP: all that match a filter, in bounded bites."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from scheduled_actions.actions.management import Changed
from scheduled_actions.core.action import Status
from scheduled_actions.core.errors import RegistryInvalid
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.actions import models
from scheduled_actions.web.api.routing import Answer, Call, Route

if TYPE_CHECKING:
    from scheduled_actions.actions.search import Filters


def retry_matching(call: Call) -> Answer:
    """Make finished actions that match pending again."""
    given: models.RetryMatching = call.body
    filters = given.filters(call.caller.team_id, Status(given.status))
    if not call.caller.sees(given.team_id):
        return _nothing(is_dry=given.dry_run)
    if given.dry_run:
        return _counted(call, filters)
    changed = call.management.retry_matching(filters, by=call.caller.name, limit=given.limit, cursor=given.cursor)
    return _told(changed, is_dry=False)


def cancel_matching(call: Call) -> Answer:
    """Cancel waiting actions that match."""
    given: models.CancelMatching = call.body
    statuses = (Status(given.status),) if given.status else (Status.PENDING, Status.NO_ACTION)
    lock = None if given.force else call.runtime.config.settings.edit_lock_seconds
    filters = given.filters(call.caller.team_id, *statuses, unlocked_for_seconds=lock)
    if not call.caller.sees(given.team_id):
        return _nothing(is_dry=given.dry_run)
    if given.dry_run:
        return _counted(call, filters)
    changed = call.management.cancel_matching(
        filters, by=call.caller.name, reason=given.reason, limit=given.limit, cursor=given.cursor
    )
    return _told(changed, is_dry=False)


def _nothing(*, is_dry: bool) -> Answer:
    return _told(Changed(matched=0, changed=0, more=False, next_cursor=None), is_dry=is_dry)


def _counted(call: Call, filters: Filters) -> Answer:
    return _told(call.management.count_matching(filters), is_dry=True)


def _told(changed: Changed, *, is_dry: bool) -> Answer:
    return Answer(
        models.Changed(
            matched=changed.matched,
            changed=changed.changed,
            more=changed.more,
            next_cursor=changed.next_cursor,
            dry_run=is_dry,
        )
    )


_DESCRIPTION = (
    "At least one filter must be given, or `all`. With `dry_run` nothing is changed and what matches is counted, to "
    "10,000. A call changes at most `limit` actions and ends after five seconds; while `more` is true, call again with "
    "`next_cursor`. What somebody else changed first is matched and not changed."
)

ROUTES = (
    Route(
        method="POST",
        path="/actions/retry",
        function=retry_matching,
        role=Role.OPERATOR,
        tag="Actions",
        summary="Make all finished actions that match pending again",
        description=_DESCRIPTION,
        body=models.RetryMatching,
        answers={HTTPStatus.OK: (models.Changed, "What was changed, or would be.")},
        refuses=(RegistryInvalid,),
    ),
    Route(
        method="POST",
        path="/actions/cancel",
        function=cancel_matching,
        role=Role.OPERATOR,
        tag="Actions",
        summary="Cancel all waiting actions that match",
        description=f"{_DESCRIPTION} Those that are due within `edit_lock_seconds` are left out, unless `force` is "
        "true.",
        body=models.CancelMatching,
        answers={HTTPStatus.OK: (models.Changed, "What was changed, or would be.")},
        refuses=(RegistryInvalid,),
    ),
)
