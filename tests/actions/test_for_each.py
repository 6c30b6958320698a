"""Actions for the rows of a query: one per row, across crashes and concurrent runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from pydantic import BaseModel, ConfigDict

from handlers.for_each import run
from scheduled_actions import action, runtime
from scheduled_actions.actions import for_each
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core import config
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime
from tests.factories import PATIENCE, move_clock, row

CARTS = """\
[queries.open_carts]
sql = '''
select id as cart, owner, touched
from carts
where touched < now() - interval '1 day' and team is not distinct from %(team_id)s
order by id
'''

[queries.owners_of_carts]
sql = "select id as cart, owner from carts"

[queries.owners]
sql = "select owner from carts"

[queries.broken]
sql = "select 1 / 0 as cart"
"""


class Owner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    owner: str


@action("owner:remind")
def remind_owner(payload: Owner): ...


@pytest.fixture
def make_project(tmp_path, database_url, connection):
    connection.execute("create table carts (id int, owner text, touched timestamptz default '2020-01-01', team text)")
    (tmp_path / "scheduled_actions.toml").write_text(CARTS, encoding="utf-8")
    created = []

    @action("cart:remind")
    def remind(payload: dict):
        if payload["owner"] == "nobody":
            raise ValueError("the recipient is unknown")

    def make():
        created.append(
            Runtime(
                config.load(tmp_path, {"DATABASE_URL": database_url}), registry=Registry.of(remind, remind_owner, run)
            )
        )
        return created[-1]

    yield make
    for one in created:
        one.close()


@pytest.fixture
def project(make_project):
    created = make_project()
    before = runtime.use(created)
    yield created
    runtime.use(before)


def run_once(project, connection, team_id=None, **payload):
    """Schedule a run, process it in one tick, and return its row."""
    payload = {"query": "open_carts", "action_type": "cart:remind", "key": "cart", **payload}
    new = NewAction(action_type="for_each:run", payload=payload, team_id=team_id, max_attempts=1)
    action_id = project.scheduler.schedule_action(new).id
    project.processor.tick()
    return row(connection, action_id)


def reminders(connection):
    found = connection.execute(
        "select payload ->> 'owner', team_id from scheduled_actions where action_type = 'cart:remind' order by id"
    )
    return found.fetchall()


def put_carts(connection, *owners, team=None):
    for number, owner in enumerate(owners):
        connection.execute("insert into carts (id, owner, team) values (%s, %s, %s)", [number, owner, team])


def test_each_row_becomes_the_payload_of_one_action(project, connection):
    put_carts(connection, "ann", "bob")

    first, second = run_once(project, connection), run_once(project, connection)

    assert first["result"] == {"scheduled": 2, "refused": 0, "more": False}
    assert second["result"] == {"scheduled": 0, "refused": 0, "more": False}
    assert reminders(connection) == [("ann", None), ("bob", None)]


@pytest.mark.parametrize(("query", "key"), [("owners_of_carts", "cart"), ("owners", "owner")])
def test_the_key_is_part_of_the_payload_unless_the_model_forbids_it(project, connection, query, key):
    put_carts(connection, "ann")

    result = run_once(project, connection, query=query, action_type="owner:remind", key=key)["result"]

    assert result == {"scheduled": 1, "refused": 0, "more": False}
    found = connection.execute("select payload from scheduled_actions where action_type = 'owner:remind'")
    assert found.fetchall() == [({"owner": "ann"},)]


def test_a_row_becomes_another_action_after_again_after_seconds(project, connection):
    put_carts(connection, "ann")
    run_once(project, connection, again_after_seconds=3600)

    assert run_once(project, connection, again_after_seconds=3600)["result"]["scheduled"] == 0
    move_clock(connection, timedelta(hours=2))
    assert run_once(project, connection, again_after_seconds=3600)["result"]["scheduled"] == 1


def test_rows_beyond_the_budget_of_a_run_are_left_for_the_next_run(project, connection, monkeypatch):
    monkeypatch.setattr(for_each, "STEPS_MOST", 1_000)
    put_carts(connection, *"abcde")
    options = {"metadata": {"note": "x" * 10_000}}

    first = run_once(project, connection, options=options)["result"]
    second = run_once(project, connection, options=options)["result"]
    third = run_once(project, connection, options=options)["result"]

    assert [one["more"] for one in (first, second, third)] == [True, True, False]
    assert [one["scheduled"] for one in (first, second, third)] == [2, 2, 1]


def test_a_run_stops_at_its_limit_and_the_next_run_continues(project, connection):
    put_carts(connection, *"abcde")

    results = [run_once(project, connection, limit=2)["result"] for _ in range(3)]

    assert [(one["scheduled"], one["more"]) for one in results] == [(2, True), (2, True), (1, False)]


def test_only_rows_of_the_team_are_read_and_their_actions_belong_to_the_team(project, connection):
    put_carts(connection, "ann", team="ours")
    put_carts(connection, "bob", team="theirs")

    run_once(project, connection, team_id="ours")

    assert reminders(connection) == [("ann", "ours")]


def test_two_concurrent_runs_schedule_each_row_once(make_project, project, connection):
    put_carts(connection, *(f"owner {number}" for number in range(200)))
    other = make_project()
    for _ in range(2):
        payload = {"query": "open_carts", "action_type": "cart:remind", "key": "cart"}
        project.scheduler.schedule_action(NewAction(action_type="for_each:run", payload=payload))

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(one.processor.tick) for one in (project, other)]:
            done.result(PATIENCE)

    assert len(reminders(connection)) == len(set(reminders(connection))) == 200


def test_an_invalid_row_is_reported_and_does_not_affect_others(make_project, project, connection):
    put_carts(connection, "ann", "bob")
    connection.execute("insert into carts (id, owner) values (null, 'carl')")

    result = run_once(project, connection)["result"]

    assert result == {
        "scheduled": 2, "refused": 1, "more": False,
        "reasons": ["the key in column cart must have 1 to 255 characters"],
    }  # fmt: skip


def test_the_reason_for_a_refused_row_names_its_key(project, connection):
    put_carts(connection, "ann")

    result = run_once(project, connection, action_type="owner:remind")["result"]

    (reason,) = result["reasons"]
    assert reason.startswith("cart '0': payload of \"owner:remind\": touched: ")


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"query": "carts"}, "a query of [queries]; known queries: broken, open_carts, owners, owners_of_carts"),
        ({"key": "id"}, "a column of the query, which returns cart, owner, touched"),
        ({"parameters": {"x": 1}}, "the query takes: none"),
        ({"query": "broken"}, "DivisionByZero"),
        ({"action_type": "cart:remnid"}, 'action type "cart:remnid" has no handler; did you mean "cart:remind"?'),
    ],
)
def test_a_run_that_fails_schedules_nothing(project, connection, payload, message):
    put_carts(connection, "ann")

    found = run_once(project, connection, **payload)

    assert found["status"] == "failed"
    assert message in found["error_message"]
    assert reminders(connection) == []
    assert connection.execute("select count(*) from scheduled_action_for_each").fetchone() == (0,)


def test_expired_row_keys_are_deleted(project, connection):
    put_carts(connection, "ann", "bob")
    run_once(project, connection, again_after_seconds=60, limit=1)
    run_once(project, connection)

    move_clock(connection, timedelta(hours=1))
    project.maintenance.prune(limit=10)

    assert connection.execute("select key from scheduled_action_for_each").fetchall() == [("1",)]


@pytest.mark.parametrize("options", [{"action_type": "for_each:run"}, {"payload": {}}, {"team_id": "theirs"}])
def test_options_cannot_change_the_type_the_payload_or_the_team(project, connection, options):
    put_carts(connection, "ann", team="ours")

    ended = run_once(project, connection, team_id="ours", options=options)

    assert (ended["status"], reminders(connection)) == ("failed", [])
    assert f"options has the invalid key {next(iter(options))!r}; valid keys are " in ended["error_message"]


def test_the_error_of_an_unknown_option_has_the_name_to_use(project, connection):
    ended = run_once(project, connection, options={"lockGroup": "carts"})

    assert "options has the invalid key 'lockGroup'; did you mean \"lock_group\"?" in ended["error_message"]
