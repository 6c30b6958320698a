"""Conventions of the code base: import contracts, generated files, SQL statements, error codes, import cost."""

from __future__ import annotations

import ast
import importlib
import logging.config
import pkgutil
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from importlinter.cli import lint_imports

import scheduled_actions
from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.runtime import Runtime
from tests.factories import projects

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "scheduled_actions"
#: Importing these modules has side effects.
NOT_TO_BE_IMPORTED = {"scheduled_actions.wsgi", "scheduled_actions.cli.__main__"}


def test_every_folder_imports_only_from_those_below_and_rules_are_pure(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    # It configures logging and disables all existing loggers, which later tests read.
    monkeypatch.setattr(logging.config, "dictConfig", lambda _config: None)

    broken = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)

    assert not broken, capsys.readouterr().out


def test_the_rules_take_the_present_moment_as_an_argument():
    """The import contracts cannot check this: `datetime` has a clock of its own."""
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
                assert lines[number - 1].startswith("# "), f"{where}: state the reason in a comment line above"
            elif "PLC0415" in line:
                assert re.search(r"PLC0415\b.*( - |\()\w", line), f"{where}: write # noqa: PLC0415 - WHY"


def test_no_class_name_is_defined_twice():
    """A class name has one meaning in the whole package, so that a reader and a search find one definition."""
    places = defaultdict(list)
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(file.relative_to(PACKAGE)))

    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_the_registry_of_this_repository_is_up_to_date():
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
        assert statements <= used, f"unused statements in {folder}: {statements - used}"
    assert len(names) == len(set(names))


def test_every_include_is_shared():
    statements = [*PACKAGE.rglob("sql/*.sql"), *(PACKAGE / "database/schema/functions").glob("*.sql")]
    named = re.findall(r"-- include: ([a-z_/]+)", "\n".join(path.read_text(encoding="utf-8") for path in statements))
    there = {
        f"{path.parent.parent.relative_to(PACKAGE)}/{path.name.removesuffix('.inc.sql')}"
        for path in PACKAGE.rglob("sql/*.inc.sql")
    }

    assert {name for name, count in Counter(named).items() if count > 1} == set(named) == there


def test_every_statement_begins_with_a_comment_and_no_comment_has_a_placeholder():
    for path in PACKAGE.rglob("sql/*.sql"):
        first, *_ = lines = path.read_text(encoding="utf-8").splitlines()
        comments = [line for line in lines if line.strip().startswith("--")]

        assert first.startswith("-- "), path.name
        assert not any("%" in line for line in comments), f"{path.name}: psycopg reads % in a comment as a placeholder"


def test_every_error_class_has_its_own_code():
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


def test_no_message_names_a_file_that_only_the_repository_has():
    """An installed package has neither `docs/` nor a Makefile."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        found += [
            f"{path.name}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
            if re.search(r"\bdocs/\w|\bmake (ci|demo|docs|install|lint|run|test)\b|Makefile", node.value)
        ]

    assert found == []


def test_a_process_that_only_ticks_loads_neither_requests_nor_croniter(tmp_path):
    """Every import adds to the time of a cold start."""
    (tmp_path / "handlers").mkdir()
    ask = (
        "import sys, scheduled_actions.wsgi;"
        "print(*sorted({'requests', 'croniter', 'dateutil', 'smtplib', 'click'} & set(sys.modules)))"
    )

    printed = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    # Flask imports click.
    assert printed.stdout.split() == ["click"]


def test_the_root_url_of_the_wsgi_application_redirects_to_the_dashboard(tmp_path):
    ask = (
        "from scheduled_actions.wsgi import app\n"
        "for root in ('', '/jobs'):\n"
        "    print(app.test_client().get('/', environ_overrides={'SCRIPT_NAME': root}).location)"
    )

    printed = subprocess.run([sys.executable, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert printed.stdout.split() == ["/dashboard/", "/jobs/dashboard/"]


def test_a_handler_module_loads_neither_the_database_nor_flask():
    ask = (
        "import sys; from scheduled_actions import action, Context, Snooze;"
        "print(*sorted({'psycopg', 'flask', 'pydantic'} & set(sys.modules)))"
    )

    printed = subprocess.run(
        [sys.executable, "-c", ask], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )

    assert "psycopg" not in printed.stdout
    assert "flask" not in printed.stdout


def test_every_part_of_the_runtime_is_built_as_its_annotation_says(database_url):
    """Parts that are imported on first use are named by strings, which the type checker does not follow."""
    lazy = {name: hint for name, hint in Runtime.__annotations__.items() if hint.startswith("_lazy[")}

    with projects(database_url) as a_project:
        runtime = a_project()
        built = {name: f"_lazy[{type(getattr(runtime, name)).__name__}]" for name in lazy}

    assert len(lazy) > 15
    assert built == lazy
