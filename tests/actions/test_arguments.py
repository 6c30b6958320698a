"""`schedule_action` takes the same arguments, with the same meaning, in Python, SQL, HTTP and the documentation."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

import scheduled_actions
from scheduled_actions import action
from scheduled_actions.actions import store
from scheduled_actions.actions.model import ARGUMENTS, NewAction
from scheduled_actions.core.config import Limit
from scheduled_actions.core.errors import RequestError
from scheduled_actions.core.retry import KINDS, Jitter, parse
from scheduled_actions.web.api.actions import models
from tests.factories import database_now, insert, move_clock, projects, row

DOCS = Path(__file__).parents[2] / "docs"
#: SQL takes instants with an offset only; Python and HTTP also take a local time and its time zone.
SQL_ARGUMENTS = ARGUMENTS - {"timezone"}
#: Names of arguments of the SQL function that differ from those in Python: LIMIT is a reserved word.
SQL_NAMES = {"limit": "limits"}


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


@pytest.mark.parametrize("function", [scheduled_actions.schedule_when, scheduled_actions.schedule_local])
def test_functions_that_schedule_actions_otherwise_take_its_arguments_too(function):
    expected = inspect.signature(scheduled_actions.schedule_action, eval_str=True).parameters
    taken = inspect.signature(function, eval_str=True).parameters

    # Times and users of `schedule_local` come from its own arguments.
    own = {"scheduled_at", "timezone", "user_id"} if function is scheduled_actions.schedule_local else set()
    assert expected.keys() - taken.keys() == own


@pytest.mark.parametrize("function", [scheduled_actions.schedule_action, scheduled_actions.Context.schedule])
def test_the_python_reference_shows_the_complete_signature(function):
    signature = inspect.signature(function)
    shown = [
        str(parameter.replace(annotation=inspect.Parameter.empty)).replace("'", '"')
        for name, parameter in signature.parameters.items()
        if name != "self"
    ]
    name = function.__qualname__.replace("Context", "context")
    page = " ".join((DOCS / "reference/python.md").read_text(encoding="utf-8").split())

    assert f"{name}({', '.join([*shown[:2], '*', *shown[2:]])}) -> " in page


def test_the_package_lists_its_public_names():
    listed = subprocess.run(
        [sys.executable, "-c", "import scheduled_actions; print(*dir(scheduled_actions))"],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip

    assert set(listed) >= {*scheduled_actions.__all__, "__version__"}


def test_public_functions_name_every_argument_in_their_signatures():
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

    assert set(names) == {SQL_NAMES.get(name, name) for name in SQL_ARGUMENTS}


def test_the_bulk_sql_function_takes_each_argument_and_rejects_other_names(connection):
    element = {"action_type": "test:run"} | dict.fromkeys(SQL_ARGUMENTS - {"action_type", "payload"})
    schedule_actions = "select * from schedule_actions(%s)"

    assert len(connection.execute(schedule_actions, [Jsonb([element])]).fetchall()) == 1
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="timezone"):
        connection.execute(schedule_actions, [Jsonb([element | {"timezone": None}])])


def test_the_statement_that_python_runs_passes_each_argument():
    passed = set(re.findall(r"%\((\w+)\)s", store.sql.text("schedule_action")))

    assert passed == SQL_ARGUMENTS | {"delay"}


def test_an_argument_that_python_does_not_pass_has_the_default_of_the_model(connection):
    at = database_now(connection)
    new = {"action_type": "test:run", "payload": "{}", "scheduled_at": at}
    defaults = {field.name: field.default for field in fields(NewAction) if field.default not in {MISSING, None}}

    made = [store.schedule(connection, given).id for given in (new, new | defaults)]

    omitted, passed = ({**row(connection, one), "id": None, "created_at": None, "updated_at": None} for one in made)
    assert defaults.keys() == {"priority", "lock_group_blocks", "dedup_mode", "on_expiry"}
    assert omitted == passed


def test_the_http_model_has_each_argument():
    assert models.CreateActionRequest.model_fields.keys() == ARGUMENTS | {"delay"}


def test_the_documentation_of_python_sql_and_http_names_each_argument():
    pages = {"reference/python.md": ARGUMENTS, "reference/http.md": ARGUMENTS}
    # The first two arguments are positional.
    pages["how-to/schedule-from-sql.md"] = {
        SQL_NAMES.get(name, name) for name in SQL_ARGUMENTS - {"action_type", "payload"}
    }

    for page, names in pages.items():
        text = (DOCS / page).read_text(encoding="utf-8")
        assert {name for name in names if not re.search(rf"`{name}\b|\({name}, |, {name}[,=]", text)} == set(), page


# -- meaning of arguments ----------------------------------------------------------------------------------------------

#: For each argument, a valid value as stored, and an invalid value; None: every value of the type is valid.
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
    "limit": (["api:acme", "api:total"], []),
    "expires_at": ("2031-01-01T00:00:00Z", "infinity"),
    "expires_in": (5400, 0),
    "on_expiry": ("fail", "sometimes"),
}
#: Arguments that another argument needs.
NEEDED = {"on_expiry": {"expires_in": 60}}
#: Arguments that decide how actions with the same key are merged; they are not stored.
MERGE_ARGUMENTS = {"dedup_window", "dedup_mode"}
#: Columns that differ between any two actions.
ROW_COLUMNS = {"id", "created_at", "updated_at"}


@pytest.fixture
def project(database_url, connection):
    """Return a project with two handlers, and the action that `after` names."""

    @action("test:run")
    def run(payload: dict) -> None: ...

    @action("test:other")
    def other(payload: dict) -> None: ...

    insert(connection, id=UUID(VALUES["after"][0][0]))
    with projects(database_url) as a_project:
        made = a_project(run, other)
        made.config.settings.limits["api:*"] = Limit(at_once=3)
        yield made


def new_action_of(arguments):
    instants = {
        name: datetime.fromisoformat(arguments[name])
        for name in ("scheduled_at", "expires_at")
        if isinstance(arguments.get(name), str) and arguments[name] != "infinity"
    }
    return NewAction(**arguments | instants)


def with_python(project, connection, arguments):
    return project.scheduler.schedule_action(new_action_of(arguments)).id


def with_python_in_bulk(project, connection, arguments):
    return project.scheduler.schedule_actions([new_action_of(arguments)])[0].id


def with_sql(project, connection, arguments):
    values = dict(arguments)
    for name in ("payload", "retry", "target", "metadata", "condition", "on_success", "on_failure"):
        if name in values:
            values[name] = Jsonb(arguments[name])
    if "after" in values:
        values["after"] = [UUID(one) for one in values["after"]]
    if "expires_in" in values:
        values["expires_in"] = timedelta(seconds=values["expires_in"])
    if isinstance(values.get("limit"), str):
        values["limit"] = [values["limit"]]
    named = ", ".join(f"{SQL_NAMES.get(name, name)} => %({name})s" for name in values)
    call = f"select id from schedule_action({named})"
    return connection.execute(call, values).fetchone()[0]


def with_sql_in_bulk(project, connection, arguments):
    return connection.execute("select id from schedule_actions(%s)", [Jsonb([arguments])]).fetchone()[0]


WAYS = [with_python, with_python_in_bulk, with_sql, with_sql_in_bulk]
PLAIN = {"action_type": "test:run", "payload": {}, "scheduled_at": "2030-01-01T00:00:00Z"}


def test_every_argument_of_sql_has_test_values():
    assert VALUES.keys() == SQL_ARGUMENTS


@pytest.mark.parametrize("name", sorted(SQL_ARGUMENTS - MERGE_ARGUMENTS))
def test_python_and_sql_store_an_argument_identically(project, connection, name):
    changed = []
    for way in WAYS:
        needed = PLAIN | NEEDED.get(name, {})
        plain = row(connection, way(project, connection, needed))
        given = row(connection, way(project, connection, needed | {name: VALUES[name][0]}))
        changed.append(
            {column: value for column, value in given.items() if value != plain[column] and column not in ROW_COLUMNS}
        )
        connection.execute("update scheduled_actions set dedup_open = false")

    assert changed[0] != {}
    assert changed == changed[:1] * len(WAYS)


INVALID = [
    *((name, bad) for name, (_, bad) in sorted(VALUES.items()) if bad is not None),
    *(
        ("target", bad)
        for bad in (
            "x",
            7,
            [],
            {},
            {"type": "a", "id": 1},
            {"type": "a", "id": "1", "name": "b"},
            {"type": None, "id": ""},
        )
    ),
    ("target", {"type": "a", "id": "x" * 65_537}),
    ("user_id", "x" * 65_537),
    ("created_by", "x" * 65_537),
    *(("metadata", bad) for bad in ("x", 7, False)),
    *(
        ("limit", bad)
        for bad in (
            "",
            "x" * 256,
            "a\nb",
            "a\x85b",
            ["a", "b", "c", "d"],
            ["api:a", "api:a"],
            ["api:a", ""],
            ["api:a", None],
        )
    ),
    ("expires_at", PLAIN["scheduled_at"]),
    ("expires_at", "2029-12-31T23:59:59Z"),
    *(("expires_in", bad) for bad in (-1, 3_155_760_001)),
    ("on_expiry", "fail"),
    *(
        ("retry", bad)
        for bad in (
            7,
            [],
            {},
            [60] * 101,
            [60, -1],
            [True],
            ["60"],
            [31_536_001],
            {"kind": "often"},
            {"kind": 7},
            {"kind": "custom", "name": "Own"},
            {"kind": "linear", "seconds": [5]},
            {"kind": "linear", "base_seconds": -1},
            {"kind": "linear", "cap_seconds": "60"},
            {"kind": "exponential", "base_seconds": None},
            {"kind": "exponential", "jitter": "some"},
            {"kind": "exponential", "jitter": None},
            {"kind": "delays"},
            {"kind": "delays", "seconds": 5},
            {"kind": "delays", "seconds": [5], "base_seconds": 5},
        )
    ),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "bad"), INVALID)
def test_python_and_sql_reject_an_invalid_argument(project, connection, way, name, bad):
    with pytest.raises((RequestError, psycopg.DataError)) as rejected:
        way(project, connection, PLAIN | {name: bad})

    assert name.replace("_", " ") in str(rejected.value).replace("_", " ")
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (1,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("jitter", get_args(Jitter))
def test_python_and_sql_accept_every_kind_of_retry_policy(project, connection, kind, jitter):
    policy = {"kind": kind, "jitter": jitter} | ({"seconds": [0, 60.5] * 50} if kind == "delays" else {})

    for way in WAYS:
        stored = row(connection, way(project, connection, PLAIN | {"retry": policy}))["retry"]

        assert parse(stored) == parse(policy)


@pytest.mark.parametrize("way", WAYS)
def test_python_and_sql_take_one_limit_key_as_text(project, connection, way):
    assert row(connection, way(project, connection, PLAIN | {"limit": "api:acme"}))["limit_keys"] == ["api:acme"]


@pytest.mark.parametrize("way", WAYS)
def test_python_and_sql_reject_both_an_instant_and_a_duration_of_the_expiry(project, connection, way):
    both = {"expires_at": "2031-01-01T00:00:00Z", "expires_in": 60}

    with pytest.raises((RequestError, psycopg.DataError), match=r"expires_in:? cannot be given together"):
        way(project, connection, PLAIN | both)


@pytest.mark.parametrize("way", WAYS)
def test_python_and_sql_count_the_time_to_expiry_from_the_due_time(project, connection, way):
    stored = row(connection, way(project, connection, PLAIN | {"expires_in": 5400.5}))

    assert datetime.fromisoformat(stored["expires_at"]) == datetime(2030, 1, 1, 1, 30, 0, 500_000, UTC)
    assert stored["on_expiry"] == "skip"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("due", [{}, {"scheduled_at": timedelta(hours=1)}], ids=["now", "after a delay"])
def test_python_and_sql_reject_an_expiry_before_the_time_of_the_database(project, connection, way, due):
    """The instant lies in the future of this machine, but in the past of the database."""
    expires_at = database_now(connection) + timedelta(minutes=30)
    move_clock(connection, timedelta() if due else timedelta(hours=1))
    plain = {"action_type": "test:run", "payload": {}, "expires_at": expires_at.isoformat()}
    if due and way is with_sql:
        due = {"scheduled_at": database_now(connection) + timedelta(hours=1)}
    elif due and way is with_sql_in_bulk:
        due = {"delay": 3600}

    with pytest.raises((RequestError, psycopg.DataError), match=r"expires_at.* must be after scheduled_at"):
        way(project, connection, plain | due)


@pytest.mark.parametrize("way", [with_sql, with_sql_in_bulk])
def test_sql_refuses_an_expiry_that_python_cannot_represent(project, connection, way):
    with pytest.raises(psycopg.DataError, match=r"expires_at: 10000-01-01 .* is not in the years 1 to 9999"):
        way(project, connection, PLAIN | {"expires_at": "10000-01-01 00:00Z"})


def test_an_expiry_centuries_ahead_ends_with_the_year_9999(connection):
    call = (
        "select id from schedule_action('test:run', scheduled_at => '9999-06-01Z', expires_in => interval '50 years')"
    )

    stored = row(connection, connection.execute(call).fetchone()[0])

    assert stored["expires_at"].startswith("9999-12-31")
