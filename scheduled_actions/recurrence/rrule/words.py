"""Recurrence rules in English: "Every month on the last weekday (Monday to Friday) at 09:00, 10 times"."""

from __future__ import annotations

from datetime import time
from itertools import product
from typing import TYPE_CHECKING

from scheduled_actions.recurrence.phrases import MONTHS, WEEKDAYS, counted, listed, ordinal, time_text
from scheduled_actions.recurrence.rrule.dates import LAST_YEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from scheduled_actions.recurrence.rrule.dates import Stamp
    from scheduled_actions.recurrence.rrule.model import Described
    from scheduled_actions.recurrence.rrule.parts import Parts

_UNITS = {
    "YEARLY": "year",
    "MONTHLY": "month",
    "WEEKLY": "week",
    "DAILY": "day",
    "HOURLY": "hour",
    "MINUTELY": "minute",
    "SECONDLY": "second",
}
_NTHS = ("", "first", "second", "third", "fourth", "fifth")
_WORKING_WEEK = (0, 1, 2, 3, 4)
_WEEKEND = (5, 6)
_WHOLE_WEEK = (0, 1, 2, 3, 4, 5, 6)
#: Shorter runs are listed: "1, 2" rather than "1 to 2".
_RUN_LEAST = 3
#: More times of day than these are told as hours and minutes.
_TIMES_LISTED_MOST = 6
#: More dates than these are counted.
_DATES_LISTED_MOST = 2


def description(rule: Described) -> str:
    """Return the rule in words up to its ending, one sentence without a full stop."""
    parts = rule.parts
    unit = _UNITS[parts.frequency]
    every = f"Every {unit}" if parts.interval == 1 else f"Every {parts.interval:,} {unit}s"
    if parts.is_exact or parts.frequency == "DAILY":
        limits = " ".join([*_days(parts), *_limiting_times(parts)])
        told = [f"{every}, only {limits}" if limits else every]
        told += _expanded_times(parts) if parts.is_exact else []
    else:
        told = [every, *_days(parts)]
    if not parts.is_exact:
        told += _times_of_day(rule)
    elif rule.start.is_written:
        told.append(f"from {_day_and_time(rule.start.wall)}")
    return " ".join(told)


def ending(rule: Described) -> str:
    """Return when the rule ends, what is added and what is left out, as goes on behind the words before."""
    return "".join(_endings(rule))


def _days(parts: Parts) -> Iterator[str]:
    """Yield which months, weeks and days."""
    if _names_one_date(parts):
        yield f"on {parts.by_month_day[0]} {MONTHS[parts.by_month[0] - 1]}"
        return
    if parts.by_month:
        yield f"in {_listed_runs(parts.by_month, lambda month: MONTHS[month - 1])}"
    if parts.by_week_number:
        yield f"in {_week_numbers(parts.by_week_number)} of the year"
    if parts.by_year_day:
        day = "" if parts.by_year_day[0] < 0 else " day"
        yield f"on the {_counted_days(parts.by_year_day)}{day} of the year"
    if parts.by_month_day:
        everywhere = parts.frequency == "YEARLY" and not parts.by_month
        yield f"on the {_counted_days(parts.by_month_day)}{' of every month' if everywhere else ''}"
    if parts.by_day and not _limits_to_every_day(parts):
        yield _weekdays(parts)


def _names_one_date(parts: Parts) -> bool:
    is_one = len(parts.by_month) == len(parts.by_month_day) == 1 and parts.by_month_day[0] > 0
    return is_one and not (parts.by_day or parts.by_year_day or parts.by_week_number)


def _limits_to_every_day(parts: Parts) -> bool:
    is_limit = parts.is_exact or parts.frequency == "DAILY"
    return is_limit and tuple(day.weekday for day in parts.by_day) == _WHOLE_WEEK


