"""The kinds of conditions that are judged by what the tables say: facts, other actions, deadlines and time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from scheduled_actions.conditions.rules.model import MET, PREFIX_MARK, FactKey, Truth, Verdict
from scheduled_actions.conditions.rules.pointer import MISSING, found_at
from scheduled_actions.core.errors.families import short

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from scheduled_actions.conditions.rules.model import Fact, Known, Needs, Outside

#: Facts that are looked at for one name that stands for all that begin so.
PREFIXED_MOST = 200
#: Bytes of a list or an object, characters of a text, and facts that are gone through in one step.
_BYTES_A_STEP = 64
_CHARACTERS_A_STEP = 1024
_FACTS_A_STEP = 12


@dataclass(frozen=True, slots=True)
class _Inside:
    """Where in the whole it stands, for what is said of it."""

    where: str

    def outsides(self) -> tuple[Outside, ...]:
        """Return nothing: the tables know it all."""
        return ()

    def unmet(self, why: str, changes_at: datetime | None = None) -> Verdict:
        """Return that it is not met, and why."""
        return Verdict(Truth.UNMET, f"{self.where}: {why}", changes_at)


def compares(operator: str, value: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether a value stands to the wanted one as the operator says. What cannot be compared does not."""
    return _OPERATORS[operator](value, wanted)


