"""Handlers that return a failure instead of raising: their actions complete, and the log has one warning per type."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from scheduled_actions import action
from tests.factories import insert, projects, row


@dataclass
class Answer:
    success: bool
    reason: str


@pytest.fixture
def warnings(caplog, monkeypatch):
    """Return a function that returns the captured warnings; earlier tests may have disabled the logger."""
    logger = logging.getLogger("scheduled_actions")
    monkeypatch.setattr(logger, "disabled", False)
    monkeypatch.setattr(logger, "propagate", True)
    caplog.set_level(logging.WARNING, logger="scheduled_actions")
    return lambda: [one.getMessage() for one in caplog.records if "failure_returned" in one.getMessage()]


def run_twice(connection, database_url, answer, **options):
    """Run two actions of a type with this result; return the rows."""

    @action("test:run", **options)
    def run(payload: dict):
        return answer

    with projects(database_url) as create_project:
        ids = [insert(connection) for _ in range(2)]
        create_project(run).processor.tick()
    return [row(connection, action_id) for action_id in ids]


@pytest.fixture(autouse=True)
def no_type_was_reported_before(monkeypatch):
    monkeypatch.setattr("scheduled_actions.ticks.attempts.attempt._types_with_failures", set())


@pytest.mark.parametrize("is_transactional", [False, True])
@pytest.mark.parametrize("answer", [{"success": False, "error": "no license"}, Answer(success=False, reason="none")])
def test_a_returned_failure_completes_and_is_reported_once_per_type(
    connection, database_url, warnings, answer, is_transactional
):
    first, second = run_twice(connection, database_url, answer, transactional=is_transactional)

    assert first["status"] == second["status"] == "completed"
    assert first["result"]["success"] is False
    [warning] = warnings()
    start, _, problem = warning.partition(" problem=")
    assert start.startswith("action.failure_returned action_type=test:run handler=tests.ticks.test_returned_failures:")
    assert problem == (
        'it returned {"success": false}, and its action completes all the same: a handler fails by raising Fail or any '
        "other exception"
    )


@pytest.mark.parametrize("answer", [{"success": False, "checked": 7}, {"success": True}, [{"success": False}], None])
def test_other_results_are_not_reported(connection, database_url, warnings, answer):
    first, _ = run_twice(connection, database_url, answer)

    assert first["status"] == "completed"
    assert warnings() == []
