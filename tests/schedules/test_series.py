"""Series in real ticks with a fixed clock: a series never stops unintentionally, and no occurrence runs twice."""

from __future__ import annotations

import itertools
import threading
from datetime import datetime, timedelta, timezone
from functools import partial

import psycopg
import pytest

from scheduled_actions import Context, Delays, Snooze, action
from scheduled_actions.actions import claims
from scheduled_actions.core.errors import RequestError
from scheduled_actions.registry import Registry
from scheduled_actions.schedules import operations
from scheduled_actions.schedules.sync import sync
from tests.factories import NOW, PATIENCE, a_tick, insert_many, projects, row, set_clock, together, wait_until

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=seconds) for seconds in (1, 60, 3600, 86400))


@pytest.fixture
def a_project(database_url, connection):
    """Return a function that creates a project on the test's database, with the clock set to NOW."""
    set_clock(connection, NOW)
    with projects(database_url) as make:
        yield make


class Ran:
    """A handler that records the instants of its occurrences, and returns a given outcome."""

    def __init__(self, answer=None, **options):
        self.calls = []
        self.answer = answer

        @action("test:run", **options)
        def handle(payload: dict, context: Context):
            self.calls.append(context.occurrence_at)
            answer = self.answer(context) if callable(self.answer) else self.answer
            if isinstance(answer, BaseException):
                raise answer
            return answer

        self.handler = handle

    @property
    def instants(self):
        return [None if at is None else at - NOW for at in self.calls]


def ticks(project, connection, *moments):
    """Run a tick at each of these moments, relative to NOW; return the reports."""
    reports = []
    for moment in moments:
        set_clock(connection, NOW + moment)
        reports.append(project.processor.tick())
    return reports


def planned(connection, schedule):
    """Return the instants of pending actions relative to NOW; check that the schedule references one of them."""
    waiting = connection.execute(
        "select a.occurrence_at, a.id = s.next_action_id from scheduled_actions a"
        " join scheduled_action_schedules s on s.id = a.schedule_id"
        " where s.id = %s and a.status = 'pending' order by a.occurrence_at",
        [schedule.id],
    ).fetchall()
    assert sum(is_next for _, is_next in waiting) == 1
    return [at - NOW for at, _ in waiting]


def outcomes(connection, schedule):
    """Return the status of each occurrence of a schedule, in order."""
    found = connection.execute(
        "select status from scheduled_actions where schedule_id = %s order by occurrence_at", [schedule.id]
    )
    return [status for (status,) in found]


# -- claiming and planning ---------------------------------------------------------------------------------------------


def test_claiming_an_occurrence_plans_exactly_one_next_occurrence(a_project, connection):
    ran = Ran()
    project = a_project(ran.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "daily", scheduled_at=HOUR)
    assert planned(connection, schedule) == [HOUR]

    ticks(project, connection, HOUR + MINUTE)
    assert planned(connection, schedule) == [HOUR + DAY]
    ticks(project, connection, HOUR + 2 * MINUTE, HOUR + DAY)

    assert planned(connection, schedule) == [HOUR + 2 * DAY]
    assert ran.instants == [HOUR, HOUR + DAY]
    found = project.schedules.get(schedule.id)
    assert (found.executions, found.missed, found.last_occurrence_at) == (2, 0, NOW + HOUR + DAY)


def test_a_series_whose_handler_always_fails_continues_for_ten_days(a_project, connection):
    ran = Ran(ValueError("no"), max_attempts=3, retry=Delays([60]))
    project = a_project(ran.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "daily")

    ticks(project, connection, *(day * DAY + minute * MINUTE for day in range(1, 11) for minute in (0, 1, 2, 3)))

    assert outcomes(connection, schedule) == ["failed"] * 10 + ["pending"]
    assert planned(connection, schedule) == [11 * DAY]
    assert len(ran.calls) == 30


def test_a_claim_does_not_wait_for_a_locked_schedule_that_cannot_be_planned(a_project, connection, database_url):
    ran = Ran()
    project = a_project(ran.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "daily", scheduled_at=HOUR)
    set_clock(connection, NOW + HOUR)
    refuse = partial(project.series.claim_refused, error=ValueError("no such rule"))

    def claim():
        with connection.transaction():
            ((claimed,), _) = claims.claim_free(connection, tick, wanted=1, after=claims.START, excluded=())
            return refuse(connection, claimed)

    tick = a_tick(connection)
    connection.execute("set lock_timeout = '1s'")
    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_action_schedules for update")
        while_locked = claim()
    assert not while_locked.has_found_work
    assert planned(connection, schedule) == [HOUR]

    (refused,) = claim().refused

    assert "ValueError: no such rule" in refused[1]
    found = project.schedules.get(schedule.id)
    assert (found.status, "ValueError: no such rule" in found.status_reason) == ("paused", True)


