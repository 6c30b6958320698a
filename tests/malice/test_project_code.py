"""Hostile functions of a project among good actions: handlers, retry policies, rules, skips, checks, validators.

Functions that kill the process or hold the interpreter lock are covered by the fault tests.
"""

from __future__ import annotations

import itertools
import json
import math
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from psycopg import sql
from pydantic import BaseModel, field_validator

from scheduled_actions import Cancel, Context, Fail, RetryAfter, Skip, Snooze, action
from scheduled_actions.conditions.project_functions import condition
from scheduled_actions.schedules.project_functions import next_occurrence, skip_occurrence
from tests.factories import database_now
from tests.malice.measuring import GROWTH_BYTES_MOST, Lateness, resident_bytes, run_round
from tests.malice.sample_project import Reader, sample_project
from tests.web.conftest import ADMIN_TOKEN, Api

#: Number of hostile functions in one round: each is a handler of every kind, a policy, a rule, a skip and two checks.
_EACH_ROUND = 1
#: Schedules on one page whose functions skip everything.
_SKIPPING = 12


class Unprintable:
    """An object whose special methods all raise an exception."""

    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        raise KeyboardInterrupt

    def __hash__(self) -> int:
        raise RecursionError


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise SystemExit(4)


class EmptyError(BaseException):
    """A `BaseException` without text."""


def endless():
    yield from itertools.count()


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(20_000):
        value = [value]
    return value


#: Created once, so that its CPU time does not count for each call.
DEEP = deep()


#: Exceptions that hostile functions raise.
RAISED = {
    "system-exit": SystemExit,
    "system-exit-code": lambda: SystemExit(Unprintable()),
    "interrupt": KeyboardInterrupt,
    "generator-exit": GeneratorExit,
    "memory": MemoryError,
    "recursion": RecursionError,
    "stop": StopIteration,
    "unprintable": UnprintableError,
    "empty": EmptyError,
    "surrogate": lambda: ValueError("\ud800"),
    "nul": lambda: ValueError("a\x00b"),
    "long": lambda: ValueError("x" * 1_000_000),
    "group": lambda: ExceptionGroup("many", [ValueError("x")] * 1_000),
    "own": lambda: Fail(Unprintable()),
    "later": lambda: RetryAfter(timedelta.max),
    "nan": lambda: RetryAfter(math.nan),
    "text": lambda: RetryAfter("x"),
}
#: Values that hostile functions return.
RETURNED = {
    "object": object,
    "unprintable": Unprintable,
    "nan": lambda: math.nan,
    "infinity": lambda: math.inf,
    "endless": endless,
    "deep": lambda: DEEP,
    "large": lambda: "x" * 1_000_000,
    "set": lambda: {1, 2},
    "bytes": lambda: b"\xff",
    "digits": lambda: 10**6_000,
    "surrogate": lambda: "\ud800",
    "nul": lambda: {"a\x00": "\x00"},
    "type": lambda: int,
    "keys": lambda: {1: 2, None: 3},
    "naive": lambda: datetime(2000, 1, 1),
    "least": lambda: datetime.min,
    "most": lambda: datetime.max.replace(tzinfo=UTC),
    "same": lambda: datetime(2000, 1, 1, tzinfo=UTC),
    "snooze": lambda: Snooze(timedelta.max),
    "snooze-back": lambda: Snooze(-1),
    "snooze-text": lambda: Snooze("x"),
    "snooze-state": lambda: Snooze(1, state=Unprintable()),
    "skip": lambda: Skip(Unprintable()),
    "cancel": lambda: Cancel("x" * 1_000_000),
    "longest": lambda: timedelta.max,
    "negative": lambda: timedelta(-1),
    "none": lambda: None,
    "true": lambda: True,
    "number": lambda: 10**400,
    "list": lambda: [timedelta(1)] * 3,
}


def does(name: str):
    """Raise the exception or return the value of this name."""
    how, _, what = name.partition("/")
    if how == "raise":
        error = RAISED[what]()
        raise error
    return RETURNED[what]()


NAMES = [*(f"raise/{name}" for name in RAISED), *(f"return/{name}" for name in RETURNED)]


@dataclass(frozen=True)
class HostilePolicy:
    """A retry policy that raises the exception or returns the value of its name."""

    name: str

    def delay(self, attempt: int, *, draw: float) -> timedelta:
        return does(self.name)

    def as_json(self) -> dict[str, Any]:
        return does(self.name)


