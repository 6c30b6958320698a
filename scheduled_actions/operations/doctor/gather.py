"""The facts about an installation, gathered for `doctor` and `/readyz`; what they mean is for the verdict to say."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import psycopg

from scheduled_actions.core.errors import (
    DeploymentError,
    HandlerBroken,
    NotConfigured,
    RegistryInvalid,
    ScheduledActionsError,
    UrlInvalid,
)
from scheduled_actions.operations import pings_store as pings
from scheduled_actions.operations import registry_build
from scheduled_actions.operations.doctor import store as diagnosis
from scheduled_actions.operations.doctor.rules import (
    EndpointFound,
    HandlersFound,
    RegistryFound,
    SecretFound,
    SettingsFound,
    ThreadsFound,
)
from scheduled_actions.operations.doctor.rules.database import DatabaseFound, MigrationsFound, StoredSecretsFound
from scheduled_actions.operations.doctor.rules.ticks import TicksFound
from scheduled_actions.operations.doctor.rules.work import WaitingCyclesFound
from scheduled_actions.ticks.rules.plan import Budget, tick_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scheduled_actions.core.config import Config, Endpoint
    from scheduled_actions.core.secret import Secret
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.operations.doctor.rules import Fact
    from scheduled_actions.operations.doctor.rules.heartbeat import HeartbeatFound
    from scheduled_actions.operations.installation import Installation

#: How long a doctor waits for the database's answers: longer means that they will not come.
PATIENCE_SECONDS = 10.0
#: Cycles of waiting actions that are looked for.
_CYCLES_MOST = 20


def readiness(parts: Installation, *, patience_seconds: float = PATIENCE_SECONDS) -> list[Fact]:
    """Return what decides whether a ping would be processed; quick enough to be asked every few seconds.

    Args:
        parts: The installation's parts.
        patience_seconds: How long the database may take for all its answers.
    """
    return [
        SettingsFound(None, is_enabled=parts.config.settings.enabled),
        _cron_secret(parts.config),
        _loaded_registry(parts),
        threads(parts),
        *_of_database(parts, lambda connection: _ready_database(parts, connection), patience_seconds=patience_seconds),
    ]


def installation(parts: Installation, *, patience_seconds: float = PATIENCE_SECONDS) -> list[Fact]:
    """Return all that can be found out about an installation; every handler is imported for it.

    Args:
        parts: The installation's parts.
        patience_seconds: How long the database may take for all its answers.
    """
    config = parts.config
    return [
        SettingsFound(None, is_enabled=config.settings.enabled),
        _cron_secret(config),
        _secret(config.admin_token, opens="the API", is_optional=True),
        *(
            _endpoint(config, name, endpoint)
            for name, endpoint in sorted(config.settings.webhooks.endpoints.items())
            if endpoint.enabled
        ),
        registry(config.project),
        *_handlers(parts),
        *_of_database(parts, lambda connection: _all_of_database(parts, connection), patience_seconds=patience_seconds),
    ]


def registry(project: Path) -> RegistryFound:
    """Return whether the generated registry is what the text of `handlers/` asks for; nothing is imported."""
    try:
        built = registry_build.build(project)
    except RegistryInvalid as error:
        return RegistryFound(problem=str(error))
    return RegistryFound(types=len(built.handlers), is_fresh=built.is_fresh)


def threads(parts: Installation) -> ThreadsFound:
    """Return how the threads are that run this process's handlers; none has been started before the first tick."""
    concurrency = parts.config.settings.concurrency
    state = parts.worker_state
    if state is None:
        return ThreadsFound(stuck=0, concurrency=concurrency)
    return ThreadsFound(stuck=state.runner.stuck, concurrency=concurrency, is_stopping=state.is_stopping.is_set())


def _cron_secret(config: Config) -> SecretFound:
    return _secret(config.cron_secret, opens="/cron/process", is_optional=False)


def _secret(secret: Secret, *, opens: str, is_optional: bool) -> SecretFound:
    return SecretFound(
        variable=secret.name,
        opens=opens,
        is_set=bool(secret.reveal().strip()),
        is_usable=secret.is_usable,
        is_optional=is_optional,
    )


def _endpoint(config: Config, name: str, endpoint: Endpoint) -> EndpointFound:
    return EndpointFound(
        name=name,
        problem=_problem_of_url(config, endpoint) or _problem_of_keys(config, endpoint),
        is_signed=endpoint.secret_env_var is not None,
    )


def _problem_of_url(config: Config, endpoint: Endpoint) -> str | None:
    from scheduled_actions.outbound import delivery  # noqa: PLC0415 - HTTP's modules, which readiness does without

    url = config.endpoint_url(endpoint)
    if url is None:
        return f"{endpoint.env_var} is not set, so there is no URL to deliver to"
    try:
        delivery.check_url(url)
    except UrlInvalid as error:
        return f"{endpoint.env_var}: {error}"
    return None


def _problem_of_keys(config: Config, endpoint: Endpoint) -> str | None:
    try:
        config.endpoint_keys(endpoint)
    except NotConfigured as error:
        return str(error)
    return None


