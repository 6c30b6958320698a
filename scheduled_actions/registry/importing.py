"""Importing a project's modules, with a readable reason where that fails."""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

#: The package of every project's handlers.
HANDLERS = "handlers"

_MESSAGE_LIMIT = 300
#: Logins in addresses, and passwords in connection strings: some drivers repeat what they were given.
_SECRET = re.compile(r"(?<=://)[^\s/@]*(?=@)|(?<=password=)('[^']*'|\S+)", re.IGNORECASE)


class ImportFailed(Exception):
    """A module of the project cannot be imported; the text says why, and in which line."""


def imported(module_name: str, *, project: Path) -> ModuleType:
    """Return a module of the project, imported now or before.

    The project's directory is put first on `sys.path` where it is not on it yet, and stays there.

    Raises:
        ImportFailed: The import raised, whatever it was: a module that calls `sys.exit` harms only its own
            actions. `KeyboardInterrupt` alone passes.
    """
    if str(project) not in sys.path:
        sys.path.insert(0, str(project))
    _stand_in(project)
    try:
        module = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # A module that appeared or was mended since the folder was last listed is seen by the next attempt.
        importlib.invalidate_caches()
        raise ImportFailed(_namesake(module_name, project) or _reason(error, module_name, project)) from error
    problem = _namesake(module_name, project)
    if problem:
        raise ImportFailed(problem)
    return module


def _stand_in(project: Path) -> None:
    """Import the project's `handlers` where it has no `__init__.py`.

    Python itself would prefer any package of that name with one, wherever on `sys.path` it lies.
    """
    folder = project / HANDLERS
    if HANDLERS not in sys.modules and folder.is_dir() and not (folder / "__init__.py").exists():
        spec = ModuleSpec(HANDLERS, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        sys.modules.setdefault(HANDLERS, module_from_spec(spec))


def _namesake(module_name: str, project: Path) -> str | None:
    """Return what is wrong where `handlers` is another project's package, imported earlier or found first."""
    if module_name.partition(".")[0] != HANDLERS:
        return None
    folders = [Path(folder) for folder in getattr(sys.modules.get(HANDLERS), "__path__", ())]
    own = (project / HANDLERS, (project / HANDLERS).resolve())
    if not folders or any(folder in own or folder.resolve() in own for folder in folders):
        return None
    return f"another package called {HANDLERS} was imported first, from {folders[0]}"


def _reason(error: BaseException, module_name: str, project: Path) -> str:
    lines = str(error).splitlines() or [""]
    if isinstance(error, SyntaxError):
        place: tuple[str, int | None] | None = (error.filename or module_name, error.lineno)
        lines = [error.msg]
    else:
        place = _place(error, project)
    message = _SECRET.sub("…", lines[0])
    message = message if len(message) <= _MESSAGE_LIMIT else f"{message[: _MESSAGE_LIMIT - 1]}…"
    reason = f"{type(error).__name__}: {message}" if message else type(error).__name__
    if place:
        reason += f" ({_relative(place[0], project)}:{place[1]})"
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module_name}.".startswith(f"{error.name}."):
        reason += "; the registry knows a module that is not there: run `python registry_build.py`"
    return reason


def _place(error: BaseException, project: Path) -> tuple[str, int | None] | None:
    """Return the last line of the project's own code that the error went through, if it got to any."""
    frames = traceback.extract_tb(error.__traceback__)
    package = str(Path(__file__).parents[1])
    own = [
        (frame.filename, frame.lineno)
        for frame in frames
        if project in Path(frame.filename).parents
        and "site-packages" not in frame.filename
        and not frame.filename.startswith(package)
    ]
    return own[-1] if own else None


def _relative(file: str, project: Path) -> str:
    path = Path(file)
    return path.relative_to(project).as_posix() if path.is_relative_to(project) else file
