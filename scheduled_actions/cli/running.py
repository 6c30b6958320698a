"""Run a project on this machine: `dev` until a signal stops it, `demo` in a temporary project until the demo ends."""

import base64
import os
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from importlib import resources
from pathlib import Path
from types import FrameType

import click

from scheduled_actions import runtime
from scheduled_actions.cli.group import Failure
from scheduled_actions.cli.output import one_line, signals_handled
from scheduled_actions.core.errors import (
    ExtraMissing,
    LocalServerFailed,
    NotConfigured,
    ScheduledActionsError,
    SecretUnreadable,
)
from scheduled_actions.core.messages import counted
from scheduled_actions.core.secret import Secret
from scheduled_actions.database import embedded as local_postgres, handoff
from scheduled_actions.local import (
    cron as local_cron,
    environment,
    handoff as local_handoff,
    mail as local_mail,
    project as local_project,
    project_template,
    server as local_server,
)
from scheduled_actions.local.demo.receiver import Receiver
from scheduled_actions.local.demo.report import DemoCheckFailed, Report
from scheduled_actions.local.demo.story import ACCOUNTS, WAREHOUSE, Story
from scheduled_actions.local.receiver import receiving
from scheduled_actions.notifications.caught_mails import CaughtMail
from scheduled_actions.operations import stored_secrets
from scheduled_actions.ticks import wake

#: Prefixes of environment variables that would connect the demo to a real project.
_FOREIGN_VARIABLES = ("DATABASE_URL", "CRON_SECRET", "ADMIN_TOKEN", "VERCEL", "SCHEDULED_ACTIONS_")
#: The signals of Ctrl-C, of `kill`, and of the end of the terminal.
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Interval of the checks for changed handlers and for the end of the server; shorter than it takes to type a command.
_POLL_SECONDS = 0.25
#: Minimum interval of attempts to start the embedded Postgres again.
_RESTART_SECONDS = 5.0
#: Time after which `dev` reports that the server is still stopping.
_QUIET_SECONDS = 2.0
#: Time that a server may need to stop, in addition to the longest tick.
_STOP_MARGIN_SECONDS = 20.0
#: An action type that every new project has, and that needs no payload.
_EXAMPLE_TYPE = "maintenance:prune"


def serve(directory: Path, *, port: int, shows_log: bool) -> None:
    """Serve the project and ping it every minute, until a signal stops it.

    Args:
        directory: The project directory.
        port: The port on 127.0.0.1; 0 chooses a free one.
        shows_log: Print the server's log instead of writing it to a file.

    Raises:
        ScheduledActionsError: The project cannot be run, or its server ended unexpectedly.
    """
    with (
        suppress(KeyboardInterrupt),
        _first_stop_is_interrupt(),
        local_project.running(directory, port=port, environ=os.environ, shows_log=shows_log) as running,
        _offered(running),
    ):
        try:
            click.echo(_greeting(running, shows_log=shows_log))
            _warn_of_unreadable_secrets(running)
            _ping_every_minute(running)
        except KeyboardInterrupt:
            _stop(running)
        finally:
            running.server.kill()  # Ends the pings in progress, for whose ends `_offered` waits.


@contextmanager
def _offered(project: local_project.LocalProject) -> Iterator[None]:
    """Catch mails, and let the other processes of the project start ticks at once, until the block ends."""
    secret = Secret(handoff.NAME, secrets.token_urlsafe(32))
    with (
        local_mail.catching(project.config, partial(_print_mail, project)) as mail_port,
        local_handoff.receiving_pings(secret, partial(_ping_at_once, project)) as url,
        local_handoff.published(project.config, handoff.Dev(url=url, secret=secret, mail_port=mail_port)),
    ):
        yield


def _ping_at_once(project: local_project.LocalProject) -> None:
    """Ping the server for another process, and print what the tick did; the minute cron reports lasting problems."""
    pong = project.ping(wake.HEADERS)
    # While another tick is running, that tick runs the action, and its pinger prints the result.
    if pong.problem is None and not pong.body.get("busy") and (text := local_cron.summary(pong.body)):
        _log(text)


def _print_mail(project: local_project.LocalProject, mail: CaughtMail) -> None:
    subject = one_line(mail.subject, longest=60)
    _log(f'mail to {one_line(mail.recipients, longest=60)}: "{subject}" (see {project.server.url}/dashboard/mail)')


def _mail_line(project: local_project.LocalProject) -> str:
    if project.config.settings.email.host:
        return f"sent through {one_line(project.config.settings.email.host)}"
    if project.config.is_production:
        return "not sent: set host under [email]"
    if local_mail.can_catch():
        return f"caught, see {project.server.url}/dashboard/mail"
    return "not caught: pip install 'scheduled-actions[local]', or set host under [email]"


