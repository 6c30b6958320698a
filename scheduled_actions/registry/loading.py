"""Functions of a project's modules, each module imported once and a broken one not again and again."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from scheduled_actions.core.errors import HandlerBroken
from scheduled_actions.registry.importing import ImportFailed, imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: How long a handler that could not be loaded is not tried again: a tick of a thousand actions imports a
#: broken module once, and a passing failure heals by itself.
FAILURE_SECONDS = 10.0
#: How long the import of one module may take, and how long other threads wait for it; then they fail at once.
IMPORT_SECONDS = 30.0

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
        #: Since when each module that is being imported is, by name.
        self._importing: dict[str, float] = {}

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
        with self._turn(module_name) as is_held:
            if name in loaded:
                return loaded[name]
            if not is_held:
                seconds = self._monotonic() - self._importing.get(module_name, self._monotonic())
                raise broken(name, reference, f"its module is still being imported, for {seconds:.0f} s now")
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

    def is_waited_for(self, reference: str) -> bool:
        """Whether loading a function may take time: its module is neither known to fail nor over its time."""
        module_name = reference.partition(":")[0]
        now = self._monotonic()
        is_failing = any(now < self._failed.get(key, (0.0, ""))[0] for key in (module_name, reference))
        began = self._importing.get(module_name)
        return not is_failing and (began is None or now < began + IMPORT_SECONDS)

    @contextmanager
    def _turn(self, module_name: str) -> Iterator[bool]:
        """Let one thread at a time import a module; False in the block where another one takes longer than it may."""
        lock = self._turns.setdefault(module_name, threading.RLock())
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

    def _remember(self, key: str, problem: str) -> None:
        self._failed[key] = (self._monotonic() + FAILURE_SECONDS, problem)
