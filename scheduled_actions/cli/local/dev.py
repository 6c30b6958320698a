"""`scheduled-actions dev`: the project served on this machine, with a database and a cron of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduled_actions.cli.parameters import WholeNumber
from scheduled_actions.cli.project import pass_project
from scheduled_actions.core.errors import LocalServerFailed, ScheduledActionsError
from scheduled_actions.local import cron as local_cron
from scheduled_actions.local import environment
from scheduled_actions.local import project as local_project
from scheduled_actions.local import server as local_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduled_actions.cli.project import Project
    from scheduled_actions.local.project import LocalProject

#: What ends it: Ctrl-C, `kill`, and the end of its terminal.
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How often the handlers are looked at for changes, and the server for its end.
_LOOK_SECONDS = 1.0
#: A stop that takes longer is announced.
_QUIET_SECONDS = 2.0
#: How much longer than the longest tick a server may take to stop.
_STOP_MARGIN_SECONDS = 20.0
#: One that every new project has, and that needs no payload.
_EXAMPLE_TYPE = "maintenance:prune"


@click.command()
@click.option(
    "--port",
    envvar="PORT",
    default=8000,
    show_default=True,
    type=WholeNumber(0, 65535),
    help="Where it listens on 127.0.0.1; 0 takes any free port. Also PORT.",
)
@click.option("--logs", is_flag=True, help="Show what the server says here, instead of in its log.")
@pass_project
def dev(project: Project, port: int, *, logs: bool) -> None:
    """Serve the project on this machine, with a Postgres of its own, and ping it once a minute."""
    try:
        with (
            _stops_are_interrupts(),
            local_project.running(project.directory, port=port, environ=os.environ, shows_log=logs) as running,
        ):
            click.echo(_greeting(running, shows_log=logs))
            try:
                _ping_every_minute(running)
            except KeyboardInterrupt:
                _stop(running)
    except KeyboardInterrupt:
        return


@contextmanager
def _stops_are_interrupts() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _STOPS}
    for number, handler in before.items():
        # `nohup` may keep us from the terminal's end, but no shell that starts us with `&` from Ctrl-C.
        if number != signal.SIGHUP or handler != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _greeting(project: LocalProject, *, shows_log: bool) -> str:
    directory, types = project.config.project, project.runtime.registry.types
    is_ours = not project.config.database_url.reveal()
    database = f"a Postgres of its own, in {_shown(directory / '.scheduled_actions')}" if is_ours else "DATABASE_URL"
    secrets = (
        environment.COMMAND_NAME if environment.uses_command(os.environ) else _shown(directory / environment.ENV_NAME)
    )
    made = f" ({', '.join(project.generated)} made just now)" if project.generated else ""
    logs = "shown here" if shows_log else f"tail -f {_shown(directory / local_server.LOG_NAME)}"
    example = _EXAMPLE_TYPE if _EXAMPLE_TYPE in types else min(types, default="TYPE")
    elsewhere = "" if directory == Path.cwd() else f"SCHEDULED_ACTIONS_PROJECT={shlex.quote(str(directory))} "
    return f"""\
Scheduled Actions runs at {project.server.url} and is pinged once a minute. Ctrl-C stops it.

  project   {directory} ({_counted(len(types))})
  database  {database}
  secrets   {secrets}{made}
  logs      {logs}
  dashboard {project.server.url}/dashboard (sign in with ADMIN_TOKEN, which is among the secrets)

Schedule something, and have it run at once:

  {elsewhere}{_command()} schedule {example} --payload '{{}}'
  curl -H "x-cron-secret: {_secret_in_shell(project)}" {project.server.url}{local_cron.PATH}
"""


def _shown(path: Path) -> str:
    """Return the path as one would type it here."""
    try:
        return shlex.quote(str(path.relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(path))


def _command() -> str:
    """Return how this program is called here: by its name where that is enough."""
    name, beside = "scheduled-actions", Path(sys.executable).with_name("scheduled-actions")
    found = shutil.which(name)
    return name if found is not None and Path(found) == beside else _shown(beside)


def _secret_in_shell(project: LocalProject) -> str:
    """Return what a shell replaces by the secret, so that the secret itself stands on no screen."""
    if "CRON_SECRET" in os.environ:
        return "$CRON_SECRET"
    directory = project.config.project
    if environment.uses_command(os.environ):
        there = "" if directory == Path.cwd() else f"cd {shlex.quote(str(directory))} && "
        return f"$({there}{os.environ[environment.COMMAND_NAME]} | sed -n 's/^CRON_SECRET=//p')"
    path = directory / environment.ENV_NAME
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("CRON_SECRET=")]
    if lines == [f"CRON_SECRET={project.config.cron_secret.reveal()}"]:
        return f"$(sed -n 's/^CRON_SECRET=//p' {_shown(path)})"
    return f'$(. {shlex.quote(str(path))} && echo "$CRON_SECRET")'  # It is quoted there, or exported.


def _counted(types: int) -> str:
    return f"{types} action type{'' if types == 1 else 's'}"


def _ping_every_minute(project: LocalProject) -> None:
    told, seen = None, project.fingerprint()
    while True:
        pong = project.ping()
        said = pong.problem or local_cron.summary(pong.body)
        # A trouble that lasts is told once; what a tick did is told each time.
        if said and not (pong.problem and said == told):
            click.echo(f"{time.strftime('%H:%M:%S')}  {said}")
        told = pong.problem
        next_at = time.time() + local_cron.seconds_to_next_minute(time.time())
        while time.time() < next_at:
            time.sleep(min(_LOOK_SECONDS, max(0.0, next_at - time.time())))
            if not project.server.is_running:
                raise LocalServerFailed("it ended by itself", f"its last words:\n{project.server.last_words()}")
            seen, before = project.fingerprint(), seen
            if seen != before:
                _reload(project)


def _reload(project: LocalProject) -> None:
    try:
        said = f"the handlers or settings have changed: loaded again, {_counted(project.reload())}"
    except ScheduledActionsError as error:
        said = f"the handlers or settings have changed, but cannot be used; the server goes on as it was\n  {error}"
    click.echo(f"{time.strftime('%H:%M:%S')}  {said}")


def _stop(project: LocalProject) -> None:
    server = project.server
    # One stop often comes as two signals: to all processes of the terminal, and passed on by make.
    _ignore_stops()
    server.terminate()
    if not server.wait(_QUIET_SECONDS):
        click.echo("Stopping: the handlers at work may finish. Ctrl-C again ends them at once.")
        with suppress(KeyboardInterrupt), _stops_are_interrupts():
            server.wait(project.config.settings.max_duration_seconds + _STOP_MARGIN_SECONDS)
    if server.is_running:
        click.echo("Ended at once: the actions at work return to pending when their leases end.")
    # What follows ends the server if it must, and stops the database in order.


def _ignore_stops() -> None:
    for number in _STOPS:
        signal.signal(number, signal.SIG_IGN)
