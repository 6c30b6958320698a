"""`scheduled-actions demo`: all of its checks pass, and its receiver verifies signatures."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest

from scheduled_actions.core import signing
from scheduled_actions.local.demo.receiver import Receiver
from scheduled_actions.local.demo.report import DemoCheckFailed, Report
from scheduled_actions.local.receiver import receiving

#: A limit for two busy cores; on an idle machine the demo takes eight seconds.
LONGEST_SECONDS = 60
KEY = b"k" * 32
SECRET = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="


def names_of_the_repository(text: str) -> list[str]:
    """Return the names in a text that only a clone of the repository has."""
    return re.findall(r"\b(?:make [a-z-]+|docs/\S+|Makefile|tests/\S+)", text)


@pytest.mark.slow
def test_the_demo_passes_and_leaves_nothing_behind(tmp_path):
    environ = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "PYTHONIOENCODING": "utf-8",
        # The demo must ignore these.
        "DATABASE_URL": "postgresql://user@127.0.0.1:1/production",
        "CRON_SECRET": "short",
        "SCHEDULED_ACTIONS_BATCH_SIZE": "none",
    }
    environ.pop("SCHEDULED_ACTIONS_PROJECT", None)

    result = subprocess.run(
        [sys.executable, "-m", "scheduled_actions.cli", "demo"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    for claim in (
        "the new action was merged",
        "the ping is rejected",
        "every due action succeeded",
        "never two bookings at the same time",
        "no charge is in the table",
        "one charge is in the table",
        "accounts answered 500, then 200",
        "the receiver rejects the request",
        "the history names the user who retried the action",
        "one occurrence every day, even when 01:30 occurs twice",
        "the schedule is unchanged",
        "the series continues after the failure",
        "one catch-up occurrence ran, six were missed",
        "everything is completed except tomorrow's invoice",
        "the explanation has the code not_due",
        "the explanation has the code failed",
    ):
        assert f"✓ {claim}" in result.stdout
    assert "scheduled-actions init DIR" in result.stdout
    assert names_of_the_repository(result.stdout) == []
    assert "checks passed" in result.stdout.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_failed_check_reports_the_actual_and_the_expected_value(capsys):
    report = Report()
    report.check(("one is one", 1, 1))

    with pytest.raises(DemoCheckFailed) as failed:
        report.check(("one is two", 1, 2))

    assert str(failed.value) == "expected 2\n    found 1"
    assert report.checked == 1
    printed = capsys.readouterr().out
    assert "one is two" in printed


def post(url, body, headers):
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=10)
    connection.request("POST", place.path, body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def signed(body, *, key=KEY):
    now = int(time.time())
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(now),
        "webhook-signature": signing.sign([key], message_id="msg_1", timestamp=now, body=body),
    }


def test_the_receiver_accepts_only_signatures_with_its_secret():
    receiver = Receiver({"here": SECRET}, failing_once="other")
    with receiving(0, receiver.receive) as address:
        url = f"{address}/here"

        assert post(url, b"{}", signed(b"{}")) == 200
        assert post(url, b"{}", signed(b"{}", key=b"x" * 32)) == 401
        assert post(url, b'{"other": 1}', signed(b"{}")) == 401
        assert post(url, b"{}", {}) == 401
        assert post(f"{address}/elsewhere", b"{}", signed(b"{}")) == 401

    assert [request.status for request in receiver.at("here")] == [200, 401, 401, 401]


def test_the_receiver_fails_a_signed_request_once():
    with receiving(0, Receiver({"here": SECRET}, failing_once="here").receive) as address:
        url = f"{address}/here"

        assert post(url, b"{}", {}) == 401
        assert post(url, b"{}", signed(b"{}")) == 500
        assert post(url, b"{}", signed(b"{}")) == 200
