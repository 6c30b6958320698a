"""Project functions that compute occurrences: called outside the tick's transactions, within a time limit."""

from __future__ import annotations

import threading
from datetime import timedelta

import psycopg
import pytest

from scheduled_actions import action, next_occurrence, resolve_recipients, skip_occurrence
from scheduled_actions.actions.management import ActionOperations
from scheduled_actions.actions.search import ActionFilters, SearchBounds
from scheduled_actions.core.action import Status
from scheduled_actions.core.errors import FunctionFailed, FunctionTimedOut
from scheduled_actions.schedules import operations, series
from scheduled_actions.schedules.deferred import PlanningThreads
from scheduled_actions.schedules.rule_lookup import apply_jitter
from scheduled_actions.schedules.service import Schedules
from scheduled_actions.schedules.sync import sync
from tests.factories import NOW, PATIENCE, insert_many, projects, set_clock, statuses, wait_until

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
SHORT = 0.1
#: Long enough after a sweep for the next one to be due.
SWEEP_AGAIN = timedelta(seconds=301)


class Stepping:
    """A project function that returns the given instant plus `step`, after calling `before`."""

    def __init__(self, name="steps", step=HOUR):
        self.before = lambda: None
        self.moments = []

        @next_occurrence(name)
        def following(moment):
            self.moments.append(moment)
            self.before()
            return moment + step

        self.function = following


class Gate:
    """A function that blocks its callers until the gate is opened."""

    def __init__(self):
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self):
        self.entered.set()
        self.opened.wait(PATIENCE)


@pytest.fixture
def gate():
    """Return a gate that is opened at the end of the test."""
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def a_project(database_url, connection):
    """Return a function that creates a project with a handler and the given functions, with the clock set to NOW."""
    set_clock(connection, NOW)

    @action("test:run")
    def run(payload: dict) -> None:
        """Do nothing."""

    with projects(database_url) as make:
        yield lambda *functions, **settings: make(run, *functions, **settings)


def stored(connection, schedule):
    """Return the status and the reason of a schedule, and its planned instant relative to NOW."""
    status, note, at = connection.execute(
        "select s.status, s.status_reason, a.occurrence_at from scheduled_action_schedules s"
        " left join scheduled_actions a on a.id = s.next_action_id and a.status = 'pending' where s.id = %s",
        [schedule.id],
    ).fetchone()
    return status, note, None if at is None else at - NOW


def tick_at(project, connection, moment):
    """Set the clock to a moment relative to NOW and run a tick; return its report."""
    set_clock(connection, NOW + moment)
    return project.processor.tick()


def test_a_function_runs_without_row_locks_and_delays_no_other_action(a_project, connection, database_url, gate):
    steps = Stepping()
    project = a_project(steps.function)
    schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps")
    assert stored(connection, schedule) == ("active", None, HOUR)
    set_clock(connection, NOW + HOUR)
    others = insert_many(connection, 20)
    steps.before = gate

    ticking = threading.Thread(target=project.processor.tick)
    ticking.start()
    assert gate.entered.wait(PATIENCE)
    wait_until(lambda: [statuses(connection)[one] for one in others] == ["completed"] * 20)
    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_action_schedules for update nowait")
        other.execute("select from scheduled_actions for update nowait")
        other.execute("select from scheduled_action_ticks for update nowait")
    gate.opened.set()
    ticking.join(PATIENCE)

    assert stored(connection, schedule) == ("active", None, 2 * HOUR)


@pytest.mark.parametrize("rule", ["custom:steps", "PT1H"])
def test_a_function_that_hangs_defers_its_schedule_with_the_reason_until_it_returns(a_project, connection, gate, rule):
    steps = Stepping()

    @skip_occurrence("never")
    def never(moment):
        steps.before()
        return False

    project = a_project(steps.function, never, function_timeout_seconds=SHORT)
    options = {"skip": {"function": "never"}} if rule == "PT1H" else {}
    series = [project.schedules.schedule_recurring("test:run", {}, rule, **options) for _ in range(3)]
    steps.before = gate

    report = tick_at(project, connection, HOUR)

    assert report.succeeded == 3
    for schedule in series:
        status, note, at = stored(connection, schedule)
        assert (status, at) == ("active", None)
        assert "the next occurrence is not planned yet: the function" in note
    gate.opened.set()
    steps.before = lambda: None
    project.processor.state.next_sweep = 0
    tick_at(project, connection, HOUR + SWEEP_AGAIN)
    assert [stored(connection, schedule) for schedule in series] == [("active", None, 2 * HOUR)] * 3


