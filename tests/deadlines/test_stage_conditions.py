"""Conditions of escalation levels and auto-actions: met, not met, changed, broken, and evaluated without locks."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from psycopg.types.json import Jsonb

from scheduled_actions import condition
from scheduled_actions.core.errors import InvalidArgument, TooLarge
from scheduled_actions.deadlines import operations, reading
from scheduled_actions.operations.explain.service import explain
from tests.deadlines.deadline_project import SENT, STARTED, deadline_project, ended, planned, send, start
from tests.factories import NOW, PATIENCE, set_clock, wait_until

DAY = timedelta(days=1)
DUE = NOW + 90 * DAY
ORDER = {"type": "purchase_order", "id": "PO-9"}
APPROVED = {"kind": "document_state", "target": ORDER, "state": "approved"}
NOT_APPROVED = {"not": APPROVED}
LEVEL = {"offset": 1, "to": "cfo@example.org", "condition": NOT_APPROVED}
SUBMIT = {"offset": -30, "action_type": "approval:start", "payload": {"n": 1}, "condition": APPROVED}


@contextmanager
def project_with(database_url, *functions, **settings):
    with deadline_project(database_url, send, start, *functions, **settings) as made:
        yield made


@pytest.fixture
def runtime(database_url, connection):
    set_clock(connection, NOW)
    with project_with(database_url) as made:
        yield made


def set_one(runtime, **changes):
    return runtime.deadlines.set({"target": ORDER, "due_at": DUE, **changes})[0]


def tick_at(runtime, connection, at):
    """Set the database's time, run ticks until no action is due, and return the recipients of the notifications."""
    set_clock(connection, at)
    SENT.clear()
    while runtime.processor.tick().processed:
        pass
    return [one["to"] for one in SENT]


def entries(runtime, made, what="held_back"):
    return [one for one in runtime.deadlines.get(made.id).history if one["what"] == what]


def error_of(connection, stage):
    return connection.execute(
        "select status, error_message from scheduled_actions where deadline_stage = %s", [stage]
    ).fetchone()


def test_a_level_whose_condition_is_met_notifies_its_people(runtime, connection):
    made = set_one(runtime, escalation=[LEVEL])

    assert tick_at(runtime, connection, DUE + DAY) == ["cfo@example.org"]
    assert entries(runtime, made) == []


def test_a_level_whose_condition_is_not_met_is_held_back_with_the_reason(runtime, connection):
    made = set_one(runtime, escalation=[LEVEL, {"offset": 2, "to": "ceo@example.org"}])
    runtime.facts.report(ORDER, "state", "approved")

    sent = [tick_at(runtime, connection, DUE + days * DAY) for days in (1, 2)]

    assert sent == [[], ["ceo@example.org"]]
    (entry,) = entries(runtime, made)
    assert (entry["stage"], entry["occurrence"]) == ("escalation:1", 1)
    assert entry["reason"].startswith("condition_not_met: condition: ")
    assert error_of(connection, "escalation:1#1") == ("skipped", entry["reason"])
    first = next(one for one in reading.timeline(runtime.database, made) if one.stage == "escalation:1")
    shown = next(
        one for one in reading.timeline(runtime.database, runtime.deadlines.get(made.id)) if one.stage == "escalation:1"
    )
    assert (first.state, shown.state, shown.note) == ("planned", "held_back", entry["reason"])


def test_the_explanation_of_a_stage_names_its_condition_and_then_why_it_was_not_met(runtime, connection):
    set_one(runtime, escalation=[LEVEL])
    (action_id,) = connection.execute(
        "select id from scheduled_actions where action_type = 'escalation:send'"
    ).fetchone()
    before = explain(runtime, action_id)
    runtime.facts.report(ORDER, "state", "approved")
    tick_at(runtime, connection, DUE + DAY)

    after = explain(runtime, action_id)

    assert (before.code, before.details["condition"]) == ("not_due", NOT_APPROVED)
    assert json.loads(before.sentence.partition("it then runs only if its condition is met: ")[2]) == NOT_APPROVED
    assert after.code == "skipped"
    assert "condition_not_met: condition: " in after.sentence


