"""Data classes of conditions: facts, the needs of a condition, and the result of evaluating it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget

#: The name of a condition in errors about its budget.
BUDGETED = "the condition"
#: Steps to evaluate the condition of one action in a tick, about 10 ms.
STEPS_MOST = STEPS // 50
#: A fact name with this ending selects every name that begins with the part before the `*`.
PREFIX_MARK = ":*"
_EMPTY: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Fact:
    """A reported fact: one row of `scheduled_action_facts`, its columns in order. All instants are aware and in UTC."""

    #: UUID version 7: ordered by creation.
    id: UUID
    #: None for a fact without a team.
    team_id: str | None
    target_type: str
    target_id: str
    name: str
    #: Any JSON.
    value: Any
    #: Who reported the fact last; None if not given.
    reported_by: str | None
    #: When the value last changed.
    changed_at: datetime
    #: When the fact was last reported, with the same value or another.
    reported_at: datetime


class FactChange(NamedTuple):
    """One entry in the history of a fact."""

    #: Any JSON.
    value: Any
    #: Whether the fact was deleted; the value is None then.
    is_removal: bool
    reported_by: str | None
    changed_at: datetime


class FactReport(NamedTuple):
    """The result of reporting a fact."""

    #: Whether the value is new, or differs from the stored one.
    changed: bool
    #: Whether `changed` is true and actions wait for the fact; they are woken.
    has_waiters: bool


class FactKey(NamedTuple):
    """Identifies a fact within the action's team."""

    target_type: str
    target_id: str
    #: A name that ends in `:*` selects every name that begins with the part before the `*`.
    name: str


class FactValue(NamedTuple):
    """The value of a fact, as an evaluation reads it."""

    value: Any
    #: When the value last changed.
    changed_at: datetime
    #: The size of the value, in bytes of JSON.
    size: int = 0


class ActionState(NamedTuple):
    """The state of another action of the same team."""

    status: str
    #: Whether the end of this action wakes the actions that wait for it.
    is_watched: bool = True


class ExternalCheck(NamedTuple):
    """A check outside the package's own tables: a named query, an HTTP request or a project function."""

    kind: str
    #: The parameters of the check, as JSON text.
    text: str


class CheckResult(NamedTuple):
    """The result of an external check."""

    is_met: bool
    #: The reason shown to users if the check is not met: the value found or, if `is_broken`, the error.
    found: str
    is_broken: bool = False


@dataclass(slots=True)
class Needs:
    """The rows that an evaluation of a condition reads, and its external checks.

    The collections are immutable, so that those that are empty, most of them, are one object.
    """

    facts: frozenset[FactKey] = frozenset()
    actions: frozenset[UUID] = frozenset()
    deadlines: frozenset[UUID] = frozenset()
    #: In the order of the condition.
    checks: tuple[ExternalCheck, ...] = ()


class EvaluationInput(NamedTuple):
    """The data against which a condition is evaluated."""

    now: datetime
    #: When the action was created.
    created_at: datetime
    #: Limits this evaluation alone.
    budget: EvaluationBudget
    facts: Mapping[FactKey, FactValue] = _EMPTY
    #: Required keys with a prefix (`:*`) that select more facts than `facts` contains.
    truncated: frozenset[FactKey] = frozenset()
    actions: Mapping[UUID, ActionState] = _EMPTY
    #: The status of each deadline.
    deadlines: Mapping[UUID, str] = _EMPTY
    #: Results of external checks; None before the first check has run.
    results: Mapping[ExternalCheck, CheckResult] | None = None


class Truth(Enum):
    """Whether a condition holds."""

    MET = "met"
    UNMET = "unmet"
    #: Evaluation failed; the action does not run.
    BROKEN = "broken"
    #: The result depends on an external check that has not run yet.
    OPEN = "open"


class Evaluation(NamedTuple):
    """The result of evaluating a condition."""

    truth: Truth
    #: Which part is not met, and why; empty if the condition is met.
    reason: str = ""
    #: When the passing of time alone may change the result; None: never.
    changes_at: datetime | None = None


MET = Evaluation(Truth.MET)


@dataclass(frozen=True, slots=True)
class Condition(ABC):
    """A condition or a part of one."""

    #: Path of this part within the whole condition, for messages.
    where: str

    @abstractmethod
    def evaluate(self, given: EvaluationInput) -> Evaluation:
        """Evaluate the condition.

        Raises:
            BudgetExceeded: Evaluation takes more steps than `given.budget` has left.
        """

    @abstractmethod
    def add_needs(self, needs: Needs) -> None:
        """Add the rows that `evaluate` reads and the external checks to `needs`."""

    def unmet(self, why: str, changes_at: datetime | None = None) -> Evaluation:
        """Return the evaluation of an unmet condition, with its path and the reason."""
        return Evaluation(Truth.UNMET, f"{self.where}: {why}", changes_at)
