"""Deadlines that are completed, moved or cancelled during ticks: nothing invalid is sent."""

from __future__ import annotations

import random
import threading
import time
from datetime import timedelta

import psycopg
import pytest

from handlers import notification
from scheduled_actions import Context, Fail, action
from scheduled_actions.actions import claims
from scheduled_actions.actions.model import NewAction
from scheduled_actions.actions.rules import settlement
from scheduled_actions.core.errors import DatabaseUnavailable
from scheduled_actions.deadlines import handlers as deadline_handlers, operations, store
from tests.deadlines.deadline_project import SENT, deadline_project, ended, planned, send
from tests.factories import NOW, PATIENCE, a_tick, insert, is_waiting, set_clock, statuses, together, wait_until
from tests.mail_server import Mailbox, serving

DAY = timedelta(days=1)
DUE = NOW + 90 * DAY
TARGET = {"type": "license", "id": "42"}
ANN = "ann@example.org"
#: The deadlines of one round, and the rounds, of the test with two ticks and many changes.
DEADLINES_PER_ROUND, ROUNDS = 50, 20
#: Changes after which no reminder that was planned before may start.
CHANGES = {
    "complete": operations.complete,
    "cancel": operations.cancel,
    "move": lambda deadlines, one: deadlines.move(one, DUE + 100 * DAY),
    "pause": operations.pause,
}


@pytest.fixture
def runtime(database_url, connection):
    set_clock(connection, NOW)
    with deadline_project(database_url) as made:
        yield made


def a_deadline(runtime, **changes):
    given = {"target": TARGET, "due_at": DUE, "recipients": ANN, "reminders": ["60 days before"]}
    return runtime.deadlines.set(given | changes)[0]


def test_two_ticks_at_the_due_instant_mark_the_deadline_missed_once(database_url, connection):
    emitted = []

    @action("webhook:send")
    def emit(payload: dict):
        emitted.append(payload["event"])

    set_clock(connection, NOW)
    with deadline_project(database_url, emit) as one, deadline_project(database_url, emit) as other:
        ids = [a_deadline(one, reminders=[]).id for _ in range(20)]
        set_clock(connection, DUE)

        together(database_url, 2, lambda _, number: [(one, other)[number].processor.tick() for _ in range(3)])

        histories = [[entry["what"] for entry in one.deadlines.get(wanted).history] for wanted in ids]
    assert histories == [["set", "missed"]] * 20
    assert emitted == ["deadline:missed"] * 20


def test_completing_a_deadline_waits_for_a_notification_that_is_starting(runtime, connection, database_url):
    made = a_deadline(runtime)
    guard = {"deadline_id": str(made.id), "stage": "reminder:60 days before#1", "revision": 0}

    def complete():
        # This connection has no lock timeout, so the completion waits for the lock of the test.
        with psycopg.connect(database_url, autocommit=True) as own:
            operations.complete(runtime.deadlines, made.id, connection=own)

    done = threading.Thread(target=complete)

    with runtime.database.connection() as sending, sending.transaction():
        holds_before = store.valid_guards(sending, [guard], team_id=None)
        done.start()
        wait_until(lambda: is_waiting(connection))
        still_open = runtime.deadlines.get(made.id).status
    done.join(PATIENCE)

    with connection.transaction():
        assert (holds_before, still_open, store.valid_guards(connection, [guard], team_id=None)) == (
            [True],
            "open",
            [False],
        )


def claim_one(connection):
    """Claim the only due action, as a tick does, and return it."""
    [claimed], _ = claims.claim_free(connection, a_tick(connection), wanted=5, after=claims.START, excluded=())
    return claimed


@pytest.mark.parametrize("change", CHANGES)
def test_a_claimed_action_is_checked_again_before_it_starts(runtime, connection, change):
    made = a_deadline(runtime)
    set_clock(connection, DUE - 60 * DAY)
    claimed = claim_one(connection)

    CHANGES[change](runtime.deadlines, made.id)
    outcome = deadline_handlers.begin(runtime.database, claimed)

    if change == "move":
        assert outcome == settlement.Snoozed(100 * DAY)
    elif change == "pause":
        assert isinstance(outcome, settlement.Snoozed)
    else:
        assert isinstance(outcome, settlement.Skipped)


