"""An argument of `schedule_action` is one in Python, in SQL, over HTTP and in the docs."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields
from pathlib import Path

import psycopg
import pytest
from psycopg.types.json import Jsonb

import scheduled_actions
from scheduled_actions.actions import store
from scheduled_actions.actions.model import ARGUMENTS, COLUMN_DEFAULTS, NewAction
from scheduled_actions.web.api.actions import models

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
    assert models.NewAction.model_fields.keys() == ARGUMENTS | {"delay"}


def test_the_docs_of_python_sql_and_http_name_each_argument():
    pages = {"reference/python.md": ARGUMENTS, "reference/http.md": ARGUMENTS}
    # The first two are given by position.
    pages["how-to/schedule-from-sql.md"] = IN_SQL - {"action_type", "payload"}

    for page, names in pages.items():
        text = (DOCS / page).read_text(encoding="utf-8")
        assert {name for name in names if not re.search(rf"`{name}\b|\({name}, |, {name}[,=]", text)} == set(), page
