"""The five fields of a cron expression, checked item by item.

Everything that can be wrong with an expression is found and named here. What comes out means the same, spelt so that no
reader of cron expressions takes it for something else.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from scheduled_actions.core.errors import RecurrenceInvalid

#: More characters than any expression needs.
LENGTH_MOST = 2_000
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
#: A name is called a slip for another from this likeness on: MONDAY for MON, SEPTEMBER for SEP.
_ALIKE = 0.45
#: Of what is wrong, this much is repeated.
_SHOWN_MOST = 30


@dataclass(frozen=True, slots=True)
class _Field:
    """What one of the five may hold."""

    number: int
    name: str
    low: int
    high: int
    #: How many different values there are: the day of week has two numbers for Sunday.
    count: int
    #: In the order of the values, from `low`.
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
    """The five fields of a valid expression: in numbers, without repetitions, each range a real one."""

    minute: str
    hour: str
    day_of_month: str
    month: str
    day_of_week: str

    def __str__(self) -> str:
        return f"{self.minute} {self.hour} {self.day_of_month} {self.month} {self.day_of_week}"

    @property
    def is_fixed(self) -> bool:
        """Whether the expression names times of day, which a clock change must neither lose nor repeat.

        Source: Debian's cron, which marks a minute or hour field that begins with a star, and spares those jobs the
        special treatment.
        """
        return not (self.minute.startswith("*") or self.hour.startswith("*"))

    @property
    def needs_both_days(self) -> bool:
        """Whether a day must match both day fields, rather than either.

        Source: crontab(5) of Vixie's and Debian's cron; "begins with a star" includes `*/2`.
        """
        return self.day_of_month.startswith("*") or self.day_of_week.startswith("*")


class _Wrong(Exception):
    """What is wrong within a field."""


def read_fields(text: str) -> Fields:
    """Return the five fields of a cron expression or of a macro like `@daily`.

    Names, `L`, `#`, ranges, steps and lists are croniter's; `?` stands for `*` in the day fields. A step from a day of
    week goes on to Sunday (`1/2` is Monday, Wednesday, Friday, Sunday), as in Debian's cron.

    Raises:
        RecurrenceInvalid: Naming the field, the item, and what would be right.
    """
    if len(text) > LENGTH_MOST:
        raise RecurrenceInvalid(text, f"is {len(text):,} characters long; at most {LENGTH_MOST:,} are taken")
    strange = next((character for character in text if not character.isascii()), None)
    if strange is not None:
        raise RecurrenceInvalid(text, f"{strange} is no character of a cron expression")
    parts = _expanded(text).split()
    if len(parts) != len(_FIELDS):
        expected = "5 fields (minute, hour, day of month, month, day of week)"
        hint = "; there is none for seconds or years" if len(parts) in {6, 7} else ""
        raise RecurrenceInvalid(text, f"{expected}, found {len(parts)}{hint}")
    return Fields(*(_read_field(text, field, part) for field, part in zip(_FIELDS, parts, strict=True)))


def _expanded(text: str) -> str:
    """Return what a macro stands for; anything else as it is."""
    word = text.strip().lower()
    if not word.startswith("@"):
        return text
    if word == "@reboot":
        raise RecurrenceInvalid(text, "@reboot names no time: nothing runs between two ticks that could be restarted")
    if word not in MACROS:
        near = difflib.get_close_matches(word, MACROS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(MACROS)}"
        raise RecurrenceInvalid(text, f"{_shown(word)} is not known; {hint}")
    return MACROS[word]


def _read_field(text: str, field: _Field, part: str) -> str:
    if part == "?" and field in {_DAY_OF_MONTH, _DAY_OF_WEEK}:
        return "*"
    try:
        items = list(dict.fromkeys(_read_item(field, item, part) for item in part.split(",")))
    except _Wrong as wrong:
        raise RecurrenceInvalid(text, f"field {field.number}, {field.name}: {wrong}") from None
    special = [item for item in items if "#" in item or "L" in item]
    if field is _DAY_OF_WEEK and 0 < len(special) < len(items):
        problem = f"{_shown(part)} mixes plain days with # or L: make it two expressions"
        raise RecurrenceInvalid(text, f"field {field.number}, {field.name}: {problem}")
    if "*" in items:
        return "*" if part.startswith("*") else f"{field.low}-{field.low + field.count - 1}"
    return ",".join(items)


def _read_item(field: _Field, item: str, part: str) -> str:
    """Return one item of a list, in numbers."""
    if not item:
        raise _Wrong(f"an item of {_shown(part)} is empty")
    if field is _DAY_OF_MONTH and item in {"L", "l"}:
        return "L"
    if field is _DAY_OF_WEEK and ("#" in item or item.startswith(("L", "l"))):
        return _read_special_day(item)
    span, slash, step = item.partition("/")
    if slash:
        return _read_steps(field, item, span, step)
    if span == "*":
        return span
    low, high = _read_span(field, span)
    return str(low) if low == high else f"{low}-{high}"


def _read_special_day(item: str) -> str:
    """Return `5#2` (the second Friday) or `L5` (the last), in numbers."""
    if item.startswith(("L", "l")):
        if len(item) == 1:
            raise _Wrong("L needs a day: L5 is the last Friday of a month")
        return f"L{_read_value(_DAY_OF_WEEK, item[1:]) % 7}"
    day, _, nth = item.partition("#")
    value = _read_value(_DAY_OF_WEEK, day) % 7
    if nth not in {"1", "2", "3", "4", "5"}:
        raise _Wrong(f"{_shown(item)}: # takes one of {_range(1, 5)}, 5#2 is the second Friday of a month")
    return f"{value}#{nth}"


def _read_steps(field: _Field, item: str, span: str, step: str) -> str:
    """Return a range with its step; a start without an end goes on to the field's highest value."""
    if not step.isdigit():
        raise _Wrong(f"{_shown(item)}: the step after / is not a whole number")
    every = int(step)
    if not 1 <= every <= field.count:
        raise _Wrong(f"{_shown(item)}: the step {_shown(step)} is not in {_range(1, field.count)}")
    if span == "*":
        return f"*/{every}" if every > 1 else "*"
    low, high = _read_span(field, span)
    if "-" not in span:
        high = field.high
    return str(low) if low == high else f"{low}-{high}/{every}"


