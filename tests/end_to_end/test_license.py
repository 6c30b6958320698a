"""A license renewal with real mails: the clock moves day by day until the deadline is completed."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from handlers import deadline as own
from scheduled_actions import action
from scheduled_actions.deadlines import operations
from tests.factories import set_clock
from tests.mail_server import Mailbox
from tests.notifications.notice_project import mails, notice_project

BERLIN = ZoneInfo("Europe/Berlin")
DUE = datetime(2027, 1, 15, 17, 0, tzinfo=BERLIN)
OWN = (own.send_reminder, own.send_escalation, own.mark_missed, own.create_next)
LICENCE = {
    "target": {"type": "license", "id": "42"},
    "due_at": DUE,
    "timezone": "Europe/Berlin",
    "name": "trade license",
    "recipients": "ann@example.org",
    "reminders": ["60 days before at 09:00", {"offset": "7 days before at 09:00", "repeat": "daily"}],
    "auto_actions": [
        {"offset": "30 days before at 09:00", "action_type": "approval:start", "payload": {"license": 42}}
    ],
    "escalation": [{"offset": "14 days before at 09:00", "to": "cfo@example.org"}],
}
ANN, CFO = "ann@example.org", "cfo@example.org"
#: Day and recipient or handler of each event if the deadline is never completed.
EVENTS = [
    ("2026-11-16", ANN),
    ("2026-12-16", "approval"),
    ("2027-01-01", CFO),
    *((f"2027-01-{day:02}", ANN) for day in range(8, 21)),
]


@pytest.mark.parametrize(
    "completed_on",
    [
        None,
        "2027-01-12",
        *(
            pytest.param(day, marks=pytest.mark.slow)
            for day in ("2026-11-20", "2026-12-17", "2027-01-05", "2027-01-15", "2027-01-18")
        ),
    ],
)
def test_mails_are_sent_day_by_day_until_it_is_completed(tmp_path, database_url, connection, completed_on):
    happened, today = [], [""]

    @action("approval:start")
    def start(payload: dict):
        happened.append((today[0], "approval"))

    mailbox = Mailbox()
    settings = (
        "[notifications]\ndigest_seconds = 0\ntimezone = 'Europe/Berlin'\n"
        "[email]\nsender = 'desk@acme.example'\nsecurity = 'none'\n"
    )
    with notice_project(tmp_path, database_url, mailbox, *OWN, start, toml=settings) as runtime:
        set_clock(connection, DUE - timedelta(days=90))
        runtime.deadlines.set(LICENCE)
        # Weeks without events are skipped; from mid-December, one tick runs each day.
        for day in [
            DUE.replace(hour=9) + timedelta(days=n) for n in (-61, -60, -59, -56, -45, -31, -30, -29, *range(-15, 6))
        ]:
            today[0] = day.date().isoformat()
            set_clock(connection, day)
            if today[0] == completed_on:
                done = operations.complete(runtime.deadlines, "trade license", by="ann")
            sent_before = len(mailbox.envelopes)
            while runtime.processor.tick().processed:
                pass
            happened += [(today[0], address) for one in mailbox.envelopes[sent_before:] for address in one.rcpt_tos]

        if completed_on:
            assert done.days_late == max(0, (datetime.fromisoformat(completed_on) - DUE.replace(tzinfo=None)).days + 1)
            assert runtime.deadlines.get("trade license").status == "completed"
        else:
            assert runtime.deadlines.get("trade license").status == "missed"
    assert happened == [(day, what) for day, what in EVENTS if completed_on is None or day < completed_on]
    first = mails(mailbox)[0]
    assert "trade license" in first["Subject"]
    assert "Next reminder: Friday, 8 January 2027, 09:00" in first.get_body(("plain",)).get_content()
