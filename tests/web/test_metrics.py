"""`/metrics` in the formats of Prometheus and OpenMetrics."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus_text

from scheduled_actions import Fail, Snooze, action
from scheduled_actions.core import config
from scheduled_actions.executors.store import write_executors
from scheduled_actions.registry import Registry
from scheduled_actions.ticks import store as tick_store
from scheduled_actions.ticks.report import MetricsBuffer
from scheduled_actions.web import metrics
from tests.executors.test_service import write
from tests.factories import a_tick, database_now, due_for, insert, insert_many, move_clock, together
from tests.limits.test_claims import claim, limits, schedule
from tests.web.conftest import ADMIN_TOKEN, application

OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"


@action("test:run")
def run(payload: dict):
    match payload.get("does"):
        case "fail":
            raise Fail("no luck")
        case "raise":
            raise RuntimeError("once more")
        case "snooze":
            return Snooze(timedelta(hours=1))
    return None


@action("webhook:send", max_attempts=2)
def send(payload: dict):
    if payload.get("does") == "fail":
        raise Fail("410")


@pytest.fixture
def project(a_runtime):
    return a_runtime(registry=Registry.of(run, send))


@pytest.fixture
def scrape(project):
    """Return a function that requests the metrics and returns the response."""
    client = application(project).test_client()

    def scraped(token=ADMIN_TOKEN, accept=None, path="/metrics"):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if accept is not None:
            headers["Accept"] = accept
        return client.get(path, headers=headers)

    return scraped


def samples(response, parse=prometheus_text):
    assert response.status_code == 200, response.text
    return {
        (one.name.removeprefix("scheduled_actions_"), *sorted(one.labels.values())): one.value
        for family in parse(response.text)
        for one in family.samples
    }


def test_settlements_are_counted_by_type_and_outcome(project, connection, scrape):
    for does in ("nothing", "nothing", "fail", "raise", "snooze"):
        insert(connection, payload={"does": does})
    insert(connection, action_type="missing:handler")

    project.processor.tick()

    found = samples(scrape())
    assert found["settled_total", "completed", "test:run"] == 2
    assert [found["settled_total", outcome, "test:run"] for outcome in ("failed", "retried", "snoozed")] == [1, 1, 1]
    assert found["settled_total", "(other)", "no_action"] == 1


def test_handler_seconds_lateness_and_tick_seconds_are_histograms(project, connection, scrape):
    insert_many(connection, 3, **due_for(connection, seconds=60))

    project.processor.tick()

    found = samples(scrape())
    assert found["handler_duration_seconds_count", "test:run"] == 3
    assert found["handler_duration_seconds_bucket", "+Inf", "test:run"] == 3
    # The actions had been due for a minute.
    assert found["start_lateness_seconds_bucket", "30", "test:run"] == 0
    assert found["start_lateness_seconds_bucket", "120", "test:run"] == 3
    assert 180 <= found["start_lateness_seconds_sum", "test:run"] < 360
    assert found["tick_duration_seconds_count",] == 1


def test_an_action_scheduled_for_the_past_is_due_since_its_creation(project, connection, scrape):
    insert(connection, scheduled_at=database_now(connection) - timedelta(days=3))
    waiting = samples(scrape())

    project.processor.tick()

    assert (waiting["due_actions",], waiting["overdue_actions",]) == (1, 0)
    assert waiting["oldest_due_age_seconds",] < 3600
    assert samples(scrape())["start_lateness_seconds_sum", "test:run"] < 3600


def test_counters_survive_pruning_and_other_processes(project, a_runtime, connection, scrape):
    insert_many(connection, 2)
    project.processor.tick()
    insert(connection)
    a_runtime(registry=Registry.of(run)).processor.tick()

    move_clock(connection, timedelta(days=400))
    project.processor.tick()

    found = samples(scrape())
    assert found["settled_total", "completed", "test:run"] == 3
    assert not any(key[0] == "actions" for key in found)


def test_deliveries_are_counted_by_endpoint_and_outcome(project, connection, scrape):
    event = {"event": "task:created", "endpoint": "0197a000-0000-7000-8000-000000000001"}
    insert(connection, action_type="webhook:send", payload=event)
    insert(connection, action_type="webhook:send", payload=event | {"does": "fail"})
    insert(connection, action_type="webhook:send", payload={"event": "task:created"})

    project.processor.tick()

    found = samples(scrape())
    assert found["webhook_deliveries_total", "(database)", "completed"] == 1
    assert found["webhook_deliveries_total", "(database)", "failed"] == 1
    assert found["settled_total", "completed", "webhook:send"] == 2


def test_gauges_are_available_before_the_first_tick(connection, scrape):
    insert_many(connection, 3, **due_for(connection, seconds=60))
    insert(connection, action_type="missing:handler")
    insert(connection, status="failed", completed_at="2026-01-01T00:00:00Z")

    found = samples(scrape())

    assert found["actions", "pending", "test:run"] == 3
    assert found["actions", "(other)", "pending"] == 1
    assert found["actions", "failed", "test:run"] == 1
    assert found["actions_capped", "pending"] == 0
    assert (found["due_actions",], found["overdue_actions",]) == (4, 0)
    assert 60 <= found["oldest_due_age_seconds",] < 240
    assert found["recent_ticks", "finished"] == 0
    assert ("last_tick_timestamp_seconds",) not in found


def test_recent_ticks_include_idle_ticks(project, connection, scrape):
    project.processor.tick()
    project.processor.tick()
    connection.execute(
        "insert into scheduled_action_ticks (id, started_at, lease_expires_at) select gen_random_uuid(),"
        " statement_timestamp() - interval '5 minutes', statement_timestamp() - interval '4 minutes'"
    )

    found = samples(scrape())

    assert (found["recent_ticks", "finished"], found["recent_ticks", "lost"]) == (2, 1)
    assert found["last_tick_timestamp_seconds",] > 1.7e9
    assert found["last_tick_duration_seconds",] >= 0


# -- format ------------------------------------------------------------------------------------------------------------


def test_the_format_follows_the_accept_header(project, connection, scrape):
    insert(connection, payload={"does": "fail"})
    project.processor.tick()

    text, opened = scrape(), scrape(accept=OPEN_METRICS)

    assert text.content_type.startswith("text/plain")
    assert opened.content_type.startswith("application/openmetrics-text")
    assert opened.text.endswith("# EOF\n")
    assert samples(opened, open_metrics) == samples(text)
    assert text.headers["Cache-Control"] == "no-store"


def test_every_metric_is_documented(project, connection, scrape):
    insert(connection)
    project.processor.tick()
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "observe.md").read_text(encoding="utf-8")

    for family in open_metrics(scrape(accept=OPEN_METRICS).text):
        assert f"| `{family.name}" in page, f"docs/how-to/observe.md does not document {family.name}"


# -- who may scrape ----------------------------------------------------------------------------------------------------


def test_any_token_without_a_team_may_scrape(a_caller, scrape):
    assert scrape(a_caller("viewer").token).status_code == 200


@pytest.mark.parametrize("token", [None, "wrong"])
def test_other_tokens_may_not_scrape(scrape, token):
    refused = scrape(token)

    assert refused.status_code == 401
    assert refused.json["code"] == "unauthorized"
    assert refused.headers["WWW-Authenticate"] == "Bearer"


def test_a_teams_token_is_refused_metrics_of_all_teams(a_caller, scrape):
    refused = scrape(a_caller("admin", "red").token)

    assert refused.status_code == 403
    assert "metrics cover all teams" in refused.json["detail"]


def test_without_a_database_the_answer_is_503_with_retry_after(a_runtime):
    runtime = a_runtime(DATABASE_URL="postgresql://127.0.0.1:1/none", registry=Registry.of(run))

    refused = application(runtime).test_client().get("/metrics", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})

    assert (refused.status_code, refused.json["code"]) == (503, "database_unavailable")
    assert refused.headers["Retry-After"]


def test_without_the_extra_the_error_names_the_package_and_ticks_collect_no_metrics(database_url, tmp_path):
    """In a separate process, in which the library cannot be imported."""
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "_registry.py").write_text("HANDLERS = {}\nOPTIONS = {}\nFUNCTIONS = {}\n")
    code = (
        "import sys, importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'prometheus_client' else find(name, *a)\n"
        "sys.modules['prometheus_client'] = None\n"
        "from scheduled_actions.wsgi import app\n"
        "from scheduled_actions import runtime\n"
        "r = app.test_client().get('/metrics', headers={'Authorization': 'Bearer an-admin-token-of-tests'})\n"
        "print(r.status_code, r.json['code'], r.json['detail'], runtime.current().processor.state.metrics)\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"DATABASE_URL": database_url, "ADMIN_TOKEN": ADMIN_TOKEN, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.stdout.startswith("503 extra_missing prometheus_client is not installed"), ran.stdout + ran.stderr
    assert "scheduled-actions[metrics]" in ran.stdout
    assert ran.stdout.rstrip().endswith("None")


# -- counting once -----------------------------------------------------------------------------------------------------


def settled_metrics(count):
    metrics = MetricsBuffer({"a:b", "c:d"}, {})
    for _ in range(count):
        metrics.settled("a:b", "completed", payload_text="{}")
        metrics.settled("c:d", "failed", payload_text="{}")
    return metrics


def values(connection):
    return dict(connection.execute("select subject, value from scheduled_action_metrics where metric = 'settled'"))


def test_a_repeated_finish_after_a_lost_connection_counts_once(connection):
    tick = a_tick(connection)

    metrics = settled_metrics(3)

    for _ in range(2):
        tick_store.finish_tick(connection, tick, outcome="finished", counts={"succeeded": 3}, metrics=metrics)
    metrics.clear()
    metrics.settled("a:b", "completed", payload_text="{}")
    tick_store.finish_tick(connection, tick, outcome="finished", counts={"succeeded": 4}, metrics=metrics)

    assert values(connection) == {"a:b": 4, "c:d": 3}
    assert connection.execute("select outcome, counts from scheduled_action_ticks").fetchone() == (
        "finished",
        {"succeeded": 4, "metrics_buffer": 2},
    )


def test_ticks_that_end_together_lose_no_count(database_url, connection):
    def work(own, number):
        for _ in range(10):
            tick_store.finish_tick(
                own, a_tick(own), outcome="finished", counts={"succeeded": 1}, metrics=settled_metrics(1)
            )

    together(database_url, 6, work)

    assert values(connection) == {"a:b": 60, "c:d": 60}


def test_a_scrape_reads_recent_ticks_with_an_index(project, connection, scrape):
    connection.execute(
        "insert into scheduled_action_ticks (id, started_at, finished_at, lease_expires_at, outcome)"
        " select gen_random_uuid(), statement_timestamp() - n * interval '1 minute', statement_timestamp(),"
        " statement_timestamp(), 'finished' from generate_series(1, 20000) n"
    )
    connection.execute("analyze scheduled_action_ticks")
    from tests.statements import statement

    plan = connection.execute(
        f"explain {statement('recent_ticks')}", {"seconds": 900, "limit": 2000}
    ).fetchall()  # fmt: skip

    text = "\n".join(line for (line,) in plan)
    assert "Seq Scan" not in text
    assert "scheduled_action_ticks_started" in text
    assert samples(scrape())["recent_ticks", "finished"] == 14


def test_limits_are_counted_by_pattern_and_pauses_as_a_whole(scrape, connection):
    limits(connection, {"api:*": {"at_once": 1}, "mail": {}})
    schedule(connection, "api:acme", count=3)
    schedule(connection, "gone")
    claim(connection)
    insert(connection, parked_by="0197a000-0000-7000-8000-000000000001")
    connection.execute("insert into scheduled_action_pauses (kind, name) values ('team', 'blue')")

    found = {
        (sample.name, sample.labels.get("pattern")): sample.value
        for family in prometheus_text(scrape().text)
        for sample in family.samples
        if "limit_" in sample.name or "paused" in sample.name or "pauses" in sample.name
    }

    name = "scheduled_actions_limit"
    assert found == {
        (f"{name}_slots_in_use", "api:*"): 1, (f"{name}_slots_in_use", "mail"): 0,
        (f"{name}_slots_in_use", "(none)"): 0,
        (f"{name}_queued_actions", "api:*"): 2, (f"{name}_queued_actions", "mail"): 0,
        (f"{name}_queued_actions", "(none)"): 1,
        ("scheduled_actions_active_pauses", None): 1, ("scheduled_actions_paused_actions", None): 1,
    }  # fmt: skip


MEDIA = {"executors": {"media": {"types": ["video:*"]}, "gpu": {"types": ["model:*"]}}}


def of_executors(project):
    """Return the gauges of executors."""
    page = application(project).test_client().get("/metrics", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
    return {
        (name.removeprefix("executor_"), *rest): value
        for (name, *rest), value in samples(page).items()
        if name.startswith("executor_")
    }


def test_executors_have_gauges_of_due_and_running_actions_and_of_workers(project, connection):
    settings = config.settings_of(MEDIA)
    project.config = replace(project.config, settings=replace(project.config.settings, executors=settings.executors))
    write_executors(connection, settings.executors, replace=True)
    insert_many(connection, 2, action_type="video:cut")
    write(connection, "render-1:7")

    found = of_executors(project)

    page = (Path(__file__).parents[2] / "docs" / "how-to" / "observe.md").read_text(encoding="utf-8")
    assert all(f"| `scheduled_actions_executor_{name}" in page for name, _ in found)
    assert found == {
        ("due_actions", "gpu"): 0, ("untaken_actions", "gpu"): 0, ("running_actions", "gpu"): 0, ("workers", "gpu"): 0,
        ("due_actions", "media"): 2, ("untaken_actions", "media"): 0, ("running_actions", "media"): 0,
        ("workers", "media"): 1,
    }  # fmt: skip


def test_without_executors_in_the_settings_a_scrape_reads_none(project, connection, monkeypatch):
    write_executors(connection, config.settings_of(MEDIA).executors, replace=True)
    monkeypatch.setattr(metrics, "_executors", None)

    assert of_executors(project) == {}
