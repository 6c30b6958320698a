"""A statement over its time limit or with an unknown name is not reported as a lost connection."""

from __future__ import annotations

import shutil

import psycopg
import pytest

from scheduled_actions import action
from scheduled_actions.core.errors import SchemaOutdated
from scheduled_actions.database import versions
from tests.factories import insert, projects, row


@pytest.fixture
def a_project(database_url):
    """Return a function that creates a project with one handler, which completes."""

    @action("test:run")
    def run(payload: dict):
        return payload

    with projects(database_url) as make:
        yield lambda **settings: make(run, **settings)


SLEEPS = """
create sequence slow_writes;
create function sleep_before_settling() returns trigger language plpgsql as $$
begin
  if nextval('slow_writes') <= 2 then
    perform pg_sleep(20);
  end if;
  return new;
end
$$;
create trigger sleeps before update on scheduled_actions for each row
  when (new.status <> old.status and old.status = 'processing' and new.payload ? 'slow')
  execute function sleep_before_settling();
"""


def test_an_outcome_that_cannot_be_written_in_time_is_written_later_without_delaying_others(a_project, connection):
    connection.execute(SLEEPS)
    project = a_project(statement_timeout_seconds=1)
    slow = insert(connection, payload={"slow": 1})
    others = [insert(connection) for _ in range(5)]

    report = project.processor.tick()

    assert (report.success, report.succeeded, report.errors) == (True, 6, [])
    found = connection.execute("select id from scheduled_actions where status = 'completed' order by completed_at, id")
    assert {one for (one,) in found} == {slow, *others}
    assert row(connection, slow)["attempts"] == 1


def test_a_claim_that_exceeds_its_time_limit_is_reported_and_not_repeated(a_project, connection):
    connection.execute(SLEEPS.replace("old.status = 'processing'", "new.status = 'processing'"))
    project = a_project(statement_timeout_seconds=1)
    insert(connection, payload={"slow": 1})

    report = project.processor.tick()

    assert report.success
    assert report.duration_ms < 10_000
    assert "QueryCanceled" in str(report.errors)


@pytest.mark.parametrize("statement", ["select nothing from scheduled_actions", "select nothing()", "table nothing"])
def test_an_unknown_name_is_not_reported_as_a_missing_table(a_project, statement):
    with pytest.raises(psycopg.ProgrammingError), a_project().database.connection() as connection:
        connection.execute(statement)


def test_an_older_schema_is_reported_with_its_number(a_project, monkeypatch, tmp_path):
    number = versions.read_files().latest
    monkeypatch.setattr(versions, "MIGRATIONS", shutil.copytree(versions.MIGRATIONS, tmp_path / "migrations"))
    (tmp_path / "migrations" / f"{number + 1:04}_more.sql").touch()

    with (
        pytest.raises(SchemaOutdated, match=f"at migration {number}; this code requires migration {number + 1}"),
        a_project().database.connection() as own,
    ):
        own.execute("select nothing from scheduled_actions")


def test_a_database_without_the_tables_is_reported(a_project, connection):
    connection.execute("drop table scheduled_action_migrations")

    with (
        pytest.raises(SchemaOutdated, match="this database has no Scheduled Actions tables"),
        a_project().database.connection() as own,
    ):
        own.execute("table nothing")