class Validated(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def checked(cls, name: str) -> str:
        # Only at dispatch, not when the test itself schedules the action.
        return name if name.startswith("later:") else does(name)


@action("bad:call", max_attempts=1)
def call(payload: dict):
    return does(payload["name"])


@action("bad:async", max_attempts=1)
async def call_async(payload: dict):
    return does(payload["name"])


@action("bad:transaction", max_attempts=1, transactional=True)
def call_in_transaction(payload: dict, context: Context):
    context.connection.execute("select 1")
    return does(payload["name"])


@action("bad:spoil", max_attempts=1, transactional=True)
def spoil(payload: dict, context: Context):
    context.connection.execute(payload["statement"])


@action("bad:validate", max_attempts=1)
def validate(payload: Validated): ...


SPOILING = [
    "set default_transaction_read_only = on",
    "set transaction_read_only = on",
    "rollback",
    "commit",
    "set search_path = nowhere",
    "set role none",
    "set datestyle = 'German'",
    "set statement_timeout = 1",
    "set lock_timeout = 1",
    "discard all",
    "set timezone = 'Pacific/Apia'",
    "select pg_terminate_backend(pg_backend_pid())",
    "select 1 / 0",
    "prepare x as select 1",
    "set standard_conforming_strings = off",
    "set bytea_output = 'escape'",
    "listen x",
    "create temp table t (x int)",
    "declare c cursor with hold for select 1",
    "lock table scheduled_action_ticks in access share mode",
]


def hostile_functions():
    """Return a handler of each retry policy, and a rule, a skip and a check of each name."""
    made = []
    for number, name in enumerate(NAMES):

        def fails(payload: dict):
            raise ValueError(payload)

        made.append(action(f"bad:policy-{number}", retry=HostilePolicy(name), max_attempts=3)(fails))
        for declare, kind in ((next_occurrence, "rule"), (skip_occurrence, "skip"), (condition, "check")):

            def function(_: Any, name: str = name) -> Any:
                return does(name)

            made.append(declare(f"{kind}-{number}")(function))
    return made


def schedule_hostile(made, numbers: range) -> None:
    """Schedule actions, schedules and conditions with some of the hostile functions, due now, by HTTP and by SQL."""
    api = Api(made.app.test_client(), ADMIN_TOKEN)
    began = database_now(made.connection)
    schedule = (
        "select schedule_action(%s, jsonb_build_object('name', %s::text, 'statement', %s::text), dedup_window => 0)"
    )
    for number in numbers:
        name = NAMES[number]
        for action_type in ("bad:call", "bad:async", "bad:transaction", "bad:validate", f"bad:policy-{number}"):
            made.connection.execute(schedule, [action_type, name, ""])
        check = {"kind": "custom", "name": f"check-{number}"}
        for body in (
            {"action_type": "test:run", "payload": {}, "condition": check, "dedup_window": 0},
            {"action_type": "test:run", "payload": {}, "condition": {"wait": check}, "dedup_window": 0},
        ):
            answer = api("POST", "/actions", body)
            assert answer.status_code < 500, answer.text
        for column, value in (("recurrence", f"custom:rule-{number}"), ("skip", f'{{"function": "skip-{number}"}}')):
            answer = api("POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": "daily"})
            assert answer.status_code == 201, answer.text
            # A rule is evaluated when it is stored, so this one becomes hostile later.
            made.connection.execute(
                sql.SQL("update scheduled_action_schedules set {} = %s, kind = 'custom' where id = %s").format(
                    sql.Identifier(column)
                ),
                [value, answer.json["id"]],
            )
    for statement in SPOILING[numbers.start // 2 : numbers.stop // 2]:
        made.connection.execute(schedule, ["bad:spoil", "", statement])
    # Hostile actions come first.
    made.connection.execute(
        "update scheduled_actions set scheduled_at = now() - interval '1 hour'"
        " where status = 'pending' and created_at >= %s",
        [began],
    )


def good_round(made) -> list[float]:
    return run_round(made.connection, made.requests)


def bad_round(made, numbers: range) -> list[float]:
    schedule_hostile(made, numbers)
    return run_round(made.connection, made.requests)


def store_skipping_schedules(made, count: int) -> None:
    """Store schedules with a planned occurrence, and then set a skip function that skips every occurrence."""
    api = Api(made.app.test_client(), ADMIN_TOKEN)
    for number in range(count):
        recurrence = ("daily", "every 1 hour", "every 7 minutes", "0 9 * * *")[number % 4]
        answer = api("POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": recurrence})
        assert answer.status_code == 201, answer.text
        skip = {"function": f"skip-{NAMES.index('return/true')}", "adjustment": ("drop", "following")[number % 2]}
        # Each starts at a different instant, so that none can use cached answers of another.
        made.connection.execute(
            "update scheduled_action_schedules set skip = %s, anchor_at = anchor_at + %s * interval '1 second'"
            " where id = %s",
            [json.dumps(skip), number, answer.json["id"]],
        )


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_function_of_a_project_stops_a_tick_or_delays_good_actions(database_url):
    functions = hostile_functions()
    with sample_project(database_url, call, call_async, call_in_transaction, spoil, validate, *functions) as made:
        lateness = Lateness()
        # The first round includes work that a process does once, such as starting threads.
        run_round(made.connection, made.requests)
        before = resident_bytes()
        for start in range(0, len(NAMES), _EACH_ROUND):
            numbers = range(start, min(start + _EACH_ROUND, len(NAMES)))
            try:
                lateness.compare(partial(good_round, made), partial(bad_round, made, numbers))
            except BaseException as error:
                # Raised without the frames, which contain values that pytest cannot show.
                frames = "".join(traceback.format_tb(error.__traceback__)[-4:])
                pytest.fail(f"{[NAMES[one] for one in numbers]}: {type(error).__name__}\n{frames}", pytrace=False)
        store_skipping_schedules(made, _SKIPPING)
        Reader(made).open_all("schedules", "calendar", "simulate")
        for _ in range(20):
            if not made.requests.ping()["remaining"]:
                break
        unsettled = made.connection.execute(
            "select action_type, payload from scheduled_actions where status = 'processing'"
        ).fetchall()
        assert not unsettled
        assert resident_bytes() - before < GROWTH_BYTES_MOST
        lateness.check()