@pytest.mark.parametrize("change", CHANGES)
def test_a_transactional_handler_checks_the_deadline_in_its_own_transaction(runtime, connection, change):
    made = a_deadline(runtime)
    set_clock(connection, DUE - 60 * DAY)

    guard = deadline_handlers.begin(runtime.database, claim_one(connection))
    with connection.transaction():
        held_before = guard.holds(connection)
    CHANGES[change](runtime.deadlines, made.id)

    with connection.transaction():
        assert (held_before, guard.holds(connection)) == (True, False)


def test_a_move_between_the_check_and_the_start_postpones_the_reminder(runtime, connection):
    made = a_deadline(runtime)
    set_clock(connection, DUE - 60 * DAY)
    claimed = claim_one(connection)
    deadline_handlers.begin(runtime.database, claimed)
    runtime.deadlines.move(made.id, DUE + 100 * DAY)

    again = deadline_handlers.begin(runtime.database, claimed)
    stage = runtime.deadlines.get(made.id).stage("reminder:60 days before")

    assert again == settlement.Snoozed(100 * DAY)
    assert (stage.state, stage.at, stage.begun) == ("planned", DUE + 40 * DAY, 0)


def test_a_started_reminder_is_not_sent_if_its_deadline_moves_before_its_transaction(
    database_url, connection, monkeypatch
):
    """The process may open one transaction; while the reminder waits for that transaction, the deadline is moved."""
    busy, released = threading.Event(), threading.Event()

    @action("hold:up", transactional=True)
    def hold_up(payload: dict):
        busy.set()
        released.wait(PATIENCE)

    monkeypatch.setattr(store, "LOCK_WAIT_MS", str(PATIENCE * 1000))
    set_clock(connection, NOW)
    with deadline_project(database_url, hold_up, send, concurrency=2) as runtime:
        made = a_deadline(runtime)
        set_clock(connection, DUE - 60 * DAY)
        runtime.scheduler.schedule_action(NewAction(action_type="hold:up", payload={}))
        tick = threading.Thread(target=runtime.processor.tick)
        with connection.transaction():
            store.lock(connection, [made.id])
            tick.start()
            assert busy.wait(PATIENCE)
        wait_until(lambda: runtime.deadlines.get(made.id).stages[0].begun == 1)
        runtime.deadlines.move(made.id, DUE + 100 * DAY)
        released.set()
        tick.join(PATIENCE)
        # Either the first tick or this one defers the reminder.
        runtime.processor.tick()

        assert (SENT, planned(connection, made.id)["reminder:60 days before#1"]) == ([], DUE + 40 * DAY)


def test_an_action_claimed_while_its_deadline_is_completed_starts_and_plans_nothing(runtime, connection, monkeypatch):
    monkeypatch.setattr(store, "LOCK_WAIT_MS", str(PATIENCE * 1000))
    made = a_deadline(runtime, reminders=[{"offset": "60 days before", "repeat": "daily"}])
    set_clock(connection, DUE - 60 * DAY)
    claimed, outcomes = claim_one(connection), []
    begin = threading.Thread(target=lambda: outcomes.append(deadline_handlers.begin(runtime.database, claimed)))

    with runtime.database.connection() as completing, completing.transaction():
        store.lock(completing, [made.id])
        begin.start()
        wait_until(lambda: is_waiting(connection))
        operations.complete(runtime.deadlines, made.id, connection=completing)
    begin.join(PATIENCE)

    assert outcomes == [settlement.Skipped("the deadline is completed")]
    assert planned(connection, made.id) == {}
    assert {one.state for one in runtime.deadlines.get(made.id).stages} == {"withdrawn"}


def test_a_tick_spends_no_attempt_while_the_deadline_is_being_changed(runtime, connection, monkeypatch):
    made = a_deadline(runtime)
    set_clock(connection, DUE - 60 * DAY)
    monkeypatch.setattr(store, "LOCK_WAIT_MS", "50")

    with runtime.database.connection() as changing, changing.transaction():
        store.lock(changing, [made.id])
        report = runtime.processor.tick()
    rows = connection.execute("select attempts from scheduled_actions where action_type = 'reminder:send'").fetchall()

    assert report.succeeded == report.failed == 0
    assert rows == [(0,)]


