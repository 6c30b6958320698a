"""Build the registry of a project from the source text of `handlers/`, and check the recurrences declared there."""

from pathlib import Path

from scheduled_actions.registry import Registry, source
from scheduled_actions.registry.generated import registry_error
from scheduled_actions.schedules import declared


def build(project: Path) -> source.BuildResult:
    """Build the registry from the source text of the handlers; write nothing.

    Raises:
        RegistryInvalid: The source text contains mistakes; each is listed with its file and line.
    """
    return source.build(project, declared.problems)


def write(project: Path) -> source.BuildResult:
    """Write the registry atomically if its content changed; `is_fresh` of the result is then False.

    Raises:
        RegistryInvalid: The source text contains mistakes (nothing was written), or the file cannot be written.
    """
    result = build(project)
    source.write(result)
    return result


def check(project: Path) -> source.BuildResult:
    """Check that the generated registry file matches the handlers; return the registry built from their source text.

    Raises:
        RegistryInvalid: The file is missing or stale, or the source text contains mistakes.
    """
    result = build(project)
    if not result.is_fresh:
        raise registry_error(problem="is stale" if result.path.exists() else "is missing")
    return result


def load(project: Path) -> Registry:
    """Return the registry of the current handlers; write the generated file first if it is missing or stale.

    For the local server and its commands. A deployment uses `Registry.load`, so that a build without a registry fails.

    Raises:
        RegistryInvalid: The source text contains a mistake, or the file cannot be written.
    """
    return Registry(project, write(project))
