"""Check the settings of TOML and of environment variables: single values, and tables, which become dataclasses.

A check returns the converted value, and raises ValueError with a description of valid values for an invalid one.
"""

import ipaddress
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from itertools import combinations, product
from typing import Any, NamedTuple, TypeAlias, TypeVar
from zoneinfo import ZoneInfo

from scheduled_actions.core.messages import nearest

#: Returns the converted value of a setting, or raises ValueError with a description of valid values. Values from
#: environment variables are strings.
Check: TypeAlias = Callable[[Any], Any]

Section = TypeVar("Section")
#: Minimum similarity of a suggested name to the unknown name.
_MIN_SIMILARITY = 0.75

#: Maximum number of stars in a pattern; with more of them, matching would be slow.
_MAX_STARS = 8
_YEAR_SECONDS = 86400.0 * 366
#: Maximum number of starts of a rate, and of limits.
_MAX_RATE = 1_000_000
_MAX_LIMITS = 1000
#: An address in brackets, or a host name with labels of valid length (RFC 1035 §2.3.4).
_HOST = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-]{1,63}(\.[A-Za-z0-9\-]{1,63})*\.?)"
_PORT = "(?P<port>[0-9]{1,5})"
_MAX_PORT = 65535
_TRUE = frozenset({"true", "1", "yes", "on"})


class RedactedError(ValueError):
    """A setting has an invalid value that may be a secret: the message must not contain the value."""


def _require(is_valid: object, expected: str, *, error: type[ValueError] = ValueError) -> None:
    """Raise an error with a description of valid values, unless the value is valid."""
    if not is_valid:
        raise error(expected)


def number(least: float, most: float = _YEAR_SECONDS, *, above: bool = False, prefix: str = "must be") -> Check:
    """Return a check for a number between the bounds; with `above` the lower one is excluded.

    The error consists of `prefix` and a description such as "a number from 0 to 60".
    """
    lower = f"greater than {least:g} and at most" if above else f"from {least:g} to"
    expected = f"{prefix} a number {lower} {most:.10g}"

    def check(value: Any) -> float:  # noqa: ANN401 - any value of TOML
        try:
            number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        _require(least < number <= most if above else least <= number <= most, expected)
        return int(number) if number.is_integer() else number

    return check


def whole_number(least: int, most: int) -> Check:
    """Return a check for an integer, or a string of digits, from `least` to `most`, both included."""

    def check(value: Any) -> int:  # noqa: ANN401 - any value of TOML
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        is_digits = isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}", value.strip())
        is_valid = (is_whole or is_digits) and least <= int(value) <= most
        _require(is_valid, f"must be a whole number from {least} to {most}")
        return int(value)

    return check


def team_limits(value: Any) -> dict[str, int]:  # noqa: ANN401 - any value of TOML
    """Return the concurrency limits of teams by team id."""
    _require(isinstance(value, dict), 'must be a table of limits by team, such as "acme" = 8')
    try:
        return {team: whole_number(1, 256)(limit) for team, limit in value.items()}
    except ValueError as error:
        raise ValueError(f"must be a table of limits by team; each limit {error}") from None


class Rate(NamedTuple):
    """A number of starts in a span of time."""

    starts: int
    seconds: float

    @property
    def interval_seconds(self) -> float:
        """Seconds between two starts at this rate."""
        return self.seconds / self.starts


_RATE = re.compile(r"(?P<count>[0-9]{1,7}) per (?:(?P<units>[0-9]{1,4}) )?(?P<unit>second|minute|hour|day)s?")
_UNIT_SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}


def rate(value: Any) -> Rate:  # noqa: ANN401 - any value of TOML
    """Return a rate, such as `100 per minute` or `5 per 10 seconds`."""
    found = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    units = 0 if found is None else int(found["units"] or 1)
    is_valid = found is not None and 1 <= int(found["count"]) <= _MAX_RATE and units >= 1
    _require(is_valid, f'must be a rate such as "100 per minute" or "5 per 10 seconds", of at most {_MAX_RATE} starts')
    assert found is not None  # noqa: S101 - checked above
    return Rate(int(found["count"]), units * _UNIT_SECONDS[found["unit"]])


