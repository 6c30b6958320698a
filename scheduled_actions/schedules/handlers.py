"""Apply the calls of the SQL function `schedule_recurring_action`, which are stored with their schedules."""

from datetime import datetime
from typing import Annotated, Any, cast
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from scheduled_actions.actions.rules import settlement
from scheduled_actions.core import json_text
from scheduled_actions.core.errors import RequestError
from scheduled_actions.registry.handler import Fail, Skip
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import APPLY
from scheduled_actions.schedules.service import Schedules


class AppliedSchedule(BaseModel):
    """The payload of `schedule:apply`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schedule_id: Annotated[UUID, Field(strict=False)]


def apply(schedules: Schedules, schedule_id: UUID) -> Skip | dict[str, Any]:
    """Create or update a schedule with the arguments of the latest call from SQL, as `Schedules.upsert` does.

    If the arguments are refused, the schedule is paused with the reason, and keeps them: a retry applies them again.

    Returns:
        The id of the schedule as `schedule_id`; Skip if it was deleted, or if the call has been applied already.

    Raises:
        Fail: The arguments are invalid.
        HandlerBroken: The handler, or that of a follow-up, cannot be loaded.
        FunctionTimedOut: A project function of the rule exceeded its time limit.
    """
    with schedules.database.connection() as connection:
        requested = store.requested(connection, schedule_id)
    if requested is None:
        return Skip("the schedule was deleted, or the call has been applied already")
    try:
        schedules.upsert(schedule_id=schedule_id, **_arguments(requested))
    except RequestError as error:
        _pause(schedules, schedule_id, requested, str(error))
        raise Fail(str(error)) from error
    with schedules.database.connection() as connection:
        # A later call, which has replaced the arguments, has its own action.
        store.sql.run(connection, "end_schedule_request", {"schedule_id": schedule_id, "requested": requested})
    return {"schedule_id": str(schedule_id)}


def _arguments(requested: str) -> dict[str, Any]:
    """Return the arguments of a call for `Schedules.upsert`, without those that are null.

    Raises:
        InvalidArgument: An argument is nested too deeply.
    """
    given = cast("dict[str, Any]", json_text.decode(requested, name="the call"))
    instants = {name: datetime.fromisoformat(given[name]) for name in ("scheduled_at", "until") if given[name]}
    return {name: value for name, value in (given | instants).items() if value is not None}


def _pause(schedules: Schedules, schedule_id: UUID, requested: str, problem: str) -> None:
    """Pause a schedule because a call was refused.

    A schedule with valid arguments that has ended, or that a person paused, is not changed. If these arguments are not
    requested any more, because of a later call, nothing is changed.
    """
    reason = settlement.clean(f"schedule_recurring_action from SQL was refused: {problem}")
    with schedules.database.connection() as connection, connection.transaction():
        for schedule, _ in store.lock(connection, [schedule_id]):
            is_current = store.requested(connection, schedule_id) == requested
            if is_current and (schedule.status == "active" or schedule.is_refused or not schedule.definition):
                store.drop_planned(connection, schedule_id)
                store.advance(
                    connection, [store.ScheduleUpdate(schedule_id, status="paused", reason=reason, status_by=APPLY)]
                )
