"""Convert a recurrence of any kind to an equivalent RRULE, if there is one, for calendar programs."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import NeverOccurs, RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.compiling import Recurrence, compile_recurrence
from scheduled_actions.recurrence.cron.fields import Fields, numbers_of, read_fields
from scheduled_actions.recurrence.intervals import parse_length
from scheduled_actions.recurrence.model import clock_changes
from scheduled_actions.recurrence.repeating import frequency_of
from scheduled_actions.recurrence.rrule.parts import DAYS
from scheduled_actions.recurrence.rrule.text import read_text

#: The period in which a recurrence with few occurrences is compared with an RRULE; it contains all clock changes of a
#: year.
_HORIZON = timedelta(days=400)
#: From this number of occurrences on, only two months and the days around each clock change are compared.
_FEW = 62
_AROUND_A_CHANGE = timedelta(days=2)
_COMPARED_MOST = 800
#: Maximum number of exceptions, so that a short rule does not become a long event.
_EXCEPTIONS_MOST = 50
_MICROSECONDS_AN_HOUR = 3_600_000_000
_STAMP = "%Y%m%dT%H%M%S"
_UTC = ZoneInfo("UTC")
#: A period in which a recurrence and a candidate are compared: its start, excluded, its end, and the instants in it.
_Stretch: TypeAlias = tuple[datetime, datetime, list[datetime]]


@dataclass(frozen=True, slots=True)
class RRuleForm:
    """An RRULE that is equivalent to a recurrence from `start` on."""

    #: The value of RRULE, without the name: `FREQ=WEEKLY;BYDAY=MO`.
    rule: str
    #: The first occurrence: aware, in the zone whose wall clock the rule follows.
    start: datetime
    #: Instants of the rule that are not occurrences; aware, in the same zone.
    exceptions: tuple[datetime, ...] = ()


def as_rrule(recurrence: Recurrence, start: datetime, *, remaining: int | None = None) -> RRuleForm | None:
    """Return an RRULE with the same occurrences from `start` on, clock changes included; None if no RRULE is found.

    The RRULE of a recurrence with skips ends after half a year, because its exceptions are listed.

    No RRULE is found for business days, project functions, and rules with COUNT or RDATE. The same applies if skipped
    occurrences are moved, if a missing day of a month becomes its last day, or if a clock change moves an occurrence
    differently than in RFC 5545. These are examples: the result is checked by comparing the occurrences.

    Args:
        recurrence: A recurrence of any kind.
        start: An occurrence of the recurrence, in UTC. No RRULE is found if it has a fraction of a second.
        remaining: Maximum number of occurrences from `start` on; None: unlimited.

    Raises:
        BudgetExceeded: The comparison takes more steps than the budget of the recurrence has left.
        ScheduledActionsError: As for `Recurrence.next_after`.
    """
    if start.microsecond:
        return None
    has_skips, before = recurrence.has_skips, start - datetime.resolution
    if has_skips:
        # The exceptions are listed, so the rule has to end.
        stretches = [_compared(recurrence, before, start + timedelta(days=190), remaining)]
    else:
        stretches = [_compared(recurrence, before, start + _HORIZON, remaining, most=_FEW)]
        if len(stretches[0][2]) == _FEW != remaining:
            stretches = _sampled(recurrence, start, remaining)
    first_instants = stretches[0][2]
    if not first_instants:
        return None
    until = first_instants[-1] if has_skips else recurrence.until
    end = "" if until is None else f";UNTIL={until.astimezone(UTC):{_STAMP}}Z"
    if remaining is not None and not has_skips:
        end = f";COUNT={remaining}"
    for rule, zone in _candidates(recurrence):
        exceptions = _exceptions(f"{rule}{end}", start.astimezone(zone), zone, stretches, recurrence.budget)
        if exceptions is not None and (has_skips or not exceptions):
            return RRuleForm(f"{rule}{end}", start.astimezone(zone), tuple(at.astimezone(zone) for at in exceptions))
    return None


def _compared(
    recurrence: Recurrence, since: datetime, until: datetime, remaining: int | None, *, most: int = _COMPARED_MOST
) -> _Stretch:
    """Return the instants of a recurrence in a stretch; after `most` instants, the stretch ends with the last one."""
    most = most if remaining is None else min(remaining, most)
    instants = [occurrence.at for occurrence in recurrence.between(since, until, limit=most)]
    return since, instants[-1] if len(instants) == most else until, instants


def _sampled(recurrence: Recurrence, start: datetime, remaining: int | None) -> list[_Stretch]:
    """Return the stretches to compare: the first two months, and the days around each clock change of a year."""
    changes = clock_changes(recurrence.clock_zone, start, start + _HORIZON) if remaining is None else ()
    return [
        _compared(recurrence, start - datetime.resolution, start + timedelta(days=62), remaining),
        *(_compared(recurrence, at - _AROUND_A_CHANGE, at + _AROUND_A_CHANGE, None) for at in changes),
    ]


def _exceptions(
    rule: str, start: datetime, zone: ZoneInfo, stretches: list[_Stretch], budget: EvaluationBudget
) -> list[datetime] | None:
    """Return the instants at which a rule occurs within the stretches, but the recurrence does not.

    Returns:
        None if there are too many, or if the rule lacks an instant of the stretches.
    """
    exceptions: list[datetime] = []
    text = f"DTSTART;TZID={zone.key}:{start:{_STAMP}}\nRRULE:{rule}"
    try:
        candidate = compile_recurrence(text, timezone=zone.key, anchor=start, budget=budget)
        for since, until, instants in stretches:
            # With more instants than this, the rule cannot be equivalent.
            found = {one.at for one in candidate.between(since, until, limit=_COMPARED_MOST + _EXCEPTIONS_MOST + 1)}
            exceptions += sorted(found.difference(instants))
            if not found.issuperset(instants) or len(exceptions) > _EXCEPTIONS_MOST:
                return None
    except (RecurrenceInvalid, NeverOccurs):
        return None
    return exceptions


def _candidates(recurrence: Recurrence) -> list[tuple[str, ZoneInfo]]:
    """Return rules that may be equivalent to a recurrence, each with the zone whose clock it follows."""
    match recurrence.kind:
        case "interval":
            return _of_interval(recurrence)
        case "cron":
            return [(rule, recurrence.zone) for rule in _of_cron(read_fields(recurrence.text))]
        case "rrule":
            written = read_text(recurrence.text, recurrence.zone)
            if written.parts.count or written.dates:
                return []
            # A rule in real time is not affected by clock changes, so it can be in UTC.
            return [(written.parts.text, _UTC if written.parts.is_exact else recurrence.clock_zone)]
        case _:
            return []


def _of_interval(recurrence: Recurrence) -> list[tuple[str, ZoneInfo]]:
    length = parse_length(recurrence.text)
    rule = frequency_of(length)
    if rule is None or length.microseconds % _MICROSECONDS_AN_HOUR:
        return []
    return [(rule, _UTC if length.microseconds else recurrence.zone)]


def _of_cron(fields: Fields) -> list[str]:
    """Return the rule of an expression with at most one of the day fields set; otherwise an empty list."""
    times = f";BYHOUR={_numbers(fields.hour, 0, 23)};BYMINUTE={_numbers(fields.minute, 0, 59)}"
    months = "" if fields.month == "*" else f";BYMONTH={_numbers(fields.month, 1, 12)}"
    day, weekday = fields.day_of_month, fields.day_of_week
    if "*" not in {day, weekday}:
        return []
    if day != "*":
        return [f"FREQ=MONTHLY{months};BYMONTHDAY={'-1' if day == 'L' else _numbers(day, 1, 31)}{times}"]
    if weekday == "*":
        return [f"FREQ=DAILY{months}{times}"]
    items = weekday.split(",")
    if all("#" in item or item.startswith("L") for item in items):
        # `5#2` is 2FR, `L5` is -1FR.
        parsed = [("-1", item[1:]) if item.startswith("L") else item.split("#")[::-1] for item in items]
        return [f"FREQ=MONTHLY{months};BYDAY={','.join(f'{nth}{_day(number)}' for nth, number in parsed)}{times}"]
    days = sorted({_day(number) for number in _numbers(weekday, 0, 7).split(",")}, key=DAYS.index)
    return [f"FREQ=WEEKLY{months};BYDAY={','.join(days)}{times}"]


def _day(number: str) -> str:
    """Return the BYDAY name of a day of the week; 0 and 7 are Sunday."""
    return DAYS[(int(number) - 1) % 7]


def _numbers(field: str, low: int, high: int) -> str:
    """Return the values of a valid field in ascending order, separated by commas."""
    # An L in a list with numbers is ignored; the comparison then detects the missing occurrences.
    numbers = {number for item in field.split(",") if "L" not in item for number in numbers_of(item, low, high)}
    return ",".join(map(str, sorted(numbers)))
