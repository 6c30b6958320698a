"""Watched tables emit exactly the committed changes, and never fail or block a writer."""

from __future__ import annotations

import threading

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from scheduled_actions.core.errors import RequestError, TableBusy, UnknownTable
from scheduled_actions.webhooks.watches import Watch, unwatch, watch, watched
from tests.factories import together

TASKS = "create table tasks (id bigint primary key, title text, state text, team_id text, notes jsonb)"


@pytest.fixture
def tasks(connection):
    """Return a connection to a database with a table of tasks that is watched."""
    connection.execute(TASKS)
    watch(connection, Watch(table="tasks", entity="task"))
    return connection


def events_of(connection):
    """Return the payloads of all events, in the order of their instants."""
    rows = connection.execute("select payload from scheduled_actions order by scheduled_at, id").fetchall()
    return [payload for (payload,) in rows]


def summaries(connection):
    return [(event["event"], event["entity_id"]) for event in events_of(connection)]


def warnings_of(connection):
    heard = []
    connection.add_notice_handler(lambda notice: heard.append(notice.message_primary))
    return heard


def test_each_row_that_a_statement_changes_is_an_event(tasks):
    tasks.execute("insert into tasks (id, title, state) values (1, 'Write', 'open'), (2, 'Read', 'open')")
    tasks.execute("update tasks set state = 'done', title = 'Wrote' where id = 1")
    tasks.execute("delete from tasks where id = 2")

    row = {"id": 1, "title": "Write", "state": "open", "team_id": None, "notes": None}
    created, other, updated, deleted = events_of(tasks)
    assert created == {"event": "task:created", "entity_type": "task", "entity_id": "1", "data": {"record": row}}
    assert other["entity_id"] == "2"
    assert updated == {
        "event": "task:updated",
        "entity_type": "task",
        "entity_id": "1",
        "data": {
            "record": row | {"state": "done", "title": "Wrote"},
            "changed": ["state", "title"],
            "previous": {"state": "open", "title": "Write"},
        },
    }
    assert deleted["event"] == "task:deleted"
    assert deleted["data"] == {"record": row | {"id": 2, "title": "Read"}}


def test_events_are_ordinary_actions_with_a_target_and_never_merged(tasks):
    tasks.execute("insert into tasks values (1)")
    for title in "abc":
        tasks.execute("update tasks set title = %s", [title])

    rows = tasks.execute(
        "select action_type, status, dedup_open, target_type, target_id, created_by from scheduled_actions"
    ).fetchall()
    assert rows == [("webhook:send", "pending", False, "task", "1", "watch:public.tasks")] * 4


def test_a_rolled_back_write_emits_no_event(tasks):
    with tasks.transaction(force_rollback=True):
        tasks.execute("insert into tasks values (1)")
        tasks.execute("update tasks set title = 'x'")

    assert events_of(tasks) == []


def test_an_update_without_changes_emits_no_event(tasks):
    tasks.execute(
        "insert into tasks values (1, 'a', 'open', null, '{\"a\": 1, \"b\": 2}'), (2, 'c', 'open', null, null)"
    )
    tasks.execute("truncate scheduled_actions")

    tasks.execute('update tasks set title = title, notes = \'{"b": 2, "a": 1.0}\' where id = 1')
    tasks.execute("update tasks set title = 'b'")

    # The second statement changed the titles of both rows to "b".
    assert sorted(summaries(tasks)) == [("task:updated", "1"), ("task:updated", "2")]


def test_an_upsert_emits_created_or_updated_per_row(tasks):
    tasks.execute("insert into tasks values (1, 'a')")

    tasks.execute("insert into tasks values (1, 'b'), (2, 'c') on conflict (id) do update set title = excluded.title")

    assert sorted(summaries(tasks)) == [("task:created", "1"), ("task:created", "2"), ("task:updated", "1")]


def test_a_changed_id_emits_deleted_and_created(tasks):
    tasks.execute("insert into tasks values (1, 'a')")

    tasks.execute("update tasks set id = 7")

    assert sorted(summaries(tasks)[1:]) == [("task:created", "7"), ("task:deleted", "1")]


def test_rows_of_a_team_are_events_of_that_team(connection):
    connection.execute(TASKS)
    watch(connection, Watch(table="tasks", entity="task", team_column="team_id"))

    connection.execute("insert into tasks (id, team_id) values (1, 'blue'), (2, ''), (3, null)")

    teams = connection.execute("select target_id, team_id from scheduled_actions order by 1").fetchall()
    assert teams == [("1", "blue"), ("2", None), ("3", None)]


