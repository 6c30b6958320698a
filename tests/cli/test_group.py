"""The group of commands: lazy, complete, and the one place that makes errors a line."""

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

#: Commands that tell something; the others do something and may tell it, too.
READING = ["list", "show", "counts", "doctor", "process", "schedule", "migrate", "update", "cancel", "retry"]


def command(name):
    return main.get_command(click.Context(main), name)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_text_and_a_line_in_the_list(name):
    result = CliRunner().invoke(main, [name, "--help"])

    assert result.exit_code == 0
    assert len(command(name).help) > 20
    assert COMMANDS[name][1] in CliRunner().invoke(main, ["--help"]).stdout


@pytest.mark.parametrize("name", READING)
def test_every_command_that_tells_something_tells_it_in_json_too(name):
    assert "--json" in [flag for option in command(name).params for flag in option.opts]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["schedule", "--help"], ["counts", "--help"], ["lst"]]
)
def test_help_needs_no_database_driver_and_no_web_framework(arguments):
    script = (
        "import sys\n"
        "from scheduled_actions.cli import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit: pass\n"
        "print(sorted({'psycopg', 'flask', 'requests', 'croniter'} & set(sys.modules)))"
    )

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_command_that_is_not_there_is_a_usage_error_that_names_a_near_one():
    result = CliRunner().invoke(main, ["lst"])

    assert result.exit_code == 2
    assert "No such command 'lst'" in result.stderr
    assert "list" in result.stderr.splitlines()[-1]


def test_the_version_is_the_packages_own():
    result = CliRunner().invoke(main, ["--version"])

    assert result.stdout == f"scheduled-actions {__version__}\n"


def test_an_error_of_ours_is_one_line_on_standard_error_and_exit_code_1(run):
    ran = run("show", "00000000-0000-0000-0000-000000000000")

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr == "error: no action has the id 00000000-0000-0000-0000-000000000000\n"


def test_what_the_database_refuses_is_one_line_without_the_row(run, connection):
    connection.execute(
        "create function refuse() returns trigger language plpgsql as $$ begin"
        " raise exception 'this table is closed' using detail = 'the row with the payload'; end $$;"
        " create trigger closed before insert on scheduled_actions execute function refuse()"
    )

    ran = run("schedule", "greeting:say", "--payload", '{"name": "Ann"}')

    assert ran.exit_code == 1
    assert ran.stderr == "error: the database refused: this table is closed (P0001)\n"


def test_a_database_that_cannot_be_reached_is_one_line_without_its_address(run_anywhere):
    ran = run_anywhere("counts", DATABASE_URL="postgresql://somebody:hunter2@127.0.0.1:1/secret_name")

    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: the database cannot be reached: the connection was refused")
    assert ran.stderr.count("\n") == 1
    assert not any(word in ran.stderr for word in ("hunter2", "somebody", "secret_name", "127.0.0.1"))


def test_a_data_source_name_that_is_none_is_not_repeated(run_anywhere):
    ran = run_anywhere("counts", DATABASE_URL="postgres//somebody:hunter2@db")

    assert ran.exit_code == 1
    assert ran.stderr.startswith(
        "error: the database cannot be reached: DATABASE_URL is not a valid connection string: "
    )
    assert "hunter2" not in ran.stderr


