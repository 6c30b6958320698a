"""The options that say what an action waits for, and what follows its end."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.parameters import Command, duration, json_document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ACTION = '{"action_type": …, "payload": …}, or a list'


def condition_options(command: Command) -> Command:
    """Give a command these options; they reach it as `condition`, `after`, `on_success` and `on_failure`.

    Raises:
        UsageError: An option of waiting is given, and nothing to wait for.
    """
    return _with_options(_OPTIONS, command)


def series_condition_options(command: Command) -> Command:
    """Give a command those of them that a series can have: its occurrences come after no one action."""
    return _with_options([option for option in _OPTIONS if option is not _AFTER], command)


def _with_options(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    @wraps(command)
    def with_condition(*arguments: Any, **given: Any) -> Any:  # noqa: ANN401 - any command
        waits = given.pop("waits")
        wait = {name: given.pop(name) for name in ("check_interval", "timeout", "max_checks", "on_timeout")}
        if not waits and any(value is not None for value in wait.values()):
            message = "--check-interval, --timeout, --max-checks and --on-timeout go with --wait"
            raise click.UsageError(message)
        if waits and given["condition"] is None:
            message = "--wait needs a --condition to wait for"
            raise click.UsageError(message)
        if waits:
            given["condition"] = {"wait": given["condition"], **wait}
        if "after" in given:
            given["after"] = list(given["after"]) or None
        return command(*arguments, **given)

    for option in reversed(options):
        with_condition = option(with_condition)
    return with_condition  # type: ignore[return-value]  # the command with more options


def _document(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, type=json_document, metavar="JSON", help=text)


_AFTER = click.option("--after", multiple=True, metavar="ID", help="Wait until that action has completed; repeatable.")
_OPTIONS = (
    _document("--condition", "What must hold when it would run; else it is skipped."),
    click.option("--wait", "waits", is_flag=True, help="Wait until the condition holds."),
    click.option("--check-interval", type=duration, metavar="DURATION", help="Between two checks. [default: 1m]"),
    click.option("--timeout", type=duration, metavar="DURATION", help="Wait no longer. [default: for ever]"),
    click.option("--max-checks", type=int, metavar="N", help="Check no more than so often."),
    _document("--on-timeout", f"Schedule this when it has waited in vain: {_ACTION}."),
    _AFTER,
    _document("--on-success", f"Schedule this when it completes: {_ACTION}."),
    _document("--on-failure", f"Schedule this when it has failed for good: {_ACTION}."),
)
