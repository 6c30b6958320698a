"""The options that define schedules and deadlines, and their conversion to arguments of the services."""

from datetime import timedelta
from typing import Any

import click

from scheduled_actions.cli.parameters import (
    document_option,
    duration_option,
    fold_skip,
    fold_wait,
    instant_option,
    json_document,
    one_of,
    series_condition_options,
    skip_options,
    with_options,
)
from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument

#: The arguments that `--reset` can return to their defaults, by option.
SCHEDULE_RESETS = {
    "at": "scheduled_at",
    "catch-up-age": "catch_up_seconds",
    "catch-up-limit": "catch_up_limit",
    "condition": "condition",
    "expires-in": "expires_in",
    "grace": "misfire_grace_seconds",
    "jitter": "jitter_seconds",
    "limit": "limit",
    "lock-group": "lock_group",
    "max-attempts": "max_attempts",
    "metadata": "metadata",
    "name": "name",
    "on-failure": "on_failure",
    "on-success": "on_success",
    "pause-after": "pause_after_failures",
    "remaining": "remaining",
    "skip": "skip",
    "until": "until",
}

schedule_options = with_options(
    click.option("--timezone", metavar="ZONE", help="IANA time zone of the rule. [default: UTC]"),
    instant_option("--at", help="Start time; without an offset, in the schedule's time zone, or in --timezone."),
    duration_option("--in", "delay", help="Start after this delay: PT5M, 90s, 2h."),
    click.option(
        "--rolling/--fixed",
        "is_rolling",
        default=None,
        help="Count intervals from the end of the previous run, or follow the rule. [default: fixed]",
    ),
    click.option(
        "--misfire",
        type=click.Choice(["fire_once", "skip", "catch_up"]),
        help="Policy for missed occurrences. [default: fire_once]",
    ),
    duration_option(
        "--grace",
        "misfire_grace_seconds",
        help="With --misfire skip: how late an occurrence can still run. [default: 5m]",
    ),
    click.option(
        "--catch-up-limit",
        type=int,
        metavar="N",
        help="With --misfire catch_up: maximum number of missed occurrences that run, the latest ones. [default: 100]",
    ),
    duration_option(
        "--catch-up-age",
        "catch_up_seconds",
        help="With --misfire catch_up: maximum age of a missed occurrence that runs. [default: 7d]",
    ),
    click.option(
        "--overlap",
        type=click.Choice(["skip", "queue", "allow"]),
        help="Policy for an occurrence that is due while the previous one is running. [default: skip]",
    ),
    click.option(
        "--requires-previous/--no-requires-previous",
        "requires_previous",
        default=None,
        help="Skip an occurrence unless the previous one has completed. [default: no]",
    ),
    click.option(
        "--pause-after",
        "pause_after_failures",
        type=int,
        metavar="N",
        help="Pause after N final failures in a row. [default: never]",
    ),
    skip_options,
    duration_option("--jitter", "jitter_seconds", help="Maximum random delay; each occurrence has its own delay."),
    instant_option("--until", help="Time of the last possible occurrence; a day includes the whole day."),
    click.option("--remaining", type=int, metavar="N", help="Number of executions before the schedule ends."),
    click.option(
        "--priority", type=int, metavar="N", help="Priority; actions with lower numbers run first. [default: 0]"
    ),
    click.option(
        "--max-attempts",
        type=int,
        metavar="N",
        help="Maximum number of attempts per occurrence. [default: that of the handler]",
    ),
    click.option(
        "--lock-group",
        metavar="GROUP",
        help="Lock group; its actions run one at a time, by priority, then by due time.",
    ),
    click.option(
        "--limit",
        multiple=True,
        metavar="KEY",
        help="Limit key of the occurrences, such as api:acme; repeatable, at most 3 keys.",
    ),
    duration_option("--expires-in", help="How long after its due time an occurrence may start: PT1H, 90s."),
    click.option(
        "--on-expiry",
        type=click.Choice(["skip", "fail"]),
        help="With --expires-in: what happens to an occurrence that has not started by then. [default: skip]",
    ),
    document_option("--metadata", help="A JSON object for your own use."),
    series_condition_options,
)


