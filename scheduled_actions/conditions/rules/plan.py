"""The wait plan of an action: stored in the row as JSON, and evaluated before the action is dispatched."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from scheduled_actions.conditions.model import MET, Condition, Evaluation, EvaluationInput, Needs, Truth
from scheduled_actions.conditions.rules.kinds import ActionStatus, AllOf
from scheduled_actions.conditions.rules.parsing import parse_condition, parse_seconds
from scheduled_actions.core import json_text
from scheduled_actions.core.errors import BudgetExceeded, InvalidArgument
from scheduled_actions.core.messages import did_you_mean
from scheduled_actions.core.stored_values import parse_uuid

#: Maximum size of a stored condition, in bytes of JSON.
CONDITION_LIMIT = 16 * 1024
#: The default interval between two checks in seconds; a change that wakes the action causes an earlier check.
CHECK_SECONDS = 60.0
_MAX_AFTER = 100
_MAX_CHECKS = 1_000_000
#: The fields of a wait. Without `wait`, the others limit the wait for predecessors.
_WAIT_FIELDS = ("wait", "check_interval", "max_checks", "on_timeout", "timeout")
_WAIT_FIELDS_SET = frozenset(_WAIT_FIELDS)


@dataclass(slots=True, kw_only=True)
class WaitPlan:
    """The conditions under which an action runs, and the limits of its wait for them.

    It must not be changed, because actions with the same condition share it. It is not frozen, because a frozen one
    takes twice as long to create, and most actions have a condition of their own.
    """

    #: Holds while all predecessors have completed; None without predecessors.
    after: Condition | None = None
    condition: Condition | None = None
    #: Whether the action waits until the condition is met; otherwise, it is skipped if the condition is not met.
    waits: bool = False
    #: The interval between two checks, unless only a change can meet the condition.
    check_seconds: float = CHECK_SECONDS
    #: The longest wait, counted from the first check; None: no limit.
    timeout_seconds: float | None = None
    #: The maximum number of checks; None: no limit.
    max_checks: int | None = None
    #: The actions to schedule when the wait ends unmet, in the form that the SQL function `schedule_actions` takes.
    on_timeout: tuple[Mapping[str, Any], ...] = ()
    _needs: Needs | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def is_waiting(self) -> bool:
        """Whether the action waits: for its predecessors, for its condition, or for both."""
        return self.waits or self.after is not None

    def needs(self) -> Needs:
        """Return the rows that an evaluation of the plan reads, and its external checks; they must not be changed."""
        if self._needs is None:
            needs = Needs()
            for part in (self.after, self.condition):
                if part is not None:
                    part.add_needs(needs)
            self._needs = needs
        return self._needs


class NextStep(Enum):
    """The next step of an action after an evaluation."""

    RUN = "run"
    #: Stays pending until the next check.
    WAIT = "wait"
    #: Ends as skipped.
    SKIP = "skip"
    #: Ends as skipped after the wait's limit, and `on_timeout` is scheduled.
    EXPIRE = "expire"
    #: The condition cannot be evaluated; this counts as a failed attempt.
    FAIL = "fail"
    #: An external check has to run first.
    CHECK = "check"


@dataclass(frozen=True, slots=True)
class WaitProgress:
    """The start of an action's wait, and its number of checks."""

    #: The instant of the first check; None before the first check.
    since: datetime | None = None
    #: Number of checks so far.
    checks: int = 0


class Decision(NamedTuple):
    """The next step of an action, and the reason."""

    next_step: NextStep
    reason: str = ""
    #: When time alone may change the decision, including the end of the wait; None: never.
    changes_at: datetime | None = None
    #: The interval to the next check of a wait; None: until a change, or `changes_at`.
    check_seconds: float | None = None
    #: Whether a failure must not be retried.
    is_final: bool = False


def encode_plan(condition: Any) -> str:  # noqa: ANN401 - any JSON
    """Validate a condition; return it as the JSON text that the action's row stores.

    Args:
        condition: A condition, evaluated once; or `{"wait": condition, "check_interval": …, "timeout": …,
            "max_checks": …, "on_timeout": […]}`, the last in the form that the SQL function `schedule_actions` takes.
            Without `wait`, it limits the wait for predecessors.

    Raises:
        InvalidArgument: The value is not a condition; the message contains the path.
        TooLarge: The JSON text exceeds `CONDITION_LIMIT`.
    """
    text = json_text.encode("condition", condition, limit=CONDITION_LIMIT)
    parse_plan(json_text.decode(text, name="condition"))
    return text


def is_wait(condition: Mapping[str, Any]) -> bool:
    """Return whether a condition has fields of a wait."""
    return not condition.keys().isdisjoint(_WAIT_FIELDS)


@lru_cache(maxsize=1024)
def decode_plan(text: str) -> WaitPlan:
    """Parse the plan that an action's row stores.

    Args:
        text: A condition, or `{"after": [ids], "condition": condition}`.

    Raises:
        InvalidArgument: The text is not a plan, or has only limits of a wait; direct SQL can store any JSON.
    """
    stored = json_text.decode(text, name="condition")
    if not isinstance(stored, dict) or "after" not in stored:
        plan = parse_plan(stored)
        if plan.condition is None:
            raise InvalidArgument(
                "condition",
                problem='limits a wait, but there is nothing to wait for: add "wait": {"kind": …}, or `after`',
            )
        return plan
    after = stored["after"]
    if not isinstance(after, list) or not 1 <= len(after) <= _MAX_AFTER or set(stored) - {"after", "condition"}:
        raise InvalidArgument(
            "condition.after",
            problem=f"must be a list of 1 to {_MAX_AFTER} ids; `condition` is the only other field allowed",
        )
    ids = [parse_uuid(one) for one in after]
    if None in ids:
        raise InvalidArgument("condition.after", after[ids.index(None)], "the id of an action (a UUID)")
    parts = [ActionStatus(f"after.{number}", one, ("completed",)) for number, one in enumerate(ids) if one is not None]
    return replace(
        WaitPlan() if stored.get("condition") is None else parse_plan(stored["condition"]),
        after=AllOf("after", tuple(parts)),
    )


