"""The arguments of callers: each checked, and made what the SQL functions take."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args
from uuid import UUID
from zoneinfo import ZoneInfo

from scheduled_actions.core import json_text, retry
from scheduled_actions.core.action import RESULT_LIMIT, DedupMode, Status
from scheduled_actions.core.errors import InvalidArgument, UnknownAction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.core.retry import RetryPolicy

_LONGEST_DELAY = timedelta(days=36525)


def check_when(moment: datetime | timedelta | None, timezone: str | None) -> tuple[datetime | None, timedelta | None]:
    """Return the instant in UTC, or the delay from the database's now; neither means at once."""
    zone = None if timezone is None else check_timezone(timezone)
    if moment is None:
        return None, None
    if isinstance(moment, timedelta):
        if not timedelta(0) <= moment <= _LONGEST_DELAY:
            raise InvalidArgument("scheduled_at", moment, "a time from now: between zero and a hundred years")
        return None, moment
    if not isinstance(moment, datetime):
        raise InvalidArgument("scheduled_at", moment, "a datetime or a timedelta")
    if moment.utcoffset() is None:
        if zone is None:
            raise InvalidArgument("scheduled_at", moment, "aware: give it a tzinfo, or say timezone=")
        # A local time that a change of the clocks skips moves forward by the gap (RFC 5545, erratum 4271).
        moment = moment.replace(tzinfo=zone)
    try:
        return moment.astimezone(UTC), None
    except OverflowError:
        raise InvalidArgument("scheduled_at", moment, "an instant between the years 1 and 9999 in UTC") from None


def check_timezone(name: str) -> ZoneInfo:
    """Return the time zone of an IANA name."""
    try:
        # ZoneInfo itself takes a tuple of two for the arguments of its cache, and returns the second.
        if isinstance(name, str):
            return ZoneInfo(name)
    except Exception:  # noqa: BLE001, S110 - zoneinfo raises KeyError, ValueError, OSError and more for bad names
        pass
    raise InvalidArgument("timezone", name, 'an IANA time zone, such as "Europe/Berlin"')


def check_id(value: UUID | str) -> UUID:
    """Return an action's id; what is no UUID is the id of no action."""
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise UnknownAction(value) from None


def check_cursor(value: UUID | str) -> UUID:
    """Return the id that a page ended with."""
    try:
        return value if isinstance(value, UUID) else UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise InvalidArgument("cursor", value, "the id that the page before ended with") from None


def check_status(value: str | None) -> Status | None:
    """Return the status of that name."""
    if value is None:
        return None
    try:
        return Status(value)
    except (ValueError, TypeError):
        raise InvalidArgument("status", value, f"one of {', '.join(Status)}") from None


def check_aware(name: str, moment: datetime | None) -> datetime | None:
    """Return the instant, which must say its zone."""
    if moment is not None and (not isinstance(moment, datetime) or moment.utcoffset() is None):
        raise InvalidArgument(name, moment, "an aware datetime: give it a tzinfo")
    return moment


def check_integer(name: str, value: int | None, *, least: int, most: int) -> int | None:
    """Return the integer, which must lie between the bounds."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most):
        raise InvalidArgument(name, value, f"an integer between {least} and {most}")
    return value


def check_limit(value: int, *, most: int) -> int:
    """Return how many rows a list may have, which must be 1 or more."""
    checked = check_integer("limit", value, least=1, most=most)
    if checked is None:
        raise InvalidArgument("limit", value, f"an integer between 1 and {most}")
    return checked


def check_window(value: float) -> float:
    """Return the dedup window in seconds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 366 * 86400:
        raise InvalidArgument("dedup_window", value, "a number of seconds between 0 and a year")
    return float(value)


def check_mode(value: str) -> str:
    """Return the dedup mode."""
    if value not in get_args(DedupMode):
        raise InvalidArgument("dedup_mode", value, f"one of {', '.join(get_args(DedupMode))}")
    return value


def check_text(name: str, value: str | None, *, longest: int | None = None) -> str | None:
    """Return the text, which must be one that Postgres can keep; with `longest` neither empty nor longer."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidArgument(name, value, "a text")
    if longest is not None and not 1 <= len(value) <= longest:
        raise InvalidArgument(name, value, f"a text of 1 to {longest} characters")
    json_text.encode(name, value, limit=RESULT_LIMIT)
    return value


def check_name(name: str, value: str, *, longest: int) -> str:
    """Return the text, which there must be: 1 to `longest` characters."""
    checked = check_text(name, value, longest=longest)
    if checked is None:
        raise InvalidArgument(name, value, f"a text of 1 to {longest} characters")
    return checked


def check_list(name: str, value: Sequence[Any], *, most: int | None = None) -> Sequence[Any]:
    """Return the list; `most` is how many items it may hold."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | range):
        raise InvalidArgument(name, value, "a list")
    if most is not None and len(value) > most:
        raise InvalidArgument(name, len(value), f"at most {most:,} at once")
    return value


def retry_text(value: RetryPolicy | Mapping[str, Any] | Sequence[float] | None) -> str | None:
    """Return the retry policy as JSON."""
    return None if value is None else json_text.encode("retry", retry.parse(value).as_json(), limit=RESULT_LIMIT)


def target_text(value: Mapping[str, str] | None) -> str | None:
    """Return the thing an action is about as JSON."""
    if value is None:
        return None
    is_pair = isinstance(value, dict) and set(value) == {"type", "id"}
    if not is_pair or not all(isinstance(one, str) for one in value.values()):
        raise InvalidArgument("target", value, 'the thing it is about: {"type": "invoice", "id": "42"}')
    return json_text.encode("target", value, limit=RESULT_LIMIT)


def document_text(name: str, value: Mapping[str, Any] | None) -> str | None:
    """Return a JSON object as its text."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidArgument(name, value, "a JSON object")
    return json_text.encode(name, value, limit=RESULT_LIMIT)
