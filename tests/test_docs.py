"""The documentation is complete, and what it shows is true."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from dataclasses import fields
from functools import reduce
from pathlib import Path

import click
import pytest
from flask import Flask

import scheduled_actions
from docs import drawings
from scheduled_actions.actions.claims import ClaimHook
from scheduled_actions.actions.hooks import SettleHook
from scheduled_actions.cli import main
from scheduled_actions.core import config
from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.ticks.hooks import Hooks
from scheduled_actions.ticks.report import Report
from scheduled_actions.web.api.requests.problems import status_of
from scheduled_actions.web.api.routes import ROUTES
from scheduled_actions.web.dashboard.site_map import PAGES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def _page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_every_setting_is_documented_with_its_default():
    page = _page("reference/settings.md")

    for dotted in config.setting_names().values():
        default = reduce(getattr, dotted.split("."), config.Settings())
        told = "none" if default is None else f"`{_as_toml(default)}`"
        assert f"| `{dotted}` | {told} |" in page, f"docs/reference/settings.md does not say that {dotted} is {told}"


def _as_toml(value):
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def test_every_setting_of_an_endpoint_is_documented():
    shown = re.search(r"\[webhooks\.endpoints\.crm\]\n(.*?)```", _page("reference/settings.md"), re.DOTALL)[1]

    for field in fields(config.Endpoint):
        assert re.search(rf"^{field.name} = ", shown, re.MULTILINE), f"settings.md does not show {field.name}"


def test_every_variable_that_the_package_reads_is_documented():
    page = _page("reference/settings.md")
    read = {
        name
        for path in (ROOT / "scheduled_actions").rglob("*.py")
        for name in re.findall(r'"(SCHEDULED_ACTIONS_[A-Z_]+[A-Z])"', path.read_text(encoding="utf-8"))
    }

    assert "SCHEDULED_ACTIONS_ENV_COMMAND" in read
    for name in read:
        assert f"| `{name}` |" in page, f"docs/reference/settings.md says nothing of {name}"


@pytest.fixture(scope="module")
def all_modules():
    """Import every module, so that every error is known."""
    for module in pkgutil.walk_packages(scheduled_actions.__path__, "scheduled_actions."):
        if not module.name.endswith(("wsgi", "__main__")) and ".starter" not in module.name:
            importlib.import_module(module.name)


@pytest.mark.usefixtures("all_modules")
def test_every_error_code_is_documented_with_its_class():
    page = _page("reference/errors.md")

    for error in _family(ScheduledActionsError):
        if error.__module__.startswith("scheduled_actions") and "code" in vars(error):
            row = re.search(rf"\| `{error.code}` \| `(\w+)`", page)
            assert row, f"docs/reference/errors.md says nothing of {error.__name__} ({error.code})"
            assert row[1] == error.__name__


@pytest.mark.usefixtures("all_modules")
def test_every_error_code_is_documented_with_the_status_that_it_is_answered_with():
    page = _page("reference/errors.md")

    for code, name, told in re.findall(r"\| `(\w+)` \| `(\w+)` \| ?(\d*) ?\|", page):
        kinds = [kind for kind in _family(ScheduledActionsError) if kind.__name__ == name and kind.code == code]
        assert kinds, f"docs/reference/errors.md tells of {name}, which is no error"
        # Those without a status never leave a tick.
        assert not told or int(told) == status_of(kinds[0]), f"{name} is answered with {status_of(kinds[0])}"


def test_no_error_code_is_documented_twice():
    codes = re.findall(r"^\| `(\w+)` \|", _page("reference/errors.md"), re.MULTILINE)

    assert sorted(codes) == sorted(set(codes))


def _family(error: type) -> set[type]:
    return {error}.union(*(_family(child) for child in error.__subclasses__()))


def test_every_command_is_documented():
    page = _page("reference/cli.md")

    for command in main.commands:
        assert f"| `{command}" in page, f"docs/reference/cli.md says nothing of {command}"


def test_every_command_of_a_group_is_documented_beside_the_others():
    rows = [line for line in _page("reference/cli.md").splitlines() if line.startswith("| `")]

    for *group, name in _commands(main, []):
        if group:
            beside = [row.split(" | ")[0] for row in rows if f"`{' '.join(group)} " in row]
            words = re.findall(r"[a-z-]+", " ".join(beside))
            assert name in words, f"docs/reference/cli.md says nothing of {' '.join(group)} {name}"


def _commands(group, path):
    """Yield the words of every command, those of groups left out."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, [*path, name])
        else:
            yield [*path, name]


