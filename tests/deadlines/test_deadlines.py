"""Deadlines that are set, completed, missed, moved, paused and acknowledged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import groupby
from uuid import uuid4

import psycopg
import pytest

from scheduled_actions.core.errors import (
    InvalidArgument,
    RequestError,
    UnknownActionType,
    UnknownDeadline,
    WrongDeadlineStatus,
)
from scheduled_actions.deadlines import operations, reading, store
from tests.deadlines.deadline_project import SENT, STARTED, deadline_project, ended, planned
from tests.factories import NOW, row, set_clock, together

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
#: NOW is Wednesday 4 March 2026, 12:00 UTC.
DUE = NOW + 90 * DAY
ANN = "ann@example.org"
TARGET = {"type": "license", "id": "42"}


@pytest.fixture
def runtime(database_url, connection):
    """Yield a project with deadlines; the database's time is NOW."""
    set_clock(connection, NOW)
    with deadline_project(database_url) as made:
        yield made


@pytest.fixture
def deadlines(runtime):
    return runtime.deadlines


@pytest.fixture
def set_one(deadlines):
    """Return a function that creates a deadline in ninety days, with Ann as its recipient."""

    def make(**changes):
        given = {"target": TARGET, "due_at": DUE, "recipients": ANN, "reminders": ["60 days before", "30 days before"]}
        return deadlines.set(given | changes)[0]

    return make


@pytest.fixture
def tick_at(runtime, connection):
    """Return a function that sets the database's time and runs ticks until no action is due."""

    def tick(at):
        set_clock(connection, at)
        while runtime.processor.tick().processed:
            pass

    return tick


def notified():
    """Return the recipients of the notifications since the last call, in order."""
    addresses = [one["to"] for one in SENT]
    SENT.clear()
    return addresses


# -- setting -----------------------------------------------------------------------------------------------------------


def test_every_stage_is_planned_as_an_action_of_the_deadline(set_one, connection):
    made = set_one(
        team_id="blue",
        escalation=[{"offset": "2 days after", "to": "cfo@example.org"}],
        auto_actions=[
            {"offset": "30 days before", "action_type": "approval:start", "payload": {"n": 1}, "priority": 5}
        ],
    )

    assert planned(connection, made.id) == {
        "reminder:60 days before#1": DUE - 60 * DAY,
        "reminder:30 days before#1": DUE - 30 * DAY,
        "action:approval:start 30 days before#1": DUE - 30 * DAY,
        "due#1": DUE,
        "escalation:1#1": DUE + 2 * DAY,
    }
    (action_id,) = connection.execute(
        "select id from scheduled_actions where action_type = 'approval:start'"
    ).fetchone()
    action = row(connection, action_id)
    assert (action["payload"], action["priority"], action["team_id"]) == ({"n": 1}, 5, "blue")
    assert (action["target_type"], action["target_id"]) == ("license", "42")
    assert (made.status, made.due_at, made.recipients) == ("open", DUE, (ANN,))


def test_only_the_latest_past_reminder_is_sent_immediately(set_one, tick_at, deadlines):
    made = set_one(
        due_at=NOW + 10 * DAY, reminders=["60 days before", "30 days before", "14 days before", "7 days before"]
    )

    tick_at(NOW)

    assert notified() == [ANN]
    states = {stage.key: stage.state for stage in deadlines.get(made.id).stages}
    assert states["reminder:60 days before"] == states["reminder:30 days before"] == "left_out"
    assert (states["reminder:14 days before"], states["reminder:7 days before"]) == ("begun", "planned")


def test_all_past_auto_actions_but_only_the_latest_past_escalation_level_run_immediately(set_one, tick_at):
    set_one(
        due_at=NOW - 5 * DAY,
        reminders=[],
        auto_actions=[
            {"offset": f"{n} days before", "action_type": "approval:start", "payload": {"n": n}} for n in (9, 3)
        ],
        escalation=[{"offset": f"{n} days after", "to": f"level{n}@example.org"} for n in (1, 3, 9)],
    )

    tick_at(NOW)

    assert sorted(one["n"] for one in STARTED) == [3, 9]
    assert notified() == ["level3@example.org"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"reminders": ["60 days befor"]}, InvalidArgument, r"reminders\[0\].offset"),
        ({"reminders": [{"offset": "7 days", "repeat": "dayly"}]}, RequestError, "daily"),
        (
            {"auto_actions": [{"offset": "when due", "action_type": "approval:begin"}]},
            UnknownActionType,
            "approval:start",
        ),
        (
            {"auto_actions": [{"offset": "when due", "action_type": "approval:start", "payload": [1]}]},
            InvalidArgument,
            "payload",
        ),
        ({"recurrence": "now and then"}, RequestError, "recurrence"),
        ({"recipients": "ann at example.org"}, InvalidArgument, r"recipients\[0\]"),
        ({"recipients": "role:boss"}, InvalidArgument, "resolver"),
        ({"recipients": []}, InvalidArgument, "is required, because a reminder has no `to`"),
        ({"recurrence": "every minute", "due_at": None}, InvalidArgument, "too frequent"),
    ],
)
def test_an_invalid_deadline_is_rejected_and_nothing_is_stored(set_one, connection, changes, error, message):
    with pytest.raises(error, match=message):
        set_one(**changes)

    assert connection.execute("select count(*) from scheduled_action_deadlines").fetchone() == (0,)
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)


