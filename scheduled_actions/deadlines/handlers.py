"""Run the actions that a deadline plans: remind or escalate, mark it missed, create the next deadline of its series.

`begin` checks the deadline again when one of its actions is about to start, and records the start.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
from pydantic import BaseModel, ConfigDict, Field

from scheduled_actions.actions.rules import settlement
from scheduled_actions.actions.rules.settlement import Outcome
from scheduled_actions.core.action import Claimed
from scheduled_actions.core.errors import UnknownDeadline
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.database.transactions import limit_lock_waits
from scheduled_actions.deadlines import store
from scheduled_actions.deadlines.creation import create_next
from scheduled_actions.deadlines.model import Deadline, Stage
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules.calendar import parse_offset
from scheduled_actions.notifications.planning import Notifications
from scheduled_actions.notifications.rules.people import Person, parse_channel
from scheduled_actions.notifications.rules.reminder import NoticeKind, Reminder
from scheduled_actions.registry.handler import Context, Skip

#: Emitted when a deadline is marked missed.
MISSED_EVENT = "deadline:missed"
#: Emitted when the people of an escalation level are notified.
ESCALATED_EVENT = "deadline:escalated"
_GONE = "the deadline no longer exists"


@dataclass(frozen=True, slots=True)
class Guard:
    """The stage and the revision of a deadline for which an action started."""

    deadline_id: UUID
    stage: str
    revision: int
    #: The condition of the stage, as JSON; None without one.
    condition_text: str | None = None
    subject: ClassVar[str] = "its deadline"

    def holds(self, connection: Connection) -> bool:
        """Return whether the action may still run; a true result remains valid until the transaction ends.

        Locks the deadline exclusively, as changes do: two handlers that held shared locks and then both wrote would
        deadlock.
        """
        found = store.lock(connection, [self.deadline_id])
        return bool(found) and planning.holds(found[0].deadline, self.stage, self.revision, now=found[0].now)

    def after_condition(self, connection: Connection, outcome: Outcome | None) -> Outcome | None:
        """Return the outcome of the attempt after the evaluation of the condition; None to call the handler.

        If the condition is not met, the history of the deadline contains the reason.
        """
        with connection.transaction():
            limit_lock_waits(connection, store.LOCK_WAIT_MS)
            found = store.lock(connection, [self.deadline_id])
            if not found or found[0].deadline.revision != self.revision:
                return settlement.Released("its deadline was changed")
            if isinstance(outcome, settlement.ConditionFailed):
                key, occurrence = planning.parse_occurrence(self.stage)
                entry = store.history_entry(
                    "held_back", found[0].now, stage=key, occurrence=occurrence, reason=outcome.reason
                )
                store.write(connection, {self.deadline_id: {"entry": entry}})
        return outcome


def begin(database: Database, claimed: Claimed) -> Guard | Outcome | None:
    """Record the start of a deadline's action, and plan the next occurrence of its stage.

    Returns:
        The guard of the action; None if the action cannot become invalid; an outcome if the action must not start now.
    """
    try:
        with database.connection() as connection, connection.transaction():
            limit_lock_waits(connection, store.LOCK_WAIT_MS)
            return _begin(connection, claimed)
    except psycopg.errors.LockNotAvailable:
        return settlement.Released("its deadline is being changed")


def _begin(connection: Connection, claimed: Claimed) -> Guard | Outcome | None:
    deadline_id, name = store.stage_of(connection, claimed.id)
    found = [] if deadline_id is None else store.lock(connection, [deadline_id])
    if not found:
        return settlement.Skipped("its deadline no longer exists")
    deadline, now = found[0]
    if deadline.problem is not None and deadline.is_unresolved:
        return settlement.Failed(f"the stored row of its deadline is invalid: {deadline.problem}", is_final=True)
    if name is None:
        refused = planning.not_holding(deadline)
        return Guard(deadline.id, "", deadline.revision) if refused is None else settlement.Skipped(refused)
    key, occurrence = planning.parse_occurrence(name)
    outcome, stage = planning.decide(deadline, key, occurrence, now=now, is_first=claimed.attempts == 0)
    if stage is not None and stage != deadline.stage(key):
        changes: dict[str, Any] = {"stages": [stage if one.key == key else one for one in deadline.stages]}
        if isinstance(outcome, settlement.Skipped):
            changes["entry"] = store.history_entry(
                "held_back", now, stage=key, occurrence=occurrence, reason=outcome.reason
            )
        store.write(connection, {deadline.id: changes})
        # A snoozed action is itself rescheduled to the new instant, so no further action is planned.
        if not isinstance(outcome, settlement.Snoozed):
            store.plan(connection, {deadline.id: [stage]})
    if outcome is not None or stage is None or stage.kind == "renewal":
        return outcome
    condition_text = None if stage.condition is None else json.dumps(stage.condition)
    return Guard(deadline.id, name, deadline.revision, condition_text)


class StagePayload(BaseModel):
    """The payload of a deadline's action: the deadline, the key of the stage, and the occurrence, counted from 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deadline_id: Annotated[UUID, Field(strict=False)]
    stage: Annotated[str, Field(min_length=1, max_length=400)]
    occurrence: Annotated[int, Field(ge=1)] = 1


