"""Describe recurrence rules in English ("Every month on the last Friday at 09:00"), and warn about common mistakes."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, time
from itertools import product
from zoneinfo import ZoneInfo

from scheduled_actions.core.messages import counted
from scheduled_actions.recurrence.phrases import (
    FEBRUARY,
    LEAP_DAY,
    MONTHS,
    WEEKDAYS,
    about_missing_days,
    applying,
    join,
    ordinal,
    time_text,
)
from scheduled_actions.recurrence.rrule.parts import DAYS, LAST_YEAR, Parts, Stamp
from scheduled_actions.recurrence.rrule.text import RecurrenceText

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
_ALL_DAYS = (0, 1, 2, 3, 4, 5, 6)
_SETS_OF_DAYS = {
    (0, 1, 2, 3, 4): "weekday (Monday to Friday)",
    (5, 6): "weekend day (Saturday and Sunday)",
    _ALL_DAYS: "day",
}
#: Minimum length of a run that is written as a range; shorter runs are listed ("1, 2").
_RUN_LEAST = 3
#: Maximum number of times of day that are listed; more are described as hours and minutes.
_TIMES_LISTED_MOST = 6
#: Maximum number of dates that are listed; more are counted.
_DATES_LISTED_MOST = 2
#: Minimum number of days in a year, of a weekday in a month and in a year.
_YEAR_DAYS, _MONTH_WEEKDAYS, _YEAR_WEEKDAYS = 365, 4, 52


def description(parts: Parts, start: datetime, written: RecurrenceText) -> str:
    """Return the rule in words without its ending, one sentence without a full stop.

    Args:
        parts: The parts, completed from the start.
        start: The wall time of the start; naive.
        written: The parsed text of the rule.
    """
    unit = _UNITS[parts.frequency]
    every = f"Every {unit}" if parts.interval == 1 else f"Every {parts.interval:,} {unit}s"
    if not parts.is_exact and parts.frequency != "DAILY":
        return " ".join([every, *_days(parts), *_times_of_day(parts, start, has_start=written.start is not None)])
    limits = " ".join([*_days(parts), *_limiting_times(parts)])
    times = (
        [*_expanded_times(parts), *([f"from {_day(start)} at {time_text(start)}"] if written.start else [])]
        if parts.is_exact
        else _times_of_day(parts, start, has_start=written.start is not None)
    )
    return " ".join([f"{every}, only {limits}" if limits else every, *times])


def ending(parts: Parts, written: RecurrenceText, zone: ZoneInfo) -> str:
    """Return the end of the description: the end of the rule, and added and excluded dates."""
    weeks_matter = parts.by_week_number or (
        parts.frequency == "WEEKLY" and ((parts.interval > 1 and len(parts.by_day) > 1) or parts.by_set_position)
    )
    until = [parts.until] if parts.until and parts.until.wall.year <= LAST_YEAR else []
    return "".join(
        applying(
            (parts.week_start and weeks_matter, f", weeks beginning on {WEEKDAYS[parts.week_start]}"),
            (parts.count, ", once" if parts.count == 1 else f", {parts.count or 0:,} times"),
            (until, f" until {_stamps(until, zone)}"),
            (written.dates, f", and on {_stamps(written.dates, zone)}"),
            (written.exceptions, f", except on {_stamps(written.exceptions, zone)}"),
        )
    )


def _days(parts: Parts) -> list[str]:
    """Return the months, weeks and days of the rule in words."""
    has_other_days = parts.by_day or parts.by_year_day or parts.by_week_number
    if len(parts.by_month) == len(parts.by_month_day) == 1 and parts.by_month_day[0] > 0 and not has_other_days:
        return [f"on {parts.by_month_day[0]} {MONTHS[parts.by_month[0] - 1]}"]
    is_daily = parts.is_exact or parts.frequency == "DAILY"
    is_every_day = is_daily and tuple(day.weekday for day in parts.by_day) == _ALL_DAYS
    day = "" if parts.by_year_day and parts.by_year_day[0] < 0 else " day"
    of_every_month = " of every month" if parts.frequency == "YEARLY" and not parts.by_month else ""
    return applying(
        (parts.by_month, f"in {join(_runs(parts.by_month, lambda month: MONTHS[month - 1]))}"),
        (parts.by_week_number, f"in {_week_numbers(parts.by_week_number)} of the year"),
        (parts.by_year_day, f"on the {_counted_days(parts.by_year_day)}{day} of the year"),
        (parts.by_month_day, f"on the {_counted_days(parts.by_month_day)}{of_every_month}"),
        (parts.by_day and not is_every_day, _weekdays(parts)),
    )


def _weekdays(parts: Parts) -> str:
    of_year = " of the year" if parts.frequency == "YEARLY" and not parts.by_month else ""
    if _picks_weekday(parts):
        weekdays = tuple(day.weekday for day in parts.by_day)
        names = _SETS_OF_DAYS.get(weekdays) or join([WEEKDAYS[day] for day in weekdays], last="or")
        return f"on the {_nths(parts.by_set_position)} {names}{of_year}"
    plain = [day.weekday for day in parts.by_day if not day.nth]
    nths = {weekday: [day.nth for day in parts.by_day if day.nth and day.weekday == weekday] for weekday in _ALL_DAYS}
    numbered = [f"the {_nths(numbers)} {WEEKDAYS[weekday]}" for weekday, numbers in nths.items() if numbers]
    of_year = of_year if numbered else ""
    if parts.by_month_day or parts.by_year_day:
        return f"if that is {join([*(f'a {WEEKDAYS[weekday]}' for weekday in plain), *numbered], last='or')}{of_year}"
    names = "day" if tuple(plain) == _ALL_DAYS else join(_runs(plain, lambda day: WEEKDAYS[day]))
    names_no_span = parts.frequency == "YEARLY" and not (parts.by_month or parts.by_week_number)
    is_every = parts.frequency == "MONTHLY" or names_no_span or names == "day"
    return f"on {join([*applying((plain, f'every {names}' if is_every else names)), *numbered])}{of_year}"


def _picks_weekday(parts: Parts) -> bool:
    """Whether BYSETPOS selects from plain weekdays at one time of day, as in "the last weekday"."""
    is_one_set = parts.frequency in {"MONTHLY", "WEEKLY"} or (parts.frequency == "YEARLY" and len(parts.by_month) <= 1)
    return bool(
        parts.by_set_position
        and all(len(times) <= 1 for times in (parts.by_hour, parts.by_minute, parts.by_second))
        and is_one_set
        and parts.by_day
        and not any(day.nth for day in parts.by_day)
        and not (parts.by_month_day or parts.by_year_day or parts.by_week_number)
    )


def _times_of_day(parts: Parts, start: datetime, *, has_start: bool) -> list[str]:
    """Return the times of day in words; none if the time of day is taken from the schedule's start."""
    hours, minutes = parts.by_hour or (start.hour,), parts.by_minute or (start.minute,)
    seconds = parts.by_second or (start.second,)
    if len(hours) * len(minutes) * len(seconds) <= _TIMES_LISTED_MOST:
        times = join([time_text(time(*at)) for at in product(hours, minutes, seconds)])
    else:
        finer = "" if seconds == (0,) else f"{_numbers('second', seconds)} of "
        of_hours = "every hour" if hours == tuple(range(24)) else _numbers("hour", hours)
        times = f"{finer}{_numbers('minute', minutes)} of {of_hours}"
    return applying(
        (has_start or parts.by_hour or parts.by_minute or parts.by_second, f"at {times}"),
        (parts.by_set_position and not _picks_weekday(parts), _picked(parts)),
    )


