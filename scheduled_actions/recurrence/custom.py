"""Call project functions as rules (`custom:payday`) and as skips, and check their results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, TypeAlias
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import FunctionTimedOut, NeverOccurs, RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.core.messages import did_you_mean
from scheduled_actions.recurrence.model import HORIZON_YEARS, Kind, Occurrence, Rule, resolve
from scheduled_actions.recurrence.phrases import truncate

NextFunction: TypeAlias = Callable[[datetime], datetime | None]
SkipFunction: TypeAlias = Callable[[datetime], bool | str]

#: The prefix of a rule that calls a project function.
PREFIX = "custom:"

#: Steps of one call of a project function: the call passes to another thread and back, which takes 100 to 200 µs.
CALL_STEPS = 40

#: Maximum number of characters of a result or an error in a message.
_REPEATED_MOST = 200


@dataclass(frozen=True, slots=True, eq=False)
class Functions:
    """The project functions that rules and skips can call, by name.

    Each function takes an aware datetime in the schedule's zone, and must return the same result for the same instant.
    """

    #: Functions of rules: return the first instant strictly after the given one; None: there is none. A naive result
    #: is a wall time in the same zone.
    next: Mapping[str, NextFunction] = field(default_factory=dict)
    #: Functions of skips: return whether an occurrence at that instant is skipped; a string means true, with a reason.
    skip: Mapping[str, SkipFunction] = field(default_factory=dict)


#: The functions of a project without any.
NO_FUNCTIONS = Functions()


def parse_custom(text: str, *, zone: ZoneInfo, since: datetime, functions: Functions) -> Rule:
    """Return the rule that calls the function whose name follows `custom:`; it has no occurrence before `since`.

    Raises:
        RecurrenceInvalid: No function of that name is registered.
    """
    name = text.strip()[len(PREFIX) :].strip()
    if name not in functions.next:
        raise RecurrenceInvalid(text, unregistered(name, functions.next, decorator="next_occurrence"))
    return _CustomRule(text, zone, since.astimezone(UTC), name, functions.next[name])


def skip_reason(at: datetime, *, name: str, function: SkipFunction) -> str | None:
    """Return the reason why a function skips an instant; None if it does not.

    Args:
        at: Aware, in the schedule's zone.
        name: The function's name in errors.
        function: The function to call.

    Raises:
        RecurrenceInvalid: The function failed, or returned neither a boolean nor a non-empty string.
        FunctionTimedOut: The function did not return in time.
    """
    result = _call(function, at, name, argument="skip.function")
    if isinstance(result, bool):
        return f"is skipped ({name})" if result else None
    if isinstance(result, str) and result:
        return f"is skipped ({truncate(result, _REPEATED_MOST)})"
    raise RecurrenceInvalid(
        name,
        f"the function returned {_safe_text(result, repr)} for {at.isoformat()}: expected True, False or a reason "
        "(a non-empty string)",
        name="skip.function",
    )


def unregistered(name: str, known: Mapping[str, Any], *, decorator: str) -> str:
    """Return the error message for a function name that is not registered.

    Args:
        name: The name.
        known: The registered functions of this kind, by name; one may be suggested.
        decorator: The decorator that declares such a function; shown if `known` is empty.
    """
    return f'no function is registered as "{truncate(name, _REPEATED_MOST)}"; ' + did_you_mean(
        name,
        known,
        otherwise=f"known functions: {truncate(', '.join(sorted(known)), _REPEATED_MOST)}"
        if known
        else f"declare one in handlers/ with @{decorator}",
    )


@dataclass(frozen=True, slots=True, eq=False)
class _CustomRule(Rule):
    kind: ClassVar[Kind] = "custom"
    since: datetime
    name: str
    function: NextFunction

    @property
    def description(self) -> str:
        """The rule in words, with the name of the function: 'At the instants that the function "payday" returns'."""
        return f'At the instants that the function "{self.name}" returns'

    def next_after(self, moment: datetime, budget: EvaluationBudget | None = None) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None if the function returns None.

        Raises:
            BudgetExceeded: Not enough steps are left for a call.
            RecurrenceInvalid: The function failed, or returned neither None nor a later instant.
            NeverOccurs: The returned instant is more than thirty years away.
            FunctionTimedOut: The function did not return in time.
        """
        after = max(moment.astimezone(UTC), self.since - datetime.resolution)
        local = after.astimezone(self.zone)
        if budget is not None:
            budget.spend(CALL_STEPS)
        result: object = _call(self.function, local, self.text)
        if result is None:
            return None
        if not isinstance(result, datetime):
            raise self._invalid(_safe_text(result, repr), local, "a datetime or None")
        try:
            occurrence = (
                resolve(result.replace(tzinfo=None, fold=0), self.zone)
                if result.utcoffset() is None
                else Occurrence(result.astimezone(UTC))
            )
        except OverflowError:
            raise self._invalid(result.isoformat(), local, "an instant between the years 1 and 9999") from None
        if occurrence.at <= after:
            raise self._invalid(result.isoformat(), local, "a later instant")
        if occurrence.at - after > timedelta(days=HORIZON_YEARS * 366):
            raise NeverOccurs(self.text, f"the next occurrence is more than {HORIZON_YEARS} years away")
        return occurrence

    def _invalid(self, result: str, local: datetime, expected: str) -> RecurrenceInvalid:
        return RecurrenceInvalid(
            self.text, f"the function returned {result} for {local.isoformat()}: expected {expected}"
        )


def _call(function: Callable[[datetime], Any], moment: datetime, rule: str, *, argument: str = "recurrence") -> Any:  # noqa: ANN401 - checked by the callers
    try:
        return function(moment)
    except FunctionTimedOut:
        # The rule may be valid: a later call may return in time.
        raise
    except Exception as error:
        raise RecurrenceInvalid(
            rule,
            f"the function failed for {moment.isoformat()}: {type(error).__name__}: {_safe_text(error, str)}",
            name=argument,
        ) from error


def _safe_text(value: object, text_of: Callable[[object], str]) -> str:
    """Convert a value from project code to truncated text for a message; if that fails, only name its type."""
    try:
        return truncate(text_of(value), _REPEATED_MOST)
    except BaseException:  # noqa: BLE001 - the project's own code, `SystemExit` included
        return f"a {type(value).__name__} that cannot be shown"
