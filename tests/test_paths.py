"""A payload and a ping pass few modules: whoever reads along has few files to open."""

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
    """Let no other test's tracer provider count as the application's."""
    monkeypatch.delitem(sys.modules, tracing.API, raising=False)


def test_a_payload_passes_few_modules_until_its_row_is_inserted(database_url, tmp_path):
    path = payload_path(database_url, tmp_path)

    assert len(path) <= PAYLOAD_MOST, "\n".join(path)
    assert path[0] == "scheduled_actions.client.actions"
    assert path[-1] == "scheduled_actions.database.statements"


def test_a_ping_passes_few_modules_until_its_answer(database_url, tmp_path):
    path = ping_path(database_url, tmp_path)

    assert len(path) <= PING_MOST, "\n".join(path)
    # The handler's payload is decoded on a thread of the tick's.
    assert {"scheduled_actions.web.cron", "scheduled_actions.core.json_text"} <= set(path)


def _modules(steps: str) -> set[str]:
    """Return the modules that a list of steps in the map of the code base names, as Python calls them."""
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    text = page.partition(f"<!-- {steps} -->")[2].partition("<!-- end -->")[0]
    files = re.findall(r"`([a-z_/]+)\.py`", text)
    return {f"scheduled_actions.{one.removesuffix('/__init__').replace('/', '.')}" for one in files}


def test_the_map_names_every_module_of_a_payload(database_url, tmp_path):
    assert set(payload_path(database_url, tmp_path)) <= _modules("payload")


def test_a_ping_passes_every_module_that_the_map_names(database_url, tmp_path):
    assert _modules("ping") - set(ping_path(database_url, tmp_path)) == set()
