"""Convert repeating intervals of ISO 8601, such as `R5/2026-12-01T09:00:00Z/P1D`, to RRULEs."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from scheduled_actions.recurrence.intervals import Length, parse_length
from scheduled_actions.recurrence.model import COUNT_MOST
from scheduled_actions.recurrence.phrases import Malformed, quoted, refuse

_RULE = re.compile(r"r-?[0-9]*/")
_PARTS = re.compile(r"R(?P<count>[0-9]*)/(?:(?P<start>[^/]*)/)?(?P<length>[^/ ]*)")
_FORM = "write the start and a duration, such as R5/2026-12-01T09:00:00Z/P1D"
_SECOND = 1_000_000


def is_repeating_interval(words: str) -> bool:
    """Whether a rule is a repeating interval; `words` is in lower case."""
    return _RULE.match(words) is not None


def repeating_rrule(text: str, zone: ZoneInfo) -> str:
    """Return the DTSTART, if there is a start, and the RRULE of a repeating interval.

    Args:
        text: `R5/START/DURATION`, `R5/DURATION` or `R5//DURATION`, in upper case; without a number, it has no end.
        zone: The zone of a start without an offset, and of the wall clock that days, weeks, months and years follow.

    Raises:
        Malformed: The text is not a repeating interval, or has an end.

    Source: ISO 8601-1:2019 §5.6.
    """
    match = _PARTS.fullmatch(text)
    if match is None:
        raise Malformed(f"is not a repeating interval: {_FORM}")
    count, start, length = match.group("count", "start", "length")
    refuse(
        (start and start.startswith("P"), f"has an end after its duration: {_FORM}"),
        (start and length and not length.startswith("P"), f"has an end after its start: {_FORM}"),
        (not length.startswith("P"), f"has no duration: {_FORM}"),
        (count and not 1 <= int(count) <= COUNT_MOST, f"R{count} is not from R1 to R{COUNT_MOST}"),
    )
    parsed = parse_length(length)
    rule = frequency_of(parsed)
    if rule is None:
        raise Malformed(f"{length} is a duration in several units or fractions: use one unit, such as P1D or PT36H")
    if count:
        rule += f";COUNT={count}"
    return f"RRULE:{rule}" if not start else f"{_dtstart(start, zone, parsed)}\nRRULE:{rule}"


def frequency_of(length: Length) -> str | None:
    """Return FREQ and INTERVAL of an interval; None if it has dates as well as hours, or fractions of a second."""
    match (length.months, length.days, length.microseconds):
        case (months, 0, 0):
            unit, count = ("YEARLY", months // 12) if months % 12 == 0 else ("MONTHLY", months)
        case (0, days, 0):
            unit, count = ("WEEKLY", days // 7) if days % 7 == 0 else ("DAILY", days)
        case (0, 0, exact) if exact % _SECOND == 0:
            seconds = exact // _SECOND
            unit, size = next(
                (unit, size)
                for unit, size in (("HOURLY", 3600), ("MINUTELY", 60), ("SECONDLY", 1))
                if seconds % size == 0
            )
            count = seconds // size
        case _:
            return None
    return f"FREQ={unit}" + (f";INTERVAL={count}" if count > 1 else "")


def _dtstart(text: str, zone: ZoneInfo, length: Length) -> str:
    try:
        start = datetime.fromisoformat(text)
        local = start if start.tzinfo is None else start.astimezone(zone)
    except (ValueError, OverflowError):
        raise Malformed(f"{quoted(text)} is not an ISO 8601 time, such as 2026-12-01T09:00:00Z") from None
    # A local time without an offset cannot name the second occurrence of an hour.
    if local.fold and length.microseconds:
        return f"DTSTART:{start.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    return f"DTSTART:{local:%Y%m%dT%H%M%S}"
