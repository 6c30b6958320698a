"""The functions of a project that the package calls by name, imported when they are first called."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import FunctionBroken
from scheduled_actions.registry.loading import IMPORT_SECONDS
from scheduled_actions.registry.project_functions import DECLARED_ATTRIBUTE, DeclaredFunction, FunctionKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduled_actions.recurrence.custom import Functions
    from scheduled_actions.registry.function_calls import FunctionCalls
    from scheduled_actions.registry.loading import Loader


class ProjectFunctions:
    """The functions under `@next_occurrence` and the decorators like it. Safe to use from many threads.

    Args:
        loader: Imports them.
        references: Where each is, by key: `{"next:payday": "handlers.calendar:payday"}`.
        calls: Limits the time of each call.
    """

    def __init__(self, loader: Loader, references: Mapping[str, str], calls: FunctionCalls) -> None:
        self._loader = loader
        self._calls = calls
        self._references = dict(references)
        self._loaded: dict[str, Callable[..., Any]] = {}
        #: Those that need no import.
        self.given: Mapping[str, Callable[..., Any]] = {}

    def of_recurrences(self) -> Functions:
        """Return those that recurrences call; nothing is imported before one is called."""
        from scheduled_actions.recurrence.custom import Functions  # noqa: PLC0415 - most projects have none

        return Functions(next=self.of_kind("next"), skip=self.of_kind("skip"))

    def of_kind(self, wanted: FunctionKind) -> dict[str, Callable[..., Any]]:
        """Return those of a kind by name; nothing is imported before one is called."""
        # Those of conditions are called on the attempt's own thread: they have the handler's time limit.
        call = self._call_here if wanted == "condition" else self._call
        parts = ((key, *key.split(":")) for key in self._references)
        return {name: partial(call, key) for key, kind, name in parts if kind == wanted}

    def load_all(self) -> list[FunctionBroken]:
        """Import every one of them; return why those cannot be loaded that cannot."""
        broken = []
        for key in self._references:
            try:
                self._load(key)
            except FunctionBroken as error:
                broken.append(error)
        return broken

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._references)

    def _call_here(self, key: str, *arguments: Any) -> Any:  # noqa: ANN401 - the caller checks what it returns
        return self._load(key)(*arguments)

    def _call(self, key: str, *arguments: Any) -> Any:  # noqa: ANN401 - the caller checks what it returns
        function = self._loaded.get(key)
        if function is None:
            # Its module is imported on the same thread, with a limit of its own.
            function = self._calls.call(key, self._load, key, timeout_seconds=IMPORT_SECONDS)
        return self._calls.call(key, function, *arguments)

    def _load(self, key: str) -> Callable[..., Any]:
        function = self._loaded.get(key)
        if function is None:
            reference = self._references[key]
            made_ready = partial(_made_ready, key=key, reference=reference)
            given = self.given.get(key)
            function = self._loader.load(
                key, reference, made_ready, loaded=self._loaded, given=given, broken=FunctionBroken
            )
        return function


def _made_ready(function: Callable[..., Any] | None, *, key: str, reference: str) -> Callable[..., Any]:
    declared = getattr(function, DECLARED_ATTRIBUTE, None)
    build = "run `python registry_build.py`"
    if function is None:
        raise FunctionBroken(key, reference, f"its module has no such function: {build}")
    if not isinstance(declared, DeclaredFunction):
        raise FunctionBroken(key, reference, f"it is not declared, or a decorator above that hides it: {build}")
    if declared.key != key:
        raise FunctionBroken(key, reference, f'it is declared as "{declared.key}": {build}')
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise FunctionBroken(key, reference, "calling it would run nothing: write def, and return instead of yield")
    return function
