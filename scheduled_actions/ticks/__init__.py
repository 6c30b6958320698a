"""Ticks: claim, evaluate, run and settle what is due, one tick at a time in a process."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

import psycopg

from scheduled_actions.core import tracing
from scheduled_actions.core.errors import DatabaseBusy
from scheduled_actions.core.retry import Exponential
from scheduled_actions.database.failures import refusal_of_the_moment
from scheduled_actions.ticks import store as tick_store
from scheduled_actions.ticks.attempts.runner import Runner
from scheduled_actions.ticks.report import Caller, Report, Tally
from scheduled_actions.ticks.tick import Tick
from scheduled_actions.ticks.worker_state import Process, Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.actions.settling import Settler
    from scheduled_actions.core.config import Settings
    from scheduled_actions.database.connection import Database
    from scheduled_actions.registry import Registry
    from scheduled_actions.registry.handler import Prepare
    from scheduled_actions.ticks.hooks import Hooks
    from scheduled_actions.ticks.maintenance import Maintenance


class Beat(Protocol):
    """Hears that a tick has ended."""

    def __call__(self, *, has_failed: bool) -> None:
        """Take note of it, at once."""


class Processor:
    """The ticks of one process; one is at work at a time.

    Args:
        database: Where the tables are.
        registry: Finds handlers.
        settings: Budgets, batch size, concurrency.
        maintenance: Rescue and prune.
        settler: Writes outcomes.
        hooks: What features do in a tick.
        prepare: Validates follow-ups.
        beat: Told how each tick ended; None tells nobody.
        heartbeat_outcome: Says how the last heartbeat went, for the rows of ticks; None where there is none.
        monotonic: Seconds that never go back.
    """

    def __init__(
        self,
        *,
        database: Database,
        registry: Registry,
        settings: Settings,
        maintenance: Maintenance,
        settler: Settler,
        hooks: Hooks,
        prepare: Prepare,
        beat: Beat | None = None,
        heartbeat_outcome: Callable[[], str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.database = database
        self.process = Process(
            database=database,
            registry=registry,
            settings=settings,
            maintenance=maintenance,
            settler=settler,
            hooks=hooks,
            prepare=prepare,
            monotonic=monotonic,
            usual_policy=Exponential(settings.retry.base_seconds, settings.retry.cap_seconds),
            runner=Runner(settings.concurrency, monotonic=monotonic),
            watchdog=Watchdog(monotonic),
            tally=_tally(registry, settings),
            heartbeat_outcome=heartbeat_outcome,
        )
        self._monotonic = monotonic
        self._beat = beat

    def stop(self) -> None:
        """Start nothing more: the present tick finishes or releases what it has, later ones do nothing."""
        self.process.is_stopping.set()
        self.process.turn.ask()

    def close(self) -> None:
        """Let the threads of handlers and of the watchdog end; a later tick starts new ones."""
        self.process.runner.close()
        self.process.watchdog.close()

    @property
    def is_exhausted(self) -> bool:
        """Whether handlers that never returned hold every thread: only a new process can work again."""
        return self.process.is_exhausted

    def tick(
        self,
        *,
        caller: str = "",
        host_seconds: float | None = None,
        lingers: bool = True,
        watch_as: str | None = None,
        is_gone: Callable[[], bool] | None = None,
    ) -> Report:
        """Process what is due, within the budget; return what was done.

        Args:
            caller: Who asked, for the tick's row.
            host_seconds: The host's own limit for this call, where it has a shorter one than the settings.
            watch_as: The listener whose tick this is; None: nobody's but its own.
            is_gone: Whether the caller has hung up, for the tick's row; None where nobody can tell.
            lingers: Keep the watch for `linger_seconds`, where they are set; False only looks what is due now.

        Raises:
            DatabaseUnavailable: The database could not be reached, or was busy (`DatabaseBusy`); what was claimed
                returns when its lease ends.
            SchemaOutdated: The tables are missing.
        """
        started = self._monotonic()
        if not self.settings.enabled:
            return Report(enabled=False)
        turn = self.process.turn
        patience = self.settings.linger_seconds if lingers else 0.0
        holder = None if self.process.is_stopping.is_set() else turn.take(patience_seconds=patience, caller=caller)
        if holder is None:
            with self.database.connection() as connection:
                remaining = tick_store.due(connection)
            return Report(busy=True, remaining=remaining, more=remaining > 0, duration_ms=self._since(started))
        try:
            tick = Tick(
                self.process,
                started,
                caller=Caller(caller, is_gone, started),
                host_seconds=host_seconds,
                lingers=lingers,
                watch_as=watch_as,
            )
            report = _traced(tick, caller, is_asked_again=lambda: turn.goes_on(holder))
        except Exception as error:
            if self._beat is not None:
                self._beat(has_failed=True)
            if isinstance(error, psycopg.Error) and refusal_of_the_moment(error) is not None:
                raise DatabaseBusy(f"the tick could not go on, {type(error).__name__} ({error.sqlstate})") from error
            raise
        finally:
            turn.end(holder)
        report.duration_ms = self._since(started)
        if self._beat is not None:
            self._beat(has_failed=False)
        return report

    def _since(self, started: float) -> int:
        return round((self._monotonic() - started) * 1000)


def _traced(tick: Tick, caller: str, *, is_asked_again: Callable[[], bool]) -> Report:
    """Run a tick, in a span of its own where the process traces."""
    tracer = tracing.tracer() if tracing.API in sys.modules else None
    if tracer is None:
        return tick.run(is_asked_again=is_asked_again)
    with tracing.tick(tracer, caller) as span:
        report = tick.run(is_asked_again=is_asked_again)
        tracing.tell(span, report.counts() | {"tick_id": report.tick_id or ""})
    return report


def _tally(registry: Registry, settings: Settings) -> Tally | None:
    """Return what counts for `/metrics`; None where the library that shows it is not installed."""
    if find_spec("prometheus_client") is None:
        return None
    return Tally(registry.types, settings.webhooks.endpoints)
