"""Declare, load and call the project functions in `handlers/`, such as `@next_occurrence("payday")`.

Each function runs on its own thread, within a time limit; only conditions run on the thread of their attempt. A thread
cannot be killed: a call that exceeds the limit occupies its function's thread until the call returns, and further calls
to that function fail immediately. A function that hangs thus delays one caller and occupies one thread.
"""

import inspect
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from scheduled_actions.core.errors import FunctionBroken, FunctionFailed, FunctionTimedOut, InvalidArgument
from scheduled_actions.registry.loading import IMPORT_SECONDS, Loader

#: The attribute of a function that holds its declaration; set by the decorators.
DECLARED_ATTRIBUTE = "__scheduled_actions_function__"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,99}")

#: `next` returns the next instant, `skip` whether to skip an occurrence, `recipients` the recipients of a
#: notification, `condition` whether a condition holds.
FunctionKind: TypeAlias = Literal["next", "skip", "recipients", "condition"]

Function = TypeVar("Function", bound="Callable[..., Any]")

#: How long an idle thread waits for another call before the thread ends.
_IDLE_SECONDS = 30.0

Answer = TypeVar("Answer")

#: When every call in this context must have returned, in seconds of the monotonic clock.
_until: ContextVar[float] = ContextVar("project_functions_until", default=float("inf"))


@dataclass(frozen=True, slots=True)
class DeclaredFunction:
    """The declaration that a decorator stores on a function."""

    kind: FunctionKind
    name: str

    @property
    def key(self) -> str:
        """The function's key in the registry: `next:payday`."""
        return f"{self.kind}:{self.name}"


def declare_function(kind: FunctionKind, name: str) -> Callable[[Function], Function]:
    """Return the decorator that declares a function and returns it unchanged.

    Raises:
        InvalidArgument: The name is not 1 to 100 letters, digits, ".", "_" or "-", starting with a letter or digit.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(
            "name",
            name,
            'a function name: 1 to 100 letters, digits, ".", "_" or "-", starting with a letter or digit',
        )

    def declare(function: Function) -> Function:
        setattr(function, DECLARED_ATTRIBUTE, DeclaredFunction(kind, name))
        return function

    return declare


@dataclass(eq=False)
class ProjectFunctions:
    """The declared functions of a project, each imported on its first call. Safe to use from many threads."""

    #: Imports the functions.
    _loader: Loader
    #: The reference of each function by key: `{"next:payday": "handlers.calendar:payday"}`.
    _references: Mapping[str, str]
    #: Limits the time of each call.
    _calls: "FunctionCalls"
    _loaded: dict[str, Callable[..., Any]] = field(default_factory=dict)
    #: Functions that need no import, by key.
    given: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def of_kind(self, wanted: FunctionKind) -> dict[str, Callable[..., Any]]:
        """Return the functions of a kind by name; nothing is imported before the first call."""
        # Conditions are called on the attempt's own thread, within the handler's time limit.
        call = self._call_here if wanted == "condition" else self._call
        parts = ((key, *key.split(":")) for key in self._references)
        return {name: partial(call, key) for key, kind, name in parts if kind == wanted}

    def load_all(self) -> list[FunctionBroken]:
        """Import every function; return the errors of those that cannot be loaded."""
        broken = []
        for key in self._references:
            try:
                self._load(key)
            except FunctionBroken as error:
                broken.append(error)
        return broken

    def __len__(self) -> int:
        """Return the number of declared functions."""
        return len(self._references)

    def _call_here(self, key: str, *arguments: Any) -> Any:  # noqa: ANN401 - the caller checks what it returns
        return self._load(key)(*arguments)

    def _call(self, key: str, *arguments: Any) -> Any:  # noqa: ANN401 - the caller checks what it returns
        function = self._loaded.get(key)
        if function is None:
            # The import runs on the same thread, with its own limit.
            function = self._calls.call(key, self._load, key, timeout_seconds=IMPORT_SECONDS)
        return self._calls.call(key, function, *arguments)

    def _load(self, key: str) -> Callable[..., Any]:
        function = self._loaded.get(key)
        if function is not None:
            return function
        reference = self._references[key]
        return self._loader.load(
            key,
            reference,
            partial(_validate, key=key, reference=reference),
            loaded=self._loaded,
            given=self.given.get(key),
            broken=FunctionBroken,
        )


def _validate(function: Callable[..., Any] | None, *, key: str, reference: str) -> Callable[..., Any]:
    found = getattr(getattr(function, DECLARED_ATTRIBUTE, None), "key", None)
    build = "run `python registry_build.py`"
    problems = {
        f"its module has no such function: {build}": function is None,
        f"it is not declared, or a decorator above hides the declaration: {build}": found is None,
        f'it is declared as "{found}": {build}': found != key,
        "calling it would run nothing: write def, and return instead of yield": (
            inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)
        ),
    }
    problem = next((problem for problem, is_present in problems.items() if is_present), None)
    if function is None or problem:
        raise FunctionBroken(key, reference, str(problem))
    return function


@contextmanager
def total_time_limit(seconds: float) -> Iterator[None]:
    """Limit the total time of all calls inside the block, in seconds; in nested blocks, the earlier end applies."""
    token = _until.set(min(_until.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _until.reset(token)


@dataclass(eq=False)
class FunctionCalls:
    """Calls functions of one project, each on its own thread and within a time limit. Safe to use from many threads."""

    #: Time limit of one call, including the wait for other callers of the same function; the runtime sets this to the
    #: setting `function_timeout_seconds`.
    timeout_seconds: float = 5.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: "dict[str, _FunctionThread]" = field(default_factory=dict)
    _pid: int = field(default_factory=os.getpid)

    def call(
        self,
        name: str,
        function: Callable[..., Answer],
        *arguments: Any,  # noqa: ANN401 - those of the function
        timeout_seconds: float | None = None,
    ) -> Answer:
        """Call a function on its thread, within the time limit; return its result.

        Args:
            name: Key of the function, which selects its thread and is its name in errors: "next:payday".
            function: Runs in an empty context, without the caller's connection or request.
            arguments: Positional arguments of the function.
            timeout_seconds: Time limit of this call; None: `self.timeout_seconds`. The rest of a `total_time_limit`
                applies if it is shorter.

        Raises:
            FunctionTimedOut: The function did not return in time, or is busy with an earlier call.
            FunctionFailed: The function raised something other than an `Exception`, such as `SystemExit`.
            Exception: Any exception of the function.
        """
        limit = self.timeout_seconds if timeout_seconds is None else timeout_seconds
        thread = self._thread(name)
        if thread.thread is threading.current_thread():
            # A function that calls itself by name would wait for its own thread.
            return function(*arguments)
        answer: Answer = thread.call(function, arguments, max(0.0, min(limit, _until.get() - time.monotonic())))
        return answer

    def _thread(self, name: str) -> "_FunctionThread":
        with self._lock:
            if self._pid != os.getpid():
                # A forked child has none of the threads.
                self._threads, self._pid = {}, os.getpid()
            return self._threads.get(name) or self._threads.setdefault(name, _FunctionThread(name))


@dataclass(slots=True, eq=False)
class _Call:
    """A call that is queued for the function's thread, or running on it."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    future: Future[Any] = field(default_factory=Future)
    began: float = field(default_factory=time.monotonic)


