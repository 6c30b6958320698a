"""The import of a handler's module has a separate time limit: it uses neither the handler's time nor other threads."""

from __future__ import annotations

import sys
import threading
import time
from uuid import uuid4

import pytest

from scheduled_actions.registry import Registry, loading
from scheduled_actions.registry.generated import RegistryContent
from tests.factories import NOW, PATIENCE, insert, projects, row, set_clock, statuses, wait_until

SLOW = """
import sys, time
from scheduled_actions import action
gate = sys.modules["gate_of_imports"]
gate.entered.set()
gate.opened.wait(20)

@action("slow:run", timeout_seconds=0.5)
def run(payload: dict) -> None:
    gate.calls.append(1)
"""
QUICK = """
from scheduled_actions import action

@action("quick:run")
def run(payload: dict) -> None:
    pass
"""


@pytest.fixture
def gate(monkeypatch):
    """Return a gate that blocks the import of the slow module until it is opened, and counts the handler's calls."""

    class Gate:
        entered, opened, calls = threading.Event(), threading.Event(), []

    monkeypatch.setitem(sys.modules, "gate_of_imports", Gate)
    yield Gate
    Gate.opened.set()


@pytest.fixture
def project(database_url, connection, tmp_path):
    """Return a project with a module that is slow to import and one that is not, on two threads."""
    set_clock(connection, NOW)
    slow, quick = (f"{name}_{uuid4().hex}" for name in ("slow", "quick"))
    (tmp_path / f"{slow}.py").write_text(SLOW)
    (tmp_path / f"{quick}.py").write_text(QUICK)
    handlers = {"slow:run": f"{slow}:run", "quick:run": f"{quick}:run"}
    registry = Registry(tmp_path, RegistryContent(handlers=handlers, options={"slow:run": {"timeout_seconds": 0.5}}))
    with projects(database_url) as make:
        yield make(registry=registry)


def begin(project):
    """Tick in another thread; return the thread and the list to which it appends its report."""
    reports = []
    ticking = threading.Thread(target=lambda: reports.append(project.processor.tick()))
    ticking.start()
    return ticking, reports


def test_a_slow_import_does_not_reduce_the_handlers_time(project, connection, gate):
    action_id = insert(connection, action_type="slow:run", scheduled_at=NOW)
    ticking, reports = begin(project)
    assert gate.entered.wait(PATIENCE)
    # Longer than the timeout of the handler.
    time.sleep(0.8)
    gate.opened.set()
    ticking.join(PATIENCE)

    assert reports[0].succeeded == 1
    assert gate.calls == [1]
    found = row(connection, action_id)
    assert (found["status"], found["attempts"]) == ("completed", 1)


def test_a_slow_import_occupies_one_thread_and_the_actions_that_need_it_occupy_none(project, connection, gate):
    slow = [insert(connection, action_type="slow:run", scheduled_at=NOW) for _ in range(10)]
    quick = [insert(connection, action_type="quick:run", scheduled_at=NOW) for _ in range(10)]
    ticking, reports = begin(project)

    wait_until(lambda: [statuses(connection)[one] for one in quick] == ["completed"] * 10)
    assert not gate.opened.is_set()
    gate.opened.set()
    ticking.join(PATIENCE)

    assert reports[0].succeeded == 20
    assert {statuses(connection)[one] for one in slow} == {"completed"}


def test_an_import_that_times_out_fails_only_the_action_that_needs_it(project, connection, gate, monkeypatch):
    monkeypatch.setattr(loading, "IMPORT_SECONDS", 0.5)
    slow = [insert(connection, action_type="slow:run", scheduled_at=NOW) for _ in range(5)]
    quick = [insert(connection, action_type="quick:run", scheduled_at=NOW) for _ in range(5)]
    ticking, reports = begin(project)
    ticking.join(PATIENCE)

    assert reports[0].succeeded == 5
    assert {statuses(connection)[one] for one in quick} == {"completed"}
    found = [row(connection, one) for one in slow]
    assert [(one["status"], one["attempts"]) for one in found] == [("pending", 1)] * 5
    assert all("import" in one["error_message"] for one in found)
    assert project.processor.state.threads.stuck == 1

    gate.opened.set()
    wait_until(lambda: project.processor.state.threads.stuck == 0)
    # The handler of the attempt abandoned during the import was never called.
    assert gate.calls == []
    connection.execute("update scheduled_actions set scheduled_at = scheduled_actions_now() where status = 'pending'")
    assert project.processor.tick().succeeded == 5


def test_a_tick_that_ends_during_an_import_charges_nothing(database_url, connection, tmp_path, gate):
    set_clock(connection, NOW)
    name = f"slow_{uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(SLOW)
    with projects(database_url) as make:
        project = make(
            registry=Registry(tmp_path, RegistryContent(handlers={"slow:run": f"{name}:run"})),
            max_run_seconds=0.5, max_duration_seconds=3,
            default_timeout_seconds=1.2,
        )  # fmt: skip
        action_id = insert(connection, action_type="slow:run", scheduled_at=NOW)
        project.processor.tick()
        gate.opened.set()
        found = row(connection, action_id)

    assert (found["status"], found["attempts"], gate.calls) == ("pending", 0, [])


def test_a_slow_import_does_not_delay_callers_that_only_schedule(project, gate, monkeypatch):
    monkeypatch.setattr(loading, "IMPORT_SECONDS", 0.3)
    importing = threading.Thread(target=project.registry.resolve, args=["slow:run"])
    importing.start()
    assert gate.entered.wait(PATIENCE)

    before = time.monotonic()
    for _ in range(20):
        with pytest.raises(Exception, match="has been running for"):
            project.registry.resolve("slow:run")
    assert time.monotonic() - before < PATIENCE / 4
    gate.opened.set()
    importing.join(PATIENCE)
    assert project.registry.resolve("slow:run").action_type == "slow:run"
