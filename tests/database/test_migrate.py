"""Migrations from scratch, repeated, concurrent and in any schema, and the schema that they create."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import scheduled_actions
from scheduled_actions.core.errors import SchemaOutdated, SchemaShadowed, SchemaUnreleased
from scheduled_actions.database import concurrent_indexes, migrate, versions
from scheduled_actions.database.connection import Database
from scheduled_actions.operations.doctor import service as doctor, store as diagnosis
from scheduled_actions.operations.doctor.rules import Level, database as database_rules
from tests.factories import together

TABLES = {
    "scheduled_actions",
    "scheduled_action_functions",
    "scheduled_action_holds",
    "scheduled_action_migrations",
    "scheduled_action_settings",
    "scheduled_action_ticks",
}


#: The definition of the clock, the milliseconds of ids, and the wait for a key.
NOT_THE_CLOCK = (
    "'select statement_timestamp()'",
    "ticks bigint :=",
    "wait_until",
    # The wait of a statement; and the rate limit of deliveries, which applies in real time.
    "+ (clock_timestamp() - statement_timestamp())",
    "clock_timestamp() operator(pg_catalog.-) pg_catalog.statement_timestamp()",
    "now constant timestamptz := clock_timestamp()",
    "next_at - clock_timestamp()",
)
#: The doctor checks the server itself: its clock, and how long its sessions have been idle.
ABOUT_THE_SERVER = "doctor_"


@pytest.fixture
def empty_url(postgres_server, admin):
    """Yield the connection string of a database without tables."""
    name = f"empty_{uuid4().hex}"
    admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    yield make_conninfo(postgres_server.dsn, dbname=name)
    admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def empty(empty_url):
    """Yield a connection to the database without tables."""
    with psycopg.connect(empty_url, autocommit=True) as connection:
        yield connection


def tables(connection):
    return {
        name
        for (name,) in connection.execute(
            "select relname from pg_class where relkind = 'r' and relnamespace = current_schema()::regnamespace"
        )
    }


@pytest.fixture
def schema_files(monkeypatch, tmp_path):
    """Yield a copy of the schema's files, which `migrate` reads and the test may change."""
    for name in ("MIGRATIONS", "FUNCTIONS"):
        folder = shutil.copytree(getattr(versions, name), tmp_path / name.lower())
        monkeypatch.setattr(versions, name, folder)
    return tmp_path


def add_migration(schema_files, text):
    """Add a migration to the copy of the schema's files; return its name."""
    path = schema_files / "migrations" / f"{versions.read_files().latest + 1:04}_more.sql"
    path.write_text(text, encoding="utf-8")
    return path.stem


def applied(connection):
    """Return the number of the newest migration applied to the database; 0 if there is none."""
    return versions.read(connection).applied


def test_an_empty_database_is_migrated_to_the_current_schema(empty):
    schema = versions.read_files()
    assert applied(empty) == 0
    reported = []

    done = migrate.migrate(empty, report=reported.append)

    names = [one.name for one in schema.migrations]
    assert done[: len(names)] == names
    assert reported[: len(names)] == names
    assert set(done[len(names) :]) == {f"function {one.name}" for one in schema.functions}
    assert applied(empty) == schema.latest
    assert tables(empty) >= TABLES
    found = empty.execute("select number, name, checksum from scheduled_action_migrations order by 1").fetchall()
    assert found == [(one.number, one.name, one.checksum) for one in schema.migrations]
    assert dict(empty.execute("select name, checksum from scheduled_action_functions").fetchall()) == {
        one.name: one.checksum for one in schema.functions
    }


def test_an_up_to_date_database_is_not_changed(connection):
    assert migrate.migrate(connection) == []


def test_concurrent_migrations_are_applied_once(empty_url, empty):
    done = together(empty_url, 4, lambda own, _: migrate.migrate(own))

    # One process applies a migration; the other processes find it applied.
    names = [name for one in done for name in one]
    assert len(names) == len(set(names))
    assert applied(empty) == versions.read_files().latest


def test_a_failed_migration_is_rolled_back(empty):
    empty.execute("create table scheduled_action_ticks ()")

    with pytest.raises(psycopg.errors.DuplicateTable):
        migrate.migrate(empty)

    assert tables(empty) == {"scheduled_action_ticks"}