@pytest.mark.parametrize("raised", [SystemExit(1), ValueError("no"), KeyboardInterrupt()])
def test_a_function_that_raises_pauses_only_its_own_schedule(a_project, connection, raised):
    steps, sound = Stepping(), Stepping("sound")
    project = a_project(steps.function, sound.function)
    broken = project.schedules.schedule_recurring("test:run", {}, "custom:steps")
    other = project.schedules.schedule_recurring("test:run", {}, "custom:sound")

    def leave():
        raise raised

    steps.before = leave
    report = tick_at(project, connection, HOUR)

    assert report.succeeded == 2
    status, note, _ = stored(connection, broken)
    assert status == "paused"
    assert type(raised).__name__ in note
    assert stored(connection, other) == ("active", None, 2 * HOUR)


def test_missed_occurrences_of_a_function_are_caught_up_within_one_tick(a_project, connection):
    steps = Stepping()
    project = a_project(steps.function)
    schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps", misfire="catch_up")

    report = tick_at(project, connection, 5 * HOUR)

    assert report.succeeded == 5
    assert stored(connection, schedule) == ("active", None, 6 * HOUR)


@pytest.mark.parametrize("transactional", [False, True])
def test_a_rolling_schedule_with_a_function_is_planned_when_its_run_has_ended(database_url, connection, transactional):
    set_clock(connection, NOW)
    steps = Stepping()

    @action("test:run", transactional=transactional)
    def run(payload: dict) -> None:
        """Do nothing."""

    with projects(database_url) as make:
        project = make(run, steps.function)
        schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps", recurrence_type="rolling")
        assert stored(connection, schedule) == ("active", None, HOUR)
        tick_at(project, connection, HOUR + HOUR / 2)

    assert stored(connection, schedule) == ("active", None, 2 * HOUR + HOUR / 2)


def test_the_tick_ends_if_a_planning_thread_cannot_start_and_the_sweep_plans_its_schedule(
    a_project, connection, monkeypatch
):
    steps = Stepping()
    project = a_project(steps.function)
    schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps")
    start_thread, start_planning = threading.Thread.start, PlanningThreads.start
    started = []

    def refuse(thread):
        if thread.name.startswith("scheduled-actions-planning"):
            raise RuntimeError("can't start new thread")
        start_thread(thread)

    def note(planning):
        started.append(planning)
        start_planning(planning)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        patch.setattr(PlanningThreads, "start", note)
        report = tick_at(project, connection, HOUR)
    assert report.succeeded == 1
    assert [planning.is_busy for planning in started] == [False]
    (error,) = report.errors
    assert error["error"].startswith("background: RuntimeError: can't start new thread")
    assert stored(connection, schedule) == ("active", None, None)

    # The first tick of another process runs a sweep.
    tick_at(a_project(steps.function), connection, HOUR + SWEEP_AGAIN)
    assert stored(connection, schedule) == ("active", None, 2 * HOUR)


def test_the_result_of_a_function_is_discarded_if_the_schedule_was_paused_during_the_call(a_project, connection, gate):
    steps = Stepping()
    project = a_project(steps.function)
    schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps")
    set_clock(connection, NOW + HOUR)
    steps.before = gate
    ticking = threading.Thread(target=project.processor.tick)
    ticking.start()
    assert gate.entered.wait(PATIENCE)

    operations.pause(project.schedules, schedule.id, reason="enough")
    gate.opened.set()
    ticking.join(PATIENCE)

    assert stored(connection, schedule) == ("paused", "enough", None)


CHANGES_DURING_THE_CALL = [
    ({"jitter_seconds": 600.0}, HOUR),
    # This change does not affect a planned occurrence; the unplanned one must still be planned.
    ({"misfire": "skip"}, HOUR),
    ({"until": NOW + 90 * MINUTE}, None),
]


@pytest.mark.parametrize(("changes", "after"), CHANGES_DURING_THE_CALL)
def test_the_occurrence_is_computed_again_if_the_schedule_changed_during_the_call(
    a_project, connection, gate, changes, after
):
    steps = Stepping()
    project = a_project(steps.function)
    schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps")
    set_clock(connection, NOW + HOUR)
    steps.before = gate
    ticking = threading.Thread(target=project.processor.tick)
    ticking.start()
    assert gate.entered.wait(PATIENCE)

    with connection.transaction():
        # A change in the caller's transaction does not plan the schedule.
        project.schedules.update(schedule.id, connection=connection, **changes)
    gate.opened.set()
    ticking.join(PATIENCE)

    found = project.schedules.get(schedule.id)
    if after is None:
        assert (found.status, found.next_action_id) == ("ended", None)
    else:
        planned = project.scheduler.get_action(found.next_action_id)
        assert planned.scheduled_at == apply_jitter(found, NOW + HOUR + after)


