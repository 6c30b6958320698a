"""Migrations and what they bring: from scratch, twice, by two at once, in any schema."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from scheduled_actions.database import migrate
from tests.factories import together

TABLES = {
    "scheduled_actions",
    "scheduled_action_holds",
    "scheduled_action_migrations",
    "scheduled_action_settings",
    "scheduled_action_ticks",
}


#: The definition of the clock itself, the milliseconds of ids, and how long a key is waited for.
NOT_THE_CLOCK = (
    "'select statement_timestamp()'",
    "ticks bigint :=",
    "wait_until",
    # How long a statement has waited; and the pace of deliveries, which receivers feel in real time.
    "+ (clock_timestamp() - statement_timestamp())",
    "clock_timestamp() operator(pg_catalog.-) pg_catalog.statement_timestamp()",
    "now constant timestamptz := clock_timestamp()",
    "next_at - clock_timestamp()",
)
#: The doctor's questions are about the server itself: what its clock shows, since when its sessions stand still.
ABOUT_THE_SERVER = "doctor_"


@pytest.fixture
def empty_url(postgres_server, admin):
    """Give the address of a database without any tables."""
    name = f"empty_{uuid4().hex}"
    admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    yield make_conninfo(postgres_server.dsn, dbname=name)
    admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def empty(empty_url):
    """Give a connection to it."""
    with psycopg.connect(empty_url, autocommit=True) as connection:
        yield connection


def tables(connection):
    return {
        name
        for (name,) in connection.execute(
            "select relname from pg_class where relkind = 'r' and relnamespace = current_schema()::regnamespace"
        )
    }


def test_an_empty_database_is_brought_up_to_the_code(empty):
    assert migrate.applied(empty) == 0
    told = []

    done = migrate.migrate(empty, report=told.append)

    assert done == told
    done = [name for name in done if not name.startswith("index ")]
    assert done == sorted(done)
    assert migrate.applied(empty) == migrate.latest()
    assert tables(empty) >= TABLES
    found = empty.execute("select number, name from scheduled_action_migrations order by 1").fetchall()
    assert found == [(int(name[:4]), name) for name in done]


def test_what_is_up_to_date_is_left_alone(connection):
    assert migrate.migrate(connection) == []


def test_two_that_migrate_at_once_do_it_once(empty_url, empty):
    done = together(empty_url, 4, lambda own, _: migrate.migrate(own))

    # Whoever comes first to a migration applies it; the others find it applied.
    names = [name for one in done for name in one if not name.startswith("index ")]
    assert len(names) == len(set(names))
    assert migrate.applied(empty) == migrate.latest()


def test_a_migration_that_fails_leaves_nothing_behind(empty):
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
    assert migrate.applied(empty) == 0


def test_a_database_in_another_encoding_is_refused(postgres_server, admin):
    name = f"ascii_{uuid4().hex}"
    admin.execute(
        sql.SQL("create database {} template template0 encoding 'SQL_ASCII' locale 'C'").format(sql.Identifier(name))
    )
    try:
        with (
            psycopg.connect(make_conninfo(postgres_server.dsn, dbname=name), autocommit=True) as connection,
            pytest.raises(migrate.ServerUnsuitable, match="encoding is SQL_ASCII; UTF8 is needed"),
        ):
            migrate.migrate(connection)
    finally:
        admin.execute(sql.SQL("drop database {}").format(sql.Identifier(name)))


# -- what the migrations bring -----------------------------------------------------------------------------------------


@pytest.fixture(params=["the server's own", "ours"])
def uuid7(request, connection):
    """Return a function that makes ids; `ours` is the one that servers before 18 get."""
    if request.param == "ours":
        text = (Path(migrate.__file__).parent / "migrations" / "0001_actions.sql").read_text(encoding="utf-8")
        begin = text.index("create function scheduled_actions_uuid7()", text.index("uuidv7()"))
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


def test_ids_are_of_version_7_and_ascend_with_time(uuid7):
    made = uuid7(2000)

    for action_id, now in made:
        assert (action_id.version, action_id.variant) == (7, "specified in RFC 4122")
        assert abs((action_id.int >> 80) / 1000 - now.timestamp()) < 5
    ids = [action_id for action_id, _ in made]
    assert len(set(ids)) == len(ids)
    # Ours tells quarters of a microsecond apart, no more; two in one may stand either way.
    assert sum(1 for one, next_one in pairwise(ids) if one > next_one) < len(ids) * 0.01


def test_actions_are_listed_in_the_order_they_were_made(connection):
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
def test_the_table_takes_no_row_that_could_not_be(connection, columns, values):
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(
            f"insert into scheduled_actions (action_type, scheduled_at, {columns}) values ('a:b', now(), {values})"
        )


def test_all_statements_go_by_the_one_clock_that_tests_can_move():
    folder = Path(migrate.__file__).parent
    files = [*folder.glob("migrations/*.sql"), *folder.glob("queries/*.sql")]

    for path in files:
        if path.stem.startswith(ABOUT_THE_SERVER):
            continue
        lines = path.read_text(encoding="utf-8").replace("scheduled_actions_now()", "").splitlines()
        asking = [line for line in lines if re.search(r"now\(\)|_(timestamp|date|time)\b", line)]
        by_others = [line for line in asking if not any(allowed in line for allowed in NOT_THE_CLOCK)]
        assert [line for line in by_others if not line.strip().startswith("--")] == [], path.name


#: From here on several migrations were written side by side.
_SIDE_BY_SIDE = 20


def test_no_two_new_migrations_define_the_same_function():
    definitions: dict[str, str] = {}
    for path in sorted((Path(migrate.__file__).parent / "migrations").glob("*.sql")):
        if int(path.name[:4]) < _SIDE_BY_SIDE:
            continue
        names = re.findall(r"create\s+or\s+replace\s+function\s+(\w+)", path.read_text(), flags=re.IGNORECASE)
        for name in set(names):
            assert definitions.setdefault(name, path.name) == path.name, f"{name} is also in {definitions[name]}"