def test_setting_a_deadline_again_by_name_updates_it_only_if_an_argument_differs(deadlines, connection, tick_at):
    given = {
        "target": TARGET,
        "due_at": DUE,
        "name": "renewal",
        "recipients": ANN,
        "reminders": ["60 days before", "7 days before"],
    }
    first, outcome = deadlines.set(given)
    tick_at(DUE - 50 * DAY)
    before = planned(connection, first.id)

    again, outcome_again = deadlines.set(given)
    other, last_outcome = deadlines.set(given | {"due_at": DUE + DAY, "reminders": ["60 days before", "3 days before"]})

    assert (outcome, outcome_again, last_outcome) == ("created", "unchanged", "changed")
    assert (again.id, again.revision) == (first.id, first.revision)
    assert other.history[-1]["changes"] == ["due_at", "stages"]
    assert set(before) == {"reminder:7 days before#1", "due#1"}
    assert planned(connection, other.id) == {"reminder:3 days before#1": DUE - 2 * DAY, "due#1": DUE + DAY}
    assert (other.id, notified()) == (first.id, [ANN])


def test_concurrent_sets_of_one_name_create_one_deadline(runtime, database_url, connection):
    given = {"target": TARGET, "due_at": DUE, "name": "renewal"}

    ids = together(database_url, 4, lambda own, _: runtime.deadlines.set(given, connection=own)[0].id)
    operations.complete(runtime.deadlines, "renewal")
    fresh, outcome = runtime.deadlines.set(given)

    assert len(set(ids)) == 1
    assert outcome == "created"
    assert fresh.id not in ids


def test_a_deadline_is_rolled_back_with_the_callers_transaction(runtime, database_url, connection):
    with psycopg.connect(database_url) as own:
        runtime.deadlines.set({"target": TARGET, "due_at": DUE}, connection=own)
        own.rollback()

    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)
    assert reading.find(runtime.deadlines.database) == []


def test_many_deadlines_are_created_all_or_none(deadlines, connection):
    given = {"target": TARGET, "due_at": DUE, "recipients": ANN, "reminders": ["7 days before"]}

    ids = deadlines.set_many([given | {"name": f"n{n}"} for n in range(5)])
    with pytest.raises(InvalidArgument) as refused:
        deadlines.set_many([given, given | {"due_at": None}])
    with pytest.raises(InvalidArgument, match="name is given twice, or already in use by an unresolved deadline"):
        deadlines.set_many([given, given | {"name": "n1"}])

    assert [one.id for one in reading.find(deadlines.database)] == ids[::-1]
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (10,)
    assert refused.value.__notes__ == ["in deadlines[1]"]


# -- due, and after ----------------------------------------------------------------------------------------------------


def test_many_deadlines_have_the_same_stages_as_if_each_were_created_alone(deadlines, connection):
    common = {"reminders": ["2 days before", {"offset": 1, "name": 'a "b" \\\\ null', "to": "bob@example.org"}]}
    action = {"offset": "when due", "action_type": "approval:start", "payload": {"n": [1]}, "lock_group": "NULL"}
    zone, calendar = {"timezone": "Europe/Berlin"}, {"calendar": {"holidays": "US", "adjustment": "preceding"}}
    variants = [
        *({}, zone, calendar, {"due_at": NOW + 4 * DAY}, {"recurrence": "every 30 days"}, {"team_id": "t"}),
        *({"auto_actions": [action]}, {"auto_actions": [action | {"priority": 3}]}, {"reminders": ["1 day before"]}),
        *({"reminders": [{"offset": 3}]}, {"metadata": {"n": 1}}, {"target": {"type": "order", "id": "2"}}),
    ]
    given = [
        {"target": {"type": "order", "id": "1"}, "due_at": NOW + 9 * DAY, "recipients": "ann@example.org"}
        | common
        | one
        for one in (*variants, *variants)
    ]

    together = deadlines.set_many(given)
    alone = [deadlines.set(one)[0].id for one in given]

    assert [_stored(connection, one) for one in together] == [_stored(connection, one) for one in alone]
    assert len({str(_stored(connection, one)) for one in together}) == len(variants)
    planned = "select deadline_id from scheduled_actions where deadline_id = any (%s) order by id"
    assert [one for one, _ in groupby(connection.execute(planned, [together]).fetchall())] == [
        (one,) for one in together
    ]


