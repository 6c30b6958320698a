"""The file through which `dev` is found by the other processes of its project, and the pings that it receives."""

from __future__ import annotations

import http.client
import os
import signal
import stat
import subprocess
import sys
import threading
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from scheduled_actions import action
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core import config
from scheduled_actions.core.secret import Secret
from scheduled_actions.database import handoff
from scheduled_actions.local import handoff as local_handoff
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime
from scheduled_actions.ticks.wake import PingTarget, TickWaker
from tests.factories import CRON_SECRET, wait_until

DATABASE = "postgresql://ann:secret@127.0.0.1:5432/app"
SECRET = Secret(handoff.NAME, "a-secret-of-these-tests")
DEV = handoff.Dev(url="http://127.0.0.1:1", secret=SECRET, mail_port=2525)


@action("test:run")
def run(payload: dict):
    return None


def config_of(project, **environ):
    return config.load(project, {"DATABASE_URL": DATABASE} | environ)


def test_a_running_dev_is_found_until_it_ends(tmp_path):
    settings = config_of(tmp_path)
    assert handoff.find(settings) is None

    with local_handoff.published(settings, DEV):
        assert handoff.find(settings) == DEV

    assert handoff.find(settings) is None
    assert list((tmp_path / ".scheduled_actions").iterdir()) == []


def test_the_file_is_private_and_contains_no_part_of_the_database_address(tmp_path):
    with local_handoff.published(config_of(tmp_path), DEV):
        path = tmp_path / handoff.NAME

        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "secret@" not in path.read_text()
        assert "app" not in path.read_text()


@pytest.mark.parametrize(
    ("url", "is_same"),
    [
        (DATABASE, True),
        ("postgresql://bob:other@localhost/app?application_name=x", True),
        ("host=127.0.0.1 dbname=app", True),
        ("postgresql://ann:secret@127.0.0.1:5433/app", False),
        ("postgresql://ann:secret@127.0.0.1:5432/test", False),
        ("postgresql://ann:secret@db/app", False),
        ("what is this", False),
        ("", False),
    ],
)
def test_a_dev_is_found_only_by_processes_with_the_same_database(tmp_path, url, is_same):
    with local_handoff.published(config_of(tmp_path), DEV):
        assert (handoff.find(config_of(tmp_path, DATABASE_URL=url)) is not None) == is_same


def test_a_dev_with_the_embedded_database_is_found_by_processes_without_an_address(tmp_path):
    with local_handoff.published(config_of(tmp_path, DATABASE_URL=""), DEV):
        assert handoff.find(config_of(tmp_path, DATABASE_URL="")) == DEV
        assert handoff.find(config_of(tmp_path)) is None


@pytest.mark.parametrize("environ", [{"VERCEL": "1"}, {"SCHEDULED_ACTIONS_ENV": "production"}])
def test_production_finds_no_dev(tmp_path, environ):
    with local_handoff.published(config_of(tmp_path), DEV):
        assert handoff.find(config_of(tmp_path, **environ)) is None


def test_the_file_of_a_killed_dev_is_ignored(tmp_path):
    script = f"""
import sys, time
from pathlib import Path
from scheduled_actions.core import config
from scheduled_actions.local import handoff as local_handoff
from tests.local.test_handoff import DEV, config_of
with local_handoff.published(config_of(Path({str(tmp_path)!r})), DEV):
    print("published", flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "published\n"
        found = handoff.find(config_of(tmp_path))
        process.send_signal(signal.SIGKILL)

    assert found == DEV
    assert (tmp_path / handoff.NAME).exists()
    assert handoff.find(config_of(tmp_path)) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"database": "embedded"}', "\xff"])
def test_a_file_with_other_content_is_ignored(tmp_path, content):
    settings = config_of(tmp_path, DATABASE_URL="")
    with local_handoff.published(settings, DEV):
        (tmp_path / handoff.NAME).write_text(content, encoding="latin-1")

        assert handoff.find(settings) is None


def test_the_dev_that_started_last_is_found_and_an_earlier_one_does_not_remove_its_file(tmp_path):
    settings = config_of(tmp_path)
    later = handoff.Dev(url="http://127.0.0.1:2", secret=SECRET)
    first = local_handoff.published(settings, DEV)
    first.__enter__()

    with local_handoff.published(settings, later):
        first.__exit__(None, None, None)

        assert handoff.find(settings) == later


def test_only_signed_requests_ping():
    pings = []
    with local_handoff.receiving_pings(SECRET, lambda: pings.append(1)) as url:
        with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)) as connection:
            connection.request("POST", "/cron/process", headers={"x-cron-secret": SECRET.reveal()})
            assert connection.getresponse().status == 401
        for secret in ("another-secret-of-tests", SECRET.reveal()):
            target = PingTarget(url=url, secret=Secret("dev", secret), is_expected=True)
            TickWaker(lambda target=target: target, None, lambda **_: False).notify()
        wait_until(lambda: pings)

    assert pings == [1]


@pytest.fixture
def runtime_of(tmp_path, database_url):
    """Return a function that creates the runtime of a process in the project."""
    made = []

    def make(**environ):
        settings = config.load(tmp_path, {"DATABASE_URL": database_url} | environ)
        made.append(Runtime(settings, registry=Registry.of(run)))
        return made[-1]

    yield make
    for runtime in made:
        runtime.close()


def test_an_application_without_secrets_wakes_a_dev_that_starts_after_it(runtime_of):
    runtime, pinged = runtime_of(), threading.Event()
    schedule = runtime.scheduler.schedule_action
    schedule(NewAction(action_type="test:run", payload={}))

    with (
        local_handoff.receiving_pings(SECRET, pinged.set) as url,
        local_handoff.published(runtime.config, handoff.Dev(url=url, secret=SECRET)),
    ):
        schedule(NewAction(action_type="test:run", payload={"later": True}))
        wait_until(pinged.is_set)


def test_the_setting_url_is_pinged_in_place_of_a_dev(runtime_of):
    from_dev, from_url = threading.Event(), threading.Event()
    with (
        local_handoff.receiving_pings(SECRET, from_dev.set) as dev_url,
        local_handoff.receiving_pings(Secret("CRON_SECRET", CRON_SECRET), from_url.set) as url,
    ):
        runtime = runtime_of(SCHEDULED_ACTIONS_URL=url, CRON_SECRET=CRON_SECRET)
        with local_handoff.published(runtime.config, handoff.Dev(url=dev_url, secret=SECRET)):
            runtime.scheduler.schedule_action(NewAction(action_type="test:run", payload={}))
            wait_until(from_url.is_set)

    assert not from_dev.is_set()


def test_a_script_prints_nothing_if_dev_does_not_answer_as_from_another_container(tmp_path, database_url):
    script = """
from scheduled_actions import action, runtime, schedule_action
from scheduled_actions.core import config
from scheduled_actions.registry import Registry
import os
@action("test:run")
def run(payload: dict):
    return None
runtime.use(runtime.Runtime(config.load(None, os.environ), registry=Registry.of(run)))
assert runtime.current().wake.is_on
schedule_action("test:run", {})
"""
    environ = {**os.environ, "DATABASE_URL": database_url, "SCHEDULED_ACTIONS_PROJECT": str(tmp_path)}

    with local_handoff.published(config.load(tmp_path, environ), DEV):
        ran = subprocess.run(
            [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=False
        )

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
