"""Celery: send tickets through RabbitMQ or Redis, as messages that workers of a Celery app receive."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from scheduled_actions.core.config import Executor
from scheduled_actions.core.errors import ExtraMissing
from scheduled_actions.core.log import log
from scheduled_actions.executors.carriers import ANSWER_SECONDS, CONNECT_SECONDS, CarrierUnavailable, SendOutcome
from scheduled_actions.executors.tickets import TicketMessage

#: The name of the task that runs the actions of a message.
TASK = "scheduled_actions.run"
#: By scheme of the broker's URL: the transport of kombu. `librabbitmq` has no publisher confirms.
_TRANSPORTS = {"redis": "redis", "rediss": "rediss", "amqp": "pyamqp", "amqps": "amqps", "pyamqp": "pyamqp"}
_RABBITMQ = ("pyamqp", "amqps")
#: AMQP's code of a queue that does not exist.
_NOT_FOUND = 404
#: Errors of amqp and redis that are answers of the broker: it has not stored the message.
_ANSWERS = {"MessageNacked", "ChannelError", "ResponseError"}


def build(name: str, executor: Executor, environ: Mapping[str, str]) -> "CeleryCarrier":
    """Return the carrier of an executor whose tickets Celery carries.

    Args:
        name: The name of the executor.
        executor: Its settings.
        environ: Contains the URL of the broker.

    Raises:
        ExtraMissing: Celery is not installed.
    """
    try:
        from celery import Celery  # noqa: PLC0415 - only projects with such an executor have it
    except ImportError as error:
        raise ExtraMissing("celery", "celery") from error
    variable = executor.url_env_var or ""
    # It only builds messages: the project's own app has other settings and signals.
    app = Celery("scheduled_actions", set_as_current=False, loader="app", fixups=[])
    build_message = partial(app.amqp.as_task_v2, name=TASK, ignore_result=True)
    return CeleryCarrier(executor.queue or name, variable, environ.get(variable, "").strip(), build_message)


class CeleryCarrier:
    """Sends messages to a queue of RabbitMQ or Redis.

    Args:
        queue: The name of the queue.
        variable: The environment variable with the broker's URL.
        url: Its value.
        build_message: Returns a task message of Celery, with an id and keyword arguments.
    """

    def __init__(self, queue: str, variable: str, url: str, build_message: Any) -> None:  # noqa: ANN401 - of Celery
        self._queue = queue
        self._variable = variable
        self._url = url
        self._build_message = build_message
        self._transport = ""
        self._connection: Any = None
        self._channel: Any = None

    def open(self) -> None:
        """Connect to the broker, or check the connection: the broker may have closed it meanwhile.

        Raises:
            CarrierUnavailable: The broker cannot be reached or is not configured, or has no such queue.
        """
        self._check_url()
        if self._connection is not None:
            try:
                self._check()
            except Exception as error:  # noqa: BLE001 - of the client library; a new connection shows whether it stays
                log.debug("carrier.reconnects error=%s", type(error).__name__)
                self.close()
            else:
                return
        try:
            self._connect()
            self._check()
        except Exception as error:
            self.close()
            raise CarrierUnavailable(self._reason(error)) from error

    def send(self, messages: Sequence[TicketMessage]) -> Sequence[SendOutcome]:
        """Send messages one by one until one fails; the broker certainly does not have those after it.

        Args:
            messages: At least one.
        """
        outcomes: list[SendOutcome] = []
        for message in messages:
            try:
                self._publish(message)
            except Exception as error:  # noqa: BLE001 - of the client library
                log.warning("carrier.failed queue=%s error=%s", self._queue, type(error).__name__)
                is_answer = not _ANSWERS.isdisjoint(one.__name__ for one in type(error).__mro__)
                outcomes.append(SendOutcome.REFUSED if is_answer else SendOutcome.UNKNOWN)
                # The answer to this message may still arrive, and would be taken for that to the next one.
                self.close()
                break
            outcomes.append(SendOutcome.SENT)
        return outcomes + [SendOutcome.REFUSED] * (len(messages) - len(outcomes))

    def close(self) -> None:
        """Close the connection; `open` connects again."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(Exception):
                # Without waiting for the broker's answer, because it may be away.
                connection.collect(socket_timeout=1.0)

    def _check_url(self) -> None:
        """Check the URL of the broker, and choose its transport."""
        if not self._url:
            problem = f"the environment variable {self._variable} is not set: set it to the URL of Celery's broker"
            raise CarrierUnavailable(problem)
        scheme = self._url.partition("://")[0].lower()
        if scheme not in _TRANSPORTS:
            # The value may be a password.
            expected = "redis://, rediss://, amqp:// or amqps://"
            raise CarrierUnavailable(f"the URL in {self._variable} does not begin with {expected}")
        self._transport = _TRANSPORTS[scheme]

    @property
    def _is_rabbitmq(self) -> bool:
        return self._transport in _RABBITMQ

    def _connect(self) -> None:
        from kombu import Connection  # noqa: PLC0415 - as above

        options: dict[str, Any] = {"socket_timeout": ANSWER_SECONDS, "socket_connect_timeout": CONNECT_SECONDS}
        if self._is_rabbitmq:
            options = {"confirm_publish": True, "read_timeout": ANSWER_SECONDS, "write_timeout": ANSWER_SECONDS}
        url = self._transport + self._url[self._url.index("://") :]
        self._connection = Connection(url, connect_timeout=CONNECT_SECONDS, transport_options=options)
        self._connection.ensure_connection(max_retries=1, interval_start=0, timeout=CONNECT_SECONDS)
        self._channel = self._connection.channel()

    def _check(self) -> None:
        """Ask the broker for an answer."""
        if self._is_rabbitmq:
            # Passive: workers create the queue, whose type and arguments their app knows. A message to a queue that
            # does not exist would be lost.
            self._channel.queue_declare(self._queue, passive=True)
        else:
            self._channel.client.ping()

    def _publish(self, message: TicketMessage) -> None:
        task = self._build_message(task_id=str(uuid4()), kwargs={"message": message.as_json()})
        from kombu import Producer  # noqa: PLC0415 - as above

        Producer(self._channel, auto_declare=False, serializer="json").publish(
            task.body,
            exchange="",
            routing_key=self._queue,
            headers=task.headers,
            mandatory=self._is_rabbitmq,
            timeout=ANSWER_SECONDS,
            confirm_timeout=ANSWER_SECONDS,
            delivery_mode=2,
            retry=False,
            **task.properties,
        )

    def _reason(self, error: Exception) -> str:
        """Return why the broker cannot be used, without the user and the password of its URL."""
        if getattr(error, "reply_code", None) == _NOT_FOUND:
            start = f"celery worker -Q {self._queue}"
            return f"the broker has no queue {self._queue}: start a worker, which creates it ({start})"
        with suppress(ValueError):
            parts = urlsplit(self._url)
            host, port = parts.hostname or "", "" if parts.port is None else f":{parts.port}"
            cause = error.__cause__ or error
            text = f" ({type(cause).__name__})" if cause is not None else ""
            return f"the broker at {parts.scheme}://{host}{port} ({self._variable}) cannot be reached{text}"
        return f"the URL in {self._variable} is invalid"
