"""Column values that SQL accepts but the package's own functions refuse, by column type and name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql

if TYPE_CHECKING:
    import psycopg

_DEEP = "[" * 600 + "]" * 600
_LONG = "9" * 5000
_TIMES = ["-infinity", "infinity", "0044-03-15 12:00:00 BC", "294270-01-01 00:00:00", "0001-01-01 00:00:00+14"]
_DOUBLES = ["NaN", "Infinity", "-Infinity", "1e300", "-5"]
_TEXTS = ["", "\x01\u202e<script>"]
#: JSON documents of every shape; each is invalid in at least one column.
_DOCUMENTS = [
    "null",
    "0",
    '"text"',
    "true",
    "[]",
    "{}",
    "[null]",
    '[5, "a"]',
    "[[]]",
    "[{}]",
    '{"a": null}',
    '{"": {"x": [1]}}',
    _LONG,
    f'{{"a": {_LONG}}}',
    f"[{_LONG}]",
    _DEEP,
    f'{{"a": {_DEEP}}}',
    '{"a": 1e400}',
    '{"a": 1.5e400}',
    '[{"a": 1e999}]',
    '[{"at": "infinity", "what": 5, "started_at": 1e99, "outcome": {}, "attempt": "x", "error": [], "ended_at": "x"}]',
]
#: Almost valid values of columns with a specific format.
_NEAR = {
    "stages": [
        '[{"key": 1}]',
        '[{"key": "a", "kind": "other", "offset": "x", "action_type": "y"}]',
        '[{"key": "a", "kind": "reminder", "offset": "1 day before", "action_type": "x", "no": 1}]',
        '[{"key": "a", "kind": "reminder", "offset": "99999999 days before", "action_type": "deadline:send-reminder"}]',
        '[{"key": "a", "kind": "reminder", "offset": 5, "action_type": 5, "at": "infinity"}]',
        '[{"key": "a", "kind": "reminder", "offset": "1 day", "action_type": "x", "at": "2026-01-01T00:00:00"}]',
        '[{"key": "a", "kind": "reminder", "offset": "1 day", "action_type": "x", "at": "0001-01-01T00:00:00+14:00"}]',
        '[{"key": "a", "kind": "reminder", "offset": "1 day", "action_type": "x", "to": 5, "assign": {"a": 1}}]',
        '[{"key": "a", "kind": "reminder", "offset": "1 day", "action_type": "x", "to": [5, null], "repeat": 7}]',
        '[{"key": "a", "kind": "escalation", "offset": "1 day", "action_type": "x", "occurrence": "x", "begun": -1}]',
        '[{"key": "a", "kind": "reminder", "offset": "1 day", "action_type": "x", "occurrence": 1000000000000}]',
        '[{"key": "a", "kind": "action", "offset": "1 day", "action_type": "x", "options": 5, "message": 5}]',
        '[{"key": "a", "kind": "action", "offset": "1 day", "action_type": "x", "state": 5, "severity": "x"}]',
    ],
    "calendar": [
        '{"skip": 5}',
        '{"skip": {"weekdays": 5}}',
        '{"hours": "x"}',
        '{"weekdays": ["x"]}',
        '{"holidays": "XX"}',
        '{"dates": ["x"]}',
        '{"weekends": "yes"}',
    ],
    "skip": [
        '{"weekdays": 5}',
        '{"holidays": {"country": 5}}',
        '{"adjustment": "x"}',
        '{"dates": [5]}',
        '{"windows": [5]}',
        '{"windows": [{"from": 5}]}',
        '{"weekends": "yes"}',
        '{"unknown": 1}',
    ],
    "waiting": [
        '{"since": "soon", "checks": "x", "next_check_at": "never", "unmet": 5}',
        '{"unmet": [5], "unmet_since": 5}',
        '{"since": "infinity", "checks": 99999999999999999999, "next_check_at": "infinity", "unmet": {}}',
    ],
    "condition": [
        '{"wait": 5}',
        '{"skip": []}',
        '{"wait": {"kind": "x"}}',
        '{"after": 5}',
        '{"after": ["x"], "condition": 5}',
    ],
    "on_success": ['[{"action_type": 5}]', '[{"payload": 5}]'],
    "on_failure": ['[{"action_type": 5}]', '[{"payload": 5}]'],
    "definition": ['{"stages": 5}', '{"stages": [5]}', '{"recipients": 5}', '{"reminders": 5, "escalation": 5}'],
    "recipients": ['[{"x": 1}]', '["no address"]', '[{"name": 5, "channels": 5}]', '["team:x", "resolver:y"]'],
    "payload": [
        '{"endpoint": 5}',
        '{"endpoint": "x", "event": 5, "entity_type": {}, "entity_id": []}',
        '{"data": 5, "event": "a:b"}',
        '{"deadline_id": 5, "stage": []}',
        '{"endpoint": "x", "event": "a:b", "data": [1]}',
    ],
    "retry": [
        '{"kind": 5}',
        '{"kind": "delays", "seconds": [-1]}',
        "[1e99]",
        '["x"]',
        '{"kind": "exponential", "base_seconds": 1e400}',
    ],
    "state": ['{"deferred": 5}', '{"deferred": {"a": 1}}'],
    "metadata": ['{"event_action_id": 5}', '{"traceparent": 5}', '{"event_action_id": {}}', '{"no_action": 5}'],
    "result": ['{"status": 99999999999, "duration_ms": "x", "answer": {}}', '{"status": 200, "duration_ms": 1e400}'],
    "filter": ['{"x": 5}', '[{"field": 5}]', '{"all": 5}', '{"data.x": {"gt": {}}}'],
    "counts": ['{"succeeded": "x"}', '{"succeeded": 1e99}', '{"succeeded": 1.5, "errors": 5}'],
    "budget": ['{"max_run_seconds": "x"}'],
    "history": [
        '[{"outcome": "failed", "attempt": 1, "started_at": "soon", "ended_at": "never", "error": 5}]',
        '[{"outcome": "failed", "attempt": 1, "started_at": "infinity", "ended_at": "infinity"}]',
        '[{"outcome": "snoozed", "count": "x", "started_at": 5}]',
        '[{"what": "set"}]',
        '[{"what": "moved", "at": "x", "by": 5}]',
        '[{"what": "reminded", "at": "0001-01-01T00:00:00+14:00", "to": 5, "stage": 5}]',
        '[{"what": "changed", "at": "2026-01-01T00:00:00+00:00", "changes": 5, "due_at": 5, "before": {}}]',
    ],
    "recurrence": ["every 0 days", "FREQ=SECONDLY;INTERVAL=0", "x:function", "0 0 30 2 *"],
    "timezone": ["Europe/Nowhere", "../../etc/passwd", "/etc/localtime", "\x01"],
    "kind": ["other"],
}
_BY_TYPE = {
    "timestamp with time zone": _TIMES,
    "double precision": _DOUBLES,
    "smallint": ["32767", "-32768"],
    "integer": ["2147483647", "-2147483648", "-1", "0"],
    "bigint": ["9223372036854775807", "-9223372036854775808", "-1"],
    "text": _TEXTS,
    "jsonb": _DOCUMENTS,
    "ARRAY": ["{}", "{NULL}", '{"","**","["}'],
}


def hostile_values(column: str, data_type: str) -> list[str]:
    """Return hostile SQL literals for a column."""
    return _BY_TYPE.get(data_type, []) + _NEAR.get(column, [])


def without_checks(connection: psycopg.Connection[Any], table: str) -> None:
    """Drop the check constraints of a table that refuse unreadable values, so that such rows can be inserted."""
    found = connection.execute(
        "select conname from pg_constraint where conrelid = %s::regclass and contype = 'c' and conname ~ %s",
        [table, "_(are_in_range|are_in_the_calendar|are_shaped|are_usable|are_finite|are_readable|is_bounded)$"],
    ).fetchall()
    assert found, table
    for (name,) in found:
        connection.execute(
            sql.SQL("alter table {} drop constraint {}").format(sql.Identifier(table), sql.Identifier(name))
        )
