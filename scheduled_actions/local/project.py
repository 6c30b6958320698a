"""Run a project on this machine: prepare its secrets, registry, database and tables, then start its server."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from scheduled_actions.core import config
from scheduled_actions.core.config import Config
from scheduled_actions.core.errors import ConfigInvalid, ProjectUnusable
from scheduled_actions.database.bounded import UNLIMITED
from scheduled_actions.database.migrate import migrate
from scheduled_actions.executors.store import write_executors
from scheduled_actions.local import cron as local_cron, environment, project_template, server as local_server
from scheduled_actions.operations import registry_build
from scheduled_actions.registry.loading import HANDLERS
from scheduled_actions.runtime import Runtime


@dataclass(slots=True, kw_only=True)
class LocalProject:
    """A running project: its server, and its settings and runtime in this process."""

    config: Config
    runtime: Runtime
    server: local_server.LocalServer
    #: The names of the secrets that `running` generated.
    generated: tuple[str, ...]
    #: The process's own environment, without the variables of `.env`.
    environ: Mapping[str, str]

    def ping(self, headers: Mapping[str, str] = local_cron.HEADERS) -> local_cron.PingResult:
        """Ping the server, by default as a cron does, and return the answer."""
        return local_cron.ping(
            local_server.HOST,
            self.server.port,
            self.config.cron_secret.reveal(),
            timeout_seconds=self.config.settings.max_duration_seconds + 10,  # longer than the longest tick
            headers=headers,
        )

    def reload(self) -> int:
        """Rebuild the registry and make the server load it; return the number of action types.

        The settings and `.env` are read again. A program that replaces `.env` is not run again, because a person may
        have to touch a security key.

        Raises:
            ConfigInvalid: The settings are invalid, or DATABASE_URL has changed; the server keeps the old settings.
            NotConfigured: CRON_SECRET is missing or too short; the server keeps the old settings.
            RegistryInvalid: The handlers contain an error; the server keeps the old handlers.
        """
        project = self.config.project
        is_command = environment.uses_command(self.environ)
        values = self.config.environ if is_command else environment.load(project, self.environ)
        configuration = config.load(project, values)
        _check_cron_secret(configuration)
        if configuration.database_url.reveal() != self.config.database_url.reveal():
            raise ConfigInvalid("DATABASE_URL", None, "has changed: restart the server to use it", environment.ENV_NAME)
        registry = registry_build.load(project)
        self.config = configuration
        self.server.process.send_signal(signal.SIGHUP)
        return len(registry.types)

    def fingerprint(self) -> frozenset[tuple[str, int, int]]:
        """Return a value that changes when a handler module, `scheduled_actions.toml` or `.env` changes."""
        directory = self.config.project
        handlers = (directory / HANDLERS).rglob("[!_.]*.py")
        found = set()
        for path in [*handlers, directory / config.TOML_NAME, directory / environment.ENV_NAME]:
            with suppress(OSError):  # The file does not exist, or was just deleted.
                stat = path.stat()
                found.add((str(path), stat.st_mtime_ns, stat.st_size))
        return frozenset(found)


@contextmanager
def running(project: Path, *, port: int, environ: Mapping[str, str], shows_log: bool = False) -> Iterator[LocalProject]:
    """Run the project until the block ends, then stop everything that was started for it.

    Args:
        project: The project directory.
        port: The port on 127.0.0.1; 0 chooses a free one.
        environ: The process's own environment; `.env` is added to it.
        shows_log: Print the server's output instead of writing it to `LOG_NAME`.

    Raises:
        ScheduledActionsError: The directory is not a project, a setting, secret or handler is invalid, or the database
            or the server cannot be started; nothing is left running.
    """
    project = project.resolve()
    if not (project / HANDLERS).is_dir():
        remedy = "create one with `scheduled-actions init DIR`, or set SCHEDULED_ACTIONS_PROJECT to an existing project"
        raise ProjectUnusable(project, f"is not a project directory, because it has no {HANDLERS}/: {remedy}")
    with ExitStack() as stack:
        listening = stack.enter_context(local_server.listen(port))
        # The settings are checked before anything is written, so that an invalid setting changes no file.
        configuration = config.load(project, environment.load(project, environ))
        if configuration.cron_secret.reveal():
            _check_cron_secret(configuration)
        generated = environment.ensure_secrets(project, environ)
        if generated:
            configuration = config.load(project, environment.load(project, environ))
        _check_cron_secret(configuration)
        runtime = Runtime(configuration, registry=registry_build.load(project), may_create_database=True)
        stack.callback(runtime.close)
        with runtime.database.connection(UNLIMITED) as connection:
            migrate(connection)
            write_executors(connection, configuration.settings.executors, replace=True)
        server = local_server.LocalServer(
            project,
            listening,
            settings=project_template.gunicorn_settings(project),
            # The server reads `.env` itself, again at each reload. The output of a program that replaces `.env` is
            # passed to the server, because the program runs only once.
            environ=configuration.environ if environment.uses_command(environ) else environ,
            log=None if shows_log else project / local_server.LOG_NAME,
        )
        stack.callback(server.kill)
        yield LocalProject(config=configuration, runtime=runtime, server=server, generated=generated, environ=environ)


def _check_cron_secret(configuration: Config) -> None:
    configuration.cron_secret.check_usable()
