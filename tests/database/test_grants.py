"""Roles with the privileges of a scheduler or a reader have exactly these, for one team or for all teams."""

from __future__ import annotations

from contextlib import contextmanager
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from scheduled_actions.actions import store as actions
from scheduled_actions.core.errors import RequestError, SchemaShadowed
from scheduled_actions.database import migrate, versions
from scheduled_actions.database.grants import Grant, GrantRefused, RoleKind, grant

EVENT = {"event": "order:paid", "entity_type": "order", "entity_id": "7"}
TARGET = '{"type": "order", "id": "7"}'


@pytest.fixture
def role(connection):
    """Yield the name of a role without any privileges."""
    name = f"app_{uuid4().hex[:12]}"
    connection.execute(sql.SQL("create role {} login password 'x'").format(sql.Identifier(name)))
    yield name
    connection.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(name)))
    connection.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture
def as_role(database_url, role):
    """Return a context manager that connects as the role, with the search path of a schema."""

    @contextmanager
    def connected(schema="public"):
        with psycopg.connect(make_conninfo(database_url, user=role, password="x"), autocommit=True) as own:
            own.execute("select set_config('search_path', %s, false)", [schema])
            yield own

    return connected


def refused(own, statement, *, parameters=()):
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
        own.execute(statement, parameters)
    return caught.value.diag.message_primary


def rows(connection):
    return connection.execute("select action_type, team_id from scheduled_actions order by id").fetchall()


def test_a_role_without_a_grant_cannot_schedule(connection, role, as_role):
    with as_role() as own:
        assert "permission denied for table" in refused(own, "select * from schedule_action('test:run')")


def test_a_scheduler_schedules_emits_and_reports(connection, role, as_role):
    made = grant(connection, RoleKind.SCHEDULER, role)

    assert made == Grant(role=role, kind=RoleKind.SCHEDULER, team_id=None, schema="scheduled_actions_api")
    with as_role(made.schema) as own:
        own.execute("select * from schedule_action('test:run', team_id => 'blue', dedup_key => 'k')")
        own.execute("select * from schedule_action('test:run', team_id => 'blue', dedup_key => 'k')")
        own.execute("select * from schedule_action('webhook:send', %s)", [Jsonb(EVENT)])
        own.execute('select * from schedule_actions(\'[{"action_type": "test:run", "team_id": "red"}]\')')
        own.execute("select * from emit_event('order:paid', '8', '{}', team_id => 'red')")
        own.execute("select * from schedule_recurring_action('test:run', '{}', 'daily', team_id => 'red')")
        own.execute("select * from set_deadline(%s, now(), team_id => 'red')", [TARGET])
        fact = own.execute("select * from report_fact(%s, 'paid', 'true', team_id => 'red')", [TARGET]).fetchone()

    assert rows(connection) == [
        ("test:run", "blue"), ("webhook:send", None), ("test:run", "red"), ("webhook:send", "red"),
        ("schedule:apply", "red"), ("deadline:apply", "red"),
    ]  # fmt: skip
    assert fact == (True, False)
    assert connection.execute("select team_id, value from scheduled_action_facts").fetchall() == [("red", True)]


def test_the_python_functions_work_as_a_scheduler(connection, role, as_role):
    made = grant(connection, RoleKind.SCHEDULER, role)

    with as_role(made.schema) as own:
        done = actions.schedule(own, {"action_type": "test:run", "payload": "{}", "delay": 60})
        (other,) = actions.schedule_elements(own, [actions.element({"action_type": "test:run", "payload": "{}"})])

    assert {done.id, other.id} == {one for (one,) in connection.execute("select id from scheduled_actions")}


STATEMENTS_ON_TABLES = [
    "select * from public.scheduled_actions",
    "insert into public.scheduled_actions (action_type, scheduled_at) values ('test:run', now())",
    "update public.scheduled_actions set status = 'completed'",
    "delete from public.scheduled_actions",
    "delete from public.scheduled_action_facts",
    "select * from public.scheduled_action_tokens",
    "select * from public.schedule_action('test:run')",
    "select public.scheduled_actions_pause('team', 'blue')",
    "select public.scheduled_actions_resume('team', 'blue')",
    "select public.scheduled_actions_watch('public.scheduled_action_tokens', 'token')",
]


