"""The functions for pauses use the runtime of the process."""

from __future__ import annotations

from datetime import timedelta

import pytest

import scheduled_actions
from scheduled_actions.core.errors import UnknownPause
from tests.factories import insert, row


def test_actions_are_paused_listed_and_resumed(project, connection):
    action_id = insert(connection, team_id="red")

    pause = scheduled_actions.pause(
        action_type="test:run", team_id="red", note="down", by="ann", until=timedelta(hours=1)
    )

    assert scheduled_actions.list_pauses() == [pause]
    assert (pause.kind, pause.name, pause.team_id, pause.note, pause.paused_by, pause.parked) == (
        "action_type", "test:run", "red", "down", "ann", 1,
    )  # fmt: skip
    assert row(connection, action_id)["parked_by"] == str(pause.id)
    assert scheduled_actions.resume(action_type="test:run", team_id="red", by="ann").id == pause.id
    assert scheduled_actions.list_pauses() == []
    with pytest.raises(UnknownPause):
        scheduled_actions.resume(action_type="test:run", team_id="red")


def test_an_unknown_argument_names_the_known_one(project):
    with pytest.raises(TypeError, match="action_type"):
        scheduled_actions.pause(type="test:run")
