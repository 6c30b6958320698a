"""Celery: let the workers of an application's own Celery app run the actions of executors.

app = Celery("shop", broker=os.environ["MEDIA_BROKER_URL"])
connect(app)
"""

from typing import Any

from celery import Celery, signals

from scheduled_actions import runtime
from scheduled_actions.core.errors import RequestError
from scheduled_actions.core.log import log
from scheduled_actions.executors.carriers.celery import TASK

#: Instead of the app's own `task_time_limit` and `task_soft_time_limit`: actions have timeouts of their own.
_NO_LIMIT_SECONDS = 100_000_000
#: Pools that replace threads, on which handlers run, by other mechanisms.
_UNUSABLE_POOLS = ("gevent", "eventlet")


def connect(app: Celery) -> None:
    """Register the task that runs the actions of executors with `carrier = "celery"`.

    The project is the one of `SCHEDULED_ACTIONS_PROJECT`, or the working directory of the worker. The pools `prefork`,
    `threads` and `solo` are supported.

    Args:
        app: The Celery app of the application. Its broker is that of the executors, and its workers consume their
            queues: `celery -A shop worker -Q media`.
    """

    def run(message: Any) -> None:  # noqa: ANN401 - anything that a queue may contain
        """Run the actions of a message; the task ends with them, and each outcome is stored with its action."""
        try:
            runtime.current().executors.run_message(message)
        except RequestError as error:
            # The actions return when their tickets end.
            log.error("executor.message_refused error=%s", error)  # noqa: TRY400 - a traceback would say nothing more

    app.task(
        run,
        name=TASK,
        ignore_result=True,
        # The message is acknowledged before its actions run: a lost one costs `ticket_seconds`.
        acks_late=False,
        max_retries=0,
        time_limit=_NO_LIMIT_SECONDS,
        soft_time_limit=_NO_LIMIT_SECONDS,
    )
    # Weak references would be dropped at once.
    signals.worker_init.connect(_check_pool, weak=False)
    signals.worker_process_init.connect(_begin_process, weak=False)
    signals.worker_process_shutdown.connect(_end_process, weak=False)
    signals.worker_shutdown.connect(_end_process, weak=False)


def _check_pool(sender: Any = None, **_: object) -> None:  # noqa: ANN401 - Celery's worker
    pool = f"{getattr(sender, 'pool_cls', '')}"
    if name := next((one for one in _UNUSABLE_POOLS if one in pool), None):
        raise SystemExit(f"scheduled_actions cannot run in the pool {name}: use --pool prefork, threads or solo")


def _begin_process(**_: object) -> None:
    """Forget the parent's runtime: its threads do not exist here, and its connections belong to the parent."""
    runtime.use(None)


def _end_process(**_: object) -> None:
    """Let the worker of this process store its last results, release the rest, and write that it has ended."""
    if (current := runtime.use(None)) is not None:
        current.close()