@pytest.mark.parametrize("kind", [RoleKind.SCHEDULER, RoleKind.READER])
@pytest.mark.parametrize("team", [None, "blue"])
def test_neither_kind_of_role_can_read_or_write_the_tables(connection, role, as_role, kind, team):
    made = grant(connection, kind, role, team_id=team)

    with as_role(made.schema) as own:
        for statement in STATEMENTS_ON_TABLES:
            assert "permission denied" in refused(own, statement), statement


def test_a_scheduler_cannot_read_and_a_reader_cannot_schedule(connection, role, as_role):
    made = grant(connection, RoleKind.SCHEDULER, role)
    with as_role(made.schema) as own:
        assert "permission denied for view" in refused(own, "select * from scheduled_actions")
    connection.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(role)))
    grant(connection, RoleKind.READER, role)
    with as_role(made.schema) as own:
        assert "permission denied for function" in refused(own, "select * from schedule_action('webhook:send')")


def test_a_scheduler_of_a_team_can_only_schedule_for_that_team(connection, role, as_role):
    made = grant(connection, RoleKind.SCHEDULER, role, team_id="blue")

    assert made.schema == "scheduled_actions_team_blue"
    with as_role(made.schema) as own:
        own.execute("select * from schedule_action('webhook:send', %s)", [Jsonb(EVENT)])
        own.execute("select * from schedule_action('webhook:send', %s, team_id => 'blue')", [Jsonb(EVENT)])
        own.execute("select * from schedule_actions(%s)", [Jsonb([{"action_type": "webhook:send", "payload": EVENT}])])
        own.execute("select * from emit_event('order:paid', '8', '{}')")
        own.execute("select * from schedule_recurring_action('webhook:send', %s, 'daily')", [Jsonb(EVENT)])
        own.execute("select * from set_deadline(%s, now())", [TARGET])
        own.execute("select * from report_fact(%s, 'paid', 'true')", [TARGET])

        message = refused(own, "select * from schedule_action('webhook:send', team_id => 'red')")
        refused(own, 'select * from schedule_actions(\'[{"action_type": "webhook:send", "team_id": "red"}]\')')
        refused(own, "select * from emit_event('order:paid', '8', '{}', team_id => 'red')")
        refused(own, "select * from schedule_recurring_action('webhook:send', '{}', 'daily', team_id => 'red')")
        refused(own, "select * from set_deadline(%s, now(), team_id => 'red')", parameters=[TARGET])
        refused(own, "select * from report_fact(%s, 'paid', 'true', team_id => 'red')", parameters=[TARGET])

    assert message == 'team_id: this role acts for the team "blue", not for "red"'
    assert {team for _, team in rows(connection)} == {"blue"}
    assert connection.execute("select team_id from scheduled_action_facts").fetchall() == [("blue",)]


def test_the_access_schema_of_another_team_is_denied(connection, role, as_role):
    grant(connection, RoleKind.SCHEDULER, role, team_id="blue")
    connection.execute(
        "select scheduled_actions_create_access_schema('red'), scheduled_actions_create_access_schema(null)"
    )

    with as_role() as own:
        for door in ("scheduled_actions_team_red", "scheduled_actions_api"):
            assert f"permission denied for schema {door}" in refused(
                own, f"select {door}.schedule_action('webhook:send')"
            )


CLOSED = {"action_type": "maintenance:prune"}


