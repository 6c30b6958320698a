"""The pytest plugin in a separate pytest process: the example in the docs, overridden fixtures, and its imports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from scheduled_actions.testing.databases import Databases

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "test-your-application.md"


@pytest.fixture
def run_pytest(tmp_path, postgres_server):
    """Return a function that runs pytest in the directory and returns the completed process."""

    def run(*arguments, url=None, **environ):
        values = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "DATABASE"))}
        values |= {"SCHEDULED_ACTIONS_TEST_DATABASE_URL": postgres_server.dsn if url is None else url, **environ}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-q", *arguments]
        values["PYTHONPATH"] = str(tmp_path)
        return subprocess.run(
            command, cwd=tmp_path, env=values, capture_output=True, text=True, check=False, timeout=120
        )

    return run


def write_example(directory):
    """Write the files of the examples in the docs, and handlers of a new project; return the names of the former."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", text, re.DOTALL)
    for name, content in blocks:
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(content, encoding="utf-8")
    for name in ("webhook.py", "exchange_rates.py"):
        shutil.copy(ROOT / "handlers" / name, directory / "handlers")
    return [name for name, _ in blocks]


def test_the_example_in_the_docs_passes_unchanged_and_leaves_no_database(tmp_path, run_pytest, admin, postgres_server):
    # A separate role, because other processes of this run create and drop databases.
    admin.execute("drop role if exists kit_of_the_example")
    admin.execute("create role kit_of_the_example login createdb password 'example'")
    written = write_example(tmp_path)

    ran = run_pytest(
        "-W", "error", url=make_conninfo(postgres_server.dsn, user="kit_of_the_example", password="example")
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "7 passed" in ran.stdout
    assert written == [
        "scheduled_actions.toml", "handlers/orders.py", "shop.py", "tests/test_shop.py", "tests/test_exchange_rates.py",
    ]  # fmt: skip
    assert not (tmp_path / "handlers" / "_registry.py").exists()
    # Postgres rejects this while the role owns an object.
    admin.execute("drop role kit_of_the_example")


@pytest.mark.slow
def test_without_our_fixtures_the_plugin_does_not_import_the_package(tmp_path, run_pytest):
    (tmp_path / "test_theirs.py").write_text(
        "import sys\n\ndef test_it():\n"
        "    loaded = [n for n in sys.modules if n.split('.')[0] in {'scheduled_actions', 'psycopg', 'pydantic'}]\n"
        "    assert 'pytest_scheduled_actions' in sys.modules\n"
        "    assert loaded == []\n",
        encoding="utf-8",
    )

    ran = run_pytest("-p", "no:hypothesispytest")

    assert ran.returncode == 0, ran.stdout


OVERRIDES = """
import pytest
from scheduled_actions import action, schedule_action

@action("own:run", max_attempts=None)
def own(payload: dict):
    return {"ran": True}

@pytest.fixture(scope="session")
def scheduled_actions_prepare_database():
    return lambda connection: connection.execute("create table orders (id int)")

@pytest.fixture
def scheduled_actions_handlers():
    return [own]

@pytest.fixture
def scheduled_actions_environ():
    return {"SCHEDULED_ACTIONS_MAX_ATTEMPTS": "7"}

@pytest.fixture
def run_due():
    return "mine"

def test_overridden(scheduled_actions_kit, scheduled_actions_database_url, run_due, assert_scheduled):
    import psycopg

    schedule_action("own:run", {})
    (done,) = scheduled_actions_kit.run_due()
    assert done.result == {"ran": True} and done.max_attempts == 7
    assert run_due == "mine"
    assert_scheduled("own:run", status="completed")
    with psycopg.connect(scheduled_actions_database_url) as connection:
        assert connection.execute("select count(*) from orders").fetchone() == (0,)

def test_the_next_test_has_an_empty_database(scheduled_actions_kit):
    assert scheduled_actions_kit.actions() == []
"""


@pytest.mark.slow
def test_handlers_settings_tables_and_fixtures_can_be_overridden(tmp_path, run_pytest):
    (tmp_path / "test_own.py").write_text(OVERRIDES, encoding="utf-8")

    ran = run_pytest()

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


def test_a_role_without_createdb_is_rejected(admin, postgres_server):
    from scheduled_actions.core.errors import NotConfigured

    admin.execute("drop role if exists without_createdb")
    admin.execute("create role without_createdb login password 'secret'")
    dsn = make_conninfo(postgres_server.dsn, user="without_createdb", password="secret")

    with (
        pytest.raises(NotConfigured, match=r"cannot be used: its role may not create databases.*createdb"),
        Databases(dsn) as databases,
        databases.fresh(),
    ):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_without_a_configured_server_an_embedded_one_runs_until_the_end(tmp_path, run_pytest, workers):
    from scheduled_actions.testing.databases import server_directory

    write_example(tmp_path)
    before = set(server_directory().glob("scheduled-actions-test-run-*"))

    ran = run_pytest(*workers, url="")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "7 passed" in ran.stdout
    assert set(server_directory().glob("scheduled-actions-test-run-*")) <= before
