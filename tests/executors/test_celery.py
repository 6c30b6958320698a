"""Celery carries the tickets of an executor: through a real Redis to real workers of a Celery app."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import kombu
import pytest
import redis
from celery import Celery, signals

from scheduled_actions.core import config
from scheduled_actions.core.errors import ExtraMissing
from scheduled_actions.executors import store
from scheduled_actions.executors.carriers import CarrierUnavailable, SendOutcome, build_carrier
from scheduled_actions.executors.model import Ticket
from scheduled_actions.executors.tickets import TicketMessage
from scheduled_actions.integrations.celery import connect
from scheduled_actions.runtime import Runtime
from tests.executors import brokers
from tests.factories import CRON_SECRET, PATIENCE, insert, insert_many, move_clock, row, statuses, wait_until

pytestmark = pytest.mark.slow

SENT, REFUSED, UNKNOWN = SendOutcome.SENT, SendOutcome.REFUSED, SendOutcome.UNKNOWN
EXECUTOR = config.Executor(types=("video:*",), carrier="celery", url_env_var="MEDIA_BROKER_URL")
#: Another project sends to the same queue.
OTHER = config.Executor(types=("video:*",), carrier="celery", url_env_var="MEDIA_BROKER_URL", queue="media")

SETTINGS = """
[executors.media]
types = ["video:*"]
carrier = "celery"
url_env_var = "MEDIA_BROKER_URL"
"""

#: The three lines that the how-to page shows.
APP = """
import os

from celery import Celery

from scheduled_actions.integrations.celery import connect

app = Celery("tasks", broker=os.environ["MEDIA_BROKER_URL"])
connect(app)
"""

HANDLERS = """
import os
import time
from pathlib import Path

from scheduled_actions import Context, action


@action("video:cut")
def cut(payload: dict) -> dict:
    if "log" in payload:
        with open(payload["log"], "a") as log:
            log.write("ran\\n")
    return {"pid": os.getpid()}


@action("video:encode")
def encode(payload: dict) -> None:
    time.sleep(3)


@action("video:stay", timeout_seconds=60)
def stay(payload: dict) -> None:
    if not Path(payload["started"]).exists():
        Path(payload["started"]).write_text(str(os.getpid()))
        time.sleep(60)


@action("video:watch", timeout_seconds=60)
def watch(payload: dict, context: Context) -> dict:
    Path(payload["started"]).touch()
    while not context.should_stop:
        time.sleep(0.01)
    return {"has_stopped": True}
"""


#: The last write of a worker takes longer than the end of a process that does not wait for it.
SLOW_END = """
create function slow_end() returns trigger language plpgsql as
$$ begin perform pg_sleep(1); return new; end $$;
create trigger slow_end before insert or update on scheduled_action_workers for each row
when (new.finished_at is not null) execute function slow_end()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with brokers.redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def queue(server):
    """Return a client of the broker, whose queues are empty."""
    client = redis.Redis(port=server.port)
    client.flushall()
    yield client
    client.close()


def carrier(url, **environ):
    return build_carrier("media", EXECUTOR, {"MEDIA_BROKER_URL": url} | environ)


def messages(number):
    return [TicketMessage("media", [Ticket(uuid4(), uuid4(), "video:cut", "acme")]) for _ in range(number)]


# -- the carrier -----------------------------------------------------------------------------------------------------


def test_messages_are_sent_in_their_order_to_the_queue_of_the_executor(server, queue):
    sender = carrier(server.url)
    sender.open()

    outcomes = sender.send(messages(3))

    sender.close()
    assert outcomes == [SENT, SENT, SENT]
    assert queue.llen("media") == 3


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_is_away_is_reported_within_seconds_and_without_a_password(scheme):
    port = brokers.free_port()
    started = time.monotonic()

    with pytest.raises(CarrierUnavailable) as caught:
        carrier(f"{scheme}://worker:hidden-word@127.0.0.1:{port}/0").open()

    assert time.monotonic() - started < PATIENCE
    assert f"{scheme}://127.0.0.1:{port} (MEDIA_BROKER_URL) cannot be reached" in str(caught.value)
    assert "hidden-word" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "the environment variable MEDIA_BROKER_URL is not set: set it to the URL of Celery's broker"),
        ("hidden-word", "the URL in MEDIA_BROKER_URL does not begin with redis://, rediss://, amqp:// or amqps://"),
        ("redis://:hidden-word@host:port/0", "the URL in MEDIA_BROKER_URL is invalid"),
    ],
)
def test_a_wrong_url_is_reported_by_the_name_of_its_variable(url, problem):
    with pytest.raises(CarrierUnavailable) as caught:
        carrier(url).open()

    assert str(caught.value) == problem