@pytest.mark.parametrize(
    "element",
    [
        CLOSED,
        {"action_type": "webhook:send", "payload": {**EVENT, "endpoint": "crm"}},
        {"action_type": "webhook:send", "payload": EVENT, "on_success": [CLOSED]},
        {
            "action_type": "webhook:send",
            "payload": EVENT,
            "on_failure": {"action_type": "webhook:send", "on_success": CLOSED},
        },
        {"action_type": "webhook:send", "payload": EVENT, "condition": {"wait": {}, "on_timeout": [CLOSED]}},
    ],
)
def test_a_scheduler_of_a_team_can_only_schedule_types_open_to_teams(connection, role, as_role, element):
    made = grant(connection, RoleKind.SCHEDULER, role, team_id="blue")
    arguments = {
        name: element.get(name) for name in ("action_type", "payload", "condition", "on_success", "on_failure")
    }

    with as_role(made.schema) as own:
        many = refused(own, "select * from schedule_actions(%s)", parameters=[Jsonb([element])])
        recurring = refused(
            own,
            "select * from schedule_recurring_action(%s, coalesce(%s, '{}'::jsonb), 'daily', condition => %s,"
            " on_success => %s, on_failure => %s)",
            parameters=[
                element["action_type"],
                *(given and Jsonb(given) for name, given in arguments.items() if name != "action_type"),
            ],
        )
        one = refused(
            own,
            "select * from schedule_action(%s, payload => coalesce(%s, '{}'::jsonb), condition => %s, on_success => %s,"
            " on_failure => %s)",
            parameters=[
                arguments.pop("action_type"), *(given and Jsonb(given) for given in arguments.values())
            ],
        )  # fmt: skip

    assert one == many == recurring
    assert "is not open to teams" in one or "payload.endpoint" in one
    assert rows(connection) == []


@pytest.mark.parametrize(
    "rows",
    [
        {"query": "orders", "key": "id", **CLOSED},
        {"query": "orders", "key": "id", "action_type": "for_each:run", "options": {"on_success": CLOSED}},
        {"query": "orders", "key": "id", "action_type": "for_each:run",
         "options": {"condition": {"wait": {}, "on_timeout": [CLOSED]}}},
    ],
)  # fmt: skip
def test_for_each_rows_cannot_become_actions_that_a_scheduler_of_the_team_may_not_schedule(
    connection, role, as_role, rows
):
    made = grant(connection, RoleKind.SCHEDULER, role, team_id="blue")
    connection.execute(
        "insert into scheduled_action_settings (name, value) values ('types_open_to_teams', '[\"for_each:run\"]')"
    )

    with as_role(made.schema) as own:
        element = {"action_type": "for_each:run", "payload": rows}
        message = refused(own, "select * from schedule_actions(%s)", parameters=[Jsonb([element])])

    assert message == (
        'action_type: "maintenance:prune" is not open to teams: its handler needs @action(open_to_teams=True)'
    )


@pytest.mark.parametrize(
    ("auto_action", "problem"),
    [
        (CLOSED, 'action_type: "maintenance:prune" is not open to teams'),
        ({"action_type": "webhook:send", "payload": {**EVENT, "endpoint": "crm"}}, "payload.endpoint: must be the id"),
    ],
)
def test_a_deadline_cannot_have_auto_actions_that_a_scheduler_of_the_team_may_not_schedule(
    connection, role, as_role, auto_action, problem
):
    made = grant(connection, RoleKind.SCHEDULER, role, team_id="blue")

    with as_role(made.schema) as own:
        message = refused(
            own,
            "select * from set_deadline(%s, now(), auto_actions => %s)",
            parameters=[TARGET, Jsonb([{"offset": "when due", **auto_action}])],
        )

    assert message.startswith(problem)
    assert rows(connection) == []


