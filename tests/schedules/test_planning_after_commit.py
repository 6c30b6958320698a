"""Occurrences that are planned after a commit are also planned while a tick runs."""

from __future__ import annotations

import threading
from datetime import timedelta

import psycopg
import pytest

from scheduled_actions import action, next_occurrence
from tests.factories import NOW, PATIENCE, is_waiting, projects, set_clock, wait_until

#: Delays a commit while advisory lock 42 is held.
SLOW_COMMIT = """
create function slow_commit() returns trigger language plpgsql as $$
begin
  perform set_config('lock_timeout', '0', true);
  perform pg_advisory_xact_lock(42);
  return null;
end $$;
create constraint trigger slow_commit after insert or update on scheduled_action_schedules
  deferrable initially deferred for each row execute function slow_commit()
"""


@pytest.fixture
def project(database_url, connection):
    """Return a project with a custom rule, with the clock set to NOW."""
    set_clock(connection, NOW)

    @action("test:run")
    def run(payload: dict) -> None:
        """Do nothing."""

    @next_occurrence("hourly")
    def hourly(moment):
        return moment + timedelta(hours=1)

    with projects(database_url) as create_project:
        yield create_project(run, hourly)


@pytest.mark.parametrize("change", ["create", "update"])
def test_a_request_plans_its_occurrence_after_a_tick_during_its_commit(project, connection, database_url, change):
    def write():
        if change == "create":
            project.schedules.schedule_recurring("test:run", {}, "custom:hourly", name="series")
        else:
            project.schedules.update("series", recurrence="custom:hourly")

    if change == "update":
        project.schedules.schedule_recurring("test:run", {}, "PT5M", name="series")
    connection.execute(SLOW_COMMIT)
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("select pg_advisory_lock(42)")
        writing = threading.Thread(target=write)
        writing.start()
        wait_until(lambda: is_waiting(connection))
        project.processor.tick()
        other.execute("select pg_advisory_unlock(42)")
        writing.join(PATIENCE)

    (planned,) = connection.execute(
        "select a.occurrence_at from scheduled_action_schedules s"
        " left join scheduled_actions a on a.id = s.next_action_id and a.status = 'pending'"
    ).fetchone()
    assert planned == NOW + timedelta(hours=1)
