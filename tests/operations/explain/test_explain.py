"""`explain`: every reason has a test case and a line in the docs, and its queries use indexes."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest

from scheduled_actions.operations.explain.rules.facts import Code
from tests.factories import database_now
from tests.operations.explain.cases import cases, held
from tests.statements import statement
from tests.test_docs import DOCS

TYPE = "test:run"


def test_every_code_has_a_test_case_and_a_line_in_the_docs():
    page = (DOCS / "reference" / "explain.md").read_text(encoding="utf-8")

    codes = {case.code for case in cases()} | {"registry_unreadable", "row_locked"}

    assert codes == {code.value for code in Code}
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [code.value for code in Code]


@pytest.mark.parametrize("name", ["explain_action", "count_ahead", "count_queued", "limit_states", "schedule_state"])
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
    parameters |= {"limit_key": "api:acme", "limit_keys": ["api:acme"], "visible_to": "blue"}
    parameters |= {"priority": 0, "scheduled_at": database_now(connection)}

    plan = "\n".join(line for (line,) in connection.execute(f"explain {statement(name)}", parameters).fetchall())

    assert "Index" in plan
    assert "Seq Scan on scheduled_actions " not in plan
