"""Create a new project from the files of the project in this repository and a few starter files."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template

from scheduled_actions.core.errors import DirectoryNotEmpty, ProjectUnusable
from scheduled_actions.core.version import VERSION
from scheduled_actions.local import environment
from scheduled_actions.operations import registry_build
from scheduled_actions.registry import generated

_PACKAGE = Path(__file__).parent
#: The directory of the repository's project; in an installed package, the copy that setup.py puts there.
_SOURCE = _PACKAGE / "_project" if (_PACKAGE / "_project").is_dir() else _PACKAGE.parents[1]
#: The starter files by their names in `starter/`, where no tool may take them for files of this repository.
_STARTER_NAMES = {
    "README.md": "README.md",
    "pyproject.toml.txt": "pyproject.toml",
    "app.py.txt": "app.py",
    "gitignore.txt": ".gitignore",
}
#: A directory that contains only these counts as empty.
_IGNORED = frozenset({".git", ".venv", "venv"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFiles:
    """The files of a new project."""

    directory: Path
    #: Files that were written; relative to the directory, like `kept`.
    new: tuple[str, ...]
    #: Files that existed with other content and were not changed.
    kept: tuple[str, ...]


def write(directory: Path, *, into_existing: bool = False) -> ProjectFiles:
    """Write the missing files of a project, generate its missing secrets, and build its registry.

    Existing files are not changed, except `.env`, to which the secrets are added, and the registry.

    Args:
        directory: Created if missing.
        into_existing: Add the missing files even if the directory is not empty.

    Raises:
        DirectoryNotEmpty: The directory contains files other than `.git` and a virtual environment, and
            `into_existing` is false.
        ConfigInvalid: An existing `.env` is invalid or cannot be read.
        ProjectUnusable: The path is not a directory, or cannot be written.
        RegistryInvalid: Existing handlers contain an error.
    """
    directory = directory.resolve()
    new, kept = [], []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        existing = sorted(path.name for path in directory.iterdir() if path.name not in _IGNORED)
        if existing and not into_existing:
            raise DirectoryNotEmpty(directory, existing[0])
        for name, content in _files(directory):
            target = directory / name
            if not os.path.lexists(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                new.append(name)
            elif not target.is_file() or target.read_bytes() != content:
                kept.append(name)
    except OSError as error:
        raise ProjectUnusable(directory, f"cannot be written: {error.strerror}") from error
    if environment.ensure_secrets(directory, {}):
        new.append(".env")
    if not registry_build.write(directory).is_fresh:
        new.append("handlers/_registry.py")
    return ProjectFiles(directory=directory, new=tuple(new), kept=tuple(kept))


def gunicorn_settings(project: Path) -> Path:
    """Return the path of gunicorn's settings: the project's own file, or the one that new projects get."""
    own = project / "gunicorn.conf.py"
    return own if own.is_file() else _SOURCE / own.name


def _files(directory: Path) -> Iterator[tuple[str, bytes]]:
    for pattern in (_PACKAGE / "project_files.txt").read_text(encoding="utf-8").split():
        for path in sorted(_SOURCE.glob(pattern)):
            content = path.read_bytes()
            if path.name == "vercel.json":
                # Vercel's entry point must be a file of the project: in this repository, a module of the package.
                content = content.replace(b'"scheduled_actions/wsgi.py"', b'"app.py"')
            if path.name != generated.REGISTRY_NAME:
                yield path.relative_to(_SOURCE).as_posix(), content
    # A Python project's name consists of letters, digits, and single - between them.
    name = re.sub(r"[^A-Za-z0-9]+", "-", directory.name).strip("-").lower() or "scheduled-actions-project"
    for starter, target in _STARTER_NAMES.items():
        text = Template((_PACKAGE / "starter" / starter).read_text(encoding="utf-8"))
        yield target, text.substitute(name=name, version=VERSION).encode()