def test_only_named_columns_are_delivered_and_only_their_changes_emit_events(connection):
    connection.execute(TASKS)
    watch(connection, Watch(table="tasks", entity="task", columns=("state",)))

    connection.execute("insert into tasks values (1, 'secret', 'open')")
    connection.execute("update tasks set title = 'still secret'")
    connection.execute("update tasks set title = 'not watched', state = 'done'")

    assert [event["data"] for event in events_of(connection)] == [
        {"record": {"id": 1, "state": "open"}},
        {"record": {"id": 1, "state": "done"}, "changed": ["state"], "previous": {"state": "open"}},
    ]


@pytest.mark.parametrize(
    ("on", "events"),
    [
        (("created",), ["task:created"]),
        (("updated",), ["task:updated"]),
        (("deleted",), ["task:deleted"]),
        (("created", "deleted"), ["task:created", "task:deleted"]),
    ],
)
def test_only_named_verbs_emit_events(connection, on, events):
    connection.execute(TASKS)
    watch(connection, Watch(table="tasks", entity="task", on=on))

    connection.execute("insert into tasks values (1)")
    connection.execute("update tasks set title = 'b'")
    connection.execute("delete from tasks")

    assert [event["event"] for event in events_of(connection)] == events


def test_a_dedup_window_keeps_the_latest_of_equal_events(connection):
    connection.execute(TASKS)
    watch(connection, Watch(table="tasks", entity="task", dedup_window=60))

    connection.execute("insert into tasks values (1, 'a'), (2, 'a')")
    for title in "bcd":
        connection.execute("update tasks set title = %s where id = 1", [title])

    assert sorted(summaries(connection)) == [("task:created", "1"), ("task:created", "2"), ("task:updated", "1")]
    assert events_of(connection)[-1]["data"]["record"]["title"] == "d"


def test_quoted_names_can_be_watched(connection):
    connection.execute('create schema "My ""Schema"')
    connection.execute(
        """create table "My ""Schema"."Or%der; drop table x" ("Id' \\" uuid primary key, "select" int, "team-%s" text)"""  # noqa: E501
    )
    table = '"My ""Schema"."Or%der; drop table x"'
    made = watch(
        connection,
        Watch(table=table, entity="o'r\\d\"er %s", columns=("select",), team_column="team-%s"),
    )

    connection.execute(
        sql.SQL("insert into {} values (gen_random_uuid(), 5, 'blue')").format(
            sql.Identifier('My "Schema', "Or%der; drop table x")
        )
    )

    assert made.table == table
    assert made.id_columns == ("Id' \\",)
    (event,) = events_of(connection)
    assert event["event"] == "o'r\\d\"er %s:created"
    assert event["data"]["record"]["select"] == 5
    assert connection.execute("select team_id from scheduled_actions").fetchall() == [("blue",)]
    assert watched(connection) == [made]
    assert unwatch(connection, table) == 1
    assert watched(connection) == []


def test_an_id_of_several_columns_is_a_list(connection):
    connection.execute("create table lines (order_id int, line text, n int, primary key (order_id, line))")
    watch(connection, Watch(table="lines", entity="order.line"))

    connection.execute("insert into lines values (7, 'a/b', 1), (7, 'c', 1)")
    connection.execute("update lines set n = 2 where line = 'c'")

    assert summaries(connection) == [
        ("order.line:created", '[7, "a/b"]'),
        ("order.line:created", '[7, "c"]'),
        ("order.line:updated", '[7, "c"]'),
    ]


def test_a_watch_of_a_partitioned_table_covers_its_partitions(connection):
    connection.execute("create table logs (id int primary key, r int) partition by range (id)")
    connection.execute("create table logs_1 partition of logs for values from (0) to (100)")
    connection.execute("create table logs_2 partition of logs for values from (100) to (200)")
    watch(connection, Watch(table="logs", entity="log"))

    connection.execute("insert into logs values (1, 1), (150, 1)")
    connection.execute("update logs set r = 2 where id = 150")

    assert summaries(connection) == [("log:created", "1"), ("log:created", "150"), ("log:updated", "150")]
    assert [one.table for one in watched(connection)] == ["logs"]


