"""`schedule` and `actions`: schedule, show and change actions, one at a time or by filters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import MAXYEAR, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import click

from scheduled_actions.actions.model import NewAction
from scheduled_actions.cli.output import (
    ON_A_CHANGE,
    answer,
    as_document,
    field_text,
    history_line,
    local,
    one_line,
    print_page,
    print_record,
    progress,
)
from scheduled_actions.cli.parameters import (
    Seconds,
    action_bulk_options,
    action_filter_options,
    apply_resets,
    condition_options,
    duration_option,
    expires_at_option,
    fold_wait,
    force_option,
    json_option,
    limit_option,
    one_of,
    page_options,
    past_instant,
    payload_option,
    required_payload_option,
    when_options,
)
from scheduled_actions.cli.project import Project, caller, handlers_aside, pass_project
from scheduled_actions.core.action import FINISHED, Action, Status
from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.core.messages import counted

if TYPE_CHECKING:
    from scheduled_actions.actions.management import ActionOperations, BulkResult
    from scheduled_actions.runtime import Runtime

# Imports are inside functions, so that help needs no database driver.
# ruff: noqa: PLC0415

NONE_YET = "no actions yet: `scheduled-actions schedule TYPE --payload '{}'` creates one"
_NOT_PINGED = (
    "warning: nothing calls /cron/process, so the action waits: run `scheduled-actions dev`, or see `scheduled-actions "
    "cron-setup`"
)
#: Maximum number of actions that a bulk command changes between two progress reports.
_BATCH_SIZE = 500
_RETRIABLE = (Status.FAILED, Status.CANCELLED, Status.SKIPPED)
_CANCELLABLE = (Status.PENDING, Status.NO_ACTION)
_FINISHED = tuple(status for status in Status if status in FINISHED)
#: The arguments that `--reset` can remove, by option.
_RESETS = {
    "after": "after",
    "condition": "condition",
    "expires-at": "expires_at",
    "limit": "limit",
    "on-failure": "on_failure",
    "on-success": "on_success",
}


@click.command()
@click.argument("action_type", metavar="TYPE")
@required_payload_option
@when_options
@click.option("--team", "team_id", metavar="TEAM", help="Team that owns the action.")
@click.option(
    "--priority", type=int, default=0, metavar="N", help="Priority; actions with lower numbers run first. [default: 0]"
)
@click.option(
    "--max-attempts", type=int, metavar="N", help="Maximum number of attempts. [default: that of the handler]"
)
@click.option(
    "--lock-group",
    metavar="GROUP",
    help="Lock group; its actions run one at a time, by priority, then by due time.",
)
@click.option("--dedup-key", metavar="KEY", help="Merge into a pending action with the same type and key.")
@click.option(
    "--dedup-window",
    type=Seconds(),
    metavar="SECONDS",
    help="How long actions with equal keys are merged; 0 disables merging. [default: that of the handler]",
)
@limit_option
@expires_at_option
@duration_option("--expires-in", help="Start no attempt this long after the due time: PT1H, 90m, 2d.")
@click.option(
    "--on-expiry",
    type=click.Choice(["skip", "fail"]),
    default="skip",
    help="Skip or fail the action if it has not started by --expires-at. [default: skip]",
)
@condition_options
@json_option
@pass_project
def schedule(
    project: Project,
    /,
    action_type: str,
    *,
    at: str | None,
    delay: timedelta | None,
    timezone: str | None,
    **options: Any,  # noqa: ANN401 - under their own names
) -> None:
    """Schedule an action of type TYPE, due now or at the time given with --at or --in.

    The payload is validated against the handler's model first.
    """
    one_of(options["expires_at"], options["expires_in"], "--expires-at and --expires-in")
    new = NewAction(
        action_type=action_type,
        scheduled_at=one_of(at, delay),
        timezone=timezone,
        created_by=caller(),
        **fold_wait(options),
    )
    with handlers_aside():
        runtime = project.open()
        scheduled = runtime.scheduler.schedule_action(new)
    answer(
        {"id": scheduled.id, "deduplicated": scheduled.deduplicated},
        f"{'merged into' if scheduled.deduplicated else 'scheduled'} {scheduled.id}",
    )
    if not runtime.wake.is_on and not _is_pinged(runtime):
        click.echo(_NOT_PINGED, err=True)


def _is_pinged(runtime: Runtime) -> bool:
    """Return whether a cron pings the project, or whether that cannot be read: the action is scheduled already."""
    import psycopg

    from scheduled_actions.operations.doctor import store
    from scheduled_actions.operations.doctor.rules.ticks import is_missing

    try:
        with runtime.database.connection() as connection:
            return not is_missing(next(iter(store.pings(connection)), None))
    except (psycopg.Error, ScheduledActionsError):
        return True


@click.group()
def actions() -> None:
    """List, change, cancel, retry and delete actions."""


@actions.command("list")
@click.option("--status", type=click.Choice([status.value for status in Status]), help="Only this status.")
@action_filter_options
@page_options
@json_option
@pass_project
def list_(project: Project, /, *, limit: int, **filters: Any) -> None:  # noqa: ANN401 - of Scheduler.list_actions
    """List the newest actions that match every filter."""
    found = project.open_without_handlers().scheduler.list_actions(**filters, limit=limit)
    print_page(
        {"actions": [as_document(action) for action in found], "next_cursor": found.next_cursor},
        found,
        {
            "ID": lambda action: str(action.id),
            "TYPE": lambda action: action.action_type,
            "STATUS": lambda action: action.status,
            "SCHEDULED AT": _due,
            "ATTEMPTS": lambda one: f"{one.attempts}{f' of {one.max_attempts}' if one.max_attempts else ''}",
            "NOTE": lambda action: one_line(action.error_message or "", longest=60),
        },
        empty="no action matches" if any(value is not None for value in filters.values()) else NONE_YET,
    )


def _due(action: Action) -> str:
    return ON_A_CHANGE if action.waiting and action.scheduled_at.year == MAXYEAR else local(action.scheduled_at)


@actions.command()
@click.argument("action_id", metavar="ID")
@json_option
@pass_project
def show(project: Project, action_id: str) -> None:
    """Show the action ID: its columns, its history, and the actions that it scheduled."""
    from scheduled_actions.operations.doctor import store as diagnosis

    runtime = project.open_without_handlers()
    action = runtime.scheduler.get_action(action_id)
    with runtime.database.connection() as connection:
        document = as_document(action) | diagnosis.internals(connection, action.id)
    follow_ups = runtime.action_operations.scheduled_by(action.id, team_id=None)
    names = ("id", "action_type", "status", "scheduled_at")
    scheduled = [{name: getattr(one, name) for name in names} for one in follow_ups.actions]
    print_record(
        document | {"scheduled": scheduled, "scheduled_has_more": follow_ups.next_cursor is not None},
        {
            name: _due(action) if name == "scheduled_at" else field_text(name, value)
            for name, value in document.items()
            if name != "history"
        },
        {
            "history": map(history_line, action.history),
            "scheduled": [f"{one.id}  {one.action_type}  {one.status}" for one in follow_ups.actions]
            + (["and older actions"] if follow_ups.next_cursor else []),
        },
    )


@actions.command()
@click.argument("action_id", metavar="ID")
@payload_option
@when_options
@click.option("--priority", type=int, metavar="N", help="Priority; actions with lower numbers run first.")
@click.option("--max-attempts", type=int, metavar="N", help="Maximum number of attempts.")
@limit_option
@expires_at_option
@condition_options
@click.option(
    "--reset",
    type=click.Choice(list(_RESETS)),
    multiple=True,
    help="Remove this part of the action; repeatable.",
)
@force_option
@json_option
@pass_project
def update(
    project: Project,
    /,
    action_id: str,
    *,
    payload: Any,  # noqa: ANN401 - any JSON
    at: str | None,
    delay: timedelta | None,
    timezone: str | None,
    priority: int | None,
    max_attempts: int | None,
    reset: tuple[str, ...],
    force: bool,
    **removable: Any,  # noqa: ANN401 - the arguments in `_RESETS`, and the other options of `condition_options`
) -> None:
    """Change a pending action; omitted options keep their values.

    An action that is overdue, or due within edit_lock_seconds, can be changed only with --force. A new payload is
    validated and replaces the old one. If the action is already waiting for its condition or for other actions,
    changing or removing the condition or --after makes it due now, unless --at or --in is given.
    """
    scheduled_at = one_of(at, delay)
    changes = apply_resets(
        {name: value for name, value in fold_wait(removable).items() if value is not None}, reset, _RESETS
    )
    if not changes and all(value is None for value in (payload, scheduled_at, priority, max_attempts)):
        raise click.UsageError(
            "nothing to change: give --payload, --at, --priority, --condition or another option; --help lists them"
        )
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
            edit_lock_seconds=None if force else project.config.settings.edit_lock_seconds,
        )
    answer(as_document(action), f"{action.id} updated: due {local(action.scheduled_at)}")


@actions.command(short_help="Cancel an action, or every action that matches the filters.")
@click.option(
    "--status",
    type=click.Choice([status.value for status in _CANCELLABLE]),
    help="Only this status. [default: both]",
)
@action_bulk_options
@click.option("--reason", metavar="TEXT", help="Reason, stored in the history.")
@force_option
@json_option
@pass_project
def cancel(
    project: Project,
    /,
    action_id: str | None,
    *,
    status: str | None,
    reason: str | None,
    force: bool,
    **selection: Any,  # noqa: ANN401 - of `action_bulk_options`
) -> None:
    """Cancel the action ID, or every action that matches the filters; the status must be pending or no_action.

    An action that is overdue, or due within edit_lock_seconds, can be cancelled only with --force. With filters, the
    command counts the matches (up to 10,000) and asks for confirmation. An interrupted command can be repeated.
    """
    edit_lock_seconds = None if force else project.config.settings.edit_lock_seconds
    if _is_one(action_id, status, selection):
        action = project.open_without_handlers().scheduler.cancel_action(
            action_id, reason=reason, by=caller(), also_running=False, edit_lock_seconds=edit_lock_seconds
        )
        answer(as_document(action), f"{action.id} cancelled")
        return
    selection |= {
        "statuses": (Status(status),) if status else _CANCELLABLE,
        "unlocked_for_seconds": edit_lock_seconds,
    }
    management = project.open_without_handlers().action_operations
    change_batch = partial(management.cancel_matching, by=caller(), reason=reason)
    _change_all(management, selection, change_batch, verb="Cancel", done="cancelled")


@actions.command(short_help="Retry an action, or every action that matches the filters.")
@click.option(
    "--status",
    type=click.Choice([status.value for status in _RETRIABLE]),
    help="Only this status. [default: failed]",
)
@action_bulk_options
@json_option
@pass_project
def retry(
    project: Project,
    /,
    action_id: str | None,
    *,
    status: str | None,
    **selection: Any,  # noqa: ANN401 - of `action_bulk_options`
) -> None:
    """Retry the failed, cancelled or skipped action ID, or every action that matches the filters.

    A retried action is pending and due now, with its attempts reset to 0. With filters, the command counts the matches
    (up to 10,000) and asks for confirmation. An interrupted command can be repeated.
    """
    if _is_one(action_id, status, selection):
        action = project.open_without_handlers().scheduler.retry_action(action_id, by=caller())
        answer(as_document(action), f"{action.id} is pending and due now")
        return
    selection["statuses"] = (Status(status or Status.FAILED),)
    management = project.open_without_handlers().action_operations
    change_batch = partial(management.retry_matching, by=caller())
    _change_all(management, selection, change_batch, verb="Retry", done="made pending")


@actions.command(short_help="Delete a finished action, or every finished action that matches the filters.")
@click.option(
    "--status",
    type=click.Choice([status.value for status in _FINISHED]),
    help="Only this status. [default: all of these]",
)
@click.option(
    "--older-than",
    "completed_to",
    type=past_instant,
    metavar="WHEN",
    help="Only actions that ended before: an ISO 8601 time, or how long ago: 2h, 30d.",
)
@action_bulk_options
@json_option
@pass_project
def delete(
    project: Project,
    /,
    action_id: str | None,
    *,
    status: str | None,
    **selection: Any,  # noqa: ANN401 - of `action_bulk_options`, and `completed_to`
) -> None:
    """Delete the finished action ID, or every finished action that matches the filters, before its retention ends.

    With filters, the command counts the matches (up to 10,000) and asks for confirmation. An interrupted command can be
    repeated.
    """
    if _is_one(action_id, status, selection):
        action = project.open_without_handlers().action_operations.purge(action_id, team_id=None)
        answer(as_document(action), f"{action.id} deleted")
        return
    selection["statuses"] = (Status(status),) if status else _FINISHED
    management = project.open_without_handlers().action_operations
    _change_all(management, selection, management.delete_matching, verb="Delete", done="deleted")


@actions.command()
@click.argument("action_id", metavar="ID")
@json_option
@pass_project
def run(project: Project, action_id: str) -> None:
    """Make the pending action ID due now. The action's condition and lock group still apply."""
    action = project.open_without_handlers().action_operations.run_now(action_id, by=caller(), team_id=None)
    answer(as_document(action), f"{action.id} is due now")