def test_a_scheduler_of_a_team_can_only_deliver_to_endpoints_of_that_team(connection, role, as_role):
    made = grant(connection, RoleKind.SCHEDULER, role, team_id="blue")
    own, theirs, of_all = (
        connection.execute(
            "insert into webhook_endpoints (url, patterns, secret, team_id)"
            " values ('https://hooks.example.com/', array['*:*'], 'sealed', %s) returning id::text",
            [team],
        ).fetchone()[0]
        for team in ("blue", "red", None)
    )

    def delivery(endpoint):
        return {"action_type": "webhook:send", "payload": {**EVENT, "endpoint": endpoint}}

    with as_role(made.schema) as own_connection:
        for one in (delivery(own), {**delivery(None), "on_success": [delivery(own)]}):
            own_connection.execute("select * from schedule_actions(%s)", [Jsonb([one])])
        messages = {
            refused(own_connection, "select * from schedule_actions(%s)", parameters=[Jsonb([one])])
            for endpoint in (theirs, of_all, str(uuid4()), "crm", "", 7, [own])
            for one in (delivery(endpoint), {**delivery(None), "on_success": [delivery(endpoint)]})
        } | {
            refused(
                own_connection,
                "select * from emit_event('order:paid', '7', '{}', endpoint => %s)",
                parameters=[str(endpoint)],
            )
            for endpoint in (theirs, of_all, "crm")
        }
        own_connection.execute("select * from emit_event('order:paid', '8', '{}', endpoint => %s)", [own])

    assert len(messages) == 1
    assert "payload.endpoint" in messages.pop()
    assert rows(connection) == [("webhook:send", "blue")] * 3


@pytest.mark.parametrize("event", ["webhook:endpoint-disabled", "webhook:endpoint-failing"])
def test_a_scheduler_of_a_team_cannot_emit_events_that_e_mail_the_operator(connection, role, as_role, event):
    made = grant(connection, RoleKind.SCHEDULER, role, team_id="blue")
    element = {"action_type": "webhook:send", "payload": {**EVENT, "event": event}}

    with as_role(made.schema) as own:
        messages = [
            refused(own, "select * from schedule_actions(%s)", parameters=[Jsonb([one])])
            for one in (element, {"action_type": "webhook:send", "payload": EVENT, "on_failure": element})
        ]
        messages.append(refused(own, "select * from emit_event(%s, '7', '{}')", parameters=[event]))

    assert all("payload.event" in one for one in messages)


def test_a_role_of_a_team_can_schedule_types_declared_open_to_teams(connection, role, as_role):
    made = grant(connection, RoleKind.SCHEDULER, role, team_id="blue")
    connection.execute(
        "insert into scheduled_action_settings (name, value) values ('types_open_to_teams', '[\"invoice:send\"]')"
    )

    with as_role(made.schema) as own:
        own.execute("select * from schedule_action('invoice:send')")
        refused(own, "select * from schedule_action('webhook:send')")

    assert rows(connection) == [("invoice:send", "blue")]


def test_a_reader_can_read_deliveries_in_any_schema(connection, role, as_role):
    connection.execute("create schema work")
    connection.execute("set search_path = work")
    migrate.migrate(connection)
    # Functions of the package compute the response and the attempts of a delivery.
    delivery = Jsonb({**EVENT, "endpoint": "crm"})
    failure = Jsonb([{"outcome": "failed", "attempt": 1, "error": 'endpoint "crm" answered 503: no'}])
    connection.execute("select schedule_action('webhook:send', %s)", [delivery])
    connection.execute("update scheduled_actions set history = %s", [failure])
    made = grant(connection, RoleKind.READER, role)

    with as_role(made.schema) as own:
        found = own.execute("select endpoint, response_status from webhook_deliveries").fetchall()

    assert found == [("crm", 503)]


def test_a_grant_finds_the_tables_behind_another_schema_of_the_search_path(connection, role, as_role):
    connection.execute('alter schema public rename to "Our tables"')
    connection.execute("create schema app")
    connection.execute('set search_path = app, "Our tables"')
    migrate.migrate(connection)
    made = grant(connection, RoleKind.SCHEDULER, role)

    with as_role(made.schema) as own:
        own.execute("select * from schedule_action('test:run')")

    assert rows(connection) == [("test:run", None)]


@pytest.mark.parametrize("kind", RoleKind)
def test_an_access_schema_that_is_first_in_the_path_hides_the_tables_only_from_their_owner(
    connection, role, as_role, kind
):
    schema = grant(connection, kind, role).schema

    with as_role(f"{schema}, public") as own:
        versions.check_visible(own, versions.read_files())

    connection.execute(f"set search_path = {schema}, public")
    with pytest.raises(SchemaShadowed, match="finds scheduled_actions_api"):
        versions.check_visible(connection, versions.read_files())


