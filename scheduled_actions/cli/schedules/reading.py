"""The commands that look at schedules: `schedules list` and `schedules show`."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.output import as_document, one_line, print_fields, print_json, print_table, shown
from scheduled_actions.cli.parameters import WholeNumber, as_json_option
from scheduled_actions.cli.project import Project, handlers_aside, pass_project
from scheduled_actions.cli.schedules.output import (
    all_words,
    document_of,
    label,
    of_a_schedule,
    on_its_clock,
    open_to_read,
    words,
)
from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.core.pages import page_of

if TYPE_CHECKING:
    from datetime import datetime

    from scheduled_actions.core.action import Action
    from scheduled_actions.runtime import Runtime
    from scheduled_actions.schedules.model import Schedule

_NONE_YET = "no schedules yet: `scheduled-actions schedules create TYPE daily --payload '{}'` makes one"
#: How many instants to come, and how many outcomes, one schedule is shown with.
_SHOWN = 5
#: What a person sees in other lines, or does not need.
_TOLD_ELSEWHERE = {"description", "definition", "next_occurrence_at", "occurrences", "outcomes"}


@click.command("list")
@click.option("--status", type=click.Choice(["active", "paused", "ended"]), help="Where they stand.")
@click.option("--type", "action_type", metavar="TYPE", help="Of exactly this action type.")
@click.option("--team", "team_id", metavar="TEAM", help="Of this team only.")
@click.option("--limit", type=WholeNumber(1, 100), default=100, show_default=True, help="At most so many.")
@click.option("--cursor", metavar="ID", help="Go on after this one: next_cursor of the page before.")
@as_json_option
@pass_project
def list_(project: Project, /, *, limit: int, cursor: str | None, as_json: bool, **filters: Any) -> None:  # noqa: ANN401 - of Schedules.find
    """List the newest schedules that match every filter given; instants are on each schedule's own wall clock."""
    runtime = open_to_read(project)
    found, next_cursor = page_of(lambda most: runtime.schedules.find(**filters, limit=most, cursor=cursor), limit)
    documents = [
        as_document(schedule) | {"description": description}
        for schedule, description in zip(found, all_words(runtime, found), strict=True)
    ]
    if as_json:
        print_json({"schedules": documents, "next_cursor": next_cursor})
        return
    if not found:
        is_narrowed = cursor is not None or any(value is not None for value in filters.values())
        click.echo("no schedule matches" if is_narrowed else _NONE_YET)
        return
    print_table(
        ("SCHEDULE", "TYPE", "STATUS", "NEXT", "RULE", "NOTE"),
        [
            (
                label(schedule),
                schedule.action_type,
                schedule.status,
                on_its_clock(schedule.next_occurrence_at, schedule),
                document["description"],
                one_line(f"broken: {schedule.problem}" if schedule.problem else schedule.status_note or "", longest=60),
            )
            for schedule, document in zip(found, documents, strict=True)
        ],
    )
    if next_cursor:
        click.echo(f"\nthere are more: --cursor {next_cursor}")


@click.command()
@of_a_schedule
@as_json_option
@pass_project
def show(project: Project, reference: str, *, team_id: str | None, as_json: bool) -> None:
    """Show the schedule REF: all its columns, its rule in words, what comes next, what came of it last."""
    from scheduled_actions.schedules import outcomes  # noqa: PLC0415 - help needs no database driver

    runtime = open_to_read(project)
    schedule = runtime.schedules.get(reference, team_id=team_id)
    with runtime.database.connection() as connection:
        latest = outcomes.latest(connection, schedule.id, limit=_SHOWN)
    upcoming, problem = _upcoming(runtime, schedule)
    if as_json:
        document = document_of(runtime, schedule)
        print_json(
            document
            | {
                "occurrences": [_instant(at, schedule) for at in upcoming],
                "outcomes": [_outcome(one) for one in latest],
            }
        )
        return
    print_fields({"rule": words(runtime, schedule)} | _fields(runtime, schedule))
    if upcoming:
        click.echo("\nnext")
        for at in upcoming:
            click.echo(f"  {on_its_clock(at, schedule)}  ({at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z)")
    if problem:
        click.echo(f"  {one_line(problem)}")
    if latest:
        click.echo("\nlast")
        for one in latest:
            click.echo(f"  {one_line(_told(one, schedule))}")


def _fields(runtime: Runtime, schedule: Schedule) -> dict[str, str]:
    document = document_of(runtime, schedule)
    return {name: shown(name, value) for name, value in document.items() if name not in _TOLD_ELSEWHERE}


def _upcoming(runtime: Runtime, schedule: Schedule) -> tuple[list[datetime], str | None]:
    """Return the instants to come, and why there are no more of them where the rule cannot be followed."""
    found: list[datetime] = []
    try:
        with handlers_aside():
            found.extend(runtime.schedules.upcoming(schedule, count=_SHOWN))
    except ScheduledActionsError as error:
        return found, str(error)
    return found, None


def _instant(at: datetime, schedule: Schedule) -> dict[str, str]:
    return {"at": on_its_clock(at, schedule).replace(" ", "T", 1), "utc": at.astimezone(UTC).isoformat()}


def _outcome(action: Action) -> dict[str, Any]:
    """Return what became of one action of a series."""
    names = ("id", "occurrence_at", "status", "attempts", "started_at", "completed_at", "error_message")
    return {name: getattr(action, name) for name in names}


def _told(action: Action, schedule: Schedule) -> str:
    at = on_its_clock(action.occurrence_at, schedule) or f"{on_its_clock(action.created_at, schedule)} (by hand)"
    reason = f": {action.error_message}" if action.error_message else ""
    return f"{at}  {action.status}  {action.id}{reason}"
