"""Watch and change a table with `psql` alone; two consumers verify signatures with the Standard Webhooks library."""

from __future__ import annotations

import subprocess

import pytest

from scheduled_actions.database.embedded import cluster
from tests.end_to_end.test_watched_table import TOML, consumers, deliver_everything, project

# Fixtures of the other module, found by their names.
__all__ = ["consumers", "project"]

CHANGES = r"""
create table tasks (id int primary key, title text, team text);
select scheduled_actions_watch('tasks', 'task');
insert into tasks values (1, 'write', 'a'), (2, 'test', 'a'), (3, 'ship', 'b');
update tasks set title = upper(title);
update tasks set title = title;
begin;
insert into tasks values (4, 'never', 'b');
update tasks set title = 'nor this' where id = 1;
delete from tasks where id = 2;
rollback;
begin;
update tasks set title = 'in two steps' where id = 1;
savepoint before;
update tasks set title = 'taken back' where id = 1;
rollback to before;
update tasks set title = 'done' where id = 1;
commit;
delete from tasks where id = 2;
"""


@pytest.fixture
def psql(database_url):
    """Return a function that runs a script with the `psql` of the embedded Postgres."""
    program = cluster.pick(cluster.candidates(), None) / "psql"

    def run(script):
        subprocess.run(
            [program, "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", database_url],
            input=script, text=True, check=True, capture_output=True,
        )  # fmt: skip

    return run


def test_consumers_get_exactly_the_committed_changes_in_order_if_required(project, consumers, psql, connection):
    project.processor.tick()  # This tick stores in the database which endpoints require order.

    psql(CHANGES)
    deliver_everything(project, connection)

    audit, crm = ([content for _, content in consumer.received] for consumer in consumers)
    assert 'ordering = "fifo"' in TOML.partition("endpoints.crm]")[2]
    assert [consumer.refused for consumer in consumers] == [[], []]
    assert sorted(map(_change, audit)) == sorted(
        [
            ("task:created", "1", "write"), ("task:created", "2", "test"), ("task:created", "3", "ship"),
            ("task:updated", "1", "WRITE"), ("task:updated", "2", "TEST"), ("task:updated", "3", "SHIP"),
            ("task:updated", "1", "in two steps"), ("task:updated", "1", "done"), ("task:deleted", "2", "TEST"),
        ]
    )  # fmt: skip
    assert consumers[1].failed_first == {"1", "2", "3"}
    ordered = [_change(one) for one in crm]
    assert [one for one in ordered if one[1] == "1"] == [
        ("task:updated", "1", "WRITE"), ("task:updated", "1", "in two steps"), ("task:updated", "1", "done"),
    ]  # fmt: skip
    assert [one for one in ordered if one[1] == "2"] == [("task:updated", "2", "TEST"), ("task:deleted", "2", "TEST")]


def _change(content):
    return content["event"], content["entity_id"], content["data"]["record"]["title"]
