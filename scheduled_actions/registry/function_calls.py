"""Calls of the project's own functions, each on a thread of its function and within a time limit.

A thread cannot be killed. A call that outlives its limit keeps its function's thread until it returns; until then,
every further call of that function fails at once. A function that hangs costs one limit and one thread.
"""

from __future__ import annotations

import contextvars
import os
import queue
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from scheduled_actions.core.errors import FunctionFailed, FunctionTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The limit of one call, unless the setting `function_timeout_seconds` says otherwise.
TIMEOUT_SECONDS = 5.0

#: How long a thread waits for another call before it ends.
_IDLE_SECONDS = 30.0

Answer = TypeVar("Answer")

#: By when all calls made in this context must have returned, on the monotonic clock.
_until: ContextVar[float | None] = ContextVar("function_calls_until", default=None)


@contextmanager
def all_within(seconds: float) -> Iterator[None]:
    """Limit the time of all calls inside the block together; an enclosing block that ends sooner decides."""
    until = time.monotonic() + seconds
    enclosing = _until.get()
    token = _until.set(until if enclosing is None else min(until, enclosing))
    try:
        yield
    finally:
        _until.reset(token)


class FunctionCalls:
    """Calls functions of one project by name. Safe to use from many threads.

    Args:
        timeout_seconds: The limit of one call, the wait for another caller of the same function included.
    """

    def __init__(self, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._threads: dict[str, _FunctionThread] = {}
        self._pid = os.getpid()

    def call(
        self,
        name: str,
        function: Callable[..., Answer],
        *arguments: Any,  # noqa: ANN401 - those of the function
        timeout_seconds: float | None = None,
    ) -> Answer:
        """Return what the function returns.

        Args:
            name: The thread it runs on, and what errors call it: "next:payday".
            function: What to call. It finds an empty context: no connection or request of the caller.
            arguments: Its positional arguments.
            timeout_seconds: The limit of this call; None: that of all calls.

        Raises:
            FunctionTimedOut: It did not return in time, or is still at work for an earlier caller.
            FunctionFailed: It raised something other than an `Exception`, such as `SystemExit`.
            Exception: Whatever else it raises.
        """
        limit = self.timeout_seconds if timeout_seconds is None else timeout_seconds
        thread = self._thread(name)
        if thread.is_current:
            # A function that asks for itself would wait for itself.
            return function(*arguments)
        until = _until.get()
        if until is not None:
            limit = min(limit, until - time.monotonic())
        answer: Answer = thread.call(function, arguments, limit)
        return answer

    def _thread(self, name: str) -> _FunctionThread:
        with self._lock:
            if self._pid != os.getpid():
                # A fork leaves its child without the threads.
                self._threads, self._pid = {}, os.getpid()
            return self._threads.get(name) or self._threads.setdefault(name, _FunctionThread(name))


class _Call:
    """One call on its way to the function's thread."""

    __slots__ = ("arguments", "began", "function", "future")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function = function
        self.arguments = arguments
        self.future: Future[Any] = Future()
        self.began = time.monotonic()


class _FunctionThread:
    """The thread of one function, started with its first call; serves one call after the other."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._turn = threading.Lock()
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        #: The call that has outlived its limit; None once it has returned.
        self._overdue: _Call | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_current(self) -> bool:
        """Whether this is the thread that asks."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...], limit: float) -> Any:  # noqa: ANN401 - the function's answer
        """Run a call on the thread; raises as `FunctionCalls.call` does."""
        call = _Call(function, arguments)
        self._refuse_while_overdue()
        if not self._turn.acquire(timeout=max(0.0, limit)):
            self._refuse_while_overdue()
            raise FunctionTimedOut(self._name, f"was busy with other calls for {limit:.3g} s")
        try:
            self._refuse_while_overdue()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name=f"scheduled-actions-function-{self._name}", daemon=True
                )
                self._thread.start()
            self._calls.put(call)
            return self._result(call, limit)
        finally:
            self._turn.release()

    def _result(self, call: _Call, limit: float) -> Any:  # noqa: ANN401 - the function's answer
        try:
            return call.future.result(timeout=max(0.0, limit - (time.monotonic() - call.began)))
        except TimeoutError:
            self._overdue = call
            if call.future.done():
                # It returned at the last moment, or this is an error of its own.
                self._overdue = None
                return call.future.result()
            raise FunctionTimedOut(self._name, f"did not return within {limit:.3g} s") from None

    def _refuse_while_overdue(self) -> None:
        overdue = self._overdue
        if overdue is None:
            return
        if overdue.future.done():
            self._overdue = None
            return
        seconds = time.monotonic() - overdue.began
        raise FunctionTimedOut(self._name, f"is still at work on a call of {seconds:.0f} s ago")

    def _serve(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                # No call is waiting while the turn is free.
                if self._turn.acquire(blocking=False):
                    self._thread = None
                    self._turn.release()
                    return
                continue
            try:
                answer = contextvars.Context().run(call.function, *call.arguments)
            except Exception as error:  # noqa: BLE001 - it is the caller's to judge
                call.future.set_exception(error)
            except BaseException as error:  # noqa: BLE001 - SystemExit would end the thread, and the caller's, too
                call.future.set_exception(FunctionFailed(self._name, error))
            else:
                call.future.set_result(answer)
            # An idle thread keeps nothing alive.
            del call
