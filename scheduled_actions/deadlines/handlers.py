"""What the actions do that a deadline plans by itself: remind, escalate, become missed, make the next of a series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from scheduled_actions.core.errors import UnknownDeadline
from scheduled_actions.deadlines import notices, store
from scheduled_actions.deadlines import shared as book
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.registry.handler import Skip

if TYPE_CHECKING:
    from scheduled_actions.notifications.planning import Notifications
    from scheduled_actions.registry.handler import Context

#: What is emitted at the due instant of a deadline that was not completed.
MISSED_EVENT = "deadline:missed"
ESCALATED_EVENT = "deadline:escalated"


class StagePayload(BaseModel):
    """Which occurrence of which stage an action is for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deadline_id: Annotated[UUID, Field(strict=False)]
    stage: Annotated[str, Field(min_length=1, max_length=400)]
    occurrence: Annotated[int, Field(ge=1)] = 1

    @property
    def name(self) -> str:
        """The two together, as the action keeps them."""
        return planning.occurrence_name(self.stage, self.occurrence)


def remind(payload: StagePayload, context: Context, notifications: Notifications) -> Skip | dict[str, Any]:
    """Tell the recipients of a reminder; return whom."""
    deadline, now = _locked_one(payload, context)
    if (refused := planning.not_holding(deadline)) is not None:
        return Skip(refused)
    stage = deadline.stage(payload.stage)
    if stage is None or not (to := deadline.recipients if stage.to is None else stage.to):
        return Skip("nobody is to be told: the deadline has no recipients")
    told, away = notices.tell(context, notifications, notices.Telling(deadline, stage, payload.name, to, now))
    entry = book.entry(
        "reminded", now, stage=stage.key, occurrence=payload.occurrence, to=told, passed_over=away or None
    )
    store.write(context.connection, {deadline.id: {"entry": entry}})
    return {"told": told}


def escalate(
    payload: StagePayload, context: Context, notifications: Notifications, *, emits_events: bool
) -> Skip | dict[str, Any]:
    """Tell the people of a level, and let somebody else take the deadline over; return whom."""
    deadline, now = _locked_one(payload, context)
    if (refused := planning.not_holding(deadline)) is not None:
        return Skip(refused)
    stage = deadline.stage(payload.stage)
    if stage is None or not stage.to:
        return Skip("the level has nobody to tell")
    told, passed_over = notices.climb(
        context, notifications, notices.Telling(deadline, stage, payload.name, stage.to, now)
    )
    facts = {"stage": stage.key, "occurrence": payload.occurrence, "to": told, "passed_over": passed_over or None}
    changes: dict[str, Any] = {"entry": book.entry("escalated", now, **facts, assigned=stage.assign)}
    if stage.assign:
        changes["recipients"] = list(stage.assign)
    store.write(context.connection, {deadline.id: changes})
    if emits_events:
        _emit(ESCALATED_EVENT, deadline.id, facts, context, team_id=deadline.team_id)
    return {"told": told} | ({"passed_over": passed_over} if passed_over else {})


def miss(payload: StagePayload, context: Context, *, emits_events: bool) -> Skip | dict[str, Any]:
    """Mark a deadline missed, once, and make the next of its series."""
    rows = _locked(payload, context)
    if not rows:
        return Skip("the deadline is not there any more")
    deadline, now = rows[0]
    if deadline.status != "open" or deadline.due_at > now:
        return Skip(f"the deadline is {deadline.status}")
    changes = {"status": "missed", "missed_at": now, "entry": book.entry("missed", now, due_at=deadline.due_at)}
    store.write(context.connection, {deadline.id: changes})
    book.succeed(context.connection, deadline, now)
    facts = {
        "name": deadline.name,
        "target": {"type": deadline.target_type, "id": deadline.target_id},
        "due_at": deadline.due_at.isoformat(),
    }
    if emits_events:
        _emit(MISSED_EVENT, deadline.id, facts, context, team_id=deadline.team_id)
    return {"missed_at": now.isoformat()}


def renew(payload: StagePayload, context: Context) -> Skip | dict[str, Any]:
    """Make the next deadline of a series."""
    rows = _locked(payload, context)
    if not rows:
        return Skip("the deadline is not there any more")
    made = book.succeed(context.connection, *rows[0])
    return Skip("the series has ended") if made is None else {"deadline_id": str(made)}


def _locked_one(payload: StagePayload, context: Context) -> store.Found:
    """Return the deadline, locked: an action that no stage planned has no guard that holds it."""
    rows = _locked(payload, context)
    if not rows:
        raise UnknownDeadline(payload.deadline_id)
    return rows[0]


def _locked(payload: StagePayload, context: Context) -> list[store.Found]:
    rows = store.lock(context.connection, [payload.deadline_id])
    return [row for row in rows if _is_of_its_team(row, context)]


def _is_of_its_team(found: store.Found, context: Context) -> bool:
    """Whether the action may know of the deadline: anybody may schedule one of these types, in a team of their own."""
    return found.deadline.team_id == context.action.team_id


def _emit(event: str, deadline_id: UUID, data: dict[str, Any], context: Context, *, team_id: str | None) -> None:
    from scheduled_actions.webhooks.sending import event_payload  # noqa: PLC0415 - with the first event

    context.schedule("webhook:send", event_payload(event, entity_id=deadline_id, data=data), team_id=team_id)
