"""A project as it runs on this machine: secrets, registry, database, tables and server, each there before the next."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduled_actions.core import config
from scheduled_actions.core.errors import ConfigInvalid, NotConfigured, ProjectUnusable
from scheduled_actions.core.secret import SECRET_MIN_LENGTH
from scheduled_actions.database.bounded import UNLIMITED
from scheduled_actions.database.migrate import migrate
from scheduled_actions.local import cron as local_cron
from scheduled_actions.local import environment, project_template
from scheduled_actions.local import secrets as local_secrets
from scheduled_actions.local import server as local_server
from scheduled_actions.operations import registry_build
from scheduled_actions.registry.importing import HANDLERS
from scheduled_actions.runtime import Runtime

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from scheduled_actions.core.config import Config
    from scheduled_actions.local.cron import Pong
    from scheduled_actions.local.server import LocalServer

#: How much longer than the longest tick a ping waits for its answer.
_ANSWER_MARGIN_SECONDS = 10.0


@dataclass(slots=True, kw_only=True)
class LocalProject:
    """A running project and its parts in this process."""

    config: Config
    runtime: Runtime
    server: LocalServer
    #: The secrets that were made just now.
    generated: tuple[str, ...]
    #: The process's own environment, without what `.env` adds to it.
    environ: Mapping[str, str]

    def ping(self) -> Pong:
        """Ping the server as a cron would, and return what came of it."""
        return local_cron.ping(
            local_server.HOST,
            self.server.port,
            self.config.cron_secret.reveal(),
            timeout_seconds=self.config.settings.max_duration_seconds + _ANSWER_MARGIN_SECONDS,
        )

    def reload(self) -> int:
        """Build the registry anew and have the server load it; return how many action types there are.

        `.env` is read again, too; a program in its place is not: somebody may have to touch a key for it.

        Raises:
            ConfigInvalid: The settings cannot be used; the server goes on as it was.
            RegistryInvalid: The handlers hold a mistake; likewise.
        """
        project = self.config.project
        is_printed = environment.uses_command(self.environ)
        values = self.config.environ if is_printed else environment.load(project, self.environ)
        configuration = config.load(project, values)
        _check_cron_secret(configuration)
        if configuration.database_url.reveal() != self.config.database_url.reveal():
            raise ConfigInvalid("DATABASE_URL", None, "has changed: stop this and start it again", environment.ENV_NAME)
        registry = registry_build.load(project)
        self.config = configuration
        self.server.reload()
        return len(registry.types)

    def fingerprint(self) -> frozenset[tuple[str, int, int]]:
        """Return what changes when a handler or a setting does."""
        directory = self.config.project
        settings = [directory / config.TOML_NAME, directory / environment.ENV_NAME]
        paths = [*(directory / HANDLERS).rglob("[!_.]*.py"), *settings]
        facts = ((path, _stat(path)) for path in paths)
        return frozenset((str(path), found.st_mtime_ns, found.st_size) for path, found in facts if found)


@contextmanager
def running(project: Path, *, port: int, environ: Mapping[str, str], shows_log: bool = False) -> Iterator[LocalProject]:
    """Give the project as it runs; what was started for it has ended when the block has.

    Args:
        project: Its directory.
        port: Where it is served; 0: any free port.
        environ: The process's own environment; `.env` is added to it.
        shows_log: The server says what it says here, not in its log.

    Raises:
        ScheduledActionsError: Something is not as it must be; nothing is left running.
    """
    project = project.resolve()
    if not (project / HANDLERS).is_dir():
        remedy = "`scheduled-actions init DIR` writes a project, SCHEDULED_ACTIONS_PROJECT names one that is elsewhere"
        raise ProjectUnusable(project, f"is no project, for it has no {HANDLERS}/: {remedy}")
    with ExitStack() as stack:
        listening = stack.enter_context(local_server.listen(port))
        # Before anything is written: a mistake in the settings leaves no trace.
        configuration = config.load(project, environment.load(project, environ))
        if configuration.cron_secret.reveal():
            _check_cron_secret(configuration)
        generated = local_secrets.ensure(project, environ)
        if generated:
            configuration = config.load(project, environment.load(project, environ))
        _check_cron_secret(configuration)
        runtime = Runtime(configuration, registry=registry_build.load(project))
        stack.callback(runtime.close)
        with runtime.database.connection(UNLIMITED) as connection:
            migrate(connection)
        server = stack.enter_context(
            local_server.LocalServer(
                project,
                listening,
                settings=project_template.settings_of_gunicorn(project),
                # It reads `.env` itself, so that it can do so again; what a program printed it is given.
                environ=configuration.environ if environment.uses_command(environ) else environ,
                log=None if shows_log else project / local_server.LOG_NAME,
            )
        )
        yield LocalProject(config=configuration, runtime=runtime, server=server, generated=generated, environ=environ)


def _check_cron_secret(configuration: Config) -> None:
    if not configuration.cron_secret.is_usable:
        raise NotConfigured("CRON_SECRET", f"set it to {SECRET_MIN_LENGTH} random characters or more")


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None  # It has just been deleted.