@pytest.mark.parametrize(("team", "seen"), [(None, {"blue", "red", None}), ("blue", {"blue"})])
def test_a_reader_can_read_rows_without_claim_tokens(connection, role, as_role, team, seen):
    for one in ("blue", "red", None):
        connection.execute("select schedule_action('webhook:send', %s, team_id => %s)", [Jsonb(EVENT), one])
        connection.execute("select report_fact(%s, 'paid', 'true', team_id => %s)", [TARGET, one])
    made = grant(connection, RoleKind.READER, role, team_id=team)

    with as_role(made.schema) as own:
        found = own.execute("select * from scheduled_actions")
        columns = {column.name for column in found.description}
        teams = {one for (one,) in own.execute("select team_id from scheduled_actions")}
        facts = {one or None for (one,) in own.execute("select team_id from scheduled_action_facts")}
        for view in ("scheduled_action_schedules", "scheduled_action_deadlines", "webhook_deliveries"):
            own.execute(sql.SQL("select * from {}").format(sql.Identifier(view)))

    assert teams == facts == seen
    assert "claim_token" not in columns
    assert {"payload", "status", "result"} <= columns


def test_privileges_are_kept_when_a_migration_changes_a_function(connection, role, as_role):
    """The access schema contains the current function, and the role may still call it."""
    made = grant(connection, RoleKind.SCHEDULER, role)
    (definition,) = connection.execute("select pg_get_functiondef('report_fact'::regproc)").fetchone()
    connection.execute("drop function report_fact(jsonb, text, jsonb, text, text)")
    arguments = "reported_by text DEFAULT NULL::text"
    connection.execute(definition.replace(arguments, f"{arguments}, more integer DEFAULT 0"))

    migrate.migrate(connection)

    with as_role(made.schema) as own:
        assert own.execute("select * from report_fact(%s, 'paid', 'true', more => 5)", [TARGET]).fetchone() == (
            True,
            False,
        )


def test_a_foreign_schema_with_the_name_of_an_access_schema_is_refused(connection, role):
    connection.execute("create schema scheduled_actions_api")

    with pytest.raises(RequestError, match="schema scheduled_actions_api exists, and it is not an access schema"):
        grant(connection, RoleKind.SCHEDULER, role)


def test_the_error_for_a_role_that_may_not_create_schemas_has_a_remedy(connection, role, as_role):
    """The role owns the tables, but may not create schemas in the database."""
    connection.execute("create schema work")
    connection.execute(sql.SQL("grant all on schema work to {}").format(sql.Identifier(role)))

    with as_role("work") as own:
        migrate.migrate(own)
        with pytest.raises(GrantRefused, match=r"denied for .*; run `scheduled-actions migrate` as the role that owns"):
            grant(own, RoleKind.READER, role)


def test_the_error_for_an_unknown_role_names_the_role(connection):
    with pytest.raises(RequestError, match="role nobody_here does not exist: create it with"):
        grant(connection, RoleKind.SCHEDULER, "nobody_here")


def test_only_the_owner_of_the_tables_can_grant(connection, role, as_role):
    with as_role() as own, pytest.raises(RequestError, match=r"only .*, the owner of the tables, may"):
        grant(own, RoleKind.READER, role)


@pytest.mark.parametrize(
    ("team", "schema"),
    [
        ("blue_2", "scheduled_actions_team_blue_2"),
        ("Blue", "scheduled_actions_team_be1c4d4b46fae51d_"),
        ("b" * 41, "scheduled_actions_team_5ad3a4d5e1d3e7ff_"),
    ],
)
def test_every_team_has_a_separate_access_schema(connection, role, team, schema):
    made = grant(connection, RoleKind.SCHEDULER, role, team_id=team)

    assert len(made.schema) <= 63
    assert made.schema.startswith(schema[:23])
    doors = connection.execute("select access_schema, team from scheduled_actions_access_schemas()").fetchall()
    assert doors == [(made.schema, team)]
