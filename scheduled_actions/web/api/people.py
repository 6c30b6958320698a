"""Send notifications to people, and schedule actions at a time of day in each person's time zone."""

from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, WithJsonSchema

from scheduled_actions.core.errors import (
    ActionTypeForbidden,
    BudgetExceeded,
    FunctionTimedOut,
    HandlerBroken,
    InvalidArgument,
    NeverOccurs,
    PayloadInvalid,
    RecurrenceInvalid,
    TooLarge,
    UnknownActionType,
)
from scheduled_actions.notifications import local_scheduling, planning
from scheduled_actions.notifications.recipients import PEOPLE_MOST
from scheduled_actions.notifications.rules.reminder import Severity
from scheduled_actions.web.api.limit_models import LimitAndExpiryOptions
from scheduled_actions.web.api.models import (
    WITHOUT_NUL,
    ActionOptions,
    ActionTypeName,
    Delay,
    EmptyRequest,
    Instant,
    InstantOrDelay,
    JsonObject,
    Ownership,
    RequestModel,
    ResponseModel,
    Rule,
    ShortText,
    Storable,
    Target,
    TimeZone,
    shares_fields,
)
from scheduled_actions.web.api.routing import Answer, Call, Route
from scheduled_actions.web.api.schedules.models import HOURS, TIME_OF_DAY, object_of

_Text = Annotated[str, Field(min_length=1, max_length=planning.TEXT_MOST, json_schema_extra=WITHOUT_NUL), Storable]
_Address = Annotated[
    str, Field(min_length=1, max_length=2048, examples=["ann@example.org"], json_schema_extra=WITHOUT_NUL), Storable
]
_ADDRESS = {"type": "string", "minLength": 1, "maxLength": 2048, **WITHOUT_NUL, "examples": ["ann@example.org"]}
_WORD = {"type": ["string", "null"], "minLength": 1, "maxLength": 255, **WITHOUT_NUL}
_MOMENT = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}
#: A person; the notifications service validates addresses and names.
_Person = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            **object_of(
                {
                    "channels": {"anyOf": [_ADDRESS, {"type": "array", "items": _ADDRESS, "minItems": 1}]},
                    "email": _ADDRESS,
                    "id": _WORD,
                    "name": _WORD,
                    "timezone": {"anyOf": [{"x-schema": "TimeZone"}, {"type": "null"}]},
                    "quiet_hours": {"type": ["string", "null"], "pattern": HOURS},
                    "away_from": _MOMENT,
                    "away_until": _MOMENT,
                    "deputy": {
                        "description": "A person, an address, or `resolver:name`.",
                        "anyOf": [_ADDRESS, {"x-schema": "JsonObject"}, {"type": "null"}],
                    },
                }
            ),
            "oneOf": [{"required": ["channels"]}, {"required": ["email"]}],
        }
    ),
]


class NotifyRequest(InstantOrDelay, Ownership):
    """A message to people."""

    recipients: Annotated[list[_Address | _Person], Field(min_length=1, max_length=PEOPLE_MOST)] = Field(
        description="Addresses, `resolver:name`, or objects with `channels` or `email`."
    )
    text: _Text = Field(description="The message.")
    subject: ShortText | None = Field(None, description="Subject, one line. Default: the first line of the text.")
    html: _Text | None = Field(None, description="The message as HTML, for channels that support it.")
    severity: Severity | None = Field(
        None, description="Severity of the message. By default, quiet hours do not defer `urgent` messages."
    )
    digest: bool | None = Field(
        None,
        description="Whether to combine messages to one person that are due at the same time. A message that is due "
        "now waits `notifications.digest_seconds` for others.",
    )
    scheduled_at: Instant | None = Field(
        None, description="When to send the message. Default: now. Quiet hours defer the message to their end."
    )
    delay: Delay | None = Field(
        None, description="Instead of `scheduled_at`: seconds from now, or an ISO 8601 duration."
    )
    target: Target | None = None
    metadata: JsonObject | None = None


class ScheduledNotifications(ResponseModel):
    """The actions that send the messages."""

    action_ids: list[UUID] = Field(description="Ids of the actions, one per person.")


class LocalUserDocument(RequestModel):
    """A user and their time zone."""

    user_id: ShortText
    timezone: TimeZone | None = Field(
        None, description="Time zone of the user. Default: the setting `notifications.timezone`."
    )