@pytest.mark.parametrize(("misfire", "runs"), [("fire_once", 1), ("skip", 0), ("catch_up", 3)])
@pytest.mark.parametrize("late", [timedelta(0), 2 * HOUR])
def test_the_misfire_policy_decides_the_number_of_runs_after_an_outage_of_three_days(
    a_project, connection, misfire, runs, late
):
    ran = Ran()
    project = a_project(ran.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "daily", misfire=misfire)

    ticks(project, connection, *([3 * DAY + late] * 3))

    assert len(ran.calls) == runs
    assert planned(connection, schedule) == [4 * DAY]
    ticks(project, connection, 4 * DAY + MINUTE)
    assert len(ran.calls) == runs + 1


def test_occurrences_that_a_catch_up_drops_are_counted_as_missed(a_project, connection):
    ran = Ran()
    project = a_project(ran.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "hourly", misfire="catch_up", catch_up_limit=2)

    ticks(project, connection, *([10 * HOUR + MINUTE] * 3))

    # The occurrence planned before the outage, and the two latest.
    assert ran.instants == [HOUR, 9 * HOUR, 10 * HOUR]
    assert project.schedules.get(schedule.id).missed == 7


def test_an_occurrence_in_the_middle_of_a_long_queue_is_planned_like_any_other(a_project, connection):
    ran = Ran()
    project = a_project(ran.handler, batch_size=10)
    schedule = project.schedules.schedule_recurring("test:run", {}, "PT1M")
    insert_many(connection, 25, scheduled_at=NOW + 30 * SECOND)
    insert_many(connection, 25, scheduled_at=NOW + 90 * SECOND)

    (report,) = ticks(project, connection, 2 * MINUTE - SECOND)

    assert (report.succeeded, report.remaining) == (51, 0)
    assert len(ran.calls) - ran.calls.count(None) == 1
    assert planned(connection, schedule) == [2 * MINUTE]


def test_a_retry_and_the_next_occurrence_exist_at_the_same_time(a_project, connection):
    ran = Ran(ValueError("no"), max_attempts=2, retry=Delays([90]))
    project = a_project(ran.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "every minute")

    ticks(project, connection, MINUTE)
    assert planned(connection, schedule) == [MINUTE, 2 * MINUTE]
    ran.answer = None
    ticks(project, connection, 2 * MINUTE, 3 * MINUTE)

    assert outcomes(connection, schedule) == ["completed", "completed", "completed", "pending"]
    assert ran.instants == [MINUTE, 2 * MINUTE, MINUTE, 3 * MINUTE]


def test_a_snoozed_occurrence_and_the_next_one_both_run_if_they_are_due_together(a_project, connection):
    snoozed = []

    def snooze_once(context):
        if snoozed:
            return None
        snoozed.append(context.id)
        return Snooze(60)

    ran = Ran(snooze_once)
    project = a_project(ran.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "every minute")

    ticks(project, connection, MINUTE, 2 * MINUTE)

    assert ran.instants == [MINUTE, MINUTE, 2 * MINUTE]
    assert outcomes(connection, schedule) == ["completed", "completed", "pending"]


def test_a_released_occurrence_runs_along_with_the_next_one(a_project, connection):
    project = a_project(Ran().handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "every minute")
    without_handlers = a_project()

    ticks(without_handlers, connection, MINUTE)
    assert outcomes(connection, schedule) == ["no_action", "pending"]
    ticks(project, connection, 2 * MINUTE)

    assert outcomes(connection, schedule) == ["completed", "completed", "pending"]


def test_without_a_handler_one_occurrence_waits_and_the_following_ones_are_skipped(a_project, connection):
    project = a_project(Ran().handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "every minute")
    without_handlers = a_project()

    ticks(without_handlers, connection, *(minute * MINUTE for minute in range(1, 6)))

    assert outcomes(connection, schedule) == ["no_action"] + ["skipped"] * 4 + ["pending"]


