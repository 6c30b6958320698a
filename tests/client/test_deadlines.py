"""The functions for deadlines use the runtime of the process."""

from __future__ import annotations

from datetime import timedelta

import scheduled_actions
from tests.factories import NOW, set_clock

DAY = timedelta(days=1)
DUE = NOW + 30 * DAY
LICENCE = {"target": {"type": "license", "id": "42"}, "due_at": DUE, "recipients": "ann@example.org", "team_id": "t"}


def test_a_deadline_is_created_changed_and_completed(project, connection):
    set_clock(connection, NOW)
    created = scheduled_actions.set_deadline(**LICENCE, name="renewal", reminders=["7 days before"])

    moved = scheduled_actions.move_deadline("renewal", DUE + DAY, team_id="t")
    changed = scheduled_actions.update_deadline("renewal", team_id="t", reminders=["3 days before"])
    acknowledged = scheduled_actions.acknowledge_deadline("renewal", team_id="t", by="ann")
    reassigned = scheduled_actions.reassign_deadline("renewal", ["bob@example.org"], team_id="t")
    paused = scheduled_actions.pause_deadline("renewal", team_id="t")
    resumed = scheduled_actions.resume_deadline("renewal", team_id="t")
    found = scheduled_actions.get_deadline("renewal", team_id="t")
    completed = scheduled_actions.complete_deadline("renewal", team_id="t")

    assert (created.id, moved.due_at, acknowledged.acknowledged_by) == (found.id, DUE + DAY, "ann")
    assert [stage.key for stage in changed.stages] == ["reminder:3 days before", "due"]
    assert reassigned.recipients == ("bob@example.org",)
    assert (paused.paused_at, resumed.paused_at, completed.status) == (NOW, None, "completed")


def test_many_deadlines_are_created_moved_and_cancelled(project, connection):
    set_clock(connection, NOW)
    ids = scheduled_actions.set_deadlines([LICENCE, LICENCE])

    count = scheduled_actions.move_deadlines(dict.fromkeys(ids, DUE + DAY), team_id="t")
    moved = scheduled_actions.list_deadlines(team_id="t", status="open")
    cancelled = scheduled_actions.cancel_deadline(ids[0], team_id="t")

    assert count == 2
    assert {(one.id, one.due_at) for one in moved} == {(one, DUE + DAY) for one in ids}
    assert cancelled.status == "cancelled"
