"""The pytest plugin: fixtures for tests of applications that schedule actions.

Outside the package, and importing nothing of it before a fixture is asked for: a pytest that has it installed and does
not use it pays for reading this file alone. `docs/how-to/test-your-application.md` shows the fixtures at work.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    import psycopg

    from scheduled_actions import Action
    from scheduled_actions.testing import CapturedWebhooks, Clock, Kit
    from scheduled_actions.testing.databases import Databases

#: Names this run's embedded server to all its processes.
_RUN = "_SCHEDULED_ACTIONS_TEST_RUN"
_PREFIX = "scheduled-actions-test-run-"
_PROJECT = "scheduled_actions_project"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the project say where its handlers are."""
    parser.addini(_PROJECT, "directory of handlers/ and scheduled_actions.toml, from the root directory", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Choose a name for the server of this run, should one be needed."""
    if not hasattr(config, "workerinput"):
        config.stash[_BEFORE] = os.environ.get(_RUN)
        os.environ[_RUN] = _PREFIX + os.urandom(8).hex()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    if hasattr(config, "workerinput") or _BEFORE not in config.stash:
        return
    run, before = os.environ.pop(_RUN), config.stash[_BEFORE]
    if before is not None:
        os.environ[_RUN] = before
    for place in (Path("/dev/shm"), Path(tempfile.gettempdir())):  # noqa: S108 - where the server may have been
        if (place / run).exists():
            from scheduled_actions.testing import servers  # noqa: PLC0415 - only where there was one

            servers.clear(place / run)


_BEFORE: pytest.StashKey[str | None] = pytest.StashKey()


@pytest.fixture(scope="session")
def scheduled_actions_prepare_database() -> Callable[[psycopg.Connection[Any]], Any] | None:
    """Override it to make your own tables: a function of a connection, called once for all databases of the run."""
    return None


@pytest.fixture(scope="session")
def scheduled_actions_databases(
    scheduled_actions_prepare_database: Callable[[psycopg.Connection[Any]], Any] | None,
) -> Iterator[Databases]:
    """Give databases of the run: on the server of SCHEDULED_ACTIONS_TEST_DATABASE_URL, or on an embedded one."""
    from scheduled_actions.database.embedded import attach  # noqa: PLC0415 - a run that does not ask pays nothing
    from scheduled_actions.testing import servers  # noqa: PLC0415 - as above
    from scheduled_actions.testing.databases import URL_VARIABLE, Databases  # noqa: PLC0415 - as above

    url = os.environ.get(URL_VARIABLE, "").strip()
    if url:
        with Databases(url, prepare=scheduled_actions_prepare_database) as databases:
            yield databases
        return
    servers.sweep(_PREFIX)
    directory = servers.roomy_place() / os.environ[_RUN]
    with (
        attach(directory, options=servers.NOT_DURABLE) as server,
        Databases(
            server.dsn, prepare=scheduled_actions_prepare_database, template="template_migrated", copies_files=True
        ) as databases,
    ):
        yield databases


@pytest.fixture
def scheduled_actions_database_url(scheduled_actions_databases: Databases) -> Iterator[str]:
    """Give the address of the test's own database, which holds the tables and is dropped after the test."""
    with scheduled_actions_databases.fresh() as url:
        yield url


@pytest.fixture
def scheduled_actions_project(pytestconfig: pytest.Config) -> Path:
    """Give the project directory: the ini option of this name, SCHEDULED_ACTIONS_PROJECT, or pytest's root."""
    named = pytestconfig.getini(_PROJECT) or os.environ.get("SCHEDULED_ACTIONS_PROJECT") or "."
    return (pytestconfig.rootpath / str(named)).resolve()


@pytest.fixture
def scheduled_actions_handlers() -> Sequence[Callable[..., Any]] | None:
    """Override it with a list of functions declared with @action, to use them in place of the project's handlers."""
    return None


@pytest.fixture
def scheduled_actions_environ() -> Mapping[str, str]:
    """Override it with settings of the tests: {"SCHEDULED_ACTIONS_MAX_ATTEMPTS": "1"}."""
    return {}


@pytest.fixture
def scheduled_actions_kit(
    scheduled_actions_database_url: str,
    scheduled_actions_project: Path,
    scheduled_actions_handlers: Sequence[Callable[..., Any]] | None,
    scheduled_actions_environ: Mapping[str, str],
) -> Iterator[Kit]:
    """Give the project on the test's own database, which schedule_action() and the others use meanwhile."""
    from scheduled_actions.testing import kit  # noqa: PLC0415 - a run that does not ask pays nothing

    with kit.kit(
        scheduled_actions_project,
        scheduled_actions_database_url,
        handlers=scheduled_actions_handlers,
        environ=scheduled_actions_environ,
    ) as made:
        yield made


@pytest.fixture
def scheduled_actions_clock(scheduled_actions_kit: Kit) -> Clock:
    """Give the database's clock: `now()`, `set(instant)`, `advance(timedelta)`, `reset()`."""
    return scheduled_actions_kit.clock


@pytest.fixture
def captured_webhooks(scheduled_actions_kit: Kit) -> CapturedWebhooks:
    """Give the webhook deliveries of the test, verified: each has `event`, `payload`, `headers` and `endpoint`."""
    return scheduled_actions_kit.webhooks


@pytest.fixture
def run_due(scheduled_actions_kit: Kit) -> Callable[[datetime | timedelta | None], list[Action]]:
    """Give `run_due(at=None)`: it runs ticks until nothing is due, and answers the actions that were settled."""
    return scheduled_actions_kit.run_due


@pytest.fixture
def run_until(scheduled_actions_kit: Kit) -> Callable[[datetime | timedelta], list[Action]]:
    """Give `run_until(instant)`: it lets time pass, from one instant something is due to the next."""
    return scheduled_actions_kit.run_until


@pytest.fixture
def assert_scheduled(scheduled_actions_kit: Kit) -> Callable[..., list[Action]]:
    """Give `assert_scheduled(type, payload__contains=…, scheduled_at=…, count=…)`: it answers the actions."""
    return scheduled_actions_kit.assert_scheduled
