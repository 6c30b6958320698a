"""What a condition is made of, what it needs to be known, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

#: What the error calls a condition that takes too many steps.
BUDGETED = "the condition"
#: Steps that judging the condition of one action may take in a tick, a hundredth of a second.
STEPS_MOST = STEPS // 50
#: At its end a name stands for all that begin so.
PREFIX_MARK = ":*"


def budget_of_a_judgement() -> EvaluationBudget:
    """Return the budget of the condition of one action in a tick."""
    return EvaluationBudget(BUDGETED, steps=STEPS_MOST)


class FactKey(NamedTuple):
    """Which fact of which thing; the team is the action's own."""

    target_type: str
    target_id: str
    #: One that ends in `:*` stands for all that begin so.
    name: str


class Fact(NamedTuple):
    """A fact as it was last reported."""

    value: Any
    #: Since when its value is this.
    changed_at: datetime
    #: Bytes of its value as JSON.
    size: int = 0


class ActionState(NamedTuple):
    """Where another action of the same team stands."""

    status: str
    #: Its end will be told to those who wait for it.
    is_watched: bool = True


class DeadlineState(NamedTuple):
    """Where a deadline of the same team stands."""

    status: str


class Checked(NamedTuple):
    """What a query, an HTTP request or a function of the project answered."""

    is_met: bool
    #: What was found, in words; what went wrong where `is_broken`.
    found: str
    is_broken: bool = False


class Outside(NamedTuple):
    """Something that only the world can answer: a query, an HTTP request, or a function of the project."""

    kind: str
    #: The condition's own data, as JSON text.
    text: str


@dataclass(slots=True)
class Needs:
    """What has to be known for a condition to be judged."""

    facts: set[FactKey] = field(default_factory=set)
    actions: set[UUID] = field(default_factory=set)
    deadlines: set[UUID] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known at the moment of the judgement."""

    now: datetime
    #: When the action was created.
    created_at: datetime
    facts: Mapping[FactKey, Fact] = field(default_factory=dict)
    actions: Mapping[UUID, ActionState] = field(default_factory=dict)
    deadlines: Mapping[UUID, DeadlineState] = field(default_factory=dict)
    #: Those of the needs that end in `:*` and stand for more facts than are known here.
    cut: frozenset[FactKey] = frozenset()
    #: None: nobody has asked yet.
    answers: Mapping[Outside, Checked] | None = None
    #: Of the judgement.
    budget: EvaluationBudget = field(default_factory=budget_of_a_judgement, compare=False)


class Truth(Enum):
    """Whether a condition holds."""

    MET = "met"
    UNMET = "unmet"
    #: It could not be judged; the action does not run.
    BROKEN = "broken"
    #: The world has to be asked first.
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of a condition."""

    truth: Truth
    #: Which part is not met, and why; empty where all is.
    reason: str = ""
    #: When the passing of time alone may change it.
    changes_at: datetime | None = None


class Condition(Protocol):
    """A condition, or a part of one."""

    def judge(self, known: Known) -> Verdict:
        """Say whether it holds, with all it needs known.

        Raises:
            BudgetExceeded: That takes too many steps.
        """

    def add_needs(self, needs: Needs) -> None:
        """Add what it needs to be known."""

    def outsides(self) -> tuple[Outside, ...]:
        """Return what it has to ask the world."""


MET = Verdict(Truth.MET)
