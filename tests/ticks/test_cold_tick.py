"""The first tick of a process: what it loads, and what it leaves to those who need it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: What schedules and changes actions, and makes schedules; a tick that finds nothing due does neither.
_LATER = {
    "core.checks",
    "actions.model",
    "actions.search",
    "actions.service",
    "actions.validation",
    "schedules.rules.new_schedule",
    "schedules.service",
}


def test_a_first_tick_that_finds_nothing_loads_neither_what_schedules_nor_a_parser_of_settings(tmp_path, database_url):
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "_registry.py").write_text("HANDLERS = {}\nOPTIONS = {}\nFUNCTIONS = {}\n")
    code = (
        "import sys, scheduled_actions.wsgi; from scheduled_actions import runtime\n"
        "assert runtime.current().processor.tick().success\n"
        "print(*(name.removeprefix('scheduled_actions.') for name in sys.modules))"
    )

    def loaded():
        told = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={"DATABASE_URL": database_url, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=True,
        )
        return set(told.stdout.split())

    assert "schedules.service" in loaded(), "the first of all brings the declared schedules up to date"

    assert loaded().isdisjoint(_LATER | {"tomllib"})
