"""Watched tables of another role: no code of their owner runs with the privileges of the actions' owner."""

from __future__ import annotations

from contextlib import contextmanager
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from scheduled_actions.database import migrate
from scheduled_actions.operations.doctor import store as diagnosis
from scheduled_actions.operations.doctor.rules import Level, database as database_rules

PASSWORD = "x"

#: Everything in `shop` belongs to a role that the actions' owner does not trust. Each function records the role as
#: which it ran; all roles may write the records.
SHOP = """
create table shop.ran_as (name text);
grant usage on schema shop to public;
grant insert on shop.ran_as to public;
create function shop.note() returns void language sql as 'insert into shop.ran_as values (current_user)';
create type shop.mood as enum ('fine', 'so "so"');
create function shop.mood_as_json(shop.mood) returns json language plpgsql
  as $$ begin perform shop.note(); return '"stolen"'; end $$;
create cast (shop.mood as json) with function shop.mood_as_json(shop.mood);
create function shop.mood_as_text(shop.mood) returns text language plpgsql
  as $$ begin perform shop.note(); return 'stolen'; end $$;
create cast (shop.mood as text) with function shop.mood_as_text(shop.mood) as implicit;
create type shop.pair as (a int, mood shop.mood);
create domain shop.quantity as int check (value > 0);
create table shop.orders (
  id int primary key, n int, mood shop.mood, moods shop.mood[], pair shop.pair, quantity shop.quantity, r text
);
grant trigger on shop.orders to public;
"""


@pytest.fixture
def roles(connection):
    """Yield the names of two roles: the actions' owner (schema `work`) and the owner of the schema `shop`."""
    names = [f"{name}_{uuid4().hex[:12]}" for name in ("actions_owner", "shop_owner")]
    for name, schema in zip(names, ("work", "shop"), strict=True):
        _run(connection, "create role {} login password {}", sql.Identifier(name), sql.Literal(PASSWORD))
        _run(connection, "create schema {} authorization {}", sql.Identifier(schema), sql.Identifier(name))
    yield names
    for name in names:
        _run(connection, "drop owned by {} cascade", sql.Identifier(name))
        _run(connection, "drop role {}", sql.Identifier(name))


def _run(connection, statement, *parts):
    return connection.execute(sql.SQL(statement).format(*parts))


@pytest.fixture
def as_role(database_url):
    """Return a context manager that connects as a role, with a search path."""

    @contextmanager
    def connected(name, search_path):
        with psycopg.connect(make_conninfo(database_url, user=name, password=PASSWORD), autocommit=True) as own:
            own.execute("select set_config('search_path', %s, false)", [search_path])
            yield own

    return connected


@pytest.fixture
def owner(roles, as_role):
    """Yield a connection of the actions' owner, whose tables are in the schema `work`."""
    with as_role(roles[0], "work") as own:
        migrate.migrate(own)
        yield own


@pytest.fixture
def hostile(roles, as_role, owner):
    """Yield a connection of the owner of a watched table, whose search path begins with that role's schema."""
    with as_role(roles[1], "shop, work") as own:
        own.execute(SHOP)
        owner.execute("select scheduled_actions_watch('shop.orders', 'order')")
        yield own


def ran_as(connection):
    return {name for (name,) in connection.execute("select distinct name from shop.ran_as")}


def records(owner):
    rows = owner.execute("select payload -> 'data' -> 'record' from scheduled_actions order by id").fetchall()
    return [record for (record,) in rows]


def test_a_cast_of_a_column_does_not_run_as_the_actions_owner(hostile, owner, roles):
    hostile.execute("insert into shop.orders (id, mood) values (1, 'fine')")
    hostile.execute("update shop.orders set mood = 'so \"so\"'")
    hostile.execute("delete from shop.orders")

    assert roles[0] not in ran_as(hostile)
    assert [record["mood"] for record in records(owner)] == ["fine", 'so "so"', 'so "so"']


def test_values_of_types_of_the_tables_owner_become_text(hostile, owner, roles):
    hostile.execute(
        "insert into shop.orders values"
        " (1, 5, null, array['so \"so\"', null]::shop.mood[], row(7, 'fine'), 3, 'r'),"
        " (2, null, null, null, null, null, null)"
    )

    first, second = records(owner)
    # An array remains a list, and a domain becomes its base type; no code of the types' owner runs.
    assert first == {
        "id": 1, "n": 5, "mood": None, "moods": ['so "so"', None], "pair": "(7,fine)", "quantity": 3, "r": "r"
    }  # fmt: skip
    assert second == {"id": 2} | dict.fromkeys(["n", "mood", "moods", "pair", "quantity", "r"])
    assert roles[0] not in ran_as(hostile)


def test_values_of_types_of_the_actions_owner_become_json(owner, roles):
    owner.execute("create type work.colour as enum ('red')")
    owner.execute("create type work.point3 as (x int, colours work.colour[])")
    owner.execute("create table work.things (id int primary key, at work.point3, spans int4range, notes jsonb)")
    owner.execute("select scheduled_actions_watch('things', 'thing')")

    owner.execute("""insert into things values (1, row(2, array['red']::work.colour[]), '[1,3)', '{"a": [1]}')""")

    assert records(owner) == [{"id": 1, "at": {"x": 2, "colours": ["red"]}, "spans": "[1,3)", "notes": {"a": [1]}}]