def _same(value: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON
    # In JSON true is not 1, as it is in Python.
    return isinstance(value, bool) is isinstance(wanted, bool) and bool(value == wanted)


def _ordered(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(value: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON
        return _is_comparable(value, wanted) and holds(value, wanted)

    return compare


def _is_comparable(value: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(value, bool) or isinstance(wanted, bool):
        return False
    return all(isinstance(one, int | float) for one in (value, wanted)) or all(
        isinstance(one, str) for one in (value, wanted)
    )


def _contains(value: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return isinstance(wanted, str) and wanted in value
    return isinstance(value, list) and any(_same(one, wanted) for one in value)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _same,
    "ne": lambda value, wanted: not _same(value, wanted),
    "lt": _ordered(lambda value, wanted: value < wanted),
    "lte": _ordered(lambda value, wanted: value <= wanted),
    "gt": _ordered(lambda value, wanted: value > wanted),
    "gte": _ordered(lambda value, wanted: value >= wanted),
    "in": lambda value, wanted: any(_same(value, one) for one in wanted),
    "not_in": lambda value, wanted: not any(_same(value, one) for one in wanted),
    "contains": _contains,
    "exists": lambda _, wanted: wanted is True,
}
OPERATORS = tuple(_OPERATORS)
_WORDS = {
    "eq": "", "ne": "anything but ", "lt": "below ", "lte": "at most ", "gt": "above ", "gte": "at least ",
    "in": "one of ", "not_in": "none of ", "contains": "something with ",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldValue(_Inside):
    """Holds while a fact's value, or what a pointer finds in it, compares as it should; not while it is unknown."""

    key: FactKey
    pointer: str
    operator: str
    wanted: Any

    def add_needs(self, needs: Needs) -> None:
        """Add its fact."""
        needs.facts.add(self.key)

    def judge(self, known: Known) -> Verdict:
        """Compare."""
        fact = known.facts.get(self.key)
        value = MISSING if fact is None else found_at(self.pointer, fact.value)
        name = f"{self.key.name}{self.pointer} of {self.key.target_type} {self.key.target_id}"
        if self.operator == "exists":
            is_there = value is not MISSING
            return MET if is_there is self.wanted else self.unmet(f"{name} is {'known' if is_there else 'not known'}")
        if fact is None or value is MISSING:
            return self.unmet(f"{name} is not known")
        if isinstance(value, dict | list):
            known.budget.spend(fact.size // _BYTES_A_STEP)
        elif isinstance(value, str):
            known.budget.spend(len(value) // _CHARACTERS_A_STEP)
        if compares(self.operator, value, self.wanted):
            return MET
        return self.unmet(f"{name} is {short(value)}, not {_WORDS[self.operator]}{short(self.wanted)}")


@dataclass(frozen=True, slots=True)
class ApprovalComplete(_Inside):
    """Holds while enough people have approved: of those named, or any."""

    target_type: str
    target_id: str
    required: int
    #: None: whoever does.
    approvers: tuple[str, ...] | None

    def add_needs(self, needs: Needs) -> None:
        """Add the approvals."""
        names = ("*",) if self.approvers is None else self.approvers
        needs.facts.update(FactKey(self.target_type, self.target_id, f"{APPROVAL}:{name}") for name in names)

    def judge(self, known: Known) -> Verdict:
        """Count."""
        known.budget.spend(len(known.facts) // _FACTS_A_STEP)
        given = sorted(
            key.name.removeprefix(f"{APPROVAL}:")
            for key, fact in known.facts.items()
            if key[:2] == (self.target_type, self.target_id)
            and key.name.startswith(f"{APPROVAL}:")
            and _is_approval(fact.value)
        )
        counted = given if self.approvers is None else [name for name in self.approvers if name in given]
        if len(counted) >= self.required:
            return MET
        why = f"{len(counted)} of {self.required} approvals of {self.target_type} {self.target_id}"
        if self.approvers is not None:
            missing = [name for name in self.approvers if name not in given]
            why += f"; not yet by {', '.join(missing[:10])}"
        elif FactKey(self.target_type, self.target_id, f"{APPROVAL}{PREFIX_MARK}") in known.cut:
            counted_most = f'more than {PREFIXED_MOST} facts begin with "{APPROVAL}:", and no more are looked at'
            return Verdict(Truth.BROKEN, f"{self.where}: {why}: {counted_most}")
        return self.unmet(why)


#: Names of the facts: `approval:ann` with true, "approved", or {"approved": true}.
APPROVAL = "approval"


def _is_approval(value: Any) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        value = value.get("approved")
    return value is True or value == "approved"


@dataclass(frozen=True, slots=True)
class UserAction(_Inside):
    """Holds once a user has done something: this one, or anybody."""

    target_type: str
    target_id: str
    action: str
    #: None: whoever.
    user: str | None

    def _names(self) -> tuple[str, ...]:
        name = f"{USER_ACTION}:{self.action}"
        return (name, f"{name}{PREFIX_MARK}") if self.user is None else (f"{name}:{self.user}",)

    def add_needs(self, needs: Needs) -> None:
        """Add what was done."""
        needs.facts.update(FactKey(self.target_type, self.target_id, name) for name in self._names())

    def judge(self, known: Known) -> Verdict:
        """Look for one; false, or null, takes it back."""
        known.budget.spend(len(known.facts) // _FACTS_A_STEP)
        for key, fact in known.facts.items():
            if key[:2] == (self.target_type, self.target_id) and self._is_meant(key.name) and _is_so(fact):
                return MET
        who = "nobody" if self.user is None else f"not yet {self.user}:"
        return self.unmet(f"{who} {self.action} {self.target_type} {self.target_id}")

    def _is_meant(self, name: str) -> bool:
        exact = f"{USER_ACTION}:{self.action}" if self.user is None else f"{USER_ACTION}:{self.action}:{self.user}"
        return name == exact or (self.user is None and name.startswith(f"{exact}:"))


#: Names of the facts: `user_action:signed`, or `user_action:signed:ann`.
USER_ACTION = "user_action"


def _is_so(fact: Fact) -> bool:
    return fact.value is not False and fact.value is not None


@dataclass(frozen=True, slots=True)
class TimeElapsed(_Inside):
    """Holds once so much time has passed since the action was created, an instant, or the change of a fact."""

    seconds: float
    #: None: the action's creation.
    since: datetime | FactKey | None

    def add_needs(self, needs: Needs) -> None:
        """Add the fact, where it counts from one."""
        if isinstance(self.since, FactKey):
            needs.facts.add(self.since)

    def judge(self, known: Known) -> Verdict:
        """Look at the clock."""
        since: datetime | None
        if isinstance(self.since, FactKey):
            fact = known.facts.get(self.since)
            since = None if fact is None else fact.changed_at
        else:
            since = self.since or known.created_at
        if since is None:
            return self.unmet("what the time is counted from is not known")
        try:
            at = since + timedelta(seconds=self.seconds)
        except OverflowError:
            return self.unmet("the time ends beyond the year 9999")
        return MET if known.now >= at else self.unmet(f"not before {at.isoformat(timespec='seconds')}", at)


@dataclass(frozen=True, slots=True)
class ActionStatus(_Inside):
    """Holds while another action of the same team stands in one of these statuses."""

    action_id: UUID
    statuses: tuple[str, ...]

    def add_needs(self, needs: Needs) -> None:
        """Add the action."""
        needs.actions.add(self.action_id)

    def judge(self, known: Known) -> Verdict:
        """Look at it."""
        state = known.actions.get(self.action_id)
        if state is None:
            return Verdict(Truth.BROKEN, f"{self.where}: no action has the id {self.action_id}")
        if state.status in self.statuses:
            return MET
        # One that was just being claimed or settled could not be marked as waited for: it is looked at again soon.
        again_at = None if state.is_watched else known.now + timedelta(seconds=1)
        return self.unmet(f"action {self.action_id} is {state.status}, not {' or '.join(self.statuses)}", again_at)


@dataclass(frozen=True, slots=True)
class DeadlineOpen(_Inside):
    """Holds while a deadline of the same team is open; also once it is missed, where that counts."""

    deadline_id: UUID
    or_missed: bool

    def add_needs(self, needs: Needs) -> None:
        """Add the deadline."""
        needs.deadlines.add(self.deadline_id)

    def judge(self, known: Known) -> Verdict:
        """Look at it."""
        state = known.deadlines.get(self.deadline_id)
        if state is None:
            return Verdict(Truth.BROKEN, f"{self.where}: no deadline has the id {self.deadline_id}")
        is_open = state.status == "open" or (self.or_missed and state.status == "missed")
        return MET if is_open else self.unmet(f"deadline {self.deadline_id} is {state.status}")


@dataclass(frozen=True, slots=True)
class AskOutside:
    """Holds while the world says so: a named query, an HTTP answer, or a function of the project."""

    where: str
    outside: Outside

    def add_needs(self, needs: Needs) -> None:
        """Add nothing: the tables do not know it."""

    def outsides(self) -> tuple[Outside, ...]:
        """Return what to ask."""
        return (self.outside,)

    def judge(self, known: Known) -> Verdict:
        """Go by the answer; open until there is one."""
        answer = None if known.answers is None else known.answers.get(self.outside)
        if answer is None:
            return Verdict(Truth.OPEN, f"{self.where}: not asked yet")
        if answer.is_met:
            return MET
        return Verdict(Truth.BROKEN if answer.is_broken else Truth.UNMET, f"{self.where}: {answer.found}")