def test_a_reminder_that_fails_permanently_does_not_stop_its_repetition(database_url, connection):
    @action("notification:send")
    def refuse(payload: dict):
        raise Fail("no channel")

    set_clock(connection, NOW)
    with deadline_project(database_url, refuse) as runtime:
        made = a_deadline(runtime, reminders=[{"offset": "60 days before", "repeat": "daily"}])
        # No recipient can be resolved: every attempt of the reminder fails.
        connection.execute("update scheduled_action_deadlines set recipients = '[\"unknown:recipient\"]'")
        set_clock(connection, DUE - 60 * DAY)
        runtime.processor.tick()

        assert "reminder:60 days before#2" in planned(connection, made.id)


def quiet(address):
    """Return a person whose notifications at noon are deferred by an hour."""
    return {"channels": [address], "quiet_hours": "11:00-13:00"}


def test_after_a_reassignment_queued_mails_go_to_the_new_recipients(database_url, connection):
    mailbox = Mailbox()
    set_clock(connection, NOW)
    with serving(mailbox) as mail:
        places = {"email_host": mail.host, "email_port": mail.port, "email_security": mail.security}
        with deadline_project(database_url, notification.send, **places) as runtime:
            to = [quiet("ann@example.org"), quiet("bob@example.org")]
            level = {"offset": "60 days before", "to": [quiet("cfo@example.org")]}
            made = a_deadline(runtime, recipients=to, escalation=[level])
            set_clock(connection, DUE - 60 * DAY)
            runtime.processor.tick()
            pending = connection.execute(
                "select count(*) from scheduled_actions where action_type = 'notification:send' and status = 'pending'"
            ).fetchone()

            operations.reassign(runtime.deadlines, made.id, [quiet("bob@example.org"), quiet("eve@example.org")])
            set_clock(connection, DUE - 60 * DAY + timedelta(hours=1))
            while runtime.processor.tick().processed:
                pass
            set_clock(connection, DUE - 60 * DAY + timedelta(hours=2))
            runtime.processor.tick()

    assert pending == (3,)
    assert sorted(to for one in mailbox.envelopes for to in one.rcpt_tos) == [
        "bob@example.org",
        "cfo@example.org",
        "eve@example.org",
    ]


@pytest.mark.parametrize("how", ["complete", "cancel", "pause"])
def test_an_escalation_without_a_guard_does_not_change_a_closed_deadline(runtime, connection, how):
    """The row of an escalation that was cloned, or scheduled by a user, contains no deadline."""
    made = a_deadline(
        runtime, escalation=[{"offset": "2 days after", "to": "cfo@example.org", "assign": "cfo@example.org"}]
    )
    payload = {"deadline_id": str(made.id), "stage": "escalation:1", "occurrence": 1}
    CHANGES[how](runtime.deadlines, made.id)

    escalation = insert(connection, action_type="escalation:send", payload=payload)
    reminder = insert(connection, action_type="reminder:send", payload=payload | {"stage": "reminder:60 days before"})
    runtime.processor.tick()

    found = runtime.deadlines.get(made.id)
    assert (found.recipients, [one["what"] for one in found.history][2:], SENT) == ((ANN,), [], [])
    assert statuses(connection)[escalation] == statuses(connection)[reminder] == "skipped"


def test_an_escalation_waits_for_the_completion_of_its_deadline_and_is_skipped(runtime, connection, monkeypatch):
    monkeypatch.setattr(store, "LOCK_WAIT_MS", str(PATIENCE * 1000))
    made = a_deadline(
        runtime, escalation=[{"offset": "2 days after", "to": "cfo@example.org", "assign": "cfo@example.org"}]
    )
    payload = {"deadline_id": str(made.id), "stage": "escalation:1", "occurrence": 1}
    escalation = insert(connection, action_type="escalation:send", payload=payload)
    tick = threading.Thread(target=runtime.processor.tick)

    with runtime.database.connection() as completing, completing.transaction():
        operations.complete(runtime.deadlines, made.id, connection=completing)
        tick.start()
        wait_until(lambda: is_waiting(connection))
    tick.join(PATIENCE)

    found = runtime.deadlines.get(made.id)
    assert (found.recipients, [one["what"] for one in found.history], SENT) == ((ANN,), ["set", "completed"], [])
    assert statuses(connection)[escalation] == "skipped"


