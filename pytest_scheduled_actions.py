"""The pytest plugin: fixtures for tests of applications that schedule actions.

This module is outside the package and imports nothing from the package until a fixture is used, so that a test run
without the fixtures loads only this file. `docs/how-to/test-your-application.md` shows how to use the fixtures.
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

#: The variable that holds the name of this run's embedded server, for all its processes.
_RUN = "_SCHEDULED_ACTIONS_TEST_RUN"
_PREFIX = "scheduled-actions-test-run-"
_PROJECT = "scheduled_actions_project"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the directory of the project."""
    parser.addini(
        _PROJECT, "project directory (with handlers/ and scheduled_actions.toml), relative to pytest's root", default=""
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose a name for the embedded server of this run."""
    if not hasattr(config, "workerinput"):
        config.stash[_BEFORE] = os.environ.get(_RUN)
        os.environ[_RUN] = _PREFIX + os.urandom(8).hex()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the embedded server of this run."""
    if hasattr(config, "workerinput") or _BEFORE not in config.stash:
        return
    run, before = os.environ.pop(_RUN), config.stash[_BEFORE]
    if before is not None:
        os.environ[_RUN] = before
    for place in (Path("/dev/shm"), Path(tempfile.gettempdir())):  # noqa: S108 - possible places of the server
        if (place / run).exists():
            from scheduled_actions.testing.databases import remove_server  # noqa: PLC0415 - loaded only if the run had one

            remove_server(place / run)


_BEFORE: pytest.StashKey[str | None] = pytest.StashKey()


@pytest.fixture(scope="session")
def scheduled_actions_prepare_database() -> Callable[[psycopg.Connection[Any]], Any] | None:
    """Override this to return a function that creates the application's tables; each test gets a copy of them."""
    return None


@pytest.fixture(scope="session")
def scheduled_actions_databases(
    scheduled_actions_prepare_database: Callable[[psycopg.Connection[Any]], Any] | None,
) -> Iterator[Databases]:
    """Provide databases on the server of SCHEDULED_ACTIONS_TEST_DATABASE_URL, or on an embedded one."""
    from scheduled_actions.database.embedded import attach  # noqa: PLC0415 - runs that do not use it load nothing
    from scheduled_actions.testing import databases as test_databases  # noqa: PLC0415 - as above

    url = os.environ.get(test_databases.URL_VARIABLE, "").strip()
    if url:
        with test_databases.Databases(url, prepare=scheduled_actions_prepare_database) as databases:
            yield databases
        return
    test_databases.remove_abandoned_servers(_PREFIX)
    directory = test_databases.server_directory() / os.environ[_RUN]
    with (
        attach(directory, options=test_databases.NOT_DURABLE) as server,
        test_databases.Databases(
            server.dsn, prepare=scheduled_actions_prepare_database, template="template_migrated", copies_files=True
        ) as databases,
    ):
        yield databases


@pytest.fixture
def scheduled_actions_database_url(scheduled_actions_databases: Databases) -> Iterator[str]:
    """Provide the address of the test's own database, which has the tables and is dropped after the test."""
    with scheduled_actions_databases.fresh() as url:
        yield url


@pytest.fixture
def scheduled_actions_project(pytestconfig: pytest.Config) -> Path:
    """Return the project directory: the ini option of this name, SCHEDULED_ACTIONS_PROJECT, or pytest's root."""
    named = pytestconfig.getini(_PROJECT) or os.environ.get("SCHEDULED_ACTIONS_PROJECT") or "."
    return (pytestconfig.rootpath / str(named)).resolve()


@pytest.fixture
def scheduled_actions_handlers() -> Sequence[Callable[..., Any]] | None:
    """Override this to return a list of functions declared with @action; None: the handlers of the project."""
    return None


@pytest.fixture
def scheduled_actions_environ() -> Mapping[str, str]:
    """Override this to return variables that override the environment: {"SCHEDULED_ACTIONS_MAX_ATTEMPTS": "1"}."""
    return {}


@pytest.fixture
def scheduled_actions_kit(
    scheduled_actions_database_url: str,
    scheduled_actions_project: Path,
    scheduled_actions_handlers: Sequence[Callable[..., Any]] | None,
    scheduled_actions_environ: Mapping[str, str],
) -> Iterator[Kit]:
    """Provide the project on the test's own database; `schedule_action()` and its siblings use both during the test."""
    from scheduled_actions.testing import kit  # noqa: PLC0415 - runs that do not use it load nothing

    with kit.kit(
        scheduled_actions_project,
        scheduled_actions_database_url,
        handlers=scheduled_actions_handlers,
        environ=scheduled_actions_environ,
    ) as own:
        yield own


@pytest.fixture
def scheduled_actions_clock(scheduled_actions_kit: Kit) -> Clock:
    """Return the database's clock: `now()`, `set(instant)`, `advance(timedelta)`, `reset()`."""
    return scheduled_actions_kit.clock


@pytest.fixture
def captured_webhooks(scheduled_actions_kit: Kit) -> CapturedWebhooks:
    """Return the webhook deliveries of the test: each has `event`, `payload`, `headers` and `endpoint`."""
    return scheduled_actions_kit.webhooks


@pytest.fixture
def run_due(scheduled_actions_kit: Kit) -> Callable[[datetime | timedelta | None], list[Action]]:
    """Return `run_due(at=None)`, which runs ticks until no more actions can run, and returns the settled actions."""
    return scheduled_actions_kit.run_due


@pytest.fixture
def run_until(scheduled_actions_kit: Kit) -> Callable[[datetime | timedelta], list[Action]]:
    """Return `run_until(until)`, which lets time pass, and runs actions at each instant at which they are due."""
    return scheduled_actions_kit.run_until


@pytest.fixture
def assert_scheduled(scheduled_actions_kit: Kit) -> Callable[..., list[Action]]:
    """Return `assert_scheduled(type, payload__contains=…, scheduled_at=…, count=…)`, which returns the actions."""
    return scheduled_actions_kit.assert_scheduled
