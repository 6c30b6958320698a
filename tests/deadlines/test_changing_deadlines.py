"""Changes of reminders, recipients and rules of deadlines: nothing is sent twice."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from scheduled_actions.core.errors import InvalidArgument, UnknownActionType, WrongDeadlineStatus
from scheduled_actions.deadlines import operations, store
from tests.deadlines.deadline_project import SENT, deadline_project, planned
from tests.factories import NOW, PATIENCE, is_waiting, set_clock, wait_until

DAY = timedelta(days=1)
DUE = NOW + 90 * DAY
ANN, BEN = "ann@example.org", "ben@example.org"
GIVEN = {
    "target": {"type": "license", "id": "42"},
    "due_at": DUE,
    "recipients": ANN,
    "reminders": ["60 days before", "30 days before"],
}
YEARLY = GIVEN | {"recurrence": "yearly", "name": "review", "reminders": ["30 days before"]}


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
def tick_at(runtime, connection):
    """Return a function that sets the database's time and runs ticks until no action is due."""

    def tick(at):
        set_clock(connection, at)
        while runtime.processor.tick().processed:
            pass

    return tick


def when(connection, deadline):
    return {stage: (at - deadline.due_at).days for stage, at in planned(connection, deadline.id).items()}


def test_changed_reminders_are_planned_and_sent_ones_are_not_repeated(deadlines, tick_at, connection):
    made, _ = deadlines.set(GIVEN)
    tick_at(DUE - 60 * DAY)

    changed = deadlines.update(made.id, reminders=["60 days before", "10 days before"], by="zoe", reason="fewer")
    tick_at(DUE - 30 * DAY)

    assert when(connection, made) == {"reminder:10 days before#1": -10, "due#1": 0}
    assert [one["to"] for one in SENT] == [ANN]
    entry = changed.history[-1]
    assert (entry["what"], entry["by"], entry["reason"], entry["changes"]) == ("changed", "zoe", "fewer", ["stages"])


def test_an_update_keeps_omitted_arguments_and_none_removes_the_reminders(deadlines, connection):
    made, _ = deadlines.set(GIVEN | {"escalation": [{"offset": "2 days after", "to": BEN}]})

    deadlines.update(made.id, metadata={"why": "because"})
    unchanged = when(connection, made)
    deadlines.update(made.id, reminders=None)

    assert unchanged == {
        "reminder:60 days before#1": -60, "reminder:30 days before#1": -30, "due#1": 0, "escalation:1#1": 2,
    }  # fmt: skip
    assert when(connection, made) == {"due#1": 0, "escalation:1#1": 2}


def test_a_missed_deadline_stays_missed_when_its_escalation_changes(deadlines, tick_at, connection):
    made, _ = deadlines.set(GIVEN)
    tick_at(DUE)
    before = deadlines.get(made.id)

    changed = deadlines.update(made.id, escalation=[{"offset": "5 days after", "to": BEN}])
    tick_at(DUE + 5 * DAY)

    assert (changed.status, changed.missed_at) == ("missed", before.missed_at)
    assert [one["to"] for one in SENT[-1:]] == [BEN]
    assert deadlines.get(made.id).stage("due").begun == 1


def test_a_changed_paused_deadline_plans_nothing_until_it_is_resumed(deadlines, connection):
    made, _ = deadlines.set(GIVEN)
    operations.pause(deadlines, made.id)

    deadlines.update(made.id, reminders=["10 days before"])
    paused = when(connection, made)
    operations.resume(deadlines, made.id)

    assert (paused, when(connection, made)) == ({}, {"reminder:10 days before#1": -10, "due#1": 0})


def test_a_change_of_a_series_applies_to_later_deadlines(deadlines, tick_at, connection):
    first, _ = deadlines.set(YEARLY)
    deadlines.update("review", reminders=["20 days before"], recipients=BEN)

    tick_at(DUE - 20 * DAY)
    operations.complete(deadlines, first.id)
    second = deadlines.get("review")

    assert [one["to"] for one in SENT] == [BEN]
    assert (second.due_at.year, second.recipients) == (2027, (BEN,))
    assert when(connection, second)["reminder:20 days before#1"] == -20