def test_a_repeated_level_continues_after_an_unmet_condition(runtime, connection):
    set_one(runtime, escalation={"levels": [LEVEL], "repeat": 3})
    runtime.facts.report(ORDER, "state", "approved")
    first = tick_at(runtime, connection, DUE + DAY)
    runtime.facts.report(ORDER, "state", "withdrawn")

    rest = [tick_at(runtime, connection, DUE + days * DAY) for days in (2, 3, 4)]

    assert (first, rest) == ([], [["cfo@example.org"], ["cfo@example.org"], []])


def test_an_auto_action_whose_condition_is_not_met_is_skipped_and_does_not_wait(runtime, connection):
    made = set_one(runtime, auto_actions=[SUBMIT, {**SUBMIT, "offset": -29, "payload": {"n": 2}}])
    tick_at(runtime, connection, DUE - 30 * DAY)
    runtime.facts.report(ORDER, "state", "approved")

    tick_at(runtime, connection, DUE - 29 * DAY)

    assert STARTED == [{"n": 2}]
    assert ended(connection, made.id) == {
        "action:approval:start 30 days before#1": "skipped",
        "action:approval:start 29 days before#1": "completed",
    }
    assert [one["stage"] for one in entries(runtime, made)] == ["action:approval:start 30 days before"]


@pytest.mark.parametrize("how", ["set", "update"])
def test_a_change_of_only_the_condition_takes_effect(runtime, connection, how):
    made = set_one(runtime, name="PO-9", escalation=[LEVEL])
    runtime.facts.report(ORDER, "state", "approved")
    other = [{**LEVEL, "condition": APPROVED}]

    if how == "set":
        set_one(runtime, name="PO-9", escalation=other)
    else:
        runtime.deadlines.update(made.id, escalation=other)

    assert tick_at(runtime, connection, DUE + DAY) == ["cfo@example.org"]


def test_a_condition_is_kept_by_other_changes_and_by_the_series(runtime, connection):
    made = set_one(
        runtime, name="review", recurrence="monthly", escalation=[LEVEL], reminders=[7], recipients="ann@example.org"
    )

    runtime.deadlines.update(made.id, reminders=[14])
    tick_at(runtime, connection, DUE + DAY)

    stages = [one.stage("escalation:1") for one in reading.find(runtime.database, name="review")]
    assert len(stages) > 1
    assert {stage.condition["not"]["state"] for stage in stages} == {"approved"}


def test_a_broken_condition_fails_its_own_level_with_the_reason(database_url, connection):
    @condition("broken")
    def broken(check):
        raise RuntimeError("no connection")

    set_clock(connection, NOW)
    with project_with(database_url, broken) as runtime:
        made = set_one(
            runtime,
            escalation={
                "levels": [
                    {**LEVEL, "condition": {"kind": "custom", "name": "broken"}},
                    {**LEVEL, "to": "ceo@example.org"},
                ],
                "repeat": 2,
            },
        )
        set_clock(connection, DUE + DAY + timedelta(minutes=1))
        runtime.processor.tick()
        sent = [one["to"] for one in SENT]

    status, reason = error_of(connection, "escalation:1#1")
    assert sent == ["ceo@example.org"]
    assert (status, 'function "broken" raised RuntimeError' in reason) == ("pending", True)
    assert "escalation:1#2" in planned(connection, made.id)


def test_a_condition_that_exceeds_its_budget_fails_its_own_level(runtime, connection):
    runtime.facts.report(ORDER, "lines", [1] * 5_000)
    part = {"kind": "field_value", "target": ORDER, "field": "lines", "op": "contains", "value": "x"}
    set_one(
        runtime,
        escalation=[{**LEVEL, "condition": {"any": [part] * 99}}, {"offset": 2, "to": "ceo@example.org"}],
    )

    sent = [tick_at(runtime, connection, DUE + days * DAY) for days in (1, 2)]

    status, reason = error_of(connection, "escalation:1#1")
    assert sent == [[], ["ceo@example.org"]]
    assert (status, "needs more than" in reason) == ("failed", True)


OPEN_TRANSACTIONS = (
    "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'"
)


def test_a_function_is_called_while_nothing_is_locked(database_url, connection):
    found = []

    @condition("look")
    def look(check):
        with psycopg.connect(database_url, autocommit=True) as own:
            own.execute("select from scheduled_action_deadlines for update nowait")
            # Transactions of the tick's other work end meanwhile; one around this call does not.
            wait_until(lambda: own.execute(OPEN_TRANSACTIONS).fetchone() == (0,))
            found.append("no open transaction")
        return True

    set_clock(connection, NOW)
    with project_with(database_url, look) as runtime:
        set_one(runtime, escalation=[{**LEVEL, "condition": {"kind": "custom", "name": "look"}}])

        # The action that marks the deadline missed locks it, too.
        tick_at(runtime, connection, DUE)

        assert tick_at(runtime, connection, DUE + DAY) == ["cfo@example.org"]
    assert found == ["no open transaction"]


