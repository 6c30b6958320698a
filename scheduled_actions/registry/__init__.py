"""The registry: which function handles which action type, imported when the first action of its type runs."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduled_actions.errors import HandlerBroken, InvalidArgument, RegistryInvalid, UnknownActionType
from scheduled_actions.handler import OPTIONS_ATTRIBUTE, HandlerOptions
from scheduled_actions.json_text import Unquoted
from scheduled_actions.registry import generated
from scheduled_actions.registry.importing import ImportFailed, imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scheduled_actions.registry.resolution import Handler

#: How long a handler that could not be loaded is not tried again: a tick of a thousand actions imports a
#: broken module once, and a passing failure heals by itself.
FAILURE_SECONDS = 10.0
#: How long a thread waits for another one that imports the same module. The lock only saves double work, so
#: giving up is safe; waiting without end is not, should that module's own import wait for this thread.
_TURN_SECONDS = 5.0


class Registry:
    """The handlers of one build, by action type. Safe to use from many threads."""

    def __init__(
        self,
        project: Path,
        handlers: Mapping[str, str],
        options: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._project = project.resolve()
        self._handlers = dict(handlers)
        self._declared = {action_type: dict(given) for action_type, given in (options or {}).items()}
        self._options = {
            action_type: HandlerOptions(action_type=action_type, **given)
            for action_type, given in self._declared.items()
        }
        self._monotonic = monotonic
        self._functions: dict[str, Callable[..., Any]] = {}
        self._resolved: dict[str, Handler] = {}
        #: By module or reference: until when it is not tried again, and why.
        self._failed: dict[str, tuple[float, str]] = {}
        self._turns: dict[str, threading.RLock] = {}
        self.types = frozenset(self._handlers)
        #: Names this build's handlers and options; another set of them has another digest.
        self.digest = _digest(self._handlers, self._declared)

    def __repr__(self) -> str:
        return f"Registry({self._project}, {len(self.types)} action types)"

    @classmethod
    def load(cls, project: Path, *, monotonic: Callable[[], float] = time.monotonic) -> Registry:
        """Return the registry that was generated at build; nothing is imported, and nothing built.

        Raises:
            RegistryInvalid: The generated file is missing or cannot be read.
        """
        handlers, options = generated.read(project)
        return cls(project, handlers, options, monotonic=monotonic)

    @classmethod
    def load_or_build(cls, project: Path, *, monotonic: Callable[[], float] = time.monotonic) -> Registry:
        """Return the registry of the handlers as they are now, written first where it is missing or stale.

        For the local server and its commands. A deployment uses `load`: a build that skipped the registry
        should fail, not run whatever it finds.

        Raises:
            RegistryInvalid: The handlers' text holds a mistake, or the file cannot be written.
        """
        from scheduled_actions.registry import source  # noqa: PLC0415 - a deployed process never builds

        built = source.write(project)
        return cls(project, built.handlers, built.options, monotonic=monotonic)

    @classmethod
    def of(cls, *functions: Callable[..., Any]) -> Registry:
        """Return a registry of these functions, declared with `@action` wherever they stand: for tests.

        Raises:
            InvalidArgument: One is not declared.
            RegistryInvalid: Two have the same type.
        """
        declared: dict[str, Callable[..., Any]] = {}
        for function in functions:
            options = getattr(function, OPTIONS_ATTRIBUTE, None)
            if not isinstance(options, HandlerOptions):
                raise InvalidArgument(
                    name="function", value=Unquoted(_place(function)), expected="declared with @action"
                )
            if options.action_type in declared:
                problem = f'"{options.action_type}" has a handler already: {_place(declared[options.action_type])}'
                raise RegistryInvalid(_place(function), problem)
            declared[options.action_type] = function
        registry = cls(
            Path(),
            {action_type: _place(function) for action_type, function in declared.items()},
            {action_type: _given(function) for action_type, function in declared.items()},
        )
        registry._functions = declared
        registry._options = {
            action_type: getattr(function, OPTIONS_ATTRIBUTE) for action_type, function in declared.items()
        }
        return registry

    def declared(self, action_type: str) -> Mapping[str, Any]:
        """Return the options that the handler declares as literals, by name; nothing is imported.

        Empty for a type that this build does not have.
        """
        return self._declared.get(action_type, {})

    def options(self, action_type: str) -> HandlerOptions:
        """Return the handler's options as far as they are known without importing it.

        Those given by an expression (`retry=Exponential(…)`) are known once `resolve` has run. A type that
        this build does not have declares nothing.
        """
        handler = self._resolved.get(action_type)
        if handler is not None:
            return handler.options
        return self._options.get(action_type) or HandlerOptions(action_type=action_type)

    def resolve(self, action_type: str) -> Handler:
        """Return the handler of a type, its module imported when this is the first of it.

        Raises:
            UnknownActionType: This build has none.
            HandlerBroken: Its module cannot be imported, or holds no such handler; tried again after ten
                seconds.
        """
        handler = self._resolved.get(action_type)
        return handler if handler is not None else self._resolved_now(action_type)

    def _resolved_now(self, action_type: str) -> Handler:
        reference = self._handlers.get(action_type)
        if reference is None:
            raise UnknownActionType(action_type, self.types)
        module_name, _, name = reference.partition(":")
        with self._turn(module_name):
            if action_type in self._resolved:
                return self._resolved[action_type]
            for key in (module_name, reference):
                until, problem = self._failed.get(key, (0.0, ""))
                if problem and self._monotonic() < until:
                    raise HandlerBroken(action_type, reference, problem)
            try:
                function = self._functions.get(action_type)
                if function is None:
                    function = getattr(imported(module_name, project=self._project), name, None)
                from scheduled_actions.registry.resolution import made_ready  # noqa: PLC0415 - brings pydantic's models

                handler = made_ready(function, action_type=action_type, reference=reference)
            except ImportFailed as failure:
                self._remember(module_name, str(failure))
                raise HandlerBroken(action_type, reference, str(failure)) from failure.__cause__
            except HandlerBroken as broken:
                self._remember(reference, broken.problem)
                raise
            self._resolved[action_type] = handler
            return handler

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


def _digest(handlers: Mapping[str, str], options: Mapping[str, Mapping[str, Any]]) -> str:
    text = json.dumps([handlers, options], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _place(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', repr(function))}"


def _given(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the options as the text of `handlers/` would give them: those that were given, as literals."""
    options: HandlerOptions = getattr(function, OPTIONS_ATTRIBUTE)
    return {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if field.name not in {"action_type", "retry"} and getattr(options, field.name) != field.default
    }
