"""`doctor` and `/readyz`: collect the facts about an installation, and return its checks."""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psycopg

from scheduled_actions.actions import store as action_store
from scheduled_actions.core.config import Config, EndpointSection, Settings
from scheduled_actions.core.errors import (
    DeploymentError,
    HandlerBroken,
    NotConfigured,
    RegistryInvalid,
    ScheduledActionsError,
    UrlInvalid,
)
from scheduled_actions.core.secret import Secret
from scheduled_actions.database import clock, handoff, migrate
from scheduled_actions.database.connection import Connection
from scheduled_actions.operations import registry_build
from scheduled_actions.operations.doctor import store
from scheduled_actions.operations.doctor.rules import (
    Check,
    database as database_rules,
    limits as limit_rules,
    project as project_rules,
    ticks as tick_rules,
)
from scheduled_actions.operations.installation import Installation
from scheduled_actions.registry import limit_keys
from scheduled_actions.ticks import store as tick_store
from scheduled_actions.ticks.rules.plan import TickBudget

#: Time limit for all queries of one diagnosis.
PATIENCE_SECONDS = 10.0
#: Maximum number of schedules, endpoints or types that are read for one check.
_NAMES_MOST = 20
#: Number of the latest completed actions whose results are read.
_RESULTS_MOST = 1000
#: Number of the oldest queued actions whose limit keys are read.
_QUEUED_MOST = 1000
#: Maximum number of listed cycles of actions that wait for one another.
_CYCLES_MOST = 20


def readiness(parts: Installation, *, patience_seconds: float = PATIENCE_SECONDS) -> list[Check]:
    """Return the checks that decide whether a ping would be processed; fast enough to run every few seconds.

    Args:
        parts: The installation.
        patience_seconds: Time limit for all queries together.
    """
    try:
        registry_check = project_rules.registry(len(parts.registry.types))
    except RegistryInvalid as error:
        registry_check = project_rules.registry(problem=str(error))
    return [
        project_rules.settings(None, is_enabled=parts.config.settings.enabled),
        _secret(parts.config.cron_secret, opens="/cron/process", is_optional=False),
        registry_check,
        threads(parts),
        *_ask_database(parts, _ready_database, patience_seconds=patience_seconds),
    ]


def diagnose(parts: Installation, *, patience_seconds: float = PATIENCE_SECONDS) -> list[Check]:
    """Return every check of an installation; imports every handler and project function.

    Args:
        parts: The installation.
        patience_seconds: Time limit for all queries together.
    """
    config = parts.config
    return [
        project_rules.settings(None, is_enabled=config.settings.enabled),
        _secret(config.cron_secret, opens="/cron/process", is_optional=False),
        _secret(config.admin_token, opens="the API", is_optional=True),
        *(
            _endpoint(parts, name, endpoint)
            for name, endpoint in sorted(config.settings.webhooks.endpoints.items())
            if endpoint.enabled
        ),
        _email(config),
        registry(config.project),
        *_handlers(parts),
        *_ask_database(parts, _whole_database, patience_seconds=patience_seconds),
        *_stray_databases(config),
    ]


def registry(project: Path) -> Check:
    """Check whether the generated registry matches the source of the handlers; no handler is imported."""
    try:
        built = registry_build.build(project)
    except RegistryInvalid as error:
        return project_rules.registry(problem=str(error))
    return project_rules.registry(len(built.handlers), is_fresh=built.is_fresh)


def threads(parts: Installation) -> Check:
    """Check the threads that run this process's handlers; before the first tick, none has started."""
    state = parts.worker_state
    return project_rules.threads(
        stuck=0 if state is None else state.threads.stuck,
        concurrency=parts.config.settings.concurrency,
        is_stopping=state is not None and state.is_stopping.is_set(),
    )


def exhausted_threads(parts: Installation) -> Check | None:
    """Return a fault if handlers that never returned occupy every thread; None if a thread is free."""
    state = parts.worker_state
    is_exhausted = state is not None and state.threads.stuck >= parts.config.settings.concurrency
    return threads(parts) if is_exhausted else None


def _secret(secret: Secret, *, opens: str, is_optional: bool) -> Check:
    return project_rules.secret(
        secret.name,
        opens=opens,
        is_set=bool(secret.reveal().strip()),
        is_usable=secret.is_usable,
        is_optional=is_optional,
    )


def _email(config: Config) -> Check:
    dev = handoff.find(config)
    return project_rules.email(config.settings.email.host, is_caught=dev is not None and dev.mail_port is not None)


def _endpoint(parts: Installation, name: str, endpoint: EndpointSection) -> Check:
    config = parts.config
    url = config.endpoint_url(endpoint)
    problem = f"{endpoint.env_var} is not set, so there is no URL to deliver to" if url is None else None
    if url is not None and (url_problem := _url_problem(url)) is not None:
        problem = f"{endpoint.env_var}: {url_problem}"
    try:
        config.endpoint_keys(endpoint)
    except NotConfigured as error:
        problem = problem or str(error)
    return project_rules.endpoint(
        name,
        problem=problem,
        exposure=parts.endpoint_directory.exposure(name),
        is_signed=endpoint.secret_env_var is not None,
    )


