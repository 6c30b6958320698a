"""Runtime: build and connect the objects of one project, and register the hooks of the tick."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from scheduled_actions.actions.rules.settlement import AttemptResult, Outcome
from scheduled_actions.actions.settling import Settler
from scheduled_actions.core import config as configuration
from scheduled_actions.core.action import Claimed
from scheduled_actions.core.errors import NotConfigured
from scheduled_actions.database import bounded, handoff, shared_settings
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.operations.request_threads import RequestThreads, threads_of_gunicorn
from scheduled_actions.registry import Registry
from scheduled_actions.registry.project_functions import total_time_limit
from scheduled_actions.schedules import deferred, planner, store
from scheduled_actions.ticks import Processor, hooks
from scheduled_actions.ticks.wake import PingTarget, TickWaker
from scheduled_actions.ticks.worker_state import MakeDispatch, WorkerState

if TYPE_CHECKING:
    from scheduled_actions.actions.claims import ClaimHook
    from scheduled_actions.actions.evaluation import Do, PendingCheck
    from scheduled_actions.actions.management import ActionOperations
    from scheduled_actions.actions.service import Scheduler
    from scheduled_actions.actions.validation import ActionValidator, PayloadValidator
    from scheduled_actions.calendar.feeds import Feeds
    from scheduled_actions.calendar.service import CalendarService
    from scheduled_actions.conditions.external_checks import ExternalChecker
    from scheduled_actions.conditions.facts import Facts
    from scheduled_actions.core.requester import Requester
    from scheduled_actions.database.embedded import LocalPostgres
    from scheduled_actions.deadlines.service import Deadlines
    from scheduled_actions.deadlines.validation import DeadlineValidator
    from scheduled_actions.executors.dispatch import TicketSenders
    from scheduled_actions.executors.service import Executors
    from scheduled_actions.limits.pauses import Pauses
    from scheduled_actions.limits.service import LimitKeys
    from scheduled_actions.notifications.local_scheduling import LocalScheduling
    from scheduled_actions.notifications.planning import Notifications
    from scheduled_actions.notifications.sending import Sender
    from scheduled_actions.operations.heartbeat import Heartbeat
    from scheduled_actions.operations.rejected_pings import RejectedPings
    from scheduled_actions.operations.simulation.service import Simulator
    from scheduled_actions.schedules.rule_lookup import ScheduleRules
    from scheduled_actions.schedules.series import ScheduleHook
    from scheduled_actions.schedules.service import Schedules
    from scheduled_actions.ticks.maintenance import Maintenance
    from scheduled_actions.webhooks.deliveries import Deliveries
    from scheduled_actions.webhooks.endpoints.directory import EndpointDirectory
    from scheduled_actions.webhooks.endpoints.service import Endpoints


#: Variable with the URL to which ticks are reported; a secret, because anyone who has it can send false reports.
HEARTBEAT_URL = f"{configuration.PREFIX}HEARTBEAT_URL"
#: Environment variables that are set by hosts that freeze processes between requests.
_FREEZING = ("VERCEL", "AWS_LAMBDA_FUNCTION_NAME", "K_SERVICE")
#: A project directory contains at least one of these.
_OF_PROJECTS = ("handlers", configuration.TOML_NAME, ".scheduled_actions")

_T = TypeVar("_T")


class _part(cached_property[_T]):  # noqa: N801 - a decorator
    """A property whose value is built once, even with several threads: two processors would run two ticks at once."""

    def __get__(self, runtime: Runtime, owner: type[Any] | None = None) -> _T:  # type: ignore[override]  # of instances
        with runtime.making:
            return super().__get__(runtime, owner)


class _lazy(_part[_T]):  # noqa: N801 - as `_part`
    """A part whose module is imported on first use: an idle tick does not need it.

    Args:
        location: `MODULE:CLASS`, below `scheduled_actions`.
        arguments: The runtime's attributes to pass to the constructor, in order; `a.b` is attribute `b` of `a`.
    """

    def __init__(self, location: str, *arguments: str) -> None:
        super().__init__(lambda runtime: _imported(location)(*(attrgetter(one)(runtime) for one in arguments)))


def _imported(location: str) -> Any:  # noqa: ANN401 - a class or a function
    """Import and return `MODULE:NAME` of this package."""
    module, _, name = location.partition(":")
    return getattr(import_module(f"scheduled_actions.{module}"), name)


def _later(location: str) -> Callable[..., Any]:
    """Return a function that calls `MODULE:NAME`, and imports the module on the first call."""

    def call(*values: Any, **named: Any) -> Any:  # noqa: ANN401 - those of the function
        return _imported(location)(*values, **named)

    return call


class Runtime:
    """The objects of a project, each built on first use.

    Args:
        config: Settings and secrets.
        registry: Handlers; None: the project's generated registry.
        may_create_database: Create an embedded database if there is none, even if the settings do not ask for it.
    """

    def __init__(
        self, config: configuration.Config, *, registry: Registry | None = None, may_create_database: bool = False
    ) -> None:
        self.config = config
        self._may_create_database = may_create_database or config.may_create_database
        self._given_registry = registry
        self._local: LocalPostgres | None = None
        self._lock = threading.Lock()
        #: Held while an object is built, which may build others.
        self.making = threading.RLock()

    @_part
    def registry(self) -> Registry:
        """The handlers and functions of this build."""
        registry = self._given_registry or Registry.load(self.config.project)
        registry.calls.timeout_seconds = self.config.settings.function_timeout_seconds
        return registry

    @_part
    def database(self) -> Database:
        """Connections to the project's database."""
        return Database(
            self.find_dsn,
            keep=self.config.settings.concurrency // 2 + 4,
            is_direct=self.config.settings.database_direct,
            limits=bounded.StatementLimits(statement_seconds=self.config.settings.statement_timeout_seconds),
        )

    @property
    def emits_events(self) -> bool:
        """Whether this build has a handler for `webhook:send`, so that the package's own events are delivered."""
        return "webhook:send" in self.registry.types

    @_part
    def request_threads(self) -> RequestThreads:
        """Limits concurrent requests of the API and the dashboard."""
        return RequestThreads(threads_of_gunicorn() or self.config.settings.http_threads)

    #: Schedules, reads and changes actions.
    scheduler: _lazy[Scheduler] = _lazy("actions.service:Scheduler", "database", "action_validator", "settler", "wake")
    #: Counts, finds and changes actions for the management API.
    action_operations: _lazy[ActionOperations] = _lazy(
        "actions.management:ActionOperations", "database", "_find_scheduler", "wake"
    )

    @_part
    def payload_validator(self) -> PayloadValidator:
        """Validates types and payloads."""
        from scheduled_actions.actions.validation import PayloadValidator  # noqa: PLC0415 - loaded on first use

        return PayloadValidator(
            self.registry,
            {
                "webhook:send": partial(_later("webhooks.endpoints.service:check_event"), self.database),
                "for_each:run": self._check_for_each,
            },
        )

    def _find_scheduler(self) -> Scheduler:
        return self.scheduler

    def _check_for_each(self, payload: dict[str, Any], requester: Requester) -> dict[str, Any]:
        from scheduled_actions.actions.for_each import check_payload  # noqa: PLC0415 - loaded on first use

        return check_payload(payload, requester, self.action_validator)

    #: Checks new actions against the handlers.
    action_validator: _lazy[ActionValidator] = _lazy(
        "actions.validation:ActionValidator", "database", "config.settings", "payload_validator"
    )

    #: Wakes a tick for actions that have become due.
    wake: _lazy[TickWaker] = _lazy("ticks.wake:TickWaker", "_find_ping_target", "database", "_notify_own_tick")

    def _find_ping_target(self) -> PingTarget | None:
        """Return where a due action is announced: the setting `url`, or the `dev` that serves the project."""
        if (url := self.config.settings.url) is not None:
            secret = self.config.cron_secret
            return PingTarget(url=url, secret=secret, is_expected=True) if secret.is_usable else None
        dev = handoff.find(self.config)
        return None if dev is None else PingTarget(url=dev.url, secret=dev.secret, is_expected=False)

    @property
    def worker_state(self) -> WorkerState | None:
        """The state that the ticks of this process share; None before the processor is built."""
        processor: Processor | None = self.__dict__.get("processor")
        return None if processor is None else processor.state

    def _notify_own_tick(self, *, has_changed: bool) -> bool:
        """Notify the running tick of this process that actions may be due; return whether a tick is running."""
        state = self.worker_state
        return state is not None and state.single_flight.notify(has_changed=has_changed)

    #: Looks up the rules of schedules.
    schedule_rules: _lazy[ScheduleRules] = _lazy("schedules.rule_lookup:ScheduleRules", "database", "registry")

    @_part
    def _deferred(self) -> deferred.DeferredPlanning:
        return deferred.DeferredPlanning(planner.Planner(self.schedule_rules))

    #: Plans the occurrences of schedules.
    series: _lazy[ScheduleHook] = _lazy("schedules.series:ScheduleHook", "_deferred")

    @_part
    def settler(self) -> Settler:
        """Settles actions, and plans the next occurrences of their schedules."""
        return Settler((self.series,))

    #: Creates, reads and changes schedules.
    schedules: _lazy[Schedules] = _lazy(
        "schedules.service:Schedules", "database", "registry", "series", "action_validator", "wake"
    )

    def _prepare(self, action_type: str, payload: Any, /, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        """Return a validated follow-up as columns; the first call loads the modules."""
        return self.action_validator.row({**options, "action_type": action_type, "payload": payload})

    #: Checks new and changed deadlines.
    deadline_validator: _lazy[DeadlineValidator] = _lazy(
        "deadlines.validation:DeadlineValidator", "action_validator", "notifications.recipients"
    )

    #: Sets, reads and changes deadlines.
    deadlines: _lazy[Deadlines] = _lazy("deadlines.service:Deadlines", "database", "deadline_validator", "wake")

    #: Facts that the application reports.
    facts: _lazy[Facts] = _lazy("conditions.facts:Facts", "database", "wake")

    #: Lists limit keys.
    limits: _lazy[LimitKeys] = _lazy("limits.service:LimitKeys", "database")

    #: Runs the external checks of conditions: queries, HTTP requests and project functions.
    external_checker: _lazy[ExternalChecker] = _lazy(
        "conditions.external_checks:ExternalChecker", "database", "registry", "config.settings"
    )

    #: Rescues actions and prunes old rows.
    maintenance: _lazy[Maintenance] = _lazy("ticks.maintenance:Maintenance", "processor.state")

    #: Pauses and resumes, and lists what is paused.
    pauses: _lazy[Pauses] = _lazy("limits.pauses:Pauses", "database", "registry", "config.settings", "wake")

    #: Looks up webhook endpoints for deliveries.
    endpoint_directory: _lazy[EndpointDirectory] = _lazy(
        "webhooks.endpoints.directory:EndpointDirectory", "config", "database"
    )

    #: Creates, reads and changes webhook endpoints.
    endpoints: _lazy[Endpoints] = _lazy(
        "webhooks.endpoints.service:Endpoints", "database", "config", "endpoint_directory", "wake"
    )

    #: Lists and resends webhook deliveries.
    deliveries: _lazy[Deliveries] = _lazy("webhooks.deliveries:Deliveries", "database", "endpoint_directory", "wake")

    #: Creates, lists, renders and revokes calendar feeds.
    feeds: _lazy[Feeds] = _lazy("calendar.feeds:Feeds", "database", "schedule_rules")

    #: Simulates future runs.
    simulator: _lazy[Simulator] = _lazy(
        "operations.simulation.service:Simulator", "database", "schedule_rules", "config.settings"
    )

    #: Plans notifications to people.
    notifications: _lazy[Notifications] = _lazy(
        "notifications.planning:Notifications", "config", "registry", "database", "scheduler"
    )

    @_part
    def sender(self) -> Sender:
        """Sends notifications."""
        from scheduled_actions.deadlines import changes, store  # noqa: PLC0415 - loaded on first use
        from scheduled_actions.notifications.sending import Sender  # noqa: PLC0415 - loaded on first use

        return Sender(self.notifications, self.database, store.valid_guards, store.insert_receipts, changes.plan_again)

    #: Counts rejected pings.
    rejected_pings: _lazy[RejectedPings] = _lazy("operations.rejected_pings:RejectedPings", "database")

    #: Reads the calendar, by page or by day.
    calendar: _lazy[CalendarService] = _lazy("calendar.service:CalendarService", "database", "schedule_rules")

    #: Schedules actions at a time of day in each user's time zone.
    local_scheduling: _lazy[LocalScheduling] = _lazy(
        "notifications.local_scheduling:LocalScheduling",
        "database",
        "scheduler",
        "schedules",
        "schedule_rules",
        "config.settings.notifications.timezone",
    )

    @_part
    def processor(self) -> Processor:
        """Runs ticks."""
        senders = self._ticket_senders
        return self._build_processor(
            self.config.settings,
            is_beating=bool(self.heartbeat_url),
            dispatch=None if senders is None else senders.of_tick,
        )

    def _build_processor(
        self,
        settings: configuration.Settings,
        *,
        is_beating: bool = False,
        dispatch: MakeDispatch | None = None,
    ) -> Processor:
        return Processor(
            database=self.database,
            registry=self.registry,
            settings=settings,
            settler=self.settler,
            hooks=self._hooks(),
            prepare=self._prepare,
            on_tick_end=self._beat if is_beating else None,
            heartbeat_outcome=self._heartbeat_outcome if is_beating else None,
            dispatch=dispatch,
        )

    #: Runs workers of executors, each with threads of its own, and lists the executors.
    executors: _lazy[Executors] = _lazy(
        "executors.service:Executors", "database", "config.settings", "_build_processor", "_claim_hooks", "_wake_tick"
    )

    @_part
    def _ticket_senders(self) -> TicketSenders | None:
        """Sends tickets to the brokers of executors; None if no executor has one."""
        if not any(one.has_broker for one in self.config.settings.executors.values()):
            return None
        from scheduled_actions.executors.dispatch import TicketSenders  # noqa: PLC0415 - most projects have no broker

        return TicketSenders(self.config.settings, self.config.environ, self._claim_hooks())

    def _wake_tick(self) -> None:
        self.wake.notify()

    def stop(self) -> None:
        """Let no further actions start in this process; running handlers go on within their time limits."""
        for name in ("processor", "executors"):
            if name in self.__dict__:
                self.__dict__[name].stop()

    # -- hooks of the tick: a module is loaded with the first action that needs it -----------------------------------

    def _hooks(self) -> hooks.Hooks:
        retention_days = self.config.settings.retention_deadlines_days
        prune_deadlines = partial(_later("deadlines.store:prune"), retention_days=retention_days)
        return hooks.Hooks(
            prepare=(
                hooks.NamedStep("webhooks", self._share_fifo_endpoints),
                hooks.NamedStep("limits", self._share_limits),
                hooks.NamedStep("executors", self._share_executors),
                hooks.NamedStep("schedules", self._sync_schedules),
            ),
            checks=(hooks.NamedStep("secrets", self._check_stored_secrets),),
            sweep=(
                hooks.NamedStep("sweep", self.series.sweep),
                hooks.NamedStep("waits", _later("actions.evaluation:sweep")),
            ),
            after_claim=self._claim_hooks(),
            evaluate=_later("actions.evaluation:evaluate"),
            check_external=self._check_external,
            around_attempt=(_DeadlineGuards(self.database),),
            prune=(
                _later("actions.waits:prune"),
                _later("actions.store:prune_rows"),
                prune_deadlines,
                *([_later("executors.takeover:prune_workers")] if self.config.settings.executors else []),
            ),
            background=lambda on_finished: deferred.PlanningThreads(self._deferred, on_finished),
            next_occurrence=self.schedule_rules.next_of,
        )

    def _claim_hooks(self) -> tuple[ClaimHook, ...]:
        if not self.registry.has_limits:
            return (self.series,)
        from scheduled_actions.limits.handler_limits import HandlerLimits  # noqa: PLC0415 - most projects have none

        return (HandlerLimits(self.registry, self.config.settings.limits), self.series)

    def _share_fifo_endpoints(self, connection: Connection) -> None:
        """Store the names of the FIFO endpoints in the settings, because SQL functions order their deliveries."""
        endpoints = self.config.settings.webhooks.endpoints
        names = sorted(name for name, endpoint in endpoints.items() if endpoint.ordering == "fifo")
        shared_settings.write(connection, "webhook_fifo", names)

    def _share_limits(self, connection: Connection) -> None:
        """Store the limits in the database, where claims read them."""
        _imported("limits.store:write_rules")(connection, self.config.settings.limits)

    def _share_executors(self, connection: Connection) -> None:
        """Store the executors in the database, where claims read them; those of other processes stay."""
        if self.config.settings.executors:
            _imported("executors.store:write_executors")(connection, self.config.settings.executors, replace=False)

    def _check_stored_secrets(self, connection: Connection) -> None:
        """Check that the encryption key decrypts the stored secrets; otherwise, every delivery with one would fail."""
        _imported("operations.stored_secrets:check_database")(connection, self.config.encryption_keys)

    def _sync_schedules(self, connection: Connection) -> None:
        """Update the stored schedules if the declarations in the code have changed since the last update."""
        if store.synced(connection) != self.registry.recurrences_digest:
            _imported("schedules.sync:sync")(self.schedules, connection)

    def _check_external(self, pending: PendingCheck, claimed: Claimed, do: Do) -> AttemptResult | None:
        from scheduled_actions.actions import evaluation  # noqa: PLC0415 - loaded on first use

        return evaluation.run_checks(pending, claimed, self.external_checker.run, do)

    @_part
    def heartbeat(self) -> Heartbeat:
        """Reports successful and failed ticks to an external monitor."""
        from scheduled_actions.operations.heartbeat import Heartbeat  # noqa: PLC0415 - loaded on first use
        from scheduled_actions.outbound.reach import reach_of  # noqa: PLC0415 - loaded on first use

        return Heartbeat(
            self.heartbeat_url,
            reach=reach_of(self.config.settings.webhooks, is_tenants=False),
            waits=any(self.config.environ.get(name) for name in _FREEZING),
        )

    @property
    def heartbeat_url(self) -> str:
        """URL of the external monitor; empty if not configured. It is a secret and never logged."""
        return self.config.environ.get(HEARTBEAT_URL, "").strip()

    def _beat(self, *, has_failed: bool) -> None:
        self.heartbeat.beat(has_failed=has_failed)

    def _heartbeat_outcome(self) -> str:
        from scheduled_actions.operations.doctor.rules.ticks import UNSENT  # noqa: PLC0415 - loaded only with a heartbeat

        # Reading the outcome must not build the heartbeat; the first beat does.
        made: Heartbeat | None = self.__dict__.get("heartbeat")
        return UNSENT if made is None else made.outcome

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Limit the total time of project functions in a request; then run the planning that the request deferred."""
        with total_time_limit(deferred.PLANNING_CALLS * self.config.settings.function_timeout_seconds):
            yield
            if "settler" in self.__dict__:
                self.settler.run_deferred()

    def find_dsn(self) -> str:
        """Return the data source name: `DATABASE_URL`, or that of the embedded Postgres, which is started if necessary.

        Raises:
            NotConfigured: `DATABASE_URL` is unset where an embedded database would be a mistake: in production, in a
                directory that is not a project, or where none exists and none was asked for.
            EmbeddedPostgresFailed: The embedded Postgres cannot be found or started.
        """
        if url := self.config.database_url.reveal():
            return url
        if self.config.is_production:
            raise NotConfigured(
                "DATABASE_URL",
                "set it to a postgresql:// address; the embedded Postgres is for development, not for Vercel or "
                "production",
            )
        project = self.config.project
        if not any((project / name).exists() for name in _OF_PROJECTS):
            # In a wrong directory, a new and empty database would hide the mistake.
            raise NotConfigured(
                "DATABASE_URL",
                f"{project} is not a project, because it has neither handlers/ nor {configuration.TOML_NAME}; set "
                "DATABASE_URL, or run the command in the project's directory",
            )
        with self._lock:
            if self._local is None:
                self._local = _imported("database.embedded:attach")(
                    project / ".scheduled_actions", may_create=self._may_create_database
                )
            return self._local.dsn

    def restart_embedded(self) -> bool:
        """Start the embedded Postgres again if it is used and has ended; return whether it had.

        Raises:
            EmbeddedPostgresFailed: It could not be started.
            NotConfigured: Its data was deleted.
        """
        with self._lock:
            return self._local is not None and self._local.restart_if_ended()

    def close(self) -> None:
        """Stop the threads, close the connections and release the embedded Postgres, which stops with its last user."""
        for name in ("processor", "executors", "_ticket_senders"):
            if (part := self.__dict__.get(name)) is not None:
                part.close()
        self.database.close()
        with self._lock:
            local, self._local = self._local, None
        if local is not None:
            local.close()


class _DeadlineGuards:
    """Checks the deadline of an action before its handler is called."""

    column = "deadline_id"
    subject = "its deadline"

    def __init__(self, database: Database) -> None:
        self._database = database

    def before_attempt(self, claimed: Claimed) -> hooks.AttemptGuard | Outcome | None:
        """Record the start of the action; return its guard if there is one, or an outcome if it must not start."""
        from scheduled_actions.deadlines import handlers  # noqa: PLC0415 - loaded with the first action of a deadline

        return handlers.begin(self._database, claimed)


_current: Runtime | None = None
_current_lock = threading.Lock()


def current() -> Runtime:
    """Return the runtime of the process: the one set with `use`, or else that of the configured project.

    The project is `SCHEDULED_ACTIONS_PROJECT`, or the working directory.

    Raises:
        ConfigInvalid: The project's settings are invalid.
    """
    global _current  # noqa: PLW0603 - one runtime per process
    with _current_lock:
        if _current is None:
            _current = Runtime(configuration.load(None, os.environ))
        return _current


def use(runtime: Runtime | None) -> Runtime | None:
    """Set the runtime of the process, and return the previous one; None unsets it."""
    global _current
    with _current_lock:
        before, _current = _current, runtime
        return before


def stop_on_sigterm() -> None:
    """Install a SIGTERM handler that lets no further actions start, and then calls the previous handler.

    If SIGTERM had its default action, the process exits with status 143; if it was ignored, the process continues. Does
    nothing outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGTERM)

    def stop(number: int, frame: object) -> None:
        runtime = _current
        if runtime is not None:
            runtime.stop()
        if callable(before):
            before(number, frame)  # type: ignore[arg-type]  # a frame, as signal hands it over
        elif before == signal.SIG_DFL:
            raise SystemExit(128 + number)

    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, stop)