class CreateLocalActionsRequest(LimitAndExpiryOptions, ActionOptions, Ownership):
    """Actions for many users, at the same time of day in each user's time zone."""

    action_type: ActionTypeName
    payload: JsonObject = Field(description="Validated against the handler's model; the same for all users.")
    local_time: Annotated[str, WithJsonSchema(TIME_OF_DAY)] = Field(
        description="Time of day in each user's time zone, such as `09:00`."
    )
    users: Annotated[list[LocalUserDocument], Field(min_length=1, max_length=local_scheduling.USERS_MOST)]
    recurrence: Rule | None = Field(
        None,
        description="Rule without a time of day, such as `daily`; creates a schedule per user. Default: one action "
        "per user.",
    )
    name: Annotated[ShortText, Field(max_length=100)] | None = Field(
        None,
        description="Prefix of the names of the schedules, `NAME:USER_ID`; an existing schedule of that name is "
        "updated. Needs `recurrence`.",
    )


@shares_fields(
    local_scheduling.UserSchedule,
    user_id=None,
    timezone=None,
    at="Due time of the action, or instant of the schedule's next occurrence, with the offset of the user's time zone.",
    action_id="Id of the action, or of the next action of the schedule; null if no occurrence is planned.",
    schedule_id="Id of the schedule; null without a recurrence.",
)
class LocalAction(ResponseModel):
    """The action or schedule of a user."""


class LocalActions(ResponseModel):
    """The actions or schedules of all users, in the order of the request."""

    scheduled: list[LocalAction]


def send_notification(call: Call[EmptyRequest, NotifyRequest]) -> Answer:
    """Schedule a message to people; return the ids of the actions that send the message."""
    given = call.body
    with call.borrowed() as connection:
        scheduled = call.runtime.notifications.notify(
            given.recipients,
            given.text,
            planning.NoticeOptions(
                severity=given.severity,
                digest=bool(given.digest),
                team_id=call.caller.team_for(given.team_id),
                reach=call.caller.requester.reach,
                arguments={
                    "target": None if given.target is None else given.target.model_dump(),
                    "metadata": given.metadata,
                    "created_by": given.created_by or call.caller.name,
                },
            ),
            subject=given.subject,
            html=given.html,
            at=given.delay if given.scheduled_at is None else given.scheduled_at,
            connection=connection,
        )
    return Answer(ScheduledNotifications(action_ids=[one.id for one in scheduled]), HTTPStatus.CREATED)


def create_local_actions(call: Call[EmptyRequest, CreateLocalActionsRequest]) -> Answer:
    """Create an action or a schedule for each user, at a time of day in the user's time zone."""
    given = {
        "created_by": call.caller.name,
        **{name: value for name, value in call.body.given().items() if value is not None},
        "users": [user.model_dump() for user in call.body.users],
        "team_id": call.caller.team_for(call.body.team_id),
    }
    with call.borrowed() as connection:
        scheduled = call.runtime.local_scheduling.schedule_local(
            **given, requester=call.caller.requester, connection=connection
        )
    return Answer(LocalActions.model_validate({"scheduled": scheduled}), HTTPStatus.CREATED)


_NEW = (
    InvalidArgument, PayloadInvalid, UnknownActionType, ActionTypeForbidden, TooLarge, HandlerBroken,
)  # fmt: skip

ROUTES = (
    Route(
        "POST", "/notifications", send_notification,
        "Send a message to people, each through their first working channel", tag="People",
        description="A recipient is an address, `resolver:name`, or an object such as "
        '`{"email": "ann@example.org", "timezone": "Asia/Tokyo"}`.',
        body=NotifyRequest,
        answers={HTTPStatus.CREATED: (ScheduledNotifications, "One action per person.")},
        refuses=_NEW, creates=True,
    ),
    Route(
        "POST", "/local-actions", create_local_actions,
        "Schedule an action for each user at a time of day in the user's time zone", tag="People",
        description="Creates one action per user, due at the next `local_time`, or, with `recurrence`, one schedule "
        "per user; all of them, or none.",
        body=CreateLocalActionsRequest,
        answers={HTTPStatus.CREATED: (LocalActions, "The action or schedule of each user.")},
        refuses=(*_NEW, RecurrenceInvalid, NeverOccurs, BudgetExceeded, FunctionTimedOut), creates=True,
    ),
)  # fmt: skip