def test_the_search_path_decides_the_schema(empty):
    empty.execute("create schema work")
    empty.execute("set search_path = work")

    migrate.migrate(empty)

    assert tables(empty) >= TABLES
    assert empty.execute("select deduplicated from schedule_action('test:run')").fetchone() == (False,)
    empty.execute("set search_path = public")
    assert applied(empty) == 0


@pytest.fixture
def behind(connection):
    """Yield a connection whose search path has another schema before the schema of the tables."""
    connection.execute('alter schema public rename to "Our tables"')
    connection.execute("create schema app")
    connection.execute('set search_path = app, "Our tables"')
    return connection


def functions_of(connection, schema):
    return {
        name
        for (name,) in connection.execute("select proname from pg_proc where pronamespace = %s::regnamespace", [schema])
    }


def test_tables_behind_another_schema_of_the_search_path_are_up_to_date(behind):
    assert versions.problem(behind, lacks_table=False) is None
    assert database_rules.migrations(diagnosis.migration_state(behind)).level is Level.OK

    assert migrate.migrate(behind) == []

    assert functions_of(behind, "app") == set()


def test_tables_behind_another_schema_of_the_search_path_are_migrated(behind, schema_files):
    add_migration(
        schema_files,
        "create table scheduled_action_shades (shade text);\n"
        "create index concurrently scheduled_action_shades_shade on scheduled_action_shades (shade);\n",
    )
    path = schema_files / "functions" / "scheduled_actions_dedup_window.sql"
    path.write_text(path.read_text(encoding="utf-8").replace("      5);", "      6);"), encoding="utf-8")
    # Objects with names of the package, in an earlier schema of the search path.
    behind.execute("create table app.shades (shade text)")
    behind.execute("create index scheduled_action_shades_shade on app.shades (shade)")
    behind.execute("drop function report_fact")

    done = migrate.migrate(behind)

    assert done[1:] == [
        "function report_fact", "function scheduled_actions_dedup_window", "index scheduled_action_shades_shade",
    ]  # fmt: skip
    assert migrate.migrate(behind) == []
    assert database_rules.indexes(migrate.unfinished_indexes(behind)).level is Level.OK
    assert functions_of(behind, "app") == set()
    assert behind.execute("select 'scheduled_action_shades'::regclass::text").fetchone() == ("scheduled_action_shades",)
    assert behind.execute("select deduplicated from schedule_action('test:run')").fetchone() == (False,)
    assert behind.execute("show search_path").fetchone() == ('app, "Our tables"',)


def test_an_index_is_dropped_only_in_the_schema_of_the_tables(behind, schema_files):
    behind.execute("create table app.shades (shade text)")
    behind.execute("create index scheduled_actions_by_creator on app.shades (shade)")
    behind.execute("create index scheduled_actions_by_creator on scheduled_actions (created_by)")
    add_migration(schema_files, "drop index concurrently scheduled_actions_by_creator;\n")

    assert migrate.migrate(behind)[1:] == ["index scheduled_actions_by_creator"]

    found = behind.execute(
        "select indexrelid::regclass::text from pg_index where indexrelid::regclass::text ~ 'creator'"
    )
    assert found.fetchall() == [("scheduled_actions_by_creator",)]


@pytest.mark.parametrize(
    ("statement", "hiding"),
    [
        ("create table app.scheduled_actions (created_by text)", "app.scheduled_actions"),
        ("create view app.scheduled_actions as select 1 as created_by", "app.scheduled_actions"),
        ("create table app.scheduled_action_migrations (number integer)", "app.scheduled_action_migrations"),
        ("create table app.scheduled_action_functions (name text)", "app.scheduled_action_functions"),
        ("create view app.webhook_deliveries as select 1 as id", "app.webhook_deliveries"),
        ("create temp table scheduled_actions (created_by text)", r"pg_temp_\d+.scheduled_actions"),
        (
            "create function app.scheduled_actions_dedup_window(text) returns integer language sql as 'select 1'",
            r"app.scheduled_actions_dedup_window\(text\)",
        ),
    ],
)
def test_the_error_names_objects_that_hide_tables_and_functions(behind, schema_files, statement, hiding):
    behind.execute(statement)
    name = add_migration(
        schema_files, "create index concurrently scheduled_actions_by_creator on scheduled_actions (created_by);"
    )
    before = functions_of(behind, "app")

    with pytest.raises(
        SchemaShadowed,
        match=f'finds {hiding} before the object of the same name in schema "Our tables"; nothing was changed: put',
    ):
        migrate.migrate(behind)

    assert database_rules.migrations(diagnosis.migration_state(behind)).level is Level.FAULT
    assert functions_of(behind, "app") == before
    behind.execute('set search_path = "Our tables", pg_temp')
    assert migrate.migrate(behind) == [name, "index scheduled_actions_by_creator"]