def test_the_sweep_plans_a_schedule_whose_process_ended_between_claim_and_planning(a_project, connection):
    steps = Stepping()
    project = a_project(steps.function)
    schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps")
    # The state after a process is killed between claim and planning: the occurrence is recorded, the next one is not
    # planned.
    connection.execute("delete from scheduled_actions")
    connection.execute(
        "update scheduled_action_schedules"
        " set last_occurrence_at = next_occurrence_at, next_action_id = null, next_occurrence_at = null"
    )

    tick_at(project, connection, HOUR)

    assert stored(connection, schedule) == ("active", None, 2 * HOUR)


CHANGES = {
    "resume": lambda schedules, one: operations.resume(schedules, one.id),
    "update": lambda schedules, one: schedules.update(one.id, timezone="Europe/Berlin"),
    "put": lambda schedules, one: schedules.schedule_recurring(
        "test:run", {}, "custom:steps", name="series", timezone="Europe/Berlin"
    ),
    "skip_next": lambda schedules, one: operations.skip_next(schedules, one.id),
    "backfill": lambda schedules, one: operations.backfill(schedules, one.id, NOW - 3 * HOUR, NOW),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_by_a_person_calls_functions_without_row_locks(a_project, connection, database_url, gate, change):
    steps = Stepping()
    project = a_project(steps.function)
    schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps", name="series")
    if change == "resume":
        operations.pause(project.schedules, schedule.id)
    # With a later time, no cached result is used, and the function is called.
    set_clock(connection, NOW + SECOND)
    steps.before = gate
    changed = []

    changing = threading.Thread(target=lambda: changed.append(CHANGES[change](project.schedules, schedule)))
    changing.start()
    assert gate.entered.wait(PATIENCE)
    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_action_schedules for update nowait")
    gate.opened.set()
    changing.join(PATIENCE)

    expected = {"skip_next": 2 * HOUR, "backfill": HOUR}.get(change, HOUR + SECOND)
    assert stored(connection, schedule) == ("active", None, expected)
    if change != "backfill":
        assert changed[0].next_occurrence_at == NOW + expected


def test_cancelling_a_planned_occurrence_plans_the_next_one_without_row_locks(
    a_project, connection, database_url, gate
):
    steps = Stepping()
    project = a_project(steps.function)
    schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps")
    steps.before = gate

    cancelling = threading.Thread(target=project.scheduler.cancel_action, args=[schedule.next_action_id])
    cancelling.start()
    assert gate.entered.wait(PATIENCE)
    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_action_schedules for update nowait")
        other.execute("select from scheduled_actions for update nowait")
    gate.opened.set()
    cancelling.join(PATIENCE)

    assert stored(connection, schedule) == ("active", None, 2 * HOUR)


def test_cancelling_many_planned_occurrences_plans_the_next_of_each_without_row_locks(a_project, connection):
    """At the end, the request plans the schedules that its transactions left unplanned."""
    steps = Stepping()
    project = a_project(steps.function)
    series = [project.schedules.schedule_recurring("test:run", {}, "custom:steps") for _ in range(3)]
    management = ActionOperations(project.database, lambda: project.scheduler, bounds=SearchBounds(batch_size=2))

    def look():
        connection.execute("select from scheduled_action_schedules for update nowait")
        connection.execute("select from scheduled_actions for update nowait")

    steps.before = look
    changed = management.cancel_matching(
        ActionFilters(statuses=(Status.PENDING,)), by=None, reason=None, limit=3, cursor=None
    )

    assert changed.changed == 3
    assert [stored(connection, schedule) for schedule in series] == [("active", None, 2 * HOUR)] * 3


def test_schedules_of_several_users_that_are_changed_together_are_planned_afterwards(a_project, connection):
    @skip_occurrence("never")
    def never(moment):
        return False

    project = a_project(never)

    def schedule_at(clock):
        scheduled = project.local_scheduling.schedule_local(
            "test:run", {}, clock, {"ann": "UTC", "kai": "UTC"},
            recurrence="daily", name="greet", skip={"function": "never"},
        )  # fmt: skip
        return [stored(connection, project.schedules.get(one.schedule_id)) for one in scheduled]

    assert schedule_at("14:00") == [("active", None, 2 * HOUR)] * 2
    assert schedule_at("15:00") == [("active", None, 3 * HOUR)] * 2


def test_a_schedule_created_in_the_callers_transaction_is_planned_in_it(a_project, connection):
    project = a_project(Stepping().function)

    with connection.transaction():
        schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps", connection=connection)

    assert schedule.next_occurrence_at == NOW + HOUR
    assert stored(connection, schedule) == ("active", None, HOUR)


def test_a_schedule_whose_function_hangs_is_rejected_and_not_stored(a_project, connection, gate):
    steps = Stepping()
    steps.before = gate
    project = a_project(steps.function, function_timeout_seconds=SHORT)

    with pytest.raises(FunctionTimedOut):
        project.schedules.schedule_recurring("test:run", {}, "custom:steps")

    assert connection.execute("select count(*) from scheduled_action_schedules").fetchone() == (0,)


def test_a_sweep_processes_each_schedule_once_however_many_wait_for_a_function(
    a_project, connection, gate, monkeypatch
):
    steps = Stepping()
    project = a_project(steps.function, function_timeout_seconds=SHORT)
    for _ in range(5):
        project.schedules.schedule_recurring("test:run", {}, "custom:steps")
    plain = project.schedules.schedule_recurring("test:run", {}, "PT1H")
    connection.execute("delete from scheduled_actions")
    connection.execute("update scheduled_action_schedules set next_action_id = null, next_occurrence_at = null")
    monkeypatch.setattr(series, "_BATCH", 2)
    steps.before = gate

    tick_at(project, connection, HOUR / 2)

    assert stored(connection, plain) == ("active", None, HOUR)


def test_a_schedule_that_is_locked_when_its_function_returns_is_left_to_the_sweep(
    a_project, connection, database_url, gate
):
    steps = Stepping()
    project = a_project(steps.function)
    schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps")
    set_clock(connection, NOW + HOUR)
    steps.before = gate
    ticking = threading.Thread(target=project.processor.tick)
    ticking.start()
    assert gate.entered.wait(PATIENCE)

    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_action_schedules for update")
        gate.opened.set()
        # The tick ends after the lock timeout of a statement.
        ticking.join(PATIENCE)
    assert not ticking.is_alive()
    assert stored(connection, schedule) == ("active", None, None)

    project.processor.state.next_sweep = 0
    tick_at(project, connection, HOUR + SWEEP_AGAIN)
    assert stored(connection, schedule) == ("active", None, 2 * HOUR)


def test_a_resolver_that_hangs_times_out_and_one_that_exits_is_an_error(a_project, gate):
    @resolve_recipients("hangs")
    def hangs(name, team_id):
        gate()

    @resolve_recipients("leaves")
    def leaves(name, team_id):
        raise SystemExit

    resolvers = a_project(hangs, leaves, function_timeout_seconds=SHORT).registry.resolvers

    with pytest.raises(FunctionTimedOut):
        resolvers["hangs"]("cfo", None)
    with pytest.raises(FunctionFailed, match="raised SystemExit"):
        resolvers["leaves"]("cfo", None)


@pytest.mark.parametrize("change", [operations.resume, Schedules.update])
def test_a_change_in_the_callers_transaction_calls_no_function_and_leaves_planning_to_the_sweep(
    a_project, connection, change
):
    steps = Stepping()
    project = a_project(steps.function)
    schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps")
    if change is operations.resume:
        operations.pause(project.schedules, schedule.id)
    set_clock(connection, NOW + SECOND)
    called = len(steps.moments)
    options = {} if change is operations.resume else {"timezone": "Europe/Berlin"}

    with connection.transaction():
        change(project.schedules, schedule.id, connection=connection, **options)

    assert len(steps.moments) == called
    assert stored(connection, schedule) == ("active", None, None)
    tick_at(project, connection, 2 * SECOND)
    assert stored(connection, schedule) == ("active", None, HOUR + 2 * SECOND)


def test_a_schedule_declared_in_code_is_planned_by_its_function(database_url, connection):
    set_clock(connection, NOW)
    steps = Stepping()

    @action("test:run", recurrence="custom:steps")
    def run(payload: dict) -> None:
        """Do nothing."""

    with projects(database_url) as make:
        project = make(run, steps.function)
        project.processor.tick()
        assert connection.execute("select next_occurrence_at from scheduled_action_schedules").fetchall() == [
            (NOW + HOUR,)
        ]
        connection.execute("truncate scheduled_action_schedules, scheduled_actions")
        sync(project.schedules, force=True)

    assert connection.execute("select next_occurrence_at from scheduled_action_schedules").fetchall() == [(NOW + HOUR,)]
