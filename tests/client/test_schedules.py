"""The functions for schedules use the runtime of the process."""

from __future__ import annotations

from datetime import timedelta

import pytest

import scheduled_actions
from scheduled_actions.core.errors import UnknownSchedule
from tests.factories import NOW, set_clock

HOUR = timedelta(hours=1)


def test_a_schedule_is_created_changed_run_and_deleted(project, connection):
    set_clock(connection, NOW)
    created = scheduled_actions.schedule_recurring_action(
        "test:run", {"n": 1}, "every 1 hour", name="hourly", team_id="t"
    )

    changed = scheduled_actions.update_schedule("hourly", team_id="t", priority=3)
    paused = scheduled_actions.pause_schedule("hourly", team_id="t")
    resumed = scheduled_actions.resume_schedule("hourly", team_id="t")
    skipped = scheduled_actions.skip_next_occurrence("hourly", team_id="t")
    once = scheduled_actions.run_schedule("hourly", team_id="t")
    past = scheduled_actions.backfill_schedule("hourly", NOW - 3 * HOUR, NOW - HOUR, team_id="t")
    found = scheduled_actions.get_schedule("hourly", team_id="t")
    listed = scheduled_actions.list_schedules(team_id="t")
    scheduled_actions.delete_schedule("hourly", team_id="t")

    assert (created.id, changed.priority, paused.status, resumed.status) == (found.id, 3, "paused", "active")
    assert scheduled_actions.get_action(once.id).schedule_id == created.id
    assert (skipped.skipped, len(past)) == (1, 3)
    assert listed == [found]
    with pytest.raises(UnknownSchedule):
        scheduled_actions.get_schedule("hourly", team_id="t")