def test_a_function_of_the_project_with_other_arguments_hides_no_function(behind):
    behind.execute("create function app.schedule_action(customer integer) returns integer language sql as 'select 1'")

    assert migrate.migrate(behind) == []


def test_an_index_is_built_only_on_the_packages_table(behind):
    """Also if another table hides it after the search path was checked."""
    behind.execute("create table app.scheduled_actions (created_by text)")
    (wanted,) = concurrent_indexes.split(
        "create index concurrently scheduled_actions_by_creator on scheduled_actions (created_by);"
    )[1]

    assert concurrent_indexes.reconcile(behind, [wanted]) == ["index scheduled_actions_by_creator"]

    found = behind.execute("select schemaname from pg_indexes where indexname = 'scheduled_actions_by_creator'")
    assert found.fetchall() == [("Our tables",)]


def test_a_database_in_another_encoding_is_refused(postgres_server, admin):
    name = f"ascii_{uuid4().hex}"
    admin.execute(
        sql.SQL("create database {} template template0 encoding 'SQL_ASCII' locale 'C'").format(sql.Identifier(name))
    )
    try:
        with (
            psycopg.connect(make_conninfo(postgres_server.dsn, dbname=name), autocommit=True) as connection,
            pytest.raises(migrate.ServerUnsuitable, match="encoding of the database is SQL_ASCII; UTF8 is required"),
        ):
            migrate.migrate(connection)
    finally:
        admin.execute(sql.SQL("drop database {}").format(sql.Identifier(name)))


# -- the migrated schema ---------------------------------------------------------------------------------------------


@pytest.fixture(params=["the server's own", "ours"])
def uuid7(request, connection):
    """Return a function that generates ids; `ours` is used on servers before PostgreSQL 18."""
    if request.param == "ours":
        text = (versions.FUNCTIONS / "scheduled_actions_uuid7.sql").read_text(encoding="utf-8")
        begin = text.index("create or replace function scheduled_actions_uuid7()", text.index("uuidv7()"))
        ours = text[begin : text.index("end if;", begin)]
        connection.execute("create schema ours")
        connection.execute("set search_path = ours, public")
        connection.execute(ours)
        connection.execute("set search_path = ours")

    def make(count):
        return connection.execute(
            "select scheduled_actions_uuid7(), clock_timestamp() from generate_series(1, %s)", [count]
        ).fetchall()

    return make


def test_ids_have_version_7_and_ascend_with_time(uuid7):
    made = uuid7(2000)

    for action_id, now in made:
        assert (action_id.version, action_id.variant) == (7, "specified in RFC 4122")
        assert abs((action_id.int >> 80) / 1000 - now.timestamp()) < 5
    ids = [action_id for action_id, _ in made]
    assert len(set(ids)) == len(ids)
    # The package's function distinguishes quarters of a microsecond; ids within one may be in any order.
    assert sum(1 for one, next_one in pairwise(ids) if one > next_one) < len(ids) * 0.01


def test_actions_are_listed_in_the_order_of_their_creation(connection):
    made = [connection.execute("select id from schedule_action('test:run')").fetchone()[0] for _ in range(50)]

    assert made == sorted(made)
    assert all(isinstance(one, UUID) for one in made)


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("status", "'done'"),
        ("status", "'processing'"),
        ("claim_token", "gen_random_uuid()"),
        ("lease_expires_at", "now()"),
        ("history", "'{}'"),
        ("history", "'5'"),
    ],
)
def test_the_table_refuses_inconsistent_rows(connection, columns, values):
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(
            f"insert into scheduled_actions (action_type, scheduled_at, {columns}) values ('a:b', now(), {values})"
        )