def schedule_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Return the given options under the names of `schedule_recurring_action`.

    Args:
        options: The values of `schedule_options`; other options are passed on unchanged.

    Raises:
        UsageError: Both --at and --in are given, or the options of --wait are incomplete.
    """
    options = fold_wait(options)
    arguments: dict[str, Any] = {
        "skip": fold_skip(options),
        "scheduled_at": one_of(options.pop("at"), options.pop("delay")),
        "limit": list(options.pop("limit")) or None,
        "recurrence_type": {None: None, True: "rolling", False: "fixed"}[options.pop("is_rolling")],
    }
    arguments |= {name: one.total_seconds() if isinstance(one, timedelta) else one for name, one in options.items()}
    return {name: value for name, value in arguments.items() if value is not None}


def _text_or_object(text: str) -> Any:  # noqa: ANN401 - any JSON
    """Parse a JSON object; return any other text unchanged.

    Raises:
        BadParameter: The text begins with `{`, but is not a JSON object.
    """
    try:
        return json_text.decode(text, name="the value") if text.lstrip().startswith("{") else text
    except InvalidArgument as error:
        raise click.BadParameter(str(error)) from None


def _level(text: str) -> Any:  # noqa: ANN401 - any JSON
    """Parse a level such as `2 days after: cfo@example.org, ceo@example.org`, or a JSON object.

    Raises:
        BadParameter: The text is neither.
    """
    given = _text_or_object(text)
    if not isinstance(given, str):
        return given
    offset, colon, to = given.rpartition(": ")
    if not colon or not to.strip():
        raise click.BadParameter(f'{given!r} is not a level: write "2 days after: cfo@example.org", or a JSON object')
    return {"offset": offset.strip(), "to": [one.strip() for one in to.split(",")]}


#: The arguments that `--reset` can remove, by option.
DEADLINE_RESETS = {
    "reminder": "reminders",
    "escalate": "escalation",
    "action": "auto_actions",
    "recipient": "recipients",
    "calendar": "calendar",
    "metadata": "metadata",
}

deadline_options = with_options(
    click.option(
        "--recipient",
        "recipients",
        multiple=True,
        metavar="WHO",
        help="Responsible person, who receives the reminders; repeatable.",
    ),
    click.option(
        "--reminder",
        "reminders",
        type=_text_or_object,
        multiple=True,
        metavar="WHEN",
        help='Reminder: "60 days before", 60, or JSON: {"offset": "7 days before", "repeat": "daily"}; repeatable.',
    ),
    click.option(
        "--escalate",
        "escalation",
        type=_level,
        multiple=True,
        metavar="LEVEL",
        help='Escalation level: "2 days after: cfo@example.org", or a JSON object; repeatable.',
    ),
    click.option("--repeat", type=int, metavar="N", help="Number of times that the escalation runs. [default: 1]"),
    click.option("--interval", metavar="RULE", help="Time between two runs of the escalation. [default: daily]"),
    click.option(
        "--action",
        "auto_actions",
        type=json_document,
        multiple=True,
        metavar="JSON",
        help='Action to run: {"offset": "30 days before", "action_type": "approval:start", "payload": {}}; repeatable.',
    ),
    click.option("--rule", "recurrence", metavar="RULE", help="Recurrence: each occurrence is a separate deadline."),
    click.option("--timezone", metavar="ZONE", help="IANA time zone of days and times. [default: UTC]"),
    document_option(
        "--calendar",
        help='Working time: {"holidays": "US", "hours": {…}, "adjustment": …}.',
    ),
    document_option("--metadata", help="A JSON object for your own use."),
)


def deadline_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options as arguments of `set_deadline`.

    Raises:
        UsageError: --repeat or --interval is given without --escalate.
    """
    repeat, interval = options.pop("repeat"), options.pop("interval")
    arguments = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
    if repeat is not None or interval is not None:
        if not arguments["escalation"]:
            raise click.UsageError("--repeat and --interval require --escalate")
        arguments["escalation"] = {"levels": arguments["escalation"], "repeat": repeat, "interval": interval}
    return arguments
