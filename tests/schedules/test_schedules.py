"""Creating and changing schedules: repeated calls have no further effect, and changes are atomic."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import ClassVar
from uuid import uuid4

import psycopg
import pytest
from pydantic import BaseModel, field_validator

from scheduled_actions import action
from scheduled_actions.core.errors import (
    InvalidArgument,
    NeverOccurs,
    NothingPlanned,
    RecurrenceInvalid,
    RequestError,
    ScheduleEnded,
    UnknownActionType,
    UnknownSchedule,
)
from scheduled_actions.registry import Registry
from scheduled_actions.schedules import operations
from scheduled_actions.schedules.service import Schedules
from scheduled_actions.schedules.sync import sync
from tests.factories import NOW, projects, row, set_clock, statuses, together

#: Intentionally without a time zone.
NAIVE = datetime(2026, 3, 5, 9, 0)  # noqa: DTZ001
MINUTE, HOUR, DAY = (timedelta(seconds=seconds) for seconds in (60, 3600, 86400))


@action("test:run")
def run(payload: dict):
    return None


@pytest.fixture
def a_project(database_url, connection):
    """Return a function that creates a project on the test's database, with the clock set to NOW."""
    set_clock(connection, NOW)
    with projects(database_url) as make:
        yield make


@pytest.fixture
def schedules(a_project):
    return a_project(run).schedules


def count(connection, table):
    return connection.execute(f"select count(*) from {table}").fetchone()[0]


# -- creating ----------------------------------------------------------------------------------------------------------


def test_a_new_schedule_has_its_first_occurrence_planned(schedules, connection):
    made = schedules.schedule_recurring("test:run", {"n": 1}, "0 9 * * *", timezone="Europe/Berlin", team_id="t")

    planned = row(connection, made.next_action_id)
    assert (made.kind, made.status, made.next_occurrence_at) == ("cron", "active", NOW.replace(hour=8) + DAY)
    assert (planned["status"], planned["payload"], planned["team_id"]) == ("pending", {"n": 1}, "t")
    assert planned["schedule_id"] == str(made.id)
    assert planned["occurrence_at"] == planned["scheduled_at"] == "2026-03-05T08:00:00+00:00"


def test_a_rule_for_days_of_the_week_is_stored_as_written_and_occurs_in_the_time_zone(schedules):
    made = schedules.schedule_recurring("test:run", {}, "Every weekday at 09:00", timezone="Europe/Berlin")

    assert (made.kind, made.recurrence) == ("rrule", "Every weekday at 09:00")
    assert made.next_occurrence_at == NOW.replace(hour=8) + DAY


def test_a_repeated_call_without_a_name_logs_a_warning_with_the_name_to_give(schedules, caplog):
    arguments = {"user_id": "ann", "target": {"type": "license", "id": "42"}, "team_id": "blue"}
    first = schedules.schedule_recurring("test:run", {"n": 1}, "daily", **arguments)
    assert caplog.messages == []

    second = schedules.schedule_recurring("test:run", {"n": 1}, "daily", **arguments)

    assert caplog.messages == [
        f'schedule.doubled id={second.id} action_type=test:run same_as={first.id} hint=pass name="test:run"'
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"user_id": "bob"},
        {"target": {"type": "license", "id": "43"}},
        {"team_id": "red"},
        {"payload": {"n": 2}},
        {"recurrence": "weekly"},
        {"timezone": "Europe/Berlin"},
        {"scheduled_at": HOUR},
        {"name": "nightly"},
    ],
)
def test_a_different_schedule_without_a_name_logs_no_warning(schedules, caplog, other):
    given = {"action_type": "test:run", "payload": {}, "recurrence": "daily", "user_id": "ann"}
    schedules.schedule_recurring(**given)

    schedules.schedule_recurring(**given | other)

    assert caplog.messages == []


def test_a_repeated_call_after_the_schedule_was_paused_logs_no_warning(schedules, caplog):
    first = schedules.schedule_recurring("test:run", {}, "daily")
    operations.pause(schedules, first.id)

    schedules.schedule_recurring("test:run", {}, "daily")

    assert caplog.messages == []