def test_a_column_type_changed_after_an_old_snapshot_runs_no_code(hostile, owner, roles, as_role):
    """In the transaction's snapshot of the catalog, the type is `integer`; the written row has the hostile type."""
    with as_role(roles[1], "shop, work") as other:
        hostile.execute("begin isolation level repeatable read")
        hostile.execute("select count(*) from pg_attribute")
        other.execute("alter table shop.orders alter column n type shop.mood using null")
        hostile.execute("insert into shop.orders (id, n) values (1, 'fine')")
        hostile.execute("commit")

    assert roles[0] not in ran_as(hostile)
    assert [record["n"] for record in records(owner)] == ["fine"]


def test_a_type_added_between_two_rows_runs_no_code(hostile, owner, roles):
    hostile.execute("alter type shop.pair add attribute other shop.mood")
    hostile.execute("insert into shop.orders (id, pair) values (1, row(1, null, 'fine'))")

    assert roles[0] not in ran_as(hostile)
    assert [record["pair"] for record in records(owner)] == ["(1,,fine)"]


def test_functions_and_operators_of_an_earlier_schema_are_not_used(hostile, owner, roles):
    """The owner, or a trigger in its session, calls functions of the package with another schema first in the path."""
    hostile.execute(
        "create function shop.scheduled_actions_refuse(problem text) returns boolean language plpgsql"
        " as $$ begin perform shop.note(); return true; end $$"
    )
    # `jsonb ->> 'literal'` prefers an operator of (jsonb, jsonb) in any schema of the search path.
    hostile.execute(
        "create function shop.steal(a jsonb, b jsonb) returns text language plpgsql"
        " as $$ begin perform shop.note(); return 'stolen'; end $$"
    )
    hostile.execute("create operator shop.->> (leftarg = jsonb, rightarg = jsonb, function = shop.steal)")
    owner.execute("set search_path = shop, work")

    owner.execute('select * from work.schedule_action(\'a:b\', target => \'{"type": "order", "id": "1"}\')')
    owner.execute(
        'select * from work.schedule_actions(\'[{"action_type": "a:b", "target": {"type": "x", "id": "1"}}]\')'
    )
    owner.execute('select * from work.report_fact(\'{"type": "order", "id": "1"}\', \'paid\', \'true\')')
    owner.execute("select work.scheduled_actions_pause('team', 'red'), work.scheduled_actions_resume('team', 'blue')")
    for refused in ("schedule_action('not a type')", "scheduled_actions_resume('type', 'a:b')"):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            owner.execute(f"select * from work.{refused}")

    assert ran_as(hostile) == set()
    assert owner.execute("select target_type from work.scheduled_actions order by id limit 1").fetchone() == ("order",)


def test_the_writers_search_path_does_not_affect_the_triggers_of_the_packages_tables(hostile, owner, roles):
    hostile.execute(
        "create function shop.scheduled_actions_now() returns timestamptz language plpgsql"
        " as $$ begin perform shop.note(); return now(); end $$"
    )
    owner.execute("insert into scheduled_action_settings (name, value) values ('linger_lease', '[\"listen:1\"]')")
    owner.execute("set search_path = shop, work")

    owner.execute("insert into work.scheduled_actions (action_type, scheduled_at) values ('a:b', now())")

    assert ran_as(hostile) == set()


def test_every_entry_point_has_a_fixed_search_path(connection):
    """Entry points: triggers, `security definer` functions, functions of views, and public functions."""
    open_ones = connection.execute(
        """
        select p.oid::regprocedure::text
        from pg_proc p
        where p.pronamespace = 'public'::regnamespace
          and (p.prosecdef or p.prorettype = 'trigger'::regtype or p.proname !~ '^(scheduled_actions|webhook)_'
               or p.proname in ('scheduled_actions_watch', 'scheduled_actions_unwatch')
               or pg_get_viewdef('webhook_deliveries'::regclass) ~ (p.proname || '[(]'))
          and not coalesce('search_path=public, pg_temp' = any (p.proconfig), false)
        """
    ).fetchall()

    assert open_ones == []


def test_a_function_replaced_by_a_later_migration_gets_its_search_path_again(connection):
    def settings():
        return connection.execute(
            "select proconfig from pg_proc where proname = 'scheduled_actions_wake_after'"
        ).fetchone()[0]

    (definition,) = connection.execute(
        "select pg_get_functiondef('scheduled_actions_wake_after()'::regprocedure)"
    ).fetchone()
    connection.execute(definition.replace(" SET search_path TO 'public', 'pg_temp'\n", ""))
    replaced = settings()

    migrate.migrate(connection)

    assert (replaced, settings()) == (None, ["search_path=public, pg_temp"])


def test_the_doctor_warns_if_other_roles_may_create_in_the_packages_schema(owner, roles, connection):
    closed = database_rules.schema(*diagnosis.sql.run_one(owner, "doctor_schema"))
    _run(connection, "grant create on schema work to {}, public", sql.Identifier(roles[1]))

    opened = database_rules.schema(*diagnosis.sql.run_one(owner, "doctor_schema"))

    assert closed.level is Level.OK
    assert opened.level is Level.WARNING
    assert opened.detail == f"other roles may create objects in schema work: {roles[1]}, every role"
    assert opened.remedy == (
        "their functions could run with the rights of the actions' owner: "
        f"`revoke create on schema work from {roles[1]}, public`"
    )
