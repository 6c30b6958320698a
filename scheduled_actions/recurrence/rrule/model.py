"""What is known of a rule in iCalendar's words, as far as its description and its warnings need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.recurrence.model import Occurrence
    from scheduled_actions.recurrence.rrule.parts import Parts
    from scheduled_actions.recurrence.rrule.text import Written


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Where a rule begins."""

    #: Naive, in whole seconds.
    wall: datetime
    #: The instant of it, in UTC.
    at: datetime
    #: Nothing before it is counted; the schedule's own start may be a fraction of a second after `at`.
    opens_at: datetime
    #: Whether the text names it, rather than the schedule.
    is_written: bool


class Described(Protocol):
    """A rule that can be described."""

    @property
    def zone(self) -> ZoneInfo:
        """Whose wall clock the rule follows."""

    @property
    def written(self) -> Written:
        """What the text says."""

    @property
    def parts(self) -> Parts:
        """What is written, and what the start fills in."""

    @property
    def start(self) -> Start:
        """Where the rule begins."""

    @property
    def schedule_zone(self) -> ZoneInfo:
        """The schedule's, whatever DTSTART says."""

    @property
    def anchor(self) -> datetime:
        """Where the schedule begins; aware."""

    @property
    def first_match(self) -> datetime | None:
        """The first instant that the rule itself names; in UTC."""

    def next_after(self, moment: datetime, budget: EvaluationBudget | None = None) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None where there is none."""