def _stored(connection, deadline_id):
    columns = "to_jsonb(d) - array['id', 'series_id', 'history', 'created_at', 'updated_at']"
    (stored,) = connection.execute(
        f"select {columns} from scheduled_action_deadlines d where d.id = %s", [deadline_id]
    ).fetchone()
    actions = connection.execute(
        "select deadline_stage, scheduled_at, action_type, payload - 'deadline_id', team_id, priority, max_attempts,"
        " lock_group, target_id from scheduled_actions where deadline_id = %s order by id",
        [deadline_id],
    ).fetchall()
    return stored, actions


@pytest.mark.parametrize(
    ("valid", "invalid"),
    [({"reminders": [1]}, {"reminders": [True]}), ({"reminders": [1]}, {"reminders": [1.0]})],
    ids=["a flag", "a fraction"],
)
def test_an_argument_is_not_valid_because_an_equal_one_of_another_type_is(deadlines, valid, invalid):
    given = {"target": {"type": "order", "id": "1"}, "due_at": NOW + 9 * DAY, "recipients": "ann@example.org"}
    with pytest.raises(InvalidArgument) as caught:
        deadlines.set_many([given | valid, given | invalid])

    assert caught.value.__notes__ == ["in deadlines[1]"]


def test_an_open_deadline_is_marked_missed_at_its_due_instant_and_then_escalated(set_one, tick_at, deadlines):
    made = set_one(
        reminders=[],
        auto_actions=[{"offset": "when due", "action_type": "approval:start", "payload": {"n": 0}}],
        escalation=[{"offset": "1 day after", "to": "boss@example.org"}],
    )

    tick_at(DUE - timedelta(seconds=1))
    before = deadlines.get(made.id).status
    tick_at(DUE)
    missed = deadlines.get(made.id)
    tick_at(DUE + DAY)

    assert before == "open"
    assert (missed.status, missed.missed_at) == ("missed", DUE)
    assert STARTED == [{"n": 0}]
    assert notified() == ["boss@example.org"]
    assert [entry["what"] for entry in deadlines.get(made.id).history] == ["set", "missed", "escalated"]


@pytest.mark.parametrize(("after", "late"), [(-DAY, 0), (timedelta(0), 0), (HOUR, 1), (DAY, 1), (DAY + HOUR, 2)])
def test_a_completed_deadline_stores_the_number_of_days_late(set_one, tick_at, deadlines, after, late):
    made = set_one()
    tick_at(DUE + after - HOUR)
    tick_at(DUE + after)

    done = operations.complete(deadlines, made.id, by="ann", reason="signed")

    assert (done.status, done.days_late, done.closed_at, done.closed_by) == ("completed", late, DUE + after, "ann")
    assert done.history[-1] == {
        "what": "completed", "at": (DUE + after).isoformat(), "by": "ann", "reason": "signed", "days_late": late,
    }  # fmt: skip
    assert operations.complete(deadlines, made.id) == done


@pytest.mark.parametrize("end", [operations.complete, operations.cancel])
def test_no_stage_of_a_resolved_deadline_starts(set_one, tick_at, deadlines, connection, end):
    made = set_one(
        escalation=[{"offset": "1 day after", "to": "boss@example.org"}],
        auto_actions=[{"offset": "1 day before", "action_type": "approval:start", "payload": {}}],
    )
    tick_at(DUE - 59 * DAY)

    resolved = end(deadlines, made.id)
    tick_at(DUE + 30 * DAY)

    assert notified() == [ANN]
    assert STARTED == []
    assert planned(connection, made.id) == {}
    assert {one.state for one in resolved.stages} == {"begun", "withdrawn"}
    with pytest.raises(WrongDeadlineStatus):
        deadlines.move(made.id, DAY)
    with pytest.raises(WrongDeadlineStatus):
        operations.acknowledge(deadlines, made.id)


def test_a_stage_claimed_before_the_resolution_is_checked_again(set_one, runtime, connection, monkeypatch):
    """A tick has claimed the reminder; its deadline is completed before the handler starts."""
    made = set_one()
    set_clock(connection, DUE - 60 * DAY)
    connection.execute("update scheduled_actions set status = 'pending' where deadline_id = %s", [made.id])
    connection.execute("update scheduled_action_deadlines set status = 'completed', closed_at = now()")

    report = runtime.processor.tick()

    assert (report.skipped, notified()) == (1, [])
    assert ended(connection, made.id) == {"reminder:60 days before#1": "skipped"}


