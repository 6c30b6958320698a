"""The cost and the lateness of a round of good actions, with and without bad actions among them."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from scheduled_actions import action
from scheduled_actions.database.boundary import text_of
from tests.factories import CRON_SECRET

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg
    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

#: Number of good actions in a round.
GOOD = 50
#: Seconds that each of them takes, so that the lateness of a round depends on its work and not on the machine.
WORK_SECONDS = 0.01
#: Number of ticks within which the good actions of a round must complete.
TICKS_MOST = 8
#: CPU seconds of this process that one request may take, including the handlers of its tick.
CPU_SECONDS_MOST = 1.0
#: Maximum ratio of the lateness of good actions with bad actions among them to that without.
LATENESS_RATIO_MOST = 1.5
#: Maximum growth of the process's memory during the rounds of a suite.
GROWTH_BYTES_MOST = 50 * 1024 * 1024

#: A single round that is later by more than this ratio is repeated, up to this number of rounds in total.
_FAR_LATER = 3.0
_TRIES = 3

_lateness: list[float] = []
_lock = threading.Lock()


@action("good:work")
def work(payload: dict):
    """Record the lateness of the start, and take a moment."""
    late = time.time() - payload["due"]
    with _lock:
        _lateness.append(late)
    time.sleep(WORK_SECONDS)


class BadRequestAnswer(AssertionError):
    """A request was answered with an error of the server, or took too much time."""


@dataclass
class Lateness:
    """How much later good actions start with bad actions among them: a ratio for each pair of rounds."""

    ratios: list[float] = field(default_factory=list)

    def compare(self, alone: Callable[[], list[float]], among_bad: Callable[[], list[float]]) -> None:
        """Run a round without bad actions and one with them; compare the 95th percentiles of their lateness.

        Raises:
            BadRequestAnswer: Good actions were far later in each of several tries, which cannot be due to the machine.
        """
        tries = []
        for _ in range(_TRIES):
            usual = p95(alone())
            tries.append(p95(among_bad()) / usual)
            if tries[-1] <= _FAR_LATER:
                break
        else:
            raise BadRequestAnswer(f"good actions were {min(tries):.1f} times as late in each of {_TRIES} rounds")
        self.ratios.append(tries[0])

    def check(self) -> None:
        """Assert that the typical round with bad actions does not exceed the maximum ratio."""
        typical = median(self.ratios)
        print(f"p95 lateness among bad actions: {typical:.2f} times that without, at most {max(self.ratios):.2f}")
        assert typical <= LATENESS_RATIO_MOST


def p95(values: list[float]) -> float:
    """Return the 95th percentile."""
    return sorted(values)[int(0.95 * (len(values) - 1))]


class _LastError(logging.Handler):
    """Keeps the last exception that was logged, for the message of a failed check."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            frames = traceback.extract_tb(record.exc_info[2])
            where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
            _LastError.text = f"{type(record.exc_info[1]).__name__}: {text_of(record.exc_info[1])[:200]} ({where})"


logging.getLogger("scheduled_actions").addHandler(_LastError())


class Requests:
    """Requests to an application, each of which must be answered without a 5xx status and within the CPU limit."""

    def __init__(self, client: FlaskClient) -> None:
        self._client = client

    def ping(self) -> dict[str, Any]:
        """Ping the cron endpoint; return the answer of the tick."""
        answer = self("POST", "/cron/process", headers={"x-cron-secret": CRON_SECRET})
        if answer.status_code != 200:
            raise BadRequestAnswer(f"a tick answered {answer.status_code}: {answer.text[:300]}")
        return answer.json

    def __call__(self, method: str, path: str, **options: Any) -> TestResponse:
        """Send a request.

        Raises:
            BadRequestAnswer: The status was 5xx, or the request took more than a second of CPU time.
        """
        began = time.process_time()
        answer = self._client.open(path, method=method, **options)
        took = time.process_time() - began
        if answer.status_code >= 500:
            text = answer.text[:300] if answer.is_json or "problem" in answer.mimetype else ""
            raise BadRequestAnswer(f"{method} {path[:200]}: {answer.status_code} {text} {_LastError.text}")
        if took > CPU_SECONDS_MOST:
            raise BadRequestAnswer(f"{method} {path[:200]}: {took:.1f} s of CPU")
        return answer


def run_round(connection: psycopg.Connection[Any], requests: Requests) -> list[float]:
    """Schedule good actions that are due now, and tick until they complete; return the lateness of each.

    Raises:
        BadRequestAnswer: A tick was not answered with 200, or good actions did not complete.
    """
    _lateness.clear()
    connection.execute(
        "select count(id) from generate_series(1, %s) n, lateral schedule_action('good:work', jsonb_build_object("
        "'due', extract(epoch from clock_timestamp()), 'number', n), dedup_window => 0)",
        [GOOD],
    )
    for _ in range(TICKS_MOST):
        requests.ping()
        if len(_lateness) >= GOOD:
            break
    left = connection.execute(
        "select status, error_message, count(*) from scheduled_actions where action_type = 'good:work'"
        " and payload->>'number' is not null and status <> 'completed' group by 1, 2"
    ).fetchall()
    if left or len(_lateness) != GOOD:
        raise BadRequestAnswer(f"of {GOOD} good actions {len(_lateness)} ran; left: {left}")
    return list(_lateness)


def resident_bytes() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
