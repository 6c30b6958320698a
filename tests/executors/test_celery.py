"""Workers of a real Celery app run the actions of an executor; Redis is a real server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from celery import Celery, signals

from scheduled_actions import action
from scheduled_actions.core import config
from scheduled_actions.executors import carriers
from scheduled_actions.executors.carriers import CarrierUnavailable, SendOutcome
from scheduled_actions.executors.carriers.celery import TASK
from scheduled_actions.executors.tickets import TicketMessage
from scheduled_actions.integrations.celery import connect
from scheduled_actions.operations import registry_build
from tests.executors.brokers import Redis
from tests.executors.conftest import CARRIED
from tests.executors.test_tickets import TICKET
from tests.factories import PATIENCE, insert, insert_many, row, statuses, wait_until

ROOT = Path(__file__).parents[2]
SETTINGS = """
[executors.media]
types = ["video:*"]
carrier = "celery"
url_env_var = "MEDIA_BROKER_URL"
"""
HANDLERS = '''
import os, time
from scheduled_actions import action

@action("video:cut", timeout_seconds=30)
def cut(payload: dict) -> dict:
    """Take as long as the payload says."""
    time.sleep(payload.get("seconds", 0))
    return {"pid": os.getpid(), "parent": os.getppid()}
'''
APP = """
import os
from celery import Celery
from scheduled_actions.integrations.celery import connect
app = Celery("shop", broker=os.environ["MEDIA_BROKER_URL"])
connect(app)
"""


@action("video:cut")
def cut(payload: dict) -> None:
    """Sent by the ticks of the test, which never run it."""


@pytest.fixture(scope="module")
def redis():
    server = Redis()
    yield server
    server.close()


@pytest.fixture
def project(a_project, redis):
    """Return the project whose ticks send tickets through Redis."""
    redis.flush()
    made = a_project(cut, executors={"media": CARRIED})
    made.config.environ["MEDIA_BROKER_URL"] = redis.url
    return made


class CeleryWorker:
    """`celery worker` as a process of its own, with a log."""

    def __init__(self, directory, environ, *options):
        self.log = directory / "celery.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "shop", "worker", "-Q", "media", "--loglevel", "INFO", *options],
                cwd=directory, env=environ, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def logged(self):
        return self.log.read_text(errors="replace")

    def stop(self):
        """Stop warmly; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE)

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=PATIENCE)


