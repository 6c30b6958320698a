"""An argument of `schedule_action` is one in Python, in SQL, over HTTP and in the docs, and means the same in each."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields
from datetime import datetime
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

import scheduled_actions
from scheduled_actions import action
from scheduled_actions.actions import store
from scheduled_actions.actions.model import ARGUMENTS, COLUMN_DEFAULTS, NewAction
from scheduled_actions.core.errors import RequestError
from scheduled_actions.web.api.actions import models
from tests.factories import insert, projects, row

DOCS = Path(__file__).parents[2] / "docs"
#: In SQL an instant is one: the zone of a local time is Python's and HTTP's.
IN_SQL = ARGUMENTS - {"timezone"}


def test_the_python_function_takes_each_argument_with_the_default_of_the_model():
    parameters = inspect.signature(scheduled_actions.schedule_action).parameters

    taken = {name: parameter.default for name, parameter in parameters.items() if name != "connection"}
    assert taken == {
        field.name: inspect.Parameter.empty if field.default is MISSING else field.default
        for field in fields(NewAction)
    }


def test_the_context_of_a_handler_takes_the_arguments_of_schedule_action_except_the_connection():
    expected = inspect.signature(scheduled_actions.schedule_action, eval_str=True).parameters
    taken = inspect.signature(scheduled_actions.Context.schedule, eval_str=True).parameters

    assert list(taken.values())[1:] == [parameter for name, parameter in expected.items() if name != "connection"]


@pytest.mark.parametrize("function", [scheduled_actions.schedule_action, scheduled_actions.Context.schedule])
def test_the_reference_of_python_shows_the_complete_signature(function):
    signature = inspect.signature(function)
    shown = [
        str(parameter.replace(annotation=inspect.Parameter.empty)).replace("'", '"')
        for name, parameter in signature.parameters.items()
        if name != "self"
    ]
    name = function.__qualname__.replace("Context", "context")
    page = " ".join((DOCS / "reference/python.md").read_text(encoding="utf-8").split())

    assert f"{name}({', '.join([*shown[:2], '*', *shown[2:]])}) -> " in page


def test_no_public_function_takes_arguments_that_its_signature_does_not_name():
    public = [getattr(scheduled_actions, name) for name in scheduled_actions.__all__]
    functions = [one for one in public if inspect.isfunction(one)]
    for one in filter(inspect.isclass, public):
        functions += [method for name, method in inspect.getmembers(one, inspect.isfunction) if name[0] != "_"]

    for function in functions:
        kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
        assert inspect.Parameter.VAR_KEYWORD not in kinds, function.__qualname__


def test_the_sql_function_takes_each_argument(connection):
    [names] = connection.execute(
        "select proargnames[:pronargs] from pg_proc where proname = 'schedule_action'"
    ).fetchone()

    assert set(names) == IN_SQL


def test_the_sql_function_of_many_takes_each_argument_and_refuses_any_other_name(connection):
    element = {"action_type": "test:run"} | dict.fromkeys(IN_SQL - {"action_type", "payload"})
    schedule_actions = "select * from schedule_actions(%s)"

    assert len(connection.execute(schedule_actions, [Jsonb([element])]).fetchall()) == 1
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="timezone"):
        connection.execute(schedule_actions, [Jsonb([element | {"timezone": None}])])


def test_the_statement_of_python_passes_each_argument():
    passed = set(re.findall(r"%\((\w+)\)s", store.sql.text("schedule_action")))

    assert passed == IN_SQL | {"delay"}
    assert passed == COLUMN_DEFAULTS.keys() | {"action_type", "payload"}


def test_the_http_model_has_each_argument():
    assert models.CreateActionRequest.model_fields.keys() == ARGUMENTS | {"delay"}


def test_the_docs_of_python_sql_and_http_name_each_argument():
    pages = {"reference/python.md": ARGUMENTS, "reference/http.md": ARGUMENTS}
    # The first two are given by position.
    pages["how-to/schedule-from-sql.md"] = IN_SQL - {"action_type", "payload"}

    for page, names in pages.items():
        text = (DOCS / page).read_text(encoding="utf-8")
        assert {name for name in names if not re.search(rf"`{name}\b|\({name}, |, {name}[,=]", text)} == set(), page


# -- what they mean ----------------------------------------------------------------------------------------------------

#: Of each argument, a value in the form in which it is stored, and one that is refused; None: any of its type is taken.
VALUES = {
    "action_type": ("test:other", "no type"),
    "payload": ({"n": 1}, [1]),
    "scheduled_at": ("2031-01-01T00:00:00Z", "infinity"),
    "team_id": ("red", "x" * 256),
    "priority": (7, 32_768),
    "max_attempts": (2, 1001),
    "retry": ({"kind": "linear", "base_seconds": 5, "cap_seconds": 60, "jitter": "none"}, "often"),
    "lock_group": ("bank", "x" * 256),
    "lock_group_blocks": (True, None),
    "dedup_key": ("key-17", "x" * 513),
    "dedup_window": (3600, -1),
    "dedup_mode": ("first", "sometimes"),
    "target": ({"type": "invoice", "id": "17"}, {"type": "invoice"}),
    "user_id": ("ann", None),
    "metadata": ({"note": "a"}, ["a"]),
    "created_by": ("shop", None),
    "condition": ({"wait": {"kind": "document_state", "target": {"type": "a", "id": "1"}, "state": "done"}}, [1]),
    "after": (["0197a000-0000-7000-8000-0000000000aa"], ["0197a000-0000-7000-8000-0000000000bb"]),
    "on_success": ([{"action_type": "test:other", "payload": {}}], [{"payload": {}}]),
    "on_failure": ([{"action_type": "test:other", "payload": {}}], [{"payload": {}}]),
}
#: SQL stores what these hold as it is; who reads them leaves out what cannot be used.
TAKEN_BY_SQL = {"target", "metadata"}
#: These say what becomes of another one with the same key, and are not stored.
OF_A_MERGE = {"dedup_window", "dedup_mode"}
#: Differ between any two actions.
OF_THE_ROW = {"id", "created_at", "updated_at"}


@pytest.fixture
def project(database_url, connection):
    """Return a project with two handlers, and the action that `after` names."""

    @action("test:run")
    def run(payload: dict) -> None: ...

    @action("test:other")
    def other(payload: dict) -> None: ...

    insert(connection, id=UUID(VALUES["after"][0][0]))
    with projects(database_url) as a_project:
        yield a_project(run, other)


def in_python(arguments):
    at = arguments["scheduled_at"]
    return NewAction(**arguments | {"scheduled_at": at if at == "infinity" else datetime.fromisoformat(at)})


def by_python(project, connection, arguments):
    return project.scheduler.schedule_action(in_python(arguments)).id


def by_python_with_others(project, connection, arguments):
    return project.scheduler.schedule_actions([in_python(arguments)])[0].id


def by_sql(project, connection, arguments):
    values = dict(arguments)
    for name in ("payload", "retry", "target", "metadata", "condition", "on_success", "on_failure"):
        if name in values:
            values[name] = Jsonb(arguments[name])
    if "after" in values:
        values["after"] = [UUID(one) for one in values["after"]]
    call = f"select id from schedule_action({', '.join(f'{name} => %({name})s' for name in values)})"
    return connection.execute(call, values).fetchone()[0]


def by_sql_with_others(project, connection, arguments):
    return connection.execute("select id from schedule_actions(%s)", [Jsonb([arguments])]).fetchone()[0]


WAYS = [by_python, by_python_with_others, by_sql, by_sql_with_others]
PLAIN = {"action_type": "test:run", "payload": {}, "scheduled_at": "2030-01-01T00:00:00Z"}


def test_each_argument_has_a_value_here():
    assert VALUES.keys() == IN_SQL


@pytest.mark.parametrize("name", sorted(IN_SQL - OF_A_MERGE))
def test_each_way_stores_an_argument_alike(project, connection, name):
    changed = []
    for way in WAYS:
        plain = row(connection, way(project, connection, PLAIN))
        given = row(connection, way(project, connection, PLAIN | {name: VALUES[name][0]}))
        changed.append(
            {column: value for column, value in given.items() if value != plain[column] and column not in OF_THE_ROW}
        )
        connection.execute("update scheduled_actions set dedup_open = false")

    assert changed[0] != {}
    assert changed == changed[:1] * len(WAYS)


REFUSED = [
    (name, way)
    for name, (_, bad) in sorted(VALUES.items())
    for way in WAYS
    if bad is not None and not (name in TAKEN_BY_SQL and way in {by_sql, by_sql_with_others})
]


@pytest.mark.parametrize(("name", "way"), REFUSED)
def test_each_way_refuses_what_an_argument_cannot_be(project, connection, name, way):
    with pytest.raises((RequestError, psycopg.DataError)):
        way(project, connection, PLAIN | {name: VALUES[name][1]})

    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (1,)
