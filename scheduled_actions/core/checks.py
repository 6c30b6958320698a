"""Check arguments that many functions share, and convert them to parameters of SQL functions.

A check returns a valid value, and raises `InvalidArgument` for an invalid one unless its docstring names another
error. The checks of strings and documents raise `TooLarge` for values of more than 64 KiB. None stands for an omitted
argument.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
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
_LONGEST_DELAY = timedelta(days=36525)
_YEAR_SECONDS = 366 * 86400


def check_scheduled_at(
    moment: datetime | timedelta | None, timezone: str | None
) -> tuple[datetime | None, timedelta | None]:
    """Return the instant in UTC and None; for a delay, return None and the delay from the database's clock.

    Args:
        moment: An aware datetime, a naive datetime in the time zone, or a delay of at most a hundred years; None: now,
            for which both results are None.
        timezone: IANA name for naive datetimes; a local time inside a DST gap moves forward by the gap.

    Raises:
        InvalidArgument: The time zone is unknown, or the moment is of another type, out of range, or naive without a
            time zone.
    """
    zone = None if timezone is None else check_timezone(timezone)
    if moment is None:
        return None, None
    if isinstance(moment, timedelta):
        if not timedelta(0) <= moment <= _LONGEST_DELAY:
            raise InvalidArgument("scheduled_at", moment, "a delay between zero and a hundred years")
        return None, moment
    if not isinstance(moment, datetime):
        raise InvalidArgument("scheduled_at", moment, "a datetime or a timedelta")
    if moment.utcoffset() is None:
        if zone is None:
            raise InvalidArgument("scheduled_at", moment, "an aware datetime: give it a tzinfo, or set timezone")
        # The conversion to UTC moves a local time inside a DST gap forward by the gap (RFC 5545, erratum 4271).
        moment = moment.replace(tzinfo=zone)
    try:
        return moment.astimezone(UTC), None
    except OverflowError:
        raise InvalidArgument("scheduled_at", moment, "an instant between the years 1 and 9999 in UTC") from None


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


def check_aware(name: str, moment: datetime | None) -> datetime | None:
    """Return a datetime if it has a time zone, None for None; raise `InvalidArgument` otherwise."""
    if moment is not None and (not isinstance(moment, datetime) or moment.utcoffset() is None):
        raise InvalidArgument(name, moment, "an aware datetime: give it a tzinfo")
    return moment


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
        raise InvalidArgument("target", value, 'an object such as {"type": "invoice", "id": "42"}')
    return document_text("target", value)


def document_text(name: str, value: Mapping[str, Any] | None) -> str | None:
    """Validate a JSON object and return it as JSON text; None for None."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidArgument(name, value, "a JSON object")
    return json_text.encode(name, value, limit=RESULT_LIMIT)
