"""What people often get wrong with recurrence rules, and what the next clock changes do to them."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import BudgetExceeded, NeverOccurs
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.phrases import MONTHS, WEEKDAYS, counted, time_text
from scheduled_actions.recurrence.rrule.parts import DAYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduled_actions.recurrence.rrule.model import Described
    from scheduled_actions.recurrence.rrule.parts import Parts

#: Spent at most on finding what a warning would say.
STEPS = 2_000
_LEAP_YEAR = 2028
_FEBRUARY = 2
_LEAP_DAY = 29
#: Every month has these.
_SHORTEST_MONTH = 28
_EVERY_MONTH_HAS = 4
_SHORTEST_YEAR = 365
_EVERY_YEAR_HAS = 52
#: Clock changes are looked for this far ahead.
_WARNED_AHEAD_DAYS = 366
_ONE_DAY = timedelta(days=1)
_ONE_MICROSECOND = timedelta(microseconds=1)


def warnings(rule: Described) -> Iterator[str]:
    """Yield what people often get wrong with a rule like this one, each a sentence."""
    yield from _about_start(rule)
    yield from _about_time(rule)
    yield from _about_missing_days(rule.parts)
    yield from _about_missing_weekdays(rule.parts)
    yield from _about_until(rule)
    yield from _about_real_time(rule)
    yield from _about_gaps(rule)


def _about_start(rule: Described) -> Iterator[str]:
    if not rule.start.is_written:
        return
    if rule.schedule_zone.key not in {"UTC", rule.zone.key}:
        yield f"DTSTART is in {rule.zone.key}: the rule follows that clock, not the one of {rule.schedule_zone.key}"
    try:
        first = rule.first_match
    except (NeverOccurs, BudgetExceeded):
        return
    if first is not None and first != rule.start.at:
        told = f"{first.astimezone(rule.zone):%Y-%m-%d %H:%M}"
        yield f"DTSTART {rule.start.wall:%Y-%m-%d %H:%M} does not match the rule: the first occurrence is {told}"


def _about_time(rule: Described) -> Iterator[str]:
    """Yield of minutes and seconds that nobody named."""
    parts, start = rule.parts, rule.start
    missing = [name for name, given in (("BYMINUTE", parts.by_minute), ("BYSECOND", parts.by_second)) if not given]
    odd = (start.wall.minute and not parts.by_minute) or (start.wall.second and not parts.by_second)
    if parts.by_hour and odd and not start.is_written and not parts.is_exact:
        zeros = ";".join(f"{name}=0" for name in missing)
        start_time = time_text(start.wall)
        yield f"BYHOUR without {' and '.join(missing)} takes the start's ({start_time}); add {zeros} for none"


def _about_missing_days(parts: Parts) -> Iterator[str]:
    """Yield of days that some months or years do not have; picking the last of several is left alone."""
    if parts.by_set_position:
        return
    months = parts.by_month or range(1, 13)
    day = max(parts.by_month_day, default=0)
    if day == _LEAP_DAY and tuple(months) == (_FEBRUARY,):
        yield "29 February comes in leap years only: other years are left out; BYMONTHDAY=-1 is its last day"
    elif day > _SHORTEST_MONTH:
        without = [MONTHS[month - 1] for month in months if monthrange(_LEAP_YEAR, month)[1] < day]
        if without and len(without) < len(months):
            yield (
                f"day {day}: months without it are left out ({', '.join(without)}); "
                "BYMONTHDAY=-1 is the last day of every month"
            )
        elif day == _LEAP_DAY and _FEBRUARY in months:
            yield "day 29: February has it in leap years only; BYMONTHDAY=-1 is the last day of every month"
    if max(map(abs, parts.by_year_day), default=0) > _SHORTEST_YEAR:
        yield "BYYEARDAY=366 comes in leap years only; BYYEARDAY=-1 is the last day of every year"
    if max(map(abs, parts.by_week_number), default=0) > _EVERY_YEAR_HAS:
        yield "BYWEEKNO=53: most years have 52 weeks and are left out; BYWEEKNO=-1 is the last week of every year"


def _about_missing_weekdays(parts: Parts) -> Iterator[str]:
    is_of_year = parts.frequency == "YEARLY" and not parts.by_month
    every_has, span = (_EVERY_YEAR_HAS, "years") if is_of_year else (_EVERY_MONTH_HAS, "months")
    for day in parts.by_day:
        if abs(day.nth) > every_has and not parts.by_set_position:
            has = f"{every_has} {WEEKDAYS[day.weekday]}s"
            yield f"BYDAY={day.text}: {span} with {has} are left out; BYDAY=-1{DAYS[day.weekday]} is the last one"


def _about_until(rule: Described) -> Iterator[str]:
    until = rule.written.parts.until
    start = rule.written.start
    if until is None or until.zone is not None or rule.zone.key == "UTC":
        return
    if until.is_date and (start is None or not start.is_date):
        yield f"UNTIL={until.value} is a date: all of that day in {rule.zone.key} counts"
    elif not until.is_date and start is None:
        yield f"UNTIL={until.value} has no Z: it is the local time of {rule.zone.key}, not UTC"


def _about_real_time(rule: Described) -> Iterator[str]:
    hours = {"HOURLY": 1, "MINUTELY": 60, "SECONDLY": 3600}.get(rule.parts.frequency)
    if hours is None or rule.zone.key == "UTC" or rule.parts.interval % (24 * hours):
        return
    days = rule.parts.interval // (24 * hours)
    yield (
        f"{counted(24 * days, 'hour')} of real time: the time of day moves when the clocks change; "
        f"FREQ=DAILY{f';INTERVAL={days}' if days > 1 else ''} keeps it"
    )


def _about_gaps(rule: Described) -> Iterator[str]:
    """Yield of the first occurrence within a year that a clock change moves."""
    if rule.parts.is_exact:
        return
    day = max(rule.start.opens_at, rule.anchor).astimezone(rule.zone).replace(tzinfo=None)
    day = datetime(day.year, day.month, day.day)  # noqa: DTZ001 (wall time)
    offset = day.replace(tzinfo=rule.zone).utcoffset()
    for _ in range(_WARNED_AHEAD_DAYS):
        following = day + _ONE_DAY
        offset_after = following.replace(tzinfo=rule.zone).utcoffset()
        if offset_after != offset:
            moved = _moved_on(rule, day, following)
            if moved is not None:
                yield moved
                return
        day, offset = following, offset_after


def _moved_on(rule: Described, day: datetime, following: datetime) -> str | None:
    """Return what a clock change does to the first occurrence of a day that it moves; None when it moves none."""
    end = following.replace(tzinfo=rule.zone).astimezone(UTC)
    since = day.replace(tzinfo=rule.zone).astimezone(UTC) - _ONE_MICROSECOND
    budget = EvaluationBudget("the recurrence", steps=STEPS)
    try:
        found = rule.next_after(since, budget)
        while found is not None and found.at <= end:
            moved = next((remark for remark in found.remarks if "does not exist" in remark), None)
            if moved is not None:
                return moved
            found = rule.next_after(found.at, budget)
    except (NeverOccurs, BudgetExceeded):
        pass
    return None
