"""A project in a temporary directory, served by real processes, and a ledger to which its handlers write."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from scheduled_actions.database.embedded import attach, cluster, remove
from scheduled_actions.operations import registry_build
from tests.faults.actions import Actions
from tests.faults.ledger import Ledger
from tests.faults.serving import CRON_SECRET, Service, a_port

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from scheduled_actions.database.embedded import LocalPostgres

ROOT = Path(__file__).parents[2]
_LOG_SHOWN = 20_000
_services = pytest.StashKey[list[Service]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs of the processes to the report of a failed test."""
    report = yield
    if call.when == "call" and report.failed:
        for service in item.stash.get(_services, []):
            report.sections.append((f"log of port {service.port}", service.logged()[-_LOG_SHOWN:]))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the values that the tests measured."""
    reports = terminalreporter.stats.get("passed", [])
    lines = [
        f"{report.nodeid.rpartition('::')[2]}: {value}"
        for report in reports
        for name, value in report.user_properties
        if name == "measured" and report.when == "call"
    ]
    if lines:
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with the repository's handlers and gunicorn settings, the test handlers, and a registry."""
    directory = tmp_path / "project"
    shutil.copytree(Path(__file__).parent / "project", directory, ignore=_generated)
    for source in (ROOT / "handlers").glob("[!_]*.py"):
        shutil.copy(source, directory / "handlers")
    shutil.copy(ROOT / "gunicorn.conf.py", directory)
    registry_build.write(directory)
    return directory


_generated = shutil.ignore_patterns("__pycache__", "_registry.py")


@pytest.fixture
def ledger(postgres_server: LocalPostgres, admin: psycopg.Connection[Any]) -> Iterator[Ledger]:
    """Yield an empty ledger in a separate database on the server of all tests."""
    name = f"ledger_{uuid4().hex}"
    admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    url = make_conninfo(postgres_server.dsn, dbname=name)
    with psycopg.connect(url, autocommit=True) as connection:
        yield Ledger(url, connection)
    admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def actions(connection: psycopg.Connection[Any]) -> Actions:
    """Return the project's table of actions."""
    return Actions(connection)


@pytest.fixture
def own_server() -> Iterator[Path]:
    """Yield the directory of a separate, durable server on a port that the system assigns to no client."""
    directory = Path(tempfile.mkdtemp(prefix="scheduled-actions-restarted-"))
    directory.chmod(0o711)
    attach(directory).close()
    cluster.save(replace(cluster.load(directory), port=a_port()))
    yield directory
    remove(directory)


class Serve(Protocol):
    """Starts gunicorn on the project."""

    def __call__(self, *, workers: int = 1, environ: dict[str, str] | None = None, **settings: object) -> Service:
        """Return the service when it answers; `settings` are environment variables, by their names in lower case."""


@pytest.fixture
def environ(project: Path, database_url: str, ledger: Ledger) -> dict[str, str]:
    """Return the environment of the processes that serve the project."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULED_ACTIONS_")}
    return {
        **outer,
        "DATABASE_URL": database_url,
        "CRON_SECRET": CRON_SECRET,
        "SCHEDULED_ACTIONS_PROJECT": str(project),
        "PROOF_LEDGER_URL": ledger.url,
    }


@pytest.fixture
def serve(request: pytest.FixtureRequest, tmp_path: Path, project: Path, environ: dict[str, str]) -> Iterator[Serve]:
    """Yield the function that starts gunicorn; all of its processes are killed after the test."""
    started: list[Service] = []
    request.node.stash[_services] = started
    base = environ

    def serve(*, workers: int = 1, environ: dict[str, str] | None = None, **settings: object) -> Service:
        named = {f"SCHEDULED_ACTIONS_{name.upper()}": str(value) for name, value in settings.items()}
        log = tmp_path / f"gunicorn-{len(started)}.log"
        service = Service(project, {**base, **named, **(environ or {})}, workers=workers, log=log)
        started.append(service)
        return service.start()

    yield serve
    for service in started:
        service.kill()
