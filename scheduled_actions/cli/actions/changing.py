"""The commands that put actions in the table and change them: `schedule`, `update`, `cancel`, `retry`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.actions.condition_options import condition_options
from scheduled_actions.cli.output import as_document, local, print_json
from scheduled_actions.cli.parameters import as_json_option, json_document, when, when_options
from scheduled_actions.cli.project import Project, caller, handlers_aside, pass_project

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from scheduled_actions.core.action import Action

_PAYLOAD_HELP = "A JSON object; @FILE reads a file, - standard input."
_force = click.option("--force", is_flag=True, help="Also when it is due too soon to be changed (edit_lock_seconds).")


@click.command()
@click.argument("action_type", metavar="TYPE")
@click.option("--payload", type=json_document, default="{}", metavar="JSON", help=f"{_PAYLOAD_HELP} [default: {{}}]")
@when_options
@click.option("--team", metavar="TEAM", help="The tenant it belongs to.")
@click.option("--priority", type=int, default=0, metavar="N", help="The lower number goes first. [default: 0]")
@click.option("--max-attempts", type=int, metavar="N", help="The first included. [default: the handler's]")
@click.option("--lock-group", metavar="GROUP", help="Members of a group run one at a time, the oldest first.")
@click.option(
    "--dedup-key", metavar="KEY", help="The same intent: merged into an action that waits under the same key."
)
@click.option(
    "--dedup-window", type=float, metavar="SECONDS", help="For how long; 0 merges nothing. [default: the handler's]"
)
@condition_options
@as_json_option
@pass_project
def schedule(
    project: Project,
    /,
    action_type: str,
    *,
    payload: Any,  # noqa: ANN401 - any JSON
    at: datetime | None,
    delay: timedelta | None,
    timezone: str | None,
    team: str | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - under their own names
) -> None:
    """Schedule an action of TYPE: at once, or when --at or --in say.

    The payload is checked against the handler's model before anything is written.
    """
    from scheduled_actions.actions.model import NewAction  # noqa: PLC0415 - help needs no database driver

    new = NewAction(
        action_type=action_type,
        payload=payload,
        scheduled_at=when(at, delay, timezone),
        timezone=timezone,
        team_id=team,
        created_by=caller(),
        **options,
    )
    scheduler = project.open().scheduler
    with handlers_aside():
        scheduled = scheduler.schedule_action(new)
    if as_json:
        print_json({"id": scheduled.id, "deduplicated": scheduled.deduplicated})
    else:
        click.echo(f"{'merged into' if scheduled.deduplicated else 'scheduled'} {scheduled.id}")


@click.command()
@click.argument("action_id", metavar="ID")
@click.option("--payload", type=json_document, metavar="JSON", help=_PAYLOAD_HELP)
@when_options
@click.option("--priority", type=int, metavar="N", help="The lower number goes first.")
@click.option("--max-attempts", type=int, metavar="N", help="The first included.")
@condition_options
@click.option(
    "--reset",
    type=click.Choice(["after", "condition", "on-failure", "on-success"]),
    multiple=True,
    help="Take it away; repeatable.",
)
@_force
@as_json_option
@pass_project
def update(
    project: Project,
    /,
    action_id: str,
    *,
    payload: Any,  # noqa: ANN401 - any JSON
    at: datetime | None,
    delay: timedelta | None,
    timezone: str | None,
    priority: int | None,
    max_attempts: int | None,
    reset: tuple[str, ...],
    force: bool,
    as_json: bool,
    **extras: Any,  # noqa: ANN401 - the options of `condition_options`
) -> None:
    """Change what is given of the pending action ID; the rest stays.

    An action that is due within edit_lock_seconds is locked, unless you --force it. A new payload replaces the old one
    and is checked like a new one. One that waits for another condition now, or for none, is due at once.
    """
    scheduled_at = when(at, delay, timezone)
    changes = _extras(extras, reset)
    if not changes and all(given is None for given in (payload, scheduled_at, priority, max_attempts)):
        message = (
            "nothing to change: give --payload, --at, --priority, --condition or another option; --help lists them"
        )
        raise click.UsageError(message)
    runtime = project.open_without_handlers() if payload is None and not changes else project.open()
    with handlers_aside():
        action = runtime.scheduler.update_action(
            action_id,
            payload=payload,
            scheduled_at=scheduled_at,
            timezone=timezone,
            priority=priority,
            max_attempts=max_attempts,
            **changes,
            by=caller(),
            edit_lock_seconds=_edit_lock(project, is_forced=force),
        )
    _tell(action, f"updated: due {local(action.scheduled_at)}", as_json=as_json)


@click.command()
@click.argument("action_id", metavar="ID")
@click.option("--reason", metavar="TEXT", help="Kept with the action.")
@_force
@as_json_option
@pass_project
def cancel(project: Project, action_id: str, *, reason: str | None, force: bool, as_json: bool) -> None:
    """Cancel the action ID, which must be waiting.

    One that is due within edit_lock_seconds is locked, unless you --force it; one that runs is left alone.
    """
    action = project.open_without_handlers().scheduler.cancel_action(
        action_id,
        reason=reason,
        by=caller(),
        also_running=False,
        edit_lock_seconds=_edit_lock(project, is_forced=force),
    )
    _tell(action, "cancelled", as_json=as_json)


@click.command()
@click.argument("action_id", metavar="ID")
@as_json_option
@pass_project
def retry(project: Project, action_id: str, *, as_json: bool) -> None:
    """Make the failed, cancelled or skipped action ID pending again: due now, its attempts back to zero."""
    action = project.open_without_handlers().scheduler.retry_action(action_id, by=caller())
    _tell(action, "pending again: the next tick takes it", as_json=as_json)


@click.command("run-now")
@click.argument("action_id", metavar="ID")
@as_json_option
@pass_project
def run_now(project: Project, action_id: str, *, as_json: bool) -> None:
    """Make the pending action ID due: the next tick takes it. Its condition, lock group and team still hold."""
    action = project.open_management().run_now(action_id, by=caller(), team_id=None)
    _tell(action, "is due: the next tick takes it", as_json=as_json)


def _extras(given: dict[str, Any], reset: tuple[str, ...]) -> dict[str, Any]:
    """Return what is to change of condition and follow-ups; None takes away what is there.

    Raises:
        UsageError: One is given and taken away at once.
    """
    changes = {name: value for name, value in given.items() if value is not None}
    gone = {name.replace("-", "_"): name for name in reset}
    both = sorted(gone[name] for name in gone.keys() & changes.keys())
    if both:
        message = f"--{both[0]} and --reset {both[0]} exclude each other"
        raise click.UsageError(message)
    return changes | dict.fromkeys(gone)


def _edit_lock(project: Project, *, is_forced: bool) -> int | None:
    return None if is_forced else project.config.settings.edit_lock_seconds


def _tell(action: Action, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(as_document(action))
    else:
        click.echo(f"{action.id} {what}")