# -- overlap -----------------------------------------------------------------------------------------------------------


class Gate:
    """A handler that runs until `leave` is set."""

    def __init__(self):
        self.entered, self.leave, self.calls = threading.Semaphore(0), threading.Event(), []

        @action("test:run", timeout_seconds=15)
        def handle(payload: dict, context: Context):
            self.calls.append(context.occurrence_at)
            self.entered.release()
            self.leave.wait(PATIENCE)

        self.handler = handle


@pytest.mark.parametrize(
    ("overlap", "while_it_runs", "afterwards"),
    [
        ("skip", ["processing", "skipped", "pending"], ["completed", "skipped", "pending"]),
        ("queue", ["processing", "pending"], ["completed", "completed", "pending"]),
        ("allow", ["processing", "processing", "pending"], ["completed", "completed", "pending"]),
    ],
)
def test_the_overlap_policy_applies_if_an_occurrence_is_due_while_the_previous_one_runs(
    a_project, connection, overlap, while_it_runs, afterwards
):
    gate = Gate()
    project, other = a_project(gate.handler), a_project(gate.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "every minute", overlap=overlap)
    set_clock(connection, NOW + MINUTE)
    first = threading.Thread(target=project.processor.tick)
    first.start()
    assert gate.entered.acquire(timeout=PATIENCE)

    set_clock(connection, NOW + 2 * MINUTE)
    second = threading.Thread(target=other.processor.tick)
    second.start()
    wait_until(lambda: outcomes(connection, schedule) == while_it_runs)
    gate.leave.set()
    first.join(PATIENCE)
    second.join(PATIENCE)
    other.processor.tick()

    assert outcomes(connection, schedule)[:3] == afterwards
    assert len(gate.calls) == afterwards.count("completed")


# -- rolling -----------------------------------------------------------------------------------------------------------


def test_a_rolling_schedule_counts_its_interval_from_the_end_of_the_run(a_project, connection):
    ran = Ran()
    project = a_project(ran.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "PT10M", recurrence_type="rolling")

    ticks(project, connection, 13 * MINUTE)

    assert planned(connection, schedule) == [23 * MINUTE]
    assert project.schedules.get(schedule.id).executions == 1


def test_a_rolling_schedule_plans_the_next_occurrence_after_the_last_failed_attempt(a_project, connection):
    project = a_project(Ran(ValueError("no"), max_attempts=2, retry=Delays([60])).handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "PT10M", recurrence_type="rolling")

    ticks(project, connection, 10 * MINUTE)
    assert planned(connection, schedule) == [10 * MINUTE]
    ticks(project, connection, 11 * MINUTE)

    assert outcomes(connection, schedule) == ["failed", "pending"]
    assert planned(connection, schedule) == [21 * MINUTE]


def test_settling_a_rolling_occurrence_of_a_transactional_handler_plans_the_next_one(a_project, connection):
    @action("test:run", transactional=True)
    def handle(payload: dict, context: Context):
        return None

    project = a_project(handle)
    schedule = project.schedules.schedule_recurring("test:run", {}, "PT10M", recurrence_type="rolling")

    ticks(project, connection, 10 * MINUTE)

    assert planned(connection, schedule) == [20 * MINUTE]


def test_a_cancelled_rolling_occurrence_does_not_end_its_series(a_project, connection):
    project = a_project(Ran().handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "PT10M", recurrence_type="rolling")
    set_clock(connection, NOW + 5 * MINUTE)

    project.scheduler.cancel_action(schedule.next_action_id)

    assert planned(connection, schedule) == [15 * MINUTE]


def test_cancelling_an_occurrence_pauses_the_schedule_if_the_next_one_cannot_be_written(a_project, connection):
    project = a_project(Ran().handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "daily")
    connection.execute(
        "create function refuse() returns trigger language plpgsql as"
        " $$ begin raise exception 'no such row here'; end $$;"
        " create trigger refuse before insert on scheduled_actions for each row execute function refuse()"
    )

    project.scheduler.cancel_action(schedule.next_action_id)

    found = project.schedules.get(schedule.id)
    assert outcomes(connection, schedule) == ["cancelled"]
    assert (found.status, found.next_action_id) == ("paused", None)
    assert "no such row here" in found.status_reason