class NotificationJob(NamedTuple):
    """The notifications of one occurrence of a stage."""

    deadline: Deadline
    stage: Stage
    #: The stage and the number of its occurrence, as stored with the action: "reminder:60 days before#1".
    occurrence: str
    #: The recipients, as given: addresses, roles, or people as objects.
    to: tuple[Any, ...]
    now: datetime


def send_notices(
    payload: StagePayload, context: Context, notifications: Notifications, *, emits_events: bool
) -> Skip | dict[str, Any]:
    """Schedule the notifications of a reminder or an escalation level; reassign the deadline if the level has `assign`.

    An occurrence that replaces another one only notifies; the other one has reassigned the deadline and emitted the
    event.

    Returns:
        The names of the recipients as `notified`, and those of absent people, if any, as `passed_over`; Skip if there
            is nothing to send.

    Raises:
        UnknownDeadline: The deadline does not exist in the team of the action.
        InvalidArgument: A recipient is invalid, or resolves to no person.
        HandlerBroken: A resolver cannot be imported, or raised an exception.
        PayloadInvalid: A notification is invalid, for example because its text is too long.
    """
    job = _job(payload, context)
    if isinstance(job, Skip):
        return job
    stage, is_escalation = job.stage, job.stage.kind == "escalation"
    notified, passed_over = (_notify_first_present if is_escalation else _notify)(context, notifications, job)
    if not notified:
        return Skip("every recipient has received this notice")
    facts = {"stage": stage.key, "occurrence": payload.occurrence, "to": notified, "passed_over": passed_over or None}
    what = "escalated" if is_escalation else "reminded"
    is_replacement = bool(planning.replaced_occurrences(stage))
    assigned = None if is_replacement else stage.assign
    changes: dict[str, Any] = {"entry": store.history_entry(what, job.now, **facts, assigned=assigned)}
    if assigned:
        changes["recipients"] = assigned
    store.write(context.connection, {job.deadline.id: changes})
    if is_escalation and emits_events and not is_replacement:
        _emit(ESCALATED_EVENT, job.deadline, facts, context)
    return {"notified": notified} | ({"passed_over": passed_over} if passed_over else {})


def miss(payload: StagePayload, context: Context, *, emits_events: bool) -> Skip | dict[str, Any]:
    """Mark a deadline as missed if it is open and due, and create the next deadline of its series unless it exists.

    Returns:
        `missed_at` as an ISO 8601 string; Skip if the deadline no longer exists, or is not open and due.
    """
    found = _lock(payload, context)
    if found is None:
        return Skip(_GONE)
    deadline, now = found
    if deadline.status != "open" or deadline.due_at > now:
        return Skip(f"the deadline is {deadline.status}, due at {deadline.due_at.isoformat()}")
    entry = store.history_entry("missed", now, due_at=deadline.due_at)
    store.write(context.connection, {deadline.id: {"status": "missed", "missed_at": now, "entry": entry}})
    create_next(context.connection, deadline, now)
    if emits_events:
        facts = {"name": deadline.name, "target": _target(deadline), "due_at": deadline.due_at.isoformat()}
        _emit(MISSED_EVENT, deadline, facts, context)
    return {"missed_at": now.isoformat()}


def renew(payload: StagePayload, context: Context) -> Skip | dict[str, Any]:
    """Create the next deadline of a series unless it exists.

    Returns:
        The id of the next deadline as `deadline_id`; Skip if the deadline no longer exists, or if its series has ended.
    """
    found = _lock(payload, context)
    if found is None:
        return Skip(_GONE)
    next_id = create_next(context.connection, *found)
    # `next_id` of the last deadline of a cancelled series is the id of that deadline itself.
    return Skip("the series has ended") if next_id in {None, payload.deadline_id} else {"deadline_id": str(next_id)}


