"""The effects of each outcome, in a real tick on a real database; only the handlers are test code."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

import scheduled_actions
from scheduled_actions import Cancel, Context, Delays, Fail, RetryAfter, Skip, Snooze, action, runtime
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core.errors import InvalidArgument, RequestError
from scheduled_actions.registry import Registry
from scheduled_actions.registry.generated import RegistryContent
from scheduled_actions.ticks import store as tick_store
from scheduled_actions.ticks.claiming import scanner
from tests.factories import PATIENCE, insert, move_clock, projects, row, statuses

SECOND = timedelta(seconds=1)


@pytest.fixture
def a_project(database_url):
    """Return a function that creates a project with handlers and settings on the test's database."""
    with projects(database_url) as make:
        yield make


def schedule(project, action_type="test:run", payload=None, **arguments):
    new = NewAction(action_type=action_type, payload=payload or {}, **arguments)
    return project.scheduler.schedule_action(new).id


def a_handler(answer=None, action_type="test:run", **options):
    """Return a handler that returns the value, or raises it if it is an exception."""

    @action(action_type, **options)
    def handle(payload):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return handle


def counts(report):
    """Return the counts of a report that are not zero."""
    names = ("processed", "succeeded", "failed", "retried", "snoozed", "skipped", "rescued", "remaining")
    return {name: getattr(report, name) for name in names if getattr(report, name)}


def delay(connection, action_id):
    """Return the time from the settlement of the action until it is due again."""
    found = connection.execute("select scheduled_at - updated_at from scheduled_actions where id = %s", [action_id])
    return found.fetchone()[0]


# -- outcomes ----------------------------------------------------------------------------------------------------------


def test_a_handler_that_returns_completes_its_action(a_project, connection):
    project = a_project(a_handler())
    action_id = schedule(project)

    report = project.processor.tick()

    found = row(connection, action_id)
    assert counts(report) == {"processed": 1, "succeeded": 1}
    assert (found["status"], found["attempts"], found["history"]) == ("completed", 1, [])
    assert found["max_attempts"] == 3
    assert found["created_at"] <= found["started_at"] <= found["completed_at"]
    assert found["claim_token"] is None


@pytest.mark.parametrize("answer", [{"n": 1}, [1, "é"], "text", 0, False])
def test_the_return_value_of_a_handler_is_stored_as_the_result(a_project, answer):
    project = a_project(a_handler(answer))
    action_id = schedule(project)

    project.processor.tick()

    assert project.scheduler.get_action(action_id).result == answer


def test_an_async_handler_is_awaited(a_project):
    @action("test:run")
    async def handle(payload: dict, context: Context):
        await asyncio.sleep(0)
        return {"n": payload["n"], "attempt": context.attempt}

    project = a_project(handle)
    action_id = schedule(project, payload={"n": 7})

    project.processor.tick()

    assert project.scheduler.get_action(action_id).result == {"n": 7, "attempt": 1}


def test_a_failure_is_retried_by_its_policy_and_reported(a_project, connection):
    project = a_project(a_handler(ValueError("no")), retry_base_seconds=90)
    action_id = schedule(project)

    report = project.processor.tick()

    found = row(connection, action_id)
    assert counts(report) == {"processed": 1, "retried": 1}
    assert report.errors == [{"action_id": str(action_id), "action_type": "test:run", "error": found["error_message"]}]
    assert found["error_message"].startswith("ValueError: no (test_ticks.py:")
    assert (found["status"], found["attempts"]) == ("pending", 1)
    assert delay(connection, action_id) == 90 * SECOND
    (entry,) = found["history"]
    assert (entry["attempt"], entry["outcome"], entry["tick"]) == (1, "failed", report.tick_id)
    assert entry["error"] == found["error_message"]
    assert found["created_at"] < entry["started_at"] <= entry["ended_at"]


def test_an_action_fails_once_its_attempts_are_used_up(a_project, connection):
    project = a_project(a_handler(ValueError("no")), max_attempts=2)
    action_id = schedule(project)
    project.processor.tick()
    move_clock(connection, timedelta(minutes=2))

    report = project.processor.tick()

    found = row(connection, action_id)
    assert counts(report) == {"processed": 1, "failed": 1}
    assert (found["status"], found["attempts"]) == ("failed", 2)
    assert found["completed_at"] is not None
    assert [entry["attempt"] for entry in found["history"]] == [1, 2]