def _limiting_times(parts: Parts) -> list[str]:
    """Return the times of day, in words, to which the parts limit the rule."""
    hours = [f"{low:02}:00-{high:02}:59" for low, high in _bounds(parts.by_hour)]
    return applying(
        (parts.is_exact and hours, f"during {join(hours)}"),
        (
            parts.is_exact and parts.by_minute and parts.frequency != "HOURLY",
            f"in {_numbers('minute', parts.by_minute)}",
        ),
        (parts.by_second and parts.frequency == "SECONDLY", f"at {_numbers('second', parts.by_second)}"),
    )


def _expanded_times(parts: Parts) -> list[str]:
    """Return the instants of an hour or a minute in words."""
    named = applying(
        (parts.by_minute and parts.frequency == "HOURLY", _numbers("minute", parts.by_minute)),
        (parts.by_second and parts.frequency != "SECONDLY", _numbers("second", parts.by_second)),
    )
    return applying((named, f"at {join(named)}"), (parts.by_set_position, _picked(parts)))


def _picked(parts: Parts) -> str:
    return f"(only the {_nths(parts.by_set_position)} of these each {_UNITS[parts.frequency]})"


def _stamps(stamps: Sequence[Stamp], zone: ZoneInfo) -> str:
    """Return dates in words: `1 March 2027 and 2 March 2027 at 09:00`; if there are many, `5 dates`."""
    if len(stamps) > _DATES_LISTED_MOST:
        return counted(len(stamps), "date")
    walls = [stamp.wall if stamp.is_date else stamp.resolved(zone).at.astimezone(zone) for stamp in stamps]
    return join(
        [
            f"{_day(wall)}{'' if stamp.is_date else f' at {time_text(wall)}'}"
            for stamp, wall in zip(stamps, walls, strict=True)
        ]
    )


