"""Measure the steps of actions in this process: of ticks, of workers that use no broker, and of tickets."""

from __future__ import annotations

import base64
import json
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import plain_sql
from benchmarks.celery_workers import EXECUTOR, URL_ENV_VAR
from benchmarks.cost import lifecycle, meter
from benchmarks.cost.features import FEATURES
from benchmarks.databases import connected
from benchmarks.harness import WrongResultError
from benchmarks.redis_stats import redis_work
from benchmarks.serving import runtime_on
from proofs.scale.model import CLAIM, PRUNE, RUN, SCHEDULE, SEND, SETTLE, TAKE_OVER, Cost
from scheduled_actions.executors.carriers.celery import CeleryCarrier
from scheduled_actions.executors.tickets import TicketMessage, TicketQueue
from scheduled_actions.executors.worker import WorkerOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from benchmarks.cost.lifecycle import Setup, Size
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.executors.carriers import SendOutcome
    from scheduled_actions.runtime import Runtime

#: Steps of the model by parts of a tick.
_PARTS = {meter.CLAIM: CLAIM, meter.OTHER: CLAIM, meter.TAKE_OVER: TAKE_OVER, meter.RUN: RUN, meter.SETTLE: SETTLE}
_PATIENCE_SECONDS = 30.0

_Values = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Rounds:
    """The values of a path, collected over rounds."""

    values: list[_Values]
    wal: list[_Values]

    def costs(self) -> dict[str, Cost]:
        """Return the median cost of each step; WAL bytes are those of the rounds that attribute them."""
        steps = dict.fromkeys(step for one in (*self.values, *self.wal) for step in one)
        return {step: self._cost(step) for step in steps}

    def _cost(self, step: str) -> Cost:
        found = [one[step] for one in self.values if step in one]
        names = dict.fromkeys(name for one in found for name in one if name != "wal_bytes")
        figures = {name: median(one.get(name, 0.0) for one in found) for name in names}
        logged = [one[step].get("wal_bytes", 0.0) for one in (self.wal or self.values) if step in one]
        return Cost(**figures, wal_bytes=median(logged) if logged else 0.0)


def ticks(setup: Setup, size: Size, *, attributes_wal: bool) -> _Values:
    """Measure the steps of actions that ticks run, from schedule to prune."""
    measured = lifecycle.measure(setup, FEATURES[0], size, attributes_wal=attributes_wal)
    values: _Values = {SCHEDULE: _of_lifecycle(measured[lifecycle.MANY])}
    for part, step in _PARTS.items():
        if part in measured:
            _add(values, step, _of_lifecycle(measured[part]))
    return values | {PRUNE: _of_lifecycle(measured[lifecycle.PRUNE])}


def worker(setup: Setup, project: Path, count: int, *, attributes_wal: bool) -> _Values:
    """Measure the steps of a worker that uses no broker."""
    with _bench(setup, project, count, {}, attributes_wal=attributes_wal) as (runtime, connection, measuring):
        with measuring.ticks() as (steps, _):
            runtime.executors.work(EXECUTOR, WorkerOptions(until_idle=True))
        meter.check_steps(steps, (meter.CLAIM, meter.TAKE_OVER, meter.SETTLE))
        _check(connection, count)
    return _values(steps, count)


def tickets(setup: Setup, project: Path, url: str, count: int, *, attributes_wal: bool) -> _Values:
    """Measure the steps of tickets: a tick that sends them, and a worker process that receives their messages.

    Receiving is not measured: see `runs.carry`. As in a process of the pool `prefork`, a message arrives when all
    actions of the last one have ended.
    """
    with _bench(setup, project, count, {URL_ENV_VAR: url}, attributes_wal=attributes_wal) as (
        runtime,
        connection,
        measuring,
    ):
        work = redis_work(url)
        with _timed_send() as seconds, measuring.step() as sent:
            runtime.processor.tick()
        work = redis_work(url).since(work)
        messages = _received(url, EXECUTOR)
        if sum(len(one.tickets) for one in messages) != count:
            raise WrongResultError("tickets sent by a tick", found=len(messages), expected=count)
        send = {
            "process": sum(seconds) * 1e6 / count,
            "broker": work.seconds * 1e6 / count,
            "commands": work.commands / count,
        }
        with measuring.ticks() as (steps, _):
            _work(runtime, messages)
        meter.check_steps(steps, (meter.TAKE_OVER, meter.SETTLE))
        _check(connection, count)
    values = _values(steps, count)
    idle = values.pop(CLAIM, {})
    claim = _per_action(sent, count)
    # A worker of tickets claims nothing: this is the row that it writes once a minute.
    values[SETTLE] = {name: value + idle.get(name, 0.0) for name, value in values[SETTLE].items()}
    claim["process"] -= send["process"]
    return {CLAIM: claim, SEND: send} | values


