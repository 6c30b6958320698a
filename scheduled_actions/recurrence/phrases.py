"""Format and parse words that several kinds of rules use: times of day, ordinals, lists."""

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from scheduled_actions.core.errors import RecurrenceInvalid
from scheduled_actions.core.messages import did_you_mean

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
FEBRUARY, LEAP_DAY = 2, 29
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
NUMBERS = {
    "a": 1, "an": 1, "the": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "fifteen": 15, "twenty": 20, "thirty": 30,
}  # fmt: skip
#: A regular expression for a time of day as people type it: 9:00, 09:00, 09:00:30.
TIME = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?"

Arguments = ParamSpec("Arguments")
Parsed = TypeVar("Parsed")

#: Maximum number of remarks listed for one occurrence; further remarks are counted.
_REMARKS_MOST = 4


def parse_time(text: str) -> time | None:
    """Parse a time of day, `9:00` or `09:00:30`; return None for any other string."""
    with suppress(ValueError):
        if re.fullmatch(TIME, text, re.ASCII):
            hour, minute, *seconds = map(int, text.split(":"))
            return time(hour, minute, sum(seconds))
    return None


def read_time(text: str) -> time:
    """Parse the time of day in a rule, `9:00` or `09:00:30`; raise Malformed for any other string."""
    if (at := parse_time(text)) is None:
        raise Malformed(f'"{text}" is not a time of day, such as 09:00 or 23:59:30')
    return at


def time_text(at: time | datetime) -> str:
    """Return a time of day as `09:00`, or as `09:00:30` if it has seconds."""
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def day_text(day: date) -> str:
    """Return a day with its weekday: `Monday 2026-12-28`."""
    return f"{WEEKDAYS[day.weekday()]} {day.isoformat()}"


def ordinal(number: int) -> str:
    """Return a number as an ordinal: `1st`, `2nd`, `3rd`, `11th`."""
    is_teen = number % 100 in {11, 12, 13}
    return f"{number}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def read_position(text: str) -> int:
    """Parse a position, such as `2nd`, `second`, `last` or `2nd last`; one counted from the end is negative.

    Raises:
        Malformed: The text is not a position.
    """
    position = re.sub(r"[ -]?(?:to[ -])?last$", "", text)
    sign = 1 if position == text else -1
    if numbered := re.fullmatch("([0-9]{1,4})(?:st|nd|rd|th)", position):
        return sign * int(numbered[1])
    if not position or position in _ORDINALS:
        return sign * (_ORDINALS.index(position or "first") + 1)
    hint = did_you_mean(position, (*_ORDINALS, "last"), otherwise="use first, 2nd, last or 2nd last")
    raise Malformed(f'"{text}" is not a position; {hint}')


def join(parts: Sequence[str], *, last: str = "and") -> str:
    """Return a list in words: `a, b and c`."""
    return f" {last} ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def truncate(text: str, most: int) -> str:
    """Return the text, or its first `most - 1` characters and an ellipsis if it is longer than `most`."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def quoted(text: str) -> str:
    """Return an invalid word for an error message: in quotes, and truncated to 40 characters."""
    return f'"{truncate(text, 40)}"'


class Malformed(ValueError):
    """A problem in a rule; the message does not contain the text of the rule."""


def parser(parse: Callable[Concatenate[str, Arguments], Parsed]) -> Callable[Concatenate[str, Arguments], Parsed]:
    """Decorate a function that parses a rule: convert Malformed to RecurrenceInvalid with the rule's text."""

    @wraps(parse)
    def parsed(text: str, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Parsed:
        try:
            return parse(text, *args, **kwargs)
        except Malformed as problem:
            raise RecurrenceInvalid(text, str(problem)) from None

    return parsed


def refuse(*problems: tuple[object, str]) -> None:
    """Raise Malformed with the text of the first problem whose condition is true; each problem is (condition, text)."""
    for holds, problem in problems:
        if holds:
            raise Malformed(problem)


def applying(*warnings: tuple[object, str]) -> list[str]:
    """Return the texts of the warnings whose condition is true; each warning is (condition, text)."""
    return [warning for holds, warning in warnings if holds]


def about_missing_days(day: int, months: Sequence[int], last_day: str) -> list[str]:
    """Return at most one warning: that a day is missing in some of the months (but not in all), or in some years.

    Args:
        day: The day of the month; 0: none.
        months: 1 to 12.
        last_day: The form that means the last day of a month.
    """
    hint = f"{last_day} is the last day of every month"
    without = [month for month in months if monthrange(2028, month)[1] < day]  # a leap year
    if without and len(without) < len(months):
        return [f"day {day}: months without it are left out ({', '.join(MONTHS[n - 1] for n in without)}); {hint}"]
    return [f"day 29: February has it in leap years only; {hint}"] if day == LEAP_DAY and FEBRUARY in months else []


def limit_remarks(remarks: Sequence[str]) -> tuple[str, ...]:
    """Return at most `_REMARKS_MOST` remarks; if there are more, a further remark gives the number of the others."""
    more = len(remarks) - _REMARKS_MOST
    return (*remarks[:_REMARKS_MOST], f"… and {more} more like these") if more > 0 else tuple(remarks)
