"""The error boundary: an error in one row does not affect other rows."""

from __future__ import annotations

import psycopg
import pytest

from scheduled_actions.core.errors import DatabaseUnavailable, SchemaOutdated
from scheduled_actions.database.boundary import ESCAPES_IN_URL, contain, isolate, reason_of, unavailable


class Unprintable(Exception):
    """An exception whose `__str__` raises an error."""

    def __str__(self) -> str:
        """Raise."""
        raise RuntimeError


def refusing(*bad, error=ValueError):
    """Return a step that raises an error for batches with a bad row, and the list of the batches of its calls."""
    calls = []

    def step(batch):
        calls.append(list(batch))
        if set(batch) & set(bad):
            raise error
        return sum(batch)

    return step, calls


def test_a_batch_without_errors_is_one_step():
    step, calls = refusing()

    assert isolate([1, 2, 3], step, lambda row, _: -row) == [6]
    assert calls == [[1, 2, 3]]


@pytest.mark.parametrize("error", [ValueError, SystemExit, RecursionError, MemoryError, psycopg.DataError, Unprintable])
def test_only_the_rows_at_fault_fail_regardless_of_the_error(error):
    step, _ = refusing(2, error=error)

    assert isolate([1, 2, 3], step, lambda row, _: -row) == [1, -2, 3]


def test_a_single_row_is_not_retried():
    step, calls = refusing(2)

    assert isolate([2], step, lambda row, _: -row) == [-2]
    assert calls == [[2]]


def test_the_step_is_not_called_for_an_empty_batch():
    step, calls = refusing()

    assert isolate([], step, lambda row, _: -row) == []
    assert calls == []


@pytest.mark.parametrize(
    "error", [DatabaseUnavailable("gone"), SchemaOutdated(0, 1), psycopg.OperationalError("lost"), KeyboardInterrupt()]
)
def test_an_outage_is_raised_instead_of_failing_a_row(error):
    def step(batch):
        raise error

    with pytest.raises(type(error)):
        isolate([1, 2], step, lambda row, _: row)
    with pytest.raises(type(error)):
        contain(lambda: step([1]), lambda _: None)


def test_the_reason_of_an_error_contains_its_type_text_and_line():
    assert contain(lambda: int("x"), reason_of) == (
        f"ValueError: invalid literal for int() with base 10: 'x' (test_boundary.py:{LINE})"
    )
    assert contain(lambda: (_ for _ in ()).throw(Unprintable()), reason_of).startswith(
        "Unprintable: Unprintable without"
    )


LINE = test_the_reason_of_an_error_contains_its_type_text_and_line.__code__.co_firstlineno + 1


def test_the_reason_of_a_database_error_does_not_contain_the_statement(connection):
    reason = contain(lambda: connection.execute("select 'a secret'::int"), reason_of)

    assert reason == 'InvalidTextRepresentation: invalid input syntax for type integer: "a secret"'


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("nowhere.invalid", "the host name cannot be resolved"),
        (
            "hunter2@127.0.0.1",
            f"the host name cannot be resolved, because it contains @: {ESCAPES_IN_URL}",
        ),
    ],
)
def test_an_at_sign_in_the_host_name_is_reported_as_one_of_the_password(host, reason):
    error = psycopg.OperationalError(f"failed to resolve host '{host}': [Errno -2] Name or service not known")

    assert unavailable(error).reason == reason
