"""List, create and resume pauses."""

from http import HTTPStatus
from typing import Annotated, ClassVar

from pydantic import Field

from scheduled_actions.core.errors import InvalidArgument, UnknownActionType, UnknownPause
from scheduled_actions.limits.model import Pause
from scheduled_actions.limits.pauses import Subject
from scheduled_actions.web.api.models import (
    WITHOUT_NUL,
    ActionTypeName,
    Delay,
    EmptyRequest,
    InstantOrDelay,
    LastInstant,
    ResponseModel,
    ShortText,
    Storable,
    TeamQuery,
    shares_fields,
)
from scheduled_actions.web.api.routing import Answer, Call, Route


class PauseRequest(InstantOrDelay):
    """What to pause: one of `action_type`, `lock_group` and `limit`, or `team_id` alone; and until when."""

    alternatives: ClassVar[tuple[str, str]] = ("until", "delay")

    action_type: ActionTypeName | None = Field(None, description="Pause the actions of this type.")
    lock_group: ShortText | None = Field(None, description="Pause the members of this lock group.")
    limit: ShortText | None = Field(None, description="Pause the actions with this limit key.")
    team_id: ShortText | None = Field(
        None,
        description="Pause only actions of this team. Default: the team of the token, else all teams.",
    )
    note: Annotated[str, Field(min_length=1, max_length=1000, json_schema_extra=WITHOUT_NUL), Storable] | None = Field(
        None, description="Why the actions are paused."
    )
    until: LastInstant | None = None
    delay: Delay | None = Field(
        None,
        description="Instead of `until`: seconds from now, or an ISO 8601 duration. Without either, the pause lasts "
        "until it is deleted.",
    )


@shares_fields(
    Pause,
    id=None,
    kind="What is paused.",
    name="The action type, team, lock group or limit key.",
    team_id="The team whose actions are paused; null: actions of all teams.",
    note=None,
    paused_by=None,
    paused_at=None,
    ends_at="When the pause ends; null: when it is resumed.",
    parked="Number of due actions held back, at most 10,000.",
)
class PauseDocument(ResponseModel):
    """A pause: no tick claims the actions that it holds back."""


class PauseList(ResponseModel):
    """The pauses that hold actions back, the oldest first, at most 1,000."""

    pauses: list[PauseDocument]


def list_pauses(call: Call[TeamQuery, EmptyRequest]) -> Answer:
    """Return the pauses that hold actions back, the oldest first."""
    found = call.runtime.pauses.find(team_id=call.team_filter)
    return Answer(PauseList.model_validate({"pauses": found if call.sees_team else []}))


def create_pause(call: Call[EmptyRequest, PauseRequest]) -> Answer:
    """Pause actions; a caller with a team can pause only those of that team."""
    body = call.body
    subject = Subject.of(
        action_type=body.action_type,
        team_id=call.caller.team_for(body.team_id),
        lock_group=body.lock_group,
        limit=body.limit,
    )
    pause = call.runtime.pauses.pause(
        subject, note=body.note, by=call.caller.name, until=body.delay if body.until is None else body.until
    )
    return Answer(PauseDocument.model_validate(pause), HTTPStatus.CREATED)


def resume_pause(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """End a pause; return it."""
    resumed = call.runtime.pauses.resume_by_id(call.reference, team_id=call.caller.team_id, by=call.caller.name)
    return Answer(PauseDocument.model_validate(resumed))


ROUTES = (
    Route(
        "GET", "/pauses", list_pauses, "List pauses, the oldest first", tag="Pauses", query=TeamQuery,
        description="A pause that has ended is listed until its actions have returned to the claims.",
        answers={HTTPStatus.OK: (PauseList, "The pauses.")},
    ),
    Route(
        "POST", "/pauses", create_pause, "Pause an action type, a team, a lock group or a limit key", tag="Pauses",
        description="No tick claims the actions until the pause ends or is deleted. A pause of the same subject keeps "
        "its `id`, and gets this note and end.",
        body=PauseRequest, answers={HTTPStatus.CREATED: (PauseDocument, "The pause.")},
        refuses=(InvalidArgument, UnknownActionType),
    ),
    Route(
        "DELETE", "/pauses/{id}", resume_pause, "Resume what is paused", tag="Pauses",
        description="The actions run in order of priority and time.",
        answers={HTTPStatus.OK: (PauseDocument, "The pause.")}, refuses=(UnknownPause,),
    ),
)  # fmt: skip
