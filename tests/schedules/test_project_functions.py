"""Functions of the project that plan series: outside the tick's transactions, within a time limit."""

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
#: Later than any sweep that a tick of this project has begun.
SWEEP_AGAIN = timedelta(seconds=301)


class Stepping:
    """A rule of the project: `step` after the instant it is given, after what `before` does."""

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
    """Holds back who comes until it is opened, however long."""

    def __init__(self):
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self):
        self.entered.set()
        self.opened.wait(PATIENCE)


@pytest.fixture
def gate():
    """Return a gate that is open at the end of the test."""
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def a_project(database_url, connection):
    """Return a function that makes a project of functions and a handler, on a clock that stands at NOW."""
    set_clock(connection, NOW)

    @action("test:run")
    def run(payload: dict) -> None:
        """Do nothing."""

    with projects(database_url) as make:
        yield lambda *functions, **settings: make(run, *functions, **settings)


def stored(connection, schedule):
    """Return status, note and the planned instant of a schedule, the latter from NOW."""
    status, note, at = connection.execute(
        "select s.status, s.status_reason, a.occurrence_at from scheduled_action_schedules s"
        " left join scheduled_actions a on a.id = s.next_action_id and a.status = 'pending' where s.id = %s",
        [schedule.id],
    ).fetchone()
    return status, note, None if at is None else at - NOW


def tick_at(project, connection, moment):
    """Tick at a moment from NOW; return the report."""
    set_clock(connection, NOW + moment)
    return project.processor.tick()


def test_a_function_runs_under_no_row_lock_and_holds_no_other_action_up(a_project, connection, database_url, gate):
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
def test_a_function_that_hangs_defers_its_series_with_the_reason_until_it_returns(a_project, connection, gate, rule):
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
def test_a_function_that_raises_pauses_its_series_and_no_other(a_project, connection, raised):
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
def test_a_rolling_series_of_a_function_is_planned_when_its_run_has_ended(database_url, connection, transactional):
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


def test_a_planning_thread_that_cannot_be_started_costs_no_tick_and_the_sweep_plans(a_project, connection, monkeypatch):
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

    # The first tick of another process sweeps.
    tick_at(a_project(steps.function), connection, HOUR + SWEEP_AGAIN)
    assert stored(connection, schedule) == ("active", None, 2 * HOUR)


def test_an_answer_for_a_series_that_was_changed_meanwhile_is_dropped(a_project, connection, gate):
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


CHANGED_MEANWHILE = [
    ({"jitter_seconds": 600.0}, HOUR),
    # What leaves a planned occurrence where it is leaves this one to be planned, too.
    ({"misfire": "skip"}, HOUR),
    ({"until": NOW + 90 * MINUTE}, None),
]


@pytest.mark.parametrize(("changes", "after"), CHANGED_MEANWHILE)
def test_an_answer_for_a_series_that_was_changed_meanwhile_is_found_again(a_project, connection, gate, changes, after):
    steps = Stepping()
    project = a_project(steps.function)
    schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps")
    set_clock(connection, NOW + HOUR)
    steps.before = gate
    ticking = threading.Thread(target=project.processor.tick)
    ticking.start()
    assert gate.entered.wait(PATIENCE)

    with connection.transaction():
        # In a transaction of the caller's nothing else plans it.
        project.schedules.update(schedule.id, connection=connection, **changes)
    gate.opened.set()
    ticking.join(PATIENCE)

    found = project.schedules.get(schedule.id)
    if after is None:
        assert (found.status, found.next_action_id) == ("ended", None)
    else:
        planned = project.scheduler.get_action(found.next_action_id)
        assert planned.scheduled_at == apply_jitter(found, NOW + HOUR + after)


def test_what_was_interrupted_between_claim_and_planning_is_found_by_the_sweep(a_project, connection):
    steps = Stepping()
    project = a_project(steps.function)
    schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps")
    # As a process leaves it that is killed after the claim: accounted for, and nothing planned.
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
def test_a_change_by_a_person_calls_functions_under_no_row_lock(a_project, connection, database_url, gate, change):
    steps = Stepping()
    project = a_project(steps.function)
    schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps", name="series")
    if change == "resume":
        operations.pause(project.schedules, schedule.id)
    # Nothing that was called for before is called for again.
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


def test_cancelling_a_planned_occurrence_plans_the_next_under_no_row_lock(a_project, connection, database_url, gate):
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


def test_cancelling_many_planned_occurrences_plans_the_next_of_each_under_no_row_lock(a_project, connection):
    """By code and from the command line: a request plans at its end what its transactions left."""
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


def test_series_of_users_that_are_changed_together_are_planned_when_they_have_been(a_project, connection):
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


def test_a_schedule_made_in_the_callers_transaction_is_planned_in_it(a_project, connection):
    project = a_project(Stepping().function)

    with connection.transaction():
        schedule = project.schedules.schedule_recurring("test:run", {}, "custom:steps", connection=connection)

    assert schedule.next_occurrence_at == NOW + HOUR
    assert stored(connection, schedule) == ("active", None, HOUR)


def test_a_schedule_whose_function_hangs_is_refused_and_not_stored(a_project, connection, gate):
    steps = Stepping()
    steps.before = gate
    project = a_project(steps.function, function_timeout_seconds=SHORT)

    with pytest.raises(FunctionTimedOut):
        project.schedules.schedule_recurring("test:run", {}, "custom:steps")

    assert connection.execute("select count(*) from scheduled_action_schedules").fetchone() == (0,)


def test_a_sweep_meets_each_series_once_however_many_wait_for_a_function(a_project, connection, gate, monkeypatch):
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


def test_a_series_that_is_locked_while_its_function_answers_is_left_to_the_sweep(
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
        # Longer than a statement waits for a lock.
        ticking.join(PATIENCE)
    assert not ticking.is_alive()
    assert stored(connection, schedule) == ("active", None, None)

    project.processor.state.next_sweep = 0
    tick_at(project, connection, HOUR + SWEEP_AGAIN)
    assert stored(connection, schedule) == ("active", None, 2 * HOUR)


def test_a_resolver_that_hangs_ends_at_the_limit_and_one_that_leaves_is_an_error(a_project, gate):
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
def test_a_change_in_the_callers_transaction_calls_no_function_and_is_planned_by_the_sweep(
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


def test_a_series_that_the_code_declares_is_planned_by_its_function(database_url, connection):
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
