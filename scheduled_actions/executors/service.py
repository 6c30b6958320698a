"""Run workers of executors in this process, and list the executors."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from scheduled_actions.actions.claims import ClaimHook
from scheduled_actions.core.config import Settings
from scheduled_actions.core.errors import DatabaseBusy, UnknownExecutor, WrongCarrier
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import temporary_refusal
from scheduled_actions.database.connection import Database
from scheduled_actions.executors import store
from scheduled_actions.executors.claims import ExecutorQueue
from scheduled_actions.executors.model import ExecutorState, Ticket
from scheduled_actions.executors.takeover import WorkerRow
from scheduled_actions.executors.tickets import TicketMessage, TicketQueue
from scheduled_actions.executors.worker import ActionQueue, Worker, WorkerOptions
from scheduled_actions.ticks import Processor
from scheduled_actions.ticks.report import TickReport
from scheduled_actions.ticks.rules.plan import ANSWER_MARGIN_SECONDS, TickBudget

if TYPE_CHECKING:
    from collections.abc import Iterator


#: How long `close` waits for handlers that run the actions of tickets.
_CLOSE_SECONDS = 5.0
#: By carrier: how the actions of an executor are run.
_OTHERWISE = {
    "postgres": "run `scheduled-actions executors work {name}`",
    "celery": "its workers are those of your Celery app, started with `celery … worker`",
    "sqs": "run `scheduled-actions executors work {name}`, or the handler of AWS Lambda",
}


class Executors:
    """The executors of one project.

    Args:
        database: The database of the project.
        settings: Contains the executors and the time limits.
        build_processor: Builds the state of a worker, with settings; called once per executor.
        find_hooks: Returns the hooks of claims.
        on_freed: Called when actions of other types may have become due.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        build_processor: Callable[[Settings], Processor],
        find_hooks: Callable[[], Sequence[ClaimHook]],
        on_freed: Callable[[], None],
    ) -> None:
        self._database = database
        self._settings = settings
        self._build_processor = build_processor
        self._find_hooks = find_hooks
        self._on_freed = on_freed
        self._lock = threading.Lock()
        self._is_stopping = False
        #: By executor with a broker: the tickets that have arrived in this process, and the thread of its worker.
        self._ticket_workers: dict[str, tuple[TicketQueue, threading.Thread]] = {}
        #: By executor: the threads and the state of its worker in this process, and the worker's row.
        self._workers: dict[str, tuple[Processor, WorkerRow]] = {}

    def stop(self) -> None:
        """Start no more handlers; running workers let their handlers end, and later ones do nothing."""
        self._is_stopping = True
        for processor, _ in list(self._workers.values()):
            processor.stop()

    def notify(self, name: str) -> None:
        """Let the worker of an executor in this process look for due actions now; thread-safe."""
        if name in self._workers:
            self._workers[name][0].state.single_flight.notify()

    def join(self, seconds: float) -> bool:
        """Wait until the workers of `run_message` have ended after `stop`, at most `seconds`; return whether they have.

        Their unstarted actions are released then, and their rows say that they have ended.
        """
        until = time.monotonic() + seconds
        threads = [thread for _, thread in list(self._ticket_workers.values())]
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def close(self) -> None:
        """End the threads of the workers; those of `run_message` are stopped first."""
        if self._ticket_workers:
            self.stop()
            self.join(_CLOSE_SECONDS)
        for processor, _ in list(self._workers.values()):
            processor.close()

    def check_carrier(self, name: str, *carriers: str) -> None:
        """Check that the settings have an executor with one of the carriers.

        Raises:
            UnknownExecutor: They have none of that name.
            WrongCarrier: It has another carrier.
        """
        if name not in self._settings.executors:
            raise UnknownExecutor(name, self._settings.executors)
        if (actual := self._settings.executors[name].carrier) not in carriers:
            raise WrongCarrier(name, actual, _OTHERWISE[actual].format(name=name))

    def find(self, name: str | None = None) -> list[ExecutorState]:
        """Return the executors in the database, by name; with `name`, only that one."""
        with self._database.connection() as connection:
            return store.find_executors(connection, name)

    def work(self, name: str, options: WorkerOptions, *, concurrency: int | None = None) -> TickReport:
        """Run the actions of an executor until `stop` is called, or nothing is due (`until_idle`).

        Args:
            name: The executor; its carrier is Postgres or SQS.
            options: How the worker runs.
            concurrency: Number of handlers that run at the same time; None: as in the settings.

        Raises:
            UnknownExecutor: The settings have no such executor.
            WrongCarrier: It has another carrier.
            DatabaseUnavailable: The database cannot be reached, and `options` have no `on_outage`.
            CarrierUnavailable: The same for SQS.
            ExtraMissing: The library of the broker is not installed.
        """
        self.check_carrier(name, "postgres", "sqs")
        executor = self._settings.executors[name]
        if not executor.has_broker:
            return self._work(name, options, self._queue_of(name), concurrency=concurrency)
        from scheduled_actions.executors.receiving import TicketReceiver  # noqa: PLC0415 - only with a broker

        queue = TicketQueue()
        receiver = TicketReceiver(
            name,
            executor,
            queue,
            partial(self.notify, name),
            is_stopping=lambda: self._is_stopping,
            on_outage=options.on_outage,
            until_empty=options.until_idle,
        )
        with receiver:
            report = self._work_on_tickets(name, options, queue, concurrency=concurrency)
        if receiver.error is not None:
            raise receiver.error
        return report

    def run_message(self, value: object, *, grace_seconds: float = 60.0) -> None:
        """Run the actions of a message in the worker of this process, and wait until they have ended.

        The worker starts with the first message. It keeps running, and waits for a database that is away.

        Args:
            value: A JSON object, as a carrier sends it.
            grace_seconds: How long handlers may go on after `stop`; that of the first message of an executor applies.

        Raises:
            InvalidArgument: It is not such a message.
            UnknownExecutor: The settings have no such executor.
            WrongCarrier: Its carrier is Postgres.
        """
        message = TicketMessage.of_json(value)
        name = message.executor
        self.check_carrier(name, "celery", "sqs")
        arrival = self._ticket_queue(name, grace_seconds).add(message.tickets)
        self.notify(name)
        arrival.wait()

    def run_messages(self, values: Iterable[object], *, seconds: float) -> TickReport:
        """Run the actions of messages within a time limit; return the counts.

        Actions whose timeout is too long for it, or that could not start, are released.

        Args:
            values: JSON objects, as a carrier sends them.
            seconds: The time limit.

        Raises:
            InvalidArgument: A value is not such a message; none has been run.
            UnknownExecutor: The settings have no such executor.
            WrongCarrier: Its carrier is Postgres.
            DatabaseUnavailable: The database could not be reached.
        """
        tickets: defaultdict[str, list[Ticket]] = defaultdict(list)
        for message in map(TicketMessage.of_json, values):
            self.check_carrier(message.executor, "celery", "sqs")
            tickets[message.executor] += message.tickets
        total = TickReport()
        until = time.monotonic() + max(0.0, seconds - ANSWER_MARGIN_SECONDS)
        for name, those in tickets.items():
            queue = TicketQueue()
            queue.add(those)
            processor, row = self._worker(name, self._settings)
            budget = TickBudget(started=processor.state.monotonic(), run_until=until, answer_by=until)
            with self._alone(processor, "") as is_alone:
                if is_alone:
                    total.add(self._run(processor, row, budget, WorkerOptions(until_idle=True), queue)[0])
        return total

    def _ticket_queue(self, name: str, grace_seconds: float) -> TicketQueue:
        """Return the queue of the worker of this process, which is started if it is not running."""
        with self._lock:
            queue, _ = self._ticket_workers.get(name, (None, None))
            if queue is None or (queue.is_closed and not self._is_stopping):
                queue = TicketQueue()
                options = WorkerOptions(
                    grace_seconds=grace_seconds,
                    on_outage=lambda line: log.warning("worker.outage executor=%s %s", name, line),
                )
                serve = partial(self._work_on_tickets, name, options, queue)
                thread = threading.Thread(target=serve, name=f"scheduled-actions-worker-{name}", daemon=True)
                self._ticket_workers[name] = queue, thread
                thread.start()
            return queue

    def _work_on_tickets(
        self, name: str, options: WorkerOptions, queue: TicketQueue, *, concurrency: int | None = None
    ) -> TickReport:
        try:
            return self._work(name, options, queue, concurrency=concurrency)
        finally:
            queue.close()

    def _queue_of(self, name: str) -> ExecutorQueue:
        return ExecutorQueue(name, self._find_hooks(), self._settings)

    def _work(self, name: str, options: WorkerOptions, queue: ActionQueue, *, concurrency: int | None) -> TickReport:
        settings = self._settings if concurrency is None else replace(self._settings, concurrency=concurrency)
        processor, row = self._worker(name, settings)
        never = float("inf")
        budget = TickBudget(started=processor.state.monotonic(), run_until=never, answer_by=never)
        with self._alone(processor, name) as is_alone:
            return self._run(processor, row, budget, options, queue)[0] if is_alone else TickReport(busy=True)

    def ping(self, name: str, *, caller: str = "", host_seconds: float | None = None) -> TickReport:
        """Run the due actions of an executor within the time limits of a tick; return the counts.

        Nothing was done if the report has `enabled` false, or `busy` true: a worker of this executor is running in this
        process, or the process is stopping.

        Args:
            name: The executor.
            caller: Name of the caller.
            host_seconds: The host's time limit for this call, in seconds; None: only the setting applies.

        Raises:
            UnknownExecutor: The settings have no such executor.
            WrongCarrier: A broker carries its tickets.
            DatabaseUnavailable: The database could not be reached, or was busy (`DatabaseBusy`).
        """
        self.check_carrier(name, "postgres")
        if not self._settings.enabled:
            return TickReport(enabled=False)
        processor, row = self._worker(name, self._settings)
        state = processor.state
        started = state.monotonic()
        budget = TickBudget.by_settings(self._settings, started=started, host_seconds=host_seconds, lingers=False)
        try:
            with self._alone(processor, caller) as is_alone:
                report, left = (
                    self._run(processor, row, budget, WorkerOptions(until_idle=True), self._queue_of(name))
                    if is_alone
                    else (TickReport(busy=True), 0)
                )
            # Otherwise, the caller would ping again for actions that no ping can run.
            report.remaining = max(0, sum(one.due for one in self.find(name)) - left)
        except psycopg.Error as error:
            if temporary_refusal(error) is None:
                raise
            raise DatabaseBusy(f"{type(error).__name__} ({error.sqlstate}) ended the worker") from error
        report.more = report.remaining > 0
        report.duration_ms = round((state.monotonic() - started) * 1000)
        return report

    def _worker(self, name: str, settings: Settings) -> tuple[Processor, WorkerRow]:
        with self._lock:
            if name not in self._workers:
                processor = self._build_processor(settings)
                if self._is_stopping:
                    processor.stop()
                self._workers[name] = processor, WorkerRow(executor=name, concurrency=settings.concurrency)
            return self._workers[name]

    @contextmanager
    def _alone(self, processor: Processor, caller: str) -> "Iterator[bool]":
        """Yield whether no other worker of the executor runs in this process; none begins before the block ends."""
        state = processor.state
        single_flight = state.single_flight
        holder = None if state.is_stopping.is_set() else single_flight.acquire(patience_seconds=0, caller=caller)
        try:
            yield holder is not None
        finally:
            if holder is not None:
                single_flight.release(holder)

    def _run(
        self, processor: Processor, row: WorkerRow, budget: TickBudget, options: WorkerOptions, queue: ActionQueue
    ) -> tuple[TickReport, int]:
        """Run a worker; return its counts, and the number of actions that it left to other workers as too long."""
        state = processor.state
        prepare = partial(store.write_executors, executors=self._settings.executors, replace=False)
        worker = Worker(
            state,
            queue,
            row,
            budget,
            replace(options, prepare=prepare, on_freed=self._on_freed),
        )
        # As in a tick: half of the margin is left for the answer.
        with state.watchdog.guards(budget.answer_by + ANSWER_MARGIN_SECONDS / 2, worker.abort):
            return worker.run(), worker.left