def test_a_stage_claimed_before_a_move_waits_for_its_new_instant(set_one, runtime, connection, deadlines):
    made = set_one()
    set_clock(connection, DUE - 60 * DAY)
    deadlines.move(made.id, DUE + 3 * DAY)
    # The action is due again, as for a tick that claimed it before the move.
    connection.execute("update scheduled_actions set scheduled_at = %s", [DUE - 60 * DAY])

    report = runtime.processor.tick()

    assert (report.snoozed, report.succeeded, notified()) == (3, 0, [])
    assert planned(connection, made.id)["reminder:60 days before#1"] == DUE - 57 * DAY


def test_a_notification_is_valid_until_its_deadline_is_resolved_moved_or_paused(set_one, deadlines, connection):
    def holds(one, revision=0):
        guard = {"deadline_id": str(one.id), "stage": "reminder:60 days before#1", "revision": revision}
        with connection.transaction():
            return store.valid_guards(connection, [guard, {"deadline_id": uuid4(), "stage": "x"}], team_id=None)

    first, second, third = set_one(), set_one(), set_one()

    assert holds(first) == [True, False]
    operations.complete(deadlines, first.id)
    deadlines.move(second.id, DAY)
    operations.pause(deadlines, third.id)
    assert [holds(one) for one in (first, second, third)] == [[False, False]] * 3
    assert holds(second, revision=None) == [True, False]


# -- moving ------------------------------------------------------------------------------------------------------------


def test_a_move_plans_future_stages_again_and_keeps_sent_ones(set_one, tick_at, deadlines, connection):
    made = set_one(escalation=[{"offset": "1 day after", "to": "boss@example.org"}])
    tick_at(DUE - 59 * DAY)

    moved = deadlines.move(made.id, DUE + 100 * DAY, by="ann", reason="the tax office agreed")

    assert planned(connection, made.id) == {
        "reminder:30 days before#1": DUE + 70 * DAY,
        "due#1": DUE + 100 * DAY,
        "escalation:1#1": DUE + 101 * DAY,
    }
    assert ended(connection, made.id) == {"reminder:60 days before#1": "completed"}
    assert (moved.due_at, moved.revision, moved.history[-1]["before"]) == (DUE + 100 * DAY, 1, DUE.isoformat())


def test_a_move_to_an_earlier_instant_sends_the_latest_past_reminder(set_one, tick_at, deadlines):
    made = set_one(reminders=["60 days before", "30 days before", "7 days before", "1 day before"])

    deadlines.move(made.id, NOW + 5 * DAY)
    tick_at(NOW)
    tick_at(NOW + 5 * DAY)

    assert notified() == [ANN, ANN]
    assert [stage.state for stage in deadlines.get(made.id).stages] == [
        "left_out",
        "left_out",
        "begun",
        "begun",
        "begun",
    ]


def test_a_move_with_resend_plans_sent_stages_again(set_one, tick_at, deadlines, connection):
    made = set_one()
    tick_at(DUE - 59 * DAY)

    deadlines.move(made.id, DUE + 100 * DAY, resend=True)

    assert planned(connection, made.id)["reminder:60 days before#2"] == DUE + 40 * DAY


def test_a_moved_missed_deadline_is_open_and_can_be_missed_again(set_one, tick_at, deadlines, connection):
    made = set_one(escalation=[{"offset": "1 day after", "to": "boss@example.org"}])
    tick_at(DUE - 60 * DAY)
    tick_at(DUE - 30 * DAY)
    tick_at(DUE)
    tick_at(DUE + 2 * DAY)
    notified()

    moved = deadlines.move(made.id, DUE + 45 * DAY)
    tick_at(DUE + 15 * DAY)
    tick_at(DUE + 45 * DAY)
    tick_at(DUE + 46 * DAY)

    assert (moved.status, moved.missed_at) == ("open", None)
    assert deadlines.get(made.id).status == "missed"
    # After the move, fewer than sixty days are left: the latest past reminder is sent again.
    assert notified() == [ANN, ANN, "boss@example.org"]


def test_many_deadlines_move_all_or_none(set_one, deadlines, connection):
    ids = [set_one().id for _ in range(3)]
    operations.complete(deadlines, ids[2])

    with pytest.raises(WrongDeadlineStatus):
        deadlines.move_many(dict.fromkeys(ids, DUE + DAY))
    with pytest.raises(UnknownDeadline):
        deadlines.move_many({ids[0]: DUE + DAY, uuid4(): DUE})
    with pytest.raises(InvalidArgument, match="moves: 'renewal' is not the id of a deadline"):
        deadlines.move_many({ids[0]: DUE + DAY, "renewal": DUE})
    unmoved = planned(connection, ids[0])
    count = deadlines.move_many({ids[0]: DUE + DAY, str(ids[1]): DUE + 2 * DAY})

    assert unmoved["due#1"] == DUE
    assert count == 2
    assert [planned(connection, one)["reminder:30 days before#1"] for one in ids[:2]] == [
        DUE - 29 * DAY,
        DUE - 28 * DAY,
    ]