@pytest.mark.parametrize("start", [None, timedelta(0), HOUR])
def test_a_rule_with_a_count_has_that_many_occurrences_whether_or_not_it_has_a_start(schedules, start):
    made = schedules.schedule_recurring("test:run", {}, "FREQ=DAILY;COUNT=5", scheduled_at=start)

    rule = schedules.hook.planner.rules.rule_of(made)
    first = NOW + DAY if start is None else NOW + start
    assert made.next_occurrence_at == first
    assert [one.at for one in rule.between(first, first + 9 * DAY, limit=9)] == [first + n * DAY for n in range(1, 5)]


@pytest.mark.parametrize("rule", ["R3/2026-03-05T09:00/P1D", "R3/2026-03-05T08:00:00Z/P1D"])
def test_a_repeating_interval_starts_at_its_start_and_has_its_number_of_occurrences(schedules, rule):
    made = schedules.schedule_recurring("test:run", {}, rule, timezone="Europe/Berlin")

    first = datetime(2026, 3, 5, 8, tzinfo=UTC)
    found = schedules.hook.planner.rules.rule_of(made).between(NOW, NOW + 9 * DAY, limit=9)
    assert made.next_occurrence_at == first
    assert [one.at for one in found] == [first, first + DAY, first + 2 * DAY]


def test_a_repeating_interval_without_a_start_has_its_number_of_occurrences_after_now(schedules):
    made = schedules.schedule_recurring("test:run", {}, "R2/P1D")

    found = schedules.hook.planner.rules.rule_of(made).between(NOW - DAY, NOW + 9 * DAY, limit=9)
    assert [one.at for one in found] == [NOW + DAY, NOW + 2 * DAY]


def test_a_change_keeps_the_start_of_a_rule_with_a_count(schedules):
    made = schedules.schedule_recurring("test:run", {}, "FREQ=DAILY;COUNT=5")

    changed = schedules.update(made.id, priority=1)

    assert changed.anchor_at == made.anchor_at


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (None, NOW + DAY),
        (timedelta(0), NOW),
        (2 * HOUR, NOW + 2 * HOUR),
        (NOW + 3 * HOUR, NOW + 3 * HOUR),
        (NOW - timedelta(seconds=2), NOW - timedelta(seconds=2)),
        (NOW - 10 * DAY - HOUR, NOW + DAY - HOUR),
    ],
)
def test_the_first_occurrence_is_at_the_given_start(schedules, start, first):
    assert schedules.schedule_recurring("test:run", {}, "daily", scheduled_at=start).next_occurrence_at == first


def test_a_naive_start_is_in_the_zone_of_the_schedule(schedules):
    made = schedules.schedule_recurring("test:run", {}, "daily", scheduled_at=NAIVE, timezone="America/New_York")

    assert made.next_occurrence_at == datetime(2026, 3, 5, 14, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("arguments", "error", "expected"),
    [
        ({"recurrence": "0 25 * * *"}, RecurrenceInvalid, "hour"),
        ({"recurrence": "0 0 30 2 *"}, NeverOccurs, "30"),
        ({"recurrence": "RRULE:FREQ=DAILY;INTERVAL=0"}, RecurrenceInvalid, "INTERVAL"),
        ({"recurrence": "dayly"}, RecurrenceInvalid, "daily"),
        ({"recurrence": ""}, RequestError, "recurrence"),
        ({"recurrence": None}, RequestError, "recurrence"),
        ({"recurrence": 10}, InvalidArgument, 'recurrence 10 has no unit: write, for example, "every 10 minutes"'),
        ({"recurrence": "10"}, RecurrenceInvalid, 'recurrence "10": has no unit: write, for example, "every 10 min'),
        ({"recurrence": "TEN_MINS"}, RecurrenceInvalid, 'did you mean "every 10 minutes"?'),
        ({"recurrence": True}, InvalidArgument, "recurrence: True is not a string"),
        ({"action_type": "test:rum"}, UnknownActionType, "test:run"),
        ({"payload": []}, InvalidArgument, "payload"),
        ({"timezone": "Mars/Olympus"}, InvalidArgument, "timezone"),
        ({"misfire": "sometimes"}, InvalidArgument, "misfire"),
        ({"overlap": "never"}, InvalidArgument, "overlap"),
        ({"requires_previous": "yes"}, InvalidArgument, "requires_previous"),
        ({"recurrence_type": "square"}, InvalidArgument, "recurrence_type"),
        ({"remaining": 0}, InvalidArgument, "remaining"),
        ({"remaining": True}, InvalidArgument, "remaining"),
        ({"pause_after_failures": -1}, InvalidArgument, "pause_after_failures"),
        ({"jitter_seconds": -1}, InvalidArgument, "jitter_seconds"),
        ({"jitter_seconds": float("nan")}, InvalidArgument, "jitter_seconds"),
        ({"until": NOW - DAY}, RecurrenceInvalid, "daily"),
        ({"until": "tomorrow"}, InvalidArgument, "until"),
        ({"until": DAY}, InvalidArgument, "until"),
        ({"scheduled_at": "now"}, InvalidArgument, "scheduled_at"),
        ({"skip": {"weekdays": True}}, RequestError, "weekends"),
        ({"skip": "weekends"}, RequestError, "skip"),
        ({"name": str(uuid4())}, InvalidArgument, "name"),
        ({"name": ""}, InvalidArgument, "name"),
        ({"lock_group_blocks": "yes"}, InvalidArgument, "lock_group_blocks"),
        ({"misfires": 1}, InvalidArgument, "misfire"),
        ({"priority": 1 << 20}, InvalidArgument, "priority"),
    ],
)
def test_an_invalid_argument_is_rejected_by_name_and_nothing_is_stored(
    schedules, connection, arguments, error, expected
):
    given = {"action_type": "test:run", "payload": {}, "recurrence": "daily"} | arguments

    with pytest.raises(error) as caught:
        schedules.schedule_recurring(**given)

    assert expected in str(caught.value)
    assert count(connection, "scheduled_action_schedules") == count(connection, "scheduled_actions") == 0


