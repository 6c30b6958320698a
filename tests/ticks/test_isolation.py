"""Endpoints that hang delay no other endpoint: in one process, with real receivers."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.factories import PATIENCE, wait_until
from tests.webhooks.test_endpoints import emit
from tests.webhooks.webhook_project import webhook_project

ENDPOINTS, HANGING, EACH, THREADS = 20, 2, 6, 6


@pytest.fixture
def receivers():
    """Return a server with one receiver per path; the first receivers hang until `released` is set."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            number = int(self.path.strip("/"))
            if number < HANGING:
                server.hung.append(number)
                server.released.wait(PATIENCE)
            else:
                server.got.append((number, time.monotonic()))
            self.send_response_only(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.got, server.hung, server.released = [], [], threading.Event()
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=[0.02])
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_each_hanging_endpoint_occupies_one_thread_and_the_others_get_every_delivery(tmp_path, database_url, receivers):
    toml = "".join(f'[webhooks.endpoints.e{number}]\nenv_var = "U{number}"\n' for number in range(ENDPOINTS))
    urls = {f"U{number}": f"http://127.0.0.1:{receivers.server_port}/{number}" for number in range(ENDPOINTS)}
    with webhook_project(
        tmp_path, database_url, toml=toml, SCHEDULED_ACTIONS_CONCURRENCY=str(THREADS), **urls
    ) as project:
        for step in range(EACH):
            for number in range(ENDPOINTS):
                emit(project, entity_id=str(step), endpoint=f"e{number}")
        began = time.monotonic()
        ticking = threading.Thread(target=project.processor.tick)
        ticking.start()

        wait_until(lambda: len(receivers.got) == (ENDPOINTS - HANGING) * EACH)
        took = time.monotonic() - began
        hung = sorted(receivers.hung)
        receivers.released.set()
        ticking.join(PATIENCE)

    # One attempt per hanging endpoint, however many deliveries wait, and long before an attempt is abandoned.
    assert hung == list(range(HANGING))
    assert took < 8