@contextmanager
def _bench(
    setup: Setup, project: Path, count: int, environ: Mapping[str, str], *, attributes_wal: bool
) -> Iterator[tuple[Runtime, Connection, meter.Meter]]:
    """Yield a runtime on a new database with due actions, a connection to it, and a meter."""
    settings = {"retention_days": 365}
    with ExitStack() as stack:
        dsn = stack.enter_context(setup.databases.fresh(like=setup.template))
        connection = stack.enter_context(connected(dsn))
        runtime = stack.enter_context(runtime_on(project, dsn, settings=settings, environ=environ))
        measuring = stack.enter_context(meter.Meter(dsn, attributes_wal=attributes_wal))
        # Prepares the process, and stores the executors.
        runtime.processor.tick()
        plain_sql.fill_due(connection, count)
        connection.execute("vacuum (analyze) scheduled_actions")
        yield runtime, connection, measuring


def _work(runtime: Runtime, messages: Sequence[TicketMessage]) -> None:
    """Run the worker of a process on this thread, and give it one message after another from another thread."""
    queue = TicketQueue()
    values = [one.as_json() for one in messages]

    def feed() -> None:
        for value in values:
            arrival = queue.add(TicketMessage.of_json(value).tickets)
            runtime.executors.notify(EXECUTOR)
            arrival.wait(_PATIENCE_SECONDS)
        runtime.executors.stop()
        runtime.executors.notify(EXECUTOR)

    feeder = threading.Thread(target=feed)
    feeder.start()
    runtime.executors._work_on_tickets(EXECUTOR, WorkerOptions(), queue)  # noqa: SLF001 - the meter measures this thread
    feeder.join()


@contextmanager
def _timed_send() -> Iterator[list[float]]:
    """Yield the CPU seconds of each call that sends messages."""
    original, seconds = CeleryCarrier.send, list[float]()

    def send(self: CeleryCarrier, messages: Sequence[TicketMessage]) -> Sequence[SendOutcome]:
        began = time.thread_time()
        try:
            return original(self, messages)
        finally:
            seconds.append(time.thread_time() - began)

    CeleryCarrier.send = send  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        CeleryCarrier.send = original  # type: ignore[method-assign]


def _received(url: str, queue: str) -> list[TicketMessage]:
    """Remove the messages of a queue from Redis, and return them."""
    import redis  # noqa: PLC0415 - only if redis-server is installed

    with redis.Redis.from_url(url) as client:
        raw = [json.loads(one) for one in client.lrange(queue, 0, -1)]
        client.delete(queue)
    bodies = [json.loads(base64.b64decode(one["body"])) for one in reversed(raw)]
    return [TicketMessage.of_json(one[1]["message"]) for one in bodies]


def _check(connection: Connection, count: int) -> None:
    completed = plain_sql.count_completed(connection)
    if completed != count:
        raise WrongResultError("completed actions", found=completed, expected=count)


def _values(steps: Mapping[str, meter.Cost], count: int) -> _Values:
    values: _Values = {}
    for part, cost in steps.items():
        _add(values, _PARTS[part], _per_action(cost, count))
    return values


def _add(values: _Values, step: str, more: dict[str, float]) -> None:
    before = values.get(step, {})
    values[step] = {name: value + before.get(name, 0.0) for name, value in more.items()}


def _per_action(cost: meter.Cost, count: int) -> dict[str, float]:
    return {
        "process": cost.process * 1e6 / count,
        "postgres": cost.postgres * 1e6 / count,
        "wal_bytes": (cost.wal or 0) / count,
        "statements": (cost.statements + cost.control) / count,
    }


def _of_lifecycle(measured: Mapping[str, float]) -> dict[str, float]:
    return {
        "process": measured["process"],
        "postgres": measured.get("postgres", 0.0),
        "wal_bytes": measured.get("wal", 0.0),
        "statements": measured["statements"] + measured["control"],
    }