def test_a_schedule_created_in_the_callers_transaction_is_rolled_back_with_it(schedules, connection, database_url):
    with psycopg.connect(database_url) as own:
        schedules.schedule_recurring("test:run", {}, "daily", connection=own)
        own.rollback()

    assert count(connection, "scheduled_action_schedules") == count(connection, "scheduled_actions") == 0


# -- repeated calls ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [None, HOUR, NOW + HOUR])
def test_an_upsert_with_the_same_arguments_changes_nothing(schedules, connection, start):
    first = schedules.schedule_recurring("test:run", {"n": 1}, "daily", name="report", scheduled_at=start)
    set_clock(connection, NOW + 30 * MINUTE)

    again = schedules.schedule_recurring("test:run", {"n": 1}, "daily", name="report", scheduled_at=start)

    assert again == first


def test_an_upsert_with_another_rule_replans_the_schedule_under_the_same_id(schedules, connection):
    first = schedules.schedule_recurring("test:run", {}, "daily", name="report")

    again = schedules.schedule_recurring("test:run", {"n": 2}, "hourly", name="report")

    assert (again.id, again.next_occurrence_at) == (first.id, NOW + HOUR)
    assert list(statuses(connection)) == [again.next_action_id]
    assert row(connection, again.next_action_id)["payload"] == {"n": 2}


def test_an_upsert_with_another_payload_changes_the_planned_occurrence(schedules, connection):
    first = schedules.schedule_recurring("test:run", {"n": 1}, "daily", name="report")
    set_clock(connection, NOW + HOUR)

    again = schedules.schedule_recurring("test:run", {"n": 2}, "daily", name="report", priority=-3)

    assert (again.next_action_id, again.next_occurrence_at) == (first.next_action_id, first.next_occurrence_at)
    planned = row(connection, again.next_action_id)
    assert (planned["payload"], planned["priority"]) == ({"n": 2}, -3)


def test_a_name_belongs_to_its_team(schedules):
    made = {schedules.schedule_recurring("test:run", {}, "daily", name="report", team_id=team).id for team in "ab"}

    assert len(made) == 2
    with pytest.raises(UnknownSchedule):
        schedules.get("report", team_id="c")
    assert schedules.get("report", team_id="a").team_id == "a"


def test_the_action_type_of_a_named_schedule_cannot_change(schedules, a_project):
    schedules.schedule_recurring("test:run", {}, "daily", name="report")
    other = a_project(run, action("test:other")(lambda payload: None)).schedules

    with pytest.raises(InvalidArgument, match="test:run"):
        other.schedule_recurring("test:other", {}, "daily", name="report")