def _weekdays(parts: Parts) -> str:
    if _picks_weekday(parts):
        nths = listed([_nth(position) for position in _in_order(parts.by_set_position)])
        whole = " of the year" if parts.frequency == "YEARLY" and not parts.by_month else ""
        return f"on the {nths} {_one_of([day.weekday for day in parts.by_day])}{whole}"
    plain = [day.weekday for day in parts.by_day if not day.nth]
    nth_by_weekday: dict[int, list[int]] = {}
    for day in parts.by_day:
        if day.nth:
            nth_by_weekday.setdefault(day.weekday, []).append(day.nth)
    numbered = [
        f"the {listed([_nth(nth) for nth in _in_order(nths)])} {WEEKDAYS[weekday]}"
        for weekday, nths in nth_by_weekday.items()
    ]
    scope = " of the year" if numbered and parts.frequency == "YEARLY" and not parts.by_month else ""
    if parts.by_month_day or parts.by_year_day:
        names = [f"a {WEEKDAYS[weekday]}" for weekday in plain]
        return f"if that is {listed([*names, *numbered], last='or')}{scope}"
    is_every = parts.frequency == "MONTHLY" or (parts.frequency == "YEARLY" and _names_no_span(parts))
    names = [f"{'every ' if is_every and plain != [*_WHOLE_WEEK] else ''}{_named_weekdays(plain)}"] if plain else []
    return f"on {listed([*names, *numbered])}{scope}"


def _names_no_span(parts: Parts) -> bool:
    return not (parts.by_month or parts.by_week_number)


def _picks_weekday(parts: Parts) -> bool:
    """Whether BYSETPOS picks among plain weekdays at one time of day: "the last weekday"."""
    is_one_time = all(len(times) <= 1 for times in (parts.by_hour, parts.by_minute, parts.by_second))
    other_days = parts.by_month_day or parts.by_year_day or parts.by_week_number
    is_one_set = parts.frequency in {"MONTHLY", "WEEKLY"} or (parts.frequency == "YEARLY" and len(parts.by_month) <= 1)
    is_plain = bool(parts.by_day) and not any(day.nth for day in parts.by_day)
    return bool(parts.by_set_position and is_one_time and is_one_set and is_plain and not other_days)


def _one_of(weekdays: Sequence[int]) -> str:
    match tuple(weekdays):
        case days if days == _WORKING_WEEK:
            return "weekday (Monday to Friday)"
        case days if days == _WEEKEND:
            return "weekend day (Saturday and Sunday)"
        case days if days == _WHOLE_WEEK:
            return "day"
        case days:
            return listed([WEEKDAYS[day] for day in days], last="or")


def _named_weekdays(weekdays: Sequence[int]) -> str:
    return "every day" if tuple(weekdays) == _WHOLE_WEEK else _listed_runs(weekdays, lambda day: WEEKDAYS[day])


def _times_of_day(rule: Described) -> Iterator[str]:
    """Yield at which times; nothing where the time of day is only that of the schedule's start."""
    parts, start = rule.parts, rule.start.wall
    if rule.start.is_written or parts.by_hour or parts.by_minute or parts.by_second:
        hours = parts.by_hour or (start.hour,)
        minutes = parts.by_minute or (start.minute,)
        seconds = parts.by_second or (start.second,)
        if len(hours) * len(minutes) * len(seconds) <= _TIMES_LISTED_MOST:
            yield f"at {listed([time_text(time(*at)) for at in product(hours, minutes, seconds)])}"
        else:
            finer = "" if seconds == (0,) else f"{_numbers('second', seconds)} of "
            yield f"at {finer}{_numbers('minute', minutes)} of {_hours(hours)}"
    if parts.by_set_position and not _picks_weekday(parts):
        yield _picked(parts)


def _limiting_times(parts: Parts) -> Iterator[str]:
    """Yield at which times of day a rule that follows real time is let through."""
    if not parts.is_exact:
        return
    if parts.by_hour:
        yield f"during {listed([f'{low:02}:00-{high:02}:59' for low, high in _runs(parts.by_hour)])}"
    if parts.by_minute and parts.frequency != "HOURLY":
        yield f"in {_numbers('minute', parts.by_minute)}"
    if parts.by_second and parts.frequency == "SECONDLY":
        yield f"at {_numbers('second', parts.by_second)}"


