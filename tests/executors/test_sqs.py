"""SQS carries the tickets of an executor: to the worker loop, as a thread and as a process, and to AWS Lambda."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from datetime import timedelta
from uuid import uuid4

import boto3
import pytest
from flask import Flask
from moto.server import ThreadedMotoServer

from scheduled_actions import ScheduledActions, action
from scheduled_actions.core.config import Executor
from scheduled_actions.core.errors import DatabaseUnavailable, ExtraMissing
from scheduled_actions.executors.carriers import CarrierUnavailable, SendOutcome, build_carrier
from scheduled_actions.executors.carriers.sqs import SqsReceiver, message_group
from scheduled_actions.executors.model import Ticket
from scheduled_actions.executors.tickets import TicketMessage
from scheduled_actions.executors.worker import WorkerOptions
from scheduled_actions.integrations.aws_lambda import lambda_handler
from scheduled_actions.operations import registry_build
from tests.executors.sqs_server import CREDENTIALS, ScriptedSqs, TestQueue
from tests.factories import CRON_SECRET, PATIENCE, insert, insert_many, move_clock, row, statuses, wait_until

pytestmark = pytest.mark.slow

CALLS = []


@action("video:cut")
def cut(payload: dict) -> None:
    CALLS.append(payload)


@action("video:render", timeout_seconds=600)
def render(payload: dict): ...


@pytest.fixture(autouse=True)
def credentials(monkeypatch):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def moto_server():
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def moto_client(moto_server):
    return boto3.session.Session().client(
        "sqs",
        endpoint_url=moto_server,
        region_name=CREDENTIALS["AWS_DEFAULT_REGION"],
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


@pytest.fixture
def queue(moto_server, moto_client, monkeypatch):
    """Return an empty queue on moto's server."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", moto_server)
    CALLS.clear()
    return TestQueue(moto_client)


def executors(used, **changes):
    return {"media": {"types": ["video:*"], "carrier": "sqs", "queue": used.name} | changes}


@pytest.fixture
def a_queued_project(a_project, queue):
    """Return a function that creates a project whose executor uses the queue."""

    def make(*handlers, **changes):
        return a_project(*(handlers or (cut, render)), executors=executors(queue, **changes))

    return make


@pytest.fixture
def working():
    """Return a function that runs the worker of a project on a thread; all are stopped after the test."""
    with ExitStack() as running:

        def start(project, *, lines=None):
            options = WorkerOptions(on_outage=(lines if lines is not None else []).append)
            thread = threading.Thread(target=project.executors.work, args=["media", options])
            thread.start()
            running.callback(thread.join, PATIENCE)
            running.callback(project.executors.stop)
            return thread

        yield start


def a_message(team_id=None, *, number=1, executor="media"):
    return TicketMessage(executor, [Ticket(uuid4(), uuid4(), "video:cut", team_id) for _ in range(number)])


def a_carrier(queue="media", **changes):
    carrier = build_carrier("media", Executor(types=("video:*",), carrier="sqs", queue=queue, **changes), os.environ)
    carrier.open()
    return carrier


# -- sending -----------------------------------------------------------------------------------------------------------


def test_a_tick_sends_a_message_for_each_due_action(connection, a_queued_project, queue):
    project = a_queued_project()
    ids = insert_many(connection, 23, action_type="video:cut")

    report = project.processor.tick()

    assert report.errors == []
    received = [json.loads(one["Body"]) for one in queue.receive()]
    assert {ticket["id"] for one in received for ticket in one["tickets"]} == set(map(str, ids))
    assert len(received) == 23
    assert statuses(connection) == dict.fromkeys(ids, "processing")


def test_the_queue_may_be_a_url(queue):
    carrier = a_carrier(queue.url)

    assert carrier.send([a_message()]) == [SendOutcome.SENT]
    assert queue.numbers == (1, 0)


def test_the_messages_of_a_team_are_a_group(queue):
    a_carrier(queue.name).send([a_message("acme"), a_message("two words"), a_message()])

    groups = [one["Attributes"].get("MessageGroupId") for one in queue.receive()]

    assert groups == ["acme", message_group("two words"), None]


@pytest.mark.parametrize("team_id", ["two words", "é", "x" * 129, ""])
def test_a_team_whose_id_sqs_does_not_allow_has_a_hash_as_its_group(team_id):
    group = message_group(team_id)

    assert len(group) == 64
    assert group != message_group(team_id + "x")


