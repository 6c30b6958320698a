"""Deadlines looked at before they are written: when they are due, and what would come of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.database.clock import now as database_now
from scheduled_actions.deadlines import shared as book
from scheduled_actions.deadlines.changes import redefined
from scheduled_actions.deadlines.moves import counted, refuse_closed
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules.definition import changed_deadline
from scheduled_actions.deadlines.rules.rows import asked_stages
from scheduled_actions.deadlines.service import Deadlines, due_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.core.requester import Requester
    from scheduled_actions.deadlines.model import Stage

#: What people ask for; the others a deadline has by itself.
_ASKED = ("reminder", "escalation", "action")


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What would come of a deadline that is not written."""

    due_at: datetime
    timezone: str
    #: Those that were asked for, with their instants; what has passed is left out, or comes at once.
    stages: list[Stage]


class DeadlineForesight(Deadlines):
    """Deadlines of one project, which can be looked at before they are written."""

    def foresee(self, given: Mapping[str, Any], *, requester: Requester | None = None) -> Foreseen:
        """Return what would come of a new deadline.

        Args:
            given: The arguments of `set_deadline`.
            requester: The token that asks over HTTP; None: application code.

        Raises:
            RequestError: As `set` does.
        """
        new = self._checked(given, set(), requester)
        with self._borrowed(None) as borrowed:
            now = database_now(borrowed)
        clock = book.clock_of(new.timezone, new.calendar)
        due_at = due_of(new, clock, now)
        return _foreseen(due_at, new.timezone, planning.plan(new.stages, due_at=due_at, clock=clock, now=now))

    def foresee_change(
        self,
        reference: UUID | str,
        changes: Mapping[str, Any],
        *,
        team_id: str | None = None,
        requester: Requester | None = None,
    ) -> Foreseen:
        """Return what would come of a deadline if it were changed; arguments and errors as for `update`."""
        before = self.get(reference, team_id=team_id)
        refuse_closed(reference, before)
        new = changed_deadline(before, asked_stages(before.definition), changes)
        new = self._validated(new, set(), requester, given=changes)
        with self._borrowed(None) as borrowed:
            now = database_now(borrowed)
        return _foreseen(before.due_at, new.timezone, counted(redefined(before, new, before.definition), now))


def _foreseen(due_at: datetime, timezone: str, stages: Sequence[Stage]) -> Foreseen:
    return Foreseen(due_at, timezone, [stage for stage in stages if stage.kind in _ASKED])
