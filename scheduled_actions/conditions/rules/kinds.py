"""Kinds of conditions: facts, other actions, deadlines, time, external checks, and combinations of conditions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from scheduled_actions.conditions.model import (
    MET,
    PREFIX_MARK,
    Condition,
    Evaluation,
    EvaluationInput,
    ExternalCheck,
    FactKey,
    Needs,
    Truth,
)
from scheduled_actions.core.errors.families import short, short_text
from scheduled_actions.core.json_comparison import MISSING, OPERATORS, resolve_pointer
from scheduled_actions.core.messages import listed

#: Maximum number of facts read for one name prefix.
PREFIXED_MOST = 200
#: Prefix of approval facts: `approval:ann` with the value true, "approved" or {"approved": true}.
APPROVAL = "approval"
#: Prefix of the facts `user_action:signed` and `user_action:signed:ann`.
USER_ACTION = "user_action"
#: The number of bytes of a list or an object, of characters of a string, and of facts that cost one step of the budget.
_BYTES_A_STEP = 64
_CHARACTERS_A_STEP = 1024
_FACTS_A_STEP = 12
#: Maximum number of characters of a condition that a reason contains.
_SHOWN_MOST = 200
#: Maximum number of names listed in a reason.
_NAMES_MOST = 10
_WORDS = {
    "eq": "", "ne": "a value other than ", "lt": "below ", "lte": "at most ", "gt": "above ", "gte": "at least ",
    "in": "one of ", "not_in": "a value outside ", "contains": "a value containing ",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldValue(Condition):
    """Holds while a fact's value, or the part at a pointer, passes a comparison.

    An unknown value passes only the operator `exists` with the value false.
    """

    key: FactKey
    pointer: str
    operator: str
    wanted: Any

    def add_needs(self, needs: Needs) -> None:
        """Add the fact to `needs`."""
        needs.facts |= {self.key}

    def evaluate(self, given: EvaluationInput) -> Evaluation:
        """Compare the value of the fact with the wanted value."""
        fact = given.facts.get(self.key)
        value = MISSING if fact is None else resolve_pointer(self.pointer, fact.value)
        name = f"{self.key.name}{self.pointer} of {self.key.target_type} {self.key.target_id}"
        if self.operator != "exists":
            if fact is None or value is MISSING:
                return self.unmet(f"{name} is not known")
            if isinstance(value, dict | list):
                given.budget.spend(fact.size // _BYTES_A_STEP)
            elif isinstance(value, str):
                given.budget.spend(len(value) // _CHARACTERS_A_STEP)
        if OPERATORS[self.operator](value, self.wanted):
            return MET
        if self.operator == "exists":
            return self.unmet(f"{name} is {'not known' if self.wanted else 'known'}")
        return self.unmet(f"{name} is {short(value)}, not {_WORDS[self.operator]}{short(self.wanted)}")


@dataclass(frozen=True, slots=True)
class ApprovalComplete(Condition):
    """Holds while enough of the named people, or of any people, have approved."""

    target: tuple[str, str]
    required: int
    #: None: anyone may approve.
    approvers: tuple[str, ...] | None

    def add_needs(self, needs: Needs) -> None:
        """Add the facts that record the approvals to `needs`."""
        names = ("*",) if self.approvers is None else self.approvers
        needs.facts |= {FactKey(*self.target, f"{APPROVAL}:{name}") for name in names}

    def evaluate(self, given: EvaluationInput) -> Evaluation:
        """Count the approvals and compare their number with the required one."""
        given.budget.spend(len(given.facts) // _FACTS_A_STEP)
        approved = {
            key.name.removeprefix(f"{APPROVAL}:")
            for key, fact in given.facts.items()
            if key[:2] == self.target and key.name.startswith(f"{APPROVAL}:") and _is_approval(fact.value)
        }
        count = len(approved if self.approvers is None else approved.intersection(self.approvers))
        if count >= self.required:
            return MET
        why = f"{count} of {self.required} approvals of {' '.join(self.target)}"
        if self.approvers is not None:
            missing = [name for name in self.approvers if name not in approved]
            return self.unmet(f"{why}; not yet by {listed(missing, most=_NAMES_MOST)}")
        if FactKey(*self.target, f"{APPROVAL}{PREFIX_MARK}") in given.truncated:
            return Evaluation(
                Truth.BROKEN,
                f'{self.where}: {why}: more than {PREFIXED_MOST} facts begin with "{APPROVAL}:", and only '
                f"{PREFIXED_MOST} are read",
            )
        return self.unmet(why)


def _is_approval(value: Any) -> bool:  # noqa: ANN401 - any JSON
    given = value.get("approved") if isinstance(value, dict) else value
    return given is True or given == "approved"


@dataclass(frozen=True, slots=True)
class UserAction(Condition):
    """Holds while a fact records that a user, or any user, has performed an action, such as signing."""

    target: tuple[str, str]
    action: str
    #: None: any user.
    user: str | None

    def add_needs(self, needs: Needs) -> None:
        """Add the facts that record the user action to `needs`."""
        names = (self._name, f"{self._name}{PREFIX_MARK}") if self.user is None else (self._name,)
        needs.facts |= {FactKey(*self.target, name) for name in names}

    def evaluate(self, given: EvaluationInput) -> Evaluation:
        """Search for a fact that records the user action; the values false and null withdraw it."""
        given.budget.spend(len(given.facts) // _FACTS_A_STEP)
        if any(
            key[:2] == self.target
            and (key.name == self._name or (self.user is None and key.name.startswith(f"{self._name}:")))
            and fact.value is not False
            and fact.value is not None
            for key, fact in given.facts.items()
        ):
            return MET
        who = "no user has" if self.user is None else f"{self.user} has not"
        return self.unmet(f"{who} {self.action} {' '.join(self.target)}")

    @property
    def _name(self) -> str:
        """The name of the fact; if any user may act, names with a user as suffix count as well."""
        return f"{USER_ACTION}:{self.action}" if self.user is None else f"{USER_ACTION}:{self.action}:{self.user}"


@dataclass(frozen=True, slots=True)
class TimeElapsed(Condition):
    """Holds once a duration has passed since the action's creation, an instant, or the last change of a fact."""

    seconds: float
    #: None: the action's creation.
    since: datetime | FactKey | None

    def add_needs(self, needs: Needs) -> None:
        """Add the fact whose change starts the duration, if any, to `needs`."""
        if isinstance(self.since, FactKey):
            needs.facts |= {self.since}

    def evaluate(self, given: EvaluationInput) -> Evaluation:
        """Compare the current time with the end of the duration."""
        since = self.since or given.created_at
        if isinstance(since, FactKey):
            fact = given.facts.get(since)
            if fact is None:
                return self.unmet(f"{since.name} of {since.target_type} {since.target_id} is not known")
            since = fact.changed_at
        try:
            at = since + timedelta(seconds=self.seconds)
        except OverflowError:
            return self.unmet("the duration ends after the year 9999")
        return MET if given.now >= at else self.unmet(f"not before {at.isoformat(timespec='seconds')}", at)


