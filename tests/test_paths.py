"""A payload and a ping pass few modules: whoever reads along has few files to open."""

from __future__ import annotations

from proofs.paths.paths import PAYLOAD_MOST, PING_MOST, payload_path, ping_path


def test_a_payload_passes_few_modules_until_its_row_is_inserted(database_url, tmp_path):
    path = payload_path(database_url, tmp_path)

    assert len(path) <= PAYLOAD_MOST, "\n".join(path)
    assert path[0] == "scheduled_actions.client.actions"
    assert path[-1] == "scheduled_actions.database.statements"


def test_a_ping_passes_few_modules_until_its_answer(database_url, tmp_path):
    path = ping_path(database_url, tmp_path)

    assert len(path) <= PING_MOST, "\n".join(path)
    # The handler's payload is decoded on a thread of the tick's.
    assert {"scheduled_actions.web.cron", "scheduled_actions.core.json_text"} <= set(path)
