"""`psql`: starts the client with the connection parameters in its environment."""

from __future__ import annotations

import json
import sys

import pytest
from psycopg.conninfo import conninfo_to_dict


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


def test_a_missing_psql_is_rejected_with_the_package_to_install(run, tmp_path):
    ran = run("psql", PATH=str(tmp_path))

    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: psql was not found on PATH; install the PostgreSQL client")


def test_an_invalid_connection_string_is_not_printed(run, psql):
    ran = run("psql", PATH=str(psql), DATABASE_URL="postgresql://ann:s3cret@[half/db")

    assert ran.exit_code == 1
    assert "s3cret" not in ran.stderr
