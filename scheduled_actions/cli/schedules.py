"""`schedules`: manage recurring actions."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

import scheduled_actions as client
from scheduled_actions.cli.definitions import SCHEDULE_RESETS, schedule_arguments, schedule_options
from scheduled_actions.cli.group import Failure, LazyGroup
from scheduled_actions.cli.output import (
    answer,
    as_document,
    field_text,
    label,
    one_line,
    print_page,
    print_record,
    zoned,
)
from scheduled_actions.cli.parameters import (
    apply_resets,
    instant_option,
    json_option,
    page_options,
    payload_option,
    reference_options,
    required_payload_option,
    team_option,
)
from scheduled_actions.cli.project import Project, caller, handlers_aside, pass_project
from scheduled_actions.core.action import Action
from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.core.messages import counted
from scheduled_actions.core.pages import read_page
from scheduled_actions.schedules.model import Schedule

if TYPE_CHECKING:
    from scheduled_actions.runtime import Runtime

#: Number of next and of last occurrences that `show` prints.
_OCCURRENCES = 5
#: Columns that `show` prints on other lines, or not at all.
_PRINTED_ELSEWHERE = {"description", "definition", "next_occurrence_at"}


@click.group(cls=LazyGroup, lazy_commands={})
def schedules() -> None:
    """Manage recurring actions.

    REF is the name or the id of a schedule. Names are unique per team: give --team if the schedule belongs to a team.
    """


@schedules.command("list", short_help="List schedules with their next occurrences.")
@click.option("--status", type=click.Choice(["active", "paused", "ended"]), help="Only this status.")
@click.option("--type", "action_type", metavar="TYPE", help="Only this action type.")
@team_option
@page_options
@json_option
@pass_project
def list_(project: Project, /, *, limit: int, **filters: Any) -> None:  # noqa: ANN401 - of Schedules.find
    """List the newest schedules that match every filter; times are in the time zone of each schedule."""
    runtime = project.open_for_reading()
    found, next_cursor = read_page(lambda most: runtime.schedules.find(**filters, limit=most), limit)
    rules = dict(zip([schedule.id for schedule in found], _descriptions(runtime, found), strict=True))
    print_page(
        {
            "schedules": [as_document(schedule) | {"description": rules[schedule.id]} for schedule in found],
            "next_cursor": next_cursor,
        },
        found,
        {
            "SCHEDULE": label,
            "TYPE": lambda schedule: schedule.action_type,
            "STATUS": lambda schedule: schedule.status,
            "NEXT": lambda schedule: zoned(schedule.next_occurrence_at, schedule),
            "RULE": lambda schedule: rules[schedule.id],
            "NOTE": lambda schedule: one_line(
                f"broken: {schedule.problem}" if schedule.problem else schedule.status_reason or "", longest=60
            ),
        },
        empty="no schedule matches"
        if any(value is not None for value in filters.values())
        else "no schedules yet: `scheduled-actions schedules create TYPE daily --payload '{}'` creates one",
    )


@schedules.command(short_help="Show a schedule with its next and last occurrences.")
@reference_options
@json_option
@pass_project
def show(project: Project, reference: str, *, team_id: str | None) -> None:
    """Show the schedule REF: its columns, its rule in words, its next occurrences and its last outcomes."""
    from scheduled_actions.schedules import store  # noqa: PLC0415 - help needs no database

    runtime = project.open_for_reading()
    schedule = runtime.schedules.get(reference, team_id=team_id)
    with runtime.database.connection() as connection:
        latest = store.latest_actions(connection, schedule.id, limit=_OCCURRENCES)
    upcoming: list[datetime] = []
    problems: list[str] = []
    try:
        with handlers_aside():
            upcoming.extend(runtime.schedule_rules.upcoming(schedule, count=_OCCURRENCES))
    except ScheduledActionsError as error:
        problems.append(str(error))
    document = _document(runtime, schedule)
    occurrences = [{"at": zoned(at, schedule).replace(" ", "T", 1), "utc": at.astimezone(UTC)} for at in upcoming]
    names = ("id", "occurrence_at", "status", "attempts", "started_at", "completed_at", "error_message")
    outcomes = [{name: getattr(action, name) for name in names} for action in latest]
    print_record(
        document | {"occurrences": occurrences, "outcomes": outcomes},
        {"rule": document["description"]}
        | {name: field_text(name, value) for name, value in document.items() if name not in _PRINTED_ELSEWHERE},
        {
            "next": [f"{zoned(at, schedule)}  ({at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z)" for at in upcoming] + problems,
            "last": [_outcome_line(action, schedule) for action in latest],
        },
    )


@schedules.command(short_help="Create or update a schedule by name.")
@click.argument("action_type", metavar="TYPE")
@click.argument("recurrence", metavar="RULE")
@required_payload_option
@click.option("--name", metavar="NAME", help="Name, unique per team; an existing name updates that schedule.")
@click.option("--team", "team_id", metavar="TEAM", help="Team that owns the schedule.")
@schedule_options
@json_option
@pass_project
def create(project: Project, /, action_type: str, recurrence: str, *, payload: Any, **options: Any) -> None:  # noqa: ANN401 - any JSON; the options above
    """Create a schedule that runs TYPE by RULE, or update the schedule with this --name.

    RULE is an interval ("daily", "every 10 minutes", PT10M), a cron expression, days of the week ("every weekday at
    09:00"), an RRULE, a business day ("last business day of the quarter") or custom:NAME; `scheduled-actions preview
    RULE` shows its occurrences. Repeating the same command with --name changes nothing.

    For reminders before each occurrence, set a deadline that recurs: `scheduled-actions deadlines create --rule`.
    """
    runtime = project.open()
    with handlers_aside():
        schedule = runtime.schedules.schedule_recurring(
            action_type, payload, recurrence, created_by=caller(), **schedule_arguments(options)
        )
    _warn_about_rule(runtime, schedule)
    _report(runtime, schedule, f"runs {action_type}")


@schedules.command(short_help="Change a schedule and its pending occurrence.")
@reference_options
@click.option("--rule", "recurrence", metavar="RULE", help="New rule.")
@payload_option
@click.option("--name", metavar="NAME", help="New name.")
@schedule_options
@click.option(
    "--reset",
    type=click.Choice(list(SCHEDULE_RESETS)),
    multiple=True,
    help="Reset this option to its default; repeatable.",
)
@json_option
@pass_project
def update(
    project: Project,
    /,
    reference: str,
    *,
    team_id: str | None,
    reset: tuple[str, ...],
    **options: Any,  # noqa: ANN401 - the options above
) -> None:
    """Change the schedule REF; omitted options keep their values.

    A change of the rule, time zone, start, end, jitter, --rolling or skip options also replans the pending occurrence,
    unless it is already due. Skip options replace all previous skip options. A schedule that has ended becomes active
    again if the change gives it another occurrence. The defaults below are those of new schedules.
    """
    runtime = project.open()
    changes = apply_resets(
        schedule_arguments(options),
        reset,
        SCHEDULE_RESETS,
    )
    if not changes:
        raise click.UsageError(
            "nothing to change: give --rule, --payload, --timezone or another option; --help lists them"
        )
    with handlers_aside():
        schedule = runtime.schedules.update(reference, team_id=team_id, **changes)
    if "recurrence" in changes:
        _warn_about_rule(runtime, schedule)
    _warn_if_declared(schedule)
    _report(runtime, schedule, "changed")


def _warn_about_rule(runtime: Runtime, schedule: Schedule) -> None:
    """Print the warnings about the schedule's rule on standard error."""
    with handlers_aside():
        for warning in runtime.schedule_rules.rule_of(schedule).warnings:
            click.echo(f"warning: {warning}", err=True)


@schedules.command(short_help="Pause a schedule.")
@reference_options
@click.option("--reason", metavar="TEXT", help="Reason, stored with the schedule.")
@json_option
@pass_project
def pause(project: Project, reference: str, *, team_id: str | None, reason: str | None) -> None:
    """Pause the schedule REF until it is resumed.

    The planned occurrence is deleted, unless it is running or waits for a retry: it then continues.
    """
    runtime = project.open_without_handlers()
    _report(runtime, client.pause_schedule(reference, reason=reason, by=caller(), team_id=team_id), "paused")


@schedules.command(short_help="Resume a schedule from its next occurrence.")
@reference_options
@json_option
@pass_project
def resume(project: Project, reference: str, *, team_id: str | None) -> None:
    """Resume the schedule REF from its next occurrence; occurrences during the pause do not run."""
    runtime = project.open()
    with handlers_aside():
        schedule = client.resume_schedule(reference, by=caller(), team_id=team_id)
    if schedule.status != "active":
        raise Failure(f"{label(schedule)} is {schedule.status}: {schedule.status_reason}")
    _report(runtime, schedule, "resumed")


@schedules.command(short_help="Run a schedule once, on the next tick.")
@reference_options
@json_option
@pass_project
def run(project: Project, reference: str, *, team_id: str | None) -> None:
    """Run the schedule REF once on the next tick, in addition to its occurrences."""
    project.open_without_handlers()
    scheduled = client.run_schedule(reference, by=caller(), team_id=team_id)
    answer({"id": scheduled.id}, f"{scheduled.id} is due now")


@schedules.command(short_help="Create the missing occurrences of a past range.")
@reference_options
@instant_option(
    "--from",
    "start",
    required=True,
    help="Start of the range; without an offset, in the schedule's time zone.",
)
@instant_option(
    "--to", "end", required=True, help="End of the range, inclusive; without an offset, in the schedule's time zone."
)
@json_option
@pass_project
def backfill(project: Project, reference: str, *, team_id: str | None, start: str, end: str) -> None:
    """Create the missing occurrences of the schedule REF in a past range, due now.

    The range must not end in the future, and can contain at most 1,000 occurrences. The occurrences run one after
    another unless the schedule allows overlaps. Repeating the command creates no duplicates.
    """
    project.open()
    with handlers_aside():
        ids = client.backfill_schedule(reference, start, end, by=caller(), team_id=team_id)
    answer({"ids": ids}, f"{counted(len(ids), 'occurrence')} created, due now" if ids else "no occurrence is missing")


@schedules.command(short_help="Skip the next occurrence.")
@reference_options
@click.option("--reason", metavar="TEXT", help="Reason, stored with the occurrence.")
@json_option
@pass_project
def skip(project: Project, reference: str, *, team_id: str | None, reason: str | None) -> None:
    """Skip the next occurrence of the schedule REF, and plan the one after it."""
    runtime = project.open()
    with handlers_aside():
        schedule = client.skip_next_occurrence(reference, reason=reason, by=caller(), team_id=team_id)
    _report(runtime, schedule, "skipped an occurrence")


@schedules.command(short_help="Delete a schedule and its planned occurrence.")
@reference_options
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@pass_project
def delete(project: Project, reference: str, *, team_id: str | None, yes: bool) -> None:
    """Delete the schedule REF, and its planned occurrence unless it has started; all other actions are kept."""
    schedule = project.open_without_handlers().schedules.get(reference, team_id=team_id)
    if not yes:
        click.confirm(f"Delete {one_line(label(schedule))} ({schedule.action_type})?", abort=True, err=True)
    _warn_if_declared(client.delete_schedule(schedule.id, team_id=team_id))
    answer({"deleted": schedule.id}, f"{label(schedule)} deleted")


@schedules.command(short_help="Update the schedules that the code declares.")
@json_option
@pass_project
def sync(project: Project) -> None:
    """Create, change and pause schedules so that they match @action(recurrence=…) in the code.

    The first tick of a deployment that changes a declaration does the same. The exit code is 1 if a declaration is
    invalid; the other declarations are applied.
    """
    from scheduled_actions.schedules.sync import sync as synchronise  # noqa: PLC0415 - help needs no database driver

    with handlers_aside():
        done = synchronise(project.open().schedules, force=True)
    lines = [f"{what} {one_line(name)}" for what, names in done.items() for name in names if what != "refused"]
    answer(done, "\n".join(lines) or "the code declares no schedule")
    if done["refused"]:
        raise Failure("refused " + "; ".join(map(one_line, done["refused"])))


def _outcome_line(action: Action, schedule: Schedule) -> str:
    at = zoned(action.occurrence_at, schedule) or f"{zoned(action.created_at, schedule)} (manual run)"
    return f"{at}  {action.status}  {action.id}{f': {action.error_message}' if action.error_message else ''}"


def _descriptions(runtime: Runtime, schedules: Collection[Schedule]) -> list[str]:
    """Return the rule of each schedule in words, or the rule itself if it cannot be parsed."""
    with handlers_aside():
        return runtime.schedule_rules.describe_all(schedules)


def _document(runtime: Runtime, schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as a document for `--json`: its columns, and its rule in words."""
    return as_document(schedule) | {"description": _descriptions(runtime, [schedule])[0]}


def _report(runtime: Runtime, schedule: Schedule, text: str) -> None:
    """Print the change of a schedule, and its next occurrence."""
    if schedule.status != "active":
        following = f"it is {schedule.status}{f': {schedule.status_reason}' if schedule.status_reason else ''}"
    elif schedule.next_occurrence_at is None:
        following = (
            f"no occurrence is planned: {schedule.status_reason}"
            if schedule.status_reason
            else "the next occurrence is planned when the running one ends"
        )
    else:
        following = f"next at {zoned(schedule.next_occurrence_at, schedule)}"
    answer(_document(runtime, schedule), f"{label(schedule)} {text}; {following}")


def _warn_if_declared(schedule: Schedule) -> None:
    """If the code declares the schedule, warn on standard error that its declaration will overwrite the change."""
    if schedule.is_declared:
        click.echo(
            f"warning: the code declares {label(schedule)}; the change lasts until the next "
            "`scheduled-actions schedules sync`, or the next deployment that changes a declaration",
            err=True,
        )