def test_all_statements_use_the_clock_that_tests_can_set():
    package = Path(scheduled_actions.__file__).parent

    for path in [*versions.MIGRATIONS.glob("*.sql"), *versions.FUNCTIONS.glob("*.sql"), *package.rglob("sql/*.sql")]:
        if path.stem.startswith(ABOUT_THE_SERVER):
            continue
        lines = path.read_text(encoding="utf-8").replace("scheduled_actions_now()", "").splitlines()
        asking = [line for line in lines if re.search(r"now\(\)|_(timestamp|date|time)\b", line)]
        by_others = [line for line in asking if not any(allowed in line for allowed in NOT_THE_CLOCK)]
        assert [line for line in by_others if not line.strip().startswith("--")] == [], path.name


# -- the files ---------------------------------------------------------------------------------------------------------


def test_every_table_and_column_has_a_comment(empty):
    """The comment is in the line above the column."""
    migrate.migrate(empty)
    text = "\n".join(one.text for one in versions.read_files().migrations)
    columns = empty.execute(
        "select c.relname, a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid"
        " where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attnum > 0"
    ).fetchall()

    for table in {table for table, _ in columns}:
        (definition,) = re.findall(rf"^--.*\ncreate table {table} \(\n(.*?)^\)", text, re.MULTILINE | re.DOTALL)
        uncommented = set(re.findall(r"^(?!  --).*\n  (\w+) ", f"\n{definition}", re.MULTILINE))
        assert uncommented & {column for of, column in columns if of == table} == set(), table


def test_a_file_contains_the_function_of_its_name():
    for function in versions.read_files().functions:
        assert function.text.startswith("-- "), function.name
        # A changed function is applied again, which needs "or replace".
        defined = set(re.findall(r"^ *(create .*\bfunction) (\w+)\(", function.text, re.MULTILINE))
        assert defined == {("create or replace function", function.name)}


def test_the_bodies_of_all_functions_are_valid(connection):
    """`migrate` does not check bodies, so that it can apply the functions in any order."""
    connection.execute("set check_function_bodies = on")

    for function in versions.read_files().functions:
        connection.execute(function.text)


# -- functions ---------------------------------------------------------------------------------------------------------


def test_only_functions_whose_files_have_changed_are_applied_again(connection, schema_files):
    path = schema_files / "functions" / "scheduled_actions_dedup_window.sql"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("      5);", "      6);"), encoding="utf-8")
    untouched = "select oid, xmin from pg_proc where proname = 'schedule_action'"
    before = connection.execute(untouched).fetchall()

    first, second = migrate.migrate(connection), migrate.migrate(connection)

    assert (first, second) == (["function scheduled_actions_dedup_window"], [])
    assert connection.execute("select scheduled_actions_dedup_window('test:run')").fetchone() == (6,)
    assert connection.execute(untouched).fetchall() == before


@pytest.mark.parametrize(
    ("before", "after", "answer"),
    [
        # Other argument types make another function; another result or other argument names cannot replace it.
        ("(action_type text)", "(action_type text, fallback integer default 7)", 7),
        ("returns double precision", "returns integer", 5),
        ("(action_type text)", "(type_name text)", 5),
    ],
    ids=["types", "answer", "names"],
)
def test_a_changed_signature_replaces_the_old_one(connection, schema_files, before, after, answer):
    path = schema_files / "functions" / "scheduled_actions_dedup_window.sql"
    text = path.read_text(encoding="utf-8").replace("scheduled_actions_dedup_window.action_type", "$1")
    path.write_text(text.replace(before, after).replace("      5);", f"      {answer});"), encoding="utf-8")

    done = migrate.migrate(connection)

    assert done == ["function scheduled_actions_dedup_window"]
    found = connection.execute("select count(*) from pg_proc where proname = 'scheduled_actions_dedup_window'")
    assert found.fetchone() == (1,)
    assert connection.execute("select scheduled_actions_dedup_window('test:run')").fetchone() == (answer,)


