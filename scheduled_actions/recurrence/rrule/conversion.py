"""A recurrence of any kind as an RRULE, where one says the same: for calendars, which know nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import NeverOccurs, RecurrenceInvalid
from scheduled_actions.recurrence.cron.fields import Fields, read_fields
from scheduled_actions.recurrence.cron.rule import first_change
from scheduled_actions.recurrence.intervals.grammar import parse_length
from scheduled_actions.recurrence.rrule.parts import DAYS
from scheduled_actions.recurrence.rrule.rule import parse_rrule
from scheduled_actions.recurrence.rrule.text import read_text

if TYPE_CHECKING:
    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.recurrence.compiling import Recurrence
    from scheduled_actions.recurrence.rrule.rule import RRule

#: How far both must say the same, where few occurrences are compared: a year has every clock change in it.
_HORIZON = timedelta(days=400)
#: Where there are more: to the end of a second month, and around each clock change.
_FEW = 62
_TWO_MONTHS = timedelta(days=62)
_AROUND_A_CHANGE = timedelta(days=2)
#: How far a rule with skips is written: its exceptions are listed, so that the rule ends there.
_SKIPS_HORIZON = timedelta(days=190)
_COMPARED_MOST = 800
#: More exceptions than this make a long event of a short rule.
_EXCEPTIONS_MOST = 50
_MICROSECONDS_AN_HOUR = 3_600_000_000
_MONTHS_A_YEAR = 12
_MOMENT = timedelta(microseconds=1)
_STAMP = "%Y%m%dT%H%M%S"
_UTC = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class RRuleForm:
    """An RRULE that says the same as a recurrence from its start on."""

    #: `FREQ=WEEKLY;BYDAY=MO`, without its name.
    rule: str
    #: The first occurrence: aware, in the zone whose wall clock the rule follows.
    start: datetime
    #: Instants of the rule that are none of the recurrence; aware, in the same zone.
    exceptions: tuple[datetime, ...] = ()


def as_rrule(recurrence: Recurrence, start: datetime, *, remaining: int | None = None) -> RRuleForm | None:
    """Return the RRULE that names the same instants from `start` on, clock changes included; None where none is found.

    With skips it names those of the next half year, and ends there: its exceptions are listed as far.

    There is none where a clock change moves an occurrence otherwise than RFC 5545 would, for days that give way to the
    end of a month, for holidays that are moved, and for functions of the project.

    Args:
        recurrence: Of any kind.
        start: One of its occurrences; aware.
        remaining: How many there are from `start` on; None: no such end.

    Raises:
        BudgetExceeded: The recurrence has not enough steps left.
    """
    if start.microsecond:
        return None
    if recurrence.has_skips:
        stretches = [_compared(recurrence, start - _MOMENT, start + _SKIPS_HORIZON, remaining)]
    else:
        stretches = [_compared(recurrence, start - _MOMENT, start + _HORIZON, remaining, most=_FEW)]
        if len(stretches[0].instants) == _FEW != remaining:
            stretches = _sampled(recurrence, start, remaining)
    if not stretches[0].instants:
        return None
    for rule, zone in _candidates(recurrence):
        last = stretches[0].instants[-1] if recurrence.has_skips else recurrence.until
        ended = ";".join([rule, *_ends(last, None if recurrence.has_skips else remaining)])
        exceptions = _exceptions(ended, start.astimezone(zone), zone, stretches, recurrence.budget)
        if exceptions is not None and (recurrence.has_skips or not exceptions):
            return RRuleForm(ended, start.astimezone(zone), tuple(at.astimezone(zone) for at in exceptions))
    return None


class _Stretch(NamedTuple):
    """A time in which a recurrence and a candidate are compared."""

    #: Exclusive.
    since: datetime
    until: datetime
    instants: list[datetime]


def _compared(
    recurrence: Recurrence, since: datetime, until: datetime, remaining: int | None, *, most: int = _COMPARED_MOST
) -> _Stretch:
    """Return the recurrence's instants in a stretch, which ends with the last of them where there are too many."""
    most = most if remaining is None else min(remaining, most)
    instants = [one.at for one in recurrence.between(since, until, limit=most)]
    return _Stretch(since, instants[-1] if len(instants) == most else until, instants)


def _sampled(recurrence: Recurrence, start: datetime, remaining: int | None) -> list[_Stretch]:
    """Return the first two months, and the days around each clock change of a year."""
    stretches = [_compared(recurrence, start - _MOMENT, start + _TWO_MONTHS, remaining)]
    at, end = start, start + _HORIZON
    while remaining is None and (change := first_change(recurrence.clock_zone, at, end)) is not None:
        stretches.append(_compared(recurrence, change - _AROUND_A_CHANGE, change + _AROUND_A_CHANGE, None))
        at = change
    return stretches


