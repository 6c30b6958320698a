"""`schedule_action()` and a ping run through few modules, so that a reader has few files to open."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from proofs.paths.paths import PAYLOAD_MOST, PING_MOST, payload_path, ping_path
from scheduled_actions.core import tracing

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def without_traces(monkeypatch):
    """Hide the tracer provider that another test may have set."""
    monkeypatch.delitem(sys.modules, tracing.API, raising=False)


def test_schedule_action_runs_through_few_modules_until_its_row_is_inserted(database_url, tmp_path):
    path = payload_path(database_url, tmp_path)

    assert len(path) <= PAYLOAD_MOST, "\n".join(path)
    # The first module only handles unknown keyword arguments.
    assert path[:2] == ["scheduled_actions.core.messages", "scheduled_actions.client.actions"]
    assert path[-1] == "scheduled_actions.database.statements"


def test_a_ping_runs_through_few_modules_until_its_response(database_url, tmp_path):
    path = ping_path(database_url, tmp_path)

    assert len(path) <= PING_MOST, "\n".join(path)
    # The payload is decoded on a thread of the tick.
    assert {"scheduled_actions.web.cron", "scheduled_actions.core.json_text"} <= set(path)


def _modules(steps: str) -> set[str]:
    """Return the dotted names of the modules in a list of steps of the architecture page."""
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    text = page.partition(f"<!-- {steps} -->")[2].partition("<!-- end -->")[0]
    files = re.findall(r"`([a-z_/]+)\.py`", text)
    return {f"scheduled_actions.{one.removesuffix('/__init__').replace('/', '.')}" for one in files}


def test_the_architecture_page_lists_every_module_of_schedule_action(database_url, tmp_path):
    assert set(payload_path(database_url, tmp_path)) <= _modules("payload")


def test_a_ping_runs_through_every_module_that_the_architecture_page_lists(database_url, tmp_path):
    assert _modules("ping") - set(ping_path(database_url, tmp_path)) == set()
