"""Import the modules of a project and load functions from them; a failed import is not repeated for ten seconds."""

import importlib
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from scheduled_actions.core.errors import HandlerBroken
from scheduled_actions.core.errors.families import short_text

#: The package of every project's handlers.
HANDLERS = "handlers"
#: How long a failed load is not repeated, so that a tick with a thousand actions imports a broken module once. A
#: temporary failure then disappears without a restart.
FAILURE_SECONDS = 10.0
#: How long threads wait for the import of a module in another thread before they fail.
IMPORT_SECONDS = 30.0

_MESSAGE_LIMIT = 300
#: Credentials in URLs and connection strings, which some drivers repeat in their errors.
_SECRET = re.compile(r"(?<=://)[^\s/@]*(?=@)|(?<=password=)('[^']*'|\S+)", re.IGNORECASE)

Loaded = TypeVar("Loaded")


class ImportFailed(Exception):
    """A module of the project cannot be imported; the message contains the reason and, if known, the line."""


@dataclass(eq=False)
class Loader:
    """Loads functions by reference. Safe to use from many threads."""

    #: The directory that contains `handlers/`.
    _project: Path
    #: Returns seconds of a monotonic clock.
    _monotonic: Callable[[], float]
    #: Failed loads by module or reference: when loading may be tried again, and the problem.
    _failed: dict[str, tuple[float, str]] = field(default_factory=dict)
    _locks: dict[str, threading.RLock] = field(default_factory=dict)
    #: When the import of each module that is being imported began.
    _importing: dict[str, float] = field(default_factory=dict)

    def load(
        self,
        name: str,
        reference: str,
        build: Callable[[Callable[..., Any] | None], Loaded],
        *,
        loaded: dict[str, Loaded],
        given: Callable[..., Any] | None = None,
        broken: type[HandlerBroken] = HandlerBroken,
    ) -> Loaded:
        """Return the result of `build` for a function; the result is built once and stored in `loaded`.

        Args:
            name: The key in `loaded`, and the name in errors.
            reference: Where to import the function from.
            build: Takes the function, or None if its module has no such function; raises `HandlerBroken`.
            loaded: Results of earlier calls, by name.
            given: The function, if it needs no import.
            broken: The class of the error.

        Raises:
            HandlerBroken: The module cannot be imported, its import in another thread takes longer than
                `IMPORT_SECONDS`, or `build` raised the error. Calls within ten seconds after a failed import or build
                raise the same error.
        """
        module_name, _, attribute = reference.partition(":")
        with self._import_lock(module_name) as is_held:
            if name in loaded:
                return loaded[name]
            if not is_held:
                seconds = self._monotonic() - self._importing.get(module_name, self._monotonic())
                raise broken(name, reference, f"the import of its module has been running for {seconds:.0f} s")
            for key in (module_name, reference):
                until, problem = self._failed.get(key, (0.0, ""))
                if problem and self._monotonic() < until:
                    raise broken(name, reference, problem)
            try:
                loaded[name] = build(
                    given or getattr(import_module(module_name, project=self._project), attribute, None)
                )
            except ImportFailed as failure:
                self._failed[module_name] = (self._monotonic() + FAILURE_SECONDS, str(failure))
                raise broken(name, reference, str(failure)) from failure.__cause__
            except HandlerBroken as error:
                self._failed[reference] = (self._monotonic() + FAILURE_SECONDS, error.problem)
                raise
            return loaded[name]

    def may_block(self, reference: str) -> bool:
        """Return whether loading may take time: no recent failure, and no import that exceeds `IMPORT_SECONDS`."""
        module_name = reference.partition(":")[0]
        now = self._monotonic()
        is_failing = any(now < self._failed.get(key, (0.0, ""))[0] for key in (module_name, reference))
        began = self._importing.get(module_name)
        return not is_failing and (began is None or now < began + IMPORT_SECONDS)

    @contextmanager
    def _import_lock(self, module_name: str) -> Iterator[bool]:
        """Allow one thread at a time to import a module; yield False if another import exceeds `IMPORT_SECONDS`."""
        lock = self._locks.setdefault(module_name, threading.RLock())
        now = self._monotonic()
        if not lock.acquire(timeout=max(0.0, self._importing.get(module_name, now) + IMPORT_SECONDS - now)):
            yield False
            return
        is_outer = module_name not in self._importing
        if is_outer:
            self._importing[module_name] = self._monotonic()
        try:
            yield True
        finally:
            if is_outer:
                del self._importing[module_name]
            lock.release()


def import_module(module_name: str, *, project: Path) -> ModuleType:
    """Import a module of the project, or return it if it is imported already.

    The project's directory is inserted first in `sys.path` if it is missing there, and is not removed.

    Raises:
        ImportFailed: The import raised anything but `KeyboardInterrupt`, such as the `SystemExit` of a module that
            calls `sys.exit`; or `handlers` is a package of another project.
    """
    if str(project) not in sys.path:
        sys.path.insert(0, str(project))
    _add_namespace_package(project)
    try:
        module = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # The next attempt lists the folder again: a module may have been added or fixed.
        importlib.invalidate_caches()
        raise ImportFailed(_foreign_package(module_name, project) or _reason(error, module_name, project)) from error
    if problem := _foreign_package(module_name, project):
        raise ImportFailed(problem)
    return module


def _add_namespace_package(project: Path) -> None:
    """Import the project's `handlers` if it has no `__init__.py`.

    Otherwise, Python would prefer any package `handlers` with an `__init__.py`, anywhere on `sys.path`.
    """
    folder = project / HANDLERS
    if HANDLERS not in sys.modules and folder.is_dir() and not (folder / "__init__.py").exists():
        spec = ModuleSpec(HANDLERS, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        sys.modules.setdefault(HANDLERS, module_from_spec(spec))


def _foreign_package(module_name: str, project: Path) -> str | None:
    """Return the problem if `handlers` is a package of another project, imported or found first; else None."""
    if module_name.partition(".")[0] != HANDLERS:
        return None
    folders = [Path(folder) for folder in getattr(sys.modules.get(HANDLERS), "__path__", ())]
    own = (project / HANDLERS, (project / HANDLERS).resolve())
    if not folders or any(folder in own or folder.resolve() in own for folder in folders):
        return None
    return f"another package called {HANDLERS} was imported first, from {folders[0]}: remove it from PYTHONPATH"


def _reason(error: BaseException, module_name: str, project: Path) -> str:
    message = error.msg if isinstance(error, SyntaxError) else (str(error).splitlines() or [""])[0]
    message = short_text(_SECRET.sub("…", message), _MESSAGE_LIMIT)
    reason = f"{type(error).__name__}: {message}" if message else type(error).__name__
    if place := _place(error, module_name, project):
        path = Path(place[0])
        reason += f" ({path.relative_to(project).as_posix() if path.is_relative_to(project) else path}:{place[1]})"
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module_name}.".startswith(f"{error.name}."):
        reason += "; the registry lists a module that does not exist: run `python registry_build.py`"
    return reason


def _place(error: BaseException, module_name: str, project: Path) -> tuple[str, int | None] | None:
    """Return the file and line of the error: the last one in the project's own code, if any."""
    if isinstance(error, SyntaxError):
        return error.filename or module_name, error.lineno
    own = (
        (frame.filename, frame.lineno)
        for frame in reversed(traceback.extract_tb(error.__traceback__))
        if project in Path(frame.filename).parents
        and "site-packages" not in frame.filename
        and not frame.filename.startswith(str(Path(__file__).parents[1]))
    )
    return next(own, None)
