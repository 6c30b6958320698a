"""Registry: the handlers of action types, found in the text of `handlers/` and imported on first use."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import InvalidArgument, RegistryInvalid, UnknownActionType
from scheduled_actions.registry import generated
from scheduled_actions.registry.handler import OPTIONS_ATTRIBUTE, HandlerOptions
from scheduled_actions.registry.loading import Loader
from scheduled_actions.registry.options import normalize_recurrence
from scheduled_actions.registry.project_functions import (
    DECLARED_ATTRIBUTE,
    DeclaredFunction,
    FunctionCalls,
    ProjectFunctions,
)

if TYPE_CHECKING:
    from scheduled_actions.recurrence.custom import Functions
    from scheduled_actions.registry.resolution import Handler


class Registry:
    """The handlers of one build, by action type. Safe to use from many threads."""

    def __init__(
        self,
        project: Path,
        content: generated.RegistryContent,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._project = project.resolve()
        self._handlers = content.handlers
        self._declared = content.options
        self._options = {
            action_type: HandlerOptions(action_type=action_type, **given)
            for action_type, given in self._declared.items()
        }
        self._loader = Loader(self._project, monotonic)
        self._given: dict[str, Callable[..., Any]] = {}
        self._resolved: dict[str, Handler] = {}
        #: Calls the project's functions, each within its time limit.
        self.calls = FunctionCalls()
        #: Every function that the package calls by name.
        self.project_functions = ProjectFunctions(self._loader, content.functions, self.calls)
        self.types = frozenset(self._handlers)
        #: Identifies this build's handlers, options and functions.
        self.digest = _digest([content.handlers, content.options, content.functions])[:16]

    @classmethod
    def load(cls, project: Path, *, monotonic: Callable[[], float] = time.monotonic) -> Registry:
        """Return the registry that was generated at build time; no handler is imported.

        Raises:
            RegistryInvalid: The generated file is missing or cannot be read.
        """
        return cls(project, generated.read(project), monotonic=monotonic)

    @classmethod
    def of(cls, *functions: Callable[..., Any]) -> Registry:
        """Return a registry of the given functions, which may be declared in any module, for tests.

        Raises:
            InvalidArgument: A function has no declaration, such as `@action`.
            RegistryInvalid: Two handlers have the same type, or two functions the same name.
        """
        handlers: dict[str, Callable[..., Any]] = {}
        called: dict[str, Callable[..., Any]] = {}
        for function in functions:
            match getattr(function, OPTIONS_ATTRIBUTE, None) or getattr(function, DECLARED_ATTRIBUTE, None):
                case HandlerOptions(action_type=name):
                    found, what = handlers, "handler"
                case DeclaredFunction(key=name):
                    found, what = called, "function"
                case _:
                    raise InvalidArgument(
                        "function",
                        problem=f"{_place(function)} is not declared with @action or a decorator such as @condition",
                    )
            if name in found:
                raise RegistryInvalid(_place(function), f'"{name}" already has a {what}: {_place(found[name])}')
            found[name] = function
        options = {action_type: getattr(function, OPTIONS_ATTRIBUTE) for action_type, function in handlers.items()}
        content = generated.RegistryContent(
            handlers={action_type: _place(function) for action_type, function in handlers.items()},
            options={action_type: _literals(given) for action_type, given in options.items()},
            functions={key: _place(function) for key, function in called.items()},
        )
        registry = cls(Path(), content)
        registry._given = handlers
        registry._options = options
        registry.project_functions.given = called
        return registry

    @cached_property
    def recurrences(self) -> Mapping[str, Mapping[str, Any]]:
        """The declared recurrences by action type, each with the key `rule`; no handler is imported."""
        return {
            action_type: normalize_recurrence(given["recurrence"])
            for action_type, given in self._declared.items()
            if given.get("recurrence") is not None
        }

    @cached_property
    def recurrences_digest(self) -> str:
        """Digest of the declared recurrences; if it differs from the stored digest, the schedules must be synced."""
        return _digest(self.recurrences)[:32]

    @cached_property
    def functions(self) -> Functions:
        """The functions that recurrences call, by name; each is imported on its first call.

        A call raises `FunctionBroken` if the module cannot be imported or has no such function, and the errors of
        `FunctionCalls.call`.
        """
        from scheduled_actions.recurrence.custom import Functions  # noqa: PLC0415 - most projects have none

        kinds = self.project_functions
        return Functions(next=kinds.of_kind("next"), skip=kinds.of_kind("skip"))

    @cached_property
    def resolvers(self) -> Mapping[str, Callable[..., Any]]:
        """The functions that return recipients, by name; imported and called like those of `functions`."""
        return self.project_functions.of_kind("recipients")

    @cached_property
    def conditions(self) -> Mapping[str, Callable[..., Any]]:
        """The functions that evaluate conditions, by name.

        Each is imported on its first call, which may raise `FunctionBroken`, and runs on the caller's thread without a
        time limit of its own.
        """
        return self.project_functions.of_kind("condition")

    @cached_property
    def has_limits(self) -> bool:
        """Whether any handler declares limit keys."""
        return any(given.get("limit") is not None for given in self._declared.values())

    def declared(self, action_type: str) -> Mapping[str, Any]:
        """Return the options that a handler declares as literals; empty for an unknown type. Nothing is imported."""
        return self._declared.get(action_type, {})

    def options(self, action_type: str) -> HandlerOptions:
        """Return a handler's options without importing it; the defaults for an unknown type.

        Options given by an expression (`retry=Exponential(…)`) are included once `resolve` has run.
        """
        handler = self._resolved.get(action_type)
        if handler is not None:
            return handler.options
        return self._options.get(action_type) or HandlerOptions(action_type=action_type)

    def loaded(self, action_type: str) -> Handler | None:
        """Return the handler of a type if `resolve` has already loaded it, else None."""
        return self._resolved.get(action_type)

    def awaits_import(self, action_type: str) -> str | None:
        """Return the module that loading a handler would import; None if that imports nothing or fails immediately."""
        is_loaded = action_type in self._resolved or action_type in self._given
        reference = None if is_loaded else self._handlers.get(action_type)
        if reference is None or not self._loader.may_block(reference):
            return None
        return reference.partition(":")[0]

    def build_problem(self) -> str | None:
        """Return the first mistake in the text of `handlers/`, with its file and line; None without one.

        For errors: the text of every module is read, but nothing is imported.
        """
        from scheduled_actions.registry import source  # noqa: PLC0415 - only for an error

        if self._given:
            return None
        try:
            source.build(self._project, lambda _: ())
        except RegistryInvalid as error:
            return str(error).partition("\n")[0]
        return None

    def resolve(self, action_type: str) -> Handler:
        """Return the handler of a type; its first use imports the module.

        Raises:
            InvalidArgument: The type is not a string.
            UnknownActionType: This build has no handler of the type.
            HandlerBroken: The module cannot be imported, its import in another thread takes more than 30 seconds, or
                the function cannot be used as a handler. Calls within ten seconds after a failed import raise the same
                error without a new import.
        """
        if not isinstance(action_type, str):
            raise InvalidArgument("action_type", action_type, "a string")
        if action_type in self._resolved:
            return self._resolved[action_type]
        reference = self._handlers.get(action_type)
        if reference is None:
            raise UnknownActionType(action_type, self.types)

        from scheduled_actions.registry.resolution import build_handler  # noqa: PLC0415 - imports pydantic

        build = partial(build_handler, action_type=action_type, reference=reference)
        return self._loader.load(
            action_type, reference, build, loaded=self._resolved, given=self._given.get(action_type)
        )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _place(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', repr(function))}"


def _literals(options: HandlerOptions) -> dict[str, Any]:
    """Return the options that differ from the defaults, as they would be read from the text of `handlers/`."""
    return {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if field.name not in {"action_type", "retry"} and getattr(options, field.name) != field.default
    }