def test_a_retry_that_completes_is_in_the_history_and_clears_the_error(a_project, connection):
    answers = iter([ValueError("no"), None])

    @action("test:run", retry=Delays((60,)))
    def handle(payload):
        if error := next(answers):
            raise error

    project = a_project(handle)
    action_id = schedule(project)
    project.processor.tick()
    move_clock(connection, timedelta(minutes=2))

    project.processor.tick()

    found = row(connection, action_id)
    assert (found["status"], found["error_message"], found["attempts"]) == ("completed", None, 2)
    assert [(entry["attempt"], entry["outcome"]) for entry in found["history"]] == [(1, "failed"), (2, "completed")]


def test_the_retry_policy_of_the_action_precedes_that_of_the_handler_and_that_of_the_project(a_project, connection):
    project = a_project(
        a_handler(ValueError("no"), retry=Delays((20,))),
        a_handler(ValueError("no"), "test:plain"),
        retry_base_seconds=30,
    )
    own, handlers, projects_ = schedule(project, retry=[10]), schedule(project), schedule(project, "test:plain")

    project.processor.tick()

    assert [delay(connection, one) for one in (own, handlers, projects_)] == [10 * SECOND, 20 * SECOND, 30 * SECOND]


@pytest.mark.parametrize(("own", "of_handler", "allowed"), [(1, 2, 1), (None, 2, 2), (None, None, 3)])
def test_max_attempts_of_the_action_precede_those_of_the_handler_and_those_of_the_project(
    a_project, connection, own, of_handler, allowed
):
    project = a_project(a_handler(ValueError("no"), max_attempts=of_handler))
    action_id = schedule(project, max_attempts=own)

    project.processor.tick()

    found = row(connection, action_id)
    assert found["max_attempts"] == allowed
    assert found["status"] == ("failed" if allowed == 1 else "pending")


def test_a_handler_can_set_the_delay_of_its_retry(a_project, connection):
    project = a_project(a_handler(RetryAfter(7, "busy over there")))
    action_id = schedule(project)

    report = project.processor.tick()

    assert counts(report) == {"processed": 1, "retried": 1}
    assert delay(connection, action_id) == 7 * SECOND
    assert row(connection, action_id)["error_message"] == "busy over there"


def test_a_handler_can_prevent_further_attempts(a_project, connection):
    project = a_project(a_handler(Fail("the account is closed")))
    action_id = schedule(project)

    report = project.processor.tick()

    found = row(connection, action_id)
    assert counts(report) == {"processed": 1, "failed": 1}
    assert (found["status"], found["attempts"], found["error_message"]) == ("failed", 1, "the account is closed")


def test_a_snooze_uses_no_attempt_and_keeps_its_state(a_project, connection):
    seen = []

    @action("test:run")
    def handle(payload, context: Context):
        seen.append((context.state, context.attempt))
        return Snooze(60, {"page": len(seen)}) if len(seen) < 3 else None

    project = a_project(handle)
    action_id = schedule(project)
    for minutes in (0, 2, 4):
        move_clock(connection, timedelta(minutes=minutes))
        report = project.processor.tick()

    found = row(connection, action_id)
    assert seen == [(None, 1), ({"page": 1}, 1), ({"page": 2}, 1)]
    assert (found["status"], found["attempts"]) == ("completed", 1)
    snoozed, completed = found["history"]
    assert (snoozed["outcome"], snoozed["count"]) == ("snoozed", 2)
    assert completed["outcome"] == "completed"
    assert counts(report) == {"processed": 1, "succeeded": 1}


def test_a_briefly_snoozed_action_continues_in_the_same_tick(a_project, connection):
    calls = []

    @action("test:run")
    def handle(payload, context: Context):
        calls.append(context.attempt)
        return Snooze(0.4) if len(calls) < 3 else None

    project = a_project(handle)
    action_id = schedule(project)

    report = project.processor.tick()

    assert len(calls) == 3
    assert row(connection, action_id)["status"] == "completed"
    assert counts(report) == {"processed": 3, "succeeded": 1, "snoozed": 2}