def _day(wall: datetime) -> str:
    return f"{wall.day} {MONTHS[wall.month - 1]} {wall.year}"


def _week_numbers(numbers: Sequence[int]) -> str:
    from_start = [number for number in numbers if number > 0]
    return join(
        [
            *applying((from_start, _numbers("week", from_start))),
            *(f"the {_nth(number)} week" for number in numbers if number < 0),
        ]
    )


def _counted_days(numbers: Sequence[int]) -> str:
    """Return numbered days in words: `1st, 7th to 13th and last day`."""
    from_start = _runs([number for number in numbers if number > 0], ordinal)
    return join([*from_start, *(f"{_nth(number)} day" for number in numbers if number < 0)])


def _numbers(unit: str, numbers: Sequence[int]) -> str:
    """Return numbers with their unit: `minute 5`, `minutes 0, 20 and 40`, `hours 9 to 16`."""
    return f"{unit}{'' if len(numbers) == 1 else 's'} {join(_runs(numbers, str))}"


def _nths(numbers: Iterable[int]) -> str:
    """Return positions in words, `first, second and last`; those counted from the end come last."""
    return join([_nth(number) for number in sorted(numbers, key=lambda number: (number < 0, number))])


def _nth(number: int) -> str:
    if number == -1:
        return "last"
    name = _NTHS[abs(number)] if abs(number) < len(_NTHS) else ordinal(abs(number))
    return name if number > 0 else f"{name} to last"


def _runs(numbers: Sequence[int], name: Callable[[int], str]) -> list[str]:
    """Return the names of numbers; a run of three or more becomes a range, `Monday to Friday`."""
    return [
        text
        for low, high in _bounds(numbers)
        for text in (
            [f"{name(low)} to {name(high)}"]
            if high - low + 1 >= _RUN_LEAST
            else [name(number) for number in range(low, high + 1)]
        )
    ]