def test_setting_a_series_again_by_name_replaces_its_reminders(deadlines, connection):
    made, _ = deadlines.set(YEARLY)

    again, outcome = deadlines.set(YEARLY | {"reminders": ["10 days before"]})
    once_more, _ = deadlines.set(YEARLY | {"reminders": ["10 days before"]})

    assert (outcome, again.id) == ("changed", made.id)
    assert once_more == again
    assert set(when(connection, made)) == {"reminder:10 days before#1", "due#1", "renewal#1"}


def test_a_new_rule_applies_after_the_last_existing_deadline(deadlines, tick_at, connection):
    first, _ = deadlines.set(YEARLY)
    operations.complete(deadlines, first.id)
    second = deadlines.get("review")

    deadlines.update("review", recurrence="every 6 months")
    operations.complete(deadlines, second.id)
    third = deadlines.get("review")

    assert deadlines.get(second.id).due_at == DUE.replace(year=2027)
    assert (third.due_at.year, third.due_at.month, third.recurrence) == (2027, 12, "every 6 months")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"due_at": DUE + DAY}, "unexpected keyword argument 'due_at'"),
        ({"name": "other"}, "unexpected keyword argument 'name'"),
        ({"recurrence": None}, "cancel_deadline with series=True to end the series"),
        ({"recurrence": "every blue moon"}, "every blue moon"),
        ({"recurrence": "every 1 hour"}, "too frequent"),
        ({"recipients": None}, "recipients"),
        ({"reminder": ["1 day before"]}, "unexpected keyword argument 'reminder'"),
        ({"reminders": ["30 days before", "30 days before"]}, "is defined 2 times"),
    ],
)
def test_an_invalid_change_is_rejected_with_a_remedy(deadlines, changes, expected):
    made, _ = deadlines.set(YEARLY)

    with pytest.raises(Exception, match=expected):
        deadlines.update(made.id, **changes)

    assert deadlines.get(made.id) == made


def test_a_single_deadline_cannot_become_a_series_or_a_series_a_single_deadline(deadlines):
    once, _ = deadlines.set(GIVEN | {"name": "once"})
    deadlines.set(YEARLY)

    for ask, expected in [
        (lambda: deadlines.update(once.id, recurrence="daily"), "set_deadline with a recurrence"),
        (
            lambda: deadlines.set(GIVEN | {"name": "once", "recurrence": "yearly"}),
            "set_deadline with a recurrence",
        ),
        (lambda: deadlines.set(YEARLY | {"recurrence": None}), "cancel_deadline with series=True to end the series"),
        (lambda: deadlines.set(YEARLY | {"due_at": DUE + DAY}), "use move_deadline for this deadline"),
    ]:
        with pytest.raises(InvalidArgument, match=expected):
            ask()


def test_changing_a_closed_deadline_or_using_an_unknown_action_type_is_rejected(deadlines):
    made, _ = deadlines.set(GIVEN)
    with pytest.raises(UnknownActionType):
        deadlines.update(made.id, auto_actions=[{"offset": "1 day before", "action_type": "approval:gone"}])
    operations.complete(deadlines, made.id)

    with pytest.raises(WrongDeadlineStatus):
        deadlines.update(made.id, reminders=["1 day before"])


def test_a_change_waits_for_a_starting_reminder_and_keeps_its_progress(deadlines, connection, database_url):
    made, _ = deadlines.set(GIVEN)

    def change():
        # This connection has no lock timeout, so the update waits for the lock of the test.
        with psycopg.connect(database_url, autocommit=True) as own:
            deadlines.update(made.id, reminders=["60 days before", "10 days before"], connection=own)

    changing = threading.Thread(target=change)

    with connection.transaction():
        (found,) = store.lock(connection, [made.id])
        changing.start()
        wait_until(lambda: is_waiting(connection))
        begun = [replace(stage, state="begun", begun=1) for stage in found.deadline.stages]
        store.write(connection, {made.id: {"stages": begun}})
    changing.join(PATIENCE)

    changed = {stage.key: stage.begun for stage in deadlines.get(made.id).stages}
    assert changed == {"reminder:60 days before": 1, "reminder:10 days before": 0, "due": 1}