def test_a_handler_that_polls_forever_does_not_keep_a_tick_running(a_project, connection):
    calls = []

    @action("test:run")
    def handle(payload):
        calls.append(payload)
        return Snooze(0.9)

    project = a_project(handle, max_run_seconds=30)
    schedule(project)

    report = project.processor.tick()

    assert 2 <= len(calls) <= 6
    assert report.snoozed == len(calls)


def test_a_snooze_is_counted_and_waits_its_delay(a_project, connection):
    project = a_project(a_handler(Snooze(timedelta(hours=3))))
    action_id = schedule(project)

    report = project.processor.tick()

    assert counts(report) == {"processed": 1, "snoozed": 1}
    assert delay(connection, action_id) == timedelta(hours=3)
    assert row(connection, action_id)["error_message"] is None


@pytest.mark.parametrize(
    ("answer", "status"), [(Skip("nothing new"), "skipped"), (Cancel("not any more"), "cancelled")]
)
def test_a_handler_may_skip_or_cancel_with_a_reason(a_project, connection, answer, status):
    project = a_project(a_handler(answer))
    action_id = schedule(project)

    report = project.processor.tick()

    found = row(connection, action_id)
    assert counts(report) == {"processed": 1, "skipped": 1}
    assert (found["status"], found["error_message"]) == (status, answer.reason)
    assert [entry["outcome"] for entry in found["history"]] == [status]
    assert report.errors == []


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(SystemExit(3), id="SystemExit"),
        pytest.param(KeyboardInterrupt(), id="KeyboardInterrupt"),
        pytest.param(GeneratorExit(), id="GeneratorExit"),
        pytest.param(asyncio.CancelledError(), id="CancelledError"),
        pytest.param(RecursionError("deep"), id="RecursionError"),
        pytest.param(MemoryError(), id="MemoryError"),
        pytest.param(Unprintable(), id="without text"),
        pytest.param(ValueError("a\0b \ud800"), id="text that Postgres rejects"),
        pytest.param(ValueError("x" * 1_000_000), id="long"),
        pytest.param(object(), id="a result that is not JSON"),
        pytest.param({"n": float("nan")}, id="a number that JSON cannot express"),
        pytest.param("x" * 70_000, id="a result over the limit"),
        pytest.param(Snooze(1, state=object()), id="a state that is not JSON"),
        pytest.param(Snooze(timedelta(days=300_000_000)), id="a delay out of range"),
        pytest.param(RetryAfter(timedelta(days=300_000_000)), id="a retry delay out of range"),
        pytest.param(Fail(ValueError("an exception as the reason")), id="a reason that is not text"),
        pytest.param(Fail(Unprintable()), id="a reason without a string form"),
        pytest.param(RetryAfter(1, Unprintable()), id="a retry whose reason has no string form"),
        pytest.param(Skip(None), id="no reason"),
        pytest.param(Cancel(17), id="a number as the reason"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_handler_does_its_own_attempt_ends_and_the_others_are_settled(
    a_project, connection, answer, is_async
):
    @action("test:run")
    async def handle_async(payload):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    project = a_project(
        handle_async if is_async else a_handler(answer), a_handler(action_type="test:good"), default_timeout_seconds=2
    )
    bad = schedule(project)
    good = [schedule(project, "test:good") for _ in range(3)]

    project.processor.tick()

    found = row(connection, bad)
    assert found["status"] != "processing"
    assert found["attempts"] == 1
    assert found["error_message"]
    assert len(found["error_message"]) <= 4096
    assert {statuses(connection)[one] for one in good} == {"completed"}
    assert project.processor.state.threads.capacity == 2, "no thread was lost"


# -- rows that cannot be read ------------------------------------------------------------------------------------------

UNREADABLE = [
    pytest.param({"scheduled_at": "-infinity"}, id="before all time"),
    pytest.param({"payload": '{"n": ' + "9" * 5001 + "}"}, id="an integer of 5,001 digits"),
    pytest.param({"payload": '{"n": ' + "[" * 7000 + "]" * 7000 + "}"}, id="an array 7,000 deep"),
    pytest.param({"payload": "7"}, id="no object"),
    pytest.param({"payload": "null"}, id="null"),
    pytest.param({"state": 10**5000}, id="a state of 5,001 digits"),
    pytest.param({"created_at": "-infinity"}, id="created before all time"),
    pytest.param({"created_at": "infinity"}, id="created after all time"),
    pytest.param({"occurrence_at": "20000-01-01"}, id="an occurrence beyond Python's years"),
]


@pytest.mark.parametrize("columns", UNREADABLE)
def test_an_unreadable_row_fails_only_its_own_action(a_project, connection, columns):
    has_run = []

    @action("test:run")
    def handle(payload):
        has_run.append(payload)

    project = a_project(handle, a_handler(action_type="test:good"))
    with_limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        bad = insert(connection, **columns)
    finally:
        sys.set_int_max_str_digits(with_limit)
    good = [schedule(project, "test:good") for _ in range(3)]

    report = project.processor.tick()

    assert statuses(connection) == {bad: "failed"} | dict.fromkeys(good, "completed")
    assert counts(report) == {"processed": 4, "succeeded": 3, "failed": 1}
    assert has_run == []


@pytest.mark.parametrize("retry", ["soon", {"kind": "no-such-kind"}, {"kind": ["linear"]}, [], [-1], [10**400]])
def test_an_invalid_stored_retry_policy_is_ignored(a_project, connection, retry):
    project = a_project(a_handler(ValueError("no")), retry_base_seconds=30)
    action_id = insert(connection, retry=retry)

    project.processor.tick()

    assert delay(connection, action_id) == 30 * SECOND


def test_an_invalid_payload_fails_without_a_retry_and_without_its_values_in_the_error(a_project, connection):
    @action("test:run")
    def handle(payload: list[int]): ...

    project = a_project(handle)
    action_id = insert(connection, payload={"card": "4111111111111111"})

    report = project.processor.tick()

    found = row(connection, action_id)
    assert (found["status"], found["attempts"]) == ("failed", 1)
    assert "4111" not in found["error_message"] + str(report.errors)


# -- missing handlers --------------------------------------------------------------------------------------------------


def test_an_action_without_a_handler_uses_no_attempt_and_is_reported(a_project, connection):
    project = a_project(a_handler(action_type="test:other"))
    action_id = insert(connection, attempts=1)

    report = project.processor.tick()

    found = row(connection, action_id)
    assert (found["status"], found["attempts"], found["completed_at"]) == ("no_action", 1, None)
    assert found["error_message"] == 'this build has no handler for "test:run"'
    assert counts(report) == {}
    assert [error["error"] for error in report.errors] == [found["error_message"]]


def test_an_action_without_a_handler_is_pending_again_on_the_first_tick_of_a_build_that_has_one(a_project, connection):
    action_id = insert(connection)
    a_project(a_handler(action_type="test:other")).processor.tick()
    assert statuses(connection) == {action_id: "no_action"}

    report = a_project(a_handler()).processor.tick()

    assert counts(report) == {"processed": 1, "succeeded": 1}
    assert row(connection, action_id)["error_message"] is None


@pytest.mark.parametrize("reference", ["tests.factories:nothing_there", "tests.no_such_module:handle"])
def test_a_handler_that_cannot_be_loaded_is_a_failure_with_a_retry(a_project, connection, reference):
    project = a_project(registry=Registry(Path(), RegistryContent(handlers={"test:run": reference})))
    action_id = insert(connection)

    report = project.processor.tick()

    found = row(connection, action_id)
    assert counts(report) == {"processed": 1, "retried": 1}
    assert f'the handler of "test:run" ({reference}) cannot be loaded' in found["error_message"]
    assert found["attempts"] == 1


# -- the context of a handler ------------------------------------------------------------------------------------------


def test_the_context_has_the_action_and_the_remaining_time(a_project):
    seen = {}

    @action("test:run", timeout_seconds=9)
    def handle(payload, context: Context):
        seen.update(action=context.action, left=context.seconds_left, attempt=context.attempt, stop=context.should_stop)
        with pytest.raises(InvalidArgument, match="transactional=True"):
            _ = context.connection

    project = a_project(handle)
    action_id = schedule(project, payload={"n": 1}, team_id="t", metadata={"m": 2}, target={"type": "x", "id": "4"})

    project.processor.tick()

    found = seen["action"]
    assert (found.id, found.payload, found.team_id, found.metadata) == (action_id, {"n": 1}, "t", {"m": 2})
    assert (found.target_type, found.target_id, found.status) == ("x", "4", "processing")
    assert found.scheduled_at.utcoffset() == timedelta(0)
    assert 0 < seen["left"] <= 9
    assert (seen["attempt"], seen["stop"]) == (1, False)


def test_context_variables_of_one_handler_are_not_visible_to_the_next(a_project):
    variable, seen = contextvars.ContextVar("variable", default="nothing"), []

    @action("test:run")
    def handle(payload):
        seen.append(variable.get())
        variable.set("something")

    project = a_project(handle, concurrency=1)
    for _ in range(3):
        schedule(project)

    project.processor.tick()

    assert seen == ["nothing"] * 3


# -- follow-ups --------------------------------------------------------------------------------------------------------


def a_parent(answer=None, **options):
    """Return a handler that schedules a follow-up, and then returns or raises the value."""

    @action("test:run", **options)
    def handle(payload, context: Context):
        context.schedule("test:next", {"n": 1}, scheduled_at=timedelta(hours=1), team_id="t")
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return handle


@pytest.mark.parametrize("answer", [None, {"n": 1}, Snooze(60), Skip("no"), Cancel("no")])
@pytest.mark.parametrize("transactional", [False, True])
def test_follow_ups_exist_once_the_outcome_of_the_handler_is_settled(a_project, connection, answer, transactional):
    project = a_project(a_parent(answer, transactional=transactional), a_handler(action_type="test:next"))
    parent = schedule(project)

    project.processor.tick()

    found = connection.execute(
        "select payload, team_id, scheduled_at > now() + interval '59 minutes', scheduled_by from scheduled_actions"
        " where action_type = 'test:next'"
    ).fetchall()
    assert found == [({"n": 1}, "t", True, parent)]


@pytest.mark.parametrize("answer", [ValueError("no"), Fail("no"), RetryAfter(5), object()])
@pytest.mark.parametrize("transactional", [False, True])
def test_follow_ups_of_a_failed_attempt_are_discarded(a_project, connection, answer, transactional):
    project = a_project(a_parent(answer, transactional=transactional), a_handler(action_type="test:next"))
    action_id = schedule(project)

    project.processor.tick()

    assert list(statuses(connection)) == [action_id]


def test_a_follow_up_that_is_due_runs_in_the_same_tick(a_project, connection):
    @action("test:run")
    def handle(payload, context: Context):
        if payload["n"] < 5:
            context.schedule("test:run", {"n": payload["n"] + 1})

    project = a_project(handle)
    schedule(project, payload={"n": 1})

    report = project.processor.tick()

    assert counts(report) == {"processed": 5, "succeeded": 5}
    assert set(statuses(connection).values()) == {"completed"}


def test_an_invalid_follow_up_raises_an_error_in_the_handler(a_project, connection):
    @action("test:run")
    def handle(payload, context: Context):
        context.schedule("test:rnu", {})

    project = a_project(handle)
    action_id = schedule(project)

    project.processor.tick()

    assert 'did you mean "test:run"?' in row(connection, action_id)["error_message"]


# -- transactional handlers --------------------------------------------------------------------------------------------


@pytest.fixture
def effects(connection):
    """Return a function that reads the rows that handlers have written to the user's table."""
    connection.execute("create table effects (action_id uuid)")
    return lambda: [one for (one,) in connection.execute("select action_id from effects")]


def a_writer(answer=None, **options):
    """Return a transactional handler that writes to the user's table, and then returns or raises the value."""

    @action("test:run", transactional=True, **options)
    def handle(payload, context: Context):
        context.connection.execute("insert into effects values (%s)", [context.id])
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return handle


@pytest.mark.parametrize("answer", [None, {"n": 1}, Snooze(60), Skip("no"), Cancel("no")])
def test_the_writes_of_a_transactional_handler_commit_with_its_settlement(a_project, connection, effects, answer):
    project = a_project(a_writer(answer))
    action_id = schedule(project)

    report = project.processor.tick()

    assert effects() == [action_id]
    assert report.processed == 1
    assert row(connection, action_id)["status"] != "processing"
    assert row(connection, action_id)["claim_token"] is None


@pytest.mark.parametrize(
    ("answer", "status"), [(ValueError("no"), "pending"), (Fail("no"), "failed"), (RetryAfter(5), "pending")]
)
def test_the_writes_of_a_failed_transactional_handler_are_rolled_back(a_project, connection, effects, answer, status):
    project = a_project(a_writer(answer))
    action_id = schedule(project)

    project.processor.tick()

    assert effects() == []
    assert (row(connection, action_id)["status"], row(connection, action_id)["attempts"]) == (status, 1)


def test_a_transactional_handler_whose_claim_was_lost_is_rolled_back(a_project, connection, effects):
    @action("test:run", transactional=True)
    def handle(payload, context: Context):
        context.connection.execute("insert into effects values (%s)", [context.id])
        connection.execute(
            "update scheduled_actions set status = 'pending', claim_token = null, lease_expires_at = null,"
            " scheduled_at = now() + interval '1 hour'"
        )

    project = a_project(handle)
    action_id = schedule(project)

    report = project.processor.tick()

    assert effects() == []
    assert (row(connection, action_id)["status"], row(connection, action_id)["attempts"]) == ("pending", 0)
    assert counts(report) == {}


def test_a_transactional_handler_that_catches_an_sql_error_fails(a_project, connection, effects):
    @action("test:run", transactional=True)
    def handle(payload, context: Context):
        context.connection.execute("insert into effects values (%s)", [context.id])
        with pytest.raises(psycopg.errors.DivisionByZero):
            context.connection.execute("select 1 / 0")

    project = a_project(handle)
    action_id = schedule(project)

    project.processor.tick()

    found = row(connection, action_id)
    assert effects() == []
    assert (found["status"], found["attempts"]) == ("pending", 1)
    assert "the handler's transaction failed" in found["error_message"]


def test_actions_scheduled_by_a_transactional_handler_join_its_transaction(a_project, connection, effects):
    @action("test:run", transactional=True)
    def handle(payload):
        scheduled_actions.schedule_action("test:next", {}, scheduled_at=timedelta(hours=1))
        if payload.get("fails"):
            raise ValueError

    project = a_project(handle, a_handler(action_type="test:next"))
    before = runtime.use(project)
    try:
        fails, completes = schedule(project, payload={"fails": True}), schedule(project)
        project.processor.tick()
    finally:
        runtime.use(before)

    found = statuses(connection)
    assert (found.pop(fails), found.pop(completes)) == ("pending", "completed")
    assert list(found.values()) == ["pending"], "the follow-up of the handler whose transaction committed"


@pytest.mark.parametrize("transactional", [False, True])
def test_actions_scheduled_by_a_handler_store_its_action_as_their_creator(a_project, connection, transactional):
    refused = []

    def puts(name):
        scheduled_actions.schedule_action("test:next", {"n": name}, scheduled_at=timedelta(hours=1))

    @action("test:run", transactional=transactional)
    def handle(payload):
        puts("plain")
        many = [{"action_type": "test:next", "payload": {"n": n}, "scheduled_at": timedelta(hours=1)} for n in "ab"]
        scheduled_actions.schedule_actions(many)
        try:
            scheduled_actions.schedule_action("test:next", {}, after=UUID(int=1))
        except RequestError as error:
            refused.append(str(error))

    @action("test:async")
    async def handle_async(payload):
        puts("coroutine")
        await asyncio.to_thread(puts, "its thread")

    project = a_project(handle, handle_async, a_handler(action_type="test:next"), concurrency=1)
    before = runtime.use(project)
    try:
        first, second = schedule(project), schedule(project, action_type="test:async")
        project.processor.tick()
        puts("nobody")
    finally:
        runtime.use(before)

    found = connection.execute("select payload ->> 'n', scheduled_by from scheduled_actions where payload ? 'n'")
    wanted = dict.fromkeys(("plain", "a", "b"), first) | dict.fromkeys(("coroutine", "its thread"), second)
    assert dict(found.fetchall()) == wanted | {"nobody": None}
    assert [text.partition(":")[0] for text in refused] == ["after"]


def test_at_most_half_of_the_threads_hold_a_connection_for_their_handler(a_project):
    lock, meeting, now, most = threading.Lock(), threading.Barrier(2), 0, 0

    @action("test:run", transactional=True)
    def handle(payload):
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        meeting.wait(PATIENCE)
        with lock:
            now -= 1

    project = a_project(handle, concurrency=4)
    for _ in range(6):
        schedule(project)

    report = project.processor.tick()

    assert counts(report) == {"processed": 6, "succeeded": 6}
    assert most == 2


# -- one tick ----------------------------------------------------------------------------------------------------------


def test_a_tick_continues_until_nothing_is_due(a_project, connection):
    project = a_project(a_handler())
    made = [insert(connection, priority=n % 3, lock_group=f"g{n % 5}" if n % 2 else None) for n in range(120)]

    report = project.processor.tick()

    assert counts(report) == {"processed": 120, "succeeded": 120}
    assert report.more is False
    assert statuses(connection) == dict.fromkeys(made, "completed")
    assert connection.execute("select count(*) from scheduled_action_holds").fetchone() == (0,)


@pytest.mark.parametrize("answer", [RetryAfter(0), Snooze(0)])
def test_an_action_that_is_due_again_immediately_runs_again_in_the_same_tick(a_project, connection, answer):
    answers = iter([answer, None])

    @action("test:run")
    def handle(payload):
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    project = a_project(handle)
    action_id = schedule(project)

    project.processor.tick()

    assert statuses(connection) == {action_id: "completed"}


def test_the_most_urgent_actions_run_first(a_project, connection):
    order = []

    @action("test:run")
    def handle(payload):
        order.append(payload["n"])

    project = a_project(handle, concurrency=1)
    for n in (3, 1, 2):
        insert(connection, priority=n, payload={"n": n})

    project.processor.tick()

    assert order == [1, 2, 3]


def test_members_of_a_lock_group_run_one_at_a_time_the_oldest_first(a_project, connection):
    running, order = threading.Lock(), []

    @action("test:run")
    def handle(payload):
        assert running.acquire(blocking=False), "another member runs"
        order.append(payload["n"])
        running.release()

    project = a_project(handle, concurrency=4)
    for n in range(12):
        insert(connection, payload={"n": n}, lock_group="g")

    report = project.processor.tick()

    assert report.succeeded == 12
    assert order == list(range(12))


def test_the_setting_defines_how_many_handlers_run_at_once(a_project, connection):
    together = threading.Barrier(3)

    @action("test:run")
    def handle(payload):
        together.wait(PATIENCE)

    project = a_project(handle, concurrency=3)
    for _ in range(6):
        schedule(project)

    assert counts(project.processor.tick()) == {"processed": 6, "succeeded": 6}


def test_a_tick_writes_a_row(a_project, connection):
    project = a_project(a_handler())
    schedule(project)

    report = project.processor.tick(caller="cron")

    found = connection.execute(
        "select id::text, caller, outcome, running, counts - 'metrics_buffer', finished_at >= started_at, budget"
        " from scheduled_action_ticks"
    ).fetchall()
    budget = {"max_run_seconds": 20, "max_duration_seconds": 55}
    numbers = "processed succeeded failed retried snoozed skipped rescued pruned remaining"
    expected = dict.fromkeys(numbers.split(), 0) | {"processed": 1, "succeeded": 1}
    assert found == [(report.tick_id, "cron", "finished", [], expected, True, budget)]


def test_no_start_of_an_action_is_recorded_too_early_after_a_slow_start_of_the_tick(a_project, connection):
    connection.execute(
        "create function asleep() returns trigger language plpgsql as"
        " 'begin perform pg_sleep(0.2); return null; end';"
        "create trigger asleep after insert on scheduled_action_ticks for each row execute function asleep()"
    )
    project = a_project(a_handler())
    action_id = schedule(project)

    report = project.processor.tick()

    found = connection.execute(
        "select a.started_at - t.started_at from scheduled_actions a, scheduled_action_ticks t"
        " where a.id = %s and t.id = %s",
        [action_id, report.tick_id],
    ).fetchone()
    assert found[0] >= timedelta(seconds=0.2)


def test_an_idle_tick_writes_a_row_of_the_same_form(a_project, connection):
    project = a_project(a_handler())
    project.processor.tick()
    schedule(project, scheduled_at=timedelta(hours=1))

    report = project.processor.tick(caller="cron")

    found = connection.execute(
        "select caller, outcome, running, (counts ->> 'processed')::int, finished_at = started_at, budget"
        " from scheduled_action_ticks where id = %s",
        [report.tick_id],
    ).fetchall()
    assert counts(report) == {}
    assert found == [("cron", "finished", [], 0, True, {"max_run_seconds": 20, "max_duration_seconds": 55})]


def test_only_the_commit_of_an_idle_tick_does_not_wait_for_the_disk(a_project, connection):
    project = a_project(a_handler())
    project.processor.tick()

    def synchronous_commit_of_a_tick():
        with connection.transaction():
            tick_store.find_work(
                connection, project.config.settings, tick_id=uuid4(), may_be_idle=True,
                caller="", budget={}, counts={}, action_types=[],
            )  # fmt: skip
            return connection.execute("show synchronous_commit").fetchone()[0]

    idle = synchronous_commit_of_a_tick()
    schedule(project)

    assert (idle, synchronous_commit_of_a_tick()) == ("off", "on")
    assert connection.execute("show synchronous_commit").fetchone()[0] == "on"


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({}, id="without a lock group"),
        pytest.param({"lock_group": "g"}, id="with one"),
        pytest.param({"priority": 7}, id="behind later ones that are more urgent"),
        pytest.param({"priority": 7, "lock_group": "g"}, id="with a lock group behind others"),
    ],
)
def test_due_actions_of_every_kind_are_found(a_project, connection, columns):
    project = a_project(a_handler())
    project.processor.tick()
    for lock_group in (None, "other"):
        schedule(project, scheduled_at=timedelta(hours=1), lock_group=lock_group)
    insert(connection, **columns)

    assert counts(project.processor.tick()) == {"processed": 1, "succeeded": 1}


