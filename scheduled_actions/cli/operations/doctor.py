"""`doctor`: what is wrong with an installation, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scheduled_actions.cli.output import counted, one_line, print_json
from scheduled_actions.cli.parameters import as_json_option
from scheduled_actions.cli.project import Project, handlers_aside, pass_project
from scheduled_actions.core.errors import ConfigInvalid
from scheduled_actions.operations.doctor import gather as diagnosis
from scheduled_actions.operations.doctor.rules import Level, SettingsFound, worst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduled_actions.operations.doctor.rules import Check, Fact

_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.FAULT: "red"}


@click.command()
@as_json_option
@click.pass_context
@pass_project
def doctor(project: Project, context: click.Context, *, as_json: bool) -> None:
    """Check settings, secrets, endpoints, registry, handlers, database, clocks and ticks, and say what to do.

    Exit 1 when something does not work until it is mended; a warning is worth a look.
    """
    with handlers_aside():
        checks = [fact.judged() for fact in _facts(project)]
    level = worst(checks)
    if as_json:
        print_json({"status": level.value, "checks": [check.as_json() for check in checks]})
    else:
        _print(checks)
    context.exit(1 if level is Level.FAULT else 0)


def _facts(project: Project) -> list[Fact]:
    try:
        runtime = project.open_unbuilt()
    except ConfigInvalid as error:
        return [SettingsFound(str(error)), diagnosis.registry(project.directory)]
    return diagnosis.installation(runtime)


def _print(checks: Sequence[Check]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark = click.style(f"{check.level.value:<7}", fg=_COLOURS[check.level])
        click.echo(f"{mark}  {check.name.ljust(width)}  {one_line(check.detail)}")
        if check.remedy:
            click.echo(f"{' ' * (width + 11)}{one_line(check.remedy)}")
    faults, warnings = (sum(check.level is level for check in checks) for level in (Level.FAULT, Level.WARNING))
    click.echo(f"\n{counted(faults, 'fault')}, {counted(warnings, 'warning')}")
