"""What the words of several kinds of rules share: times of day, ordinals, lists, and the nearest known name."""

from __future__ import annotations

import difflib
import re
from datetime import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date, datetime

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
#: A time of day as people type it: 9:00, 09:00, 09:00:30.
TIME = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?"

_TIME = re.compile(TIME, re.ASCII)
#: More remarks than these about one occurrence are counted.
_REMARKS_MOST = 4
#: Longer texts are compared with nothing: it takes quadratic time.
_COMPARED_MOST = 60


def parse_time(text: str) -> time | None:
    """Return the time of day that `9:00` or `09:00:30` name; None for what is none."""
    if not _TIME.fullmatch(text):
        return None
    hour, minute, second = (*map(int, text.split(":")), 0)[:3]
    try:
        return time(hour, minute, second)
    except ValueError:
        return None


def time_text(at: time | datetime) -> str:
    """Return `09:00`; with seconds where there are any."""
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def day_text(day: date) -> str:
    """Return `Monday 2026-12-28`."""
    return f"{WEEKDAYS[day.weekday()]} {day.isoformat()}"


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `11th`."""
    is_teen = number % 100 in {11, 12, 13}
    return f"{number}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def counted(count: int, unit: str) -> str:
    """Return `1 hour`, `2 hours`."""
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def listed(parts: Sequence[str], *, last: str = "and") -> str:
    """Return `a, b and c`."""
    return f" {last} ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def shortened(remarks: Sequence[str]) -> tuple[str, ...]:
    """Return the first few remarks, and how many more there are."""
    more = len(remarks) - _REMARKS_MOST
    return (*remarks[:_REMARKS_MOST], f"… and {more} more like these") if more > 0 else tuple(remarks)


def nearest(text: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `text`; None where nothing is."""
    names = list(known)
    if len(text) > _COMPARED_MOST:
        return None
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(text.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None