def test_a_second_watch_of_the_same_entity_replaces_the_first(tasks):
    watch(tasks, Watch(table="public.tasks", entity="task", on=("deleted",)))
    watch(tasks, Watch(table="tasks", entity="todo", on=("created",)))

    tasks.execute("insert into tasks values (1)")

    assert summaries(tasks) == [("todo:created", "1")]
    assert [(one.entity, one.on) for one in watched(tasks)] == [("task", ("deleted",)), ("todo", ("created",))]
    assert unwatch(tasks, "tasks", entity="todo") == 1
    assert unwatch(tasks, "tasks") == 1
    assert unwatch(tasks, "tasks") == 0


def test_a_watch_follows_a_renamed_table_and_ends_when_the_table_is_dropped(tasks):
    tasks.execute("alter table tasks rename to todos")
    tasks.execute("insert into todos values (1)")

    assert summaries(tasks) == [("task:created", "1")]
    assert [one.table for one in watched(tasks)] == ["todos"]
    tasks.execute("drop table todos")
    assert watched(tasks) == []


def test_a_bulk_write_emits_an_event_per_row(tasks):
    tasks.execute("insert into tasks select n, 'a' from generate_series(1, 2500) n")
    tasks.execute("update tasks set title = case when id % 2 = 0 then 'b' else title end")

    counts = tasks.execute(
        "select payload ->> 'event', count(distinct target_id) from scheduled_actions group by 1 order by 1"
    ).fetchall()
    assert counts == [("task:created", 2500), ("task:updated", 1250)]


def test_the_event_of_a_row_over_the_payload_limit_contains_only_its_id(tasks):
    tasks.execute("insert into tasks select 1, string_agg(md5(n::text), '') from generate_series(1, 10000) n")
    tasks.execute("update tasks set state = 'open'")

    assert [event["data"] for event in events_of(tasks)] == [
        {"record": {"id": 1}, "is_cut": True},
        {"record": {"id": 1}, "is_cut": True, "changed": ["state"]},
    ]


def test_a_missing_column_suppresses_the_event_but_not_the_write(tasks):
    heard = warnings_of(tasks)
    tasks.execute("alter table tasks rename id to number")

    tasks.execute("insert into tasks (number, title) values (1, 'a')")

    assert tasks.execute("select number from tasks").fetchall() == [(1,)]
    assert [one.missing for one in watched(tasks)] == [("id",)]
    assert events_of(tasks) == []
    assert "a column that the watch needs is missing: watch the table again" in heard[0]


def test_an_error_in_the_trigger_logs_a_warning_and_the_write_succeeds(tasks):
    heard = warnings_of(tasks)
    tasks.execute("alter table scheduled_actions add constraint nothing_goes check (false) not valid")

    with tasks.transaction():
        tasks.execute("insert into tasks values (1, 'a')")
        tasks.execute("update tasks set title = 'b'")

    assert tasks.execute("select title from tasks").fetchall() == [("b",)]
    assert events_of(tasks) == []
    assert [message.split(":")[0] for message in heard] == ["scheduled_actions"] * 2
    assert "no event was emitted for this insert of public.tasks" in heard[0]


def test_a_statement_on_a_watched_table_can_be_cancelled(tasks):
    tasks.execute("set statement_timeout = '20ms'")

    with pytest.raises(psycopg.errors.QueryCanceled):
        tasks.execute("insert into tasks select n from generate_series(1, 200000) n")


