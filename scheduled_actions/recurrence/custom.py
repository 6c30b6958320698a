"""Functions of the project as rules (`custom:payday`) and as skips: their answers are checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from scheduled_actions.core.errors import FunctionTimedOut, NeverOccurs, RecurrenceInvalid
from scheduled_actions.recurrence.model import HORIZON_YEARS, Kind, Occurrence, Rule
from scheduled_actions.recurrence.phrases import nearest
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from zoneinfo import ZoneInfo

    from scheduled_actions.core.evaluation_budget import EvaluationBudget

    NextFunction: TypeAlias = Callable[[datetime], datetime | None]
    SkipFunction: TypeAlias = Callable[[datetime], bool | str]

#: What a rule begins with that is a function.
PREFIX = "custom:"

_HORIZON = timedelta(days=HORIZON_YEARS * 366)
_ONE_MICROSECOND = timedelta(microseconds=1)
#: Characters of an answer, or of an error, that a message repeats.
_REPEATED_MOST = 200


@dataclass(frozen=True, slots=True, eq=False)
class Functions:
    """The functions that rules and skips may name.

    Each takes an aware datetime in the schedule's zone, and answers the same for the same instant.
    """

    #: Answers the first instant strictly after the given one; None: no more.
    next: Mapping[str, NextFunction] = field(default_factory=dict)
    #: Whether an occurrence at that instant is skipped; a text says yes, and why.
    skip: Mapping[str, SkipFunction] = field(default_factory=dict)


#: Of a project that has none.
NO_FUNCTIONS = Functions()


def parse_custom(text: str, *, zone: ZoneInfo, since: datetime, functions: Functions) -> Rule:
    """Return the rule of the function that `text` names after `custom:`; nothing occurs before `since`.

    Raises:
        RecurrenceInvalid: No function of that name is registered.
    """
    name = text.strip()[len(PREFIX) :].strip()
    if name not in functions.next:
        raise RecurrenceInvalid(text, unregistered(name, functions.next, decorator="next_occurrence"))
    return _CustomRule(text, zone, since.astimezone(UTC), name, functions.next[name])


def is_skipped(at: datetime, *, name: str, function: SkipFunction) -> str | None:
    """Return why the function skips an instant, None where it does not.

    Args:
        at: Aware, in the schedule's zone.
        name: What the function is called in errors.
        function: Is asked.

    Raises:
        RecurrenceInvalid: It failed, or answered something else.
    """
    answer = _called(function, at, name)
    if isinstance(answer, bool):
        return f"is skipped ({name})" if answer else None
    if isinstance(answer, str) and answer:
        return f"is skipped ({_short(answer)})"
    raise RecurrenceInvalid(
        name,
        f"the function answered {_shown(answer, repr)} about {at.isoformat()}: True, False or a reason was expected",
    )


def unregistered(name: str, known: Mapping[str, Any], *, decorator: str) -> str:
    """Return the problem of a function's name that is not among the known ones."""
    near = nearest(name, known)
    if near:
        hint = f'did you mean "{near}"?'
    elif known:
        hint = f"known are {_short(', '.join(sorted(known)))}"
    else:
        hint = f"declare one in handlers/ with @{decorator}"
    return f'no function is registered as "{_short(name)}"; {hint}'


@dataclass(frozen=True, slots=True, eq=False)
class _CustomRule:
    text: str
    zone: ZoneInfo
    since: datetime
    name: str
    function: NextFunction
    kind: Kind = "custom"
    ending: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """Which function says when."""
        return f'When the function "{self.name}" says'

    def next_after(self, moment: datetime, _budget: EvaluationBudget | None = None) -> Occurrence | None:
        """Return what the function answers; None once it answers None.

        Raises:
            RecurrenceInvalid: It failed, or its answer is no instant strictly after `moment`.
            NeverOccurs: Its answer is more than thirty years away.
        """
        after = max(moment.astimezone(UTC), self.since - _ONE_MICROSECOND)
        asked = after.astimezone(self.zone)
        answer = _called(self.function, asked, self.name)
        if answer is None:
            return None
        occurrence = self._occurrence(answer, asked)
        if occurrence.at <= after:
            raise self._unfit(answer, asked, "an instant strictly after it")
        if occurrence.at - after > _HORIZON:
            raise NeverOccurs(self.text, f"the next occurrence is more than {HORIZON_YEARS} years away")
        return occurrence

    def _occurrence(self, answer: object, asked: datetime) -> Occurrence:
        if not isinstance(answer, datetime):
            raise self._unfit(answer, asked, "a datetime or None")
        try:
            if answer.utcoffset() is not None:
                return Occurrence(answer.astimezone(UTC))
            at, remark = resolve(answer.replace(tzinfo=None, fold=0), self.zone)
        except OverflowError:
            raise self._unfit(answer, asked, "an instant between the years 1 and 9999") from None
        return Occurrence(at, (remark,) if remark else ())

    def _unfit(self, answer: object, asked: datetime, expected: str) -> RecurrenceInvalid:
        shown = answer.isoformat() if isinstance(answer, datetime) else _shown(answer, repr)
        problem = f"the function answered {shown} when asked after {asked.isoformat()}: {expected} was expected"
        return RecurrenceInvalid(self.text, problem)


def _called(function: Callable[[datetime], Any], moment: datetime, name: str) -> Any:  # noqa: ANN401 - judged by the callers
    try:
        return function(moment)
    except FunctionTimedOut:
        # Not a defect of the rule: another time it may return in time.
        raise
    except Exception as error:
        problem = f'the function "{name}" failed at {moment.isoformat()}: {type(error).__name__}: {_shown(error, str)}'
        raise RecurrenceInvalid(f"{name}", problem) from error


def _shown(value: object, text_of: Callable[[object], str]) -> str:
    """Return a value of the project as a message shows it: its text may be long, or none."""
    try:
        return _short(text_of(value))
    except BaseException:  # noqa: BLE001 - the project's own code, `SystemExit` included
        return f"{type(value).__name__} without a text"


def _short(text: str) -> str:
    return text if len(text) <= _REPEATED_MOST else f"{text[: _REPEATED_MOST - 1]}…"
