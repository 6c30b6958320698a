"""The commands that keep an installation going: `migrate` and `process`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scheduled_actions.cli.output import counted, one_line, print_json
from scheduled_actions.cli.parameters import as_json_option
from scheduled_actions.cli.project import Project, caller, handlers_aside, pass_project
from scheduled_actions.cli.signals import stopping_early

if TYPE_CHECKING:
    from scheduled_actions.ticks.report import Report


@click.command()
@click.option(
    "--grant-scheduler",
    "schedulers",
    metavar="ROLE",
    multiple=True,
    help="Let a database role schedule actions, emit events and report facts.",
)
@click.option(
    "--grant-reader",
    "readers",
    metavar="ROLE",
    multiple=True,
    help="Let a database role read actions, schedules, deadlines, facts and deliveries.",
)
@click.option("--team", "team_id", metavar="TEAM", help="The only team for which these roles act.")
@as_json_option
@pass_project
def migrate(
    project: Project, *, schedulers: tuple[str, ...], readers: tuple[str, ...], team_id: str | None, as_json: bool
) -> None:
    """Bring the database's tables up to this version, and copy there what its functions need of the settings.

    Running it again does nothing. The code of one release before goes on running on the new tables.
    """
    from scheduled_actions.database import grants  # noqa: PLC0415 - help needs no database driver
    from scheduled_actions.database import migrate as migrations  # noqa: PLC0415 - as above
    from scheduled_actions.database.bounded import UNLIMITED  # noqa: PLC0415 - as above

    if team_id is not None and not (schedulers or readers):
        raise click.UsageError("--team needs --grant-scheduler or --grant-reader")
    with project.open_without_handlers().database.connection(UNLIMITED) as connection:
        applied = migrations.migrate(connection, report=lambda name: click.echo(f"applying {name}", err=as_json))
        project.open().maintenance.first_tick(connection)
        granted = [
            grants.grant(connection, kind, role, team_id=team_id)
            for kind, roles in ((grants.Kind.SCHEDULER, schedulers), (grants.Kind.READER, readers))
            for role in roles
        ]
    if as_json:
        print_json({"applied": applied} | ({"granted": [one.as_json() for one in granted]} if granted else {}))
        return
    if applied or not granted:
        click.echo(f"{_counted_kinds(applied)} applied" if applied else "nothing to do")
    for one in granted:
        bound = "" if one.team_id is None else f" of team {one.team_id}"
        click.echo(one_line(f"role {one.role}: {one.kind}{bound} through schema {one.schema}"))


def _counted_kinds(applied: list[str]) -> str:
    """Return how many migrations, functions and indexes there are among what was applied."""
    indexes = sum(name.startswith("index ") for name in applied)
    functions = sum(name.startswith("function ") for name in applied)
    counts = {"migration": len(applied) - functions - indexes, "function": functions, "index change": indexes}
    return " and ".join(counted(count, kind) for kind, count in counts.items() if count)


@click.command()
@click.option("--linger", is_flag=True, help="Keep the watch for linger_seconds, as a ping does; else answer at once.")
@as_json_option
@pass_project
def process(project: Project, *, linger: bool, as_json: bool) -> None:
    """Run one tick in this process: claim what is due, run it, settle it.

    Exit 0 when the tick ran, also when actions failed. What handlers print goes to standard error. Ctrl-C or SIGTERM
    ends it early: what runs may finish, what waits is left to the next tick; a second one ends it at once.
    """
    processor = project.open().processor
    with stopping_early(processor.stop), handlers_aside():
        report = processor.tick(caller=caller(), lingers=linger)
    click.echo(report.as_text() if as_json else _told(report))


def _told(report: Report) -> str:
    """Return what a tick did, for people."""
    if not report.enabled:
        return "nothing was processed: the setting enabled is false"
    parts = [
        f"{getattr(report, name)} {name}"
        for name in ("succeeded", "failed", "retried", "snoozed", "skipped", "rescued", "pruned")
        if getattr(report, name)
    ]
    done = f"processed {counted(report.processed, 'action')}" + (f" ({', '.join(parts)})" if parts else "")
    left = f"{counted(report.remaining, 'due action')} left" if report.more else "nothing due is left"
    lines = [f"{done} in {report.duration_ms} ms; {left}"]
    lines += [f"  {error['action_id']} {error['action_type']}: {error['error']}" for error in report.errors]
    return "\n".join(one_line(line) for line in lines)
