"""What a value of the settings may be: one check per kind of value."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

#: Returns the value as it is kept; raises ValueError with what would be right. The environment gives texts.
Check: TypeAlias = Callable[[Any], Any]

#: As many stars as routing matches without effort.
_STARS_MOST = 8
_YEAR_SECONDS = 86400.0 * 366
#: An address in brackets, or a name whose parts are no longer than those of names are (RFC 1035 §2.3.4).
_HOST = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-]{1,63}(\.[A-Za-z0-9\-]{1,63})*\.?)"
_PORT = "(?P<port>[0-9]{1,5})"
_PORT_MOST = 65535


class Unshown(ValueError):
    """What is refused may be a secret in the wrong place: it is not repeated."""


def number(least: float, most: float = _YEAR_SECONDS, *, above: bool = False) -> Check:
    """Return a check for a number between the bounds; with `above` the lower one is excluded."""
    expected = f"should be a number {'above' if above else 'from'} {least:g}{'' if above else ' up'}, at most {most:g}"

    def check(value: Any) -> float:  # noqa: ANN401 - it is what is judged
        try:
            number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        if not (least < number <= most if above else least <= number <= most):
            raise ValueError(expected)
        return int(number) if number.is_integer() else number

    return check


def whole_number(least: int, most: int) -> Check:
    """Return a check for a whole number between the bounds, both included."""

    def check(value: Any) -> int:  # noqa: ANN401 - it is what is judged
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        is_digits = isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}", value.strip())
        if not (is_whole or is_digits) or not least <= int(value) <= most:
            message = f"should be a whole number from {least} to {most}"
            raise ValueError(message)
        return int(value)

    return check


def team_limits(value: Any) -> dict[str, int]:  # noqa: ANN401 - it is what is judged
    """Return how many handlers at once some teams may have, by their ids."""
    if not isinstance(value, dict):
        message = 'should be a table such as "acme" = 8'
        raise ValueError(message)  # noqa: TRY004 - every check raises the same
    check = whole_number(1, 256)
    try:
        return {team: check(limit) for team, limit in value.items()}
    except ValueError as error:
        message = f"should hold a limit for each team, and each {error}"
        raise ValueError(message) from None


def flag(value: Any) -> bool:  # noqa: ANN401 - it is what is judged
    """Return the truth of a value."""
    words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    known = value if isinstance(value, bool) else words.get(value.strip().lower()) if isinstance(value, str) else None
    if known is None:
        message = "should be true or false"
        raise ValueError(message)
    return known


def one_of(*words: str) -> Check:
    """Return a check for one of the words."""

    def check(value: Any) -> str:  # noqa: ANN401 - it is what is judged
        if value not in words:
            message = f"should be {' or '.join(words)}"
            raise ValueError(message)
        return str(value)

    return check


def text(value: Any) -> str:  # noqa: ANN401 - it is what is judged
    """Return a text."""
    if not isinstance(value, str):
        message = "should be a text"
        raise ValueError(message)  # noqa: TRY004 - every check raises the same
    return value


def variable(value: Any) -> str:  # noqa: ANN401 - it is what is judged
    """Return the name of an environment variable."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        message = "should be the name of an environment variable, which holds what is meant"
        raise Unshown(message)
    return value


def variables(value: Any) -> dict[str, str]:  # noqa: ANN401 - it is what is judged
    """Return names of channels, each with the environment variable that holds its address."""
    if not isinstance(value, dict):
        message = 'should be a table such as ops = "OPS_SLACK_URL"'
        raise ValueError(message)  # noqa: TRY004 - every check raises the same
    for name in value:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}", name):
            message = f"should hold names of letters, digits and _ . -, which {name!r} is not"
            raise ValueError(message)
    return {name: variable(one) for name, one in value.items()}


def channel_names(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - it is what is judged
    """Return names of channels; the environment separates them by commas."""
    listed = [one.strip() for one in value.split(",") if one.strip()] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(one, str) and one for one in listed):
        message = "should be a list of names of [notifications.channels]"
        raise ValueError(message)
    return tuple(listed)


def time_zone(value: Any) -> str:  # noqa: ANN401 - it is what is judged
    """Return the name of a time zone."""
    try:
        return ZoneInfo(value).key
    except Exception:  # noqa: BLE001 - zoneinfo raises KeyError, ValueError, OSError and more for bad names
        message = "should be an IANA time zone, such as Europe/Berlin"
        raise ValueError(message) from None


