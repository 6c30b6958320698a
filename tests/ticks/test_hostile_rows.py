"""Rows that SQL has made unreadable: each tick answers, and every other action runs on time."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from scheduled_actions import RetryAfter, Snooze, action
from scheduled_actions.actions.model import NewAction
from tests.factories import insert, move_clock, projects, row

GOOD = 10
HOUR = timedelta(hours=1)
#: A number that Python does not parse, and one level more than its decoder accepts.
LONG_NUMBER = "9" * 5000
DEEP = "[" * 6000 + "]" * 6000
DOCUMENTS = [
    LONG_NUMBER, DEEP, "0", '"text"', "[]", "[null]", "{}", "null", '{"kind": "x"}', '{"wait": 7}', '{"after": [7]}',
    '{"a": "\\ud83d\\ude00"}', '[{"outcome": 7, "count": "many"}]', "1e308", "[[[[]]]]", "true",
    '[{"outcome": "waited", "count": 99999999999}]', '[{"outcome": "snoozed", "count": 1e300}]',
    '{"since": "soon", "checks": "many", "next_check_at": 7}', '{"since": 7, "checks": 1e300, "unmet": []}',
    '{"traceparent": 7}', '{"kind": "exponential", "base_seconds": -1}', "[1e308]",
    '{"kind": "delays", "seconds": [null]}',
]  # fmt: skip
HOSTILE = {
    "jsonb": DOCUMENTS,
    "timestamp with time zone": [
        "-infinity", "infinity", "4713-01-01 00:00:00 BC", "294276-12-31 00:00:00", "0001-01-01 00:00:00",
    ],
    "text": ["", "\x01", "a" * 100_000, "\U0001f4a9", "%s", "{}"],
    "integer": [2147483647, -2147483648, 0, -1],
    "smallint": [32767, -32768],
    "bigint": [9223372036854775807, -9223372036854775808, 0, -1],
    "double precision": ["NaN", "1e300", "-5", "infinity", "-infinity"],
}  # fmt: skip
PAYLOADS = [{}, {"raise": 1}, {"snooze": 1}]


@pytest.fixture
def project(database_url):
    """Return a project whose handlers use all values of their rows."""

    @action("test:run")
    def run(payload: dict, context):
        if payload.get("raise"):
            raise RuntimeError
        if payload.get("wait"):
            raise RetryAfter(1)
        return Snooze(60) if payload.get("snooze") else {"seen": str(context.action)[:10]}

    @action("test:good")
    def good(payload: dict):
        pass

    with projects(database_url) as a_project:
        yield a_project(run, good, function_timeout_seconds=1)


def good_ones(connection):
    return [insert(connection, action_type="test:good") for _ in range(GOOD)]


def ticks_while_good_ones_run(project, connection, count=3, after=timedelta(0)):
    """Run ticks, an hour apart, each with additional good actions; require that all of these complete."""
    for number in range(count):
        move_clock(connection, after + number * HOUR)
        good = good_ones(connection)
        report = project.processor.tick(lingers=False)
        assert report.success, number
        done = connection.execute(
            "select count(*) from scheduled_actions where id = any (%s) and status = 'completed'", [good]
        ).fetchone()
        assert done == (GOOD,), (number, report.errors)
        project.processor.state.next_sweep = float("-inf")
        connection.execute("update scheduled_action_settings set updated_at = '-infinity' where name = 'last_sweep'")


def columns(connection, table, data_type):
    found = connection.execute(
        "select column_name from information_schema.columns where table_name = %s and data_type = %s"
        " and table_schema = current_schema() order by ordinal_position",
        [table, data_type],
    )
    return [name for (name,) in found.fetchall() if name not in {"status", "lease_expires_at"}]


def without_checks(connection, table):
    """Remove the constraints that reject the values of these tests: a row may be older than a constraint."""
    found = connection.execute(
        "select conname from pg_constraint where conrelid = %s::regclass and contype = 'c'"
        " and conname !~ 'status|claim|history|remaining|recurrence_type'",
        [table],
    ).fetchall()
    for (name,) in found:
        connection.execute(
            sql.SQL("alter table {} drop constraint {}").format(sql.Identifier(table), sql.Identifier(name))
        )


def overwrite(connection, table, column, value, key):
    """Set a column of one row; return False if the table refuses the value."""
    statement = sql.SQL("update {} set {} = %s where id = %s").format(sql.Identifier(table), sql.Identifier(column))
    try:
        with connection.transaction():
            connection.execute(statement, [value, key])
    except Exception:  # noqa: BLE001 - the table may refuse the value
        return False
    return True


@pytest.mark.parametrize("data_type", HOSTILE)
def test_unexpected_values_in_the_columns_of_an_action_do_not_stop_the_others(project, connection, data_type):
    without_checks(connection, "scheduled_actions")
    for column in columns(connection, "scheduled_actions", data_type):
        for number, value in enumerate(HOSTILE[data_type]):
            one = insert(connection, payload=PAYLOADS[number % len(PAYLOADS)])
            overwrite(connection, "scheduled_actions", column, value, one)

    ticks_while_good_ones_run(project, connection)


@pytest.mark.parametrize("value", [LONG_NUMBER, DEEP, "1e308", '{"state": 7}', '[{"approved": {}}]'])
def test_an_unexpected_value_of_a_fact_does_not_stop_other_actions(project, connection, value):
    order = {"type": "order", "id": "1"}
    condition = {"kind": "document_state", "target": order, "state": "approved"}
    compared = {"kind": "field_value", "target": order, "field": "state", "op": "gt", "value": 1}
    for one in (condition, {"wait": condition}, compared):
        project.scheduler.schedule_action(NewAction(action_type="test:run", payload={}, condition=one))
    innocent = project.scheduler.schedule_action(
        NewAction(action_type="test:good", payload={}, condition={"wait": condition | {"target": order | {"id": "2"}}})
    ).id
    connection.execute('select report_fact(\'{"type": "order", "id": "1"}\', \'state\', \'1\')')
    connection.execute('select report_fact(\'{"type": "order", "id": "2"}\', \'state\', \'"approved"\')')
    connection.execute("update scheduled_action_facts set value = %s where target_id = '1'", [value])

    ticks_while_good_ones_run(project, connection)

    assert row(connection, innocent)["status"] == "completed"


@pytest.mark.parametrize("data_type", HOSTILE)
def test_unexpected_values_in_the_columns_of_a_schedule_do_not_stop_other_series(project, connection, data_type):
    def series(name, payload=None, action_type="test:run", **options):
        return project.schedules.schedule_recurring(action_type, payload or {}, "every hour", name=name, **options).id

    innocent = series("innocent", action_type="test:good")
    without_checks(connection, "scheduled_action_schedules")
    for column in columns(connection, "scheduled_action_schedules", data_type):
        for number, value in enumerate(HOSTILE[data_type]):
            kind = "rolling" if number % 3 else "fixed"
            one = series(f"{column}-{number}", PAYLOADS[number % 2], recurrence_type=kind)
            if number % 2:
                connection.execute("update scheduled_action_schedules set next_action_id = null where id = %s", [one])
            overwrite(connection, "scheduled_action_schedules", column, value, one)

    ticks_while_good_ones_run(project, connection, count=4, after=HOUR)

    ran = connection.execute(
        "select count(*) from scheduled_actions where schedule_id = %s and status = 'completed'", [innocent]
    ).fetchone()
    assert ran is not None
    assert ran[0] >= 3


@pytest.mark.parametrize(
    "table",
    [
        "scheduled_action_settings", "scheduled_action_ticks", "scheduled_action_holds", "scheduled_action_waits",
        "scheduled_action_metrics", "scheduled_action_facts", "scheduled_action_deadlines", "webhook_endpoint_states",
    ],
)  # fmt: skip
def test_actions_run_whatever_the_other_tables_contain(project, connection, table):
    without_checks(connection, table)
    project.processor.tick()
    condition = {"wait": {"kind": "document_state", "target": {"type": "order", "id": "1"}, "state": "approved"}}
    project.scheduler.schedule_action(NewAction(action_type="test:run", payload={}, condition=condition))
    connection.execute('select report_fact(\'{"type": "order", "id": "1"}\', \'state\', \'"open"\')')
    connection.execute(
        "insert into scheduled_action_ticks (id, started_at, lease_expires_at, running)"
        " select gen_random_uuid(), now() - interval '1 hour', now() - interval '10 minutes', array[gen_random_uuid()]"
        " from generate_series(1, 3)"
    )
    for number in range(5):
        insert(connection, lock_group="group", payload={"raise": 1})
        for data_type, values in HOSTILE.items():
            for column in columns(connection, table, data_type):
                set_everywhere(connection, table, column, values[number % len(values)])
        ticks_while_good_ones_run(project, connection, count=1, after=number * HOUR)


def set_everywhere(connection, table, column, value):
    statement = sql.SQL("update {} set {} = %s").format(sql.Identifier(table), sql.Identifier(column))
    try:
        with connection.transaction():
            connection.execute(statement, [value])
    except psycopg.Error:
        return