# -- pausing -----------------------------------------------------------------------------------------------------------


def test_a_pause_postpones_all_stages_by_its_length(set_one, tick_at, deadlines, connection):
    made = set_one()
    set_clock(connection, DUE - 61 * DAY)

    operations.pause(deadlines, made.id, by="ann")
    paused = planned(connection, made.id)
    tick_at(DUE - 51 * DAY)
    resumed = operations.resume(deadlines, made.id)
    tick_at(DUE - 50 * DAY)

    assert paused == {}
    assert resumed.due_at == DUE + 10 * DAY
    assert planned(connection, made.id) == {"reminder:30 days before#1": DUE - 20 * DAY, "due#1": DUE + 10 * DAY}
    assert notified() == [ANN]


def test_in_a_calendar_a_pause_counts_working_time(deadlines, connection):
    """Paused on Wednesday at noon, resumed on Saturday: two and a half business days of eight hours."""
    calendar = {"weekends": True, "hours": {"from": "09:00", "to": "17:00"}}
    due = datetime(2026, 3, 10, 15, 0, tzinfo=UTC)
    made, _ = deadlines.set({"target": TARGET, "due_at": due, "calendar": calendar})
    operations.pause(deadlines, made.id)
    set_clock(connection, datetime(2026, 3, 7, 20, 0, tzinfo=UTC))

    resumed = operations.resume(deadlines, made.id)

    # 5 + 8 + 8 + 8 + 6 working hours were left; they start on Monday 9 March at 09:00.
    assert resumed.due_at == datetime(2026, 3, 13, 12, 0, tzinfo=UTC)


def test_a_deadline_completed_while_paused_is_on_time(set_one, deadlines, connection):
    made = set_one()
    operations.pause(deadlines, made.id)
    set_clock(connection, DUE + 30 * DAY)

    assert operations.complete(deadlines, made.id).days_late == 0


def test_a_completion_dated_before_the_pause_keeps_the_due_instant(set_one, deadlines, connection):
    made = set_one()
    operations.pause(deadlines, made.id)
    set_clock(connection, NOW + 5 * DAY)

    assert operations.complete(deadlines, made.id, at=NOW - DAY).due_at == made.due_at


# -- repeated reminders and people -------------------------------------------------------------------------------------


def test_a_daily_reminder_repeats_until_the_deadline_is_resolved(set_one, tick_at, deadlines):
    made = set_one(reminders=[{"offset": "7 days before at 09:00", "repeat": "daily"}])

    days = [DUE.replace(hour=9) + day * DAY for day in range(-8, 3)]
    counts = []
    for day in days:
        tick_at(day)
        counts.append(len(notified()))
    operations.complete(deadlines, made.id)
    tick_at(days[-1] + 5 * DAY)

    assert counts == [0] + [1] * 10
    assert notified() == []


def test_missed_repetitions_of_a_reminder_are_sent_once(set_one, tick_at):
    set_one(reminders=[{"offset": "7 days before", "repeat": "daily"}])
    tick_at(DUE - 7 * DAY)
    notified()

    tick_at(DUE - 3 * DAY + HOUR)
    sent_after_outage = notified()
    tick_at(DUE - 2 * DAY)

    assert (len(sent_after_outage), len(notified())) == (1, 1)


def test_a_repeated_reminder_ends_after_its_number_of_times(set_one, tick_at):
    set_one(reminders=[{"offset": "7 days before", "repeat": "daily", "times": 2}])

    for day in range(-7, 0):
        tick_at(DUE + day * DAY)

    assert len(notified()) == 2


def test_an_acknowledgement_stops_repeated_reminders_but_not_the_escalation(set_one, tick_at, deadlines):
    made = set_one(
        reminders=[{"offset": "7 days before", "repeat": "daily"}, "5 days before"],
        escalation=[
            {"offset": "4 days before", "to": "boss@example.org"},
            {"offset": "4 days before", "to": "quiet@example.org", "stop_when": "acknowledged"},
        ],
    )
    tick_at(DUE - 7 * DAY)
    notified()

    known = operations.acknowledge(deadlines, made.id, until=DUE - 3 * DAY, by="ann")
    sent = []
    for day in (-6, -5, -4, -3, -2):
        tick_at(DUE + day * DAY)
        sent.append(notified())

    assert known.acknowledged_by == "ann"
    assert sent == [[], [ANN], ["boss@example.org"], [], [ANN]]