def _url_problem(url: str) -> str | None:
    from scheduled_actions.outbound import delivery  # noqa: PLC0415 - HTTP's modules, which readiness does without

    try:
        delivery.check_url(url)
    except UrlInvalid as error:
        return str(error)
    return None


def _handlers(parts: Installation) -> list[Check]:
    """Check that every handler and function can be imported; return no check if the registry cannot be read."""
    try:
        types = sorted(parts.registry.types)
    except RegistryInvalid:
        return []
    settings = parts.config.settings
    budget = TickBudget.by_settings(settings, started=0, host_seconds=None, lingers=False)
    broken: list[HandlerBroken] = []
    timeouts: dict[str, float] = {}
    declared = {action_type: parts.registry.declared(action_type) for action_type in types}
    for action_type in types:
        try:
            options = parts.registry.resolve(action_type).options
            timeouts[action_type] = options.timeout_seconds or settings.default_timeout_seconds
        except HandlerBroken as error:
            broken.append(error)
    functions = parts.registry.project_functions
    return [
        project_rules.handlers(
            len(types),
            functions=len(functions),
            broken=[str(error) for error in (*broken, *functions.load_all())],
            too_long={
                name: timeout
                for name, timeout in timeouts.items()
                if not budget.could_ever_fit(timeout) and not _has_executor(settings, name)
            },
            unmatched=limit_keys.unmatched(declared, settings.limits),
        )
    ]


def _has_executor(settings: Settings, action_type: str) -> bool:
    """Return whether workers run the type: they have no time limit of a tick."""
    if not settings.executors:
        return False
    from scheduled_actions.executors.model import is_of_types  # noqa: PLC0415 - most projects have no executors

    return any(is_of_types(action_type, one.types) for one in settings.executors.values())


def _ask_database(
    parts: Installation, ask: Callable[[Installation, Connection], Iterator[Check]], *, patience_seconds: float
) -> list[Check]:
    """Return the check `database`, and the checks that `ask` yields before any failure."""
    checks: list[Check] = []
    problem = None
    is_over = threading.Event()
    try:
        with parts.database.connection() as connection, store.ended_after(patience_seconds, [connection]) as is_over:
            checks.extend(ask(parts, connection))
    except ScheduledActionsError as error:
        problem = str(error)
    except psycopg.Error as error:
        problem = f"the database rejected a query: {type(error).__name__} ({error.sqlstate})"
    if problem and is_over.is_set():
        problem = (
            f"the queries took longer than {patience_seconds:g} seconds: another session may have locked the tables"
        )
    return [database_rules.database(problem), *checks]


def _ready_database(parts: Installation, connection: Connection) -> Iterator[Check]:
    migrations = store.migration_state(connection)
    yield database_rules.migrations(migrations)
    if migrations.found >= migrations.wanted:
        # `/readyz` is public, so the names of callers are not returned.
        yield from _ticks(parts, connection, store.pings(connection, names_callers=False), names_callers=False)


def _whole_database(parts: Installation, connection: Connection) -> Iterator[Check]:
    major, encoding, sees_all = store.sql.run_one(connection, "doctor_server")
    yield database_rules.server(major=major, encoding=encoding)
    yield database_rules.defaults(dict(store.sql.run(connection, "doctor_defaults")))
    migrations = store.migration_state(connection)
    yield database_rules.migrations(migrations)
    yield database_rules.clocks(store.clock_lead(connection))
    yield database_rules.transactions(store.old_transactions(connection), sees_all=sees_all)
    if migrations.found:
        yield database_rules.schema(*store.sql.run_one(connection, "doctor_schema"))
        pings = store.pings(connection)
        yield from _ticks(parts, connection, pings, names_callers=True)
        problem = _url_problem(parts.heartbeat_url) if parts.heartbeat_url else None
        yield tick_rules.heartbeat(tick_rules.recent(pings), is_set=bool(parts.heartbeat_url), problem=problem)
        if migrations.found >= migrations.wanted:
            yield from _work(connection, is_missing=tick_rules.is_missing(next(iter(pings), None)))
            yield from _executors(parts, connection)
            yield _webhook_filters(connection)
            yield database_rules.indexes(migrate.unfinished_indexes(connection))
            yield database_rules.functions_in_use(functions_in_use(connection))
    if migrations.found == migrations.wanted:
        yield from _stored_secrets(parts, connection)
    # Last, because it needs further connections, which the server may not have.
    is_shared, is_relayed = store.detect_pooler(parts.database.connect)
    yield database_rules.pooler(
        is_shared=is_shared, is_relayed=is_relayed, is_declared_direct=parts.config.settings.database_direct
    )


def functions_in_use(connection: Connection) -> dict[str, tuple[str, ...]]:
    """Return the objects that use SQL functions of earlier releases, by function; the schema must be up to date."""
    return {one.signature: one.users for one in migrate.removed_functions(connection) if one.users}


