"""What is told to people, and scheduled on their own clocks, as the management API takes it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from scheduled_actions.core.action import MAX_ATTEMPTS_LIMIT
from scheduled_actions.notifications.planning import TEXT_MOST
from scheduled_actions.notifications.recipients import PEOPLE_MOST
from scheduled_actions.notifications.rules.local_times import USERS_MOST
from scheduled_actions.notifications.rules.severity import Severity
from scheduled_actions.web.api.models import (
    WITHOUT_NUL,
    ActionTypeName,
    Delay,
    Given,
    Instant,
    JsonObject,
    Kept,
    RetryPolicy,
    Rule,
    ShortText,
    Shown,
    Target,
    TimeZone,
    WholeNumber,
    about,
    not_both,
)
from scheduled_actions.web.api.schedules.skip_schemas import HOURS, TIME_OF_DAY, object_of

_Text = Annotated[str, Field(min_length=1, max_length=TEXT_MOST, json_schema_extra=WITHOUT_NUL), Kept]
_Address = Annotated[
    str, Field(min_length=1, max_length=2048, examples=["ann@example.org"], json_schema_extra=WITHOUT_NUL), Kept
]


_TimeOfDay = Annotated[str, WithJsonSchema(TIME_OF_DAY)]
_ADDRESS = {"type": "string", "minLength": 1, "maxLength": 2048, **WITHOUT_NUL, "examples": ["ann@example.org"]}
_WORD = {"type": ["string", "null"], "minLength": 1, "maxLength": 255, **WITHOUT_NUL}
_MOMENT = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}
#: A person; whether an address is one, and which name is known, is judged where notices are made.
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


class NewNotice(Given):
    """Something to tell people."""

    model_config = ConfigDict(json_schema_extra=not_both("scheduled_at", "delay"))

    recipients: Annotated[list[_Address | _Person], Field(min_length=1, max_length=PEOPLE_MOST)] = Field(
        description="Addresses, `resolver:name`, or objects with `channels` or `email`."
    )
    text: _Text = Field(description="The words.")
    subject: ShortText | None = Field(None, description="One line. Left out: the text's first.")
    html: _Text | None = Field(None, description="The same words for channels that can show them.")
    severity: Severity | None = Field(None, description="Urgent ones pass quiet hours.")
    gather: bool | None = Field(None, description="Let notices to one person that come together become one message.")
    scheduled_at: Instant | None = Field(None, description="When, if not at once; quiet hours put it off further.")
    delay: Delay | None = Field(None, description="In place of `scheduled_at`.")
    team_id: ShortText | None = None
    target: Target | None = None
    metadata: JsonObject | None = None
    created_by: ShortText | None = None

    @model_validator(mode="after")
    def _is_one_instant(self) -> Self:
        if {"scheduled_at", "delay"} <= self.model_fields_set:
            raise about("delay", "says the same as scheduled_at: give one of them")
        return self


class ScheduledNotices(Shown):
    """What was scheduled."""

    action_ids: list[UUID] = Field(description="One for each person.")


class LocalUser(Given):
    """A user, and whose wall clock they live by."""

    user_id: ShortText
    timezone: TimeZone | None = Field(None, description="Left out: the setting `notifications.timezone`.")


class NewLocalActions(Given):
    """What to schedule for many users; names as in `schedule_local`."""

    action_type: ActionTypeName
    payload: JsonObject = Field(description="The same for all.")
    local_time: _TimeOfDay = Field(description="A time of day, `09:00`.")
    users: Annotated[list[LocalUser], Field(min_length=1, max_length=USERS_MOST)]
    recurrence: Rule | None = Field(
        None, description="A rule that leaves the time of day out: `daily`. Left out: one action each."
    )
    name: Annotated[ShortText, Field(max_length=100)] | None = Field(
        None, description="Of the series, with the user's id behind it: asking again brings them up to date."
    )
    team_id: ShortText | None = None
    created_by: ShortText | None = None
    priority: Annotated[int, Field(ge=-32768, le=32767), WholeNumber] | None = None
    max_attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS_LIMIT), WholeNumber] | None = None
    retry: RetryPolicy | None = None
    lock_group: ShortText | None = None
    target: Target | None = None
    metadata: JsonObject | None = None

    def options(self) -> dict[str, Any]:
        """Return the arguments that single actions and series share, as far as they are given."""
        names = ("priority", "max_attempts", "retry", "lock_group", "metadata")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return given if self.target is None else {**given, "target": self.target.model_dump()}


class LocalAction(Shown):
    """What was scheduled for one user."""

    user_id: str
    timezone: str
    at: datetime = Field(description="The first time, with the offset of that zone.")
    action_id: UUID | None
    schedule_id: UUID | None = Field(description="Of a series.")


class LocalActions(Shown):
    """What was scheduled, in the order of the users."""

    scheduled: list[LocalAction]
