"""Hostile values for every column of every table, read from the database's catalog, so that new columns are covered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEP = "[" * 5_000 + "]" * 5_000
_LONG = "x" * 70_000
_DIGITS = "9" * 5_000
#: Documents as text; Postgres accepts each of them as jsonb.
DOCUMENTS = (
    "null",
    "true",
    "0",
    "-1",
    "1e400",
    _DIGITS,
    '""',
    '"x"',
    "[]",
    "[null]",
    "[[]]",
    "{}",
    '{"": null}',
    _DEEP,
    json.dumps({"a": 1} | {f"k{n}": n for n in range(2_000)}),
    json.dumps(_LONG),
    f'{{"number": {_DIGITS}}}',
    f"[{_DIGITS}]",
    '{"kind": 1e400}',
    '{"kind": []}',
    '{"kind": "nothing"}',
    '{"kind": "exponential", "base_seconds": 1e400}',
    '{"kind": "delays", "seconds": [1e400]}',
    '{"kind": "delays", "seconds": "x"}',
    '{"kind": "exponential", "base_seconds": -1}',
    '{"all": []}',
    '{"any": null}',
    '{"not": 7}',
    '{"wait": {"kind": "action_status"}}',
    '{"wait": {"kind": "document_state", "target": 5, "state": {}}}',
    '{"wait": {"kind": "fact", "target": {"type": "a", "id": "b"}, "name": "n", "op": "eq", "value": 1e400}}',
    '{"wait": {"kind": "custom", "name": "hostile", "parameters": [1e400]}, "on_timeout": 7}',
    '{"wait": {"kind": "http", "url": 7}}',
    '{"wait": {"kind": "time", "after": "0001-01-01T00:00:00Z"}}',
    '[{"action_type": "bad type!"}]',
    '[{"action_type": 5, "payload": 7}]',
    '[{"action_type": "good:work"}, 7]',
    '[{"action_type": "good:work", "payload": {}, "after": ["01900000-0000-7000-8000-000000000000"]}]',
    '[{"action_type": "good:work", "payload": {}, "delay": "P9999999999Y"}]',
    '[{"action_type": "good:work", "payload": {}, "priority": 99999999999}]',
    '[{"action_type": "good:work", "payload": {}, "retry": {"kind": 1e400}}]',
    '[{"action_type": "good:work", "payload": {}, "max_attempts": -5}]',
    '[{"action_type": "good:work", "payload": {}, "on_success": [[[]]]}]',
    '{"calendar": "moon", "days": 1e400}',
    '{"holidays": ["XX"], "days": "x"}',
    '{"hours": {"mon": ["25:00", "x"]}, "timezone": "Mars/Base"}',
    '{"months": [13], "weekdays": "x"}',
    '[{"stage": 7}]',
    '[{"offset": "P99999999Y", "to": 7}]',
    '["ann@example.org", 7, null]',
    '[{"at": "9999999-01-01"}]',
    '{"at": "-infinity", "status": []}',
    '[{"attempt": "x", "outcome": 5}]',
    '{"window": "x", "default": null, "by_type": 7}',
    '{"default": 1e400, "by_type": {"x": []}}',
)
TEXTS = (
    "",
    " ",
    "x",
    _LONG,
    "%",
    "\\",
    "'",
    '"',
    "\x01",
    "\u202e<script>alert(1)</script>",
    "\ufffe",
    "a:b",
    "../..",
    "-infinity",
    "0",
    "-1",
    "NaN",
    "daily",
    "every 0 days",
    "every 1 seconds",
    "P1D",
    "0 0 30 2 *",
    "* * * * * *",
    "RRULE:FREQ=SECONDLY;INTERVAL=0",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    "next:hostile",
    "next:gone",
    "RRULE:FREQ=SECONDLY;INTERVAL=10007;BYHOUR=0,3,6,9,12,15,18,21;BYMINUTE=0;BYSECOND=0;COUNT=10000",
    "Europe/Nowhere",
    "/etc/localtime",
    "localtime",
    "reminder:x",
    "escalation:9",
    "notification:send",
    "webhook:send",
    "http://[::1",
    "https://10.0.0.1/",
    "file:///etc/passwd",
    "gAAAAAB" + "A" * 300,
    "*" * 300,
    "**",
    "a*" * 40,
)
_BY_TYPE: dict[str, tuple[str, ...]] = {
    "jsonb": DOCUMENTS,
    "text": TEXTS,
    "smallint": ("-32768", "-1", "0", "1", "32767"),
    "integer": ("-2147483648", "-1", "0", "1", "2147483647"),
    "bigint": ("-9223372036854775808", "-1", "0", "1", "9223372036854775807"),
    "double precision": ("NaN", "Infinity", "-Infinity", "1e300", "-5", "0", "1e-300", "-0"),
    "timestamp with time zone": (
        "-infinity",
        "infinity",
        "0001-01-01 00:00:00+00",
        "4713-01-01 00:00:00+00 BC",
        "9999-12-31 23:59:59.999999+00",
        "294276-12-31 23:59:59+00",
        "1970-01-01 00:00:00+00",
    ),
    "boolean": ("true", "false"),
    "uuid": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "bytea": ("\\x", "\\x00", "\\x" + "ff" * 32),
    "text[]": ("{}", "{NULL}", '{""}', "{**}", "{{a,b},{c,d}}", "{" + ",".join(["a*"] * 2_000) + "}", "[5:6]={a,b}"),
    "uuid[]": ("{}", "{NULL}", "{00000000-0000-0000-0000-000000000000}"),
}
#: Tables with the version of the schema: with other values, every request is answered 503.
_APART = {"scheduled_action_migrations", "scheduled_action_functions"}


class Mutation(NamedTuple):
    """One column of one row of a table, to be overwritten with a value by plain SQL; None: with null."""

    table: str
    column: str
    type: str
    value: str | None

    def __str__(self) -> str:
        shown = self.value if self.value is None or len(self.value) < 60 else f"{self.value[:57]}…"
        return f"{self.table}.{self.column} = {shown!r}"


def mutations(connection: psycopg.Connection[Any]) -> list[Mutation]:
    """Return every hostile value for every column of every table of ours."""
    return list(_mutations(connection))


def _mutations(connection: psycopg.Connection[Any]) -> Iterator[Mutation]:
    columns = connection.execute(
        "select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull from pg_attribute a"
        " join pg_class c on c.oid = a.attrelid where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'"
        " and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' order by 1, a.attnum"
    ).fetchall()
    for table, column, kind, is_needed in columns:
        if table in _APART:
            continue
        if not is_needed:
            yield Mutation(table, column, kind, None)
        for value in _BY_TYPE[kind]:
            yield Mutation(table, column, kind, value)


def apply(connection: psycopg.Connection[Any], mutation: Mutation) -> bool:
    """Overwrite the column of one row except good actions; return False if there is no row or the database refuses."""
    statement = sql.SQL(
        "update {table} set {column} = %s::{type} where ctid = ("
        "select ctid from {table} t where to_jsonb(t)->>'action_type' is distinct from 'good:work'"
        " order by hashtext(ctid::text || %s) limit 1) returning 1"
    ).format(
        table=sql.Identifier(mutation.table),
        column=sql.Identifier(mutation.column),
        type=sql.SQL(mutation.type),
    )
    try:
        found = connection.execute(statement, [mutation.value, str(mutation)]).fetchone()
    except psycopg.Error:
        return False
    return found is not None
