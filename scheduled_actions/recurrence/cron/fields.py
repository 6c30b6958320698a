"""Parse, check and describe the five fields of a cron expression, and warn about common mistakes.

This module detects all errors in an expression. Its result is an equivalent expression in normal form: with numbers
instead of names, without duplicates, and with ascending ranges.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from scheduled_actions.core.messages import counted, did_you_mean
from scheduled_actions.recurrence.phrases import (
    Malformed,
    about_missing_days,
    applying,
    parser,
    refuse,
    truncate,
)

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
#: Minimum similarity of a misspelt name for a suggestion: MONDAY for MON, SEPTEMBER for SEP.
_SIMILAR = 0.45
_UTC = frozenset({"UTC", "Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "Zulu", "Etc/GMT", "GMT"})


@dataclass(frozen=True, slots=True)
class _Field:
    """The definition of one of the five fields."""

    number: int
    name: str
    low: int
    high: int
    #: Number of different values: 7 for the day of week, although it has 8 numbers, because 0 and 7 are both Sunday.
    count: int
    #: The names of the values, from `low`; empty for fields without names.
    names: tuple[str, ...] = ()


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAY_OF_MONTH = _Field(3, "day of month", 1, 31, 31)
_DAY_OF_WEEK = _Field(5, "day of week", 0, 7, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))
_FIELDS = (
    _Field(1, "minute", 0, 59, 60),
    _Field(2, "hour", 0, 23, 24),
    _DAY_OF_MONTH,
    _Field(4, "month", 1, 12, 12, _MONTHS),
    _DAY_OF_WEEK,
)


@dataclass(frozen=True, slots=True)
class Fields:
    """The five fields of a valid expression, with numbers instead of names, no duplicates, and ascending ranges."""

    minute: str
    hour: str
    day_of_month: str
    month: str
    day_of_week: str

    def __str__(self) -> str:
        return f"{self.minute} {self.hour} {self.day_of_month} {self.month} {self.day_of_week}"

    @property
    def is_fixed(self) -> bool:
        """Whether the expression has fixed times of day, which a clock change must neither lose nor repeat.

        Source: Debian's cron, which marks a minute or hour field that begins with a star, and exempts jobs with such
        a field from the special treatment.
        """
        return not (self.minute.startswith("*") or self.hour.startswith("*"))

    @property
    def needs_both_days(self) -> bool:
        """Whether a day must match both day fields, rather than either.

        Source: crontab(5) of Vixie's and Debian's cron; "begins with a star" includes `*/2`.
        """
        return self.day_of_month.startswith("*") or self.day_of_week.startswith("*")


@parser
def read_fields(text: str) -> Fields:
    """Parse a cron expression or a macro like `@daily`.

    Names, `L`, `#`, ranges, steps and lists are interpreted as in croniter; `?` means `*` in the day fields. A step
    from a day of the week continues to Sunday (`1/2` is Monday, Wednesday, Friday, Sunday), as in Debian's cron.

    Raises:
        RecurrenceInvalid: The message names the field, the item and what to write instead.
    """
    return Fields(*map(_read_field, _FIELDS, _split(text)))


def numbers_of(item: str, low: int, high: int) -> range:
    """Return the numbers of one item of a valid field: a star, a number or a range, with or without a step."""
    span, _, step = item.partition("/")
    first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
    return range(int(first), int(last or first) + 1, int(step or 1))


def _split(text: str) -> list[str]:
    """Return the five fields as written, or those of a macro."""
    word = text.strip().lower()
    strange = next((character for character in text if not character.isascii()), "")
    refuse(
        (strange, f'"{strange}" is not allowed in a cron expression: use ASCII characters'),
        (word == "@reboot", "@reboot is not supported: no process keeps running between ticks"),
    )
    if word.startswith("@") and word not in MACROS:
        raise Malformed(
            f"unknown macro {_shown(word)}; " + did_you_mean(word, MACROS, otherwise=f"use {', '.join(MACROS)}")
        )
    parts = MACROS.get(word, text).split()
    hint = "; seconds and years are not supported" if len(parts) in {6, 7} else ""
    refuse(
        (
            len(parts) != len(_FIELDS),
            f"expected 5 fields (minute, hour, day of month, month, day of week), found {len(parts)}{hint}",
        )
    )
    return parts


def _read_field(field: _Field, part: str) -> str:
    try:
        return _read_list(field, part)
    except Malformed as problem:
        raise Malformed(f"field {field.number}, {field.name}: {problem}") from None


def _read_list(field: _Field, part: str) -> str:
    if part == "*" or (part == "?" and field in {_DAY_OF_MONTH, _DAY_OF_WEEK}):
        return "*"
    items = list(dict.fromkeys(_read_item(field, item, part) for item in part.split(",")))
    are_special = {"#" in item or "L" in item for item in items}
    refuse(
        (
            field is _DAY_OF_WEEK and len(are_special) > 1,
            f"{_shown(part)} mixes plain days with # or L: use two expressions",
        )
    )
    if "*" in items:
        return "*" if part.startswith("*") else f"{field.low}-{field.low + field.count - 1}"
    return ",".join(items)


def _read_item(field: _Field, item: str, part: str) -> str:
    """Return one item of a list with numbers instead of names."""
    if item.isdigit() and field.low <= int(item) <= field.high:
        return str(int(item))
    refuse((not item, f"an item of {_shown(part)} is empty"))
    if field is _DAY_OF_MONTH and item in {"L", "l"}:
        return "L"
    if field is _DAY_OF_WEEK and ("#" in item or item.startswith(("L", "l"))):
        return _read_special_day(item)
    span, slash, step = item.partition("/")
    refuse((slash and not step.isdigit(), f"{_shown(item)}: the step after / is not a whole number"))
    every = int(step) if slash else 1
    refuse(
        (
            not 1 <= every <= field.count,
            f"{_shown(item)}: the step {_shown(step)} is not in {_range(1, field.count)}",
        )
    )
    if span == "*":
        return f"*/{every}" if every > 1 else "*"
    low, high = _read_span(field, span)
    if slash and "-" not in span:
        high = field.high
    return str(low) if low == high else f"{low}-{high}{f'/{every}' if slash else ''}"


def _read_special_day(item: str) -> str:
    """Return `5#2` (the second Friday) or `L5` (the last Friday), with numbers instead of names."""
    refuse((item in {"L", "l"}, "L needs a day: L5 is the last Friday of a month"))
    if item.startswith(("L", "l")):
        return f"L{_read_value(_DAY_OF_WEEK, item[1:]) % 7}"
    day, _, nth = item.partition("#")
    refuse(
        (
            nth not in {"1", "2", "3", "4", "5"},
            f"{_shown(item)}: # needs a number in {_range(1, 5)}; 5#2 is the second Friday of a month",
        )
    )
    return f"{_read_value(_DAY_OF_WEEK, day) % 7}#{nth}"


def _read_span(field: _Field, span: str) -> tuple[int, int]:
    """Return the first and the last value of a range; both are the same for a single value."""
    first, dash, last = span.partition("-")
    refuse((dash and not (first and last), f"{_shown(span)} is a range without its {'end' if first else 'start'}"))
    low = _read_value(field, first)
    if not dash:
        return low, low
    high = field.high if field is _DAY_OF_MONTH and last in {"L", "l"} else _read_value(field, last)
    # The two ranges to write instead of a range that passes the end of the field.
    ranges = [(low, field.high), (1 if field is _DAY_OF_WEEK else field.low, high)]
    forwards = ",".join(f"{a}-{b}" if a < b else str(a) for a, b in ranges if a <= b)
    refuse((low > high, f"{_shown(span)} runs backwards; write {forwards}"))
    return low, high


def _read_value(field: _Field, word: str) -> int:
    upper = word.upper()
    if upper in field.names:
        return field.low + field.names.index(upper)
    if not word.isdigit():
        raise Malformed(_unknown(field, word, upper))
    refuse((not field.low <= int(word) <= field.high, f"{_shown(word)} is not in {_range(field.low, field.high)}"))
    return int(word)


def _unknown(field: _Field, word: str, upper: str) -> str:
    """Return the error for a word that is neither a number nor a name, with a suggestion."""
    if field is _DAY_OF_WEEK and upper.endswith("L") and upper[:-1] in {*"01234567", *field.names}:
        return f"{word}: the last such day of a month is written L{word[:-1]}"
    if field is _DAY_OF_MONTH and re.fullmatch("LW|WL|[0-9]+W|W[0-9]+", upper):
        return f"{_shown(word)}: W is not supported; use a business-day rule for the nth or last working day of a month"
    near = difflib.get_close_matches(upper[:20], field.names, n=1, cutoff=_SIMILAR)
    names = f"; did you mean {near[0]}?" if near else f" ({field.names[0]} to {field.names[-1]})" if field.names else ""
    return f"{_shown(word)} is not a number from {field.low} to {field.high}{' or a name' if names else ''}{names}"


def _range(low: int, high: int) -> str:
    return f"{low}–{high}"  # noqa: RUF001 (ranges are written with an en dash)


def _shown(text: str) -> str:
    return truncate(text, 30)


def describe(fields: Fields) -> str:
    """Return the expression in words, one sentence without a full stop: "At 09:00, only on Monday"."""
    import cron_descriptor  # type: ignore[import-untyped] # noqa: PLC0415 (slow to import, seldom needed)

    part = cron_descriptor.DescriptionTypeEnum
    minute, hour, day = fields.minute, fields.hour, fields.day_of_month
    month, weekday = _expand(fields.month, 1, 12), _expand(fields.day_of_week, 0, 6)

    def described(expression: str, which: object = part.FULL) -> str:
        descriptor = cron_descriptor.ExpressionDescriptor(expression, use_24hour_time_format=True, locale_code="en_US")
        return str(descriptor.get_description(which))

    def by_week(days: str) -> str:
        return described(f"0 0 * * {days}", part.DAYOFWEEK).removeprefix(", ").removeprefix("only ")

    try:
        if day == "*" and not re.search("[#L].*,", weekday):
            return described(f"{minute} {hour} * {month} {weekday}")
        if weekday == "*":
            return described(f"{minute} {hour} {day} {month} *")
        # cron-descriptor writes "or" where both day fields must match, and no conjunction before a # or an L; of a
        # list, it describes only one # or L.
        joint = "" if day == "*" else "and only " if fields.needs_both_days else "or "
        days = " or ".join(map(by_week, weekday.split(","))) if re.search("[#L]", weekday) else by_week(weekday)
        return f"{described(f'{minute} {hour} {day} * *')}, {joint}{days}{described(f'0 0 * {month} *', part.MONTH)}"
    except (cron_descriptor.FormatException, cron_descriptor.MissingFieldException, ValueError, LookupError):
        return f"At minute {minute}, hour {hour}, day of month {day}, month {month}, day of week {weekday} (* is any)"


def _expand(field: str, low: int, high: int) -> str:
    """Return a field of months or days of the week without steps, and without ranges if items overlap.

    cron-descriptor describes `1-7/7` as every seventh week, and lists Sunday twice for `0,7`.
    """
    if field == "*" or "#" in field or "L" in field:
        return field
    items = {item: numbers_of(item, low, high) for item in field.split(",")}
    numbers = [number if number <= high else low for span in items.values() for number in span]
    if len(set(numbers)) < len(numbers):
        return ",".join(map(str, dict.fromkeys(numbers)))
    return ",".join(",".join(map(str, span)) if "/" in item else item for item, span in items.items())


def warnings_about(fields: Fields, zone: ZoneInfo) -> list[str]:
    """Return warnings about likely mistakes; `CronRule.warnings` adds those about clock changes."""
    day, weekday = fields.day_of_month, fields.day_of_week
    are_both_set = "*" not in {day, weekday}
    hour, minute = (int("0" + re.split(r"\D", field)[0]) for field in (fields.hour, fields.minute))
    both = "day of month and day of week are both set"
    return [
        *applying(
            (
                fields.minute == "*" and fields.hour != "*",
                (
                    "field 1, minute, is *: the rule occurs 60 times in each of these hours; "
                    f"for one occurrence in each hour, write 0 {fields.hour} {day} {fields.month} {weekday}"
                ),
            )
        ),
        *_about_steps(fields),
        # Ranges and steps of days are ignored.
        *about_missing_days(
            max((int(item) for item in day.split(",") if item.isdigit()), default=0),
            sorted({month for item in fields.month.split(",") for month in numbers_of(item, 1, 12)}),
            "L",
        ),
        *applying(
            (
                are_both_set and fields.needs_both_days,
                f"{both}, one with a leading *: the rule occurs on days that match both",
            ),
            (
                are_both_set and not fields.needs_both_days,
                f"{both}: the rule occurs on days that match either, not only both",
            ),
            (
                zone.key in _UTC and not fields.hour.startswith("*"),
                f"{hour:02}:{minute:02} is in UTC, not your local time: set a time zone if you mean local time",
            ),
        ),
    ]


def _about_steps(fields: Fields) -> list[str]:
    """Return warnings about steps that do not divide their field evenly: they start again with each new period."""
    warnings = []
    for field, low, count, unit, restart in (
        (fields.minute, 0, 60, "minute", "at minute 0 of each hour"),
        (fields.hour, 0, 24, "hour", "at 00:00 of each day"),
        (fields.month, 1, 12, "month", "in January of each year"),
        (fields.day_of_week, 0, 7, "day", "on Sunday of each week"),
    ):
        match = re.fullmatch(rf"(?:\*|{low}-{low + count - 1})/(\d+)", field)
        left = count % int(match[1]) if match else 0
        if left:
            warnings.append(f"{field} starts again {restart}: the last step is {counted(left, unit)} long")
    if re.fullmatch(r"(?:\*|1-31)/\d+", fields.day_of_month) and not fields.day_of_month.endswith("/31"):
        warnings.append(f"{fields.day_of_month} starts again on day 1 of each month, whatever the last day was")
    return warnings


def does_not_exist(walls: Sequence[datetime], shown: datetime, zone: ZoneInfo) -> str:
    """Return the remark on times of a rule that a DST gap skips.

    Args:
        walls: All wall times of the rule from the first skipped one up to `shown`, both included.
        shown: The first minute after the gap.
        zone: The zone of the clocks.
    """
    times = [f"{wall:%H:%M}" for wall in walls if wall < shown]
    more = times[1] if len(times) == 2 else f"{len(times) - 1} later times"  # noqa: PLR2004
    missing = f"{times[0]} does" if len(times) == 1 else f"{times[0]} and {more} do"
    at = f"{shown:%H:%M}" if shown.date() == walls[0].date() else f"{shown:%H:%M on %Y-%m-%d}"
    runs = "runs at" if len(times) == 1 else "run once, at"
    joined = ", together with the run due at that time" if len(times) < len(walls) else ""
    return f"{missing} not exist on {walls[0]:%Y-%m-%d} in {zone.key}: {runs} {at}{joined}"
