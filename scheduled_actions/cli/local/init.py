"""`scheduled-actions init`: a new project."""

from __future__ import annotations

import os
from pathlib import Path

import click

from scheduled_actions.local import project_template


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Add what is missing to a directory that is not empty.")
def init(directory: Path, *, force: bool) -> None:
    """Write a new project into DIRECTORY: example handlers, settings, secrets, and how to deploy it."""
    written = project_template.write(directory, into_what_is_there=force)
    for name in written.new:
        click.echo(f"  new   {name}")
    for name in written.kept:
        click.echo(f"  kept  {name} (it was there, and is as it was)")
    click.echo(f"\nA project is in {written.directory}. Its README.md says how to go on; in short:\n")
    if written.directory != Path.cwd():
        click.echo(f"  cd {os.path.relpath(written.directory)}")
    click.echo("  scheduled-actions dev")
