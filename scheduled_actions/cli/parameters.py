"""Options and arguments that several commands share, and the conversion of their values."""

import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from scheduled_actions.core import json_text
from scheduled_actions.core.checks import LAST_SECOND, parse_moment
from scheduled_actions.core.durations import parse_duration
from scheduled_actions.core.errors import InvalidArgument

Command = TypeVar("Command", bound="Callable[..., Any]")
Moment = TypeVar("Moment", str, datetime)
_TIME = "2026-12-01T09:00+01:00"
_PAYLOAD_HELP = "JSON object; @FILE reads a file, - reads standard input."


class WholeNumber(click.IntRange):
    """An integer within bounds; the error message contains the bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401 - as typed
        """Convert a command-line value to an integer.

        Raises:
            BadParameter: The value is not an integer, or is out of bounds.
        """
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            bounds = f"of {self.min} or more" if self.max is None else f"from {self.min} to {self.max}"
            self.fail(f"{value!r} is not a whole number {bounds}", param, ctx)


class Seconds(click.types.FloatParamType):
    """A number of seconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - as typed
        """Convert a command-line value to a number.

        Raises:
            BadParameter: The value is not a number.
        """
        try:
            return float(super().convert(value, param, ctx))
        except click.BadParameter:
            self.fail(f"{value!r} is not a number of seconds", param, ctx)


def json_document(given: str) -> Any:  # noqa: ANN401 - any JSON
    """Parse a JSON document: the value itself, the file FILE for `@FILE`, or standard input for `-`.

    Raises:
        BadParameter: The file cannot be read, or the document is not JSON; the message never contains the document,
            which may be a payload.
    """
    text, source = _read(given)
    try:
        return json_text.decode(text, name=source)
    except InvalidArgument as error:
        raise click.BadParameter(
            f"{error}; write JSON between single quotes, such as '{{\"id\": 42}}', or @FILE, or - for standard input"
        ) from None


def json_object(given: str) -> Any:  # noqa: ANN401 - with any JSON inside
    """Parse a JSON object as `json_document` does.

    Raises:
        BadParameter: As for `json_document`, or the document is not an object.
    """
    document = json_document(given)
    if not isinstance(document, dict):
        raise click.BadParameter("""the document is not a JSON object, such as '{"id": 42}'""")
    return document


def instant(text: str) -> str:
    """Return an ISO 8601 time or day unchanged; the service converts it to an instant.

    Raises:
        BadParameter: The value is neither, or is outside of the years 1 to 9999 in UTC.
    """
    local_instant(text)
    return text


def local_instant(text: str, time_of_day: time = time.min) -> datetime:
    """Parse an ISO 8601 time or day and convert it to UTC; without an offset, it is in this machine's time zone.

    Args:
        text: The value of an option.
        time_of_day: The time that a day alone means.

    Raises:
        BadParameter: The value is neither, or is outside of the years 1 to 9999 in UTC.
    """
    try:
        moment = parse_moment("value", text)
        return (moment if isinstance(moment, datetime) else datetime.combine(moment, time_of_day)).astimezone(UTC)
    except (InvalidArgument, ValueError, OverflowError):
        raise click.BadParameter(
            f"{_quoted(text)} is not an ISO 8601 time or day between the years 1 and 9999 in UTC, such as "
            f"{_TIME} or 2026-12-01"
        ) from None


def last_local_instant(text: str) -> datetime:
    """Parse the end of a range as `local_instant` does; a day alone means its last second."""
    return local_instant(text, LAST_SECOND)


def past_instant(text: str) -> datetime:
    """Parse an ISO 8601 time (without an offset, local) or a duration before now; return an aware instant.

    Raises:
        BadParameter: The value is neither, or the instant is outside of the years 1 to 9999.
    """
    try:
        with suppress(InvalidArgument):
            return datetime.now(UTC) - parse_duration(text)
        return local_instant(text)
    except OverflowError:
        raise click.BadParameter(f"{text!r} ago is before the year 1; give a shorter duration") from None
    except click.BadParameter as error:
        raise click.BadParameter(f"{error.message}, or a duration before now, such as 90m, 2h or 3d") from None


