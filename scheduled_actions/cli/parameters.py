"""The values of options: JSON, instants and durations, each refused by name with what would be right."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, time
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scheduled_actions.core import json_text
from scheduled_actions.core.durations import parse_duration
from scheduled_actions.core.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

Command = TypeVar("Command", bound="Callable[..., Any]")


class WholeNumber(click.IntRange):
    """A whole number between two bounds: what is none is refused with both of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401 - as it came
        """Return the number of a text.

        Raises:
            BadParameter: It is none, or is out of bounds.
        """
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            bounds = f"of {self.min} or more" if self.max is None else f"from {self.min} to {self.max}"
            self.fail(f"{value!r} is not a whole number {bounds}", param, ctx)


def json_document(given: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the document that an option holds: the text itself, `@FILE`, or `-` for standard input.

    Raises:
        BadParameter: It is no JSON; the message does not repeat it, for it is a payload.
    """
    text, source = _read(given)
    try:
        return json_text.decode(text, name=source)
    except InvalidArgument as error:
        message = (
            f"{error}; write JSON between single quotes, such as '{{\"id\": 42}}', or @FILE, or - for standard input"
        )
        raise click.BadParameter(message) from None


def instant(text: str) -> datetime:
    """Return the instant of an ISO 8601 text; without an offset it is naive.

    Raises:
        BadParameter: It is none.
    """
    try:
        moment = datetime.fromisoformat(text)
        # An offset may move it out of the years that there are.
        moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        expected = "an ISO 8601 time, such as 2026-03-29T09:30:00+02:00 or 2026-03-29T07:30:00Z"
        message = f"{_shown(text)} is not {expected}"
        raise click.BadParameter(message) from None
    return moment


def last_instant(text: str) -> datetime:
    """Return the instant of an ISO 8601 text; a day alone counts until its end, and is naive.

    Raises:
        BadParameter: It is none.
    """
    moment = instant(text)
    return datetime.combine(moment, time.max) if _DAY.fullmatch(text) else moment


#: A day without a time.
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def local_instant(text: str) -> datetime:
    """Return the aware instant of an ISO 8601 text; without an offset it is this machine's local time.

    Raises:
        BadParameter: It is none.
    """
    return instant(text).astimezone(UTC)


def duration(text: str) -> timedelta:
    """Return the length of time that `PT5M`, `P1D`, `90s` or `1h30m` say.

    Raises:
        BadParameter: It is none.
    """
    try:
        return parse_duration(text)
    except InvalidArgument as error:
        message = f"{_shown(text)} is not {error.expected}"
        raise click.BadParameter(message) from None


def when(at: datetime | None, delay: timedelta | None, timezone: str | None) -> datetime | timedelta | None:
    """Return what `--at` or `--in` say; None where neither is given.

    Raises:
        UsageError: Both are given, or a time without an offset and no `--timezone` to read it in.
    """
    given = one_of(at, delay)
    if at is not None and at.tzinfo is None and timezone is None:
        example = at.isoformat()
        message = f"{example!r} has no offset: write {example}Z or {example}+02:00, or give --timezone Europe/Berlin"
        raise click.BadParameter(message, param_hint="'--at'")
    return given


def one_of(at: datetime | None, delay: timedelta | None) -> datetime | timedelta | None:
    """Return what `--at` or `--in` say, where the zone of a time without an offset is known elsewhere.

    Raises:
        UsageError: Both are given.
    """
    if at is not None and delay is not None:
        message = "--at and --in say the same thing: give one of them"
        raise click.UsageError(message)
    return at if at is not None else delay


def as_json_option(command: Command) -> Command:
    """Give a command the option `--json`, as the argument `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Answer in JSON, for programs.")(command)


def when_options(command: Command) -> Command:
    """Give a command the options that say when."""
    at = click.option(
        "--at", type=instant, metavar="ISO", help="ISO 8601 with an offset, or without one and --timezone."
    )
    delay = click.option(
        "--in", "delay", type=duration, metavar="DURATION", help="From now: PT5M, P1D, or short 90s, 5m, 2h, 3d."
    )
    timezone = click.option("--timezone", metavar="ZONE", help="IANA zone of an --at without an offset.")
    return at(delay(timezone(command)))


def skip_options(command: Command) -> Command:
    """Give a command the options that say what is left out of a recurrence.

    They reach it as the argument `skip`: the object that Python and HTTP take, or None where none is given.
    """

    @wraps(command)
    def with_skip(*arguments: Any, **given: Any) -> Any:  # noqa: ANN401 - any command
        skip = {key: given.pop(name) for name, key in _SKIP_KEYS.items()}
        return command(*arguments, **given, skip={key: one for key, one in skip.items() if one} or None)

    for option in reversed(_SKIP_OPTIONS):
        with_skip = option(with_skip)
    return with_skip  # type: ignore[return-value]  # what the options make of a command is one


#: The arguments of the options below, and the keys of the object.
_SKIP_KEYS = {
    "skip_weekends": "weekends",
    "holidays": "holidays",
    "skip_dates": "dates",
    "skip_ranges": "ranges",
    "skip_windows": "windows",
    "skip_function": "function",
    "on_skip": "then",
}


def _range(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[dict[str, str]]:
    """Return ranges of days written `2026-12-24..2027-01-02`; whether they are days is asked where they are used."""
    return [_from_to(text, "..", "two days, both included: 2026-12-24..2027-01-02") for text in given]


def _window(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return windows written `22:00-02:00`, `sat,sun 22:00-02:00`, or as two instants with two dots between them."""
    expected = "a time of day to another: 22:00-02:00, sat,sun 22:00-02:00, or two instants: ISO..ISO"
    windows: list[dict[str, Any]] = []
    for text in given:
        days, _, times = text.strip().rpartition(" ")
        window: dict[str, Any] = dict(_from_to(times, ".." if ".." in times else "-", expected))
        windows.append(window | ({"days": [day.strip() for day in days.split(",")]} if days else {}))
    return windows


def _from_to(text: str, separator: str, expected: str) -> dict[str, str]:
    start, _, end = (part.strip() for part in text.partition(separator))
    if not start or not end:
        message = f"{_shown(text)} is not {expected}"
        raise click.BadParameter(message)
    return {"from": start, "to": end}


_SKIP_OPTIONS = (
    click.option("--skip-weekends", is_flag=True, help="Leave Saturdays and Sundays out."),
    click.option("--holidays", metavar="CALENDAR", help="Leave its holidays out: US, US-CA, NYSE."),
    click.option("--skip-date", "skip_dates", multiple=True, metavar="DAY", help="Leave this day out; repeatable."),
    click.option(
        "--skip-range",
        "skip_ranges",
        multiple=True,
        callback=_range,
        metavar="DAY..DAY",
        help="Leave these days and those between out; repeatable.",
    ),
    click.option(
        "--skip-window",
        "skip_windows",
        multiple=True,
        callback=_window,
        metavar="WINDOW",
        help='A maintenance window: 22:00-02:00, "sat,sun 22:00-02:00", ISO..ISO; repeatable.',
    ),
    click.option("--skip-function", metavar="NAME", help="Ask the project's @skip_occurrence of that name."),
    click.option(
        "--on-skip",
        type=click.Choice(["drop", "preceding", "following"]),
        help="What an occurrence does there: fall out, or move to the business day before or after. [default: drop]",
    ),
)


def _read(given: str) -> tuple[str | bytes, str]:
    if given == "-":
        return sys.stdin.buffer.read(), "standard input"
    if not given.startswith("@"):
        return given, "the value"
    try:
        return Path(given[1:]).read_bytes(), repr(given[1:])
    except OSError as error:
        message = f"{given[1:]!r} cannot be read: {error.strerror}"
        raise click.BadParameter(message) from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:79]}…")  # noqa: PLR2004 - enough to see which