def _expanded_times(parts: Parts) -> Iterator[str]:
    """Yield which instants of an hour or a minute are named."""
    named = []
    if parts.by_minute and parts.frequency == "HOURLY":
        named.append(_numbers("minute", parts.by_minute))
    if parts.by_second and parts.frequency != "SECONDLY":
        named.append(_numbers("second", parts.by_second))
    if named:
        yield f"at {listed(named)}"
    if parts.by_set_position:
        yield _picked(parts)


def _picked(parts: Parts) -> str:
    nths = listed([_nth(position) for position in _in_order(parts.by_set_position)])
    return f"(only the {nths} of these each {_UNITS[parts.frequency]})"


def _endings(rule: Described) -> Iterator[str]:
    parts, written, zone = rule.parts, rule.written, rule.zone
    weeks_matter = parts.by_week_number or (
        parts.frequency == "WEEKLY" and ((parts.interval > 1 and len(parts.by_day) > 1) or parts.by_set_position)
    )
    if parts.week_start and weeks_matter:
        yield f", weeks beginning on {WEEKDAYS[parts.week_start]}"
    if parts.count:
        yield ", once" if parts.count == 1 else f", {parts.count:,} times"
    if parts.until is not None and parts.until.wall.year <= LAST_YEAR:
        yield f" until {_stamp(parts.until, zone)}"
    if written.dates:
        yield f", and {_dates(written.dates, zone)}"
    if written.exceptions:
        yield f", except {_dates(written.exceptions, zone)}"


def _dates(stamps: Sequence[Stamp], zone: ZoneInfo) -> str:
    if len(stamps) > _DATES_LISTED_MOST:
        return f"on {counted(len(stamps), 'date')}"
    return f"on {listed([_stamp(stamp, zone) for stamp in stamps])}"


def _stamp(stamp: Stamp, zone: ZoneInfo) -> str:
    return _day(stamp.wall) if stamp.is_date else _day_and_time(stamp.resolved(zone).at.astimezone(zone))


def _day(wall: datetime) -> str:
    return f"{wall.day} {MONTHS[wall.month - 1]} {wall.year}"


def _day_and_time(wall: datetime) -> str:
    return f"{_day(wall)} at {time_text(wall)}"


def _week_numbers(numbers: Sequence[int]) -> str:
    from_start = [number for number in numbers if number > 0]
    from_end = [f"the {_nth(number)} week" for number in _in_order(numbers) if number < 0]
    return listed([*([_numbers("week", from_start)] if from_start else []), *from_end])


def _counted_days(numbers: Sequence[int]) -> str:
    """Return `1st, 7th to 13th and last day`."""
    from_start = _run_texts([number for number in numbers if number > 0], ordinal)
    from_end = [f"{_nth(number)} day" for number in _in_order(numbers) if number < 0]
    return listed([*from_start, *from_end])


def _hours(hours: Sequence[int]) -> str:
    return "every hour" if len(hours) == 24 else _numbers("hour", hours)  # noqa: PLR2004 (a day's)


def _numbers(unit: str, numbers: Sequence[int]) -> str:
    """Return `minute 5`, `minutes 0, 20 and 40`, `hours 9 to 16`."""
    return f"{unit}{'' if len(numbers) == 1 else 's'} {_listed_runs(numbers, str)}"


def _nth(number: int) -> str:
    if number == -1:
        return "last"
    magnitude = abs(number)
    name = _NTHS[magnitude] if magnitude < len(_NTHS) else ordinal(magnitude)
    return name if number > 0 else f"{name} to last"


def _in_order(numbers: Iterable[int]) -> list[int]:
    """Return the numbers as a calendar has them: those from the start, then those from the end, the last one last."""
    return sorted(numbers, key=lambda number: (number < 0, number))


def _listed_runs(numbers: Sequence[int], name: Callable[[int], str]) -> str:
    return listed(_run_texts(numbers, name))


def _run_texts(numbers: Sequence[int], name: Callable[[int], str]) -> list[str]:
    texts: list[str] = []
    for low, high in _runs(numbers):
        if high - low + 1 >= _RUN_LEAST:
            texts.append(f"{name(low)} to {name(high)}")
        else:
            texts += [name(number) for number in range(low, high + 1)]
    return texts


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and last number of each run of neighbours."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