def quiet_hours(value: Any) -> str | None:  # noqa: ANN401 - it is what is judged
    """Return two times of day; nothing for an empty text."""
    if value == "":
        return None
    at = "([01]?[0-9]|2[0-3]):[0-5][0-9]"
    if not isinstance(value, str) or not re.fullmatch(f"{at}-{at}", value):
        message = "should be two times of day, such as 20:00-08:00"
        raise ValueError(message)
    return value


def event_patterns(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - it is what is judged
    """Return the patterns of an endpoint."""
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= 100:  # noqa: PLR2004 - said in the message
        message = "should be a list of 1 to 100 patterns"
        raise ValueError(message)
    for pattern in value:
        entity, _, verb = pattern.partition(":") if isinstance(pattern, str) else ("", "", "")
        is_whole = entity and verb and len(pattern) <= 200 and pattern.split() == [pattern]  # noqa: PLR2004 - said below
        if not is_whole or pattern.count("*") > _STARS_MOST:
            message = (
                f"should be entity:verb, at most 200 characters and {_STARS_MOST} stars, no spaces "
                f"(task:created, task:* or *:*), which {pattern!r} is not"
            )
            raise ValueError(message)
    return tuple(value)


def delays(value: Any) -> tuple[float, ...]:  # noqa: ANN401 - it is what is judged
    """Return the delays between attempts, in seconds."""
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= 100:  # noqa: PLR2004 - said in the message
        message = "should be a list of 1 to 100 delays in seconds, such as [5, 300, 3600]"
        raise ValueError(message)
    return tuple(number(0, 365 * 86400)(one) for one in value)


def networks(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - it is what is judged
    """Return networks such as `10.0.0.0/8`; the environment separates them by commas."""
    listed = [one.strip() for one in value.split(",") if one.strip()] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple):
        message = "should be a list of networks such as 10.0.0.0/8"
        raise ValueError(message)  # noqa: TRY004 - every check raises the same
    for one in listed:
        try:
            ipaddress.ip_network(one if isinstance(one, str) else "")
        except ValueError:
            message = f"should hold networks such as 10.0.0.0/8 or fd00::/8, which {one!r} is not"
            raise ValueError(message) from None
    return tuple(listed)


def proxy(value: Any) -> str | None:  # noqa: ANN401 - it is what is judged
    """Return the host and port of an HTTP proxy, `http://host:port`; nothing for an empty text."""
    if value == "":
        return None
    if not _is_address(rf"http://{_HOST}:{_PORT}/?", value):
        message = "should be http://host:port, without a login: this proxy is asked to CONNECT, and to nothing else"
        raise Unshown(message)
    return str(value).removesuffix("/")


def base_url(value: Any) -> str | None:  # noqa: ANN401 - it is what is judged
    """Return an address under which routes are found, without a slash at its end; nothing for an empty text."""
    if value == "":
        return None
    if not _is_address(rf"https?://{_HOST}(:{_PORT})?(/[A-Za-z0-9._~/\-]*)?", value):
        message = "should be an address such as https://app.example.com, without a login or a query"
        raise Unshown(message)
    return str(value).rstrip("/")


def _is_address(form: str, value: object) -> bool:
    """Whether a value is an address of that form, its host and its port such as there can be."""
    found = re.fullmatch(form, value) if isinstance(value, str) else None
    if found is None or int(found["port"] or 0) > _PORT_MOST:
        return False
    try:
        return not found["host"].startswith("[") or bool(ipaddress.IPv6Address(found["host"][1:-1]))
    except ValueError:
        return False


def descriptions(value: Any) -> dict[str, str]:  # noqa: ANN401 - it is what is judged
    """Return event types with what each of them tells."""
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        message = 'should be a table such as "task:created" = "A task was created"'
        raise ValueError(message)
    event_patterns(list(value) or ["*:*"])
    return dict(value)


def select(value: Any) -> str:  # noqa: ANN401 - it is what is judged
    """Return a query: one select, its parameters as %(name)s."""
    is_text = isinstance(value, str) and re.match(r"\s*(select|with|values|table)\b", value, re.IGNORECASE)
    if not is_text or ";" in value.strip().removesuffix(";"):
        message = "should be one SQL select, its parameters as %(name)s"
        raise ValueError(message)
    if re.search(r"%(?!%|\([A-Za-z_][A-Za-z0-9_]*\)s)", value.replace("%%", "")):
        message = "should write its parameters as %(name)s, and any other percent sign twice"
        raise ValueError(message)
    return str(value)
