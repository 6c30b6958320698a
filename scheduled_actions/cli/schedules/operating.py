"""The commands that operate schedules: `pause`, `resume`, `run`, `backfill`, `skip`, `delete`, `sync`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scheduled_actions.cli.group import Failure
from scheduled_actions.cli.output import counted, one_line, print_json
from scheduled_actions.cli.parameters import as_json_option, instant
from scheduled_actions.cli.project import Project, caller, handlers_aside, pass_project
from scheduled_actions.cli.schedules.output import in_its_zone, label, of_a_schedule, tell, warn_of_the_code

if TYPE_CHECKING:
    from datetime import datetime


@click.command()
@of_a_schedule
@click.option("--note", metavar="TEXT", help="Why; kept with the schedule.")
@as_json_option
@pass_project
def pause(project: Project, reference: str, *, team_id: str | None, note: str | None, as_json: bool) -> None:
    """Plan no more occurrences of the schedule REF until it is resumed.

    The occurrence that waits goes; one that is at work ends as it would.
    """
    runtime = project.open_without_handlers()
    schedule = runtime.schedules.pause(reference, note=note, by=caller(), team_id=team_id)
    tell(runtime, schedule, "plans no more", as_json=as_json)


@click.command()
@of_a_schedule
@as_json_option
@pass_project
def resume(project: Project, reference: str, *, team_id: str | None, as_json: bool) -> None:
    """Go on with the first occurrence of the schedule REF after now; what the pause left out is not made up for."""
    runtime = project.open()
    with handlers_aside():
        schedule = runtime.schedules.resume(reference, by=caller(), team_id=team_id)
    if schedule.status != "active":
        message = f"{label(schedule)} is {schedule.status}: {schedule.status_note}"
        raise Failure(message)
    tell(runtime, schedule, "goes on", as_json=as_json)


@click.command()
@of_a_schedule
@as_json_option
@pass_project
def run(project: Project, reference: str, *, team_id: str | None, as_json: bool) -> None:
    """Run the schedule REF once more, at the next tick, beside its occurrences, of which none is used up."""
    scheduled = project.open_without_handlers().schedules.run_now(reference, by=caller(), team_id=team_id)
    if as_json:
        print_json({"id": scheduled.id})
    else:
        click.echo(f"{scheduled.id} is due now")


@click.command()
@of_a_schedule
@click.option(
    "--from", "start", type=instant, required=True, metavar="ISO", help="Without an offset on the schedule's own clock."
)
@click.option("--to", "end", type=instant, required=True, metavar="ISO", help="Up to then, itself included.")
@as_json_option
@pass_project
def backfill(
    project: Project, reference: str, *, team_id: str | None, start: datetime, end: datetime, as_json: bool
) -> None:
    """Create the occurrences of the schedule REF in a past range that were never created; they are due now.

    They run one after the other, unless overlaps are allowed. Asking again creates none twice.
    """
    schedules = project.open().schedules
    zone = schedules.get(reference, team_id=team_id).timezone
    with handlers_aside():
        ids = schedules.backfill(
            reference, in_its_zone(start, zone), in_its_zone(end, zone), by=caller(), team_id=team_id
        )
    if as_json:
        print_json({"ids": ids})
    else:
        click.echo(f"{counted(len(ids), 'occurrence')} created, due now" if ids else "nothing was missing")


@click.command()
@of_a_schedule
@click.option("--reason", metavar="TEXT", help="Kept with the occurrence.")
@as_json_option
@pass_project
def skip(project: Project, reference: str, *, team_id: str | None, reason: str | None, as_json: bool) -> None:
    """Leave the planned occurrence of the schedule REF out and plan the one after it."""
    runtime = project.open()
    with handlers_aside():
        schedule = runtime.schedules.skip_next(reference, reason=reason, by=caller(), team_id=team_id)
    tell(runtime, schedule, "leaves one out", as_json=as_json)


@click.command()
@of_a_schedule
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json_option
@pass_project
def delete(project: Project, reference: str, *, team_id: str | None, yes: bool, as_json: bool) -> None:
    """Remove the schedule REF and its planned occurrence; what it ran stays."""
    runtime = project.open_without_handlers()
    schedule = runtime.schedules.get(reference, team_id=team_id)
    if not yes:
        click.confirm(f"Delete {one_line(label(schedule))} ({schedule.action_type})?", abort=True, err=True)
    schedule = runtime.schedules.delete(schedule.id, team_id=team_id)
    warn_of_the_code(schedule)
    if as_json:
        print_json({"deleted": schedule.id})
    else:
        click.echo(f"{label(schedule)} is gone")


@click.command()
@as_json_option
@pass_project
def sync(project: Project, *, as_json: bool) -> None:
    """Make and change the schedules that @action(recurrence=…) declares; pause those that the code declares no more.

    The first tick of each deployment does the same. Exit 1 when a declaration was refused; the others are done.
    """
    schedules = project.open().schedules
    with handlers_aside():
        done = schedules.sync(force=True)
    if as_json:
        print_json(done)
    else:
        told = [f"{what} {one_line(name)}" for what, names in done.items() for name in names if what != "refused"]
        click.echo("\n".join(told) or "the code declares no schedule")
    if done["refused"]:
        raise Failure("refused " + "; ".join(map(one_line, done["refused"])))
