"""What a new project begins with: the project that this package's own repository is, and a few files of its own."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import DirectoryNotEmpty, ProjectUnusable
from scheduled_actions.core.version import VERSION
from scheduled_actions.local import secrets as local_secrets
from scheduled_actions.operations import registry_build
from scheduled_actions.registry import generated

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGE = Path(__file__).parent
#: Where an installed package holds the repository's project; setup.py puts it there.
_PACKAGED = _PACKAGE / "_project"
#: Which files of the repository are its project, as patterns.
_LIST = _PACKAGE / "project_files.txt"
#: Files of which a new project gets its own; renamed here, so that no tool takes them for ours.
_STARTER = _PACKAGE / "starter"
_STARTER_NAMES = {
    "README.md": "README.md",
    "pyproject.toml.txt": "pyproject.toml",
    "app.py.txt": "app.py",
    "gitignore.txt": ".gitignore",
}
#: Vercel's entry is a file of the project: here one of the package, in a new project `app.py`.
_OUR_ENTRY, _ITS_ENTRY = b'"scheduled_actions/wsgi.py"', b'"app.py"'
#: What may be in a directory that counts as empty.
_UNNOTICED = frozenset({".git", ".venv", "venv"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of a new project's files."""

    directory: Path
    #: Relative to the directory, as those below.
    new: tuple[str, ...]
    #: Were there already, with other content, and are as they were.
    kept: tuple[str, ...]


def write(directory: Path, *, into_what_is_there: bool = False) -> Written:
    """Write a project, with secrets of its own and its registry built; nothing that exists is changed.

    Args:
        directory: Made when missing.
        into_what_is_there: Add what is missing, although the directory is not empty.

    Raises:
        DirectoryNotEmpty: There are files in it (`.git` and a virtual environment do not count).
        ProjectUnusable: It is no directory, or cannot be written.
        RegistryInvalid: Handlers that were there hold a mistake.
    """
    directory = directory.resolve()
    new, kept = [], []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        found = sorted(path.name for path in directory.iterdir() if path.name not in _UNNOTICED)
        if found and not into_what_is_there:
            raise DirectoryNotEmpty(directory, found[0])
        for name, content in _files(directory):
            target = directory / name
            if os.path.lexists(target):
                if not target.is_file() or target.read_bytes() != content:
                    kept.append(name)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            new.append(name)
    except OSError as error:
        raise ProjectUnusable(directory, f"cannot be written: {error.strerror}") from error
    if local_secrets.ensure(directory, {}):
        new.append(".env")
    if not registry_build.write(directory).is_fresh:
        new.append("handlers/_registry.py")
    return Written(directory=directory, new=tuple(new), kept=tuple(kept))


def settings_of_gunicorn(project: Path) -> Path:
    """Return the file of gunicorn's settings: the project's own, or the one a new project begins with."""
    own = project / "gunicorn.conf.py"
    return own if own.is_file() else _source() / own.name


def _files(directory: Path) -> Iterator[tuple[str, bytes]]:
    source = _source()
    for pattern in _LIST.read_text(encoding="utf-8").split():
        for path in sorted(source.glob(pattern)):
            if path.name != generated.REGISTRY_NAME:
                content = path.read_bytes()
                if path.name == "vercel.json":
                    content = content.replace(_OUR_ENTRY, _ITS_ENTRY)
                yield path.relative_to(source).as_posix(), content
    values = {"name": _project_name(directory), "version": VERSION}
    for name, target in _STARTER_NAMES.items():
        text = Template((_STARTER / name).read_text(encoding="utf-8")).substitute(values)
        yield target, text.encode()


def _source() -> Path:
    return _PACKAGED if _PACKAGED.is_dir() else _PACKAGE.parents[1]


def _project_name(directory: Path) -> str:
    """Return the directory's name as the name of a Python project (letters, digits, and . _ - between them)."""
    return re.sub(r"[^A-Za-z0-9]+", "-", directory.name).strip("-").lower() or "scheduled-actions-project"
