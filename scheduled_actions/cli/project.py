"""The project directory a command works in, and what is made of it when a command asks."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from scheduled_actions.actions.management import Management
    from scheduled_actions.core.config import Config
    from scheduled_actions.registry import Registry
    from scheduled_actions.runtime import Runtime

# What a command does not need is not imported: `--help` answers without a database driver.
# ruff: noqa: PLC0415


Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class Project:
    """One command's project.

    Args:
        given: The directory; None: the working directory.
    """

    def __init__(self, given: Path | None) -> None:
        self._given = given

    @cached_property
    def directory(self) -> Path:
        """The directory itself.

        Raises:
            UsageError: There is none.
        """
        given = self._given or Path()
        if not given.is_dir():
            message = f"{str(given)!r} is not a directory; name the one that holds scheduled_actions.toml and handlers/"
            raise click.BadParameter(message, param_hint="'--project'")
        return given.resolve()

    @cached_property
    def environ(self) -> dict[str, str]:
        """The environment, with what the project's `.env` adds to it.

        Raises:
            ConfigInvalid: The file has a line that is no assignment.
        """
        from scheduled_actions.local import environment

        return environment.load(self.directory)

    @cached_property
    def config(self) -> Config:
        """The project's settings and secrets.

        Raises:
            ConfigInvalid: They cannot be used.
        """
        from scheduled_actions.core import config

        return config.load(self.directory, self.environ)

    @cached_property
    def registry(self) -> Registry:
        """The generated registry.

        Raises:
            RegistryInvalid: It is missing, or cannot be read.
        """
        from scheduled_actions.core.errors import RegistryInvalid
        from scheduled_actions.registry import Registry, generated
        from scheduled_actions.registry.importing import HANDLERS

        if not (self.directory / HANDLERS / generated.REGISTRY_NAME).exists():
            where = f"{HANDLERS}/{generated.REGISTRY_NAME}"
            raise RegistryInvalid(where, "is missing: run `scheduled-actions registry build`")
        return Registry.load(self.directory)

    def open(self) -> Runtime:
        """Return the project's parts, handlers included, as the process's own until the command ends.

        Handlers find the `.env` in `os.environ`, as they find real variables where they are deployed.

        Raises:
            DeploymentError: The settings or the registry cannot be used.
        """
        runtime = self._made(self.registry)
        self._export()
        return runtime

    def open_unbuilt(self) -> Runtime:
        """Return the same as `open`, the registry read when it is first needed: where its lack is a finding.

        Raises:
            ConfigInvalid: The settings cannot be used.
        """
        runtime = self._made(None)
        self._export()
        return runtime

    def open_without_handlers(self) -> Runtime:
        """Return the project's parts for a command that runs and validates nothing: it works without a registry.

        Raises:
            ConfigInvalid: The settings cannot be used.
        """
        from scheduled_actions.registry import Registry

        return self._made(Registry(self.directory, {}))

    def open_management(self) -> Management:
        """Return what watches and mends the project's actions, for a command that needs no registry.

        Raises:
            ConfigInvalid: The settings cannot be used.
        """
        from scheduled_actions.actions.management import Management

        runtime = self.open_without_handlers()
        return Management(runtime.database, lambda: runtime.scheduler)

    def _made(self, registry: Registry | None) -> Runtime:
        from scheduled_actions import runtime

        made = runtime.Runtime(self.config, registry=registry)
        before = runtime.use(made)
        context = click.get_current_context()
        context.call_on_close(lambda: runtime.use(before))
        context.call_on_close(made.close)
        return made

    def _export(self) -> None:
        added = {name: value for name, value in self.environ.items() if name not in os.environ}
        os.environ.update(added)
        click.get_current_context().call_on_close(lambda: [os.environ.pop(name, None) for name in added])


def handlers_aside() -> redirect_stdout[TextIO]:
    """Send what handlers and their modules print to standard error meanwhile: standard output is for the answer."""
    return redirect_stdout(sys.stderr)


def pass_project(command: Callable[Concatenate[Project, Arguments], Answer]) -> Callable[Arguments, Answer]:
    """Hand a command its project; what it refuses is called as its options are."""

    @wraps(command)
    def with_project(*arguments: Arguments.args, **options: Arguments.kwargs) -> Answer:
        from scheduled_actions.core.errors import InvalidArgument

        context = click.get_current_context()
        project = context.find_object(Project)
        assert project is not None  # noqa: S101 - the group makes it
        try:
            return context.invoke(command, project, *arguments, **options)
        except InvalidArgument as error:
            raise error.renamed(_option(error.name, context)) from error

    return with_project


#: What has another name in options than in Python.
_OPTIONS = {"scheduled_at": ("at", "delay"), "due_at": ("at", "delay"), "team_id": ("team",)}


def _option(name: str, context: click.Context) -> str:
    """Return what the command line calls an argument; its own name where that is no option of the command."""
    wanted = {name, *_OPTIONS.get(name, ())}
    found = [one for one in context.command.params if isinstance(one, click.Option) and one.name in wanted]
    given = [one for one in found if context.params.get(one.name or "") is not None]
    return " or ".join(max(one.opts, key=len) for one in given or found) or name


def caller() -> str:
    """Return who is at the keyboard, as the history names them: `cli:` and the operating system's user."""
    import getpass

    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        # A container may run under a number that has no name.
        user = str(os.getuid())
    return f"cli:{user}"