def test_large_messages_are_sent_in_several_requests():
    server = ScriptedSqs()
    with server.serving() as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_SQS", endpoint)
        outcomes = a_carrier().send([a_message("t" * 2000, number=50) for _ in range(5)])

    assert outcomes == [SendOutcome.SENT] * 5
    assert [len(batch) for batch in server.batches] == [2, 2, 1]
    assert all(sum(len(one["MessageBody"]) for one in batch) <= 256 * 1024 for batch in server.batches)


@pytest.fixture
def scripted(monkeypatch):
    """Return a server whose answers the test chooses."""
    server = ScriptedSqs()
    with server.serving() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", endpoint)
        yield server


SENT, REFUSED, UNKNOWN = SendOutcome.SENT, SendOutcome.REFUSED, SendOutcome.UNKNOWN


def second_batch(answer):
    """Answer the first batch as SQS does, and all later requests with `answer`."""
    return lambda number, entries: (
        (200, {"Successful": [{"Id": one["Id"]} for one in entries]}) if number == 1 else answer
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((400, {"__type": "com.amazonaws.sqs#AccessDeniedException", "message": "no"}), REFUSED),
        ((503, {"__type": "com.amazonaws.sqs#ServiceUnavailable", "message": "later"}), UNKNOWN),
        (None, UNKNOWN),
        ((200, {}), UNKNOWN),
    ],
    ids=["client error", "server error", "closed connection", "empty answer"],
)
def test_after_a_failed_request_its_messages_have_its_outcome_and_no_further_one_is_sent(scripted, answer, expected):
    scripted.answer = second_batch(answer)

    outcomes = a_carrier().send([a_message() for _ in range(25)])

    later = REFUSED if answer != (200, {}) else UNKNOWN
    assert outcomes == [SENT] * 10 + [expected] * 10 + [later] * 5


def test_messages_that_sqs_has_refused_one_by_one_are_refused(scripted):
    scripted.answer = lambda _, entries: (
        200,
        {
            "Successful": [{"Id": one["Id"]} for one in entries[1:]],
            "Failed": [{"Id": entries[0]["Id"], "Code": "InternalError", "SenderFault": False}],
        },
    )

    assert a_carrier().send([a_message() for _ in range(12)]) == [REFUSED, *[SENT] * 9, REFUSED, SENT]


def test_messages_are_refused_if_no_connection_can_be_made(monkeypatch):
    server = ScriptedSqs()
    with server.serving() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", endpoint)
        carrier = a_carrier()

    assert carrier.send([a_message() for _ in range(12)]) == [REFUSED] * 12


# -- a queue that cannot be used ---------------------------------------------------------------------------------------


def test_a_missing_queue_is_an_error_of_the_tick_and_nothing_is_claimed(connection, a_queued_project):
    project = a_queued_project(queue="missing")
    one = insert(connection, action_type="video:cut")

    report = project.processor.tick()

    [error] = report.errors
    assert error["error"] == (
        'executor media: SQS has no queue "missing" in eu-central-1: create it, or set executors.media.queue'
    )
    assert (row(connection, one)["status"], row(connection, one)["attempts"]) == ("pending", 0)


def test_a_fifo_queue_is_refused(queue):
    with pytest.raises(CarrierUnavailable, match=r'"media\.fifo" is a FIFO queue; an executor needs a standard queue'):
        a_carrier("media.fifo")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"AWS_DEFAULT_REGION": None}, "no AWS region is configured: set AWS_DEFAULT_REGION"),
        ({"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}, "no AWS credentials were found"),
        ({"AWS_SECRET_ACCESS_KEY": None}, "no AWS credentials were found"),
        ({"AWS_ENDPOINT_URL_SQS": "nonsense"}, "is not a URL: correct AWS_ENDPOINT_URL_SQS"),
        ({"AWS_PROFILE": "missing"}, "the configuration of boto3 is invalid"),
    ],
)
def test_an_incomplete_configuration_is_an_error_that_says_what_to_set(queue, monkeypatch, tmp_path, changes, reason):
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    for name, value in changes.items():
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)

    with pytest.raises(CarrierUnavailable) as caught:
        a_carrier(queue.name)

    assert reason in str(caught.value)


def test_sqs_that_cannot_be_reached_is_an_error_with_its_host_and_without_a_password(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", f"http://user:secret@127.0.0.1:{port}")

    with pytest.raises(CarrierUnavailable, match=f"^SQS cannot be reached at 127.0.0.1:{port} ") as caught:
        a_carrier()

    assert "secret" not in str(caught.value)


def test_without_boto3_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)

    with pytest.raises(ExtraMissing, match=r"pip install 'scheduled-actions\[sqs\]'"):
        a_carrier()