def limit_patterns(kind: type[Section], value: Any) -> dict[str, Section]:  # noqa: ANN401 - any value of TOML
    """Convert the table of limits to dataclasses, by pattern: a limit key, or a prefix of keys followed by `*`."""
    _require(isinstance(value, dict) and len(value) <= _MAX_LIMITS, f"must be a table of at most {_MAX_LIMITS} limits")
    for pattern in value:
        _require(
            re.fullmatch(r"[^*\x00-\x1f\x7f]{0,254}[^\x00-\x1f\x7f]", pattern),
            f'must have patterns such as "api:acme" or "api:*" (1 to 255 characters, a star only at the end), not '
            f"{pattern!r}",
        )
    return {pattern: section(kind, given, f'"{pattern}"') for pattern, given in value.items()}


def type_patterns(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - any value of TOML
    """Return 1 to 100 action types, or prefixes of types followed by `*`, as a tuple."""
    _require(_is_list(value), 'must be a list of 1 to 100 action types, such as ["video:*"]')
    for pattern in value:
        _require(
            isinstance(pattern, str) and re.fullmatch(r"[A-Za-z0-9._:\-]{0,199}[A-Za-z0-9._:\-*]", pattern),
            f'must contain only action types and prefixes such as "video:render" and "video:*" (up to 200 letters, '
            f'digits, ".", "_", ":" or "-", a star only at the end), not {pattern!r}',
        )
    return tuple(value)


def executors(kind: type[Section], value: Any) -> dict[str, Section]:  # noqa: ANN401 - any value of TOML
    """Convert the table of executors to dataclasses, by name.

    Raises:
        ValueError: As `named`.
        SettingError: As `named`, an action type belongs to two executors, or settings of a broker do not fit its
            carrier.
    """
    converted = named(kind, "executors", value)
    for name, given in value.items():
        _check_broker(name, given)
    for (name, one), (other_name, other) in combinations(converted.items(), 2):
        for pattern, other_pattern in product(one.types, other.types):  # type: ignore[attr-defined]  # of `Executor`
            if _overlap(pattern, other_pattern):
                overlapping = f'"{other_pattern}", which overlaps "{pattern}" of executors.{name}'
                raise SettingError(other_name, None, f"has {overlapping}; a type belongs to one executor")
    return converted


#: Settings of an executor that apply only if a broker carries its tickets.
_OF_BROKERS = ("queue", "url_env_var", "ticket_seconds", "outstanding", "tickets_per_message")


def _check_broker(name: str, given: Mapping[str, Any]) -> None:
    """Raise SettingError if an executor lacks the address of its broker, or has settings that do not apply to it."""
    carrier = given.get("carrier", "postgres")
    if carrier == "postgres" and (unused := next((one for one in _OF_BROKERS if one in given), None)):
        raise SettingError(f"{name}.{unused}", None, 'applies only with carrier = "celery" or "sqs"')
    if carrier == "sqs" and "url_env_var" in given:
        expected = 'applies only with carrier = "celery"; boto3 reads its own environment variables'
        raise SettingError(f"{name}.url_env_var", None, expected)
    if carrier == "celery" and not given.get("url_env_var"):
        expected = "must be the environment variable with the URL of the broker, such as MEDIA_BROKER_URL"
        raise SettingError(f"{name}.url_env_var", None, expected)


def queue_name(value: Any) -> str:  # noqa: ANN401 - any value of TOML
    """Return the name of a broker's queue, or the URL of an SQS queue."""
    _require(
        isinstance(value, str) and re.fullmatch(r"https?://[\x21-\x7e]{1,500}|[A-Za-z0-9_.\-]{1,100}", value),
        'must be a name of 1 to 100 letters, digits, "_", "." or "-", or the URL of an SQS queue',
    )
    return str(value)


def _overlap(pattern: str, other: str) -> bool:
    """Return whether an action type can match both patterns."""
    prefix, other_prefix = pattern.rstrip("*"), other.rstrip("*")
    return (
        prefix == other_prefix
        or (pattern.endswith("*") and other_prefix.startswith(prefix))
        or (other.endswith("*") and prefix.startswith(other_prefix))
    )


def flag(value: Any) -> bool:  # noqa: ANN401 - any value of TOML
    """Return a Boolean; the strings true, 1, yes, on, false, 0, no and off are accepted."""
    word = str(value).strip().lower() if isinstance(value, bool | str) else None
    _require(word in {*_TRUE, "false", "0", "no", "off"}, "must be true or false")
    return word in _TRUE


def one_of(*words: str) -> Check:
    """Return a check that accepts only these words."""

    def check(value: Any) -> str:  # noqa: ANN401 - any value of TOML
        _require(value in words, f"must be one of {', '.join(words)}")
        return str(value)

    return check


def matching(pattern: str, expected: str, *, error: type[ValueError] = ValueError) -> Check:
    """Return a check that accepts only strings that match a regular expression as a whole."""

    def check(value: Any) -> str:  # noqa: ANN401 - any value of TOML
        _require(isinstance(value, str) and re.fullmatch(pattern, value), expected, error=error)
        return str(value)

    return check


text = matching("(?s).*", "must be a string")
#: The name of an environment variable; the error for other values does not repeat them.
variable = matching(
    "[A-Za-z_][A-Za-z0-9_]*",
    "must be the name of an environment variable that contains the value",
    error=RedactedError,
)
_hours = matching(
    "([01]?[0-9]|2[0-3]):[0-5][0-9]-([01]?[0-9]|2[0-3]):[0-5][0-9]", "must be a range of times, such as 20:00-08:00"
)


def variables(value: Any) -> dict[str, str]:  # noqa: ANN401 - any value of TOML
    """Return the names of the channels' environment variables, by channel name."""
    _require(isinstance(value, dict), 'must be a table of variable names by channel, such as ops = "OPS_SLACK_URL"')
    check_table_names(value)
    return {name: variable(one) for name, one in value.items()}


def check_table_names(table: Mapping[str, Any]) -> None:
    """Raise ValueError unless the user's names in a table are valid."""
    for name in table:
        _require(
            re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}", name),
            f'must have names of 1 to 100 letters, digits, "_", "." or "-" that start with a letter or digit, '
            f"not {name!r}",
        )