class TimedMailbox(Mailbox):
    """Records the times at which messages arrived, by recipient."""

    def __init__(self):
        super().__init__()
        self.arrived = {}

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 - aiosmtpd finds its hooks by their names
        reply = await super().handle_DATA(server, session, envelope)
        for address in envelope.rcpt_tos:
            self.arrived.setdefault(address, []).append(time.monotonic())
        return reply


@pytest.mark.slow
def test_no_invalid_reminder_starts_after_a_change_has_returned(database_url, connection):
    """A thousand deadlines, each completed, moved, cancelled or paused while two ticks send reminders by real SMTP."""
    mailbox, returned, dice = TimedMailbox(), {}, random.Random(7)
    set_clock(connection, NOW)

    def change(runtime, made, address):
        how = dice.choice(list(CHANGES))
        CHANGES[how](runtime.deadlines, made)
        returned[address] = time.monotonic()

    with serving(mailbox) as mail:
        places = {"email_host": mail.host, "email_port": mail.port, "email_security": mail.security, "concurrency": 4}
        with (
            deadline_project(database_url, notification.send, **places) as runtime,
            deadline_project(database_url, notification.send, **places) as other,
        ):
            for number in range(ROUNDS):
                addresses = [f"d{number}-{n}@example.org" for n in range(DEADLINES_PER_ROUND)]
                given = {"target": TARGET, "due_at": NOW + 60 * DAY, "reminders": ["60 days before"]}
                made = runtime.deadlines.set_many([given | {"recipients": address} for address in addresses])
                ticks = [
                    threading.Thread(target=lambda part=part: [part.processor.tick() for _ in range(6)])
                    for part in (runtime, other)
                ]
                for tick in ticks:
                    tick.start()
                pairs = list(zip(made, addresses, strict=True))
                dice.shuffle(pairs)
                for one, address in pairs:
                    change(runtime, one, address)
                for tick in ticks:
                    tick.join(PATIENCE * 3)

    late = {
        address: [at - returned[address] for at in moments if at > returned[address]]
        for address, moments in mailbox.arrived.items()
    }
    assert {address: by for address, by in late.items() if by} == {}
    # The changes and the ticks ran concurrently: some reminders were sent before the change, others never.
    assert DEADLINES_PER_ROUND < len(mailbox.arrived) < DEADLINES_PER_ROUND * ROUNDS
    assert max(map(len, mailbox.arrived.values())) == 1
    assert len(returned) == DEADLINES_PER_ROUND * ROUNDS


@pytest.mark.slow
def test_ten_thousand_deadlines_of_five_stages_move_in_one_transaction(runtime, connection):
    given = {
        "target": TARGET, "due_at": DUE, "recipients": ANN, "timezone": "Europe/Berlin",
        "reminders": ["60 days before", "30 days before at 09:00", "7 days before"],
        "escalation": [{"offset": "2 days after", "to": "cfo@example.org"}],
    }  # fmt: skip
    ids = runtime.deadlines.set_many([given] * 10_000)

    moved = runtime.deadlines.move_many(dict.fromkeys(ids, DUE + 10 * DAY))

    assert moved == 10_000
    assert set(statuses(connection).values()) == {"pending"}
    counted = connection.execute(
        "select deadline_stage, scheduled_at, count(*), count(distinct xmin::text)"
        " from scheduled_actions group by 1, 2 order by 2"
    ).fetchall()
    assert [(stage, count, writers) for stage, _, count, writers in counted] == [
        ("reminder:60 days before#1", 10_000, 1),
        ("reminder:30 days before at 09:00#1", 10_000, 1),
        ("reminder:7 days before#1", 10_000, 1),
        ("due#1", 10_000, 1),
        ("escalation:1#1", 10_000, 1),
    ]
    assert [at for _, at, _, _ in counted][3] == DUE + 10 * DAY