# -- the worker loop ---------------------------------------------------------------------------------------------------


def test_the_worker_runs_the_actions_of_arriving_messages_and_deletes_them(
    connection, a_queued_project, queue, working
):
    project = a_queued_project()
    working(project)
    ids = insert_many(connection, 25, action_type="video:cut")

    project.processor.tick()

    wait_until(lambda: statuses(connection) == dict.fromkeys(ids, "completed"))
    wait_until(lambda: queue.numbers == (0, 0))
    assert len(CALLS) == 25


def test_the_worker_takes_from_the_queue_only_what_it_can_start(connection, a_project, queue, working):
    leave, running = threading.Event(), []

    @action("video:hold")
    def hold(payload: dict):
        running.append(payload)
        leave.wait(PATIENCE)

    project = a_project(hold, executors=executors(queue), concurrency=2)
    insert_many(connection, 5, action_type="video:hold")
    project.processor.tick()
    working(project)

    wait_until(lambda: len(running) == 2)
    wait_until(lambda: queue.numbers == (3, 0))
    leave.set()
    wait_until(lambda: set(statuses(connection).values()) == {"completed"})


def test_a_message_that_arrives_while_the_worker_ends_is_visible_to_other_workers_at_once(
    connection, a_project, queue, working, monkeypatch
):
    leave, running, polls, receive = threading.Event(), threading.Event(), [], SqsReceiver.receive

    def counted(self, *arguments, **options):
        polls.append(arguments)
        return receive(self, *arguments, **options)

    monkeypatch.setattr(SqsReceiver, "receive", counted)

    @action("video:hold")
    def hold(payload: dict):
        running.set()
        leave.wait(PATIENCE)

    project = a_project(hold, executors=executors(queue), concurrency=2)
    insert(connection, action_type="video:hold")
    project.processor.tick()
    # The receivers of earlier tests may still wait for messages.
    earlier = set(threading.enumerate())
    worker = working(project)
    wait_until(running.is_set)
    # The worker has a second thread, for which the receiver waits in the second poll.
    wait_until(lambda: len(polls) == 2)

    project.executors.stop()
    queue.send(json.dumps(a_message().as_json()))
    wait_until(lambda: not any("receiver" in one.name for one in {*threading.enumerate()} - earlier))

    [message] = queue.receive()
    leave.set()
    worker.join(PATIENCE)
    assert message["Attributes"]["ApproximateReceiveCount"] == "2"


def test_a_duplicate_message_runs_its_action_once(connection, a_queued_project, queue, working):
    project = a_queued_project()
    one = insert(connection, action_type="video:cut")
    project.processor.tick()
    [message] = queue.receive()
    queue.purge()
    for _ in range(3):
        queue.send(message["Body"])

    working(project)

    wait_until(lambda: queue.numbers == (0, 0))
    wait_until(lambda: statuses(connection) == {one: "completed"})
    assert (len(CALLS), row(connection, one)["attempts"]) == (1, 1)


def test_an_action_whose_message_is_lost_returns_uncharged_when_its_ticket_ends(
    connection, a_queued_project, queue, working
):
    project = a_queued_project(ticket_seconds=60)
    one = insert(connection, action_type="video:cut")
    project.processor.tick()
    queue.purge()

    project.processor.tick()
    early = row(connection, one)
    move_clock(connection, timedelta(seconds=61))
    project.processor.tick()
    working(project)

    wait_until(lambda: statuses(connection) == {one: "completed"})
    assert (early["status"], row(connection, one)["attempts"], len(CALLS)) == ("processing", 1, 1)


def test_messages_of_other_programs_and_executors_stay_in_the_queue(
    connection, a_queued_project, queue, working, caplog
):
    project = a_queued_project()
    for body in ("hello", "{}", json.dumps(a_message(executor="audio").as_json())):
        queue.send(body)
    one = insert(connection, action_type="video:cut")
    working(project)
    wait_until(lambda: queue.numbers == (0, 3))

    project.processor.tick()

    wait_until(lambda: statuses(connection) == {one: "completed"})
    wait_until(lambda: queue.numbers == (0, 3))
    assert [one.args[0] for one in caplog.records if "executor.foreign_message" in one.msg] == ["media"]


