"""Celery: run the actions of executors whose tickets Celery carries, in the workers of a Celery app."""

import os
import threading
from contextlib import suppress
from typing import Any

from celery import concurrency, signals

from scheduled_actions import runtime
from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.core.log import log
from scheduled_actions.executors.carriers.celery import TASK

#: Longer than any handler may run: a time limit of the app must not end a process that runs other actions, too. Celery
#: takes 0 for "the limit of the app".
_NO_LIMIT_SECONDS = 366 * 86400
#: How long a process that ends waits until its worker has written the last results.
_LAST_SECONDS = 30.0


def connect(app: Any) -> None:  # noqa: ANN401 - Celery has no types
    """Register the task that runs the actions of arrived tickets.

    The project is `SCHEDULED_ACTIONS_PROJECT`, or the working directory of the worker. The pools `prefork`, `threads`
    and `solo` are supported; with `gevent` or `eventlet`, the worker does not start.

    Args:
        app: A Celery app. Its workers receive the queues of the executors: `celery -A … worker -Q media`.
    """
    # A handler may run for hours: retries, results and time limits are those of Scheduled Actions.
    app.task(
        name=TASK,
        acks_late=False,
        ignore_result=True,
        max_retries=0,
        time_limit=_NO_LIMIT_SECONDS,
        soft_time_limit=_NO_LIMIT_SECONDS,
        throws=(ScheduledActionsError,),
    )(_run)
    for signal, receiver in (
        (signals.worker_init, _process.begin),
        (signals.worker_process_init, _process.begin_child),
        (signals.worker_shutting_down, _process.request_stop),
        (signals.worker_process_shutdown, _process.end),
        (signals.worker_shutdown, _process.end),
    ):
        signal.connect(receiver, weak=False, dispatch_uid=f"{TASK}.{receiver.__name__}.{signal.name}")


def _run(message: object) -> None:
    """Run the actions of a message, and wait until they have ended."""
    try:
        # Without a limit: Celery waits for its tasks, too, until a second signal ends them.
        _process.runtime().executors.run_message(message, grace_seconds=float("inf"))
    except ScheduledActionsError as error:
        # Its actions return to Postgres when the leases of their tickets end.
        log.error("ticket.refused error=%s", error)  # noqa: TRY400 - the message says what to do
        raise


class _CeleryProcess:
    """A process of a Celery worker: the main process, or a child of the pool `prefork`.

    Children and the main process share a pipe, whose writing end only the main process keeps: it is closed at the
    beginning of a shutdown. So children are notified while their tasks still run, which Celery does not do.
    """

    def __init__(self) -> None:
        self._main_pid = 0
        self._pipe: tuple[int, int] | None = None
        self._lock = threading.Lock()
        #: The runtime that has run actions in this process.
        self._used: runtime.Runtime | None = None
        #: That of the main process, in a child. It is kept, because its end would close the parent's connections.
        self._inherited: runtime.Runtime | None = None

    def begin(self, sender: Any, **_: Any) -> None:  # noqa: ANN401 - a Celery worker
        """Check the pool and the settings in the main process; the worker does not start if they are wrong."""
        if getattr(concurrency.get_implementation(sender.pool_cls), "is_green", False):
            log.error(
                "worker.refused Scheduled Actions runs handlers on threads, which the pools gevent and eventlet do not "
                "have: start the worker with --pool prefork, threads or solo"
            )
            raise SystemExit(1)
        try:
            executors = runtime.current().config.settings.executors
        except ScheduledActionsError as error:
            log.error("worker.refused %s", error)  # noqa: TRY400 - the message says what to do
            raise SystemExit(1) from error
        if not any(one.carrier == "celery" for one in executors.values()):
            log.warning('worker.useless no executor of the settings has carrier = "celery"')
        self._main_pid, self._pipe = os.getpid(), os.pipe()

    def begin_child(self, **_: Any) -> None:  # noqa: ANN401 - of the signal
        """Use a runtime of its own in a child; the pool `solo` calls this in the main process."""
        if self._main_pid in (0, os.getpid()):
            return
        if self._pipe is not None:
            os.close(self._pipe[1])
        self._inherited = runtime.use(None)
        if self._inherited is not None:
            runtime.use(runtime.Runtime(self._inherited.config))

    def runtime(self) -> runtime.Runtime:
        """Return the runtime of this process; the first call prepares its end."""
        with self._lock:
            if self._used is None:
                self._used = runtime.current()
                pipe = self._pipe
                if pipe is not None:
                    name, args = "scheduled-actions-stop", (pipe[0], self._used)
                    threading.Thread(target=_await_stop, args=args, name=name, daemon=True).start()
            return self._used

    def request_stop(self, **_: Any) -> None:  # noqa: ANN401 - of the signal
        """Notify all processes of the worker; called by a handler of SIGTERM, so that it must not wait."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            os.close(pipe[1])

    def end(self, **_: Any) -> None:  # noqa: ANN401 - of the signal
        """End the worker of this process, and wait until it has written its results."""
        if self._used is None:
            return
        self._used.executors.stop()
        if not self._used.executors.join(_LAST_SECONDS):
            log.warning("worker.unfinished pid=%d", os.getpid())
        self._used.close()


def _await_stop(reading_end: int, used: runtime.Runtime) -> None:
    with suppress(OSError):
        os.read(reading_end, 1)
    used.executors.stop()


_process = _CeleryProcess()