@pytest.fixture
def work(tmp_path, database_url, redis):
    """Return a function that starts a Celery worker of the project's app; it is killed after the test."""
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "__init__.py").touch()
    (tmp_path / "handlers" / "video.py").write_text(HANDLERS, encoding="utf-8")
    (tmp_path / "scheduled_actions.toml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "shop.py").write_text(APP, encoding="utf-8")
    registry_build.write(tmp_path)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULED_ACTIONS_")}
    environ |= {"DATABASE_URL": database_url, "MEDIA_BROKER_URL": redis.url, "PYTHONPATH": str(ROOT)}
    started = []

    def start(*options, **changes):
        started.append(CeleryWorker(tmp_path, environ | changes, *options))
        return started[-1]

    yield start
    for worker in started:
        worker.kill()


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_the_workers_of_an_app_run_the_actions_and_end_after_a_signal(connection, project, work, pool):
    ids = insert_many(connection, 6, action_type="video:cut")
    worker = work("--pool", pool, "--concurrency", "2")

    report = project.processor.tick()

    assert report.errors == []
    wait_until(lambda: set(statuses(connection).values()) == {"completed"})
    rows = [row(connection, one) for one in ids]
    assert {(one["attempts"], one["executor"]) for one in rows} == {(1, None)}
    runs_in = {one["result"]["parent" if pool == "prefork" else "pid"] for one in rows}
    assert runs_in == {worker.process.pid}
    assert worker.stop() == 0, worker.logged()
    assert "Traceback" not in worker.logged()
    finished = connection.execute("select bool_and(finished_at is not null) from scheduled_action_workers").fetchone()
    assert finished == (True,)


def test_a_running_action_ends_before_the_worker_does(connection, project, work):
    mine = insert(connection, action_type="video:cut", payload={"seconds": 1})
    worker = work("--concurrency", "1")
    project.processor.tick()
    wait_until(lambda: row(connection, mine)["announced_at"] is not None)

    assert worker.stop() == 0
    assert (row(connection, mine)["status"], row(connection, mine)["attempts"]) == ("completed", 1)


def test_a_message_of_another_program_is_logged_in_one_line_and_the_worker_goes_on(connection, project, work, redis):
    worker = work("--concurrency", "1")
    Celery(broker=redis.url, set_as_current=False).send_task(TASK, kwargs={"message": {"v": 9}}, queue="media")
    wait_until(lambda: "executor.message_refused" in worker.logged())
    insert(connection, action_type="video:cut")
    project.processor.tick()

    wait_until(lambda: set(statuses(connection).values()) == {"completed"})
    assert "has format version 9, and this version reads 1: update the worker" in worker.logged()
    assert "Traceback" not in worker.logged()


@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_pools_without_threads_are_refused(pool):
    class Worker:
        pool_cls = f"celery.concurrency.{pool}:TaskPool"

    connect(Celery(set_as_current=False))

    with pytest.raises(SystemExit, match=f"cannot run in the pool {pool}: use --pool prefork, threads or solo"):
        signals.worker_init.send(sender=Worker())


# -- the carrier ----------------------------------------------------------------------------------------------------


def carrier_of(url):
    settings = config.settings_of({"executors": {"media": CARRIED}})
    return carriers.build_carrier("media", settings.executors["media"], {"MEDIA_BROKER_URL": url})


MESSAGES = [TicketMessage("media", [TICKET])] * 3


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "MEDIA_BROKER_URL is not set; set it to the URL of Celery's broker"),
        ("nonsense://user:secret@host", "the URL in MEDIA_BROKER_URL is not that of a broker, such as redis://"),
        (
            "redis://:secret@127.0.0.1:1/0",
            r"the broker at redis://127\.0\.0\.1 cannot be used \(.*refused.*\); ",
        ),
        ("amqp://user:secret@127.0.0.1:1//", r"the broker at amqp://127\.0\.0\.1 cannot be used \(.*refused.*\)"),
    ],
)
def test_a_broker_that_cannot_be_used_is_named_without_its_password(url, problem):
    with pytest.raises(CarrierUnavailable, match=problem) as raised:
        carrier_of(url).open()

    assert "secret" not in str(raised.value)


def test_the_broker_gets_each_message_once(redis):
    redis.flush()
    carrier = carrier_of(redis.url)

    carrier.open()
    assert carrier.send(MESSAGES) == [SendOutcome.SENT] * 3

    assert redis.length("media") == 3
    carrier.close()


def test_after_a_broker_has_died_messages_are_unknown_or_refused_and_later_ones_are_sent():
    server = Redis()
    carrier = carrier_of(server.url)
    carrier.open()
    server.kill()

    assert carrier.send(MESSAGES) == [SendOutcome.UNKNOWN, SendOutcome.REFUSED, SendOutcome.REFUSED]
    with pytest.raises(CarrierUnavailable):
        carrier.open()
    server.start()
    carrier.open()
    assert carrier.send(MESSAGES) == [SendOutcome.SENT] * 3
    assert server.length("media") == 3
    carrier.close()
    server.close()


def test_a_frozen_broker_is_given_up_in_time(redis):
    carrier = carrier_of(redis.url)
    carrier.open()
    redis.signal(signal.SIGSTOP)
    try:
        assert carrier.send(MESSAGES) == [SendOutcome.UNKNOWN, SendOutcome.REFUSED, SendOutcome.REFUSED]
        with pytest.raises(CarrierUnavailable):
            carrier.open()
    finally:
        redis.signal(signal.SIGCONT)
