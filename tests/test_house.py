"""The house stands: its walls, its generated files, and nothing left lying about."""

from __future__ import annotations

import importlib
import logging.config
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

from importlinter.cli import lint_imports

import scheduled_actions
from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.database import migrate
from scheduled_actions.database.connection import LATEST_KNOWN

ROOT = Path(__file__).parents[1]
STORE = ROOT / "scheduled_actions" / "store"
#: They do something when they are imported.
NOT_TO_BE_IMPORTED = {"scheduled_actions.wsgi", "scheduled_actions.cli.__main__"}


def test_every_file_imports_only_from_its_own_floor_and_those_below(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    # It sets logging up for itself and silences every logger there is: tests that come after it read logs.
    monkeypatch.setattr(logging.config, "dictConfig", lambda _config: None)

    broken = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)

    assert not broken, capsys.readouterr().out


def test_the_rules_take_the_present_moment_as_an_argument():
    """What the contracts cannot see: `datetime` itself has a clock."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (rules,) = (one["source_modules"] for one in settings["contracts"] if one["id"] == "pure-rules")

    for module in rules:
        path = ROOT / module.replace(".", "/")
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
            text = file.read_text(encoding="utf-8")
            assert not re.search(r"\b(now|utcnow|today|uuid[1-8])\(", text), file


def test_the_registry_of_this_repositorys_handlers_is_fresh():
    checked = subprocess.run(
        [sys.executable, "registry_build.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stderr


def test_this_code_knows_its_newest_migration():
    assert migrate.latest() == LATEST_KNOWN


def test_no_two_migrations_have_the_same_number():
    numbers = [int(path.name[:4]) for path in (STORE / "migrations").iterdir()]

    assert len(numbers) == len(set(numbers))


def test_every_statement_is_used_and_every_statement_used_is_there():
    used = set()
    for path in STORE.glob("*.py"):
        used |= set(re.findall(r"[\"']([a-z_]+)[\"']", path.read_text(encoding="utf-8")))
    there = {path.stem for path in (STORE / "queries").glob("*.sql")}

    assert there <= used, "a statement that nobody runs"


def test_every_statement_says_what_is_true_afterwards_and_in_words_that_psycopg_can_read():
    for path in (STORE / "queries").glob("*.sql"):
        first, *_ = lines = path.read_text(encoding="utf-8").splitlines()
        comments = [line for line in lines if line.strip().startswith("--")]

        assert first.startswith("-- "), path.name
        assert not any("%" in line for line in comments), f"{path.name}: psycopg looks for placeholders there, too"


def test_every_kind_of_error_has_a_code_of_its_own():
    for module in pkgutil.walk_packages(scheduled_actions.__path__, "scheduled_actions."):
        if module.name not in NOT_TO_BE_IMPORTED:
            importlib.import_module(module.name)

    codes = Counter(kind.code for kind in kinds_of(ScheduledActionsError) if "code" in vars(kind))

    assert [code for code, count in codes.items() if count > 1] == []
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)


def kinds_of(kind):
    """Return an error class of this package and all its subclasses."""
    found = {kind}
    for one in kind.__subclasses__():
        if one.__module__.startswith("scheduled_actions"):
            found |= kinds_of(one)
    return found


def test_a_process_that_only_ticks_loads_neither_requests_nor_croniter(tmp_path):
    """A cold start pays for what it imports."""
    (tmp_path / "handlers").mkdir()
    ask = (
        "import sys, scheduled_actions.wsgi;"
        "print(*sorted({'requests', 'croniter', 'dateutil', 'smtplib', 'click'} & set(sys.modules)))"
    )

    told = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    # Flask brings click.
    assert told.stdout.split() == ["click"]


def test_whoever_opens_the_bare_address_of_the_ready_made_application_is_led_to_the_dashboard(tmp_path):
    ask = "from scheduled_actions.wsgi import app; print(app.test_client().get('/').location)"

    told = subprocess.run([sys.executable, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert told.stdout == "/dashboard/\n"


def test_a_handler_module_loads_neither_the_database_nor_flask():
    ask = (
        "import sys; from scheduled_actions import action, Context, Snooze;"
        "print(*sorted({'psycopg', 'flask', 'pydantic'} & set(sys.modules)))"
    )

    told = subprocess.run(
        [sys.executable, "-c", ask], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )

    assert "psycopg" not in told.stdout
    assert "flask" not in told.stdout