def test_a_reminder_held_back_by_an_acknowledgement_is_in_the_history_and_the_timeline(set_one, tick_at, deadlines):
    made = set_one(reminders=[{"offset": "7 days before", "repeat": "daily"}])
    operations.acknowledge(deadlines, made.id, until=DUE - 6 * DAY, by="ann")

    tick_at(DUE - 7 * DAY)

    after = deadlines.get(made.id)
    reason = "acknowledged by ann until 2026-05-27T12:00:00+00:00"
    (entry,) = [one for one in after.history if one["what"] == "held_back"]
    assert (entry["stage"], entry["occurrence"], entry["reason"]) == ("reminder:7 days before", 1, reason)
    first = next(one for one in reading.timeline(deadlines.database, after) if one.stage == "reminder:7 days before")
    assert (first.occurrence, first.state, first.note) == (1, "held_back", reason)


def test_a_failed_reminder_of_an_acknowledged_deadline_is_skipped_instead_of_retried(
    set_one, tick_at, deadlines, connection
):
    made = set_one(reminders=[{"offset": "7 days before", "repeat": "daily"}])
    # No recipient can be resolved: the first attempt of the reminder fails.
    connection.execute("update scheduled_action_deadlines set recipients = '[\"unknown:recipient\"]'")
    tick_at(DUE - 7 * DAY)
    operations.acknowledge(deadlines, made.id)

    tick_at(DUE - 7 * DAY + HOUR)

    assert ended(connection, made.id)["reminder:7 days before#1"] == "skipped"


def test_an_acknowledgement_must_end_in_the_future(set_one, deadlines):
    made = set_one()

    with pytest.raises(InvalidArgument, match="until"):
        operations.acknowledge(deadlines, made.id, until=NOW - DAY)


def test_future_stages_go_to_the_new_recipients(set_one, tick_at, deadlines):
    made = set_one()
    tick_at(DUE - 60 * DAY)

    operations.reassign(deadlines, made.id, ["bob@example.org"], by="ann")
    tick_at(DUE - 30 * DAY)

    assert notified() == [ANN, "bob@example.org"]
    with pytest.raises(InvalidArgument, match="recipients"):
        operations.reassign(deadlines, made.id, [])


def test_if_all_people_of_a_level_are_away_the_next_level_is_notified(set_one, tick_at, deadlines):
    away = {"email": "boss@example.org", "name": "Boss", "away_until": (DUE + 30 * DAY).isoformat()}
    made = set_one(
        escalation=[{"offset": "1 day after", "to": away}, {"offset": "5 days after", "to": ["cfo@example.org"]}]
    )

    tick_at(DUE + DAY)

    assert notified()[-1] == "cfo@example.org"
    # The same tick marks the deadline missed, before or after the escalation.
    (climbed,) = [entry for entry in deadlines.get(made.id).history if entry["what"] == "escalated"]
    assert (climbed["to"], climbed["passed_over"]) == (["cfo@example.org"], ["Boss"])


def test_a_reminder_contains_the_time_left_and_the_next_reminder(set_one, tick_at):
    set_one(name="trade license", reminders=["60 days before", {"offset": "1 day before", "message": "Ask Bob."}])

    tick_at(DUE - 60 * DAY)
    tick_at(DUE - DAY)

    first, second = SENT
    assert (first["severity"], second["severity"]) == ("low", "urgent")
    assert "trade license" in first["subject"]
    assert "60 days" in first["text"]
    assert "Next reminder: Monday, 1 June 2026, 12:00 (UTC)" in first["text"]
    assert "Ask Bob." in second["text"]
    assert first["guard"]["stage"] == "reminder:60 days before#1"


@pytest.mark.parametrize(
    ("recipient", "timezone", "expected"),
    [
        (ANN, "America/New_York", "Friday, 15 January 2027, 17:00 (America/New_York)"),
        ({"email": ANN, "timezone": "Asia/Tokyo"}, "America/New_York", "Saturday, 16 January 2027, 07:00 (Asia/Tokyo)"),
        (ANN, "UTC", "Friday, 15 January 2027, 18:00 (Europe/Berlin)"),
    ],
)
def test_notices_state_times_in_the_zone_of_the_recipient_or_else_of_the_deadline_or_the_settings(
    database_url, connection, recipient, timezone, expected
):
    set_clock(connection, datetime(2027, 1, 15, 16, 30, tzinfo=UTC))
    due_at = datetime(2027, 1, 15, 17, tzinfo=UTC).replace(tzinfo=None)
    with deadline_project(database_url, notifications_timezone="Europe/Berlin") as project:
        given = {"target": TARGET, "due_at": due_at, "timezone": timezone, "recipients": recipient}
        stages = {"reminders": ["1 day before"], "escalation": [{"offset": "when due", "to": [recipient]}]}
        project.deadlines.set(given | stages)
        set_clock(connection, datetime(2027, 1, 16, tzinfo=UTC))
        while project.processor.tick().processed:
            pass

    assert len(SENT) == 2
    assert [f"Due: {expected}" in one["text"] for one in SENT] == [True, True]
    assert [expected in one["html"] for one in SENT] == [True, True]