def _exceptions(
    rule: str, start: datetime, zone: ZoneInfo, stretches: list[_Stretch], budget: EvaluationBudget
) -> list[datetime] | None:
    """Return the instants of a rule other than the given ones; None if they are too many, or a given one is missing."""
    text = f"DTSTART;TZID={zone.key}:{start:{_STAMP}}\nRRULE:{rule}"
    exceptions: list[datetime] = []
    try:
        candidate = parse_rrule(text, zone=zone, anchor=start, budget=budget)
        for since, until, instants in stretches:
            named = _named(candidate, since, until, budget)
            wanted = set(instants)
            exceptions += [at for at in named if at not in wanted]
            if not wanted.issubset(named) or len(exceptions) > _EXCEPTIONS_MOST:
                return None
    except (RecurrenceInvalid, NeverOccurs):
        return None
    return exceptions


def _named(candidate: RRule, since: datetime, until: datetime, budget: EvaluationBudget) -> list[datetime]:
    """Return the instants of a candidate in a stretch, as far as that many can be the same."""
    found: list[datetime] = []
    moment = since
    while (one := candidate.next_after(moment, budget)) is not None and one.at <= until:
        found.append(one.at)
        moment = one.at
        if len(found) > _COMPARED_MOST + _EXCEPTIONS_MOST:
            break
    return found


def _ends(until: datetime | None, remaining: int | None) -> list[str]:
    if remaining is not None:
        return [f"COUNT={remaining}"]
    return [] if until is None else [f"UNTIL={until.astimezone(UTC):{_STAMP}}Z"]


def _candidates(recurrence: Recurrence) -> list[tuple[str, ZoneInfo]]:
    """Return rules that may say the same, each with the zone whose clock it follows."""
    match recurrence.kind:
        case "interval":
            return _of_interval(recurrence)
        case "cron":
            return [(rule, recurrence.zone) for rule in _of_cron(read_fields(recurrence.text))]
        case "rrule":
            written = read_text(recurrence.text)
            if written.parts.count or written.dates:
                return []
            # Real time: in UTC no clock change touches it.
            return [(written.parts.text, _UTC if written.parts.is_exact else recurrence.clock_zone)]
        case _:
            return []


def _of_interval(recurrence: Recurrence) -> list[tuple[str, ZoneInfo]]:
    length = parse_length(recurrence.text)
    match (length.months, length.days, length.microseconds):
        case (0, 0, exact) if exact % _MICROSECONDS_AN_HOUR == 0:
            return [(f"FREQ=HOURLY;INTERVAL={exact // _MICROSECONDS_AN_HOUR}", _UTC)]
        case (months, 0, 0) if months:
            unit, count = ("YEARLY", months // _MONTHS_A_YEAR) if months % _MONTHS_A_YEAR == 0 else ("MONTHLY", months)
        case (0, days, 0):
            unit, count = ("WEEKLY", days // 7) if days % 7 == 0 else ("DAILY", days)
        case _:
            return []
    return [(f"FREQ={unit}" + (f";INTERVAL={count}" if count > 1 else ""), recurrence.zone)]


def _of_cron(fields: Fields) -> list[str]:
    """Return the rule of an expression that names days by one of its day fields at most."""
    times = _by("BYHOUR", _numbers(fields.hour, 0, 23)) + _by("BYMINUTE", _numbers(fields.minute, 0, 59))
    months = "" if fields.month == "*" else _by("BYMONTH", _numbers(fields.month, 1, 12))
    match (fields.day_of_month == "*", fields.day_of_week == "*"):
        case (True, True):
            return [f"FREQ=DAILY{months}{times}"]
        case (False, True):
            days = "-1" if fields.day_of_month == "L" else ",".join(_numbers(fields.day_of_month, 1, 31))
            return [f"FREQ=MONTHLY{months};BYMONTHDAY={days}{times}"]
        case (True, False):
            special = _special_days(fields.day_of_week)
            if special is not None:
                return [f"FREQ=MONTHLY{months};BYDAY={special}{times}"]
            days = ",".join(sorted({_day(number) for number in _numbers(fields.day_of_week, 0, 7)}, key=DAYS.index))
            return [f"FREQ=WEEKLY{months};BYDAY={days}{times}"]
        case _:
            return []


def _special_days(field: str) -> str | None:
    """Return `2FR` for `5#2` and `-1FR` for `L5`; None where days are named without their place in the month."""
    items = field.split(",")
    if not all("#" in item or item.startswith("L") for item in items):
        return None
    parted = [("-1", item[1:]) if item.startswith("L") else tuple(reversed(item.split("#"))) for item in items]
    return ",".join(f"{nth}{_day(day)}" for nth, day in parted)


def _day(number: str) -> str:
    """Return a day of the week, 0 and 7 being Sunday, as BYDAY has it."""
    return DAYS[(int(number) - 1) % 7]


def _by(name: str, numbers: list[str]) -> str:
    return f";{name}={','.join(numbers)}"


def _numbers(field: str, low: int, high: int) -> list[str]:
    """Return the values of a checked field, in order."""
    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        first, dash, last = span.partition("-")
        if span == "*":
            values = range(low, high + 1)
        elif not first.isdigit() or (dash and not last.isdigit()):
            continue  # "L" beside numbers: the comparison finds it missing.
        else:
            values = range(int(first), int(last if dash else first) + 1)
        found.update(islice(values, 0, None, int(step or 1)))
    return [str(value) for value in sorted(found)]