def test_a_changed_function_keeps_its_search_path_and_its_privileges(connection, schema_files):
    path = schema_files / "functions" / "scheduled_actions_emit_changes.sql"
    path.write_text(path.read_text(encoding="utf-8") + "-- changed\n", encoding="utf-8")
    settings = (
        "select prosecdef, proconfig, has_function_privilege('public', oid, 'execute') from pg_proc"
        " where proname = 'scheduled_actions_emit_changes'"
    )
    before = connection.execute(settings).fetchone()

    migrate.migrate(connection)

    assert connection.execute(settings).fetchone() == before == (True, ["search_path=public, pg_temp"], False)


def test_a_missing_function_is_created(connection):
    connection.execute("drop function report_fact")

    assert migrate.migrate(connection) == ["function report_fact"]


def test_functions_are_applied_before_the_migration_that_calls_them(connection, schema_files):
    """This includes the functions that these call, in their current version."""
    connection.execute("select schedule_action('test:run')")
    (schema_files / "functions" / "scheduled_actions_shade.sql").write_text(
        "-- Returns a shade.\ncreate or replace function scheduled_actions_shade(id uuid) returns text\n"
        "  language sql immutable as $$ select scheduled_actions_light(id) $$;\n"
    )
    (schema_files / "functions" / "scheduled_actions_light.sql").write_text(
        "-- Returns a shade.\ncreate or replace function scheduled_actions_light(id uuid) returns text\n"
        "  language sql immutable as $$ select 'light' $$;\n"
    )
    number = versions.read_files().latest + 1
    (schema_files / "migrations" / f"{number:04}_shades.sql").write_text(
        "alter table scheduled_actions add column shade text;\n"
        "update scheduled_actions set shade = scheduled_actions_shade(id);\n"
    )

    done = migrate.migrate(connection)

    assert done == [
        f"{number:04}_shades", "function scheduled_actions_light", "function scheduled_actions_shade",
    ]  # fmt: skip
    assert connection.execute("select shade from scheduled_actions").fetchone() == ("light",)
    assert migrate.migrate(connection) == []


# -- functions that are still used, and functions without a file -------------------------------------------------------


@pytest.fixture
def webhook_status_with_a_fallback(schema_files):
    """Return the copy of the schema's files, in which `webhook_status` has a second argument."""
    path = schema_files / "functions" / "webhook_status.sql"
    text = path.read_text(encoding="utf-8").replace("(result jsonb)", "(result jsonb, fallback integer default 0)")
    path.write_text(text.replace("::integer end", "::integer else fallback end"), encoding="utf-8")
    return schema_files


def view_text():
    """Return the statement of the view that uses `webhook_status`."""
    text = "\n".join(one.text for one in versions.read_files().migrations)
    (statement,) = re.findall(r"^create view webhook_deliveries as\n.*?;", text, re.MULTILINE | re.DOTALL)
    return statement


def overloads(connection, name):
    return [
        signature
        for (signature,) in connection.execute(
            "select oid::regprocedure::text from pg_proc where starts_with(proname, %s) order by 1", [name]
        )
    ]


def answered(connection):
    """Return the response status of a delivery that completed without one."""
    connection.execute("select schedule_action('webhook:send', '{\"endpoint\": \"crm\"}')")
    connection.execute("update scheduled_actions set status = 'completed', completed_at = now(), result = '{}'")
    return connection.execute("select response_status from webhook_deliveries").fetchone()[0]


@pytest.mark.parametrize("replacing", ["drop view webhook_deliveries;\ncreate view", "create or replace view"])
def test_a_migration_can_replace_the_users_of_a_changed_signature(
    connection, webhook_status_with_a_fallback, replacing
):
    name = add_migration(webhook_status_with_a_fallback, view_text().replace("create view", replacing))

    done = migrate.migrate(connection)

    assert done == [name, "function webhook_status"]
    assert overloads(connection, "webhook_status") == ["webhook_status(jsonb,integer)"]
    assert answered(connection) == 0
    assert migrate.migrate(connection) == []


def test_a_migration_can_replace_the_users_of_a_changed_result(connection, schema_files):
    """The server can replace neither the function nor the column, so the view is dropped and created again."""
    path = schema_files / "functions" / "webhook_status.sql"
    path.write_text(path.read_text(encoding="utf-8").replace("integer", "bigint"), encoding="utf-8")
    add_migration(schema_files, f"drop view webhook_deliveries;\n{view_text()}")

    migrate.migrate(connection)

    assert overloads(connection, "webhook_status") == ["webhook_status(jsonb)"]
    assert connection.execute("select pg_typeof(webhook_status('{}'))::text").fetchone() == ("bigint",)