def test_the_tick_of_a_project_without_deadlines_loads_no_module_of_deadlines():
    import subprocess
    import sys

    code = (
        "import sys, scheduled_actions.wsgi;"
        "print([name for name in sys.modules if 'deadline' in name and name != 'scheduled_actions.deadlines.model'])"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("loses_connection", [False, True])
def test_a_deadline_locked_before_its_handler_is_called_uses_no_attempt(database_url, connection, loses_connection):
    released, calls = threading.Event(), []

    @action("test:hold", transactional=True, timeout_seconds=2)
    def hold(payload: dict, context: Context) -> None:
        released.wait(PATIENCE)

    @action("approval:start", transactional=True, timeout_seconds=0.2)
    def begin(payload: dict, context: Context) -> None:
        calls.append(context.id)

    set_clock(connection, NOW)
    # With two threads, only one connection is available to handlers.
    settings = {"concurrency": 2, "max_run_seconds": 2, "max_duration_seconds": 5}
    with deadline_project(database_url, send, hold, begin, **settings) as one, psycopg.connect(database_url) as other:
        made = a_deadline(one, reminders=[], auto_actions=[{"offset": "1 day before", "action_type": "approval:start"}])
        set_clock(connection, DUE - DAY)
        insert(connection, action_type="test:hold", scheduled_at=DUE - DAY, priority=-1)
        ticking = threading.Thread(target=one.processor.tick)
        ticking.start()
        wait_until(lambda: any(stage.begun for stage in one.deadlines.get(made.id).stages))
        other.execute("select from scheduled_action_deadlines for update")
        released.set()
        wait_until(lambda: is_waiting(connection) or not ticking.is_alive())
        if loses_connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"
                " and datname = current_database()"
            )
        # Without the loss of the connection, the handler's thread waits for the lock until the tick ends.
        ticking.join(PATIENCE)

    found = connection.execute(
        "select status, attempts, error_message from scheduled_actions where action_type = 'approval:start'"
    ).fetchone()
    assert calls == []
    assert found[:2] == ("pending", 0), found


@pytest.mark.parametrize("is_transactional", [False, True])
def test_the_timeout_of_a_handler_does_not_include_the_wait_for_a_locked_deadline(
    database_url, connection, is_transactional
):
    calls = []

    @action("approval:start", transactional=is_transactional, timeout_seconds=0.2)
    def begin(payload: dict) -> None:
        calls.append(payload)

    set_clock(connection, NOW)
    settings = {"max_run_seconds": 1, "max_duration_seconds": 5}
    with deadline_project(database_url, send, begin, **settings) as one, psycopg.connect(database_url) as other:
        a_deadline(one, reminders=[], auto_actions=[{"offset": "1 day before", "action_type": "approval:start"}])
        set_clock(connection, DUE - DAY)
        other.execute("select from scheduled_action_deadlines for update")
        one.processor.tick()

    found = connection.execute(
        "select status, attempts, error_message from scheduled_actions where action_type = 'approval:start'"
    ).fetchone()
    assert calls == []
    assert found[:2] == ("pending", 0), found


def test_an_action_uses_no_attempt_if_its_deadline_cannot_be_read(runtime, connection):
    made = a_deadline(runtime, reminders=[], auto_actions=[{"offset": "1 day before", "action_type": "approval:start"}])
    set_clock(connection, DUE - DAY)
    database = runtime.database
    real_connection, refused = database.connection, []

    def refuse_workers(*limits):
        """Return connections only to the thread of the tick, like a server at its connection limit."""
        if threading.current_thread().name.startswith("scheduled-actions-"):
            refused.append(1)
            raise DatabaseUnavailable("it has no connection to spare")
        return real_connection(*limits)

    database.connection = refuse_workers
    runtime.processor.tick()
    database.connection = real_connection

    assert refused
    (found,) = connection.execute("select status, attempts from scheduled_actions where deadline_stage like 'action%'")
    assert found == ("pending", 0)
    runtime.processor.tick()
    assert ended(connection, made.id) == {"action:approval:start 1 day before#1": "completed"}
