"""Settings files, Makefile, packaging, gunicorn and Vercel configuration match the code."""

from __future__ import annotations

import configparser
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from flask import Flask
from gunicorn.config import KNOWN_SETTINGS

from scheduled_actions.cli.executors.commands import work
from scheduled_actions.core import config
from scheduled_actions.core.config import Settings
from scheduled_actions.local import environment
from scheduled_actions.operations import registry_build
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime
from scheduled_actions.web.extension import ScheduledActions
from tests.faults.serving import CRON_SECRET, Service, has_ended, wait_until

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TARGETS = [
    "help",
    "install",
    "run",
    "demo",
    "demo-executors",
    "demo-license",
    "test",
    "test-faults",
    "test-malice",
    "test-browser",
    "test-docs",
    "screenshots",
    "bench",
    "bench-smoke",
    "bench-cost",
    "bench-peers",
    "bench-install",
]
TARGETS += [
    "proof-executors",
    "proof-limits",
    "proof-malice",
    "proof-on-time",
    "proof-pgbouncer",
    "proof-scale",
    "proof-soak",
    "proof-vercel",
    "trace-paths",
    "format",
    "lint",
    "types",
    "registry",
    "docs-benchmarks",
    "docs-drawings",
    "ci",
]


def test_the_shipped_settings_file_changes_no_default():
    shipped = tomllib.loads((ROOT / "scheduled_actions.toml").read_text())

    assert config.settings_of(shipped) == Settings()


def test_the_shipped_settings_file_lists_every_setting_with_its_default():
    text = (ROOT / "scheduled_actions.toml").read_text()
    text = re.sub(
        r"^#\[(webhooks\.endpoints|notifications\.channels|limits).*?(?=^\[)", "", text, flags=re.MULTILINE | re.DOTALL
    )
    # These have no default; the file shows an example value.
    text = re.sub(r"^#(default_endpoint|alert_email|ca_file|host) = .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"(?<=^\[teams\]\n)(#.*\n)+", "", text, flags=re.MULTILINE)
    shown = tomllib.loads(re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE))

    assert config.settings_of(shown) == Settings()
    names = {f"{key}.{inner}" for key, value in shown.items() if isinstance(value, dict) for inner in value}
    names |= {key for key, value in shown.items() if not isinstance(value, dict)}
    without = {"webhooks.default_endpoint", "webhooks.alert_email", "webhooks.ca_file", "teams.concurrency"}
    without |= {"email.host"}
    assert names | without == set(config.setting_names().values())


def test_the_example_endpoint_and_executor_are_valid():
    text = re.sub(r"^#(?=\S)", "", (ROOT / "scheduled_actions.toml").read_text(), flags=re.MULTILINE)

    settings = config.settings_of(tomllib.loads(text))

    assert settings.webhooks.default_endpoint == "warehouse"
    assert settings.webhooks.endpoints["warehouse"].env_var == "WAREHOUSE_WEBHOOK_URL"
    assert settings.executors["media"].types == ("video:*",)


def test_the_unit_of_a_worker_runs_a_command_and_waits_longer_than_its_grace_period():
    unit = configparser.ConfigParser(interpolation=None, delimiters="=")
    unit.optionxform = str
    unit.read(ROOT / "deploy/systemd/scheduled-actions-worker@.service")
    service = unit["Service"]

    [grace] = [one.default for one in work.params if one.name == "grace"]
    assert service["ExecStart"].endswith("/scheduled-actions executors work %i")
    assert int(service["TimeoutStopSec"]) > grace
    assert (service["Type"], service["KillMode"]) == ("exec", "mixed")
    assert not {"ExecStartPre", "ExecReload", "PrivateDevices"} & set(service)


def test_the_example_environment_is_valid_and_has_no_secret():
    text = (ROOT / ".env.example").read_text()

    assert environment.parse(text) == {"CRON_SECRET": "", "ADMIN_TOKEN": ""}
    names = environment.parse(re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE))
    assert {"DATABASE_URL", "SMTP_USERNAME", "WAREHOUSE_WEBHOOK_SECRET"} <= names.keys()


def test_a_runtime_property_is_created_once_by_concurrent_threads(tmp_path):
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(40):
                runtime = Runtime(config.load(tmp_path, {}), registry=Registry.of())
                begins = threading.Barrier(4)

                def first(runtime=runtime, begins=begins):
                    begins.wait(10)
                    return runtime.processor

                assert len({id(one.result()) for one in [pool.submit(first) for _ in range(4)]}) == 1
    finally:
        sys.setswitchinterval(before)


def test_the_vercel_cron_pings_an_existing_route_that_has_enough_time_for_a_tick(tmp_path):
    app = Flask("any")
    ScheduledActions(app, runtime=Runtime(config.load(tmp_path, {})))
    vercel = json.loads((ROOT / "vercel.json").read_text())
    module, _, name = PYPROJECT["tool"]["vercel"]["entrypoint"].partition(":")
    entry = f"{module.replace('.', '/')}.py"

    assert [(cron["path"], cron["schedule"]) for cron in vercel["crons"]] == [("/cron/process", "* * * * *")]
    assert "/cron/process" in {rule.rule for rule in app.url_map.iter_rules()}
    assert (ROOT / entry).is_file()
    assert name == "app"
    assert vercel["functions"][entry]["maxDuration"] > Settings().max_duration_seconds
    assert "{.env,{.scheduled_actions," in vercel["functions"][entry]["excludeFiles"]
    assert "rewrites" not in vercel