def test_while_sqs_is_away_the_worker_says_so_and_continues_when_it_is_back(
    connection, a_queued_project, moto_server, working, monkeypatch
):
    project = a_queued_project()
    one = insert(connection, action_type="video:cut")
    project.processor.tick()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", f"http://127.0.0.1:{port}")
    lines = []
    working(project, lines=lines)
    wait_until(lambda: lines)

    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", moto_server)

    wait_until(lambda: statuses(connection) == {one: "completed"})
    assert lines[0] == f"SQS cannot be reached at 127.0.0.1:{port} (EndpointConnectionError); trying again in 1 s"


def test_once_ends_when_the_queue_is_empty(connection, a_queued_project, queue):
    project = a_queued_project()
    ids = insert_many(connection, 25, action_type="video:cut")
    project.processor.tick()
    queue.send("hello")

    report = project.executors.work("media", WorkerOptions(until_idle=True))

    assert report.succeeded == 25
    assert statuses(connection) == dict.fromkeys(ids, "completed")
    assert queue.numbers == (0, 1)


def test_messages_with_several_tickets_run_all_of_them(connection, a_queued_project, queue, working):
    project = a_queued_project(tickets_per_message=10)
    ids = insert_many(connection, 25, action_type="video:cut")
    project.processor.tick()
    assert queue.numbers == (3, 0)

    working(project)

    wait_until(lambda: statuses(connection) == dict.fromkeys(ids, "completed"))
    wait_until(lambda: queue.numbers == (0, 0))


def test_once_raises_if_sqs_is_away(a_queued_project):
    project = a_queued_project(queue="missing")

    with pytest.raises(CarrierUnavailable, match='SQS has no queue "missing"'):
        project.executors.work("media", WorkerOptions(until_idle=True))


# -- the command -------------------------------------------------------------------------------------------------------

HANDLERS = '''\
import time
from pathlib import Path

from scheduled_actions import action


@action("video:cut")
def cut(payload: dict):
    """Write a file, and wait for another."""
    Path(payload["started"]).touch()
    while not Path(payload["leave"]).exists():
        time.sleep(0.01)
'''


@pytest.fixture
def project_directory(tmp_path, queue):
    """Return the directory of a project whose executor uses the queue."""
    directory = tmp_path / "project"
    (directory / "handlers").mkdir(parents=True)
    (directory / "handlers" / "video.py").write_text(HANDLERS, encoding="utf-8")
    registry_build.write(directory)
    (directory / "scheduled_actions.toml").write_text(
        f'[executors.media]\ntypes = ["video:*"]\ncarrier = "sqs"\nqueue = "{queue.name}"\n', encoding="utf-8"
    )
    return directory


