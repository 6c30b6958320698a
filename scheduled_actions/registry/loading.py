"""Functions of a project's modules, each module imported once and a broken one not again and again."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from scheduled_actions.errors import HandlerBroken
from scheduled_actions.registry.importing import ImportFailed, imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: How long a handler that could not be loaded is not tried again: a tick of a thousand actions imports a
#: broken module once, and a passing failure heals by itself.
FAILURE_SECONDS = 10.0
#: How long the import of one module may take.
IMPORT_SECONDS = 30.0
#: How long a thread waits for another one that imports the same module. The lock only saves double work, so
#: giving up is safe; waiting without end is not, should that module's own import wait for this thread.
_TURN_SECONDS = 5.0

Loaded = TypeVar("Loaded")


class Loader:
    """Imports what references name. Safe to use from many threads.

    Args:
        project: Where `handlers/` is.
        monotonic: Seconds that only grow.
    """

    def __init__(self, project: Path, monotonic: Callable[[], float]) -> None:
        self._project = project
        self._monotonic = monotonic
        #: By module or reference: until when it is not tried again, and why.
        self._failed: dict[str, tuple[float, str]] = {}
        self._turns: dict[str, threading.RLock] = {}

    def load(
        self,
        name: str,
        reference: str,
        made_ready: Callable[[Callable[..., Any] | None], Loaded],
        *,
        loaded: dict[str, Loaded],
        given: Callable[..., Any] | None = None,
        broken: type[HandlerBroken] = HandlerBroken,
    ) -> Loaded:
        """Return what `made_ready` makes of a function, made once and kept in `loaded`.

        Args:
            name: What the function is called there, and in errors.
            reference: Where to import it from.
            made_ready: Takes the function, or None when its module holds none; raises `HandlerBroken`.
            loaded: What is ready, by name.
            given: The function itself, where there is nothing to import.
            broken: What the error is called.

        Raises:
            HandlerBroken: Its module cannot be imported, or `made_ready` refused; tried again after ten seconds.
        """
        module_name, _, attribute = reference.partition(":")
        with self._turn(module_name):
            if name in loaded:
                return loaded[name]
            for key in (module_name, reference):
                until, problem = self._failed.get(key, (0.0, ""))
                if problem and self._monotonic() < until:
                    raise broken(name, reference, problem)
            try:
                function = given or getattr(imported(module_name, project=self._project), attribute, None)
                ready = made_ready(function)
            except ImportFailed as failure:
                self._remember(module_name, str(failure))
                raise broken(name, reference, str(failure)) from failure.__cause__
            except HandlerBroken as error:
                self._remember(reference, error.problem)
                raise
            loaded[name] = ready
            return ready

    @contextmanager
    def _turn(self, module_name: str) -> Iterator[None]:
        lock = self._turns.setdefault(module_name, threading.RLock())
        is_held = lock.acquire(timeout=_TURN_SECONDS)
        try:
            yield
        finally:
            if is_held:
                lock.release()

    def _remember(self, key: str, problem: str) -> None:
        self._failed[key] = (self._monotonic() + FAILURE_SECONDS, problem)