@pytest.mark.parametrize(
    ("reminder", "severity"),
    [
        ("1 day before at 09:00", "urgent"), ("24 hours before", "urgent"), ("25 hours before", "high"),
        ("7 days before at 00:00", "high"), ("8 days before at 23:00", "medium"), ("2 weeks before at 09:00", "medium"),
        ("1 month before", "low"), ("1 business day before at 09:00", "urgent"), ("at 09:00", "urgent"),
        ("5 hours after", "urgent"), ("1d1h before", "high"),
    ],
)  # fmt: skip
def test_the_severity_counts_dates_in_the_zone_of_the_deadline_unless_the_offset_has_hours(
    set_one, tick_at, reminder, severity
):
    # 17:00 on Tuesday 1 December 2026 in New York is 22:00 UTC.
    due_at = datetime(2026, 12, 1, 22, tzinfo=UTC)
    made = set_one(due_at=due_at, timezone="America/New_York", reminders=[reminder])
    (at,) = [stage.at for stage in made.stages if stage.kind == "reminder"]

    tick_at(at)

    assert [one["severity"] for one in SENT] == [severity]


def test_a_day_of_25_hours_is_one_day_for_the_severity(set_one, tick_at):
    due_at = datetime(2026, 10, 25, 16, tzinfo=UTC)
    set_one(due_at=due_at, timezone="Europe/Berlin", reminders=["1 day before"])

    tick_at(due_at - 25 * HOUR)

    assert [one["severity"] for one in SENT] == ["urgent"]


def test_an_escalation_repeats_and_the_history_records_each_level(set_one, tick_at, deadlines):
    made = set_one(
        reminders=[{"offset": "5 days after", "repeat": "daily"}],
        escalation={
            "levels": [
                {"offset": "1 day after", "to": "boss@example.org"},
                {"offset": "2 days after", "to": "cfo@example.org", "assign": "deputy@example.org"},
            ],
            "repeat": 2,
            "interval": "every 7 days",
        },
    )

    sent = {}
    for day in range(12):
        tick_at(DUE + day * DAY)
        sent[day] = notified()

    assert {day: who for day, who in sent.items() if who and day < 5} == {
        1: ["boss@example.org"],
        2: ["cfo@example.org"],
    }
    # The assignee receives the later reminders.
    assert sent[5] == ["deputy@example.org"]
    assert [day for day, who in sent.items() if "boss@example.org" in who or "cfo@example.org" in who] == [1, 2, 8, 9]
    way = [
        (one["stage"], one["occurrence"], one["to"])
        for one in deadlines.get(made.id).history
        if one["what"] == "escalated"
    ]
    assert way == [
        ("escalation:1", 1, ["boss@example.org"]), ("escalation:2", 1, ["cfo@example.org"]),
        ("escalation:1", 2, ["boss@example.org"]), ("escalation:2", 2, ["cfo@example.org"]),
    ]  # fmt: skip


# -- series ------------------------------------------------------------------------------------------------------------


def test_each_occurrence_of_a_series_is_a_separate_deadline(deadlines, tick_at, connection):
    """The next deadline of a yearly series is created in time for its first reminder."""
    first, _ = deadlines.set(
        {
            "target": {"type": "review", "id": "ann"},
            "due_at": DUE,
            "recurrence": "yearly",
            "reminders": ["30 days before"],
            "recipients": ANN,
        }
    )
    second_due = DUE.replace(year=2027)
    tick_at(DUE - DAY)
    operations.complete(deadlines, first.id)
    second, before = reading.find(deadlines.database)
    tick_at(second_due - 30 * DAY)
    tick_at(second_due)
    tick_at(second_due + DAY)

    assert (before.id, second.due_at, second.status) == (first.id, second_due, "open")
    assert second.series_id == first.id
    assert [one.due_at.year for one in reading.find(deadlines.database)] == [2028, 2027, 2026]
    assert deadlines.get(second.id).status == "missed"
    assert notified() == [ANN, ANN]


