"""Receipts of sent notifications are kept as long as their deadline."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions.deadlines import operations, reading
from tests.deadlines.deadline_project import OWN
from tests.factories import NOW, database_now, set_clock
from tests.mail_server import Mailbox
from tests.notifications.notice_project import a_receiver, mails, notice_project
from tests.statements import statement

DAY = timedelta(days=1)
DUE = NOW + 60 * DAY
#: Notifications to one person within this time are combined into one message.
DIGEST_DELAY = timedelta(seconds=60)
ANN = {"name": "Ann", "channels": ["ann@example.org"]}


@pytest.fixture
def mailbox():
    return Mailbox()


@pytest.fixture
def runtime(tmp_path, database_url, connection, mailbox):
    """Yield a project with deadlines and a real mail server; its clock is set to NOW."""
    set_clock(connection, NOW)
    with notice_project(tmp_path, database_url, mailbox, *OWN) as made:
        yield made


def set_one(runtime, number=42, **changes):
    given = {
        "target": {"type": "license", "id": str(number)},
        "due_at": DUE,
        "recipients": [ANN],
        "reminders": ["60 days before"],
    }
    return runtime.deadlines.set(given | changes)[0]


def tick(runtime, connection):
    """Run all due actions, and send the notifications that they collect."""
    for later in (timedelta(0), DIGEST_DELAY):
        set_clock(connection, database_now(connection) + later)
        while runtime.processor.tick().processed:
            pass


def test_receipts_outlast_the_actions_that_sent_the_notifications(runtime, connection, mailbox):
    made = set_one(runtime)
    tick(runtime, connection)
    operations.complete(runtime.deadlines, made.id)
    set_clock(connection, NOW + 400 * DAY)
    runtime.maintenance.prune(limit=999)

    (notice,) = reading.notices(runtime.deadlines.database, runtime.deadlines.get(made.id))

    (mail,) = mails(mailbox)
    assert connection.execute("select count(*) from scheduled_actions where completed_at is not null").fetchone() == (
        0,
    )
    assert (notice.stage, notice.recipient, notice.channel) == ("reminder:60 days before#1", "Ann", "email")
    assert (notice.address, notice.problem, notice.sent_at) == ("ann@example.org", None, NOW + DIGEST_DELAY)
    assert (notice.message_id, notice.subject) == (mail["Message-ID"], mail["Subject"])


def test_a_failed_channel_and_the_next_one_both_have_a_receipt(runtime, connection, mailbox):
    mailbox.replies["ann@example.org"] = "550 5.1.1 no such user"
    with a_receiver() as (place, posts):
        made = set_one(runtime, recipients=[{"name": "Ann", "channels": ["ann@example.org", f"http://{place}/secret"]}])
        tick(runtime, connection)

    taken, refused = reading.notices(runtime.deadlines.database, made)
    assert (refused.channel, refused.message_id, "no such user" in refused.problem) == ("email", None, True)
    assert (taken.channel, taken.problem, len(posts)) == ("webhook", None, 1)
    assert "secret" not in taken.address


def test_each_deadline_of_a_digest_has_a_receipt(runtime, connection, mailbox):
    made = [set_one(runtime, number) for number in (1, 2)]
    tick(runtime, connection)

    (first,), (second,) = [reading.notices(runtime.deadlines.database, one) for one in made]

    (mail,) = mails(mailbox)
    assert first.message_id == second.message_id == mail["Message-ID"]
    assert first.subject != second.subject


def test_a_receipt_that_cannot_be_written_neither_prevents_nor_repeats_an_email(runtime, connection, mailbox, caplog):
    set_one(runtime)
    connection.execute("alter table scheduled_action_deadline_notices rename to elsewhere")

    tick(runtime, connection)

    assert len(mails(mailbox)) == 1
    assert "notice.receipt_not_stored error=UndefinedTable" in caplog.text


@pytest.mark.parametrize("end", [operations.complete, operations.cancel])
def test_ended_deadlines_are_pruned_after_ten_years_with_their_receipts(runtime, connection, end):
    made = set_one(runtime)
    tick(runtime, connection)
    end(runtime.deadlines, made.id)

    set_clock(connection, NOW + 3650 * DAY)
    runtime.maintenance.prune(limit=999)
    kept = len(reading.find(runtime.deadlines.database))
    set_clock(connection, NOW + 3651 * DAY)
    runtime.maintenance.prune(limit=999)

    assert (kept, reading.find(runtime.deadlines.database)) == (1, [])
    assert connection.execute("select count(*) from scheduled_action_deadline_notices").fetchone() == (0,)


def test_an_unresolved_deadline_is_never_pruned(runtime, connection):
    made = set_one(runtime)

    for days in (60, 36500):
        set_clock(connection, NOW + days * DAY)
        tick(runtime, connection)
        runtime.maintenance.prune(limit=999)

    assert runtime.deadlines.get(made.id).status == "missed"
    assert len(reading.notices(runtime.deadlines.database, made)) >= 1


def test_a_batch_of_old_deadlines_is_found_with_an_index(connection):
    connection.execute(
        "insert into scheduled_action_deadlines (target_type, target_id, status, due_at, closed_at)"
        " select 'license', n::text, 'completed', now(), now() - n * interval '1 hour' from generate_series(1, 20000) n"
    )
    connection.execute("analyze scheduled_action_deadlines")

    plan = connection.execute(
        "explain " + statement("prune_deadlines"), {"retention_days": 3650, "limit": 500}
    ).fetchall()

    assert "scheduled_action_deadlines_closed" in str(plan)
    assert "Seq Scan" not in str(plan)
