"""Receive the messages of an executor from SQS while its worker runs, on a thread of its own."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from scheduled_actions.core.config import Executor
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.errors.families import short_text
from scheduled_actions.core.log import log
from scheduled_actions.executors.carriers import ANSWER_SECONDS, CarrierUnavailable
from scheduled_actions.executors.carriers.sqs import BATCH, POLL_SECONDS, ReceivedMessage, SqsReceiver
from scheduled_actions.executors.tickets import TicketMessage, TicketQueue

#: How often a receiver without room for tickets checks whether it was stopped.
_ROOM_SECONDS = 1.0
#: The queue counts as empty if no message arrives within this time.
_EMPTY_SECONDS = 1
#: Pause between two tries to reach SQS: initial and maximum value.
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1.0, 15.0
#: Pause after messages that only other programs understand, and how often they are logged.
_FOREIGN_PAUSE_SECONDS, _FOREIGN_LOG_SECONDS = 1.0, 60.0


class TicketReceiver:
    """Adds the tickets of arriving messages to the queue of a worker, only as many as it can start at once.

    A message is deleted when its tickets are in the queue: if the process ends then, the actions return when their
    leases end. Messages of other programs stay in SQS.

    Args:
        name: The name of the executor.
        executor: Its settings.
        queue: The queue of its worker.
        notify: Called when tickets have been added.
        is_stopping: Returns whether the worker is ending.
        on_outage: Called with a line of text each time that SQS cannot be reached; None: receiving ends.
        until_empty: Whether to end when SQS has no more messages.

    Raises:
        ExtraMissing: boto3 is not installed.
    """

    def __init__(
        self,
        name: str,
        executor: Executor,
        queue: TicketQueue,
        notify: Callable[[], object],
        *,
        is_stopping: Callable[[], bool],
        on_outage: Callable[[str], None] | None,
        until_empty: bool,
    ) -> None:
        self._name = name
        self._queue = queue
        self._notify = notify
        self._is_stopping = is_stopping
        self._on_outage = on_outage
        self._until_empty = until_empty
        self._sqs = SqsReceiver(name, executor)
        self._tickets_per_message = executor.tickets_per_message
        self._ended = threading.Event()
        #: Held while received messages are added and deleted.
        self._handling = threading.Lock()
        self._foreign_logged_at = float("-inf")
        #: Why receiving has ended before the worker.
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        self._queue.expects_more = self._until_empty
        name = f"scheduled-actions-receiver-{self._name}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End without waiting for messages; those that are being deleted are waited for."""
        self._ended.set()
        if self._handling.acquire(timeout=ANSWER_SECONDS):
            self._handling.release()

    @property
    def _is_over(self) -> bool:
        return self._ended.is_set() or self._queue.is_closed or self._is_stopping()

    def _serve(self) -> None:
        try:
            self._receive_all()
        except Exception as error:  # noqa: BLE001 - raised in the thread of the worker
            self.error = error
        finally:
            # Otherwise, a worker that runs until it is idle would wait forever.
            self._queue.expects_more = False
            self._notify()
            self._sqs.close()

    def _receive_all(self) -> None:
        pause = _FIRST_RETRY_SECONDS
        while not self._is_over:
            room = self._queue.wait_for_room(_ROOM_SECONDS)
            if not room or self._is_over:
                continue
            try:
                if not self._receive(room):
                    return
                pause = _FIRST_RETRY_SECONDS
            except CarrierUnavailable as error:
                if self._on_outage is None:
                    raise
                if not self._is_over:
                    self._on_outage(f"{error}; trying again in {pause:g} s")
                    self._pause(pause)
                pause = min(2 * pause, _MAX_RETRY_SECONDS)
            except Exception:
                log.exception("executor.receive_failed executor=%s", self._name)
                if self._on_outage is None:
                    raise
                self._pause(_MAX_RETRY_SECONDS)

    def _receive(self, room: int) -> bool:
        """Receive messages once; return whether to go on.

        Raises:
            CarrierUnavailable: SQS cannot be reached, or the region, credentials or queue are missing.
        """
        most = max(1, min(BATCH, room // self._tickets_per_message))
        received = self._sqs.receive(most, seconds=_EMPTY_SECONDS if self._until_empty else POLL_SECONDS)
        with self._handling:
            if self._is_over:
                if received:
                    self._sqs.give_back(received)
                return False
            added = self._add(received)
            if added:
                self._notify()
                self._sqs.delete(added)
        if received and not added and not self._until_empty:
            self._pause(_FOREIGN_PAUSE_SECONDS)
        return bool(added) or not self._until_empty

    def _add(self, received: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        """Add the tickets of messages to the queue; return the messages that this executor has sent."""
        added = []
        for one in received:
            try:
                message = TicketMessage.of_text(one.body)
            except InvalidArgument as error:
                self._log_foreign(str(error))
                continue
            if message.executor != self._name:
                other = short_text(message.executor)
                self._log_foreign(f'the message is of executor "{other}": give each executor a queue of its own')
                continue
            self._queue.add(message.tickets)
            added.append(one)
        return added

    def _log_foreign(self, reason: str) -> None:
        now = time.monotonic()
        if now - self._foreign_logged_at >= _FOREIGN_LOG_SECONDS:
            self._foreign_logged_at = now
            log.warning("executor.foreign_message executor=%s error=%s", self._name, reason)

    def _pause(self, seconds: float) -> None:
        """Wait, until the receiver or the worker ends."""
        until = time.monotonic() + seconds
        while not self._is_over and (left := until - time.monotonic()) > 0:
            self._ended.wait(min(left, _ROOM_SECONDS))