def _ticks(
    parts: Installation, connection: Connection, pings: list[tick_rules.Ping], *, names_callers: bool
) -> Iterator[Check]:
    settings = parts.config.settings
    last, recent = next(iter(pings), None), tick_rules.recent(pings)
    yield tick_rules.ticks(last, due=tick_store.count_due(connection), names_caller=names_callers)
    yield tick_rules.doubled_pings(recent)
    yield tick_rules.hung_up_pings(
        recent, max_run_seconds=settings.max_run_seconds, linger_seconds=settings.linger_seconds
    )
    yield tick_rules.lost_ticks(recent)
    refused = store.refused_pings(connection) | ({} if names_callers else {"callers": ()})
    yield tick_rules.refused_pings(**refused, is_missing=tick_rules.is_missing(last))


def _work(connection: Connection, *, is_missing: bool) -> Iterator[Check]:
    from scheduled_actions.actions.evaluation import cycles_among_waiting  # noqa: PLC0415 - readiness does without

    due = action_store.due(connection, overdue_seconds=0, most=project_rules.COUNTED)
    age = None if due.oldest_seconds is None else timedelta(seconds=due.oldest_seconds)
    yield project_rules.backlog(due=due.ready, oldest=age, is_missing=is_missing)
    failed, unhandled, failing, schedules, held_up, deadlines, endpoints = store.sql.run_one(
        connection,
        "doctor_work",
        {"most": project_rules.COUNTED, "most_results": _RESULTS_MOST, "most_names": _NAMES_MOST},
    )
    yield from project_rules.attention(
        failed=failed,
        unhandled=unhandled,
        returned_failures=failing,
        schedules=schedules,
        held_up=[(name, action_id, status, timedelta(seconds=age)) for name, action_id, status, age in held_up],
        deadlines=deadlines,
        endpoints=endpoints,
        cycles=list(cycles_among_waiting(connection, most=_CYCLES_MOST)),
    )
    yield from _limits(connection, paused=due.paused, is_missing=is_missing)
    doubled = store.sql.run(
        connection, "doctor_doubled_schedules", {"most": project_rules.COUNTED, "most_names": _NAMES_MOST}
    )
    yield project_rules.doubled_schedules([action_type for (action_type,) in doubled])


def _limits(connection: Connection, *, paused: int, is_missing: bool) -> Iterator[Check]:
    from scheduled_actions.limits.rules.admission import KeyId  # noqa: PLC0415 - readiness does without
    from scheduled_actions.limits.service import read_keys  # noqa: PLC0415 - as above

    long, unknown, stale_slots, active, endless = store.sql.run_one(
        connection,
        "doctor_limits",
        {
            "most": _QUEUED_MOST,
            "most_names": _NAMES_MOST,
            "seconds": limit_rules.LONG_WAIT.total_seconds(),
        },
    )
    ages = {KeyId(team_id, limit_key): timedelta(seconds=float(age)) for limit_key, team_id, age in long}
    queues = [
        limit_rules.LongQueue(
            one.limit_key,
            one.team_id,
            one.in_use,
            one.at_once,
            one.rate,
            one.waiting,
            ages[KeyId(one.team_id or "", one.limit_key)],
        )
        for one in read_keys(connection, list(ages))
    ]
    yield from limit_rules.limit_keys(long=queues, unknown=unknown, stale_slots=stale_slots, is_missing=is_missing)
    yield limit_rules.pauses(active=active, endless=[(kind, name) for kind, name in endless], paused=paused)


def _executors(parts: Installation, connection: Connection) -> Iterator[Check]:
    """Check the executors, if the settings or the database have any."""
    from scheduled_actions.executors.store import find_executors  # noqa: PLC0415 - readiness does without

    declared = {name: one.types for name, one in parts.config.settings.executors.items()}
    # Without executors in the database, no other table is read.
    found = find_executors(connection)
    if not found and not declared:
        return
    from scheduled_actions.operations.doctor.rules import executors as rules  # noqa: PLC0415 - most projects have none

    try:
        known = parts.registry.types
    except RegistryInvalid:
        known = None
    yield from rules.executors(found, declared, known, now=clock.now(connection))


def _webhook_filters(connection: Connection) -> Check:
    from scheduled_actions.operations.doctor.webhook_filters import missing_paths  # noqa: PLC0415 - readiness does without

    return project_rules.webhook_filters(missing_paths(connection))


def _stray_databases(config: Config) -> Iterator[Check]:
    from scheduled_actions.database.embedded import strays  # noqa: PLC0415 - readiness does without

    # A deployment with a database of its own does not care about data for development.
    found = () if config.database_url.reveal() else strays.find()
    if found:
        yield database_rules.stray_databases([(str(one.home), str(one.directory.parent)) for one in found])


def _stored_secrets(parts: Installation, connection: Connection) -> Iterator[Check]:
    """Check whether the secrets of stored endpoints can be decrypted, if there are any."""
    from scheduled_actions.operations import stored_secrets  # noqa: PLC0415 - readiness does without

    stored, problem = stored_secrets.read(connection), None
    if not stored.endpoints:
        return
    try:
        stored_secrets.check(stored, parts.config.encryption_keys)
    except DeploymentError as error:
        problem = str(error)
    yield database_rules.stored_secrets(stored.endpoints, problem=problem)
