"""Validate a function declared with `@action`, and convert it to a `Handler`."""

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from scheduled_actions.core.errors import HandlerBroken
from scheduled_actions.core.retry import POLICIES_TEXT
from scheduled_actions.registry.handler import OPTIONS_ATTRIBUTE, HandlerOptions
from scheduled_actions.registry.payloads import PayloadModel

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
#: A handler takes a payload, and at most a context in addition.
_MOST_PARAMETERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function that runs the actions of one type."""

    action_type: str
    #: Where the function was imported from: `handlers.email:send_email`.
    reference: str
    options: HandlerOptions
    function: Callable[..., Any]
    payload: PayloadModel
    #: Whether the function takes a `Context` after the payload.
    takes_context: bool
    #: Whether the call returns a coroutine.
    is_async: bool

    @property
    def description(self) -> str:
        """One line for people: the declared description, or the docstring's first line."""
        return self.options.description or (inspect.getdoc(self.function) or "").partition("\n")[0]


def build_handler(function: Callable[..., Any] | None, *, action_type: str, reference: str) -> Handler:
    """Convert a declared function to a `Handler`; `function` is None if the module has no such function.

    Raises:
        HandlerBroken: There is no function, or it is not declared as this type; it is a generator; its parameters are
            not a payload and optionally a context; its annotation cannot validate payloads; or an option is invalid.
    """
    options = getattr(function, OPTIONS_ATTRIBUTE, None)
    if function is None or not isinstance(options, HandlerOptions) or options.action_type != action_type:
        raise HandlerBroken(action_type, reference, _not_declared(function, options))
    try:
        parameters = list(_signature(function).parameters.values())
    except (ValueError, TypeError) as error:
        raise HandlerBroken(action_type, reference, f"its parameters cannot be read: {error}") from error
    count = sum(parameter.kind in _POSITIONAL for parameter in parameters)
    if problem := _problem(function, options, parameters, count):
        raise HandlerBroken(action_type, reference, problem)
    try:
        payload = _payload_model(function, parameters[0], action_type)
    except Exception as error:
        raise HandlerBroken(
            action_type, reference, f"the annotation of {parameters[0].name} cannot be used: {_first_line(error)}"
        ) from error
    return Handler(
        action_type=action_type,
        reference=reference,
        options=options,
        function=function,
        payload=payload,
        takes_context=count == _MOST_PARAMETERS,
        is_async=inspect.iscoroutinefunction(function),
    )


def _not_declared(function: object, options: object) -> str:
    if function is None:
        return "its module has no such function: run `python registry_build.py`"
    if isinstance(options, HandlerOptions):
        return f'it is declared as "{options.action_type}": run `python registry_build.py`'
    return "it is not declared with @action, or a decorator above hides the declaration"


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        # A name imported under TYPE_CHECKING only must not make the signature unreadable.
        from annotationlib import Format  # noqa: PLC0415 - new in 3.14

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def _problem(
    function: Callable[..., Any], options: HandlerOptions, parameters: Sequence[inspect.Parameter], count: int
) -> str | None:
    """Return why a function cannot be a handler; `count` is the number of its positional parameters."""
    never_passed = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    problems = {
        "it is a generator, and calling it would run nothing: use return instead of yield": (
            inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        ),
        "transactional=True does not work with async def: write def": (
            options.transactional and inspect.iscoroutinefunction(function)
        ),
        f"retry must be a policy, such as {POLICIES_TEXT}": (
            options.retry is not None and not callable(getattr(options.retry, "delay", None))
        ),
        f"it takes {count} positional parameters: declare a payload, and optionally a context": (
            not 1 <= count <= _MOST_PARAMETERS
        ),
        f"no value is passed for its keyword-only parameter {', '.join(never_passed)}: give it a default": bool(
            never_passed
        ),
    }
    return next((problem for problem, is_present in problems.items() if is_present), None)


def _payload_model(function: Callable[..., Any], parameter: inspect.Parameter, action_type: str) -> PayloadModel:
    if parameter.annotation is inspect.Parameter.empty:
        return PayloadModel.of(action_type)

    def holder() -> None: ...

    # Evaluated alone: `Context` may be imported under TYPE_CHECKING only.
    holder.__annotations__ = {"payload": parameter.annotation}
    home = getattr(inspect.unwrap(function), "__globals__", None)
    return PayloadModel.of(action_type, get_type_hints(holder, globalns=home, include_extras=True)["payload"])


def _first_line(error: Exception) -> str:
    message = (str(error).splitlines() or [""])[0]
    hint = " (imported under TYPE_CHECKING only, or defined inside a function?)"
    return f"{type(error).__name__}: {message}{hint if isinstance(error, NameError) else ''}"
