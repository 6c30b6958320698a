"""A recurrence of any kind as an RRULE, where one says the same: for calendars, which know nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from scheduled_actions.errors import NeverOccurs, RecurrenceInvalid
from scheduled_actions.recurrence.cron_fields import Fields, read_fields
from scheduled_actions.recurrence.interval_words import parse_length
from scheduled_actions.recurrence.rrule import parse_rrule
from scheduled_actions.recurrence.rrule_parts import DAYS
from scheduled_actions.recurrence.rrule_text import read_text

if TYPE_CHECKING:
    from scheduled_actions.recurrence.compiling import Recurrence

#: How far, and over how many occurrences, both must say the same: a year has every clock change in it.
_HORIZON = timedelta(days=400)
_COMPARED_MOST = 800
#: More exceptions than this make a long event of a short rule.
_EXCEPTIONS_MOST = 60
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
    """Return the RRULE that names the same instants from `start` on, for the next 400 days; None where none is found.

    There is none where a clock change moves an occurrence otherwise than RFC 5545 would, for days that give way to the
    end of a month, for holidays that are moved, and for functions of the project.

    Args:
        recurrence: Of any kind.
        start: One of its occurrences; aware.
        remaining: How many there are from `start` on; None: no such end.
    """
    most = _COMPARED_MOST if remaining is None else min(remaining, _COMPARED_MOST)
    instants = [one.at for one in recurrence.between(start - _MOMENT, start + _HORIZON, limit=most)]
    if not instants or start.microsecond:
        return None
    for rule, zone in _candidates(recurrence):
        ended = ";".join([rule, *_ends(recurrence, remaining)])
        exceptions = _exceptions(ended, start.astimezone(zone), zone, instants)
        if exceptions is not None and not (exceptions and remaining is not None):
            return RRuleForm(ended, start.astimezone(zone), tuple(at.astimezone(zone) for at in exceptions))
    return None


def _exceptions(rule: str, start: datetime, zone: ZoneInfo, instants: list[datetime]) -> list[datetime] | None:
    """Return what a rule names beside the instants; None where it does not name all of them, or too much else."""
    named = _named(rule, start, zone, until=instants[-1])
    wanted = set(instants)
    exceptions = [at for at in named if at not in wanted]
    return exceptions if len(named) - len(exceptions) == len(instants) and len(exceptions) <= _EXCEPTIONS_MOST else None


def _named(rule: str, start: datetime, zone: ZoneInfo, *, until: datetime) -> list[datetime]:
    """Return the instants of a candidate up to the last that is compared, and none where it is no rule at all."""
    text = f"DTSTART;TZID={zone.key}:{start:{_STAMP}}\nRRULE:{rule}"
    try:
        parsed = parse_rrule(text, zone=zone, anchor=start)
        found: list[datetime] = []
        moment = start.astimezone(UTC) - _MOMENT
        while (one := parsed.next_after(moment)) is not None and one.at <= until and len(found) <= 2 * _COMPARED_MOST:
            moment = one.at
            found.append(moment)
    except (RecurrenceInvalid, NeverOccurs):
        return []
    return found


def _ends(recurrence: Recurrence, remaining: int | None) -> list[str]:
    if remaining is not None:
        return [f"COUNT={remaining}"]
    return [] if recurrence.until is None else [f"UNTIL={recurrence.until.astimezone(UTC):{_STAMP}}Z"]


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