@pytest.fixture
def command(project_directory, database_url):
    """Return a function that starts a command in the project; all are killed after the test."""
    with ExitStack() as running:

        def start(*arguments):
            process = subprocess.Popen(
                [sys.executable, "-m", "scheduled_actions.cli", "--project", str(project_directory), *arguments],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "DATABASE_URL": database_url, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
            running.enter_context(process)
            running.callback(process.kill)
            return process

        yield start


def test_the_command_works_until_a_signal_and_leaves_the_rest(command, connection, queue, tmp_path):
    started, leave = tmp_path / "started", tmp_path / "leave"
    worker = command("executors", "work", "media", "--concurrency", "1")
    assert worker.stdout.readline().startswith("worker of media (video:*): 1 handler at once, ")
    ids = insert_many(connection, 3, action_type="video:cut", payload={"started": str(started), "leave": str(leave)})
    tick = command("process")
    assert tick.wait(PATIENCE) == 0
    wait_until(started.exists)

    worker.send_signal(signal.SIGTERM)
    assert worker.stdout.readline().startswith("stopping: 1 handler has up to 60 s to end")
    leave.touch()
    stdout, stderr = worker.communicate(timeout=PATIENCE)

    assert (worker.returncode, stderr) == (0, "")
    assert stdout.endswith("stopped: processed 1 action (1 succeeded)\n")
    assert sorted(statuses(connection).values()) == ["completed", "processing", "processing"]
    assert queue.numbers == (2, 0)
    assert sorted(row(connection, one)["attempts"] for one in ids) == [0, 0, 1]


def test_a_signal_ends_a_worker_that_waits_for_messages_at_once(command, connection, queue, tmp_path):
    done = tmp_path / "done"
    done.touch()
    worker = command("executors", "work", "media")
    one = insert(connection, action_type="video:cut", payload={"started": str(done), "leave": str(done)})
    assert command("process").wait(PATIENCE) == 0
    wait_until(lambda: statuses(connection) == {one: "completed"})

    worker.send_signal(signal.SIGTERM)

    # A long poll takes 20 seconds.
    assert worker.wait(5) == 0


def test_once_prints_the_counts_or_the_error(command, project_directory, queue):
    empty = command("executors", "work", "media", "--once")
    stdout, stderr = empty.communicate(timeout=PATIENCE)
    settings = project_directory / "scheduled_actions.toml"
    settings.write_text(settings.read_text().replace(queue.name, "missing"), encoding="utf-8")
    failed = command("executors", "work", "media", "--once")
    _, error = failed.communicate(timeout=PATIENCE)

    assert (empty.returncode, stderr) == (0, "")
    assert stdout.startswith("processed 0 actions in ")
    assert (failed.returncode, error) == (
        1,
        'error: SQS has no queue "missing" in eu-central-1: create it, or set executors.media.queue\n',
    )


# -- HTTP and Lambda ---------------------------------------------------------------------------------------------------


def test_a_ping_of_an_executor_with_a_broker_is_a_problem_that_says_what_to_run(connection, a_queued_project):
    app = Flask("application")
    ScheduledActions(app, runtime=a_queued_project())
    one = insert(connection, action_type="video:cut")

    response = app.test_client().get("/cron/process?executor=media", headers={"x-cron-secret": CRON_SECRET})

    assert (response.status_code, response.json["code"]) == (422, "wrong_carrier")
    assert response.json["detail"] == (
        'executor "media" has carrier = "sqs": run `scheduled-actions executors work media`, or the handler of AWS '
        "Lambda"
    )
    assert statuses(connection) == {one: "pending"}


class LambdaContext:
    """Lambda's context, with a fixed time left."""

    def __init__(self, seconds=60):
        self.seconds = seconds

    def get_remaining_time_in_millis(self):
        return self.seconds * 1000


def event_of(queue):
    """Return the event with which Lambda delivers the messages of a queue."""
    return {
        "Records": [
            {
                "messageId": one["MessageId"],
                "receiptHandle": one["ReceiptHandle"],
                "body": one["Body"],
                "attributes": one["Attributes"],
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:eu-central-1:123456789012:{queue.name}",
                "awsRegion": "eu-central-1",
            }
            for one in queue.receive()
        ]
    }


def handler_of(project):
    app = Flask("application")
    ScheduledActions(app, runtime=project)
    return lambda_handler(app)


def test_lambda_runs_the_actions_of_messages_and_returns_those_of_other_programs(connection, a_queued_project, queue):
    project = a_queued_project()
    ids = insert_many(connection, 5, action_type="video:cut")
    project.processor.tick()
    queue.send("hello")
    queue.send(json.dumps(a_message(executor="removed").as_json()))
    event = event_of(queue)

    answered = handler_of(project)(event, LambdaContext())

    foreign = [one["messageId"] for one in event["Records"][-2:]]
    assert answered == {"batchItemFailures": [{"itemIdentifier": one} for one in foreign]}
    assert statuses(connection) == dict.fromkeys(ids, "completed")


def test_messages_that_lambda_delivers_twice_run_once(connection, a_queued_project, queue):
    project = a_queued_project()
    one = insert(connection, action_type="video:cut")
    project.processor.tick()
    event = event_of(queue)
    handle = handler_of(project)

    answers = [handle(event, LambdaContext()) for _ in range(2)]

    assert answers == [{"batchItemFailures": []}] * 2
    assert (len(CALLS), row(connection, one)["attempts"]) == (1, 1)


def test_an_action_that_does_not_fit_into_the_invocation_is_released_uncharged(connection, a_queued_project, queue):
    project = a_queued_project()
    one = insert(connection, action_type="video:render")
    project.processor.tick()

    answered = handler_of(project)(event_of(queue), LambdaContext(seconds=30))

    assert answered == {"batchItemFailures": []}
    assert (row(connection, one)["status"], row(connection, one)["attempts"]) == ("pending", 0)


def test_without_the_database_the_invocation_fails_so_that_sqs_delivers_the_messages_again(
    connection, a_queued_project, queue, monkeypatch
):
    project = a_queued_project()
    insert(connection, action_type="video:cut")
    project.processor.tick()
    event = event_of(queue)
    handle = handler_of(project)

    def refuse(*_, **__):
        raise DatabaseUnavailable("the server does not answer")

    monkeypatch.setattr(project.database, "connection", refuse)

    with pytest.raises(DatabaseUnavailable):
        handle(event, LambdaContext())