def test_a_wrong_password_is_not_repeated(tmp_path):
    with brokers.redis(tmp_path, "--requirepass", "right-word") as server:
        with pytest.raises(CarrierUnavailable) as caught:
            carrier(server.url.replace("127", ":hidden-word@127", 1)).open()

        assert "hidden-word" not in str(caught.value)
        assert "AuthenticationError" in str(caught.value)


def test_messages_to_a_broker_that_was_killed_are_not_reported_as_sent_and_a_restarted_one_gets_the_next(tmp_path):
    with brokers.redis(tmp_path) as server:
        sender = carrier(server.url)
        sender.open()
        assert sender.send(messages(1)) == [SENT]
        server.kill()

        assert sender.send(messages(3)) == [UNKNOWN, REFUSED, REFUSED]
        with pytest.raises(CarrierUnavailable):
            sender.open()

        server.start()
        sender.open()
        assert sender.send(messages(2)) == [SENT, SENT]
        # A lost connection is noticed before the next claim, and not by the next message.
        server.kill()
        with pytest.raises(CarrierUnavailable):
            sender.open()
        server.start()
        sender.open()
        server.kill()
        server.start()
        sender.open()
        assert sender.send(messages(1)) == [SENT]
        sender.close()


def test_messages_that_the_broker_has_no_memory_for_are_refused(tmp_path):
    with brokers.redis(tmp_path, "--maxmemory", "1", "--maxmemory-policy", "noeviction") as server:
        sender = carrier(server.url)
        sender.open()

        assert sender.send(messages(2)) == [REFUSED, REFUSED]
        sender.close()


def test_without_celery_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "celery", None)

    with pytest.raises(ExtraMissing, match=r"celery is not installed: pip install 'scheduled-actions\[celery\]'"):
        carrier("redis://127.0.0.1")


# -- workers ---------------------------------------------------------------------------------------------------------


@dataclass
class CeleryProject:
    """A project with a Celery app, whose workers are real processes."""

    directory: Path
    environ: dict
    runtime: Runtime
    workers: list = field(default_factory=list)

    def work(self, *options, **environ):
        log = self.directory / f"worker-{len(self.workers)}.log"
        command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-Q", "media", "-l", "info", *options]
        command += ["--without-gossip", "--without-mingle", "--without-heartbeat", "-n", f"{len(self.workers)}@here"]
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, cwd=self.directory, env=self.environ | environ, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        self.workers.append(process)
        process.log = log
        return process

    def close(self):
        for process in self.workers:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)
        self.runtime.close()


@pytest.fixture
def celery_project(database_url, connection, tmp_path, server, queue):
    (tmp_path / "scheduled_actions.toml").write_text(SETTINGS)
    (tmp_path / "tasks.py").write_text(APP)
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "video.py").write_text(HANDLERS)
    given = {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET, "MEDIA_BROKER_URL": server.url}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SCHEDULED_ACTIONS_", "PYTEST_"))}
    environ = kept | given | {"PYTHONUNBUFFERED": "1"}
    subprocess.run(
        [sys.executable, "-m", "scheduled_actions.cli", "--project", str(tmp_path), "registry", "build"],
        cwd=tmp_path, env=environ, check=True, capture_output=True,
    )  # fmt: skip
    runtime = Runtime(config.load(tmp_path, given))
    store.write_executors(connection, runtime.config.settings.executors, replace=True)
    project = CeleryProject(tmp_path, environ, runtime)
    yield project
    project.close()


def tick(project):
    report = project.runtime.processor.tick()
    assert report.errors == []


def are(connection, ids, status):
    return lambda: dict.fromkeys(ids, status).items() <= statuses(connection).items()


def queued(queue):
    """Return the messages in the queue of the executor as they are stored."""
    return queue.lrange("media", 0, -1)


