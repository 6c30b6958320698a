"""Invalid values that the constraints of the tables refuse."""

from __future__ import annotations

import psycopg
import pytest

SCHEDULES, DEADLINES = "scheduled_action_schedules", "scheduled_action_deadlines"
ENDPOINTS, STATES, TICKS = "webhook_endpoints", "webhook_endpoint_states", "scheduled_action_ticks"
#: A valid row of each table.
ROWS = {
    SCHEDULES: "(action_type, recurrence, kind, anchor_at) values ('test:run', 'daily', 'interval', now())",
    DEADLINES: "(target_type, target_id, due_at) values ('license', '42', now() + interval '1 day')",
    ENDPOINTS: "(url, patterns, secret) values ('https://receiver.example', '{license:*}', 'sealed')",
    STATES: "(endpoint) values ('billing')",
    TICKS: "(id, started_at, lease_expires_at) values (gen_random_uuid(), now(), now())",
    "scheduled_actions": "(action_type, scheduled_at) values ('test:run', now())",
}
STAGE = '{"key": "a", "kind": "reminder", "offset": "1 day before", "action_type": "deadline:send-reminder"}'
REFUSED = [
    (SCHEDULES, "jitter_seconds", "NaN"),
    (SCHEDULES, "jitter_seconds", "1e300"),
    (SCHEDULES, "jitter_seconds", "-5"),
    (SCHEDULES, "misfire_grace_seconds", "Infinity"),
    (SCHEDULES, "catch_up_seconds", "NaN"),
    (SCHEDULES, "catch_up_limit", "0"),
    (SCHEDULES, "pause_after_failures", "0"),
    (SCHEDULES, "executions", "9223372036854775807"),
    (SCHEDULES, "missed", "-1"),
    (SCHEDULES, "max_attempts", "2147483647"),
    (SCHEDULES, "anchor_at", "-infinity"),
    (SCHEDULES, "next_occurrence_at", "infinity"),
    (SCHEDULES, "until", "0044-03-15 12:00:00+00 BC"),
    (SCHEDULES, "skip", '"weekends"'),
    (SCHEDULES, "definition", "null"),
    (SCHEDULES, "metadata", "[]"),
    (SCHEDULES, "condition", "0"),
    (SCHEDULES, "metadata", f'{{"a": "{"x" * 200_000}"}}'),
    (DEADLINES, "due_at", "infinity"),
    (DEADLINES, "acknowledged_until", "-infinity"),
    (DEADLINES, "revision", "2147483647"),
    (DEADLINES, "recipients", "{}"),
    (DEADLINES, "stages", "[5]"),
    (DEADLINES, "stages", "[[]]"),
    (DEADLINES, "stages", f"[[{STAGE}]]"),
    (DEADLINES, "stages", STAGE),
    (DEADLINES, "stages", "null"),
    (DEADLINES, "stages", f"[{STAGE}, {STAGE.replace('offset', 'distance')}]"),
    (DEADLINES, "stages", STAGE.join("[]").replace('"reminder"', '["reminder"]')),
    (DEADLINES, "stages", f"[{STAGE}, {STAGE.replace('reminder', 'other', 1)}]"),
    (DEADLINES, "stages", '[{"key": null, "kind": "due", "offset": "at", "action_type": "deadline:miss"}]'),
    (DEADLINES, "history", '"set"'),
    (DEADLINES, "history", "[null]"),
    (DEADLINES, "calendar", "[]"),
    (DEADLINES, "definition", "true"),
    (ENDPOINTS, "patterns", "{NULL}"),
    (ENDPOINTS, "patterns", "{}"),
    (ENDPOINTS, "header_names", "{NULL}"),
    (ENDPOINTS, "rate_limit", "NaN"),
    (ENDPOINTS, "retry", "5"),
    (ENDPOINTS, "filter", "[]"),
    (STATES, "clock_started_at", "infinity"),
    (TICKS, "counts", "[]"),
    (TICKS, "started_at", "-infinity"),
    ("scheduled_actions", "metadata", f'{{"a": "{"x" * 200_000}"}}'),
]


def hold(connection, table, column, value):
    """Insert a row with a value in a column."""
    connection.execute(f"insert into {table} {ROWS[table]}")
    connection.execute(f"update {table} set {column} = %s where ctid = (select max(ctid) from {table})", [value])


@pytest.mark.parametrize(("table", "column", "value"), REFUSED, ids=[f"{one[1]}={one[2][:30]}" for one in REFUSED])
def test_a_table_refuses_a_value_that_no_function_stores(connection, table, column, value):
    with pytest.raises(psycopg.errors.CheckViolation):
        hold(connection, table, column, value)
