"""The minute cron of the development server."""

from __future__ import annotations

import socket

import pytest

from scheduled_actions.local import cron as local_cron

SECRET = "a-cron-secret-of-these-tests"


@pytest.mark.parametrize(
    ("now", "seconds"), [(0, 60), (59.5, 0.5), (60, 60), (1_700_000_001, 39), (1_699_999_980.25, 59.75)]
)
def test_the_next_ping_is_at_the_full_minute(now, seconds):
    assert local_cron.seconds_to_next_minute(now) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("body", "summary"),
    [
        ({"succeeded": 0, "failed": 0, "remaining": 0, "errors": [], "busy": True}, None),
        ({"succeeded": 2, "failed": 1, "remaining": 0, "errors": []}, "2 succeeded, 1 failed"),
        ({"remaining": 7}, "7 more due"),
        (
            {"retried": 1, "errors": [{"action_type": "a:b", "action_id": "17", "error": "no"}]},
            "1 retried\n  a:b 17: no",
        ),
        (
            {"errors": [{"action_type": None, "action_id": None, "error": "stuck"}]},
            "nothing done\n  tick: stuck",
        ),
    ],
)
def test_a_tick_that_did_something_is_summarised(body, summary):
    assert local_cron.summary(body) == summary


def test_a_ping_without_a_response_returns_the_problem():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]

    response = local_cron.ping("127.0.0.1", port, SECRET, timeout_seconds=5)

    assert response.status is None
    assert response.problem == "no answer (ConnectionRefusedError)"
