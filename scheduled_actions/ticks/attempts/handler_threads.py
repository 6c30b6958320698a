"""Run handlers on a fixed number of threads, each with its own event loop for `async` handlers.

All threads take their jobs from one queue, so a handler that hangs occupies only its own thread and delays no other
job. Threads cannot be killed. A handler that exceeds its timeout is abandoned instead: it is asked to stop, its result
is rejected, and its thread counts as stuck until it returns.
"""

import asyncio
import contextvars
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any


class JobState(Enum):
    """The state of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    #: The job's thread reports the result.
    ENDED = "ended"
    #: The result of the job will be rejected.
    ABANDONED = "abandoned"


#: States that a job never leaves. (A tuple, because a set would call the Python code of the members' hash.)
_OVER = (JobState.ENDED, JobState.ABANDONED)
#: Guards every change of a job's state; held for a few instructions at a time.
_transitions = threading.Lock()


class Job:
    """One start of a handler.

    Args:
        work: Called with the job; runs the handler and returns its result. Must not raise.
        start_until: The latest start, on the monotonic clock; a job still queued then is returned unstarted.
        on_late: Called in the job's thread with the job and its result if the job was abandoned.
    """

    __slots__ = (
        "ended", "has_returned", "is_stopped", "on_late", "result", "start_until", "started", "state", "task", "work",
    )  # fmt: skip

    def __init__(self, work: Callable[[Any], Any], *, start_until: float, on_late: Callable[[Any, Any], None]) -> None:
        self.work = work
        self.start_until = start_until
        self.on_late = on_late
        self.state = JobState.QUEUED
        #: The return value of `work`; for a job returned unstarted, and for an abandoned one, the initial value.
        self.result: Any = None
        #: When the handler started, on the monotonic clock; None before that, and for a job returned unstarted.
        self.started: float | None = None
        self.ended: float | None = None
        #: Whether the handler returned after the job had been abandoned.
        self.has_returned = False
        #: Whether the handler was asked to stop: `context.should_stop` is true.
        self.is_stopped = False
        #: The loop and the task of a coroutine handler while it runs.
        self.task: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None

    def start(self, now: float) -> bool:
        """Start the job, or reset its start time; return False if it has ended or was abandoned."""
        with _transitions:
            if self.state in _OVER:
                return False
            self.state, self.started = JobState.RUNNING, now
            return True

    def end(self) -> bool:
        """End the job, so that it can no longer be abandoned; return False if it was abandoned before."""
        with _transitions:
            if self.state is JobState.ABANDONED:
                return False
            self.state = JobState.ENDED
            return True

    @property
    def took_seconds(self) -> float | None:
        """The duration of the handler in seconds; None until the handler ends, and for a job returned unstarted."""
        return None if self.started is None or self.ended is None else self.ended - self.started


#: Put into the queue of calls to end a thread.
_END = object()


class HandlerThreads:
    """The handler threads of one process.

    Args:
        concurrency: Maximum number of handlers that run at once, across all ticks of the process.
        monotonic: A monotonic clock, in seconds.
    """

    def __init__(self, concurrency: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.concurrency = concurrency
        #: The jobs that were abandoned and have not returned; the set is replaced, never modified.
        self.stuck_jobs: frozenset[Job] = frozenset()
        self._monotonic = monotonic
        self._lock = threading.Lock()
        #: Shared by all threads: jobs wait behind a handler that hangs only if every thread has one.
        self._jobs: deque[tuple[Job, queue.SimpleQueue[Any]]] = deque()
        #: Each call makes one thread work until no job is queued. `close` replaces the queue, so that the end marks in
        #: the old one reach no thread that is started later.
        self._calls: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._threads = 0

    @property
    def stuck(self) -> int:
        """Number of threads whose handler was abandoned and has not returned."""
        return len(self.stuck_jobs)

    @property
    def capacity(self) -> int:
        """Number of threads that are not stuck."""
        return self.concurrency - self.stuck

    def submit(self, jobs: Sequence[Job], ended: queue.SimpleQueue[Any]) -> None:
        """Start jobs as threads become free; put each job into `ended` when it has ended or is returned unstarted.

        Jobs that were abandoned are not put there.
        """
        self._jobs.extend([(job, ended) for job in jobs])
        with self._lock:
            calls = self._calls
            before, self._threads = self._threads, min(self.concurrency, self._threads + len(jobs))
            numbers = range(before + 1, self._threads + 1)
        for _ in range(min(len(jobs), self.concurrency)):
            calls.put(None)
        for number in numbers:
            threading.Thread(target=self._serve, args=[calls], name=f"scheduled-actions-{number}", daemon=True).start()

    def abandon(self, job: Job) -> JobState | None:
        """Abandon a job and ask its handler to stop.

        Returns:
            The previous state of the job; None if it has just ended and its result is about to be reported.
        """
        with _transitions:
            before = job.state
            if before is JobState.ENDED:
                return None
            job.state = JobState.ABANDONED
            if before is JobState.RUNNING:
                self.stuck_jobs |= {job}
        job.is_stopped = True
        if (task := job.task) is not None:
            loop, coroutine = task
            # The loop may just have been closed: nothing is left to cancel.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(coroutine.cancel)
        return before

    def close(self) -> None:
        """Let the threads end when no job is queued, without waiting for them; a later `submit` starts new threads."""
        with self._lock:
            ending, self._threads = self._threads, 0
            calls, self._calls = self._calls, queue.SimpleQueue()
        for _ in range(ending):
            calls.put(_END)

    def _serve(self, calls: queue.SimpleQueue[object]) -> None:
        # The runner creates its event loop when it runs the first coroutine.
        runner = _of_thread.runner = asyncio.Runner()
        while calls.get() is None:
            while self._jobs:
                try:
                    job, ended = self._jobs.popleft()
                except IndexError:  # Another thread was quicker.
                    break
                self._run(job, ended)
        runner.close()

    def _run(self, job: Job, ended: queue.SimpleQueue[Any]) -> None:
        now = self._monotonic()
        if now >= job.start_until or job.is_stopped:
            if job.end():
                ended.put(job)
            return
        if not job.start(now):
            return
        # Its own context, so that context variables set by one handler are not visible to the next.
        result = contextvars.Context().run(job.work, job)
        job.ended = self._monotonic()
        if job.end():
            job.result = result
            ended.put(job)
            return
        # Set before `on_late`, so that a settlement written after that takes it into account.
        job.has_returned = True
        with _transitions:
            self.stuck_jobs -= {job}
        job.on_late(job, result)


#: Holds the `asyncio.Runner` of each handler thread.
_of_thread = threading.local()


def run_coroutine(job: Job, coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - the handler's own type
    """Run a handler's coroutine on the event loop of the current handler thread; return its result.

    Raises:
        asyncio.CancelledError: The job was abandoned, or asked to stop before its coroutine started.
    """

    async def cancellable() -> Any:  # noqa: ANN401 - the handler's own type
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs has a task
        job.task = (asyncio.get_running_loop(), task)
        if job.is_stopped:
            task.cancel()
        return await coroutine

    try:
        # The loop's own context would outlive the handler.
        return _of_thread.runner.run(cancellable(), context=contextvars.copy_context())
    finally:
        job.task = None