def test_every_route_is_documented():
    app = Flask("docs")
    runtime = scheduled_actions.runtime.Runtime(config.load(ROOT, {}))
    scheduled_actions.ScheduledActions(app, runtime=runtime)
    page = _page("reference/http.md")

    rules = {rule.rule for rule in app.url_map.iter_rules() if rule.endpoint != "static"}
    # These are answered by the routing tables of the management API and of the dashboard.
    tables = {rule for rule in rules if rule.startswith(("/api/v1", "/dashboard")) and "cron" not in rule}
    for rule in sorted(rules - tables):
        assert f"{rule}`" in page, f"docs/reference/http.md says nothing of {rule}"
    for one in PAGES:
        told = re.search(rf"`[A-Z, ]*\b{one.method}\b[A-Z, ]* /dashboard{re.escape(one.path)}`", page)
        assert told, f"docs/reference/http.md says nothing of {one.method} /dashboard{one.path}"
    for route in ROUTES:
        assert f"`{route.method} /api/v1{route.path}`" in page, f"docs/reference/http.md says nothing of {route.path}"


def test_every_field_of_a_ticks_answer_is_documented():
    page = _page("reference/http.md")

    for field in fields(Report):
        assert f"| `{field.name}` |" in page, f"docs/reference/http.md says nothing of {field.name}"


def test_every_public_name_is_documented():
    page = _page("reference/python.md")

    for name in scheduled_actions.__all__:
        assert re.search(rf"\b{name}\b", page) or name == "Status", f"docs/reference/python.md says nothing of {name}"


@pytest.mark.parametrize(
    "page",
    sorted(path.relative_to(ROOT) for path in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]),
    ids=str,
)
def test_no_link_is_broken(page):
    text = (ROOT / page).read_text(encoding="utf-8")

    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith("http"):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page} points to {target}, which is not there"


def test_the_readmes_handler_runs_as_shown(tmp_path, database_url):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    handler, scheduling = blocks[0], blocks[1]
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "greetings.py").write_text(handler, encoding="utf-8")
    (tmp_path / "schedule.py").write_text(scheduling.replace("minutes=5", "minutes=0"), encoding="utf-8")
    environment = {**os.environ, "DATABASE_URL": database_url, "SCHEDULED_ACTIONS_PROJECT": str(tmp_path)}

    for command in (
        [sys.executable, str(ROOT / "registry_build.py")],
        [sys.executable, "schedule.py"],
        [sys.executable, "-m", "scheduled_actions.cli", "process"],
    ):
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    shown = subprocess.run(
        [sys.executable, "-m", "scheduled_actions.cli", "list", "--status", "completed", "--json"],
        cwd=tmp_path, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip

    assert '"greeted": "Ada"' in shown.stdout


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_that_a_page_names_exists(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    for target in re.findall(r"\bmake ([a-z-]+)", (ROOT / page).read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page} names make {target}"


def test_the_drawing_of_the_import_order_is_fresh():
    drawn = drawings.DRAWING.read_text(encoding="utf-8")

    assert drawn == drawings.import_order(), "the contract or a folder's docstring has changed: make docs-drawings"


def test_every_folder_has_a_purpose_that_the_drawing_can_show():
    for layer in drawings.layers():
        for folder in layer:
            assert 10 < len(drawings.purpose(folder)) < 100, folder


def test_the_map_lists_every_hook():
    rows = re.findall(r"^\| (`.*?) \|", _page("explanation/architecture.md"), re.MULTILINE)
    listed = set(re.findall(r"`(\w+)`", " ".join(rows)))

    methods = {name for hook in (ClaimHook, SettleHook) for name, one in vars(hook).items() if inspect.isfunction(one)}
    hooks = {field.name for field in fields(Hooks)} | {name for name in methods if not name.startswith("_")}
    assert "after_cancel" in hooks
    assert hooks <= listed


def test_every_file_that_the_map_names_exists():
    page = _page("explanation/architecture.md")
    named = re.findall(r"`([a-z_.]+/[a-z_./-]+)`", page)

    assert len(named) > 60
    places = (ROOT, ROOT / "scheduled_actions")
    assert [name for name in named if not any((place / name).exists() for place in places)] == []