def test_in_a_directory_that_is_no_project_no_database_is_begun(run_anywhere, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    ran = run_anywhere("--project", elsewhere, "counts", DATABASE_URL=None)

    assert ran.exit_code == 1
    assert f"DATABASE_URL is not configured: {elsewhere} is no project" in ran.stderr
    assert list(elsewhere.iterdir()) == []


def test_an_error_that_nobody_foresaw_keeps_its_traceback():
    @click.command()
    def broken():
        raise LookupError

    group = LazyGroup("group", later={})
    group.add_command(broken)

    with pytest.raises(LookupError):
        CliRunner().invoke(group, ["broken"], catch_exceptions=False)


def test_a_directory_that_is_not_there_is_a_usage_error(tmp_path):
    result = CliRunner().invoke(main, ["--project", str(tmp_path / "nowhere"), "counts"])

    assert result.exit_code == 2
    assert "--project" in result.stderr
    assert "nowhere' is not a directory" in result.stderr


def test_the_project_comes_from_the_environment_where_no_option_names_it(project, database_url):
    environ = {"SCHEDULED_ACTIONS_PROJECT": str(project), "DATABASE_URL": database_url}

    result = CliRunner().invoke(main, ["registry", "check", "--json"], env=environ)

    assert json.loads(result.stdout)["action_types"] == ["greeting:say"]


def test_settings_that_cannot_be_used_are_one_line_that_names_the_key(run, project):
    (project / "scheduled_actions.toml").write_text("batch_size = 0\n", encoding="utf-8")

    ran = run("counts")

    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: scheduled_actions.toml: batch_size: 0:")


def test_the_projects_env_file_is_read_and_a_real_variable_wins(run_anywhere, project, database_url):
    (project / ".env").write_text(f"DATABASE_URL={database_url!r}\n", encoding="utf-8")

    from_file = run_anywhere("counts", "--json", DATABASE_URL=None)
    from_environment = run_anywhere("counts", "--json", DATABASE_URL="postgresql://127.0.0.1:1/none")

    assert from_file.json["due"] == 0
    assert from_environment.exit_code == 1


def test_an_env_file_that_cannot_be_read_is_one_line_without_the_value(run, project):
    (project / ".env").write_text("# Ours\nhunter2 and more\n", encoding="utf-8")

    ran = run("counts")

    assert ran.exit_code == 1
    assert ran.stderr == "error: .env: line 2: is not NAME=VALUE: letters, digits and _ make a name\n"


def test_handlers_find_the_env_file_in_their_environment_and_it_goes_with_the_command(run, project):
    (project / ".env").write_text("GREETING=Moin\n", encoding="utf-8")
    (project / "handlers" / "moin.py").write_text(
        "import os\nfrom scheduled_actions import action\n"
        "@action('moin:say')\ndef moin(payload: dict):\n    return os.environ['GREETING']\n",
        encoding="utf-8",
    )
    run("registry", "build")
    scheduled = run("schedule", "moin:say", "--json").json

    run("process")

    assert run("show", scheduled["id"], "--json").json["result"] == "Moin"
    assert "GREETING" not in os.environ


def test_a_command_leaves_the_process_as_it_found_it(run, project):
    before = use(None)

    run("schedule", "greeting:say", "--payload", '{"name": "Ann"}')

    assert use(before) is None
    assert os.environ.get("SCHEDULED_ACTIONS_PROJECT") != str(project)


def test_the_same_commands_hang_on_flask(project, database_url):
    assert flask_group is main
    environ = {**os.environ, "DATABASE_URL": database_url, "SCHEDULED_ACTIONS_PROJECT": str(project)}

    ran = subprocess.run(
        [sys.executable, "-m", "flask", "scheduled-actions", "counts", "--json"],
        capture_output=True, text=True, check=True, cwd=project, env=environ,
    )  # fmt: skip

    assert json.loads(ran.stdout)["pending"] == 0


def test_the_module_runs_where_no_script_is_on_the_path(project, database_url):
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
            "error: --to: 2030-01-01 00:00:00+00:00 is not after the start (2027-01-01T00:00:00+00:00)",
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
        (["deadlines", "set", "invoice", "1"], "error: --due or --in: nothing is not an instant: say when"),
        (["list", "--cursor", "x"], "error: --cursor: 'x' is not the id that the page before ended with"),
    ],
)
def test_what_is_refused_is_called_as_the_option_is(run, arguments, message):
    ran = run(*arguments)

    assert ran.exit_code == 1
    assert ran.stderr.startswith(message)