def _bounds(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and last number of each run of consecutive numbers."""
    firsts, lasts = ([number for number in numbers if number + step not in numbers] for step in (-1, 1))
    return list(zip(firsts, lasts, strict=True))


def about_start(
    parts: Parts,
    written: RecurrenceText,
    start: datetime,
    first: datetime | None,
    *,
    zone: ZoneInfo,
    schedule_zone: ZoneInfo,
) -> list[str]:
    """Return warnings about DTSTART, or about times that are taken from the schedule's start.

    Args:
        parts: The parts, completed from the start.
        written: The parsed text of the rule.
        start: The wall time of the start; naive.
        first: The first occurrence, if it is known and is not the start.
        zone: The rule's zone.
        schedule_zone: The schedule's zone, regardless of DTSTART.
    """
    missing = [name for name, given in (("BYMINUTE", parts.by_minute), ("BYSECOND", parts.by_second)) if not given]
    is_odd = (start.minute and not parts.by_minute) or (start.second and not parts.by_second)
    return applying(
        (
            written.start and schedule_zone.key not in {"UTC", zone.key},
            f"DTSTART is in {zone.key}: the rule follows the clock of that zone, not of {schedule_zone.key}",
        ),
        (
            written.start and first,
            (
                f"DTSTART {start:%Y-%m-%d %H:%M} does not match the rule: the first occurrence is "
                f"{first or start:%Y-%m-%d %H:%M}"
            ),
        ),
        (
            not written.start and parts.by_hour and is_odd and not parts.is_exact,
            (
                f"BYHOUR without {' and '.join(missing)} takes the missing part of the time from the start "
                f"({time_text(start)}); add {';'.join(f'{name}=0' for name in missing)} to use zero instead"
            ),
        ),
    )


def about_parts(parts: Parts, written: RecurrenceText, zone: ZoneInfo) -> list[str]:
    """Return warnings about days that some months or years do not have, about UNTIL, and about real time."""
    until, start = parts.until, written.start
    end = until.value if until else ""
    is_local_end = until is not None and until.zone is None and zone.key != "UTC"
    hours = {"HOURLY": 1, "MINUTELY": 60, "SECONDLY": 3600}.get(parts.frequency, 0) * 24
    days = parts.interval // hours if hours else 0
    return [
        *([] if parts.by_set_position else _about_missing_days(parts)),
        *_about_missing_weekdays(parts),
        *applying(
            (
                is_local_end and until and until.is_date and not (start and start.is_date),
                f"UNTIL={end} is a date: all of that day in {zone.key} is included",
            ),
            (
                is_local_end and until and not until.is_date and not start,
                f"UNTIL={end} has no Z: it is local time in {zone.key}, not UTC",
            ),
            (
                days and zone.key != "UTC" and not parts.interval % hours,
                (
                    f"{counted(24 * days, 'hour')} of real time: the time of day moves when the clocks change; "
                    f"FREQ=DAILY{f';INTERVAL={days}' if days > 1 else ''} keeps it"
                ),
            ),
        ),
    ]


def _about_missing_days(parts: Parts) -> list[str]:
    months, day = parts.by_month or range(1, 13), max(parts.by_month_day, default=0)
    is_leap_day = day == LEAP_DAY and tuple(months) == (FEBRUARY,)
    return [
        *([] if is_leap_day else about_missing_days(day, months, "BYMONTHDAY=-1")),
        *applying(
            (
                is_leap_day,
                "29 February exists in leap years only: other years are left out; BYMONTHDAY=-1 is always the last day",
            ),
            (
                max(map(abs, parts.by_year_day), default=0) > _YEAR_DAYS,
                "BYYEARDAY=366 exists in leap years only; BYYEARDAY=-1 is the last day of every year",
            ),
            (
                max(map(abs, parts.by_week_number), default=0) > _YEAR_WEEKDAYS,
                "BYWEEKNO=53: most years have 52 weeks and are left out; BYWEEKNO=-1 is the last week of every year",
            ),
        ),
    ]


def _about_missing_weekdays(parts: Parts) -> list[str]:
    is_of_year = parts.frequency == "YEARLY" and not parts.by_month
    least, span = (_YEAR_WEEKDAYS, "years") if is_of_year else (_MONTH_WEEKDAYS, "months")
    return [
        f"BYDAY={day}: {span} with {least} {WEEKDAYS[day.weekday]}s are left out; "
        f"BYDAY=-1{DAYS[day.weekday]} is the last one"
        for day in parts.by_day
        if abs(day.nth) > least and not parts.by_set_position
    ]
