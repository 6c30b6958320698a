"""`bulk retry` and `bulk cancel`: all actions that match, counted first, changed in bounded bites."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scheduled_actions.cli.output import counted, print_json
from scheduled_actions.cli.parameters import as_json_option, local_instant
from scheduled_actions.cli.progress import progress
from scheduled_actions.cli.project import Project, caller, pass_project
from scheduled_actions.core.action import Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from scheduled_actions.actions.management import Changed
    from scheduled_actions.actions.search import Filters

Command = TypeVar("Command", bound="Callable[..., Any]")

#: So many are changed between two signs of life.
_BITE = 500
_RETRIABLE = (Status.FAILED, Status.CANCELLED, Status.SKIPPED)
_CANCELLABLE = (Status.PENDING, Status.NO_ACTION)


@click.group()
def bulk() -> None:
    """Make all actions that match pending again, or cancel them: at three in the morning."""


def _matching(command: Command) -> Command:
    """Give a command the options that say which actions are meant; they reach it as the argument `wanted`."""

    @wraps(command)
    def with_wanted(*arguments: Any, **given: Any) -> Any:  # noqa: ANN401 - any command
        wanted = {name: given.pop(name) for name in _FILTERS}
        is_narrowed = given.get("status") is not None or any(value is not None for value in wanted.values())
        if given.pop("is_all") == is_narrowed:
            raise click.UsageError("say which: give a filter such as --type or --status, or else --all")
        return command(*arguments, **given, wanted=wanted)

    for option in reversed(_OPTIONS):
        with_wanted = option(with_wanted)
    return with_wanted  # type: ignore[return-value]  # what the options make of a command is one


_FILTERS = ("action_type", "team_id", "lock_group", "scheduled_from", "scheduled_to", "q")
_OPTIONS = (
    click.option("--type", "action_type", metavar="TYPE", help="Exactly this action type."),
    click.option("--team", "team_id", metavar="TEAM", help="Of this team only."),
    click.option("--lock-group", metavar="GROUP", help="Of this lock group only."),
    click.option(
        "--from",
        "scheduled_from",
        type=local_instant,
        metavar="ISO",
        help="Scheduled then or later; local time unless it has an offset.",
    ),
    click.option("--to", "scheduled_to", type=local_instant, metavar="ISO", help="Scheduled before then."),
    click.option("--q", metavar="TEXT", help="Part of the type, dedup key or lock group, or the beginning of the id."),
    click.option("--all", "is_all", is_flag=True, help="Without a filter: really all."),
    click.option("--dry-run", is_flag=True, help="Count what matches, and change nothing."),
    click.option("--yes", is_flag=True, help="Do not ask."),
)


@bulk.command()
@click.option(
    "--status", type=click.Choice([status.value for status in _RETRIABLE]), help="Where they stand. [default: failed]"
)
@_matching
@as_json_option
@pass_project
def retry(project: Project, /, *, wanted: dict[str, Any], status: str | None, as_json: bool, **how: bool) -> None:
    """Make all failed actions that match pending again: due now, their attempts back to zero.

    They are counted first (to 10,000), and you are asked. Interrupted, it loses nothing: run it again.
    """
    management, filters = project.open_management(), _filters(wanted, (Status(status or Status.FAILED),))

    def bite(cursor: UUID | None) -> Changed:
        return management.retry_matching(filters, by=caller(), limit=_BITE, cursor=cursor)

    _tell(_changed(management.count_matching(filters), bite, "retry", **how), "made pending again", as_json=as_json)


@bulk.command()
@click.option(
    "--status", type=click.Choice([status.value for status in _CANCELLABLE]), help="Where they stand. [default: both]"
)
@_matching
@click.option("--reason", metavar="TEXT", help="Kept with each.")
@click.option("--force", is_flag=True, help="Also those that are due too soon to be changed (edit_lock_seconds).")
@as_json_option
@pass_project
def cancel(
    project: Project,
    /,
    *,
    wanted: dict[str, Any],
    status: str | None,
    reason: str | None,
    force: bool,
    as_json: bool,
    **how: bool,
) -> None:
    """Cancel all waiting actions that match; those due within edit_lock_seconds are left out, unless you --force it.

    They are counted first (to 10,000), and you are asked. Interrupted, it loses nothing: run it again.
    """
    lock = None if force else project.config.settings.edit_lock_seconds
    statuses = (Status(status),) if status else _CANCELLABLE
    management, filters = project.open_management(), _filters(wanted, statuses, unlocked_for_seconds=lock)

    def bite(cursor: UUID | None) -> Changed:
        return management.cancel_matching(filters, by=caller(), reason=reason, limit=_BITE, cursor=cursor)

    _tell(_changed(management.count_matching(filters), bite, "cancel", **how), "cancelled", as_json=as_json)


def _filters(
    wanted: dict[str, Any], statuses: tuple[Status, ...], *, unlocked_for_seconds: int | None = None
) -> Filters:
    from scheduled_actions.actions.search import Filters  # noqa: PLC0415 - help needs no database driver

    return Filters(**wanted, statuses=statuses, unlocked_for_seconds=unlocked_for_seconds)


def _changed(
    found: Changed, bite: Callable[[UUID | None], Changed], verb: str, *, dry_run: bool, yes: bool
) -> dict[str, Any]:
    """Change bite after bite what was found, if that is wanted; return what came of it, as programs read it."""
    matched = f"{found.matched:,} or more actions" if found.more else counted(found.matched, "action")
    told: dict[str, Any] = {"matched": found.matched, "changed": 0, "more": found.more, "dry_run": dry_run}
    if dry_run or not found.matched:
        return told
    if not yes:
        click.confirm(f"{verb} {matched}?", abort=True, err=True)
    told |= {"matched": 0, "more": True}
    cursor = None
    with progress(None if found.more else found.matched) as advance:
        while told["more"]:
            done = bite(cursor)
            cursor = done.next_cursor
            told |= {"matched": told["matched"] + done.matched, "changed": told["changed"] + done.changed}
            told["more"] = done.more
            advance(done.matched)
    return told


def _tell(told: dict[str, Any], what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(told)
    elif told["dry_run"]:
        more = " or more" if told["more"] else ""
        click.echo(f"{told['matched']:,}{more} would be {what}")
    elif not told["matched"]:
        click.echo("no action matches")
    else:
        left = told["matched"] - told["changed"]
        besides = f"; {left:,} somebody else had changed first" if left else ""
        click.echo(f"{counted(told['changed'], 'action')} {what}{besides}")