def test_a_later_migration_than_the_first_that_calls_a_function_can_replace_the_users_of_its_old_signature(
    connection, webhook_status_with_a_fallback
):
    """A project that skips a release applies both migrations in one run."""
    add_migration(
        webhook_status_with_a_fallback, "update scheduled_actions set error_message = webhook_status(result)::text;"
    )
    add_migration(webhook_status_with_a_fallback, view_text().replace("create view", "create or replace view"))

    migrate.migrate(connection)

    assert overloads(connection, "webhook_status") == ["webhook_status(jsonb,integer)"]


def test_the_error_names_the_users_of_an_earlier_signature(connection, webhook_status_with_a_fallback):
    connection.execute("create view own_report as select webhook_status(result) from scheduled_actions")
    add_migration(webhook_status_with_a_fallback, view_text().replace("create view", "create or replace view"))

    for _ in range(2):
        with pytest.raises(migrate.FunctionInUse) as caught:
            migrate.migrate(connection)
        assert "view own_report depends on function webhook_status(jsonb)" in str(caught.value)
        assert "webhook_deliveries" not in str(caught.value)

    connection.execute("drop view own_report")
    migrate.migrate(connection)
    assert overloads(connection, "webhook_status") == ["webhook_status(jsonb,integer)"]


def test_the_error_names_the_users_of_a_result_that_has_changed_twice(connection, schema_files):
    path = schema_files / "functions" / "webhook_status.sql"
    text, view = path.read_text(encoding="utf-8"), f"drop view webhook_deliveries;\n{view_text()}"
    connection.execute("create view own_report as select webhook_status(result) from scheduled_actions")
    for answer in ("bigint", "numeric"):
        path.write_text(text.replace("integer", answer), encoding="utf-8")
        add_migration(schema_files, view)

        with pytest.raises(migrate.FunctionInUse, match=r"own_report depends on function webhook_status\(jsonb\);"):
            migrate.migrate(connection)

    assert overloads(connection, "webhook_status") == ["webhook_status(jsonb)", "webhook_status_outdated(jsonb)"]
    connection.execute("drop view own_report")
    migrate.migrate(connection)
    assert overloads(connection, "webhook_status") == ["webhook_status(jsonb)"]
    assert connection.execute("select pg_typeof(webhook_status('{}'))::text").fetchone() == ("numeric",)


def test_the_doctor_names_the_users_of_an_earlier_signature(connection, webhook_status_with_a_fallback):
    before = database_rules.functions_in_use(doctor.functions_in_use(connection))
    connection.execute("create view own_report as select webhook_status(result) from scheduled_actions")
    connection.execute("create table statuses (status integer default webhook_status('{}'))")
    add_migration(webhook_status_with_a_fallback, view_text().replace("create view", "create or replace view"))
    with pytest.raises(migrate.FunctionInUse):
        migrate.migrate(connection)

    in_use = database_rules.functions_in_use(doctor.functions_in_use(connection))

    assert (before.level, in_use.level) == (Level.OK, Level.WARNING)
    assert in_use.detail == (
        "SQL functions of an earlier release: webhook_status_outdated(jsonb), used by"
        " default value for column status of table statuses, view own_report"
    )
    connection.execute("drop view own_report")
    connection.execute("drop table statuses")
    migrate.migrate(connection)
    assert database_rules.functions_in_use(doctor.functions_in_use(connection)) == before


def test_functions_of_a_later_release_are_not_reported_as_removed(later, shade):
    shade.unlink()
    later.execute(
        "create trigger shades before insert on scheduled_actions for each row"
        " execute function scheduled_actions_shade()"
    )

    assert database_rules.functions_in_use(doctor.functions_in_use(later)).level is Level.OK


