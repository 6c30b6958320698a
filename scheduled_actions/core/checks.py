"""Check arguments that many functions share, and convert them to parameters of SQL functions.

A check returns a valid value, and raises `InvalidArgument` for an invalid one unless its docstring names another
error. The checks of strings and documents raise `TooLarge` for values of more than 64 KiB. None stands for an omitted
argument.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from scheduled_actions.core import json_text, retry
from scheduled_actions.core.action import RESULT_LIMIT, Status
from scheduled_actions.core.errors import InvalidArgument, UnknownAction
from scheduled_actions.core.errors.families import short
from scheduled_actions.core.stored_values import parse_uuid

#: Maximum number of characters in a rule.
RECURRENCE_LIMIT = 2000
#: The problem of a rule that is a bare number.
NO_UNIT = 'has no unit: write, for example, "every 10 minutes"'
#: The last second of a day; if a clock change repeats it, its second occurrence.
LAST_SECOND = time(23, 59, 59, fold=1)
_EXAMPLES = '"2026-12-01T09:00:00+01:00" or "2026-12-01"'
_AWARE = 'datetime(2026, 12, 1, 9, tzinfo=ZoneInfo("Europe/Berlin"))'
_LONGEST_DELAY = timedelta(days=36525)
_YEAR_SECONDS = 366 * 86400
#: With at most this number of ASCII characters, JSON, in which one takes at most six bytes, is within `RESULT_LIMIT`.
_SHORT_TEXT = RESULT_LIMIT // 6 - 1


def check_instant(
    name: str, value: datetime | date | str | None, *, timezone: str | Literal[False] | None = False
) -> datetime | None:
    """Return an instant in UTC, None for None; a day alone means its start.

    Args:
        name: Name of the argument in errors.
        value: A datetime, a date, or an ISO 8601 string of either.
        timezone: IANA name, for values without an offset; a local time inside a DST gap moves forward by the gap. None:
            a time without an offset is refused, and a day is a day in UTC. False: as None, for a function that has no
            such argument, so that the error does not propose one.

    Raises:
        InvalidArgument: The value is malformed, a time without an offset or a time zone, or outside the years 1 to
            9999; or the time zone is unknown.
    """
    return None if value is None else _instant(name, value, timezone, time.min)


def check_end(
    name: str, value: datetime | date | str | None, *, timezone: str | Literal[False] | None = False
) -> datetime | None:
    """Return an instant as `check_instant` does, but a day alone means its last second."""
    return None if value is None else _instant(name, value, timezone, LAST_SECOND)


def check_scheduled_at(
    moment: datetime | date | str | timedelta | None,
    *,
    timezone: str | Literal[False] | None = False,
    name: str = "scheduled_at",
    time_of_day: time = time.min,
) -> tuple[datetime | None, timedelta | None]:
    """Return the instant in UTC and None; for a delay, return None and the delay from the database's clock.

    Args:
        moment: An instant, or a delay of at most a hundred years; None: now, for which both results are None.
        timezone: As for `check_instant`.
        name: Name of the argument in errors.
        time_of_day: The time that a day alone means.

    Raises:
        InvalidArgument: The time zone is unknown, or the moment is invalid.
    """
    if timezone is not None and timezone is not False:
        check_timezone(timezone)
    if moment is None:
        return None, None
    if not isinstance(moment, date | str | timedelta):
        expected = (
            f"a datetime, a date, an ISO 8601 string such as {_EXAMPLES}, or a timedelta such as timedelta(hours=1)"
        )
        raise InvalidArgument(name, moment, expected)
    if not isinstance(moment, timedelta):
        return _instant(name, moment, timezone, time_of_day), None
    if not timedelta(0) <= moment <= _LONGEST_DELAY:
        raise InvalidArgument(name, moment, "a delay between zero and a hundred years")
    return None, moment


def parse_moment(name: str, text: str) -> datetime | date:
    """Parse an ISO 8601 time, with or without an offset, or an ISO 8601 day.

    Raises:
        InvalidArgument: The text is neither.
    """
    given = text.strip().upper()
    for parse in (date.fromisoformat, datetime.fromisoformat):
        try:
            return parse(given)
        except ValueError:
            pass
    raise InvalidArgument(name, text, f"an ISO 8601 time or day, such as {_EXAMPLES}")


def _instant(name: str, value: Any, timezone: str | Literal[False] | None, time_of_day: time) -> datetime:  # noqa: ANN401 - what the caller passes
    moment = parse_moment(name, value) if isinstance(value, str) else value
    if not isinstance(moment, date):
        raise InvalidArgument(name, value, f"a datetime, a date or an ISO 8601 string, such as {_EXAMPLES}")
    zone = None if timezone is None or timezone is False else check_timezone(timezone)
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time_of_day, zone or UTC)
    elif moment.utcoffset() is None:
        if zone is None:
            example = '"2026-12-01T09:00:00+01:00"' if isinstance(value, str) else _AWARE
            other = "" if timezone is False else ', or set timezone, such as "Europe/Berlin"'
            raise InvalidArgument(name, value, f"a time with an offset: write it as {example}{other}")
        moment = moment.replace(tzinfo=zone)
    try:
        # The conversion to UTC moves a local time inside a DST gap forward by the gap (RFC 5545, erratum 4271).
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidArgument(name, value, "an instant between the years 1 and 9999 in UTC") from None


def check_timezone(name: str) -> ZoneInfo:
    """Return the time zone with this IANA name; raise `InvalidArgument` if no time zone has it."""
    try:
        # ZoneInfo passes a tuple to the look-up in its cache as key and default, and returns the default.
        if isinstance(name, str):
            return ZoneInfo(name)
    except Exception:  # noqa: BLE001, S110 - zoneinfo raises KeyError, ValueError, OSError and more for bad names
        pass
    raise InvalidArgument("timezone", name, 'an IANA time zone, such as "Europe/Berlin"')


def check_id(value: UUID | str) -> UUID:
    """Return the id of an action; raise `UnknownAction` for a malformed one."""
    if (found := parse_uuid(value)) is None:
        raise UnknownAction(value)
    return found


def check_cursor(value: UUID | str) -> UUID:
    """Return the UUID that a cursor contains; raise `InvalidArgument` for a malformed cursor."""
    if (found := parse_uuid(value)) is None:
        raise InvalidArgument("cursor", value, "a cursor: use next_cursor of the previous page")
    return found


def check_uuid(name: str, value: UUID | str | None) -> UUID | None:
    """Return the UUID of a filter, None for None; raise `InvalidArgument` for a malformed one."""
    if value is not None and parse_uuid(value) is None:
        raise InvalidArgument(name, value, "a UUID")
    return parse_uuid(value)


def check_status(value: str | None) -> Status | None:
    """Return the `Status` with this name, None for None; raise `InvalidArgument` for an unknown name."""
    return None if value is None else Status(check_choice("status", value, tuple(Status)))


def check_choice(name: str, value: str, choices: Sequence[str]) -> str:
    """Return a value if it is one of the choices; raise `InvalidArgument` otherwise."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgument(name, value, f"one of {', '.join(choices)}")
    return value


