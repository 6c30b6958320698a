"""Outcomes are stored while another session locks the dedup key of their follow-ups."""

from __future__ import annotations

import threading

import psycopg
from psycopg.types.json import Jsonb

from scheduled_actions import action
from tests.factories import PATIENCE, insert_many, projects, statuses

COUNT = 40


def test_outcomes_are_stored_while_the_key_of_their_follow_ups_is_locked(database_url, connection):
    together = threading.Barrier(COUNT)

    @action("test:run", timeout_seconds=5)
    def run(payload: dict) -> None:
        together.wait(PATIENCE)

    follow_up = {"action_type": "test:run", "payload": {}, "dedup_key": "k", "scheduled_at": "2099-01-01T00:00:00Z"}
    with psycopg.connect(database_url) as other, projects(database_url) as create_project:
        project = create_project(run, concurrency=COUNT, max_run_seconds=5, max_duration_seconds=12)
        ids = insert_many(connection, COUNT, on_success=Jsonb([follow_up]))
        other.execute(
            "select schedule_action('test:run', dedup_key => 'k', dedup_window => 60, scheduled_at => '2099-01-01')"
        )
        report = project.processor.tick()

        assert report.succeeded == COUNT
        assert {statuses(connection)[action_id] for action_id in ids} == {"completed"}
        (followed,) = connection.execute(
            "select count(*) from scheduled_actions where scheduled_by = any (%s)", [ids]
        ).fetchone()
        assert followed >= 1
