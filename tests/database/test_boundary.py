"""The error boundary: what is raised for one row stays with that row."""

from __future__ import annotations

import psycopg
import pytest

from scheduled_actions.core.errors import DatabaseUnavailable, SchemaOutdated
from scheduled_actions.database.boundary import contain, isolate, reason_of


class Unspeakable(Exception):
    """Fails to describe itself."""

    def __str__(self) -> str:
        """Raise."""
        raise RuntimeError


def refusing(*bad, error=ValueError):
    """Return a step that raises for batches which hold a bad row, and what it was called with."""
    calls = []

    def step(batch):
        calls.append(list(batch))
        if set(batch) & set(bad):
            raise error
        return sum(batch)

    return step, calls


def test_a_batch_that_is_not_refused_is_one_step():
    step, calls = refusing()

    assert isolate([1, 2, 3], step, lambda row, _: -row) == [6]
    assert calls == [[1, 2, 3]]


@pytest.mark.parametrize("error", [ValueError, SystemExit, RecursionError, MemoryError, psycopg.DataError, Unspeakable])
def test_of_a_refused_batch_the_refused_rows_alone_fail_whatever_is_raised(error):
    step, _ = refusing(2, error=error)

    assert isolate([1, 2, 3], step, lambda row, _: -row) == [1, -2, 3]


def test_a_single_row_is_not_tried_twice():
    step, calls = refusing(2)

    assert isolate([2], step, lambda row, _: -row) == [-2]
    assert calls == [[2]]


def test_an_empty_batch_is_not_tried():
    step, calls = refusing()

    assert isolate([], step, lambda row, _: -row) == []
    assert calls == []


@pytest.mark.parametrize(
    "error", [DatabaseUnavailable("gone"), SchemaOutdated(0, 1), psycopg.OperationalError("lost"), KeyboardInterrupt()]
)
def test_an_outage_is_not_blamed_on_a_row(error):
    def step(batch):
        raise error

    with pytest.raises(type(error)):
        isolate([1, 2], step, lambda row, _: row)
    with pytest.raises(type(error)):
        contain(lambda: step([1]), lambda _: None)


def test_the_reason_of_an_error_is_its_type_its_text_and_its_place():
    assert contain(lambda: int("x"), reason_of) == (
        f"ValueError: invalid literal for int() with base 10: 'x' (test_boundary.py:{LINE})"
    )
    assert contain(lambda: (_ for _ in ()).throw(Unspeakable()), reason_of).startswith(
        "Unspeakable: Unspeakable without"
    )


LINE = test_the_reason_of_an_error_is_its_type_its_text_and_its_place.__code__.co_firstlineno + 1


def test_the_reason_of_a_databases_error_repeats_no_statement(connection):
    reason = contain(lambda: connection.execute("select 'a secret'::int"), reason_of)

    assert reason == 'InvalidTextRepresentation: invalid input syntax for type integer: "a secret"'
