"""A project with handlers behind the management API, and callers of every kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask
from pydantic import BaseModel

from scheduled_actions import ScheduledActions, action
from scheduled_actions.core import config
from scheduled_actions.operations import tokens
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime, use
from tests.factories import CRON_SECRET, wait_for_locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg
    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

ADMIN_TOKEN = "an-admin-token-of-tests"


class Welcome(BaseModel):
    name: str
    times: int = 1


@action("test:run", open_to_teams=True)
def run(payload: dict):
    """Take any object."""


@action("test:welcome", max_attempts=7, open_to_teams=True)
def welcome(payload: Welcome):
    """Greet someone."""


@action("test:gather", open_to_teams=True)
def gather(payload: list[Welcome]): ...


@dataclass(frozen=True)
class Api:
    """The management API as one caller sees it."""

    client: FlaskClient
    token: str | None
    prefix: str = "/api/v1"

    def __call__(self, method: str, path: str, json: Any = None, **options: Any) -> TestResponse:
        """Ask; `json` is the body."""
        headers = dict(options.pop("headers", {}))
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if json is not None:
            options["json"] = json
        return self.client.open(f"{self.prefix}{path}", method=method, headers=headers, **options)

    def schedule(self, **arguments: Any) -> dict[str, Any]:
        """Schedule an action that must be taken; return what was answered."""
        response = self("POST", "/actions", {"action_type": "test:run", "payload": {}} | arguments)
        assert response.status_code in {200, 201}, response.text
        return response.json


@pytest.fixture
def a_runtime(database_url: str) -> Iterator[Callable[..., Runtime]]:
    """Return a function that makes a project with an admin token; variables of the environment are given by name.

    The last one made is the process's own: handlers of the package use it.
    """
    made: list[Runtime] = []

    def make(*, registry: Registry | None = None, **environ: str) -> Runtime:
        values = {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET, "ADMIN_TOKEN": ADMIN_TOKEN} | environ
        registry = registry or Registry.of(run, welcome, gather)
        made.append(Runtime(config.load(Path(__file__).parent, values), registry=registry))
        use(made[-1])
        return made[-1]

    before = use(None)
    yield make
    use(before)
    for runtime in made:
        runtime.close()


@pytest.fixture
def runtime(a_runtime: Callable[..., Runtime]) -> Runtime:
    """Give a project of three handlers."""
    return a_runtime()


@pytest.fixture
def patient_runtime(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """Let the project wait for a lock as long as a test waits."""
    wait_for_locks(runtime, monkeypatch)
    return runtime


def application(runtime: Runtime, *, url_prefix: str | None = None) -> Flask:
    """Return an application with the project's routes."""
    app = Flask("scheduled_actions")
    app.url_map.merge_slashes = False
    ScheduledActions(app, runtime=runtime, url_prefix=url_prefix)
    return app


@pytest.fixture
def client(runtime: Runtime) -> FlaskClient:
    """Give a client of an application with the project's routes."""
    return application(runtime).test_client()


@pytest.fixture
def api(client: FlaskClient) -> Api:
    """Give the API as the admin token sees it."""
    return Api(client, ADMIN_TOKEN)


@pytest.fixture(scope="module")
def shared_client(shared_database_url: str) -> Iterator[FlaskClient]:
    """Give a client like `client`, for those tests of a module that change nothing: all have one database."""
    values = {"DATABASE_URL": shared_database_url, "CRON_SECRET": CRON_SECRET, "ADMIN_TOKEN": ADMIN_TOKEN}
    runtime = Runtime(config.load(Path(__file__).parent, values), registry=Registry.of(run, welcome, gather))
    yield application(runtime).test_client()
    runtime.close()


@pytest.fixture(scope="module")
def shared_api(shared_client: FlaskClient) -> Api:
    """Give the API of `shared_client` as the admin token sees it."""
    return Api(shared_client, ADMIN_TOKEN)


@pytest.fixture
def a_caller(client: FlaskClient, connection: psycopg.Connection[Any]) -> Callable[..., Api]:
    """Return a function that gives the API as a new token sees it."""

    def make(role: str, team_id: str | None = None, **options: Any) -> Api:
        _, secret = tokens.create(connection, name=f"{role} of tests", role=role, team_id=team_id, **options)
        return Api(client, secret)

    return make