def test_concurrent_upserts_with_one_name_create_one_schedule(schedules, connection, database_url):
    made = together(
        database_url, 8, lambda _, number: schedules.schedule_recurring("test:run", {}, "daily", name="report").id
    )

    assert len(set(made)) == 1
    assert count(connection, "scheduled_actions") == 1


# -- changing ----------------------------------------------------------------------------------------------------------


def test_an_edited_rule_is_replanned_in_the_same_transaction(schedules, connection):
    made = schedules.schedule_recurring("test:run", {"n": 1}, "daily", overlap="queue", remaining=5)

    edited = schedules.update(made.id, recurrence="every 2 hours")

    assert edited.next_occurrence_at == NOW + 2 * HOUR
    assert (edited.overlap, edited.remaining, edited.payload) == ("queue", 5, {"n": 1})
    assert list(statuses(connection).values()) == ["pending"]


def test_none_resets_an_argument_to_its_default(schedules):
    made = schedules.schedule_recurring("test:run", {}, "daily", until=NOW + 9 * DAY, overlap="queue")

    edited = schedules.update(made.id, until=None, overlap=None)

    assert (edited.until, edited.overlap) == (None, "skip")


def test_a_rejected_edit_changes_nothing(schedules, connection):
    made = schedules.schedule_recurring("test:run", {}, "daily")

    with pytest.raises(RecurrenceInvalid):
        schedules.update(made.id, recurrence="0 0 31 2 *", payload={"n": 2})

    assert schedules.get(made.id) == made


def test_an_ended_schedule_continues_if_its_end_is_extended(schedules, a_project, connection):
    made = schedules.schedule_recurring("test:run", {}, "daily", remaining=1)
    set_clock(connection, NOW + DAY)
    a_project(run).processor.tick()
    assert schedules.get(made.id).status == "ended"

    edited = schedules.update(made.id, remaining=2)

    assert (edited.status, edited.remaining, edited.next_occurrence_at) == ("active", 2, NOW + 2 * DAY)


def test_a_pause_deletes_the_planned_occurrence_and_a_resume_creates_no_missed_ones(schedules, a_project, connection):
    made = schedules.schedule_recurring("test:run", {}, "daily")

    paused = operations.pause(schedules, made.id, reason="the printer is broken", by="ann")
    set_clock(connection, NOW + 5 * DAY + HOUR)
    a_project(run).processor.tick()
    resumed = operations.resume(schedules, made.id, by="bob")

    assert (paused.status, paused.status_reason, paused.status_by) == ("paused", "the printer is broken", "ann")
    assert paused.next_action_id is None
    assert (resumed.status, resumed.next_occurrence_at, resumed.missed) == ("active", NOW + 6 * DAY, 0)
    assert list(statuses(connection).values()) == ["pending"]


def test_a_paused_schedule_can_be_edited_and_stays_paused(schedules):
    made = schedules.schedule_recurring("test:run", {}, "daily")
    operations.pause(schedules, made.id)

    edited = schedules.update(made.id, recurrence="hourly")

    assert (edited.status, edited.next_action_id) == ("paused", None)
    assert operations.resume(schedules, made.id).next_occurrence_at == NOW + HOUR


def test_an_additional_run_leaves_the_planned_occurrence_unchanged(schedules, a_project, connection):
    made = schedules.schedule_recurring("test:run", {}, "daily", remaining=3)

    extra = operations.run_now(schedules, made.id, by="ann")
    a_project(run).processor.tick()

    found = row(connection, extra.id)
    after = schedules.get(made.id)
    assert (found["status"], found["occurrence_at"], found["created_by"]) == ("completed", None, "ann")
    assert (after.remaining, after.next_action_id) == (3, made.next_action_id)


def test_skipping_the_planned_occurrence_plans_the_one_after_it(schedules, connection):
    made = schedules.schedule_recurring("test:run", {}, "daily", remaining=2)

    after = operations.skip_next(
        schedules, made.id, next_action_id=str(made.next_action_id), reason="a holiday", by="ann"
    )

    skipped = row(connection, made.next_action_id)
    assert (skipped["status"], skipped["error_message"]) == ("skipped", "a holiday")
    assert (after.next_occurrence_at, after.skipped, after.remaining) == (NOW + 2 * DAY, 1, 2)


