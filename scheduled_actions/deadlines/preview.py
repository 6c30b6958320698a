"""Preview the due instant and the stages of a deadline; nothing is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from scheduled_actions.core.requester import Requester
from scheduled_actions.database.clock import now as database_now
from scheduled_actions.database.transactions import borrowed_connection
from scheduled_actions.deadlines.changes import redefined, refuse_closed
from scheduled_actions.deadlines.creation import first_due_at
from scheduled_actions.deadlines.model import Stage
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules.definition import ARGUMENT_OF, changed_deadline
from scheduled_actions.deadlines.rules.rows import asked_stages
from scheduled_actions.deadlines.service import Deadlines


@dataclass(frozen=True, slots=True)
class DeadlinePreview:
    """The due instant and the stages that a deadline would have; nothing is stored."""

    due_at: datetime
    timezone: str
    #: The requested stages with their instants. A stage in the past has the state `left_out`, or runs immediately.
    stages: list[Stage]


def preview_deadline(
    deadlines: Deadlines, given: Mapping[str, Any], *, requester: Requester | None = None
) -> DeadlinePreview:
    """Return the due instant and the stages of a new deadline without storing the deadline.

    The preview does not check whether the name is in use, or how many deadlines of a series would be open at the same
    time.

    Args:
        deadlines: The deadlines of the project.
        given: The arguments of `set_deadline`.
        requester: The token of an HTTP request; None: application code.

    Raises:
        RequestError: An argument is invalid, or the requester may not schedule an auto-action.
    """
    new = deadlines.validator.validate(given, requester)
    now, clock = _now(deadlines), planning.DeadlineClock.of(new)
    due_at = first_due_at(new, clock, now)
    return _preview(due_at, new.timezone, planning.plan(new.stages, due_at=due_at, clock=clock, now=now))


def preview_update(
    deadlines: Deadlines,
    reference: UUID | str,
    changes: Mapping[str, Any],
    *,
    team_id: str | None = None,
    requester: Requester | None = None,
) -> DeadlinePreview:
    """Return the due instant and the stages that a deadline would have after `Deadlines.update`; nothing is stored.

    A new recurrence does not change the preview. Later deadlines of the series are not checked.

    Args:
        deadlines: The deadlines of the project.
        reference: Id or name.
        changes: The arguments of `Deadlines.update` that change.
        team_id: Only within this team; None: as for `Deadlines.get`.
        requester: The token of an HTTP request; None: application code.

    Raises:
        UnknownDeadline: No deadline has that id or name (in that team).
        WrongDeadlineStatus: The deadline is completed or cancelled.
        DeadlineUnusable: The stored row is invalid.
        RequestError: A value is invalid.
    """
    before = deadlines.get(reference, team_id=team_id)
    refuse_closed(reference, before)
    changed = changed_deadline(before, asked_stages(before.definition), changes)
    after = redefined(before, deadlines.validator.check(changed, requester, given=changes), before.definition)
    return _preview(before.due_at, after.timezone, planning.plan_deadline(after, _now(deadlines)))


def _now(deadlines: Deadlines) -> datetime:
    with borrowed_connection(deadlines.database, None) as lent:
        return database_now(lent)


def _preview(due_at: datetime, timezone: str, stages: Sequence[Stage]) -> DeadlinePreview:
    return DeadlinePreview(due_at, timezone, [stage for stage in stages if stage.kind in ARGUMENT_OF])
