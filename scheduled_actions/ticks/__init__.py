"""Ticks: claim, evaluate, run and settle due actions; each process runs one tick at a time."""

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec

import psycopg

from scheduled_actions.actions.settling import Settler
from scheduled_actions.core import tracing
from scheduled_actions.core.config import Settings
from scheduled_actions.core.errors import DatabaseBusy
from scheduled_actions.core.retry import Exponential
from scheduled_actions.database.boundary import temporary_refusal
from scheduled_actions.database.connection import Database
from scheduled_actions.registry import Registry
from scheduled_actions.registry.handler import PrepareFollowUp
from scheduled_actions.ticks import store as tick_store
from scheduled_actions.ticks.attempts.handler_threads import HandlerThreads
from scheduled_actions.ticks.hooks import Hooks
from scheduled_actions.ticks.report import MetricsBuffer, TickCaller, TickReport
from scheduled_actions.ticks.tick import Tick
from scheduled_actions.ticks.worker_state import MakeDispatch, Watchdog, WorkerState


class Processor:
    """Runs the ticks of one process, one at a time.

    Args:
        database: The database of the project.
        registry: The handlers of the project.
        settings: Contains the time limits, batch size and concurrency.
        settler: Writes outcomes.
        hooks: The hooks of the features.
        prepare: Validates follow-ups.
        on_tick_end: Called after each tick that ran, with `has_failed`: whether the tick raised an exception. Must
            return without delay.
        heartbeat_outcome: Returns the outcome of the last heartbeat, stored in the rows of ticks; None: no heartbeat.
        dispatch: Creates the work of each tick for executors that use a broker; None without any.
        monotonic: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        *,
        database: Database,
        registry: Registry,
        settings: Settings,
        settler: Settler,
        hooks: Hooks,
        prepare: PrepareFollowUp,
        on_tick_end: Callable[..., None] | None = None,
        heartbeat_outcome: Callable[[], str] | None = None,
        dispatch: MakeDispatch | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        has_metrics = find_spec("prometheus_client") is not None
        self.state = WorkerState(
            database=database,
            registry=registry,
            settings=settings,
            settler=settler,
            hooks=hooks,
            prepare=prepare,
            monotonic=monotonic,
            default_policy=Exponential(settings.retry.base_seconds, settings.retry.cap_seconds),
            threads=HandlerThreads(settings.concurrency, monotonic=monotonic),
            watchdog=Watchdog(monotonic),
            metrics=MetricsBuffer(registry.types, settings.webhooks.endpoints) if has_metrics else None,
            heartbeat_outcome=heartbeat_outcome,
            dispatch=dispatch,
        )
        self._on_tick_end = on_tick_end

    def stop(self) -> None:
        """Start no more handlers: the current tick settles or releases its actions, and later ticks return `busy`."""
        self.state.is_stopping.set()
        self.state.single_flight.notify()

    def close(self) -> None:
        """End the handler threads and the watchdog's thread; a later tick starts new threads."""
        self.state.threads.close()
        self.state.watchdog.close()

    def tick(
        self,
        *,
        caller: str = "",
        host_seconds: float | None = None,
        lingers: bool = True,
        linger_holder: str | None = None,
        is_gone: Callable[[], bool] | None = None,
    ) -> TickReport:
        """Process due actions within the time limit; return a report.

        Nothing was done if the report has `enabled` false (by the settings), or `busy` true: another tick of this
        process is running and looks for due actions once more, or the process is stopping.

        Args:
            caller: Name of the caller, stored in the tick's row.
            host_seconds: The host's time limit for this call, in seconds; None: only the setting applies.
            lingers: Whether to wait up to `linger_seconds` for further actions to become due.
            linger_holder: The id of the listener that runs this tick; None without a listener.
            is_gone: Returns whether the caller has closed its connection, which is stored in the tick's row; None: this
                cannot be determined.

        Raises:
            DatabaseUnavailable: The database could not be reached, or was busy (`DatabaseBusy`); actions already
                claimed are rescued when their lease has ended.
            SchemaOutdated: The database has not been migrated to the schema of this code.
            SchemaUnreleased: An unreleased build created the tables.
            psycopg.Error: The database rejected a statement of the tick.
        """
        state = self.state
        started = state.monotonic()
        if not state.settings.enabled:
            return TickReport(enabled=False)
        single_flight = state.single_flight
        patience = state.settings.linger_seconds if lingers else 0.0
        is_stopping = state.is_stopping.is_set()
        holder = None if is_stopping else single_flight.acquire(patience_seconds=patience, caller=caller)
        if holder is None:
            remaining = state.database.do(tick_store.count_due)
            duration_ms = round((state.monotonic() - started) * 1000)
            return TickReport(busy=True, remaining=remaining, more=remaining > 0, duration_ms=duration_ms)
        try:
            tick = Tick(
                state,
                caller=TickCaller(caller, is_gone, started),
                host_seconds=host_seconds,
                lingers=lingers,
                linger_holder=linger_holder,
            )
            report = _traced(tick, caller, is_asked_again=lambda: single_flight.release_unless_notified(holder))
        except Exception as error:
            if self._on_tick_end is not None:
                self._on_tick_end(has_failed=True)
            if isinstance(error, psycopg.Error) and temporary_refusal(error) is not None:
                raise DatabaseBusy(
                    f"{type(error).__name__} ({error.sqlstate}) ended the tick; later ticks run the remaining actions"
                ) from error
            raise
        finally:
            single_flight.release(holder)
        report.duration_ms = round((state.monotonic() - started) * 1000)
        if self._on_tick_end is not None:
            self._on_tick_end(has_failed=False)
        return report


def _traced(tick: Tick, caller: str, *, is_asked_again: Callable[[], bool]) -> TickReport:
    """Run a tick, in a separate span if the process has a tracer."""
    tracer = tracing.tracer() if tracing.API in sys.modules else None
    if tracer is None:
        return tick.run(is_asked_again=is_asked_again)
    with tracing.tick(tracer, caller) as span:
        report = tick.run(is_asked_again=is_asked_again)
        tracing.set_tick_attributes(span, report.counts() | {"tick_id": report.tick_id or ""})
    return report