@dataclass(eq=False)
class _FunctionThread:
    """The thread of one function, started by the first call; runs one call at a time."""

    _name: str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _calls: queue.SimpleQueue[_Call] = field(default_factory=queue.SimpleQueue)
    #: The last call, if it exceeded its limit.
    _overdue: _Call | None = None
    thread: threading.Thread | None = None

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...], limit: float) -> Any:  # noqa: ANN401 - the function's answer
        """Run a call on the thread and return its result; errors as for `FunctionCalls.call`."""
        call = _Call(function, arguments)
        self._refuse_while_overdue()
        if not self._lock.acquire(timeout=max(0.0, limit)):
            self._refuse_while_overdue()
            raise FunctionTimedOut(self._name, f"was busy with other calls for {limit:.3g} s")
        try:
            self._refuse_while_overdue()
            self._overdue = None
            if self.thread is None:
                self.thread = threading.Thread(
                    target=self._serve, name=f"scheduled-actions-function-{self._name}", daemon=True
                )
                self.thread.start()
            self._calls.put(call)
            return self._result(call, limit)
        finally:
            self._lock.release()

    def _result(self, call: _Call, limit: float) -> Any:  # noqa: ANN401 - the function's answer
        try:
            return call.future.result(timeout=max(0.0, limit - (time.monotonic() - call.began)))
        except TimeoutError:
            if call.future.done():
                # It returned at the last moment, or raised this error itself.
                return call.future.result()
            self._overdue = call
            raise FunctionTimedOut(self._name, f"did not return within {limit:.3g} s") from None

    def _refuse_while_overdue(self) -> None:
        overdue = self._overdue
        if overdue is not None and not overdue.future.done():
            seconds = time.monotonic() - overdue.began
            raise FunctionTimedOut(self._name, f"is still running a call that began {seconds:.0f} s ago")

    def _serve(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                # Calls are queued only under the lock, so no call can be queued while the thread ends.
                if self._lock.acquire(blocking=False):
                    self.thread = None
                    self._lock.release()
                    return
                continue
            try:
                answer = Context().run(call.function, *call.arguments)
            except BaseException as error:  # noqa: BLE001 - raised again in the caller
                # `SystemExit` would end this thread and, raised again, the caller's.
                is_usual = isinstance(error, Exception)
                call.future.set_exception(error if is_usual else FunctionFailed(self._name, error))
            else:
                call.future.set_result(answer)
            # An idle thread must not keep arguments and results alive.
            del call
