"""The house stands: its walls, its generated files, and nothing left lying about."""

from __future__ import annotations

import importlib
import logging.config
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from importlinter.cli import lint_imports

import scheduled_actions
from scheduled_actions.core.errors import ScheduledActionsError

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "scheduled_actions"
#: They do something when they are imported.
NOT_TO_BE_IMPORTED = {"scheduled_actions.wsgi", "scheduled_actions.cli.__main__"}


def test_every_folder_imports_only_from_those_below_and_rules_are_pure(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    # It sets logging up for itself and silences every logger there is: tests that come after it read logs.
    monkeypatch.setattr(logging.config, "dictConfig", lambda _config: None)

    broken = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)

    assert not broken, capsys.readouterr().out


def test_the_rules_take_the_present_moment_as_an_argument():
    """What the contracts cannot see: `datetime` itself has a clock."""
    rules = [*PACKAGE.rglob("model.py"), *PACKAGE.rglob("rules.py"), *PACKAGE.rglob("rules/**/*.py")]
    rules += (PACKAGE / "recurrence").rglob("*.py")

    for file in rules:
        assert not re.search(r"\b(now|utcnow|today|uuid[1-8])\(", file.read_text(encoding="utf-8")), file


def test_every_import_inside_a_function_says_why():
    for file in PACKAGE.rglob("*.py"):
        lines = file.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            where = f"{file.relative_to(ROOT)}:{number + 1}"
            if line.startswith("# ruff: noqa: PLC0415"):
                assert lines[number - 1].startswith("# "), f"{where}: the line before says why"
            elif "PLC0415" in line:
                assert re.search(r"PLC0415\b.*( - |\()\w", line), f"{where}: write # noqa: PLC0415 - WHY"


def test_the_registry_of_this_repositorys_handlers_is_fresh():
    checked = subprocess.run(
        [sys.executable, "registry_build.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stderr


def test_no_two_migrations_have_the_same_number():
    numbers = [int(path.name[:4]) for path in (PACKAGE / "database" / "schema" / "migrations").iterdir()]

    assert len(numbers) == len(set(numbers))


def test_every_statement_is_used_and_their_names_are_unique():
    names = [path.name.split(".")[0] for path in PACKAGE.rglob("sql/*.sql")]
    for folder in {path.parent for path in PACKAGE.rglob("sql/*.sql")}:
        used = set()
        for path in folder.parent.glob("*.py"):
            used |= set(re.findall(r"[\"']([a-z_]+)[\"']", path.read_text(encoding="utf-8")))

        statements = {path.stem for path in folder.glob("*.sql") if not path.name.endswith(".inc.sql")}
        assert statements <= used, "a statement that nobody runs"
    assert len(names) == len(set(names))


def test_every_include_is_shared():
    statements = [*PACKAGE.rglob("sql/*.sql"), *(PACKAGE / "database/schema/functions").glob("*.sql")]
    named = re.findall(r"-- include: ([a-z_/]+)", "\n".join(path.read_text(encoding="utf-8") for path in statements))
    there = {
        f"{path.parent.parent.relative_to(PACKAGE)}/{path.name.removesuffix('.inc.sql')}"
        for path in PACKAGE.rglob("sql/*.inc.sql")
    }

    assert {name for name, count in Counter(named).items() if count > 1} == set(named) == there


def test_every_statement_says_what_is_true_afterwards_and_in_words_that_psycopg_can_read():
    for path in PACKAGE.rglob("sql/*.sql"):
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