def test_a_rolling_schedule_paused_and_resumed_during_a_run_continues_from_the_end_of_that_run(a_project, connection):
    gate = Gate()
    project = a_project(gate.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "PT10M", recurrence_type="rolling", remaining=9)
    set_clock(connection, NOW + 10 * MINUTE)
    tick = threading.Thread(target=project.processor.tick)
    tick.start()
    assert gate.entered.acquire(timeout=PATIENCE)

    operations.pause(project.schedules, schedule.id)
    operations.resume(project.schedules, schedule.id)
    assert outcomes(connection, schedule) == ["processing"]
    gate.leave.set()
    tick.join(PATIENCE)

    found = project.schedules.get(schedule.id)
    assert planned(connection, schedule) == [20 * MINUTE]
    assert (found.executions, found.remaining) == (1, 8)


# -- ends --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recurrence_type", ["fixed", "rolling"])
def test_remaining_executions_are_counted_down_exactly(a_project, connection, recurrence_type):
    ran = Ran(ValueError("no"), max_attempts=2, retry=Delays([1]))
    project = a_project(ran.handler)
    schedule = project.schedules.schedule_recurring(
        "test:run", {}, "every minute", remaining=3, recurrence_type=recurrence_type
    )

    ticks(project, connection, *(half * 30 * SECOND for half in range(2, 24)))

    found = project.schedules.get(schedule.id)
    assert outcomes(connection, schedule) == ["failed"] * 3
    assert (found.status, found.remaining, found.executions, found.next_action_id) == ("ended", 0, 3, None)


def test_an_ended_rule_plans_nothing(a_project, connection):
    ran = Ran()
    project = a_project(ran.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "daily", until=NOW + 2 * DAY)

    ticks(project, connection, *(day * DAY for day in range(1, 5)))

    assert ran.instants == [DAY, 2 * DAY]
    assert project.schedules.get(schedule.id).status == "ended"


def test_a_schedule_is_paused_with_the_reason_after_final_failures_in_a_row(a_project, connection):
    ran = Ran(ValueError("no"), max_attempts=1)
    project = a_project(ran.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "daily", pause_after_failures=3)

    ticks(project, connection, DAY)
    ran.answer = None
    ticks(project, connection, 2 * DAY)
    ran.answer = ValueError("no")
    ticks(project, connection, *(day * DAY for day in range(3, 9)))

    found = project.schedules.get(schedule.id)
    assert (found.status, found.consecutive_failures) == ("paused", 3)
    assert found.status_reason == "paused after 3 final failures in a row"
    assert ran.instants == [day * DAY for day in range(1, 6)]
    assert outcomes(connection, schedule)[-1] == "failed"


# -- the context of a handler ------------------------------------------------------------------------------------------


def test_a_handler_gets_its_occurrence_and_the_previous_and_next_instants(a_project, connection):
    seen = []

    def look(context):
        seen.append((context.previous_occurrence_at, context.occurrence_at, context.next_occurrence_at))

    project = a_project(Ran(look).handler)
    project.schedules.schedule_recurring("test:run", {}, "0 9 * * 1-5", timezone="Europe/Berlin")

    # NOW is a Wednesday, 12:00 UTC; Berlin is an hour ahead.
    ticks(project, connection, DAY, 2 * DAY)

    nine = NOW.replace(hour=8)
    assert seen == [
        (None, nine + DAY, nine + 2 * DAY),
        (nine + DAY, nine + 2 * DAY, nine + 5 * DAY),
    ]


def test_jitter_delays_an_occurrence_without_changing_its_instant(a_project, connection):
    project = a_project(Ran().handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "daily", jitter_seconds=600)

    found = row(connection, schedule.next_action_id)

    at = project.scheduler.get_action(schedule.next_action_id)
    assert timedelta(0) < at.scheduled_at - at.occurrence_at < 600 * SECOND
    assert found["occurrence_at"] == (NOW + DAY).isoformat()


# -- repairs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        "delete from scheduled_actions",
        "update scheduled_actions set status = 'cancelled', completed_at = now()",
        "update scheduled_action_schedules set next_action_id = null",
    ],
)
@pytest.mark.parametrize("recurrence_type", ["fixed", "rolling"])
def test_the_sweep_repairs_a_series_broken_by_a_manual_change(a_project, connection, damage, recurrence_type):
    project = a_project(Ran().handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "daily", recurrence_type=recurrence_type)
    connection.execute(damage)

    repaired = project.series.sweep(connection, every_seconds=0)

    assert repaired == 1
    assert project.series.sweep(connection, every_seconds=0) == 0
    assert len(planned(connection, schedule)) <= 2  # An occurrence that the schedule no longer references remains.


