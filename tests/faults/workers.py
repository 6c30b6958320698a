"""Workers of an executor, and the ticks of its project, as real processes; a ledger shows that each action is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import kombu
from kombu.exceptions import ChannelError

from scheduled_actions.executors.ready import CLAIM_SECONDS
from tests.faults.serving import wait_until

HERE = Path(__file__).parent
#: Longer than `doctor` waits before it reports a ticket that no worker has taken.
TICKET_SECONDS = 300
#: The timeout of the handlers, and the lease of an action that a worker has taken over.
TIMEOUT_SECONDS = 5
TAKEN_SECONDS = TIMEOUT_SECONDS + 15 + 30
#: By carrier: seconds until an action returns that was claimed and not taken over.
UNTAKEN_SECONDS = {"postgres": CLAIM_SECONDS, "redis": TICKET_SECONDS, "rabbitmq": TICKET_SECONDS}
#: Actions of all other types run in ticks.
TYPES = ["proof:work", "proof:kill-process", "proof:tell-time"]
ENVIRON = {"SCHEDULED_ACTIONS_DEFAULT_TIMEOUT_SECONDS": str(TIMEOUT_SECONDS), "PYTHONUNBUFFERED": "1"}
APP = """
import os
from celery import Celery
from scheduled_actions.integrations.celery import connect
app = Celery("shop", broker=os.environ["MEDIA_BROKER_URL"])
connect(app)
"""
#: How often lost or delayed messages are sent again before a test fails.
_ROUNDS = 10


def python_path(name):
    """Return the environment of a process that imports `sitecustomize` of a folder next to this file."""
    path = [str(HERE / name), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path))}


def write_project(directory, carrier):
    """Write the settings of a project whose executor `media` uses a carrier, and the Celery app of its workers."""
    settings = f"[executors.media]\ntypes = {json.dumps(TYPES)}\n"
    if carrier != "postgres":
        settings += f'carrier = "celery"\nurl_env_var = "MEDIA_BROKER_URL"\nticket_seconds = {TICKET_SECONDS}\n'
        (directory / "shop.py").write_text(APP, encoding="utf-8")
    (directory / "scheduled_actions.toml").write_text(settings, encoding="utf-8")


class WorkerProcess:
    """A worker as a process group of its own."""

    def __init__(self, command, directory, environ, log):
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=directory, env=environ, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self.pid = self.process.pid

    def pids(self):
        """Return the ids of its live processes."""
        listed = subprocess.run(["ps", "-A", "-o", "pid=,pgid=,stat="], check=True, capture_output=True, text=True)
        found = [line.split() for line in listed.stdout.splitlines()]
        return {int(pid) for pid, group, state in found if int(group) == self.pid and not state.startswith("Z")}

    def kill(self, number=signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)
        if number == signal.SIGKILL:
            self.process.wait(timeout=30)
            wait_until(lambda: not self.pids(), within=30, what="all processes of the worker have ended")

    def logged(self):
        return self.log.read_text(errors="replace")


class Queue:
    """The queue `media` of a broker: a server of `tests.executors.brokers`."""

    def __init__(self, server, *, keeps_messages):
        self.server = server
        #: Whether messages survive the death of the server.
        self.keeps_messages = keeps_messages

    def create(self):
        """Create the queue as a Celery worker does, without messages."""
        with kombu.Connection(self.server.url) as client:
            queue = kombu.Queue("media", kombu.Exchange("media"), routing_key="media", channel=client.channel())
            queue.declare()
            queue.purge()

    def take(self):
        """Return and remove all messages."""
        found = []
        with kombu.Connection(self.server.url) as client:
            channel = client.channel()
            while (message := channel.basic_get("media", no_ack=True)) is not None:
                found.append(message)
        return found

    def put(self, messages):
        """Send messages as they were taken."""
        with kombu.Connection(self.server.url) as client:
            producer = kombu.Producer(client.channel(), auto_declare=False)
            for one in messages:
                properties = {
                    key: one.properties[key] for key in ("correlation_id", "reply_to") if key in one.properties
                }
                producer.publish(
                    one.body, exchange="", routing_key="media", headers=one.headers, content_type=one.content_type,
                    content_encoding=one.content_encoding, delivery_mode=2, **properties,
                )  # fmt: skip

    def is_empty(self):
        with kombu.Connection(self.server.url) as client:
            # With Redis, a queue without messages does not exist.
            with suppress(ChannelError):
                return client.channel().queue_declare("media", passive=True).message_count == 0
            return True


class Fleet:
    """The processes of a project with an executor, and what they did.

    Args:
        carrier: "postgres", or the broker of Celery.
        queue: The queue of the broker; None with "postgres".
        project: The directory of the project.
        environ: The environment of the processes.
        folder: Receives their logs.
    """

    def __init__(self, carrier, queue, project, environ, folder, *, actions, ledger):
        self.carrier, self.queue = carrier, queue
        self._project, self._environ, self._folder = project, environ, folder
        self._actions, self._ledger = actions, ledger
        self._workers = []
        #: By process that was killed or frozen: when it did nothing any more.
        self._ended = {}
        self.untaken_seconds = UNTAKEN_SECONDS[carrier]
        #: What became of all rounds of a test, for its summary.
        self.counts = Counter()

    def work(self, directory=None, *options, **changes):
        """Start a worker that runs two actions at the same time."""
        directory, number = directory or self._project, len(self._workers)
        if self.carrier == "postgres":
            command = ["scheduled_actions.cli", "--project", str(directory), "executors", "work", "media"]
            command += ["--concurrency", "2", *options]
        else:
            command = ["celery", "-A", "shop", "worker", "-Q", "media", "-l", "info", "-c", "2", "-n", f"{number}@here"]
            command += ["--without-gossip", "--without-mingle", "--without-heartbeat", *options]
        log = self._folder / f"worker-{number}.log"
        self._workers.append(WorkerProcess(command, directory, self._environ | changes, log))
        return self._workers[-1]

    def kill(self, worker):
        """Kill all processes of a worker."""
        self._stop(worker, signal.SIGKILL)

    def freeze(self, worker):
        """Stop all processes of a worker until they get SIGCONT."""
        self._stop(worker, signal.SIGSTOP)

    def died(self, pid):
        """Record that a process has ended on its own."""
        self._ended[pid] = self._ledger.now()
        self.counts["processes killed"] += 1

    def close(self):
        for worker in self._workers:
            worker.kill()

    def start_tick(self, directory=None, **changes):
        """Start a tick in a process of its own."""
        directory = directory or self._project
        command = [sys.executable, "-m", "scheduled_actions.cli", "--project", directory, "process", "--json"]
        environ = self._environ | changes
        return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def tick(self, directory=None):
        """Run a tick in a process of its own; return its report."""
        with self.start_tick(directory) as process:
            output, _ = process.communicate(timeout=60)
        return json.loads(output)

    def send(self):
        """Run a tick that sends tickets, if there is a broker: workers claim from Postgres without ticks."""
        if self.queue is not None:
            self.tick()

    def rescue(self, seconds):
        """Move the clock of the database, and run ticks: the first one rescues, the second one sends tickets."""
        self._actions.move_clock(seconds + 1)
        self.tick()
        self.send()

    def run(self, *arguments):
        """Run a command of the project; return its output."""
        command = [sys.executable, "-m", "scheduled_actions.cli", "--project", self._project, *arguments]
        return subprocess.run(command, env=self._environ, check=False, capture_output=True, text=True).stdout

    def wait_for(self, ids, status, *, within=60):
        wait_until(self.are(ids, status), within=within, what=f"the actions are {status}")

    def are(self, ids, status):
        return lambda: {self._actions.one(one)["status"] for one in ids} == {status}

    def complete(self, ids, *, quiet_seconds=5.0):
        """Wait until actions have completed; send the tickets again that are lost, or with a frozen process.

        The clock of the database is moved only while no live process runs an action, because its lease would end.
        """
        for _ in range(_ROUNDS):
            if self._wait_while_busy(self.are(ids, "completed"), quiet_seconds):
                return
            self.rescue(max(TAKEN_SECONDS, self.untaken_seconds))
        self.wait_for(ids, "completed")

    def _wait_while_busy(self, condition, quiet_seconds):
        """Return whether a condition holds; False if no live process has started or ended a run for some seconds."""
        seen, since = None, time.monotonic()
        while not condition():
            now = self._ledger.count(), sum(n for pid, n in self._ledger.running().items() if pid not in self._ended)
            if now != seen or now[1]:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > quiet_seconds:
                return False
            time.sleep(0.05)
        return True

    def check(self, expected):
        """Check that the given actions exist, with their final statuses, attempts and no two holders at a time.

        Args:
            expected: By action: its status, and the number of its attempts; None: any number.
        """
        rows = {row["id"]: row for row in self._actions.all() if row["action_type"] in TYPES}
        runs = self._ledger.runs()
        found = {one: (row["status"], row["attempts"]) for one, row in rows.items()}
        assert found == {one: (status, found[one][1] if n is None else n) for one, (status, n) in expected.items()}
        started = Counter(run.action_id for run in runs if run.action_type in TYPES)
        for one, row in rows.items():
            # A worker that is killed between its take-over and the first statement of the handler has charged, too.
            without_start = [entry["outcome"] for entry in row["history"]].count("crashed")
            assert row["attempts"] - without_start <= started[one] <= row["attempts"], "each take-over is charged once"
        assert self.overlaps() == []
        self.counts["actions"] += len(rows)
        self.counts["runs"] += len(runs)

    def overlaps(self):
        """Return the pairs of runs of one action that live processes had at the same time."""
        runs = self._ledger.runs()
        return [
            (one, later)
            for action_id in {run.action_id for run in runs}
            for one, later in pairwise(run for run in runs if run.action_id == action_id)
            if not self._is_over(one, later.started_at)
        ]

    def _is_over(self, run, at):
        ends = [run.ended_at, self._ended.get(run.pid)]
        return any(end is not None and end <= at for end in ends)

    def _stop(self, worker, number):
        pids = worker.pids()
        worker.kill(number)
        self._ended |= dict.fromkeys(pids, self._ledger.now())
        self.counts["processes killed" if number == signal.SIGKILL else "processes frozen"] += len(pids)