def test_a_cancelled_occurrence_does_not_end_its_series(schedules, a_project):
    made = schedules.schedule_recurring("test:run", {}, "daily")

    a_project(run).scheduler.cancel_action(made.next_action_id)

    assert schedules.get(made.id).next_occurrence_at == NOW + 2 * DAY


def test_deleting_a_schedule_keeps_its_past_actions_and_deletes_the_planned_one(schedules, a_project, connection):
    made = schedules.schedule_recurring("test:run", {}, "daily")
    set_clock(connection, NOW + DAY)
    a_project(run).processor.tick()

    operations.delete(schedules, made.id)

    assert list(statuses(connection).values()) == ["completed"]
    with pytest.raises(UnknownSchedule):
        schedules.get(made.id)


@pytest.mark.parametrize("change", [operations.pause, operations.skip_next])
def test_an_ended_schedule_cannot_be_paused_or_skipped(schedules, a_project, connection, change):
    made = schedules.schedule_recurring("test:run", {}, "daily", remaining=1)
    set_clock(connection, NOW + DAY)
    a_project(run).processor.tick()

    with pytest.raises((ScheduleEnded, NothingPlanned)):
        change(schedules, made.id)


CHANGES = [
    Schedules.get,
    Schedules.update,
    operations.pause,
    operations.resume,
    operations.run_now,
    operations.skip_next,
    operations.delete,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reference", [uuid4(), "unknown", "x" * 200])
def test_every_operation_reports_an_unknown_schedule(schedules, change, reference):
    with pytest.raises(UnknownSchedule):
        change(schedules, reference)


@pytest.mark.parametrize("change", CHANGES)
def test_the_schedule_of_another_team_is_reported_as_unknown(schedules, change):
    made = schedules.schedule_recurring("test:run", {}, "daily", team_id="a", name="report")

    for reference in (made.id, "report"):
        with pytest.raises(UnknownSchedule):
            change(schedules, reference, team_id="b")
    assert schedules.get(made.id) == made


# -- backfill ----------------------------------------------------------------------------------------------------------


def test_a_backfill_creates_missing_occurrences_and_no_duplicates(schedules, a_project, connection):
    made = schedules.schedule_recurring("test:run", {}, "0 9 * * *")
    set_clock(connection, NOW + DAY)
    a_project(run).processor.tick()
    nine = NOW.replace(hour=9)

    ids = operations.backfill(schedules, made.id, nine - 2 * DAY, nine + DAY, by="ann")
    again = operations.backfill(schedules, made.id, nine - 2 * DAY, nine + DAY)

    instants = {row(connection, one)["occurrence_at"] for one in ids}
    assert instants == {(nine + day * DAY).isoformat() for day in (-2, -1, 0)}
    assert again == []


@pytest.mark.parametrize(
    ("rule", "days"),
    [
        ("monthly", ["2026-02-14"]),
        ("every 2 weeks", ["2026-01-31", "2026-02-14", "2026-02-28"]),
        ("P20DT24H", ["2026-01-31", "2026-02-21"]),
        ("P1M3D", ["2026-02-11"]),
        ("PT480H", ["2026-02-02", "2026-02-22"]),
        ("P1Y", []),
        ("last business day of the month", ["2026-01-30", "2026-02-27"]),
        ("0 13 1 * *", ["2026-02-01", "2026-03-01"]),
        ("FREQ=WEEKLY", []),
        ("DTSTART:20260101T130000Z\nRRULE:FREQ=WEEKLY;INTERVAL=4;COUNT=9", ["2026-01-29", "2026-02-26"]),
    ],
)
def test_a_backfill_from_before_the_start_keeps_the_phase_of_the_start(schedules, connection, rule, days):
    made = schedules.schedule_recurring("test:run", {}, rule, scheduled_at=NOW + 10 * DAY + HOUR)

    ids = operations.backfill(schedules, made.id, NOW - 40 * DAY, NOW)

    assert [row(connection, one)["occurrence_at"] for one in ids] == [f"{day}T13:00:00+00:00" for day in days]


@pytest.mark.parametrize("rule", ["daily", "3rd business day of the month", "0 12 * * *"])
def test_a_backfill_from_before_the_start_creates_no_second_occurrence_on_a_day(schedules, a_project, connection, rule):
    made = schedules.schedule_recurring("test:run", {}, rule, scheduled_at=NOW)
    a_project(run).processor.tick()
    set_clock(connection, NOW + DAY)

    ids = operations.backfill(schedules, made.id, NOW - HOUR, NOW + HOUR)

    assert ids == []


def test_backfilled_occurrences_run_one_after_the_other(schedules, a_project, connection):
    made = schedules.schedule_recurring("test:run", {}, "hourly")

    operations.backfill(schedules, made.id, NOW - 4 * HOUR, NOW)

    groups = connection.execute("select distinct lock_group from scheduled_actions where scheduled_at <= %s", [NOW])
    assert [group for (group,) in groups] == [f"schedule:{made.id}"]
    assert a_project(run).processor.tick().succeeded == 5


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (NOW, NOW - DAY, "end"),
        (NOW, NOW + DAY, "future"),
        (NOW - 1000 * DAY, NOW, "1,000"),
        (NOW, "tomorrow", "an ISO 8601 time or day"),
        (None, NOW, "an instant between"),
    ],
)
def test_an_invalid_backfill_range_is_rejected(schedules, connection, start, end, expected):
    made = schedules.schedule_recurring("test:run", {}, "hourly")

    with pytest.raises(InvalidArgument, match=expected):
        operations.backfill(schedules, made.id, start, end)

    assert count(connection, "scheduled_actions") == 1


