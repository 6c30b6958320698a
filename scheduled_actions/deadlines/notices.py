"""What people are told of a deadline, and who stands in for those who are away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.notifications.rules.channels import parse_channel
from scheduled_actions.notifications.rules.reminder import Reminder

if TYPE_CHECKING:
    from datetime import datetime

    from scheduled_actions.deadlines.model import Deadline, Stage
    from scheduled_actions.notifications.planning import Notifications
    from scheduled_actions.notifications.rules.people import Person
    from scheduled_actions.notifications.rules.reminder import NoticeKind
    from scheduled_actions.registry.handler import Context


@dataclass(frozen=True, slots=True)
class Telling:
    """One occurrence of a stage that people are told of."""

    deadline: Deadline
    stage: Stage
    #: The stage and its number, as the action keeps them.
    occurrence: str
    to: tuple[Any, ...]
    now: datetime


def tell(context: Context, notifications: Notifications, telling: Telling) -> tuple[list[str], list[str]]:
    """Have notices sent once this attempt has settled; return whom they go to, and who is away."""
    deadline, stage = telling.deadline, telling.stage
    told = notifications.remind(
        list(telling.to),
        _reminder(telling),
        schedule=context.schedule,
        severity=stage.severity,
        guard={
            "deadline_id": str(deadline.id),
            "stage": telling.occurrence,
            "revision": deadline.revision,
            # Those whom the stage itself names stay its own through a reassignment.
            **({"is_for_recipients": True} if stage.to is None else {}),
        },
        team_id=deadline.team_id,
        reach=deadline.reach,
        arguments={"target": {"type": deadline.target_type, "id": deadline.target_id}},
    )
    return [called(person) for person in told.people], [called(person) for person in told.passed_over]


def climb(context: Context, notifications: Notifications, telling: Telling) -> tuple[list[str], list[str]]:
    """Tell the people of a level; where all of them are away, those of the next one at once.

    Returns:
        Who is told, and who was passed over. When all are away all the way up, those of the level itself are told.
    """
    ladder = [stage for stage in telling.deadline.stages if stage.kind == "escalation"]
    above = [stage.to for stage in ladder[ladder.index(telling.stage) + 1 :] if stage.to]
    passed_over: list[str] = []
    for to in (telling.to, *above):
        people = notifications.recipients.resolve(
            list(to), team_id=telling.deadline.team_id, now=telling.now, reach=telling.deadline.reach
        )
        if not all(one.person.is_away(telling.now) for one in people):
            reached = Telling(telling.deadline, telling.stage, telling.occurrence, to, telling.now)
            told, away = tell(context, notifications, reached)
            return told, passed_over + away
        passed_over += [called(one.person) for one in people]
    return tell(context, notifications, telling)[0], []


def called(person: Person) -> str:
    """Return what a history calls a person: a name, an id, an e-mail address; of other channels what may be shown."""
    channel = parse_channel(person.channels[0])
    return person.name or person.id or (channel.address if channel.kind == "email" else channel.masked)


def _reminder(telling: Telling) -> Reminder:
    deadline, stage, now = telling.deadline, telling.stage, telling.now
    ladder = [one.key for one in deadline.stages if one.kind == "escalation"]
    desk = next((one for one in deadline.recipients if isinstance(one, str)), None)
    return Reminder(
        name=deadline.name or f"{deadline.target_type} {deadline.target_id}",
        due_at=deadline.due_at,
        now=now,
        kind=_kind(deadline, stage, now),
        target={"type": deadline.target_type, "id": deadline.target_id},
        next_reminder_at=min(
            (
                one.at
                for one in deadline.stages
                if one.kind == "reminder" and one.state == "planned" and one.at is not None and one.at > now
            ),
            default=None,
        ),
        level=ladder.index(stage.key) + 1 if stage.key in ladder else None,
        assignee=desk,
        message=stage.message,
        data=deadline.metadata or {},
    )


def _kind(deadline: Deadline, stage: Stage, now: datetime) -> NoticeKind:
    if stage.kind == "escalation":
        return "escalation"
    return "missed" if stage.repeat is None and deadline.due_at <= now else "reminder"