def test_a_series_with_early_reminders_has_several_open_deadlines(deadlines, tick_at):
    made, _ = deadlines.set(
        {
            "target": TARGET,
            "due_at": NOW + 70 * DAY,
            "recurrence": "every 30 days",
            "reminders": [{"offset": "60 days before", "to": ANN}],
        }
    )
    tick_at(NOW)
    at_once = len(reading.find(deadlines.database))
    tick_at(NOW + 10 * DAY)
    ten_days_on = len(reading.find(deadlines.database))
    tick_at(NOW + 70 * DAY)

    assert (at_once, ten_days_on) == (1, 1)
    dues = [one.due_at for one in reading.find(deadlines.database, series_id=made.id)]
    assert dues == [NOW + days * DAY for days in (130, 100, 70)]


def test_a_series_can_begin_with_the_first_occurrence_of_its_rule(deadlines):
    made, _ = deadlines.set(
        {"target": TARGET, "recurrence": "last business day of the quarter at 17:00", "timezone": "Europe/Berlin"}
    )

    assert made.due_at == datetime(2026, 3, 31, 15, 0, tzinfo=UTC)


def test_a_repeating_interval_has_its_number_of_deadlines(deadlines, tick_at):
    deadlines.set({"target": TARGET, "recurrence": "R2/2026-04-01T09:00/P1D", "timezone": "Europe/Berlin"})

    for day in (2, 3, 4):
        tick_at(datetime(2026, 4, day, tzinfo=UTC))

    due = sorted(one.due_at for one in reading.find(deadlines.database))
    assert due == [datetime(2026, 4, 1, 7, tzinfo=UTC), datetime(2026, 4, 2, 7, tzinfo=UTC)]


def test_cancelling_a_series_ends_it(deadlines, tick_at, connection):
    made, _ = deadlines.set(
        {
            "target": TARGET,
            "due_at": NOW + DAY,
            "recurrence": "daily",
            "recipients": ANN,
            "reminders": ["2 days before"],
        }
    )
    tick_at(NOW + HOUR)

    operations.cancel(deadlines, made.id, series=True)
    tick_at(NOW + 9 * DAY)

    found = reading.find(deadlines.database)
    assert {one.status for one in found} == {"cancelled"}
    assert connection.execute(
        "select status, error_message from scheduled_actions where deadline_id = %s and action_type = 'deadline:renew'",
        [found[0].id],
    ).fetchone() == ("skipped", "the series has ended")


def test_concurrent_renewals_create_one_next_deadline(deadlines, database_url, connection):
    made, _ = deadlines.set({"target": TARGET, "due_at": DUE, "recurrence": "yearly"})

    together(database_url, 4, lambda own, _: operations.complete(deadlines, made.id, connection=own))

    assert len(reading.find(deadlines.database)) == 2


# -- reading -----------------------------------------------------------------------------------------------------------


def test_deadlines_are_found_by_every_filter_and_paged(set_one, deadlines, connection):
    ids = [
        set_one(name=f"n{n}", target={"type": "license", "id": str(n)}, team_id="blue" if n else None).id
        for n in range(3)
    ]
    set_clock(connection, DUE + DAY)
    operations.complete(deadlines, ids[2])

    assert [one.id for one in reading.find(deadlines.database, limit=2)] == ids[:0:-1]
    assert [one.id for one in reading.find(deadlines.database, cursor=ids[1])] == ids[:1]
    assert [one.id for one in reading.find(deadlines.database, team_id="blue")] == ids[:0:-1]
    assert [one.id for one in reading.find(deadlines.database, target={"type": "license", "id": "1"})] == [ids[1]]
    assert [one.id for one in reading.find(deadlines.database, is_overdue=True)] == ids[1::-1]
    assert [one.id for one in reading.find(deadlines.database, status="completed")] == [ids[2]]
    assert reading.find(deadlines.database, due_from=DUE + DAY) == []
    assert deadlines.get("n1", team_id="blue").id == ids[1]
    for unknown in ("n1", uuid4()):
        with pytest.raises(UnknownDeadline):
            deadlines.get(unknown)
    with pytest.raises(UnknownDeadline):
        deadlines.get(ids[1], team_id="red")


def test_the_timeline_lists_past_and_future_stages(set_one, tick_at, deadlines):
    made = set_one(
        reminders=["99 days before", "95 days before", "60 days before", {"offset": "7 days before", "repeat": "daily"}]
    )
    tick_at(NOW)
    tick_at(DUE - 60 * DAY)

    # Old actions are pruned; the deadline still contains the notifications in its history.
    steps = reading.timeline(deadlines.database, deadlines.get(made.id))

    assert [(one.stage, one.occurrence, one.state) for one in steps] == [
        ("reminder:99 days before", 1, "left_out"),
        ("reminder:95 days before", 1, "sent"),
        ("reminder:60 days before", 1, "sent"),
        ("reminder:7 days before", 1, "planned"),
        ("due", 1, "planned"),
    ]