def check_integer(name: str, value: int | None, *, least: int, most: int) -> int | None:
    """Return an integer if it is from `least` to `most`, None for None; raise `InvalidArgument` otherwise."""
    return None if value is None else _integer(name, value, least, most)


def check_limit(value: int, *, most: int) -> int:
    """Return the maximum number of rows of a list if it is from 1 to `most`; raise `InvalidArgument` otherwise."""
    return _integer("limit", value, 1, most)


def _integer(name: str, value: int, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise InvalidArgument(name, value, f"an integer between {least} and {most}")
    return value


def check_seconds(name: str, value: float) -> float:
    """Return a number of seconds if it is from 0 to a year of 366 days; raise `InvalidArgument` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _YEAR_SECONDS:
        raise InvalidArgument(name, value, "a number of seconds between 0 and a year")
    return float(value)


def check_text(name: str, value: str | None, *, longest: int | None = None) -> str | None:
    """Return a string that Postgres can store, None for None; raise `InvalidArgument` otherwise.

    Args:
        name: Name of the argument in errors.
        value: The argument.
        longest: The string must have 1 to `longest` characters; None: its length is not checked.
    """
    return None if value is None else check_name(name, value, longest=longest)


def check_recurrence(name: str, value: Any) -> str | None:  # noqa: ANN401 - any JSON
    """Return a rule of 1 to 2,000 characters, whose syntax is not checked; return None for None."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise InvalidArgument(name, problem=f"{short(value)} {NO_UNIT}")
    return check_text(name, value, longest=RECURRENCE_LIMIT)


def check_name(name: str, value: str, *, longest: int | None) -> str:
    """Return a string that Postgres can store; unlike `check_text`, raise `InvalidArgument` for None."""
    if not isinstance(value, str) or (longest is not None and not 1 <= len(value) <= longest):
        raise InvalidArgument(name, value, "a string" if longest is None else f"a string of 1 to {longest} characters")
    # A short string of ASCII can only contain a NUL: this is much faster than the conversion to JSON.
    if len(value) > _SHORT_TEXT or not value.isascii() or "\0" in value or type(value) is not str:
        json_text.encode(name, value, limit=RESULT_LIMIT)
    return value


def check_list(name: str, value: Sequence[Any], *, most: int | None = None) -> Sequence[Any]:
    """Return a sequence if it has at most `most` items (None: any number); raise `InvalidArgument` otherwise.

    Strings, bytes and ranges are not accepted.
    """
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | range):
        raise InvalidArgument(name, value, "a list")
    if most is not None and len(value) > most:
        raise InvalidArgument(name, problem=f"has {len(value):,} items; the limit is {most:,}")
    return value


def retry_text(value: retry.RetryPolicy | Mapping[str, Any] | Sequence[float] | None) -> str | None:
    """Validate a retry policy and return it as JSON text; None for None."""
    return None if value is None else json_text.encode("retry", retry.parse(value).as_json(), limit=RESULT_LIMIT)


def target_text(value: Mapping[str, str] | None) -> str | None:
    """Validate the target of an action and return it as JSON text; None for None."""
    if value is not None and not (
        isinstance(value, dict) and set(value) == {"type", "id"} and all(isinstance(one, str) for one in value.values())
    ):
        raise InvalidArgument("target", value, 'an object such as {"type": "invoice", "id": "42"}, with strings')
    return document_text("target", value)


def document_text(name: str, value: Mapping[str, Any] | None) -> str | None:
    """Validate a JSON object and return it as JSON text; None for None."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidArgument(name, value, "a JSON object")
    return json_text.encode(name, value, limit=RESULT_LIMIT)
