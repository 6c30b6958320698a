"""Registry: the handler of each action type, found in source text, imported when needed."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import InvalidArgument, RegistryInvalid, UnknownActionType
from scheduled_actions.core.json_text import Unquoted
from scheduled_actions.registry import generated, recurrence_option
from scheduled_actions.registry.function_calls import FunctionCalls
from scheduled_actions.registry.function_loading import ProjectFunctions
from scheduled_actions.registry.handler import OPTIONS_ATTRIBUTE, HandlerOptions
from scheduled_actions.registry.loading import Loader
from scheduled_actions.registry.project_functions import DECLARED_ATTRIBUTE, DeclaredFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduled_actions.recurrence.custom import Functions
    from scheduled_actions.registry.resolution import Handler


class Registry:
    """The handlers of one build, by action type. Safe to use from many threads."""

    def __init__(
        self,
        project: Path,
        handlers: Mapping[str, str],
        options: Mapping[str, Mapping[str, Any]] | None = None,
        functions: Mapping[str, str] | None = None,
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
        self._loader = Loader(self._project, monotonic)
        self._given: dict[str, Callable[..., Any]] = {}
        self._resolved: dict[str, Handler] = {}
        #: Calls what the project has written, each function within its time limit.
        self.calls = FunctionCalls()
        self._functions = ProjectFunctions(self._loader, functions or {}, self.calls)
        self.types = frozenset(self._handlers)
        #: Names this build's handlers, options and functions; another set of them has another digest.
        self.digest = _digest(self._handlers, self._declared, functions or {})

    def __repr__(self) -> str:
        return f"Registry({self._project}, {len(self.types)} action types)"

    @classmethod
    def load(cls, project: Path, *, monotonic: Callable[[], float] = time.monotonic) -> Registry:
        """Return the registry that was generated at build; nothing is imported, and nothing built.

        Raises:
            RegistryInvalid: The generated file is missing or cannot be read.
        """
        found = generated.read(project)
        return cls(project, found.handlers, found.options, found.functions, monotonic=monotonic)

    @classmethod
    def of(cls, *functions: Callable[..., Any]) -> Registry:
        """Return a registry of these functions, declared with this package's decorators wherever they stand: for tests.

        Raises:
            InvalidArgument: One is not declared.
            RegistryInvalid: Two have the same type, or the same name.
        """
        handlers: dict[str, Callable[..., Any]] = {}
        occurrences: dict[str, Callable[..., Any]] = {}
        for function in functions:
            match getattr(function, OPTIONS_ATTRIBUTE, None) or getattr(function, DECLARED_ATTRIBUTE, None):
                case HandlerOptions(action_type=name):
                    found = handlers
                case DeclaredFunction(key=name):
                    found = occurrences
                case _:
                    raise InvalidArgument("function", Unquoted(_place(function)), "declared with @action")
            if name in found:
                what = "handler" if found is handlers else "function"
                problem = f'"{name}" has a {what} already: {_place(found[name])}'
                raise RegistryInvalid(_place(function), problem)
            found[name] = function
        registry = cls(
            Path(),
            {action_type: _place(function) for action_type, function in handlers.items()},
            {action_type: _declared(function) for action_type, function in handlers.items()},
            {key: _place(function) for key, function in occurrences.items()},
        )
        registry._given = handlers
        registry._functions.given = occurrences
        registry._options = {
            action_type: getattr(function, OPTIONS_ATTRIBUTE) for action_type, function in handlers.items()
        }
        return registry

    @cached_property
    def recurrences(self) -> Mapping[str, Mapping[str, Any]]:
        """The declared recurrences by action type, each a mapping with the key `rule`; nothing is imported."""
        return {
            action_type: recurrence_option.normalised(given["recurrence"])
            for action_type, given in self._declared.items()
            if given.get("recurrence") is not None
        }

    @cached_property
    def recurrences_digest(self) -> str:
        """What tells whether these declarations are those that the database was brought up to date with."""
        return hashlib.sha256(json.dumps(self.recurrences, sort_keys=True, default=str).encode()).hexdigest()[:32]

    @property
    def project_functions(self) -> ProjectFunctions:
        """Every function that the package calls by name, whatever calls it."""
        return self._functions

    @cached_property
    def functions(self) -> Functions:
        """The functions that recurrences call, each imported when it is first called.

        Calling one raises `HandlerBroken` when its module cannot be imported or holds no such function.
        """
        return self._functions.of_recurrences()

    @cached_property
    def resolvers(self) -> Mapping[str, Callable[..., Any]]:
        """The functions that say whom a notice reaches, each imported when it is first called.

        Calling one raises `HandlerBroken` as those of `functions` do.
        """
        return self._functions.of_kind("recipients")

    @cached_property
    def conditions(self) -> Mapping[str, Callable[..., Any]]:
        """The functions that conditions ask, each imported when it is first called, as those of `functions` are."""
        return self._functions.of_kind("condition")

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

    def awaits_import(self, action_type: str) -> str | None:
        """Return the module that a handler's first use imports; None where that takes no time: it is there, or fails.

        Most types, most of the time: None.
        """
        if action_type in self._resolved or action_type in self._given:
            return None
        reference = self._handlers.get(action_type)
        if reference is None or not self._loader.is_waited_for(reference):
            return None
        return reference.partition(":")[0]

    def resolve(self, action_type: str) -> Handler:
        """Return the handler of a type, its module imported when this is the first of it.

        Raises:
            UnknownActionType: This build has none.
            HandlerBroken: Its module cannot be imported, or holds no such handler; tried again after ten
                seconds.
        """
        handler = self._resolved.get(action_type) if isinstance(action_type, str) else None
        return handler if handler is not None else self._resolved_now(action_type)

    def _resolved_now(self, action_type: str) -> Handler:
        if not isinstance(action_type, str):
            raise InvalidArgument("action_type", action_type, "a text")
        reference = self._handlers.get(action_type)
        if reference is None:
            raise UnknownActionType(action_type, self.types)

        def made_ready(function: Callable[..., Any] | None) -> Handler:
            from scheduled_actions.registry import resolution  # noqa: PLC0415 - brings pydantic's models

            return resolution.made_ready(function, action_type=action_type, reference=reference)

        given = self._given.get(action_type)
        return self._loader.load(action_type, reference, made_ready, loaded=self._resolved, given=given)


def _digest(handlers: Mapping[str, str], options: Mapping[str, Mapping[str, Any]], functions: Mapping[str, str]) -> str:
    text = json.dumps([handlers, options, functions], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _place(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', repr(function))}"


def _declared(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the options as the text of `handlers/` would give them: those that were given, as literals."""
    options: HandlerOptions = getattr(function, OPTIONS_ATTRIBUTE)
    return {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if field.name not in {"action_type", "retry"} and getattr(options, field.name) != field.default
    }
