"""Every function that takes an instant refuses a local time without a time zone, and takes strings and days."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

import scheduled_actions as package
from scheduled_actions.core.errors import RequestError
from scheduled_actions.operations import tokens
from scheduled_actions.recurrence.preview import preview

RUN = ("test:run", {})
TARGET = {"type": "license", "id": "42"}
LOCAL = datetime(2035, 12, 1, 9)  # noqa: DTZ001 - a local time
#: The function that takes an instant, and the name of the argument.
TAKERS = {
    "schedule_action": ("scheduled_at", lambda at: package.schedule_action(*RUN, scheduled_at=at)),
    "schedule_actions": (
        "scheduled_at",
        lambda at: package.schedule_actions([{"action_type": "test:run", "payload": {}, "scheduled_at": at}]),
    ),
    "schedule_when": (
        "scheduled_at",
        lambda at: package.schedule_when(*RUN, {"kind": "time_elapsed", "seconds": 1}, scheduled_at=at),
    ),
    "a follow-up": (
        "on_success",
        lambda at: package.schedule_action(
            *RUN, on_success={"action_type": "test:run", "payload": {}, "scheduled_at": at}
        ),
    ),
    "a condition": (
        "condition.since",
        lambda at: package.schedule_action(*RUN, condition={"kind": "time_elapsed", "seconds": 1, "since": at}),
    ),
    "update_action": (
        "scheduled_at",
        lambda at: package.update_action(package.schedule_action(*RUN).id, scheduled_at=at),
    ),
    "list_actions(due_from)": ("due_from", lambda at: package.list_actions(due_from=at)),
    "list_actions(due_to)": ("due_to", lambda at: package.list_actions(due_to=at)),
    "schedule_recurring_action(scheduled_at)": (
        "scheduled_at",
        lambda at: package.schedule_recurring_action(*RUN, "daily", scheduled_at=at),
    ),
    "schedule_recurring_action(until)": (
        "until",
        lambda at: package.schedule_recurring_action(*RUN, "daily", until=at),
    ),
    "a declared recurrence": (
        "recurrence.until",
        lambda at: package.action("test:declared", recurrence={"rule": "daily", "until": str(at)}),
    ),
    "preview(start)": ("start", lambda at: preview("daily", start=at)),
    "preview(until)": ("until", lambda at: preview("daily", start=datetime.now(UTC), until=at)),
    "notify": ("scheduled_at", lambda at: package.notify("ann@example.org", "Hello", scheduled_at=at)),
    "set_deadline": ("due_at", lambda at: package.set_deadline(TARGET, at)),
    "set_deadlines": ("due_at", lambda at: package.set_deadlines([{"target": TARGET, "due_at": at}])),
    "list_deadlines(due_from)": ("due_from", lambda at: package.list_deadlines(due_from=at)),
    "list_deadlines(due_to)": ("due_to", lambda at: package.list_deadlines(due_to=at)),
    "Person(away_from)": ("away_from", lambda at: package.Person(channels="ann@example.org", away_from=at)),
    "Person(away_until)": ("away_until", lambda at: package.Person(channels="ann@example.org", away_until=at)),
    "tokens": ("expires_at", lambda at: tokens.create(None, name="t", role="viewer", expires_at=at)),
    "the calendar(start)": ("start", lambda at: package.runtime.current().calendar.page(start=at)),
    "the calendar(end)": (
        "end",
        lambda at: package.runtime.current().calendar.page(start=datetime(2035, 11, 30, tzinfo=UTC), end=at),
    ),
    "missed deliveries": ("since", lambda at: package.runtime.current().deliveries.count_lost(since=at)),
}


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("value", [LOCAL, "2035-12-01T09:00"], ids=["datetime", "string"])
@pytest.mark.parametrize("taker", TAKERS)
def test_a_local_time_without_a_time_zone_is_refused(taker, value):
    name, take = TAKERS[taker]

    with pytest.raises(RequestError, match=f"^{name}[^a-z].* a time with an offset"):
        take(value)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("value", [date(2035, 12, 1), "2035-12-01", "2035-12-01T09:00:00+01:00"], ids=repr)
@pytest.mark.parametrize("taker", [name for name in TAKERS if name != "tokens"])
def test_a_day_and_a_string_are_taken(taker, value):
    TAKERS[taker][1](value)


@pytest.fixture
def deadline(project):
    """Return a deadline of a project, in the time zone of Tokyo."""
    return package.set_deadline(TARGET, timedelta(days=9), timezone="Asia/Tokyo").id


@pytest.mark.parametrize("value", [LOCAL, "2035-12-01T09:00"], ids=["datetime", "string"])
@pytest.mark.parametrize(
    "stored",
    [
        lambda at, _: package.get_action(package.schedule_action(*RUN, scheduled_at=at, timezone="Asia/Tokyo").id)
        .scheduled_at,
        lambda at, _: package.update_action(
            package.schedule_action(*RUN).id, scheduled_at=at, timezone="Asia/Tokyo"
        ).scheduled_at,
        lambda at, _: package.schedule_recurring_action(
            *RUN, "daily", scheduled_at=at, timezone="Asia/Tokyo"
        ).anchor_at,
        lambda at, _: package.schedule_recurring_action(*RUN, "daily", until=at, timezone="Asia/Tokyo").until,
        lambda at, _: package.update_schedule(
            package.schedule_recurring_action(*RUN, "daily", timezone="Asia/Tokyo").id, until=at
        ).until,
        lambda at, _: package.set_deadline(TARGET, at, timezone="Asia/Tokyo").due_at,
        lambda at, deadline: package.move_deadline(deadline, at).due_at,
        lambda at, deadline: package.move_deadlines({deadline: at}) and package.get_deadline(deadline).due_at,
        lambda at, deadline: package.acknowledge_deadline(deadline, until=at).acknowledged_until,
        lambda at, _: package.Person(channels="a@example.org", timezone="Asia/Tokyo", away_until=at).away_until,
    ],
    ids=[
        "schedule_action", "update_action", "schedule_recurring_action(scheduled_at)",
        "schedule_recurring_action(until)", "update_schedule", "set_deadline", "move_deadline", "move_deadlines",
        "acknowledge_deadline", "Person",
    ],
)  # fmt: skip
def test_a_local_time_is_in_the_given_or_the_stored_time_zone(deadline, stored, value):
    assert stored(value, deadline) == datetime(2035, 12, 1, 0, tzinfo=UTC)


def test_a_completion_and_a_backfill_take_local_times_of_the_past(deadline):
    assert package.complete_deadline(deadline, at="2026-01-01T09:00").closed_at == datetime(2026, 1, 1, tzinfo=UTC)

    hourly = package.schedule_recurring_action(*RUN, "0 * * * *", timezone="Asia/Tokyo", overlap="allow").id
    (one,) = package.backfill_schedule(hourly, "2026-01-01T09:00", datetime(2026, 1, 1, 9, 30))  # noqa: DTZ001 - local
    assert package.get_action(one).occurrence_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert len(package.backfill_schedule(hourly, "2026-01-02", date(2026, 1, 2))) == 24
