"""The public SQL calls of each release work on the current schema."""

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


def documented_functions():
    text = (Path(__file__).parents[2] / "docs/reference/schema.md").read_text(encoding="utf-8")
    (functions,) = re.findall(r"^## Functions\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`(\w+)\(", functions))


def test_every_documented_function_has_a_released_call():
    documented = documented_functions()

    assert "schedule_action" in documented
    assert {name for name in documented if not any(f"{name}(" in call for call in CALLS)} == set()


def test_every_argument_is_passed_by_name_in_a_released_call(connection):
    """So that no argument can be removed or renamed, regardless of its position."""
    arguments = connection.execute(
        "select proname, unnest(proargnames[:pronargs]) from pg_proc"
        " where pronamespace = 'public'::regnamespace and proname = any (%s)",
        [list(documented_functions())],
    ).fetchall()

    assert ("schedule_action", "payload") in arguments
    assert [
        (function, argument)
        for function, argument in arguments
        if not any(f"{function}(" in call and f"{argument} => " in call for call in CALLS)
    ] == []