def workers(connection):
    return connection.execute("select name, finished_at is not null from scheduled_action_workers").fetchall()


def test_a_duplicate_of_a_message_runs_nothing_twice_and_a_flushed_one_is_sent_again(connection, celery_project, queue):
    log = celery_project.directory / "log"
    twice = insert(connection, action_type="video:cut", payload=json.dumps({"log": str(log)}))
    tick(celery_project)
    [message] = queued(queue)
    queue.lpush("media", message, message)
    celery_project.work("--pool", "threads", "-c", "3")
    wait_until(are(connection, [twice], "completed"))
    wait_until(lambda: not queued(queue))

    celery_project.workers[0].send_signal(signal.SIGTERM)
    assert celery_project.workers[0].wait(PATIENCE) == 0
    lost = insert(connection, action_type="video:cut", payload=json.dumps({"log": str(log)}), max_attempts=1)
    tick(celery_project)
    assert statuses(connection)[lost] == "processing"
    queue.flushall()
    move_clock(connection, timedelta(seconds=EXECUTOR.ticket_seconds + 1))
    tick(celery_project)
    tick(celery_project)
    assert statuses(connection)[lost] == "processing"
    celery_project.work("--pool", "solo")
    wait_until(are(connection, [twice, lost], "completed"))

    assert log.read_text() == "ran\n" * 2
    assert row(connection, lost)["attempts"] == 1


def test_an_invalid_message_is_logged_and_the_worker_goes_on(connection, celery_project, server):
    worker = celery_project.work("--pool", "prefork", "-c", "1")
    other = build_carrier("other", OTHER, {"MEDIA_BROKER_URL": server.url})
    other.open()
    assert other.send([TicketMessage("other", messages(1)[0].tickets)]) == [SENT]
    with kombu.Connection(server.url) as client, client.Producer() as producer:
        body = ((), {"message": {"v": 99}}, {})
        headers = {"task": "scheduled_actions.run", "id": str(uuid4()), "lang": "py"}
        producer.publish(body, routing_key="media", headers=headers, serializer="json")
    valid = insert(connection, action_type="video:cut")
    tick(celery_project)
    wait_until(are(connection, [valid], "completed"))

    logged = worker.log.read_text()
    assert "ticket.refused error=" in logged
    assert "other" in logged
    assert "has format version 99, and this version reads 1: update the worker" in logged
    assert "Traceback" not in logged


def test_children_do_not_use_the_connections_of_an_app_that_used_the_database_before_the_fork(
    connection, celery_project
):
    early = "from scheduled_actions import list_executors\nassert list_executors()\n"
    (celery_project.directory / "tasks.py").write_text(APP + early)
    worker = celery_project.work("--pool", "prefork", "-c", "2")
    ids = insert_many(connection, 6, action_type="video:cut")
    tick(celery_project)

    wait_until(are(connection, ids, "completed"))

    assert "Traceback" not in worker.log.read_text()


def test_a_worker_with_invalid_settings_does_not_start(celery_project):
    (celery_project.directory / "scheduled_actions.toml").write_text(SETTINGS + "ticket_seconds = 1\n")

    worker = celery_project.work()

    assert worker.wait(PATIENCE) == 1
    assert "ticket_seconds" in worker.log.read_text()
    assert "Traceback" not in worker.log.read_text()


def test_a_worker_with_a_pool_of_green_threads_does_not_start(caplog):
    connect(Celery("tasks", set_as_current=False))
    pool = type("TaskPool", (), {"is_green": True})

    with pytest.raises(SystemExit):
        signals.worker_init.send(sender=type("Worker", (), {"pool_cls": pool}))

    assert "start the worker with --pool prefork, threads or solo" in caplog.text


def test_time_limits_late_acknowledgement_and_short_lived_children_of_the_app_do_not_disturb_handlers(
    connection, celery_project
):
    changes = "app.conf.update(task_time_limit=1, task_soft_time_limit=1, task_acks_late=True)\n"
    (celery_project.directory / "tasks.py").write_text(APP + changes)
    worker = celery_project.work("--pool", "prefork", "-c", "1", "--max-tasks-per-child", "1")
    ids = insert_many(connection, 3, action_type="video:encode", max_attempts=1)
    tick(celery_project)

    wait_until(are(connection, ids, "completed"))

    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0
    ended = workers(connection)
    assert len(ended) == len({name for name, _ in ended}) == 3
    assert all(has_ended for _, has_ended in ended)


