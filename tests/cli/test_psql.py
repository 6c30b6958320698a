"""`psql`: starts the client with the connection parameters in its environment."""

from __future__ import annotations

import json
import sys

import pytest
from psycopg.conninfo import conninfo_to_dict

from scheduled_actions.database.embedded import cluster


@pytest.fixture
def psql(tmp_path):
    """Return a directory with a psql that writes its arguments and environment to a file and exits with 3."""
    directory = tmp_path / "bin"
    directory.mkdir()
    program = directory / "psql"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "given = {name: value for name, value in os.environ.items() if name.startswith('PG')}\n"
        "json.dump([sys.argv[1:], given], open(os.environ['OUTPUT'], 'w'))\n"
        "sys.exit(3)\n"
    )
    program.chmod(0o755)
    return directory


def test_psql_receives_the_connection_in_its_environment_and_its_own_options(run, psql, tmp_path, database_url):
    ran = run("psql", "-At", "-c", "select 1", PATH=str(psql), OUTPUT=str(tmp_path / "output"))

    arguments, given = json.loads((tmp_path / "output").read_text())
    expected = conninfo_to_dict(database_url)
    assert ran.exit_code == 3
    assert arguments == ["-At", "-c", "select 1"]
    assert (given["PGDATABASE"], given["PGHOST"], given["PGPORT"]) == (
        expected["dbname"], expected["host"], expected["port"],
    )  # fmt: skip
    assert given.get("PGPASSWORD") == expected.get("password")


@pytest.fixture
def script(tmp_path):
    """Return the arguments of a query whose result psql writes to a file, and that file."""
    output = tmp_path / "answer"
    return ["--no-psqlrc", "-At", "-o", str(output), "-c", "select 'answer of', current_database()"], output


def test_without_psql_on_path_that_of_the_embedded_postgres_is_used(run, tmp_path, script, database_url):
    arguments, output = script

    ran = run("psql", *arguments, PATH=str(tmp_path))

    assert ran.exit_code == 0
    assert output.read_text() == f"answer of|{conninfo_to_dict(database_url)['dbname']}\n"


@pytest.mark.parametrize(("version", "is_used"), [("9.6.24", False), ("99.1", True)])
def test_a_psql_on_path_that_is_older_than_the_server_is_not_used(run, tmp_path, script, version, is_used):
    arguments, output = script
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "psql").write_text(
        f'#!/bin/sh\nif [ "$1" = -V ]; then echo "psql (PostgreSQL) {version}"; else exit 7; fi\n'
    )
    (directory / "psql").chmod(0o755)

    ran = run("psql", *arguments, PATH=str(directory))

    assert ran.exit_code == (7 if is_used else 0)
    assert output.exists() is not is_used


def test_without_any_psql_the_error_names_what_to_install(run, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "WHEEL", "no_such_wheel")
    monkeypatch.setattr(cluster, "SYSTEM", tmp_path / "none")

    ran = run("psql", PATH=str(tmp_path))

    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: psql was found neither on PATH nor with an embedded Postgres: run pip install")


def test_psql_itself_reports_an_unreachable_database(run, psql, tmp_path):
    nowhere = "postgresql://127.0.0.1:1/none"

    ran = run("psql", PATH=str(psql), OUTPUT=str(tmp_path / "output"), DATABASE_URL=nowhere)

    assert ran.exit_code == 3


def test_an_invalid_connection_string_is_not_printed(run, psql):
    ran = run("psql", PATH=str(psql), DATABASE_URL="postgresql://ann:s3cret@[half/db")

    assert ran.exit_code == 1
    assert "s3cret" not in ran.stderr