# -- declared schedules ------------------------------------------------------------------------------------------------


def declaring(recurrence, name="test:run"):
    return Registry.of(action(name, recurrence=recurrence)(lambda payload: None))


def test_a_declared_schedule_is_created_on_the_first_tick_and_kept(a_project):
    project = a_project(registry=declaring({"rule": "0 9 * * *", "timezone": "Europe/Berlin", "payload": {"n": 1}}))

    project.processor.tick()
    again = a_project(registry=declaring({"rule": "0 9 * * *", "timezone": "Europe/Berlin", "payload": {"n": 1}}))
    again.processor.tick()

    (made,) = project.schedules.find()
    assert (made.name, made.payload, made.timezone, made.is_declared) == ("test:run", {"n": 1}, "Europe/Berlin", True)


def test_a_changed_declaration_changes_its_schedule_and_a_removed_one_pauses_it(a_project):
    project = a_project(registry=declaring("daily"))
    sync(project.schedules)
    (made,) = project.schedules.find()

    sync(a_project(registry=declaring("hourly")).schedules)
    assert project.schedules.get(made.id).next_occurrence_at == NOW + HOUR
    done = sync(a_project(registry=Registry.of(run)).schedules)
    paused = project.schedules.get(made.id)
    resumed = sync(a_project(registry=declaring("hourly")).schedules)

    assert done["paused"] == resumed["resumed"] == ["test:run"]
    assert (paused.status, paused.status_reason) == ("paused", "its declaration was removed from the code")
    assert project.schedules.get(made.id).status == "active"


def test_a_declared_schedule_that_a_person_paused_stays_paused(a_project):
    project = a_project(registry=declaring("daily"))
    sync(project.schedules)
    operations.pause(project.schedules, "test:run", by="ann")

    sync(a_project(registry=declaring("hourly")).schedules)

    found = project.schedules.get("test:run")
    assert (found.status, found.recurrence) == ("paused", "hourly")


def test_an_invalid_declaration_does_not_affect_others(a_project):
    good = action("test:good", recurrence="daily")(lambda payload: None)

    def handle(payload: dict) -> None:
        return None

    bad = action("test:bad", recurrence={"rule": "daily", "skip": {"function": "unknown"}})(handle)
    project = a_project(registry=Registry.of(good, bad))

    done = sync(project.schedules)

    assert done["created"] == ["test:good"]
    assert "unknown" in done["refused"][0]
    assert [one.name for one in project.schedules.find()] == ["test:good"]


class Watched(BaseModel):
    """A payload whose validation calls `watch`."""

    watch: ClassVar[Callable[[], None]]
    amount: int = 1

    @field_validator("amount", mode="before")
    @classmethod
    def validate(cls, value: int) -> int:
        cls.watch()
        return value


def watched(watch):
    """Return a handler with a declared recurrence; validating its payload calls `watch`."""

    def handle(payload: Watched) -> None:
        """Do nothing."""

    Watched.watch = staticmethod(watch)
    return action("test:watched", recurrence={"rule": "daily", "payload": {"amount": 2}})(handle)


