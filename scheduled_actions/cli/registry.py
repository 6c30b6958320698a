"""`registry build` and `registry check`: which function handles which action type, from the text of `handlers/`."""

from __future__ import annotations

import click

from scheduled_actions.cli.group import Failure
from scheduled_actions.cli.output import counted, print_json
from scheduled_actions.cli.parameters import as_json_option
from scheduled_actions.cli.project import Project, pass_project
from scheduled_actions.operations import registry_build


@click.group()
def registry() -> None:
    """Build or check handlers/_registry.py, made from the text of handlers/: no handler code runs."""


@registry.command(short_help="Write the registry where it changed.")
@pass_project
def build(project: Project) -> None:
    """Write the registry where it changed; run it after any change of an @action line."""
    click.echo(registry_build.write(project.directory).summary)


@registry.command()
@as_json_option
@pass_project
def check(project: Project, *, as_json: bool) -> None:
    """Write nothing; exit 1 when the registry is missing or stale."""
    found = registry_build.build(project.directory)
    if as_json:
        print_json({"is_fresh": found.is_fresh, "action_types": sorted(found.handlers)})
    if not found.is_fresh:
        state = "is stale" if found.path.exists() else "is missing"
        message = f"{found.path.relative_to(project.directory)} {state}: run `scheduled-actions registry build`"
        raise Failure(message)
    if not as_json:
        click.echo(f"up to date: {counted(len(found.handlers), 'action type')}")