def test_every_setting_of_the_gunicorn_config_exists(monkeypatch):
    monkeypatch.chdir(ROOT)
    given = runpy.run_path(str(ROOT / "gunicorn.conf.py"))
    known = {setting.name for setting in KNOWN_SETTINGS}

    helpers = {"ScheduledActionsError", "load", "current", "math", "os", "Any", "annotations"}

    assert helpers.isdisjoint(known)
    assert {name for name in given if not name.startswith("_")} - known == helpers


def test_gunicorn_timeouts_exceed_the_longest_tick(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SCHEDULED_ACTIONS_MAX_DURATION_SECONDS", "290.5")

    given = runpy.run_path(str(ROOT / "gunicorn.conf.py"))

    assert given["worker_class"] == "gthread"
    assert given["timeout"] > 290.5
    assert given["graceful_timeout"] > 290.5
    assert given["control_socket_disable"] is True


def test_make_without_a_target_lists_every_target():
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert re.findall(r"^  make (\S+) +\S", listed, flags=re.MULTILINE) == TARGETS
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert phony is not None
    assert phony[1].split() == TARGETS


def test_make_install_refuses_an_unusable_python_with_a_clear_message(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt", "setup.py"):
        (tmp_path / name).touch()

    made = subprocess.run(
        ["make", "install", "PYTHON=false"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert made.returncode != 0
    assert "PYTHON=false is not Python 3.11 or newer" in made.stderr
    assert not (tmp_path / ".venv").exists()


def test_every_dependency_is_pinned_by_name_and_version_only():
    lines = (ROOT / "constraints.txt").read_text().split("\n")
    pinned = {_normal(re.fullmatch(r"([A-Za-z0-9_.-]+)==[0-9][0-9A-Za-z.]*", line)[1]) for line in lines if line}

    project = PYPROJECT["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {_normal(re.match(r"[A-Za-z0-9_.-]+", one)[0]) for one in wanted} - {"scheduled-actions"}
    assert names <= pinned


def _normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


HANDLERS = '''
import os, time
from pathlib import Path
from scheduled_actions import Context, action

@action("proof:wait")
def wait(payload: dict, context: Context) -> int:
    """Wait for the file `go`, or until asked to stop; then finish."""
    (Path(payload["place"]) / f"started-{payload['number']}").write_text(str(os.getpid()))
    while not (context.should_stop or (Path(payload["place"]) / "go").exists()):
        time.sleep(0.01)
    return os.getpid()

@action("proof:hang", timeout_seconds=0.3, max_attempts=1)
def hang(payload: dict) -> None:
    time.sleep(3600)
'''


@pytest.fixture
def served(tmp_path, database_url):
    """Yield a function that starts gunicorn with the shipped config on a project with two handlers."""
    project = tmp_path / "project"
    (project / "handlers").mkdir(parents=True)
    (project / "handlers" / "__init__.py").touch()
    (project / "handlers" / "proofs.py").write_text(HANDLERS)
    shutil.copy(ROOT / "gunicorn.conf.py", project)
    registry_build.write(project)
    started = []

    def start(*, workers, **settings):
        outer = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULED_ACTIONS_")}
        named = {f"SCHEDULED_ACTIONS_{name.upper()}": str(value) for name, value in settings.items()}
        environ = {**outer, **named, "DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET}
        service = Service(project, environ, workers=workers, log=tmp_path / "gunicorn.log")
        started.append(service)
        return service.start()

    yield start
    for service in started:
        service.kill()


def schedule(connection, action_type, count=1, **payload):
    for number in range(count):
        document = psycopg.types.json.Jsonb({**payload, "number": number})
        connection.execute("select schedule_action(%s, %s)", [action_type, document])


@pytest.mark.slow
def test_on_sigterm_a_tick_finishes_its_running_action_and_the_other_worker_runs_the_rest(served, connection, tmp_path):
    schedule(connection, "proof:wait", count=3, place=str(tmp_path))
    service = served(workers=2, concurrency=1)
    first = threading.Thread(target=service.ping)
    first.start()
    began = tmp_path / "started-0"
    wait_until(lambda: began.exists() and began.read_text(), within=10, what="the first action starts")
    worker = int(began.read_text())

    os.kill(worker, signal.SIGTERM)
    first.join(timeout=20)

    wait_until(lambda: has_ended(worker), within=10, what="the worker exits")
    rows = "select status, (result #>> '{}')::int from scheduled_actions order by id"
    assert connection.execute(rows).fetchall() == [("completed", worker), ("pending", None), ("pending", None)]
    (tmp_path / "go").touch()
    assert service.ping().report["succeeded"] == 2
    by_others = {result for _, result in connection.execute(rows)} - {worker}
    assert by_others
    assert by_others <= set(service.workers())


@pytest.mark.slow
def test_a_worker_whose_threads_are_all_stuck_is_replaced(served, connection, tmp_path):
    schedule(connection, "proof:hang")
    service = served(workers=1, concurrency=1)
    [worker] = service.workers()

    assert service.ping().report["failed"] == 1

    wait_until(lambda: has_ended(worker), within=10, what="the worker exits")
    (tmp_path / "go").touch()
    schedule(connection, "proof:wait", place=str(tmp_path))
    assert service.ping().report["succeeded"] == 1
    assert "worker.exhausted" in service.logged()
