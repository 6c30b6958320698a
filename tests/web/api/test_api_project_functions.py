"""The time limit of project functions that requests call."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest

from scheduled_actions import next_occurrence
from scheduled_actions.registry import Registry
from tests.factories import PATIENCE
from tests.web.conftest import ADMIN_TOKEN, Api, application, run

HOUR = timedelta(hours=1)


@pytest.fixture
def hanging():
    """Yield a rule that takes `seconds` per call, and then hangs until its event `released` is set."""

    @next_occurrence("steps")
    def steps(moment):
        time.sleep(steps.seconds)
        steps.released.wait(PATIENCE)
        return moment + HOUR

    steps.released, steps.seconds = threading.Event(), 0
    yield steps
    steps.released.set()


@pytest.fixture
def api(a_runtime, hanging):
    runtime = a_runtime(registry=Registry.of(run, hanging), SCHEDULED_ACTIONS_FUNCTION_TIMEOUT_SECONDS="0.2")
    return Api(application(runtime).test_client(), ADMIN_TOKEN)


@pytest.mark.parametrize("request_of", ["preview", "create"])
def test_a_request_with_a_hanging_function_times_out(api, hanging, request_of):
    path, body = {
        "preview": ("/schedules/preview", {"rule": "custom:steps"}),
        "create": ("/schedules", {"action_type": "test:run", "payload": {}, "recurrence": "custom:steps"}),
    }[request_of]

    response = api("POST", path, body)

    assert response.status_code == 503
    assert response.json["code"] == "function_timed_out"
    assert api("GET", "/schedules").json["schedules"] == []


def test_the_calls_of_one_request_share_a_limit_of_four_timeouts(api, hanging):
    hanging.released.set()
    hanging.seconds = 0.1

    before = time.monotonic()
    response = api("POST", "/schedules/preview", {"rule": "custom:steps", "count": 100})

    assert response.json["code"] == "function_timed_out"
    assert time.monotonic() - before < 5
