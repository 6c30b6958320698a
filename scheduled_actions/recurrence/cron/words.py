"""What is said about a cron expression: in words, in warnings, and at clock changes."""

from __future__ import annotations

import calendar
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from scheduled_actions.recurrence.cron.fields import Fields

_UTC = frozenset({"UTC", "Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "Zulu", "Etc/GMT", "GMT"})
#: The longest each month gets, January first.
_MONTH_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
#: A day that every month has.
_ALWAYS_THERE = 28


def description(fields: Fields) -> str:
    """Return the expression in words, one sentence without a full stop: "At 09:00, only on Monday"."""
    import cron_descriptor  # type: ignore[import-untyped] # noqa: PLC0415 (slow to import, seldom asked for)

    part = cron_descriptor.DescriptionTypeEnum
    minute, hour, day = fields.minute, fields.hour, fields.day_of_month
    month, weekday = _listed(fields.month, 1, 12), _listed(fields.day_of_week, 0, 6)

    def told(expression: str, which: object = part.FULL) -> str:
        descriptor = cron_descriptor.ExpressionDescriptor(expression, use_24hour_time_format=True, locale_code="en_US")
        return str(descriptor.get_description(which))

    def by_week(days: str) -> str:
        return told(f"0 0 * * {days}", part.DAYOFWEEK).removeprefix(", ").removeprefix("only ")

    try:
        if day == "*" and not re.search("[#L].*,", weekday):
            return told(f"{minute} {hour} * {month} {weekday}")
        if weekday == "*":
            return told(f"{minute} {hour} {day} {month} *")
        # cron-descriptor says "or" where two day fields must both match, neither "or" nor "and" before a # or an L,
        # and tells one # or L of a list, as if it stood for the others.
        joint = "" if day == "*" else "and only " if fields.needs_both_days else "or "
        days = " or ".join(map(by_week, weekday.split(","))) if re.search("[#L]", weekday) else by_week(weekday)
        return f"{told(f'{minute} {hour} {day} * *')}, {joint}{days}{told(f'0 0 * {month} *', part.MONTH)}"
    except (cron_descriptor.FormatException, cron_descriptor.MissingFieldException, ValueError, LookupError):
        return f"At minute {minute}, hour {hour}, day of month {day}, month {month}, day of week {weekday} (* is any)"


def _listed(field: str, low: int, high: int) -> str:
    """Return months or days of the week with steps written out: `1-7/7` would be told as every seventh week."""
    items: list[str] = []
    for item in field.split(","):
        span, slash, step = item.partition("/")
        if slash:
            first, last = (low, high) if span == "*" else (int(bound) for bound in span.split("-"))
            items += map(str, range(first, last + 1, int(step)))
        else:
            items.append(item)
    return ",".join(dict.fromkeys(items))


def warnings(fields: Fields, zone: ZoneInfo) -> Iterator[str]:
    """Yield what people often get wrong with such an expression, but for clock changes."""
    yield from _about_every_minute(fields)
    yield from _about_steps(fields)
    yield from _about_missing_days(fields)
    yield from _about_both_days(fields)
    yield from _about_utc(fields, zone)


def _about_every_minute(fields: Fields) -> Iterator[str]:
    if fields.minute == "*" and fields.hour != "*":
        yield (
            f"field 1, minute, is *: it runs 60 times in each of these hours; "
            f"for once write 0 {fields.hour} {fields.day_of_month} {fields.month} {fields.day_of_week}"
        )


def _about_steps(fields: Fields) -> Iterator[str]:
    """Yield of steps that do not fill their field: they are counted from its start, not from the last run."""
    for field, low, count, unit, restart in (
        (fields.minute, 0, 60, "minute", "at minute 0 of each hour"),
        (fields.hour, 0, 24, "hour", "at 00:00 of each day"),
        (fields.month, 1, 12, "month", "in January of each year"),
        (fields.day_of_week, 0, 7, "day", "on Sunday of each week"),
    ):
        match = re.fullmatch(rf"(?:\*|{low}-{low + count - 1})/(\d+)", field)
        left = count % int(match[1]) if match else 0
        if left:
            yield f"{field} starts again {restart}: the last step is {left} {unit}{'s' if left > 1 else ''} long"
    if re.fullmatch(r"(?:\*|1-31)/\d+", fields.day_of_month) and not fields.day_of_month.endswith("/31"):
        yield f"{fields.day_of_month} starts again on day 1 of each month, whatever the last day was"


def _about_missing_days(fields: Fields) -> Iterator[str]:
    """Yield of a day that some of the months do not have; ranges and steps are left alone."""
    day = max((int(item) for item in fields.day_of_month.split(",") if item.isdigit()), default=0)
    months = _numbers(fields.month)
    without = [calendar.month_name[month] for month in months if _MONTH_LENGTHS[month - 1] < day]
    if day > _ALWAYS_THERE and without and len(without) < len(months):
        yield f"day {day}: months without it are left out ({', '.join(without)}); L is the last day of every month"
    elif day == _ALWAYS_THERE + 1 and 2 in months:  # noqa: PLR2004 (February)
        yield "day 29: February has it in leap years only; L is the last day of every month"


def _numbers(months: str) -> list[int]:
    written = _listed(months, 1, 12).replace("*", "1-12")
    bounds = ([int(bound) for bound in item.split("-")] for item in written.split(","))
    return sorted({month for span in bounds for month in range(span[0], span[-1] + 1)})


def _about_both_days(fields: Fields) -> Iterator[str]:
    if "*" in {fields.day_of_month, fields.day_of_week}:
        return
    if fields.needs_both_days:
        yield "day of month and day of week are both set, one with a leading *: it runs on days that match both"
    else:
        yield "day of month and day of week are both set: it runs on days that match either, not only both"


def _about_utc(fields: Fields, zone: ZoneInfo) -> Iterator[str]:
    if zone.key in _UTC and not fields.hour.startswith("*"):
        hour, minute = (int("0" + re.split(r"\D", field)[0]) for field in (fields.hour, fields.minute))
        yield (f"{hour:02}:{minute:02} UTC, not your local time: name a time zone (--timezone) if local time is meant")


def comes_twice(wall: datetime, zone: ZoneInfo) -> str:
    """Return the remark on a time that the clocks show twice."""
    return f"{wall:%H:%M} comes twice on {wall:%Y-%m-%d} in {zone.key}: runs once, the first time"


def does_not_exist(walls: Sequence[datetime], shown: datetime, zone: ZoneInfo) -> str:
    """Return the remark on times that the clocks skip.

    Args:
        walls: All times of the rule from the first skipped one on, up to and with `shown`.
        shown: The first minute after the gap.
        zone: Whose clocks.
    """
    times = [f"{wall:%H:%M}" for wall in walls if wall < shown]
    missing = f"{times[0]} does" if len(times) == 1 else f"{_enumerated(times)} do"
    at = f"{shown:%H:%M}" if shown.date() == walls[0].date() else f"{shown:%H:%M on %Y-%m-%d}"
    how = "runs at" if len(times) == 1 else "run once, at"
    joined = ", with the run due then" if len(times) < len(walls) else ""
    return f"{missing} not exist on {walls[0]:%Y-%m-%d} in {zone.key}: {how} {at}{joined}"


def _enumerated(times: Sequence[str]) -> str:
    return f"{times[0]} and {times[1]}" if len(times) == 2 else f"{times[0]} and {len(times) - 1} later times"  # noqa: PLR2004


def never(fields: Fields, first_year: int, last_year: int) -> str:
    """Return why an expression names no instant."""
    return (
        f"names no day from {first_year} to {last_year} "
        f"(day of month {fields.day_of_month}, month {fields.month}, day of week {fields.day_of_week})"
    )
