"""The demo of a license renewal: each mail is sent on its day, and none after completion."""

from __future__ import annotations

from datetime import datetime

import pytest

from proofs.license.post import open_post_office
from proofs.license.story import BERLIN, HANDLERS, NAME, play
from scheduled_actions import get_deadline, runtime
from scheduled_actions.core import config
from scheduled_actions.registry import Registry

FIRST = [("16 November", "ann")]
APPROVAL = [("16 December", name) for name in ("dora", "emil", "fay")]
ESCALATION = [("1 January", "carl")]


def daily(last):
    return [(f"{day} January", "ann") for day in range(8, last + 1)]


@pytest.fixture
def play_demo(tmp_path, database_url):
    """Return a function that runs the demo and returns its letters and the deadline's final status."""

    def play_demo(completed_at):
        with open_post_office() as (office, port):
            environ = {
                "DATABASE_URL": database_url,
                "SCHEDULED_ACTIONS_EMAIL_HOST": "127.0.0.1",
                "SCHEDULED_ACTIONS_EMAIL_PORT": str(port),
                "SCHEDULED_ACTIONS_RETENTION_DAYS": "36500",
            }
            made = runtime.Runtime(config.load(tmp_path, environ), registry=Registry.of(*HANDLERS))
            before = runtime.use(made)
            try:
                letters = play(made, office, completed_at=completed_at)
                return letters, get_deadline(NAME).status
            finally:
                runtime.use(before)
                made.close()

    return play_demo


def days(letters):
    return [(letter.day(BERLIN), letter.to.partition("@")[0]) for letter in letters]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("completed_on", "expected"),
    [
        ((2026, 11, 10), []),
        ((2026, 12, 1), FIRST),
        ((2026, 12, 20), FIRST + APPROVAL),
        ((2027, 1, 5), FIRST + APPROVAL + ESCALATION),
        ((2027, 1, 12, 15), FIRST + APPROVAL + ESCALATION + daily(12)),
    ],
    ids=["before the first mail", "after it", "approved", "after the escalation", "while reminders repeat"],
)
def test_no_mail_is_sent_after_completion(play_demo, completed_on, expected):
    letters, status = play_demo(datetime(*completed_on, tzinfo=BERLIN))

    assert sorted(days(letters)) == sorted(expected)
    assert status == "completed"


@pytest.mark.slow
def test_a_license_that_is_not_renewed_is_missed_and_reminders_continue(play_demo):
    letters, status = play_demo(None)

    assert sorted(days(letters)) == sorted(FIRST + APPROVAL + ESCALATION + daily(20))
    assert status == "missed"
    overdue = [letter for letter in letters if "overdue" in letter.subject]
    assert [letter.day(BERLIN) for letter in overdue] == [f"{day} January" for day in range(16, 21)]
    assert [letter.subject for letter in letters if "Escalation" in letter.subject] == [
        "Escalation (level 1): trade license 42 is due in 14 days"
    ]
    # Mails show the time in the recipient's zone: New York for the CFO, Berlin for the owner.
    assert any("Due: Friday, 15 January 2027, 11:00 (America/New_York)" in letter.text for letter in letters)
    assert "Due: Friday, 15 January 2027, 17:00 (Europe/Berlin)" in letters[0].text
