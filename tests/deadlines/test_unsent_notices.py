"""A notice that is not sent because its deadline was changed is replaced by one to the recipients without a receipt."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from handlers import webhook
from scheduled_actions.actions.rules.settlement import Skipped, Snoozed
from scheduled_actions.deadlines import operations, reading, store
from scheduled_actions.deadlines.model import Stage
from scheduled_actions.deadlines.rules import planning
from tests.deadlines.deadline_project import OWN, planned
from tests.factories import NOW, is_waiting, set_clock, wait_until
from tests.mail_server import Mailbox
from tests.notifications.notice_project import a_receiver, notice_project

DAY, HOUR, HALF_HOUR = timedelta(days=1), timedelta(hours=1), timedelta(minutes=30)
DUE = NOW + 60 * DAY
GIVEN = {
    "target": {"type": "license", "id": "42"},
    "due_at": DUE,
    "name": "renewal",
    "recipients": ["ann@example"],
    "reminders": ["60 days before"],
}
REMINDER = "reminder:60 days before"
#: This person's notices at noon, which is NOW, are deferred by an hour.
QUIET = {"channels": ["bob@example.org"], "quiet_hours": "11:00-13:00"}


@pytest.fixture
def mailbox():
    return Mailbox()


@pytest.fixture
def runtime(tmp_path, database_url, connection, mailbox):
    """Yield a project with deadlines and a real mail server; its clock is set to NOW."""
    set_clock(connection, NOW)
    with notice_project(tmp_path, database_url, mailbox, *OWN, webhook.send) as made:
        yield made


@pytest.fixture
def queue(runtime, connection):
    """Return a function that sets a deadline and runs its first reminder; the mails are still queued."""

    def run(at=NOW, **changes):
        made, _ = runtime.deadlines.set(GIVEN | changes)
        set_clock(connection, at)
        runtime.processor.tick()
        return made

    return run


@pytest.fixture
def tick(runtime, connection):
    """Return a function that runs all due actions at an instant, and sends the mails that they queue."""

    def run(at=NOW):
        for number in range(5):
            set_clock(connection, at + number * timedelta(seconds=30))
            runtime.processor.tick()

    return run


def received(mailbox):
    return sorted(to for one in mailbox.envelopes for to in one.rcpt_tos)


def whats(runtime, made):
    return [one["what"] for one in runtime.deadlines.get(made.id).history]


@pytest.mark.parametrize(
    "change",
    [
        lambda deadlines, to: deadlines.set(GIVEN | {"recipients": to}),
        lambda deadlines, to: deadlines.update("renewal", recipients=to),
        lambda deadlines, to: operations.reassign(deadlines, "renewal", to),
    ],
)
def test_after_the_recipient_is_corrected_the_queued_reminder_goes_to_the_new_one(
    runtime, queue, tick, mailbox, change
):
    made = queue()

    change(runtime.deadlines, ["ann@example.org"])
    tick()

    found = runtime.deadlines.get(made.id)
    assert received(mailbox) == ["ann@example.org"]
    assert [one["what"] for one in found.history][-2:] == ["replaced", "reminded"]
    replaced, sent, _ = reading.timeline(runtime.database, found)
    reason = "the deadline was changed before all recipients were notified"
    assert (replaced.stage, replaced.occurrence, replaced.state, replaced.note) == (REMINDER, 1, "replaced", reason)
    assert (sent.stage, sent.occurrence, sent.state, sent.note) == (REMINDER, 2, "sent", "ann@example.org")


def test_a_queued_escalation_also_goes_to_its_corrected_recipient(runtime, queue, tick, mailbox):
    queue(reminders=[], escalation=[{"offset": "60 days before", "to": ["cfo@example"]}])

    runtime.deadlines.update("renewal", escalation=[{"offset": "60 days before", "to": ["cfo@example.org"]}])
    tick()

    assert received(mailbox) == ["cfo@example.org"]


def test_a_recipient_who_received_the_reminder_does_not_receive_it_again(runtime, queue, tick, mailbox):
    made = queue(recipients=["ann@example.org", QUIET])
    tick(NOW + timedelta(minutes=1))
    assert received(mailbox) == ["ann@example.org"]

    for name in ("ben@example.org", "eve@example.org"):
        runtime.deadlines.set(GIVEN | {"recipients": ["ann@example.org", QUIET | {"channels": [name]}]})
        tick(NOW + timedelta(minutes=2))
    tick(NOW + HOUR)

    assert received(mailbox) == ["ann@example.org", "eve@example.org"]
    assert whats(runtime, made).count("replaced") == 1


def test_a_receipt_of_another_webhook_at_the_same_host_does_not_prevent_a_replacement(runtime, queue, tick):
    with a_receiver() as (place, posts):
        queue(recipients=[f"http://{place}/ann", QUIET | {"channels": [f"http://{place}/bob"]}])
        tick(NOW + timedelta(minutes=1))
        before = len(posts)

        runtime.deadlines.update("renewal", timezone="Europe/Berlin")
        tick(NOW + HOUR)

    assert (before, len(posts)) == (1, 2)


def test_a_replaced_escalation_neither_reassigns_the_deadline_nor_emits_its_event_again(
    runtime, queue, tick, mailbox, connection
):
    made = queue(reminders=[], escalation=[{"offset": "60 days before", "assign": [QUIET]}])
    tick(NOW + timedelta(minutes=1))
    operations.reassign(runtime.deadlines, made.id, "eve@example.org")

    runtime.deadlines.move(made.id, DUE - HOUR)
    tick(NOW + HOUR)

    found = runtime.deadlines.get(made.id)
    events = connection.execute(
        "select count(*) from scheduled_actions where payload ->> 'event' = 'deadline:escalated'"
    ).fetchone()
    assert received(mailbox) == ["bob@example.org"]
    assert [one["what"] for one in found.history] == [
        "set",
        "escalated",
        "reassigned",
        "moved",
        "replaced",
        "escalated",
    ]
    assert (found.recipients, events) == (("eve@example.org",), (1,))


def test_a_level_is_replaced_although_a_later_level_has_begun(runtime, queue, tick, mailbox):
    made = queue(
        reminders=[],
        escalation=[
            {"offset": "60 days before", "to": [QUIET]},
            {"offset": "PT1439H30M before", "to": ["cfo@example.org"]},
        ],
    )
    tick(NOW + timedelta(minutes=31))

    runtime.deadlines.move(made.id, DUE + timedelta(minutes=5))
    tick(NOW + HOUR)

    assert received(mailbox) == ["bob@example.org", "cfo@example.org"]
    assert [(one.state, one.occurrence) for one in runtime.deadlines.get(made.id).stages[:2]] == [
        ("begun", 2),
        ("begun", 1),
    ]


def test_a_replacement_without_a_new_recipient_is_skipped(runtime, queue, tick, mailbox, connection):
    made = queue(recipients=["ann@example.org", QUIET])
    tick(NOW + timedelta(minutes=1))

    runtime.deadlines.update(made.id, recipients=["ann@example.org"])
    tick(NOW + HOUR)

    assert received(mailbox) == ["ann@example.org"]
    assert whats(runtime, made) == ["set", "reminded", "changed", "replaced"]
    assert connection.execute(
        "select status, error_message from scheduled_actions where deadline_stage = %s", [f"{REMINDER}#2"]
    ).fetchone() == ("skipped", "every recipient has received this notice")


def test_a_queued_reminder_of_a_moved_deadline_is_sent_at_its_new_instant(runtime, queue, tick, mailbox, connection):
    made = queue()

    runtime.deadlines.move(made.id, DUE + 30 * DAY)
    tick()
    then = planned(connection, made.id)
    before = received(mailbox)
    tick(NOW + 30 * DAY)

    assert (before, then[f"{REMINDER}#2"]) == ([], NOW + 30 * DAY)
    assert received(mailbox) == ["ann@example"]


def test_a_queued_reminder_of_a_paused_deadline_is_sent_after_it_is_resumed(runtime, queue, tick, mailbox):
    made = queue()

    operations.pause(runtime.deadlines, made.id)
    tick()
    before = received(mailbox)
    operations.resume(runtime.deadlines, made.id)
    tick(NOW + HOUR)

    assert (before, received(mailbox)) == ([], ["ann@example"])


@pytest.mark.parametrize("end", [operations.complete, operations.cancel])
def test_a_queued_reminder_of_a_closed_deadline_is_not_replaced(runtime, queue, tick, mailbox, end):
    made = queue()

    end(runtime.deadlines, made.id)
    tick(NOW + 61 * DAY)

    assert (received(mailbox), "replaced" in whats(runtime, made)) == ([], False)


@pytest.mark.parametrize(
    ("changes", "replaced"),
    [
        ({}, []),
        ({"replaces": 2}, ["when due#2", "when due#3"]),
    ],
)
def test_an_occurrence_replaces_those_before_it(changes, replaced):
    stage = Stage(key="when due", kind="reminder", offset="when due", action_type="reminder:send", begun=4)

    assert planning.replaced_occurrences(replace(stage, **changes)) == replaced


def test_a_stored_stage_with_a_huge_count_replaces_a_thousand_occurrences():
    huge = 1_000_000_000
    stage = Stage(key="due", kind="reminder", offset="when due", action_type="reminder:send", begun=huge, replaces=1)

    replaced = planning.replaced_occurrences(stage)

    assert (len(replaced), replaced[-1]) == (1000, f"due#{huge - 1}")


def test_a_repeated_reminder_is_not_replaced_while_a_further_occurrence_is_planned(runtime, queue, tick, mailbox):
    given = {"due_at": DUE + HOUR, "reminders": [{"offset": "60 days before", "repeat": "daily"}]}
    made = queue(NOW + HOUR, **given)

    runtime.deadlines.set(GIVEN | given | {"recipients": ["ben@example.org"]})
    tick(NOW + HOUR)
    before = received(mailbox)
    tick(NOW + HOUR + DAY)

    assert (before, received(mailbox)) == ([], ["ben@example.org"])
    assert "replaced" not in whats(runtime, made)


def test_the_last_occurrence_of_a_repeated_reminder_is_replaced_once(runtime, queue, tick, mailbox):
    reminders = [{"offset": "60 days before", "repeat": "daily", "times": 1}]
    made = queue(NOW + HALF_HOUR, due_at=DUE + HALF_HOUR, reminders=reminders, recipients=["ann@example", QUIET])

    runtime.deadlines.update(made.id, recipients=["ann@example.org", QUIET])
    tick(NOW + HALF_HOUR)
    tick(NOW + HOUR)
    tick(NOW + 3 * DAY)

    assert received(mailbox) == ["ann@example.org", "bob@example.org"]
    assert whats(runtime, made) == ["set", "reminded", "changed", "replaced", "reminded"]


def test_the_last_occurrence_of_a_repeated_reminder_starts_again_after_a_change_prevented_its_start(runtime, queue):
    made = queue(NOW + HOUR, due_at=DUE + HOUR, reminders=[{"offset": "60 days before", "repeat": "daily", "times": 1}])
    begun = runtime.deadlines.get(made.id)
    moved = replace(begun, due_at=begun.due_at + DAY, revision=begun.revision + 1)

    early, planned_again = planning.decide(moved, REMINDER, 1, now=NOW + HOUR, is_first=False)
    started, _ = planning.decide(moved, REMINDER, 1, now=NOW + HOUR + DAY, is_first=False)

    assert (early, planned_again.at, started) == (Snoozed(DAY), NOW + HOUR + DAY, None)


def test_an_occurrence_before_the_last_one_of_a_repeated_reminder_does_not_start_again(runtime, queue, connection):
    reminders = [{"offset": "60 days before", "repeat": "daily", "times": 2}]
    made = queue(NOW + HOUR, due_at=DUE + HOUR, reminders=reminders)
    set_clock(connection, NOW + HOUR + DAY)
    runtime.processor.tick()
    begun = runtime.deadlines.get(made.id)

    moved = replace(begun, revision=begun.revision + 1)
    outcome, stage = planning.decide(moved, REMINDER, 1, now=NOW + HOUR + DAY, is_first=False)

    assert (outcome, stage) == (Skipped("the deadline was changed, and the repeated stage was planned again"), None)


def test_a_replacing_occurrence_whose_stage_becomes_repeated_is_followed_by_the_next_one(
    runtime, queue, tick, connection
):
    made = queue()
    runtime.deadlines.move(made.id, DUE + DAY)
    tick()
    runtime.deadlines.update(made.id, reminders=[{"offset": "60 days before", "repeat": "daily"}])
    tick(NOW + DAY)

    runtime.deadlines.update(made.id, recipients=["ben@example.org"])

    assert planned(connection, made.id)[f"{REMINDER}#3"] == NOW + 2 * DAY


def test_a_remaining_recipient_receives_the_replacement_and_not_also_the_queued_notice(runtime, queue, tick, mailbox):
    made = queue(recipients=["ann@example", QUIET])

    runtime.deadlines.update(made.id, recipients=["ann@example.org", QUIET])
    tick()
    tick(NOW + HOUR)

    sent = [(one.address, one.stage) for one in reading.notices(runtime.database, made)[::-1]]
    assert sent == [("ann@example.org", f"{REMINDER}#2"), ("bob@example.org", f"{REMINDER}#2")]


def test_a_reminder_that_is_sent_again_after_a_missed_date_goes_to_all_recipients(runtime, queue, tick, mailbox):
    made = queue(recipients=["ann@example.org", QUIET])
    tick(NOW + timedelta(minutes=1))
    runtime.deadlines.set(GIVEN | {"recipients": ["ann@example.org", "ben@example.org"]})
    tick(NOW + HOUR)
    tick(DUE)

    runtime.deadlines.move(made.id, DUE + 90 * DAY)
    tick(DUE + 30 * DAY)

    assert received(mailbox) == ["ann@example.org"] * 2 + ["ben@example.org"] * 2


def test_the_valid_notices_of_a_digest_are_sent_without_the_replaced_one(runtime, queue, tick, mailbox, connection):
    made = queue(recipients=["ann@example.org"])
    other, _ = runtime.deadlines.set(GIVEN | {"name": "other", "recipients": ["ann@example.org"]})
    runtime.processor.tick()
    queued = connection.execute(
        "select count(*) from scheduled_actions where action_type = 'notification:send'"
    ).fetchone()

    runtime.deadlines.move(made.id, DUE + 30 * DAY)
    tick()

    assert queued == (1,)
    assert received(mailbox) == ["ann@example.org"]
    assert (whats(runtime, made)[-1], whats(runtime, other)[-1]) == ("replaced", "reminded")
    assert [one.stage for one in reading.notices(runtime.database, other)] == [f"{REMINDER}#1"]
    assert reading.notices(runtime.database, made) == []


def test_mails_that_are_skipped_at_the_same_time_are_replaced_once(runtime, queue, tick, mailbox, connection):
    people = [f"p{number}@example.org" for number in range(8)]
    made = queue(recipients=[f"{one}.invalid" for one in people])
    runtime.deadlines.set(GIVEN | {"recipients": people})
    set_clock(connection, NOW + timedelta(seconds=30))
    ticking = threading.Thread(target=runtime.processor.tick)

    with runtime.database.connection() as changing, changing.transaction():
        store.lock(changing, [made.id])
        ticking.start()
        wait_until(lambda: is_waiting(connection, 2))
    ticking.join()
    tick(NOW + timedelta(minutes=1))

    assert received(mailbox) == people
    assert whats(runtime, made) == ["set", "reminded", "changed", "replaced", "reminded"]


def test_a_mail_in_transit_is_awaited_and_not_replaced(runtime, queue, tick, mailbox, connection):
    """While a mail of the deadline is being sent, the deadline is locked, and another mail cannot be replaced."""
    made = queue(recipients=["ann@example.org"])
    runtime.deadlines.set(GIVEN | {"recipients": ["ben@example.org"]})
    set_clock(connection, NOW + timedelta(seconds=30))
    with runtime.database.connection() as sending, sending.transaction():
        sending.execute("select from scheduled_action_deadlines for share")
        ticking = threading.Thread(target=runtime.processor.tick)
        ticking.start()
        ticking.join()
        during = whats(runtime, made)
        (status, attempts) = connection.execute(
            "select status, attempts from scheduled_actions where action_type = 'notification:send'"
        ).fetchone()
    tick(NOW + timedelta(minutes=1))

    assert (status, attempts, "replaced" in during) == ("pending", 0, False)
    assert received(mailbox) == ["ben@example.org"]