@pytest.fixture
def shade(connection, schema_files):
    """Return the file of a function that is also in the database."""
    path = schema_files / "functions" / "scheduled_actions_shade.sql"
    path.write_text(
        "-- Returns the row.\ncreate or replace function scheduled_actions_shade() returns trigger\n"
        "  language plpgsql as $$ begin return new; end $$;\n"
    )
    assert migrate.migrate(connection) == ["function scheduled_actions_shade"]
    return path


def test_a_function_without_a_file_is_dropped(connection, shade):
    shade.unlink()
    assert diagnosis.migration_state(connection).stale_functions == ("scheduled_actions_shade",)

    reported = []
    done = ["function scheduled_actions_shade (dropped)"]

    assert (migrate.migrate(connection, report=reported.append), reported) == (done, done)

    assert overloads(connection, "scheduled_actions_shade") == []
    assert database_rules.migrations(diagnosis.migration_state(connection)).level is Level.OK
    recorded = connection.execute("select name from scheduled_action_functions").fetchall()
    assert {name for (name,) in recorded} == {one.name for one in versions.read_files().functions}
    assert migrate.migrate(connection) == []


def test_a_function_of_the_project_is_not_dropped(connection):
    connection.execute("create function scheduled_actions_of_mine() returns integer language sql as 'select 1'")

    assert migrate.migrate(connection) == []
    assert overloads(connection, "scheduled_actions_of_mine") == ["scheduled_actions_of_mine()"]


def test_a_function_of_the_project_with_the_name_of_a_package_function_is_reported_and_kept(empty):
    empty.execute("create function schedule_action(text) returns integer language sql as 'select 1'")

    with pytest.raises(migrate.FunctionTaken, match=r"schedule_action\(text\)"):
        migrate.migrate(empty)

    assert tables(empty) == set()
    assert empty.execute("select schedule_action('mine')").fetchone() == (1,)


def test_a_function_of_the_project_with_the_name_of_a_new_package_function_is_reported_and_kept(
    connection, schema_files
):
    connection.execute("create function scheduled_actions_shade() returns integer language sql as 'select 1'")
    (schema_files / "functions" / "scheduled_actions_shade.sql").write_text(
        "-- Returns two.\ncreate or replace function scheduled_actions_shade() returns integer\n"
        "  language sql as 'select 2';\n"
    )

    with pytest.raises(migrate.FunctionTaken, match=r"scheduled_actions_shade\(\)"):
        migrate.migrate(connection)

    assert connection.execute("select scheduled_actions_shade()").fetchone() == (1,)


def test_a_function_without_a_file_that_is_still_used_is_reported_and_kept(connection, shade):
    shade.unlink()
    connection.execute(
        "create trigger shades before insert on scheduled_actions for each row"
        " execute function scheduled_actions_shade()"
    )

    with pytest.raises(
        migrate.FunctionInUse,
        match=r"trigger shades on table scheduled_actions depends on function scheduled_actions_sh",
    ):
        migrate.migrate(connection)

    assert connection.execute("select deduplicated from schedule_action('test:run')").fetchone() == (False,)
    assert diagnosis.migration_state(connection).stale_functions == ("scheduled_actions_shade",)
    assert doctor.functions_in_use(connection) == {
        "scheduled_actions_shade()": ("trigger shades on table scheduled_actions",)
    }


# -- a database of a later release -------------------------------------------------------------------------------------


@pytest.fixture
def later(connection, shade, schema_files):
    """Return a connection to a database of a later release, with another function and without an index."""
    index = "scheduled_actions_by_creator"
    add_migration(schema_files, f"create index concurrently {index} on scheduled_actions (created_by);")
    migrate.migrate(connection)
    connection.execute(f"drop index {index}")
    connection.execute("alter function report_fact reset search_path")
    connection.execute(
        "insert into scheduled_action_migrations (number, name, checksum) values (%s, 'more', 'x')",
        [versions.read_files().latest + 1],
    )
    return connection


def test_a_database_of_a_later_release_is_not_changed(later, shade, schema_files):
    """An older release runs `migrate` again when it restarts."""
    path = schema_files / "functions" / "scheduled_actions_dedup_window.sql"
    path.write_text(path.read_text(encoding="utf-8").replace("      5);", "      6);"), encoding="utf-8")
    shade.unlink()
    catalog = "select oid, xmin::text from pg_proc union all select oid, xmin::text from pg_class order by 1"
    before = later.execute(catalog).fetchall()

    assert migrate.migrate(later) == []

    assert later.execute(catalog).fetchall() == before