@dataclass(frozen=True, slots=True)
class ActionStatus(Condition):
    """Holds while another action of the same team has one of these statuses."""

    action_id: UUID
    statuses: tuple[str, ...]

    def add_needs(self, needs: Needs) -> None:
        """Add the action to `needs`."""
        needs.actions |= {self.action_id}

    def evaluate(self, given: EvaluationInput) -> Evaluation:
        """Compare the status of the action."""
        state = given.actions.get(self.action_id)
        if state is None:
            return Evaluation(Truth.BROKEN, f"{self.where}: no action has the id {self.action_id}")
        if state.status in self.statuses:
            return MET
        # A row locked by a claim or a settlement could not be marked, so its end wakes no action: check again soon.
        again_at = None if state.is_watched else given.now + timedelta(seconds=1)
        return self.unmet(f"action {self.action_id} is {state.status}, not {' or '.join(self.statuses)}", again_at)


@dataclass(frozen=True, slots=True)
class DeadlineOpen(Condition):
    """Holds while a deadline of the same team is open or, with `or_missed`, missed."""

    deadline_id: UUID
    or_missed: bool

    def add_needs(self, needs: Needs) -> None:
        """Add the deadline to `needs`."""
        needs.deadlines |= {self.deadline_id}

    def evaluate(self, given: EvaluationInput) -> Evaluation:
        """Compare the status of the deadline."""
        status = given.deadlines.get(self.deadline_id)
        if status is None:
            return Evaluation(Truth.BROKEN, f"{self.where}: no deadline has the id {self.deadline_id}")
        is_open = status == "open" or (self.or_missed and status == "missed")
        return MET if is_open else self.unmet(f"deadline {self.deadline_id} is {status}")


