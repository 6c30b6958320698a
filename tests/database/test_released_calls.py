"""The public calls of each release work on the present schema."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CALLS = [
    block
    for block in Path(__file__).with_name("released_calls.sql").read_text(encoding="utf-8").split("\n\n")
    if block.startswith("-- release: ")
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_a_released_call_works(connection, call):
    _, answers, statements = call.split("\n", 2)
    cursor = connection.execute(statements)
    while cursor.nextset():
        pass

    assert [column.name for column in cursor.description] == answers.removeprefix("-- answers: ").split(", ")


def test_every_documented_function_has_a_released_call():
    text = (Path(__file__).parents[2] / "docs/reference/schema.md").read_text(encoding="utf-8")
    (functions,) = re.findall(r"^## Functions\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)

    documented = set(re.findall(r"`(\w+)\(", functions))

    assert "schedule_action" in documented
    assert {name for name in documented if not any(f"{name}(" in call for call in CALLS)} == set()
