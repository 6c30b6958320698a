"""Rows with values that only SQL can store: every list and page that shows such a row opens."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from cryptography.fernet import Fernet
from psycopg import sql

from handlers import deadline, notification, webhook
from scheduled_actions.registry import Registry
from tests.hostile_values import hostile_values, without_checks
from tests.team_resources import create_resources
from tests.web.conftest import ADMIN_TOKEN, Api, gather, run, welcome

#: The readers of each table: the lists of all rows, and the pages of one row.
READERS = {
    "scheduled_actions": (
        ["/api/v1/actions", "/api/v1/actions/counts", "/api/v1/calendar?from={day}&to={week}", "/dashboard/actions",
         "/dashboard/calendar", "/dashboard"],
        ["/api/v1/actions/{id}", "/api/v1/actions/{id}/explain", "/dashboard/actions/{id}"],
    ),
    "scheduled_action_schedules": (
        ["/api/v1/schedules", "/api/v1/calendar?from={day}&to={week}", "/dashboard/schedules", "/dashboard/calendar"],
        ["/api/v1/schedules/{id}", "/dashboard/schedules/{id}", "/dashboard/schedules/{id}/edit"],
    ),
    "scheduled_action_deadlines": (
        ["/api/v1/deadlines", "/api/v1/calendar?from={day}&to={week}", "/dashboard/deadlines", "/dashboard/calendar",
         "/dashboard"],
        ["/api/v1/deadlines/{id}", "/dashboard/deadlines/{id}", "/dashboard/deadlines/{id}/edit"],
    ),
}  # fmt: skip
#: Columns that are not changed, because they identify or select the row.
KEPT = {"id", "name", "team_id", "status", "claim_token", "schedule_id", "deadline_id", "series_id", "occurrence_at"}
#: The values that a copy cannot share with its original.
OWN = {"name": None, "dedup_open": False, "schedule_id": None, "deadline_id": None, "deadline_stage": None}


@pytest.fixture
def runtime(a_runtime):
    registry = Registry.of(
        run, welcome, gather, notification.send, webhook.send, deadline.send_reminder, deadline.send_escalation,
        deadline.mark_missed, deadline.create_next,
    )  # fmt: skip
    return a_runtime(registry=registry, SCHEDULED_ACTIONS_ENCRYPTION_KEY=Fernet.generate_key().decode())


@pytest.fixture
def made(client, connection):
    """Return the ids of one object of each kind, in tables without check constraints."""
    made, _ = create_resources(Api(client, ADMIN_TOKEN), connection, team_id=None)
    for table in READERS:
        without_checks(connection, table)
    return made


@pytest.fixture
def opens(admin_person, client, caplog):
    """Return a function that opens an address and returns a description of the failure, or None."""

    def open_it(path):
        headers = {} if path.startswith("/dashboard") else {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        visitor = admin_person.client if path.startswith("/dashboard") else client
        answer = visitor.get(path.format(day="2026-03-04T00:00:00Z", week="2026-03-11T00:00:00Z"), headers=headers)
        broken = [one.exc_text or one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
        caplog.clear()
        return None if answer.status_code == 200 and not broken else (answer.status_code, path, broken or answer.text)

    return open_it


def cloned_with(connection, table, row_id, column, value):
    """Insert a copy of a row with another value in one column; return its id, or None if the column cannot hold it."""
    statement = sql.SQL(
        "with made as (insert into {table} select (jsonb_populate_record(t, %s::jsonb"
        " || jsonb_build_object('id', scheduled_actions_uuid7()))).* from {table} t where t.id = %s returning id)"
        " select id from made"
    ).format(table=sql.Identifier(table))
    with connection.transaction():
        (made,) = connection.execute(statement, [json.dumps(OWN), row_id]).fetchone()
    change = sql.SQL("update {} set {} = %s where id = %s").format(sql.Identifier(table), sql.Identifier(column))
    try:
        connection.execute(change, [value, made])
    except Exception:  # noqa: BLE001 - null and the like
        connection.execute(sql.SQL("delete from {} where id = %s").format(sql.Identifier(table)), [made])
        return None
    return made


def hostile_rows(connection, table, row_id):
    """Insert a copy of a row for each hostile value of each column; return the columns and values by id."""
    columns = connection.execute(
        "select column_name, data_type from information_schema.columns"
        " where table_name = %s and table_schema = current_schema() order by ordinal_position",
        [table],
    ).fetchall()
    rows = {}
    for column, data_type in columns:
        for value in hostile_values(column, data_type) if column not in KEPT else ():
            if (made := cloned_with(connection, table, row_id, column, value)) is not None:
                rows[made] = f"{column} = {value[:60]}"
    return rows


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("scheduled_actions", "waiting"),
        ("scheduled_actions", "failed"),
        ("scheduled_action_schedules", "schedule"),
        ("scheduled_action_deadlines", "deadline"),
    ],
)
def test_every_list_and_page_shows_rows_with_invalid_values(made, opens, connection, table, what):
    rows = hostile_rows(connection, table, UUID(made[what]))
    lists, pages = READERS[table]

    # Each list shows all of the newest 100.
    wrong = [(found, "") for path in lists for found in [opens(path)] if found]
    for row_id, holds in rows.items():
        wrong += [(found, holds) for path in pages for found in [opens(path.replace("{id}", str(row_id)))] if found]

    assert len(rows) > 80
    assert wrong == []