def _first_stop_is_interrupt() -> AbstractContextManager[None]:
    """Make the first stop signal of the block raise KeyboardInterrupt, and ignore the later ones.

    One stop often arrives as several signals: to all processes of the terminal, and forwarded by make. A second
    exception would interrupt the code that stops the server and the database because of the first one.
    """
    # `nohup` makes this process ignore SIGHUP, which stays ignored. A shell makes a process that it starts with `&`
    # ignore SIGINT, which must stop the server nevertheless.
    stops = [one for one in _STOPS if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in stops:
            # Not SIG_IGN: Python reports a signal that has arrived, but whose handler is replaced by SIG_IGN.
            signal.signal(number, _ignore)
        raise KeyboardInterrupt

    return signals_handled(dict.fromkeys(stops, interrupt))


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal by doing nothing."""


def _greeting(project: local_project.LocalProject, *, shows_log: bool) -> str:
    directory, types = project.config.project, project.runtime.registry.types
    embedded = f"embedded Postgres in {_relative(directory / '.scheduled_actions')}"
    secrets_source = (
        environment.COMMAND_NAME
        if environment.uses_command(os.environ)
        else _relative(directory / environment.ENV_NAME)
    )
    generated = f" (generated {', '.join(project.generated)})" if project.generated else ""
    logs = "printed here" if shows_log else f"tail -f {_relative(directory / local_server.LOG_NAME)}"
    example = _EXAMPLE_TYPE if _EXAMPLE_TYPE in types else min(types, default="TYPE")
    assignment = "" if directory == Path.cwd() else f"SCHEDULED_ACTIONS_PROJECT={shlex.quote(str(directory))} "
    return f"""\
Scheduled Actions is running at {project.server.url} and is pinged once a minute. Press Ctrl-C to stop it.

  project   {directory} ({counted(len(types), "action type")})
  database  {"DATABASE_URL" if project.config.database_url.reveal() else embedded}
  secrets   {secrets_source}{generated}
  logs      {logs}
  mail      {_mail_line(project)}
  dashboard {project.server.url}/dashboard (sign in with ADMIN_TOKEN, one of the secrets)

Schedule an action, which runs at once, or ping the server yourself:

  {assignment}{_command()} schedule {example} --payload '{{}}'
  curl -H "x-cron-secret: {_secret_in_shell(project)}" {project.server.url}{local_cron.PATH}
"""


def _warn_of_unreadable_secrets(project: local_project.LocalProject) -> None:
    """Print a warning if the encryption key does not decrypt the stored secrets; the rest of the project works."""
    with project.runtime.database.connection() as connection:
        try:
            stored_secrets.check_database(connection, project.config.encryption_keys)
        except (SecretUnreadable, NotConfigured, ExtraMissing) as error:
            click.secho(f"Warning: {error}. Until then, nothing is delivered to these endpoints.\n", fg="yellow")


def _relative(path: Path) -> str:
    """Return the path, quoted for a shell in the working directory."""
    with suppress(ValueError):
        path = path.relative_to(Path.cwd())
    return shlex.quote(str(path))


def _command() -> str:
    """Return this program for a shell: its name, or its path if the name would run another program."""
    program = Path(sys.executable).with_name("scheduled-actions")
    found = shutil.which(program.name)
    return program.name if found is not None and Path(found) == program else _relative(program)


def _secret_in_shell(project: local_project.LocalProject) -> str:
    """Return a shell expression for CRON_SECRET, so that the secret itself is not on the screen."""
    if "CRON_SECRET" in os.environ:
        return "$CRON_SECRET"
    directory = project.config.project
    if environment.uses_command(os.environ):
        cd = "" if directory == Path.cwd() else f"cd {shlex.quote(str(directory))} && "
        return f"$({cd}{os.environ[environment.COMMAND_NAME]} | sed -n 's/^CRON_SECRET=//p')"
    path = directory / environment.ENV_NAME
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("CRON_SECRET=")]
    if lines == [f"CRON_SECRET={project.config.cron_secret.reveal()}"]:
        return f"$(sed -n 's/^CRON_SECRET=//p' {_relative(path)})"
    # The value is quoted, or `export` precedes the name.
    return f'$(. {shlex.quote(str(path))} && echo "$CRON_SECRET")'


def _log(text: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')}  {text}")


def _ping_every_minute(project: local_project.LocalProject) -> None:
    last_problem, seen, restarts = None, project.fingerprint(), _Restarts(project)
    while True:
        pong = project.ping()
        text = pong.problem or local_cron.summary(pong.body)
        # A lasting problem is printed once; the result of a tick every time.
        if text and not (pong.problem and text == last_problem):
            _log(text)
        last_problem = pong.problem
        next_at = time.time() + local_cron.seconds_to_next_minute(time.time())
        while time.time() < next_at:
            time.sleep(min(_POLL_SECONDS, max(0.0, next_at - time.time())))
            if not project.server.is_running:
                raise LocalServerFailed("ended unexpectedly", f"end of its log:\n{project.server.log_tail()}")
            restarts.restart_if_ended()
            seen, before = project.fingerprint(), seen
            if seen != before:
                _reload(project)


class _Restarts:
    """Starts the embedded Postgres again when it has ended: it was stopped, or the system was out of memory."""

    def __init__(self, project: local_project.LocalProject) -> None:
        self._project = project
        self._next_at = 0.0
        self._last_problem: str | None = None

    def restart_if_ended(self) -> None:
        """Start the embedded Postgres if it has ended and the last attempt was some seconds ago; print the result."""
        if time.monotonic() < self._next_at:
            return
        try:
            if not self._project.runtime.restart_embedded():
                self._last_problem = None
                return
            _log("the embedded Postgres had ended and was started again, with its data")
        except ScheduledActionsError as error:
            # A lasting problem is printed once.
            if self._last_problem != str(error):
                _log(f"the embedded Postgres has ended and could not be started again\n  {error}")
            self._last_problem = str(error)
        self._next_at = time.monotonic() + _RESTART_SECONDS


def _reload(project: local_project.LocalProject) -> None:
    keys = project.config.encryption_keys
    try:
        _log(f"handlers or settings changed: reloaded, {counted(project.reload(), 'action type')}")
        if project.config.encryption_keys != keys:
            _warn_of_unreadable_secrets(project)
    except ScheduledActionsError as error:
        _log(f"handlers or settings changed, but cannot be loaded; the server keeps the previous ones\n  {error}")


def _stop(project: local_project.LocalProject) -> None:
    server = project.server
    server.process.terminate()
    if not server.wait(_QUIET_SECONDS):
        click.echo("Stopping: waiting for running handlers. Press Ctrl-C again to stop immediately.")
        with suppress(KeyboardInterrupt), _first_stop_is_interrupt():
            server.wait(project.config.settings.max_duration_seconds + _STOP_MARGIN_SECONDS)
    if server.is_running:
        click.echo("Stopped immediately: interrupted actions return to pending when their leases expire.")
    # The caller kills the server if necessary, and stops the database.


def play() -> None:
    """Play the demo, then stop and delete everything that it started and created.

    Raises:
        Failure: A check failed.
        ScheduledActionsError: The temporary project cannot be run.
    """
    report = Report()
    with _first_stop_is_interrupt(), _temporary_directory() as directory:
        endpoints = {
            name: f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}" for name in (WAREHOUSE, ACCOUNTS)
        }
        receiver = Receiver(endpoints, failing_once=ACCOUNTS)
        with receiving(0, receiver.receive) as url:
            _write_project(report, directory, url, endpoints)
            environ = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN_VARIABLES)}
            with local_project.running(directory, port=0, environ=environ) as project:
                _run_story(Story(report, project, receiver, url))
    click.echo(f"\n{report.checked} checks passed in {report.seconds:.1f} seconds.")


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="scheduled-actions-demo-"))
    try:
        # If root plays the demo, Postgres runs under another account, which must be able to enter.
        directory.chmod(0o711)
        yield directory
    finally:
        local_postgres.remove(directory / ".scheduled_actions")
        shutil.rmtree(directory, ignore_errors=True)


def _write_project(report: Report, directory: Path, url: str, endpoints: Mapping[str, str]) -> None:
    report.step("A project with its own database and server")
    report.show(f"scheduled-actions init {directory}")
    project_template.write(directory)
    shop = resources.files("scheduled_actions.local.demo").joinpath("shop.py")
    (directory / "handlers" / "shop.py").write_bytes(shop.read_bytes())
    report.show(f"write handlers/shop.py, and the endpoints {' and '.join(endpoints)} in scheduled_actions.toml")
    with (
        (directory / "scheduled_actions.toml").open("a", encoding="utf-8") as settings,
        (directory / ".env").open("a", encoding="utf-8") as variables,
    ):
        for name, secret in endpoints.items():
            url_name, secret_name = f"{name.upper()}_URL", f"{name.upper()}_SECRET"
            settings.write(
                f'\n[webhooks.endpoints.{name}]\npatterns = ["order:*"]\n'
                f'env_var = "{url_name}"\nsecret_env_var = "{secret_name}"\n'
            )
            variables.write(f"{url_name}={url}/{name}\n{secret_name}={secret}\n")
    report.show("build the registry; start Postgres, create the tables, start gunicorn")


def _run_story(story: Story) -> None:
    before = runtime.use(story.project.runtime)
    try:
        story.play()
    except DemoCheckFailed as error:
        raise Failure(
            f"a check failed\n    {error}\nend of the server's log:\n{story.project.server.log_tail()}"
        ) from error
    finally:
        runtime.use(before)