@dataclass(frozen=True, slots=True)
class ExternalCondition(Condition):
    """Holds while an external check succeeds: a named query, an HTTP request or a project function."""

    check: ExternalCheck

    def add_needs(self, needs: Needs) -> None:
        """Add the check to `needs`."""
        needs.checks += (self.check,)

    def evaluate(self, given: EvaluationInput) -> Evaluation:
        """Convert the result of the check to an evaluation: `OPEN` before the check has run."""
        result = None if given.results is None else given.results.get(self.check)
        if result is None:
            return Evaluation(Truth.OPEN, f"{self.where}: not checked yet")
        truth = Truth.BROKEN if result.is_broken else Truth.UNMET
        return MET if result.is_met else Evaluation(truth, f"{self.where}: {result.found}")


@dataclass(frozen=True, slots=True)
class Combination(Condition):
    """A condition made of other conditions."""

    parts: tuple[Condition, ...]

    def add_needs(self, needs: Needs) -> None:
        """Add the needs of all parts to `needs`."""
        for part in self.parts:
            part.add_needs(needs)

    def evaluate_parts(self, given: EvaluationInput) -> tuple[list[Evaluation], datetime | None]:
        """Return the evaluation of each part, and when time alone may change one of them; None: never.

        Raises:
            BudgetExceeded: Evaluation takes more steps than `given.budget` has left.
        """
        given.budget.spend(len(self.parts))
        evaluations = [part.evaluate(given) for part in self.parts]
        return evaluations, min((one.changes_at for one in evaluations if one.changes_at is not None), default=None)


class AllOf(Combination):
    """Holds while every part holds."""

    def evaluate(self, given: EvaluationInput) -> Evaluation:
        """Return the evaluation of the deciding part: unmet takes precedence over open, and open over broken.

        Without such a part, the condition is met.
        """
        evaluations, changes_at = self.evaluate_parts(given)
        return (_first(evaluations, Truth.UNMET, Truth.OPEN, Truth.BROKEN) or MET)._replace(changes_at=changes_at)


class AnyOf(Combination):
    """Holds while at least one part holds."""

    def evaluate(self, given: EvaluationInput) -> Evaluation:
        """Return the evaluation of the deciding part: met takes precedence over open, and open over broken.

        Without such a part, the condition is not met, with the reasons of all parts.
        """
        evaluations, changes_at = self.evaluate_parts(given)
        deciding = _first(evaluations, Truth.MET, Truth.OPEN, Truth.BROKEN)
        if deciding is not None:
            # Also for a met part: under a `not`, time alone may then meet the condition.
            return deciding._replace(changes_at=changes_at)
        reasons = [one.reason for one in evaluations]
        return Evaluation(
            Truth.UNMET,
            reasons[0] if len(reasons) == 1 else f"none of {len(reasons)} holds: {'; '.join(reasons)}",
            changes_at,
        )


@dataclass(frozen=True, slots=True)
class Not(Combination):
    """Holds while its part does not hold; broken if its part cannot be evaluated."""

    #: The part as JSON, for the reason.
    source: object

    def evaluate(self, given: EvaluationInput) -> Evaluation:
        """Negate the evaluation of the part; return it unchanged if it is open or broken."""
        (evaluation,) = self.evaluate_parts(given)[0]
        if evaluation.truth is Truth.UNMET:
            return Evaluation(Truth.MET, changes_at=evaluation.changes_at)
        if evaluation.truth is not Truth.MET:
            return evaluation
        source = short_text(json.dumps(self.source, ensure_ascii=False), _SHOWN_MOST)
        return self.unmet(f"this condition holds but must not: {source}", evaluation.changes_at)


def _first(evaluations: Sequence[Evaluation], *truths: Truth) -> Evaluation | None:
    """Return the first evaluation of the first of these truths that occurs."""
    return next((one for truth in truths for one in evaluations if one.truth is truth), None)
