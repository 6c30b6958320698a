"""People over HTTP: tell them something, and schedule at a time of day on each one's own clock."""

from __future__ import annotations

from http import HTTPStatus

from scheduled_actions.core.errors import (
    HandlerBroken,
    InvalidArgument,
    NeverOccurs,
    PayloadInvalid,
    RecurrenceInvalid,
    RegistryInvalid,
    TooLarge,
    TypeNotOpen,
    UnknownActionType,
)
from scheduled_actions.notifications.planning import Options
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.people import models
from scheduled_actions.web.api.routing import Answer, Call, Route


def notify(call: Call) -> Answer:
    """Tell people something."""
    given: models.NewNotice = call.body
    shared = {
        "target": None if given.target is None else given.target.model_dump(),
        "metadata": given.metadata,
        "created_by": given.created_by or call.caller.name,
    }
    options = Options(
        severity=given.severity,
        gather=bool(given.gather),
        team_id=call.caller.team_for(given.team_id),
        reach=call.caller.requester.reach,
        arguments=shared,
    )
    with call.borrowed() as connection:
        scheduled = call.runtime.notifications.notify(
            given.recipients,
            given.text,
            options,
            subject=given.subject,
            html=given.html,
            at=given.delay if given.scheduled_at is None else given.scheduled_at,
            connection=connection,
        )
    return Answer(models.ScheduledNotices(action_ids=[one.id for one in scheduled]), HTTPStatus.CREATED)


def schedule_local(call: Call) -> Answer:
    """Schedule for each user at the next such time of day on their clock."""
    given: models.NewLocalActions = call.body
    with call.borrowed() as connection:
        scheduled = call.runtime.local_scheduling.schedule_local(
            given.action_type,
            given.payload,
            given.local_time,
            [user.model_dump() for user in given.users],
            recurrence=given.recurrence,
            name=given.name,
            team_id=call.caller.team_for(given.team_id),
            created_by=given.created_by or call.caller.name,
            requester=call.caller.requester,
            connection=connection,
            **given.options(),
        )
    found = [models.LocalAction.model_validate(one) for one in scheduled]
    return Answer(models.LocalActions(scheduled=found), HTTPStatus.CREATED)


_NEW = (InvalidArgument, PayloadInvalid, UnknownActionType, TypeNotOpen, TooLarge, HandlerBroken, RegistryInvalid)

ROUTES = (
    Route(
        method="POST", path="/notifications", function=notify, role=Role.OPERATOR, tag="People",
        summary="Tell people something, each through the first of their channels that works",
        description="A recipient is an address, `resolver:name`, or an object such as "
        '`{"email": "ann@example.org", "timezone": "Asia/Tokyo"}`.',
        body=models.NewNotice,
        answers={HTTPStatus.CREATED: (models.ScheduledNotices, "One action a person.")},
        refuses=_NEW, creates=True,
    ),
    Route(
        method="POST", path="/local-actions", function=schedule_local, role=Role.OPERATOR, tag="People",
        summary="Schedule for each user at a time of day on their own clock",
        description="One action per user, or with `recurrence` one series; all of them, or none.",
        body=models.NewLocalActions,
        answers={HTTPStatus.CREATED: (models.LocalActions, "What was scheduled for each.")},
        refuses=(*_NEW, RecurrenceInvalid, NeverOccurs), creates=True,
    ),
)  # fmt: skip
