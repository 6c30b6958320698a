"""Parameters formatted as array literals have the same values as lists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import psycopg
import pytest

from scheduled_actions.database import statements

_SOME = [UUID(int=7), UUID("0197a000-0000-7000-8000-000000000001")]
_ODD = ["", "NULL", 'a "quoted" one', "{a,b}", "back\\slash\\", "line\nbreak\ttab", " space ", "ü€😀", "'", "%s"]
_MOMENTS = [
    datetime(2026, 3, 4, 12, 0, 0, 123456, tzinfo=UTC),
    None,
    datetime(2026, 3, 4, 12, tzinfo=timezone(timedelta(hours=5, minutes=45))),
]


@pytest.mark.parametrize(
    ("write", "values", "kind"),
    [
        (statements.uuids, _SOME, "uuid"),
        (statements.uuids, [], "uuid"),
        (statements.binary_uuids, _SOME, "uuid"),
        (statements.binary_uuids, [], "uuid"),
        (statements.numbers, [0, -3, 10**12], "bigint"),
        (statements.numbers, [0.1, 3600.0, 1e-7, 1e300], "double precision"),
        (statements.instants, _MOMENTS, "timestamptz"),
        (statements.texts, _ODD, "text"),
        (statements.texts, [], "text"),
        (statements.texts, ["NULL", None, *_ODD], "text"),
        (statements.texts, [""], "text"),
    ],
)
def test_formatted_arrays_are_read_back_unchanged(connection, write, values, kind):
    (read,) = connection.execute(f"select %s::{kind}[]", [write(values)]).fetchone()

    assert read == values


def test_a_text_that_postgres_cannot_store_is_refused_and_not_split_into_two(connection):
    with pytest.raises(psycopg.DataError, match="NUL"):
        connection.execute("select %s::text[]", [statements.texts(["a\0b", "c"])])


def test_any_iterable_is_accepted(connection):
    (read,) = connection.execute("select %s::uuid[]", [statements.binary_uuids(one for one in _SOME)]).fetchone()

    assert read == _SOME
