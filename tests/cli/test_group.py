"""The command group: lazy loading, help texts, and errors as one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from scheduled_actions import __version__
from scheduled_actions.cli import COMMANDS, flask_group, main
from scheduled_actions.cli.group import LazyGroup
from scheduled_actions.runtime import use

#: Commands whose output programs read.
COMMANDS_WITH_JSON = ["counts", "doctor", "process", "schedule", "migrate"]
COMMANDS_WITH_JSON += [f"actions {name}" for name in ("list", "show", "update", "cancel", "retry", "delete", "run")]


def command(*path):
    """Return a command by its path."""
    found = main
    for name in path:
        _, found, _ = found.resolve_command(click.Context(found), [name])
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_text_and_a_line_in_the_list(name):
    result = CliRunner().invoke(main, [name, "--help"])

    assert result.exit_code == 0
    assert len(command(name).help) > 20
    assert COMMANDS[name][1] in CliRunner().invoke(main, ["--help"]).stdout


@pytest.mark.parametrize("name", COMMANDS_WITH_JSON)
def test_every_reporting_command_has_a_json_option(name):
    assert "--json" in [flag for option in command(*name.split()).params for flag in option.opts]


def paths(group, *path):
    """Yield the full path of each command."""
    for name in group.list_commands(click.Context(group)):
        yield " ".join([*path, name])
        subcommand = command(*path, name)
        if isinstance(subcommand, click.Group):
            yield from paths(subcommand, *path, name)


def test_no_help_needs_a_database_driver_or_a_web_framework():
    """A single process prints the help of every command without importing a heavy module."""
    calls = [[], *(path.split() for path in paths(main))]
    script = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from scheduled_actions.cli import main\n"
        f"for path in {calls!r}:\n"
        "    assert CliRunner().invoke(main, [*path, '--help']).exit_code == 0, path\n"
        "    heavy = {'psycopg', 'flask', 'requests', 'croniter'} & set(sys.modules)\n"
        "    assert not heavy, (path, heavy)"
    )

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert len(calls) > 80


@pytest.mark.parametrize("arguments", [["--version"], ["action"]])
def test_neither_the_version_nor_a_mistyped_command_needs_a_database_driver(arguments):
    script = (
        "import sys\n"
        "from scheduled_actions.cli import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit: pass\n"
        "print(sorted({'psycopg', 'flask', 'requests', 'croniter'} & set(sys.modules)))"
    )

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ran.stdout.splitlines()[-1] == "[]"


def test_an_unknown_command_is_a_usage_error_with_a_suggestion():
    result = CliRunner().invoke(main, ["action"])

    assert result.exit_code == 2
    assert "No such command 'action'" in result.stderr
    assert "actions" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("mistyped", "suggested"), [("retry", "Did you mean 'actions retry'?"), ("list", "Did you mean 'actions list', ")]
)
def test_the_name_of_a_subcommand_alone_is_answered_with_its_full_name(mistyped, suggested):
    result = CliRunner().invoke(main, [mistyped])

    assert result.exit_code == 2
    assert f"Error: No such command '{mistyped}'. {suggested}" in result.stderr


@pytest.mark.parametrize(
    ("path", "mistyped", "suggested"),
    [
        (["deadlines", "create"], "--at", "'--due'"),
        (["deadlines", "move"], "--delay", "'--in'"),
        (["deadlines", "create"], "--recipients", "'--recipient'"),
    ],
)
def test_an_unknown_option_suggests_the_one_for_the_same_parameter(path, mistyped, suggested):
    result = CliRunner().invoke(main, [*path, mistyped, "x"])

    assert result.exit_code == 2
    assert f"Error: No such option '{mistyped}'. Did you mean {suggested}?" in result.stderr


def test_version_prints_the_version_of_the_package():
    result = CliRunner().invoke(main, ["--version"])

    assert result.stdout == f"scheduled-actions {__version__}\n"


def test_a_known_error_is_one_line_on_stderr_and_exit_code_1(run):
    ran = run("actions", "show", "00000000-0000-0000-0000-000000000000")

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr == "error: no action has the id 00000000-0000-0000-0000-000000000000\n"


def test_a_statement_rejected_by_the_database_is_one_line_without_the_row(run, connection):
    connection.execute(
        "create function refuse() returns trigger language plpgsql as $$ begin"
        " raise exception 'this table is closed' using detail = 'the row with the payload'; end $$;"
        " create trigger closed before insert on scheduled_actions execute function refuse()"
    )

    ran = run("schedule", "greeting:say", "--payload", '{"name": "Ann"}')

    assert ran.exit_code == 1
    assert ran.stderr == "error: the database rejected the statement: this table is closed (P0001)\n"


def test_an_unreachable_database_is_one_line_without_its_address(run_anywhere):
    ran = run_anywhere("counts", DATABASE_URL="postgresql://someone:hunter2@127.0.0.1:1/secret_name")

    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: the database cannot be reached: the connection was refused")
    assert ran.stderr.count("\n") == 1
    assert not any(word in ran.stderr for word in ("hunter2", "someone", "secret_name", "127.0.0.1"))


def test_an_invalid_connection_string_is_not_printed(run_anywhere):
    ran = run_anywhere("counts", DATABASE_URL="postgres//someone:hunter2@db")

    assert ran.exit_code == 1
    assert ran.stderr.startswith(
        "error: the database cannot be reached: DATABASE_URL is not a valid connection string such as "
    )
    assert "hunter2" not in ran.stderr


def test_outside_a_project_no_local_database_is_created(run_anywhere, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    ran = run_anywhere("--project", elsewhere, "counts", DATABASE_URL=None)

    assert ran.exit_code == 1
    assert f"DATABASE_URL is not configured: {elsewhere} is not a project" in ran.stderr
    assert list(elsewhere.iterdir()) == []


def test_an_unexpected_error_keeps_its_traceback():
    @click.command()
    def broken():
        raise LookupError

    group = LazyGroup("group", lazy_commands={})
    group.add_command(broken)

    with pytest.raises(LookupError):
        CliRunner().invoke(group, ["broken"], catch_exceptions=False)


def test_a_missing_project_directory_is_a_usage_error(tmp_path):
    result = CliRunner().invoke(main, ["--project", str(tmp_path / "nowhere"), "counts"])

    assert result.exit_code == 2
    assert "--project" in result.stderr
    assert "nowhere' is not a directory" in result.stderr


def test_without_the_option_the_project_comes_from_the_environment(project, database_url):
    environ = {"SCHEDULED_ACTIONS_PROJECT": str(project), "DATABASE_URL": database_url}

    result = CliRunner().invoke(main, ["registry", "check", "--json"], env=environ)

    assert json.loads(result.stdout)["action_types"] == ["greeting:say"]


def test_an_invalid_setting_is_one_line_that_names_the_key(run, project):
    (project / "scheduled_actions.toml").write_text("batch_size = 0\n", encoding="utf-8")

    ran = run("counts")

    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: scheduled_actions.toml: batch_size = 0:")


def test_the_env_file_is_read_and_environment_variables_override_it(run_anywhere, project, database_url):
    (project / ".env").write_text(f"DATABASE_URL={database_url!r}\n", encoding="utf-8")

    from_file = run_anywhere("counts", "--json", DATABASE_URL=None)
    from_environment = run_anywhere("counts", "--json", DATABASE_URL="postgresql://127.0.0.1:1/none")

    assert from_file.json["due"] == 0
    assert from_environment.exit_code == 1


def test_an_unparsable_env_file_is_one_line_without_the_value(run, project):
    (project / ".env").write_text("# Ours\nhunter2 and more\n", encoding="utf-8")

    ran = run("counts")

    assert ran.exit_code == 1
    assert ran.stderr == "error: .env: line 2 is not NAME=VALUE, or has a quote that is not closed\n"


def test_variables_of_the_env_file_are_set_for_handlers_and_removed_after_the_command(run, project):
    (project / ".env").write_text("GREETING=Moin\n", encoding="utf-8")
    (project / "handlers" / "moin.py").write_text(
        "import os\nfrom scheduled_actions import action\n"
        "@action('moin:say')\ndef moin(payload: dict):\n    return os.environ['GREETING']\n",
        encoding="utf-8",
    )
    run("registry", "build")
    scheduled = run("schedule", "moin:say", "--json").json

    run("process")

    assert run("actions", "show", scheduled["id"], "--json").json["result"] == "Moin"
    assert "GREETING" not in os.environ


def test_a_command_restores_the_runtime_and_the_environment(run, project):
    before = use(None)

    run("schedule", "greeting:say", "--payload", '{"name": "Ann"}')

    assert use(before) is None
    assert os.environ.get("SCHEDULED_ACTIONS_PROJECT") != str(project)


def test_flask_runs_the_same_commands(project, database_url):
    assert flask_group is main
    environ = {**os.environ, "DATABASE_URL": database_url, "SCHEDULED_ACTIONS_PROJECT": str(project)}

    ran = subprocess.run(
        [sys.executable, "-m", "flask", "scheduled-actions", "counts", "--json"],
        capture_output=True, text=True, check=True, cwd=project, env=environ,
    )  # fmt: skip

    assert json.loads(ran.stdout)["pending"] == 0


def test_the_module_runs_without_an_installed_script(project, database_url):
    environ = {**os.environ, "DATABASE_URL": database_url}

    ran = subprocess.run(
        [sys.executable, "-m", "scheduled_actions.cli", "counts", "--json"],
        capture_output=True, text=True, check=True, cwd=project, env=environ,
    )  # fmt: skip

    assert json.loads(ran.stdout)["pending"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["simulate", "--from", "2027-01-01T00:00Z", "--to", "2030-01-01T00:00Z"],
            (
                "error: --to must be after the start of the range (2027-01-01T00:00:00+00:00) and at most 92 days "
                "later, not 2030-01-01T00:00:00+00:00"
            ),
        ),
        (
            [
                "schedule",
                "greeting:say",
                "--payload",
                '{"name": "Ann"}',
                "--at",
                "2030-01-01T00:00",
                "--timezone",
                "Mars/X",
            ],
            "error: --timezone: 'Mars/X' is not an IANA time zone",
        ),
        (
            ["deadlines", "create", "invoice", "1"],
            "error: --due or --in is required for a deadline without a recurrence",
        ),
        (
            ["actions", "list", "--cursor", "x"],
            "error: --cursor: 'x' is not a cursor: use next_cursor of the previous page",
        ),
    ],
)
def test_errors_name_the_command_line_option(run, arguments, message):
    ran = run(*arguments)

    assert ran.exit_code == 1
    assert ran.stderr.startswith(message)
