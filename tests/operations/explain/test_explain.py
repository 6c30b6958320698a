"""`explain`: every reason has a test case and a line in the docs, and its queries use indexes."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest

from scheduled_actions import action
from scheduled_actions.operations.explain import service as explain
from scheduled_actions.operations.explain.rules.facts import Code
from tests.factories import database_now, projects
from tests.operations.explain.cases import cases, due, held, of_executor, taken_over
from tests.statements import statement
from tests.test_docs import DOCS

TYPE = "test:run"


def test_every_code_has_a_test_case_and_a_line_in_the_docs():
    page = (DOCS / "reference" / "explain.md").read_text(encoding="utf-8")

    codes = {case.code for case in cases()} | {"registry_unreadable", "row_locked"}

    assert codes == {code.value for code in Code}
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [code.value for code in Code]


@pytest.mark.parametrize("name", [
    "explain_action", "count_ahead", "count_queued", "count_in_executor_queue", "limit_states", "schedule_state",
])  # fmt: skip
def test_the_queries_of_explain_use_indexes(connection, name):
    action_id = held("processing")(connection, TYPE)
    connection.execute(
        "insert into scheduled_actions"
        " (action_type, scheduled_at, status, lock_group, completed_at, limit_keys, parked_by)"
        " select 'other:type', now() + interval '1 day', s, g, case when s = 'completed' then now() end,"
        " case when g is null then '{api:acme}'::text[] end, case when s = 'pending' and g is null then 'limit' end"
        " from generate_series(1, 4000), unnest(array['pending', 'completed']) s, unnest(array[null, 'g']) g"
    )
    connection.execute("analyze")
    parameters = {"id": action_id, "action_id": action_id, "schedule_id": uuid4(), "team_id": None, "most": 100}
    parameters |= {"limit_key": "api:acme", "limit_keys": ["api:acme"], "visible_to": "blue", "executor": "media"}
    parameters |= {"priority": 0, "scheduled_at": database_now(connection)}

    plan = "\n".join(line for (line,) in connection.execute(f"explain {statement(name)}", parameters).fetchall())

    assert "Index" in plan
    assert "Seq Scan on scheduled_actions " not in plan


@action(TYPE)
def run(payload: dict): ...


@pytest.fixture
def project(database_url):
    with projects(database_url) as a_project:
        yield a_project(run)


def test_a_team_sees_neither_the_number_ahead_in_an_executor_nor_the_name_of_a_worker(project, connection):
    waiting = of_executor(ahead=2, seen_minutes_ago=1, team_id="red")(connection, TYPE)
    connection.execute("delete from scheduled_action_executors")
    running = taken_over(connection, TYPE)
    connection.execute("update scheduled_actions set team_id = 'red'")

    own = {one: explain.explain(project, one, team_id="red") for one in (waiting, running)}
    everything = {one: explain.explain(project, one) for one in (waiting, running)}

    assert [one[waiting].code for one in (own, everything)] == ["executor_queue"] * 2
    assert (own[waiting].details["ahead"], everything[waiting].details["ahead"]) == (None, 2)
    assert "ahead" not in own[waiting].sentence
    assert "gpu-1" not in own[running].sentence
    assert "gpu-1" in everything[running].sentence
    assert (own[running].details["worker"], everything[running].details["worker"]) == (None, "gpu-1:7")
    assert own[running].details["executor"] == "media"


def test_an_action_in_the_queue_of_a_removed_executor_is_returned_by_the_next_tick(project, connection):
    waiting = of_executor()(connection, TYPE)
    connection.execute("update scheduled_action_executors set types = '{}', type_patterns = '{}', is_returning = true")
    project.processor.tick()

    assert explain.explain(project, waiting).code in {"next_tick", "completed"}


def test_without_executors_an_explanation_has_no_facts_about_them(project, connection):
    project.processor.tick()
    waiting = due(connection, TYPE)

    found = explain.explain(project, waiting)

    assert found.code == "next_tick"
    assert not {"executor", "workers", "last_seen_at", "worker"} & found.details.keys()