@pytest.mark.parametrize(
    ("error", "named"),
    [(SystemExit("left"), "SystemExit"), (RuntimeError("left"), "RuntimeError"), (ValueError("left"), "left")],
)
def test_a_payload_model_that_raises_does_not_affect_other_declarations(a_project, error, named):
    def leave():
        raise error

    good = action("test:good", recurrence="daily")(lambda payload: None)
    project = a_project(registry=Registry.of(watched(leave), good))

    done = sync(project.schedules)

    assert done["created"] == ["test:good"]
    assert len(done["refused"]) == 1
    assert named in done["refused"][0]


def test_models_of_declared_payloads_run_while_no_schedule_is_locked(a_project, database_url):
    unlocked = []

    def look():
        with psycopg.connect(database_url) as other:
            found = other.execute("select name from scheduled_action_schedules for update skip locked")
            unlocked.append(found.fetchall())

    project = a_project(registry=Registry.of(watched(look)))
    sync(project.schedules)
    sync(project.schedules, force=True)

    assert unlocked == [[], [("test:watched",)]]


# -- reading -----------------------------------------------------------------------------------------------------------


def test_schedules_are_listed_page_by_page_with_the_newest_first(schedules):
    made = [schedules.schedule_recurring("test:run", {}, "daily").id for _ in range(5)]

    first = schedules.find(limit=3)
    rest = schedules.find(limit=3, cursor=first[-1].id)

    assert [one.id for one in [*first, *rest]] == made[::-1]


def test_the_upcoming_instants_begin_with_the_planned_one(schedules):
    made = schedules.schedule_recurring("test:run", {}, "daily", remaining=2)

    assert list(schedules.hook.planner.rules.upcoming(made, count=5)) == [NOW + DAY, NOW + 2 * DAY]


# -- edits -------------------------------------------------------------------------------------------------------------


def test_a_name_that_is_taken_is_rejected(schedules):
    schedules.schedule_recurring("test:run", {}, "daily", name="taken")
    made = schedules.schedule_recurring("test:run", {}, "daily")

    with pytest.raises(InvalidArgument, match="taken"):
        schedules.update(made.id, name="taken")


def test_a_naive_end_in_an_edit_is_in_the_zone_of_the_schedule(schedules):
    made = schedules.schedule_recurring("test:run", {}, "daily", timezone="America/New_York")

    edited = schedules.update(made.id, until=datetime(2026, 3, 9, 0, 0))  # noqa: DTZ001 - naive on purpose

    assert edited.until == datetime(2026, 3, 9, 4, 0, tzinfo=UTC)


def test_an_unrelated_edit_leaves_an_ended_schedule_ended(schedules, a_project, connection):
    made = schedules.schedule_recurring("test:run", {}, "daily", remaining=1)
    set_clock(connection, NOW + DAY)
    a_project(run).processor.tick()

    edited = schedules.update(made.id, priority=3, recurrence="hourly")

    assert (edited.status, edited.remaining, edited.next_action_id) == ("ended", 0, None)


def test_an_upsert_with_other_arguments_keeps_the_remaining_executions(schedules, a_project, connection):
    schedules.schedule_recurring("test:run", {}, "daily", name="report", remaining=3)
    set_clock(connection, NOW + DAY)
    a_project(run).processor.tick()

    again = schedules.schedule_recurring("test:run", {}, "daily", name="report", remaining=3, priority=3)

    assert again.remaining == 2


def test_an_overdue_occurrence_survives_an_edit_and_the_new_rule_follows_it(schedules, a_project, connection):
    made = schedules.schedule_recurring("test:run", {}, "daily")
    set_clock(connection, NOW + DAY + HOUR)

    schedules.update(made.id, until=NOW + 5 * DAY, recurrence="every 2 hours")
    report = a_project(run).processor.tick()

    assert report.succeeded == 1
    assert schedules.get(made.id).next_occurrence_at == NOW + DAY + 2 * HOUR


@pytest.mark.parametrize("arguments", [{"limit": "5"}, {"limit": 0}, {"limit": 102}, {"cursor": "x"}])
def test_an_invalid_page_is_rejected(schedules, arguments):
    with pytest.raises(InvalidArgument, match=next(iter(arguments))):
        schedules.find(**arguments)
