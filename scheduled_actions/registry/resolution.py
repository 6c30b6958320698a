"""A function under `@action`, looked over once and ready to be called."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from scheduled_actions.core.errors import HandlerBroken
from scheduled_actions.core.retry import POLICIES_TEXT
from scheduled_actions.registry.handler import OPTIONS_ATTRIBUTE, HandlerOptions
from scheduled_actions.registry.payloads import PayloadModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
#: A payload, and a context.
_MOST_PARAMETERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """What runs the actions of one type."""

    action_type: str
    #: Where it was imported from: `handlers.email:send_email`.
    reference: str
    options: HandlerOptions
    function: Callable[..., Any]
    payload: PayloadModel
    #: Whether it is called with a `Context` after the payload.
    takes_context: bool
    #: Whether the call returns a coroutine.
    is_async: bool

    @property
    def description(self) -> str:
        """One line for people: the declared one, or the docstring's first."""
        if self.options.description:
            return self.options.description
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


def made_ready(function: Callable[..., Any] | None, *, action_type: str, reference: str) -> Handler:
    """Return the handler that a declared function is; None stands for one that its module does not hold.

    Raises:
        HandlerBroken: It is not declared, or with another type; its parameters are not the payload and, if it
            likes, the context; its annotation says nothing that a payload could be checked against; or its
            options contradict what it is.
    """
    options = getattr(function, OPTIONS_ATTRIBUTE, None)
    if function is None or not isinstance(options, HandlerOptions) or options.action_type != action_type:
        raise HandlerBroken(action_type, reference, _not_declared(function, options))
    try:
        parameters = list(_signature(function).parameters.values())
    except (ValueError, TypeError) as error:
        raise HandlerBroken(action_type, reference, f"its parameters cannot be read: {error}") from error
    problem = _contradiction(function, options) or _wrong_parameters(parameters)
    if problem:
        raise HandlerBroken(action_type, reference, problem)
    try:
        payload = _payload_model(function, parameters[0], action_type)
    except Exception as error:
        problem = f"the annotation of {parameters[0].name} cannot be used: {_first_line(error)}"
        raise HandlerBroken(action_type, reference, problem) from error
    return Handler(
        action_type=action_type,
        reference=reference,
        options=options,
        function=function,
        payload=payload,
        takes_context=sum(parameter.kind in _POSITIONAL for parameter in parameters) == _MOST_PARAMETERS,
        is_async=inspect.iscoroutinefunction(function),
    )


def _not_declared(function: object, options: object) -> str:
    if function is None:
        return "its module has no such function: run `python registry_build.py`"
    if isinstance(options, HandlerOptions):
        return f'it is declared as "{options.action_type}": run `python registry_build.py`'
    return "it is not declared with @action, or a decorator above that hides it"


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        # Names imported under TYPE_CHECKING only must not keep the signature from being read.
        from annotationlib import Format  # noqa: PLC0415 - new in 3.14

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def _contradiction(function: Callable[..., Any], options: HandlerOptions) -> str | None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "it is a generator, and calling it would run nothing: use return instead of yield"
    if options.transactional and inspect.iscoroutinefunction(function):
        return "transactional=True is not for async def: write def"
    if options.retry is not None and not callable(getattr(options.retry, "delay", None)):
        return f"retry is no policy: give one of {POLICIES_TEXT}"
    return None


def _wrong_parameters(parameters: Sequence[inspect.Parameter]) -> str | None:
    count = sum(parameter.kind in _POSITIONAL for parameter in parameters)
    if not 1 <= count <= _MOST_PARAMETERS:
        return f"it takes {count} positional parameters, where a payload and at most a context are given"
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            return f"nobody gives its keyword argument {parameter.name}: give it a default"
    return None


def _payload_model(function: Callable[..., Any], parameter: inspect.Parameter, action_type: str) -> PayloadModel:
    if parameter.annotation is inspect.Parameter.empty:
        return PayloadModel.of(action_type)

    def holder() -> None: ...

    # Evaluated alone: that `Context` is imported under TYPE_CHECKING only is nobody's mistake.
    holder.__annotations__ = {"payload": parameter.annotation}
    home = getattr(inspect.unwrap(function), "__globals__", None)
    annotation = get_type_hints(holder, globalns=home, include_extras=True)["payload"]
    return PayloadModel.of(action_type, annotation)


def _first_line(error: Exception) -> str:
    message = (str(error).splitlines() or [""])[0]
    hint = " (imported under TYPE_CHECKING only, or defined inside a function?)"
    return f"{type(error).__name__}: {message}{hint if isinstance(error, NameError) else ''}"
