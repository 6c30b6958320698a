"""Send tickets through Celery: to its broker, as calls of the task that `integrations.celery` registers.

Source: https://docs.celeryq.dev/en/stable/internals/protocol.html for the messages, which Celery writes.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from scheduled_actions.core.config import Executor
from scheduled_actions.core.errors import ExtraMissing
from scheduled_actions.core.log import log
from scheduled_actions.executors.carriers import ANSWER_SECONDS, CONNECT_SECONDS, CarrierUnavailable, SendOutcome
from scheduled_actions.executors.tickets import TicketMessage

#: The name of the task.
TASK = "scheduled_actions.run"
#: A connection that was used this lately is used again; the broker may have closed an older one without a sign.
_REUSE_SECONDS = 10.0
#: Maximum number of characters of a library's message.
_REASON_LENGTH = 160


class CeleryCarrier:
    """Publishes messages with a Celery app of its own.

    Args:
        url: The URL of the broker; contains a password.
        variable: The environment variable of the URL.
        queue: The queue of the workers.
    """

    def __init__(self, url: str, variable: str, queue: str) -> None:
        self._url = url
        self._variable = variable
        self._queue = queue
        self._app: Any = None
        self._connection: Any = None
        self._producer: Any = None
        #: When the connection was last used, on the monotonic clock.
        self._used_at = float("-inf")

    def open(self) -> None:
        """Connect unless a connection was used lately.

        Raises:
            CarrierUnavailable: The variable is empty, its URL is invalid, or the broker does not answer.
            ExtraMissing: Celery, or its library for this broker, is not installed.
        """
        if not self._url:
            raise CarrierUnavailable(f"{self._variable} is not set; set it to the URL of Celery's broker")
        if self._producer is not None and time.monotonic() - self._used_at < _REUSE_SECONDS:
            return
        self.close()
        try:
            self._connect()
        except ImportError as error:
            raise ExtraMissing(str(getattr(error, "name", None) or "celery"), "celery") from error
        except Exception as error:  # noqa: BLE001 - any error of a broker's library
            problem = self._problem(error)
            self.close()
            raise CarrierUnavailable(problem) from None
        self._used_at = time.monotonic()

    def _connect(self) -> None:
        from celery import Celery  # noqa: PLC0415 - an optional dependency

        if self._app is None:
            self._app = Celery("scheduled_actions", broker=self._url, set_as_current=False)
            self._app.conf.update(broker_connection_timeout=CONNECT_SECONDS, task_ignore_result=True)
        options = {
            # Redis.
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_timeout": ANSWER_SECONDS,
            "retry_on_timeout": False,
            # RabbitMQ.
            "confirm_publish": True,
            "read_timeout": ANSWER_SECONDS,
            "write_timeout": ANSWER_SECONDS,
        }
        self._connection = self._app.connection_for_write(transport_options=options)
        self._connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=CONNECT_SECONDS)
        # Redis: the first command is sent here.
        self._producer = self._app.amqp.Producer(self._connection.default_channel, auto_declare=False)

    def _problem(self, error: Exception) -> str:
        """Return what is wrong, without the password of the URL."""
        if isinstance(error, KeyError | ValueError) or self._connection is None:
            return f"the URL in {self._variable} is not that of a broker, such as redis://localhost:6379/0"
        # As `as_uri`, but without the name of the user.
        broker = f"{self._connection.transport_cls}://{self._connection.hostname}"
        reason = " ".join(str(error).split())[:_REASON_LENGTH]
        if (password := self._connection.password) and str(password) in reason:
            reason = type(error).__name__
        return f"the broker at {broker} cannot be used ({reason}); check {self._variable}, and that the broker runs"

    def send(self, messages: Sequence[TicketMessage]) -> Sequence[SendOutcome]:
        """Publish messages one after another; after an error, the broker may have the one that caused it."""
        for number, message in enumerate(messages):
            try:
                self._app.send_task(
                    TASK,
                    kwargs={"message": message.as_json()},
                    queue=self._queue,
                    producer=self._producer,
                    serializer="json",
                    retry=False,
                    ignore_result=True,
                )
            except Exception as error:  # noqa: BLE001 - any error of a broker's library
                log.warning("executor.publish_failed executor=%s error=%s", message.executor, type(error).__name__)
                self.close()
                left = len(messages) - number - 1
                return [SendOutcome.SENT] * number + [SendOutcome.UNKNOWN] + [SendOutcome.REFUSED] * left
        self._used_at = time.monotonic()
        return [SendOutcome.SENT] * len(messages)

    def close(self) -> None:
        """Close the connection, if any; errors of a broken connection are ignored."""
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            try:
                connection.release()
            except Exception as error:  # noqa: BLE001 - the connection is given up
                log.debug("executor.not_closed error=%s", type(error).__name__)


def build(name: str, executor: Executor, environ: Mapping[str, str]) -> CeleryCarrier:
    """Return the carrier of an executor, as `build_carrier`."""
    variable = executor.url_env_var or ""
    return CeleryCarrier(environ.get(variable, "").strip(), variable, executor.queue or name)