def test_a_writer_needs_no_further_privileges(tasks, database_url):
    tasks.execute("create role plain_writer login password 'x'")
    try:
        tasks.execute("grant insert on tasks to plain_writer")
        with psycopg.connect(make_conninfo(database_url, user="plain_writer", password="x"), autocommit=True) as writer:
            # The trigger must not use a table of the same name that the writer created earlier on the search path.
            writer.execute("create temporary table scheduled_actions (id int)")
            writer.execute("insert into tasks values (1)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                writer.execute("select * from public.scheduled_actions")

        assert summaries(tasks) == [("task:created", "1")]
    finally:
        tasks.execute("drop owned by plain_writer")
        tasks.execute("drop role plain_writer")


def test_other_roles_cannot_execute_the_trigger_function(tasks):
    right = tasks.execute(
        "select has_function_privilege('pg_monitor', 'scheduled_actions_emit_changes()', 'execute')"
    ).fetchone()

    assert right == (False,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"entity": "ta:sk"}, "entity: 'ta:sk' must have 1 to 190 printable characters and no colon"),
        ({"entity": ""}, "entity: '' must have"),
        ({"id_columns": ("nr",)}, "tasks has no column nr; it has id, title, state, team_id, notes"),
        ({"id_columns": ("title",)}, "id column: title of tasks must be unique and not null"),
        ({"team_column": "org"}, "tasks has no column org"),
        ({"columns": ("title", 'x"y')}, 'tasks has no column "x""y"'),
        ({"on": ("created", "touched")}, 'on: "created,touched" is not a list of created'),
        ({"on": ()}, 'on: "" is not a list of'),
        ({"dedup_window": -1}, "dedup_window: -1 is not a number of seconds"),
        ({"table": "scheduled_actions"}, "scheduled_actions is a table of Scheduled Actions"),
        ({"table": "some_view"}, "some_view is not a table"),
        ({"table": "without_key"}, "without_key has no primary key: name its id column"),
    ],
)
def test_an_invalid_watch_is_rejected_by_name(connection, changes, message):
    connection.execute(TASKS)
    connection.execute("create view some_view as select * from tasks")
    connection.execute("create table without_key (id int)")

    with pytest.raises(RequestError) as caught:
        watch(connection, Watch(**{"table": "tasks", "entity": "task"} | changes))

    assert message in str(caught.value)
    assert watched(connection) == []


@pytest.mark.parametrize("table", ["nothing", "no_schema.tasks", "a.b.c.d", 'bad"name', "", "tasks; drop table tasks"])
def test_a_missing_table_is_unknown(connection, table):
    with pytest.raises(UnknownTable, match="no table is called"):
        watch(connection, Watch(table=table, entity="task"))
    with pytest.raises(UnknownTable):
        unwatch(connection, table)


def test_watching_a_locked_table_times_out(tasks, database_url, monkeypatch):
    monkeypatch.setattr("scheduled_actions.webhooks.watches._PATIENCE_MS", "50")
    with psycopg.connect(database_url) as other:
        other.execute("lock table tasks in share mode")

        with pytest.raises(TableBusy):
            watch(tasks, Watch(table="tasks", entity="task", on=("deleted",)))

    assert [one.on for one in watched(tasks)] == [("created", "updated", "deleted")]


def test_concurrent_writers_emit_exactly_the_committed_changes(tasks, database_url):
    """Eight writers change some of the same rows, and roll back a third of their transactions."""
    tasks.execute("insert into tasks select n, '0' from generate_series(1, 5) n")
    tasks.execute("truncate scheduled_actions")
    lock, expected = threading.Lock(), []

    def write(connection, number):
        for step in range(20):
            own = 1000 * (number + 1) + step
            done = [("task:created", str(own)), ("task:updated", str(step % 5 + 1))]
            with connection.transaction(force_rollback=step % 3 == 0):
                connection.execute("insert into tasks values (%s, 'x')", [own])
                connection.execute("update tasks set title = %s where id = %s", [f"{number}/{step}", step % 5 + 1])
                if step % 4 == 0:
                    connection.execute("delete from tasks where id = %s", [own])
                    done.append(("task:deleted", str(own)))
            if step % 3 != 0:
                with lock:
                    expected.extend(done)

    together(database_url, 8, write)

    assert sorted(summaries(tasks)) == sorted(expected)


def test_events_of_one_row_keep_the_order_of_its_changes(tasks, database_url):
    """Each event contains the previous value, so the events form one chain, even if writers wait for each other."""
    tasks.execute("insert into tasks values (1, 'start')")

    def write(connection, number):
        for step in range(15):
            with connection.transaction():
                connection.execute("update tasks set title = %s where id = 1", [f"{number}/{step}"])
                connection.execute("update tasks set title = %s where id = 1", [f"{number}/{step}, again"])

    together(database_url, 6, write)

    _, *updates = events_of(tasks)
    before = "start"
    for event in updates:
        assert event["data"]["previous"]["title"] == before
        before = event["data"]["record"]["title"]
    assert len(updates) == 180


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_stricter_isolation_levels_emit_the_same_events(tasks, isolation):
    with tasks.transaction():
        tasks.execute(f"set transaction isolation level {isolation}")
        tasks.execute("insert into tasks values (1)")
        tasks.execute("update tasks set title = 'b'")

    assert summaries(tasks) == [("task:created", "1"), ("task:updated", "1")]
