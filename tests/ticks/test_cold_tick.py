"""The modules that the first tick of a process imports, and those that are imported only when they are needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: Modules that schedule and change actions and schedules; a tick without due actions does not need them.
_LATER = {
    "core.checks",
    "actions.model",
    "actions.search",
    "actions.service",
    "actions.validation",
    "schedules.rules.new_schedule",
    "schedules.service",
}


def test_an_idle_first_tick_imports_neither_the_scheduling_code_nor_the_settings_parser(tmp_path, database_url):
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "_registry.py").write_text("HANDLERS = {}\nOPTIONS = {}\nFUNCTIONS = {}\n")
    code = (
        "import sys, scheduled_actions.wsgi; from scheduled_actions import runtime\n"
        "assert runtime.current().processor.tick().success\n"
        "print(*(name.removeprefix('scheduled_actions.') for name in sys.modules))"
    )

    def loaded():
        completed = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={"DATABASE_URL": database_url, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=True,
        )
        return set(completed.stdout.split())

    assert "schedules.service" in loaded(), "the very first tick updates the declared schedules"

    names = loaded()
    assert names & (_LATER | {"tomllib"}) == set()
    assert {name for name in names if name.startswith(("executors", "celery", "kombu", "boto3"))} == set()
