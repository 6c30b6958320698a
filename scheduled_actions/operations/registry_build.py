"""Build the registry of a project from the text of `handlers/`, and check the recurrences that its handlers declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions.registry import Registry, source
from scheduled_actions.registry.generated import unusable
from scheduled_actions.schedules import declared

if TYPE_CHECKING:
    from pathlib import Path

    from scheduled_actions.registry.source import BuildResult


def build(project: Path) -> BuildResult:
    """Return the registry that the handlers' text asks for; nothing is written.

    Raises:
        RegistryInvalid: The text holds mistakes; every one is listed, with its file and line.
    """
    return source.build(project, declared.problems)


def write(project: Path) -> BuildResult:
    """Write the registry where it changed, whole or not at all; `is_fresh` says whether it had to be.

    Raises:
        RegistryInvalid: As `build`, and nothing was written; or the file cannot be written.
    """
    result = build(project)
    source.write(result)
    return result


def check(project: Path) -> BuildResult:
    """Return the registry of a project whose generated file is what the handlers' text asks for.

    Raises:
        RegistryInvalid: It is missing or stale; or as `build`.
    """
    result = build(project)
    if not result.is_fresh:
        raise unusable(problem="is stale" if result.path.exists() else "is missing")
    return result


def load(project: Path) -> Registry:
    """Return the registry of the handlers as they are now, written first where it is missing or stale.

    For the local server and its commands. A deployment uses `Registry.load`: a build that skipped the registry
    should fail, not run whatever it finds.

    Raises:
        RegistryInvalid: The handlers' text holds a mistake, or the file cannot be written.
    """
    built = write(project)
    return Registry(project, built.handlers, built.options, built.functions)