def parse_plan(given: Any) -> WaitPlan:  # noqa: ANN401 - any JSON
    """Parse a condition in the form of `encode_plan`.

    Raises:
        InvalidArgument: The value is not a condition; the message contains the path.
    """
    if not isinstance(given, dict) or not is_wait(given):
        return WaitPlan(condition=parse_condition(given))
    if not given.keys() <= _WAIT_FIELDS_SET:
        unknown = given.keys() - _WAIT_FIELDS_SET
        name = min(unknown, key=str)
        otherwise = (
            f"the fields are {', '.join(_WAIT_FIELDS)}" if "wait" in given else 'a condition belongs inside "wait"'
        )
        hint = did_you_mean(str(name), _WAIT_FIELDS, otherwise=otherwise)
        raise InvalidArgument(f"condition.{name}", problem=f"is not a field of a wait; {hint}")
    interval, timeout, checks = given.get("check_interval"), given.get("timeout"), given.get("max_checks")
    if checks is not None and (type(checks) is not int or not 1 <= checks <= _MAX_CHECKS):
        raise InvalidArgument("condition.max_checks", checks, f"an integer from 1 to {_MAX_CHECKS:,}")
    return WaitPlan(
        condition=parse_condition(given["wait"], name="condition.wait") if "wait" in given else None,
        waits=True,
        check_seconds=CHECK_SECONDS
        if interval is None
        else parse_seconds(interval, "condition.check_interval", least=1),
        timeout_seconds=None if timeout is None else parse_seconds(timeout, "condition.timeout", least=1),
        max_checks=checks,
        on_timeout=_follow_ups(given.get("on_timeout")),
    )


def _follow_ups(given: Any) -> tuple[Mapping[str, Any], ...]:  # noqa: ANN401 - any JSON
    if isinstance(given, dict):
        return (given,)
    if given is not None and (not isinstance(given, list) or not all(isinstance(one, dict) for one in given)):
        raise InvalidArgument(
            "condition.on_timeout", problem="must be an action to schedule, or a list of such actions"
        )
    return tuple(given or ())


def decide(plan: WaitPlan, given: EvaluationInput, progress: WaitProgress) -> Decision:  # noqa: PLR0911 - one per case
    """Decide the next step of an action.

    Args:
        plan: The conditions under which the action runs.
        given: The data that the plan needs; results of external checks may be missing.
        progress: The start of the action's wait, and its number of checks so far.
    """
    try:
        evaluation = MET if plan.after is None else plan.after.evaluate(given)
        if evaluation.truth is Truth.BROKEN:
            return Decision(NextStep.FAIL, evaluation.reason, is_final=True)
        is_waiting = True
        if evaluation.truth is Truth.MET and plan.condition is not None:
            evaluation, is_waiting = plan.condition.evaluate(given), plan.waits
    except BudgetExceeded as error:
        return Decision(NextStep.FAIL, f"the condition cannot be evaluated: {error}", is_final=True)
    match evaluation.truth:
        case Truth.MET:
            return Decision(NextStep.RUN)
        case Truth.OPEN:
            return Decision(NextStep.CHECK)
        case _ if is_waiting:
            return _wait(plan, given.now, progress, evaluation)
        case Truth.UNMET:
            return Decision(NextStep.SKIP, f"condition_not_met: {evaluation.reason}")
        case Truth.BROKEN:
            return Decision(NextStep.FAIL, f"the condition cannot be evaluated: {evaluation.reason}")


def times_out_at(plan: WaitPlan, since: datetime) -> datetime | None:
    """Return when the timeout of a wait that started at `since` ends; None without a timeout."""
    if plan.timeout_seconds is not None:
        with suppress(OverflowError):
            return since + timedelta(seconds=plan.timeout_seconds)
    return None


def _wait(plan: WaitPlan, now: datetime, progress: WaitProgress, evaluation: Evaluation) -> Decision:
    ends_at = times_out_at(plan, progress.since or now)
    if ends_at is not None and now >= ends_at:
        reason = f"condition_timeout: not met within {plan.timeout_seconds:g} s: {evaluation.reason}"
        return Decision(NextStep.EXPIRE, reason)
    if plan.max_checks is not None and progress.checks + 1 >= plan.max_checks:
        reason = f"max_checks: not met at check {progress.checks + 1}: {evaluation.reason}"
        return Decision(NextStep.EXPIRE, reason)
    # No change is recorded for what an external check reads, nor when a missing action or deadline is created. A
    # limited number of checks limits the time of the wait.
    changes_at = evaluation.changes_at
    if ends_at is not None and (changes_at is None or ends_at < changes_at):
        changes_at = ends_at
    is_polled = plan.max_checks is not None or evaluation.truth is Truth.BROKEN or bool(plan.needs().checks)
    return Decision(NextStep.WAIT, evaluation.reason, changes_at, plan.check_seconds if is_polled else None)


def format_cycle(cycle: Sequence[UUID]) -> str:
    """Return the ids of a cycle as a string: "a -> b -> a"."""
    return " -> ".join(str(one) for one in (*cycle, cycle[0]))