def test_a_tick_sweeps_automatically(a_project, connection):
    project = a_project(Ran().handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "daily")
    connection.execute("delete from scheduled_actions")

    project.processor.tick()

    assert planned(connection, schedule) == [2 * DAY]


def test_a_rule_that_can_no_longer_be_evaluated_pauses_only_its_own_schedule(a_project, connection):
    ran = Ran()
    project = a_project(ran.handler)
    broken = project.schedules.schedule_recurring("test:run", {}, "daily")
    sound = project.schedules.schedule_recurring("test:run", {}, "daily")
    connection.execute("update scheduled_action_schedules set recurrence = 'custom:gone' where id = %s", [broken.id])

    ticks(project, connection, DAY)

    found = project.schedules.get(broken.id)
    assert len(ran.calls) == 2
    assert found.status == "paused"
    assert "gone" in found.status_reason
    assert planned(connection, sound) == [2 * DAY]


# -- concurrency -------------------------------------------------------------------------------------------------------


def test_an_occurrence_of_a_locked_schedule_waits_without_deadlock(a_project, connection, database_url):
    ran = Ran()
    project = a_project(ran.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "daily")
    with psycopg.connect(database_url) as other:
        other.execute("select 1 from scheduled_action_schedules where id = %s for update", [schedule.id])
        ticks(project, connection, DAY)
        assert (ran.calls, planned(connection, schedule)) == ([], [DAY])

    ticks(project, connection, DAY + MINUTE)

    assert ran.instants == [DAY]


def test_concurrent_ticks_plan_each_next_occurrence_once(a_project, connection, database_url):
    ran = Ran()
    runtimes = [a_project(ran.handler, batch_size=7) for _ in range(4)]
    made = [runtimes[0].schedules.schedule_recurring("test:run", {}, "daily", name=f"s{n}") for n in range(40)]
    set_clock(connection, NOW + DAY)

    together(database_url, 4, lambda _, number: runtimes[number].processor.tick())

    assert len(ran.calls) == 40
    for schedule in made:
        assert planned(connection, schedule) == [2 * DAY]


def test_concurrent_synchronisations_create_one_schedule(a_project, connection, database_url):
    @action("test:run", recurrence="daily")
    def handle(payload: dict):
        return None

    runtimes = [a_project(registry=Registry.of(handle)) for _ in range(4)]

    together(database_url, 4, lambda _, number: sync(runtimes[number].schedules))

    (schedule,) = runtimes[0].schedules.find()
    assert (schedule.name, schedule.is_declared, planned(connection, schedule)) == ("test:run", True, [DAY])


def test_a_dense_series_catches_up_on_the_latest_occurrences_of_a_long_outage(a_project, connection):
    ran = Ran()
    project = a_project(ran.handler)
    schedule = project.schedules.schedule_recurring(
        "test:run", {}, "PT1S", misfire="catch_up", catch_up_limit=20, overlap="allow"
    )

    ticks(project, connection, 6 * DAY)

    # The occurrence planned before the outage, and the latest of the missed ones.
    assert ran.instants == [SECOND, *(6 * DAY - number * SECOND for number in reversed(range(20)))]
    assert planned(connection, schedule) == [6 * DAY + SECOND]
    assert project.schedules.get(schedule.id).missed == 1000


@pytest.mark.parametrize("rule", ["0 9 * * *", "daily", "RRULE:FREQ=DAILY"])
def test_a_backfill_from_the_ends_of_the_calendar_is_rejected(a_project, rule):
    project = a_project(Ran().handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, rule)

    for year, offset in itertools.product((1, 2, 9999), (-12, 0, 14)):
        start = datetime(year, 1, 1, tzinfo=timezone(timedelta(hours=offset)))
        if rule.startswith("RRULE") and year == 2 and offset <= 0:
            # An RRULE has no occurrence before the start of the schedule.
            assert operations.backfill(project.schedules, schedule.id, start, NOW - HOUR) == []
            continue
        with pytest.raises(RequestError):
            operations.backfill(project.schedules, schedule.id, start, NOW)
