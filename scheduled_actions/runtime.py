"""Runtime: builds and wires the objects of one project; registers the hooks."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from scheduled_actions.actions.settling import Settler
from scheduled_actions.core import config as configuration
from scheduled_actions.core.errors import NotConfigured
from scheduled_actions.database.bounded import Limits
from scheduled_actions.database.connection import Database
from scheduled_actions.operations.request_threads import RequestThreads, threads_of_gunicorn
from scheduled_actions.registry import Registry
from scheduled_actions.registry.function_calls import all_within
from scheduled_actions.schedules import store as schedule_store
from scheduled_actions.schedules.deferred import PLANNING_CALLS, DeferredPlanning
from scheduled_actions.schedules.planner import Planner, UnplannedSchedules
from scheduled_actions.schedules.planning_threads import PlanningThreads
from scheduled_actions.schedules.rule_lookup import ScheduleRules
from scheduled_actions.schedules.series import Series
from scheduled_actions.ticks import Processor
from scheduled_actions.ticks.hooks import Hooks, NamedStep
from scheduled_actions.ticks.maintenance import Maintenance
from scheduled_actions.webhooks import fifo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from scheduled_actions.actions.evaluation import Asking, Do
    from scheduled_actions.actions.for_each import ForEach
    from scheduled_actions.actions.rules.settlement import Held, Outcome
    from scheduled_actions.actions.service import Scheduler
    from scheduled_actions.actions.validation import PayloadAccess, Preparation
    from scheduled_actions.calendar.days import CalendarDays
    from scheduled_actions.calendar.feeds import Feeds
    from scheduled_actions.calendar.service import Calendar
    from scheduled_actions.conditions.external_checks import Asker
    from scheduled_actions.conditions.facts import Facts
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.core.config import Config
    from scheduled_actions.core.requester import Requester
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.database.embedded import LocalPostgres
    from scheduled_actions.deadlines.preview import DeadlineForesight
    from scheduled_actions.notifications.local_scheduling import LocalScheduling
    from scheduled_actions.notifications.planning import Notifications
    from scheduled_actions.notifications.sending import Sender
    from scheduled_actions.operations.heartbeat import Heartbeat
    from scheduled_actions.operations.rejected_pings import Refusals
    from scheduled_actions.operations.simulation.service import Simulator
    from scheduled_actions.schedules.service import Schedules
    from scheduled_actions.ticks.hooks import Guard
    from scheduled_actions.ticks.wake import Wake
    from scheduled_actions.ticks.worker_state import Process as WorkerState
    from scheduled_actions.webhooks.deliveries import Deliveries
    from scheduled_actions.webhooks.endpoints.registry import EndpointBook
    from scheduled_actions.webhooks.endpoints.service import Endpoints

#: Where good ticks are told of; kept like a secret, for whoever has it can tell of ticks that never were.
HEARTBEAT_URL = f"{configuration.PREFIX}HEARTBEAT_URL"
#: Set by hosts that freeze a process between two requests.
_FREEZING = ("VERCEL", "AWS_LAMBDA_FUNCTION_NAME", "K_SERVICE")
#: One of them shows that a directory is a project.
_OF_PROJECTS = ("handlers", configuration.TOML_NAME, ".scheduled_actions")

_T = TypeVar("_T")


class _part(cached_property[_T]):  # noqa: N801 - a decorator
    """Made once, whichever threads ask first: two processors would be two ticks at a time in one process."""

    def __get__(self, runtime: Runtime, owner: type[Any] | None = None) -> _T:  # type: ignore[override]  # of instances
        with runtime.making:
            return super().__get__(runtime, owner)


class Runtime:
    """A project's parts, each made when it is first needed.

    Args:
        config: Settings and secrets.
        registry: Handlers; None: the project's generated registry.
    """

    def __init__(self, config: Config, *, registry: Registry | None = None) -> None:
        self.config = config
        self._given_registry = registry
        self._local: LocalPostgres | None = None
        self._lock = threading.Lock()
        self._unplanned = UnplannedSchedules()
        #: Held while a part is made, which may need others.
        self.making = threading.RLock()

    @_part
    def registry(self) -> Registry:
        """The handlers of this build."""
        registry = self._given_registry or Registry.load(self.config.project)
        registry.calls.timeout_seconds = self.config.settings.function_timeout_seconds
        return registry

    @_part
    def database(self) -> Database:
        """The way to the project's database."""
        return Database(
            self.find_dsn,
            keep=self.config.settings.concurrency // 2 + 4,
            is_direct=self.config.settings.database_direct,
            limits=Limits(statement_seconds=self.config.settings.statement_timeout_seconds),
        )

    @property
    def emits_events(self) -> bool:
        """Whether events of the package's own reach anybody: this build has a handler of `webhook:send`."""
        return "webhook:send" in self.registry.types

    @_part
    def request_threads(self) -> RequestThreads:
        """Limits the requests of the API and the dashboard at once."""
        return RequestThreads(threads_of_gunicorn() or self.config.settings.http_threads)

    @_part
    def scheduler(self) -> Scheduler:
        """Schedules, reads and changes actions."""
        # Loaded with the first that is scheduled: a tick that finds nothing due does without.
        from scheduled_actions.actions.service import Scheduler  # noqa: PLC0415 - as said

        return Scheduler(self.database, self.payload_access, self.preparation, self.settler, self.wake)

    @_part
    def payload_access(self) -> PayloadAccess:
        """Validates types and payloads."""
        from scheduled_actions.actions.validation import PayloadAccess  # noqa: PLC0415 - as above

        return PayloadAccess(self.registry, {"webhook:send": self._check_event, "for_each:run": self._check_for_each})

    def _check_event(self, payload: dict[str, Any], requester: Requester) -> dict[str, Any]:
        from scheduled_actions.webhooks.access import check_event  # noqa: PLC0415 - asked over HTTP alone

        return check_event(self.database, payload, requester)

    def _check_for_each(self, payload: dict[str, Any], requester: Requester) -> dict[str, Any]:
        from scheduled_actions.actions.for_each import check_payload  # noqa: PLC0415 - as above

        def check_follow_ups(given: Mapping[str, Any]) -> object:
            return self.preparation.extras(given, requester=requester, team_id=requester.team_id)

        return check_payload(
            payload,
            requester,
            access=self.payload_access,
            settings=self.config.settings,
            check_follow_ups=check_follow_ups,
        )

    @_part
    def preparation(self) -> Preparation:
        """Checks new actions against the handlers."""
        from scheduled_actions.actions.validation import Preparation  # noqa: PLC0415 - as above

        return Preparation(self.database, self.registry, self.config.settings, self.payload_access)

    @_part
    def wake(self) -> Wake:
        """Has a tick look at once for what is due now."""
        from scheduled_actions.ticks.wake import Wake  # noqa: PLC0415 - as above

        return Wake(self.config.settings.url, self.config.cron_secret, self.database, self._ask_here)

    @property
    def worker_state(self) -> WorkerState | None:
        """What the ticks of this process share; None before the first tick."""
        processor: Processor | None = self.__dict__.get("processor")
        return None if processor is None else processor.process

    def _ask_here(self, *, has_changed: bool) -> bool:
        """Tell the tick at work in this process that something is due; whether there is one."""
        state = self.worker_state
        return state is not None and state.turn.ask(has_changed=has_changed)

    @_part
    def schedule_rules(self) -> ScheduleRules:
        """The rules of schedules."""
        return ScheduleRules(self.database, self.registry)

    @_part
    def _planner(self) -> Planner:
        return Planner(self.schedule_rules, self._unplanned)

    @_part
    def _deferred(self) -> DeferredPlanning:
        return DeferredPlanning(self.database, self.registry, self._planner, self._unplanned)

    @_part
    def series(self) -> Series:
        """Plans what recurs."""
        return Series(self._planner, self._deferred, self._unplanned)

    @_part
    def settler(self) -> Settler:
        """Settles actions, with what features add to that."""
        return Settler((self.series,))

    @_part
    def schedules(self) -> Schedules:
        """Makes, reads and changes schedules."""
        from scheduled_actions.schedules.service import Schedules  # noqa: PLC0415 - as above

        return Schedules(self.database, self.registry, self.series, self._extras, self.payload_access)

    def _prepare(self, action_type: str, payload: Any, /, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        """Return a follow-up, validated; what that takes is loaded with the first."""
        return self.scheduler.prepare(action_type, payload, **options)

    def _extras(self, given: Mapping[str, Any], *, requester: Requester | None, team_id: str | None) -> dict[str, Any]:
        """Return a condition and follow-ups of a schedule as its columns; loaded likewise."""
        return self.preparation.extras(given, requester=requester, team_id=team_id)

    @_part
    def deadlines(self) -> DeadlineForesight:
        """Sets, reads and changes deadlines."""
        # Loaded with the first deadline.
        from scheduled_actions.deadlines.preview import DeadlineForesight  # noqa: PLC0415 - as said

        return DeadlineForesight(self.database, self.payload_access, self.notifications)

    @_part
    def facts(self) -> Facts:
        """What the application says is so."""
        from scheduled_actions.conditions.facts import Facts  # noqa: PLC0415 - most projects have none

        return Facts(self.database, self.wake)

    @_part
    def asker(self) -> Asker:
        """Asks the world for conditions."""
        from scheduled_actions.conditions.external_checks import Asker  # noqa: PLC0415 - as above

        return Asker(self.database, self.registry, self.config.settings)

    @_part
    def for_each(self) -> ForEach:
        """Makes actions of the rows of queries."""
        from scheduled_actions.actions.for_each import ForEach  # noqa: PLC0415 - as above

        return ForEach(self.database, self.scheduler, self.config.settings)

    @_part
    def maintenance(self) -> Maintenance:
        """Rescues and prunes."""
        prunes = (self._prune_waits, self._prune_rows, self._prune_deadlines)
        return Maintenance(self.database, self.registry, self.config.settings, self.settler, prunes)

    @_part
    def endpoint_book(self) -> EndpointBook:
        """The webhook endpoints, as deliveries need them."""
        # Loaded with the first event, and pydantic and much else with it.
        from scheduled_actions.webhooks.endpoints.registry import EndpointBook  # noqa: PLC0415 - as said

        return EndpointBook(self.config, self.database)

    @_part
    def endpoints(self) -> Endpoints:
        """The webhook endpoints, as people make and change them."""
        from scheduled_actions.webhooks.endpoints.service import Endpoints  # noqa: PLC0415 - as above

        return Endpoints(self.database, self.config, self.endpoint_book)

    @_part
    def deliveries(self) -> Deliveries:
        """The webhook deliveries, as people look at them and send them again."""
        from scheduled_actions.webhooks.deliveries import Deliveries  # noqa: PLC0415 - as above

        return Deliveries(self.database, self.endpoint_book)

    @_part
    def feeds(self) -> Feeds:
        """What calendar programs read."""
        from scheduled_actions.calendar.feeds import Feeds  # noqa: PLC0415 - only for those who ask

        return Feeds(self.database, self.schedule_rules)

    @_part
    def simulator(self) -> Simulator:
        """Looks ahead."""
        from scheduled_actions.operations.simulation.service import Simulator  # noqa: PLC0415 - only for those who ask

        return Simulator(self.database, self.schedule_rules, self.config.settings)

    @_part
    def notifications(self) -> Notifications:
        """Knows whom notices reach, when and how, and plans them."""
        from scheduled_actions.notifications.planning import Notifications  # noqa: PLC0415 - as above

        return Notifications(self.config, self.registry, self.database, self.scheduler)

    @_part
    def sender(self) -> Sender:
        """Sends notices."""
        from scheduled_actions.deadlines import store as deadlines  # noqa: PLC0415 - as above
        from scheduled_actions.notifications.sending import Sender  # noqa: PLC0415 - as above

        return Sender(self.notifications, self.database, holding=deadlines.holding, prove=deadlines.keep_notices)

    @_part
    def refusals(self) -> Refusals:
        """Counts refused pings."""
        from scheduled_actions.operations.rejected_pings import Refusals  # noqa: PLC0415 - a tick does without

        return Refusals(self.database)

    @_part
    def calendar(self) -> Calendar:
        """Shows what is to come."""
        from scheduled_actions.calendar.service import Calendar  # noqa: PLC0415 - only for those who ask

        return Calendar(self.database, self.schedule_rules)

    @_part
    def local_scheduling(self) -> LocalScheduling:
        """Schedules for users at a time of day on each one's own clock."""
        from scheduled_actions.notifications.local_scheduling import LocalScheduling  # noqa: PLC0415 - only for those who ask

        usual_zone = self.config.settings.notifications.timezone
        return LocalScheduling(self.database, self.scheduler, self.schedules, self.schedule_rules, usual_zone)

    @_part
    def calendar_days(self) -> CalendarDays:
        """Counts what the days of a calendar hold."""
        from scheduled_actions.calendar.days import CalendarDays  # noqa: PLC0415 - only for those who ask

        return CalendarDays(self.database, self.schedule_rules)

    @_part
    def processor(self) -> Processor:
        """Ticks."""
        return Processor(
            database=self.database,
            registry=self.registry,
            settings=self.config.settings,
            maintenance=self.maintenance,
            settler=self.settler,
            hooks=self._hooks(),
            prepare=self._prepare,
            beat=self._beat if self.has_heartbeat else None,
            heartbeat_outcome=self._heartbeat_outcome if self.has_heartbeat else None,
        )

    # -- hooks of the tick: what they need is loaded with the first action that needs it ----------------------------

    def _hooks(self) -> Hooks:
        series = self.series
        return Hooks(
            prepare=(
                NamedStep("webhooks", self._share_fifo_endpoints),
                NamedStep("schedules", self._sync_schedules),
            ),
            sweep=(NamedStep("sweep", series.sweep),),
            after_claim=(series,),
            evaluate=self._evaluate,
            check_external=self._check_external,
            around_attempt=(_DeadlineGuards(self.database),),
            background=lambda on_finished: PlanningThreads(self._deferred, self._unplanned, on_finished),
            next_occurrence=self.schedule_rules.next_of,
        )

    def _share_fifo_endpoints(self, connection: Connection) -> None:
        """Let the database know which of the file's endpoints keep order."""
        fifo.share(connection, self.config.settings.webhooks.endpoints)

    def _sync_schedules(self, connection: Connection) -> None:
        """Bring the declared schedules up to date where they have changed."""
        if schedule_store.synced(connection) != self.registry.recurrences_digest:
            self.schedules.sync(connection)

    def _evaluate(self, claimed: Sequence[Claimed], do: Do) -> Mapping[UUID, Held | Asking]:
        from scheduled_actions.actions import evaluation  # noqa: PLC0415 - most projects have no conditions

        return evaluation.judge(claimed, do)

    def _check_external(self, asking: Asking, claimed: Claimed, do: Do) -> Held | None:
        from scheduled_actions.actions import evaluation  # noqa: PLC0415 - as above

        return evaluation.ask(asking, claimed, self.asker.ask, do)

    @staticmethod
    def _prune_waits(connection: Connection, limit: int) -> int:
        from scheduled_actions.actions import waits  # noqa: PLC0415 - as above

        return waits.prune(connection, limit=limit)

    @staticmethod
    def _prune_rows(connection: Connection, limit: int) -> int:
        from scheduled_actions.actions import rows_store  # noqa: PLC0415 - as above

        return rows_store.prune(connection, limit=limit)

    def _prune_deadlines(self, connection: Connection, limit: int) -> int:
        from scheduled_actions.deadlines import store  # noqa: PLC0415 - as above

        return store.prune(connection, retention_days=self.config.settings.retention_deadlines_days, limit=limit)

    @_part
    def heartbeat(self) -> Heartbeat:
        """Tells somebody outside of each good tick."""
        # With the first beat come HTTP and what else it needs.
        from scheduled_actions.operations.heartbeat import Heartbeat  # noqa: PLC0415 - as said
        from scheduled_actions.outbound.reach import reach_of  # noqa: PLC0415 - as said

        environ = self.config.environ
        return Heartbeat(
            self.heartbeat_url,
            reach=reach_of(self.config.settings.webhooks, is_tenants=False),
            waits=any(environ.get(name) for name in _FREEZING),
        )

    @property
    def has_heartbeat(self) -> bool:
        """Whether somebody outside is to be told of ticks."""
        return bool(self.heartbeat_url)

    @property
    def heartbeat_url(self) -> str:
        """Whom to tell; empty for nobody. Whoever has it can fake a beat: it is told nowhere."""
        return self.config.environ.get(HEARTBEAT_URL, "").strip()

    def _beat(self, *, has_failed: bool) -> None:
        self.heartbeat.beat(has_failed=has_failed)

    def _heartbeat_outcome(self) -> str:
        from scheduled_actions.operations.doctor.rules.heartbeat import UNSENT  # noqa: PLC0415 - only where there is one

        # Asking makes none: that waits for the first beat.
        made: Heartbeat | None = self.__dict__.get("heartbeat")
        return UNSENT if made is None else made.outcome

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Bound the calls of project functions that one request needs; plan what its transactions left unplanned."""
        with all_within(PLANNING_CALLS * self.config.settings.function_timeout_seconds):
            yield
            if "settler" in self.__dict__:
                self.settler.finish_left()

    def find_dsn(self) -> str:
        """Return the data source name: `DATABASE_URL`, or the embedded Postgres, started when it does not run.

        Raises:
            NotConfigured: `DATABASE_URL` is unset where an embedded database would be a mistake: in production, or in a
                directory that holds no project.
        """
        url = self.config.database_url.reveal()
        if url:
            return url
        if self.config.is_production:
            raise NotConfigured(
                "DATABASE_URL",
                "a postgresql:// address; the embedded Postgres is for development, not for Vercel or production",
            )
        from scheduled_actions.database import embedded as local_postgres  # noqa: PLC0415 - only where there is no DATABASE_URL

        project = self.config.project
        if not any((project / name).exists() for name in _OF_PROJECTS):
            # An empty database in a wrong directory would answer that there is nothing to see.
            raise NotConfigured(
                "DATABASE_URL",
                f"{project} is no project with a Postgres of its own, for it has neither handlers/ nor "
                f"{configuration.TOML_NAME}; set it, or run this in the project's directory",
            )
        with self._lock:
            if self._local is None:
                self._local = local_postgres.attach(project / ".scheduled_actions")
            return self._local.dsn

    def close(self) -> None:
        """Let the threads end, close the connections, leave the embedded Postgres; the last to leave stops it."""
        if "processor" in self.__dict__:
            self.processor.close()
        self.database.close()
        with self._lock:
            local, self._local = self._local, None
        if local is not None:
            local.close()


class _DeadlineGuards:
    """Looks at the deadline of an action once more before its handler is called."""

    column = "deadline_id"
    subject = "its deadline"

    def __init__(self, database: Database) -> None:
        self._database = database

    def before_attempt(self, claimed: Claimed) -> Guard | Outcome | None:
        """Note that the action begins; return what guards it, or what becomes of it instead."""
        from scheduled_actions.deadlines import guard  # noqa: PLC0415 - loaded with the first action of a deadline

        return guard.begin(self._database, claimed)


_current: Runtime | None = None
_current_lock = threading.Lock()


def current() -> Runtime:
    """Return the process's runtime: the project of the working directory unless `use` said otherwise.

    Raises:
        ConfigInvalid: The project's settings cannot be used.
    """
    global _current  # noqa: PLW0603 - one runtime a process
    with _current_lock:
        if _current is None:
            _current = Runtime(configuration.load(None, os.environ))
        return _current


def use(runtime: Runtime | None) -> Runtime | None:
    """Make `runtime` the process's own, or forget it; return the one before."""
    global _current
    with _current_lock:
        before, _current = _current, runtime
        return before


def stop_on_sigterm() -> None:
    """On SIGTERM start nothing more, then do what was to be done before; nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGTERM)

    def stop(number: int, frame: object) -> None:
        runtime = _current
        if runtime is not None and "processor" in runtime.__dict__:
            runtime.processor.stop()
        if callable(before):
            before(number, frame)  # type: ignore[arg-type]  # a frame, as signal hands it over
        elif before == signal.SIG_DFL:
            raise SystemExit(128 + number)

    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, stop)
