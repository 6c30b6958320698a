"""`scheduled-actions demo`: the whole story, told by the command itself."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest

from scheduled_actions.core import signing
from scheduled_actions.local.demo.receiver import Receiver
from scheduled_actions.local.demo.report import Disappointed, Report

#: On two busy cores; alone it takes eight.
LONGEST_SECONDS = 60
KEY = b"k" * 32
SECRET = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="


@pytest.mark.slow
def test_the_demo_holds_and_leaves_nothing_behind(tmp_path):
    environ = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "PYTHONIOENCODING": "utf-8",
        # None of these may lead it anywhere.
        "DATABASE_URL": "postgresql://somebody@127.0.0.1:1/production",
        "CRON_SECRET": "short",
        "SCHEDULED_ACTIONS_BATCH_SIZE": "none",
    }
    environ.pop("SCHEDULED_ACTIONS_PROJECT", None)

    told = subprocess.run(
        [sys.executable, "-m", "scheduled_actions.cli", "demo"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )

    assert told.returncode == 0, told.stdout + told.stderr
    for claim in (
        "it was merged",
        "it is refused",
        "every due action succeeded",
        "never two side by side",
        "no charge is in the table",
        "one charge is in the table",
        "accounts said 500, then 200",
        "the receiver does not believe it",
        "its history names who did that",
        "once on every day, also where 01:30 comes twice",
        "it is the same schedule, and nothing of it has changed",
        "the failure ended nothing",
        "one catch-up, six were missed",
        "everything is done but tomorrow's invoice",
        "it says why: not_due",
        "it says why: failed",
    ):
        assert f"✓ {claim}" in told.stdout
    assert "docs/tutorial.md" in told.stdout
    assert "checks hold" in told.stdout.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_claim_that_does_not_hold_is_told_with_what_was_expected(capsys):
    report = Report()
    report.check("one is one", 1, 1)

    with pytest.raises(Disappointed) as disappointed:
        report.check("one is two", 1, 2)

    assert str(disappointed.value) == "expected 2\n    found 1"
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


def test_the_receiver_believes_only_its_own_secret():
    with Receiver({"here": SECRET}, failing_once="nobody") as receiver:
        url = receiver.url("here")

        assert post(url, b"{}", signed(b"{}")) == 200
        assert post(url, b"{}", signed(b"{}", key=b"x" * 32)) == 401
        assert post(url, b'{"other": 1}', signed(b"{}")) == 401
        assert post(url, b"{}", {}) == 401
        assert post(receiver.url("elsewhere"), b"{}", signed(b"{}")) == 401

    assert [one.is_signed for one in receiver.at("here")] == [True, False, False, False]


def test_the_receiver_fails_a_signed_request_once():
    with Receiver({"here": SECRET}, failing_once="here") as receiver:
        url = receiver.url("here")

        assert post(url, b"{}", {}) == 401
        assert post(url, b"{}", signed(b"{}")) == 500
        assert post(url, b"{}", signed(b"{}")) == 200
