"""Cron jobs with a timeout of ten seconds, with duplicate pings, and without pings: `doctor` reports each of them."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.faults.serving import CRON_SECRET, wait_until

pytestmark = pytest.mark.slow

#: How long such a caller waits, and how long it would have to wait, in seconds.
CALLER_SECONDS, HANDLER_SECONDS = 10.0, 12.0
RUN_SECONDS = 1.0
IMPATIENT, DOUBLE = "cron-job.org", "vercel-cron/1.0"


@contextmanager
def a_monitor_that_answers_404():
    """Yield the address of a real receiver that answers every heartbeat with 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/ping/its-uuid"
    finally:
        server.shutdown()
        server.server_close()


def ping(service, caller, *, timeout=60.0):
    """Ping as a cron service of this name; return the status."""
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=timeout)) as connection:
        connection.request("GET", "/cron/process", headers={"x-cron-secret": CRON_SECRET, "User-Agent": caller})
        return connection.getresponse().status


def hang_up_on(service):
    with pytest.raises(TimeoutError):
        ping(service, IMPATIENT, timeout=CALLER_SECONDS)


def checks_of_doctor(environ):
    """Run `scheduled-actions doctor` as a separate process; return its checks by name."""
    command = [sys.executable, "-m", "scheduled_actions.cli", "doctor", "--json"]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    return {check["name"]: check for check in json.loads(ran.stdout)["checks"]}


def checks_of_readiness(service):
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)) as connection:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        return response.status, {check["name"]: check for check in json.loads(response.read())["checks"]}


def test_problems_of_a_cron_job_are_reported_with_a_remedy(serve, actions, environ):
    with a_monitor_that_answers_404() as url:
        environ |= {"SCHEDULED_ACTIONS_HEARTBEAT_URL": url}
        services = [serve(workers=1, environ=environ, max_run_seconds=RUN_SECONDS) for _ in range(2)]

        with ThreadPoolExecutor(len(services)) as callers:
            hung_up = []
            for number, service in enumerate(services, start=1):
                actions.schedule({"action_type": "proof:work", "payload": {"seconds": HANDLER_SECONDS}})
                hung_up.append(callers.submit(hang_up_on, service))
                # From then on this tick starts no more actions, and the next tick runs the due ones.
                wait_until(
                    lambda number=number: actions.open_ticks(for_seconds=RUN_SECONDS + 0.1) == number,
                    within=9,
                    what="the tick starts no more actions",
                )
        for one in hung_up:
            one.result()
        wait_until(actions.are_settled, within=20, what="the tick continues after its caller has disconnected")
        wait_until(lambda: not actions.open_ticks(), within=20, what="both ticks have ended")
        for _ in range(4):
            actions.move_clock(60)
            assert [ping(services[0], caller) for caller in (IMPATIENT, DOUBLE)] == [200, 200]
        actions.move_clock(12 * 60)
        checks = checks_of_doctor(environ)
        status, ready = checks_of_readiness(services[1])

    cut_off = checks["hung_up_pings"]
    assert cut_off["status"] == "warning"
    assert cut_off["detail"].startswith(f"{IMPATIENT} disconnected within 1")
    assert "in 2 of its last 6 pings" in cut_off["detail"]
    # The tick checks its caller's connection every second and at its end, so it records ten to twelve seconds.
    advice = r"set max_run_seconds = (\d+) \(SCHEDULED_ACTIONS_MAX_RUN_SECONDS\): .* have (\d+) seconds to finish"
    assert sum(map(int, re.search(advice, cut_off["remedy"]).groups())) in {8, 9, 10}
    assert checks["doubled_pings"]["detail"].startswith("pings come twice: ")
    assert IMPATIENT in checks["doubled_pings"]["detail"]
    assert DOUBLE in checks["doubled_pings"]["detail"]
    assert checks["ticks"]["detail"] == f"nothing has called /cron/process for 12 minutes (last caller: {DOUBLE})"
    assert checks["heartbeat"]["detail"].startswith(
        "the last heartbeat was refused: HTTP 404, according to the tick of 12 min"
    )
    assert all(checks[name]["status"] == "warning" for name in ("doubled_pings", "ticks", "heartbeat"))
    # Readiness is public: it reports the same checks without names, and does not fail because of a warning.
    assert status == 200
    assert ready["hung_up_pings"]["detail"].startswith("a caller disconnected within 1")
    assert [ready[name]["status"] for name in ("hung_up_pings", "doubled_pings", "ticks")] == ["warning"] * 3
    assert IMPATIENT not in str(ready)