def duration(text: str) -> timedelta:
    """Parse a duration such as `PT5M`, `P1D`, `90s` or `1h30m`.

    Raises:
        BadParameter: The value is not a duration, or exceeds 999,999,999 days.
    """
    try:
        return parse_duration(text)
    except InvalidArgument as error:
        raise click.BadParameter(f"{_quoted(text)} is not {error.expected}") from None


def one_of(moment: Moment | None, delay: timedelta | None, names: str = "--at and --in") -> Moment | timedelta | None:
    """Return the one value that is not None; None if both are None.

    Args:
        moment: The value of the first option.
        delay: The value of the second option.
        names: Both options, for the error.

    Raises:
        UsageError: Both are given.
    """
    if moment is not None and delay is not None:
        raise click.UsageError(f"{names} are mutually exclusive")
    return moment if moment is not None else delay


def with_options(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Combine several option decorators into one; `--help` lists the options in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _time_option(
    convert: Callable[[str], object],
    *names: str,
    help: str,  # noqa: A002 - as in `click.option`
    **options: Any,  # noqa: ANN401 - those of `click.option`
) -> Callable[[Command], Command]:
    """Return an option whose help contains an example, before the default."""
    text, bracket, default = help.partition(" [default")
    shown = f"{text} Example: {_TIME}{bracket}{default}"
    return click.option(*names, type=convert, metavar="ISO", help=shown, **options)


#: Options for one kind of value; called as `click.option` is.
instant_option = partial(_time_option, instant)
local_instant_option = partial(_time_option, local_instant)
last_local_instant_option = partial(_time_option, last_local_instant)
duration_option = partial(click.option, type=duration, metavar="DURATION")
document_option = partial(click.option, type=json_document, metavar="JSON")


def _remember_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's own
    context.meta["json"] = value


#: `--json`, which `output.wants_json` reads.
json_option = click.option("--json", is_flag=True, expose_value=False, callback=_remember_json, help="Print JSON.")

force_option = click.option(
    "--force", is_flag=True, help="Override the edit lock, which begins edit_lock_seconds before the due time."
)

team_option = click.option("--team", "team_id", metavar="TEAM", help="Only this team.")

target_option = click.option(
    "--target",
    nargs=2,
    metavar="TYPE ID",
    callback=lambda _context, _parameter, given: given and {"type": given[0], "id": given[1]},
    help="Only this target.",
)

page_options = with_options(
    click.option("--limit", type=WholeNumber(1, 100), default=100, show_default=True, help="Maximum number of rows."),
    click.option("--cursor", metavar="CURSOR", help="The next_cursor of the previous page."),
)

reference_options = with_options(
    click.argument("reference", metavar="REF"),
    click.option("--team", "team_id", metavar="TEAM", help="Team that owns REF; names are unique per team."),
)

when_options = with_options(
    instant_option("--at", help="Due time; without an offset, --timezone is required. A day means its start."),
    duration_option("--in", "delay", help="Due after this delay: PT5M, P1D, 90s, 5m, 2h, 3d."),
    click.option("--timezone", metavar="ZONE", help="IANA time zone of --at."),
)

payload_option = click.option("--payload", type=json_object, metavar="JSON", help=_PAYLOAD_HELP)
required_payload_option = click.option(
    "--payload", type=json_object, default="{}", metavar="JSON", help=f"{_PAYLOAD_HELP} [default: {{}}]"
)

_FOLLOW_UP = '{"action_type": …, "payload": …}, or a list'
#: The condition and the follow-ups of an action or of each occurrence; `fold_wait` combines the options.
series_condition_options = with_options(
    document_option("--condition", help="Run the action only if this condition holds; otherwise, skip it."),
    click.option(
        "--wait", "waits", is_flag=True, help="Wait until the condition holds, instead of skipping the action."
    ),
    duration_option(
        "--check-interval", help="With --wait: time between two checks of a query, HTTP or function. [default: 1m]"
    ),
    duration_option("--timeout", help="Maximum wait for the condition, or for other actions. [default: unlimited]"),
    click.option("--max-checks", type=int, metavar="N", help="Maximum number of checks. [default: unlimited]"),
    document_option("--on-timeout", help=f"Action to schedule at --timeout or --max-checks: {_FOLLOW_UP}."),
    document_option("--on-success", help=f"Action to schedule on completion: {_FOLLOW_UP}."),
    document_option("--on-failure", help=f"Action to schedule on final failure: {_FOLLOW_UP}."),
)
condition_options = with_options(
    series_condition_options,
    click.option("--after", multiple=True, metavar="ID", help="Wait until the action ID has completed; repeatable."),
)


#: The limit keys of an action, and when it expires.
limit_option = click.option(
    "--limit",
    multiple=True,
    metavar="KEY",
    callback=lambda _context, _parameter, given: list(given) or None,
    help="Limit key, such as api:acme: its limits in [limits] apply while the action runs; up to 3.",
)
expires_at_option = instant_option(
    "--expires-at", help="Start no attempt from this time on; without an offset, --timezone is required."
)


def fold_wait(options: dict[str, Any]) -> dict[str, Any]:
    """Combine the options of `condition_options` into `condition` and `after`; change and return `options`.

    Raises:
        UsageError: A limit of a wait is given with --condition and without --wait, or --wait without --condition.
    """
    wait = {name: options.pop(name) for name in ("check_interval", "timeout", "max_checks", "on_timeout")}
    if options.pop("waits"):
        if options["condition"] is None:
            raise click.UsageError("--wait requires --condition")
        options["condition"] = {"wait": options["condition"], **wait}
    elif any(value is not None for value in wait.values()):
        if options["condition"] is not None:
            raise click.UsageError(
                "--check-interval, --timeout, --max-checks and --on-timeout require --wait if --condition is given"
            )
        options["condition"] = wait
    if "after" in options:
        options["after"] = list(options["after"]) or None
    return options


#: Filters that select the actions of a list or a bulk command.
action_filter_options = with_options(
    click.option("--type", "action_type", metavar="TYPE", help="Only this action type."),
    team_option,
    click.option("--lock-group", metavar="GROUP", help="Only this lock group."),
    click.option("--user", "user_id", metavar="USER", help="Only this user."),
    target_option,
    click.option("--schedule", "schedule_id", type=click.UUID, metavar="ID", help="Only this schedule."),
    click.option("--deadline", "deadline_id", type=click.UUID, metavar="ID", help="Only this deadline."),
    click.option(
        "--parent", "scheduled_by", type=click.UUID, metavar="ID", help="Only actions that the action ID scheduled."
    ),
    local_instant_option(
        "--from",
        "due_from",
        help="Only actions with a due time at or after this time; without an offset, local time.",
    ),
    local_instant_option("--to", "due_to", help="Only actions with a due time before this time."),
    click.option(
        "--q",
        metavar="TEXT",
        help="Only actions with TEXT in the type, dedup key or lock group, or at the beginning of the id.",
    ),
)
action_bulk_options = with_options(
    click.argument("action_id", metavar="[ID]", required=False),
    action_filter_options,
    click.option(
        "--all",
        "is_all",
        is_flag=True,
        help="Select every action with the default --status; cannot be combined with filters.",
    ),
    click.option("--dry-run", is_flag=True, help="Count the matches without changing them."),
    click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
)


def _ranges(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[dict[str, Any]]:
    """Parse ranges of days such as `2026-12-24..2027-01-02`; the service checks the days later."""
    return [_from_to(text, "..", "a range of days, such as 2026-12-24..2027-01-02") for text in given]


def _windows(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[dict[str, Any]]:
    """Parse windows such as `22:00-02:00`, `sat,sun 22:00-02:00` or `ISO..ISO`."""
    return [
        _from_to(
            times,
            ".." if ".." in times else "-",
            'a maintenance window, such as 22:00-02:00, "sat,sun 22:00-02:00" or ISO..ISO',
        )
        | ({"days": [day.strip() for day in days.split(",")]} if days else {})
        for days, _, times in (text.strip().rpartition(" ") for text in given)
    ]


def _from_to(text: str, separator: str, expected: str) -> dict[str, Any]:
    start, _, end = (part.strip() for part in text.partition(separator))
    if not start or not end:
        raise click.BadParameter(f"{_quoted(text)} is not {expected}")
    return {"from": start, "to": end}


#: The keys of a skip object, by the arguments of `skip_options`.
_SKIP_KEYS = {
    "skip_weekends": "weekends",
    "holidays": "holidays",
    "skip_dates": "dates",
    "skip_ranges": "ranges",
    "skip_windows": "windows",
    "skip_function": "function",
    "adjustment": "adjustment",
}
#: The value of `--reset` that resets an option with another name, by the name of its argument.
_RESET_NAMES = {"delay": "at", **dict.fromkeys(_SKIP_KEYS, "skip")}
#: The occurrences that a recurrence skips; `fold_skip` combines the options.
skip_options = with_options(
    click.option("--skip-weekends", is_flag=True, help="Skip Saturdays and Sundays."),
    click.option("--holidays", metavar="CALENDAR", help="Skip the holidays of a calendar, such as US, US-CA or NYSE."),
    click.option("--skip-date", "skip_dates", multiple=True, metavar="DAY", help="Skip this day; repeatable."),
    click.option(
        "--skip-range",
        "skip_ranges",
        multiple=True,
        callback=_ranges,
        metavar="DAY..DAY",
        help="Skip a range of days, both ends included; repeatable.",
    ),
    click.option(
        "--skip-window",
        "skip_windows",
        multiple=True,
        callback=_windows,
        metavar="WINDOW",
        help='Skip a maintenance window: 22:00-02:00, "sat,sun 22:00-02:00", ISO..ISO; repeatable.',
    ),
    click.option(
        "--skip-function",
        metavar="NAME",
        help="Skip the occurrences that the project's @skip_occurrence function NAME selects.",
    ),
    click.option(
        "--adjustment",
        type=click.Choice(["drop", "preceding", "following"]),
        help="Drop skipped occurrences, or move them to the business day before or after. [default: drop]",
    ),
)


def fold_skip(options: dict[str, Any]) -> dict[str, Any] | None:
    """Remove the arguments of `skip_options`; return a skip object with their values, or None without values."""
    values = {key: options.pop(name) for name, key in _SKIP_KEYS.items()}
    return {key: value for key, value in values.items() if value} or None


def apply_resets(
    changes: Mapping[str, Any], reset: Collection[str], arguments: Mapping[str, str], values: Mapping[str, Any] = {}
) -> dict[str, Any]:
    """Return the changes of an update command, including those of its option `--reset`.

    Args:
        changes: The arguments of the service that the other options set.
        reset: The values of `--reset`.
        arguments: The arguments of the service that can be reset, by value of `--reset`.
        values: The values that reset arguments, by argument; None resets the other arguments.

    Raises:
        UsageError: An option is both set and reset.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        name = _RESET_NAMES.get(parameter.name or "", parameter.opts[0].removeprefix("--"))
        # The source distinguishes given options from defaults: a flag or a repeatable option is never None.
        if (
            name in reset
            and context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
        ):
            raise click.UsageError(f"{parameter.opts[0]} and --reset {name} are mutually exclusive")
    return {**changes, **{arguments[name]: values.get(arguments[name]) for name in reset}}


def _read(given: str) -> tuple[str | bytes, str]:
    if given == "-":
        return sys.stdin.buffer.read(), "standard input"
    if not given.startswith("@"):
        return given, "the value"
    try:
        return Path(given[1:]).read_bytes(), repr(given[1:])
    except OSError as error:
        raise click.BadParameter(f"{given[1:]!r} cannot be read: {error.strerror}") from None


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:79]}…")  # noqa: PLR2004 - enough to recognise it
