"""A network that drops every packet: pings are answered within the time limits, and ticks run actions afterwards."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing, contextmanager, suppress

import pytest
from flask import Flask
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from scheduled_actions import ScheduledActions, action
from scheduled_actions.core.errors import DatabaseUnavailable
from scheduled_actions.database.bounded import StatementLimits
from scheduled_actions.database.connection import Database
from tests.factories import CRON_SECRET, insert, projects, statuses

OPEN = {"x-cron-secret": CRON_SECRET}


class Network:
    """A proxy to the database server, which passes nothing on while it is a black hole."""

    def __init__(self, port):
        self._to = ("127.0.0.1", port)
        self._passes = threading.Event()
        self._passes.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @contextmanager
    def drops_packets(self):
        self._passes.clear()
        try:
            yield
        finally:
            self._passes.set()

    def close(self):
        self._passes.set()
        self._listener.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        with self._listener, suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, socket.create_connection(self._to) as server:
            back = threading.Thread(target=self._pass_on, args=(server, client), daemon=True)
            back.start()
            self._pass_on(client, server)
            back.join()

    def _pass_on(self, source, target):
        with suppress(OSError):
            while data := source.recv(65536):
                self._passes.wait()
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def network(database_url):
    with closing(Network(int(conninfo_to_dict(database_url)["port"]))) as network:
        yield network


@pytest.fixture
def url(database_url, network):
    return make_conninfo(database_url, port=network.port, connect_timeout=2)


def test_a_statement_without_a_response_ends_soon_after_its_limit(url, network):
    limits = StatementLimits(statement_seconds=0.2)
    with closing(Database(lambda: url, limits=limits)) as database:
        with database.connection() as lost:
            pass

        def ask():
            with network.drops_packets(), database.connection() as used:
                assert used is lost
                used.execute("select 1")

        began = time.monotonic()
        with pytest.raises(DatabaseUnavailable, match="did not answer in time"):
            ask()
        seconds = time.monotonic() - began

        assert lost.closed
        with database.connection() as other:
            assert other.execute("select 1").fetchone() == (1,)

    assert seconds < 5


def test_pings_during_a_black_hole_return_503_in_time_and_the_next_one_runs_the_actions(url, network, connection):
    @action("test:run")
    def run(payload: dict): ...

    with projects(url) as a_project:
        project = a_project(run, statement_timeout_seconds=0.2)
        app = Flask("scheduled_actions")
        ScheduledActions(app, runtime=project)
        client = app.test_client()
        assert client.post("/cron/process", headers=OPEN).status_code == 200
        action_id = insert(connection)
        answers = []

        def ping():
            began = time.monotonic()
            response = app.test_client().post("/cron/process", headers=OPEN)
            answers.append((response.status_code, response.json["code"], time.monotonic() - began))

        with network.drops_packets():
            # The second ping arrives while the first is being processed.
            pings = [threading.Thread(target=ping) for _ in range(2)]
            for one in pings:
                one.start()
            for one in pings:
                one.join()
        after = client.post("/cron/process", headers=OPEN)

    assert {(status, code) for status, code, _ in answers} == {(503, "database_unavailable")}
    assert max(seconds for *_, seconds in answers) < 6
    assert (after.status_code, after.json["succeeded"]) == (200, 1)
    assert statuses(connection) == {action_id: "completed"}