def _job(payload: StagePayload, context: Context) -> NotificationJob | Skip:
    """Lock the deadline; return the notifications to send, or Skip with the reason if there are none.

    The lock is needed because an action that no stage planned has no guard: without the lock, it could send a
    notification while the deadline is changed.
    """
    found = _lock(payload, context)
    if found is None:
        raise UnknownDeadline(payload.deadline_id)
    deadline, now = found
    if (refused := planning.not_holding(deadline)) is not None:
        return Skip(refused)
    stage = deadline.stage(payload.stage)
    to = () if stage is None else deadline.recipients if stage.to is None else stage.to
    if stage is None or not to:
        return Skip("the stage has no recipients")
    return NotificationJob(deadline, stage, planning.occurrence_name(payload.stage, payload.occurrence), to, now)


def _lock(payload: StagePayload, context: Context) -> store.DeadlineSnapshot | None:
    """Lock and return a deadline; None if it does not exist in the team of the action.

    The team is compared because a payload can contain the id of another team's deadline.
    """
    rows = store.lock(context.connection, [payload.deadline_id])
    return next((row for row in rows if row.deadline.team_id == context.action.team_id), None)


def _target(deadline: Deadline) -> dict[str, str]:
    return {"type": deadline.target_type, "id": deadline.target_id}


def _emit(event: str, deadline: Deadline, data: dict[str, Any], context: Context) -> None:
    from scheduled_actions.webhooks.sending import event_payload  # noqa: PLC0415 - loaded on first use

    context.schedule("webhook:send", event_payload(event, entity_id=deadline.id, data=data), team_id=deadline.team_id)


def _notify(context: Context, notifications: Notifications, job: NotificationJob) -> tuple[list[str], list[str]]:
    """Schedule the notifications of a job; they are stored when this attempt is settled.

    Returns:
        The names of the recipients, and of the people who are away.
    """
    deadline, stage = job.deadline, job.stage
    people, away = notifications.remind(
        list(job.to),
        _reminder(job),
        schedule=context.schedule,
        severity=stage.severity or notifications.severity(_time_left(job)),
        guard={
            "deadline_id": str(deadline.id),
            "stage": job.occurrence,
            "revision": deadline.revision,
            # A reassignment does not change the recipients of a stage that has its own.
            **({"is_for_recipients": True} if stage.to is None else {}),
        },
        received=store.received(context.connection, deadline.id, planning.replaced_occurrences(stage)),
        team_id=deadline.team_id,
        reach=deadline.reach,
        arguments={"target": _target(deadline)},
    )
    return [_name(person) for person in people], [_name(person) for person in away]


def _notify_first_present(
    context: Context, notifications: Notifications, job: NotificationJob
) -> tuple[list[str], list[str]]:
    """Schedule the notifications of an escalation level for its people or, if all are away, for those of a later level.

    The later level is the first with a person who is present. If there is none, the people of the level itself are
    notified.

    Returns:
        The names of the recipients, and of the absent people who were passed over.
    """
    levels = [stage for stage in job.deadline.stages if stage.kind == "escalation"]
    passed_over: list[str] = []
    for to in (job.to, *(stage.to for stage in levels[levels.index(job.stage) + 1 :] if stage.to)):
        people = notifications.recipients.resolve(
            list(to), team_id=job.deadline.team_id, now=job.now, reach=job.deadline.reach
        )
        if not all(person.is_away(job.now) for person, _ in people):
            notified, away = _notify(context, notifications, job._replace(to=to))
            return notified, passed_over + away
        passed_over += [_name(person) for person, _ in people]
    return _notify(context, notifications, job)[0], []


def _name(person: Person) -> str:
    """Return a person's name, id or email address for the history; a masked address of other channels."""
    return person.name or person.id or parse_channel(person.channels[0]).shown


def _time_left(job: NotificationJob) -> timedelta:
    deadline, stage = job.deadline, job.stage
    offset = parse_offset(stage.offset, name=stage.key)
    return offset.time_left(deadline.due_at, job.now, zone=ZoneInfo(deadline.timezone))


def _reminder(job: NotificationJob) -> Reminder:
    deadline, stage, now = job.deadline, job.stage, job.now
    levels = [one.key for one in deadline.stages if one.kind == "escalation"]
    upcoming = [
        one.at for one in deadline.stages if one.kind == "reminder" and one.is_planned and one.at and one.at > now
    ]
    kind: NoticeKind = "missed" if stage.repeat is None and deadline.due_at <= now else "reminder"
    return Reminder(
        name=deadline.name or f"{deadline.target_type} {deadline.target_id}",
        due_at=deadline.due_at,
        timezone=deadline.timezone,
        now=now,
        kind="escalation" if stage.kind == "escalation" else kind,
        target=_target(deadline),
        next_reminder_at=min(upcoming, default=None),
        level=levels.index(stage.key) + 1 if stage.key in levels else None,
        assignee=next((one for one in deadline.recipients if isinstance(one, str)), None),
        message=stage.message,
        data=deadline.metadata or {},
    )
