"""The documentation is complete and matches the code."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
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
from scheduled_actions.actions.model import Unset
from scheduled_actions.cli import main
from scheduled_actions.core import config
from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.ticks.hooks import Hooks
from scheduled_actions.ticks.report import TickReport
from scheduled_actions.web.api.dispatch import ROUTES
from scheduled_actions.web.api.problems import status_of
from scheduled_actions.web.dashboard.site_map import PAGES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def _page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_every_setting_is_documented_with_its_default():
    page = _page("reference/settings.md")

    for dotted in config.setting_names().values():
        default = reduce(getattr, dotted.split("."), config.Settings())
        shown = "none" if default is None else f"`{_as_toml(default)}`"
        assert f"| `{dotted}` | {shown} |" in page, f"docs/reference/settings.md must list {dotted} = {shown}"


def _as_toml(value):
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def test_every_setting_of_an_endpoint_is_documented():
    shown = re.search(r"\[webhooks\.endpoints\.crm\]\n(.*?)```", _page("reference/settings.md"), re.DOTALL)[1]

    for field in fields(config.EndpointSection):
        assert re.search(rf"^{field.name} = ", shown, re.MULTILINE), f"settings.md must list {field.name}"


def test_every_variable_that_the_package_reads_is_documented():
    page = _page("reference/settings.md")
    read = {
        name
        for path in (ROOT / "scheduled_actions").rglob("*.py")
        for name in re.findall(r'"(SCHEDULED_ACTIONS_[A-Z_]+[A-Z])"', path.read_text(encoding="utf-8"))
    }

    assert "SCHEDULED_ACTIONS_ENV_COMMAND" in read
    for name in read:
        assert f"| `{name}` |" in page, f"docs/reference/settings.md does not mention {name}"


@pytest.fixture(scope="module")
def all_modules():
    """Import every module, so that all error classes exist."""
    for module in pkgutil.walk_packages(scheduled_actions.__path__, "scheduled_actions."):
        if not module.name.endswith(("wsgi", "__main__")) and ".starter" not in module.name:
            importlib.import_module(module.name)


@pytest.mark.usefixtures("all_modules")
def test_every_error_code_is_documented_with_its_class():
    page = _page("reference/errors.md")

    for error in _family(ScheduledActionsError):
        if error.__module__.startswith("scheduled_actions") and "code" in vars(error):
            row = re.search(rf"\| `{error.code}` \| `(\w+)`", page)
            assert row, f"docs/reference/errors.md does not mention {error.__name__} ({error.code})"
            assert row[1] == error.__name__


@pytest.mark.usefixtures("all_modules")
def test_every_error_code_is_documented_with_its_http_status():
    page = _page("reference/errors.md")

    for code, name, status in re.findall(r"\| `(\w+)` \| `(\w+)` \| ?(\d*) ?\|", page):
        kinds = [kind for kind in _family(ScheduledActionsError) if kind.__name__ == name and kind.code == code]
        assert kinds, f"docs/reference/errors.md lists {name}, which is not an error class"
        # Errors without a status are raised only inside a tick.
        assert not status or int(status) == status_of(kinds[0]), f"{name} has status {status_of(kinds[0])}"


def test_no_error_code_is_documented_twice():
    codes = re.findall(r"^\| `(\w+)` \|", _page("reference/errors.md"), re.MULTILINE)

    assert sorted(codes) == sorted(set(codes))


def _family(error: type) -> set[type]:
    return {error}.union(*(_family(child) for child in error.__subclasses__()))


def test_every_command_is_documented():
    page = _page("reference/cli.md")

    for command in main.commands:
        assert f"| `{command}" in page, f"docs/reference/cli.md does not mention {command}"


def test_every_command_of_a_group_is_documented_in_the_row_of_its_group():
    rows = [line for line in _page("reference/cli.md").splitlines() if line.startswith("| `")]

    for *group, name in _commands(main, []):
        if group:
            columns = [row.split(" | ")[0] for row in rows if f"`{' '.join(group)} " in row]
            words = re.findall(r"[a-z-]+", " ".join(columns))
            assert name in words, f"docs/reference/cli.md does not mention {' '.join(group)} {name}"


def _commands(group, path):
    """Yield the path of every command that is not a group."""
    context = click.Context(group)
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
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
    # These go through the routing tables of the management API and of the dashboard.
    tables = {rule for rule in rules if rule.startswith(("/api/v1", "/dashboard")) and "cron" not in rule}
    for rule in sorted(rules - tables):
        assert f"{rule}`" in page, f"docs/reference/http.md does not mention {rule}"
    for one in PAGES:
        row = re.search(rf"`[A-Z, ]*\b{one.method}\b[A-Z, ]* /dashboard{re.escape(one.path)}`", page)
        assert row, f"docs/reference/http.md does not mention {one.method} /dashboard{one.path}"
    for route in ROUTES:
        assert f"`{route.method} /api/v1{route.path}`" in page, f"docs/reference/http.md does not mention {route.path}"


def test_every_field_of_a_tick_report_is_documented():
    page = _page("reference/http.md")

    for field in fields(TickReport):
        assert f"| `{field.name}` |" in page, f"docs/reference/http.md does not mention {field.name}"


def test_every_public_name_is_documented():
    page = _page("reference/python.md")

    for name in scheduled_actions.__all__:
        assert re.search(rf"\b{name}\b", page) or name == "Status", f"docs/reference/python.md does not mention {name}"


@pytest.mark.parametrize(
    "page",
    sorted(path.relative_to(ROOT) for path in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]),
    ids=str,
)
def test_no_link_is_broken(page):
    text = (ROOT / page).read_text(encoding="utf-8")

    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith("http"):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}, which does not exist"


@pytest.mark.parametrize("page", sorted((DOCS / "decisions").iterdir()), ids=lambda page: page.name)
def test_every_decision_has_a_date_and_the_same_four_headings(page):
    title, date, *_ = [line for line in page.read_text(encoding="utf-8").splitlines() if line]

    assert re.fullmatch(r"# [A-Z].*[^.]", title)
    assert date.startswith(page.name[:10])
    headings = re.findall(r"^## (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == ["Context", "Options", "Decision", "Consequences"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_on_a_page_exists(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    for target in re.findall(r"\bmake ([a-z-]+)", (ROOT / page).read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page} mentions make {target}, which does not exist"


def test_the_drawing_of_the_import_order_is_up_to_date():
    drawn = drawings.DRAWING.read_text(encoding="utf-8")

    assert drawn == drawings.import_order(), "the contract or a folder's docstring has changed; run make docs-drawings"


def test_every_folder_has_a_purpose_that_fits_the_drawing():
    for layer in drawings.layers():
        for folder in layer:
            assert 10 < len(drawings.purpose(folder)) < 100, folder


def test_the_architecture_page_lists_every_hook():
    rows = re.findall(r"^\| (`.*?) \|", _page("explanation/architecture.md"), re.MULTILINE)
    listed = set(re.findall(r"`(\w+)`", " ".join(rows)))

    methods = {name for hook in (ClaimHook, SettleHook) for name, one in vars(hook).items() if inspect.isfunction(one)}
    hooks = {field.name for field in fields(Hooks)} | {name for name in methods if not name.startswith("_")}
    assert "after_cancel" in hooks
    assert hooks <= listed


def test_every_file_on_the_architecture_page_exists():
    page = _page("explanation/architecture.md")
    named = re.findall(r"`([a-z_.]+/[a-z_./-]+)`", page)

    assert len(named) > 60
    places = (ROOT, ROOT / "scheduled_actions")
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_every_signature_of_the_python_reference_is_that_of_the_code():
    page = _page("reference/python.md")
    functions = [name for name in scheduled_actions.__all__ if inspect.isfunction(getattr(scheduled_actions, name))]

    for name in functions:
        complete = [shown for shown in _shown_arguments(page, name) if "…" not in shown]
        assert complete, f"docs/reference/python.md lacks the complete signature of {name}"
        assert complete == [_arguments(getattr(scheduled_actions, name))] * len(complete), name


def _shown_arguments(page: str, name: str) -> list[list[str]]:
    shown = re.findall(rf"(?:^|^\| `|@){name}\(([^`]*?)\)(?: ->|`|$)", page, re.MULTILINE)
    return [re.sub(r"\s+", " ", arguments).split(", ") if arguments else [] for arguments in shown]


def _arguments(function) -> list[str]:
    arguments: list[str] = []
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in arguments:
            arguments.append("*")
        default = json.dumps(one.default) if isinstance(one.default, str) else repr(one.default)
        default = "UNSET" if one.default is Unset.UNSET else default
        arguments.append(one.name if one.default is one.empty else f"{one.name}={default}")
    return arguments
