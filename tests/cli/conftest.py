"""A new project for each test, and functions that run commands in it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from click.testing import CliRunner
from psycopg import sql
from psycopg.conninfo import make_conninfo

from scheduled_actions.cli import main
from scheduled_actions.operations import registry_build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from scheduled_actions.database.embedded import LocalPostgres

#: Secrets that no command may print.
CRON_SECRET = "cron-secret-never-printed"
ADMIN_TOKEN = "admin-token-never-printed"

HANDLERS = '''\
from __future__ import annotations

from dataclasses import dataclass

from scheduled_actions import action


@dataclass
class Greeting:
    name: str
    times: int = 1


@action("greeting:say", max_attempts=2)
def say(payload: Greeting):
    """Say hello."""
    print("a handler prints")
    if payload.name == "no one":
        raise RuntimeError("there is no one to greet")
    return {"said": f"Hello {payload.name}!" * payload.times}
'''


@dataclass(frozen=True)
class Ran:
    """The exit code and the output of a command."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The document that the command printed as one line of JSON."""
        (line,) = self.stdout.splitlines()
        return json.loads(line)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """Return a project directory; forget imported packages called `handlers`, a name that all projects use."""
    path = list(sys.path)
    others = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "handlers"}
    for name in others:
        del sys.modules[name]
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "greeting.py").write_text(HANDLERS, encoding="utf-8")
    registry_build.write(tmp_path)

    yield tmp_path

    sys.path[:] = path
    for name in [name for name in sys.modules if name.split(".")[0] == "handlers"]:
        del sys.modules[name]
    sys.modules.update(others)


@pytest.fixture
def empty_database(postgres_server: LocalPostgres, admin: psycopg.Connection[Any]) -> Iterator[str]:
    """Return the address of a database without the tables."""
    name = f"empty_{uuid4().hex}"
    admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    yield make_conninfo(postgres_server.dsn, dbname=name)
    admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def run_anywhere(project: Path) -> Callable[..., Ran]:
    """Return a function that runs a command in the project, without a database."""

    def run(*arguments: object, stdin: str | bytes | None = None, **environ: str | None) -> Ran:
        result = CliRunner().invoke(
            main,
            ["--project", str(project), *map(str, arguments)],
            input=stdin,
            env={"SCHEDULED_ACTIONS_PROJECT": None, "DATABASE_URL": "postgresql://nowhere.invalid/none", **environ},
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def run(run_anywhere: Callable[..., Ran], database_url: str) -> Callable[..., Ran]:
    """Return a function that runs a command in the project, on a new database with the tables."""

    def run_there(*arguments: object, stdin: str | bytes | None = None, **environ: str | None) -> Ran:
        values = {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET, "ADMIN_TOKEN": ADMIN_TOKEN}
        return run_anywhere(*arguments, stdin=stdin, **values | environ)

    return run_there