def _loaded_registry(parts: Installation) -> RegistryFound:
    try:
        return RegistryFound(types=len(parts.registry.types))
    except RegistryInvalid as error:
        return RegistryFound(problem=str(error))


def _handlers(parts: Installation) -> Iterator[HandlersFound]:
    """Give what importing every handler and function shows; nothing where the registry cannot be read."""
    try:
        types = sorted(parts.registry.types)
    except RegistryInvalid:
        return
    settings = parts.config.settings
    budget = Budget.by_settings(
        settings, started=0, duration_seconds=tick_seconds(settings, host_seconds=None), lingers=False
    )
    broken: list[str] = []
    too_long: dict[str, float] = {}
    for action_type in types:
        try:
            options = parts.registry.resolve(action_type).options
        except HandlerBroken as error:
            broken.append(str(error))
            continue
        timeout = options.timeout_seconds or settings.default_timeout_seconds
        if not budget.could_ever_fit(timeout):
            too_long[action_type] = timeout
    functions = parts.registry.project_functions
    broken += [str(error) for error in functions.load_all()]
    yield HandlersFound(count=len(types), functions=len(functions), broken=tuple(broken), too_long=too_long)


def _of_database(
    parts: Installation, ask: Callable[[Connection], Iterator[Fact]], *, patience_seconds: float
) -> list[Fact]:
    """Return whether the database answers, and what it answered up to where it failed."""
    answers: list[Fact] = []
    problem = None
    is_over = threading.Event()
    try:
        with (
            parts.database.connection() as connection,
            diagnosis.ended_after(patience_seconds, [connection]) as is_over,
        ):
            answers.extend(ask(connection))
    except ScheduledActionsError as error:
        problem = str(error)
    except psycopg.Error as error:
        problem = f"the database refused a question: {type(error).__name__} ({error.sqlstate})"
    if problem and is_over.is_set():
        problem = f"a question got no answer in {patience_seconds:g} seconds: another session may hold the tables"
    return [DatabaseFound(problem), *answers]


def _all_of_database(parts: Installation, connection: Connection) -> Iterator[Fact]:
    yield diagnosis.server(connection)
    yield diagnosis.defaults(connection)
    migrations: MigrationsFound = diagnosis.migrations(connection)
    yield migrations
    yield diagnosis.clocks(connection)
    yield diagnosis.transactions(connection)
    if migrations.found:
        yield diagnosis.schema(connection)
        of_ticks = list(_ticks(parts, connection))
        yield from of_ticks
        yield _heartbeat(parts, connection)
        if migrations.found >= migrations.wanted:
            is_missing = any(fact.is_missing for fact in of_ticks if isinstance(fact, TicksFound))
            yield from diagnosis.work(connection, is_missing=is_missing)
            yield _waiting_cycles(connection)
            yield diagnosis.indexes(connection)
            yield diagnosis.functions_in_use(connection)
    if migrations.found == migrations.wanted:
        yield from _stored_secrets(parts, connection)
    # Last, because it wants connections that the server may not have to spare.
    yield diagnosis.line(parts.database.connect, is_declared_direct=parts.config.settings.database_direct)


def _waiting_cycles(connection: Connection) -> WaitingCyclesFound:
    from scheduled_actions.actions.evaluation import cycles_among_waiting  # noqa: PLC0415 - readiness does without

    return WaitingCyclesFound(tuple(map(tuple, cycles_among_waiting(connection, most=_CYCLES_MOST))))


def _heartbeat(parts: Installation, connection: Connection) -> HeartbeatFound:
    from scheduled_actions.outbound import delivery  # noqa: PLC0415 - HTTP's modules, which readiness does without

    problem = None
    if parts.has_heartbeat:
        try:
            delivery.check_url(parts.heartbeat_url)
        except UrlInvalid as error:
            problem = str(error)
    return pings.heartbeat(connection, is_set=parts.has_heartbeat, problem=problem)


def _stored_secrets(parts: Installation, connection: Connection) -> Iterator[StoredSecretsFound]:
    """Give whether the endpoints of the database can sign; nothing where there are none."""
    from scheduled_actions.core.encryption import SecretBox  # noqa: PLC0415 - readiness does without

    endpoints, sealed = diagnosis.sealed_secrets(connection)
    if not endpoints:
        return
    box, problem = SecretBox(parts.config.encryption_keys), None
    try:
        for one in sealed:
            box.open(one, what="a secret of theirs")
    except DeploymentError as error:
        problem = str(error)
    yield StoredSecretsFound(endpoints=endpoints, problem=problem)


def _ready_database(parts: Installation, connection: Connection) -> Iterator[Fact]:
    migrations = diagnosis.migrations(connection)
    yield migrations
    if migrations.found >= migrations.wanted:
        # Anybody may ask for readiness: who pings is not told.
        yield from _ticks(parts, connection, names_callers=False)


def _ticks(parts: Installation, connection: Connection, *, names_callers: bool = True) -> Iterator[Fact]:
    settings = parts.config.settings
    return pings.ticks(
        connection,
        max_run_seconds=settings.max_run_seconds,
        linger_seconds=settings.linger_seconds,
        names_callers=names_callers,
    )
