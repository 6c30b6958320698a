"""What is to come, over HTTP: actions, reminders, deadlines and forecasts in one order."""

from __future__ import annotations

from http import HTTPStatus

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.calendar import models
from scheduled_actions.web.api.routing import Answer, Call, Route


def show(call: Call) -> Answer:
    """Answer a page of what is to come; of another team there is nothing."""
    query: models.CalendarQuery = call.query
    page = call.runtime.calendar.page(
        start=query.start,
        end=query.end,
        user=query.user,
        team_id=call.caller.team_id or query.team_id,
        cursor=query.cursor,
        limit=query.limit,
    )
    found = models.CalendarPage.model_validate(page)
    if not call.caller.sees(query.team_id):
        found = found.model_copy(update=models.EMPTY)
    return Answer(found)


ROUTES = (
    Route(
        method="GET",
        path="/calendar",
        function=show,
        role=Role.VIEWER,
        summary="Show what is to come, in order",
        description="Actions that wait, due instants of deadlines, and what schedules will bring (`forecast`). "
        "`user` stands for what has that `user_id`, and for deadlines with that recipient.",
        tag="Calendar",
        query=models.CalendarQuery,
        answers={HTTPStatus.OK: (models.CalendarPage, "A page.")},
        refuses=(InvalidArgument,),
    ),
)
