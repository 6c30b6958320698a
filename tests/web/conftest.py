"""Fixtures: a project with three handlers, its HTTP application, and callers of the management API."""

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
    """Calls the management API with one token."""

    client: FlaskClient
    token: str | None
    prefix: str = "/api/v1"

    def __call__(self, method: str, path: str, json: Any = None, **options: Any) -> TestResponse:
        """Send a request with `json` as its body; return the response."""
        headers = dict(options.pop("headers", {}))
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if json is not None:
            options["json"] = json
        return self.client.open(f"{self.prefix}{path}", method=method, headers=headers, **options)

    def schedule(self, **arguments: Any) -> dict[str, Any]:
        """Schedule an action, which must succeed; return the action in the response."""
        response = self("POST", "/actions", {"action_type": "test:run", "payload": {}} | arguments)
        assert response.status_code in {200, 201}, response.text
        return response.json


@pytest.fixture
def a_runtime(database_url: str) -> Iterator[Callable[..., Runtime]]:
    """Yield a function that creates a project with an admin token; keyword arguments are environment variables.

    The latest project is the current one of the process, which handlers of the package use.
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
    """Return a project with three handlers."""
    return a_runtime()


@pytest.fixture
def patient_runtime(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """Return the project, with a lock timeout as long as the patience of a test."""
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
    """Return a test client of an application with the project's routes."""
    return application(runtime).test_client()


@pytest.fixture
def api(client: FlaskClient) -> Api:
    """Return the API with the admin token."""
    return Api(client, ADMIN_TOKEN)


@pytest.fixture(scope="module")
def shared_client(shared_database_url: str) -> Iterator[FlaskClient]:
    """Yield a test client whose database all tests of a module share; they must not change it."""
    values = {"DATABASE_URL": shared_database_url, "CRON_SECRET": CRON_SECRET, "ADMIN_TOKEN": ADMIN_TOKEN}
    runtime = Runtime(config.load(Path(__file__).parent, values), registry=Registry.of(run, welcome, gather))
    yield application(runtime).test_client()
    runtime.close()


@pytest.fixture(scope="module")
def shared_api(shared_client: FlaskClient) -> Api:
    """Return the API of `shared_client` with the admin token."""
    return Api(shared_client, ADMIN_TOKEN)


@pytest.fixture
def a_caller(client: FlaskClient, connection: psycopg.Connection[Any]) -> Callable[..., Api]:
    """Return a function that creates a token and returns the API with that token."""

    def make(role: str, team_id: str | None = None, **options: Any) -> Api:
        _, secret = tokens.create(connection, name=f"{role} of tests", role=role, team_id=team_id, **options)
        return Api(client, secret)

    return make