def _read_span(field: _Field, span: str) -> tuple[int, int]:
    """Return the first and the last value of a range; a single value is both."""
    first, dash, last = span.partition("-")
    if not dash:
        value = _read_value(field, span)
        return value, value
    if not first or not last:
        raise _Wrong(f"{_shown(span)} is a range without its {'end' if first else 'start'}")
    low = _read_value(field, first)
    high = field.high if field is _DAY_OF_MONTH and last in {"L", "l"} else _read_value(field, last)
    if low > high:
        raise _Wrong(f"{_shown(span)} runs backwards; write {_forwards(field, low, high)}")
    return low, high


def _forwards(field: _Field, low: int, high: int) -> str:
    """Return the two ranges that were meant by one that runs past the end of the field."""
    start = 1 if field is _DAY_OF_WEEK else field.low
    spans = [(low, field.high), (start, high)]
    return ",".join(f"{a}-{b}" if a < b else str(a) for a, b in spans if a <= b)


def _read_value(field: _Field, word: str) -> int:
    if word.isdigit():
        if not field.low <= int(word) <= field.high:
            raise _Wrong(f"{_shown(word)} is not in {_range(field.low, field.high)}")
        return int(word)
    if word.upper() in field.names:
        return field.low + field.names.index(word.upper())
    raise _Wrong(_unknown(field, word))


def _unknown(field: _Field, word: str) -> str:
    """Return what is wrong with a word that is neither a number nor a name, and what may have been meant."""
    upper = word.upper()
    if field is _DAY_OF_WEEK and upper.endswith("L") and upper[:-1] in {*"01234567", *field.names}:
        return f"{word}: the last such day of a month is written L{word[:-1]}"
    if field is _DAY_OF_MONTH and re.fullmatch("LW|WL|[0-9]+W|W[0-9]+", upper):
        return f"{_shown(word)}: W is not taken; the nth or last working day of a month is a business-day rule"
    expected = f"{_shown(word)} is not a number from {field.low} to {field.high}"
    if not field.names:
        return expected
    near = difflib.get_close_matches(upper[:20], field.names, n=1, cutoff=_ALIKE)
    hint = f"; did you mean {near[0]}?" if near else f" ({field.names[0]} to {field.names[-1]})"
    return f"{expected} or a name{hint}"


def _range(low: int, high: int) -> str:
    return f"{low}–{high}"  # noqa: RUF001 (what a range is written with)


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_MOST else f"{text[: _SHOWN_MOST - 1]}…"
