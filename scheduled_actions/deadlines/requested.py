"""Apply the calls of the SQL function `set_deadline`, which are stored with their deadlines."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, cast
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from scheduled_actions.actions.rules import settlement
from scheduled_actions.core import json_text
from scheduled_actions.core.errors import RequestError, StateConflict, WrongDeadlineStatus
from scheduled_actions.core.requester import AddressReach
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.transactions import announce
from scheduled_actions.deadlines import changes as change, store
from scheduled_actions.deadlines.rules.definition import NewDeadline
from scheduled_actions.registry.handler import Fail, Skip

if TYPE_CHECKING:
    from scheduled_actions.deadlines.service import Deadlines


class AppliedDeadline(BaseModel):
    """The payload of `deadline:apply`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deadline_id: Annotated[UUID, Field(strict=False)]


def apply(deadlines: "Deadlines", deadline_id: UUID) -> Skip | dict[str, Any]:
    """Create or update a deadline with the arguments of the latest call from SQL, as `Deadlines.set` does.

    If the arguments are refused, a new deadline is cancelled with the reason; another one is not changed, and the
    reason is added to its history.

    Returns:
        The id of the deadline as `deadline_id`; Skip if it does not exist, or if the call has been applied already.

    Raises:
        Fail: The arguments are invalid.
        HandlerBroken: The handler of an auto-action cannot be loaded.
    """
    with deadlines.database.connection() as connection:
        requested = store.requested(connection, deadline_id)
    if requested is None:
        return Skip("the deadline does not exist, or the call has been applied already")
    try:
        given = cast("dict[str, Any]", json_text.decode(requested, name="the call"))
        due_at = given["due_at"] and datetime.fromisoformat(given["due_at"])
        # The deadline of a team may only use the channels that are open to teams.
        reach: AddressReach | None = None if given["team_id"] is None else "team"
        new = deadlines.validator.validate({**given, "due_at": due_at}, None, reach=reach)
        with deadlines.database.connection() as connection, connection.transaction():
            is_applied = _apply(connection, deadline_id, requested, new)
    except (RequestError, StateConflict) as error:
        with deadlines.database.connection() as connection, connection.transaction():
            reason = settlement.clean(f"set_deadline from SQL was refused: {error}")
            refuse_requested(connection, deadline_id, requested, reason)
        raise Fail(str(error)) from error
    announce(deadlines.wake, None)
    return {"deadline_id": str(deadline_id)} if is_applied else Skip("a later call has replaced this one")


def _apply(connection: Connection, deadline_id: UUID, requested: str, new: NewDeadline) -> bool:
    """Create or update a deadline that SQL has requested; return whether these arguments were still requested.

    Raises:
        WrongDeadlineStatus: The deadline was completed or cancelled after the call.
        ScheduledActionsError: As for `changes.update_by_name`.
    """
    found = store.lock(connection, [deadline_id])
    if not found or store.requested(connection, deadline_id) != requested:
        return False
    deadline = found[0].deadline
    if not deadline.is_unresolved:
        raise WrongDeadlineStatus(deadline_id, deadline.status, "open and missed")
    change.update_by_name(connection, found[0], new)
    return True


def refuse_requested(connection: Connection, deadline_id: UUID, requested: str, reason: str) -> None:
    """Record that a call from SQL was refused: cancel a new deadline; add an entry to the history of another one.

    If these arguments are not requested any more, because of a later call, nothing is changed.
    """
    for deadline, now in store.lock(connection, [deadline_id]):
        if store.requested(connection, deadline_id) != requested:
            return
        if not store.is_reserved(connection, deadline):
            entry = store.history_entry("refused", now, by="deadline:apply", reason=reason)
            store.write(connection, {deadline_id: {"entry": entry}})
        elif deadline.is_unresolved:
            entry = store.history_entry("cancelled", now, by="deadline:apply", reason=reason)
            change.close(connection, deadline, now, entry, closed_reason=reason)