def _is_one(action_id: str | None, status: str | None, selection: dict[str, Any]) -> TypeGuard[str]:
    """Return whether an ID is given; remove `is_all` from `selection`.

    Raises:
        UsageError: Not exactly one of ID, filters and --all is given.
    """
    filters = selection.keys() - {"is_all", "dry_run", "yes"}
    is_filtered = status is not None or any(selection[name] is not None for name in filters)
    if (action_id is not None) + is_filtered + selection.pop("is_all") != 1:
        raise click.UsageError("give either an ID, a filter such as --type or --status, or --all")
    return action_id is not None


def _change_all(
    management: ActionOperations,
    selection: dict[str, Any],
    change_batch: Callable[..., BulkResult],
    *,
    verb: str,
    done: str,
) -> None:
    """Count the matching actions, ask for confirmation, change the actions in batches, and print the result.

    Args:
        management: Counts the matching actions.
        selection: The filters, and `dry_run` (only count) and `yes` (do not ask), which are removed.
        change_batch: Changes one batch.
        verb: The verb of the question, such as "Cancel".
        done: The participle of the result, such as "cancelled".
    """
    from scheduled_actions.actions.search import ActionFilters

    dry_run, yes = selection.pop("dry_run"), selection.pop("yes")
    filters = ActionFilters(**selection)
    found = management.count_matching(filters)
    matched, changed, more = found.matched, 0, found.more
    text = "no action matches"
    if dry_run:
        text = f"{matched:,}{' or more' if more else ''} would be {done}"
    elif matched:
        if not yes:
            click.confirm(
                f"{verb} {f'{matched:,} or more actions' if more else counted(matched, 'action')}?",
                abort=True,
                err=True,
            )
        matched, more, cursor = 0, True, None
        with progress(None if found.more else found.matched) as advance:
            while more:
                batch = change_batch(filters, limit=_BATCH_SIZE, cursor=cursor)
                matched += batch.matched
                changed += batch.changed
                cursor, more = batch.next_cursor, batch.more
                advance(batch.matched)
        unchanged = f"; {matched - changed:,} had already changed" if matched > changed else ""
        text = f"{counted(changed, 'action')} {done}{unchanged}"
    answer({"matched": matched, "changed": changed, "more": more, "dry_run": dry_run}, text)