@pytest.mark.parametrize("result", [True, False])
def test_a_stage_does_not_start_if_its_deadline_is_completed_during_the_evaluation(database_url, connection, result):
    @condition("finish")
    def finish(check):
        operations.complete(runtime.deadlines, "PO-9")
        return result

    set_clock(connection, NOW)
    with project_with(database_url, finish) as runtime:
        made = set_one(
            runtime, name="PO-9", auto_actions=[{**SUBMIT, "condition": {"kind": "custom", "name": "finish"}}]
        )
        tick_at(runtime, connection, DUE - 30 * DAY)

        assert STARTED == []
        assert error_of(connection, "action:approval:start 30 days before#1") == (
            "skipped",
            "the deadline is completed",
        )
        assert entries(runtime, made) == []


def test_a_hanging_function_times_out_and_does_not_stop_the_repetition(database_url, connection):
    may_end = threading.Event()

    @condition("hang")
    def hang(check):
        assert may_end.wait(PATIENCE)
        return False

    set_clock(connection, NOW)
    with project_with(database_url, hang, default_timeout_seconds=1) as runtime:
        level = {**LEVEL, "condition": {"kind": "custom", "name": "hang"}}
        made = set_one(runtime, escalation={"levels": [level], "repeat": 2})
        set_clock(connection, DUE + DAY)
        runtime.processor.tick()
        assert runtime.processor.state.threads.stuck == 1
        may_end.set()
        wait_until(lambda: runtime.processor.state.threads.stuck == 0)

        assert error_of(connection, "escalation:1#1") == ("pending", "timed out after 1 s")
        assert "escalation:1#2" in planned(connection, made.id)
        assert entries(runtime, made) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"escalation": [{**LEVEL, "condition": {"kind": "approved"}}]}, r"escalation\[0\].condition.kind: 'approved'"),
        ({"escalation": [{**LEVEL, "condition": "approved"}]}, r"escalation\[0\].condition is a string"),
        (
            {"escalation": {"levels": [LEVEL, {**LEVEL, "condition": {"any": []}}]}},
            r"escalation.levels\[1\].condition.any is an empty list",
        ),
        (
            {"auto_actions": [{**SUBMIT, "condition": {"wait": APPROVED}}]},
            r'auto_actions\[0\].condition.wait is not allowed: .* write the condition itself, without "wait"',
        ),
        (
            {"auto_actions": [SUBMIT, {**SUBMIT, "offset": -1, "condition": {"kind": "custom", "name": "unknown"}}]},
            r"auto_actions\[1\].condition.name: 'unknown' is not a function declared with @condition",
        ),
        ({"reminders": [{"offset": 7, "condition": APPROVED}]}, r"reminders\[0\]: 'condition' is not a key"),
    ],
)
def test_an_invalid_condition_is_rejected_with_its_path(runtime, connection, changes, message):
    with pytest.raises(InvalidArgument, match=message):
        set_one(runtime, recipients="ann@example.org", **changes)

    assert connection.execute("select count(*) from scheduled_action_deadlines").fetchone() == (0,)


def test_a_condition_over_its_size_limit_is_rejected_with_its_path(runtime):
    large = {**APPROVED, "states": ["x" * 255] * 100}

    with pytest.raises(TooLarge, match=r"escalation\[0\].condition is .* bytes"):
        set_one(runtime, escalation=[{**LEVEL, "condition": large}])


def test_an_invalid_condition_stored_by_sql_stops_only_its_own_deadline(runtime, connection):
    made = set_one(runtime, escalation=[LEVEL])
    connection.execute(
        "update scheduled_action_deadlines set stages = jsonb_set(stages, '{0,condition}', %s)",
        [Jsonb({"wait": APPROVED})],
    )
    set_one(runtime, escalation=[{**LEVEL, "to": "ceo@example.org"}])

    sent = tick_at(runtime, connection, DUE + DAY)

    assert sent == ["ceo@example.org"]
    assert "stages[0].condition" in runtime.deadlines.get(made.id).problem
