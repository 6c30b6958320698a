"""What every kind of rule has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from scheduled_actions.core.evaluation_budget import EvaluationBudget

#: `business_day`: the nth or last of a month or quarter; `custom`: a function registered in `handlers/`.
Kind: TypeAlias = Literal["interval", "cron", "rrule", "business_day", "custom"]
#: What is not alike for all kinds outside this package. The occurrences of these do not depend on the anchor:
ANCHORLESS: Final[frozenset[Kind]] = frozenset({"cron"})
#: In a rolling series these are counted from the end of the run before; the others keep their own instants.
COUNTED_FROM_RUN: Final[frozenset[Kind]] = frozenset({"interval"})
#: These ask the skips which days are business days, even where nothing is skipped.
OF_BUSINESS_DAYS: Final[frozenset[Kind]] = frozenset({"business_day"})

#: A rule that names no instant within this many years is refused, and never searched further.
HORIZON_YEARS = 30


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One instant of a recurrence."""

    #: Aware, in UTC.
    at: datetime
    #: What a clock change, a skip or a roll did to it, each a sentence for people; mostly none.
    remarks: tuple[str, ...] = ()


class Rule(Protocol):
    """A parsed rule in a zone; pure, immutable, hashable by identity, and safe to share between threads."""

    @property
    def kind(self) -> Kind:
        """Which kind of rule it is."""

    @property
    def zone(self) -> ZoneInfo:
        """Whose wall clock it follows."""

    @property
    def description(self) -> str:
        """The rule in words, one sentence without a full stop: "At 09:00 on Monday"."""

    @property
    def ending(self) -> str:
        """What the description says last, after which no zone can stand: ", 10 times"; mostly nothing."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What people often get wrong with a rule like this one, each a sentence; mostly none."""

    def next_after(self, moment: datetime, budget: EvaluationBudget, /) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`.

        Args:
            moment: Aware, in any zone.
            budget: Has a step for each candidate instant, and for each date looked at on the way to one.

        Returns:
            In UTC, never a local time that does not exist; None once the rule has ended (COUNT, UNTIL).

        Raises:
            NeverOccurs: Nothing within `HORIZON_YEARS`.
            BudgetExceeded: Before an occurrence was found.
        """