def channel_names(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - any value of TOML
    """Return channel names, given as a list or, in an environment variable, separated by commas."""
    listed = _split(value)
    _require(
        isinstance(listed, list | tuple) and all(isinstance(one, str) and one for one in listed),
        "must be a list of channel names from [notifications.channels]",
    )
    return tuple(listed)


def _split(value: Any) -> Any:  # noqa: ANN401 - any value of TOML
    """Split the comma-separated value of an environment variable; return any other value unchanged."""
    return [one.strip() for one in value.split(",") if one.strip()] if isinstance(value, str) else value


def time_zone(value: Any) -> str:  # noqa: ANN401 - any value of TOML
    """Return the IANA name of a time zone, such as `Europe/Berlin`."""
    try:
        return ZoneInfo(value).key
    except Exception:  # noqa: BLE001 - zoneinfo raises KeyError, ValueError, OSError and more for bad names
        raise ValueError("must be an IANA time zone, such as Europe/Berlin") from None


def quiet_hours(value: Any) -> str | None:  # noqa: ANN401 - any value of TOML
    """Return a range of times of day, such as `20:00-08:00`; None for an empty string."""
    return None if value == "" else str(_hours(value))


def event_patterns(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - any value of TOML
    """Return 1 to 100 event patterns of the form `entity:verb`, as a tuple."""
    _require(_is_list(value), 'must be a list of 1 to 100 patterns, such as ["task:*"]')
    for pattern in value:
        entity, _, verb = pattern.partition(":") if isinstance(pattern, str) else ("", "", "")
        is_whole = entity and verb and len(pattern) <= 200 and pattern.split() == [pattern]  # noqa: PLR2004 - named below
        _require(
            is_whole and pattern.count("*") <= _MAX_STARS,
            f"must contain only patterns of the form entity:verb (task:created, task:* or *:*) with at most 200 "
            f"characters, {_MAX_STARS} stars and no spaces, not {pattern!r}",
        )
    return tuple(value)


def delays(value: Any) -> tuple[float, ...]:  # noqa: ANN401 - any value of TOML
    """Return 1 to 100 delays between attempts, in seconds."""
    _require(_is_list(value), "must be a list of 1 to 100 delays in seconds, such as [5, 300, 3600]")
    return tuple(
        number(0, 365 * 86400, prefix="must be a list of 1 to 100 delays in seconds, each")(one) for one in value
    )


def _is_list(value: Any) -> bool:  # noqa: ANN401 - any value of TOML
    return isinstance(value, list | tuple) and 1 <= len(value) <= 100  # noqa: PLR2004 - named in the messages


def networks(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - any value of TOML
    """Return networks such as `10.0.0.0/8`, given as a list or, in an environment variable, separated by commas."""
    listed = _split(value)
    _require(isinstance(listed, list | tuple), "must be a list of networks such as 10.0.0.0/8")
    for one in listed:
        try:
            ipaddress.ip_network(one if isinstance(one, str) else "")
        except ValueError:
            raise ValueError(
                f"must contain only networks without host bits, such as 10.0.0.0/8 or fd00::/8, not {one!r}"
            ) from None
    return tuple(listed)


def proxy(value: Any) -> str | None:  # noqa: ANN401 - any value of TOML
    """Return the URL of an HTTP proxy, `http://host:port`; None for an empty string."""
    return _address(
        value,
        rf"http://{_HOST}:{_PORT}/?",
        "must be http://host:port without a login; the proxy must support CONNECT",
    )


def base_url(value: Any) -> str | None:  # noqa: ANN401 - any value of TOML
    """Return a base URL without a trailing slash; None for an empty string."""
    return _address(
        value,
        rf"https?://{_HOST}(:{_PORT})?(/[A-Za-z0-9._~/\-]*)?",
        "must be a URL such as https://app.example.com, without a login or a query",
    )


def _address(value: Any, form: str, expected: str) -> str | None:  # noqa: ANN401 - any value of TOML
    """Return a URL without a trailing slash, whose host and port are valid; None for an empty string.

    Args:
        value: The value of the setting.
        form: A regular expression with the groups `host` and `port`.
        expected: The message of the error.
    """
    if value == "":
        return None
    found = re.fullmatch(form, value) if isinstance(value, str) else None
    try:
        if found is not None and found["host"].startswith("["):
            ipaddress.IPv6Address(found["host"][1:-1])
    except ValueError:
        found = None
    _require(found and int(found["port"] or 0) <= _MAX_PORT, expected, error=RedactedError)
    return str(value).rstrip("/")


def descriptions(value: Any) -> dict[str, str]:  # noqa: ANN401 - any value of TOML
    """Return up to 100 descriptions by event type, such as `task:created`."""
    _require(
        isinstance(value, dict) and len(value) <= 100 and all(isinstance(text, str) for text in value.values()),  # noqa: PLR2004 - named in the message
        'must be a table of at most 100 event types, such as "task:created" = "A task was created"',
    )
    event_patterns(list(value) or ["*:*"])
    return dict(value)


def select(value: Any) -> str:  # noqa: ANN401 - any value of TOML
    """Return the text of a query: one SELECT with parameters in the form %(name)s."""
    is_text = isinstance(value, str) and re.match(r"\s*(select|with|values|table)\b", value, re.IGNORECASE)
    _require(
        is_text and ";" not in value.strip().removesuffix(";"),
        "must be one SQL select without inner semicolons, with parameters in the form %(name)s",
    )
    _require(
        not re.search(r"%(?!%|\([A-Za-z_][A-Za-z0-9_]*\)s)", value.replace("%%", "")),
        "must have its parameters in the form %(name)s, and other percent signs as %%",
    )
    return str(value)


def setting(default: Any, check: Check) -> Any:  # noqa: ANN401 - a field of any type
    """Return the dataclass field of a setting, with its default and its check."""
    return field(default=default, metadata={"check": check})


@dataclass(eq=False)
class SettingError(ValueError):
    """A setting is unknown, missing or invalid."""

    #: The dotted name of the setting.
    key: str
    #: The invalid value; None: the message does not contain it.
    value: object
    #: What is wrong, or a description of valid values: a phrase with a verb.
    expected: str
    #: For an unknown name: the valid names in its table.
    known: tuple[str, ...] = ()


def section(kind: type[Section], values: Any, where: str) -> Section:  # noqa: ANN401 - any value of TOML
    """Convert a table of settings to its dataclass.

    Args:
        kind: The dataclass.
        values: The table as parsed from TOML.
        where: The dotted name of the table; empty for the whole file.

    Raises:
        SettingError: The value is not a table, or a setting in it is unknown, missing or invalid.
    """
    prefix = f"{where}." if where else ""
    if not isinstance(values, Mapping):
        raise SettingError(where, values, "must be a table")
    known: dict[str, Field[Any]] = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    for name in values:
        if name not in known:
            raise SettingError(f"{prefix}{name}", None, "is not a setting", known=tuple(known))
    converted: dict[str, Any] = {}
    for name, one in known.items():
        if name not in values:
            if one.default is MISSING and one.default_factory is MISSING:
                raise SettingError(f"{prefix}{name}", None, "is required")
        elif is_dataclass(one.default):
            converted[name] = section(type(one.default), values[name], f"{prefix}{name}")
        else:
            converted[name] = _checked(one.metadata["check"], values[name], f"{prefix}{name}")
    return kind(**converted)


def _checked(check: Check, value: Any, key: str) -> Any:  # noqa: ANN401 - any value of TOML
    """Return the result of a check; its errors are raised again with the dotted name of the setting, `key`."""
    try:
        return check(value)
    except SettingError as error:
        raise SettingError(f"{key}.{error.key}", error.value, error.expected, known=error.known) from None
    except ValueError as error:
        is_shown = not isinstance(value, list | dict) and not isinstance(error, RedactedError)
        raise SettingError(key, value if is_shown else None, str(error)) from None


def named(kind: type[Section], noun: str, value: Any) -> dict[str, Section]:  # noqa: ANN401 - any value of TOML
    """Convert a table of tables to dataclasses, by the names that the user chose.

    Raises:
        ValueError: The value is not a table, or a name is invalid.
        SettingError: A setting in one of the tables is unknown, missing or invalid.
    """
    if not isinstance(value, dict):
        raise ValueError(f"must be a table of {noun}")  # noqa: TRY004 - every check raises the same
    check_table_names(value)
    return {name: section(kind, given, name) for name, given in value.items()}


def unknown_name(name: str, known: Mapping[str, str], *, is_in_table: bool = False) -> str:
    """Return the message for an unknown setting or environment variable, with a similar known name if there is one.

    Args:
        name: The unknown name, without its table.
        known: The full names of all settings or variables, by the name to compare.
        is_in_table: Whether the name is in a table. It may then be that of a top-level setting, because TOML makes a
            setting below a `[table]` line part of that table.
    """
    # The similarity of `base` to `base_seconds` is too low, so names without their unit are compared separately.
    without_unit = (one for one in known if one.startswith(f"{name}_"))
    near = nearest(name, known, cutoff=_MIN_SIMILARITY) or next(without_unit, None)
    if near is None:
        return 'is not a setting; the page "Settings" of the documentation lists all'
    place = " (above the first [table])" if is_in_table and "." not in known[near] else ""
    return f"is not a setting; did you mean {known[near]}{place}?"