def test_the_doctor_reports_no_missing_index_in_a_database_of_a_later_release(later):
    assert migrate.unfinished_indexes(later) == []


# -- unreleased builds and interruptions -------------------------------------------------------------------------------


@pytest.fixture
def unreleased(empty):
    """Return a connection to a database of an older build: a table, a row, and records without checksums."""
    empty.execute(
        "create table scheduled_actions (id uuid primary key default gen_random_uuid(), action_type text);"
        "create table scheduled_action_migrations ("
        " number integer primary key, name text not null, applied_at timestamptz not null default now());"
        "insert into scheduled_actions (action_type) values ('test:run');"
        "insert into scheduled_action_migrations (number, name) values (1, '0001_actions'), (27, '0027_privileges')"
    )
    return empty


def contents(connection):
    """Return all tables, functions and rows of an older build."""
    functions = connection.execute(
        "select oid::regprocedure::text from pg_proc where pronamespace = current_schema()::regnamespace order by 1"
    ).fetchall()
    rows = connection.execute("select * from scheduled_actions, scheduled_action_migrations order by 1, 3").fetchall()
    return tables(connection), functions, rows


def test_a_database_of_an_unreleased_build_is_refused_and_not_changed(unreleased):
    before = contents(unreleased)

    with pytest.raises(SchemaUnreleased, match="created by an unreleased build") as caught:
        migrate.migrate(unreleased)

    assert contents(unreleased) == before
    assert caught.value.code == "schema_unreleased"
    assert caught.value.migration == "0001_actions"
    for hint in (
        "a new database in DATABASE_URL",
        "only one in the role's search_path",
        "directory .scheduled_actions",
    ):
        assert hint in str(caught.value)


def test_a_database_with_an_earlier_version_of_the_baseline_is_refused(connection, schema_files):
    path = schema_files / "migrations" / "0001_baseline_actions.sql"
    text = path.read_text(encoding="utf-8")

    path.write_text(f"-- A comment does not count as a change.\n{text}", encoding="utf-8")
    assert migrate.migrate(connection) == []

    path.write_text(f"{text}\nalter table scheduled_actions add column shade text;\n", encoding="utf-8")
    with pytest.raises(SchemaUnreleased, match="0001_baseline_actions"):
        migrate.migrate(connection)


def test_a_statement_that_fails_in_a_database_of_an_unreleased_build_reports_the_build(unreleased, empty_url):
    with (
        closing(Database(lambda: empty_url)) as database,
        pytest.raises(SchemaUnreleased, match="unreleased build"),
        database.connection() as connection,
    ):
        connection.execute("select waiting from scheduled_actions")


def test_a_statement_that_fails_because_of_an_older_function_reports_the_outdated_schema(connection, database_url):
    connection.execute("drop function report_fact")

    with (
        closing(Database(lambda: database_url)) as database,
        pytest.raises(SchemaOutdated, match="SQL functions of the database belong to another version of the code: run"),
        database.connection() as own,
    ):
        own.execute("select report_fact('{}', 'paid', 'true')")


@pytest.mark.parametrize("step", range(len(versions.read_files().migrations) + 1))
def test_an_interrupted_migration_is_completed_by_the_next_run(empty, monkeypatch, step):
    """The interruption comes at each migration, and at the functions after the migrations."""
    names = [one.name for one in versions.read_files().migrations]

    class Interrupted(Exception):
        pass

    def interrupt(connection, functions):
        if len(versions.read(connection).migrations) == step:
            raise Interrupted
        record(connection, functions)

    record = migrate.record_functions
    monkeypatch.setattr(migrate, "record_functions", interrupt)
    with pytest.raises(Interrupted):
        migrate.migrate(empty)
    monkeypatch.undo()
    half = versions.read(empty)

    done = migrate.migrate(empty)

    assert len(half.migrations) == step
    assert done[: len(names) - step] == names[step:]
    assert {f"function {name}" for name in half.functions}.isdisjoint(done)
    assert migrate.migrate(empty) == []
    assert empty.execute("select deduplicated from schedule_action('test:run')").fetchone() == (False,)