def test_an_action_is_announced_while_its_handler_runs(a_project, connection):
    announced = []

    @action("test:run")
    def handle(payload, context: Context):
        found = connection.execute("select running from scheduled_action_ticks").fetchone()[0]
        announced.append(context.id in found)

    project = a_project(handle)
    for _ in range(5):
        schedule(project)

    project.processor.tick()

    assert announced == [True] * 5


def test_the_first_tick_of_a_process_stores_the_settings_that_sql_functions_need(a_project, connection):
    project = a_project(a_handler(dedup_window=9), a_handler(action_type="test:other"), deduplication_window_seconds=7)

    project.processor.tick()

    windows = [
        connection.execute("select scheduled_actions_dedup_window(%s)", [one]).fetchone()[0]
        for one in ("test:run", "test:other")
    ]
    assert windows == [9, 7]


def test_a_disabled_project_does_nothing_and_reports_it(a_project, connection):
    project = a_project(a_handler(), enabled=False)
    action_id = schedule(project)

    report = project.processor.tick()

    assert report.as_json()["enabled"] is False
    assert statuses(connection) == {action_id: "pending"}


def test_the_answer_stays_below_eight_kilobytes_whatever_the_errors_contain(a_project, connection):
    project = a_project(a_handler(ValueError('"\\é\n' * 3000)))
    for _ in range(40):
        schedule(project)

    report = project.processor.tick()

    assert report.retried == 40
    assert len(report.errors) == 20
    assert len(report.as_text().encode()) < 8000


def test_a_tick_looks_for_lock_groups_only_if_it_may_have_other_work_than_actions_without_one(
    a_project, connection, monkeypatch
):
    project = a_project(a_handler())
    project.processor.tick()
    claim_grouped, looks = scanner.claim_grouped, []
    monkeypatch.setattr(
        scanner, "claim_grouped", lambda *given, **more: looks.append(1) or claim_grouped(*given, **more)
    )

    schedule(project)
    without = project.processor.tick().succeeded, bool(looks)
    schedule(project, lock_group="g")
    of_a_group = project.processor.tick().succeeded, bool(looks)
    looks.clear()
    schedule(project)
    schedule(project, lock_group="g")
    both = project.processor.tick().succeeded, bool(looks)

    assert (without, of_a_group, both) == ((1, False), (1, True), (2, True))


def test_a_grouped_follow_up_runs_in_a_tick_that_found_no_groups(a_project, connection):
    @action("test:run")
    def handle(payload, context: Context):
        if payload["n"] < 2:
            context.schedule("test:run", {"n": payload["n"] + 1}, lock_group="g")

    project = a_project(handle)
    project.processor.tick()
    schedule(project, payload={"n": 1})

    report = project.processor.tick()

    assert report.succeeded == 2
