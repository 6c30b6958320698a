"""`/healthz` and `/readyz`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import psycopg
import pytest
from flask import Flask

from scheduled_actions import ScheduledActions, action
from scheduled_actions.core import config
from scheduled_actions.operations.doctor import service as diagnosis
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime
from tests.factories import CRON_SECRET, insert, projects

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def a_project(database_url):
    with projects(database_url) as a_project:
        yield a_project


@pytest.fixture
def an_empty_project(tmp_path):
    """Return a function that creates a project in an empty directory; the projects are closed after the test."""
    made: list[Runtime] = []

    def a_runtime(*, registry: Registry | None = None, **environ: str) -> Runtime:
        made.append(Runtime(config.load(tmp_path, environ), registry=registry))
        return made[-1]

    yield a_runtime
    for runtime in made:
        runtime.close()


@action("health:check")
def check_health(payload: dict): ...


def ask(runtime, path):
    app = Flask("health")
    ScheduledActions(app, runtime=runtime)
    return app.test_client().get(path)


def checks(response):
    return {check["name"]: check for check in response.json["checks"]}


def test_a_complete_project_is_ready(a_project):
    runtime = a_project(check_health)
    runtime.processor.tick(caller="a private cron")

    response = ask(runtime, "/readyz")

    assert response.status_code == 200
    assert response.json["status"] == "ready"
    assert list(checks(response)) == [
        "settings", "cron_secret", "registry", "threads", "database", "migrations", "ticks", "doubled_pings",
        "hung_up_pings", "lost_ticks", "refused_pings",
    ]  # fmt: skip
    assert "private" not in response.text
    assert {check["status"] for check in response.json["checks"]} == {"ok"}
    assert response.headers["Cache-Control"] == "no-store"


def test_a_missing_cron_is_a_warning_and_the_project_is_ready(a_project):
    response = ask(a_project(check_health), "/readyz")

    assert (response.status_code, response.json["status"]) == (200, "ready")
    assert checks(response)["ticks"]["status"] == "warning"


def test_a_project_without_a_cron_secret_is_not_ready_and_names_the_setting(an_empty_project, database_url):
    runtime = an_empty_project(registry=Registry.of(check_health), DATABASE_URL=database_url, CRON_SECRET="short")

    response = ask(runtime, "/readyz")

    assert response.status_code == 503
    assert response.json["status"] == "not ready"
    assert checks(response)["cron_secret"]["remedy"] == "set CRON_SECRET to at least 16 random characters"


def test_a_project_without_a_database_is_not_ready_and_shows_no_address(an_empty_project):
    runtime = an_empty_project(
        registry=Registry.of(check_health),
        DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/x",
        CRON_SECRET=CRON_SECRET,
    )

    response = ask(runtime, "/readyz")

    assert response.status_code == 503
    assert checks(response)["database"]["status"] == "fault"
    assert "migrations" not in checks(response)
    assert "hunter2" not in response.text
    assert "127.0.0.1" not in response.text


def test_a_project_without_tables_is_not_ready(a_project, connection):
    connection.execute("drop schema public cascade; create schema public")

    response = ask(a_project(check_health), "/readyz")

    assert response.status_code == 503
    assert checks(response)["migrations"]["remedy"] == "run `scheduled-actions migrate`"


def test_tables_without_read_permission_are_a_fault(an_empty_project, connection, database_url):
    role = f"stranger_{connection.info.dbname[-12:]}"
    connection.execute(f"create role {role} login password 'stranger'")
    url = psycopg.conninfo.make_conninfo(database_url, user=role, password="stranger")
    runtime = an_empty_project(registry=Registry.of(check_health), DATABASE_URL=url, CRON_SECRET=CRON_SECRET)

    response = ask(runtime, "/readyz")

    runtime.close()
    connection.execute(f"drop role {role}")
    assert response.status_code == 503
    assert checks(response)["database"]["detail"] == "the database rejected a query: InsufficientPrivilege (42501)"


def test_locked_tables_are_reported_within_the_time_limit(a_project, database_url):
    runtime = a_project(check_health)
    with psycopg.connect(database_url) as other:
        other.execute("lock table scheduled_action_migrations")

        found = diagnosis.readiness(runtime, patience_seconds=0.2)

    assert [check.detail for check in found if check.name == "database"] == [
        "the queries took longer than 0.2 seconds: another session may have locked the tables"
    ]
    assert ask(runtime, "/readyz").status_code == 200


def test_a_project_without_a_registry_is_alive_but_not_ready(an_empty_project, database_url):
    runtime = an_empty_project(DATABASE_URL=database_url, CRON_SECRET=CRON_SECRET)

    ready, alive = ask(runtime, "/readyz"), ask(runtime, "/healthz")

    assert ready.status_code == 503
    assert checks(ready)["registry"]["status"] == "fault"
    assert alive.status_code == 200


def test_a_process_without_a_database_is_alive(an_empty_project):
    response = ask(
        an_empty_project(registry=Registry.of(check_health), DATABASE_URL="postgresql://127.0.0.1:1/x"), "/healthz"
    )

    assert (response.status_code, response.json) == (200, {"status": "ok"})


def test_a_process_that_is_stopping_is_alive_but_not_ready(a_project):
    runtime = a_project(check_health)
    runtime.processor.stop()

    ready, alive = ask(runtime, "/readyz"), ask(runtime, "/healthz")

    assert ready.status_code == 503
    assert checks(ready)["threads"]["detail"] == "the process is stopping and starts nothing"
    assert alive.status_code == 200


def test_a_disabled_project_is_ready_with_a_warning(a_project):
    response = ask(a_project(check_health, enabled=False), "/readyz")

    assert response.status_code == 200
    assert checks(response)["settings"]["status"] == "warning"


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Yield the event that ends the stuck handler."""
    event = threading.Event()
    yield event
    event.set()


def test_a_process_whose_threads_are_all_stuck_is_neither_ready_nor_alive(a_project, connection, released):
    @action("health:hang", timeout_seconds=0.05)
    def hang(_payload: dict):
        released.wait(20)

    runtime = a_project(hang, concurrency=1)
    insert(connection, action_type="health:hang")
    runtime.processor.tick()

    ready, alive = ask(runtime, "/readyz"), ask(runtime, "/healthz")

    assert (ready.status_code, alive.status_code) == (503, 503)
    assert alive.json["status"] == "stuck"
    assert "restart the process" in alive.json["detail"]
    assert checks(ready)["threads"]["status"] == "fault"


@pytest.mark.parametrize("path", ["/healthz/", "/readyz/"])
def test_a_trailing_slash_is_accepted(a_project, path):
    assert ask(a_project(check_health), path).status_code == 200