def test_an_action_whose_process_was_killed_runs_again_when_its_lease_has_ended(connection, celery_project):
    celery_project.work("--pool", "prefork", "-c", "1")
    started = celery_project.directory / "started"
    killed = insert(connection, action_type="video:stay", payload=json.dumps({"started": str(started)}))
    tick(celery_project)
    wait_until(lambda: started.exists() and started.read_text())

    os.kill(int(started.read_text()), signal.SIGKILL)
    move_clock(connection, timedelta(seconds=600))
    tick(celery_project)
    move_clock(connection, timedelta(seconds=600))
    tick(celery_project)

    wait_until(are(connection, [killed], "completed"))
    assert row(connection, killed)["attempts"] == 2


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory):
    with brokers.rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as server:
        yield server


def test_rabbitmq_gets_messages_only_into_a_queue_that_exists_and_confirms_each(rabbitmq):
    sender = carrier(rabbitmq.url)
    with pytest.raises(CarrierUnavailable, match="the broker has no queue media: start a worker, which creates it"):
        sender.open()
    with kombu.Connection(rabbitmq.url) as client:
        channel = client.channel()
        channel.queue_declare("media", durable=True, auto_delete=False)
        sender.open()

        assert sender.send(messages(100)) == [SENT] * 100
        assert channel.queue_declare("media", passive=True).message_count == 100

        channel.queue_delete("media")
        assert sender.send(messages(2)) == [REFUSED, REFUSED]

        limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
        channel.queue_declare("media", durable=True, auto_delete=False, arguments=limits)
        sender.open()
        assert sender.send(messages(3)) == [SENT, REFUSED, REFUSED]
        channel.queue_delete("media")
        channel.queue_declare("media", durable=True, auto_delete=False)

    sender.open()
    rabbitmq.freeze()
    frozen_at = time.monotonic()
    assert sender.send(messages(2)) == [UNKNOWN, REFUSED]
    with pytest.raises(CarrierUnavailable):
        sender.open()
    assert time.monotonic() - frozen_at < PATIENCE
    rabbitmq.unfreeze()

    sender.open()
    rabbitmq.kill()
    assert sender.send(messages(2)) == [UNKNOWN, REFUSED]
    rabbitmq.start()
    sender.open()
    assert sender.send(messages(2)) == [SENT, SENT]
    sender.close()


def test_workers_receive_tickets_through_rabbitmq(connection, celery_project, rabbitmq):
    environ = celery_project.runtime.config.environ
    celery_project.runtime.config = replace(
        celery_project.runtime.config, environ=dict(environ) | {"MEDIA_BROKER_URL": rabbitmq.url}
    )
    worker = celery_project.work("--pool", "prefork", "-c", "2", MEDIA_BROKER_URL=rabbitmq.url)
    wait_until(lambda: "ready." in worker.log.read_text())
    ids = insert_many(connection, 20, action_type="video:cut")
    tick(celery_project)

    wait_until(are(connection, ids, "completed"))
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(PATIENCE) == 0
    assert {one[1] for one in workers(connection)} == {True}


@pytest.mark.parametrize("pool", [("prefork", "-c", "2"), ("threads", "-c", "4"), ("solo",)], ids=lambda one: one[0])
def test_workers_of_a_celery_app_run_the_actions_and_end_orderly(connection, celery_project, pool):
    worker = celery_project.work("--pool", *pool)
    ids = insert_many(connection, 10, action_type="video:cut")
    tick(celery_project)

    wait_until(are(connection, ids, "completed"))
    started = celery_project.directory / "started"
    watching = insert(
        connection, action_type="video:watch", payload=json.dumps({"started": str(started)}), max_attempts=1
    )
    tick(celery_project)
    wait_until(started.exists)
    connection.execute(SLOW_END)
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(PATIENCE) == 0, worker.log.read_text()
    # The handler was asked to stop, although its task was still running.
    assert row(connection, watching)["status"] == "completed"
    assert {one[1] for one in workers(connection)} == {True}, worker.log.read_text()
    assert "Traceback" not in worker.log.read_text()
