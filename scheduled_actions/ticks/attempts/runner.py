"""Runs handlers: a fixed number of threads, each with an event loop of its own when a handler is `async`.

One line of jobs feeds all threads, so that a handler that hangs keeps its own thread and nobody else's work. A thread
cannot be killed: a handler that outlives its time is abandoned. It is told to stop, its outcome is refused, and its
thread counts as stuck until it returns.
"""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Sequence


class State(Enum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    #: Its thread reports the outcome.
    ENDED = "ended"
    #: Given up: nobody wants its outcome any more.
    ABANDONED = "abandoned"


#: Guards every job's change of state; held for a few instructions at a time.
_transitions = threading.Lock()


class Job:
    """One start of a handler.

    Args:
        work: Given the job, runs the handler and returns its outcome; must not raise.
        start_until: On the monotonic clock; later the job is given back unstarted.
        on_late: Called in the job's thread with the job and its outcome, where it was abandoned.
    """

    __slots__ = ("_stop", "ended", "has_returned", "on_late", "start_until", "started", "state", "task", "work")

    def __init__(self, work: Callable[[Any], Any], *, start_until: float, on_late: Callable[[Any, Any], None]) -> None:
        self.work = work
        self.start_until = start_until
        self.on_late = on_late
        self.state = State.QUEUED
        #: When its handler started, on the monotonic clock; None before, and for a job given back.
        self.started: float | None = None
        self.ended: float | None = None
        #: Whether it returned after it had been given up.
        self.has_returned = False
        #: Ends the handler's coroutine, where it is one.
        self.task: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._stop = False

    def begin(self, now: float) -> bool:
        """Start the job, unless it was given up while it waited."""
        with _transitions:
            if self.state is not State.QUEUED:
                return False
            self.state = State.RUNNING
            self.started = now
            return True

    def hold(self) -> None:
        """Take the start back, in the job's own thread: its handler is not called yet."""
        self.started = None

    def start(self, now: float) -> bool:
        """Start a job that was held; False when it was given up meanwhile."""
        with _transitions:
            if self.state is not State.RUNNING:
                return False
            self.started = now
            return True

    def end(self) -> bool:
        """Claim the job's outcome for its own thread; False when it was given up before."""
        with _transitions:
            if self.state is State.ABANDONED:
                return False
            self.state = State.ENDED
            return True

    def abandon(self) -> State | None:
        """Give the job up; return the state it was in, or None when its outcome is on its way."""
        with _transitions:
            if self.state is State.ENDED:
                return None
            was, self.state = self.state, State.ABANDONED
            return was

    @property
    def took_seconds(self) -> float | None:
        """How long its handler took; None while that is not known, and for a job given back."""
        return None if self.started is None or self.ended is None else self.ended - self.started

    @property
    def is_stopped(self) -> bool:
        """Whether the handler was asked to stop."""
        return self._stop

    def stop(self) -> None:
        """Ask the handler to stop: `context.should_stop` turns true."""
        self._stop = True

    def cancel(self) -> None:
        """Ask the handler to stop, and end its coroutine where it is one."""
        self._stop = True
        task = self.task
        if task is not None:
            loop, coroutine = task
            try:
                loop.call_soon_threadsafe(coroutine.cancel)
            except RuntimeError:
                # The loop has just been closed: nothing is left to cancel.
                return


#: The outcome of a job that was given back because its time to start had passed.
UNSTARTED = object()
#: Called in place of a thread: it is wanted no more.
_END = object()


class Runner:
    """The threads of one process.

    Args:
        concurrency: Handlers at once, all ticks of the process together.
        monotonic: Seconds that never go back.
    """

    def __init__(self, concurrency: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.concurrency = concurrency
        self._monotonic = monotonic
        self._lock = threading.Lock()
        #: Whoever is free takes the next: work waits behind a handler that hangs only where all of them do.
        self._jobs: deque[tuple[Job, queue.SimpleQueue[tuple[Any, Any]]]] = deque()
        #: A call for each thread that is wanted; between two jobs of a wave no thread waits for a call. `close` begins
        #: a new one: the ends that it puts into the old one reach no thread that is started later.
        self._calls: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._threads = 0
        self._stuck = 0

    @property
    def stuck(self) -> int:
        """Threads whose handler was abandoned and has not returned."""
        return self._stuck

    @property
    def capacity(self) -> int:
        """Threads that can still work."""
        return self.concurrency - self._stuck

    def submit(self, jobs: Sequence[Job], results: queue.SimpleQueue[tuple[Any, Any]]) -> None:
        """Start jobs as threads come free; each outcome is put into `results`."""
        self._jobs.extend([(job, results) for job in jobs])
        with self._lock:
            calls = self._calls
            there, self._threads = self._threads, min(self.concurrency, self._threads + len(jobs))
            numbers = range(there + 1, self._threads + 1)
        for _ in range(min(len(jobs), self.concurrency)):
            calls.put(None)
        for number in numbers:
            threading.Thread(target=self._serve, args=[calls], name=f"scheduled-actions-{number}", daemon=True).start()

    def abandon(self, job: Job) -> State | None:
        """Give a job up and ask its handler to stop; return the state it was in.

        None when it has just ended, and its outcome is on its way.
        """
        was = job.abandon()
        if was is None:
            return None
        if was is State.RUNNING:
            with self._lock:
                self._stuck += 1
        job.cancel()
        return was

    def close(self) -> None:
        """Let the threads end, each once its handler has returned; a later `submit` starts new ones."""
        with self._lock:
            ending, self._threads = self._threads, 0
            calls, self._calls = self._calls, queue.SimpleQueue()
        for _ in range(ending):
            calls.put(_END)

    def _serve(self, calls: queue.SimpleQueue[object]) -> None:
        loops = _Loop()
        while calls.get() is None:
            while self._jobs:
                try:
                    job, results = self._jobs.popleft()
                except IndexError:  # Another thread was quicker.
                    break
                self._do(job, results, loops)
        loops.close()

    def _do(self, job: Job, results: queue.SimpleQueue[tuple[Any, Any]], loops: _Loop) -> None:
        now = self._monotonic()
        if now >= job.start_until or job.is_stopped:
            if job.end():
                results.put((job, UNSTARTED))
            return
        if not job.begin(now):
            return
        # A context of its own: what one handler sets, the next one does not find.
        outcome = contextvars.Context().run(_call, job, loops)
        job.ended = self._monotonic()
        if job.end():
            results.put((job, outcome))
        else:
            # Set before `on_late`: where what became of the job is written after that, the writer finds it.
            job.has_returned = True
            with self._lock:
                self._stuck -= 1
            job.on_late(job, outcome)


def _call(job: Job, loops: _Loop) -> Any:  # noqa: ANN401 - outcomes are the processor's
    current_loop.set(loops)
    return job.work(job)


class _Loop:
    """The event loop of one thread, made when it is first needed."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def run(self, job: Job, coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - what the handler returns
        import asyncio  # noqa: PLC0415 - thirty milliseconds of a cold start that most projects do not need

        if self._runner is None:
            self._runner = asyncio.Runner()

        async def cancellable() -> Any:  # noqa: ANN401 - what the handler returns
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - a coroutine that runs has a task
            job.task = (asyncio.get_running_loop(), task)
            if job.is_stopped:
                task.cancel()
            return await coroutine

        try:
            # The loop's own context would outlive the handler.
            return self._runner.run(cancellable(), context=contextvars.copy_context())
        finally:
            job.task = None

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()


#: The loop of the thread that runs the present handler.
current_loop: contextvars.ContextVar[_Loop] = contextvars.ContextVar("current_loop")


def run_coroutine(job: Job, coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - what the handler returns
    """Run a handler's coroutine to its end on the present thread's own loop; return what it returns."""
    return current_loop.get().run(job, coroutine)
