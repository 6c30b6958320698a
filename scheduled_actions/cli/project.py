"""The project of a command: its directory, settings and runtime, loaded when they are needed."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TextIO, TypeVar

import click

from scheduled_actions.core import config
from scheduled_actions.core.config import Config
from scheduled_actions.core.errors import InvalidArgument, RegistryInvalid
from scheduled_actions.registry import Registry, generated
from scheduled_actions.registry.generated import RegistryContent
from scheduled_actions.registry.loading import HANDLERS

if TYPE_CHECKING:
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.runtime import Runtime

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
#: Options whose names differ from the Python arguments.
_OPTIONS = {
    "scheduled_at": ("at", "delay"),
    "due_at": ("at", "delay"),
    "anchor": ("start",),
    "team_id": ("team",),
    "from": ("start",),
    "to": ("end",),
}


@dataclass(frozen=True)
class Project:
    """The project that a command uses."""

    #: The value of `--project`; None: the working directory.
    given: Path | None

    @cached_property
    def directory(self) -> Path:
        """The project directory.

        Raises:
            BadParameter: The directory does not exist.
        """
        given = self.given or Path()
        if not given.is_dir():
            raise click.BadParameter(
                f"{str(given)!r} is not a directory; give the project directory, which contains scheduled_actions.toml "
                "and handlers/",
                param_hint="'--project'",
            )
        return given.resolve()

    @cached_property
    def environ(self) -> dict[str, str]:
        """The environment, completed by the project's `.env`.

        Raises:
            ConfigInvalid: `.env` cannot be read, a line is invalid, or the program that replaces the file failed.
        """
        from scheduled_actions.local import environment  # noqa: PLC0415 - help needs no database

        return environment.load(self.directory)

    @cached_property
    def config(self) -> Config:
        """The project's settings and secrets.

        Raises:
            ConfigInvalid: A setting is invalid, or `environ` cannot be loaded.
        """
        return config.load(self.directory, self.environ)

    @cached_property
    def registry(self) -> Registry:
        """The generated registry.

        Raises:
            RegistryInvalid: The registry is missing, or cannot be read.
        """
        if not (self.directory / HANDLERS / generated.REGISTRY_NAME).exists():
            raise RegistryInvalid(
                f"{HANDLERS}/{generated.REGISTRY_NAME}",
                "the generated file is missing; run `scheduled-actions registry build`",
            )
        return Registry.load(self.directory)

    def open(self) -> Runtime:
        """Return the runtime with handlers; it is the current runtime until the command ends.

        The variables of `.env` are added to `os.environ`, so that handlers find them as in a deployment.

        Raises:
            DeploymentError: The settings or the registry cannot be used.
        """
        return self._open_with_variables(self.registry)

    def open_unbuilt(self) -> Runtime:
        """Return the runtime, which loads its registry on first use, so that a missing registry can be reported.

        Raises:
            ConfigInvalid: A setting is invalid.
        """
        return self._open_with_variables(None)

    def open_for_reading(self) -> Runtime:
        """Return the runtime with handlers, or without them if the registry is missing or cannot be read.

        Raises:
            ConfigInvalid: A setting is invalid.
        """
        try:
            return self.open()
        except RegistryInvalid:
            return self.open_without_handlers()

    def open_without_handlers(self) -> Runtime:
        """Return a runtime that cannot run or validate actions; it needs no registry.

        Raises:
            ConfigInvalid: A setting is invalid.
        """
        return self._start_runtime(Registry(self.directory, RegistryContent(handlers={})))

    def in_database(
        self,
        function: Callable[Concatenate[Connection, Arguments], Answer],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Answer:
        """Call the function with a connection to the project's database and these arguments."""
        with self.open_without_handlers().database.connection() as connection:
            return function(connection, *args, **kwargs)

    def _start_runtime(self, registry: Registry | None) -> Runtime:
        from scheduled_actions import runtime  # noqa: PLC0415 - help needs no database

        started = runtime.Runtime(self.config, registry=registry)
        before = runtime.use(started)
        context = click.get_current_context()
        context.call_on_close(lambda: runtime.use(before))
        context.call_on_close(started.close)
        return started

    def _open_with_variables(self, registry: Registry | None) -> Runtime:
        started = self._start_runtime(registry)
        added = {name: value for name, value in self.environ.items() if name not in os.environ}
        os.environ.update(added)
        click.get_current_context().call_on_close(lambda: [os.environ.pop(name, None) for name in added])
        return started


def handlers_aside() -> redirect_stdout[TextIO]:
    """Redirect the output of handlers to standard error; standard output contains only the command's result."""
    return redirect_stdout(sys.stderr)


def pass_project(command: Callable[Concatenate[Project, Arguments], Answer]) -> Callable[Arguments, Answer]:
    """Pass the project as the first argument; in errors, replace the names of arguments with those of options."""

    @wraps(command)
    def with_project(*arguments: Arguments.args, **options: Arguments.kwargs) -> Answer:
        context = click.get_current_context()
        try:
            return context.invoke(command, Project(context.find_object(Path)), *arguments, **options)
        except InvalidArgument as error:
            raise error.renamed(_option_of(error.name, context)) from error

    return with_project


def _option_of(name: str, context: click.Context) -> str:
    """Return the command's options that set an argument, joined by "or"; the argument's name if there are none.

    If the user gave some of these options, only those are returned.
    """
    wanted = {name, *_OPTIONS.get(name, ())}
    options = [one for one in context.command.params if isinstance(one, click.Option) and one.name in wanted]
    given = [one for one in options if context.params.get(one.name or "") is not None]
    return " or ".join(max(one.opts, key=len) for one in given or options) or name


def caller() -> str:
    """Return the user for an action's history: `cli:` and the name of the operating system's user."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        # A container may run under a user id without a name.
        user = str(os.getuid())
    return f"cli:{user}"
